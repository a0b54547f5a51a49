"""How two models differ, by operator and by structure: `passat.diff`, and the command of that name."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from typing import Any as AnyValue

from passat.report import bytes_of, histogram, node_count
from passat.source import ModelLike, open_source

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

    from passat.ir.onnx.alignment import Alignment


class Change(NamedTuple):
    """A node of both models that applies its operator otherwise: what is different, as `perm: [0, 1] became [1, 0]`."""

    before: str
    after: str
    operator: str
    what: tuple[str, ...]


class Instance(NamedTuple):
    """One place at which models differ: the nodes of the first, and those that stand instead of them in the second."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Places that differ in the same way: the operators of the first model, how often each, and those of the second. `graph` says in which
    subgraph, as `If 'choose': then_branch`; it is empty for the main graph."""

    before: dict[str, int]
    after: dict[str, int]
    instances: tuple[Instance, ...]
    graph: str = ""


@dataclass
class ModelDiff:
    """How two models differ. Nodes are counted by operator, subgraphs and local functions included. `interface` lists what is different of
    inputs, outputs, opsets and IR versions; `same` is how many nodes compute the same from the same inputs in both, `moved` how many
    correspond to each other although what they read differs; `changes` are nodes whose attributes or constants are different, and
    `differences` the places at which other nodes stand, the most frequent first. The counts leave out subgraphs."""

    before: str
    after: str
    nodes_before: dict[str, int]
    nodes_after: dict[str, int]
    bytes_before: int
    bytes_after: int
    interface: list[str] = field(default_factory=list)
    same: int = 0
    moved: int = 0
    changes: list[Change] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether the models are the same up to names and the order of nodes."""
        return not (self.interface or self.changes or self.differences)

    def to_dict(self) -> dict[str, AnyValue]:
        """The difference as plain data for JSON."""
        changes = [change._asdict() for change in self.changes]
        differences = [{**asdict(each), "instances": [instance._asdict() for instance in each.instances]} for each in self.differences]
        counts = {"node_count_before": node_count(self.nodes_before), "node_count_after": node_count(self.nodes_after)}
        return {"equal": self.equal, **counts, **asdict(self), "changes": changes, "differences": differences}

    def to_json(self) -> str:
        """The difference as a JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        from passat.summary_text import diff_text

        return diff_text(self)


def diff(
    before: ModelLike, after: ModelLike, *, folders: tuple[str | os.PathLike[str] | None, str | os.PathLike[str] | None] = (None, None)
) -> ModelDiff:
    """How two models differ: two exports of one network, or a model and what an optimizer made of it.

    Each is a ModelProto, the path of a model, its bytes, or a binary file object; `folders` are where the external data of ModelProtos
    lies. Names, and the order of nodes, make no difference; they help to find out which nodes correspond. Raises OnnxError.
    """
    from passat.ir.onnx.alignment import Alignment, Whole
    from passat.ir.onnx.same_graph import Numbering

    one, other = open_source(before, folders[0]), open_source(after, folders[1])
    found = ModelDiff(
        *(one.name, other.name, histogram(one.proto), histogram(other.proto), bytes_of(one.proto), bytes_of(other.proto)),
        interface=list(_interface(one.proto, other.proto)),
    )
    wholes = (Whole(one.folder, _opsets(one.proto)), Whole(other.folder, _opsets(other.proto)))
    numbering = Numbering()
    main = Alignment((one.proto.graph, other.proto.graph), wholes, numbering)
    found.same = sum(pair.same for pair in main.pairs)
    found.moved = len(main.pairs) - found.same
    waiting: list[tuple[str, Alignment]] = [("", main)]
    while waiting:
        where, aligned = waiting.pop(0)
        found.differences += _grouped(aligned, where)
        for pair in aligned.pairs:
            if not pair.same:
                found.changes += _changes(aligned, pair.before, pair.after)
                outer = (aligned.before.values, aligned.after.values)
                for title, graphs in _graphs(aligned.before.nodes[pair.before], aligned.after.nodes[pair.after]):
                    waiting.append((f"{where}, {title}".removeprefix(", "), Alignment(graphs, wholes, numbering, outer)))
    return found


def _graphs(mine: "NodeProto", theirs: "NodeProto") -> "Iterator[tuple[str, tuple[GraphProto, GraphProto]]]":
    """The graphs of two nodes, attribute by attribute."""
    others = {attribute.name: attribute.g for attribute in theirs.attribute if attribute.HasField("g")}
    for attribute in mine.attribute:
        if attribute.HasField("g") and attribute.name in others:
            yield f"{mine.op_type} {_name(mine)!r}: {attribute.name}", (attribute.g, others[attribute.name])


def _opsets(model: "ModelProto") -> dict[str, int]:
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}


def _interface(one: "ModelProto", other: "ModelProto") -> Iterator[str]:
    """What is different of what models say of themselves."""
    if one.ir_version != other.ir_version:
        yield f"the IR version {one.ir_version} became {other.ir_version}"
    mine, theirs = _opsets(one), _opsets(other)
    for domain in sorted({*mine, *theirs}):
        if mine.get(domain) != theirs.get(domain):
            yield f"the opset of {domain or 'ai.onnx'} {_became(mine.get(domain), theirs.get(domain))}"
    for what, values in (("input", _inputs), ("output", _outputs)):
        before, after = values(one.graph), values(other.graph)
        for name in dict.fromkeys([*before, *after]):
            if before.get(name) != after.get(name):
                yield (
                    f"the {what} {name!r}, {before[name]}, is gone"
                    if name not in after
                    else (
                        f"there is a new {what} {name!r}, {after[name]}"
                        if name not in before
                        else f"the {what} {name!r} was {before[name]} and is {after[name]}"
                    )
                )
        if list(before) != list(after) and set(before) == set(after):
            yield f"the {what}s stand in another order"


def _became(before: object, after: object) -> str:
    if before is None:
        return f"is new: {after}"
    return f"{before} is gone" if after is None else f"{before} became {after}"


def _inputs(graph: "GraphProto") -> dict[str, str]:
    own = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    return _types([value for value in graph.input if value.name not in own])


def _outputs(graph: "GraphProto") -> dict[str, str]:
    return _types(graph.output)


def _types(values: "Sequence[ValueInfoProto]") -> dict[str, str]:
    from passat.ir.onnx.value_types import show_type, type_of

    shown = {value.name: show_type(type_of(value.type)) for value in values}
    return {name: "of unknown type" if text == "_" else text for name, text in shown.items()}


def _grouped(aligned: "Alignment", where: str) -> list[Difference]:
    """The places of a graph, those together that differ in the same way."""
    from passat.ir.onnx.alignment import operators

    before, after = aligned.before.nodes, aligned.after.nodes
    groups: dict[object, tuple[Counter[str], Counter[str], list[Instance]]] = {}
    for place in aligned.places:
        mine, theirs = operators([before[i] for i in place.before]), operators([after[i] for i in place.after])
        key = (frozenset(mine.items()), frozenset(theirs.items()))
        instance = Instance(tuple(_name(before[i]) for i in place.before), tuple(_name(after[i]) for i in place.after))
        groups.setdefault(key, (mine, theirs, []))[2].append(instance)
    made = [Difference(dict(mine), dict(theirs), tuple(instances), where) for mine, theirs, instances in groups.values()]
    return sorted(made, key=lambda each: -len(each.instances))


def _changes(aligned: "Alignment", one: int, other: int) -> list[Change]:
    """What is different of a node that is in both models, beside what it reads."""
    from passat.ir.onnx.alignment import changed_attributes, constant_text

    mine, theirs = aligned.before.nodes[one], aligned.after.nodes[other]
    what = list(changed_attributes(mine, theirs))
    for place, (name, theirs_name) in enumerate(aligned.operands(one, other)):
        before, after = aligned.before.constants.get(name), aligned.after.constants.get(theirs_name)
        if before != after and before is not None and after is not None:
            what.append(f"operand {place} is another constant: {constant_text(before)} became {constant_text(after)}")
    if len(mine.input) != len(theirs.input):
        what.append(f"{len(mine.input)} operands became {len(theirs.input)}")
    return [Change(_name(mine), _name(theirs), mine.op_type, tuple(what))] if what else []


def _name(node: "NodeProto") -> str:
    return node.name or next((name for name in node.output if name), "")
