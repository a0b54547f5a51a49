"""Converts types between ONNX and Passat: protos in both directions, and the text form that opaque calls carry."""

import json
import re
from typing import Final

from onnx import TensorProto, TypeProto, ValueInfoProto

from passat.ir.dim_text import declared_dim
from passat.ir.onnx.errors import require_text
from passat.ir.onnx_mapping import ELEMENT_TYPES
from passat.ir.shape import ANY, Dim, Shape, SymDim
from passat.ir.types import FuncType, GlobalTypeVar, IncompleteType, TensorType, TupleType, Type, TypeCall

UNKNOWN: Final = IncompleteType()
SEQUENCE: Final = GlobalTypeVar("onnx.Sequence")
OPTIONAL: Final = GlobalTypeVar("onnx.Optional")
MAP: Final = GlobalTypeVar("onnx.Map")
SPARSE: Final = GlobalTypeVar("onnx.SparseTensor")

NUMBERS: Final = {name: number for number, name in ELEMENT_TYPES.items()}

_dims: dict[str, Dim] = {}


def runtime_name(type_: TypeProto) -> str:
    """The name of a type in ONNX Runtime: `tensor(float)`, `seq(tensor(int64))`."""
    match type_.WhichOneof("value"):
        case "tensor_type":
            return f"tensor({TensorProto.DataType.Name(type_.tensor_type.elem_type).lower()})"
        case "sequence_type":
            return f"seq({runtime_name(type_.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({runtime_name(type_.optional_type.elem_type)})"
        case kind:
            return str(kind)


def dim_of(text: str) -> Dim:
    """Converts a `dim_param` to a dimension.

    An empty one is unknown, and so is `?`, which exporters write for every unknown size: two of these need not be equal. Raises OnnxError
    for text that is not UTF-8.
    """
    found = _dims.get(text)
    if found is None:
        require_text(text)
        if len(_dims) > 10_000:
            _dims.clear()
        found = _dims[text] = ANY if text in ("", "?") else declared_dim(text)
    return found


def text_of(dim: SymDim) -> str:
    """The `dim_param` of a dimension; empty, so unknown, if it would be read as another dimension. Twice a size named `floor(n/2) + 1` is
    not that named `2*floor(n/2) + 1`.

    >>> [text_of(2 * SymDim.named(name)) for name in ("seq-len", "audio-1", "floor(n/2) + 1")]
    ['2*seq-len', '', '']
    """
    text = repr(dim)
    return text if dim_of(text) == dim else ""


