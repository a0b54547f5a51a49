"""Summarizes a model: `passat.inspect`, and the command of that name.

ONNX Runtime fuses activations, normalizations and attention by matching the nodes that exporters write. A rewrite that is cheaper by itself
may break such a pattern and lose more than it gains. The summary therefore counts the operators after ONNX Runtime's own fusions, in the
model that it writes.
"""

import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from rich.console import Group, RenderableType
from rich.text import Text

from passat.ir.counting import amount, counted, seconds
from passat.ir.expr import Call
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.onnx.untyped import INLINES, NOT_MODELED, functions_of, has_form, is_custom, is_function_call, untyped_values
from passat.ir.traverse import post_order
from passat.ir.types import IncompleteType, TupleType
from passat.render import plain_table
from passat.report import NOT_COUNTED, Shown, histogram, node_count, warnings_of
from passat.rules.cost import Roofline, program_cost
from passat.runner import CustomOpsError, ModelSource, Runner, VerifyError, custom_operators, sentence_of
from passat.settings import check_arguments
from passat.source import ModelLike, open_source

if TYPE_CHECKING:
    from onnx import GraphProto, TensorProto, ValueInfoProto

    from passat.ir.module import IRModule


_GELU: Final = ("Gelu", "BiasGelu", "FastGelu")  # QuickGelu is another function, x * sigmoid(alpha * x): often SiLU
_NORMALIZATION: Final = (
    *("LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization", "SimplifiedLayerNormalization"),
    *("SkipSimplifiedLayerNormalization", "RMSNormalization"),
)
_ATTENTION: Final = ("Attention", "MultiHeadAttention", "GroupQueryAttention", "PackedAttention")
KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_GELU, "Gelu"),
    **dict.fromkeys(_NORMALIZATION, "LayerNormalization"),
    **dict.fromkeys(_ATTENTION, "Attention"),
}
"""Results of the same fusion count as one kind; the variant depends on neighbors such as a bias or a sum."""
_OWN: Final = "com.microsoft."


def fused_operators(model: ModelSource, folder: str | None = None) -> Counter[str]:
    """The number of operators of each kind after ONNX Runtime's fusions, including subgraphs: its own operators, and ONNX operators that
    fusions create. `folder` holds the external data. Loads the model in a child process, which ONNX Runtime may end. Raises VerifyError if
    ONNX Runtime is not installed, and its errors if it does not load the model."""
    from passat.ir.onnx.files import read_model

    with tempfile.TemporaryDirectory() as temporary:
        written = Path(temporary) / "optimized.onnx"
        # Higher levels choose processor-specific layouts, and fuse more only in float16.
        Runner(model, folder=folder, threads=1, optimize=True, apart=True, written=str(written))
        found = histogram(read_model(str(written)))
    counts: Counter[str] = Counter()
    for name, count in found.items():
        kind = name.removeprefix(_OWN)
        if kind != name or kind in KINDS:
            counts[KINDS.get(kind, kind)] += count
    return counts


UNKNOWN_OPERATOR = "neither ONNX nor Passat knows the operator: declare it in a rule file (docs/custom-operators.md)"
KERNEL = "it is a native kernel of the library beside the model"
FUNCTION = f"it is a function of the model, which rules do not match inside: {INLINES} inlines it"
NO_FORM = "Passat does not model the operator: ONNX Runtime computes it unchanged"
NARROWER = f"{NOT_MODELED}: ONNX Runtime computes the node unchanged"


@dataclass(frozen=True)
class Value:
    """An input or output of a model: its name and type, such as `float32[batch, 3, 224, 224]`."""

    name: str
    type: str


@dataclass(frozen=True)
class Opaque:
    """Opaque nodes of one operator, all for the same reason. `nodes` has their names; nodes without a name are listed by their first
    output."""

    operator: str
    reason: str
    nodes: tuple[str, ...]


