"""Converts tensors of ONNX files to constants and back. Tensors are decoded lazily, and unchanged ones are written back verbatim."""

import math
from functools import partial
from typing import Final

import numpy as np
import onnx.numpy_helper
from onnx import SparseTensorProto, TensorProto

from passat.ir.counting import counted
from passat.ir.dtypes import itemsize, to_numpy
from passat.ir.onnx.errors import OnnxError
from passat.ir.onnx.external import External, locate
from passat.ir.onnx.value_types import NUMBERS
from passat.ir.onnx_mapping import ELEMENT_TYPES
from passat.ir.tensor import Array, Tensor, sample_of

SPLAT_BYTES: Final = 128
"""Minimum size in bytes of splats that are written as ConstantOfShape."""
EXTERNAL: Final = 1
_SMALL: Final = 4096
"""Maximum size in bytes of tensors that are decoded at once."""
_MOST_DIMENSIONS: Final = 64
"""The limit of NumPy."""
_PACKED: Final = frozenset(name for name in NUMBERS if itemsize(name) < 1)
_FIELDS: Final = {"float32": "float_data", "int64": "int64_data", "int32": "int32_data", "float64": "double_data"}
"""The fields of non-raw values, for common types."""
_SPLAT_SINCE: Final = {
    9: frozenset(("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")),
    20: frozenset(("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")),
    21: frozenset(("int4", "uint4")),
}
"""Element types that ConstantOfShape supports, by the version that added them."""


def read_tensor(proto: TensorProto, folder: str | None) -> Tensor:
    """Returns the constant of a proto; external data is in `folder`.

    Raises OnnxError for unknown element types, for a number of elements that contradicts the shape, and for unusable external data.
    """
    number = proto.data_type
    dtype = ELEMENT_TYPES.get(number)
    if dtype is None:
        raise OnnxError(f"the tensor {proto.name!r} has the unknown element type {number}")
    shape = _shape(proto.name, proto)
    if proto.data_location == EXTERNAL:
        external = locate(proto, folder, math.ceil(math.prod(shape) * itemsize(dtype)))
        key = ("file", external.path, external.offset, external.length, dtype, shape)
        return Tensor.lazy(dtype, shape, partial(_read_external, external, dtype, shape), source=external, key=key)
    load = partial(_decode, proto, dtype, shape)
    if _is_stored(proto, dtype):
        data = proto.raw_data  # protobuf copies it each time
        _require(proto, dtype, shape, len(data) / itemsize(dtype))
        array = _as_stored(np.frombuffer(data, np.uint8), dtype).reshape(shape)
        if len(data) <= _SMALL:
            return Tensor.dense(array, source=proto)
        return Tensor.lazy(dtype, shape, load, source=proto, sample=sample_of(array))
    if dtype not in _PACKED:  # these are padded
        _require(proto, dtype, shape, _held(proto, dtype))
    return Tensor.lazy(dtype, shape, load, source=proto)


def _require(proto: TensorProto, dtype: str, shape: tuple[int, ...], held: float) -> None:
    """Raises OnnxError if the elements that a proto holds are not as many as its shape says."""
    if held != math.prod(shape):
        raise OnnxError(
            f"the tensor {proto.name!r}, declared as {dtype}{list(shape)}, cannot be read: it holds {counted(f'{held:g}', 'element')}"
        )


def _is_stored(proto: TensorProto, dtype: str) -> bool:
    """True if a proto has the bytes of an array."""
    return proto.HasField("raw_data") and dtype not in _PACKED and dtype != "string"


def _held(proto: TensorProto, dtype: str) -> float:
    """The number of elements in a proto without such bytes."""
    if dtype == "string":
        return len(proto.string_data)
    return len(getattr(proto, _FIELDS.get(dtype) or _field_of(proto.data_type))) / (2 if dtype.startswith("complex") else 1)


def _field_of(data_type: int) -> str:
    return onnx.helper.tensor_dtype_to_field(data_type)


def _decode(proto: TensorProto, dtype: str, shape: tuple[int, ...]) -> Array:
    try:
        if _is_stored(proto, dtype):
            return _as_stored(np.frombuffer(proto.raw_data, np.uint8), dtype).reshape(shape)
        if dtype == "string":
            texts = np.empty(len(proto.string_data), np.object_)
            texts[:] = [text.decode("utf-8", "surrogateescape") for text in proto.string_data]
            return texts.reshape(shape)
        values = _FIELDS.get(dtype)
        if values is not None:
            return np.array(getattr(proto, values), to_numpy(dtype)).reshape(shape)
        return onnx.numpy_helper.to_array(proto).reshape(shape)
    except (ValueError, TypeError) as error:
        raise OnnxError(f"the tensor {proto.name!r}, declared as {dtype}{list(shape)}, cannot be read: {error}") from error


