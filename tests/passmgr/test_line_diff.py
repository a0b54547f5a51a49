"""Alignment of two sequences: pairs have equal elements, are in ascending order, and are many."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.passmgr.inspection import line_diff
from passat.passmgr.inspection.line_diff import _shortest_edit, align
from tests.share import share

words = st.lists(st.integers(0, 3), max_size=12)


def longest_common(a: list[int], b: list[int]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def check(a: list[int], b: list[int], pairs: list[tuple[int, int]]) -> None:
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in itertools.pairwise(pairs))


@settings(max_examples=share(52, 300))
@given(words, words)
def test_pairs_are_equal_and_ascending(a: list[int], b: list[int]) -> None:
    check(a, b, align(a, b))
    assert bool(align(a, b)) == bool(set(a) & set(b))


@settings(max_examples=share(52, 300))
@given(words, words)
def test_between_anchors_the_edit_is_a_shortest_one(a: list[int], b: list[int]) -> None:
    pairs = list(_shortest_edit(a, b))
    check(a, b, pairs)
    assert len(pairs) == longest_common(a, b)


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_a_limit_on_edits_keeps_pairs_right(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_diff, "EDITS_LIMIT", limit)

    @settings(max_examples=share(35, 200))
    @given(words, words)
    def law(a: list[int], b: list[int]) -> None:
        check(a, b, list(_shortest_edit(a, b)))

    law()


@settings(max_examples=share(18, 100))
@given(st.lists(st.integers(), max_size=20, unique=True), st.data())
def test_of_unique_lines_all_that_stay_are_found(a: list[int], data: st.DataObject) -> None:
    kept = [element for element in a if data.draw(st.booleans())]
    assert len(align(a, kept)) == len(kept)


def test_twenty_thousand_lines_of_few_kinds() -> None:
    a = [i * i % 7 for i in range(20_000)]
    b = [element for i, element in enumerate(a) if i % 10]
    pairs = align(a, b)
    check(a, b, pairs)
    assert len(pairs) > 0.95 * len(b)


def test_nothing_in_common() -> None:
    assert align([1] * 1000, [2] * 1000) == []
    assert align([], [1]) == []
