"""The steps of extraction on arbitrary e-graphs, compared with all choices: cycles, several roots, costs of zero."""

import itertools
import math
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.rules.extraction import exact as exact_module
from passat.rules.extraction.exact import ExactUnavailableError, Program, solve_by_mip, solve_exactly, useful_nodes
from passat.rules.extraction.improve import Solution, trees_from_leaves
from passat.rules.extraction.ladder import NoProgramError, climb
from passat.rules.extraction.space import Bias, Space
from tests.share import share

Nodes = Sequence[tuple[int, float, Sequence[int]]]
"""Nodes as (number of the e-class, cost, e-classes of the operands)."""
Biases = Mapping[int, tuple[frozenset[int], float]]
"""Nodes with an extra cost that does not apply if nothing else reads their first operand and that is one of certain nodes; with these nodes
and the extra cost."""


def space_of(nodes: Nodes, biases: Biases | None = None) -> tuple[Space, dict[int, int]]:
    """The space of nodes, and the names of their e-classes in it."""
    first: dict[int, int] = {}
    for node, (cls, _, _) in enumerate(nodes):
        first.setdefault(cls, node)
    members: dict[int, list[int]] = {}
    for node, (cls, _, _) in enumerate(nodes):
        members.setdefault(first[cls], []).append(node)
    space = Space(
        [first[cls] for cls, _, _ in nodes],
        [tuple(first[part] for part in parts) for _, _, parts in nodes],
        [cost for _, cost, _ in nodes],
        {cls: found for cls, found in members.items() if len(found) > 1},
        list(range(len(nodes))),
        {node: Bias(first[nodes[node][2][0]], takers, apart) for node, (takers, apart) in (biases or {}).items()},
    )
    return space, first


def reached(space: Space, choice: Mapping[int, int], roots: Sequence[int]) -> dict[int, int] | None:
    """The part of a choice that the roots need; None if it has a cycle or lacks an e-class."""
    done: dict[int, int] = {}
    stack = [(root, frozenset[int]()) for root in roots]
    while stack:
        cls, above = stack.pop()
        if cls in above or cls not in choice:
            return None
        done[cls] = choice[cls]
        stack.extend((part, above | {cls}) for part in space.children[choice[cls]])
    return done


def cost_of(space: Space, choice: Mapping[int, int], roots: Sequence[int]) -> float:
    """The cost of a choice, computed from scratch."""
    read = [*roots, *(part for node in choice.values() for part in space.children[node])]
    total = [space.costs[node] for node in choice.values()]
    for node in choice.values():
        bias = space.biases.get(node)
        if bias is not None and not (read.count(bias.on) == 1 and choice[bias.on] in bias.takers):
            total.append(bias.apart)
    return math.fsum(total)


def cheapest(space: Space, roots: Sequence[int]) -> float | None:
    """The lowest cost of all choices."""
    members: dict[int, list[int]] = {}
    for node, cls in enumerate(space.classes):
        members.setdefault(cls, []).append(node)
    best: float | None = None
    for nodes in itertools.product(*members.values()):
        found = reached(space, dict(zip(members, nodes, strict=True)), roots)
        if found is not None and (best is None or cost_of(space, found, roots) < best):
            best = cost_of(space, found, roots)
    return best


@st.composite
def egraphs(draw: st.DrawFn) -> tuple[Nodes, Biases, list[int]]:
    """Small e-graphs with cycles, shared parts and biases, and their roots."""
    count = draw(st.integers(1, 6))
    costs = st.one_of(st.integers(0, 9).map(float), st.sampled_from([0.1, 0.25, 1 / 3, 1e-9, 1e6]))
    parts = st.lists(st.integers(0, count - 1), max_size=3)
    nodes = [(cls, draw(costs), draw(parts)) for cls in range(count) for _ in range(draw(st.integers(1, 3)))]
    biases: dict[int, tuple[frozenset[int], float]] = {}
    for node, (_, _, operands) in enumerate(nodes):
        if operands and operands.count(operands[0]) == 1 and draw(st.booleans()):
            takers = [other for other, (cls, _, _) in enumerate(nodes) if cls == operands[0] and draw(st.booleans())]
            biases[node] = frozenset(takers), draw(st.integers(1, 5).map(float))
    return nodes, biases, draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2))


