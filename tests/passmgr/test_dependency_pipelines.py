"""Required pipelines: what they establish inside, for random requirements and at the limits."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from passat.ir.module import IRModule
from passat.passmgr import (
    ModulePass,
    Pass,
    PassContext,
    PassDependencyError,
    PassInfo,
    PassOptionError,
    PipelineError,
    Reason,
    Sequential,
    Step,
    UnknownPassError,
    module_pass,
    parse_pipeline,
    register_pass,
)
from tests.share import share

Sandbox = Callable[[], AbstractContextManager[None]]


def make(name: str, required: Iterable[str] = (), provides: Iterable[str] = (), preserves: Iterable[str] = ()) -> ModulePass:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    return module_pass(body, opt_level=0, name=name, required=list(required), provides=provides, preserves=preserves)


class Model:
    """The requirements that hold after some steps, by definition."""

    def __init__(self) -> None:
        self.held: dict[str, frozenset[str]] = {}

    def ran(self, info: PassInfo, as_requirement: bool) -> None:
        for name, facts in list(self.held.items()):
            kept = all(map(info.keeps, facts)) if facts else as_requirement or info.keeps(name)
            if not kept:
                del self.held[name]
        self.held[info.name] = info.provides

    def accepts(self, steps: Iterable[Step], as_requirement: bool = False) -> bool:
        """True if all requirements hold when each pass runs, and skipped passes are already satisfied."""
        for step in steps:
            if not step.runs:
                if step.name not in self.held:
                    return False
                continue
            if any(name not in self.held for name in step.pass_.info.required):
                return False
            inside = as_requirement or step.reason is Reason.REQUIRED
            if step.pass_.members is None:
                self.ran(step.pass_.info, inside)
            else:
                if not self.accepts(step.steps, inside):
                    return False
                self.held[step.name] = step.pass_.info.provides
        return True


@st.composite
def registries(draw: st.DrawFn) -> dict[str, Pass]:
    """Passes, and pipelines of them, that require and contain only earlier ones."""
    words = ["a", "b", "c"]
    made: dict[str, Pass] = {}
    for i in range(draw(st.integers(2, 7))):
        later = list(made)
        some = st.lists(st.sampled_from(later), max_size=3) if later else st.just([])
        required = list(dict.fromkeys(draw(some)))
        name = f"P{i}"
        if later and draw(st.integers(0, 2)) == 0:
            with PassContext(config={"passmgr.resolve": "relay"}):  # requirements are registered later
                made[name] = Sequential([made[member] for member in draw(some)], name=name, required=required)
            continue
        provides = draw(st.sets(st.sampled_from(words), max_size=2))
        preserves = draw(st.just({"*"}) | st.sets(st.sampled_from([*words, *later]), max_size=3))
        made[name] = make(name, required, provides, preserves)
    return made


@settings(max_examples=share(25, 150))
@given(registries(), st.data())
def test_requirements_hold_in_pipelines_of_pipelines(sandbox: Sandbox, made: dict[str, Pass], data: st.DataObject) -> None:
    members = data.draw(st.lists(st.sampled_from(list(made.values())), min_size=1, max_size=4))
    with sandbox():
        for name, pass_ in made.items():
            register_pass(name, pass_)
        try:
            steps = Sequential(members).plan(PassContext()).steps
        except PassDependencyError:
            assume(False)
    assert Model().accepts(steps)


@pytest.mark.usefixtures("forgotten")
def test_a_pipeline_is_required_for_its_member() -> None:
    t = make("T", provides=["types"], preserves="*")
    register_pass("T", t)
    register_pass("Both", Sequential([make("Undo"), t], name="Both"))
    plan = Sequential([make("P", ["Both", "T"])]).plan(PassContext())
    assert plan.order == ["Undo", "T", "P"]


@pytest.mark.usefixtures("forgotten")
def test_pipelines_that_require_pipelines_are_planned_without_doubling() -> None:
    register_pass("S60", make("S60"))
    for i in range(59, -1, -1):
        register_pass(f"S{i}", Sequential([make(f"M{i}", [f"S{i + 1}"])], name=f"S{i}"))
    assert Sequential([make("P", ["S0"])]).plan(PassContext()).order == ["S60", *(f"M{i}" for i in range(59, -1, -1)), "P"]


@pytest.mark.usefixtures("forgotten")
def test_pipelines_that_require_pipelines_nest_no_deeper_than_others() -> None:
    with PassContext(config={"passmgr.resolve": "relay"}):
        for i in range(3000):
            register_pass(f"S{i}", Sequential([make(f"M{i}", [f"S{i + 1}"])], name=f"S{i}"))
    register_pass("S3000", make("S3000"))
    with pytest.raises(PassDependencyError, match=r"by requirements of its members, or is nested more than 100 levels deep$"):
        Sequential([make("P", ["S0"])])


@pytest.mark.usefixtures("forgotten")
def test_a_plan_that_would_have_too_many_steps_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.passmgr.planning.plan.STEPS_LIMIT", 1000)
    pipeline = Sequential([make("A")])
    for _ in range(8):
        pipeline = Sequential([pipeline, pipeline])
    assert len(pipeline.plan(PassContext()).order) == 256
    with pytest.raises(PassDependencyError, match=r"^the plan would have more than 1,000 steps$"):
        Sequential([pipeline, pipeline])


@pytest.mark.usefixtures("forgotten")
def test_one_of_many_requirements_runs_again() -> None:
    register_pass("T", make("T", provides=["types"], preserves="*"))
    register_pass("C90", make("C90", preserves="*"))
    for i in range(90):
        register_pass(f"C{i}", make(f"C{i}", [f"C{i + 1}"], preserves="*"))
    register_pass("Undoes", make("Undoes", ["T"]))
    order = Sequential([make("P", ["T", "Undoes", "C0"])]).plan(PassContext()).order
    assert order == ["T", "Undoes", *(f"C{i}" for i in range(90, -1, -1)), "T", "P"]


@pytest.mark.usefixtures("forgotten")
def test_one_pass_registered_with_different_options_is_two_requirements() -> None:
    register_pass("Saturate", make("Saturate"))
    register_pass("SaturateLong", make("Saturate"))
    register_pass("relay._transform.Saturate", make("Saturate"))
    plan = Sequential([make("P", ["Saturate", "SaturateLong", "transform.Saturate", "relay._transform.Saturate"])]).plan(PassContext())
    assert [step.why for step in plan.steps] == ["required by P"] * 3 + ["listed, level 0"]
    assert len({id(step.pass_) for step in plan.steps}) == 4


@pytest.mark.usefixtures("forgotten")
def test_a_member_whose_name_another_registered_pass_has_taken() -> None:
    register_pass("Foo", make("A"))
    member = make("A")
    plan = Sequential([member, make("P", ["Foo", "A"])]).plan(PassContext())
    assert [step.name for step in plan.steps if step.runs] == ["A", "A", "P"]
    assert plan.steps[2].pass_ is member


@pytest.mark.usefixtures("forgotten")
def test_members_with_different_options_are_distinct() -> None:
    register_pass("R", make("R"))
    first, second = make("Same", ["R"]), make("Same")
    assert Sequential([second, first, second]).plan(PassContext()).order == ["Same", "R", "Same", "Same"]


@pytest.mark.usefixtures("forgotten")
def test_a_required_pass_with_mandatory_options_names_its_user() -> None:
    register_pass("Needs", lambda layout: make("Needs"))
    register_pass("Asks", make("Asks", ["Needs"]))
    with pytest.raises(PassOptionError, match=r"^the pass Asks requires Needs. the pass Needs requires the option layout$"):
        Sequential([make("P", ["Asks"])])
    with pytest.raises(PipelineError, match=r"^the pass Asks requires Needs. the pass Needs requires the option layout \(column 1\)"):
        parse_pipeline("Asks")


@pytest.mark.usefixtures("forgotten")
def test_a_pipeline_is_not_a_requirement_of_its_members() -> None:
    with PassContext(config={"passmgr.resolve": "relay"}):
        group = Sequential([make("A", ["group"])], name="group")
    with pytest.raises(PassDependencyError, match=r"cycle: group contains A requires group$|cycle: A requires group contains A$"):
        Sequential([group])


@pytest.mark.usefixtures("forgotten")
def test_a_pipeline_may_require_one_of_its_members() -> None:
    a = make("A")
    group = Sequential([a], name="group", required=["A"])
    assert Sequential([group]).plan(PassContext()).order == ["A", "A"]
    with pytest.raises(UnknownPassError, match=r"^the pass group requires B"):
        Sequential([Sequential([a], name="group", required=["B"])])


@pytest.mark.usefixtures("forgotten")
def test_the_next_plan_reports_a_broken_registration(mod: IRModule) -> None:
    register_pass("R", make("R"))
    pipeline = Sequential([make("P", ["R"])])
    assert pipeline.plan().order == ["R", "P"]
    register_pass("R", make("R", ["P"]), override=True)
    register_pass("P", make("P", ["R"]))
    for _ in range(2):
        with pytest.raises(PassDependencyError, match=r"^passes require each other in a cycle: (P|R) requires (P|R) requires (P|R)$"):
            pipeline(mod)
    register_pass("R", make("R"), override=True)
    assert pipeline.plan().order == ["R", "P"]
