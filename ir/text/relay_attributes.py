"""Translates calls in TVM's form: attributes and operands that Passat's operators have in a different form, or that follow from the
operands.

Only attributes with the same meaning in Passat are translated. Others stay, and the operator rejects them.
"""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.expr import Constant, Expr
from passat.ir.op import Op, get_op
from passat.ir.ops.indexing import clipped_indices
from passat.ir.ops.slicing import completed_slice, ends_of_sizes
from passat.ir.types import TensorType

_WITHOUT_MEANING: Final[dict[str, tuple[AnyValue, ...]]] = {
    "auto_scheduler_rewritten_layout": ("",),
    "meta_schedule_original_shape": (None, ()),
    "out_layout": ("",),
    "out_dtype": ("", None),
    "slice_mode": ("end",),
}
"""Attributes of TVM's operators, with their values that have no effect."""
_SAME_RESULT: Final = frozenset(("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "nn.dense", "nn.matmul", "nn.batch_matmul"))
"""Operators whose results have the element type of their first operand."""


def translated(op: Op, args: Sequence[Expr], attrs: dict[str, AnyValue]) -> tuple[Op, list[Expr], dict[str, AnyValue]]:
    """Translates the operator, operands and attributes of a call from TVM's form to Passat's."""
    args, attrs = list(args), dict(attrs)
    if op.name == "layout_transform" and attrs.keys() == {"src_layout", "dst_layout"}:
        source, target = str(attrs["src_layout"]), str(attrs["dst_layout"])
        if (source + target).isupper() and sorted(source) == sorted(target):  # no blocks
            return get_op("transpose"), args, {"axes": tuple(source.index(letter) for letter in target)}
    for name, values in _WITHOUT_MEANING.items():
        if name in attrs and name not in op.defaults and attrs[name] in values:
            del attrs[name]
    if op.name in _SAME_RESULT and args and attrs.get("out_dtype") == _dtype(args[0]) is not None:
        del attrs["out_dtype"]
    if attrs.get("out_layout") is not None and attrs.get("out_layout") == attrs.get("data_layout", op.defaults.get("data_layout")):
        del attrs["out_layout"]
    change = _CHANGES.get(op.name)
    if change is not None:
        change(args, attrs)
    return op, args, attrs


def _dtype(expr: Expr) -> str | None:
    type_ = expr._checked_type
    return type_.dtype if isinstance(type_, TensorType) else None


def _units(axis: int) -> Callable[[list[Expr], dict[str, AnyValue]], None]:
    """Drops the number of units, unless it contradicts the weight."""

    def change(args: list[Expr], attrs: dict[str, AnyValue]) -> None:
        type_ = args[1]._checked_type if len(args) == 2 else None
        turned = bool(attrs.get("transpose_b"))
        size = type_.shape[axis - turned if axis else axis] if isinstance(type_, TensorType) and type_.ndim == 2 else None
        if "units" in attrs and (attrs["units"] is None or not isinstance(size, int) or attrs["units"] == size):
            del attrs["units"]

    return change


def _take(args: list[Expr], attrs: dict[str, AnyValue]) -> None:
    """Drops the mode, which only affects indices out of range. Indices that TVM clips do not count from the back."""
    mode = attrs.get("mode")
    if mode in ("clip", "wrap", "fast"):
        del attrs["mode"]
    if mode == "clip" and len(args) == 2:
        args[1] = clipped_indices(args[1])
    if attrs.get("batch_dims") == 0:
        del attrs["batch_dims"]


def _pad(args: list[Expr], attrs: dict[str, AnyValue]) -> None:
    """Converts the padding value, which is an operand in TVM, to an attribute."""
    if len(args) == 2 and isinstance(args[1], Constant) and args[1].data.size == 1 and "pad_value" not in attrs:
        attrs["pad_value"] = float(args.pop().data.numpy().reshape(()))  # type: ignore[attr-defined]  # a Constant


def _slice(args: list[Expr], attrs: dict[str, AnyValue]) -> None:
    """Converts numbers of elements to ends, and completes strides and bounds, of which TVM leaves some out."""
    begin, end, strides = (attrs.get(name) for name in ("begin", "end", "strides"))
    if not isinstance(begin, tuple) or not isinstance(end, tuple):
        return
    ends = ends_of_sizes(begin, end) if attrs.get("slice_mode") == "size" else None
    if ends is not None:
        del attrs["slice_mode"]
        attrs |= {"end": ends, "strides": None}
    elif attrs.get("axes") is None and isinstance(strides, tuple):
        attrs["begin"], attrs["end"], attrs["strides"] = completed_slice(begin, end, strides)


def _one_axis(args: list[Expr], attrs: dict[str, AnyValue]) -> None:
    """Converts the axis, which is a list in TVM, to an integer."""
    axis = attrs.get("axis")
    if isinstance(axis, tuple) and len(axis) == 1:
        attrs["axis"] = axis[0]
    if attrs.get("exclude") is False:
        del attrs["exclude"]


_CHANGES: Final[dict[str, Callable[[list[Expr], dict[str, AnyValue]], None]]] = {
    "nn.dense": _units(0),
    "nn.matmul": _units(1),
    "take": _take,
    "nn.pad": _pad,
    "strided_slice": _slice,
    "argmax": _one_axis,
    "argmin": _one_axis,
}
