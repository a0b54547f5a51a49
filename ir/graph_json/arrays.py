"""Constants as TVM serializes them: a header, a device, an element type (DLPack), sizes and elements, little-endian, in base64."""

import base64
import binascii
import math
import struct
from typing import Final

import numpy as np

from passat.ir.counting import counted
from passat.ir.dtypes import to_numpy
from passat.ir.tensor import Tensor

_MAGIC: Final = 0xDD5E40F096B4A13F
_HEAD: Final = struct.Struct("<QQiiiBBH")
"""The magic number, a reserved word, the kind and number of the device, the rank, and the code, bits and lanes of the element type."""
_CPU: Final = 1
_CODES: Final = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5}
_ELEMENTS: Final = {
    (1, 1): "bool",
    **{(_CODES[kind], bits): f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{(_CODES["float"], bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
    **{(_CODES["complex"], bits): f"complex{bits}" for bits in (64, 128)},
}
_KINDS: Final = {dtype: kind for kind, dtype in _ELEMENTS.items()}
_MOST_AXES: Final = 64


def encode_array(tensor: Tensor) -> str:
    """Encodes the elements of a constant as text. Raises TypeError for element types that TVM does not have."""
    return base64.b64encode(encode_array_bytes(tensor)).decode()


def decode_array(text: str) -> Tensor:
    """Decodes the output of `encode_array`. Raises ValueError for anything else."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not an array of TVM: {error}") from None
    tensor, size = decode_array_bytes(data)
    if size != len(data):
        raise ValueError(f"its array has {counted(size, 'byte')}, but there are {len(data)}")
    return tensor


def encode_array_bytes(tensor: Tensor) -> bytes:
    """Encodes the elements of a tensor. Raises TypeError for element types that TVM does not have."""
    kind = _KINDS.get(tensor.dtype)
    if kind is None:
        raise TypeError(f"a constant of the element type {tensor.dtype} cannot be saved as JSON; use astext or pickle")
    data = np.ascontiguousarray(tensor.numpy()).tobytes()
    head = _HEAD.pack(_MAGIC, 0, _CPU, 0, tensor.ndim, *kind, 1)
    return head + struct.pack(f"<{tensor.ndim + 1}q", *tensor.shape, len(data)) + data


def decode_array_bytes(data: bytes | memoryview) -> tuple[Tensor, int]:
    """Decodes the array at the start of bytes; returns it and its size in bytes. Raises ValueError for anything else."""
    try:
        magic, _, _, _, rank, code, bits, lanes = _HEAD.unpack_from(data)
        if magic != _MAGIC or lanes != 1 or not 0 <= rank <= _MOST_AXES:
            raise ValueError("it is not an array of TVM")
        dtype = _ELEMENTS.get((code, bits))
        if dtype is None:
            raise ValueError(f"its element type, code {code} with {counted(bits, 'bit')}, is unknown")
        *shape, size = struct.unpack_from(f"<{rank + 1}q", data, _HEAD.size)
    except struct.error as error:
        raise ValueError(f"it is not an array of TVM: {error}") from None
    begin = _HEAD.size + 8 * (rank + 1)
    stored = to_numpy(dtype)
    if min(shape, default=0) < 0 or not 0 <= size <= len(data) - begin or size != math.prod(shape) * stored.itemsize:
        raise ValueError(f"its sizes {shape} do not fit its {counted(len(data) - begin, 'byte')}")
    rest = bytes(data[begin : begin + size])
    return Tensor.dense(np.frombuffer(rest, stored).reshape(shape)), begin + size
