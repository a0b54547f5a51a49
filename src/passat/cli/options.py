"""Options of several commands: the variant of a model, where jobs run, and what the error stream gets meanwhile."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from typing import Any as AnyValue

import typer

from passat.cli.app import USAGE, console, fail

if TYPE_CHECKING:
    from passat.jobs import Executor
    from passat.render import ProgressLine

DimOption = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=SIZE", help="Size of a named dimension of the inputs (repeatable)", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class VariantOptions:
    """The opset of a model, the sizes of its inputs, and its outputs."""

    dim: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SIZE", help="Size to fix for a named dimension of the inputs (repeatable)")
    ] = None
    input_shape: Annotated[
        list[str] | None, typer.Option(metavar="NAME=1,3,224,224", help="Shape to fix for an input; ? keeps a size (repeatable)")
    ] = None
    outputs: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Outputs to keep, separated by commas; nodes that only others need are removed"),
    ] = None

    opset: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Opset to convert the model to first, if it is later than its own")
    ] = None

    @property
    def settings(self) -> dict[str, AnyValue]:
        """The keywords of `passat.optimize`. Ends the command for invalid options."""
        found = {
            "dims": parse_sizes(self.dim or ()),
            "input_shapes": _shapes(self.input_shape or ()),
            "outputs": _names(self.outputs),
            "opset": self.opset,
        }
        return {name: value for name, value in found.items() if value}


def parse_sizes(entries: Sequence[str]) -> dict[str, int]:
    """Sizes given as NAME=SIZE. Ends the command for anything else, or if a name has two sizes."""
    found: dict[str, int] = {}
    for entry in entries:
        name, equals, size = entry.rpartition("=")
        if not equals or not _is_size(size) or not name:
            fail(f"--dim takes NAME=SIZE with a whole number, such as batch=1, not {entry!r}", USAGE)
        if found.setdefault(name, int(size)) != int(size):
            fail(f"--dim gives {name} two sizes, {found[name]} and {int(size)}", USAGE)
    return found


def _shapes(entries: Sequence[str]) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = {}
    for entry in entries:
        name, equals, text = entry.rpartition("=")
        sizes = [size.strip() for size in text.split(",")] if text.strip() else []
        if not equals or not name or not all(size == "?" or _is_size(size) for size in sizes):
            fail(f"--input-shape takes NAME=SIZES with whole numbers or ?, such as image=1,3,224,224, not {entry!r}", USAGE)
        shape = [None if size == "?" else int(size) for size in sizes]
        if found.setdefault(name, shape) != shape:
            fail(f"--input-shape gives the input {name} two shapes", USAGE)
    return found


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _names(entries: Sequence[str] | None) -> list[str]:
    names = [name.strip() for entry in entries or () for name in entry.split(",") if name.strip()]
    if entries and not names:
        fail("--outputs takes the names of outputs, separated by commas", USAGE)
    return names


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Where jobs run."""

    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Number of processes, each of which takes a model or rule at a time")
    ] = 1
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Scheduler of a dask cluster that runs the jobs, such as tcp://HOST:8786, or tls://HOST:8786 with the certificates of "
            "dask's configuration (distributed.comm.tls); workers see files under the same paths",
        ),
    ] = None

    @property
    def apart(self) -> bool:
        """True if the jobs run in other processes."""
        return self.jobs > 1 or self.cluster is not None

    @contextlib.contextmanager
    def executor(self) -> "Iterator[Executor | None]":
        """The executor of the cluster; None without one. Raises ClusterError."""
        if self.cluster is None:
            yield None
            return
        from passat.cluster import connected

        with connected(self.cluster) as executor:
            yield executor


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
