"""The parts of a model that are not its computation. They are stored with the module and written back unchanged."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, fields
from typing import Any as AnyValue
from typing import Final, TypeVar

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from passat.ir.diagnostics import Diagnostic
from passat.ir.expr import Expr, Span

M = TypeVar("M", ModelProto, GraphProto)

_UNLABELED: Final = [each.name for each in NodeProto.DESCRIPTOR.fields if each.name not in ("metadata_props", "doc_string")]
_PROVENANCE: Final = "passat."

Origin = tuple[Expr, NodeProto, Sequence[Expr | None], Sequence[Expr]]
"""The original node of a call: the call, the node, the values that the node reads (None for absent ones), and the present ones.

Valid as long as the call is the same object, because expressions are immutable. Keeps the call alive, so that its id is not reused.
"""


@dataclass(slots=True)
class Frame:
    """The model without its nodes and initializers: `IRModule.attrs["onnx"]` of a module imported from ONNX."""

    model: ModelProto
    """Versions, imports, producer, metadata, local functions, training information."""
    graph: GraphProto
    """Name, documentation, metadata, inputs that are parameters, outputs, quantization annotations."""
    folder: str | None = None
    """The folder of external data."""
    defaults: dict[str, TensorProto] = field(default_factory=dict)
    """Default values of parameters (since IR version 4), and values that training may change."""
    annotated: dict[str, TensorProto] = field(default_factory=dict)
    """Initializers that quantization annotations refer to."""
    inner_names: set[str] = field(default_factory=set)
    """Names of values inside opaque subgraphs, which are reserved."""
    order: dict[str, int] = field(default_factory=dict)
    """Positions of values in the source, by name, which determine the order of nodes."""
    origins: dict[int, Origin] = field(default_factory=dict)
    """The original nodes of calls, by id of the call."""
    labels: dict[Span | str, NodeProto] = field(default_factory=dict)
    """The nodes of the source, by their span and by their name, for the sake of their metadata and documentation."""
    unread: Set[str] = frozenset()
    """The outputs of the source that no node reads."""
    declared: set[str] = field(default_factory=set)
    """Values with a declared type that come from nodes of other domains, whose types other programs cannot infer."""
    settled: bool = False
    """Whether known sizes of outputs are written instead of names; true for a model with fixed sizes."""
    warnings: list[Diagnostic] = field(default_factory=list)
    """Contradictions in the model that do not prevent its import."""

    def remember(self, node: NodeProto, span: Span) -> None:
        """Keeps a node of the source for its label. Nodes of one name with different labels, as branches may have, have none by name."""
        labels = self.labels
        for key in (span, span.source_name) if span.source_name else (span,):
            known = labels.setdefault(key, node)
            if known is not node and label_of(known) != label_of(node):
                labels[key] = NodeProto()

    def label(self, node: NodeProto, span: Span | None) -> None:
        """Gives a node the metadata and documentation of the node of the source that it replaces, from which it takes its span."""
        if span is not None:
            source = self.labels.get(span) or self.labels.get(span.source_name)
            if source is not None:
                node.MergeFromString(label_of(source))

    def __getstate__(self) -> dict[str, AnyValue]:
        # Calls have different ids in a copy of the module, so their nodes are created again.
        state = {each.name: {} if each.name == "origins" else getattr(self, each.name) for each in fields(self)}
        labels = {id(node): NodeProto.FromString(label_of(node)) for node in self.labels.values()}
        return {**state, "labels": {key: labels[id(node)] for key, node in self.labels.items() if labels[id(node)].ByteSize()}}

    def __setstate__(self, state: dict[str, AnyValue]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def version(self) -> int:
        """The opset version of the default domain."""
        return self.opsets.get("", 1)

    @property
    def opsets(self) -> dict[str, int]:
        """Opset versions by domain; the default domain is the empty string."""
        return opsets_of(self.model)


def label_of(node: NodeProto) -> bytes:
    """The metadata and documentation of a node, except provenance, which is only true of the node itself: an encoded node without other
    fields, to be merged into the nodes that replace it."""
    if not node.metadata_props and not node.doc_string:
        return b""
    label = NodeProto()
    label.CopyFrom(node)  # copying single entries takes ten times as long
    for name in _UNLABELED:
        label.ClearField(name)
    for place in reversed([place for place, entry in enumerate(node.metadata_props) if entry.key.startswith(_PROVENANCE)]):
        del label.metadata_props[place]
    data: bytes = label.SerializeToString()
    return data


def opsets_of(model: ModelProto | FunctionProto) -> dict[str, int]:
    """Opset versions by domain, of a model or a local function; the default domain is the empty string."""
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}


NOT_KEPT: Final = frozenset({"node", "initializer", "sparse_initializer", "value_info"})
"""The fields of a graph that contain its computation and are rebuilt."""


def copy_fields(source: M, target: M, *, except_for: Set[str]) -> None:
    """Copies the fields that are present in a message."""
    for descriptor, value in source.ListFields():
        if descriptor.name not in except_for:
            if descriptor.is_repeated:
                getattr(target, descriptor.name).extend(value)
            else:
                setattr(target, descriptor.name, value)


def without_initializers(model: ModelProto) -> ModelProto:
    """A copy of a model without the initializers of its graph, which may be large."""
    made = ModelProto()
    copy_fields(model, made, except_for={"graph"})
    copy_fields(model.graph, made.graph, except_for={"initializer"})
    return made
