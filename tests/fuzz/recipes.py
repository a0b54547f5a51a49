"""Operands of operators with requirements beyond their schemas: related shapes, sizes as values, modes."""

import math

import numpy as np
from onnx import TensorProto

from tests.fuzz.builder import Builder, Draft, Value
from tests.fuzz.operators import Form, axes, from_the_front, not_narrow, recipe
from tests.fuzz.values import BOOL, FLOAT, FLOATS, INT64, INTEGERS

BOTH = FLOATS | INTEGERS
NAMED_SIZES_STAY = 10


# ---- axes and shapes


@recipe("Softmax", "LogSoftmax", "Hardmax", "Flatten", "ArgMax", "ArgMin", "LpNormalization")
def _along_axis(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    attrs = {name: graph.one_of([0, 1]) for name in ("keepdims", "select_last_index") if form.has(name) and graph.chance(0.6)}
    if graph.chance(0.8):
        axis = graph.integer(-x.rank, max(x.rank - 1, 0))
        attrs["axis"] = from_the_front(graph, [axis], x)[0] if form.op.startswith("Arg") else axis
    if form.has("p") and graph.chance(0.6):
        attrs["p"] = graph.one_of([1, 2])
    return Draft([x], attrs)


@recipe(*(f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")))
def _reduce(graph: Builder, form: Form) -> Draft:
    # ONNX Runtime adds and multiplies integers as float64 numbers, which represent 53 bits
    narrow = form.op not in ("ReduceMax", "ReduceMin")
    x = graph.operand(form.kinds(0), lambda value: not narrow or value.kind != INT64 or not np.any(abs(value.array) >> 53))
    if narrow and x.kind == INT64 and np.any(abs(x.array) >> 53):
        x = graph.constant(x.array % 1000, INT64)
    attrs: dict[str, object] = {"keepdims": graph.one_of([0, 1])} if graph.chance(0.7) else {}
    inputs: list[Value | None] = [x]
    if form.has("noop_with_empty_axes") and graph.chance(0.3):
        attrs["noop_with_empty_axes"] = graph.one_of([0, 1])
    if graph.chance(0.85):
        chosen = from_the_front(graph, axes(graph, x.rank, low=0 if graph.chance(0.2) else 1), x)
        if form.has("axes"):
            attrs["axes"] = chosen or None
        else:
            inputs.append(graph.ints(chosen))
    return Draft(inputs, attrs)


@recipe("CumSum", "CumProd")
def _cumulate(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 0, lambda: graph.shape(1))
    axis = graph.ints(graph.integer(-x.rank, x.rank - 1), graph.one_of([TensorProto.INT32, INT64]))
    return Draft([x, axis], {name: graph.one_of([0, 1]) for name in ("exclusive", "reverse") if graph.chance(0.5)})


@recipe("Transpose")
def _transpose(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    return Draft([x], {"perm": [int(i) for i in graph.random.permutation(x.rank)]} if graph.chance(0.85) else {})


@recipe("Reshape")
def _reshape(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    dims = list(x.shape)
    entries: list[int] = []
    left = math.prod(dims)
    for _ in range(graph.integer(0, 3)):
        divisors = [d for d in range(1, min(left, 12) + 1) if left % d == 0]
        entries.append(int(graph.one_of(divisors)) if divisors else 0)
        left //= max(entries[-1], 1)
    entries.append(left)
    graph.random.shuffle(entries)
    if graph.chance(0.3):
        entries = dims[::-1]
    # for a tensor known to be empty, ONNX Runtime's inference rejects a -1 that its kernel accepts
    if entries and 0 not in dims and (graph.symbols or graph.chance(0.4)):
        entries[graph.integer(0, len(entries) - 1)] = -1
    entries = [0 if i < len(dims) and dims[i] == entry and graph.chance(0.4) else entry for i, entry in enumerate(entries)]
    attrs = {"allowzero": graph.one_of([0, 1])} if form.has("allowzero") and graph.chance(0.2) else {}
    return Draft([x, _shape_value(graph, x, entries)], attrs)


def _shape_value(graph: Builder, x: Value, entries: list[int]) -> Value:
    """Integers as a constant, or computed from the shape of a value, as exporters do."""
    if not x.rank or 0 in x.shape or not graph.chance(0.25):
        return graph.ints(entries)
    made = graph.node("Shape", [x])
    if made is None:
        return graph.ints(entries)
    parts: list[Value] = []
    for entry in entries:
        place = x.shape.index(entry) if entry in x.shape else None
        part = graph.node("Gather", [made[0], graph.ints([place])], axis=0) if place is not None and graph.chance(0.7) else None
        parts.append(part[0] if part else graph.ints([entry]))
    joined = graph.node("Concat", parts, axis=0) if parts else None
    # If a computed size is 0, Reshape replaces it, and -1 then has another meaning: inferred shapes hold for tensors with elements.
    graph.never_empty |= joined is not None and -1 in entries and bool(graph.symbols)
    return joined[0] if joined else graph.ints(entries)


@recipe("Expand")
def _expand(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    shape = [int(graph.one_of([1, 2, 3, size])) if size == 1 else int(graph.one_of([1, size])) for size in x.shape]
    shape = [*graph.shape(0, 2), *shape] if graph.chance(0.4) else shape[graph.integer(0, len(shape)) :]
    return Draft([x, _shape_value(graph, x, shape)])


@recipe("Tile")
def _tile(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    return Draft([x, graph.ints([graph.one_of([1, 1, 2, 3, 0] if graph.chance(0.1) else [1, 1, 2]) for _ in x.shape])])


@recipe("Squeeze", "Unsqueeze")
def _squeeze(graph: Builder, form: Form) -> Draft:
    # before opset 11 axes count from the front: the inference skips others, and ONNX Runtime's Scan relies on its ranks
    back = 0.3 if form.version >= 11 else 0.0
    x = graph.operand(form.kinds(0), lambda value: form.op == "Unsqueeze" or 1 in value.shape, lambda: (*graph.shape(0, 2), 1))
    if form.op == "Squeeze":
        ones = [i for i, size in enumerate(x.shape) if size == 1]
        # an empty list of axes means all of them for some runtimes and for ONNX Runtime's kernel, and none for others and for its inference
        chosen = [i - (x.rank if graph.chance(back) else 0) for i in ones if graph.chance(0.7)] or ones[:1]
    else:
        rank = x.rank + graph.integer(1, 2)
        chosen = [int(axis) - (rank if graph.chance(back) else 0) for axis in graph.random.permutation(rank)[: rank - x.rank]]
    if form.op == "Squeeze" and graph.chance(0.1):
        return Draft([x])
    return Draft([x], {"axes": chosen}) if form.has("axes") else Draft([x, graph.ints(chosen)])


@recipe("Slice")
def _slice(graph: Builder, form: Form) -> Draft:
    # For a named size, the inference of version 10 assumes that the slice has that size: ONNX Runtime then shares buffers of different
    # sizes.
    named = set(graph.symbols.values()) if form.version == NAMED_SIZES_STAY else set()
    x = graph.operand(form.kinds(0), lambda value: value.rank > 0 and named.isdisjoint(value.shape), lambda: graph.shape(1))
    chosen = axes(graph, x.rank, low=1)
    far = [2**31 - 1, -(2**31), 2**63 - 1, -(2**63) + 1]
    starts, ends, steps = [], [], []
    for axis in chosen:
        size = x.shape[axis]
        step = graph.one_of([1, 1, 1, 2, -1, -2, 3, -(2**31)]) if not form.has("axes") else 1
        starts.append(graph.integer(-size - 1, size + 1) if graph.chance(0.9) else graph.one_of(far))
        # for a backward slice to the largest integer, ONNX Runtime's inference finds no elements, and its kernel finds some
        last = far if step > 0 else [number for number in far if number < 2**63 - 1]
        ends.append(graph.integer(-size - 2, size + 2) if graph.chance(0.7) else graph.one_of(last))
        steps.append(step)
    if form.has("axes"):
        return Draft([x], {"starts": starts, "ends": ends, "axes": chosen})
    kind = INT64 if any(abs(number) > 2**31 - 1 for number in (*starts, *ends, *steps)) else graph.one_of([INT64, INT64, TensorProto.INT32])
    parts: list[Value | None] = [x, graph.ints(starts, kind), graph.ints(ends, kind)]
    if chosen != list(range(len(chosen))) or graph.chance(0.6):
        parts.append(graph.ints(chosen, kind))
    elif any(step != 1 for step in steps):
        parts.append(None)
    return Draft([*parts, graph.ints(steps, kind)] if len(parts) == 4 and any(step != 1 for step in steps) else parts)


@recipe("Concat")
def _concat(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 0, lambda: graph.shape(1))
    axis = graph.integer(-x.rank, x.rank - 1)
    place = axis % x.rank

    def fits(value: Value) -> bool:
        return value.kind == x.kind and value.rank == x.rank and all(i == place or size == x.shape[i] for i, size in enumerate(value.shape))

    parts: list[Value | None] = [x]
    for _ in range(graph.integer(0, 3)):
        shape = tuple(int(graph.one_of([0, 1, 2, size])) if i == place else size for i, size in enumerate(x.shape))
        parts.append(graph.operand({x.kind}, fits, lambda shape=shape: shape))  # type: ignore[misc]  # bound now
    graph.random.shuffle(parts)
    # Operands without elements may have other sizes than the rest; the elements of the rest are then uninitialized.
    graph.never_empty |= len(parts) > 1 and any(size in graph.symbols.values() for i, size in enumerate(x.shape) if i != place)
    return Draft(parts, {"axis": axis})


@recipe("Split")
def _split(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 0 and max(value.shape) > 1, lambda: (*graph.shape(0, 2), 4))
    axis = graph.integer(-x.rank, x.rank - 1)
    size = x.shape[axis]
    count = graph.integer(1, 4)
    if graph.chance(0.5):
        cuts = sorted(graph.integer(0, size) for _ in range(count - 1))
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
        return (
            Draft([x], {"axis": axis, "split": sizes}, count) if form.has("split") else Draft([x, graph.ints(sizes)], {"axis": axis}, count)
        )
    return Draft([x], {"axis": axis, **({"num_outputs": count} if form.has("num_outputs") else {})}, count)


@recipe("Pad")
def _pad(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0) - {BOOL} if graph.chance(0.9) else form.kinds(0))
    mode = graph.one_of(["constant", "constant", "edge", "reflect", *(["wrap"] if form.version >= 19 else [])])
    chosen = axes(graph, x.rank) if form.version >= 18 and graph.chance(0.3) else None
    count = x.rank if chosen is None else len(chosen)
    pads = [graph.one_of([0, 0, 1, 2, -1] if graph.chance(0.3) else [0, 0, 1, 2]) for _ in range(2 * count)]
    if form.has("pads"):
        return Draft([x], {"mode": mode, "pads": pads, **({"value": graph.number()} if graph.chance(0.5) else {})})
    value = graph.fresh(x.kind, ()) if graph.chance(0.6) else None
    parts: list[Value | None] = [x, graph.ints(pads), value, None if chosen is None else graph.ints(chosen)]
    while parts[-1] is None:
        parts.pop()
    return Draft(parts, {"mode": mode})


@recipe("Range")
def _range(graph: Builder, form: Form) -> Draft:
    kind = graph.kind(form.kinds(0))
    start, step, count = graph.integer(-3, 3), graph.one_of([1, 1, 2, -1]), graph.integer(0, 6)
    scale = 0.5 if kind in FLOATS and graph.chance(0.5) else 1
    return Draft([_scalar(graph, number * scale, kind) for number in (start, start + step * count, step)])


def _scalar(graph: Builder, number: float, kind: int) -> Value:
    value = graph.constant(number, kind)
    return (graph.again(value) if graph.chance(0.2) else None) or value


@recipe("ConstantOfShape")
def _constant_of_shape(graph: Builder, form: Form) -> Draft:
    from onnx import numpy_helper

    shape = list(graph.shape(0, 3))
    x = graph.known(lambda value: not value.is_sequence and value.rank > 0)
    size = _shape_value(graph, x, list(x.shape)) if x is not None and graph.chance(0.5) else graph.ints(shape)
    kind = graph.kind(FLOATS | INTEGERS | {BOOL})
    value = graph.constant([0], kind).array
    made = np.asarray([graph.number() if kind in FLOATS else graph.integer(0, 3)]).astype(value.dtype)
    return Draft([size], {"value": numpy_helper.from_array(made)} if graph.chance(0.8) else {})


@recipe("EyeLike")
def _eye_like(graph: Builder, form: Form) -> Draft:
    return Draft([graph.operand(form.kinds(0), lambda v: v.rank == 2, lambda: graph.shape(2, 2))], {"k": graph.integer(-2, 2)})


@recipe("Trilu")
def _trilu(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 1, lambda: graph.shape(2, 3))
    inputs: list[Value | None] = [x, graph.ints(graph.integer(-3, 3))] if graph.chance(0.6) else [x]
    return Draft(inputs, {"upper": graph.one_of([0, 1])} if graph.chance(0.7) else {})


@recipe("Shape")
def _shape(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    ends = {name: graph.integer(-3, 3) for name in ("start", "end") if form.has(name) and graph.chance(0.3)}
    return Draft([x], ends)


@recipe("DepthToSpace", "SpaceToDepth")
def _depth(graph: Builder, form: Form) -> Draft:
    shape = (2, 4, 2, 3) if form.op == "DepthToSpace" else (1, 3, 4, 2)
    x = graph.operand(form.kinds(0), lambda value: value.rank == 4, lambda: shape)
    return Draft([x], {"blocksize": 2, **({"mode": graph.one_of(["DCR", "CRD"])} if form.has("mode") and graph.chance(0.7) else {})})


@recipe("CenterCropPad")
def _center(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    chosen = axes(graph, x.rank, low=1)
    return Draft([x, graph.ints([graph.integer(0, 5) for _ in chosen])], {"axes": chosen})


@recipe("Cast")
def _cast(graph: Builder, form: Form) -> Draft:
    kinds = form.kinds(0)
    back = graph.chance(0.2)
    target = graph.one_of([FLOAT, FLOAT, *graph.kinds, *sorted(kinds)]) if not back else FLOAT
    attrs = {"to": int(target)}
    if form.has("saturate") and graph.chance(0.3):
        attrs["saturate"] = graph.one_of([0, 1])
    return Draft([graph.operand(kinds)], attrs)


@recipe("CastLike", "BitCast")
def _cast_like(graph: Builder, form: Form) -> Draft:
    if form.op == "BitCast":
        return Draft([graph.operand(form.kinds(0))], {"to": int(graph.one_of(sorted(form.kinds(0))))})
    return Draft([graph.operand(form.kinds(0)), graph.operand(form.kinds(1))])


# ---- elements by position


@recipe("Gather", "GatherElements", "GatherND")
def _gather(graph: Builder, form: Form) -> Draft:
    x = graph.operand(
        form.kinds(0), lambda value: value.rank > 0 and 0 not in value.shape, lambda: tuple(max(size, 1) for size in graph.shape(1))
    )
    kind = graph.one_of(sorted(form.kinds(1)))
    if form.op == "GatherND":
        batch = graph.integer(0, x.rank - 1) if form.has("batch_dims") and graph.chance(0.4) else 0
        depth = graph.integer(1, x.rank - batch)
        lead = (*x.shape[:batch], *graph.shape(0, 2))
        columns = [graph.random.integers(-size, size, (*lead, 1)) for size in x.shape[batch : batch + depth]]
        return Draft([x, graph.ints(np.concatenate(columns, -1), kind)], {"batch_dims": batch} if batch else {})  # type: ignore[arg-type]  # an array of integers
    # of each slice of several strings, ONNX Runtime's Gather copies only the first
    axis = -1 if form.op == "Gather" and x.kind == TensorProto.STRING else graph.integer(-x.rank, x.rank - 1)
    size = x.shape[axis]
    shape = graph.shape(0, 2) if form.op == "Gather" else tuple(graph.integer(1, n) for n in x.shape)
    return Draft([x, graph.ints(graph.random.integers(-size if form.version >= 11 else 0, size, shape), kind)], {"axis": axis})  # type: ignore[arg-type]  # likewise


@recipe("TensorScatter")
def _tensor_scatter(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 2 and 0 not in value.shape, lambda: (2, 3, 4, 2))
    shape = (*x.shape[:-2], graph.integer(1, x.shape[-2]), x.shape[-1])
    return Draft([x, graph.fresh(x.kind, shape), graph.ints([0] * x.shape[0])], {"mode": graph.one_of(["linear", "circular"])})


@recipe("Scatter", "ScatterElements", "ScatterND")
def _scatter(graph: Builder, form: Form) -> Draft:
    x = graph.operand(
        form.kinds(0), lambda value: value.rank > 0 and 0 not in value.shape, lambda: tuple(max(size, 1) for size in graph.shape(1))
    )
    attrs = {"reduction": graph.one_of(["none", "add", "mul", "max", "min"])} if form.has("reduction") and graph.chance(0.5) else {}
    if form.op == "ScatterND":
        depth = graph.integer(1, x.rank)
        lead = graph.shape(1, 2)
        places = np.concatenate([graph.random.integers(0, size, (*lead, 1)) for size in x.shape[:depth]], -1)
        return Draft([x, graph.ints(places), graph.fresh(x.kind, (*lead, *x.shape[depth:]))], attrs)  # type: ignore[arg-type]  # an array of integers
    axis = graph.integer(-x.rank, x.rank - 1)
    shape = tuple(graph.integer(1, n) for n in x.shape)
    size = x.shape[axis]
    places = graph.random.integers(-size if form.version >= 11 else 0, size, shape)
    return Draft([x, graph.ints(places, graph.one_of(sorted(form.kinds(1)))), graph.fresh(x.kind, shape)], {"axis": axis, **attrs})  # type: ignore[arg-type]  # likewise


@recipe("OneHot")
def _one_hot(graph: Builder, form: Form) -> Draft:
    kind = graph.kind(not_narrow(form.kinds(2)))
    x = graph.operand(form.kinds(0) - {TensorProto.BFLOAT16})
    return Draft(
        [x, graph.ints(graph.one_of([3, 4])), graph.fresh(kind, (2,))],
        {"axis": graph.integer(-x.rank - 1, x.rank)} if graph.chance(0.6) else {},
    )


@recipe("TopK")
def _top_k(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 0, lambda: graph.shape(1))
    axis = graph.integer(-x.rank, x.rank - 1)
    count = graph.integer(0, x.shape[axis])
    attrs = {name: graph.one_of([0, 1]) for name in ("largest", "sorted") if form.has(name) and graph.chance(0.4)}
    return Draft([x], {"axis": axis, "k": count}, 2) if form.has("k") else Draft([x, graph.ints([count])], {"axis": axis, **attrs}, 2)


@recipe("Compress")
def _compress(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 0, lambda: graph.shape(1))
    axis = graph.integer(0, x.rank - 1) if graph.chance(0.7) else None
    return Draft([x, graph.fresh(BOOL, (graph.integer(0, x.shape[axis] if axis is not None else x.array.size),))], {"axis": axis})


@recipe("ReverseSequence")
def _reverse(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 1 and 0 not in value.shape, lambda: (3, 2, 2))
    batch = graph.one_of([0, 1])
    lengths = graph.random.integers(1, x.shape[1 - batch] + 1, x.shape[batch])
    return Draft([x, graph.ints(lengths)], {"batch_axis": batch, "time_axis": 1 - batch})


@recipe("Unique")
def _unique(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 0, lambda: graph.shape(1))
    axis = graph.integer(-x.rank, x.rank - 1) if graph.chance(0.5) else None
    return Draft([x], {"axis": axis, "sorted": graph.one_of([0, 1])}, graph.integer(1, 4))


# ---- elementwise operators with attributes


@recipe("Clip")
def _clip(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    if form.has("min"):
        return Draft([x], {name: graph.number() for name in ("min", "max") if graph.chance(0.7)})
    ends: list[Value | None] = [graph.fresh(x.kind, ()) if graph.chance(0.8) else None for _ in range(2)]
    return Draft([x, *ends] if ends[1] is not None else [x, *ends[:1]] if ends[0] is not None else [x])


@recipe("Dropout")
def _dropout(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    outputs = graph.integer(1, 2)
    if form.has("ratio"):
        return Draft([x], {"ratio": 0.25}, outputs)
    inputs: list[Value | None] = [x, graph.constant(0.25) if graph.chance(0.7) else None, graph.constant(False, BOOL)]
    return Draft(inputs if graph.chance(0.4) else inputs[: 2 if inputs[1] is not None else 1], {}, outputs)


@recipe("Pow")
def _pow(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    kind = x.kind if form.version < 12 or graph.chance(0.7) else graph.kind(form.kinds(1))
    power = graph.one_of([2, 0.5, 1, 0, -1, 3]) if kind in FLOATS else graph.integer(0, 3)
    return Draft([x, graph.constant(power, kind) if graph.chance(0.7) else graph.partner(x, kind)])


@recipe("Mod", "BitShift")
def _mod(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    y = graph.partner(x)
    if x.kind in INTEGERS and not np.all(y.array):
        y = graph.constant(graph.one_of([1, 2, 3]), x.kind)
    if form.op == "BitShift":
        return Draft([x, graph.constant(graph.integer(0, 3), x.kind)], {"direction": graph.one_of(["LEFT", "RIGHT"])})
    return Draft([x, y], {"fmod": 1 if x.kind in FLOATS else graph.one_of([0, 1])})


@recipe("Div")
def _div(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    y = graph.partner(x)
    if x.kind in INTEGERS and not (y.constant and np.all(y.array) and np.all(y.array.astype(np.float64) > 0)):
        y = graph.constant(graph.one_of([1, 2, 3, 7]), x.kind)  # a division of integers by 0 crashes ONNX Runtime
    return Draft([x, y])


@recipe("PRelu")
def _prelu(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0))
    shape = [1 if size in graph.symbols.values() or graph.chance(0.5) else size for size in x.shape][graph.integer(0, x.rank) :]
    return Draft([x, graph.fresh(x.kind, shape)])


@recipe("com.microsoft::BiasGelu", "com.microsoft::FastGelu", "com.microsoft::QuickGelu", "com.microsoft::Gelu")
def _gelu(graph: Builder, form: Form) -> Draft:
    x = graph.operand({FLOAT}, lambda value: value.rank > 0, lambda: graph.shape(1))
    if form.op.endswith(("QuickGelu", "::Gelu")):
        return Draft([x], {"alpha": graph.one_of([1.702, 1.0])} if form.op.endswith("QuickGelu") else {})
    return Draft([x, graph.fresh(FLOAT, x.shape[-1:])] if form.op.endswith("BiasGelu") or graph.chance(0.5) else [x])


@recipe("Where")
def _where(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(1))
    return Draft([graph.partner(x, BOOL), x, graph.partner(x)])
