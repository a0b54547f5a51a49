"""Attention and rotary position embeddings: nn.attention and nn.rotary_embedding.

Both take [batch, sequence, heads * size], with the heads concatenated in each row, as ONNX's operators do with `q_num_heads` or
`num_heads`. The four-dimensional forms of ONNX are imported as opaque.
"""

import math
from collections.abc import Sequence

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Expr, Tuple
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op
from passat.ir.ops.accumulate import Array, narrow, wide
from passat.ir.ops.emitting import only, same_dtype
from passat.ir.shape import Dim, divide, may_equal
from passat.ir.types import TensorType, TupleType, Type, tensor_type

Optional = TensorType | TupleType
"""The type of an absent optional operand."""


def _attention_cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Two matrix products and a softmax per pair of rows."""
    query, key = tensor_type(args[0]), tensor_type(args[1])
    pairs = query.with_shape((*query.shape[:2], key.shape[1]))
    width = elements(query) / max(elements(query.with_shape(query.shape[:2])), 1)
    flops = elements(pairs) * (4.0 * width + 25.0 * attrs.q_num_heads)
    return Cost(flops, sum(map(nbytes, args)) + nbytes(result))


def _heads(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, x.shape[2] // count).transpose(0, 2, 1, 3)


def _attention(
    query: Array, key: Array, value: Array, mask: Array | tuple[()], *, q_num_heads: int, kv_num_heads: int, scale: float, is_causal: bool
) -> Array:
    q, k, v = _heads(wide(query), q_num_heads), _heads(wide(key), kv_num_heads), _heads(wide(value), kv_num_heads)
    k, v = (np.repeat(x, q_num_heads // kv_num_heads, axis=1) for x in (k, v))
    root = q.dtype.type(math.sqrt(scale))
    scores = (q * root) @ (k * root).swapaxes(2, 3)
    nothing, low = scores.dtype.type(0), scores.dtype.type(-np.inf)
    bias = np.zeros((1, 1, 1, 1), scores.dtype)
    if not isinstance(mask, tuple):
        bias = np.where(mask, nothing, low) if mask.dtype == np.bool_ else wide(mask)
    if is_causal:
        bias = bias + np.where(np.tri(*scores.shape[2:], dtype=np.bool_), nothing, low)
    scores = scores + bias
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=low))
    weights = powers / powers.sum(-1, keepdims=True)
    weights = np.where(np.all(np.isneginf(np.broadcast_to(bias, scores.shape)), -1, keepdims=True), nothing, weights)
    result = (weights @ v).transpose(0, 2, 1, 3)
    return narrow(result.reshape(*result.shape[:2], math.prod(result.shape[2:])), query.dtype)


@define_op("nn.attention", kernel=_attention, cost=_attention_cost, pattern=4)
def attention(
    query: TensorType,
    key: TensorType,
    value: TensorType,
    mask: Optional,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    scale: float,
    is_causal: bool = False,
) -> TensorType:
    """Scaled dot-product attention per head: softmax(query * key^T * scale + mask) * value; 0 for fully masked rows.

    * query (B, S, q_num_heads * d), key (B, T, kv_num_heads * d), value (B, T, kv_num_heads * e), result (B, S, q_num_heads * e). Each head
      of key and value serves q_num_heads / kv_num_heads heads of the query (grouped-query attention).
    * `mask` is absent (the empty tuple), or broadcasts to (B, q_num_heads, S, T). A bool mask is true for pairs to keep; a mask of the
      element type of the query is added to the scores.
    * With `is_causal`, row i attends to positions up to i.

    ONNX: Attention (23) with three dimensions, without a cache, soft cap or second output.
    """
    for name, operand in (("query", query), ("key", key), ("value", value)):
        if operand.ndim != 3 or operand.dtype not in FLOATS or operand.dtype != query.dtype:
            raise OpTypeError(f"{name} must have three dimensions and the floating-point type of the query, but is {operand!r}")
    if q_num_heads < 1 or kv_num_heads < 1 or q_num_heads % kv_num_heads:
        raise OpTypeError(f"{q_num_heads} query heads are not a multiple of {kv_num_heads} key and value heads")
    if not scale > 0:
        raise OpTypeError(f"the scale must be positive, not {scale}")
    size = _of_head(query, q_num_heads, "query")
    if not may_equal(size, _of_head(key, kv_num_heads, "key")):
        raise OpTypeError(f"heads of query {query!r} and key {key!r} differ in size")
    if not (
        may_equal(query.shape[0], key.shape[0]) and may_equal(key.shape[0], value.shape[0]) and may_equal(key.shape[1], value.shape[1])
    ):
        raise OpTypeError(f"query {query!r}, key {key!r} and value {value!r} have inconsistent shapes")
    if isinstance(mask, TensorType):
        _check_mask(mask, (query.shape[0], q_num_heads, query.shape[1], key.shape[1]), query.dtype)
    elif mask.fields:
        raise OpTypeError("mask must be a tensor or the empty tuple")
    return query.with_shape((*query.shape[:2], _of_head(value, kv_num_heads, "value") * q_num_heads))


def _of_head(type_: TensorType, heads: int, name: str) -> Dim:
    size = type_.shape[2]
    if isinstance(size, int) and size % heads:
        raise OpTypeError(f"the rows of {name}, {type_!r}, are not divisible into {heads} heads")
    return divide(size, heads)


def _check_mask(mask: TensorType, scores: Sequence[Dim], dtype: str) -> None:
    if mask.dtype not in ("bool", dtype):
        raise OpTypeError(f"mask has element type {mask.dtype}, but must have bool or {dtype}")
    if not 1 <= mask.ndim <= 4 or not all(
        size == 1 or may_equal(size, whole) for size, whole in zip(mask.shape[::-1], scores[::-1], strict=False)
    ):
        raise OpTypeError(f"mask {mask!r} does not broadcast to the scores, {tuple(scores)}")


@from_onnx("Attention")
def _read_attention(node: OnnxNode) -> Expr | None:
    attrs = node.attrs
    if node.n_outputs != 1 or any(node.has(i) for i in range(4, len(node.inputs))) or any(node.type(i).ndim != 3 for i in range(3)):
        return None
    if not only(node, "q_num_heads", "kv_num_heads", "scale", "is_causal") or not same_dtype(*(node.type(i) for i in range(3))):
        return None
    heads, shared, size = attrs.get("q_num_heads", 0), attrs.get("kv_num_heads", 0), node.type(0).shape[2]
    scale = attrs.get("scale", 0.0)
    if not scale:
        if not isinstance(size, int) or heads < 1 or size < heads:
            return None
        scale = 1 / math.sqrt(size // heads)
    mask = node.input(3) if node.has(3) else Tuple(())
    causal = bool(attrs.get("is_causal", 0))
    if causal and node.type(0).shape[1] != node.type(1).shape[1]:
        return None  # versions of the standard align the causal mask of non-square scores differently
    operands = (node.input(0), node.input(1), node.input(2), mask)
    return attention(*operands, q_num_heads=heads, kv_num_heads=shared, scale=float(scale), is_causal=causal, span=node.span)


@to_onnx(attention)
def _write_attention(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 23, attention)
    attrs = {"q_num_heads": call.attrs.q_num_heads, "kv_num_heads": call.attrs.kv_num_heads, "scale": call.attrs.scale}
    if call.attrs.is_causal:
        attrs["is_causal"] = 1
    return emit.node("Attention", [name for name in inputs if name], attrs)


def _rotary_cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Two products and a sum per element."""
    return Cost(3.0 * elements(result), sum(map(nbytes, args)) + nbytes(result))


