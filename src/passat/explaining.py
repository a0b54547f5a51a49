"""Provenance in ONNX models: writes it to node metadata, and reads it back.

`passat.from` lists the input nodes that a node comes from, `passat.rules` the steps that led to it, both as JSON lists of strings. Before
format version 10, nodes have no metadata; then `passat.provenance` in the model's metadata lists both for each node, by the name of its
first output. `passat.vanished` in the model's metadata lists the nodes of the input that are gone, as objects with the fields of `Gone`.
"""

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.certificates import Certificate
from passat.ir.collector import collector_paused
from passat.ir.expr import Call, Constant, Expr, Function
from passat.ir.long_words import with_short_words
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.ir.onnx.opaque import operator_name
from passat.ir.passat_error import PassatError
from passat.ir.similar_names import did_you_mean
from passat.ir.traverse import post_order
from passat.report import PROVENANCE as PROVENANCE_REMARK
from passat.report import Report
from passat.rules.engine.trace import Trace
from passat.rules.provenance.node_traces import SELECTED, Event, NodeTrace, NodeTraces, merged
from passat.rules.provenance.pass_trace import PassTrace
from passat.rules.provenance.vanished import UNUSED, Vanished, described, follow, named_calls
from passat.rules.provenance.verdict import gaps_of
from passat.rules.provenance.writer import Writer
from passat.written_as_read import SameNodes, name_of_node, written_as_read

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from passat.page.origins import Record


class ExplainError(PassatError, ValueError):
    """Something that cannot be explained: an unknown node, or a model without provenance."""

    exit_code = 1


@dataclass(frozen=True)
class Explained:
    """A node of the result: its name, operator and outputs; the input nodes that it comes from, and the steps from there, each as "pass:
    rule at node". A node without steps is unchanged from the input; if it had another name there, that is its source."""

    name: str
    op: str
    outputs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name (or first output) with the operator."""
        return f"{self.name or next(iter(self.outputs), '')} ({self.op})"

    def __str__(self) -> str:
        if not self.steps:
            named = f", where it is {self.sources[0]}" if self.sources else ""
            return with_short_words(f"{self.title} is unchanged from the input{named}")
        lines = [self.title, *(f"  from {source}" for source in self.sources)]
        return with_short_words("\n".join([*lines, *(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))]))


@dataclass(frozen=True)
class Gone:
    """A node of the input that is not in the result: its name, operator and outputs; what it became, such as "equal to x"; and the steps
    that led there, each as "pass: rule at node"."""

    name: str
    op: str
    outputs: tuple[str, ...] = ()
    became: str = ""
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.name or next(iter(self.outputs), '')} ({self.op}) vanished{self.became and f': {self.became}'}"]
        return with_short_words("\n".join([*lines, *(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))]))


VANISHED_SHOWN: Final = 12
"""Maximum number of vanished nodes in the text of a whole model; the rest is counted."""


@dataclass(frozen=True)
class Explanation:
    """All nodes of a result and the nodes of the input that vanished, or the requested ones. As text, a vanished node from which a node of
    the result comes is listed there only, unless it was requested, and only the first of the other vanished nodes are listed."""

    nodes: tuple[Explained, ...]
    vanished: tuple[Gone, ...] = ()
    asked: bool = False

    @property
    def changed(self) -> tuple[Explained, ...]:
        """The nodes that are not from the input."""
        return tuple(node for node in self.nodes if node.steps)

    def of(self, name: str) -> "Explanation":
        """The nodes with a name: their own, that of an output, or that of an input node that they come from, with what became of
        that node. Raises ExplainError if there are none."""
        gone = [one for one in self.vanished if name and name in (one.name, *one.outputs)]
        others: Sequence[Gone]
        for found, others in (
            ([node for node in self.nodes if node.name == name], ()),
            ([node for node in self.nodes if name in node.outputs], ()),
            (made := [node for node in self.nodes if name in node.sources], [one for one in gone if one.became != UNUSED or not made]),
        ):
            if (found and name) or others:
                return Explanation(tuple(found), tuple(others), asked=True)
        names = {text for node in self.nodes for text in (node.name, *node.outputs, *node.sources) if text}
        names.update(text for gone in self.vanished for text in (gone.name, *gone.outputs) if text)
        hint = did_you_mean(name, sorted(names))
        raise ExplainError(f"no node of the result is called {name!r}, produces it, or comes from it{hint}")

    def to_dict(self) -> dict[str, AnyValue]:
        """The explanation as plain data for JSON."""
        return {
            "schema": "explanation-1",
            "nodes": [asdict(node) for node in self.nodes],
            "vanished": [asdict(gone) for gone in self.vanished],
        }

    def to_json(self) -> str:
        """The explanation as a JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        changed = self.changed
        sources = {source for node in self.nodes for source in node.sources}
        gone = [one for one in self.vanished if self.asked or sources.isdisjoint((one.name, *one.outputs))]
        if (self.asked and gone) or (len(self.nodes) == 1 and not gone):
            return "\n\n".join(map(str, (*gone, *self.nodes)))
        lost = f"; {len(gone)} {'other node' if len(gone) == 1 else 'other nodes'} of the input vanished" if gone else ""
        head = f"{len(changed)} of {len(self.nodes)} nodes were changed{lost}"
        more = len(gone) - VANISHED_SHOWN
        rest = [f"... and {more} more nodes of the input vanished; `--node NAME` explains one, and `--json` lists all"] if more > 0 else []
        return "\n\n".join([head, *map(str, changed), *map(str, gone[:VANISHED_SHOWN]), *rest])


