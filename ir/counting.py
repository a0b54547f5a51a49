"""Counts with their nouns in messages."""

from typing import Final

_IRREGULAR: Final = {"axis": "axes", "index": "indices"}


def counted(count: object, noun: str) -> str:
    """A count, which may be a text or a symbolic size, with its noun in the singular or plural.

    >>> counted(1, "operand"), counted(2, "batch dimension"), counted(0, "match"), counted("2,000", "entry")
    ('1 operand', '2 batch dimensions', '0 matches', '2,000 entries')
    """
    text = f"{count}"
    return f"{text} {noun if text == '1' else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of a noun.

    >>> plural("array"), plural("input axis")
    ('arrays', 'input axes')
    """
    before, _, last = noun.rpartition(" ")
    ending = (
        f"{last[:-1]}ies"
        if last.endswith("y") and last[-2] not in "aeiou"
        else f"{last}es"
        if last.endswith(("s", "x", "ch"))
        else f"{last}s"
    )
    return f"{before} {_IRREGULAR.get(last, ending)}".lstrip()
