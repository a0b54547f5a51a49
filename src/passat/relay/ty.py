"""`relay.ty`: types."""

from passat.ir.shape import Any
from passat.ir.types import (
    EnvFunc,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeRelation,
    TypeVar,
)

__all__ = [
    "Any",
    "EnvFunc",
    "FuncType",
    "GlobalTypeVar",
    "IncompleteType",
    "RefType",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeKind",
    "TypeRelation",
    "TypeVar",
    "scalar_type",
]


def scalar_type(dtype: str) -> TensorType:
    """The type of a scalar.

    >>> scalar_type("int8")
    int8
    """
    return TensorType((), dtype)
