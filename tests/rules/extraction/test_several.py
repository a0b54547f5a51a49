"""The cheapest few choices, compared with all choices where the search is complete; always different programs."""

import itertools
import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.rules.extraction import ladder as ladder_module
from passat.rules.extraction.improve import Solution, trees_from_leaves
from passat.rules.extraction.ladder import BRANCHES, FEWEST, Climb, climb, several
from passat.rules.extraction.space import Space
from tests.share import share

Nodes = Sequence[tuple[int, float, Sequence[int]]]
"""Nodes as (number of the e-class, cost, e-classes of the operands)."""


def space_of(nodes: Nodes) -> tuple[Space, dict[int, int]]:
    first: dict[int, int] = {}
    for node, (cls, _, _) in enumerate(nodes):
        first.setdefault(cls, node)
    members: dict[int, list[int]] = {}
    for node, (cls, _, _) in enumerate(nodes):
        members.setdefault(first[cls], []).append(node)
    children = [tuple(first[part] for part in parts) for _, _, parts in nodes]
    several_of = {cls: found for cls, found in members.items() if len(found) > 1}
    return Space([first[cls] for cls, _, _ in nodes], children, [cost for _, cost, _ in nodes], several_of, list(range(len(nodes)))), first


def costs_of(nodes: Nodes, root: int, count: int) -> list[float]:
    space, first = space_of(nodes)
    return [found.cost for found in several(space, [first[root]], climb(space, [first[root]]), count)]


INDEPENDENT: Nodes = [(0, 1, ()), (0, 3, ()), (1, 10, ()), (1, 20, ()), (1, 30, ()), (2, 100, (0, 1)), (2, 200, ())]


def test_choices_that_do_not_touch_each_other_come_in_order() -> None:
    every = sorted([a + b + 100 for a, b in itertools.product((1, 3), (10, 20, 30))] + [200])
    assert costs_of(INDEPENDENT, 2, 20) == every
    for count in range(1, 8):
        assert costs_of(INDEPENDENT, 2, count) == every[:count]


def test_one_is_the_one_that_is_known() -> None:
    space, first = space_of(INDEPENDENT)
    known = climb(space, [first[2]])
    assert several(space, [first[2]], known, 1) == [known]


def test_a_forced_choice_is_made() -> None:
    assert costs_of([(0, 1, ()), (1, 2, (0, 0))], 1, 5) == [3]


def test_a_cycle_is_not_a_program() -> None:
    assert costs_of([(0, 1, ()), (0, 1, (1,)), (1, 1, (0,)), (1, 5, ())], 1, 5) == [2, 5]


def test_rejected_programs_are_skipped() -> None:
    space, first = space_of(INDEPENDENT)

    def dear_leaf(choice: Mapping[int, int]) -> bool:
        return 0 not in choice.values()

    found = several(space, [first[2]], climb(space, [first[2]]), 3, dear_leaf)
    assert [one.cost for one in found] == [113, 123, 133]
    assert all(dear_leaf(one.choice) for one in found)
    assert several(space, [first[2]], climb(space, [first[2]]), 3, lambda choice: False) == []


def test_an_equal_node_is_not_another_program() -> None:
    classes, costs = [0, 0, 2, 2, 2], [1.0, 1.0, 1.0, 1.0, 2.0]
    space = Space(classes, [(), (), (0,), (0,), ()], costs, {0: [0], 2: [2, 4]}, [0, 0, 2, 2, 2])
    assert [found.choice for found in several(space, [2], climb(space, [2]), 9)] == [{0: 0, 2: 2}, {2: 4}]


def chain(length: int) -> Nodes:
    """A chain of e-classes with two nodes each; the second node of e-class i costs i + 2 instead of 1."""
    return [
        node for cls in range(length) for node in ((cls, 1.0, [cls - 1] if cls else []), (cls, float(cls + 2), [cls - 1] if cls else []))
    ]


