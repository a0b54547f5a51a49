"""Attributes of ONNX nodes as Python values, and back.

Integers, floats, strings and tensors, and lists of them, become values of `Attrs`. What has no such value (graphs, types, sparse
tensors, empty lists of other things than integers) stays a proto.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any as AnyValue
from typing import Final, NamedTuple, cast

import onnx
from onnx import AttributeProto, NodeProto, TensorProto

from passat.ir.onnx.tensors import read_tensor, tensor_proto
from passat.ir.tensor import Tensor

_INTEGERS: Final = (
    frozenset({"allowzero", "axes", "axis", "batch_dims", "ceil_mode", "count_include_pad", "dilations", "dtype", "end", "group"})
    | {"keepdims", "kernel_shape", "noop_with_empty_axes", "num_outputs", "output_padding", "pads", "perm", "size", "split", "start"}
    | {"stash_type", "storage_order", "strides", "to", "training_mode", "transA", "transB"}
)
"""Names that only ever hold integers today: looking an operator's schema up takes most of a millisecond."""

_FLAGS: Final = (
    frozenset({"align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad", "detect_negative"})
    | {"detect_positive", "exclude_outside", "exclusive", "fmod", "input_forget", "interleaved", "inverse", "is_causal", "keepdims"}
    | {"largest", "linear_before_reset", "new_axis", "noop_with_empty_axes", "onesided", "output_sequence", "periodic", "reverse"}
    | {"saturate", "select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB", "upper"}
)
"""Attributes that are 0 or 1. ONNX does not say what other numbers mean; its inference and ONNX Runtime's kernels differ on them."""

_PLAIN: Final = frozenset({AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING})
_ANY_SIZE: Final = frozenset({"starts", "ends", "value_int", "value_ints"})
"""Attributes whose integers may have 64 bits."""


def read_attributes(
    attributes: Iterable[AttributeProto], folder: str | None, kinds: Mapping[str, int] | None = None
) -> tuple[dict[str, AnyValue], list[AttributeProto]]:
    """The values of attributes by name, and the attributes that have no value of ours.

    Where the `kinds` of an operator's attributes are given, those of another name or kind have no value either, nor have flags that
    are neither 0 nor 1.
    """
    values: dict[str, AnyValue] = {}
    rest: list[AttributeProto] = []
    for attribute in attributes:
        kind = attribute.type or _kind(attribute)
        value: AnyValue = None
        if kinds is not None and kinds.get(attribute.name) != kind:
            rest.append(attribute)
            continue
        if kind == 2:
            value = None if kinds is not None and is_odd_flag(attribute) else attribute.i
        elif kind == 7:
            value = tuple(attribute.ints)
        elif kind == 1:
            value = attribute.f
        elif kind == 3:
            value = _text(attribute.s)
        elif kind == 4:
            value = read_tensor(attribute.t, folder)
        elif kind == 6:
            value = tuple(attribute.floats)
        elif kind == 8:
            value = tuple(map(_text, attribute.strings))
        elif kind == 9:
            value = tuple(read_tensor(tensor, folder) for tensor in attribute.tensors)
        if value is None or (value == () and kind != 7) or attribute.ref_attr_name:
            rest.append(attribute)
        else:
            values[attribute.name] = value
    return values, rest


def is_odd_flag(attribute: AttributeProto) -> bool:
    """Whether an attribute of ONNX's own operators is a flag, and neither 0 nor 1."""
    return attribute.name in _FLAGS and not 0 <= attribute.i <= 1


def is_absurd(name: str, value: AnyValue) -> bool:
    """Whether an attribute has an integer of more than 32 bits where it means a place, a number of dimensions below 0, or an equation that
    is not text: ONNX's inference, and with it loading in ONNX Runtime, reads beyond its memory then, or never ends."""
    if name == "equation":
        return not isinstance(value, str) or not value.isascii()
    if name == "batch_dims":
        return not isinstance(value, int) or value < 0
    numbers = value if isinstance(value, tuple) else (value,)
    return name not in _ANY_SIZE and any(type(number) is int and not -(2**31) <= number < 2**31 for number in numbers)


