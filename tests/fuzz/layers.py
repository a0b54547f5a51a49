"""Operands of layers: products, convolutions, pooling, normalization, attention, recurrence, quantization."""

from typing import Any, Final

import numpy as np
from onnx import TensorProto

from tests.fuzz.builder import Builder, Draft, Value
from tests.fuzz.operators import Form, recipe
from tests.fuzz.values import FLOAT, FLOATS, INT64, Array


def _weight(graph: Builder, kind: int, shape: tuple[int, ...]) -> Value:
    """A weight, mostly a constant."""
    return graph.fresh(kind, shape) if graph.chance(0.3) else graph.constant(graph.random.normal(size=shape), kind)


def _image(graph: Builder, form: Form, low: int = 3, high: int = 5) -> Value:
    """A batch of images with one to three spatial dimensions."""
    return graph.operand(
        form.kinds(0) & FLOATS or form.kinds(0),
        lambda value: low <= value.rank <= high and 0 not in value.shape[1:],  # which crashes ONNX Runtime in some operators
        lambda: (
            graph.integer(0, 2) if graph.chance(0.1) else 1,
            graph.integer(1, 4),
            *(graph.integer(3, 6) for _ in range(graph.integer(low, high) - 2)),
        ),
    )


# ---- products


@recipe("MatMul", "com.microsoft::FusedMatMul")
def _matmul(graph: Builder, form: Form) -> Draft:
    kinds = form.kinds(0) if form.schema is not None else frozenset({FLOAT})
    # If the inner size is 0, FusedMatMul leaves its result uninitialized, and so does MatMul by a vector;
    # then other sizes are not checked either
    least = int(form.schema is None)
    x = graph.operand(
        kinds,
        lambda value: value.rank > 0 and (not least or 0 not in value.shape),
        lambda: tuple(max(size, least) for size in graph.shape(1, 3)),
    )
    graph.never_empty |= form.schema is None
    inner = x.shape[-1]
    y = (
        graph.known(
            lambda v: not v.is_sequence and v.kind == x.kind and v.rank > int(inner == 0) and v.shape[-2 if v.rank > 1 else 0] == inner
        )
        if graph.chance(0.4)
        else None
    )
    if y is None:
        lead = x.shape[:-2] if graph.chance(0.3) else ()
        y = _weight(graph, x.kind, (*lead, inner, *graph.shape(1, 1)) if graph.chance(0.9) or inner == 0 else (inner,))
    graph.never_empty |= y.rank == 1
    if form.schema is not None:
        return Draft([x, y])
    return Draft([x, y], {"alpha": graph.number(), **{name: graph.one_of([0, 1]) for name in ("transA", "transB") if graph.chance(0.3)}})


@recipe("Gemm")
def _gemm(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank == 2, lambda: graph.shape(2, 2))
    flips = [graph.one_of([0, 0, 1]) for _ in range(2)]
    rows, inner = x.shape[::-1] if flips[0] else x.shape
    (columns,) = graph.shape(1, 1)
    y = _weight(graph, x.kind, (columns, inner) if flips[1] else (inner, columns))
    shape = graph.one_of([(columns,), (1, columns), (rows, columns), (rows, 1), (1,), ()])
    inputs = [x, y, _weight(graph, x.kind, shape)] if form.version < 11 or graph.chance(0.7) else [x, y]
    attrs: dict[str, Any] = {"transA": flips[0], "transB": flips[1]}
    attrs.update({name: graph.number() for name in ("alpha", "beta") if graph.chance(0.4)})
    return Draft(inputs, attrs)


EQUATIONS: Final = (
    *(("ij,jk->ik", 2, 2), ("bij,bjk->bik", 3, 3), ("ij->ji", 2), ("ii->i", 2), ("ij->i", 2), ("i,j->ij", 1, 1), ("ij,ij->", 2, 2)),
    *(("...ij,...jk->...ik", 3, 3), ("bhqd,bhkd->bhqk", 4, 4), ("ij,jk,kl->il", 2, 2, 2)),
)
"""Equations with the ranks of their operands."""


