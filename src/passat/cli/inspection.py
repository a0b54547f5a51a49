"""The options by which `passat optimize` lets one look into the passes: what they print goes to the error stream."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from passat.cli.errors import USAGE, fail

if TYPE_CHECKING:
    from passat.passmgr import PassInstrument

_PANEL: Final = "Looking into the passes"
_NAMES: Final = "NAMES are separated by commas, and patterns such as 'Fold*' are understood."

PrintBeforeOption = Annotated[
    list[str] | None,
    typer.Option("--print-ir-before", metavar="NAMES", help=f"Print the program before these passes. {_NAMES}", rich_help_panel=_PANEL),
]
PrintAfterOption = Annotated[
    list[str] | None,
    typer.Option("--print-ir-after", metavar="NAMES", help=f"Print the program after these passes. {_NAMES}", rich_help_panel=_PANEL),
]
PrintChangedOption = Annotated[
    bool, typer.Option("--print-ir-changed", help="Print what each pass changes, as a diff.", rich_help_panel=_PANEL)
]
DumpOption = Annotated[
    Path | None,
    typer.Option("--dump-ir", metavar="DIR", help="Write the program to DIR/NNN_pass.relay after every pass.", rich_help_panel=_PANEL),
]
VerifyEachOption = Annotated[
    bool,
    typer.Option("--verify-each", help="Check after every pass that the program is well-formed and well-typed.", rich_help_panel=_PANEL),
]
TimeOption = Annotated[bool, typer.Option("--time-passes", help="Print how long each pass took.", rich_help_panel=_PANEL)]
MemoryOption = Annotated[
    bool, typer.Option("--memory-passes", help="Print how much memory each pass took, which makes them slower.", rich_help_panel=_PANEL)
]


class Inspection:
    """The instruments that were asked for. Leaving it (`with`) prints what they found, also where the passes failed."""

    def __init__(
        self,
        *,
        before: Sequence[str] | None = None,
        after: Sequence[str] | None = None,
        changed: bool = False,
        dump: Path | None = None,
        verify_each: bool = False,
        time: bool = False,
        memory: bool = False,
    ) -> None:
        from passat import passmgr

        self._time = passmgr.PassTimingInstrument() if time else None
        self._memory = passmgr.PassMemoryInstrument(trace=True) if memory else None
        self._names: list[tuple[str, passmgr.PrintIRBefore | passmgr.PrintIRAfter]] = []
        if before:
            self._names.append(("--print-ir-before", passmgr.PrintIRBefore(_split("--print-ir-before", before))))
        if after:
            self._names.append(("--print-ir-after", passmgr.PrintIRAfter(_split("--print-ir-after", after))))
        color = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        self.prints = bool(before or after or changed)
        """Whether something is printed while the passes run."""
        asked: list[PassInstrument | None] = [
            self._time,
            self._memory,
            *(printing for _, printing in self._names),
            passmgr.PrintIRChanged(mode="cdiff" if color else "diff") if changed else None,
            passmgr.DumpIR(dump, initial=True) if dump is not None else None,
            passmgr.VerifyEach() if verify_each else None,
        ]
        self.instruments = [instrument for instrument in asked if instrument is not None]

    def __enter__(self) -> "Inspection":
        return self

    def __exit__(self, *_: object) -> None:
        from passat.passmgr import render_times

        for option, printing in self._names:
            for name in printing.names.unused:
                print(f"note: {option} {name}: no pass of that name ran", file=sys.stderr)
        if self._time is not None and self._time.timings:
            print(
                f"time of the passes, without those inside, of all, of the one around:\n{render_times(self._time.timings)}", file=sys.stderr
            )
        if self._memory is not None and self._memory.runs:
            print(f"memory of the passes:\n{self._memory.render()}", file=sys.stderr)


def _split(option: str, given: Sequence[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    if not names:
        fail(f"{option} takes names of passes, separated by commas; '*' stands for all", USAGE)
    return names
