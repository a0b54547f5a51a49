"""Collects the nodes that writers emit: first as records, so that results can get the names the graph needs, then as protos."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue

from onnx import NodeProto

from passat.ir.naming import Names
from passat.ir.onnx.attributes import is_readable, write_attributes
from passat.ir.onnx.inference import takes
from passat.ir.onnx_mapping import OLDEST_READ, OnnxVersionError
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType, Type


class NodeEmitter:
    """An `Emitter` (see `passat.ir.onnx_mapping`) that collects the nodes of one call at a time. `read` collects the names they read."""

    def __init__(self, opset: int, constant: Callable[[Tensor], str], read: set[str]) -> None:
        self.opset = opset
        self._constant = constant
        self._read = read
        self._records: list[tuple[str, Sequence[str], list[str], Mapping[str, AnyValue] | None, str]] = []
        self._count = 0

    def node(
        self, op_type: str, inputs: Sequence[str], attrs: Mapping[str, AnyValue] | None = None, *, outputs: int = 1, domain: str = ""
    ) -> str:
        """Adds a node and returns the name of its first output."""
        return self.nodes(op_type, inputs, attrs, outputs=outputs, domain=domain)[0]

    def nodes(
        self, op_type: str, inputs: Sequence[str], attrs: Mapping[str, AnyValue] | None = None, *, outputs: int, domain: str = ""
    ) -> list[str]:
        """Adds a node with several outputs and returns their names. Raises OnnxVersionError for an operator that changed until the oldest
        opset that writers know, in models of older opsets, in which some nodes are read nevertheless."""
        if not domain and not is_readable(op_type, self.opset):
            raise OnnxVersionError(f"{op_type} needs ONNX opset {OLDEST_READ} or later; the model is written in opset {self.opset}")
        names = [f"\0{self._count + i}" for i in range(outputs)]
        self._count += outputs
        self._records.append((op_type, inputs, names, attrs, domain))
        return names

    def constant(self, value: Tensor | Array) -> str:
        """Returns the name of an initializer that holds `value`. Equal small values share one."""
        return self._constant(value if isinstance(value, Tensor) else Tensor.dense(value))

    @property
    def is_transposed(self) -> bool:
        """True if the nodes added since the last call of `finish` are several, and end with a Transpose."""
        return len(self._records) > 1 and self._records[-1][0] == "Transpose"

    def mistyped(self, dtypes: Mapping[str, str]) -> str:
        """Why ONNX does not permit a node added since the last call of `finish`: its operator takes no operands of some element type in the
        opset, as many took only floating-point numbers at first; empty if it does. `dtypes` has the element types of some values."""
        for op_type, inputs, _, _, domain in self._records:
            for place, name in enumerate(inputs):
                if name in dtypes and not takes(op_type, self.opset, domain, place, dtypes[name]):
                    return f"{op_type} takes no {dtypes[name]}"
        return ""

    def finish(
        self, results: Sequence[str], wanted: Sequence[str], node_name: str, names: Names, titles: Names, versions: Mapping[str, int]
    ) -> tuple[list[NodeProto], list[str]]:
        """Returns the nodes added since the last call, and the names of the results: the wanted names for results of these nodes."""
        records = self._records
        if len(records) == 1 and len(results) == 1 and records[0][2] == results:
            op_type, inputs, _, attrs, domain = records.pop()
            self._read.update(inputs)
            return [_proto(op_type, domain, node_name, inputs=inputs, outputs=wanted, attrs=attrs, versions=versions)], list(wanted)
        given: dict[str, str] = {}
        for result, name in zip(results, wanted, strict=True):
            if result[:1] == "\0":
                given.setdefault(result, name)
        protos: list[NodeProto] = []
        last = len(records) - 1
        for i, (op_type, inputs, outputs, attrs, domain) in enumerate(records):
            for name in outputs:
                if name not in given:
                    given[name] = names.take(f"{wanted[0]}/{op_type}")
            title = node_name if i == last or not node_name else titles.take(f"{node_name}/{op_type}_{i}")
            self._read.update(inputs)
            reads = [given[name] if name[:1] == "\0" else name for name in inputs]
            made = [given[name] for name in outputs]
            protos.append(_proto(op_type, domain, title, inputs=reads, outputs=made, attrs=attrs, versions=versions))
        records.clear()
        return protos, [given.get(result, result) for result in results]


def unusual_dtypes(types: Sequence[Type | None], named: Sequence[Sequence[str]]) -> dict[str, str]:
    """The element types of operands by name, given their types and names (several for a tuple), except float32, which every operator on
    floating-point numbers takes."""
    found: dict[str, str] = {}
    for type_, names in zip(types, named, strict=True):
        if type(type_) is TensorType:
            if type_.dtype != "float32":
                found[names[0]] = type_.dtype
        elif type(type_) is TupleType:
            found |= unusual_dtypes(type_.fields, [[name] for name in names]) if len(names) == len(type_.fields) else {}
    return found


def _proto(
    op_type: str,
    domain: str,
    name: str,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attrs: Mapping[str, AnyValue] | None,
    versions: Mapping[str, int],
) -> NodeProto:
    proto = NodeProto()
    proto.op_type = op_type
    if name:
        proto.name = name
    if domain:
        proto.domain = domain
    proto.input.extend(inputs)
    proto.output.extend(outputs)
    if attrs:
        proto.attribute.extend(write_attributes(op_type, domain, versions.get(domain, 1), attrs))
    return proto
