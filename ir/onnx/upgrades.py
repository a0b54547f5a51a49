"""Converts opaque calls to later opsets: to equivalent opaque calls of a different operator version.

A version of an operator that is not in the table below is compatible with the previous one, apart from attributes whose defaults differ,
which are made explicit. `tests/ir/onnx/opset_audit` checks each version against ONNX Runtime, up to `AUDITED`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any as AnyValue
from typing import Final

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from passat.ir.attrs import Attrs
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.onnx.attributes import read_attributes, schema_of
from passat.ir.onnx.opaque import RESERVED, OpaqueOp, escape, opaque_name, own_attributes
from passat.ir.onnx.value_types import NUMBERS, show_type
from passat.ir.onnx_mapping import ELEMENT_TYPES, OnnxNode
from passat.ir.op import OpTypeError, get_op
from passat.ir.ops.pooling import window_counts
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType

AUDITED: Final = 28
"""The newest opset that has been audited against earlier ones."""
_EXPERIMENTAL: Final = ("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh")
"""Operators of converters of the time that onnx has no schemas of, and that ONNX Runtime runs up to opset 9."""


class NoUpgradeError(ValueError):
    """No later version can express a node, or the conversion is not known. The message is the reason."""


class Upgrade:
    """Converts a call of an opaque operator of the default domain to the opset `target`."""

    def __init__(self, call: Call, target: int) -> None:
        assert isinstance(call.op, OpaqueOp)
        self.call = call
        self.target = target
        self.op_type = call.op.op_type
        self.attrs = own_attributes(call.attrs)

    def operand(self, index: int) -> Expr | None:
        """An operand, or None if absent."""
        found = self.call.args[index] if index < len(self.call.args) else None
        return None if isinstance(found, Tuple) and not found.fields else found

    def type(self, index: int) -> TensorType | None:
        """The type of an operand, or None if it is absent or of unknown rank."""
        operand = self.operand(index)
        type_ = None if operand is None else operand.checked_type
        return type_ if isinstance(type_, TensorType) else None

    def constant(self, index: int) -> Tensor | None:
        """The value of an operand if it is constant, or None."""
        operand = self.operand(index)
        return operand.data if isinstance(operand, Constant) else None

    def only_first_output(self) -> bool:
        """Whether only the first output is read."""
        return "1" not in self.call.attrs["outputs"][1:]

    def again(
        self, operands: Sequence[Expr | None], attrs: dict[str, AnyValue], *, since: int, op_type: str = "", same: bool = True
    ) -> Expr:
        """Rebuilds the call with other operands and attributes, in version `since` of an operator, and converts it further.

        With `same=False` the types of the results differ.
        """
        kept = {name: value for name, value in self.call.attrs.items() if name in RESERVED and (same or name != "types")}
        own = {escape(name): value for name, value in attrs.items()}
        op = get_op(opaque_name("", op_type or self.op_type))
        given = [Tuple(()) if operand is None else operand for operand in _trimmed(operands)]
        made = _typed(Call(op, given, Attrs({**kept, **own, "opset": since}), span=self.call.span), self.call if same else None)
        return raised(made, self.target)

    def make(self, op_type: str, *operands: Expr, since: int, **attrs: AnyValue) -> Expr:
        """Builds a call of another operator, in its version `since`."""
        return _made(self.target, op_type, *operands, since=since, **attrs)

    def with_inputs(self, since: int, *names: str) -> Expr:
        """Converts attributes that are lists of integers to operands after the existing ones; absent ones stay absent."""
        given = [constant(self.attrs[name], "int64") if name in self.attrs else None for name in names]
        return self.again([*self.call.args, *given], self.without(*names), since=since)

    def without(self, *names: str) -> dict[str, AnyValue]:
        """The attributes except some."""
        return {name: value for name, value in self.attrs.items() if name not in names}


def _made(target: int, op_type: str, *operands: Expr, since: int, outputs: str = "1", **attrs: AnyValue) -> Expr:
    call = infer_type(Call(get_op(opaque_name("", op_type)), operands, Attrs({**attrs, "opset": since, "outputs": outputs})))
    assert isinstance(call, Call)
    return raised(call, target)


def evenly(data: Expr, axis: int, count: int, target: int) -> Expr:
    """Computes the sizes of `count` equal parts of an axis. Since opset 18 ONNX Runtime rejects `num_outputs` for an empty axis."""
    size = _made(target, "Gather", _made(target, "Shape", data, since=1), constant([axis], "int64"), since=11, axis=0)
    return _made(target, "Tile", _made(target, "Div", size, constant([count], "int64"), since=7), constant([count], "int64"), since=6)


def split_evenly(call: Call, target: int) -> Expr:
    """Splits a possibly empty axis into equal parts, in an opset since 18. Splitting into one part is a copy."""
    axis, count = call.attrs["axis"], call.attrs["indices_or_sections"]
    if count == 1:
        return infer_type(Tuple([Call(get_op("copy"), call.args, span=call.span)]))
    sizes = evenly(call.args[0], axis, count, target)
    return _made(target, "Split", call.args[0], sizes, since=13, outputs="1" * count, axis=axis)


def constant(value: AnyValue, dtype: str) -> Constant:
    """A constant operand."""
    made = infer_type(Constant(Tensor.dense(np.asarray(value, to_numpy(dtype)))))
    assert isinstance(made, Constant)
    return made


def raised(call: Call, target: int) -> Expr:
    """Converts a call of an opaque operator of the default domain to the opset `target`; returns it unchanged if its operator is the same.

    Raises NoUpgradeError.
    """
    op = call.op
    assert isinstance(op, OpaqueOp)
    while True:
        step = next_version(op.op_type, call.attrs["opset"])
        if step is None or step > target:
            return call
        if step > AUDITED:
            raise NoUpgradeError(f"the changes to the operator in opset {step} are not known")
        change = _CHANGES.get((op.op_type, step))
        if change is not None:
            return change(Upgrade(call, target))
        call = _as_before(call, step)


@lru_cache(4096)
def next_version(op_type: str, version: int) -> int | None:
    """The first opset after `version` with a different version of an operator."""
    found = [each for each in _versions().get(op_type, ()) if each > version]
    return min(found, default=None)


@lru_cache(1)
def _versions() -> dict[str, list[int]]:
    found = {name: [1, 10] for name in _EXPERIMENTAL}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, []).append(schema.since_version)
    return found


def _as_before(call: Call, step: int) -> Call:
    """Builds the call in the next, compatible version of its operator."""
    assert isinstance(call.op, OpaqueOp)
    before, after = (schema_of(call.op.op_type, version, "") for version in (call.attrs["opset"], step))
    if before is None or after is None or after.deprecated:
        raise NoUpgradeError(f"opset {step} does not have the operator")
    attrs = dict(call.attrs)
    given = (
        set(own_attributes(attrs))
        | {each.name for each in NodeProto.FromString(attrs.get("protos", b"")).attribute}
        | set(attrs.get("bodies", ()))
    )
    for name, attribute in before.attributes.items():
        other = after.attributes.get(name)
        default = attribute.default_value
        if (
            name not in given
            and other is not None
            and default.type
            and default.SerializeToString() != other.default_value.SerializeToString()
        ):
            attrs |= read_attributes([default], None)[0]
    for name in sorted(given):
        if name not in after.attributes:
            raise NoUpgradeError(f"opset {step} has no attribute {name}")
    for name, attribute in after.attributes.items():
        if attribute.required and name not in attrs and name not in given:
            raise NoUpgradeError(f"opset {step} requires the attribute {name}")
    count = len(call.args) - sum(attrs.get("captured", ())) - len(attrs.get("bodies", ()))
    if not after.min_input <= count <= after.max_input or attrs["outputs"].count("1") > after.max_output:
        raise NoUpgradeError(f"opset {step} has other operands or results")
    for at, operand in enumerate(call.args[:count]):
        type_ = operand.checked_type
        if isinstance(type_, TensorType) and not takes(after, at, type_.dtype):
            raise NoUpgradeError(f"opset {step} does not support {type_.dtype}")
    return _typed(Call(call.op, call.args, Attrs({**attrs, "opset": step}), span=call.span), call)


def takes(schema: onnx.defs.OpSchema, at: int, dtype: str) -> bool:
    """Whether operand `at` of an operator supports an element type."""
    formal = schema.inputs[min(at, len(schema.inputs) - 1)]
    return f"tensor({TensorProto.DataType.Name(NUMBERS[dtype]).lower()})" in formal.types


def _typed(call: Call, like: Call | None) -> Call:
    """Sets the type of the call, or that of a call with the same results if it depends on constants that inference does not know."""
    infer_type(call)
    if like is None or call.checked_type == like.checked_type:
        return call
    known = like.checked_type
    types = known.fields if isinstance(known, TupleType) else (known,)
    made = Call(call.op, call.args, Attrs({**call.attrs, "types": tuple(map(show_type, types))}), span=call.span)
    infer_type(made)
    return made


def _trimmed(operands: Sequence[Expr | None]) -> list[Expr | None]:
    found = list(operands)
    while found and (found[-1] is None or (isinstance(found[-1], Tuple) and not found[-1].fields)):
        found.pop()
    return found


Change = Callable[[Upgrade], Expr]


def _flattening(up: Upgrade) -> Expr:
    """Softmax, LogSoftmax and Hardmax: before version 13 over all dimensions from `axis` on, flattened; since then over one axis."""
    type_ = up.type(0)
    axis = up.attrs.get("axis", 1)
    (data,) = up.call.args
    if type_ is not None and type_.ndim:
        axis %= type_.ndim
        long = [place for place in range(axis, type_.ndim) if type_.shape[place] != 1]
        if len(long) <= 1:
            return up.again([data], {"axis": long[0] if long else axis}, since=13)
        if 0 in type_.shape:
            return up.again([data], {}, since=13, op_type="Identity")
    flat = up.make(up.op_type, up.make("Flatten", data, since=11, axis=axis), since=13, axis=-1)
    unknown = [] if type_ is None else [dim for dim in type_.shape if not isinstance(dim, int)]
    if type_ is not None and len(unknown) <= 1:
        shape: Expr = constant([dim if isinstance(dim, int) else -1 for dim in type_.shape], "int64")
        return up.again([flat, shape], {}, since=5, op_type="Reshape")
    if up.target < 14:
        raise NoUpgradeError("it flattens several dimensions of unknown size, which requires opset 14 or later")
    return up.again([flat, up.make("Shape", data, since=1)], {"allowzero": 1}, since=14, op_type="Reshape")


def _upsample_scales(up: Upgrade) -> Expr:
    return up.again([*up.call.args, constant(up.attrs.get("scales", ()), "float32")], up.without("scales"), since=9)


def _upsample(up: Upgrade) -> Expr:
    return up.again(up.call.args, up.attrs, since=10, op_type="Resize")


def _resize_modes(up: Upgrade) -> Expr:
    """Version 10 computes coordinates from the corner of the first element, and rounds nearest toward it, or away from it when
    shrinking."""
    attrs = {**up.attrs, "coordinate_transformation_mode": "asymmetric"}
    if up.attrs.get("mode", "nearest") == "nearest":
        scales = up.constant(1)
        if scales is None:
            raise NoUpgradeError("its rounding depends on scales that are not constant")
        factors = scales.numpy().reshape(-1)
        if not ((factors >= 1).all() or (factors <= 1).all()):
            raise NoUpgradeError("it enlarges some dimensions and shrinks others, which round differently")
        attrs["nearest_mode"] = "floor" if (factors >= 1).all() else "ceil"
    return up.again([up.call.args[0], constant((), "float32"), up.call.args[1]], attrs, since=11)


def _resize_optional(up: Upgrade) -> Expr:
    """Versions 11 and 12 have empty operands for absent ones, and a mode that was removed."""
    if up.attrs.get("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        raise NoUpgradeError("opset 13 does not have the coordinate_transformation_mode tf_half_pixel_for_nn")
    operands = [None if (value := up.constant(i)) is not None and i and not value.size else up.operand(i) for i in range(len(up.call.args))]
    return up.again(operands, up.attrs, since=13)


def _pad_inputs(up: Upgrade) -> Expr:
    pads, value = constant(up.attrs.get("pads", ()), "int64"), up.attrs.get("value", 0.0)
    operands: list[Expr | None] = [up.call.args[0], pads]
    if up.attrs.get("mode", "constant") == "constant" and (value or str(value) == "-0.0"):
        operands.append(constant(value, _floating(up)))
    return up.again(operands, up.without("pads", "value"), since=11)


def _clip_inputs(up: Upgrade) -> Expr:
    bounds = [constant(up.attrs[name], _floating(up)) if name in up.attrs else None for name in ("min", "max")]
    return up.again([up.call.args[0], *bounds], {}, since=11)


def _floating(up: Upgrade) -> str:
    """The element type of the first operand."""
    type_ = up.type(0)
    if type_ is None or type_.dtype not in FLOATS:
        raise NoUpgradeError("the element type of its operand is unknown")
    return type_.dtype


def _slice_inputs(up: Upgrade) -> Expr:
    return up.with_inputs(10, "starts", "ends", "axes")


def _topk_input(up: Upgrade) -> Expr:
    return up.again([*up.call.args, constant([up.attrs.get("k", 0)], "int64")], up.without("k"), since=10)


def _dropout_mask(up: Upgrade) -> Expr:
    """The mask is bool since version 10."""
    if up.only_first_output():
        return up.again(up.call.args, up.attrs, since=10)
    number = next(number for number, name in ELEMENT_TYPES.items() if name == _floating(up))
    whole = up.again(up.call.args, up.attrs, since=10, same=False)
    mask = up.make("Cast", infer_type(TupleGetItem(whole, 1)), since=9, to=number)
    return infer_type(Tuple((infer_type(TupleGetItem(whole, 0)), mask)))


def _dropout_ratio(up: Upgrade) -> Expr:
    """The mask in inference mode: since version 12 it is 1; before, ONNX does not specify it and ONNX Runtime returns 0."""
    ratio = [constant(up.attrs["ratio"], "float32")] if "ratio" in up.attrs else []
    whole = up.again([*up.call.args, *ratio], up.without("ratio"), since=12)
    if up.only_first_output():
        return whole
    mask = up.make("Not", infer_type(TupleGetItem(whole, 1)), since=1)
    return infer_type(Tuple((infer_type(TupleGetItem(whole, 0)), mask)))


def _norm_spatial(up: Upgrade) -> Expr:
    if up.attrs.get("spatial", 1) != 1:
        raise NoUpgradeError("opset 9 does not support non-spatial normalization")
    return up.again(up.call.args, up.without("spatial"), since=9)


def _norm_training(up: Upgrade) -> Expr:
    if not up.only_first_output():
        raise NoUpgradeError("in training mode its results changed in opset 14")
    return up.again(up.call.args, up.attrs, since=14)


def _place_on_axis(up: Upgrade) -> Expr:
    data = up.type(0)
    if data is not None and not data.ndim:
        raise NoUpgradeError("opset 11 requires an axis, which a scalar does not have")
    return raised(_as_before(up.call, 11), up.target)


def _axes_13(up: Upgrade) -> Expr:
    return up.with_inputs(13, "axes")


def _axes_18(up: Upgrade) -> Expr:
    return up.with_inputs(18, "axes")


def _split_input(up: Upgrade) -> Expr:
    return up.with_inputs(13, "split")


def _split_count(up: Upgrade) -> Expr:
    if up.operand(1) is not None:
        return up.again(up.call.args, up.attrs, since=18)
    data, count = up.call.args[0], len(up.call.attrs["outputs"])
    return up.again([data, evenly(data, up.attrs.get("axis", 0), count, up.target)], up.attrs, since=18)


def _per_channel(up: Upgrade) -> Expr:
    """Before version 21, GroupNormalization has a scale and a bias per group; since then per channel."""
    data, groups = up.type(0), up.attrs["num_groups"]
    channels = data.shape[1] if data is not None and data.ndim > 1 else None
    if not isinstance(channels, int) or channels % groups:
        raise NoUpgradeError("the number of its channels is unknown")
    places = constant(np.arange(channels) // (channels // groups), "int64")
    spread = [up.make("Gather", operand, places, since=1) for operand in up.call.args[1:]]
    return up.again([up.call.args[0], *spread], up.attrs, since=21)


def _dft_axis(up: Upgrade) -> Expr:
    operands = [up.operand(0), up.operand(1), constant(up.attrs.get("axis", 1), "int64")]
    return up.again(operands, up.without("axis"), since=20)


def _grid_modes(up: Upgrade) -> Expr:
    mode = up.attrs.get("mode", "bilinear")
    return up.again(up.call.args, {**up.attrs, "mode": {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)}, since=20)


def _roi_mode(up: Upgrade) -> Expr:
    return up.again(up.call.args, {**up.attrs, "coordinate_transformation_mode": "output_half_pixel"}, since=16)


def _scatter(up: Upgrade) -> Expr:
    return up.again(up.call.args, up.attrs, since=11, op_type="ScatterElements")


def _scan_batch(up: Upgrade) -> Expr:
    raise NoUpgradeError("Scan has a batch dimension only up to opset 8")


def _windows_that_fit(up: Upgrade) -> Expr:
    try:
        if isinstance(up.call.args[0].checked_type, TensorType):
            window_counts(OnnxNode("AveragePool", 11, [up.call.args[0]], up.attrs))
    except OpTypeError as error:
        raise NoUpgradeError(f"{error}, for which ONNX Runtime computes a different average since opset 19") from error
    return up.again(up.call.args, up.attrs, since=19)


def _no_kernel(up: Upgrade) -> Expr:
    """A GlobalLpPool of known rank is imported as Passat's operator, which is written as a reduction since opset 22."""
    raise NoUpgradeError("ONNX Runtime has no kernel for this version, and replacing it by a reduction requires the shape of the operand")


