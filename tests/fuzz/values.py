"""Random tensors of every element type: ordinary ones, and ones with special values such as NaN, infinities, signed zeros, extremes."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

FLOAT: Final = TensorProto.FLOAT
INT64: Final = TensorProto.INT64
BOOL: Final = TensorProto.BOOL
STRING: Final = TensorProto.STRING
FLOATS: Final = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16})
INTEGERS: Final = frozenset(range(TensorProto.UINT8, TensorProto.INT64 + 1)) | {TensorProto.UINT32, TensorProto.UINT64}
OUTSIDE: Final = FLOATS | INTEGERS | {TensorProto.BOOL, TensorProto.STRING}
"""Element types of inputs and outputs: those that NumPy exchanges with ONNX Runtime."""
NARROW: Final = frozenset(range(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ + 1)) | {
    TensorProto.UINT4,
    TensorProto.INT4,
    TensorProto.UINT2,
    TensorProto.INT2,
}
"""Element types of constants and inner values only."""
SPECIAL: Final = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 2.0, 3.0, 256.0, -129.0, 65504.0, 89.0, -104.0, 2.0**31, 2.0**63, -(2.0**63)),
    *(np.inf, -np.inf, np.nan, 1e38, -1e38, 1e300, 1e-30, 1e-40, -1e-40, 1e-45, 5e-324),
]
NEAT: Final = [0.0, 1.0, -1.0, 2.0, 0.5, -0.0, 3.0, -2.0, 0.25, 6.0]
"""Numbers that rules match."""
_WORDS: Final = np.array(["", "a", "B", "two words", "1.5", "größe", "NaN"], np.object_)


def dtype_of(kind: int) -> np.dtype[Any]:
    """NumPy's dtype of an element type."""
    return np.dtype(np.object_) if kind == STRING else np.dtype(helper.tensor_dtype_to_np_dtype(kind))


@np.errstate(all="ignore")  # for signaling NaN
def is_finite(array: Array) -> bool:
    """True if all elements are far from the limits of their range, so that one more operation keeps them finite."""
    if not array.size or array.dtype.kind in "iubO":
        return True
    if array.dtype.kind == "V" and array.dtype.itemsize < 2:
        return bool(np.isfinite(array.astype(np.float32)).all())
    wide = array.astype(np.float64)
    top = {np.dtype(np.float64): 1e150, np.dtype(np.float16): 2e4}.get(array.dtype, 1e18)
    return bool((np.abs(wide) < top).all())


def random_array(random: np.random.Generator, kind: int, shape: Sequence[int], *, tame: bool = True) -> Array:
    """A random tensor of an element type: numbers of moderate size, whole numbers, or one simple number throughout; special values unless
    it is tame."""
    shape = tuple(shape)
    choice = int(random.integers(6 if tame else 10))
    dtype = dtype_of(kind)
    if kind == STRING:
        return np.asarray(_WORDS[random.integers(0, len(_WORDS), shape)], np.object_)
    if kind == BOOL:
        return np.asarray(random.integers(0, 2, shape) > 0 if choice else np.full(shape, random.integers(2) > 0))
    if kind in INTEGERS:
        info = np.iinfo(dtype)
        if choice < 5:
            low = 0 if info.min == 0 else -3
            return np.asarray(random.integers(low, 5, shape) if choice else np.full(shape, random.integers(low, 4)), dtype)
        if choice == 5:
            return np.asarray(random.integers(max(info.min, -100), 100, shape), dtype)
        extreme = np.array([0, 1, 2, info.max, info.min, info.max - 1, info.min + 1, info.max // 2], dtype)
        return np.asarray(extreme[random.integers(0, len(extreme), shape)], dtype)
    if dtype.kind not in "fV" or "int" in dtype.name:  # 4 and 2 bits
        return np.asarray(random.integers(0, 2 if kind in (TensorProto.UINT2, TensorProto.INT2) else 8, shape)).astype(dtype)
    with np.errstate(all="ignore"):
        if choice == 0:
            return np.full(shape, NEAT[random.integers(len(NEAT))]).astype(dtype)
        if choice == 1:
            return np.asarray(random.integers(-3, 4, shape)).astype(dtype)
        if choice == 2:
            return np.asarray(random.uniform(0.25, 3, shape)).astype(dtype)
        if choice < 6:
            return np.asarray(random.normal(size=shape)).astype(dtype)
        special = np.asarray(SPECIAL)[random.integers(0, len(SPECIAL), shape)]
        share = random.choice([1.0, 0.3, 0.1])
        return np.asarray(np.where(random.random(shape) < share, special, random.normal(size=shape))).astype(dtype)
