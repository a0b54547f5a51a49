"""Requirements: the graph, its order, established and invalidated requirements, errors."""

import pytest

from passat.ir.module import IRModule
from passat.passmgr import ModulePass, PassContext, PassDependencyError, Sequential, UnknownPassError, module_pass, register_pass

pytestmark = pytest.mark.usefixtures("forgotten")


def make(name: str, *required: str, provides: tuple[str, ...] = (), preserves: tuple[str, ...] | str = ()) -> ModulePass:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    return module_pass(body, opt_level=0, name=name, required=required, provides=provides, preserves=preserves)


def register(*passes: ModulePass) -> None:
    for pass_ in passes:
        register_pass(pass_.info.name, pass_)


def order(*members: ModulePass | Sequential) -> list[str]:
    return Sequential(list(members)).plan(PassContext()).order


def test_declared_order_breaks_ties() -> None:
    register(make("A"), make("B"), make("C"))
    assert order(make("P", "C", "A", "B")) == ["C", "A", "B", "P"]
    assert order(make("P", "A", "C", "B")) == ["A", "C", "B", "P"]


def test_requirements_come_first_even_if_declared_later() -> None:
    register(make("A", "B"), make("B"))
    assert order(make("P", "A", "B")) == ["B", "A", "P"]


def test_a_diamond_runs_once() -> None:
    register(make("A", "D"), make("B", "D"), make("D"))
    assert order(make("P", "A", "B")) == ["D", "A", "B", "P"]


def test_a_name_required_twice() -> None:
    register(make("A"))
    assert order(make("P", "A", "A")) == ["A", "P"]


def test_full_names_and_short_names_are_the_same_pass() -> None:
    register(make("A", "relay._transform.InferType"))
    assert order(make("P", "A", "InferType"), make("Q", "transform.A")) == ["InferType", "A", "InferType", "P", "InferType", "A", "Q"]


@pytest.mark.parametrize(
    ("preserves", "expected"),
    [
        ("*", ["T", "P", "Q"]),
        (("types",), ["T", "P", "Q"]),
        (("anf",), ["T", "P", "T", "Q"]),
        (("T",), ["T", "P", "T", "Q"]),
        ((), ["T", "P", "T", "Q"]),
    ],
)
def test_declared_facts(preserves: tuple[str, ...] | str, expected: list[str]) -> None:
    register(make("T", provides=("types",)))
    assert order(make("P", "T", preserves=preserves), make("Q", "T")) == expected


def test_who_provides_a_fact_keeps_it() -> None:
    register(make("T", provides=("types",)))
    assert order(make("P", "T", provides=("types",)), make("Q", "T")) == ["T", "P", "Q"]


def test_all_facts_of_a_pass_must_hold() -> None:
    register(make("T", provides=("types", "anf")))
    assert order(make("P", "T", preserves=("types",)), make("Q", "T")) == ["T", "P", "T", "Q"]


@pytest.mark.parametrize(("preserves", "expected"), [(("R",), ["R", "P", "Q"]), ((), ["R", "P", "R", "Q"])])
def test_a_pass_without_facts_establishes_its_name(preserves: tuple[str, ...], expected: list[str]) -> None:
    register(make("R"))
    assert order(make("P", "R", preserves=preserves), make("Q", "R")) == expected


def test_a_listed_pass_establishes_what_it_provides() -> None:
    register(make("T", provides=("types",)))
    assert order(make("T", provides=("types",)), make("P", "T")) == ["T", "P"]


def test_members_always_run() -> None:
    infer = make("T", provides=("types",))
    register(infer)
    assert order(infer, infer, make("P", "T", preserves="*"), infer) == ["T", "T", "P", "T"]


def test_a_requirement_undone_by_another_runs_again() -> None:
    register(make("T", provides=("types",), preserves="*"), make("Canon", "T"))
    assert order(make("P", "T", "Canon")) == ["T", "Canon", "T", "P"]


def test_facts_flow_through_nested_pipelines() -> None:
    register(make("T", provides=("types",), preserves="*"))
    keeps = make("K", preserves="*")
    assert order(make("P", "T", preserves="*"), Sequential([keeps, make("Q", "T")]), make("R", "T")) == ["T", "P", "K", "Q", "T", "R"]


def test_a_member_that_is_off_establishes_nothing() -> None:
    infer = make("T", provides=("types",))
    register(infer)
    pipeline = Sequential([Sequential([infer], opt_level=9), make("P", "T")])
    assert pipeline.plan(PassContext()).order == ["T", "P"]
    assert pipeline.plan(PassContext(opt_level=9)).order == ["T", "P"]
    assert pipeline.plan(PassContext(opt_level=9)).steps[0].steps[0].name == "T"


@pytest.mark.parametrize("size", [1, 2, 5])
def test_cycles_are_printed(size: int) -> None:
    register(*(make(f"C{i}", f"C{(i + 1) % size}") for i in range(size)))
    with pytest.raises(PassDependencyError) as caught:
        Sequential([make("P", "C0")])
    text = str(caught.value).removeprefix("passes require each other in a cycle: ")
    names = text.split(" requires ")
    assert names[0] == names[-1]
    assert sorted(names[1:]) == sorted(f"C{i}" for i in range(size))


def test_passes_that_undo_each_other() -> None:
    register(make("Anf", provides=("anf",)), make("Graph", provides=("graph",)))
    with pytest.raises(PassDependencyError) as caught:
        Sequential([make("P", "Anf", "Graph")])
    assert str(caught.value) == "no order satisfies the requirements of P: Anf undoes Graph; Graph undoes Anf"


def test_passes_that_undo_each_other_may_serve_different_members() -> None:
    register(make("Anf", provides=("anf",)), make("Graph", provides=("graph",)))
    assert order(make("P", "Anf"), make("Q", "Graph"), make("R", "Anf")) == ["Anf", "P", "Graph", "Q", "Anf", "R"]


def test_an_unknown_transitive_requirement_names_its_pass() -> None:
    register(make("A", "Nowhere"))
    with pytest.raises(UnknownPassError, match=r"^the pass A requires Nowhere: there is no pass Nowhere"):
        Sequential([make("P", "A")])


def test_a_long_chain_of_requirements() -> None:
    register(*(make(f"C{i}", f"C{i + 1}") for i in range(3000)), make("C3000"))
    assert order(make("P", "C2901")) == [*(f"C{i}" for i in range(3000, 2900, -1)), "P"]
    with pytest.raises(PassDependencyError, match=r"nested more than 100 levels deep$"):
        Sequential([make("P", "C0")])
