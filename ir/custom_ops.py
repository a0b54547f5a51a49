"""Operators of custom domains, mapped by name: `define_op(onnx="com.mycompany.FusedThing")`.

Nodes must have the inputs, outputs and attributes of the declaration. Nodes that differ are imported as opaque, with the reason.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import Op, OpTypeError, find_op
from passat.ir.types import TupleType

NOT_AS_DECLARED: Final = "is left opaque, since it does not match its declaration"
"""Finding for a node that does not match the declaration of its operator."""


def declared_op(name: str) -> Op | None:
    """Returns the operator declared outside Passat under a name or for the ONNX operator of that name; None if there is none.

    >>> declared_op("com.mycompany.Undeclared"), declared_op("nn.relu")
    (None, None)
    """
    found = find_op(name.removeprefix("onnx."))
    return None if found is None or found.is_own else found


def map_custom(op: Op, domain: str, op_type: str, attr_names: Mapping[str, str]) -> None:
    """Registers the reader and the writer of a custom operator. `attr_names` maps ONNX attribute names to Passat's if they differ."""

    def read(node: OnnxNode) -> Expr:
        given = {attr_names.get(name, name): value for name, value in node.attrs.items()}
        operands = [value for value in node.inputs if value is not None]
        if len(operands) != len(node.inputs):
            raise OpTypeError(f"{op.name} requires all of its inputs, but one is absent")
        call = op(*operands, span=node.span, **given)
        for name, value in given.items():
            _check_kind(op, name, value)
        return Call(op, operands, op.bind_attrs({name: _read(op, name, value) for name, value in call.attrs.items()}), span=node.span)

    theirs = {ours: name for name, ours in attr_names.items()}

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> Sequence[str]:
        type_ = call.checked_type
        count = len(type_.fields) if isinstance(type_, TupleType) else 1
        attrs = {theirs.get(name, name): _written(op, name, value) for name, value in call.attrs.items()}
        return emit.nodes(op_type, inputs, attrs, outputs=count, domain=domain)

    read.__module__ = op.relation.__module__
    from_onnx(op_type, domain=domain)(read)
    to_onnx(op)(write)


def _check_kind(op: Op, name: str, value: AnyValue) -> None:
    """Raises OpTypeError if an attribute is declared as a number or a list of numbers and the node has a different kind of value."""
    numbers = [kind for kind in (int, float) if _is_kind(op, name, kind)]
    for each in value if isinstance(value, tuple) else (value,):
        if numbers and not isinstance(each, (int, *numbers)) and not _is_kind(op, name, type(each)):
            raise OpTypeError(f"{op.name} declares {name} as {numbers[-1].__name__}, but the node has {type(each).__name__}")


def _read(op: Op, name: str, value: AnyValue) -> AnyValue:
    """Converts an attribute from ONNX to its declared type. ONNX floats have 32 bits and are read as the shortest equal decimal."""
    from passat.ir.ops.emitting import shortest

    if not _is_kind(op, name, float):
        return value
    if isinstance(value, tuple):
        return tuple(shortest(each) for each in value)
    return shortest(value) if isinstance(value, (int, float)) else value


def _written(op: Op, name: str, value: AnyValue) -> AnyValue:
    """Converts an attribute to ONNX: an integer becomes a float if the declaration has a float."""
    kind = next((kind for kind in (float, int) if _is_kind(op, name, kind)), None)
    if kind is None or value is None or isinstance(value, str):
        return value
    return tuple(map(kind, value)) if isinstance(value, (tuple, list)) else kind(value)


def _is_kind(op: Op, name: str, kind: type) -> bool:
    """Whether an attribute is declared as a number of a kind or a list of them, by its annotation or else by its default."""
    parameter = op.attr_params[name]
    if parameter.annotation is not inspect.Parameter.empty:
        said = parameter.annotation if isinstance(parameter.annotation, str) else repr(parameter.annotation)
        return kind.__name__ in said
    default = parameter.default
    first = default[0] if isinstance(default, tuple) and default else default
    return type(first) is kind
