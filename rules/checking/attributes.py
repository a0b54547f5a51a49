"""Random attributes that mostly suit the operands: chosen by parameter name, or by a function of the operator. Quantized operators get
integers in the shapes of the operator on real numbers, and constant scales and zero points."""

import math
from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.op import Op, find_op, get_op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.checking.sampler import ALL_TYPES, Sampler

END: Final = 2**63 - 1
Attributes = dict[str, AnyValue]
Shape = tuple[int, ...]
Drawer = Callable[[Shape, str, Sampler], Attributes]


def random_attributes(op: Op, shape: Shape, dtype: str, sampler: Sampler, seen: Sequence[Shape] = ()) -> Attributes:
    """Attributes of an operator whose first operand has this shape and element type; some keep their defaults. `seen` are shapes that occur
    around the call."""
    if not op.attr_params:
        return {}
    if op.name == "reshape":
        return _reshape(shape, sampler, seen)
    if op.name.startswith(("nn.max_pool", "nn.avg_pool", "nn.lp_pool")):
        return _pool(op, shape, sampler)
    if op.name.startswith("image.resize"):
        return _resize(op, sampler)
    own = _DRAWERS.get(op.name)
    if own is not None:
        return own(shape, dtype, sampler)
    return {name: drawn for name in op.attr_params if (drawn := _parameter(op, name, shape, sampler)) is not None}


def _parameter(op: Op, name: str, shape: Shape, sampler: Sampler) -> AnyValue:
    """A value for a parameter by its name; None keeps the default."""
    rank, default = len(shape), op.defaults[name]
    if name == "axis":
        return _axis(op, rank, default, sampler)
    if isinstance(default, bool):
        return sampler.chance(0.5)
    if not op.is_own:
        return _declared(op, name, sampler)
    if name in ("layout", "data_layout") and isinstance(default, str) and sampler.chance(0.2):
        return f"N{default[2:]}C"
    return sampler.pick(_BY_NAME[name]) if name in _BY_NAME else None


def _declared(op: Op, name: str, sampler: Sampler) -> AnyValue:
    """A value for a parameter of a custom operator: for floats, values besides the default; without a default, numbers that the annotation
    allows."""
    parameter = op.attr_params[name]
    default, said = parameter.default, str(parameter.annotation)
    if default is parameter.empty and ("float" in said or "int" in said):
        number = sampler.pick((0.5, 1.0, 2.0, -0.5) if "float" in said else (1, 2, 3, 0))
        return (number, number) if "tuple" in said else number
    return sampler.pick((default * 0.5, 2.0, -0.5, 0.0)) if isinstance(default, float) and sampler.chance(0.6) else None


def _axis(op: Op, rank: int, default: AnyValue, sampler: Sampler) -> AnyValue:
    one = sampler.integer(-rank, rank - 1) if rank else 0
    if op.pattern != 3 or op.name.startswith("arg"):
        return one if not isinstance(default, int) or sampler.chance(0.6) else default
    return sampler.pick([None, one, one, tuple(axis - sampler.pick((0, rank)) for axis in range(rank) if sampler.chance(0.5))])


_BY_NAME: Final[dict[str, Sequence[AnyValue]]] = {
    "alpha": (0.5, 1.0, 0.0, -0.5, 2.0),
    "approximate": ("none", "tanh"),
    "beta": (0.5, 1.0, 0.0),
    "bias": (0.0, 0.5, 1.0),
    "block_size": (1, 2, 2),
    "compute_dtype": ("None", "int64", "float32", "float64"),
    "depth": (0, 1, 2, 3),
    "dtype": (*ALL_TYPES, None, None),
    "epsilon": (1e-5, 1e-3, 0.1),
    "eps": (1e-5, 1e-3, 0.1),
    "gamma": (0.5, 1.0, 2.0),
    "k": (0, 1, 2, 3, -1),
    "lambd": (0.5, 0.0, 1.0),
    "mode": ("DCR", "CRD"),
    "num_groups": (1, 1, 2),
    "p": (1, 2),
    "reduction": ("none", "add", "mul"),
    "rounding": ("None", "UPWARD", "TONEAREST"),
    "repeats": (0, 1, 2),
    "shape": ((), (2,), (1, 3), (0, 2)),
    "size": (1, 3, 5),
}


