"""Finds inputs and outputs with incomplete declared types."""

from typing import Final

import onnx
from onnx import ModelProto, TypeProto, ValueInfoProto

from passat.ir.onnx.errors import require_text
from passat.ir.onnx_mapping import ELEMENT_TYPES

_PARTS: Final = {
    "tensor_type": (("elem_type", "element type"), ("shape", "shape")),
    "sparse_tensor_type": (("elem_type", "element type"), ("shape", "shape")),
    "sequence_type": (("elem_type", "element type"),),
    "optional_type": (("elem_type", "element type"),),
    "map_type": (("key_type", "type of keys"), ("value_type", "type of values")),
}
"""The required part of a type and its description, by kind."""


def undeclared(model: ModelProto) -> str:
    """A sentence about the first input or output whose declared type is too incomplete for `onnx.checker`; empty if there is none. Raises
    OnnxError for text that is not UTF-8."""
    for what, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in values:
            missing = _missing(value.type)
            if missing:
                return _sentence(model, what, value, f"has no declared {missing}", missing)
    return ""


def without_element_type(model: ModelProto) -> str:
    """A sentence about the first tensor that is declared without a valid element type; empty if there is none.

    `onnx.checker` accepts such models, but ONNX Runtime does not load them.
    """
    graph = model.graph
    for what, values in (("input", graph.input), ("output", graph.output), ("value", graph.value_info)):
        for value in values:
            number = value.type.tensor_type.elem_type
            if value.type.HasField("tensor_type") and number not in ELEMENT_TYPES:
                said = f"is declared with the unknown element type {number}" if number else "has no declared element type"
                return _sentence(model, what, value, said, "element type")
    return ""


def _missing(type_: TypeProto) -> str:
    kind = type_.WhichOneof("value")
    if kind is None:
        return "type"
    found = getattr(type_, kind)
    return next((said for part, said in _PARTS.get(kind, ()) if not found.HasField(part)), "")


def _sentence(model: ModelProto, what: str, value: ValueInfoProto, said: str, missing: str) -> str:
    maker = next((node for node in model.graph.node if value.name in node.output), None)
    by, out = "", "declare it (sizes may be unknown)" if missing in ("shape", "type") else "declare the right one"
    if maker is not None:
        require_text(maker.op_type, maker.domain)
        kind = f"{maker.domain}.{maker.op_type}" if maker.domain else maker.op_type
        by = f", which {f'node {maker.name!r} ({kind})' if maker.name else f'a {kind} node'} produces,"
        if not onnx.defs.has(maker.op_type, maker.domain) and missing in ("shape", "type"):
            out += ", or the operator in a rule file (docs/custom-operators.md)"
    return f"the {what} {value.name!r}{by} {said}: {out}"
