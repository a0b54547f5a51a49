"""nn.attention and nn.rotary_embedding: values compared with ONNX's reference, rejected operands, reading and writing."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from passat.ir.evaluate import evaluate_call
from passat.ir.expr import Call, Tuple
from passat.ir.infer import infer_type
from passat.ir.infer_error import InferError
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.op import Op, get_op
from passat.ir.tensor import Tensor
from tests.rules.building import dims, ops, tup, var

DATA = np.random.default_rng(0)


def model(text: str, opset: int = 23) -> onnx.ModelProto:
    found: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')
    return found


def attention_model(attrs: str, mask: str = "", shared: int = 8) -> onnx.ModelProto:
    given = f", {mask} m" if mask else ""
    head = f"main (float[2, 3, 16] q, float[2, 5, {shared}] k, float[2, 5, {shared}] v{given}) => (float[2, 3, 16] y)"
    return model(f"{head} {{ y = Attention<{attrs}>(q, k, v{', m' if mask else ''}) }}")


def operands(found: onnx.ModelProto) -> dict[str, np.ndarray]:
    feed = {}
    for value in found.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        array = DATA.normal(size=shape).astype(np.float32)
        feed[value.name] = array > -0.5 if value.type.tensor_type.elem_type == onnx.TensorProto.BOOL else array
    return feed


def reference(found: onnx.ModelProto, feed: dict[str, np.ndarray]) -> np.ndarray:
    results = ReferenceEvaluator(found).run(None, feed)
    assert isinstance(results, list)
    return np.asarray(results[0])


def check_agrees(found: onnx.ModelProto, name: str) -> None:
    """Checks that the kernel, and the node written again, have the value of ONNX's reference."""
    feed = operands(found)
    wanted = reference(found, feed)
    body = from_onnx(found)["main"].body
    assert isinstance(body, Call)
    assert body.op is get_op(name)
    assert isinstance(body.op, Op)
    given = iter(feed.values())
    values = [() if isinstance(arg, Tuple) else Tensor.dense(next(given)) for arg in body.args]
    result = evaluate_call(body.op, values, body.attrs, body.checked_type)
    assert isinstance(result, Tensor)
    np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5, atol=1e-6)
    written = to_onnx(from_onnx(found))
    np.testing.assert_allclose(reference(written, feed), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mask", ["", "float[3, 5]", "bool[2, 1, 3, 5]", "float[2, 4, 3, 5]"])
def test_attention(mask: str) -> None:
    check_agrees(attention_model("q_num_heads = 4, kv_num_heads = 2, scale = 0.3", mask), "nn.attention")
    check_agrees(attention_model("q_num_heads = 4, kv_num_heads = 4", mask, shared=16), "nn.attention")


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_positions(interleaved: int) -> None:
    head = "main (float[2, 3, 16] x, float[2, 3, 2] c, float[2, 3, 2] s) => (float[2, 3, 16] y)"
    attrs = f"num_heads = 4, interleaved = {interleaved}"
    check_agrees(model(f"{head} {{ y = RotaryEmbedding<{attrs}>(x, c, s) }}"), "nn.rotary_embedding")


def test_nodes_that_stay_opaque() -> None:
    soft = attention_model("q_num_heads = 4, kv_num_heads = 2, softcap = 2.0")
    causal = attention_model("q_num_heads = 4, kv_num_heads = 2, is_causal = 1")  # three queries, five keys
    four = "main (float[2, 4, 3, 4] q, float[2, 4, 5, 4] k) => (float[2, 4, 3, 4] y) { y = Attention(q, k, k) }"
    for found in (soft, causal, model(four)):
        body = from_onnx(found)["main"].body
        assert isinstance(body, Call)
        assert isinstance(body.op, OpaqueOp)


def test_rows_that_the_mask_empties_are_zero() -> None:
    op = get_op("nn.attention")
    q, mask = var("q", (1, 2, 2)), var("m", (2, 2), "bool")
    call = infer_type(ops.nn.attention(q, q, q, mask, q_num_heads=1, kv_num_heads=1, scale=1.0))
    assert isinstance(call, Call)
    assert isinstance(op, Op)
    x = Tensor.dense(np.ones((1, 2, 2), np.float32))
    found = evaluate_call(op, [x, x, x, Tensor.dense(np.array([[True, False], [False, False]]))], call.attrs, call.checked_type)
    assert isinstance(found, Tensor)
    assert found.numpy().tolist() == [[[1, 1], [0, 0]]]


def test_named_sizes() -> None:
    q, k = var("q", ("batch", "rows", 8)), var("k", ("batch", "keys", 4))
    call = infer_type(ops.nn.attention(q, k, k, tup(), q_num_heads=2, kv_num_heads=1, scale=1.0))
    assert call.checked_type == infer_type(var("r", dims("batch", "rows", 8))).checked_type


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"q_num_heads": 3}, "are not a multiple of"),
        ({"kv_num_heads": 4}, "are not a multiple of"),
        ({"scale": 0.0}, "must be positive"),
        ({"q_num_heads": 4}, "differ in size"),
    ],
)
def test_rejected_operands_of_attention(changes: dict[str, float], reason: str) -> None:
    q, k = var("q", (2, 3, 8)), var("k", (2, 5, 8))
    attrs = {"q_num_heads": 2, "kv_num_heads": 2, "scale": 1.0, **changes}
    with pytest.raises(InferError, match=reason):
        infer_type(ops.nn.attention(q, k, k, tup(), **attrs))


def test_a_mask_that_does_not_broadcast() -> None:
    q, k = var("q", (2, 3, 8)), var("k", (2, 5, 8))
    for mask in (var("m", (3, 4)), var("m", (3, 5), "int64")):
        with pytest.raises(InferError, match="mask"):
            infer_type(ops.nn.attention(q, k, k, mask, q_num_heads=2, kv_num_heads=2, scale=1.0))


def test_rejected_operands_of_rotary_embeddings() -> None:
    x = var("x", (2, 3, 8))
    with pytest.raises(InferError, match="must be"):
        infer_type(ops.nn.rotary_embedding(x, var("c", (2, 3, 3)), var("s", (2, 3, 2)), num_heads=2))
    with pytest.raises(InferError, match="must be even"):
        infer_type(ops.nn.rotary_embedding(var("x", (2, 3, 6)), var("c", (2, 3, 1)), var("s", (2, 3, 1)), num_heads=2))


def test_attention_without_queries() -> None:
    empty, x = Tensor.dense(np.zeros((1, 0, 4), np.float32)), Tensor.dense(np.ones((1, 2, 4), np.float32))
    call = ops.nn.attention(
        var("q", (1, 0, 4)), var("k", (1, 2, 4)), var("v", (1, 2, 4)), Tuple(()), q_num_heads=2, kv_num_heads=2, scale=0.5
    )
    found = evaluate_call(get_op("nn.attention"), [empty, x, x, ()], call.attrs, infer_type(call).checked_type)
    assert isinstance(found, Tensor)
    assert found.shape == (1, 0, 4)
