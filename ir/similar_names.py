"""Hints for misspelled names."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

_ALIKE: Final = 0.6
"""Similarity that the last parts of two names exceed: a common prefix alone makes no similar name."""


def same_names(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are equal to a name but for case: wholly, or else by their last part.

    >>> same_names("Relu", ["nn.relu", "nn.prelu"])
    ['nn.relu']
    """
    names, wanted = list(known), name.casefold()
    return [one for one in names if one.casefold() == wanted] or [one for one in names if _last(one) == wanted]


def did_you_mean(name: str, known: Iterable[str], most: int = 3) -> str:
    """`; did you mean a or b?` with the most similar of the known names, or an empty text.

    Case is ignored. A dotted name is also known by its last part. If no name is similar, those that begin with the given one are.

    >>> did_you_mean("stride", ["strides", "padding"]), did_you_mean("Relu", ["nn.relu", "nn.prelu"]), did_you_mean("q", ["strides"])
    ('; did you mean strides?', '; did you mean nn.relu?', '')
    >>> did_you_mean("Arithmetic.foo", ["Arithmetic.won", "Arithmetic.zero"]), did_you_mean("matmull", ["all", "nn.matmul"], 1)
    ('', '; did you mean nn.matmul?')
    """
    names = list(known)
    alike = [one for one in names if one.count(".") == name.count(".")]
    near = same_names(name, names) or _close(name, alike, str.casefold, most) or _close(name, names, _last, most)
    near = near or [one for one in names if name and one.casefold().startswith(name.casefold())]
    return suggestion(near[:most])


def suggestion(names: Sequence[str]) -> str:
    """`; did you mean a or b?` for some names; an empty text for none."""
    return f"; did you mean {' or '.join(names)}?" if names else ""


def _close(name: str, names: Sequence[str], form: Callable[[str], str], most: int) -> list[str]:
    """The names whose forms and last parts are similar, best first."""
    forms = difflib.get_close_matches(name.casefold(), dict.fromkeys(map(form, names)), most)
    return [
        one
        for close in forms
        for one in names
        if form(one) == close and difflib.SequenceMatcher(None, _last(name), _last(one)).ratio() > _ALIKE
    ]


def _last(name: str) -> str:
    return name.rpartition(".")[2].casefold()
