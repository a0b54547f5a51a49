"""Random operand types for a call, some of which are fixed: shapes that suit the kind of operator."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple

import numpy as np

from passat.ir.op import Op, OpTypeError, get_op
from passat.ir.ops.blocked_layouts import joined_shape, split_shape, without_blocks
from passat.ir.ops.blocked_windows import WHOLE
from passat.ir.ops.windows import SPATIAL
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type, tensor_type
from passat.rules.checking.attributes import Attributes, convolution_attributes, fit_quantized, random_attributes
from passat.rules.checking.case import Unfit
from passat.rules.checking.sampler import Sampler

Shape = tuple[int, ...]


class Fit(NamedTuple):
    """Operand types of a call, its attributes, and the values of operands that must be constant."""

    types: list[Type]
    attrs: Attributes
    values: Mapping[int, Tensor] = {}


class Around(NamedTuple):
    """The context of a call: the main element type and shape of the instance, and the shapes so far."""

    sampler: Sampler
    dtype: str
    base: Shape
    seen: list[Shape]

    def shape(self) -> Shape:
        """A shape that is mostly compatible with the others."""
        if self.sampler.chance(0.55):
            return self.base
        if self.seen and self.sampler.chance(0.4):
            return self.sampler.pick(self.seen)  # type: ignore[no-any-return]  # of shapes
        return self.sampler.weaker(self.base) if self.sampler.chance(0.7) else self.sampler.shape()


Known = Sequence[Type | None]


def fit(op: Op, known: Known, fixed: Attributes, around: Around) -> Fit:
    """Types for the unknown operands of a call, and attributes; `fixed` are those that the rule states. The result may be ill typed."""
    name = op.name
    if op in WHOLE:
        return _in_blocks(op, known, fixed, around)
    if name.startswith("nn.conv"):
        return _convolution(op, known, fixed, around)
    if name.startswith("dyn."):
        return _dynamic(op, known, around)
    if name.startswith("qnn."):
        return Fit(
            *fit_quantized(op, known, fixed, around.sampler, lambda real, types, attrs, dtype: _fit_real(real, types, attrs, dtype, around))
        )
    if name in _TUPLES:
        return _tuple(op, known, fixed, around)
    if name in _GATES:
        return _recurrent(op, known, fixed, around)
    if name in ("nn.attention", "nn.rotary_embedding"):
        return (_attention if name == "nn.attention" else _rotary)(op, known, fixed, around)
    dtype = next((type_.dtype for i, type_ in enumerate(known) if isinstance(type_, TensorType) and own_dtype(op, i) is None), around.dtype)
    first = _shape(known[0]) if known and known[0] is not None else _first(op, fixed, around)
    attrs = {**random_attributes(op, first, dtype, around.sampler, (*around.seen, around.base)), **fixed}
    shapes = _SHAPES.get(name, _broadcast if op.elementwise else _alike)(op, known, first, attrs, around)
    types = [
        type_ if type_ is not None else TensorType(shape, own_dtype(op, i) or dtype)
        for i, (type_, shape) in enumerate(zip(known, shapes, strict=True))
    ]
    return Fit(types, attrs)


def _fit_real(op: Op, known: Known, fixed: Attributes, dtype: str, around: Around) -> tuple[Sequence[Type], Attributes]:
    """Operand types of the real counterpart of a quantized operator, and its attributes."""
    found = fit(op, known, fixed, around._replace(dtype=dtype))
    return found.types, found.attrs


def counted(known: Known, given: Mapping[int, float], length: int | None, around: Around) -> Fit:
    """Operands of arange with values that give few elements, or `length` elements if fixed. `given` are values of operands."""
    sampler = around.sampler
    dtype = next((type_.dtype for type_ in known if isinstance(type_, TensorType)), around.dtype if around.dtype in _COUNTED else "int64")
    start = given.get(0, sampler.pick((0, 0, 0, 1, 2, -3)))
    step = given.get(2, sampler.pick((1, 1, 1, 2, -1)))
    stop = given.get(1, start + step * (sampler.dim() if length is None else length))
    types = [type_ or TensorType((), dtype) for type_ in known]
    return Fit(types, {}, {i: Tensor.dense(np.asarray(value), dtype) for i, value in enumerate((start, stop, step))})


_COUNTED: Final = frozenset({"float32", "float64", "int16", "int32", "int64", "float16", "bfloat16"})
"""The element types of arange."""


_GATES: Final = {"onnx.RNN": 1, "onnx.GRU": 3, "onnx.LSTM": 4}
"""The numbers of gates of recurrent layers."""


def _recurrent(op: Op, known: Known, fixed: Attributes, around: Around) -> Fit:
    """A recurrent layer. Its initial states are mostly 0."""
    sampler, gates = around.sampler, _GATES[op.name]
    steps, batch, width, hidden = sampler.pick((1, 2, 3)), sampler.pick((1, 2)), sampler.pick((1, 2, 3)), sampler.pick((1, 2, 3))
    ways = sampler.pick((1, 1, 2))
    dtype = sampler.pick(("float32", "float32", "float64"))
    rows, state = gates * hidden, (ways, batch, hidden)
    shapes = (
        (steps, batch, width),
        (ways, rows, width),
        (ways, rows, hidden),
        (ways, 2 * rows),
        (batch,),
        state,
        state,
        (ways, 3 * hidden),
    )
    types = [
        TensorType(shape, "int32" if i == 4 else dtype) if type_ is None else type_
        for i, (type_, shape) in enumerate(zip(known, shapes, strict=False))
    ]
    values = {4: Tensor.dense(np.asarray([sampler.integer(1, steps) for _ in range(batch)], np.int32))}
    values |= {i: Tensor.splat(0, state, dtype) for i in (5, 6) if sampler.chance(0.8)}
    attrs = {"hidden_size": hidden, "outputs": sampler.pick(("1", "11", "01")), "opset": sampler.pick((7, 14, 22))}
    direction = "bidirectional" if ways == 2 else sampler.pick(("forward", "reverse"))
    return Fit(types, {**attrs, "direction": direction, **fixed}, {i: value for i, value in values.items() if i < len(known)})


def _attention(op: Op, known: Known, fixed: Attributes, around: Around) -> Fit:
    sampler = around.sampler
    query, key, value = [_shape(type_) for type_ in known[:3]]
    heads = _number(fixed.get("q_num_heads"), sampler.pick((1, 2, 4)))
    shared = _number(fixed.get("kv_num_heads"), sampler.pick([count for count in (1, 2, 4) if heads % count == 0]))
    if len(query) != 3:
        like = len(key) == 3 and key[2] % shared == 0
        query = (
            (key[0], sampler.full(), heads * (key[2] // shared))
            if like
            else (sampler.full(), sampler.full(), heads * sampler.pick((1, 2, 3)))
        )
    if len(key) != 3:
        key = (query[0], sampler.full(), shared * query[2] // heads)
    if len(value) != 3:
        value = (*key[:2], shared * sampler.pick((1, 2)))
    whole = (query[0], heads, query[1], key[1])
    dtype = next((type_.dtype for type_ in known[:3] if isinstance(type_, TensorType)), around.dtype)
    drawn: Type = TensorType(sampler.weaker(whole), sampler.pick((dtype, "bool"))) if sampler.chance(0.5) else TupleType([])
    types = [type_ or TensorType(shape, dtype) for type_, shape in zip(known[:3], (query, key, value), strict=True)]
    attrs = {"q_num_heads": heads, "kv_num_heads": shared, "scale": sampler.pick((1.0, 0.5)), "is_causal": sampler.chance(0.3), **fixed}
    return Fit([*types, known[3] or drawn], attrs)


def _rotary(op: Op, known: Known, fixed: Attributes, around: Around) -> Fit:
    sampler = around.sampler
    heads, half = _number(fixed.get("num_heads"), sampler.pick((1, 2, 4))), sampler.pick((1, 2))
    data = _shape(known[0])
    if len(data) != 3:
        data = (sampler.full(), sampler.full(), heads * 2 * half)
    angles = (*data[:2], data[2] // heads // 2)
    dtype = next((type_.dtype for type_ in known if isinstance(type_, TensorType)), around.dtype)
    types = [type_ or TensorType(shape, dtype) for type_, shape in zip(known, (data, angles, angles), strict=True)]
    return Fit(types, {"num_heads": heads, "interleaved": sampler.chance(0.3), **fixed})


def own_dtype(op: Op, i: int) -> str | None:
    """The element type of an operand that is independent of the others."""
    if op.name.startswith("logical") or (op.name == "where" and i == 0):
        return "bool"
    indices = i == 1 and op.name in ("take", "gather", "gather_nd", "scatter_elements", "scatter_nd")
    return "int64" if indices or (op.name == "one_hot" and i == 0) else None


def _shape(type_: Type | None) -> Shape:
    """The shape of a tensor, with 2 for unknown sizes."""
    return tuple(dim if isinstance(dim, int) else 2 for dim in type_.shape) if isinstance(type_, TensorType) else ()


def _first(op: Op, fixed: Attributes, around: Around) -> Shape:
    """The shape of a first operand."""
    sampler, name = around.sampler, op.name
    if "pool" in name or name == "nn.lrn" or name.startswith("image.resize"):
        rank = int(name[-2]) if name.endswith("d") else 2
        return (sampler.pick((1, 1, 2, 0)), sampler.pick((1, 2, 3)), *(sampler.pick((1, 2, 3, 4)) for _ in range(rank)))
    if name == "nn.depth_to_space":
        block = _number(fixed.get("block_size"), 2)
        return (sampler.full(), sampler.pick((1, block * block, 2 * block * block)), sampler.full(), sampler.full())
    if name == "nn.space_to_depth":
        block = _number(fixed.get("block_size"), 2)
        return (sampler.full(), sampler.full(), sampler.pick((block, 2 * block, 1)), sampler.pick((block, 2 * block)))
    if name.endswith("_norm"):
        return sampler.shape(2) if sampler.chance(0.8) else around.base
    if name in ("nn.matmul", "nn.dense", "nn.batch_matmul"):
        return _product(op, around)
    if name == "broadcast_to" and sampler.chance(0.15):  # repeated heads
        return (sampler.full(), sampler.full(), 1, sampler.full(), sampler.full())
    return around.shape()


def _number(value: AnyValue, otherwise: int) -> int:
    return value if isinstance(value, int) and 0 < value < 10 else otherwise


def _product(op: Op, around: Around) -> Shape:
    sampler = around.sampler
    rows, inner = sampler.pick((1, 2, 4, 3, 0)), sampler.pick((1, 2, 3, 4, 0))
    if op.name == "nn.batch_matmul":
        return (sampler.full(), rows, inner)
    if sampler.chance(0.25) and len(around.base) >= 2:
        return around.base
    odd = (inner,) if op.name == "nn.matmul" else (sampler.full(), rows, inner)
    return sampler.pick([(rows, inner)] * 5 + [(inner, inner), (2, rows, inner), odd])  # type: ignore[no-any-return]  # of shapes


Shapes = list[Shape]
Operands = Callable[[Op, Known, Shape, Attributes, Around], Shapes]


def _broadcast(op: Op, known: Known, first: Shape, attrs: Attributes, around: Around) -> Shapes:
    """The first operand, and others equal to it or broadcast to it, occasionally larger."""
    sampler = around.sampler
    model = max((_shape(type_) for type_ in known if type_ is not None), key=len, default=first)
    drawn: Shapes = []
    for type_ in known:
        if type_ is not None:
            drawn.append(_shape(type_))
        elif not drawn and known[0] is None and all(other is None for other in known):
            drawn.append(model)
        else:
            way = sampler.generator.random()
            if way < 0.35:
                drawn.append(model)
            elif way < 0.6:
                drawn.append(sampler.weaker(model))
            else:
                drawn.append(sampler.along(model) if way < 0.9 else sampler.stronger(model))
    return drawn


def _alike(op: Op, known: Known, first: Shape, attrs: Attributes, around: Around) -> Shapes:
    return [first, *(around.sampler.weaker(first) if around.sampler.chance(0.4) else first for _ in known[1:])][: len(known)]


def _factor(op: Op, known: Known, first: Shape, attrs: Attributes, around: Around) -> Shapes:
    """Operands of a product; a fixed second operand determines the first."""
    sampler = around.sampler
    columns = sampler.dim()
    if op.name == "nn.dense":
        if known[0] is None and known[1] is not None and _shape(known[1]):
            first = (*first[:-1], _shape(known[1])[-1])
        return [first, (columns, first[-1] if first else 1)]
    swap_a, swap_b = bool(attrs.get("transpose_a")), bool(attrs.get("transpose_b", op.name == "nn.batch_matmul"))
    if known[0] is None and known[1] is not None and _shape(known[1]):
        second = _shape(known[1])
        inner = second[-1] if swap_b or len(second) == 1 else second[-2]
        batch = second[:-2] if sampler.chance(0.7) else sampler.weaker(second[:-2])
        rows = sampler.full()
        return [(*batch, inner, rows) if swap_a else (*batch, rows, inner), second]
    if not first:
        return [first, (columns,)]
    inner = first[-2] if swap_a and len(first) > 1 else first[-1]
    batch = first[:-2] if op.name == "nn.batch_matmul" or sampler.chance(0.3) else ()
    square = sampler.chance(0.25)
    second = (*batch, inner, inner if square else columns)
    if op.name == "nn.matmul" and sampler.chance(0.1):
        second = (inner,) if sampler.chance(0.5) else (2, inner, columns)
    return [first, (*second[:-2], second[-1], second[-2]) if swap_b and len(second) > 1 else second]


def _vectors(op: Op, known: Known, first: Shape, attrs: Attributes, around: Around) -> Shapes:
    """Data, and vectors along one of its axes."""
    if op.name == "nn.bias_add" and known[0] is None and known[1] is not None and len(_shape(known[1])) == 1:
        size = _shape(known[1])[0]
        axis = attrs.get("axis", 1)
        at = axis % len(first) if first and -len(first) <= axis < len(first) else 0
        return [(*first[:at], size, *first[at + 1 :]), (size,)]
    axis = attrs.get("axis", 1)
    size = first[axis] if isinstance(axis, int) and -len(first) <= axis < len(first) else 1
    if op.name == "nn.prelu" and around.sampler.chance(0.3):
        size = 1
    return [first, *[(size,) for _ in known[1:]]]


def _layer(op: Op, known: Known, first: Shape, attrs: Attributes, around: Around) -> Shapes:
    axis = attrs.get("axis", -1)
    rest = first[axis:] if -len(first) <= axis < len(first) else first
    return [first, *[rest for _ in known[1:]]]


def _indices(op: Op, known: Known, first: Shape, attrs: Attributes, around: Around) -> Shapes:
    sampler = around.sampler
    if op.name == "gather_nd":
        return [first, (*sampler.shape(0, 1), sampler.integer(1, max(len(first), 1)))]
    if op.name == "gather":
        return [first, tuple(dim if sampler.chance(0.6) else sampler.full() for dim in first)]
    if op.name == "scatter_elements":
        return [first, first, first]
    if op.name == "scatter_nd":
        return [first, (2, 1), (2, *first[1:])]
    return [first, sampler.shape(0, 2)]


_SHAPES: Final[dict[str, Operands]] = {
    **dict.fromkeys(("nn.matmul", "nn.dense", "nn.batch_matmul"), _factor),
    **dict.fromkeys(("nn.bias_add", "nn.batch_norm", "nn.instance_norm", "nn.group_norm", "nn.prelu"), _vectors),
    **dict.fromkeys(("nn.layer_norm", "nn.rms_norm"), _layer),
    **dict.fromkeys(("take", "gather", "gather_nd", "scatter_elements", "scatter_nd"), _indices),
    "one_hot": lambda op, known, first, attrs, around: [first, (), ()],
}
_TUPLES: Final = frozenset({"concatenate", "stack", "einsum", "elemwise_max", "elemwise_mean", "elemwise_min", "elemwise_sum"})


def _tuple(op: Op, known: Known, fixed: Attributes, around: Around) -> Fit:
    """The operand of an operator that takes a tuple: known, partly known, or unknown."""
    sampler = around.sampler
    whole = known[0]
    given: Known = whole.fields if isinstance(whole, TupleType) else [None] * sampler.pick((1, 2, 2, 3))
    parts = [type_ if isinstance(type_, TensorType) else None for type_ in given]  # an unknown field has no tensor type
    model = next((type_ for type_ in parts if type_ is not None), None) or TensorType(around.shape(), around.dtype)
    attrs = {**random_attributes(op, _shape(model), model.dtype, sampler), **fixed}
    if op.name == "einsum":
        attrs = {"equation": _equation([_shape(type_) if type_ else _shape(model) for type_ in parts], sampler), **fixed}
    made = [type_ or model.with_shape(_field(op, _shape(model), attrs, sampler)) for type_ in parts]
    return Fit([TupleType(made)], attrs)


def _field(op: Op, model: Shape, attrs: Attributes, sampler: Sampler) -> Shape:
    """The shape of a further field, similar to a given one."""
    if op.name == "concatenate":
        axis = attrs.get("axis", 0)
        if not isinstance(axis, int) or not -len(model) <= axis < len(model) or sampler.chance(0.5):
            return model
        at = axis % len(model)
        return (*model[:at], sampler.dim(), *model[at + 1 :])
    return sampler.weaker(model) if op.name.startswith("elemwise") and sampler.chance(0.5) else model


def _equation(shapes: Sequence[Shape], sampler: Sampler) -> str:
    """A random einsum equation: axes of equal size have the same letter."""
    terms = ["".join("abcde"[min(dim, 4)] for dim in shape) for shape in shapes]
    letters = sorted({letter for text in terms for letter in text})
    return f"{','.join(terms)}->{''.join(letter for letter in letters if sampler.chance(0.6))}"


def _convolution(op: Op, known: Known, fixed: Attributes, around: Around) -> Fit:
    sampler = around.sampler
    rank = int(op.name.removeprefix("nn.conv")[0])
    transposed = op.name.endswith("transpose")
    attrs = {**convolution_attributes(rank, sampler), **fixed}
    last = not str(attrs.get("data_layout", "NC")).startswith("NC")
    data, weight = (_shape(type_) if type_ is not None else None for type_ in known)
    inner = (data[-1] if last else data[1]) if data is not None and len(data) == rank + 2 else None
    groups = attrs.get("groups")
    if groups is None:
        groups = sampler.pick((1, 1, 1, 2)) if inner is None or inner % 2 == 0 else sampler.pick((1, 1, max(inner, 1)))
        attrs["groups"] = groups
    if weight is not None and len(weight) == rank + 2:
        inner = inner if inner is not None else weight[0] if transposed else weight[1] * groups
    if inner is None:
        inner = groups * sampler.pick((1, 2))
    outer = groups * sampler.pick((1, 1, 2, 3))
    if data is None:
        places = tuple(sampler.pick((3, 4, 3, 2)) for _ in range(rank))
        batch = sampler.pick((1, 2, 1, 0))
        data = (batch, *places, inner) if last else (batch, inner, *places)
    if weight is None:
        window = (sampler.pick((1, 2, 3)),) * rank if sampler.chance(0.5) else tuple(sampler.pick((1, 1, 2, 3)) for _ in range(rank))
        weight = (inner, outer // groups, *window) if transposed else (outer, inner // groups, *window)
    dtype = next((type_.dtype for type_ in known if isinstance(type_, TensorType)), around.dtype)
    return Fit([known[0] or TensorType(data, dtype), known[1] or TensorType(weight, dtype)], attrs)


def _in_blocks(op: Op, known: Known, fixed: Attributes, around: Around) -> Fit:
    """Operands of an operator on blocks: those of the operator on whole axes, with their channels in blocks that divide them."""
    sampler, letters = around.sampler, SPATIAL[int(WHOLE[op].name[-2])]
    names: list[str] = [name for name in ("data_layout", "layout", "kernel_layout") if name in op.attr_params]
    layouts = [
        str(fixed.get(name, _layout_like(f"{'OI' if name == 'kernel_layout' else 'NC'}{letters}", _shape(type_))))
        for name, type_ in zip(names, known, strict=True)
    ]
    try:
        given = [
            None if type_ is None else tensor_type(type_).with_shape(joined_shape(_shape(type_), layout))
            for type_, layout in zip(known, layouts, strict=True)
        ]
        plain = {name: without_blocks(layout) for name, layout in zip(names, layouts, strict=True)}
        base = (sampler.pick((1, 2)), sampler.pick((2, 4, 3)), *(sampler.pick((3, 4)) for _ in letters))
        found = fit(WHOLE[op], given, {**fixed, **plain}, around._replace(base=base, seen=[]))
        types = list(known)
        for i, made in enumerate(map(tensor_type, found.types)):
            if known[i] is None:
                if names[i] not in fixed:
                    block = sampler.pick([size for size in (1, 2, 3) if _shape(made)[1] % size == 0])
                    layouts[i] += f"{block}{layouts[i][1].lower()}"
                types[i] = made.with_shape(split_shape(_shape(made), layouts[i]))
    except (OpTypeError, ValueError) as error:  # the given shapes and layouts contradict each other
        raise Unfit(str(error)) from None
    return Fit([tensor_type(type_) for type_ in types if type_ is not None], {**found.attrs, **dict(zip(names, layouts, strict=True))})


def _layout_like(letters: str, shape: Shape) -> str:
    """A layout of these axes for a tensor of this shape, whose further axes are blocks of axis 1, and then of axis 0."""
    blocks = zip(shape[len(letters) :], (letters[1], letters[0]), strict=False)
    return letters + "".join(f"{size}{letter.lower()}" for size, letter in blocks)


def _dynamic(op: Op, known: Known, around: Around) -> Fit:
    """A `dyn.` operator, whose further operands are constants: the attributes of the static operator."""
    sampler = around.sampler
    kind = op.name.removeprefix("dyn.")
    data = known[0]
    if not isinstance(data, TensorType):
        data = TensorType(() if kind == "full" else around.shape(), "int64" if kind == "one_hot" else around.dtype)
    shape = _shape(data)
    static = get_op("nn.pad" if kind == "pad" else kind)
    drawn = random_attributes(static, shape, data.dtype, sampler, around.seen)
    tensors: list[Tensor] = [Tensor.dense(np.asarray(vector, np.int64)) for vector in _lists(kind, drawn, shape, sampler)]
    attrs: dict[str, AnyValue] = {}
    if kind == "pad":
        attrs["pad_mode"] = drawn["pad_mode"]
        tensors.append(Tensor.dense(np.asarray(sampler.pick((0, 1))), data.dtype))
    elif kind == "one_hot":
        tensors += [Tensor.dense(np.asarray(value), around.dtype) for value in (1, 0)]
        attrs["axis"] = sampler.pick((-1, 0))
    elif kind == "topk":
        attrs["axis"], attrs["largest"] = sampler.pick((-1, 0)), sampler.chance(0.5)
    types: list[Type] = [data, *(TensorType(tensor.shape, tensor.dtype) for tensor in tensors)]
    return Fit([given or type_ for given, type_ in zip(known, types, strict=True)], attrs, dict(enumerate(tensors, 1)))


def _lists(kind: str, drawn: Attributes, shape: Shape, sampler: Sampler) -> list[Sequence[int]]:
    """The lists of integers that a dynamic operator takes after its data."""
    if kind == "reshape":
        return [drawn["newshape"]]
    if kind == "broadcast_to":
        return [drawn["shape"]]
    if kind == "full":
        return [sampler.shape(0, 3)]
    if kind == "tile":
        return [drawn["reps"][-len(shape) :] if shape else ()]
    if kind == "strided_slice":
        return [drawn["begin"], drawn["end"], drawn["strides"] or (1,) * len(drawn["begin"]), drawn["axes"]]
    if kind == "pad":
        return [[before for before, _ in drawn["pad_width"]] + [after for _, after in drawn["pad_width"]]]
    return [[sampler.integer(0, 3)]]
