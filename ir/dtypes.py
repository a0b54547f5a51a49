"""Element types: their Relay names and the NumPy dtypes that store them."""

import ml_dtypes
import numpy as np

from passat.ir.similar_names import did_you_mean

_NUMPY: dict[str, np.dtype[np.generic]] = {
    "bool": np.dtype(np.bool_),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8),
    "uint16": np.dtype(np.uint16),
    "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64),
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
    "string": np.dtype(np.object_),
    "int2": np.dtype(ml_dtypes.int2),
    "uint2": np.dtype(ml_dtypes.uint2),
    "int4": np.dtype(ml_dtypes.int4),
    "uint4": np.dtype(ml_dtypes.uint4),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
    "float4_e2m1fn": np.dtype(ml_dtypes.float4_e2m1fn),
    "float6_e2m3fn": np.dtype(ml_dtypes.float6_e2m3fn),
    "float6_e3m2fn": np.dtype(ml_dtypes.float6_e3m2fn),
}
_NAMES = {dtype: name for name, dtype in _NUMPY.items()}

FLOATS = frozenset(name for name in _NUMPY if name.startswith(("float", "bfloat")))
INTEGERS = frozenset(name for name in _NUMPY if name.startswith(("int", "uint")))
COMPLEX = frozenset({"complex64", "complex128"})
NUMERIC = FLOATS | INTEGERS | COMPLEX
NAMES = frozenset(_NUMPY)


def to_numpy(dtype: str) -> np.dtype[np.generic]:
    """Returns the NumPy dtype that stores elements of `dtype`. Strings are objects; narrow types come from ml_dtypes.

    >>> to_numpy("bfloat16").itemsize
    2
    """
    try:
        return _NUMPY[dtype]
    except (KeyError, TypeError):
        raise ValueError(f"unknown element type {dtype!r}; known: {', '.join(sorted(_NUMPY))}{_hint(dtype)}") from None


def _hint(dtype: object) -> str:
    """What an unknown element type may stand for."""
    if isinstance(dtype, str):
        return did_you_mean(dtype, _NUMPY)
    named = isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic))
    return f"; write {np.dtype(dtype).name!r}" if named else ""  # type: ignore[call-overload]  # a dtype, as checked


def from_numpy(dtype: np.dtype[np.generic]) -> str:
    """Returns the name of a NumPy dtype. Every NumPy string dtype is `string`.

    >>> from_numpy(np.dtype("<i8"))
    'int64'
    """
    name = _NAMES.get(dtype)
    if name is None:
        if dtype.kind in "USTO":
            return "string"
        raise ValueError(f"no element type corresponds to the NumPy dtype {dtype}")
    return name


def itemsize(dtype: str) -> float:
    """Size in bytes of one element in a file. Narrow types take a fraction of a byte (4-bit types a half); strings are assumed to take 16
    bytes."""
    if dtype in ("int4", "uint4", "float4_e2m1fn"):
        return 0.5
    if dtype in ("int2", "uint2"):
        return 0.25
    if dtype in ("float6_e2m3fn", "float6_e3m2fn"):
        return 0.75
    return 16.0 if dtype == "string" else float(to_numpy(dtype).itemsize)
