"""Messages between sessions and servers: values as JSON, followed by the raw bytes of arrays and texts of bytes. Nothing is pickled.

A message is the size of the JSON, the JSON `[sizes of the pieces, value]`, and the pieces. Numbers, texts and None are themselves,
everything else is a list of a kind and its parts.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.bounded_read import decode_json
from passat.ir.counting import counted
from passat.ir.graph_json.arrays import decode_array_bytes, encode_array_bytes
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Tensor
from passat.runtime.devices import Device

_SIZE: Final = struct.Struct("<Q")


class RemoteError(PassatError, RuntimeError):
    """A remote call failed: its function raised an error, or the other side cannot be reached or is not understood."""

    exit_code = 1


@dataclass(frozen=True)
class Handle:
    """An object that stays on the server: its number, its kind (`array`, `function`, `module`), and what is known about it."""

    number: int
    kind: str
    about: tuple[AnyValue, ...] = ()


def encode(value: AnyValue, leaf: Callable[[AnyValue], AnyValue]) -> bytes:
    """Encodes numbers, texts, bytes, None, devices, tensors and handles, and tuples, lists and dictionaries of them.

    Other values are replaced by `leaf(value)`, which raises TypeError for what cannot be sent.

    >>> decode(encode((1, {"x": [b"ab", None]}), leaf=repr), leaf=repr)
    (1, {'x': (b'ab', None)})
    """
    pieces: list[bytes] = []

    def piece(content: bytes) -> int:
        pieces.append(content)
        return len(pieces) - 1

    def made(value: AnyValue) -> AnyValue:
        match value:
            case None | bool() | float() | str():
                return value
            case int():
                return int(value)
            case np.generic():
                return made(value.item())
            case bytes() | bytearray():
                return ["bytes", piece(bytes(value))]
            case list() | tuple():
                return ["tuple", *map(made, value)]
            case dict():
                return ["dict", *([made(key), made(part)] for key, part in value.items())]
            case Tensor():
                return ["array", piece(encode_array_bytes(value))]
            case Handle():
                return ["handle", value.number, value.kind, *map(made, value.about)]
            case Device() if type(value) is Device:
                return ["device", value.device_type, value.device_id]
            case _:
                return made(leaf(value))

    try:
        head = made(value)
        text = json.dumps([[len(content) for content in pieces], head]).encode()
    except (RecursionError, ValueError) as error:  # nested too deeply, a cycle, or an integer of thousands of digits
        raise TypeError(f"a value cannot be sent: {error}") from None
    return b"".join([_SIZE.pack(len(text)), text, *pieces])


def decode(message: bytes, leaf: Callable[[Handle], AnyValue]) -> AnyValue:
    """Decodes what `encode` has written, with `leaf(handle)` for handles. Raises RemoteError for anything else."""
    try:
        (size,) = _SIZE.unpack_from(message)
        if size > len(message) - _SIZE.size:
            raise RemoteError(f"a message ends early: {counted(len(message), 'byte')}")
        begin = _SIZE.size + size
        sizes, head = decode_json(message[_SIZE.size : begin])
        pieces: list[bytes] = []
        for size in sizes:
            if type(size) is not int or not 0 <= size <= len(message) - begin:
                raise RemoteError(f"a message ends early: {counted(len(message), 'byte')}")
            pieces.append(message[begin : begin + size])
            begin += size
        if begin != len(message):
            raise RemoteError(f"a message has {counted(len(message) - begin, 'byte')} too many")
        return _decoded(head, pieces, leaf)
    except (ValueError, TypeError, KeyError, IndexError, struct.error, RecursionError) as error:
        raise RemoteError(f"a message is damaged: {error}") from None


def _decoded(head: AnyValue, pieces: list[bytes], leaf: Callable[[Handle], AnyValue]) -> AnyValue:
    def found(part: AnyValue) -> AnyValue:
        match part:
            case None | bool() | float() | str() | int():
                return part
            case ["bytes", int(place)]:
                return pieces[place]
            case ["tuple", *parts]:
                return tuple(map(found, parts))
            case ["dict", *pairs]:
                return {found(key): found(each) for key, each in pairs}
            case ["array", int(place)]:
                tensor, size = decode_array_bytes(pieces[place])
                if size != len(pieces[place]):
                    raise ValueError("an array is followed by other bytes")
                return tensor
            case ["device", int(kind), int(number)]:
                return Device(kind, number)
            case ["handle", int(number), str(kind), *about]:
                return leaf(Handle(number, kind, tuple(map(found, about))))
            case _:
                raise ValueError(f"it has {part!r:.60}")

    return found(head)
