"""Images resized by interpolation along their spatial dimensions, one after the other."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.cost import transcendental
from passat.ir.counting import counted
from passat.ir.expr import Call, Expr
from passat.ir.known import known_value
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.accumulate import narrow, wide
from passat.ir.ops.elementwise import FLOATING
from passat.ir.ops.emitting import float_attr, shortest
from passat.ir.ops.pooling import laid_out, spatial_shape
from passat.ir.ops.windows import SPATIAL, arranged, arranged_value
from passat.ir.shape import Dim, same_dim
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type

METHODS: Final = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
"""Relay's methods of interpolation, and ONNX's names."""
COORDINATES: Final = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_crop_and_resize")
_ROUNDINGS: Final = {
    "round": "round_prefer_ceil",
    "round_prefer_ceil": "round_prefer_ceil",
    "round_prefer_floor": "round_prefer_floor",
    "floor": "floor",
    "ceil": "ceil",
}
"""Roundings of coordinates to the nearest element, and ONNX's names."""
_WHOLE: Final = FLOATING | {"int8", "int32", "int64", "uint8"}
"""Element types for the nearest element; other methods take floating-point numbers."""


def _rounding(rounding_method: str, coordinates: str) -> str:
    """ONNX's name of a rounding; an empty name means down, or to the nearest for aligned corners."""
    return _ROUNDINGS[rounding_method or ("round" if coordinates == "align_corners" else "floor")]


def _positions(size: int, count: int, mode: str, start: float, end: float) -> Array:
    """The coordinate in the data of each element of the result."""
    places = np.arange(count, dtype=np.float64)
    if mode == "asymmetric":
        return places * (size / count)
    if mode == "align_corners":
        return places * ((size - 1) / (count - 1)) if count > 1 else np.zeros(count)
    if mode == "tf_crop_and_resize":
        if count > 1:
            return start * (size - 1) + places * ((end - start) * (size - 1) / (count - 1))
        return np.full(count, 0.5 * (start + end) * (size - 1))
    if mode == "pytorch_half_pixel" and count == 1:
        return np.zeros(count)
    return (places + 0.5) * (size / count) - 0.5


def _taps(positions: Array, size: int, method: str, rounding: str, alpha: float, exclude: bool) -> list[tuple[Array, Array]]:
    """The elements of the data that contribute to each element of the result, and their weights."""
    if method == "nearest_neighbor":
        rounded = {
            "floor": np.floor(positions),
            "ceil": np.ceil(positions),
            "round_prefer_floor": np.ceil(positions - 0.5),
            "round_prefer_ceil": np.floor(positions + 0.5),
        }[rounding]
        return [(np.clip(rounded, 0, size - 1).astype(np.int64), np.ones(len(positions)))]
    low = np.floor(positions)
    t = positions - low
    if method == "linear":
        first, weights = 0, np.stack([1 - t, t])
    else:
        first, weights = (
            -1,
            np.stack(
                [
                    alpha * (t**3 - 2 * t**2 + t),
                    (alpha + 2) * t**3 - (alpha + 3) * t**2 + 1,
                    -(alpha + 2) * t**3 + (2 * alpha + 3) * t**2 - alpha * t,
                    alpha * (t**2 - t**3),
                ]
            ),
        )
    places = low.astype(np.int64) + first + np.arange(len(weights))[:, None]
    if exclude and method == "cubic":
        weights = np.where((places < 0) | (places >= size), 0.0, weights)
        weights = weights / weights.sum(0)
    return list(zip(np.clip(places, 0, size - 1), weights, strict=True))


def _resize(
    data: Array,
    *,
    size: tuple[int, ...],
    roi: tuple[float, ...],
    layout: str,
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
    cubic_exclude: bool,
    extrapolation_value: float,
) -> Array:
    rank = data.ndim - 2
    plain = "NC" + SPATIAL[rank]
    whole = arranged(data, layout, plain)
    if not all(whole.shape[2:]):
        raise ValueError("there are no elements to interpolate")
    mode = coordinate_transformation_mode
    x: Array = whole if method == "nearest_neighbor" else wide(whole)
    outside = np.zeros(size, bool)
    for i, count in enumerate(size):
        axis, length = 2 + i, whole.shape[2 + i]
        start, end = (roi[i], roi[i + rank]) if roi else (0.0, 1.0)
        positions = _positions(length, count, mode, start, end)
        taps = _taps(positions, length, method, _rounding(rounding_method, mode), cubic_alpha, cubic_exclude)
        if method == "nearest_neighbor":
            x = np.take(x, taps[0][0], axis)
        else:
            along = [-1 if place == axis else 1 for place in range(x.ndim)]
            x = sum((np.take(x, places, axis) * weights.astype(x.dtype).reshape(along) for places, weights in taps), x.dtype.type(0))
        if mode == "tf_crop_and_resize":
            beyond = (positions < 0) | (positions > length - 1)
            outside |= beyond.reshape([-1 if j == i else 1 for j in range(rank)])
    if mode == "tf_crop_and_resize":
        x = np.where(outside, x.dtype.type(extrapolation_value), x)
    return arranged(narrow(x, data.dtype), plain, layout)


