"""How commands fail: one sentence on the error stream and an exit code, never a traceback.

Exit codes: 0 done, 1 the model or the rules cannot be used or the result is wrong, 2 the command makes no sense, 130 interrupted.
"""

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterator
from typing import Final

import typer

FAILURE: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
TRACEBACK: Final = "PASSAT_TRACEBACK"
"""Where this environment variable is set, errors come with the traceback of Python."""


class CommandError(Exception):
    """Ends a command with a sentence and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def fail(message: str, code: int = FAILURE) -> None:
    """Ends the command with a sentence on the error stream."""
    raise CommandError(message, code)


@contextlib.contextmanager
def errors(as_json: bool = False, outcome: str = "") -> Iterator[None]:
    """Turns what may go wrong into one sentence and an exit code. `outcome` says what an interruption left undone."""
    try:
        yield
    except KeyboardInterrupt:
        end(f"interrupted{'; ' + outcome if outcome else ''}", INTERRUPTED, as_json)
    except BrokenPipeError:
        raise  # whoever read the output has left
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        message, code = explain(error)
        sentence, *picture = message.split("\n", 1)  # of a pipeline, the place where it is wrong is shown
        end("\n".join([f"{sentence}{'; ' + outcome if outcome else ''}", *picture]), code, as_json)


def explain(error: Exception) -> tuple[str, int]:
    """The sentence and the exit code for an error."""
    from passat.ir.onnx import OnnxError
    from passat.passmgr import PassDependencyError, PipelineError
    from passat.report import MismatchError
    from passat.rulefile import RuleFileError
    from passat.rules.pattern import RuleError
    from passat.verify import VerifyError

    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, (PipelineError, PassDependencyError)):
        return str(error), USAGE
    if isinstance(error, AttributeError) and "config" in str(error):
        return str(error), USAGE
    if isinstance(error, (OnnxError, MismatchError, RuleFileError, RuleError, VerifyError)):
        return str(error), FAILURE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        full = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        return f"{where}{full}", FAILURE
    if isinstance(error, MemoryError):
        return "there is not enough memory", FAILURE
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    text = " ".join(str(error).split())
    return f"Passat itself failed: {type(error).__name__}: {text}{notes}; {TRACEBACK}=1 shows where", FAILURE


def end(message: str, code: int, as_json: bool) -> None:
    """Prints a sentence and leaves."""
    print(f"error: {message}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": message}))
    raise typer.Exit(code)
