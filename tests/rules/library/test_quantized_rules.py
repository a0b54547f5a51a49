"""Rules that expand quantized operators: each on a program that it rewrites, and on one that it does not; and programs written to ONNX."""

from typing import Any as AnyValue

import numpy as np
import onnxruntime
import pytest

from passat import relay
from passat.ir.expr import Expr
from passat.ir.onnx import OnnxError, to_onnx
from passat.relay import qnn
from passat.rules.library import CanonicalQuantized, MoveTransposes
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each

x, y = var("x", (2, 3), "int8"), var("y", (4, 3), "int8")
real, unknown = var("r", (2, 3)), var("u", ("n", 3))
scale, other = splat(0.5), splat(0.25)
zero, one = splat(0, (), "int32"), splat(1, (), "int32")
channels, zeros = const([0.5, 1.0, 2.0]), const([0, 1, 2], "int32")


def requantized(rounding: str, compute_dtype: str, given: Expr = channels) -> Expr:
    return ops.qnn.requantize(x, given, zeros, other, one, rounding=rounding, compute_dtype=compute_dtype)  # type: ignore[no-any-return]  # as in `ops`


def binary(name: str) -> Expr:
    return getattr(ops.qnn, name)(x, x, scale, zero, other, one, scale, one)  # type: ignore[no-any-return]  # as above


FUNCTIONS = ("abs", "erf", "exp", "log", "rsqrt", "sigmoid", "sqrt", "tanh")
CASES: dict[str, Case] = {
    "CanonicalQuantized.quantize": case(
        ops.qnn.quantize(real, channels, zeros),
        ops.qnn.quantize(real, var("s", ("n",)), zero),
        "the size of Tensor[(n,), float32] is unknown",
    ),
    "CanonicalQuantized.dequantize": case(
        ops.qnn.dequantize(x, channels, zeros), ops.qnn.dequantize(x, scale, zero, out_dtype="float16"), "float16"
    ),
    "CanonicalQuantized.requantize[upward]": case(
        requantized("UPWARD", "int64"), requantized("TONEAREST", "int64"), "the rounding is TONEAREST"
    ),
    "CanonicalQuantized.requantize[nearest]": case(requantized("TONEAREST", "None"), requantized("None", "None"), "the rounding is None"),
    "CanonicalQuantized.requantize_in_floats[upward]": case(
        requantized("None", "float32"), requantized("None", "None"), "computed in fixed point"
    ),
    "CanonicalQuantized.requantize_in_floats[nearest]": case(
        requantized("TONEAREST", "float64"), requantized("TONEAREST", "int64"), "computed in fixed point"
    ),
    "CanonicalQuantized.sums[add]": case(binary("add"), binary("mul"), ""),
    "CanonicalQuantized.sums[subtract]": case(binary("subtract"), binary("mul"), ""),
    "CanonicalQuantized.products[dense]": case(ops.qnn.dense(x, y, one, zero, scale, scale), ops.nn.dense(real, real), ""),
    "CanonicalQuantized.products[batch_matmul]": case(
        ops.qnn.batch_matmul(var("p", (1, 2, 3), "int8"), var("q", (1, 4, 3), "uint8"), one, zero, scale, scale), binary("mul"), ""
    ),
    **{
        f"CanonicalQuantized.of_reals[{name}]": case(getattr(ops.qnn, name)(x, scale, zero, other, one), binary("mul"), "")
        for name in FUNCTIONS
    },
}
TURN = (0, 2, 1)
images = [var(name, (1, 4, 3), "int8") for name in ("i", "j")]
turned = [ops.transpose(image, axes=TURN) for image in images]
shifts = (scale, zero, other, one, scale, one)
planes = [ops.transpose(var(name, (1, 4, 4, 3), "int8"), axes=(0, 3, 1, 2)) for name in ("i", "j")]


def pooled(image: Expr) -> Expr:
    return ops.qnn.avg_pool2d(image, scale, zero, other, one, pool_size=(2, 2))  # type: ignore[no-any-return]  # as above


def joined(*parts: Expr) -> Expr:
    return ops.qnn.concatenate(tup(*parts), tup(scale, other), tup(zero, one), scale, one, axis=1)  # type: ignore[no-any-return]  # as above


CASES |= {
    "MoveTransposes.sink_requantize": case(ops.qnn.requantize(turned[0], scale, zero, other, one), requantized("None", "None"), ""),
    **{
        f"MoveTransposes.sink_quantized_sum[qnn.{name}]": case(
            getattr(ops.qnn, name)(*turned, *shifts),
            getattr(ops.qnn, name)(turned[0], var("k", (1, 3, 4), "int8"), *shifts),
            "",
        )
        for name in ("add", "subtract", "mul")
    },
    "MoveTransposes.sink_quantized_pool": case(pooled(planes[0]), pooled(var("i", (1, 4, 4, 3), "int8")), ""),
    "MoveTransposes.sink_quantized_concat": case(joined(*turned), joined(turned[0], var("k", (1, 3, 4), "int8")), ""),
}
TABLE = pairs(CASES, CanonicalQuantized, MoveTransposes)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def fake_quantized(function: AnyValue) -> relay.IRModule:
    """A network between dequantize and quantize."""
    data = relay.var("x", shape=(4, 8), dtype="int8")
    weight = relay.const(np.random.default_rng(0).integers(-9, 9, (5, 8)).astype("int8"))
    product = relay.nn.dense(
        qnn.dequantize(data, relay.const(0.5), relay.const(3)), qnn.dequantize(weight, relay.const(0.25), relay.const(0))
    )
    return relay.IRModule.from_expr(relay.Function([data], qnn.quantize(function(product), relay.const(0.3), relay.const(-4))))


@pytest.mark.parametrize(
    "function",
    [relay.nn.relu, relay.transpose, lambda y: relay.nn.bias_add(y, relay.const(np.ones(5, np.float32))), lambda y: y - relay.const(0.7)],
)
def test_what_was_fake_quantized_runs_on_onnx_runtime_in_integers(function: AnyValue) -> None:
    integers = relay.transform.FakeQuantizationToInteger(hard_fail=True)(relay.transform.InferType()(fake_quantized(function)))
    with pytest.raises(OnnxError, match="CanonicalizeOps"):
        to_onnx(integers)
    model = to_onnx(qnn.transform.CanonicalizeOps()(integers))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    data = np.random.default_rng(1).integers(-128, 128, (4, 8)).astype("int8")
    (found,) = session.run(None, {"x": data})
    np.testing.assert_array_equal(found, relay.create_executor().evaluate(integers["main"])(data).numpy())
