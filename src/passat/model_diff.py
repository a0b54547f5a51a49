"""The differences of two models, by operator and by structure: `passat.diff` and `passat diff`."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from typing import Any as AnyValue

from rich.console import Group, RenderableType
from rich.text import Text

from passat.ir import argument_checks
from passat.ir.counting import amount, counted
from passat.render import changed_operators
from passat.report import Shown, bytes_of, histogram, node_count
from passat.source import ModelLike, open_source

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

    from passat.ir.onnx.alignment import Alignment


class Change(NamedTuple):
    """A node of both models with different attributes or constants, such as `perm: [0, 1] became [1, 0]`."""

    before: str
    after: str
    operator: str
    what: tuple[str, ...]


class Instance(NamedTuple):
    """One place where the models differ: the nodes of the first, and those that replace them in the second."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Places that differ in the same way: the operators of the first model with their counts, and those of the second. `graph` names the
    subgraph, such as `If 'choose': then_branch`; it is empty for the main graph."""

    before: dict[str, int]
    after: dict[str, int]
    instances: tuple[Instance, ...]
    graph: str = ""


@dataclass
class ModelDiff(Shown):
    """The differences of two models. Nodes are counted by operator, including subgraphs and local functions. Bytes include external data.
    `interface` lists the differences of inputs, outputs, opsets and IR versions. `same` counts nodes that compute the same from the same
    inputs in both, `moved` corresponding nodes with different operands. `changes` are nodes with different attributes or constants, and
    `differences` the places with different nodes, most frequent first. These counts exclude subgraphs."""

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
        """True if the models are the same except for names and the order of nodes."""
        return not (self.interface or self.changes or self.differences)

    def to_dict(self) -> dict[str, AnyValue]:
        """The difference as plain data for JSON."""
        changes = [change._asdict() for change in self.changes]
        differences = [{**asdict(each), "instances": [instance._asdict() for instance in each.instances]} for each in self.differences]
        counts = {"node_count_before": node_count(self.nodes_before), "node_count_after": node_count(self.nodes_after)}
        return {"schema": "diff-1", "equal": self.equal, **counts, **asdict(self), "changes": changes, "differences": differences}

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [_headline("-", self.before, self.nodes_before, self.bytes_before)]
        parts += [_headline("+", self.after, self.nodes_after, self.bytes_after), Text()]
        if self.equal:
            return Group(*parts, Text("the models are the same up to names and the order of nodes"))
        both = self.same + self.moved
        nodes = f"{counted(f'{both:,}', 'node')} {'is' if both == 1 else 'are'} in both"
        parts += [Text("\n".join([*self.interface, ""]))] if self.interface else []
        parts += [changed_operators(self.nodes_before, self.nodes_after, "others"), Text()]
        parts.append(Text(f"{nodes}: {self.same:,} read the same values, {self.moved:,} other values"))
        for difference in self.differences[:_LISTED]:
            parts += [Text(), *_lines(difference)]
        if self.changes:
            parts += [Text(), Text("nodes of both models that differ:", style="bold")]
            parts += [Text(f"  {change.operator} {change.after!r}: {'; '.join(change.what)}") for change in self.changes[:_LISTED]]
        rest = max(0, len(self.differences) - _LISTED) + max(0, len(self.changes) - _LISTED)
        return Group(*parts, *([Text(), Text(f"... and {rest} more, which --json lists")] if rest else []))


_NODES: Final = 4
"""Names of nodes beyond this number are counted."""
_INSTANCES: Final = 3
"""Places that differ in the same way beyond this number are counted."""
_LISTED: Final = 40
"""Differences and changes beyond this number are counted; `to_json` has all."""


def _headline(sign: str, name: str, nodes: Mapping[str, int], size: int) -> Text:
    return Text.assemble(f"{sign} ", (name, "bold"), f": {counted(f'{node_count(nodes):,}', 'node')}, {amount(size)}")


def _lines(difference: Difference) -> list[Text]:
    count = len(difference.instances)
    places = f"in {count} places" if count > 1 else "in one place"
    where = f" of {difference.graph}" if difference.graph else ""
    if not difference.after:
        said = f"gone {places}{where}: {_listed(difference.before)}"
    elif not difference.before:
        said = f"new {places}{where}: {_listed(difference.after)}"
    else:
        said = f"{places}{where}: {_listed(difference.before)} became {_listed(difference.after)}"
    lines = [Text(said, style="bold")]
    for instance in difference.instances[:_INSTANCES]:
        signed = (("-", instance.before, "red"), ("+", instance.after, "green"))
        lines += [Text(f"  {sign} {_named(names)}", style=style) for sign, names, style in signed if names]
    if count > _INSTANCES:
        lines.append(Text(f"  ... and {count - _INSTANCES} more", style="dim"))
    return lines


def _listed(operators: Mapping[str, int]) -> str:
    """Operators with their counts.

    >>> _listed({"MatMul": 1, "Add": 2})
    'MatMul, 2 Add'
    """
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in operators.items())


def _named(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NODES])
    return shown if len(names) <= _NODES else f"{shown} and {len(names) - _NODES} more"


def diff(
    before: ModelLike, after: ModelLike, *, folders: tuple[str | os.PathLike[str] | None, str | os.PathLike[str] | None] = (None, None)
) -> ModelDiff:
    """Compares two models: two exports of one network, or a model before and after optimization.

    Each is any model that `optimize` accepts; `folders` contain the external data of ModelProtos. Names and the order of nodes do not count
    as differences, but help to find corresponding nodes. Raises OnnxError.
    """
    argument_checks.folders("folders", folders)
    one, other = open_source(before, folders[0]), open_source(after, folders[1])
    found = ModelDiff(
        *(one.name, other.name, histogram(one.proto), histogram(other.proto), bytes_of(one.proto), bytes_of(other.proto)),
        interface=list(_interface(one.proto, other.proto)),
    )
    for (where, _), aligned in alignments((one.proto, one.folder), (other.proto, other.folder), found.interface):
        if not where:
            found.same = sum(pair.same for pair in aligned.pairs)
            found.moved = len(aligned.pairs) - found.same
        found.differences += _grouped(aligned, where)
        found.interface += _other_outputs(aligned, where)
        for pair in aligned.pairs:
            if not pair.same:
                found.changes += changes(aligned, pair.before, pair.after)
    return found


def alignments(
    one: "tuple[ModelProto, str | None]",
    other: "tuple[ModelProto, str | None]",
    said: list[str] | None = None,
    sources: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> "Iterator[tuple[tuple[str, str], Alignment]]":
    """Aligns two models: their main graphs, then their local functions and subgraphs, each with its locations in both. The models come with
    the folders of their external data. Differences of functions outside their bodies are added to `said`; `sources` is for the main graphs
    (see `Alignment`). Raises OnnxError."""
    from passat.ir.onnx.alignment import Alignment, Whole, function_body, location_of, location_within
    from passat.ir.onnx.frame import opsets_of
    from passat.ir.onnx.same_graph import Numbering

    (before, folder), (after, other_folder) = one, other
    numbering = Numbering()
    main = Alignment(
        (before.graph, after.graph), (Whole(folder, opsets_of(before)), Whole(other_folder, opsets_of(after))), numbering, sources=sources
    )
    waiting: list[tuple[tuple[str, str], Alignment]] = [(("", ""), main)]
    for mine, theirs in _functions(before, after, [] if said is None else said):
        bodies = (Whole(folder, opsets_of(mine)), Whole(other_folder, opsets_of(theirs)))
        aligned = Alignment((function_body(mine), function_body(theirs)), bodies, numbering, by_place=True)
        waiting.append(((location_of(mine), location_of(theirs)), aligned))
    while waiting:
        where, aligned = waiting.pop(0)
        yield where, aligned
        for pair in aligned.pairs:
            if not pair.same:
                nodes = aligned.before.nodes[pair.before], aligned.after.nodes[pair.after]
                for name, graphs in _graphs(*nodes):
                    inner = Alignment(graphs, aligned.wholes, numbering, outer=aligned, by_place=True)
                    waiting.append(((location_within(where[0], nodes[0], name), location_within(where[1], nodes[1], name)), inner))


def _graphs(mine: "NodeProto", theirs: "NodeProto") -> "Iterator[tuple[str, tuple[GraphProto, GraphProto]]]":
    """The graphs of two nodes, attribute by attribute."""
    others = {attribute.name: attribute.g for attribute in theirs.attribute if attribute.HasField("g")}
    for attribute in mine.attribute:
        if attribute.HasField("g") and attribute.name in others:
            yield attribute.name, (attribute.g, others[attribute.name])


def _functions(one: "ModelProto", other: "ModelProto", said: list[str]) -> "Iterator[tuple[FunctionProto, FunctionProto]]":
    """The local functions that both models call. Differences outside their bodies are added to `said`."""
    from passat.ir.onnx.alignment import location_of

    mine, theirs = _called(one), _called(other)
    for key in mine:
        if key not in theirs:
            continue
        before, after = mine[key], theirs[key]
        if before is None or after is None:
            there = after if before is None else before
            if there is not None:
                said.append(f"the {location_of(there)} {'is new' if before is None else 'is gone'}")
            continue
        title = location_of(before)
        said += [f"in the {title}, {text}" for text in _opset_changes(before, after)]
        if _defaults(before) != _defaults(after) or len(before.input) != len(after.input) or len(before.output) != len(after.output):
            said.append(f"the {title} takes other inputs, outputs or attributes")
        yield before, after


def _called(model: "ModelProto") -> "dict[tuple[str, str, str], FunctionProto | None]":
    """The callees of the nodes of a model and of the functions that they call: local functions, and None for operators."""
    from passat.ir.onnx.scope import inner_nodes

    known = {(function.domain, function.name, function.overload): function for function in model.functions}
    found: dict[tuple[str, str, str], FunctionProto | None] = {}
    pending = list(model.graph.node)
    while pending:
        node = pending.pop()
        pending += inner_nodes(node.attribute)
        key = (node.domain, node.op_type, node.overload)
        if key not in found:
            found[key] = known.get(key)
            pending += known[key].node if key in known else []
    return found


def _defaults(function: "FunctionProto") -> dict[str, bytes | None]:
    """The attributes of a function, with their defaults."""
    found: dict[str, bytes | None] = dict.fromkeys(function.attribute)
    return {**found, **{each.name: each.SerializeToString(deterministic=True) for each in function.attribute_proto}}


def _interface(one: "ModelProto", other: "ModelProto") -> Iterator[str]:
    """The differences of the models' metadata and interfaces."""
    from passat.ir.onnx.scope import open_inputs  # needs onnx

    if one.ir_version != other.ir_version:
        yield f"the IR version {one.ir_version} became {other.ir_version}"
    yield from _opset_changes(one, other)
    interfaces = (("input", open_inputs(one.graph), open_inputs(other.graph)), ("output", one.graph.output, other.graph.output))
    for what, before, after in ((what, _types(mine), _types(theirs)) for what, mine, theirs in interfaces):
        for name in dict.fromkeys([*before, *after]):
            if before.get(name) != after.get(name):
                both = f"the {what} {name!r} was {before.get(name)} and is {after.get(name)}"
                gone = f"the {what} {name!r}, {before.get(name)}, is gone"
                yield gone if name not in after else both if name in before else f"there is a new {what} {name!r}, {after[name]}"
        if list(before) != list(after) and set(before) == set(after):
            yield f"the order of the {what}s changed"


