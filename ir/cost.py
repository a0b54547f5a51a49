"""What one call costs, as counts: floating-point operations, and bytes read and written. Machines are in `passat.rules.cost`."""

from collections.abc import Sequence
from typing import NamedTuple

from passat.ir.attrs import Attrs
from passat.ir.shape import static_size
from passat.ir.types import TensorType, TupleType, Type


class Cost(NamedTuple):
    """Operations and bytes of memory traffic of one call. Sizes that are not integers count with an assumed value."""

    flops: float
    bytes: float


def nbytes(type_: Type) -> float:
    """Bytes of a value of a type; types without a size count as nothing."""
    if isinstance(type_, TensorType):
        return type_.nbytes
    if isinstance(type_, TupleType):
        return sum(map(nbytes, type_.fields))
    return 0.0


def elements(type_: Type) -> float:
    """Elements of a value of a type."""
    if isinstance(type_, TensorType):
        return float(static_size(type_.shape))
    if isinstance(type_, TupleType):
        return sum(map(elements, type_.fields))
    return 0.0


def memory_bound(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Reads its operands and writes its result, with next to no arithmetic (data movement, cheap elementwise operators)."""
    return Cost(elements(result), sum(map(nbytes, args)) + nbytes(result))


def view(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Changes how the same bytes are looked at: reshapes, tuples."""
    return Cost(0.0, 0.0)


def transcendental(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """An elementwise function that takes about twenty operations an element (exp, erf, tanh ...)."""
    return Cost(20.0 * elements(result), sum(map(nbytes, args)) + nbytes(result))


def reduction(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """One operation for each element read."""
    return Cost(sum(map(elements, args)), sum(map(nbytes, args)) + nbytes(result))
