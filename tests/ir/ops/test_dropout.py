"""Dropout in inference."""

from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import pytest

from passat.ir.expr import Call, Expr, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.op import OpTypeError, get_op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType

if TYPE_CHECKING:
    from tests.ir.ops.conftest import Nodes

X = TensorType((2, 3))
RATIO = Tensor.dense(np.float32(0.25))
TRUE, FALSE = Tensor.dense(np.array(True)), Tensor.dense(np.array(False))


def dropout_of(expr: Expr | None) -> Call:
    assert isinstance(expr, TupleGetItem)
    assert expr.index == 0
    assert isinstance(expr.tuple_value, Call)
    assert expr.tuple_value.op is get_op("nn.dropout")
    return expr.tuple_value


@pytest.mark.parametrize(
    ("version", "operands", "attrs", "rate"),
    [
        (7, [X], {}, 0.5),
        (7, [X], {"ratio": 0.10000000149011612}, 0.1),
        (10, [X], {"ratio": 0.25}, 0.25),
        (12, [X], {}, 0.5),
        (13, [X, RATIO], {"seed": 3}, 0.25),
        (13, [X, RATIO, FALSE], {}, 0.25),
        (22, [X, None, FALSE], {}, 0.5),
    ],
)
def test_inference_keeps_the_data_and_the_rate(
    nodes: "Nodes", version: int, operands: list[AnyValue], attrs: dict[str, AnyValue], rate: float
) -> None:
    expr = nodes.read("Dropout", version, operands, **attrs)
    assert dropout_of(expr).attrs.rate == rate
    assert expr is not None
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(nodes.evaluate(expr, {"x0": x}), x)
    for opset in (7, 10, 12, 13, nodes.runtime):
        model = nodes.write(expr, opset)
        assert [node.op_type for node in model.graph.node] == ["Dropout"]
        np.testing.assert_array_equal(nodes.run(model, {"x0": x}), x)
        again = nodes.read("Dropout", opset, [X, *map(Tensor.dense, _constants(nodes, expr, opset))], **_ratio(nodes, expr, opset))
        assert dropout_of(again).attrs == dropout_of(expr).attrs


def _constants(nodes: "Nodes", expr: Expr, opset: int) -> list[np.float32]:
    return [np.float32(np.frombuffer(tensor.raw_data, np.float32)[0]) for tensor in nodes.write(expr, opset).graph.initializer]


def _ratio(nodes: "Nodes", expr: Expr, opset: int) -> dict[str, float]:
    return {attribute.name: attribute.f for attribute in nodes.write(expr, opset).graph.node[0].attribute}


@pytest.mark.parametrize(
    ("version", "operands", "n_outputs", "attrs"),
    [
        (13, [X, RATIO, TRUE], 1, {}),
        (13, [X, None, TensorType((), "bool")], 1, {}),
        (13, [X, TensorType(())], 1, {}),
        (13, [X], 2, {}),
        (7, [X], 2, {}),
        (7, [X], 1, {"is_test": 1}),
    ],
)
def test_opaque_nodes(nodes: "Nodes", version: int, operands: list[AnyValue], n_outputs: int, attrs: dict[str, AnyValue]) -> None:
    assert nodes.read("Dropout", version, operands, n_outputs, **attrs) is None


def test_it_is_stateful_and_has_a_mask(nodes: "Nodes") -> None:
    op = get_op("nn.dropout")
    assert op.stateful
    call = infer_type(op(Var("x", X)))
    assert call.checked_type == TupleType([X, X])
    np.testing.assert_array_equal(nodes.evaluate(infer_type(call[1]), {"x": np.zeros((2, 3), np.float32)}), np.ones((2, 3)))


def test_invalid_operands_are_reported() -> None:
    op = get_op("nn.dropout")
    with pytest.raises(OpTypeError, match=r"rate must be between 0 and 1, but is 1\.5"):
        op.infer([X], op.bind_attrs({"rate": 1.5}))
    with pytest.raises(OpTypeError, match="data must have a floating-point type, but has int8"):
        op.infer([X.with_dtype("int8")], op.bind_attrs({}))
