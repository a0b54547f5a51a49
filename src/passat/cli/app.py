"""The command `passat` itself: the group of its subcommands, its start, its output and its errors.

A command fails with one sentence on the error stream and an exit code, never with a traceback. If a model is wrong in several places, the
sentence is followed by all of them, each with its nodes.

Exit codes: 0 success, 1 unusable model or rules, or a wrong result, 2 invalid command, 130 interrupted, 143 terminated.
"""

import contextlib
import errno
import io
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, cast
from typing import Any as AnyValue

import typer
from typer.core import TyperGroup

from passat import __version__
from passat.cli.command import without_flag_types
from passat.cli.completion import join_words

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from passat.ir.diagnostics import Diagnostic
    from passat.report import Shown

FAILURE: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
TERMINATED: Final = 143
TRACEBACK: Final = "PASSAT_TRACEBACK"
"""If this environment variable is set, errors show Python's traceback."""
_FIRST: Final = ("optimize", "inspect", "diff", "profile", "run", "explain", "rules", "passes", "order", "config")
"""The first commands that `--help` lists."""


_UsageError: Final = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
"""The class of typer's argument errors, which has no public name in some versions."""


class Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


class CommandError(Exception):
    """Ends the command with a sentence and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def fail(message: str, code: int = FAILURE) -> NoReturn:
    """Ends the command with a sentence on the error stream."""
    raise CommandError(message, code)


@contextlib.contextmanager
def errors(as_json: bool = False, outcome: str = "", *, several: bool = False) -> Iterator[None]:
    """Turns exceptions into one sentence and an exit code. `outcome` says what was written, or that nothing was. With `several` models, an
    interruption prints an empty list as JSON."""

    def interrupted(error: KeyboardInterrupt) -> None:
        what, code = interruption(error)
        if as_json and several:
            print("[]")
        end(f"{what}{'; ' + outcome if outcome else ''}", code, as_json and not several)

    try:
        yield
    except KeyboardInterrupt as error:
        interrupted(error)
    except SystemExit as error:  # from a pass or a rule file; its exit code could report success
        end(f"a rule file or pass ended the command: SystemExit: {error.code}{'; ' + outcome if outcome else ''}", FAILURE, as_json)
    except (BrokenPipeError, typer.Exit):
        raise  # the reader of the output is gone, or the output is complete
    except Exception as error:
        from passat.jobs import hidden_interruption

        if hidden := hidden_interruption(error):
            interrupted(hidden)
        if os.environ.get(TRACEBACK):
            raise
        message, code = explain(error)
        sentence, *picture = message.split("\n", 1)  # for a pipeline, the location of the error follows
        end("\n".join([f"{sentence}{'; ' + outcome if outcome else ''}", *picture]), code, as_json, _details(error))


@contextlib.contextmanager
def usage_errors(arguments: Sequence[str]) -> Iterator[None]:
    """Propagates typer's argument errors, and also prints them as JSON on request."""
    as_json = "--json" in arguments
    try:
        yield
    except KeyboardInterrupt as error:  # outside of `errors`, where typer would end silently
        end(*interruption(error), as_json)
    except _UsageError as error:
        error.message = error.message.removeprefix("Value error, ")  # from pydantic, which typer uses
        if as_json:
            _print_json(" ".join(error.format_message().split()))
        raise


def interruption(error: KeyboardInterrupt) -> tuple[str, int]:
    """The name of an interruption, and its exit code."""
    return ("terminated", TERMINATED) if isinstance(error, Terminated) else ("interrupted", INTERRUPTED)


def terminate_in_order() -> None:
    """Turns the first SIGTERM into an interruption, so that files are closed, unless there is another handler."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the second one ends the process
    raise Terminated


def _end_at_once() -> None:
    """Lets the next signal end the process at once: the work is done, and Python shows a traceback for an exception while it ends."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, _terminate)):
        if signal.getsignal(number) is handler:
            signal.signal(number, signal.SIG_DFL)


def explain(error: Exception) -> tuple[str, int]:
    """The sentence and the exit code for an error."""
    from passat.ir.diagnostics import DiagnosticError
    from passat.ir.passat_error import PassatError
    from passat.passmgr import PipelineError

    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, PipelineError):
        return f"--passes: {error}", USAGE
    if isinstance(error, PassatError) and error.exit_code is not None:
        return str(error.args[0] if isinstance(error, DiagnosticError) else error), error.exit_code
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        full = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        return f"{where}{full}", FAILURE
    if isinstance(error, MemoryError):
        return "there is not enough memory", FAILURE
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    text = " ".join(str(error.args[0] if isinstance(error, DiagnosticError) else error).split())
    return f"Passat itself failed: {type(error).__name__}: {text}{notes}; {TRACEBACK}=1 shows where", FAILURE


