"""`relay.transform`: passes under Relay's names, with its levels, required passes and arguments."""

from collections.abc import Callable

import pytest

from passat import relay, transform
from passat.passmgr import list_passes

x = relay.var("x", shape=(2,))
LEVELS = {
    "AnnotateSpans": 0,
    "DeadCodeElimination": 1,
    "DefuseOps": 3,
    "DynamicToStatic": 2,
    "EliminateCommonSubexpr": 3,
    "FoldConstant": 2,
    "FuseOps": 0,
    "InferType": 0,
    "MergeComposite": 0,
    "RemoveUnusedFunctions": 1,
    "SimplifyExpr": 0,
    "SimplifyInference": 0,
    "EtaExpand": 1,
    "Inline": 1,
    "LambdaLift": 1,
    "ToANormalForm": 1,
    "ToBasicBlockNormalForm": 1,
    "ToGraphNormalForm": 1,
}
REQUIRED = {"ConvertLayout": ({"nn.conv2d": ["NHWC", "default"]},)}
"""The arguments of passes that cannot do without."""


@pytest.mark.parametrize("name", LEVELS)
def test_name_and_level(name: str) -> None:
    made = getattr(relay.transform, name)()
    assert isinstance(made, transform.Pass)
    assert (made.info.name, made.info.opt_level) == (name, LEVELS[name])


def test_every_pass_that_is_registered_is_found() -> None:
    for entry in list_passes():
        if entry.key.startswith("relay._transform."):
            assert isinstance(getattr(relay.transform, entry.name)(*REQUIRED.get(entry.name, ())), transform.Pass)


def test_an_unknown_pass() -> None:
    with pytest.raises(AttributeError, match=r"relay.transform has no pass 'SplitArgs'; it has: A"):
        relay.transform.SplitArgs  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: relay.transform.DeadCodeElimination(inline_once=True), "DeadCodeElimination: inline_once=True is not supported"),
        (lambda: relay.transform.DeadCodeElimination(ignore_impurity=True), "ignore_impurity=True is not supported"),
    ],
)
def test_options_that_are_not_supported(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_unused_functions() -> None:
    mod = relay.IRModule({"main": relay.Function([x], x), "other": relay.Function([x], x)})
    assert len(relay.transform.RemoveUnusedFunctions()(mod)) == 1
    assert [var.name_hint for var in relay.transform.RemoveUnusedFunctions(entry_functions=["other"])(mod)] == ["other"]


def test_a_pipeline_as_in_tvm() -> None:
    function = relay.Function([x], x * (relay.const(1.0) + relay.const(2.0)) + relay.const(0.0))
    mod = relay.IRModule.from_expr(function)
    names: list[str] = []

    @transform.module_pass(opt_level=0, name="Look", required=["FoldConstant"])
    def look(mod: relay.IRModule, ctx: transform.PassContext) -> relay.IRModule:
        names.append("Look")
        return mod

    seq = transform.Sequential([relay.transform.ToANormalForm(), look, relay.transform.ToGraphNormalForm(), relay.transform.SimplifyExpr()])
    with transform.PassContext(opt_level=3):
        made = seq(mod)
    assert names == ["Look"]
    relay.assert_structural_equal(made["main"], relay.Function([x], x * relay.const(3.0)))


def test_decorators() -> None:
    @relay.transform.function_pass(opt_level=1, name="Same")
    def same(func: relay.Function, mod: relay.IRModule, ctx: transform.PassContext) -> relay.Function:
        return func

    assert isinstance(same, relay.transform.FunctionPass)
    assert "Same" in str(same)
