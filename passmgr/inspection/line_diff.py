"""Sequence alignment for line diffs, in nearly linear time.

Strips common prefixes and suffixes. Lines that occur once on both sides are anchors (patience diff), recursively between anchors. The rest
is aligned by Myers' algorithm (E. Myers, "An O(ND) difference algorithm", 1986), with a limited number of edits at a time.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

EDITS_LIMIT: Final = 100
"""Number of edits after which Myers' algorithm commits to the best path and restarts from its end."""


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Returns pairs of indices of equal elements, both strictly ascending. The number of pairs is large, but not always maximal.

    >>> align("abcd", "axcd")
    [(0, 0), (2, 2), (3, 3)]
    """
    pairs: list[tuple[int, int]] = []
    stack = [(0, len(a), 0, len(b))]
    while stack:
        a_from, a_to, b_from, b_to = stack.pop()
        while a_from < a_to and b_from < b_to and a[a_from] == b[b_from]:
            pairs.append((a_from, b_from))
            a_from, b_from = a_from + 1, b_from + 1
        while a_from < a_to and b_from < b_to and a[a_to - 1] == b[b_to - 1]:
            a_to, b_to = a_to - 1, b_to - 1
            pairs.append((a_to, b_to))
        if a_from == a_to or b_from == b_to:
            continue
        anchors = _anchors(a[a_from:a_to], b[b_from:b_to])
        if not anchors:
            pairs += ((a_from + i, b_from + j) for i, j in _shortest_edit(a[a_from:a_to], b[b_from:b_to]))
            continue
        left = (a_from, b_from)
        for i, j in anchors:
            here = (a_from + i, b_from + j)
            pairs.append(here)
            stack.append((left[0], here[0], left[1], here[1]))
            left = (here[0] + 1, here[1] + 1)
        stack.append((left[0], a_to, left[1], b_to))
    pairs.sort()
    return pairs


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The longest ascending chain of pairs of elements that occur exactly once on each side."""
    in_a, in_b = _unique(a), _unique(b)
    pairs = [(i, in_b[element]) for element, i in in_a.items() if element in in_b]  # ascending in i
    tops: list[int] = []
    piles: list[int] = []
    previous: list[int] = []
    for at, (_, j) in enumerate(pairs):
        pile = bisect_left(tops, j)
        previous.append(piles[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(j)
            piles.append(at)
        else:
            tops[pile], piles[pile] = j, at
    chain: list[tuple[int, int]] = []
    at = piles[-1] if piles else -1
    while at >= 0:
        chain.append(pairs[at])
        at = previous[at]
    chain.reverse()
    return chain


def _unique(elements: Sequence[Hashable]) -> dict[Hashable, int]:
    """The elements that occur once, with their indices, in order."""
    places: dict[Hashable, int] = {}
    repeated: set[Hashable] = set()
    for i, element in enumerate(elements):
        if element in places:
            repeated.add(element)
        else:
            places[element] = i
    return {element: i for element, i in places.items() if element not in repeated}


def _shortest_edit(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """The pairs of an edit script: a shortest one up to `EDITS_LIMIT` edits, otherwise pieces of that size, each reaching as far as
    possible."""
    i = j = 0
    while i < len(a) and j < len(b):
        trace, x, y = _furthest(a, b, i, j)
        yield from ((i + k, j + m) for k, m in _backtrack(trace, x, y))
        i, j = i + x, j + y


def _furthest(a: Sequence[Hashable], b: Sequence[Hashable], i: int, j: int) -> tuple[list[dict[int, int]], int, int]:
    """The furthest points from (i, j): the reach of each diagonal after each number of edits, and the best point."""
    n, m = len(a) - i, len(b) - j
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(EDITS_LIMIT, n + m) + 1):
        trace.append(reach)
        reach = dict(reach)
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            while x < n and y < m and a[i + x] == b[j + y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= n and y >= m:
                return trace, n, m
    last = range(-EDITS_LIMIT, EDITS_LIMIT + 1, 2)
    points = [(reach[diagonal], reach[diagonal] - diagonal) for diagonal in last]
    x, y = max((point for point in points if point[0] <= n and point[1] <= m), key=sum)
    return trace, x, y


def _backtrack(trace: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """The pairs on the path to a point."""
    pairs: list[tuple[int, int]] = []
    for edits in range(len(trace) - 1, -1, -1):
        reach = trace[edits]
        diagonal = x - y
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        from_x = reach[diagonal + 1] if down else reach[diagonal - 1]
        from_y = from_x - (diagonal + 1 if down else diagonal - 1)
        while x > from_x and y > from_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = from_x, from_y
    pairs.reverse()
    return pairs
