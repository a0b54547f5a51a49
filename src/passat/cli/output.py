"""How commands print: tables and texts, on terminals and elsewhere."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def console(*, stderr: bool = False) -> "Console":
    """A console; where it is no terminal, it is wide, unless COLUMNS says how wide."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal or "COLUMNS" in os.environ else Console(stderr=stderr, highlight=False, width=160)


def show(what: "RenderableType") -> None:
    """Prints a table or a text, without spaces at the ends of lines where nobody sees them."""
    out = console()
    if out.is_terminal:
        out.print(what)
        return
    with out.capture() as capture:
        out.print(what)
    print("\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")))
