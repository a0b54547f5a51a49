"""Tables and text in Markdown."""

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table. Bars in cells are escaped, also within code."""
    lines = [header, [":--"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """Returns text as code; nothing for no text."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Returns a docstring as Markdown in one paragraph: markup outside of `code` is escaped."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([*<>|\[\]_])", r"\\\1", part) for part in parts)


def first_sentence(text: str) -> str:
    """Returns the first sentence of a docstring.

    >>> first_sentence("Adds. And more.")
    'Adds.'
    """
    return re.split(r"(?<=\.) (?=[A-Z`])", " ".join(text.partition("\n\n")[0].split()), maxsplit=1)[0]
