"""The parts of a model that are not its computation. They are stored with the module and written back unchanged."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, fields
from typing import Any as AnyValue
from typing import Final, TypeVar

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from passat.ir.diagnostics import Diagnostic
from passat.ir.expr import Expr

M = TypeVar("M", ModelProto, GraphProto)

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
    unread: Set[str] = frozenset()
    """The outputs of the source that no node reads."""
    declared: set[str] = field(default_factory=set)
    """Values with a declared type that come from nodes of other domains, whose types other programs cannot infer."""
    settled: bool = False
    """Whether known sizes of outputs are written instead of names; true for a model with fixed sizes."""
    warnings: list[Diagnostic] = field(default_factory=list)
    """Contradictions in the model that do not prevent its import."""

    def __getstate__(self) -> dict[str, AnyValue]:
        # Calls have different ids in a copy of the module, so their nodes are created again.
        return {each.name: {} if each.name == "origins" else getattr(self, each.name) for each in fields(self)}

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
