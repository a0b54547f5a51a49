"""External tensor data: locates it and checks that it lies inside the model's folder."""

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from onnx import TensorProto

from passat.ir.counting import counted
from passat.ir.onnx.errors import OnnxError


class External(NamedTuple):
    """A byte range of a file, and the proto that refers to it."""

    proto: TensorProto
    path: str
    offset: int
    length: int


def external_proto(name: str, number: int, dims: Sequence[int], location: str, offset: int, length: int) -> TensorProto:
    """A tensor of the element type with a number in ONNX, whose contents are a byte range of a file."""
    proto = TensorProto(name=name, data_type=number, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        proto.external_data.add(key=key, value=str(value))
    return proto


def locate(proto: TensorProto, folder: str | None, nbytes: int) -> External:
    """Returns the location of the `nbytes` of a tensor with external data.

    Raises OnnxError if

    * the folder is unknown;
    * the path is absolute or leads outside the folder, also by symbolic links;
    * the path may lead outside the folder, for a file with several hard links (as in onnx since 1.21);
    * the file is missing;
    * the range is outside the file or does not have the size that the tensor needs.
    """
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    where = f"the tensor {proto.name!r} is stored in the external file {location!r}"
    if not location or "\0" in location:
        raise OnnxError(f"the tensor {proto.name!r} is declared external but has no file name")
    if folder is None:
        raise OnnxError(f"{where}, but the model's folder is unknown; pass the path of the model, or folder=")
    if os.path.isabs(location) or ".." in location.replace("\\", "/").split("/") or location[1:2] == ":":
        raise OnnxError(f"{where}, which is outside the model's folder; move it there")
    path = os.path.join(folder, location)
    state = _state(folder, path)
    if state == _OUTSIDE:
        raise OnnxError(f"{where}, a symbolic link to outside the model's folder; replace it by a copy of the file")
    if state == _LINKED:
        raise OnnxError(f"{where}, which has other hard links, possibly outside the model's folder; replace it by a copy of the file")
    if state == _NO_FILE:
        raise OnnxError(f"{where}, which is not a regular file ({path})")
    if state < 0:
        raise OnnxError(f"{where}, which does not exist (looked for {path})")
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries["length"]) if entries.get("length") else nbytes
    except ValueError:
        raise OnnxError(f"{where}, with an offset or length that is not a number") from None
    if offset < 0 or length < 0 or offset + length > state:
        raise OnnxError(f"{where} at bytes {offset} to {offset + length}, but the file has {counted(state, 'byte')}")
    if length != nbytes:
        raise OnnxError(f"{where} with {counted(length, 'byte')}, but its type and shape require {nbytes}")
    return External(proto, os.path.abspath(path), offset, length)


_OUTSIDE = -2
_LINKED = -3
_NO_FILE = -4


def _state(folder: str, path: str) -> int:
    """The size of a file in a folder, or a negative code.

    -1 means a missing file, `_NO_FILE` a folder or device, `_OUTSIDE` a link out of the folder, and `_LINKED` a file with several hard
    links.
    """
    root = _real(os.path.abspath(folder))
    if os.path.commonpath([root, os.path.realpath(path)]) != root:
        return _OUTSIDE
    if not os.path.isfile(path):
        return _NO_FILE if os.path.exists(path) else -1
    found = os.stat(path)
    return _LINKED if found.st_nlink > 1 else found.st_size


@lru_cache(16)
def _real(folder: str) -> str:
    return os.path.realpath(folder)
