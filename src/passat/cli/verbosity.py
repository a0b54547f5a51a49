"""The output of a running command: a line of progress, nothing, or the log."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from passat.cli.app import USAGE, console, fail

if TYPE_CHECKING:
    from passat.render import ProgressLine


@dataclass(frozen=True, kw_only=True)
class VerbosityOptions:
    """The amount of output on the error stream."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print each step with its time, as it is logged")] = False

    @contextlib.contextmanager
    def progress(self, *, enabled: bool = True) -> "Iterator[ProgressLine]":
        """The display of progress: a line, if `enabled`, or the log with --verbose. Ends the command if the options contradict each
        other."""
        from passat.render import ProgressLine

        if self.quiet and self.verbose:
            fail("--quiet and --verbose contradict each other", USAGE)
        shown = enabled and not self.quiet and not self.verbose
        with logged() if self.verbose else contextlib.nullcontext(), ProgressLine(console(stderr=True), enabled=shown) as line:
            yield line


@contextlib.contextmanager
def working(text: str, *, enabled: bool = True) -> Iterator[None]:
    """Shows the activity and duration of a command without stages, if it takes more than a second and the error stream is a terminal."""
    if not enabled or not sys.stderr.isatty():
        yield
        return
    from passat.render import ProgressLine

    with ProgressLine(console(stderr=True)) as line:
        line(text)
        yield


@contextlib.contextmanager
def logged() -> Iterator[None]:
    """Prints log records of `passat` to the error stream, with the seconds since the start."""
    logger, handler = logging.getLogger("passat"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SinceStart())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _SinceStart(logging.Formatter):
    """Formats a record with the seconds since the formatter was created."""

    def __init__(self) -> None:
        super().__init__()
        self._start = time.time()

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        return f"{record.created - self._start:8.3f} s  {level}{record.getMessage()}"
