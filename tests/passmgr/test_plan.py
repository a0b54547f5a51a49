"""Plans: reasons, numbers, notes, and output forms (golden)."""

import json
from dataclasses import dataclass

import pytest

from passat.ir.module import IRModule
from passat.passmgr import InferType, ModulePass, PassContext, PassInfo, Reason, Sequential, get_pass, module_pass, register_pass
from passat.passmgr.planning.render import edges

pytestmark = pytest.mark.usefixtures("forgotten")


@dataclass(frozen=True)
class Saturate(ModulePass):
    rounds: int = 8
    info = PassInfo(1, "Saturate", ["InferType"], preserves=["types"])

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return mod


@dataclass(frozen=True)
class Fuse(ModulePass):
    info = PassInfo(3, "Fuse", ["InferType", "Canon"])

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return mod


@pytest.fixture
def pipeline() -> Sequential:
    register_pass("Canon", module_pass(lambda mod, ctx: mod, opt_level=4, name="Canon", required=["InferType"], preserves=["types"]))
    register_pass("Saturate", Saturate)
    return Sequential([Saturate(), Sequential([Saturate(3), Fuse()], opt_level=1, name="inner"), Fuse(), InferType()], name="mine")


def test_text(pipeline: Sequential) -> None:
    assert pipeline.plan(PassContext(opt_level=3, disabled_pass=["Canon"])).to_text() == (
        "mine at opt_level 3\n"
        "  1      InferType           required by Saturate\n"
        "  2      Saturate            listed, level 1\n"
        "  3      inner               listed, level 1\n"
        "    -    InferType           does not run: required by Saturate, established by step 1\n"
        "    3.1  Saturate{rounds=3}  listed, level 1\n"
        "    -    InferType           does not run: required by Fuse, established by step 1\n"
        "    3.2  Canon               required by Fuse, though it is disabled\n"
        "    3.3  Fuse                listed, level 3\n"
        "  4      InferType           required by Fuse\n"
        "  5      Canon               required by Fuse, though it is disabled\n"
        "  6      Fuse                listed, level 3\n"
        "  7      InferType           listed, level 0\n"
    )


def test_text_of_passes_that_do_not_run(pipeline: Sequential) -> None:
    plan = pipeline.plan(PassContext(opt_level=0, required_pass=["Saturate"], disabled_pass=["InferType"]))
    assert str(plan) == (
        "mine at opt_level 0\n"
        "  1  InferType  required by Saturate, though it is disabled\n"
        "  2  Saturate   listed, and enabled by name (its level 1 > 0)\n"
        "  -  inner      does not run: its level 1 > 0\n"
        "  -  Fuse       does not run: its level 3 > 0\n"
        "  -  InferType  does not run: it is disabled\n"
    )


def test_text_as_in_tvm(pipeline: Sequential) -> None:
    assert pipeline.plan(PassContext(opt_level=1, config={"passmgr.resolve": "relay"})).to_text() == (
        "mine at opt_level 1, requirements resolved as in TVM\n"
        "  1      InferType           required by Saturate\n"
        "  2      Saturate            listed, level 1\n"
        "  3      inner               listed, level 1\n"
        "    3.1  InferType           required by Saturate\n"
        "    3.2  Saturate{rounds=3}  listed, level 1\n"
        "    -    Fuse                does not run: its level 3 > 1\n"
        "  -      Fuse                does not run: its level 3 > 1\n"
        "  4      InferType           listed, level 0\n"
    )


def test_text_of_nothing() -> None:
    assert Sequential([]).plan().to_text() == "sequential at opt_level 2\n  (nothing to run)\n"


def test_doubts_about_the_settings(pipeline: Sequential) -> None:
    ctx = PassContext(opt_level=0, required_pass=["Canon"], disabled_pass=["Fues", "Fuse", "Canon", "xyz"])
    assert pipeline.plan(ctx).notes == (
        "disabled_pass names 'Fues', which is neither a pass of this pipeline nor registered; did you mean Fuse?",
        "disabled_pass names 'xyz', which is neither a pass of this pipeline nor registered",
        "the required pass Canon is not part of this pipeline: naming a pass enables it, but does not add it",
    )
    assert "\nnote: disabled_pass names 'Fues'" in pipeline.plan(ctx).to_text()


def test_a_name_under_which_a_pass_is_registered_but_not_called() -> None:
    register_pass("Saturated", Saturate)
    plan = Sequential([get_pass("Saturated")]).plan(PassContext(disabled_pass=["Saturated"]))
    assert plan.notes == plan.unknown == ("disabled_pass names 'Saturated', as which the pass 'Saturate' is registered; use its own name",)