def _rotary(data: Array, cos: Array, sin: Array, *, num_heads: int, interleaved: bool) -> Array:
    x = wide(data).reshape(*data.shape[:2], num_heads, -1)
    half = x.shape[-1] // 2
    real, imaginary = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    c, s = wide(cos)[:, :, None, :], wide(sin)[:, :, None, :]
    turned = (c * real - s * imaginary, s * real + c * imaginary)
    result = np.stack(turned, -1).reshape(x.shape) if interleaved else np.concatenate(turned, -1)
    return narrow(result.reshape(data.shape), data.dtype)


@define_op("nn.rotary_embedding", kernel=_rotary, cost=_rotary_cost, pattern=1)
def rotary_embedding(data: TensorType, cos: TensorType, sin: TensorType, *, num_heads: int, interleaved: bool = False) -> TensorType:
    """Rotates each head of each row by the given angles, as a complex number.

    The first half of a head is the real part and the second half the imaginary part; with `interleaved`, even and odd elements are. data
    (B, S, num_heads * d), cos and sin (B, S, d / 2). Su et al. 2021. ONNX: RotaryEmbedding (23) with three dimensions, on whole heads,
    without position_ids.
    """
    if data.ndim != 3 or data.dtype not in FLOATS or num_heads < 1:
        raise OpTypeError(f"data must have three dimensions, a floating-point type and at least one head, but is {data!r}")
    size = _of_head(data, num_heads, "data")
    if isinstance(size, int) and size % 2:
        raise OpTypeError(f"the head size must be even, but is {size}")
    wanted = (*data.shape[:2], divide(size, 2))
    for name, operand in (("cos", cos), ("sin", sin)):
        if operand.ndim != 3 or operand.dtype != data.dtype or not all(map(may_equal, operand.shape, wanted)):
            raise OpTypeError(f"{name} must be {wanted} of {data.dtype}, but is {operand!r}")
    return data


@from_onnx("RotaryEmbedding")
def _read_rotary_embedding(node: OnnxNode) -> Expr | None:
    if len(node.inputs) != 3 or node.type(0).ndim != 3 or not only(node, "num_heads", "interleaved", "rotary_embedding_dim"):
        return None
    heads = node.attrs.get("num_heads", 0)
    if node.attrs.get("rotary_embedding_dim", 0) or heads < 1 or any(node.type(i).ndim != 3 for i in (1, 2)):
        return None
    interleaved = bool(node.attrs.get("interleaved", 0))
    return rotary_embedding(*(node.input(i) for i in range(3)), num_heads=heads, interleaved=interleaved, span=node.span)


@to_onnx(rotary_embedding)
def _write_rotary_embedding(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 23, rotary_embedding)
    attrs = {"num_heads": call.attrs.num_heads, **({"interleaved": 1} if call.attrs.interleaved else {})}
    return emit.node("RotaryEmbedding", inputs, attrs)