def _opset_changes(one: "ModelProto | FunctionProto", other: "ModelProto | FunctionProto") -> Iterator[str]:
    from passat.ir.onnx.frame import opsets_of

    mine, theirs = opsets_of(one), opsets_of(other)
    for domain in sorted({*mine, *theirs}):
        if mine.get(domain) != theirs.get(domain):
            yield f"the opset of {domain or 'ai.onnx'} {_became(mine.get(domain), theirs.get(domain))}"


def _became(before: object, after: object) -> str:
    if before is None:
        return f"is new: {after}"
    return f"{before} is gone" if after is None else f"{before} became {after}"


def _types(values: "Sequence[ValueInfoProto]") -> dict[str, str]:
    from passat.ir.onnx.value_types import show_type, type_of

    shown = {value.name: show_type(type_of(value.type)) for value in values}
    return {name: "of unknown type" if text == "_" else text for name, text in shown.items()}


def _grouped(aligned: "Alignment", where: str) -> list[Difference]:
    """The places of a graph, grouped by equal differences."""
    from passat.ir.onnx.alignment import called, operators

    before, after = aligned.before.nodes, aligned.after.nodes
    groups: dict[object, tuple[Counter[str], Counter[str], list[Instance]]] = {}
    for place in aligned.places:
        mine, theirs = operators([before[i] for i in place.before]), operators([after[i] for i in place.after])
        key = (frozenset(mine.items()), frozenset(theirs.items()))
        instance = Instance(tuple(called(before[i]) for i in place.before), tuple(called(after[i]) for i in place.after))
        groups.setdefault(key, (mine, theirs, []))[2].append(instance)
    made = [Difference(dict(mine), dict(theirs), tuple(instances), where) for mine, theirs, instances in groups.values()]
    return sorted(made, key=lambda each: -len(each.instances))