def test_reasons_and_numbers(pipeline: Sequential) -> None:
    plan = pipeline.plan(PassContext(opt_level=2, required_pass=["Fuse"]))
    assert [(step.number, step.name, step.reason, step.required_by, step.established_by) for step in plan.walk()] == [
        ("1", "InferType", Reason.REQUIRED, "Saturate", None),
        ("2", "Saturate", Reason.LISTED, None, None),
        ("3", "inner", Reason.LISTED, None, None),
        ("", "InferType", Reason.ESTABLISHED, "Saturate", "1"),
        ("3.1", "Saturate", Reason.LISTED, None, None),
        ("", "InferType", Reason.ESTABLISHED, "Fuse", "1"),
        ("3.2", "Canon", Reason.REQUIRED, "Fuse", None),
        ("3.3", "Fuse", Reason.FORCED, None, None),
        ("4", "InferType", Reason.REQUIRED, "Fuse", None),
        ("5", "Canon", Reason.REQUIRED, "Fuse", None),
        ("6", "Fuse", Reason.FORCED, None, None),
        ("7", "InferType", Reason.LISTED, None, None),
    ]
    assert plan.order == ["InferType", "Saturate", "Saturate", "Canon", "Fuse", "InferType", "Canon", "Fuse", "InferType"]


def test_json() -> None:
    register_pass("Saturate", Saturate)
    plan = Sequential([Sequential([Saturate(2)], name="in")]).plan(PassContext())
    assert json.loads(plan.to_json()) == {
        "schema": "plan-1",
        "pipeline": "sequential",
        "opt_level": 2,
        "resolve": "graph",
        "order": ["InferType", "Saturate"],
        "steps": [
            {
                "name": "in",
                "text": "in",
                "number": "1",
                "runs": True,
                "reason": "listed",
                "why": "listed, level 0",
                "stage": None,
                "opt_level": 0,
                "required_by": None,
                "established_by": None,
                "after": [],
                "before": [],
                "steps": [
                    {
                        "name": "InferType",
                        "text": "InferType",
                        "number": "1.1",
                        "runs": True,
                        "reason": "required",
                        "why": "required by Saturate",
                        "stage": None,
                        "opt_level": 0,
                        "required_by": "Saturate",
                        "established_by": None,
                        "after": [],
                        "before": [],
                        "steps": [],
                    },
                    {
                        "name": "Saturate",
                        "text": "Saturate{rounds=2}",
                        "number": "1.2",
                        "runs": True,
                        "reason": "listed",
                        "why": "listed, level 1",
                        "stage": None,
                        "opt_level": 1,
                        "required_by": None,
                        "established_by": None,
                        "after": [],
                        "before": [],
                        "steps": [],
                    },
                ],
            }
        ],
        "notes": [],
    }


def test_an_option_without_text_and_quotes_in_names() -> None:
    @dataclass
    class Odd(ModulePass):
        table: object = None
        info = PassInfo(0, 'Odd "one"')

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod

    assert 'Odd "one"{...}' in Sequential([Odd(object())]).plan().to_text()


def test_places_appear_as_reasons_in_the_plan() -> None:
    def make(name: str, after: tuple[str, ...] = (), before: tuple[str, ...] = ()) -> ModulePass:
        return module_pass(lambda mod, ctx: mod, opt_level=0, name=name, after=after, before=before)

    inner = Sequential([make("A"), make("B", ("Z",), ("C",))], name="inner")
    plan = Sequential([make("Z"), inner, make("C", after=("A", "Elsewhere"), before=("Z",)), make("D", after=("C", "Z"))]).plan()
    assert plan.to_text() == (
        "sequential at opt_level 2\n"
        "  1      Z      listed, level 0\n"
        "  2      inner  listed, level 0\n"
        "    2.1  A      listed, level 0\n"
        "    2.2  B      listed, level 0\n"
        "  3      C      listed, level 0, after A\n"
        "  4      D      listed, level 0, after C, Z\n"
    )
    assert list(edges(plan)) == [("2", "3", "C declares after A"), ("3", "4", "D declares after C"), ("1", "4", "D declares after Z")]
    assert [step["after"] for step in json.loads(plan.to_json())["steps"]] == [[], [], ["A"], ["C", "Z"]]


def test_plans_are_made_once_per_settings(pipeline: Sequential) -> None:
    assert pipeline.plan(PassContext()) is pipeline.plan(PassContext())
    assert pipeline.plan(PassContext()) is pipeline.plan()
    assert pipeline.plan(PassContext()) is not pipeline.plan(PassContext(opt_level=3))
    assert pipeline.plan(PassContext(disabled_pass=["A"])) is not pipeline.plan(PassContext(required_pass=["A"]))
    assert pipeline.plan(PassContext()).to_json() == pipeline.plan(PassContext(config={"passmgr.resolve": "graph"})).to_json()
    first = pipeline.plan(PassContext())
    for level in range(100):
        pipeline.plan(PassContext(opt_level=level + 10))
    assert len(pipeline._plans) <= 64
    assert pipeline.plan(PassContext()).to_json() == first.to_json()


def test_a_plan_is_made_for_a_context() -> None:
    with pytest.raises(TypeError, match=r"^a plan is made for a PassContext, not for 3$"):
        Sequential([]).plan(3)  # type: ignore[arg-type]  # the mistake under test
