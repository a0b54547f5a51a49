"""Expressions: immutable nodes with identity, and Python operators that build them."""

import numpy as np
import pytest

from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var, const, var
from passat.ir.infer import infer_type
from passat.ir.op import Op
from passat.ir.shape import ANY, Any, SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType

x = var("x", shape=(2, 3))


def op_name(expr: Expr) -> str:
    assert isinstance(expr, Call)
    assert isinstance(expr.op, Op)
    return expr.op.name


@pytest.mark.parametrize(
    ("expr", "name"),
    [
        (x + 1.0, "add"),
        (x - x, "subtract"),
        (x * x, "multiply"),
        (x / 2.0, "divide"),
        (-x, "negative"),
        (x < x, "less"),
        (x <= x, "less_equal"),
        (x > x, "greater"),
        (x >= x, "greater_equal"),
        (x @ x, "nn.matmul"),
        (x.astype("int8"), "cast"),
    ],
)
def test_arithmetic_builds_calls(expr: Expr, name: str) -> None:
    assert op_name(expr) == name


@pytest.mark.parametrize("expr", [1.0 + x, 1.0 - x, 1.0 * x, 1.0 / x])
def test_numbers_on_the_left_stay_there(expr: Expr) -> None:
    assert isinstance(expr, Call)
    assert isinstance(expr.args[0], Constant)
    assert expr.args[1] is x


def test_expressions_compare_by_identity() -> None:
    assert x + x != x + x
    assert len({x, x, var("x", shape=(2, 3))}) == 2


def test_calls_and_projections() -> None:
    function = GlobalVar("f")
    call = function(x, x)
    assert (call.op, call.args) == (function, (x, x))
    item = call[1]
    assert isinstance(item, TupleGetItem)
    assert (item.tuple_value, item.index) == (call, 1)
    pair = Tuple([x, call])
    assert (len(pair), pair[1], list(pair)) == (2, call, [x, call])


def test_expressions_other_than_tuples_have_no_length_to_iterate_over() -> None:
    with pytest.raises(TypeError, match=r"an expression has no known length; take its parts with expr\[i\]"):
        list(x + x)


def test_types_are_known_after_inference_only() -> None:
    total = x + x
    with pytest.raises(ValueError, match="has not been inferred yet; run InferType"):
        total.checked_type
    assert infer_type(total).checked_type == TensorType((2, 3))
    assert const(1).checked_type == TensorType((), "int32")
    assert x.checked_type == TensorType((2, 3))
    with pytest.raises(ValueError, match="has not been inferred yet"):
        Function([x], x).func_type


def test_var_takes_a_type_the_name_of_one_or_a_shape() -> None:
    assert var("x").type_annotation is None
    assert var("x", "int8").type_annotation == TensorType((), "int8")
    assert var("x", TensorType((1,))).type_annotation == TensorType((1,))
    assert var("x", shape=("batch", 2, Any()), dtype="bool").type_annotation == TensorType((SymDim.named("batch"), 2, ANY), "bool")
    assert var("x", shape=["2*n + 1"]).type_annotation == TensorType((2 * SymDim.named("n") + 1,))
    with pytest.raises(ValueError, match=r"Can only specify either type_annotation or shape\."):
        var("x", "int8", shape=(1,))


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, "int32"),
        (1.5, None, "float32"),
        (True, None, "bool"),
        (np.zeros(2), None, "float32"),
        (np.zeros(2, np.int64), None, "int32"),
        (np.zeros(2, np.int8), None, "int8"),
        ([1, 2], "float16", "float16"),
        (np.float64(1), "float64", "float64"),
        (Tensor.splat(1, (2,), "int64"), None, "int64"),
    ],
)
def test_const_demotes_to_32_bits_by_default(value: object, dtype: str | None, expected: str) -> None:
    assert const(value, dtype).data.dtype == expected  # type: ignore[arg-type]  # all that const takes


@pytest.mark.parametrize("value", ["text", None, x, object()])
def test_const_rejects_values_that_are_not_numbers(value: object) -> None:
    with pytest.raises(ValueError, match="value has to be scalar or NDArray"):
        const(value)  # type: ignore[arg-type]  # that is the point


def test_functions_are_changed_by_making_others() -> None:
    function = Function([x], x, TensorType((2, 3)), attrs={"Primitive": 1})
    assert function.with_body(x) is function
    other = function.with_body(x + x)
    assert (other.params, other.ret_type, other.attrs) == (function.params, function.ret_type, function.attrs)
    marked = function.with_attr("Inline", 1)
    assert dict(marked.attrs) == {"Primitive": 1, "Inline": 1}
    assert dict(function.attrs) == {"Primitive": 1}
    assert infer_type(function) is function
    assert function.func_type.arg_types == (TensorType((2, 3)),)


def test_attributes_may_be_given_as_a_mapping() -> None:
    call = Call(Var("f"), [x], {"axis": 1})
    assert call.attrs.axis == 1
    assert Call(Var("f"), [x]).attrs is Call(Var("g"), []).attrs


def test_an_expression_shows_itself_as_text() -> None:
    assert repr(x + 1.0) == "free_var %x: Tensor[(2, 3), float32];\nadd(%x, 1f)"
