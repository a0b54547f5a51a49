"""HTML for notebooks: escaped text, tables, and collapsible sections."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from passat.ir.counting import counted

MOST_LINES: Final = 400
"""Maximum number of lines of a text that are shown."""


def text(value: str) -> str:
    """Text as HTML: escaped, with unprintable characters replaced.

    >>> text("a < b\\x1b")
    'a &lt; b\ufffd'
    """
    return escape("".join(char if char.isprintable() or char in " \n" else "\N{REPLACEMENT CHARACTER}" for char in value))


def block(value: str) -> str:
    """Preformatted lines of text; only the first ones of a long text."""
    lines = value.splitlines()
    shown = lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        shown.append(f"... and {counted(len(lines) - MOST_LINES, 'more line')}")
    content = text("\n".join(shown))
    return f'<pre style="line-height: 1.3">{content}</pre>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> str:
    """A table of texts. `right` marks the columns that are right-aligned."""
    sides = ["right" if at < len(right) and right[at] else "left" for at in range(len(headings))]

    def row(cells: Sequence[str], tag: str) -> str:
        made = [f'<{tag} style="text-align: {side}">{text(cell)}</{tag}>' for cell, side in zip(cells, sides, strict=True)]
        return f"<tr>{''.join(made)}</tr>"

    return f"<table>{row(headings, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def folded(title: str, content: str, *, opened: bool = False) -> str:
    """A collapsible section with a title. `content` is HTML."""
    return f"<details{' open' if opened else ''}><summary>{text(title)}</summary>{content}</details>"