@recipe("Einsum")
def _einsum(graph: Builder, form: Form) -> Draft:
    equation, *ranks = graph.one_of(EQUATIONS)
    kind = graph.kind(form.kinds(0) & (FLOATS | {INT64, TensorProto.INT32}))
    sizes: dict[str, int] = {}
    operands = []
    for i, letters in enumerate(equation.split("->")[0].split(",")):
        names = letters.replace("...", "b")
        x = graph.known(lambda value: not value.is_sequence and value.kind == kind and value.rank == ranks[i]) if i == 0 else None  # noqa: B023  # called immediately
        shape = x.shape if x is not None else tuple(sizes.get(name, int(graph.one_of(graph.sizes))) for name in names)
        sizes.update(zip(names, shape, strict=True))
        operands.append(x or graph.fresh(kind, [sizes[name] for name in names]))
    return Draft(operands, {"equation": equation})


@recipe("MatMulInteger", "QLinearMatMul")
def _quantized_product(graph: Builder, form: Form) -> Draft:
    kinds = {TensorProto.UINT8, TensorProto.INT8}
    x = graph.operand(
        kinds, lambda value: value.rank == 2 and 0 not in value.shape, lambda: (3, 2)
    )  # for an inner size of 0 nothing is written
    graph.never_empty = True
    kind = graph.kind(kinds)
    y = _weight(graph, kind, (x.shape[1], 3))
    if form.op == "MatMulInteger":
        zeros = [graph.constant(1, x.kind), graph.constant(2, kind)] if graph.chance(0.6) else []
        return Draft([x, y, *zeros])
    scales = [graph.constant(number) for number in (0.5, 0.25, 0.125)]
    return Draft([x, scales[0], graph.constant(1, x.kind), y, scales[1], graph.constant(2, kind), scales[2], graph.constant(0, x.kind)])


# ---- windows


