"""Normalizes nodes for comparison, and describes differences between attributes."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any as AnyValue
from typing import Final

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, defs, helper

from passat.ir.onnx.attributes import schema_of
from passat.ir.onnx.same_graph import content_of
from passat.ir.onnx_mapping import ELEMENT_TYPES

_SHOWN: Final = ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""Element types of constants whose elements are printed."""
_LONGEST: Final = 60
"""Maximum length of a printed attribute value."""


def plain(node: NodeProto, opsets: Mapping[str, int], constants: Mapping[str, object] = MappingProxyType({})) -> NodeProto:
    """Removes attributes that equal what is meant without them, and absent trailing operands and results. Adds what an old version of an
    operator means without an attribute, if later ones mean something else. Returns the same node if it stays the same. `constants` are the
    keys of constants by name (`content_of`)."""
    ends = [names[-1] for names in (node.input, node.output) if names]
    if not node.attribute and all(ends) and node.op_type not in _REDEFINED:
        return node
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = opsets.get(domain, 1)
    schema = schema_of(node.op_type, version, domain)
    said = [each for each in node.attribute if schema is None or not _is_default(each, schema)]
    if schema is not None:
        names = {each.name for each in said}
        said = [each for each in said if not _is_neutral(each, node, names, constants)]
        if version < _REDEFINED.get(node.op_type, 0):
            said = _as_later(node, said)
    if said == list(node.attribute) and all(ends):
        return node
    plain = NodeProto()
    plain.CopyFrom(node)
    del plain.attribute[:]
    plain.attribute.extend(said)
    for names in (plain.input, plain.output):
        while names and not names[-1]:
            names.pop()
    return plain


def _is_default(attribute: AttributeProto, schema: defs.OpSchema) -> bool:
    known = schema.attributes.get(attribute.name)
    if attribute.ref_attr_name or known is None or known.default_value.type == AttributeProto.UNDEFINED:
        return False
    held: bool = helper.get_attribute_value(known.default_value) == helper.get_attribute_value(attribute)
    return held and known.default_value.type == attribute.type


_REDEFINED: Final = {"Softmax": 13, "LogSoftmax": 13, "Hardmax": 13, "RoiAlign": 16}
"""Operators that mean something else with the same attributes from an opset on."""


def _as_later(node: NodeProto, said: list[AttributeProto]) -> list[AttributeProto]:
    """The attributes of a node of an old version, by what they mean in later versions."""
    if node.op_type == "RoiAlign":
        return [*said, helper.make_attribute("coordinate_transformation_mode", "output_half_pixel")]
    axis = AttributeProto()
    axis.CopyFrom(next((each for each in node.attribute if each.name == "axis"), helper.make_attribute("axis", 1)))
    axis.name = "axis and all after it"  # as which later versions have only the last axis, their default
    is_last = axis.i == -1 and not axis.ref_attr_name
    return [*(each for each in said if each.name != "axis"), *([] if is_last else [axis])]


_NEUTRAL: Final = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
"""Defaults of window attributes, per dimension. Schemas do not state them, as their length depends on the rank."""
_ZERO: Final = helper.make_tensor("", TensorProto.FLOAT, [1], [0.0])
"""The default value of ConstantOfShape."""
_WEIGHTED: Final = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "DeformConv"), 1),
    "QLinearConv": 3,
}
"""Operators whose weight states the sizes of the window, with its position."""
_WINDOWS: Final = frozenset({*_WEIGHTED, "MaxPool", "AveragePool", "LpPool", "MaxUnpool", "Col2Im"})


def _is_neutral(attribute: AttributeProto, node: NodeProto, said: Collection[str], constants: Mapping[str, object]) -> bool:
    """Whether an attribute, one of those that the node `said`, equals a default that only the text of the ONNX specification states."""
    if attribute.ref_attr_name:
        return False
    if node.op_type == "ConstantOfShape" and attribute.HasField("t"):
        return content_of(attribute.t, None) == content_of(_ZERO, None)
    if node.op_type in _WEIGHTED and attribute.name == "kernel_shape":
        weight = constants.get(node.input[_WEIGHTED[node.op_type]]) if len(node.input) > _WEIGHTED[node.op_type] else None
        return isinstance(weight, tuple) and list(attribute.ints) == [*weight[1]][2:]
    if node.op_type not in _WINDOWS or attribute.name not in _NEUTRAL:
        return False
    by_rule = attribute.name == "pads" and not {"auto_pad", "output_shape"}.isdisjoint(said)
    return not by_rule and all(value == _NEUTRAL[attribute.name] for value in attribute.ints)


def changed_attributes(mine: NodeProto, theirs: NodeProto) -> Iterator[str]:
    """Describes the differences between the attributes of two nodes, except graphs."""
    before, after = ({each.name: each for each in node.attribute if not (each.HasField("g") or each.graphs)} for node in (mine, theirs))
    for name in sorted({*before, *after}):
        shown = [attribute_text(side[name]) if name in side else "" for side in (before, after)]
        if name not in before:
            yield f"{name} added: {shown[1]}"
        elif name not in after:
            yield f"{name} removed: {shown[0]}"
        elif before[name].SerializeToString(deterministic=True) != after[name].SerializeToString(deterministic=True):
            yield f"{name}: {shown[0]} changed to {shown[1]}" if shown[0] != shown[1] else f"{name} has different elements"


def attribute_text(attribute: AttributeProto) -> str:
    """Prints the value of an attribute, shortened; for a tensor, its type."""
    if attribute.ref_attr_name:
        return f"attribute of the call, {attribute.ref_attr_name}"
    value: AnyValue = helper.get_attribute_value(attribute)
    if hasattr(value, "dims"):
        elements = value.values if hasattr(value, "indices") else value  # a sparse tensor has the tensor of its elements
        return constant_text((elements.data_type, tuple(value.dims)))
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(list(value) if hasattr(value, "append") else value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def constant_text(content: object) -> str:
    """Describes a constant by its element type and shape, and by its elements if they are few numbers."""
    if not isinstance(content, tuple):
        return "a sparse one"
    dtype = ELEMENT_TYPES.get(content[0], f"element type {content[0]}")
    held = content[2] if len(content) > 2 else None
    shown = ""
    if isinstance(held, bytes) and dtype in _SHOWN:
        elements = np.frombuffer(held, dtype).tolist()
        shown = f" = {elements if content[1] else elements[0]}"
    return f"{dtype}{list(content[1])}{shown}"
