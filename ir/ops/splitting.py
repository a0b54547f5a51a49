"""The operator split: splits a tensor along an axis, into equal parts or at given positions."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.counting import counted
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import KnownValue, OpTypeError, define_op
from passat.ir.ops.reshaping import int64
from passat.ir.ops.slicing import END, emit_slice, slice_length
from passat.ir.shape import Dim, divide
from passat.ir.tensor import Array
from passat.ir.types import TensorType, TupleType, Type, tensor_type

_MOST_PARTS: Final = 1 << 16
"""Maximum number of parts; an empty tensor, or one of unknown size, could be split into any number."""


def _split(data: Array, indices_or_sections: int | Sequence[int], axis: int) -> tuple[Array, ...]:
    at = indices_or_sections if isinstance(indices_or_sections, int) else list(indices_or_sections)
    return tuple(np.split(data, at, axis))


def _known(types: Sequence[Type], values: Sequence[KnownValue | None], attrs: Attrs) -> KnownValue | None:
    value = values[0]
    return None if value is None or isinstance(value, tuple) else _split(value, **attrs)


def _count(attrs: Attrs) -> int:
    cut: int | tuple[int, ...] = attrs["indices_or_sections"]
    return cut if isinstance(cut, int) else len(cut) + 1


@define_op("split", kernel=_split, movement=True, shape_arith=True, known=_known, results=_count)
def split(data: TensorType, *, indices_or_sections: int | tuple[int, ...], axis: int = 0) -> TupleType:
    """Splits `data` along `axis`: into a number of equal parts, or before each of the given positions, in increasing order.

    ONNX Split (2, 11, 13, 18), Relay split.
    """
    at = tensor_type(data, "data").axis(axis)
    return TupleType(
        data.with_shape((*data.shape[:at], size, *data.shape[at + 1 :])) for size in _sizes(data.shape[at], indices_or_sections)
    )


def _sizes(size: Dim, indices_or_sections: int | Sequence[int]) -> list[Dim]:
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if not 1 <= count <= _MOST_PARTS or (isinstance(size, int) and size % count):
            raise OpTypeError(f"a size of {size} cannot be split into {counted(count, 'equal part')}")
        return [divide(size, count)] * count
    places = [0, *indices_or_sections]
    if sorted(places) != places or (isinstance(size, int) and places[-1] > size):
        raise OpTypeError(f"indices_or_sections={tuple(indices_or_sections)} must be increasing positions within a size of {size}")
    return [slice_length(size, begin, end, 1) for begin, end in zip(places, [*places[1:], END], strict=True)]


@from_onnx("Split")
def _read_split(node: OnnxNode) -> Expr | None:
    data, axis = node.type(0), node.axis()
    size = data.shape[axis] if -data.ndim <= axis < data.ndim else None
    count = node.n_outputs
    sizes = node.attrs.get("split") if node.version < 13 else node.ints(1)
    if size is None or (sizes is None and node.has(1)):
        return None
    if sizes is None:
        if node.version >= 18 and node.attrs.get("num_outputs") != count:
            return None
        if not isinstance(size, int):
            # Since opset 18 the last part may be smaller, so equal parts must be proven.
            if node.version >= 18 and divide(size, count) * count != size:
                return None
            return _call(node, count, axis)
        part = -(-size // count) if node.version >= 18 else size // count
        sizes = (part,) * (count - 1) + (size - part * (count - 1),)
        if size % count and (node.version < 18 or sizes[-1] < 1):
            return None  # not allowed before opset 18, and no runtime allows an empty last part
    if not isinstance(size, int) or sum(sizes) != size or min(sizes) < 0 or len(sizes) != count:
        return None
    places = tuple(int(place) for place in np.cumsum(sizes)[:-1])
    return _call(node, count if len(set(sizes)) == 1 else places, axis)


def _call(node: OnnxNode, indices_or_sections: int | tuple[int, ...], axis: int) -> Call:
    return Call(split, [node.input(0)], split.bind_attrs({"indices_or_sections": indices_or_sections, "axis": axis}), span=node.span)


@to_onnx(split)
def _write_split(call: Call, inputs: Sequence[str], emit: Emitter) -> Sequence[str]:
    data, cut = tensor_type(call.args[0].checked_type), call.attrs.indices_or_sections
    axis = data.axis(call.attrs.axis)
    sizes = [size for size in _sizes(data.shape[axis], cut) if isinstance(size, int)]
    static = isinstance(data.shape[axis], int)
    if isinstance(cut, int) and (not static or (emit.opset >= 18 and 0 not in sizes)):
        # num_outputs must not exceed the size.
        return emit.nodes("Split", inputs, {"axis": axis, **({"num_outputs": cut} if emit.opset >= 18 else {})}, outputs=cut)
    if static and emit.opset >= 13:
        return emit.nodes("Split", [inputs[0], int64(emit, sizes)], {"axis": axis}, outputs=len(sizes))
    if static:
        return emit.nodes("Split", inputs, {"axis": axis, "split": tuple(sizes)}, outputs=len(sizes))
    places = [0, *cut, END]
    return [emit_slice(emit, inputs[0], data, {axis: (places[i], places[i + 1], 1)}) for i in range(len(cut) + 1)]
