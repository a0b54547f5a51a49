"""Laws of the order in which required passes run, on random requirements."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from passat.ir.module import IRModule
from passat.passmgr import ModulePass, PassContext, PassDependencyError, PassInfo, Reason, Sequential, register_pass
from tests.share import share

Sandbox = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Spec:
    """A pass as the tests describe it."""

    name: str
    required: tuple[str, ...]
    provides: frozenset[str]
    preserves: frozenset[str]

    def keeps(self, other: "Spec", as_requirement: bool) -> bool:
        if "*" in self.preserves:
            return True
        if other.provides:
            return other.provides <= self.preserves | self.provides
        return as_requirement or other.name in self.preserves


class Made(ModulePass):
    def __init__(self, spec: Spec) -> None:
        self.info = PassInfo(0, spec.name, list(spec.required), provides=spec.provides, preserves=spec.preserves)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.record("order", str(len(ctx.statistics.counters.get("order", {}))) + self.info.name)
        return mod


def names(size: int) -> list[str]:
    return [f"P{i}" for i in range(size)]


@st.composite
def acyclic(draw: st.DrawFn, facts: bool) -> list[Spec]:
    """Passes that require only earlier passes of the list."""
    size = draw(st.integers(1, 8))
    words = ["a", "b", "c", "d"] if facts else []
    specs = []
    for i, name in enumerate(names(size)):
        later = names(size)[i + 1 :]
        required = draw(st.permutations(later))[: draw(st.integers(0, 3))]
        provides = draw(st.frozensets(st.sampled_from(words), max_size=2)) if facts else frozenset[str]()
        preserves = draw(st.frozensets(st.sampled_from([*words, *names(size), "*"]), max_size=4)) if facts else frozenset[str]()
        specs.append(Spec(name, tuple(required), provides, preserves))
    return specs


def holds(log: list[tuple[Spec, bool]], name: str) -> bool:
    """True if a pass ran and no later one invalidated it, by definition."""
    for at in range(len(log) - 1, -1, -1):
        if log[at][0].name == name:
            return all(later.keeps(log[at][0], as_requirement) for later, as_requirement in log[at + 1 :])
    return False


def is_valid(log: list[tuple[Spec, bool]]) -> bool:
    return all(holds(log[:at], name) for at, (spec, _) in enumerate(log) for name in spec.required)


def plan(specs: list[Spec], members: list[Spec]) -> list[tuple[Spec, bool]]:
    by_name = {spec.name: spec for spec in specs}
    for spec in specs:
        register_pass(spec.name, Made(spec))
    steps = Sequential([Made(spec) for spec in members]).plan(PassContext()).steps
    return [(by_name[step.name], step.reason is Reason.REQUIRED) for step in steps if step.runs]


@settings(max_examples=share(25, 150))
@given(acyclic(facts=False))
def test_one_member_runs_after_all_it_requires_each_once_and_in_declared_order(sandbox: Sandbox, specs: list[Spec]) -> None:
    with sandbox():
        log = plan(specs, specs[:1])
    order = [spec.name for spec, _ in log]
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from((spec.name, name) for spec in specs for name in spec.required)
    graph.add_nodes_from(spec.name for spec in specs)
    assert sorted(order) == sorted({"P0", *nx.descendants(graph, "P0")})
    assert is_valid(log)
    expected: list[str] = []

    def visit(name: str) -> None:
        if name not in expected:
            for required in specs[int(name[1:])].required:
                visit(required)
            expected.append(name)

    visit("P0")
    assert order == expected


@settings(max_examples=share(25, 150))
@given(acyclic(facts=True), st.data())
def test_requirements_hold_when_a_pass_runs(sandbox: Sandbox, specs: list[Spec], data: st.DataObject) -> None:
    members = data.draw(st.lists(st.sampled_from(specs), min_size=1, max_size=4))
    with sandbox():
        try:
            log = plan(specs, members)
        except PassDependencyError:
            assume(False)
    assert [spec for spec, required in log if not required] == members
    assert is_valid(log)


@settings(max_examples=share(18, 100))
@given(acyclic(facts=True), st.data())
def test_it_is_stable(sandbox: Sandbox, specs: list[Spec], data: st.DataObject) -> None:
    members = data.draw(st.lists(st.sampled_from(specs), min_size=1, max_size=3))
    extra = Spec("Unrelated", (), frozenset("a"), frozenset())
    shuffled = data.draw(st.permutations([*specs, extra]))
    results = []
    for registered in (specs, shuffled):
        with sandbox():
            try:
                results.append(plan(registered, members))
            except PassDependencyError as error:
                results.append(str(error))  # type: ignore[arg-type]  # compared below, no more
    assert results[0] == results[1]


@settings(max_examples=share(18, 100))
@given(acyclic(facts=True), st.data())
def test_running_executes_the_plan(sandbox: Sandbox, specs: list[Spec], data: st.DataObject) -> None:
    members = data.draw(st.lists(st.sampled_from(specs), min_size=1, max_size=3))
    with sandbox():
        try:
            expected = [spec.name for spec, _ in plan(specs, members)]
        except PassDependencyError:
            assume(False)
        pipeline = Sequential([Made(spec) for spec in members])
        with PassContext() as ctx:
            pipeline(IRModule())
        assert list(ctx.statistics.counters["order"]) == [f"{at}{name}" for at, name in enumerate(expected)]


@settings(max_examples=share(18, 100))
@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))))
def test_exactly_the_cyclic_graphs_are_rejected(sandbox: Sandbox, drawn: tuple[int, set[tuple[int, int]]]) -> None:
    size, edges = drawn
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_edges_from(sorted(edges))
    graph.add_nodes_from(range(size))
    keeps_all = frozenset("*")
    specs = [Spec(f"P{i}", tuple(f"P{j}" for a, j in sorted(edges) if a == i), frozenset(), keeps_all) for i in range(size)]
    with sandbox():
        try:
            plan(specs, specs)
            assert nx.is_directed_acyclic_graph(graph)
        except PassDependencyError as error:
            assert not nx.is_directed_acyclic_graph(graph)
            steps = str(error).removeprefix("passes require each other in a cycle: ").split(" requires ")
            assert steps[0] == steps[-1]
            assert all((int(a[1:]), int(b[1:])) in edges for a, b in pairwise(steps))
