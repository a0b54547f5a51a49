"""Nodes without what goes without saying, so that they can be compared, and how the attributes of two nodes differ."""

from collections.abc import Iterator, Mapping
from typing import Any as AnyValue
from typing import Final

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, defs, helper

from passat.ir.onnx.inference import schema_of
from passat.ir.onnx.same_graph import content_of
from passat.ir.onnx_mapping import ELEMENT_TYPES

_SHOWN: Final = ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""The element types of constants that are shown by their elements."""
_LONGEST: Final = 60
"""Characters of the value of an attribute that are shown."""


def plain(node: NodeProto, opsets: Mapping[str, int]) -> NodeProto:
    """A node without attributes that say what is the default, and without absent operands and results at the end; the same where there are
    none."""
    ends = [names[-1] for names in (node.input, node.output) if names]
    if not node.attribute and all(ends):
        return node
    schema = schema_of(node.op_type, opsets.get("" if node.domain == "ai.onnx" else node.domain, 1), node.domain)
    said = [each for each in node.attribute if schema is None or not (_is_default(each, schema) or _is_neutral(each, node))]
    if len(said) == len(node.attribute) and all(ends):
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


_NEUTRAL: Final = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
"""What attributes of windows are in each dimension where they are left out; schemas do not say it, as their length depends on the rank."""
_ZERO: Final = helper.make_tensor("", TensorProto.FLOAT, [1], [0.0])
"""What ConstantOfShape repeats by default."""
_WINDOWS: Final = frozenset({"Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"})


def _is_neutral(attribute: AttributeProto, node: NodeProto) -> bool:
    """Whether an attribute says what holds without it, by the text of the operator rather than by its schema."""
    if node.op_type == "ConstantOfShape" and attribute.HasField("t"):
        return content_of(attribute.t, None) == content_of(_ZERO, None)
    if node.op_type not in _WINDOWS or attribute.name not in _NEUTRAL or attribute.ref_attr_name:
        return False
    chosen = {each.name for each in node.attribute} & {"auto_pad", "output_shape"}
    return not (chosen and attribute.name == "pads") and all(value == _NEUTRAL[attribute.name] for value in attribute.ints)


def changed_attributes(mine: NodeProto, theirs: NodeProto) -> Iterator[str]:
    """What is different of the attributes of two nodes, graphs aside."""
    before, after = ({each.name: each for each in node.attribute if not (each.HasField("g") or each.graphs)} for node in (mine, theirs))
    for name in sorted({*before, *after}):
        shown = [attribute_text(side[name]) if name in side else "" for side in (before, after)]
        if name not in before:
            yield f"{name} is new: {shown[1]}"
        elif name not in after:
            yield f"{name} is gone: {shown[0]}"
        elif before[name].SerializeToString(deterministic=True) != after[name].SerializeToString(deterministic=True):
            yield f"{name}: {shown[0]} became {shown[1]}" if shown[0] != shown[1] else f"{name} is another tensor"


def attribute_text(attribute: AttributeProto) -> str:
    """The value of an attribute, shortened; of a tensor its type."""
    if attribute.ref_attr_name:
        return f"that of the call, {attribute.ref_attr_name}"
    value: AnyValue = helper.get_attribute_value(attribute)
    if hasattr(value, "dims"):
        return constant_text((value.data_type, tuple(value.dims)))
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(list(value) if hasattr(value, "append") else value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def constant_text(content: object) -> str:
    """A constant by its element type and shape, and its elements where these are a few numbers."""
    if not isinstance(content, tuple):
        return "a sparse one"
    dtype = ELEMENT_TYPES.get(content[0], f"element type {content[0]}")
    held = content[2] if len(content) > 2 else None
    shown = ""
    if isinstance(held, bytes) and dtype in _SHOWN:
        elements = np.frombuffer(held, dtype).tolist()
        shown = f" = {elements if content[1] else elements[0]}"
    return f"{dtype}{list(content[1])}{shown}"