def _check(method: str, mode: str, rounding: str, roi: Sequence[float], rank: int, dtype: str) -> None:
    if method not in METHODS:
        raise OpTypeError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    if mode not in COORDINATES:
        raise OpTypeError(f"coordinate_transformation_mode must be one of {', '.join(COORDINATES)}, not {mode!r}")
    if rounding and rounding not in _ROUNDINGS:
        raise OpTypeError(f"rounding_method must be one of {', '.join(_ROUNDINGS)}, not {rounding!r}")
    if mode == "tf_crop_and_resize" and len(roi) != 2 * rank:
        raise OpTypeError(f"roi must have a begin and an end for {counted(rank, 'dimension')}, but is {tuple(roi)}")
    allowed = _WHOLE if method == "nearest_neighbor" else FLOATING
    if dtype not in allowed:
        raise OpTypeError(f"{method} takes {', '.join(sorted(allowed))}, not {dtype}; cast the data")


def _declare(rank: int) -> Op:
    letters = "NC" + SPATIAL[rank]

    def relation(
        data: TensorType,
        *,
        size: tuple[int, ...],
        roi: tuple[float, ...] = (),
        layout: str = letters,
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        cubic_alpha: float = -0.5,
        cubic_exclude: bool = False,
        extrapolation_value: float = 0.0,
    ) -> TensorType:
        shape = spatial_shape(data, rank, layout, _WHOLE)
        _check(method, coordinate_transformation_mode, rounding_method, roi, rank, data.dtype)
        if len(size) != rank or min(size) < 1:
            raise OpTypeError(f"size={tuple(size)} must be {rank} numbers of at least 1")
        return laid_out(data, (*shape[:2], *size), rank, layout)

    relation.__doc__ = f"""data ({", ".join(letters)}) resized to `size`, by the nearest element or linear or cubic interpolation.

    With tf_crop_and_resize, `roi` has the begins and ends of the region, from 0 to 1, and `extrapolation_value` replaces elements outside.
    Relay image.resize{rank}d. ONNX Resize (11, 13, 18, 19) of spatial dimensions of known sizes.
    """
    return define_op(f"image.resize{rank}d", kernel=_resize, cost=transcendental, pattern=2)(relation)


RESIZES: Final = {rank: _declare(rank) for rank in SPATIAL}
"""`image.resize1d`, `image.resize2d`, `image.resize3d`, by the number of spatial dimensions."""


_METHOD_OF: Final = {name: method for method, name in METHODS.items()}
_KNOWN: Final = {
    *("mode", "coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value"),
    *("antialias", "axes", "keep_aspect_ratio_policy"),
}


@from_onnx("Resize")
def _read(node: OnnxNode) -> Expr | None:
    """Reads a node that resizes the spatial dimensions of an image of known size to known sizes."""
    data, attrs = node.type(0), node.attrs
    rank = data.ndim - 2
    spatial = data.shape[2:]
    plain = not attrs.get("antialias", 0) and attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if node.version < 11 or rank not in SPATIAL or set(attrs) - _KNOWN or not plain or not all(isinstance(size, int) for size in spatial):
        return None
    mode, method = attrs.get("coordinate_transformation_mode", "half_pixel"), _METHOD_OF.get(attrs.get("mode", "nearest"))
    if method is None or mode not in COORDINATES or data.dtype not in (_WHOLE if method == "nearest_neighbor" else FLOATING):
        return None
    sizes = _read_sizes(node, data, mode)
    if sizes is None or (method == "cubic" and rank != 2):
        return None
    roi: tuple[float, ...] = ()
    if mode == "tf_crop_and_resize":
        region = node.constant(1)
        corners = () if region is None else tuple(region.numpy().astype(np.float32).reshape(-1).tolist())
        if len(corners) != 2 * data.ndim or corners[:2] != (0, 0) or corners[data.ndim : data.ndim + 2] != (1, 1) or "axes" in attrs:
            return None
        roi = (*corners[2 : data.ndim], *corners[data.ndim + 2 :])
    return RESIZES[rank](
        node.input(0),
        size=sizes,
        roi=tuple(map(shortest, roi)),
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=attrs.get("nearest_mode", "round_prefer_floor") if method == "nearest_neighbor" else "",
        cubic_alpha=float_attr(node, "cubic_coeff_a", -0.75) if method == "cubic" else -0.5,
        cubic_exclude=bool(attrs.get("exclude_outside", 0)) if method == "cubic" else False,
        extrapolation_value=float_attr(node, "extrapolation_value", 0.0) if roi else 0.0,
        span=node.span,
    )


