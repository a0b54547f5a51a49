"""Counts with their nouns, times and sizes in messages."""

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


_TIMES: Final = (("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
_SIZES: Final = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9))
"""Units of three digits each."""


def seconds(value: float) -> str:
    """A time.

    >>> seconds(0.00123), seconds(12.3), seconds(0.9999), seconds(4321.0)
    ('1.23 ms', '12.3 s', '1 s', '4321 s')
    """
    return _shown(value, _TIMES)


def amount(size: float) -> str:
    """A number of bytes.

    >>> amount(12), amount(2_500), amount(999_900), amount(2_500_000_000)
    ('12 B', '2.5 kB', '1 MB', '2.5 GB')
    """
    return _shown(size, _SIZES)


def _shown(value: float, units: tuple[tuple[str, float], ...]) -> str:
    """In the first unit that gives a number below a thousand after rounding: `.3g` would show a thousand as 1e+03."""
    unit, size = next((each for each in units if value / each[1] < 999.5), units[-1])
    count = value / size
    return f"{count:.3g} {unit}" if count < 999.5 else f"{count:.0f} {unit}"