@settings(max_examples=share(10, 60))
@given(egraphs())
def test_exact_search_finds_the_cheapest_of_all_choices(egraph: tuple[Nodes, Biases, list[int]]) -> None:
    nodes, biases, named = egraph
    space, first = space_of(nodes, biases)
    roots = [first[root] for root in named]
    best = cheapest(space, roots)
    if best is None:
        with pytest.raises(NoProgramError):
            climb(space, roots, 10)
        return
    greedy, found = climb(space, roots), climb(space, roots, 10)
    for each in (greedy, found):
        assert reached(space, each.choice, roots) is not None
        assert each.cost == pytest.approx(cost_of(space, each.choice, roots))
        assert each.cost >= best - 1e-9
    assert found.cost == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert found.bound <= best * (1 + 1e-6) + 1e-6
    assert greedy.bound == 0
    assert not greedy.proven


def test_a_dearer_node_without_an_extra_cost_is_found() -> None:
    """The first node costs 2 more unless it reads the second, which costs 1 more than the third."""
    space, first = space_of([(0, 0.0, [1]), (1, 1.0, []), (1, 0.0, [])], {0: (frozenset({1}), 2.0)})
    found = climb(space, [first[0]], 10)
    assert found.cost == 1.0
    assert found.choice[first[1]] == 1


@settings(max_examples=share(8, 30))
@given(egraphs())
def test_the_solver_alone_is_right(egraph: tuple[Nodes, Biases, list[int]]) -> None:
    nodes, biases, named = egraph
    space, first = space_of(nodes, biases)
    roots = [first[root] for root in named]
    best = cheapest(space, roots)
    if best is None:
        return
    known = climb(space, roots).choice
    program = Program(space, roots)
    found = solve_by_mip(program, known, 10, 0)
    assert found.choice is not None
    solution = Solution.of_choice(space, found.choice, roots)
    assert solution is not None
    choice = solution.in_order()
    assert reached(space, choice, roots) == choice
    assert cost_of(space, choice, roots) == pytest.approx(best, rel=1e-5, abs=1e-5)


@settings(max_examples=share(35, 200))
@given(egraphs(), st.randoms(use_true_random=False))
def test_the_added_cost_of_a_change_is_exact(egraph: tuple[Nodes, Biases, list[int]], random: Random) -> None:
    """However the choice changes, the total that is maintained is the cost of the program."""
    nodes, biases, named = egraph
    space, first = space_of(nodes, biases)
    roots = [first[root] for root in dict.fromkeys(named)]
    trees = trees_from_leaves(space)
    solution = Solution.of_choice(space, trees, roots) if all(root in trees for root in roots) else None
    if solution is None:
        return
    for _ in range(10):
        before = solution.in_order()
        cls = random.choice([cls for cls in before if cls in space.alternatives] or [roots[0]])
        node = random.choice(space.alternatives.get(cls, [before[cls]]))
        added = solution.difference(cls, node, trees)
        assert solution.in_order() == before
        assert solution.total == pytest.approx(cost_of(space, before, roots), abs=1e-6)
        if added is not None:
            solution._take(cls, node, trees)
            assert solution.total == pytest.approx(cost_of(space, solution.in_order(), roots), abs=1e-6)
            assert solution.total == pytest.approx(cost_of(space, before, roots) + added, abs=1e-6)


