"""The mapping of operators to and from ONNX: the tables of readers and writers, and the interfaces they use.

Nothing here imports onnx. A reader gets an `OnnxNode` and returns an equivalent expression. If it returns None, the node becomes an opaque
call that keeps everything. A writer gets a call and the names of its operands, and emits nodes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias
from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.dtypes import INTEGERS
from passat.ir.expr import Call, Constant, Expr, Span
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType

if TYPE_CHECKING:
    from passat.ir.op import Op


DEFAULT_OPSET: Final = 21
"""The opset of modules that were not imported from ONNX."""
ELEMENT_TYPES: Final[Mapping[int, str]] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}
"""Element types by ONNX number (`TensorProto.DataType`), as used by attributes such as `to` of Cast."""
TYPE_NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in ELEMENT_TYPES.items()}
"""ONNX numbers by element type."""


class OnnxVersionError(PassatError, ValueError):
    """A call cannot be expressed in the opset of the model."""


class OnnxNode:
    """An ONNX node whose operands have been imported already. `inputs[i]` is None if an optional input is absent.

    `version` is the opset version of the node's domain. `attrs` holds Python values: int, float, str, tuples of them, Tensor.
    """

    __slots__ = ("attrs", "inputs", "n_outputs", "op_type", "span", "version")

    def __init__(
        self,
        op_type: str,
        version: int,
        inputs: Sequence[Expr | None],
        attrs: Mapping[str, AnyValue],
        n_outputs: int = 1,
        span: Span | None = None,
    ) -> None:
        self.op_type = op_type
        self.version = version
        self.inputs = inputs
        self.attrs = attrs
        self.n_outputs = n_outputs
        self.span = span

    def has(self, index: int) -> bool:
        """Whether input `index` is present."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> Expr:
        """Input `index`, which must be present."""
        value = self.inputs[index]
        assert value is not None
        return value

    def type(self, index: int) -> TensorType:
        """The type of input `index`, which must be present. Readers are only called when every input is a tensor of known rank."""
        type_ = self.input(index).checked_type
        assert isinstance(type_, TensorType)
        return type_

    def axis(self, default: int = 0) -> int:
        """The attribute `axis` of a node with an input, from the front where the first input has such an axis: two nodes may count the same
        axis from either end, and rules and CSE compare numbers."""
        axis: int = self.attrs.get("axis", default)
        rank = self.type(0).ndim
        return axis + rank if -rank <= axis < 0 else axis

    def constant(self, index: int) -> Tensor | None:
        """The value of input `index` if it is constant, or None."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return value.data if isinstance(value, Constant) else None

    def ints(self, index: int) -> tuple[int, ...] | None:
        """The elements of input `index` if it is a constant of integers, or None."""
        tensor = self.constant(index)
        if tensor is None or tensor.dtype not in INTEGERS:
            return None
        return tuple(int(element) for element in tensor.numpy().reshape(-1))


class Emitter(Protocol):
    """The interface for writers to emit nodes. Output names are fresh; the exporter renames graph outputs."""

    opset: int
    """The opset version of the default domain."""

    def node(
        self, op_type: str, inputs: Sequence[str], attrs: Mapping[str, AnyValue] | None = None, *, outputs: int = 1, domain: str = ""
    ) -> str:
        """Adds a node with one output and returns the name of the output. The empty string is an absent optional input."""
        ...

    def nodes(
        self, op_type: str, inputs: Sequence[str], attrs: Mapping[str, AnyValue] | None = None, *, outputs: int, domain: str = ""
    ) -> list[str]:
        """Adds a node with several outputs and returns their names."""
        ...

    def constant(self, value: Tensor | Array) -> str:
        """Returns the name of an initializer that contains `value`. Equal small values share one."""
        ...


FromOnnx: TypeAlias = Callable[[OnnxNode], Expr | Sequence[Expr] | None]
ToOnnx: TypeAlias = Callable[[Call, Sequence[str], Emitter], str | Sequence[str]]
"""(call, operand names, emitter) -> result names. Tuple operands (of concatenate) are flattened."""

READERS: dict[str, FromOnnx] = {}
"""Readers by operator type; for custom domains, by `domain::type`."""

OLDEST_READ: Final = 7
"""The oldest opset whose nodes readers take. Operators of older opsets differ in meaning and stay opaque calls."""


def from_onnx(*op_types: str, domain: str = "") -> Callable[[FromOnnx], FromOnnx]:
    """Registers the reader of one or more ONNX operator types. It replaces readers registered outside Passat.

    Raises ValueError if Passat has a reader of its own. Readers of custom domains must check the number of inputs and results, which the
    onnx package does not know.
    """

    def register(reader: FromOnnx) -> FromOnnx:
        for op_type in (f"{domain}::{name}" if domain else name for name in op_types):
            if op_type in READERS and READERS[op_type].__module__.startswith("passat."):
                raise ValueError(f"the ONNX operator {op_type} already has a reader")
            READERS[op_type] = reader
        return reader

    return register


def to_onnx(op: "Op") -> Callable[[ToOnnx], ToOnnx]:
    """Registers the writer of an operator."""

    def register(writer: ToOnnx) -> ToOnnx:
        if op.to_onnx is not None:
            raise ValueError(f"{op.name} already has an ONNX writer")
        op.to_onnx = writer
        return writer

    return register


def need_opset(emit: Emitter, since: int, op: "Op") -> None:
    """Raises OnnxVersionError if the opset of the model is older than `since`."""
    if emit.opset < since:
        raise OnnxVersionError(f"{op.name} needs ONNX opset {since} or later; the model is written in opset {emit.opset}")


class ShortForm(NamedTuple):
    """A parsed short form of an ONNX mapping."""

    domain: str
    op_type: str
    since: int
    attr_names: dict[str, str]
    """Passat's attribute names by ONNX's."""


def parse_mapping(text: str) -> ShortForm:
    """Parses a short form such as `Relu`, `Transpose(perm=axes)`, `Erf@9` or `com.mycompany.FusedThing`. Raises ValueError."""
    found = re.fullmatch(r"(?:(\w+(?:\.\w+)*)\.)?(\w+)(?:@(\d+))?(?:\((\w+=\w+(?:, *\w+=\w+)*)\))?", text)
    if found is None or (found[1] and found[3]):
        raise ValueError(f"an ONNX mapping must be Name, Name@opset, domain.Name or Name(onnx_attribute=attribute, ...), not {text!r}")
    pairs = (pair.split("=") for pair in (found[4] or "").replace(" ", "").split(",") if pair)
    return ShortForm(found[1] or "", found[2], int(found[3] or 1), {pair[0]: pair[1] for pair in pairs})


def rename(op: "Op", op_type: str, attr_names: Mapping[str, str], since: int = 1) -> None:
    """Registers the reader and the writer of an operator that differs from ONNX's only in the names of the operator and its attributes.

    `since` is the opset that added the operator to ONNX.
    """

    def read(node: OnnxNode) -> Expr | None:
        if len(node.inputs) != op.arity or any(value is None for value in node.inputs):
            return None
        given = {attr_names.get(name, name): value for name, value in node.attrs.items()}
        if any(name not in op.attr_params for name in given):
            return None
        return Call(op, [node.input(i) for i in range(op.arity)], op.bind_attrs(given), span=node.span)

    theirs = {ours: name for name, ours in attr_names.items()}

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        need_opset(emit, since, op)
        return emit.node(op_type, inputs, {theirs.get(name, name): value for name, value in call.attrs.items() if value is not None})

    from_onnx(op_type)(read)
    to_onnx(op)(write)


__all__ = [
    "ELEMENT_TYPES",
    "OLDEST_READ",
    "READERS",
    "Attrs",
    "Emitter",
    "FromOnnx",
    "OnnxNode",
    "OnnxVersionError",
    "ShortForm",
    "ToOnnx",
    "from_onnx",
    "need_opset",
    "parse_mapping",
    "rename",
    "to_onnx",
]