def _details(error: Exception) -> "Sequence[Diagnostic]":
    """The details below the sentence: all defects, if there are more than the sentence names."""
    from passat.crash import PassError
    from passat.ir.diagnostics import DiagnosticError
    from passat.ir.onnx import OnnxError

    if isinstance(error, PassError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, DiagnosticError) and (len(error.diagnostics) > 1 or not isinstance(error, OnnxError)):
        return error.diagnostics
    return ()


def end(message: str, code: int, as_json: bool = False, details: "Sequence[Diagnostic]" = ()) -> None:
    """Prints a sentence and its details, and ends the command. In JSON the details are the list `errors` of sentences."""
    from passat.ir.long_words import with_short_words

    message = with_short_words(message)
    print(f"error: {message}", file=sys.stderr)
    if details:
        from passat.ir.diagnostic_text import render_diagnostics

        color = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        print(f"\n{render_diagnostics(details, color)}", file=sys.stderr)
    if as_json:
        _print_json(message, details)
    raise typer.Exit(code)


def _print_json(message: str, details: "Sequence[Diagnostic]" = ()) -> None:
    listed = {"errors": [diagnostic.sentence for diagnostic in details]} if details else {}
    print(json.dumps({"error": message, **listed}))


def console(*, stderr: bool = False) -> "Console":
    """A console; without a terminal it is wide, unless COLUMNS is set. FORCE_COLOR makes no terminal."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    return made if made.file.isatty() or "COLUMNS" in os.environ else Console(stderr=stderr, highlight=False, width=160)


def show(what: "RenderableType") -> None:
    """Prints a table or a text, without trailing spaces."""
    out = console()
    if out.is_terminal:
        out.print(what)
        return
    with out.capture() as capture:
        out.print(what)
    print("\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")))


def show_result(result: "Shown", as_json: bool) -> None:
    """Prints a result, as JSON if requested."""
    if as_json:
        print(result.to_json())
    else:
        show(result)


class Group(TyperGroup):
    """A group of commands whose options have phrases as help."""

    def get_params(self, ctx: AnyValue) -> list[AnyValue]:
        """The options, including typer's own, with phrases as help."""
        found = without_flag_types(super().get_params(ctx))
        for option in found:
            option.help = (getattr(option, "help", None) or "").removesuffix(".")
        return found


class Commands(Group):
    """The commands. Errors in their arguments are also printed as JSON on request."""

    def list_commands(self, ctx: AnyValue) -> list[str]:
        """The names of the commands, those that a new user needs first."""
        return sorted(super().list_commands(ctx), key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))

    def main(self, *args: AnyValue, **settings: AnyValue) -> AnyValue:
        """Runs the command line of the process, or completes its words."""
        if os.environ.get("_PASSAT_COMPLETE") != "complete_bash":
            return super().main(*args, **settings)
        known = join_words(os.environ)
        found = io.StringIO()
        try:
            with contextlib.redirect_stdout(found):
                return super().main(*args, **settings)
        finally:
            print("\n".join(word.removeprefix(known) for word in found.getvalue().splitlines()))

    def make_context(self, info_name: AnyValue, args: list[str], parent: AnyValue = None, **extra: AnyValue) -> AnyValue:
        """Reads the arguments before the name of the command."""
        with usage_errors(args):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: AnyValue) -> AnyValue:
        """Finds the command, reads its arguments, and runs it."""
        with usage_errors(ctx.args):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
rules_app = typer.Typer(cls=Group, no_args_is_help=True, help="List, check, document and debug rules")
app.add_typer(rules_app, name="rules")


@app.callback(invoke_without_command=True)
def passat(version: Annotated[bool, typer.Option("--version", help="Print the version and exit", is_eager=True)] = False) -> None:
    """Optimize ONNX models with rewrite rules, saturated in an e-graph"""
    if version:
        print(f"passat {__version__}")
        raise typer.Exit


def _open_closed_streams() -> None:
    """Opens standard streams that the shell closed (`2>&-`): Python has None in their place, and the next file would get their number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # until the process ends


def main() -> None:
    """Runs the command line of this process."""
    _open_closed_streams()
    terminate_in_order()
    if not os.environ.get("COLUMNS", "").strip("0").isdecimal():  # such as the 0 of a terminal without a size, where nothing would fit
        os.environ.pop("COLUMNS", None)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may contain characters that a terminal cannot show
    try:
        app(prog_name="passat")
    except OSError as error:  # the reader of the output is gone, or the disk is full
        with contextlib.suppress(OSError):
            print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(FAILURE)
    finally:
        _end_at_once()
