"""Types of the results of ONNX Runtime's own operators, for which the onnx package has no schemas.

Quantizers, optimizers and exporters for ONNX Runtime write them: in the domain com.microsoft, in com.microsoft.nchwc (convolutions of
blocks of channels, in models that ONNX Runtime optimized and saved), and SimplifiedLayerNormalization in the standard one. This is a table
although ONNX Runtime infers these types itself: models are also read without it, calls are typed again while rules rewrite their operands,
and ONNX Runtime neither adds named sizes nor knows the shapes of all keys and values. The tests compare the table with the results of ONNX
Runtime's kernels. Operators that ONNX Runtime only computes on other devices are not listed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeAlias

import passat.ir.ops  # noqa: F401  # importing registers the readers
from passat.ir.expr import Expr, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.onnx.attributes import attribute_kinds
from passat.ir.onnx.opaque import own_attributes
from passat.ir.onnx.value_types import UNKNOWN
from passat.ir.onnx_mapping import READERS, OnnxNode
from passat.ir.shape import ANY, Dim, Shape, broadcast
from passat.ir.types import TensorType, TupleType, Type, tensor_type

DOMAIN: Final = "com.microsoft"
_VERSION: Final = 21
"""The opset of the standard operators to which others are compared."""


class _UnknownError(Exception):
    """The type of a needed operand is unknown, or an attribute is missing or invalid."""


class _Node(NamedTuple):
    """A call: the types of its operands (absent ones are empty tuples), and its attributes."""

    types: Sequence[Type]
    attrs: Mapping[str, AnyValue]

    def has(self, place: int) -> bool:
        return place < len(self.types) and not isinstance(self.types[place], TupleType)

    def tensor(self, place: int) -> TensorType:
        found = self.types[place] if place < len(self.types) else UNKNOWN
        if not isinstance(found, TensorType):
            raise _UnknownError
        return found

    def shape(self, place: int, *ranks: int) -> Shape:
        """The shape of an operand, which must have one of these ranks, if any are given."""
        shape = self.tensor(place).shape
        if ranks and len(shape) not in ranks:
            raise _UnknownError
        return shape

    def number(self, name: str, default: int = -1) -> int:
        """An attribute that is an integer, not negative."""
        found = self.attrs.get(name, default)
        if type(found) is not int or found < 0:
            raise _UnknownError
        return found


_Rule: TypeAlias = Callable[[_Node], Sequence[Type]]


def has_rule(domain: str, op_type: str) -> bool:
    """Whether the types of the results of an operator follow from this table."""
    return op_type in RULES.get(domain, ())


def contrib_types(domain: str, op_type: str, types: Sequence[Type], attrs: Mapping[str, AnyValue]) -> list[Type]:
    """The types of the present results of an operator for which `has_rule`. They are unknown for operands that it does not accept."""
    try:
        found = RULES[domain][op_type](_Node(types, attrs))
    except (_UnknownError, InferError, ValueError, TypeError, LookupError, AttributeError, AssertionError):
        found = ()  # as for standard operators, an operand or attribute is missing or has the wrong kind, or shapes do not match
    return [found[place] if place < len(found) else UNKNOWN for place, there in enumerate(attrs["outputs"]) if there == "1"]


def _like(node: _Node, *, place: int = 0, dtype: int = 0) -> Sequence[Type]:
    """The result has the shape of an operand, the first unless said otherwise, and the element type of an operand."""
    return [TensorType(node.shape(place), node.tensor(dtype).dtype)]


def _rows(data: TensorType) -> Type:
    """A statistic of each row, such as its mean."""
    return TensorType((*data.shape[:-1], 1), "float32")


def _normalized(node: _Node) -> Sequence[Type]:
    """Beside the result, the inverse deviation of each row. Along several axes, ONNX Runtime computes a shape that it does not infer."""
    data, axis = node.tensor(0), node.attrs.get("axis", -1)
    return [*_like(node, dtype=1), _rows(data) if axis in (-1, data.ndim - 1) else UNKNOWN]


def _normalized_sum(node: _Node) -> Sequence[Type]:
    """The normalized sum of the operands, the mean and inverse deviation of each row, and the sum."""
    data = node.tensor(0)
    return [data, _rows(data), _rows(data), data]


def _elementwise(node: _Node, *, places: Sequence[int], dtype: int) -> Sequence[Type]:
    """The shapes of operands are broadcast."""
    shape: Shape = ()
    for place in places:
        shape = broadcast(shape, node.shape(place))
    return [TensorType(shape, node.tensor(dtype).dtype)]


def _quantized(node: _Node) -> Sequence[Type]:
    return [TensorType(node.shape(0), node.tensor(2).dtype if node.has(2) else "uint8")]


def _standard(node: _Node, *, op_type: str, places: Sequence[int], dtype: int, channels_last: bool = False) -> Sequence[Type]:
    """The shape is that of a standard operator on some of the operands, as Passat reads it."""
    shapes = list(map(node.shape, places))
    if channels_last or node.number("channels_last", 0):
        shapes[0] = (*shapes[0][:1], *shapes[0][-1:], *shapes[0][1:-1])
    operands = [Var("", TensorType(shape)) for shape in shapes]  # float32, which each of these operators accepts
    kinds = attribute_kinds(op_type, _VERSION)
    attrs = {name: value for name, value in own_attributes(node.attrs).items() if name in kinds}
    made = READERS[op_type](OnnxNode(op_type, _VERSION, operands, attrs))
    if not isinstance(made, Expr):
        raise _UnknownError
    shape = tensor_type(infer_type(made).checked_type).shape
    if channels_last or node.attrs.get("channels_last"):
        shape = (shape[0], *shape[2:], shape[1])
    return [TensorType(shape, node.tensor(dtype).dtype)]


def _quantized_gemm(node: _Node) -> Sequence[Type]:
    """The result is quantized if it has a zero point."""
    return _standard(node, op_type="Gemm", places=(0, 3), dtype=8 if node.has(8) else 1)


def _quantized_concat(node: _Node) -> Sequence[Type]:
    return _standard(node, op_type="Concat", places=range(2, len(node.types), 3), dtype=1)


def _packed_product(node: _Node) -> Sequence[Type]:
    """The product with a weight that is packed, of `N` columns."""
    data = node.tensor(0)
    return [data.with_shape((*data.shape[:-1], node.number("N")))] if data.shape else []


def _packed_rows(node: _Node) -> Sequence[Type]:
    """Rows of a table whose last axis is packed in bytes."""
    table, at = node.tensor(0), node.attrs.get("gather_axis", 0)
    bits = node.number("bits", 4)
    if type(at) is not int or not -table.ndim <= at < table.ndim or bits not in (2, 4, 8):
        raise _UnknownError
    axis = at % table.ndim
    shape: list[Dim] = list(table.shape)
    if table.dtype == "uint8":
        shape[-1] = shape[-1] * (8 // bits)
    return [TensorType((*shape[:axis], *node.shape(1), *shape[axis + 1 :]), node.tensor(2).dtype)]


def _embeddings(node: _Node, *, table: int, dtype: int) -> Sequence[Type]:
    batch, length = node.shape(0, 2)
    rows = TensorType((batch, length, node.shape(table, 2)[1]), node.tensor(dtype).dtype)
    return [rows, TensorType((batch,), "int32"), rows]


def _attention(node: _Node, *, dtype: int, past: int) -> Sequence[Type]:
    """Attention with the products that make queries, keys and values."""
    batch, length, _ = node.shape(0, 3)
    dtype_ = node.tensor(dtype).dtype
    sizes = node.attrs.get("qkv_hidden_sizes") or (node.shape(1, 2)[1] // 3,) * 3
    heads = node.number("num_heads")
    if not heads or type(sizes) is not tuple or len(sizes) != 3:
        raise _UnknownError
    total = node.shape(past, 5)[3] + length if node.has(past) else length
    if node.attrs.get("past_present_share_buffer"):
        total = ANY
    # ONNX Runtime gives keys the size of values, too.
    return [TensorType((batch, length, sizes[2]), dtype_), TensorType((2, batch, heads, total, sizes[2] // heads), dtype_)]


def _multi_head(node: _Node) -> Sequence[Type]:
    """MultiHeadAttention of separate queries, keys and values: what ONNX Runtime computes on a CPU."""
    query, past = node.tensor(0), node.shape(6, 4)[2] if node.has(6) else 0
    batch, length, width = node.shape(0, 3)
    keys, values = node.shape(1, 3, 4), node.shape(2, 3, 4)
    wide = values[2] if len(values) == 3 else values[1] * values[3]
    results: list[Type] = [query.with_shape((batch, length, wide))]
    heads = node.number("num_heads")
    if heads and len(keys) == len(values) == 3 and not node.has(8):  # 8: keys are written to the memory of former keys
        results += (query.with_shape((batch, heads, past + keys[1], each // heads)) for each in (width, wide))
    return results


def _grouped(node: _Node) -> Sequence[Type]:
    """GroupQueryAttention. The number of keys depends on values."""
    query = node.tensor(0)
    batch, length, width = node.shape(0, 3)
    heads, groups = node.number("num_heads"), node.number("kv_num_heads")
    if not heads or not groups:
        raise _UnknownError
    size = width // heads if node.has(1) else width // (heads + 2 * groups)
    results: list[Type] = [query if node.has(1) else query.with_shape((batch, length, size * heads))]
    for place, quantized in ((3, "k_quant_type"), (4, "v_quant_type")):
        plain = node.tensor(place).dtype == query.dtype if node.has(place) else node.attrs.get(quantized, "NONE") == "NONE"
        if plain:
            results.append(query.with_shape((batch, groups, ANY, size)))
        else:
            results.append(UNKNOWN)
    return results


def _blocked(node: _Node) -> Sequence[Type]:
    """The number of channels is rounded up to whole blocks, whose size depends on the processor."""
    data = node.tensor(0)
    shape = data.shape
    if node.number("channels_last", 0):
        shape = (shape[0], ANY, *shape[1:-1])
    return [data.with_shape((shape[0], ANY, *shape[2:]))]


def _unblocked(node: _Node) -> Sequence[Type]:
    data, channels = node.tensor(0), node.number("channels")
    batch, spatial = data.shape[0], data.shape[2:]
    return [data.with_shape((batch, *spatial, channels) if node.number("channels_last", 0) else (batch, channels, *spatial))]


def _distances(node: _Node) -> Sequence[Type]:
    """The distance of each row of one matrix from each row of another."""
    (rows, _), (columns, _) = node.shape(0, 2), node.shape(1, 2)
    return [node.tensor(0).with_shape((rows, columns))]


def _sampled(node: _Node) -> Sequence[Type]:
    """The image at the places of a grid."""
    (batch, channels, _, _), (_, height, width, _) = node.shape(0, 4), node.shape(1, 4)
    return [node.tensor(0).with_shape((batch, channels, height, width))]


def _hashed(node: _Node) -> Sequence[Type]:
    return [TensorType(node.shape(0), "uint32" if node.number("positive", 1) else "int32")]


def _tokens(node: _Node) -> Sequence[Type]:
    """The tokens of each string, padded to the largest number of them."""
    return [TensorType((*node.shape(0, 1, 2), ANY), "string")]


def _distinct(node: _Node) -> Sequence[Type]:
    """The distinct elements, the place of each element among them, and how often each occurs."""
    data = node.tensor(0)
    return [data.with_shape((ANY,)), TensorType(node.shape(0, 1), "int64"), TensorType((ANY,), "int64")]


RULES: Final[dict[str, dict[str, _Rule]]] = {
    "": {"SimplifiedLayerNormalization": _normalized},
    DOMAIN: {
        "Attention": partial(_attention, dtype=0, past=4),
        "BiasGelu": _like,
        "CDist": _distances,
        "DequantizeLinear": partial(_like, dtype=1),
        "DynamicQuantizeMatMul": partial(_standard, op_type="MatMul", places=(0, 1), dtype=0),
        "EmbedLayerNormalization": partial(_embeddings, table=2, dtype=2),
        "FastGelu": _like,
        "FusedConv": partial(_standard, op_type="Conv", places=(0, 1), dtype=0),
        "FusedGemm": partial(_standard, op_type="Gemm", places=(0, 1), dtype=0),
        "GatherBlockQuantized": _packed_rows,
        "Gelu": _like,
        "GridSample": _sampled,
        "GroupQueryAttention": _grouped,
        "Inverse": _like,
        "MatMulBnb4": _packed_product,
        "MatMulIntegerToFloat": partial(_standard, op_type="MatMul", places=(0, 1), dtype=2),
        "MatMulNBits": _packed_product,
        "MoE": _like,
        "MultiHeadAttention": _multi_head,
        "MurmurHash3": _hashed,
        "NGramRepeatBlock": partial(_like, place=1, dtype=1),
        "NhwcMaxPool": partial(_standard, op_type="MaxPool", places=(0,), dtype=0, channels_last=True),
        "QAttention": partial(_attention, dtype=3, past=8),
        "QEmbedLayerNormalization": partial(_embeddings, table=2, dtype=8),
        "QGemm": _quantized_gemm,
        "QLinearAdd": partial(_elementwise, places=(0, 3), dtype=0),
        "QLinearAveragePool": partial(_standard, op_type="AveragePool", places=(0,), dtype=0),
        "QLinearConcat": _quantized_concat,
        "QLinearConv": partial(_standard, op_type="Conv", places=(0, 3), dtype=7),
        "QLinearGlobalAveragePool": partial(_standard, op_type="GlobalAveragePool", places=(0,), dtype=0),
        "QLinearLeakyRelu": _like,
        "QLinearMul": partial(_elementwise, places=(0, 3), dtype=0),
        "QLinearSigmoid": _like,
        "QLinearSoftmax": _like,
        "QLinearWhere": partial(_elementwise, places=(0, 1, 4), dtype=1),
        "QMoE": _like,
        "QuantizeLinear": _quantized,
        "QuickGelu": _like,
        "RotaryEmbedding": _like,
        "SkipLayerNormalization": _normalized_sum,
        "SkipSimplifiedLayerNormalization": _normalized_sum,
        "Tokenizer": _tokens,
        "Trilu": _like,
        "Unique": _distinct,
    },
    f"{DOMAIN}.nchwc": {
        "AveragePool": partial(_standard, op_type="AveragePool", places=(0,), dtype=0),
        "Conv": partial(_standard, op_type="Conv", places=(0, 1), dtype=0),
        "GlobalAveragePool": partial(_standard, op_type="GlobalAveragePool", places=(0,), dtype=0),
        "GlobalMaxPool": partial(_standard, op_type="GlobalMaxPool", places=(0,), dtype=0),
        "MaxPool": partial(_standard, op_type="MaxPool", places=(0,), dtype=0),
        "ReorderInput": _blocked,
        "ReorderOutput": _unblocked,
    },
}
"""The rule of each operator, by domain."""
