"""Accumulation of narrow floating-point types: computed in float32 and rounded once, as ONNX and its runtimes do."""

from typing import Any as AnyValue
from typing import Final

import numpy as np
import numpy.typing as npt

from passat.ir.dtypes import FLOATS, to_numpy

Array = npt.NDArray[AnyValue]

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
