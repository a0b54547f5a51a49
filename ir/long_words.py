"""Shortens long words in messages: names in models may have thousands of characters."""

import re
from typing import Final

LONGEST_WORD: Final = 300
"""Maximum number of characters of a name or path in a message."""
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
