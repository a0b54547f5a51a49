"""Messages between two processes: a head in JSON, and arrays as they are in memory. Nothing that is read is executed.

An array keeps its element type and shape; texts, which are no memory, stand in the head.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.generic]
Head: TypeAlias = dict[str, AnyValue]

_LENGTH: Final = 8
"""Bytes that say how long a head is."""
_LONGEST_HEAD: Final = 1 << 30
_PLAIN: Final = re.compile(r"[<>|=][biufcUS]\d{1,9}")
"""How NumPy calls its own element types."""


class Writable(Protocol):
    """Where messages go to: an unbuffered file."""

    def write(self, data: memoryview, /) -> int | None:
        """Writes some of the data; how much."""


class Readable(Protocol):
    """Where messages come from: an unbuffered file."""

    def readinto(self, data: memoryview, /) -> int | None:
        """Reads some data; how much, 0 at the end."""


class WireError(ValueError):
    """What is no message, or a value that goes into none."""


def pack(value: AnyValue, arrays: list[Array]) -> AnyValue:
    """The form of a value in a head: an array, None, a number, a text, a list of such, or a mapping. `arrays` gets what goes beside it.

    Raises WireError for anything else.
    """
    match value:
        case np.ndarray() | np.generic():
            return _packed_array(np.asarray(value, order="C"), arrays)
        case None | bool() | int() | float() | str():
            return {"is": value}
        case list() | tuple():
            return {"list": [pack(each, arrays) for each in value]}
        case Mapping():
            return {"map": [[pack(key, arrays), pack(each, arrays)] for key, each in value.items()]}
    raise WireError(f"a {type(value).__name__} is no value that is handed to another process")


def _packed_array(value: Array, arrays: list[Array]) -> AnyValue:
    if value.dtype.kind == "O":
        texts = value.ravel().tolist()
        if not all(isinstance(text, str) for text in texts):
            raise WireError("an array of objects that are no texts is not handed to another process")
        return {"texts": texts, "shape": value.shape}
    arrays.append(value)
    return {"array": len(arrays) - 1}


def unpack(form: AnyValue, arrays: Sequence[Array]) -> AnyValue:
    """The value of a form."""
    match form:
        case {"is": value}:
            return value
        case {"array": int(index)}:
            return arrays[index]
        case {"texts": list(texts), "shape": list(shape)}:
            found = np.empty(len(texts), object)
            found[:] = texts
            return found.reshape(shape)
        case {"list": list(parts)}:
            return [unpack(part, arrays) for part in parts]
        case {"map": list(parts)}:
            return {unpack(key, arrays): unpack(part, arrays) for key, part in parts}
    raise WireError("a value in no known form")


def write(stream: Writable, head: Mapping[str, AnyValue], arrays: Sequence[Array] = ()) -> None:
    """Writes a message. Raises OSError where nobody reads it."""
    kinds = [[_name(array.dtype), array.shape] for array in arrays]
    data = json.dumps({"head": head, "arrays": kinds}).encode()
    _write_all(stream, memoryview(len(data).to_bytes(_LENGTH, "little") + data))
    for array in arrays:
        _write_all(stream, array.reshape(-1).view(np.uint8).data)


def read(stream: Readable) -> tuple[Head, list[Array]]:
    """Reads a message. Raises EOFError at the end, WireError for what is no message."""
    size = int.from_bytes(_read_bytes(stream, _LENGTH), "little")
    if size > _LONGEST_HEAD:
        raise WireError(f"a head of {size} bytes")
    try:
        found = json.loads(_read_bytes(stream, size))
        head, arrays = dict(found["head"]), [_empty(name, shape) for name, shape in found["arrays"]]
    except (ValueError, TypeError, KeyError, MemoryError) as error:
        raise WireError(f"no message: {error}") from error
    for array in arrays:
        _read_into(stream, array.reshape(-1).view(np.uint8).data)
    return head, arrays


def _name(dtype: np.dtype[np.generic]) -> str:
    return "bfloat16" if dtype.name == "bfloat16" else dtype.str


def _empty(name: str, shape: Sequence[int]) -> Array:
    if not all(isinstance(size, int) and size >= 0 for size in shape) or math.prod(shape) >= 1 << 62:
        raise WireError(f"an array of shape {shape}")
    if name == "bfloat16":
        import ml_dtypes

        return np.empty(shape, ml_dtypes.bfloat16)
    if not _PLAIN.fullmatch(name):
        raise WireError(f"an array of {name!r}")
    return np.empty(shape, np.dtype(name))


def _write_all(stream: Writable, data: memoryview) -> None:
    while data:
        data = data[stream.write(data) or 0 :]


def _read_bytes(stream: Readable, size: int) -> bytearray:
    data = bytearray(size)
    _read_into(stream, memoryview(data))
    return data


def _read_into(stream: Readable, data: memoryview) -> None:
    while data:
        count = stream.readinto(data)
        if not count:
            raise EOFError
        data = data[count:]
