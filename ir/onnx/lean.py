"""Moves the weights of a model in memory to a file that ONNX Runtime maps into memory, so that variants of the model share them.

Serializing a model of 400 MB, sending it to another process and parsing it there takes three seconds. With its weights in a file it is
loaded in a quarter of one, and copied, changed and typed without them.
"""

import math
import os
import shutil
import tempfile
from typing import BinaryIO, Final

from onnx import ModelProto, TensorProto

from passat.ir.onnx.external import external_proto
from passat.ir.onnx.frame import without_initializers
from passat.ir.onnx.scope import tensors_of
from passat.ir.onnx.sizes import content_bytes
from passat.ir.onnx.tensors import EXTERNAL
from passat.ir.onnx_mapping import ELEMENT_TYPES

_LARGE: Final = 1 << 16
"""Minimum number of bytes of the weights that are moved."""
_WORTHWHILE: Final = 1 << 22
"""Minimum number of bytes of all of them for which a file is made."""
_PAGE: Final = 4096
_FILE: Final = "weights"


def lean_model(model: ModelProto) -> tuple[ModelProto, str] | None:
    """Returns a copy of a model whose large initializers are in a file, and its folder, a new one that the caller removes.

    None if these have few bytes, or if the model has external data, which is in another folder. Raises OSError.
    """
    sizes = [_moved_bytes(tensor) for tensor in model.graph.initializer]
    if sum(sizes) < _WORTHWHILE or any(tensor.data_location == EXTERNAL for tensor in tensors_of(model)):
        return None
    lean = without_initializers(model)
    folder = tempfile.mkdtemp(prefix="passat")
    try:
        with open(os.path.join(folder, _FILE), "wb") as file:
            for tensor, size in zip(model.graph.initializer, sizes, strict=True):
                lean.graph.initializer.append(_moved(tensor, file) if size else tensor)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return lean, folder


def _moved(tensor: TensorProto, file: BinaryIO) -> TensorProto:
    start = file.seek(math.ceil(file.tell() / _PAGE) * _PAGE)
    return external_proto(tensor.name, tensor.data_type, tensor.dims, _FILE, start, file.write(tensor.raw_data))


def _moved_bytes(tensor: TensorProto) -> int:
    """The size of the contents of an initializer that is moved; 0 for others."""
    if tensor.data_type not in ELEMENT_TYPES or not tensor.HasField("raw_data"):
        return 0
    size = content_bytes(tensor)
    return size if size >= _LARGE else 0