def absurd_attribute(node: NodeProto) -> str | None:
    """The name of an attribute of a node that is absurd; None where there is none."""
    plain = (attribute for attribute in node.attribute if attribute.type in _PLAIN)
    return next((name for name, value in read_attributes(plain, None)[0].items() if is_absurd(name, value)), None)


def _kind(attribute: AttributeProto) -> int:
    """The kind of an attribute that does not say: files of IR version 1 leave it to which field is there."""
    for field, kind in (("f", 1), ("i", 2), ("s", 3), ("t", 4), ("g", 5)):
        if attribute.HasField(field):
            return kind
    for count, kind in ((attribute.floats, 6), (attribute.ints, 7), (attribute.strings, 8), (attribute.tensors, 9)):
        if count:
            return kind
    return 0


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


_FLOATING: Final = {2: 1, 7: 6}
"""The kind of one number, or of several, that a schema may say to be floats. Another kind than it says is left to what reads the file."""

_LISTS: Final = (6, 7, 8, 9)


def write_attributes(op_type: str, domain: str, version: int, values: Mapping[str, AnyValue]) -> list[AttributeProto]:
    """The attributes of a node; None stands for one that is absent.

    The operator's schema says what an empty list is a list of, and which numbers are floats; where it has none, the values do.
    """
    found: list[AttributeProto] = []
    for name, value in values.items():
        if value is None:
            continue
        kind = _kind_of(value)
        if kind in (2, 7) and name not in _INTEGERS:
            declared = attribute_kinds(op_type, version, domain).get(name, kind)
            if declared == _FLOATING[kind] or (value == () and declared in _LISTS):
                kind = declared
        found.append(_write(name, value, kind))
    return found


def _write(name: str, value: AnyValue, kind: int) -> AttributeProto:
    attribute = AttributeProto(name=name, type=kind)  # type: ignore[arg-type]  # the number of the kind
    if kind == 2:
        attribute.i = int(value)
    elif kind == 1:
        attribute.f = value
    elif kind == 3:
        attribute.s = value.encode() if isinstance(value, str) else value
    elif kind == 4:
        attribute.t.CopyFrom(tensor_proto(value, ""))
    elif kind == 7:
        attribute.ints.extend(map(int, value))
    elif kind == 6:
        attribute.floats.extend(value)
    elif kind == 8:
        attribute.strings.extend(item.encode() if isinstance(item, str) else item for item in value)
    elif kind == 9:
        attribute.tensors.extend(tensor_proto(item, "") for item in value)
    else:
        raise ValueError(f"the value {value!r} of the attribute {name!r} cannot be written")
    return attribute


def _kind_of(value: AnyValue) -> int:
    if type(value) is int:
        return 2
    if isinstance(value, (tuple, list)):
        kinds = {_kind_of(item) for item in value}
        return 6 if kinds == {1, 2} else 5 + max(kinds, default=2)
    if isinstance(value, float):
        return 1
    if isinstance(value, (str, bytes)):
        return 3
    if isinstance(value, (Tensor, TensorProto)):
        return 4
    return 2


def attribute_kinds(op_type: str, version: int, domain: str = "") -> Mapping[str, int]:
    """The kinds of the attributes that an operator has, by name; none where the onnx package does not know it."""
    declared = signature_of(op_type, version, domain)
    return declared.kinds if declared is not None else {}


class Signature(NamedTuple):
    """What the nodes of an operator may have: the kinds of attributes by name, how many inputs and outputs."""

    kinds: Mapping[str, int]
    least_inputs: int
    most_inputs: int
    most_outputs: int


@lru_cache(4096)
def signature_of(op_type: str, version: int, domain: str = "") -> Signature | None:
    """The signature of an operator; None where the onnx package does not know it, or the version does not have it."""
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    kinds = {name: cast(int, attribute.type) for name, attribute in schema.attributes.items()}
    return Signature(kinds, schema.min_input, schema.max_input, schema.max_output)
