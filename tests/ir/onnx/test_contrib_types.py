"""Types of ONNX Runtime's own operators, compared with the results of its kernels on random operands."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper

from passat import optimize
from passat.ir.expr import Call
from passat.ir.onnx import OnnxError, check, from_onnx, to_onnx
from passat.ir.onnx.contrib_types import DOMAIN, RULES, contrib_types
from passat.ir.onnx.untyped import untyped_values
from passat.ir.onnx.value_types import UNKNOWN, show_type
from passat.ir.shape import ANY, SymDim, evaluate_dim
from passat.ir.tensor import Array
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType, Type, compatible
from tests.share import share

Parse = Callable[..., ModelProto]


class Instance(NamedTuple):
    """A call: its operands (None if absent), its attributes, and the number of its results."""

    operands: list[Array | None]
    attrs: Mapping[str, Any] = MappingProxyType({})
    results: int = 1


class Draw:
    """Draws operands of one instance."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def size(self, least: int = 1, most: int = 4) -> int:
        return int(self.rng.integers(least, most + 1))

    def sizes(self, least: int, most: int) -> list[int]:
        return [self.size() for _ in range(self.size(least, most))]

    def some(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def floats(self, *shape: int, dtype: str = "float32") -> Array:
        return self.rng.standard_normal(shape).astype(dtype)

    def bytes(self, *shape: int, dtype: str = "uint8") -> Array:
        return self.rng.integers(0, 100, shape).astype(dtype)

    def scale(self) -> Array:
        return np.array(0.5, np.float32)

    def operand(self, dtype: str, *shape: int) -> list[Array | None]:
        """A quantized operand with its scale and zero point."""
        return [self.bytes(*shape, dtype=dtype), self.scale(), self.bytes(dtype=dtype)]

    def broadcast(self) -> tuple[list[int], list[int]]:
        """Two shapes that are broadcast to one."""
        shape = self.sizes(0, 4)
        a, b = ([self.some(1, size) if self.rng.random() < 0.4 else size for size in shape] for _ in range(2))
        return a[self.size(0, len(a)) :] if self.rng.random() < 0.5 else a, b


def _rows(draw: Draw, *, bias: bool = False) -> Instance:
    shape = draw.sizes(1, 4)
    dtype = draw.some("float32", "float16") if not bias else "float32"
    x = draw.floats(*shape, dtype=dtype)
    return Instance([x, draw.floats(shape[-1])] if bias else [x])


def _quantized_unary(draw: Draw, **attrs: Any) -> Instance:
    dtype = draw.some("uint8", "int8")
    return Instance([*draw.operand(dtype, *draw.sizes(1, 4)), draw.scale(), draw.bytes(dtype=dtype)], attrs)


def _quantized_binary(draw: Draw) -> Instance:
    dtype = draw.some("uint8", "int8")
    a, b = draw.broadcast()
    return Instance([*draw.operand(dtype, *a), *draw.operand(dtype, *b), draw.scale(), draw.bytes(dtype=dtype)])


def _quantized_where(draw: Draw) -> Instance:
    dtype = draw.some("uint8", "int8")
    a, b = draw.broadcast()
    c = draw.some(a, b, [])
    condition = draw.bytes(*c) > 50
    return Instance([condition, *draw.operand(dtype, *a), *draw.operand(dtype, *b), draw.scale(), draw.bytes(dtype=dtype)])


def _quantized_softmax(draw: Draw) -> Instance:
    found = _quantized_unary(draw, opset=draw.some(11, 13))
    assert found.operands[0] is not None
    rank = found.operands[0].ndim
    return found._replace(attrs={**found.attrs, "axis": draw.size(-rank, rank - 1)})


def _quantized_concat(draw: Draw) -> Instance:
    dtype, shape = draw.some("uint8", "int8"), draw.sizes(1, 4)
    axis = draw.size(-len(shape), len(shape) - 1)
    operands: list[Array | None] = [draw.scale(), draw.bytes(dtype=dtype)]
    for _ in range(draw.size(1, 3)):
        shape[axis] = draw.size()
        operands += draw.operand(dtype, *shape)
    return Instance(operands, {"axis": axis})


def _windows(draw: Draw) -> tuple[list[int], dict[str, Any]]:
    spatial = [draw.size(4, 9) for _ in range(2)]
    attrs: dict[str, Any] = {"kernel_shape": [draw.size(1, 3) for _ in spatial], "strides": [draw.size(1, 3) for _ in spatial]}
    if draw.rng.random() < 0.3:
        attrs["auto_pad"] = draw.some("SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        attrs["pads"] = [draw.size(0, size - 1) for size in attrs["kernel_shape"] * 2]
    return spatial, attrs


def _placed(spatial: list[int], channels: int, *, last: bool, batch: int) -> list[int]:
    return [batch, *spatial, channels] if last else [batch, channels, *spatial]


def _quantized_pool(draw: Draw) -> Instance:
    spatial, attrs = _windows(draw)
    last, dtype = draw.rng.random() < 0.5, draw.some("uint8", "int8")
    attrs |= {"channels_last": int(last), "ceil_mode": draw.size(0, 1)}
    shape = _placed(spatial, draw.size(), last=last, batch=draw.size())
    return Instance([*draw.operand(dtype, *shape), draw.scale(), draw.bytes(dtype=dtype)], attrs)


def _quantized_global_pool(draw: Draw) -> Instance:
    last, dtype = draw.rng.random() < 0.5, draw.some("uint8", "int8")
    shape = _placed([draw.size(), draw.size()], draw.size(), last=last, batch=draw.size())
    return Instance([*draw.operand(dtype, *shape), draw.scale(), draw.bytes(dtype=dtype)], {"channels_last": int(last)})


def _max_pool(draw: Draw) -> Instance:
    spatial, attrs = _windows(draw)
    return Instance([draw.bytes(draw.size(), *spatial, draw.size(), dtype=draw.some("uint8", "int8"))], attrs)


def _quantized_convolution(draw: Draw) -> Instance:
    spatial, attrs = _windows(draw)
    last, channels, made = draw.rng.random() < 0.5, draw.size(), draw.size()
    weight = draw.operand("int8", made, channels, *attrs["kernel_shape"])
    weight[2] = np.zeros((), np.int8)
    shape = _placed(spatial, channels, last=last, batch=draw.size())
    return Instance([*draw.operand("uint8", *shape), *weight, draw.scale(), draw.bytes()], attrs | {"channels_last": int(last)})


def _convolution(draw: Draw) -> Instance:
    spatial, attrs = _windows(draw)
    channels, made = draw.size(), draw.size()
    operands: list[Array | None] = [draw.floats(draw.size(), channels, *spatial), draw.floats(made, channels, *attrs["kernel_shape"])]
    return Instance([*operands, draw.floats(made)], attrs | {"activation": draw.some("Relu", "Tanh")})


def _product(draw: Draw) -> tuple[list[int], int, int]:
    inner = draw.size()
    return [*draw.sizes(1, 3), inner], inner, draw.size()


def _dynamic_product(draw: Draw) -> Instance:
    a, k, n = _product(draw)
    return Instance([draw.floats(*a), draw.bytes(k, n, dtype=draw.some("uint8", "int8")), draw.scale()])


def _integer_product(draw: Draw) -> Instance:
    a, k, n = _product(draw)
    return Instance([draw.bytes(*a), draw.bytes(k, n, dtype="int8"), draw.scale(), draw.scale()])


def _gemm(draw: Draw) -> Instance:
    m, k, n, across, down = draw.size(), draw.size(), draw.size(), draw.size(0, 1), draw.size(0, 1)
    a, b = ((k, m) if across else (m, k)), ((n, k) if down else (k, n))
    return Instance([draw.floats(*a), draw.floats(*b)], {"transA": across, "transB": down, "activation": "Relu"})


def _quantized_gemm(draw: Draw) -> Instance:
    m, k, n, across, down = draw.size(), draw.size(), draw.size(), draw.size(0, 1), draw.size(0, 1)
    first = draw.operand("uint8", *((k, m) if across else (m, k)))
    second = draw.operand("uint8", *((n, k) if down else (k, n)))
    rest: list[Array | None] = draw.some([], [None, draw.scale(), draw.bytes()], [draw.bytes(n, dtype="int32"), draw.scale(), draw.bytes()])
    return Instance([*first, *second, *rest], {"transA": across, "transB": down, "alpha": 1.0})


def _packed_product(draw: Draw) -> Instance:
    n, k, bits, block = draw.size(1, 40), draw.some(32, 64), draw.some(4, 8), 32
    blocks = k // block
    a = draw.floats(*draw.sizes(0, 3), k, dtype=draw.some("float32", "float16"))
    weight = draw.bytes(n, blocks, block * bits // 8)
    return Instance([a, weight, draw.floats(n * blocks, dtype=str(a.dtype))], {"N": n, "K": k, "bits": bits, "block_size": block})


def _bnb_product(draw: Draw) -> Instance:
    n, k, block = draw.some(16, 32), draw.some(32, 64), 16
    attrs = {"N": n, "K": k, "block_size": block, "quant_type": draw.size(0, 1)}
    return Instance([draw.floats(*draw.sizes(1, 3), k), draw.bytes(n * k // 2), draw.floats(n * k // block)], attrs)


def _packed_rows(draw: Draw) -> Instance:
    rank, bits, block = draw.size(2, 3), draw.some(4, 8), 16
    table = [draw.size(2, 4) for _ in range(rank - 1)]
    width = 32
    at = draw.rng.integers(0, table[0], draw.sizes(0, 3)).astype("int64")
    attrs = {"gather_axis": 0, "quantize_axis": draw.some(rank - 1, -1), "block_size": block, "bits": bits}
    return Instance([draw.bytes(*table, width * bits // 8), at, draw.floats(*table, width // block)], attrs)


def _normalized(draw: Draw, *, skip: bool, simple: bool) -> Instance:
    shape = draw.sizes(2, 3) if skip else draw.sizes(1, 4)
    operands: list[Array | None] = [draw.floats(*shape)]
    if skip:
        operands.append(draw.floats(*draw.some(shape, shape[-2:])))
    operands.append(draw.floats(shape[-1]))
    if not simple:
        operands.append(draw.floats(shape[-1]))
    return Instance(operands, {"epsilon": 1e-5} | ({} if skip else {"axis": -1}), draw.some(1, 2, 4) if skip else draw.some(1, 2))


def _rotated(draw: Draw) -> Instance:
    batch, length, heads, size = draw.size(), draw.size(), draw.size(), 2 * draw.size()
    x = draw.some([batch, length, heads * size], [batch, heads, length, size])
    positions = np.tile(np.arange(length, dtype=np.int64), (batch, 1))
    attrs = {"num_heads": heads} if len(x) == 3 else {}
    return Instance([draw.floats(*x), positions, draw.floats(8, size // 2), draw.floats(8, size // 2)], attrs)


def _embedded(draw: Draw) -> Instance:
    batch, length, width = draw.size(), draw.size(), draw.size()
    ids = draw.rng.integers(0, 5, (batch, length)).astype(np.int32)
    segments = draw.rng.random() < 0.5
    operands: list[Array | None] = [ids, np.zeros_like(ids) if segments else None, draw.floats(5, width), draw.floats(8, width)]
    operands += [draw.floats(2, width) if segments else None, draw.floats(width), draw.floats(width)]
    if draw.rng.random() < 0.5:
        operands.append(np.ones_like(ids))
    return Instance(operands, {"epsilon": 1e-5}, draw.some(2, 3))


def _quantized_embedded(draw: Draw) -> Instance:
    batch, length, width = draw.size(), draw.size(), draw.size()
    ids = draw.rng.integers(0, 5, (batch, length)).astype(np.int32)
    tables = [draw.bytes(5, width), draw.bytes(8, width), draw.bytes(2, width), draw.bytes(width), draw.bytes(width)]
    rest = [draw.scale() for _ in tables] + [draw.bytes() for _ in tables]
    return Instance([ids, np.zeros_like(ids), *tables, np.ones_like(ids), *rest], {"epsilon": 1e-5}, 2)


def _attention(draw: Draw, *, quantized: bool = False) -> Instance:
    batch, length, heads, size = draw.size(), draw.size(), draw.size(), draw.size()
    width, wide = draw.size(), heads * size
    attrs: dict[str, Any] = {"num_heads": heads}
    widths = [wide] * 3
    if not quantized and draw.rng.random() < 0.3:
        widths[2] = heads * draw.size()
        attrs["qkv_hidden_sizes"] = widths
    past = draw.floats(2, batch, heads, draw.size(), size) if draw.rng.random() < 0.5 and "qkv_hidden_sizes" not in attrs else None
    if past is not None:
        attrs["unidirectional"] = 1
    results = 2 if past is not None else draw.some(1, 2)
    x, weight, bias = (batch, length, width), (width, sum(widths)), draw.floats(sum(widths))
    if not quantized:
        return Instance([draw.floats(*x), draw.floats(*weight), bias, None, past], attrs, results)
    zeros: list[Array | None] = [draw.bytes(), np.zeros((), np.int8)]
    operands = [draw.bytes(*x), draw.bytes(*weight, dtype="int8"), bias, draw.scale(), draw.scale(), None]
    return Instance([*operands, *zeros, past], attrs, results)


def _multi_head(draw: Draw) -> Instance:
    batch, length, keys, before, heads, size, other = (draw.size() for _ in range(7))
    attrs, query = {"num_heads": heads}, draw.floats(batch, length, heads * size)
    if draw.rng.random() < 0.3:
        return Instance([query, draw.floats(batch, heads, keys, size), draw.floats(batch, heads, keys, size)], attrs)
    past = draw.rng.random() < 0.5
    other = size if past else other
    operands: list[Array | None] = [query, draw.floats(batch, keys, heads * size), draw.floats(batch, keys, heads * other)]
    if past:
        operands += [None, None, None, *(draw.floats(batch, heads, before, size) for _ in range(2))]
    return Instance(operands, attrs, draw.some(1, 3))


def _grouped(draw: Draw) -> Instance:
    batch, length, groups, size = draw.size(), draw.size(), draw.size(1, 2), 8 * draw.size(1, 2)
    heads, before = groups * draw.size(1, 2), draw.size(1, 3)
    packed, dtype = draw.rng.random() < 0.5, draw.some("float32", "float16")
    if packed:
        operands: list[Array | None] = [draw.floats(batch, length, (heads + 2 * groups) * size, dtype=dtype), None, None]
    else:
        operands = [draw.floats(batch, length, each * size, dtype=dtype) for each in (heads, groups, groups)]
    past = draw.rng.random() < 0.5 and length == 1
    operands += [draw.floats(batch, groups, before if past else 0, size, dtype=dtype) for _ in range(2)]
    total = length + before if past else length
    operands += [np.full(batch, total - 1, np.int32), np.array(total, np.int32)]
    return Instance(operands, {"num_heads": heads, "kv_num_heads": groups}, 3)


def _experts(draw: Draw) -> Instance:
    rows, width, inner, experts = draw.size(), 4 * draw.size(), 4 * draw.size(), draw.size(2, 4)
    x = draw.floats(*draw.some([rows, width], [2, rows, width]))
    scores = draw.floats(x.size // width, experts)
    weights: list[Array | None] = [draw.floats(experts, inner, width), None, draw.floats(experts, width, inner)]
    return Instance([x, scores, *weights], {"k": 1, "activation_type": "relu"})


def _quantized_experts(draw: Draw) -> Instance:
    rows, width, inner, experts = draw.size(), 32, 32, draw.size(2, 4)
    operands: list[Array | None] = [draw.floats(rows, width), draw.floats(rows, experts)]
    for out, among in ((inner, width), (width, inner)):
        operands += [draw.bytes(experts, out, among), draw.floats(experts, out), None]
    return Instance(operands, {"k": 1, "activation_type": "relu", "expert_weight_bits": 8})


def _quantize(draw: Draw) -> Instance:
    return Instance([draw.floats(*draw.sizes(0, 4)), draw.scale(), draw.bytes(dtype=draw.some("uint8", "int8", "uint16"))])


def _dequantize(draw: Draw) -> Instance:
    return Instance(draw.operand(draw.some("uint8", "int8", "uint16"), *draw.sizes(0, 4)))


def _inverse(draw: Draw) -> Instance:
    size = draw.size()
    return Instance([draw.floats(*draw.sizes(0, 2), size, size)])


def _blocked(draw: Draw) -> Instance:
    last, spatial, channels = draw.size(0, 1), [draw.size(), draw.size()], 4 * draw.size()
    return Instance([draw.floats(*_placed(spatial, channels, last=bool(last), batch=draw.size()))], {"channels_last": last})


def _unblocked(draw: Draw) -> Instance:
    blocks = draw.size()  # of 16 channels; those of ONNX Runtime have 8 on processors without AVX-512
    attrs = {"channels": 16 * blocks - 4 * draw.size(0, 1), "channels_last": draw.size(0, 1)}
    return Instance([draw.floats(draw.size(), 16 * blocks, draw.size(), draw.size())], attrs)


def _blocked_pool(draw: Draw) -> Instance:
    spatial, attrs = _windows(draw)
    return Instance([draw.floats(draw.size(), 16 * draw.size(), *spatial)], {**attrs, "ceil_mode": draw.size(0, 1)})


def _blocked_convolution(draw: Draw) -> Instance:
    spatial, attrs = _windows(draw)
    channels, made = 16 * draw.size(), 16 * draw.size()
    weight = draw.floats(made, channels, *attrs["kernel_shape"])
    return Instance([draw.floats(draw.size(), channels, *spatial), weight, draw.floats(made)], attrs)


def _distances(draw: Draw) -> Instance:
    width, dtype = draw.size(), draw.some("float32", "float64")
    matrices: list[Array | None] = [draw.floats(draw.size(), width, dtype=dtype) for _ in range(2)]
    return Instance(matrices, {"metric": draw.some("euclidean", "sqeuclidean")})


def _sampled(draw: Draw) -> Instance:
    batch = draw.size()
    return Instance([draw.floats(batch, draw.size(), draw.size(), draw.size()), draw.floats(batch, draw.size(), draw.size(), 2)])


def _strings(draw: Draw, *shape: int) -> Array:
    words = [" ".join("abc"[: draw.size(0, 3)] for _ in range(draw.size(1, 4))) for _ in range(int(np.prod(shape)))]
    return np.array(words, dtype=object).reshape(shape)


def _tokens(draw: Draw) -> Instance:
    attrs = draw.some({"separators": [" "]}, {"tokenexp": "[a-b]+"})
    return Instance([_strings(draw, *draw.sizes(1, 2))], {"mark": draw.size(0, 1), "pad_value": "#", "mincharnum": 1, **attrs})


def _hashed(draw: Draw) -> Instance:
    shape = draw.sizes(1, 3)
    data = draw.some(_strings(draw, *shape), draw.bytes(*shape, dtype="int32"))
    return Instance([data], draw.some({}, {"positive": 0}, {"positive": 1}))


def _without_repetition(draw: Draw) -> Instance:
    batch, words = draw.size(), draw.size(5, 9)
    return Instance([draw.rng.integers(0, words, (batch, draw.size(3, 6))), draw.floats(batch, words)], {"ngram_size": 2})


_OWN: dict[str, Callable[[Draw], Instance]] = {
    "Attention": _attention,
    "BiasGelu": lambda draw: _rows(draw, bias=True),
    "CDist": _distances,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeMatMul": _dynamic_product,
    "EmbedLayerNormalization": _embedded,
    "FastGelu": _rows,
    "FusedConv": _convolution,
    "FusedGemm": _gemm,
    "GatherBlockQuantized": _packed_rows,
    "Gelu": _rows,
    "GridSample": _sampled,
    "GroupQueryAttention": _grouped,
    "Inverse": _inverse,
    "MatMulBnb4": _bnb_product,
    "MatMulIntegerToFloat": _integer_product,
    "MatMulNBits": _packed_product,
    "MoE": _experts,
    "MultiHeadAttention": _multi_head,
    "MurmurHash3": _hashed,
    "NGramRepeatBlock": _without_repetition,
    "NhwcMaxPool": _max_pool,
    "QAttention": lambda draw: _attention(draw, quantized=True),
    "QEmbedLayerNormalization": _quantized_embedded,
    "QGemm": _quantized_gemm,
    "QLinearAdd": _quantized_binary,
    "QLinearAveragePool": _quantized_pool,
    "QLinearConcat": _quantized_concat,
    "QLinearConv": _quantized_convolution,
    "QLinearGlobalAveragePool": _quantized_global_pool,
    "QLinearLeakyRelu": lambda draw: _quantized_unary(draw, alpha=0.1),
    "QLinearMul": _quantized_binary,
    "QLinearSigmoid": _quantized_unary,
    "QLinearSoftmax": _quantized_softmax,
    "QLinearWhere": _quantized_where,
    "QMoE": _quantized_experts,
    "QuantizeLinear": _quantize,
    "QuickGelu": _rows,
    "RotaryEmbedding": _rotated,
    "SkipLayerNormalization": lambda draw: _normalized(draw, skip=True, simple=False),
    "SkipSimplifiedLayerNormalization": lambda draw: _normalized(draw, skip=True, simple=True),
    "Tokenizer": _tokens,
    "Trilu": lambda draw: Instance([draw.floats(*draw.sizes(2, 4))], {"upper": draw.size(0, 1)}),
    "Unique": lambda draw: Instance([draw.bytes(draw.size(1, 9)).astype(np.float32) % 4], results=3),
}
INSTANCES: dict[str, dict[str, Callable[[Draw], Instance]]] = {
    "": {"SimplifiedLayerNormalization": lambda draw: _normalized(draw, skip=False, simple=True)},
    DOMAIN: _OWN,
    f"{DOMAIN}.nchwc": {
        "AveragePool": _blocked_pool,
        "Conv": _blocked_convolution,
        "GlobalAveragePool": lambda draw: Instance([draw.floats(draw.size(), 16 * draw.size(), draw.size(), draw.size())]),
        "GlobalMaxPool": lambda draw: Instance([draw.floats(draw.size(), 16 * draw.size(), draw.size(), draw.size())]),
        "MaxPool": _blocked_pool,
        "ReorderInput": _blocked,
        "ReorderOutput": _unblocked,
    },
}


VAGUE = {"GroupQueryAttention": (1, 2), "ReorderInput": (0,), "Tokenizer": (0,), "Unique": (0, 2)}
"""The results whose sizes depend on values, or on the processor."""


def model_of(domain: str, op_type: str, instance: Instance) -> tuple[ModelProto, dict[str, Array]]:
    """A model of one node whose quantization parameters are constants, and the values of its inputs."""
    names = ["" if operand is None else f"i{i}" for i, operand in enumerate(instance.operands)]
    while not names[-1]:
        names.pop()
    outputs = [f"o{i}" for i in range(instance.results)]
    node = helper.make_node(op_type, names, outputs, domain=domain, **instance.attrs)
    values = {name: operand for name, operand in zip(names, instance.operands, strict=False) if operand is not None}
    fixed = [
        helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape, value.tobytes(), raw=True)
        for name, value in values.items()
        if not value.shape
    ]
    given = {name: value for name, value in values.items() if value.shape}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for name, value in given.items()
    ]
    declared = [helper.make_empty_tensor_value_info(name) for name in outputs]
    imports = [helper.make_opsetid("", 20), *(helper.make_opsetid(each, 1) for each in RULES if each)]
    return helper.make_model(helper.make_graph([node], "g", inputs, declared, fixed), opset_imports=imports, ir_version=9), given


def session_of(model: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def dtype_of(operand: Array) -> str:
    return "string" if operand.dtype == object else str(operand.dtype)


def types_of(instance: Instance) -> list[Type]:
    """The types of the operands."""
    return [TupleType(()) if operand is None else TensorType(operand.shape, dtype_of(operand)) for operand in instance.operands]


def attributes_of(instance: Instance) -> dict[str, Any]:
    """The attributes of the opaque call."""
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in instance.attrs.items()}
    return {**own, "opset": 1, "outputs": "1" * instance.results}


def blurred(type_: Type, draw: Draw) -> Type:
    """The type with some sizes unknown, and others named, or unknown altogether. Equal sizes have equal names."""
    if not isinstance(type_, TensorType):
        return type_
    if draw.rng.random() < 0.05:
        return UNKNOWN
    return type_.with_shape(draw.some(dim, ANY, SymDim.named(f"s{dim}"), SymDim.named(f"s{dim}")) for dim in type_.shape)


def fits(type_: Type, value: Array, *, exactly: bool) -> bool:
    """Whether a value has a type; `exactly` if also all of its sizes must be known."""
    if not isinstance(type_, TensorType):
        return not exactly
    sizes = {f"s{size}": size for size in range(1000)}
    dims = [dim if dim is ANY and not exactly else evaluate_dim(dim, sizes, -1) for dim in type_.shape]
    same = len(dims) == value.ndim and all(dim is ANY or dim == size for dim, size in zip(dims, value.shape, strict=True))
    return same and (value.dtype == object if type_.dtype == "string" else value.dtype == type_.dtype)


def test_each_operator_is_drawn() -> None:
    assert {domain: set(ops) for domain, ops in INSTANCES.items()} == {domain: set(ops) for domain, ops in RULES.items()}


@pytest.mark.parametrize(("domain", "op_type"), [(domain, op_type) for domain, ops in RULES.items() for op_type in ops])
def test_types_are_those_of_onnx_runtime(domain: str, op_type: str) -> None:
    for seed in range(share(6, 300)):
        draw = Draw(seed)
        instance = INSTANCES[domain][op_type](draw)
        model, given = model_of(domain, op_type, instance)
        values = session_of(model).run(None, given)
        types, attrs = types_of(instance), attributes_of(instance)
        found = contrib_types(domain, op_type, types, attrs)
        # Automatic padding is not always known.
        exactly = ["auto_pad" not in attrs and place not in VAGUE.get(op_type, ()) for place in range(len(values))]
        assert all(fits(*each, exactly=exact) for *each, exact in zip(found, values, exactly, strict=True)), (op_type, seed, found)
        for _ in range(4):
            vague = [blurred(type_, draw) for type_ in types]
            found = contrib_types(domain, op_type, vague, attrs)
            assert all(fits(*each, exactly=False) for each in zip(found, values, strict=True)), (op_type, seed, vague, found)


NORM = "s = com.microsoft.SkipLayerNormalization(x, x, w, w)"


def read(parse: Parse, graph: str) -> tuple[ModelProto, list[str]]:
    """A model, and the types of the results of its first node."""
    model = parse(graph, imports=f', "{DOMAIN}": 1')
    call = next(node for node in post_order(from_onnx(model)["main"].body) if isinstance(node, Call))
    type_ = call.checked_type
    return model, [show_type(each) for each in (type_.fields if isinstance(type_, TupleType) else [type_])]


def test_nodes_after_them_are_read(parse: Parse) -> None:
    model, types = read(parse, f"g (float[b, n, 4] x, float[4] w) => (float[b, n, 4] y) {{ {NORM} y = Relu(s) }}")
    assert types == ["float32[b, n, 4]"]
    assert not untyped_values(from_onnx(model))
    assert to_onnx(from_onnx(model)) == model


def test_absent_results_of_normalizations(parse: Parse) -> None:
    node = "y, , d, s = com.microsoft.SkipLayerNormalization(x, x, w) z = Neg(d)"
    _, types = read(
        parse, f"g (float16[b, n, 4] x, float16[4] w) => (float16[b, n, 4] y, float[b, n, 1] z, float16[b, n, 4] s) {{ {node} }}"
    )
    assert types == ["float16[b, n, 4]", "float32[b, n, 1]", "float16[b, n, 4]"]


def test_deviations_along_several_axes_are_unknown(parse: Parse) -> None:
    """ONNX Runtime infers `[2, 1, 4]` and computes `[2, 1, 1]`."""
    node = "y, d = SimplifiedLayerNormalization <axis = 1> (x, w)"
    _, types = read(parse, f"g (float[2, 3, 4] x, float[3, 4] w) => (float[2, 3, 4] y) {{ {node} }}")
    assert types == ["float32[2, 3, 4]", "_"]


def test_named_sizes_are_added(parse: Parse) -> None:
    concat = "s = com.microsoft.QLinearConcat <axis = 1> (f, z, x, f, z, w, f, z)"
    _, types = read(parse, f"g (uint8[b, n] x, uint8[b, m] w, float f, uint8 z) => (uint8[b, k] y) {{ {concat} y = Identity(s) }}")
    assert types == ["uint8[b, m + n]"]


def test_keys_without_earlier_ones_are_known(parse: Parse) -> None:
    inputs = "float[b, n, 16] q, float[b, n, 8] k, float[b, n, 8] v, int32[b] lengths, int32 total"
    node = "y, p, r = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, k, v, , , lengths, total) z = Neg (p)"
    _, types = read(parse, f"g ({inputs}) => (float[b, n, 16] y, float[b, 1, t, 8] z) {{ {node} }}")
    assert types == ["float32[b, n, 16]", *["float32[b, 1, ?, 8]"] * 2]


def test_an_unknown_operand_makes_them_unknown(parse: Parse) -> None:
    made = "u = com.mine.Thing(x) s = com.microsoft.SkipLayerNormalization(u, u, w, w) y = Relu(s)"
    model = parse(f"g (float[4, 4] x, float[4] w) => (float[4, 4] y) {{ {made} }}", imports=f', "{DOMAIN}": 1, "com.mine": 1')
    (value,) = untyped_values(from_onnx(model))
    assert value.name == "u"
    assert len(value.calls) == 1


@pytest.mark.parametrize("attributes", ["", "<N = -3>", '<N = "a">', "<N = [3]>"])
def test_invalid_attributes_make_them_unknown(attributes: str, parse: Parse) -> None:
    node = f"s = com.microsoft.MatMulNBits {attributes} (x, w, f)"
    _, types = read(parse, f"g (float[b, 32] x, uint8[8, 1, 16] w, float[8] f) => (float[b, k] y) {{ {node} y = Relu(s) }}")
    assert types == ["_"]


@pytest.mark.parametrize("node", [NORM, "s = com.microsoft.QuickGelu(x)"])
def test_declarations_are_kept(node: str, parse: Parse) -> None:
    graph = (
        f"g (float[b, n, 4] x, float[4] w) => (float[b, n, 4] y) <float[b, n, 4] s, float[b, n, 4] t> {{ {node} t = Neg(s) y = Neg(t) }}"
    )
    model, types = read(parse, graph)
    assert types == ["float32[b, n, 4]"]
    assert [value.name for value in to_onnx(from_onnx(model)).graph.value_info] == ["s"]  # ONNX infers the other


def test_onnx_runtime_prefers_its_operators_to_local_functions(parse: Parse) -> None:
    model, _ = read(parse, "g (float[n, 3] x) => (float[k, l] y) { y = com.microsoft.Gelu(x) }")
    turned = helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0])
    model.functions.append(helper.make_function(DOMAIN, "Gelu", ["a"], ["b"], [turned], [helper.make_opsetid("", 17)]))
    (value,) = session_of(model).run(None, {"x": np.ones((2, 3), np.float32)})
    assert value.shape == (2, 3)
    type_ = from_onnx(model)["main"].body.checked_type
    assert isinstance(type_, TensorType)
    assert compatible(type_, TensorType((2, 3), "float32"))


def test_equal_calls_are_merged(parse: Parse) -> None:
    """Operators that may have side effects are not, nor operators of ONNX Runtime that Passat does not know."""
    nodes = "a = com.microsoft.{0} (x) b = com.microsoft.{0} (x) y = Sub(a, b) "
    for op_type, count in (("QuickGelu", 1), ("Gelu", 1), ("BiasSplitGelu", 2)):
        graph = f"g (float[n, 4] x) => (float[n, 4] y) <float[n, 4] a, float[n, 4] b> {{ {nodes.format(op_type)} }}"
        model, _ = read(parse, graph)
        merged = optimize(model, passes="EliminateCommonSubexpr", verify=False).model
        assert [node.op_type for node in merged.graph.node] == [*[op_type] * count, "Sub"]


def test_calls_of_constants_are_not_folded(parse: Parse) -> None:
    model, _ = read(parse, "g (float[n, 2] x) => (float[n, 2] y) <float[2] c = {1, -1}> { a = com.microsoft.QuickGelu(c) y = Add(a, x) }")
    assert [node.op_type for node in optimize(model, verify=False).model.graph.node] == ["QuickGelu", "Add"]


def test_the_checker_leaves_them_out(parse: Parse) -> None:
    """It does not know the operators that ONNX Runtime adds to the standard domain."""
    model, _ = read(
        parse, "g (float[b, 4] x, float[4] w) => (float[b, 4] y) { s = SimplifiedLayerNormalization <axis = -1> (x, w) y = Relu(s) }"
    )
    before = model.SerializeToString()
    check(model)
    assert model.SerializeToString() == before
    assert optimize(model).report.warnings == []
    model.graph.node[1].input.append("")
    with pytest.raises(OnnxError, match=r"onnx.checker does not accept the model: .*Relu"):
        check(model)