@pytest.mark.parametrize("length", [10, 2_000])
def test_the_next_best_adds_the_least_cost(length: int) -> None:
    assert costs_of(chain(length), length - 1, 3) == [length, length + 1, length + 2]


@pytest.mark.parametrize(("length", "count"), [(20, 2), (200, 2), (200, 10), (6_000, 3)])
def test_searches_are_bounded(length: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    work = 20_000
    monkeypatch.setattr(ladder_module, "WORK", work)
    nodes = chain(length)
    space, first = space_of(nodes)
    best = climb(space, [first[length - 1]])
    searches = 0

    def counted(space: Space, roots: Sequence[int]) -> Climb:
        nonlocal searches
        searches += 1
        return climb(space, roots)

    monkeypatch.setattr(ladder_module, "climb", counted)
    found = several(space, [first[length - 1]], best, count)
    assert 1 < len(found) <= count
    assert 0 < searches <= min(BRANCHES * count, max(FEWEST, work // len(nodes)))


def test_the_same_comes_each_time() -> None:
    space, first = space_of(chain(200))
    found = [several(space, [first[199]], climb(space, [first[199]]), 5) for _ in range(2)]
    assert [one.choice for one in found[0]] == [one.choice for one in found[1]]


@st.composite
def egraphs(draw: st.DrawFn) -> Nodes:
    """E-graphs of some e-classes. Each has a node that needs only earlier e-classes, so that a program exists, and other nodes that need
    any."""
    classes = draw(st.integers(1, 6))
    nodes: list[tuple[int, float, Sequence[int]]] = [
        (cls, draw(st.integers(1, 9)), draw(st.lists(st.integers(0, cls - 1), max_size=2)) if cls else ()) for cls in range(classes)
    ]
    for _ in range(draw(st.integers(0, 10))):
        cls = draw(st.integers(0, classes - 1))
        nodes.append((cls, draw(st.integers(1, 9)), draw(st.lists(st.integers(0, classes - 1), max_size=2))))
    return nodes


@settings(max_examples=share(35, 200), derandomize=True)
@given(egraphs(), st.integers(1, 6))
def test_all_are_different_programs_and_none_is_below_the_best(nodes: Nodes, count: int) -> None:
    space, first = space_of(nodes)
    root = first[max(cls for cls, _, _ in nodes)]
    best = climb(space, [root], 5.0)
    found = several(space, [root], best, count)
    assert found[0].cost == best.cost
    assert [one.cost for one in found] == sorted(one.cost for one in found)
    assert len({frozenset(one.choice.values()) for one in found}) == len(found) <= count
    for one in found:
        done: set[int] = set()
        for cls, node in one.choice.items():
            assert space.classes[node] == cls
            assert done.issuperset(space.children[node])  # operands come before their users: there is no cycle
            done.add(cls)
        assert root in done
        assert one.cost == sum(space.costs[node] for node in one.choice.values())


@settings(max_examples=share(35, 200), derandomize=True)
@given(egraphs())
def test_added_cost_of_another_node(nodes: Nodes) -> None:
    """It is the difference of the costs of two programs, and computing it does not change the first."""
    space, first = space_of(nodes)
    root = first[max(cls for cls, _, _ in nodes)]
    trees = trees_from_leaves(space)
    choice = climb(space, [root]).choice
    solution = Solution.of_choice(space, choice, [root])
    assert solution is not None
    places = 0
    for cls, node in choice.items():
        possible = 0
        for other in space.alternatives.get(cls, ()):
            if other == node:
                continue
            added = solution.difference(cls, other, trees)
            changed = Solution.of_choice(space, {**trees, **choice, cls: other}, [root])
            if added is not None:
                possible += 1
                assert changed is not None
                assert math.isclose(changed.total, solution.total + added)
            assert (solution.total, solution.in_order()) == (sum(space.costs[one] for one in choice.values()), choice)
        places += possible > 0
    assert solution.alternatives(trees) == places
