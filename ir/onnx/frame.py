"""What a model holds besides its computation: it travels with the module and comes out as it went in."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, fields
from typing import Any as AnyValue
from typing import Final, TypeVar

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from passat.ir.diagnostics import Diagnostic
from passat.ir.expr import Expr

M = TypeVar("M", ModelProto, GraphProto)

Origin = tuple[Expr, NodeProto, Sequence[Expr | None], Sequence[Expr]]
"""The node that a call was read from: the call, the node, the values that the node reads (None where one is absent), those that are there.

It holds while the call is the same object, as expressions never change; the call is kept so that its identity is not given to another.
"""


@dataclass(slots=True)
class Frame:
    """The model without its nodes and initializers. `IRModule.attrs["onnx"]` of a module that was read from ONNX."""

    model: ModelProto
    """Versions, imports, producer, metadata, local functions, training information."""
    graph: GraphProto
    """Name, documentation, metadata, inputs that are parameters, outputs, quantization annotations."""
    folder: str | None = None
    """Where external data lies."""
    defaults: dict[str, TensorProto] = field(default_factory=dict)
    """Parameters that have a value unless the caller gives another (IR version 4 and above), and what training may change."""
    annotated: dict[str, TensorProto] = field(default_factory=dict)
    """Initializers that quantization annotations name."""
    inner_names: set[str] = field(default_factory=set)
    """Names given to values inside graphs that are passed through whole: nothing else may have them."""
    order: dict[str, int] = field(default_factory=dict)
    """Where values were made in the source, by name: what the order of writing follows."""
    origins: dict[int, Origin] = field(default_factory=dict)
    """The nodes that calls were read from, by the identity of the call."""
    unread: Set[str] = frozenset()
    """The outputs that no node of the source reads."""
    warnings: list[Diagnostic] = field(default_factory=list)
    """Where the model contradicts itself, and can be read all the same."""

    def __getstate__(self) -> dict[str, AnyValue]:
        # A copy of the module has calls of other identities; its nodes are then written anew.
        return {each.name: {} if each.name == "origins" else getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, AnyValue]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def version(self) -> int:
        """The version of the default domain."""
        return self.opsets.get("", 1)

    @property
    def opsets(self) -> dict[str, int]:
        """Versions by domain; the default domain is the empty string."""
        return opsets_of(self.model)


def opsets_of(model: ModelProto | FunctionProto) -> dict[str, int]:
    """Versions by domain, of a model or a local function; the default domain is the empty string."""
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}


NOT_KEPT: Final = frozenset({"node", "initializer", "sparse_initializer", "value_info"})
"""The fields of a graph that stand for its computation, and are made anew."""


def copy_fields(source: M, target: M, *, except_for: Set[str]) -> None:
    """Copies the fields of a message that are there."""
    for descriptor, value in source.ListFields():
        if descriptor.name not in except_for:
            if descriptor.is_repeated:
                getattr(target, descriptor.name).extend(value)
            else:
                setattr(target, descriptor.name, value)
