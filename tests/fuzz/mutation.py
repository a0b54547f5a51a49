"""Slightly wrong models: messages with changed fields, and files with changed bytes."""

from typing import Any, Final

import numpy as np
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]  # protobuf ships no types
from google.protobuf.message import Message  # type: ignore[import-untyped]  # protobuf ships no types
from onnx import ModelProto

NUMBERS: Final = (0, 1, -1, 2, 7, 127, 255, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
TEXTS: Final = ("", " ", "x", "a" * 3000, "\x00", "größe", "../x", "%s", "ai.onnx", "If", "Add", "v1")
FLOATS: Final = (0.0, -0.0, float("nan"), float("inf"), -1.0, 1e30)


def mutated(model: ModelProto, random: np.random.Generator) -> ModelProto:
    """The model with one to three fields changed, wherever they are."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for _ in range(int(random.integers(1, 4))):
        messages = parts_of(copy)
        _change(messages[int(random.integers(len(messages)))], messages, random)
    return copy


def is_text(model: ModelProto) -> bool:
    """True if all strings of a model are UTF-8, as protocol buffers require; ONNX Runtime does not check this."""
    return all(
        isinstance(text, str)
        for message in parts_of(model)
        for field, value in message.ListFields()
        if field.type == FieldDescriptor.TYPE_STRING
        for text in (value if field.is_repeated else [value])
    )


def mutated_bytes(data: bytes, random: np.random.Generator) -> bytes:
    """A file with some bytes changed, left out, doubled, or without its end."""
    found = bytearray(data)
    for _ in range(int(random.integers(1, 6))):
        place = int(random.integers(len(found) + 1))
        match int(random.integers(6)):
            case 0:
                del found[place : place + int(random.integers(1, 9))]
            case 1:
                found[place:place] = found[max(place - 20, 0) : place]
            case 2 if place > len(found) // 2:
                del found[place:]
            case _ if place < len(found):
                found[place] = int(random.integers(256))
    return bytes(found)


def parts_of(message: Message) -> list[Message]:
    """A message and all that are in it."""
    found = [message]
    for part in found:  # which grows meanwhile
        for field, value in part.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                found.extend(value if field.is_repeated else [value])
    return found


def _change(message: Message, messages: list[Message], random: np.random.Generator) -> None:
    """One field of a message."""
    fields = message.DESCRIPTOR.fields
    present = [field for field, _ in message.ListFields()]
    field = present[int(random.integers(len(present)))] if present and random.random() < 0.85 else fields[int(random.integers(len(fields)))]
    if field.is_repeated:
        _change_list(message, field, messages, random)
    elif random.random() < 0.15:
        message.ClearField(field.name)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        others = [other for other in messages if other.DESCRIPTOR is field.message_type]
        if others:
            _copy(others[int(random.integers(len(others)))], getattr(message, field.name))
    else:
        setattr(message, field.name, _value(field, getattr(message, field.name), messages, random))


def _change_list(message: Message, field: FieldDescriptor, messages: list[Message], random: np.random.Generator) -> None:
    entries = getattr(message, field.name)
    place = int(random.integers(len(entries))) if entries else 0
    if entries and random.random() < 0.4:
        del entries[place]
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        others = [other for other in messages if other.DESCRIPTOR is field.message_type]
        if others:
            _copy(others[int(random.integers(len(others)))], entries.add())
    elif entries:
        entries[place] = _value(field, entries[place], messages, random)
    else:
        entries.append(_value(field, 0, messages, random))


def _copy(source: Message, target: Message) -> None:
    """Copies a message, which may hold the other."""
    target.MergeFromString(source.SerializeToString())


def _value(field: FieldDescriptor, old: Any, messages: list[Message], random: np.random.Generator) -> Any:
    """Another value for a field: a problematic one, or one from another field."""

    def one_of(options: Any) -> Any:
        return options[int(random.integers(len(options)))]

    match field.type:
        case FieldDescriptor.TYPE_STRING:
            names = [
                text
                for message in messages
                for other, text in message.ListFields()
                if isinstance(text, str) and other.name in ("name", "op_type")
            ]
            return one_of(names) if names and random.random() < 0.6 else one_of(TEXTS)
        case FieldDescriptor.TYPE_BYTES:
            data = bytes(old or b"")
            return one_of([b"", data[:-1], data + b"\x00", data[::-1], b"\xff\xfe", bytes(random.integers(0, 256, 8).tolist())])
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return one_of(FLOATS)
        case FieldDescriptor.TYPE_ENUM:
            return one_of([value.number for value in field.enum_type.values])
    low, high = (0, 2**64 - 1) if field.type == FieldDescriptor.TYPE_UINT64 else (-(2**63), 2**63 - 1)
    if field.type == FieldDescriptor.TYPE_INT32:
        low, high = -(2**31), 2**31 - 1
    number = int(old or 0) + int(random.integers(-2, 3)) if random.random() < 0.5 else int(one_of(NUMBERS))
    return min(max(number, low), high)
