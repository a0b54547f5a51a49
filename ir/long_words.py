"""Names and values in messages: lists of names, and long ones shortened, since names in models may have thousands of characters."""

import math
import re
from collections.abc import Sequence
from typing import Final

LONGEST_WORD: Final = 300
"""Maximum number of characters of a name or path in a message."""
MOST_LISTED: Final = 4
"""Maximum number of things that a message lists unless it says otherwise."""
_LONG: Final = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_LONG_BITS: Final = 10_000
"""Python does not write integers of more than 4,300 digits, which have 14,281 bits."""
_START: Final = 2 * LONGEST_WORD // 3


def with_short_words(text: str) -> str:
    """A text without the middle of each word that is longer than `LONGEST_WORD` characters.

    >>> print(with_short_words(f"the node {'a' * 5000}z"))  # doctest: +ELLIPSIS
    the node aaa...aaaz
    >>> len(with_short_words("n" * 5000))
    300
    """
    return _LONG.sub(lambda word: f"{word[0][:_START]}...{word[0][_START + 3 - LONGEST_WORD :]}", text)


def is_long_int(value: object) -> bool:
    """True for an integer that Python may not write."""
    return isinstance(value, int) and value.bit_length() > _LONG_BITS


def short_repr(value: object) -> str:
    """A value in a message, on one line and without the middle if it is long.

    >>> short_repr("a"), short_repr([1, 2])
    ("'a'", '[1, 2]')
    >>> short_repr(10**5000)
    'an int of 5001 digits'
    """
    if isinstance(value, int) and value.bit_length() > LONGEST_WORD / math.log10(2):
        return f"an int of {math.floor(math.log10(abs(value))) + 1} digits"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of another class, such as a list with an integer of too many digits
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= LONGEST_WORD else f"{text[:_START]}...{text[_START + 3 - LONGEST_WORD :]}"


def text_of(error: BaseException) -> str:
    """What an error says, in one line; the name of its class if it says nothing.

    >>> text_of(ValueError("too   long")), text_of(MemoryError())
    ('too long', 'MemoryError')
    """
    return " ".join(str(error).split()) or type(error).__name__


def listed(things: Sequence[str], most: int = MOST_LISTED) -> str:
    """The distinct ones of some things as text.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    >>> listed(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    shown = list(dict.fromkeys(things))
    if len(shown) > most:
        return f"{', '.join(shown[:most])} and {len(shown) - most} more"
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)