def _read_sizes(node: OnnxNode, data: TensorType, mode: str) -> tuple[int, ...] | None:
    """The spatial sizes of the result. None if they are not known, other dimensions are resized, or scales differ from the quotients of
    the sizes, which give the coordinates."""
    axes = tuple(axis % data.ndim for axis in node.attrs.get("axes", range(data.ndim)))
    scales, given = node.constant(2), _given_sizes(node)
    wanted: dict[int, Dim] = {}
    if given:
        if (node.has(2) and (scales is None or scales.size)) or len(given) != len(axes):
            return None
        wanted = dict(zip(axes, given, strict=True))
    elif scales is not None and scales.size == len(axes) and mode != "tf_crop_and_resize":
        for axis, scale in zip(axes, scales.numpy().astype(np.float32).reshape(-1), strict=True):
            size = data.shape[axis]
            if axis < 2 and scale == 1:
                continue
            if axis < 2 or not isinstance(size, int) or not size:
                return None
            wanted[axis] = found_size = int(np.floor(np.float32(size) * scale))
            if not found_size or np.float32(found_size) / np.float32(size) != scale:
                return None
    else:
        return None
    if any(not same_dim(wanted.get(axis, data.shape[axis]), data.shape[axis]) for axis in (0, 1)):
        return None
    found = tuple(wanted.get(axis, size) for axis, size in enumerate(data.shape) if axis > 1)
    numbers = tuple(size for size in found if isinstance(size, int) and size > 0)
    return numbers if len(numbers) == len(found) else None


def _given_sizes(node: OnnxNode) -> tuple[Dim, ...] | None:
    """The operand with the sizes, which may be computed: the batch may have a name."""
    value = known_value(node.input(3)) if node.has(3) else None
    return tuple(value.reshape(-1).tolist()) if isinstance(value, np.ndarray) else None


def _write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    attrs, data = call.attrs, tensor_type(call.args[0].checked_type)
    rank = data.ndim - 2
    need_opset(emit, 11, RESIZES[rank])
    plain, mode = "NC" + SPATIAL[rank], attrs.coordinate_transformation_mode
    given: dict[str, object] = {"mode": METHODS[attrs.method], "coordinate_transformation_mode": mode}
    if attrs.method == "nearest_neighbor":
        given["nearest_mode"] = _rounding(attrs.rounding_method, mode)
    if attrs.method == "cubic":
        given |= {"cubic_coeff_a": attrs.cubic_alpha, "exclude_outside": int(attrs.cubic_exclude)}
    roi = ""
    if mode == "tf_crop_and_resize":
        given["extrapolation_value"] = attrs.extrapolation_value
        region = (0.0, 0.0, *attrs.roi[:rank], 1.0, 1.0, *attrs.roi[rank:])
        roi = emit.constant(np.array(region, np.float32))
    elif emit.opset < 13:
        roi = emit.constant(np.zeros(0, np.float32))
    scales = emit.constant(np.zeros(0, np.float32)) if emit.opset < 13 else ""
    x = arranged_value(emit, inputs[0], attrs.layout, plain)
    leading = [data.shape[attrs.layout.index(letter)] for letter in "NC"]
    quotients = _exact_scales([data.shape[attrs.layout.index(letter)] for letter in SPATIAL[rank]], attrs.size)
    if all(isinstance(size, int) for size in leading):
        sizes = emit.constant(np.array([*leading, *attrs.size], np.int64))
    elif quotients is not None and mode != "tf_crop_and_resize":
        sizes, scales = "", emit.constant(np.array([1, 1, *quotients], np.float32))
    else:
        bounds = [emit.constant(np.array([place], np.int64)) for place in (0, 2)]
        first = emit.node("Slice", [emit.node("Shape", [x]), *bounds])
        sizes = emit.node("Concat", [first, emit.constant(np.array(attrs.size, np.int64))], {"axis": 0})
    return arranged_value(emit, emit.node("Resize", [x, roi, scales, sizes], given), plain, attrs.layout)


def _exact_scales(before: Sequence[Dim], after: Sequence[int]) -> list[float] | None:
    """The scales that say the same as the sizes after: their quotients, if the sizes follow from these. None if there are none."""
    found = []
    for size, wanted in zip(before, after, strict=True):
        if not isinstance(size, int) or not size:
            return None
        scale = np.float32(wanted) / np.float32(size)
        if any(int(np.floor(product)) != wanted for product in (np.float32(size) * scale, size * float(scale))):
            return None  # ONNX Runtime multiplies in float32, and shape inference in float64
        found.append(float(scale))
    return found


for _op in RESIZES.values():
    to_onnx(_op)(_write)
