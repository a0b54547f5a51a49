"""Element types of sums of products. Narrow floats are computed in float32 and rounded once, as ONNX and its runtimes do; integers
optionally have wider sums."""

from typing import Any as AnyValue
from typing import Final

import numpy as np
import numpy.typing as npt

from passat.ir.dtypes import FLOATS, INTEGERS, NUMERIC, to_numpy
from passat.ir.op import OpTypeError
from passat.ir.types import TensorType

Array = npt.NDArray[AnyValue]

_SUMS: Final = frozenset({"int32", "int64"})
"""Element types of sums of narrower integers."""
BYTES: Final = frozenset({"int8", "uint8"})
"""Element types whose 32-bit sums of products ONNX has operators for."""
_NARROW: Final = frozenset(to_numpy(name) for name in FLOATS if to_numpy(name).itemsize < 4)


def wide(array: Array) -> Array:
    """Converts floats of 16 bits or fewer to float32; returns other arrays unchanged.

    >>> wide(np.ones(2, np.float16)).dtype, wide(np.ones(2, np.int8)).dtype
    (dtype('float32'), dtype('int8'))
    """
    return array.astype(np.float32) if array.dtype in _NARROW else array


def narrow(value: npt.ArrayLike, dtype: "np.dtype[AnyValue]") -> Array:
    """Rounds a result computed on `wide` operands to the element type of the operands."""
    return np.asarray(value).astype(dtype, copy=False)


def check_dtypes(name_a: str, a: TensorType, name_b: str, b: TensorType) -> None:
    """Raises OpTypeError if two operands have different element types, or a type without arithmetic."""
    if a.dtype != b.dtype:
        raise OpTypeError(f"{name_a} has element type {a.dtype}, but {name_b} has {b.dtype}; cast one")
    if a.dtype not in NUMERIC:
        raise OpTypeError(f"elements of type {a.dtype} have no arithmetic")


def sums_dtype(name_a: str, a: TensorType, name_b: str, b: TensorType, out_dtype: str) -> str:
    """The element type of sums of products: that of the operands, or `out_dtype`, which integers may widen. Raises OpTypeError."""
    if out_dtype in ("", a.dtype):
        check_dtypes(name_a, a, name_b, b)
        return a.dtype
    narrow_enough = all(each.dtype in INTEGERS and to_numpy(each.dtype).itemsize < _bytes(out_dtype) for each in (a, b))
    if out_dtype not in _SUMS or not narrow_enough:
        raise OpTypeError(
            f"{name_a} has element type {a.dtype} and {name_b} {b.dtype}, and out_dtype={out_dtype!r} is neither their common type nor "
            f"{' or '.join(sorted(_SUMS))} for narrower integers; cast the result"
        )
    return out_dtype


def _bytes(dtype: str) -> int:
    return to_numpy(dtype).itemsize if dtype in _SUMS else 0


def summed(array: Array, out_dtype: str) -> Array:
    """The operand of a sum of products, in the element type that computes it."""
    return array.astype(to_numpy(out_dtype), copy=False) if out_dtype in _SUMS else wide(array)
