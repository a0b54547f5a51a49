"""DefuseOps reverses FuseOps; other passes do not change fused and composite functions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

from passat import relay
from passat.ir.equality import structural_equal
from passat.ir.expr import Expr, Function
from passat.ir.hashing import structural_hash
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.sealed import is_sealed
from passat.ir.traverse import post_order
from passat.passmgr import Pass, PassContext, list_passes
from passat.rules.passes import default_pipeline
from passat.rules.passes.fuse_ops import DefuseOps, FuseOps, fuse_ops
from passat.rules.passes.merge_composite import MergeComposite
from passat.rules.pattern import op, tensors
from passat.runtime import create_executor
from tests.rules.building import func, numbers, ops, splat, tup, var
from tests.rules.passes.golden import becomes, program, run, stays
from tests.rules.passes.test_fuse_ops import runs
from tests.rules.program_strategies import programs
from tests.rules.running import assert_equal_in_value, feeds_of
from tests.share import share

CHAIN = "squeeze(exp(add({}, 1f)))"


def test_simple() -> None:
    """Based on TVM's test_defuse_simple: fused at level 2 and defused."""
    module = program("%x: (10, 20)", CHAIN.format("%x"))
    fused = run(FuseOps(2), module)
    assert not structural_equal(fused, module)
    assert structural_equal(run(DefuseOps(), fused), module, sharing=True)


def test_like_inception() -> None:
    """Based on TVM's test_inception_like."""

    def conv(data: Expr, weight: Expr) -> Expr:
        made: Expr = ops.nn.relu(ops.nn.conv2d(data, weight, padding=(1, 1)))
        return made

    def inception(data: Expr, at: int, channels: int) -> Expr:
        parts = [conv(data, var(f"w{at + i}", (4, channels, 3, 3))) for i in range(2)]
        made: Expr = ops.concatenate(tup(*parts), axis=1)
        return made

    function = func(inception(inception(var("x", (1, 4, 6, 6)), 0, 4), 2, 8))
    module = IRModule.from_expr(function)
    for level in (0, 2):
        assert structural_equal(run(DefuseOps(), run(FuseOps(level), module))["main"], function, sharing=True)


def test_a_function_that_is_called_twice() -> None:
    body = "fn (%p0: Tensor[(3), float32], %p1: Tensor[(3), float32], Primitive=1) { add(exp(%p0), %p1) }"
    becomes(
        DefuseOps(),
        "%x: (3), %y: (3)",
        f"%0 = {body}; %0(%0(%x, %y), %0(%y, %x))",
        "%0 = add(exp(%x), %y); %1 = add(exp(%y), %x); add(exp(%0), %1)",
        sharing=True,
    )


def test_a_function_that_a_let_binds() -> None:
    becomes(
        DefuseOps(),
        "%x: (3)",
        "let %f = fn (%p0: Tensor[(3), float32], Primitive=1) { exp(%p0) }; let %y = %f(%x); %f(%y)",
        "let %y = exp(%x); exp(%y)",
    )


def test_a_function_in_a_function() -> None:
    inner = "fn (%q0: Tensor[(3), float32], Primitive=1) { exp(%q0) }"
    becomes(
        DefuseOps(),
        "%x: (3)",
        f"%1 = fn (%p0: Tensor[(3), float32], Primitive=1) {{ %0 = {inner}; negative(%0(%p0)) }}; %1(%x)",
        "negative(exp(%x))",
    )


@pytest.mark.parametrize("attrs", ["", ", Primitive=0", ', Composite="a"', ', Compiler="a"'])
def test_other_functions_stay(attrs: str) -> None:
    stays(DefuseOps(), "%x: (3)", f"%0 = fn (%p0: Tensor[(3), float32]{attrs}) {{ exp(%p0) }}; %0(%x)")


def test_info() -> None:
    info = relay.transform.DefuseOps().info
    assert (info.opt_level, info.name, list(info.required)) == (3, "DefuseOps", ["InferType"])


