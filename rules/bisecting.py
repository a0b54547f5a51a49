"""Which rules, and which of their applications, make something bad: searches that ask as seldom as they can.

Both go from an end that is good to one that is bad and keep it so: the part that is left always has a place in it where good turns into
bad. Where there are several such places, any of them is found; where an answer is None, nothing is concluded from it.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from passat.passmgr.debugging.bisect import first_true

MOST: Final = 1 << 30
"""So many applications are never reached."""

AskRules: TypeAlias = Callable[[Sequence[str]], bool | None]
"""Whether it is bad with these rules alone; None where that cannot be told."""
AskCount: TypeAlias = Callable[[int], bool | None]
"""Whether it is bad after so many applications; None where that cannot be told."""


def smallest_set(rules: Sequence[str], ask: AskRules) -> list[str]:
    """A set of rules that is bad, and good without any one of its rules, of rules that are bad together; without any rule it is good.

    One guilty rule among n is found in log2(n) + 1 questions; of several that must come together, each takes as many, and one more.

    >>> asked = []
    >>> def ask(rules):
    ...     asked.append(len(rules))
    ...     return {"r20", "r70"} <= set(rules)
    >>> smallest_set([f"r{i}" for i in range(100)], ask), len(asked)
    (['r20', 'r70'], 16)
    """
    answers: dict[frozenset[str], bool | None] = {frozenset(): False, frozenset(rules): True}

    def known(chosen: Sequence[str]) -> bool | None:
        key = frozenset(chosen)
        if key not in answers:
            answers[key] = ask(chosen)
        return answers[key]

    kept: list[str] = []
    rest = list(rules)
    while rest and not known(kept):
        # The kept ones and all of the rest are bad, the kept ones alone are not known to be: one of the rest, at least, has to come in.
        kept, rest = _narrow(kept, rest, known)
    return _without_needless(kept, known)


def _narrow(kept: list[str], rest: list[str], ask: AskRules) -> tuple[list[str], list[str]]:
    low, high = first_true(len(rest), lambda count: ask([*rest[:count], *kept]))
    return [*rest[low:high], *kept], rest[:low]


def _without_needless(kept: list[str], ask: AskRules) -> list[str]:
    """The set without rules that it is bad without too: there are some where a rule hides what another does."""
    i = 0
    while len(kept) > 1 and i < len(kept):
        others = [*kept[:i], *kept[i + 1 :]]
        if ask(others):
            kept, i = others, 0
        else:
            i += 1
    return kept


def first_application(count: int | None, ask: AskCount) -> tuple[int, int] | None:
    """The number of applications that is good and the next one that is bad, where it is bad after all of them; numbers between the two are
    those of which nothing can be told. None where it is bad before any.

    Where their `count` is not known, since the run does not come to its end, it is looked for by doubling.

    >>> first_application(1000, lambda number: number >= 3)
    (2, 3)
    >>> first_application(None, lambda number: number >= 3)
    (2, 3)
    """
    if ask(0):
        return None
    if count is not None:
        return first_true(count, ask)
    low, high = 0, 1
    while high < MOST and not (answer := ask(high)):
        low, high = (low if answer is None else high), 2 * high
    return _above(low, high, ask)


def _above(low: int, high: int, ask: AskCount) -> tuple[int, int]:
    """Where answers change between two numbers."""
    first, second = first_true(high - low, lambda number: ask(low + number))
    return low + first, low + second
