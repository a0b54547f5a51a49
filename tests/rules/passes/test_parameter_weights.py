"""FoldScaleAxis and CombineParallel* on weights that are parameters: as in Relay, if that makes the program cheaper."""

import numpy as np
import pytest

from passat import relay
from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.traverse import post_order
from passat.passmgr import PassContext, get_pass
from passat.relay import nn
from passat.rules.cost import ROOFLINE, program_cost
from tests.rules.running import assert_equal_in_value, operators

image, rows = relay.var("x", shape=(1, 4, 24, 24)), relay.var("x", shape=(64, 8))
kernel, turned, grouped = (relay.var("w", shape=shape) for shape in ((6, 4, 3, 3), (4, 6, 3, 3), (8, 2, 3, 3)))
weight, bias, column_bias = relay.var("w", shape=(3, 8)), relay.var("b", shape=(6,)), relay.var("b", shape=(6, 1, 1))


def column(size: int) -> Expr:
    return relay.const(np.arange(1, size + 1, dtype=np.float32).reshape(size, 1, 1))


def after(function: Function, name: str, cost: str = "roofline") -> Function:
    infer_type(function)
    with PassContext(opt_level=4, config={"rules.cost": cost}):
        made = get_pass(name)(IRModule.from_expr(function))["main"]
    assert_equal_in_value(function, made, exact=False)
    assert cost != "roofline" or program_cost(made, ROOFLINE) <= program_cost(function, ROOFLINE)
    return made


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Function([image, kernel], nn.conv2d(image, kernel) * column(6)), ["multiply", "nn.conv2d"]),
        (Function([image, kernel], nn.conv2d(image * column(4), kernel)), ["multiply", "nn.conv2d"]),
        (Function([image, kernel], nn.conv2d(nn.relu(image * column(4)), kernel)), ["nn.relu", "multiply", "nn.conv2d"]),
        (Function([image, grouped], nn.conv2d(image * column(4), grouped, groups=2)), ["multiply", "nn.conv2d"]),
        (Function([image, turned], nn.conv2d_transpose(image, turned) * column(6)), ["multiply", "nn.conv2d_transpose"]),
        (
            Function([image, kernel], nn.bias_add(nn.conv2d(image, kernel), relay.const(np.ones(6, np.float32))) * column(6)),
            ["multiply", "nn.conv2d", "nn.bias_add"],
        ),
        (
            Function([image, kernel, bias], nn.bias_add(nn.conv2d(image, kernel), bias) * column(6)),
            ["multiply", "multiply", "nn.conv2d", "nn.bias_add"],
        ),
        (
            Function([image, kernel, column_bias], nn.relu(nn.conv2d(image, kernel) + column_bias) * column(6)),
            ["multiply", "multiply", "nn.conv2d", "add", "nn.relu"],
        ),
        (Function([rows, weight], nn.dense(rows, weight) * relay.const(np.array([1.0, 2.0, 4.0], np.float32))), ["multiply", "nn.dense"]),
        (Function([rows, weight], nn.dense(rows * relay.const(np.arange(8, dtype=np.float32)), weight)), ["multiply", "nn.dense"]),
    ],
)
def test_scales_fold_into_parameters(function: Function, expected: list[str]) -> None:
    made = after(function, "FoldScaleAxis")
    assert sorted(operators(made)) == sorted(expected)
    scaled = infer_type(made.params[1] * relay.const(1.0)).checked_type
    assert any(call.checked_type == scaled for call in _calls(made, "multiply"))


def _calls(function: Function, name: str) -> list[relay.Call]:
    return [
        node for node in post_order(function) if isinstance(node, relay.Call) and isinstance(node.op, relay.Op) and node.op.name == name
    ]


@pytest.mark.parametrize("scale", [relay.const(2.0), relay.const(np.arange(512, dtype=np.float32))])
def test_a_weight_that_is_larger_than_the_data_is_left_alone(scale: Expr) -> None:
    large = relay.var("w", shape=(512, 512))
    vector = relay.var("x", shape=(1, 512))
    for body in (nn.dense(vector, large) * scale, nn.dense(vector * scale, large)):
        made = after(Function([vector, large], body), "FoldScaleAxis")
        assert all(call.checked_type == relay.TensorType((1, 512)) for call in _calls(made, "multiply"))


def test_convolutions_with_parameters_are_combined_if_cheaper() -> None:
    wide = relay.var("x", shape=(1, 64, 96, 96))
    small = [relay.var(f"w{i}", shape=(2, 64, 1, 1)) for i in range(4)]
    made = after(Function([wide, *small], relay.Tuple([nn.conv2d(wide, each) for each in small])), "CombineParallelConv2D")
    assert operators(made).count("nn.conv2d") == 1
    assert "concatenate" in operators(made)
    kernels = [relay.var(f"w{i}", shape=(6, 4, 3, 3)) for i in range(4)]
    function = Function([image, *kernels], relay.Tuple([nn.conv2d(image, each) for each in kernels]))
    assert operators(after(function, "CombineParallelConv2D")).count("nn.conv2d") == 4
    assert operators(after(function, "CombineParallelConv2D", "nodes")).count("nn.conv2d") == 1


@pytest.mark.parametrize("name", ["CombineParallelDense", "CombineParallelBatchMatmul"])
def test_products_with_parameters_are_combined(name: str) -> None:
    if name == "CombineParallelDense":
        weights = [relay.var(f"w{i}", shape=(3, 8)) for i in range(4)]
        function = Function([rows, *weights], relay.Tuple([nn.dense(rows, each) for each in weights]))
    else:
        stack = relay.var("x", shape=(2, 5, 8))
        weights = [relay.var(f"w{i}", shape=(2, 3, 8)) for i in range(4)]
        function = Function([stack, *weights], relay.Tuple([nn.batch_matmul(stack, each) for each in weights]))
    made = after(function, name, "nodes")
    assert sorted(set(operators(made))) == ["concatenate", "nn.dense" if name == "CombineParallelDense" else "nn.batch_matmul", "split"]


def test_relay_combines_at_any_cost_and_slices() -> None:
    kernels = [relay.var(f"w{i}", shape=(size, 4, 3, 3)) for i, size in enumerate((6, 8))]
    factors = [relay.var(f"s{i}", shape=(size, 1, 1)) for i, size in enumerate((6, 8))]
    bodies = [nn.relu(nn.conv2d(image, kernel) * factor) for kernel, factor in zip(kernels, factors, strict=True)]
    module = relay.IRModule.from_expr(Function([image, *kernels, *factors], relay.Tuple(bodies)))
    made = relay.transform.CombineParallelConv2D(2)(relay.transform.InferType()(module))["main"]
    found = [node for node in post_order(made) if isinstance(node, Call)]
    names = [call.op.name for call in found if isinstance(call.op, Op)]
    assert sorted(names) == ["concatenate", "concatenate", "multiply", "nn.conv2d", "nn.relu", "strided_slice", "strided_slice"]
    assert [call.attrs.channels for call in found if call.op is get_op("nn.conv2d")] == [14]