def test_two_biases_on_one_product_cost_more_than_one_and_a_sum() -> None:
    """A product that two biases read cannot absorb either of them; the second sum is added to the first."""
    nodes = [(0, 1.0, (2, 1)), (1, 0.25, (3,)), (2, 2.0, (1,)), (2, 0.25, (3,)), (3, 9.0, ())]
    space, first = space_of(nodes, {1: (frozenset({4}), 1.5), 3: (frozenset({4}), 1.5)})
    found = climb(space, [first[0]])
    assert found.cost == 1.0 + 0.25 + 2.0 + 9.0
    assert set(found.choice.values()) == {0, 1, 2, 4}
    assert climb(space, [first[0]], 10).cost == found.cost


def test_trees_share_nothing_and_dags_do() -> None:
    """Two operands from one expensive e-class, or from two cheap ones: the tree costs more, the graph does not."""
    space, first = space_of([(0, 1.0, (1, 1)), (0, 1.0, (2, 3)), (1, 6.0, ()), (2, 4.0, ()), (3, 4.0, ())])
    found = climb(space, [first[0]])
    assert found.stages["trees"][0] == 9.0
    assert found.cost == 7.0


def test_a_gap_that_single_changes_do_not_close_is_closed_by_exact_search() -> None:
    """Both sums have to switch to the shared part at once."""
    nodes = [(0, 0.0, (1, 2)), (1, 5.0, ()), (1, 1.0, (3,)), (2, 5.0, ()), (2, 1.0, (3,)), (3, 6.0, ())]
    space, first = space_of(nodes)
    assert climb(space, [first[0]]).cost == 10.0
    found = climb(space, [first[0]], 10)
    assert (found.cost, found.proven) == (8.0, True)
    assert found.bound == pytest.approx(8.0)
    assert [space.classes[node] for node in found.choice.values()] == list(found.choice)
    assert list(found.choice)[-1] == first[0], "operands come before their users"


def test_several_cycles_do_not_get_in_each_others_way() -> None:
    """Two pairs of e-classes that need each other, one pair below the other."""
    nodes = [(0, 1.0, (1,)), (1, 1.0, (0,)), (1, 2.0, (2,)), (2, 1.0, (3,)), (3, 1.0, (2,)), (3, 5.0, ()), (0, 20.0, ())]
    space, first = space_of(nodes)
    assert climb(space, [first[0]], 10).cost == 9.0


def test_dominated_nodes_are_omitted() -> None:
    space, first = space_of(
        [(0, 2.0, (1,)), (0, 3.0, (1,)), (0, 2.0, (1, 2)), (0, 1.0, (1, 2)), (1, 1.0, ()), (2, 1.0, ()), (0, 0.0, (0,))]
    )
    assert useful_nodes(space, [first[0]]) == {0: [3, 0], 4: [4], 5: [5]}


def test_a_root_without_a_program_is_reported() -> None:
    space, first = space_of([(0, 1.0, (1,)), (1, 1.0, (0,)), (2, 1.0, ())])
    with pytest.raises(NoProgramError, match="each of its nodes needs itself"):
        climb(space, [first[2], first[0]])
    assert climb(space, [first[2]]).cost == 1.0


def test_a_chain_of_100_000_classes() -> None:
    count = 100_000
    space = Space(list(range(count)), [(i - 1,) if i else () for i in range(count)], [1.0] * count, {}, list(range(count)))
    assert len(trees_from_leaves(space)) == count
    assert climb(space, [count - 1]).cost == count


def test_no_time_means_no_search() -> None:
    space, first = space_of([(0, 1.0, ()), (0, 2.0, ())])
    assert list(climb(space, [first[0]], 0).stages) == ["trees", "dag"]
    known = climb(space, [first[0]]).choice
    assert solve_exactly(space, [first[0]], known, 0.0) == (known, 0.0, False)


def test_without_or_tools_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_module, "is_available", lambda: False)
    space, first = space_of([(0, 1.0, ())])
    with pytest.raises(ExactUnavailableError, match=r"pip install 'passat\[exact\]'"):
        climb(space, [first[0]], 1.0)