def type_of(proto: TypeProto) -> Type:
    """Converts an ONNX type; tensors of unknown rank or unsupported element type become the unknown type."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return _tensor_type(proto.tensor_type)
    if kind == "sequence_type":
        return TypeCall(SEQUENCE, [type_of(proto.sequence_type.elem_type)])
    if kind == "optional_type":
        return TypeCall(OPTIONAL, [type_of(proto.optional_type.elem_type)])
    if kind == "map_type" and proto.map_type.key_type in ELEMENT_TYPES:
        return TypeCall(MAP, [TensorType((), ELEMENT_TYPES[proto.map_type.key_type]), type_of(proto.map_type.value_type)])
    if kind == "sparse_tensor_type":
        return TypeCall(SPARSE, [_tensor_type(proto.sparse_tensor_type)])
    return UNKNOWN


def _tensor_type(proto: "TypeProto.Tensor | TypeProto.SparseTensor") -> Type:
    dtype = ELEMENT_TYPES.get(proto.elem_type)
    if dtype is None or not proto.HasField("shape"):
        return UNKNOWN
    shape: list[Dim] = []
    for dim in proto.shape.dim:
        if dim.HasField("dim_value"):
            shape.append(dim.dim_value if dim.dim_value >= 0 else ANY)
        else:
            shape.append(dim_of(dim.dim_param))
    return TensorType(tuple(shape), dtype)


def negative_sizes(proto: TypeProto) -> list[int]:
    """The negative dimensions of a declared tensor. ONNX Runtime treats them as unknown."""
    return [dim.dim_value for dim in proto.tensor_type.shape.dim if dim.dim_value < 0]


def type_proto(type_: Type) -> TypeProto:
    """Converts a type to ONNX; the unknown type becomes an empty proto."""
    proto = TypeProto()
    if isinstance(type_, TensorType):
        _set_tensor(proto.tensor_type, type_)
    elif isinstance(type_, TypeCall):
        if type_.func == SEQUENCE:
            proto.sequence_type.elem_type.CopyFrom(type_proto(type_.args[0]))
        elif type_.func == OPTIONAL:
            proto.optional_type.elem_type.CopyFrom(type_proto(type_.args[0]))
        elif type_.func == MAP and isinstance(type_.args[0], TensorType):
            proto.map_type.key_type = NUMBERS[type_.args[0].dtype]
            proto.map_type.value_type.CopyFrom(type_proto(type_.args[1]))
        elif type_.func == SPARSE and isinstance(type_.args[0], TensorType):
            _set_tensor(proto.sparse_tensor_type, type_.args[0])
    return proto


def _set_tensor(proto: "TypeProto.Tensor | TypeProto.SparseTensor", type_: TensorType) -> None:
    proto.elem_type = NUMBERS[type_.dtype]
    proto.shape.SetInParent()
    for dim in type_.shape:
        entry = proto.shape.dim.add()
        if isinstance(dim, int):
            entry.dim_value = dim
        elif isinstance(dim, SymDim) and (text := text_of(dim)):
            entry.dim_param = text


def value_info(name: str, type_: Type) -> ValueInfoProto:
    """The declaration of a value. It has no type if the type, or the type of elements, is unknown: ONNX Runtime does not load such
    sequences."""
    proto = ValueInfoProto(name=name)
    inner = type_
    while isinstance(inner, TypeCall):
        inner = inner.args[-1]
    if not isinstance(inner, IncompleteType):
        proto.type.CopyFrom(type_proto(type_))
    return proto


def show_type(type_: Type) -> str:
    """Prints a type: `float32[2, n]`, `seq(int64[?])`, `opt(...)`, `map(int64[], ...)`, `sparse(...)`; `_` if unknown. Ambiguous names
    of dimensions are quoted; a dimension that would be read as another one is `?`.

    >>> show_type(TensorType((2, dim_of("n"), dim_of("max(1, n)")), "int8"))
    'int8[2, n, "max(1, n)"]'
    """
    if isinstance(type_, TensorType):
        return f"{type_.dtype}[{', '.join(map(_show_dim, type_.shape))}]"
    if isinstance(type_, TypeCall) and type_.func in _WORDS:
        return f"{_WORDS[type_.func]}({'; '.join(map(show_type, type_.args))})"
    return "_"


def _show_dim(dim: Dim) -> str:
    text = (text_of(dim) or "?") if isinstance(dim, SymDim) else repr(dim)
    return json.dumps(text, ensure_ascii=False) if "," in text or '"' in text else text


_WORDS: Final[dict[Type, str]] = {SEQUENCE: "seq", OPTIONAL: "opt", MAP: "map", SPARSE: "sparse"}
_NAMED: Final = {word: func for func, word in _WORDS.items()}


def parse_type(text: str) -> Type:
    """Parses the output of `show_type`. Raises ValueError.

    >>> parse_type("seq(float32[2, ?])")
    onnx.Sequence[Tensor[(2, ?), float32]]
    """
    found = re.fullmatch(r"(\w+)(?:\[(.*)\]|\((.*)\))", text, re.DOTALL)
    if text == "_":
        return UNKNOWN
    if found is None:
        raise ValueError(f"{text!r} is not a type")
    word, dims, inner = found.groups()
    if dims is not None:
        found_dims = re.findall(r'"(?:[^"\\]|\\.)*"|[^", ][^",]*', dims)
        shape: Shape = tuple(dim_of(json.loads(dim) if dim.startswith('"') else dim) for dim in found_dims)
        return TensorType(shape, word)
    if word not in _NAMED:
        raise ValueError(f"{text!r} is not a type")
    parts = inner.split("; ", 1) if word == "map" else [inner]
    return TypeCall(_NAMED[word], map(parse_type, parts))


def result_types(type_: Type) -> list[Type]:
    """The types of the results of a function; empty for other types."""
    if not isinstance(type_, FuncType):
        return []
    return list(type_.ret_type.fields) if isinstance(type_.ret_type, TupleType) else [type_.ret_type]
