"""Provenance in ONNX models: written into the metadata of nodes, and read from there again.

`passat.from` has the nodes of the input that a node comes from, `passat.rules` the steps that led to it, both as JSON lists of texts.
Before version 10 of its format a model has no metadata on nodes; then `passat.provenance`, in the model's own, has both for each node, by
the name of the first value that the node makes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.ir.expr import Call, Expr, Function
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.rules.provenance.explanation import Explained, ExplainError, Explanation, as_texts, joined
from passat.rules.provenance.histories import Histories, History, Step, merged

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

FROM: Final = "passat.from"
RULES: Final = "passat.rules"
PROVENANCE: Final = "passat.provenance"
WRITTEN: Final = "(written)"
"""Stands for a pass where a node comes of writing the result."""
NODE_METADATA: Final = 10
"""The version of the format from which on nodes have metadata."""


def annotate(
    result: "ModelProto", before: "ModelProto", after: IRModule, written: Mapping[int, Sequence[str]], histories: Histories
) -> str:
    """Writes into a model where its nodes come from; what stands in the metadata of the input is carried on. Returns a remark where the
    nodes can have no metadata, else nothing.

    `written` has the values that each call of `after` was written as, and the names of results; `histories` knows the calls.
    """
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
    own = not _has_node_metadata(result)
    table: dict[str, dict[str, Sequence[str]]] = {}
    for proto in _protos(result):
        first = next((name for name in proto.output if name), "")
        made = [call for call in calls.get(first, ()) if histories.changed(call)]
        # A node that no call was written as gives a result its name, unless the input has it too.
        naming = first in results and first not in calls and _what(proto) not in kept
        given = histories.of_result(*results[first]) if naming else History()
        if naming and proto.input and not given.steps:
            given = merged([given], [((0, 0), Step(WRITTEN, "another node computes its value", ()))])
        if made or given.steps:
            found = merged([given, *(histories.of(call) for call in made)])
            sources, steps = joined(found.sources, [str(step) for step in found.steps], earlier)
        else:
            known = earlier.get(proto.name or first)
            sources, steps = (known.sources, known.steps) if known is not None else ((), ())
        _set(proto, FROM, None if own or not steps else json.dumps(sources))
        _set(proto, RULES, None if own or not steps else json.dumps(steps))
        if own and steps and first:
            table[first] = {"from": list(sources), "rules": list(steps)}
    _set(result, PROVENANCE, json.dumps(table) if own else None)
    if own and table:
        return (
            f"nodes of version {result.ir_version} of ONNX's format have no metadata (from {NODE_METADATA} on they do): "
            "where they come from stands in the metadata of the model"
        )
    return ""


def explain_model(model: "ModelProto") -> Explanation:
    """Where the nodes of a model come from, as it says itself. Raises ExplainError for one that does not."""
    found = tuple(nodes_of(model))
    kept = any(entry.key == PROVENANCE for entry in model.metadata_props)
    if not kept and not any(node.steps for node in found):
        raise ExplainError(
            "the model does not say where its nodes come from; `passat optimize --explain` writes that into it, where it changes anything"
        )
    return Explanation(found)


def nodes_of(model: "ModelProto") -> Iterator[Explained]:
    """The nodes of a model and its subgraphs, with what its metadata says of them."""
    stated = next((entry.value for entry in model.metadata_props if entry.key == PROVENANCE), "{}")
    try:
        table = json.loads(stated)
    except (ValueError, RecursionError):
        table = {}
    for proto in _protos(model):
        entries = {entry.key: entry.value for entry in proto.metadata_props} if _has_node_metadata(model) else {}
        outputs = tuple(name for name in proto.output if name)
        said = table.get(outputs[0]) if outputs and isinstance(table, dict) else None
        if RULES not in entries and isinstance(said, dict):
            entries = {FROM: json.dumps(said.get("from")), RULES: json.dumps(said.get("rules"))}
        op = f"{proto.domain}.{proto.op_type}" if proto.domain not in ("", "ai.onnx") else proto.op_type
        yield Explained(proto.name, op, outputs, as_texts(entries.get(FROM)), as_texts(entries.get(RULES)))


def _has_node_metadata(model: "ModelProto") -> bool:
    node = model.graph.DESCRIPTOR.fields_by_name["node"].message_type
    return model.ir_version >= NODE_METADATA and "metadata_props" in node.fields_by_name


def _protos(model: "ModelProto") -> "Iterator[NodeProto]":
    """The nodes of the graph and of the graphs in it, in order."""
    pending: list[GraphProto] = [model.graph]
    while pending:
        graph = pending.pop()
        for node in graph.node:
            yield node
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else attribute.graphs


def _what(proto: "NodeProto") -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """What a node computes of what, and what that is called."""
    return proto.domain, proto.op_type, tuple(proto.input), tuple(proto.output)


def _set(proto: "NodeProto | ModelProto", key: str, value: str | None) -> None:
    """Sets an entry of metadata, or removes it."""
    entries: AnyValue = getattr(proto, "metadata_props", ())
    for place in range(len(entries) - 1, -1, -1):
        if entries[place].key == key:
            del entries[place]
    if value is not None:
        entries.add(key=key, value=value)