def as_texts(data: AnyValue) -> tuple[str, ...]:
    """A list of strings from JSON metadata; empty for anything else."""
    try:
        found = json.loads(data)
    except (TypeError, ValueError, RecursionError):
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(text, str) for text in found) else ()


def joined(sources: Sequence[str], steps: Sequence[str], earlier: "dict[str, Explained]") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources and steps, extended by the earlier provenance of the sources."""
    names: dict[str, None] = {}
    taken: dict[str, None] = {}
    for source in sources:
        before = earlier.get(source)
        names.update(dict.fromkeys([source] if before is None else before.sources or (source,)))
        taken.update(dict.fromkeys([] if before is None else before.steps))
    taken.update(dict.fromkeys(steps))
    return tuple(names), tuple(taken)


FROM: Final = "passat.from"
RULES: Final = "passat.rules"
PROVENANCE: Final = "passat.provenance"
WRITTEN: Final = "(written)"
"""The pseudo pass for nodes created by the writer."""
VANISHED: Final = "passat.vanished"
FOLDED: Final = "folded to a constant"
READ: Final = "it was computed from constants, or left out, when the model was read"
NODE_METADATA: Final = 10
"""The first format version with node metadata."""


def annotate(
    result: "ModelProto",
    before: "ModelProto",
    after: IRModule,
    written: Mapping[int, Sequence[str]],
    node_traces: NodeTraces,
    same: Sequence[SameNodes] = (),
) -> str:
    """Writes provenance into a model, extending that of the input. Returns a remark if nodes cannot have metadata, otherwise "".

    `written` maps each call of `after` to its values and results; `node_traces` has the traces of calls. The calls of `same` are written
    as they were read.
    """
    unchanged = {id(call) for call, _, _ in same}
    renamed = {name_of_node(new): name_of_node(old) for _, sources, nodes in same for old, new in zip(sources, nodes, strict=True)}
    calls: dict[str, list[AnyValue]] = {}
    results: dict[str, tuple[Expr, int]] = {}
    for function in after.functions.values():
        for expr in post_order(function):
            if isinstance(expr, Call):
                for name in written.get(id(expr), ()):
                    calls.setdefault(name, []).append(expr)
            elif isinstance(expr, Function) and not isinstance(expr.body, Call):
                results.update((name, (expr.body, place)) for place, name in enumerate(written.get(id(expr.body), ())))
    earlier = {node.name or node.outputs[0]: node for node in nodes_of(before) if node.outputs and (node.name or node.outputs[0])}
    kept = set(map(_what, _protos(before)))
    own = result.ir_version < NODE_METADATA
    table: dict[str, dict[str, Sequence[str]]] = {}
    for proto in _protos(result):
        first = next((name for name in proto.output if name), "")
        name = name_of_node(proto)
        made = [call for call in calls.get(first, ()) if node_traces.changed(call) and id(call) not in unchanged]
        # A node without a call gives a result its name, unless the input has it too.
        naming = first in results and first not in calls and _what(proto) not in kept
        given = node_traces.of_result(*results[first]) if naming else NodeTrace()
        if naming and proto.input and not given.events:
            given = merged([given], [((0, 0), Event(WRITTEN, "another node computes its value", ()))])
        if made or given.events:
            found = merged([given, *(node_traces.of(call) for call in made)])
            sources, steps = joined(found.sources, [str(step) for step in found.events], earlier)
        else:
            known = earlier.get(renamed.get(name, name))
            sources, steps = (known.sources, known.steps) if known is not None else ((), ())
        if not steps:
            sources = (old,) if (old := renamed.get(name, name)) != name else ()
        _set(proto, FROM, None if own or not sources else json.dumps(sources))
        _set(proto, RULES, None if own or not steps else json.dumps(steps))
        if own and (sources or steps) and first:
            table[first] = {"from": list(sources), "rules": list(steps)}
    _set(result, PROVENANCE, json.dumps(table) if own else None)
    if own and table:
        return (
            f"nodes have no metadata in version {result.ir_version} of the ONNX format (only from {NODE_METADATA} on), "
            "so their provenance is in the metadata of the model"
        )
    return ""


def explain_model(model: "ModelProto") -> Explanation:
    """The provenance that a model contains. Raises ExplainError for a model without."""
    explanation = explanation_of(model)
    kept = any(entry.key == PROVENANCE for entry in model.metadata_props)
    if not kept and not explanation.vanished and not explanation.changed:
        raise ExplainError("the model contains no provenance; `passat optimize --explain` writes it into models that it changes")
    return explanation


def explanation_of(model: "ModelProto") -> Explanation:
    """The provenance that a model contains, if any."""
    return Explanation(tuple(nodes_of(model)), vanished_of(model))


def vanished_of(model: "ModelProto") -> tuple[Gone, ...]:
    """The vanished nodes that a model lists; invalid ones are left out."""
    rows, found = _stated(model, VANISHED), list[Gone]()
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and all(isinstance(row.get(key), str) for key in ("name", "op", "became")):
            texts = [as_texts(json.dumps(row.get(key))) for key in ("outputs", "steps")]
            found.append(Gone(row["name"], row["op"], texts[0], row["became"], texts[1]))
    return tuple(found)


def list_vanished(
    result: "ModelProto", before: "ModelProto", module: IRModule, tracing: "Tracing", node_traces: NodeTraces, renamed: Collection[str] = ()
) -> None:
    """Writes into a model what became of the nodes of the input that are not in it, except for those that are under another name."""
    there = {text for node in nodes_of(result) for text in (node.name, *(() if node.name else node.outputs)) if text}.union(renamed)
    calls = named_calls(module)
    gone: dict[str, NodeProto] = {}
    for proto in _protos(before):
        key = proto.name or next((name for name in proto.output if name), "")
        if key and key not in there and proto.op_type != "Constant":
            gone.setdefault(key, proto)
    followed = follow({key: calls[key] for key in gone if key in calls}, tracing.pass_trace.events, node_traces.runs)
    rows = {one.name or one.outputs[0]: one for one in vanished_of(before) if one.name or one.outputs}
    for key, proto in gone.items():
        steps: tuple[str, ...] = ()
        if key in followed:
            became = followed[key]
            said = _said(became, described(became.equal, tracing.written))
            steps = tuple(map(str, became.events))
        else:
            said = READ
        rows[key] = Gone(proto.name, operator_name(proto), tuple(name for name in proto.output if name), said, steps)
    _set(result, VANISHED, json.dumps([asdict(row) for row in rows.values()]) if rows else None)


def _said(became: Vanished, equal: str) -> str:
    """What a vanished node became; `equal` is its equal in the result."""
    said = UNUSED if became.unused else f"equal to {equal}" if equal else ""
    if became.selected and not became.unused:
        said = f"{SELECTED}{equal and f', as {equal}'}"
    if not became.folded:
        return said
    if isinstance(became.equal, Constant):
        return FOLDED
    return f"{FOLDED}, {said if equal else 'which nothing reads'}"


def nodes_of(model: "ModelProto") -> Iterator[Explained]:
    """The nodes of a model and its subgraphs, with their provenance metadata."""
    table = _stated(model, PROVENANCE)
    for proto in _protos(model):
        entries = {entry.key: entry.value for entry in proto.metadata_props} if model.ir_version >= NODE_METADATA else {}
        outputs = tuple(name for name in proto.output if name)
        said = table.get(outputs[0]) if outputs and isinstance(table, dict) else None
        if RULES not in entries and isinstance(said, dict):
            entries = {FROM: json.dumps(said.get("from")), RULES: json.dumps(said.get("rules"))}
        yield Explained(proto.name, operator_name(proto), outputs, as_texts(entries.get(FROM)), as_texts(entries.get(RULES)))


def _stated(model: "ModelProto", key: str) -> AnyValue:
    """The JSON of an entry of a model's metadata; None if there is none, or an invalid one."""
    with contextlib.suppress(ValueError, RecursionError):
        return next((json.loads(entry.value) for entry in model.metadata_props if entry.key == key), None)
    return None


