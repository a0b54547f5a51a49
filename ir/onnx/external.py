"""Tensor data in files beside the model: finding it without leaving the model's folder."""

import os
from functools import lru_cache
from typing import NamedTuple

from onnx import TensorProto

from passat.ir.onnx.errors import OnnxError


class External(NamedTuple):
    """A range of bytes of a file, and the proto that refers to it."""

    proto: TensorProto
    path: str
    offset: int
    length: int


def locate(proto: TensorProto, folder: str | None, nbytes: int) -> External:
    """Where the `nbytes` of a tensor with external data lie.

    Raises OnnxError where the folder is not known, where the path is absolute or leads outside the folder (symbolic links
    included) or may do so (a file of several hard links, as in onnx from 1.21 on), where the file is missing, or where the range does not
    lie within it or is not as long as the tensor needs.
    """
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    where = f"the tensor {proto.name!r} lies in the external file {location!r}"
    if not location or "\0" in location:
        raise OnnxError(f"the tensor {proto.name!r} is declared external, but names no file")
    if folder is None:
        raise OnnxError(f"{where}, and the model's folder is not known; give the path of the model, or folder=")
    if os.path.isabs(location) or ".." in location.replace("\\", "/").split("/") or location[1:2] == ":":
        raise OnnxError(f"{where}, which leads outside the model's folder; this is refused")
    path = os.path.join(folder, location)
    state = _state(folder, path)
    if state == _OUTSIDE:
        raise OnnxError(f"{where}, a link that leads outside the model's folder; this is refused; a copy of the file does")
    if state == _LINKED:
        raise OnnxError(
            f"{where}, which has other hard links, perhaps outside the model's folder; this is refused; a copy of the file does"
        )
    if state == _NO_FILE:
        raise OnnxError(f"{where}, which is no regular file ({path})")
    if state < 0:
        raise OnnxError(f"{where}, which is not there (looked for {path})")
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries["length"]) if entries.get("length") else nbytes
    except ValueError:
        raise OnnxError(f"{where}, at an offset or of a length that is no number") from None
    if offset < 0 or length < 0 or offset + length > state:
        raise OnnxError(f"{where} at bytes {offset} to {offset + length}, but the file has {state} bytes")
    if length != nbytes:
        raise OnnxError(f"{where} with {length} bytes, but its type and shape need {nbytes}")
    return External(proto, os.path.abspath(path), offset, length)


_OUTSIDE = -2
_LINKED = -3
_NO_FILE = -4


def _state(folder: str, path: str) -> int:
    """The size of a file inside a folder; -1 where there is none, `_NO_FILE` where it is a folder or a device, `_OUTSIDE` where it is a
    link to elsewhere, `_LINKED` where that cannot be told, since it has several names."""
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
