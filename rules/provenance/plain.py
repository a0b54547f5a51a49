"""Encodes attributes, types and constants as plain data for JSON. Decoding validates its input, and executes nothing."""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.dim_text import parse_dim
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.passat_error import PassatError
from passat.ir.shape import ANY, Any, Dim, SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import IncompleteType, TensorType, TupleType, Type

Plain = AnyValue
"""A JSON value."""
SMALL: Final = 64
"""Maximum size in bytes of constants stored by value in a certificate; splats are always stored by value, others by digest."""
_MOST_REPEATED: Final = 1 << 20
"""Maximum number of elements of a uniform constant that is read back as dense."""


class CertificateError(PassatError, ValueError):
    """An invalid certificate, or one that cannot be created; the message names the step and the reason."""

    exit_code = 1


class Uncovered(Exception):
    """A part of a program that certificates do not cover; the text names it."""


def plain_value(value: AnyValue) -> Plain:
    """An attribute's value as plain data. Raises Uncovered for other kinds of objects."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if isinstance(value, (tuple, list)):
        return [plain_value(part) for part in value]
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (Any, SymDim)):
        return {"dim": _plain_dim(value)}
    if isinstance(value, Tensor):
        return {"tensor": plain_tensor(value)}
    if isinstance(value, np.generic):
        return plain_value(value.item())
    raise Uncovered(f"an attribute of kind {type(value).__name__}")


def value_of(data: Plain) -> AnyValue:
    """The inverse of `plain_value`. Raises CertificateError."""
    if data is None or type(data) in (bool, int, str):
        return data
    if isinstance(data, list):
        return tuple(value_of(part) for part in data)
    if isinstance(data, dict) and len(data) == 1:
        (kind, content), *_ = data.items()
        try:
            if kind == "float":
                return float.fromhex(content)
            if kind == "bytes":
                return base64.b64decode(content, validate=True)
            if kind == "dim":
                return dim_of(content)
            if kind == "tensor":
                return tensor_of(content, {})
        except (TypeError, ValueError) as error:
            raise CertificateError(f"{content!r} is not a valid {kind}: {error}") from None
    raise CertificateError(f"{data!r} is not an attribute value")


def plain_attrs(attrs: Mapping[str, AnyValue]) -> Plain:
    """Attributes as plain data."""
    return {name: plain_value(value) for name, value in attrs.items()}


def attrs_of(data: Plain) -> Attrs:
    """Attributes from plain data. Raises CertificateError."""
    if not isinstance(data, dict):
        raise CertificateError(f"{data!r} is not a set of attributes")
    return Attrs({name: value_of(value) for name, value in data.items()})


def _plain_dim(dim: Any | SymDim) -> str:
    """The text of a dimension. Raises Uncovered if it is read as another one: `2*audio-1` is one less than twice `audio`."""
    text = repr(dim)
    if dim_of(text) != dim:
        raise Uncovered(f"the size {text!r}, which has a name that is not a word")
    return text


def dim_of(text: str) -> Dim:
    """A dimension from its text."""
    return ANY if text == "?" else parse_dim(text)


def plain_type(type_: Type | None) -> Plain:
    """A type of tensors or tuples as plain data; None if unknown. Raises Uncovered for others."""
    if isinstance(type_, TensorType):
        return {"tensor": type_.dtype, "shape": [dim if isinstance(dim, int) else _plain_dim(dim) for dim in type_.shape]}
    if isinstance(type_, TupleType):
        return {"tuple": [plain_type(field) for field in type_.fields]}
    if type_ is None or isinstance(type_, IncompleteType):
        return None
    raise Uncovered(f"a value of type {type_!r}")


def type_of_plain(data: Plain) -> Type:
    """The inverse of `plain_type`. Raises CertificateError."""
    if data is None:
        return IncompleteType()
    if isinstance(data, dict) and isinstance(data.get("tuple"), list):
        return TupleType(type_of_plain(field) for field in data["tuple"])
    if isinstance(data, dict) and isinstance(data.get("tensor"), str) and isinstance(data.get("shape"), list):
        _numpy(data["tensor"])
        shape = data["shape"]
        if all(isinstance(dim, str) or (type(dim) is int and dim >= 0) for dim in shape):
            return TensorType([dim if isinstance(dim, int) else dim_of(dim) for dim in shape], data["tensor"])
    raise CertificateError(f"{data!r} is not a type")


def plain_tensor(tensor: Tensor) -> Plain:
    """A constant as plain data: by value if it is small or a splat, otherwise by a digest of its elements."""
    made: dict[str, AnyValue] = {"dtype": tensor.dtype, "shape": list(tensor.shape)}
    element = tensor.uniform()
    if element is not None and not tensor.is_splat and 1 < tensor.size <= _MOST_REPEATED and tensor.dtype in FLOATS:
        made["dense"] = True  # ONNX Runtime rounds some functions of four and more elements differently than of one
    if tensor.dtype == "string":
        values = [_text(value) for value in ([element] if element is not None else tensor.numpy().reshape(-1).tolist())]
        kind = "all" if element is not None else "strings"
        return {**made, kind: values[0] if kind == "all" else values}
    if element is not None:
        return {**made, "all": base64.b64encode(np.asarray(element).tobytes()).decode()}
    data = np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)
    if len(data) <= SMALL:
        return {**made, "bytes": base64.b64encode(data.tobytes()).decode()}
    return {**made, "sha256": hashlib.sha256(data.data).hexdigest()}


def tensor_of(data: Plain, known: Mapping[str, Tensor]) -> Tensor:
    """The inverse of `plain_tensor`; `known` maps digests to constants. Raises CertificateError."""
    if not isinstance(data, dict) or not isinstance(data.get("dtype"), str) or not isinstance(data.get("shape"), list):
        raise CertificateError(f"{data!r} is not a constant")
    dtype, shape = data["dtype"], tuple(data["shape"])
    if not all(type(dim) is int and dim >= 0 for dim in shape):
        raise CertificateError(f"{list(shape)} is not a shape of a constant")
    kind = _numpy(dtype)
    try:
        if "sha256" in data:
            found = known.get(digest_key(data))
            if found is None:
                raise CertificateError(
                    f"the contents of the constant {dtype}{list(shape)} {str(data['sha256'])[:12]} are not in any given model; "
                    "pass the input model with --before"
                )
            return found
        if dtype == "string":
            if "all" in data:
                return Tensor.splat(_bytes_or_text(data["all"]), shape, dtype)
            elements = np.empty(len(data["strings"]), object)
            elements[:] = [_bytes_or_text(value) for value in data["strings"]]
            return Tensor.dense(elements.reshape(shape), dtype)
        if "all" in data:
            splat = Tensor.splat(np.frombuffer(base64.b64decode(data["all"], validate=True), kind)[0], shape, dtype)
            return Tensor.dense(splat.numpy().copy(), dtype) if "dense" in data and splat.size <= _MOST_REPEATED else splat
        return Tensor.dense(np.frombuffer(base64.b64decode(data["bytes"], validate=True), kind).reshape(shape), dtype)
    except CertificateError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CertificateError(f"{data!r} is not a constant: {error}") from None


def constant_key(data: Mapping[str, AnyValue]) -> str:
    """The key of a constant by its elements: of a splat and of a dense constant with equal elements, the same."""
    return json.dumps({name: value for name, value in data.items() if name != "dense"}, sort_keys=True)


def digest_key(data: Mapping[str, AnyValue]) -> str:
    """The key of a constant that is stored by digest."""
    return f"{data['dtype']}{data['shape']}{data['sha256']}"


def _numpy(dtype: str) -> AnyValue:
    try:
        return to_numpy(dtype)
    except (KeyError, TypeError, ValueError):
        raise CertificateError(f"{dtype!r} is not an element type") from None


def _text(value: AnyValue) -> Plain:
    return {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else str(value)


def _bytes_or_text(data: Plain) -> AnyValue:
    return base64.b64decode(data["bytes"], validate=True) if isinstance(data, dict) else str(data)
