"""How integers stand for real numbers, as the pass FakeQuantizationToInteger follows it: `real = scale * (integer - zero_point)`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final, TypeAlias

from passat.ir.expr import Expr
from passat.ir.op import register_op_attr


class AffineType:
    """What the integers of an expression stand for."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TensorAffineType(AffineType):
    """The scale and zero point of a tensor, as expressions, and its element type.

    Scale and zero point are scalars, or vectors along `axis`. Those of two types are equal where they are the same expressions.
    """

    scale: Expr
    zero_point: Expr
    dtype: str
    axis: int = -1


@dataclass(frozen=True, slots=True)
class TupleAffineType(AffineType):
    """The affine types of the fields of a tuple."""

    types: Sequence[TensorAffineType]


CONVERSION: Final = "FTVMFakeQuantizationToInteger"
OPTIONAL_CONVERSION: Final = "FTVMOptionalFakeQuantizationToInteger"
"""The attributes of operators that hold conversions."""


class AffineTypes(dict[Expr, AffineType]):
    """The affine types of the expressions of a region.

    That of the call that is being converted is the type of the region's result, if the region ends in a qnn.quantize. `last` is the call
    before that one.
    """

    last: Expr | None = None


Conversion: TypeAlias = Callable[[AnyValue, AffineTypes], Sequence[object]]
"""Returns the expression on integers for a call whose operands are integers already, and its affine type.

It raises an exception where the operator cannot be computed on them.
"""


def register_fake_quantization_to_integer(op_name: str, func: Conversion | None = None, level: int = 10) -> Conversion:
    """Registers the conversion of an operator, or without `func` returns the decorator that does. The highest level wins."""
    found: Conversion = register_op_attr(op_name, CONVERSION, func, level)
    return found


def register_optional_fake_quantization_to_integer(op_name: str, func: Conversion | None = None, level: int = 10) -> Conversion:
    """Registers a conversion that the pass uses only where its option `optional_qnn_ops` names the operator."""
    found: Conversion = register_op_attr(op_name, OPTIONAL_CONVERSION, func, level)
    return found
