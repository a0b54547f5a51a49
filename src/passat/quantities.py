"""Times and sizes in texts: three digits and a suitable unit."""

from typing import Final

_TIMES: Final = (("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
_SIZES: Final = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9))


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
