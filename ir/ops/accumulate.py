"""Arithmetic of narrow floating-point types: sums are taken in float32 and rounded once, as ONNX and its runtimes do."""

from typing import Any as AnyValue
from typing import Final

import numpy as np
import numpy.typing as npt

from passat.ir.dtypes import FLOATS, to_numpy

Array = npt.NDArray[AnyValue]

_NARROW: Final = frozenset(to_numpy(name) for name in FLOATS if to_numpy(name).itemsize < 4)


def wide(array: Array) -> Array:
    """The array as float32 where its elements are 16-bit floats or narrower; else as it is.

    >>> wide(np.ones(2, np.float16)).dtype, wide(np.ones(2, np.int8)).dtype
    (dtype('float32'), dtype('int8'))
    """
    return array.astype(np.float32) if array.dtype in _NARROW else array


def narrow(value: npt.ArrayLike, dtype: "np.dtype[AnyValue]") -> Array:
    """What was computed on `wide` operands, rounded to the operands' element type."""
    return np.asarray(value).astype(dtype, copy=False)
