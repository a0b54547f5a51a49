"""The cost of a call as counts: floating-point operations, and bytes read and written. Machine models are in `passat.rules.cost`."""

from collections.abc import Sequence
from typing import NamedTuple

from passat.ir.attrs import Attrs
from passat.ir.shape import static_size
from passat.ir.types import TensorType, TupleType, Type


class Cost(NamedTuple):
    """Floating-point operations and bytes of memory traffic of a call. Symbolic and unknown sizes count with an assumed value."""

    flops: float
    bytes: float


def nbytes(type_: Type) -> float:
    """Size in bytes of a value of a type; 0 for types without a size."""
    if isinstance(type_, TensorType):
        return type_.nbytes
    if isinstance(type_, TupleType):
        return sum(map(nbytes, type_.fields))
    return 0.0


def elements(type_: Type) -> float:
    """Number of elements of a value of a type."""
    if isinstance(type_, TensorType):
        return float(static_size(type_.shape))
    if isinstance(type_, TupleType):
        return sum(map(elements, type_.fields))
    return 0.0


def memory_bound(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Cost of reading the operands and writing the result, with negligible arithmetic (data movement, cheap elementwise operators)."""
    return Cost(elements(result), sum(map(nbytes, args)) + nbytes(result))


def view(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Cost of reinterpreting the same bytes: reshapes, tuples."""
    return Cost(0.0, 0.0)


def transcendental(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Cost of an elementwise function of about twenty operations per element (exp, erf, tanh ...)."""
    return Cost(20.0 * elements(result), sum(map(nbytes, args)) + nbytes(result))


def reduction(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Cost of one operation per element read."""
    return Cost(sum(map(elements, args)), sum(map(nbytes, args)) + nbytes(result))