def changes(aligned: "Alignment", one: int, other: int) -> list[Change]:
    """The differences of a node of both models, except in its operands."""
    from passat.ir.onnx.alignment import called
    from passat.ir.onnx.plain_nodes import changed_attributes

    mine, theirs = aligned.before.nodes[one], aligned.after.nodes[other]
    what = list(changed_attributes(mine, theirs))
    operands = aligned.operands(one, other)[: min(len(mine.input), len(theirs.input))]  # operands of subgraphs are compared there
    what += [f"operand {place} is {text}" for place, text in _other_values(aligned, operands)]
    if len(mine.input) != len(theirs.input):
        what.append(f"{len(mine.input)} {'operand' if len(mine.input) == 1 else 'operands'} became {len(theirs.input)}")
    return [Change(called(mine), called(theirs), mine.op_type, tuple(what))] if what else []


def _other_outputs(aligned: "Alignment", where: str) -> Iterator[str]:
    """The outputs of a graph whose values differ from those of the other graph."""
    outputs = aligned.outputs()
    for place, text in _other_values(aligned, outputs):
        yield f"output {place} of {where} is {text}" if where else f"the output {outputs[place][1]!r} is {text}"


def _other_values(aligned: "Alignment", values: Sequence[tuple[str, str]]) -> Iterator[tuple[int, str]]:
    """The pairs of values that differ, by position, with the difference."""
    for place, one, other in aligned.rewired(values):
        constants = one in aligned.before.constants and other in aligned.after.constants
        kind = "another constant" if constants else "another value"
        yield place, f"{kind}: {aligned.before.show(one)} became {aligned.after.show(other)}"
