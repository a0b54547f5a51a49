"""The parts of `tvm.tir` and `tvm.te` that Relay programs use: numbers, and variables for sizes. There is no TIR."""

from collections.abc import Iterable
from typing import Any as AnyValue

from passat.ir import shape
from passat.ir.dtypes import to_numpy
from passat.ir.shape import Dim, SymDim

__all__ = ["Any", "FloatImm", "IntImm", "SizeVar", "StringImm", "Var", "const", "get_const_tuple", "int32", "int64", "size_var", "var"]


def IntImm(dtype: str, value: int) -> int:  # noqa: N802  # TVM's name of a class
    """An integer, or a boolean for the element type bool.

    >>> IntImm("int32", 1), IntImm("bool", 1)
    (1, True)
    """
    return bool(value) if dtype == "bool" else int(value)


def FloatImm(dtype: str, value: float) -> float:  # noqa: N802  # TVM's name of a class
    """A floating-point number."""
    return float(value)


def StringImm(value: str) -> str:  # noqa: N802  # TVM's name of a class
    """A string."""
    return value


def Any() -> shape.Any:  # noqa: N802  # TVM's name of a class
    """The unknown dimension."""
    return shape.ANY


def Var(name: str, dtype: str = "int32") -> SymDim:  # noqa: N802  # TVM's name of a class
    """A named size.

    >>> Var("n") * 2
    2*n
    """
    return SymDim.named(name)


def var(name: str = "tindex", dtype: str = "int32") -> SymDim:
    """A named size."""
    return SymDim.named(name)


def size_var(name: str = "size", dtype: str = "int32") -> SymDim:
    """A named size."""
    return SymDim.named(name)


SizeVar = Var


def int32(value: int) -> int:
    """An integer, as TVM's script writes it."""
    return int(value)


int64 = int32


def const(value: AnyValue, dtype: str | None = None) -> AnyValue:
    """A number of an element type; without one, the number itself.

    >>> const(2.0, "int32"), const(1, "bool")
    (2, True)
    """
    return value if dtype is None else to_numpy(dtype).type(value).item()


def get_const_tuple(in_tuple: Iterable[Dim]) -> tuple[int, ...]:
    """A shape as integers. Raises ValueError for sizes that are not known.

    >>> get_const_tuple([1, 2])
    (1, 2)
    """
    sizes = tuple(in_tuple)
    found = tuple(size for size in sizes if isinstance(size, int))
    if len(found) != len(sizes):
        raise ValueError(f"the shape {sizes} has unknown sizes")
    return found
