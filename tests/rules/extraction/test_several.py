"""The cheapest few choices: against all choices there are, where the search is sure to find them; always different programs."""

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from passat.rules.extraction.ladder import climb
from passat.rules.extraction.several import several
from passat.rules.extraction.space import Space

Nodes = Sequence[tuple[int, float, Sequence[int]]]
"""Nodes as (class by number, cost, classes of the operands by number)."""


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


def test_without_a_choice_there_is_one() -> None:
    assert costs_of([(0, 1, ()), (1, 2, (0, 0))], 1, 5) == [3]


def test_a_cycle_is_no_program() -> None:
    assert costs_of([(0, 1, ()), (0, 1, (1,)), (1, 1, (0,)), (1, 5, ())], 1, 5) == [2, 5]


@st.composite
def egraphs(draw: st.DrawFn) -> Nodes:
    """E-graphs of some classes; each has a node that needs only earlier ones, so that there is a program, and others that need any."""
    classes = draw(st.integers(1, 6))
    nodes: list[tuple[int, float, Sequence[int]]] = [
        (cls, draw(st.integers(1, 9)), draw(st.lists(st.integers(0, cls - 1), max_size=2)) if cls else ()) for cls in range(classes)
    ]
    for _ in range(draw(st.integers(0, 10))):
        cls = draw(st.integers(0, classes - 1))
        nodes.append((cls, draw(st.integers(1, 9)), draw(st.lists(st.integers(0, classes - 1), max_size=2))))
    return nodes


@settings(deadline=None, max_examples=200, derandomize=True)
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
            assert done.issuperset(space.children[node])  # parts before wholes: there is no cycle
            done.add(cls)
        assert root in done
        assert one.cost == sum(space.costs[node] for node in one.choice.values())