def _transpose(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    rank = len(shape)
    order = tuple(range(rank)) if sampler.chance(0.3) else tuple(int(axis) for axis in sampler.generator.permutation(rank))
    if rank >= 2 and sampler.chance(0.2):
        order = (*range(rank - 2), rank - 1, rank - 2)
    return {"axes": sampler.pick([None, order, order, tuple(axis - rank for axis in order)])}


def _reshape(shape: Shape, sampler: Sampler, seen: Sequence[Shape]) -> Attributes:
    if len(shape) in (2, 3) and sampler.chance(0.15):  # rows split into heads
        heads = 2 if shape[-1] % 2 == 0 else 1
        return {"newshape": (*shape[:-1], heads, shape[-1] // heads), "allowzero": False}
    if len(shape) == 5 and sampler.chance(0.6):  # heads and their copies
        return {"newshape": (shape[0], shape[1] * shape[2], *shape[3:]), "allowzero": False}
    size = math.prod(shape)
    rest = size
    target: list[int] = []
    while rest > 1 and len(target) < 3:
        factor = int(sampler.pick([divisor for divisor in range(1, rest + 1) if rest % divisor == 0]))
        target.append(factor)
        rest //= factor
    target.append(rest)
    fitting = [other for other in seen if math.prod(other) == size]
    fitting += [(*other[:-1], shape[-1]) for other in seen if other and shape and math.prod(other[:-1]) * shape[-1] == size]
    if len(shape) > 1 and sampler.chance(0.25):
        target = [math.prod(shape[:-1]), shape[-1]]
    elif fitting and sampler.chance(0.5):
        target = list(sampler.pick(fitting))
    elif sampler.chance(0.2):
        target = list(shape)
    if target and sampler.chance(0.4):
        target[sampler.integer(0, len(target) - 1)] = -1
    newshape = (0 if i < len(shape) and dim == shape[i] and sampler.chance(0.3) else dim for i, dim in enumerate(target))
    return {"newshape": tuple(newshape), "allowzero": sampler.chance(0.1)}


def _expand_dims(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    rank = len(shape)
    axis = sampler.integer(-rank - 1, rank)
    few = {"axis": axis, "num_newaxis": sampler.pick((0, 1, 1, 2))}
    return dict(sampler.pick([few, {"axis": (0, rank + 1)}, {"axis": (sampler.integer(0, rank),)}]))


def _squeeze(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    some = tuple(i - sampler.pick((0, len(shape))) for i, dim in enumerate(shape) if dim == 1 and sampler.chance(0.7))
    return {"axis": sampler.pick([None, some, some])}


def _broadcast_to(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    if len(shape) == 5 and shape[2] == 1 and sampler.chance(0.6):
        return {"shape": (*shape[:2], sampler.full(), *shape[3:])}
    return {"shape": shape if sampler.chance(0.25) else sampler.stronger(shape)}


def _pad(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    width = tuple((sampler.pick((0, 0, 0, 0, 1)), sampler.pick((0, 0, 0, 0, 2, -1))) for _ in shape)
    return {
        "pad_width": width,
        "pad_mode": sampler.pick(("constant", "constant", "edge", "reflect")),
        "pad_value": float(sampler.pick((0, 1))),
    }


def _split(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    axis = sampler.integer(0, len(shape) - 1) if shape else 0
    size = shape[axis] if shape else 1
    places = tuple(sorted(sampler.integer(0, size) for _ in range(sampler.pick((0, 1, 1, 2)))))
    return {"indices_or_sections": sampler.pick([1, 2, 2, places, places, max(size, 1)]), "axis": axis - sampler.pick((0, 0, len(shape)))}


def _strided_slice(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    axes = tuple(axis for axis in range(len(shape)) if sampler.chance(0.7))
    if sampler.chance(0.25):
        return {"begin": (0,) * len(axes), "end": (END,) * len(axes), "strides": (1,) * len(axes), "axes": axes}
    strides = tuple(sampler.pick((1, 1, 1, 2, -1, -2)) for _ in axes)
    return {
        "begin": tuple(sampler.integer(-5, 5) for _ in axes),
        "end": tuple(sampler.pick([sampler.integer(-5, 5), END if step > 0 else -END]) for step in strides),
        "strides": None if all(step == 1 for step in strides) and sampler.chance(0.5) else strides,
        "axes": axes,
    }


def _batch_norm(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    epsilon = sampler.pick((1e-5, 1e-3, 0.1))
    return {"axis": sampler.pick((1, 1, 1, 1, -1, 0)), "epsilon": epsilon, "center": sampler.chance(0.9), "scale": sampler.chance(0.9)}


def _layout_transform(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    """Layouts that split an axis into blocks, or the reverse: a last axis of at most 4 elements may be the blocks of any other axis."""
    letters = "NCHWDTAB"[: max(len(shape), 1)]
    if len(shape) > 1 and 1 <= shape[-1] <= 4 and sampler.chance(0.5):
        letters = letters[:-1]
        blocks = f"{shape[-1]}{sampler.pick(letters).lower()}"
        return {
            "src_layout": letters + blocks,
            "dst_layout": sampler.pick((letters, letters, letters[::-1], f"{letters}1{letters[0].lower()}")),
        }
    i = sampler.integer(0, len(letters) - 1)
    size = shape[i] if shape else 1
    block = sampler.pick([each for each in (1, 2, 3) if size % each == 0])
    target = sampler.pick((letters, letters, letters[::-1]))
    return {"src_layout": letters, "dst_layout": f"{target}{block}{letters[i].lower()}"}


def _matmul(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    flagged = len(shape) == 2 and sampler.chance(0.3)
    return {"transpose_a": flagged and sampler.chance(0.5), "transpose_b": flagged and sampler.chance(0.5)}


def _reverse(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    one = sampler.integer(0, len(shape) - 1) if shape else 0
    return {"axis": sampler.pick([one, (one,)])}


def _space_to_batch(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    pairs, blocks = [], []
    for size in shape[1:3]:
        block, begin = sampler.pick((1, 2, 2, 3)), sampler.pick((0, 0, 1))
        blocks.append(block)
        pairs.append((begin, -(size + begin) % block))
    return {"block_shape": tuple(blocks), "paddings": tuple(pairs)}


def _batch_to_space(shape: Shape, dtype: str, sampler: Sampler) -> Attributes:
    block = sampler.pick([size for size in (1, 2, 3) if shape and shape[0] % size == 0] or [1])
    crop = sampler.pick((0, 0, 1)) if len(shape) > 1 and shape[1] > 0 else 0
    return {"block_shape": (block,) if len(shape) > 1 else (), "crops": ((crop, 0),) if len(shape) > 1 else ()}


def _pool(op: Op, shape: Shape, sampler: Sampler) -> Attributes:
    """Windows of sizes 1 to 3 that mostly fit the data."""
    rank = int(op.name[-2]) if op.name.endswith("d") else max(len(shape) - 2, 1)
    window = tuple(sampler.pick((1, 2, 2, 3)) for _ in range(rank))
    drawn: Attributes = {"pool_size": window, "strides": tuple(sampler.pick((1, 1, 2)) for _ in window)}
    if sampler.chance(0.4):
        drawn["padding"] = tuple(sampler.pick((0, size // 2)) for size in (*window, *window))
    for name in ("ceil_mode", "count_include_pad"):
        if name in op.attr_params:
            drawn[name] = sampler.chance(0.3)
    if "p" in op.attr_params:
        drawn["p"] = sampler.pick((1, 2))
    if "layout" in op.attr_params and sampler.chance(0.2):
        drawn["layout"] = f"N{op.defaults['layout'][2:]}C"
    return drawn


def _resize(op: Op, sampler: Sampler) -> Attributes:
    """Sizes and kinds of interpolation."""
    rank = int(op.name[-2])
    drawn: Attributes = {"size": tuple(sampler.pick((1, 2, 3, 4)) for _ in range(rank))}
    drawn["method"] = sampler.pick(("nearest_neighbor", "linear", "linear", "cubic"))
    drawn["coordinate_transformation_mode"] = sampler.pick(("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"))
    if sampler.chance(0.2):
        drawn["layout"] = f"N{op.defaults['layout'][2:]}C"
    return drawn


def convolution_attributes(rank: int, sampler: Sampler) -> Attributes:
    """Attributes of a convolution over `rank` spatial dimensions. The shapes determine the groups."""
    drawn: Attributes = {"strides": sampler.pick((1, 1, 2)), "padding": sampler.pick((0, 1))}
    if sampler.chance(0.1):
        drawn["dilation"] = 2
    if sampler.chance(0.15):
        drawn["data_layout"] = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank]
    return drawn


_DRAWERS: Final[dict[str, Drawer]] = {
    "broadcast_to": _broadcast_to,
    "cast": lambda _, dtype, sampler: {"dtype": dtype if sampler.chance(0.2) else sampler.pick(ALL_TYPES)},
    "clip": lambda _, __, sampler: {"a_min": sampler.pick((None, 0, -0.0, -1, 2)), "a_max": sampler.pick((None, 1, -0.0, 5, -3))},
    "concatenate": lambda shape, _, sampler: {"axis": sampler.integer(-max(len(shape), 1), max(len(shape), 1) - 1)},
    "expand_dims": _expand_dims,
    "layout_transform": _layout_transform,
    "gather_nd": lambda _, __, sampler: {"batch_dims": sampler.pick((0, 0, 0, 1))},
    "nn.batch_flatten": lambda shape, _, sampler: {"axis": sampler.integer(-len(shape), len(shape))},
    "nn.batch_norm": _batch_norm,
    "nn.batch_to_space_nd": _batch_to_space,
    "nn.bias_add": lambda _, __, sampler: {"axis": sampler.pick((1, 1, -1, 0))},
    "nn.matmul": _matmul,
    "nn.pad": _pad,
    "nn.space_to_batch_nd": _space_to_batch,
    "reverse": _reverse,
    "split": _split,
    "squeeze": _squeeze,
    "stack": lambda shape, _, sampler: {"axis": sampler.integer(-len(shape) - 1, len(shape))},
    "strided_slice": _strided_slice,
    "take": lambda shape, _, sampler: {"axis": sampler.pick([None, *range(-len(shape), len(shape))])},
    "tile": lambda shape, _, sampler: {
        "reps": tuple(sampler.pick((1, 1, 1, 2, 0)) for _ in range(len(shape) + sampler.pick((0, 0, 0, 1))))
    },
    "transpose": _transpose,
}


_REAL: Final = {"qnn.mul": "multiply"}
Drawn = tuple[list[Type], Attributes, dict[int, Tensor]]
Real = Callable[[Op, Sequence[Type | None], Attributes, str], tuple[Sequence[Type], Attributes]]
"""Draws operand types and attributes of an operator on real numbers, for an element type."""


def fit_quantized(op: Op, known: Sequence[Type | None], fixed: Attributes, sampler: Sampler, real: Real) -> Drawn:
    """Types for the unknown operands of a quantized operator, attributes, and the values of scales and zero points."""
    places = [i for i, name in enumerate(op.operand_names) if not name.endswith(("scale", "scales", "zero_point", "zero_points"))]
    dtype = "float32" if op.name == "qnn.quantize" else "int8"
    given = [known[i] for i in places]
    drawn, attrs = real(_counterpart(op), given, {name: value for name, value in fixed.items() if name != "out_dtype"}, dtype)
    types: list[Type] = [type_ or TensorType((), "float32") for type_ in known]
    values: dict[int, Tensor] = {}
    for i, type_ in zip(places, drawn, strict=True):
        types[i] = known[i] or _of_dtype(type_, dtype)
    shape = tuple(dim if isinstance(dim, int) else 2 for dim in types[0].shape) if isinstance(types[0], TensorType) else ()
    own = random_attributes(op, shape, dtype, sampler)
    if op.name in ("qnn.quantize", "qnn.requantize"):
        own["out_dtype"] = sampler.pick(("int8", "int8", "int16", "int32"))
    attrs = {**own, **attrs, **fixed}
    axis = attrs.get("axis", -1)
    vector = (shape[axis],) if shape and isinstance(axis, int) and -len(shape) <= axis < len(shape) and sampler.chance(0.3) else ()
    for i, name in enumerate(op.operand_names):
        if i in places:
            continue
        number = np.float32(sampler.pick((0.5, 1.0, 0.25, 0.3))) if "scale" in name else np.int32(sampler.pick((0, 0, 1, -2)))
        if name.endswith("s") and isinstance(types[0], TupleType):
            whole = known[i]
            given_fields = whole.fields if isinstance(whole, TupleType) else [None] * len(types[0].fields)
            types[i] = TupleType([field if isinstance(field, TensorType) else TensorType((), number.dtype.name) for field in given_fields])
        elif known[i] is None:
            size = vector if "axis" in op.attr_params and (name.startswith("input") or op.name == "qnn.quantize") else ()
            types[i], values[i] = TensorType(size, number.dtype.name), Tensor.dense(np.full(size, number))
    return types, {name: value for name, value in attrs.items() if name in op.attr_params}, values


def _counterpart(op: Op) -> Op:
    """The operator on real numbers; `negative` for those that keep shapes."""
    name = op.name.removeprefix("qnn.")
    return find_op(_REAL.get(op.name, f"nn.{name}")) or find_op(name) or get_op("negative")


def _of_dtype(type_: Type, dtype: str) -> Type:
    if isinstance(type_, TupleType):
        return TupleType([_of_dtype(field, dtype) for field in type_.fields])
    assert isinstance(type_, TensorType)
    return type_.with_dtype(dtype)