@dataclass
class ModelSummary(Shown):
    """What a model consists of.

    Nodes are counted by operator, including subgraphs and local functions. `weights` is the number of initializers, `weight_elements` and
    `weight_bytes` are their sizes, including external data (for sparse ones, the stored values); `model_bytes` is the size of the model
    without external data. `unknown` is the number of nodes with a result of unknown type. `estimated_seconds` is the estimate of the
    default cost model. `fused` counts the operators after ONNX Runtime's own fusions; if it does not load the model, `not_loaded` says why.
    """

    source: str
    ir_version: int
    producer: str
    opsets: dict[str, int]
    inputs: list[Value]
    outputs: list[Value]
    nodes: dict[str, int]
    weights: int
    weight_elements: int
    weight_bytes: int
    model_bytes: int
    estimated_seconds: float
    unknown: int
    opaque: list[Opaque]
    warnings: list[str]
    fused: dict[str, int] = field(default_factory=dict)
    not_loaded: str = ""

    @property
    def node_count(self) -> int:
        """The nodes that compute something."""
        return node_count(self.nodes)

    def to_dict(self) -> dict[str, AnyValue]:
        """The summary as plain data for JSON."""
        return {"schema": "inspect-1", **asdict(self), "node_count": self.node_count}

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [self._headline(), Text(self._versions(), style="dim"), Text()]
        parts += [self._values(), Text(), self._operators()]
        if self.fused:
            fused = ", ".join(f"{count} {kind}" for kind, count in self.fused.items())
            parts += [Text(), Text(f"ONNX Runtime's own fusions leave: {fused}")]
        elif not self.not_loaded:
            parts += [Text(), Text("ONNX Runtime's own fusions find nothing in it")]
        problems = [Text(f"! {said}", style="yellow") for said in (self.not_loaded, *self.warnings) if said]
        parts += [Text(), *problems] if problems else []
        return Group(*parts, Text(), *self._opaque_lines())

    def _headline(self) -> Text:
        elements, initializers = counted(f"{self.weight_elements:,}", "element"), counted(f"{self.weights:,}", "initializer")
        weights = f"{elements} in {initializers} ({amount(self.weight_bytes)})"
        nodes = counted(f"{self.node_count:,}", "node")
        return Text.assemble((self.source, "bold"), f": {nodes}, {weights}, estimated {seconds(self.estimated_seconds)}")

    def _versions(self) -> str:
        opsets = ", ".join(f"{domain} {version}" for domain, version in self.opsets.items())
        by = f", made by {self.producer}" if self.producer else ""
        return f"IR version {self.ir_version}, opsets: {opsets}{by}"

    def _values(self) -> RenderableType:
        table = plain_table("", "name", "type")
        for what, values in (("input", self.inputs), ("output", self.outputs)):
            for value in values[:_VALUES]:
                table.add_row(what, Text(value.name), Text("unknown" if value.type == "_" else value.type))
            if len(values) > _VALUES:
                table.add_row(what, f"... and {len(values) - _VALUES} more", "")
        return table

    def _operators(self) -> RenderableType:
        table = plain_table("operator", "nodes", "")
        for name, count in sorted(self.nodes.items(), key=lambda item: (-item[1], item[0])):
            data = name in NOT_COUNTED
            table.add_row(Text(name), str(count), "holds data, not counted" if data else "", style="dim" if data else None)
        return table

    def _opaque_lines(self) -> list[Text]:
        count = sum(len(group.nodes) for group in self.opaque)
        stay = f"{counted(f'{count:,}', 'node')} {'is' if count == 1 else 'are'} opaque to rules, and unchanged:"
        lines = [stay if count else "no node is opaque to rules"]
        lines += [f"  {len(group.nodes):,} {group.operator}{_names(group)}: {group.reason}" for group in self.opaque]
        if self.unknown:
            lines.append(f"the type of {counted(f'{self.unknown:,}', 'result')} is unknown")
        return list(map(Text, lines))


_VALUES: Final = 12
"""Inputs and outputs beyond this number are counted."""
_NAMES: Final = 3
"""Names of nodes beyond this number are counted."""


def _names(group: Opaque) -> str:
    shown = [repr(name) for name in group.nodes if name][:_NAMES]
    rest = len(group.nodes) - len(shown)
    return f" ({', '.join([*shown, *([f'{rest} more'] if rest else [])])})" if shown else ""


