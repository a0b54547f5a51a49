"""Docstrings as reStructuredText, which autodoc reads. They are plain text: `code` in single backticks, lists that begin with `*`,
indented code, and examples at a prompt."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

_CODE: Final = re.compile(r"(`[^`]+`)")
_ITEM: Final = re.compile(r"( *)\* ")


def to_rst(lines: Sequence[str]) -> list[str]:
    """Returns the lines of a docstring as reStructuredText."""
    paragraphs = list(_paragraphs("\n".join(line.rstrip() for line in lines)))
    made: list[str] = []
    in_list = False
    for paragraph in paragraphs:
        if paragraph.lstrip().startswith(">>> "):
            made += [paragraph, ""]
        elif paragraph.startswith("    ") and not in_list:
            made += ["::", "", paragraph, ""]
        else:
            in_list = bool(_ITEM.match(paragraph)) or (in_list and paragraph.startswith(" "))
            made += [_escaped(paragraph), ""]
    return "\n".join(made).split("\n")


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a text. A list begins a new paragraph."""
    for part in re.split(r"\n\n+", text.strip("\n")):
        before, *listed = re.split(r"\n(?=\* )", part, maxsplit=1)
        yield before
        yield from listed


def _escaped(paragraph: str) -> str:
    """A paragraph with its code in double backticks, and without other markup. Code may continue on the next line."""
    item = _ITEM.match(paragraph)
    head = item[0] if item else ""
    parts = _CODE.split(paragraph[len(head) :])
    return head + "".join(
        f"`{part}`" if _CODE.fullmatch(part) else re.sub(r"(?<!\n)([*|\\])(?!\s)|_(?=\W|$)", r"\\\g<0>", part) for part in parts
    )
