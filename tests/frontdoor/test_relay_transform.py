"""`relay.transform`: passes under Relay's names, with its levels, required passes and arguments."""

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from passat import relay, transform
from passat.ir.traverse import post_order
from passat.passmgr import PassOptionError, list_passes

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
REQUIRED = {"AnnotateTarget": ("dnnl",), "ConvertLayout": ({"nn.conv2d": ["NHWC", "default"]},), "SplitArgs": (100,)}
"""The required arguments of passes."""
NO_CALLS = {"FirstOrderGradient", "LazyGradientInit", "UnCPS"}
"""Passes that reject a program with a call of a global function."""


@pytest.mark.parametrize("name", LEVELS)
def test_name_and_level(name: str) -> None:
    made = getattr(relay.transform, name)()
    assert isinstance(made, transform.Pass)
    assert (made.info.name, made.info.opt_level) == (name, LEVELS[name])


def test_every_pass_that_is_registered_is_found() -> None:
    for entry in list_passes():
        if entry.key.startswith("relay._transform."):
            assert isinstance(getattr(relay.transform, entry.name)(*REQUIRED.get(entry.name, ())), transform.Pass)


@pytest.mark.parametrize("name", sorted({entry.name for entry in list_passes() if entry.key.startswith("relay._transform.")} - NO_CALLS))
def test_a_pass_by_itself_knows_what_called_functions_return(name: str) -> None:
    callee, y = relay.GlobalVar("relu"), relay.var("y", shape=(2,))
    mod = relay.IRModule({"main": relay.Function([x], callee(x) + relay.const(0.0)), callee: relay.Function([y], relay.nn.relu(y))})
    before = mod["main"]
    getattr(relay.transform, name)(*REQUIRED.get(name, ()))(mod)
    relay.transform.InferType()(mod)
    assert repr(before.checked_type) == "fn (Tensor[(2,), float32]) -> Tensor[(2,), float32]"


def functions() -> dict[str, Callable[..., Any]]:
    """The functions of `relay.transform` that create a pass, and the classes of passes."""
    found = {name: getattr(relay.transform, name) for name in dir(relay.transform) if name[:1].isupper()}
    passes = {entry.name for entry in list_passes()}
    return {name: function for name, function in found.items() if name in passes and callable(function)}


FUNCTIONS = functions()
WRONG: list[tuple[str, dict[str, object]]] = [
    ("AnnotateTarget", {"targets": 3}),
    ("AnnotateTarget", {"targets": ["dnnl", 3]}),
    ("AnnotateTarget", {"targets": "dnnl", "include_non_call_ops": "yes"}),
    ("CombineParallelBatchMatmul", {"min_num_branches": "two"}),
    ("CombineParallelConv2D", {"min_num_branches": "two"}),
    ("CombineParallelDense", {"min_num_branches": "two"}),
    ("ConvertLayout", {"desired_layouts": 3}),
    ("ConvertLayout", {"desired_layouts": ["nn.conv2d"]}),
    ("ConvertLayout", {"desired_layouts": {"nn.conv2d": "NHWC"}}),
    ("EliminateCommonSubexpr", {"fskip": 3}),
    ("FakeQuantizationToInteger", {"hard_fail": "yes"}),
    ("FakeQuantizationToInteger", {"optional_qnn_ops": 3}),
    ("FoldConstant", {"fold_qnn": "yes"}),
    ("Legalize", {"legalize_map_attr_name": 3}),
    ("MergeComposite", {"pattern_table": 3}),
    ("RemoveUnusedFunctions", {"entry_functions": "main"}),
    ("RemoveUnusedFunctions", {"entry_functions": 3}),
    ("SplitArgs", {"max_function_args": "many"}),
]
"""Options of the wrong type."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_passes_have_the_name_of_the_pass(name: str) -> None:
    function = FUNCTIONS[name]
    assert (function.__name__, function.__qualname__) == (name, name)
    assert function.__doc__
    assert pickle.loads(pickle.dumps(function)) is function is getattr(relay.transform, name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_that_do_not_fit_are_errors_that_name_the_pass(name: str) -> None:
    function = FUNCTIONS[name]
    for args, options in (((), {"unknown": 3}), ((3,) * 20, {})):
        if args and any(each.kind is each.VAR_POSITIONAL for each in inspect.signature(function).parameters.values()):
            continue
        with pytest.raises(TypeError, match=rf"\b{name}\b"):
            function(*args, **options)
    if name in REQUIRED:
        with pytest.raises(TypeError, match=rf"\b{name}\b.* missing"):
            function()


@pytest.mark.parametrize(("name", "options"), WRONG)
def test_options_of_wrong_types_are_errors_that_name_the_pass(name: str, options: dict[str, object]) -> None:
    with pytest.raises(PassOptionError, match=rf"of the pass {name}: (the value of .*: )?expected"):
        FUNCTIONS[name](**options)


def test_every_function_with_options_has_wrong_ones() -> None:
    with_options = {name for name, function in FUNCTIONS.items() if inspect.isfunction(function) and inspect.signature(function).parameters}
    assert with_options == {name for name, _ in WRONG}


def test_split_args_of_a_program_without_types() -> None:
    parts = relay.Tuple([relay.nn.relu(x)] * 9)
    made = relay.transform.SplitArgs(8)(relay.IRModule({"main": relay.Function([x], relay.concatenate(parts, axis=0))}))
    assert "annotation.stop_fusion" in str(made)


def test_an_unknown_pass() -> None:
    with pytest.raises(AttributeError, match=r"relay.transform has no pass 'PlanDevices'; `passat passes` lists all passes"):
        relay.transform.PlanDevices  # type: ignore[attr-defined]


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


def test_optimize_runs_what_a_build_runs_before_fusion() -> None:
    weight = relay.var("w", shape=(3,))
    data = relay.var("x", shape=(3,))
    mod = relay.IRModule.from_expr(relay.Function([data, weight], relay.exp(data + weight)))
    with transform.PassContext(opt_level=3, required_pass=["FastMath"]):
        made, params = relay.optimize(mod, target="llvm", params={"w": np.zeros(3, np.float32)})
    assert "fast_exp(%x)" in made.astext()
    assert params == {}
    assert "%w" in mod.astext()
    with pytest.raises(ValueError, match="unsupported target"):
        relay.optimize(mod, target="cuda")


def test_parameters_of_called_literals_get_annotations() -> None:
    y, z = relay.var("y"), relay.var("z")
    inner = relay.Function([y], relay.nn.relu(y))
    outer = relay.Function([z], relay.Call(inner, [z]))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Call(outer, [x])))
    made = relay.transform.InferType()(mod)
    found = [node for node in post_order(made["main"]) if isinstance(node, relay.Function)]
    assert [node.params[0].type_annotation for node in found] == [x.type_annotation] * 3  # the inner literal, the outer one, and main
    assert relay.transform.InferType()(made) is made