def inspect(
    model: ModelLike, *, folder: str | os.PathLike[str] | None = None, custom_ops: Sequence[str | os.PathLike[str]] = ()
) -> ModelSummary:
    """What a model consists of: its inputs and outputs, operators and weights, which nodes are opaque to rules and why, and what ONNX
    Runtime fuses.

    `model` is a model as `optimize` takes it; `folder` is where the external data of a ModelProto lies. `custom_ops` are libraries of
    custom operators, which ONNX Runtime executes. Raises OnnxError for a model that cannot be read, CustomOpsError for a library. Without
    ONNX Runtime, `not_loaded` says so.
    """
    check_arguments(folder=folder, custom_ops=custom_ops)
    source = open_source(model, folder)
    from passat.ir.onnx.scope import open_inputs  # needs onnx
    from passat.ir.onnx.sizes import model_bytes

    proto, module = source.read(None)
    tensors = list(_initializers(proto.graph))
    summary = ModelSummary(
        source=source.name,
        ir_version=proto.ir_version,
        producer=" ".join(part for part in (proto.producer_name, proto.producer_version) if part),
        opsets={entry.domain or "ai.onnx": entry.version for entry in proto.opset_import},
        inputs=_values(open_inputs(proto.graph)),
        outputs=_values(proto.graph.output),
        nodes=histogram(proto),
        weights=len(tensors),
        weight_elements=sum(math.prod(tensor.dims) for tensor in tensors),
        weight_bytes=sum(_bytes(tensor) for tensor in tensors),
        model_bytes=model_bytes(proto),
        estimated_seconds=program_cost(module["main"], Roofline()),
        unknown=_unknown(module),
        opaque=_opaque(module),
        warnings=warnings_of(module),
    )
    try:
        with custom_operators(tuple(custom_ops)):
            summary.fused = dict(fused_operators(source.runnable, source.folder).most_common())
    except CustomOpsError:
        raise
    except VerifyError:
        summary.not_loaded = "ONNX Runtime is not installed: pip install 'passat[onnx]' installs it"
    except Exception as error:  # ONNX Runtime's errors have no common base class
        summary.not_loaded = f"ONNX Runtime does not load the model: {sentence_of(error)}"
    return summary


def _initializers(graph: "GraphProto") -> "Iterator[TensorProto]":
    """The initializers of a graph and of its subgraphs."""
    from passat.ir.onnx.scope import inner_graphs

    for each in (graph, *inner_graphs(attribute for node in graph.node for attribute in node.attribute)):
        yield from each.initializer
        yield from (sparse.values for sparse in each.sparse_initializer)


def _bytes(tensor: "TensorProto") -> int:
    from passat.ir.dtypes import itemsize
    from passat.ir.onnx_mapping import ELEMENT_TYPES

    dtype = ELEMENT_TYPES.get(tensor.data_type)
    if dtype is None or dtype == "string":
        return int(tensor.ByteSize())
    size: int = math.ceil(math.prod(tensor.dims) * itemsize(dtype))
    return size


def _values(values: "Sequence[ValueInfoProto]") -> list[Value]:
    from passat.ir.onnx.value_types import show_type, type_of

    return [Value(value.name, show_type(type_of(value.type))) for value in values]


def _unknown(module: "IRModule") -> int:
    """The number of calls with a result of unknown type."""

    def is_unknown(type_: object) -> bool:
        return isinstance(type_, IncompleteType) or (isinstance(type_, TupleType) and any(map(is_unknown, type_.fields)))

    calls = (node for function in module.functions.values() for node in post_order(function) if isinstance(node, Call))
    return sum(is_unknown(call._checked_type) for call in calls)


def _opaque(module: "IRModule") -> list[Opaque]:
    """The nodes that are opaque, by operator and reason, the most frequent first."""
    functions = functions_of(module)
    untyped = {call: value.reason for value in untyped_values(module) for call in value.calls}
    found: dict[tuple[str, str], list[str]] = {}
    for function in module.functions.values():
        for node in post_order(function):
            if isinstance(node, Call) and isinstance(node.op, OpaqueOp):
                reason = FUNCTION if is_function_call(node, functions) else untyped.get(node) or _reason(node)
                found.setdefault((f"{node.op.domain}.{node.op.op_type}".removeprefix("."), reason), []).append(_name(node))
    frequent = sorted(found.items(), key=lambda item: -len(item[1]))
    return [Opaque(operator, reason, tuple(names)) for (operator, reason), names in frequent]


def _reason(call: Call) -> str:
    if is_custom(call):
        return KERNEL if isinstance(call.op, OpaqueOp) and call.op.domain.startswith("passat.kernels.") else UNKNOWN_OPERATOR
    return NARROWER if has_form(call) else NO_FORM


def _name(call: Call) -> str:
    span = call.span
    if span is None:
        return ""
    return span.source_name or next((name for name in span.outputs if name), "")