def _window(graph: Builder, rank: int, *, dilated: bool) -> dict[str, Any]:
    """Strides, padding and dilations for some spatial dimensions."""
    attrs: dict[str, Any] = {}
    if graph.chance(0.4):
        attrs["strides"] = [graph.integer(1, 3) for _ in range(rank)]
    if dilated and graph.chance(0.25):
        attrs["dilations"] = [graph.integer(1, 2) for _ in range(rank)]
    match graph.integer(0, 4):
        case 0:
            attrs["auto_pad"] = graph.one_of(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
        case 1 | 2:
            attrs["pads"] = [graph.integer(0, 1) for _ in range(2 * rank)]
    return attrs


@recipe("Conv", "ConvTranspose", "ConvInteger")
def _convolution(graph: Builder, form: Form) -> Draft:
    x = _image(graph, form)
    rank, channels = x.rank - 2, x.shape[1]
    group = channels if graph.chance(0.2) else 1
    outputs = graph.integer(1, 3) * (group if form.op != "ConvTranspose" else 1)
    kernel = tuple(graph.integer(1, 3) for _ in range(rank))
    shape = (channels, outputs, *kernel) if form.op == "ConvTranspose" else (outputs, channels // group, *kernel)
    attrs = {**_window(graph, rank, dilated=True), "group": group}
    if form.op == "ConvInteger":
        return Draft([x, graph.constant(graph.random.integers(0, 4, shape), graph.kind(form.kinds(1)))], attrs)
    inputs = [x, _weight(graph, x.kind, shape)]
    if graph.chance(0.5):
        inputs.append(_weight(graph, x.kind, (outputs * group if form.op == "ConvTranspose" else outputs,)))
    if form.op == "ConvTranspose" and graph.chance(0.2):
        attrs["output_padding"] = [graph.integer(0, 1) for _ in range(rank)]
    if graph.chance(0.4):
        attrs["kernel_shape"] = list(kernel)
    return Draft(inputs, attrs)


@recipe("QLinearConv")
def _quantized_convolution(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank == 4, lambda: (1, 2, 4, 4))
    kind = graph.kind(form.kinds(3))
    weight = graph.constant(graph.random.integers(0, 4, (2, x.shape[1], 2, 2)), kind)
    zero = graph.constant(0, x.kind)
    return Draft([x, graph.constant(0.5), zero, weight, graph.constant(0.25), graph.constant(0, kind), graph.constant(0.5), zero])


@recipe("MaxPool", "AveragePool", "LpPool")
def _pool(graph: Builder, form: Form) -> Draft:
    x = _image(graph, form)
    rank = x.rank - 2
    attrs = {"kernel_shape": [graph.integer(1, 3) for _ in range(rank)], **_window(graph, rank, dilated=form.has("dilations"))}
    for name in ("ceil_mode", "count_include_pad"):
        if form.has(name) and graph.chance(0.35):
            attrs[name] = graph.one_of([0, 1])
    if form.has("p") and graph.chance(0.7):
        attrs["p"] = graph.integer(1, 3)
    return Draft([x], attrs, graph.one_of([1, 1, 2]) if form.op == "MaxPool" else 1)


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "LRN")
def _global(graph: Builder, form: Form) -> Draft:
    attrs: dict[str, Any] = {"p": graph.integer(1, 3)} if form.has("p") and graph.chance(0.7) else {}
    if form.op == "LRN":
        attrs = {"size": graph.one_of([1, 2, 3]), **{name: abs(graph.number()) for name in ("alpha", "beta", "bias") if graph.chance(0.5)}}
    return Draft([_image(graph, form)], attrs)


@recipe("Resize", "Upsample")
def _resize(graph: Builder, form: Form) -> Draft:
    rank = graph.one_of([4, 4, 3, 5, 2])
    x = graph.operand(form.kinds(0), lambda value: value.rank == rank, lambda: (1, 2, 3, 4, 2)[:rank])
    mode = graph.one_of(["nearest", "linear", "cubic"] if form.op == "Resize" and form.version > 10 else ["nearest", "linear"])
    chosen = graph.one_of([range(rank)[-2:], range(rank)[-1:], range(rank)[1:-1], range(rank)])
    scales = [float(graph.one_of([1, 2, 0.5, 1.5])) if axis in chosen else 1.0 for axis in range(rank)]
    if form.op == "Upsample":
        scales = [max(scale, 1.0) for scale in scales]
        return Draft([x], {"mode": mode, "scales": scales}) if form.has("scales") else Draft([x, graph.constant(scales)], {"mode": mode})
    if form.version == 10:
        return Draft([x, graph.constant(scales)], {"mode": mode})
    attrs: dict[str, Any] = {"mode": mode}
    transformations = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize"]
    if form.version >= 19:
        transformations.append("half_pixel_symmetric")
    if graph.chance(0.6):
        attrs["coordinate_transformation_mode"] = graph.one_of(transformations)
    if mode == "nearest" and graph.chance(0.5):
        attrs["nearest_mode"] = graph.one_of(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    options = (("antialias", [0, 1]), ("exclude_outside", [0, 1]), ("cubic_coeff_a", [-0.5]), ("extrapolation_value", [2.0]))
    attrs |= {name: graph.one_of(values) for name, values in options if form.has(name) and graph.chance(0.2)}
    axes = list(range(rank))
    if form.has("axes") and graph.chance(0.4):
        attrs["axes"] = axes = list(chosen)
    nothing = graph.constant(np.zeros(0)) if form.version < 13 else None
    roi = nothing
    if attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        roi = graph.constant([0.0] * len(axes) + [graph.one_of([0.6, 1.0, 1.2]) if axis in chosen else 1.0 for axis in axes])
    if graph.chance(0.4):
        if form.has("keep_aspect_ratio_policy") and graph.chance(0.3):
            attrs["keep_aspect_ratio_policy"] = graph.one_of(["not_larger", "not_smaller"])
        sizes = [graph.integer(1, 6) if axis in chosen else x.shape[axis] for axis in axes]
        return Draft([x, roi, graph.constant(np.zeros(0)) if nothing is not None else None, graph.ints(sizes)], attrs)
    return Draft([x, roi, graph.constant([scales[axis] for axis in axes])], attrs)


# ---- normalization


@recipe("BatchNormalization")
def _batch_normalization(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 1, lambda: graph.shape(2))
    parts = [_weight(graph, x.kind, (x.shape[1],)) for _ in range(3)]
    return Draft([x, *parts, graph.constant(graph.random.uniform(0.5, 2, x.shape[1]), x.kind)], _epsilon(graph))


@recipe("InstanceNormalization", "GroupNormalization")
def _instance_normalization(graph: Builder, form: Form) -> Draft:
    x = _image(graph, form)
    groups = graph.one_of([size for size in range(1, x.shape[1] + 1) if x.shape[1] % size == 0])
    size = groups if form.op == "GroupNormalization" and form.version < 21 else x.shape[1]
    graph.never_empty = True  # the mean of nothing reads invalid memory
    attrs = {**_epsilon(graph), **({"num_groups": groups} if form.op == "GroupNormalization" else {})}
    return Draft([x, *(_weight(graph, x.kind, (size,)) for _ in range(2))], attrs)


@recipe("LayerNormalization", "RMSNormalization")
def _layer_normalization(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0) & FLOATS, lambda value: value.rank > 0, lambda: graph.shape(1))
    axis = graph.integer(-x.rank, x.rank - 1)
    count = graph.integer(1, 2) if form.op == "LayerNormalization" else 1
    return Draft([x, *(_weight(graph, x.kind, x.shape[axis:]) for _ in range(count))], {"axis": axis, **_epsilon(graph)})


def _epsilon(graph: Builder) -> dict[str, Any]:
    return {"epsilon": graph.one_of([1e-5, 1e-3, 0.1])} if graph.chance(0.5) else {}


@recipe("MeanVarianceNormalization")
def _mean_variance(graph: Builder, form: Form) -> Draft:
    graph.never_empty = True  # as for InstanceNormalization
    return Draft([graph.operand(form.kinds(0), lambda value: value.rank == 4 and 0 not in value.shape, lambda: (2, 3, 2, 2))])


# ---- attention and recurrence


@recipe("Attention")
def _attention(graph: Builder, form: Form) -> Draft:
    kind = graph.kind(form.kinds(0) & {FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})
    batch, heads, queries, keys, size = (graph.integer(1, 3) for _ in range(5))
    q = graph.operand({kind}, lambda value: value.shape == (batch, heads, queries, size), lambda: (batch, heads, queries, size))
    inputs: list[Value | None] = [
        q,
        graph.fresh(kind, (batch, heads, keys, size)),
        graph.fresh(kind, (batch, heads, keys, graph.integer(1, 3))),
    ]
    if graph.chance(0.4):
        inputs.append(graph.fresh(kind, graph.one_of([(queries, keys), (batch, 1, queries, keys)])))
    attrs = {name: value for name, value in (("is_causal", 1), ("scale", 0.5), ("softcap", 2.0)) if graph.chance(0.3)}
    return Draft(inputs, attrs)


@recipe("LinearAttention", "com.microsoft::LinearAttention")
def _linear_attention(graph: Builder, form: Form) -> Draft:
    kind = graph.kind({FLOAT, TensorProto.FLOAT16}) if form.schema is not None else FLOAT
    batch, length, groups, size, wide = (
        graph.integer(1, 2),
        graph.integer(1, 4),
        graph.integer(1, 2),
        graph.integer(1, 3),
        graph.integer(1, 3),
    )
    heads = groups * graph.integer(1, 2)
    rule = graph.one_of(["linear", "gated", "delta", "gated_delta"])
    shape = (batch, length, heads * size)
    inputs: list[Value | None] = [graph.operand({kind}, lambda value: value.shape == shape, lambda: shape)]
    inputs += [graph.fresh(kind, (batch, length, groups * count)) for count in (size, wide)]
    inputs.append(graph.fresh(kind, (batch, groups, size, wide)) if graph.chance(0.5) else None)
    inputs.append(graph.fresh(kind, (batch, length, groups * graph.one_of([1, size]))) if "gated" in rule else None)
    inputs += [graph.fresh(kind, (batch, length, groups))] if "delta" in rule else []
    graph.never_empty = True
    return Draft(
        inputs, {"q_num_heads": heads, "kv_num_heads": groups, "update_rule": rule, "scale": 0.5 if graph.chance(0.5) else None}, 2
    )


@recipe("CausalConvWithState", "com.microsoft::CausalConvWithState")
def _causal_conv(graph: Builder, form: Form) -> Draft:
    kind = graph.kind({FLOAT, TensorProto.FLOAT16}) if form.schema is not None else FLOAT
    # no channels end the process in ONNX Runtime
    x = graph.operand(
        {kind}, lambda v: v.rank == 3 and 0 not in v.shape, lambda: (graph.integer(1, 2), graph.integer(1, 3), graph.integer(1, 4))
    )
    size = graph.integer(1, 3)
    inputs: list[Value | None] = [x, _weight(graph, kind, (x.shape[1], 1, size))]
    inputs.append(_weight(graph, kind, (x.shape[1],)) if graph.chance(0.5) else None)
    inputs += [graph.fresh(kind, (*x.shape[:2], size - 1))] if graph.chance(0.5) else []
    graph.never_empty = True
    return Draft(inputs, {"activation": graph.one_of(["none", "silu", "swish"])} if graph.chance(0.6) else {}, 2)


@recipe("RotaryEmbedding")
def _rotary(graph: Builder, form: Form) -> Draft:
    batch, heads, length, size = graph.integer(1, 2), graph.integer(1, 3), graph.integer(1, 4), graph.one_of([2, 4, 8])
    kind = graph.kind(form.kinds(0) & {FLOAT, TensorProto.FLOAT16})
    x = graph.operand({kind}, lambda value: value.shape == (batch, heads, length, size), lambda: (batch, heads, length, size))
    inputs: list[Value | None]
    if graph.chance(0.5):
        inputs = [x, *(_weight(graph, kind, (batch, length, size // 2)) for _ in range(2))]
    else:
        places = graph.ints(graph.random.integers(0, 5, (batch, length)))  # type: ignore[arg-type]  # an array of integers
        inputs = [x, *(_weight(graph, kind, (5, size // 2)) for _ in range(2)), places]
    return Draft(inputs, {"interleaved": graph.one_of([0, 1])} if graph.chance(0.6) else {})


@recipe("LSTM", "GRU", "RNN")
def _recurrent(graph: Builder, form: Form) -> Draft:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[form.op]
    hidden, direction = 2, graph.one_of(["forward", "reverse", "bidirectional"])
    graph.never_empty = True  # a batch of nothing ends the process in ONNX Runtime's LSTM and GRU
    ways = 2 if direction == "bidirectional" else 1
    x = graph.operand({FLOAT}, lambda value: value.rank == 3 and 0 not in value.shape, lambda: (3, 2, 4))
    parts = [_weight(graph, FLOAT, (ways, gates * hidden, width)) for width in (x.shape[2], hidden)]
    bias = [_weight(graph, FLOAT, (ways, 2 * gates * hidden))] if graph.chance(0.5) else []
    return Draft([x, *parts, *bias], {"hidden_size": hidden, "direction": direction}, graph.integer(1, 2))


# ---- quantization


@recipe("QuantizeLinear", "DequantizeLinear")
def _quantize(graph: Builder, form: Form) -> Draft:
    target = graph.kind(form.kinds(2) or form.kinds(0))
    kind = FLOAT if form.op == "QuantizeLinear" else target
    x = graph.operand({kind}, lambda value: value.rank > 0, lambda: graph.shape(1))
    axis = graph.integer(0, x.rank - 1)
    shape = (x.shape[axis],) if form.version >= 13 and graph.chance(0.4) else ()
    zero = (
        graph.constant(np.zeros(shape) + _zero(graph, target), target)
        if target not in (17, 18, 19, 20)
        else graph.constant(np.zeros(shape).astype(_dtype(target)), target)
    )
    inputs = [x, graph.constant(graph.random.uniform(0.1, 1, shape)), zero]
    return Draft(inputs if graph.chance(0.8) else inputs[:2], {"axis": axis} if form.has("axis") else {})


def _zero(graph: Builder, kind: int) -> Array:
    return np.asarray(graph.integer(0, 1))


def _dtype(kind: int) -> np.dtype[Any]:
    from tests.fuzz.values import dtype_of

    return dtype_of(kind)
