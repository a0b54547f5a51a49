"""Names in messages: lists of them, and long ones shortened, since names in models may have thousands of characters."""

import re
from collections.abc import Sequence
from typing import Final

LONGEST_WORD: Final = 300
"""Maximum number of characters of a name or path in a message."""
MOST_LISTED: Final = 4
"""Maximum number of things that a message lists unless it says otherwise."""
_LONG: Final = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_START: Final = 2 * LONGEST_WORD // 3


def with_short_words(text: str) -> str:
    """A text without the middle of each word that is longer than `LONGEST_WORD` characters.

    >>> print(with_short_words(f"the node {'a' * 5000}z"))  # doctest: +ELLIPSIS
    the node aaa...aaaz
    >>> len(with_short_words("n" * 5000))
    300
    """
    return _LONG.sub(lambda word: f"{word[0][:_START]}...{word[0][_START + 3 - LONGEST_WORD :]}", text)


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