@settings(max_examples=share(30, 60))
@given(programs(tame=True))
def test_normal_forms_are_processed_too(function: Function) -> None:
    """A-normal form binds fused functions to variables; graph form has them at the call."""
    assume(runs(function))
    fused = run(FuseOps(), IRModule.from_expr(function))
    for form in (relay.transform.ToANormalForm(), relay.transform.ToGraphNormalForm()):
        apart = run(DefuseOps(), form(fused))["main"]
        assert not any(is_sealed(node) for node in post_order(apart))
        assert_equal_in_value(function, apart, exact=True, special=False, rounds=1)


@settings(max_examples=share(20, 40))
@given(programs(tame=True))
def test_the_executor_runs_fused_programs(function: Function) -> None:
    assume(runs(function))
    generator = np.random.default_rng(0)
    feeds = [tensor.numpy() for tensor in feeds_of(function, generator)]
    found = [create_executor().evaluate(made)(*feeds) for made in (function, fuse_ops(function), fuse_ops(function, fuse=False))]
    assert found[0] == found[1] == found[2] or any("nan" in str(value) for value in found)


# ---- other passes

x, y, w, b = tensors("x y w b")
TABLE = (("products", op.nn.bias_add(op.nn.dense(x, w), b)),)
OWN = ("FuseOps", "DefuseOps", "MergeComposite")
REWRITTEN = ("FirstOrderGradient", "ToCPS", "UnCPS")
"""Passes that make another function of a function, or need one of a special form."""
OTHERS = sorted(entry.name for entry in list_passes() if entry.key.startswith("relay._transform.") and entry.name not in (*OWN, *REWRITTEN))
OPTIONS: dict[str, dict[str, Any]] = {
    "AnnotateTarget": {"targets": "none"},
    "ConvertLayout": {"desired_layouts": {"nn.conv2d": ["NHWC", "default"]}},
    "SplitArgs": {"max_function_args": 100},
}


def sealed_program() -> IRModule:
    """Fused and composite functions that every pass would change."""
    data = var("data", (2, 3, 4))
    rows = ops.reshape(ops.reshape(data * splat(1.0), newshape=(8, 3)), newshape=(8, 3))
    dense = ops.nn.bias_add(ops.nn.dense(rows, numbers((5, 3))), numbers((5,)))
    wide = ops.cast(ops.cast(dense, dtype="float64"), dtype="float32")
    doubled = ops.transpose(ops.transpose(wide + splat(0.0), axes=(1, 0)), axes=(1, 0))
    normal = ops.nn.layer_norm(doubled, numbers((5,)), numbers((5,)))
    end = ops.multiply(ops.exp(normal), ops.exp(normal)) + ops.add(splat(1.0), splat(2.0))
    module = IRModule.from_expr(func(end))
    return run(FuseOps(), run(MergeComposite(TABLE), module))


def sealed(module: IRModule) -> set[int]:
    return {structural_hash(node) for node in post_order(module["main"]) if is_sealed(node)}


@pytest.mark.parametrize("name", [*OTHERS, "default_pipeline"])
def test_other_passes_leave_fused_functions_as_they_are(name: str) -> None:
    module = sealed_program()
    before = sealed(module)
    assert len(before) > 3
    made: Pass = default_pipeline() if name == "default_pipeline" else getattr(relay.transform, name)(**OPTIONS.get(name, {}))
    with PassContext(opt_level=4):
        after = made(module)
    infer_type(after["main"])
    assert sealed(after) <= before
    if after["main"].params == module["main"].params:  # AnnotateSpans creates new expressions
        assert_equal_in_value(module["main"], after["main"], exact=False, special=False, rounds=1)


def test_folding_does_not_look_into_them() -> None:
    """Not even if all arguments are constants (relay.md: nothing inside of Primitive=1 functions)."""
    body = "%0 = fn (%p0: Tensor[(3), float32], {}) {{ add(%p0, add(1f, 2f)) }}; %0(%x)"
    for attrs in ("Primitive=1", 'Composite="a"'):
        stays(relay.transform.SimplifyExpr(), "%x: (3)", body.format(attrs))
        stays(relay.transform.FoldConstant(), "%x: (3)", body.format(attrs))