def _read_external(external: External, dtype: str, shape: tuple[int, ...]) -> Array:
    if not external.length:
        return np.empty(shape, to_numpy(dtype))
    data = np.memmap(external.path, np.uint8, "r", external.offset, (external.length,))
    if dtype in _PACKED:
        return _decode(TensorProto(dims=shape, data_type=NUMBERS[dtype], raw_data=data.tobytes()), dtype, shape)
    return _as_stored(data, dtype).reshape(shape)


def _as_stored(data: Array, dtype: str) -> Array:
    """Interprets bytes as elements. Bool bytes are normalized to 0 and 1, since NumPy's operations disagree about other values."""
    return data != 0 if dtype == "bool" else data.view(to_numpy(dtype))


def read_sparse(proto: SparseTensorProto, folder: str | None) -> Tensor:
    """Returns the constant of a sparse proto, as a dense tensor once decoded."""
    name, values = proto.values.name, read_tensor(proto.values, folder)
    shape = _shape(name, proto)
    indices = read_tensor(proto.indices, folder)
    return Tensor.lazy(values.dtype, shape, partial(_decode_sparse, name, values, indices, shape), source=proto)


def _decode_sparse(name: str, values: Tensor, indices: Tensor, shape: tuple[int, ...]) -> Array:
    what = f"the sparse tensor {name!r}, declared as {values.dtype}{list(shape)}, cannot be read"
    try:
        places = indices.numpy()
        if places.ndim == 2:
            places = np.ravel_multi_index(tuple(places.T), shape)
        found = values.numpy()
        if places.ndim != 1 or found.shape != places.shape:
            raise OnnxError(f"{what}: it has {counted(found.size, 'value')}, but indices of shape {list(indices.shape)}")
        count = math.prod(shape)
        outside = places[(places < 0) | (places >= count)]
        if outside.size:
            raise OnnxError(f"{what}: the index {outside[0]} is out of range for {counted(count, 'element')}")
        dense = np.zeros(count, to_numpy(values.dtype))
        dense[places] = found
        return dense.reshape(shape)
    except MemoryError as error:
        raise OnnxError(f"{what}: not enough memory for its elements") from error
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, OnnxError):
            raise
        raise OnnxError(f"{what}: {error}") from error


def _shape(name: str, proto: TensorProto | SparseTensorProto) -> tuple[int, ...]:
    shape = tuple(proto.dims[:])
    if any(dim < 0 for dim in shape):
        raise OnnxError(f"the tensor {name!r} has a negative dimension: {list(shape)}")
    if len(shape) > _MOST_DIMENSIONS:
        raise OnnxError(f"the tensor {name!r} has {counted(len(shape), 'dimension')}; Passat reads constants of up to {_MOST_DIMENSIONS}")
    return shape


def tensor_proto(value: Tensor | TensorProto, name: str, into: TensorProto | None = None) -> TensorProto:
    """Returns the proto of a constant under a name, written `into` a part of a model if that is given: adding it later would copy its
    elements. Tensors from a proto are not decoded; external data is read."""
    if isinstance(value, TensorProto) and into is None:
        return value
    source = value if isinstance(value, TensorProto) else value.source
    if isinstance(source, TensorProto):
        proto = TensorProto() if into is None else into
        proto.CopyFrom(source)
        if source is not value:
            proto.name = name
        return proto
    assert isinstance(value, Tensor)
    return dense_proto(value, name, into)


def dense_proto(value: Tensor, name: str, into: TensorProto | None = None) -> TensorProto:
    """Returns the proto with all elements of a constant, written `into` an empty part of a model if that is given."""
    proto = TensorProto() if into is None else into
    proto.name, proto.data_type = name, NUMBERS[value.dtype]
    proto.dims.extend(value.shape)
    if value.dtype == "string":
        proto.string_data.extend(
            text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape") for text in value.numpy().reshape(-1)
        )
    else:
        proto.raw_data = raw_bytes(value)
    return proto


def raw_bytes(value: Tensor) -> bytes:
    """Encodes the elements as ONNX raw data: little-endian, narrow types packed."""
    array = np.broadcast_to(value.uniform(), value.size) if value.is_splat and value.size else value.numpy()
    if value.dtype in _PACKED:
        return onnx.numpy_helper.from_array(np.ascontiguousarray(array)).raw_data
    return array.tobytes()


def is_written_as_splat(value: Tensor, version: int) -> bool:
    """Whether a constant is written as a ConstantOfShape node, which opset 9 added."""
    return (
        value.is_splat
        and value.nbytes > SPLAT_BYTES
        and any(version >= since and value.dtype in kinds for since, kinds in _SPLAT_SINCE.items())
    )
