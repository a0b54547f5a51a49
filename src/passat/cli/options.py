"""Options that stand for several settings: the variant of a model, where jobs run, and what the error stream gets meanwhile: progress,
the log, and the work of passes."""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final
from typing import Any as AnyValue

import typer

from passat.cli import completion
from passat.cli.app import USAGE, console, fail
from passat.cli.arguments import check_output_folder
from passat.cli.command import DEBUGGING

if TYPE_CHECKING:
    from passat.jobs import Executor
    from passat.passmgr import PassInstrument
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
            "outputs": self.outputs and _listed(self.outputs, "--outputs takes the names of outputs, separated by commas"),
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


def _listed(entries: Sequence[str], otherwise: str) -> list[str]:
    """The names in some options, separated by commas. Ends the command with a sentence if there are none."""
    names = [name.strip() for entry in entries for name in entry.split(",") if name.strip()]
    if not names:
        fail(otherwise, USAGE)
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
        if self.jobs > 1:
            fail(f"--jobs {self.jobs} starts processes here, and --cluster runs the jobs elsewhere; drop one of the two", USAGE)
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


@dataclass(frozen=True, kw_only=True)
class ProgressOptions(VerbosityOptions):
    """The amount of output on the error stream of a command whose result is printed in any case."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result and errors, without progress")] = False


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


_NAMES: Final = "names or patterns such as 'Fold*', separated by commas; '*' for all; passes run one by one"


@dataclass(frozen=True, kw_only=True)
class InspectionOptions:
    """What to show of the passes."""

    panel: ClassVar[str] = DEBUGGING

    print_ir_before: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", autocompletion=completion.several_passes, help=f"Print the program before these passes: {_NAMES}"),
    ] = None
    print_ir_after: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", autocompletion=completion.several_passes, help=f"Print the program after these passes: {_NAMES}"),
    ] = None
    print_ir_changed: Annotated[
        bool, typer.Option("--print-ir-changed", help="Print what each pass changes, as a diff; passes run one by one")
    ] = False
    dump_ir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder to write the program to after every pass, as NNN_pass.relay, without the contents of large constants; "
            "replaces an earlier dump; passes run one by one",
        ),
    ] = None
    verify_each: Annotated[
        bool, typer.Option("--verify-each", help="Check after every pass that the program is well-formed and well-typed")
    ] = False
    time_passes: Annotated[bool, typer.Option("--time-passes", help="Print how long each pass took")] = False
    memory_passes: Annotated[
        bool, typer.Option("--memory-passes", help="Print how much memory each pass took, which makes passes slower")
    ] = False
    pass_limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="Run only the first N passes, and print their names")] = None
    reproducer: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder to write if a pass fails, for `passat replay DIR`")] = None

    @property
    def given(self) -> dict[str, bool]:
        """The names of the given options."""
        return {f"--{field.name.replace('_', '-')}": getattr(self, field.name) not in (None, False) for field in fields(self)}

    @property
    def apart(self) -> bool:
        """True if programs between passes are requested: passes that share an e-graph have none."""
        return bool(self.print_ir_before or self.print_ir_after or self.print_ir_changed or self.dump_ir)


class Inspection:
    """The requested instruments. Leaving it (`with`) prints their output, even if the passes failed."""

    def __init__(self, asked: InspectionOptions) -> None:
        from passat import passmgr

        if asked.dump_ir is not None:
            check_output_folder(asked.dump_ir, "--dump-ir")
        self._time = passmgr.PassTimingInstrument() if asked.time_passes else None
        self._memory = passmgr.PassMemoryInstrument(trace=True) if asked.memory_passes else None
        self._names: list[tuple[str, passmgr.PrintIRBefore | passmgr.PrintIRAfter]] = []
        given = (("before", asked.print_ir_before, passmgr.PrintIRBefore), ("after", asked.print_ir_after, passmgr.PrintIRAfter))
        for when, names, printing in given:
            if names:
                option = f"--print-ir-{when}"
                said = f"{option} takes names of passes, separated by commas; '*' stands for all"
                self._names.append((option, printing(_listed(names, said))))
        color = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        self.printed = [(option, printing.names) for option, printing in self._names]
        """The names of the passes to print, by option."""
        self.prints = bool(self._names or asked.print_ir_changed or asked.pass_limit is not None)
        """True if something is printed while the passes run."""
        wanted: list[PassInstrument | None] = [
            self._time,
            self._memory,
            *(printing for _, printing in self._names),
            passmgr.PrintIRChanged(mode="cdiff" if color else "diff") if asked.print_ir_changed else None,
            passmgr.DumpIR(asked.dump_ir, refresh=True, initial=True, strip_constants=True) if asked.dump_ir is not None else None,
            passmgr.VerifyEach() if asked.verify_each else None,
            passmgr.PassLimit(asked.pass_limit, tell=lambda line: print(line, file=sys.stderr)) if asked.pass_limit is not None else None,
        ]
        self.instruments = [instrument for instrument in wanted if instrument is not None]

    def __enter__(self) -> "Inspection":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        from passat.ir.counting import seconds
        from passat.passmgr import render_times

        if kind is None:
            for option, printing in self._names:
                for name in printing.names.unused:
                    print(f"note: {option} {name}: no pass of that name ran", file=sys.stderr)
        if self._time is not None and self._time.timings:
            slowed = ", slowed down by measuring memory" if self._memory is not None else ""
            head = f"time of each pass [without the passes in it] (part of the whole; of the pipeline around it){slowed}"
            print(f"{head}:\n{render_times(self._time.timings, seconds).expandtabs(2)}", file=sys.stderr)
        if self._memory is not None and self._memory.runs:
            head = "memory of each pass: allocated after it, and at its peak; growth of the process, and of its peak"
            print(f"{head}:\n{self._memory.render().expandtabs(2)}", file=sys.stderr)
