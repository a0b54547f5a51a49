"""AlterOpLayout with functions that users register for operators: their valid results, and the effects."""

from typing import Any as AnyValue

import numpy as np
import pytest

from passat import relay
from passat.ir.expr import Call, Expr, Function
from passat.relay.testing import TempOpAttr, run_opt_pass
from tests.rules.running import operators

KEY = "FTVMAlterOpLayout"


def network() -> Function:
    x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(4, 4, 3, 3))
    inner = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))
    return relay.Function([x, w], relay.nn.relu(relay.nn.conv2d(inner, w, padding=(1, 1))))


def altered(function: AnyValue) -> Function:
    with TempOpAttr("nn.conv2d", KEY, function):
        made = run_opt_pass(network(), relay.transform.AlterOpLayout())
    assert isinstance(made, Function)
    return made


def test_a_call_becomes_what_the_function_returns() -> None:
    def doubled(attrs: AnyValue, inputs: list[Expr], tinfos: list[AnyValue], out_type: AnyValue) -> Expr:
        assert [type_.shape for type_ in tinfos] == [(1, 4, 8, 8), (4, 4, 3, 3)]
        assert out_type.shape == (1, 4, 8, 8)
        return relay.nn.conv2d(inputs[0], relay.multiply(inputs[1], relay.const(2.0)), **attrs)

    assert operators(altered(doubled)) == ["multiply", "nn.conv2d", "nn.relu", "multiply", "nn.conv2d", "nn.relu"]


def in_layout(layout: str) -> AnyValue:
    def function(attrs: AnyValue, inputs: list[Expr], tinfos: list[AnyValue], out_type: AnyValue) -> Expr:
        return relay.nn.conv2d(inputs[0], inputs[1], **{**attrs, "data_layout": layout, "kernel_layout": "HWIO"})

    return function


def test_other_layouts_are_transposed_to_and_from_with_few_transposes() -> None:
    made = altered(in_layout("NHWC"))
    assert operators(made).count("nn.conv2d") == 2
    body = made.body
    assert isinstance(body, Call)
    assert body.op is relay.op.get("transpose")
    data = [call for call in relay_calls(made, "transpose") if call.args[0] is made.params[0]]
    assert len(data) == 1
    assert operators(made).count("transpose") == 3  # those of the data, the weight and the result


def test_blocks_are_split_and_joined_again_with_the_same_values() -> None:
    made = altered(in_layout("NCHW4c"))
    assert operators(made).count("nn.contrib_conv2d_nchwc") == 2
    inputs = [np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in [(1, 4, 8, 8), (4, 4, 3, 3)]]
    found, wanted = (relay.create_executor().evaluate(function)(*inputs).numpy() for function in (made, network()))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_blocks_of_a_call_are_joined_where_the_function_chooses_whole_axes() -> None:
    x, w = relay.var("x", shape=(1, 2, 8, 8, 4)), relay.var("w", shape=(2, 2, 3, 3, 4, 4))
    blocked = relay.Function([x, w], relay.nn.conv2d(x, w, data_layout="NCHW4c", kernel_layout="OIHW4i4o"))
    with TempOpAttr("nn.conv2d", KEY, in_layout("NHWC")):
        made = run_opt_pass(blocked, relay.transform.AlterOpLayout())
    assert isinstance(made, Function)
    assert "nn.conv2d" in operators(made)
    assert "nn.contrib_conv2d_nchwc" not in operators(made)


def relay_calls(function: Function, name: str) -> list[Call]:
    found: list[Call] = []
    relay.analysis.post_order_visit(
        function, lambda node: found.append(node) if isinstance(node, Call) and node.op is relay.op.get(name) else None
    )
    return found


@pytest.mark.parametrize("function", [lambda *_: None, in_layout("NCHW3c")], ids=["None", "blocks that do not divide"])
def test_a_call_stays(function: AnyValue) -> None:
    relay.assert_structural_equal(altered(function), run_opt_pass(network(), relay.transform.InferType()))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *_: "NHWC", r"FTVMAlterOpLayout of nn\.conv2d must return an expression or None, not a str"),
        (lambda attrs, inputs, *_: inputs[1], r"FTVMAlterOpLayout of nn\.conv2d returned type Tensor\[\(4, 4, 3, 3\), float32\] for"),
    ],
)
def test_what_fits_not_is_an_error(function: AnyValue, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        altered(function)
