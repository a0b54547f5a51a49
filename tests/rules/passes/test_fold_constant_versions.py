"""FoldConstant as TVM's versions do it."""

from typing import Any as AnyValue

import pytest

from passat import relay
from passat.ir.expr import Constant, Expr
from passat.ir.module import IRModule
from passat.passmgr import parse_pipeline, pipeline_text
from passat.rules.passes import fold_constant
from tests.rules.building import func, ops, splat, tup, var
from tests.rules.passes.golden import becomes, run, stays

NEWER = ("v0.7", "v0.8", "v0.18")


@pytest.mark.parametrize("version", ["v0.5", "v0.7", "v0.8", "v0.18"])
class TestAllVersions:
    """What no version does otherwise."""

    def test_calls_on_constants(self, version: str) -> None:
        becomes(fold_constant(version), "%x: ()", "add(%x, multiply(2f, negative(3f)))", "add(%x, -6f)")

    def test_fields_of_tuples(self, version: str) -> None:
        becomes(fold_constant(version), "%x: (), %y: ()", "%0 = (%x, add(1f, 2f)); multiply(%0.0, %0.1)", "multiply(%x, 3f)")

    def test_variables_bound_to_constants(self, version: str) -> None:
        becomes(fold_constant(version), "%x: ()", "let %c = add(1f, 2f); add(%x, multiply(%c, %c))", "add(%x, 9f)")
        # Only a constant is put in the place of a variable, and not a tuple of them.
        stays(fold_constant(version), "%x: ()", "let %c = (1f, 2f); add(%x, %c.0)")

    def test_what_is_not_evaluated(self, version: str) -> None:
        stays(fold_constant(version), "%x: ()", "add(%x, sum(zeros(shape=[3])))")
        stays(fold_constant(version), "%x: ()", "add(%x, nn.dropout(1f).0)")
        stays(fold_constant(version), "%x: ()", "%0 = fn (%y: float32, Primitive=1) { add(%y, add(1f, 2f)) }; %0(%x)")

    def test_equal_expressions_stay_apart(self, version: str) -> None:
        becomes(
            fold_constant(version),
            "%x: (3)",
            "%0 = tanh(%x); %1 = tanh(%x); (%0, %1, add(1f, 2f))",
            "%0 = tanh(%x); %1 = tanh(%x); (%0, %1, 3f)",
            sharing=True,
        )

    def test_pipeline_text(self, version: str) -> None:
        text = f"FoldConstant{{version={version}}}"
        assert pipeline_text(parse_pipeline(text)) == text


def test_v07_skips_what_is_uniform() -> None:
    body = "add(%x, add(zeros_like(1f), full_like(1f, 2f)))"
    stays(fold_constant("v0.7"), "%x: ()", body)
    for version in ("v0.5", "v0.8", "v0.18"):
        becomes(fold_constant(version), "%x: ()", body, "add(%x, 2f)")


def test_shapes_are_read_from_types_since_v07() -> None:
    x, size = var("x", (2, 3)), var("n", (), "int32")
    body = ops.multiply(ops.ndarray_size(x, dtype="int32"), size)
    for version in NEWER:
        made = folded(version, body)
        assert made.args[0].data.numpy() == 6
    assert folded("v0.5", body).args[0].op.name == "ndarray_size"


def folded(version: str, body: Expr) -> AnyValue:
    """The body of a function of that body."""
    return run(fold_constant(version), module(body))["main"].body


def module(body: Expr) -> IRModule:
    return IRModule.from_expr(func(body))


def test_branches_are_taken_since_v08() -> None:
    body = "if (less(1f, 2f)) { tanh(%x) } else { exp(%x) }"
    for version in ("v0.8", "v0.18"):
        becomes(fold_constant(version), "%x: ()", body, "tanh(%x)")
    for version in ("v0.5", "v0.7"):
        becomes(fold_constant(version), "%x: ()", body, "if (True) { tanh(%x) } else { exp(%x) }")


def test_an_unknown_version() -> None:
    with pytest.raises(ValueError, match=r"there is no version 'v1'; there are v0.5, v0.7, v0.8, v0.18"):
        fold_constant("v1")


def test_an_expression_alone() -> None:
    x = var("x", ())
    three = relay.transform.FoldConstantExpr(splat(1.0) + splat(2.0), module(x))
    assert isinstance(three, Constant)
    assert three.data.numpy() == 3
    nothing = ops.tanh(x)
    assert relay.transform.FoldConstantExpr(nothing, module(x)) is nothing
    with pytest.raises(ValueError, match="no quantised operators"):
        relay.transform.FoldConstantExpr(nothing, module(x), True)


def test_tuples_of_constants_are_operands() -> None:
    body = ops.concatenate(tup(splat(1.0, (2,)), splat(2.0, (1,))), axis=0)
    made = folded("v0.8", body)
    assert isinstance(made, Constant)
    assert made.data.numpy().tolist() == [1, 1, 2]


def test_a_long_chain() -> None:
    body: Expr = splat(1.0)
    for _ in range(5000):
        body = ops.negative(body)
    made = folded("v0.8", body)
    assert isinstance(made, Constant)
    assert func(made).body is made