def _of_floats(up: Upgrade) -> Expr:
    call = _as_before(up.call, 28)  # integers, which the version does not take, are reported first
    _floating(up)
    return raised(call, up.target)


def _overflowing(up: Upgrade) -> Expr:
    _as_before(up.call, 28)  # types that the version does not take are reported first
    raise NoUpgradeError("ONNX Runtime has no kernel for this version, and its function body overflows in the exponentials")


_CHANGES: Final[dict[tuple[str, int], Change]] = {
    **{(name, 13): _flattening for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{(name, 13): _axes_13 for name in ("Squeeze", "Unsqueeze", "ReduceSum")},
    **{(f"Reduce{name}", 18): _axes_18 for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")},
    **{(name, 11): _place_on_axis for name in ("ArgMax", "ArgMin")},
    ("AveragePool", 19): _windows_that_fit,
    ("BatchNormalization", 9): _norm_spatial,
    ("BatchNormalization", 14): _norm_training,
    ("Clip", 11): _clip_inputs,
    ("DFT", 20): _dft_axis,
    ("Dropout", 10): _dropout_mask,
    ("Dropout", 12): _dropout_ratio,
    ("GlobalLpPool", 22): _no_kernel,
    ("ReduceLogSum", 28): _of_floats,
    ("ReduceLogSumExp", 28): _overflowing,
    ("GridSample", 20): _grid_modes,
    ("GroupNormalization", 21): _per_channel,
    ("Pad", 11): _pad_inputs,
    ("Resize", 11): _resize_modes,
    ("Resize", 13): _resize_optional,
    ("RoiAlign", 16): _roi_mode,
    ("Scan", 9): _scan_batch,
    ("Scatter", 11): _scatter,
    ("Slice", 10): _slice_inputs,
    ("Split", 13): _split_input,
    ("Split", 18): _split_count,
    ("TopK", 10): _topk_input,
    ("Upsample", 9): _upsample_scales,
    ("Upsample", 10): _upsample,
}
"""Conversions to incompatible versions, by operator and the opset that changed it."""
