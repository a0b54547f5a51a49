"""Converts attributes of ONNX nodes to Python values and back.

Integers, floats, strings and tensors, and lists of them, become values of `Attrs`. Other attributes (graphs, types, sparse tensors, empty
lists of anything but integers) stay protos.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any as AnyValue
from typing import Final, NamedTuple, cast

import onnx
from onnx import AttributeProto, NodeProto, TensorProto

from passat.ir.onnx.tensors import read_tensor, tensor_proto
from passat.ir.onnx_mapping import OLDEST_READ
from passat.ir.tensor import Tensor

_INTEGERS: Final = (
    frozenset({"allowzero", "axes", "axis", "batch_dims", "ceil_mode", "count_include_pad", "dilations", "dtype", "end", "group"})
    | {"keepdims", "kernel_shape", "noop_with_empty_axes", "num_outputs", "output_padding", "pads", "perm", "size", "split", "start"}
    | {"stash_type", "storage_order", "strides", "to", "training_mode", "transA", "transB"}
)
"""Attributes that are integers in all schemas; a schema lookup takes almost a millisecond."""

_FLAGS: Final = (
    frozenset({"align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad", "detect_negative"})
    | {"detect_positive", "exclude_outside", "exclusive", "fmod", "input_forget", "interleaved", "inverse", "is_causal", "keepdims"}
    | {"largest", "linear_before_reset", "new_axis", "noop_with_empty_axes", "onesided", "output_sequence", "periodic", "reverse"}
    | {"saturate", "select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB", "upper"}
)
"""Attributes that must be 0 or 1. Other values are undefined; ONNX's inference and ONNX Runtime's kernels disagree on them."""

_PLAIN: Final = frozenset({AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING})
_OPERAND: Final = r"[A-Za-z ]*(?:\.\.\.)?[A-Za-z ]*"
_OPERANDS: Final = re.compile(f"{_OPERAND}(?:,{_OPERAND})*")
"""The operands of an equation of Einsum."""
_ANY_SIZE: Final = frozenset({"starts", "ends", "value_int", "value_ints"})
"""Attributes with 64-bit integers."""


def read_attributes(
    attributes: Iterable[AttributeProto], folder: str | None, kinds: Mapping[str, int] | None = None
) -> tuple[dict[str, AnyValue], list[AttributeProto]]:
    """Returns the values of attributes by name, and the attributes that cannot be converted.

    With `kinds`, attributes of an unknown name or a different kind are not converted, nor are flags other than 0 and 1.
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
            value = tuple(attribute.ints[:])
        elif kind == 1:
            value = attribute.f
        elif kind == 3:
            value = _text(attribute.s)
        elif kind == 4:
            value = read_tensor(attribute.t, folder)
        elif kind == 6:
            value = tuple(attribute.floats[:])
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
    """Whether an attribute of a standard ONNX operator is a flag with a value other than 0 and 1."""
    return attribute.name in _FLAGS and not 0 <= attribute.i <= 1


def is_absurd(name: str, value: AnyValue) -> bool:
    """Whether an attribute value crashes or hangs ONNX's inference, and thus ONNX Runtime when it loads the model.

    These are integers of more than 32 bits for positions, negative ranks, and equations with operands of other characters than letters.
    """
    if name == "equation":
        return not isinstance(value, str) or _OPERANDS.fullmatch(value.partition("->")[0]) is None
    if name == "batch_dims":
        return not isinstance(value, int) or value < 0
    numbers = value if isinstance(value, tuple) else (value,)
    return name not in _ANY_SIZE and any(type(number) is int and not -(2**31) <= number < 2**31 for number in numbers)


def absurd_attribute(node: NodeProto) -> str | None:
    """Returns the name of an attribute that `is_absurd`; None if there is none."""
    plain = (attribute for attribute in node.attribute if attribute.type in _PLAIN)
    return next((name for name, value in read_attributes(plain, None)[0].items() if is_absurd(name, value)), None)


def _kind(attribute: AttributeProto) -> int:
    """The kind of an attribute. Files of IR version 1 do not store it, so it is derived from the fields present."""
    for field, kind in (("f", 1), ("i", 2), ("s", 3), ("t", 4), ("g", 5)):
        if attribute.HasField(field):
            return kind
    for count, kind in ((attribute.floats, 6), (attribute.ints, 7), (attribute.strings, 8), (attribute.tensors, 9)):
        if count:
            return kind
    return 0


def has_invalid_text(values: Mapping[str, AnyValue]) -> bool:
    """True if an attribute is a text that is not UTF-8, which readers are not made for. Such a text stays bytes."""
    return bytes in map(type, values.values())


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


_FLOATING: Final = {2: 1, 7: 6}
"""Kinds that are written as floats if the schema requires floats. Other mismatches are left to the reader of the file."""

_LISTS: Final = (6, 7, 8, 9)


def write_attributes(op_type: str, domain: str, version: int, values: Mapping[str, AnyValue]) -> list[AttributeProto]:
    """Creates the attributes of a node; None omits an attribute.

    The schema of the operator determines the type of empty lists and of numbers; without a schema, the values do.
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
    attribute = AttributeProto(name=name, type=kind)  # type: ignore[arg-type]  # an AttributeType number
    if kind == 2:
        attribute.i = int(value)
    elif kind == 1:
        attribute.f = value
    elif kind == 3:
        attribute.s = value.encode() if isinstance(value, str) else value
    elif kind == 4:
        tensor_proto(value, "", attribute.t)
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
    """Returns the kinds of the attributes of an operator, by name; empty if the onnx package does not know it."""
    declared = signature_of(op_type, version, domain)
    return declared.kinds if declared is not None else {}


class Signature(NamedTuple):
    """The signature of an operator: the kinds of its attributes, and the numbers of inputs and outputs."""

    kinds: Mapping[str, int]
    least_inputs: int
    most_inputs: int
    most_outputs: int


_LAST_VERSION: Final = (1 << 31) - 1
"""The last version that the onnx package accepts. Damaged models have later ones."""


@lru_cache(4096)
def schema_of(op_type: str, version: int, domain: str) -> onnx.defs.OpSchema | None:
    """The schema of an operator; None if the onnx package does not know the operator or the version."""
    try:
        return onnx.defs.get_schema(op_type, max(0, min(version, _LAST_VERSION)), domain)
    except onnx.defs.SchemaError:
        return None


def is_readable(op_type: str, version: int) -> bool:
    """Whether a node means what readers and writers assume: its opset is not older than OLDEST_READ, or its operator did not change until
    then."""
    if version >= OLDEST_READ:
        return True
    schema = schema_of(op_type, OLDEST_READ, "")
    return schema is not None and schema.since_version <= version


@lru_cache(4096)
def signature_of(op_type: str, version: int, domain: str = "") -> Signature | None:
    """Returns the signature of an operator; None if the onnx package does not know the operator or the version."""
    schema = schema_of(op_type, version, domain)
    if schema is None:
        return None
    kinds = {name: cast(int, attribute.type) for name, attribute in schema.attributes.items()}
    return Signature(kinds, schema.min_input, schema.max_input, schema.max_output)
