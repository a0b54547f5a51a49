"""FoldConstant: values computed from constants and shapes alone."""

import pytest

from passat import relay
from passat.ir.expr import Constant, Expr
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.rules.passes.simplify import fold_constant
from tests.rules.building import func, ops, splat, var
from tests.rules.passes.golden import becomes, program, run, stays
from tests.rules.running import operators

X = "%x: (2, 3)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("add(%x, multiply(2f, negative(3f)))", "add(%x, -6f)", id="calls on constants"),
        pytest.param("%0 = (1f, 2f); add(%x, %0.1)", "add(%x, 2f)", id="fields of tuples"),
        pytest.param('multiply(%x, cast(ndarray_size(%x), dtype="float32"))', "multiply(%x, 6f)", id="the size of a tensor"),
        pytest.param('multiply(%x, cast(take(shape_of(%x), 1, axis=0), dtype="float32"))', "multiply(%x, 3f)", id="a dimension"),
        pytest.param("where(less(1f, 2f), %x, exp(%x))", "where(True, %x, exp(%x))", id="a comparison"),
        pytest.param("divide(%x, divide(1f, 0f))", "divide(%x, inff)", id="an infinity, as it is in a run"),
    ],
)
def test_known_values_are_folded(before: str, after: str) -> None:
    becomes(fold_constant(), X, before, after)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("%0 = nn.dropout(ones(shape=[2, 3])); add(%x, %0.0)", id="a stateful call"),
        pytest.param("add(%x, ones(shape=[2, 3]))", id="a call without operands"),
        pytest.param(
            "%0 = fn (%y: Tensor[(2, 3), float32], Primitive=1) { add(%y, multiply(2f, 3f)) }; %0(%x)", id="within a primitive function"
        ),
        pytest.param('add(%x, cast(divide(1, 0), dtype="float32"))', id="an integer divided by 0"),
        pytest.param("tanh(exp(%x))", id="no constant"),
    ],
)
def test_calls_that_are_not_folded(body: str) -> None:
    stays(fold_constant(), X, body)


def test_a_size_that_is_not_known_is_computed_in_the_run() -> None:
    stays(fold_constant(), "%x: (?, 3)", "shape_of(%x)")
    stays(fold_constant(), "%x: (?, 3)", "ndarray_size(%x)")


def test_the_file_does_not_grow_by_more_than_is_allowed() -> None:
    """A constant with different elements is written in full."""
    body = "add(%x, cumsum(full(2f, shape=[3]), axis=0))"
    assert operators(run(fold_constant(), program(X, body))["main"]) == ["add"]
    kept = run(fold_constant(), program(X, body), rules__max_growth=4)["main"]
    assert "cumsum" in operators(kept)


def test_one_value_repeated_stays_one() -> None:
    made = run(fold_constant(), program(X, "add(%x, multiply(full(2f, shape=[10, 1, 2, 3]), 3f))"))["main"]
    assert operators(made) == ["add"]
    (found,) = (node.data for node in post_order(made) if isinstance(node, Constant))
    assert (found.shape, found.uniform(), found.is_splat) == ((10, 1, 2, 3), 6.0, True)


def test_variables_bound_to_constants() -> None:
    found = run(fold_constant(), program(X, "let %a = add(1f, 2f); multiply(%x, %a)"))["main"]
    assert operators(found) == ["multiply"]
    assert "3f" in str(found)


@pytest.mark.parametrize(("signature", "size"), [("%x: ()", 1), ("%x: (0, 3)", 0), ("%x: (2, 3)", 6)])
def test_a_number_has_one_element(signature: str, size: int) -> None:
    """In TVM a scalar has none."""
    becomes(fold_constant(), signature, 'cast(ndarray_size(%x), dtype="int32")', str(size))


def test_a_variable_bound_to_a_tuple_of_constants() -> None:
    """TVM inlines variables that are bound to constants, and not to tuples; here a field of such a tuple is its constant."""
    found = run(fold_constant(), program("%x: (2, 3)", "let %a = (1f, 2f); add(%x, %a.1)"))["main"]
    assert operators(found) == ["add"]
    assert "2f" in str(found)


def test_a_condition_is_computed_and_both_branches_stay() -> None:
    body = "if (less(1f, 2f)) { tanh(%x) } else { exp(%x) }"
    becomes(fold_constant(), X, body, "if (True) { tanh(%x) } else { exp(%x) }")


def test_an_expression_alone() -> None:
    x = var("x", ())
    three = relay.transform.FoldConstantExpr(splat(1.0) + splat(2.0), IRModule.from_expr(func(x)))
    assert isinstance(three, Constant)
    assert three.data.numpy() == 3
    nothing = ops.tanh(x)
    assert relay.transform.FoldConstantExpr(nothing, IRModule.from_expr(func(x))) is nothing
    real = ops.qnn.dequantize(splat(3, (), "int8"), splat(0.5), splat(1, (), "int32"))
    assert relay.transform.FoldConstantExpr(real, IRModule.from_expr(func(x))) is real
    one = relay.transform.FoldConstantExpr(real, IRModule.from_expr(func(x)), fold_qnn=True)
    assert isinstance(one, Constant)
    assert one.data.numpy() == 1


def test_a_long_chain() -> None:
    body: Expr = splat(1.0)
    for _ in range(5000):
        body = ops.negative(body)
    assert isinstance(run(fold_constant(), IRModule.from_expr(func(body)))["main"].body, Constant)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("if (less(1f, 2f)) { add(%x, multiply(2f, 3f)) } else { exp(%x) }", "add(%x, 6f)", id="the first branch"),
        pytest.param("if (less(2f, 1f)) { tanh(%x) } else { exp(%x) }", "exp(%x)", id="the second branch"),
        pytest.param(
            "if (True) { if (less(2f, 1f)) { tanh(%x) } else { add(%x, if (True) { 1f } else { 2f }) } } else { exp(%x) }",
            "add(%x, 1f)",
            id="nested branches",
        ),
        pytest.param(
            "if (less(if (True) { 1f } else { 3f }, 2f)) { tanh(%x) } else { exp(%x) }",
            "tanh(%x)",
            id="a condition that a taken branch makes known",
        ),
    ],
)
def test_branches_of_constant_conditions_are_taken(before: str, after: str) -> None:
    becomes(fold_constant(branches=True), X, before, after)


def test_branches_of_other_conditions_stay() -> None:
    stays(fold_constant(branches=True), X, "if (less(take(reshape(%x, newshape=[6]), 0, axis=0), 2f)) { tanh(%x) } else { exp(%x) }")
