"""The options of `passat optimize` that show the work of passes. Their output goes to the error stream."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from passat.cli import completion
from passat.cli.app import USAGE, fail
from passat.cli.arguments import check_output_folder
from passat.cli.command import DEBUGGING

if TYPE_CHECKING:
    from passat.passmgr import PassInstrument

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
        if asked.print_ir_before:
            self._names.append(("--print-ir-before", passmgr.PrintIRBefore(_split("--print-ir-before", asked.print_ir_before))))
        if asked.print_ir_after:
            self._names.append(("--print-ir-after", passmgr.PrintIRAfter(_split("--print-ir-after", asked.print_ir_after))))
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
        from passat.passmgr import render_times
        from passat.render import seconds

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


def _split(option: str, given: Sequence[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    if not names:
        fail(f"{option} takes names of passes, separated by commas; '*' stands for all", USAGE)
    return names
