"""Displays of reports in notebooks: the tables and sentences of the command line, as HTML."""

from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from passat.ir.markup import block, folded, table, text

_PLURALS: Final = {"pass": "passes"}
_OPEN: Final = ("operators", "programs")
"""The titles of tables that are shown unfolded."""


def html(shown: RenderableType) -> str:
    """Converts rich output to HTML: a line for each text, tables under the heading of their first column."""
    parts = []
    for part in _parts(shown):
        if isinstance(part, Table):
            headings = [_plain(column.header) for column in part.columns]
            rows = zip(*([_plain(cell) for cell in column.cells] for column in part.columns), strict=True)
            found = table(headings, rows, [column.justify == "right" for column in part.columns])
            title = _PLURALS.get(headings[0], f"{headings[0]}s")
            parts.append(folded(f"{title} ({part.row_count})", found, opened=title in _OPEN) if headings[0] else found)
        elif isinstance(part, Text):
            parts.append(f"<div>{text(part.plain)}</div>" if part.plain else "")
        else:
            parts.append(block(str(part)))
    return "".join(parts)


def _parts(shown: RenderableType) -> list[RenderableType]:
    if not isinstance(shown, Group):
        return [shown]
    return [part for each in shown.renderables for part in _parts(each)]


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
