"""Files of parameters: arrays by name, in TVM's binary format."""

import math
import struct
from collections.abc import Mapping
from typing import Final

import numpy.typing as npt

from passat.ir.counting import counted
from passat.ir.graph_json.arrays import decode_array_bytes, encode_array_bytes
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Tensor
from passat.runtime.values import NDArray

_MAGIC: Final = 0xF7E58D4F05049CB7
_HEAD: Final = struct.Struct("<QQ")
_COUNT: Final = struct.Struct("<Q")


class ParamsError(PassatError, ValueError, RuntimeError):
    """Bytes are not parameters in TVM's format, or parameters cannot be written in it."""

    exit_code = 1


def save_param_dict(params: Mapping[str, "npt.ArrayLike | NDArray | Tensor"]) -> bytearray:
    """Encodes arrays by name. Raises ParamsError for element types that TVM does not have.

    >>> import numpy as np
    >>> load_param_dict(save_param_dict({"x": np.ones(2, np.int8)}))
    {'x': NDArray(int8[2], [1 1])}
    """
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise ParamsError("parameters are arrays by name: save_param_dict({'weight': array})")
    parts = [_HEAD.pack(_MAGIC, 0), _COUNT.pack(len(params))]
    for name in params:
        encoded = name.encode()
        parts += [_COUNT.pack(len(encoded)), encoded]
    parts.append(_COUNT.pack(len(params)))
    for name, value in params.items():
        tensor = value if isinstance(value, Tensor) else NDArray(value).tensor
        try:
            parts.append(encode_array_bytes(tensor))
        except TypeError:
            raise ParamsError(f"the parameter {name!r} of the element type {tensor.dtype} has no form in TVM's files") from None
    return bytearray(b"".join(parts))


def load_param_dict(param_bytes: bytes | bytearray | memoryview) -> dict[str, NDArray]:
    """Decodes what `save_param_dict`, or TVM's function of this name, has written. Raises ParamsError for anything else."""
    data = memoryview(check_bytes(param_bytes)).cast("B")
    at = 0

    def count() -> int:
        nonlocal at
        if at + _COUNT.size > len(data):
            raise ParamsError("the parameters end early")
        (found,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        return int(found)

    if len(data) < _HEAD.size or _HEAD.unpack_from(data)[0] != _MAGIC:
        raise ParamsError("these are not parameters in TVM's format; save_param_dict writes it")
    at = _HEAD.size
    names: list[str] = []
    for _ in range(_possible(count(), len(data))):
        length = count()
        if at + length > len(data):
            raise ParamsError("the parameters end early")
        try:
            names.append(str(data[at : at + length], "utf-8"))
        except UnicodeDecodeError:
            raise ParamsError("the name of a parameter is not text in UTF-8") from None
        at += length
    if len(set(names)) != len(names):
        raise ParamsError("two parameters have the same name")
    if count() != len(names):
        raise ParamsError("the parameters have another number of names than of arrays")
    found: dict[str, NDArray] = {}
    for name in names:
        try:
            tensor, size = decode_array_bytes(data[at:])
        except ValueError as error:
            raise ParamsError(f"the parameter {name!r} cannot be read: {error}") from None
        found[name] = NDArray(tensor)
        at += size
    if at != len(data):
        raise ParamsError(f"the parameters are followed by {counted(len(data) - at, 'other byte')}")
    return found


def check_bytes(given: "bytes | bytearray | memoryview") -> "bytes | bytearray | memoryview":
    """The bytes themselves. Raises ParamsError for other values, such as the name of a file."""
    if not isinstance(given, (bytes, bytearray, memoryview)):
        raise ParamsError(f"parameters are read from bytes, not from a {type(given).__name__}; read the file first")
    return given


def _possible(count: int, size: int) -> int:
    """A number of entries. Raises ParamsError for more entries than bytes can hold."""
    if count > math.ceil(size / _COUNT.size):
        raise ParamsError(f"{counted(count, 'parameter')} cannot fit into {counted(size, 'byte')}")
    return count