def _protos(model: "ModelProto") -> "Iterator[NodeProto]":
    """The nodes of the graph, each before those of its subgraphs."""
    from passat.ir.onnx.scope import inner_nodes  # needs onnx

    for node in model.graph.node:
        yield node
        yield from inner_nodes(node.attribute)


def _what(proto: "NodeProto") -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """What identifies a node: operator, inputs, outputs."""
    return proto.domain, proto.op_type, tuple(proto.input), tuple(proto.output)


def _set(proto: "NodeProto | ModelProto", key: str, value: str | None) -> None:
    """Sets an entry of metadata, or removes it."""
    entries = proto.metadata_props
    for place in range(len(entries) - 1, -1, -1):
        if entries[place].key == key:
            del entries[place]
    if value is not None:
        entries.add(key=key, value=value)


class Tracing:
    """Records what rules do, which passes run, and the values as which each call of the result is written.
    The runs of the pipeline are those of the trace from `begin` to `end`; later ones made candidates."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.pass_trace = PassTrace(trace)
        self.begin = self.end = len(trace.runs)
        self.written: dict[int, list[str]] = {}
        self.explanation: Explanation | None = None
        self.certificate: Certificate | None = None
        self.record: Record | None = None

    def annotate(self, result: "ModelProto", original: "ModelProto", before: IRModule, after: IRModule, report: Report) -> None:
        """Writes provenance into the result, unless it is the input itself, which keeps its metadata. An input that is returned in a later
        opset keeps what it had, too; the passes are not part of it."""
        if report.kept and result is not original:
            remark = annotate(result, original, IRModule(), {}, NodeTraces([], []))
            list_vanished(result, original, IRModule(), self, NodeTraces([], []))
            report.remarks += [f"{PROVENANCE_REMARK}{remark}"] if remark else []
        elif not report.kept:
            node_traces = NodeTraces(self.trace.runs, self.pass_trace.events)
            same = list(written_as_read(original, result, after, self.written, node_traces))
            remark = annotate(result, original, after, self.written, node_traces, same)
            renamed = [name_of_node(node) for _, sources, _ in same for node in sources]
            list_vanished(result, original, before, self, node_traces, renamed)
            report.remarks += [f"{PROVENANCE_REMARK}{remark}"] if remark else []
        self.explanation = explanation_of(result)

    def certify(self, result: "ModelProto", folder: str | None, before: IRModule, after: IRModule, report: Report) -> None:
        """Creates the certificate that the written result equals the input. The report lists what it does not cover."""
        with collector_paused():
            self.certificate = certificate = self._certificate(result, folder, before, after, kept=bool(report.kept))
        gaps = [str(gap) for gap in gaps_of(certificate)]
        report.remarks += [f"{PROVENANCE_REMARK}the certificate does not cover {', '.join(gaps)}"] if gaps else []

    def _certificate(self, result: "ModelProto", folder: str | None, before: IRModule, after: IRModule, *, kept: bool) -> Certificate:
        pass_events = [] if kept else self.pass_trace.events
        return Writer().write(
            before, pass_events, self.trace.runs, before if kept else after, from_onnx(result, folder=folder, lenient=True)
        )
