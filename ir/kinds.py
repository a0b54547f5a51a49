"""Kinds of types: a kind classifies types as a type classifies values."""

from passat.ir.counting import counted
from passat.ir.infer_error import InferError
from passat.ir.module import IRModule, TypeData
from passat.ir.types import (
    GlobalTypeVar,
    IncompleteType,
    Type,
    TypeCall,
    TypeKind,
    TypeRelation,
    TypeVar,
    type_parts,
)
from passat.ir.walks import parts_first

__all__ = ["TypeKind", "check_kind"]


def check_kind(t: Type | TypeData, mod: IRModule | None = None) -> TypeKind:
    """Returns the kind of a type. `mod` has the definitions of the data types that it names.

    The parts of tuples, functions and references, and the arguments of relations and of data types, must be of the kind `Type`. A data type
    must have as many arguments as its definition has parameters. Raises InferError otherwise.

    >>> from passat.ir.types import TupleType
    >>> check_kind(TupleType([TypeVar("A")])).name, check_kind(GlobalTypeVar("List")).name
    ('Type', 'AdtHandle')
    """
    known: dict[Type | TypeData, TypeKind] = {}
    for node in parts_first([t], _parts):
        known[node] = _kind(node, known, mod)
    return known[t]


def _parts(node: Type | TypeData) -> tuple[Type, ...]:
    return type_parts(node) if isinstance(node, Type) else ()


def _kind(node: Type | TypeData, known: dict[Type | TypeData, TypeKind], mod: IRModule | None) -> TypeKind:
    """The kind of a type, from the kinds of its parts. Raises InferError."""
    if isinstance(node, (TypeVar, GlobalTypeVar, IncompleteType)):
        return node.kind
    if isinstance(node, TypeData):
        return TypeKind.TypeData
    callee = node.func if isinstance(node, TypeCall) else None
    for part in _parts(node):
        wanted = TypeKind.AdtHandle if part is callee else TypeKind.Constraint if isinstance(part, TypeRelation) else TypeKind.Type
        if known[part] is not wanted:
            raise InferError(f"{part!r} in the type {node!r} has the kind {known[part].name}, but needs the kind {wanted.name}")
    if mod is not None and isinstance(node, TypeCall):
        _check_arguments(node, mod)
    return TypeKind.Constraint if isinstance(node, TypeRelation) else TypeKind.Type


def _check_arguments(node: TypeCall, mod: IRModule) -> None:
    definition = mod.type_definitions.get(node.func) if isinstance(node.func, GlobalTypeVar) else None
    if definition is None:
        raise InferError(f"the module does not define {node.func!r}, the data type of {node!r}")
    if len(definition.type_vars) != len(node.args):
        raise InferError(
            f"the type {node.func!r} takes {counted(len(definition.type_vars), 'argument')}, but {node!r} has {len(node.args)}"
        )
