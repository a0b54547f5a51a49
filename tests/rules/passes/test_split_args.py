"""SplitArgs: concatenations of more operands than a function may have."""

import numpy as np
import pytest

from passat import relay
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Call, Expr, Function, Var
from passat.ir.module import IRModule
from passat.ir.onnx import to_onnx
from passat.ir.shape import ANY
from passat.ir.types import TensorType
from passat.passmgr import Sequential
from passat.target import Target


def joined(count: int, size: object = 2) -> Function:
    inputs = [Var(f"x{i}", TensorType((size, 3))) for i in range(count)]  # type: ignore[arg-type]  # a number or ANY
    return Function(inputs, relay.concatenate(inputs, 1))


def split(function: Function, limit: int) -> Function:
    module = Sequential([relay.transform.InferType(), relay.transform.SplitArgs(limit), relay.transform.InferType()])(
        IRModule.from_expr(function)
    )
    return module["main"]


def lengths(expr: Expr) -> list[int]:
    """The numbers of operands of nested concatenations, outer first."""
    found = []
    while isinstance(expr, Call):
        assert isinstance(expr.args[0], Call)
        fields = expr.args[0].args[0]
        assert isinstance(fields, relay.Tuple)
        found.append(len(fields))
        expr = fields[0]
    return found


def test_parts_have_the_allowed_number_of_operands() -> None:
    made = split(joined(10), 5)
    assert lengths(made.body) == [4, 4, 4]
    assert made.func_type.ret_type == TensorType((2, 30))


def test_an_operand_of_unknown_size_counts_its_strides() -> None:
    assert lengths(split(joined(5, ANY), 13).body) == [2, 2, 2, 2]


@pytest.mark.parametrize("limit", [0, 100])
def test_short_concatenations_stay(limit: int) -> None:
    function = joined(10)
    assert split(function, limit) is function


def test_a_limit_below_two_operands_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs functions of 3 arguments, but only 2 are allowed"):
        split(joined(4), 2)


def test_functions_that_represent_one_operation_stay() -> None:
    inner = joined(10).with_attr("Primitive", 1)
    inputs = [Var(f"y{i}", TensorType((2, 3))) for i in range(10)]
    function = Function(inputs, inner(*inputs))
    assert split(function, 5) is function


def test_values_and_models_are_the_same() -> None:
    function = joined(7)
    values = [np.full((2, 3), i, np.float32) for i in range(7)]
    made = split(function, 4)
    expected = relay.create_executor().evaluate(function)(*values)
    assert np.array_equal(relay.create_executor().evaluate(made)(*values).numpy(), expected.numpy())
    to_onnx(IRModule.from_expr(made))


def test_fusion_removes_the_barriers() -> None:
    fused = Sequential([relay.transform.FuseOps(), relay.transform.InferType()])(IRModule.from_expr(split(joined(7), 4)))
    assert "stop_fusion" not in fused.astext()
    assert fused.astext().count("concatenate(") == 3


def test_the_limit_of_a_target() -> None:
    function = joined(40)
    assert_structural_equal(split(function, Target("metal").max_function_args), split(function, 31))
