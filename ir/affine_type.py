"""Affine types: how integers represent real numbers, `real = scale * (integer - zero_point)`. Used by the pass
FakeQuantizationToInteger."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final, TypeAlias

from passat.ir.expr import Expr
from passat.ir.op import register_op_attr


class AffineType:
    """Base class: how the integers of an expression represent real numbers."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TensorAffineType(AffineType):
    """The scale and zero point of a tensor, as expressions, and its element type.

    Scale and zero point are scalars, or vectors along `axis`. Two types are equal if theirs are the same expressions.
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
"""The operator attributes that store conversions."""


class AffineTypes(dict[Expr, AffineType]):
    """The affine types of the expressions of a region.

    If the region ends in a qnn.quantize, the call that is being converted has the type of the region's result. `last` is the call before
    it.
    """

    last: Expr | None = None


Conversion: TypeAlias = Callable[[AnyValue, AffineTypes], Sequence[object]]
"""Converts a call whose operands are integers already: returns the expression on integers and its affine type.

Raises an exception if the operator cannot be computed on integers.
"""


def register_fake_quantization_to_integer(op_name: str, func: Conversion | None = None, level: int = 10) -> Conversion:
    """Registers the conversion of an operator; without `func`, returns a decorator. The highest level wins."""
    found: Conversion = register_op_attr(op_name, CONVERSION, func, level)
    return found


def register_optional_fake_quantization_to_integer(op_name: str, func: Conversion | None = None, level: int = 10) -> Conversion:
    """Registers a conversion that the pass uses only if its option `optional_qnn_ops` names the operator."""
    found: Conversion = register_op_attr(op_name, OPTIONAL_CONVERSION, func, level)
    return found
