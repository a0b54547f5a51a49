"""The changes of an optimization: regions of the input with the nodes that replace them. Regions with equal operators are one change, and
the largest saving comes first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.ir.expr import Call
from passat.ir.onnx.flat_graph import NODE
from passat.model_diff import alignments, changes
from passat.page.origins import Origins, Record, Side, is_counted
from passat.page.texts import shown
from passat.rules.provenance.node_traces import REWRITTEN

if TYPE_CHECKING:
    from onnx import NodeProto

KEPT: Final = 0
REPLACED: Final = 1
CHANGED: Final = 2
"""The state of a node of both models whose attributes or constants differ."""


_CLIMB: Final = 2
"""Maximum distance between an unused node and the replaced nodes whose rules may have made it unused."""


@dataclass
class Region:
    """Connected nodes of the input and the nodes of the result that replace them; for a node of both models, its differences. `rules` are
    the rules that made the nodes of the result, or whose right sides replaced nodes of the input, `other` are other causes. `into` are
    nodes of the result outside the region that its readers read instead."""

    before: list[int]
    after: list[int]
    what: tuple[str, ...] = ()
    costs: tuple[float, float] = (0.0, 0.0)
    rules: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    into: list[int] = field(default_factory=list)

    @property
    def saving(self) -> float:
        """The decrease of the cost of the region."""
        return self.costs[0] - self.costs[1]


@dataclass
class Comparison:
    """The nodes of both models by number: `twins` have the counterpart of each node or -1, `states` whether it is KEPT, REPLACED or
    CHANGED."""

    twins: tuple[list[int], list[int]]
    states: tuple[list[int], list[int]]
    regions: list[Region]


def compare(record: Record, sides: tuple[Side, Side]) -> Comparison:
    """Finds the counterparts and regions of two models."""
    twins = tuple([-1] * len(side.nodes) for side in sides)
    states = tuple([KEPT] * len(side.nodes) for side in sides)
    found = Comparison((twins[0], twins[1]), (states[0], states[1]), [])
    models = (record.models[0], record.folder), (record.models[1], record.folder)
    for where, aligned in alignments(*models, sources=_sources(record, sides[1])):
        graphs = zip(sides, where, (aligned.before, aligned.after), strict=True)
        numbers = [_numbers(side, location, graph.nodes) for side, location, graph in graphs]
        for pair in aligned.pairs:
            one, other = numbers[0][pair.before], numbers[1][pair.after]
            if one < 0 or other < 0:
                continue
            twins[0][one], twins[1][other] = other, one
            what = () if pair.same else tuple(text for change in changes(aligned, pair.before, pair.after) for text in change.what)
            if what:
                found.regions.append(Region([one], [other], what))
                states[0][one] = states[1][other] = CHANGED
        for place in aligned.places:
            region = Region(
                [numbers[0][i] for i in place.before if numbers[0][i] >= 0], [numbers[1][i] for i in place.after if numbers[1][i] >= 0]
            )
            for number, nodes in enumerate((region.before, region.after)):
                for node in nodes:
                    states[number][node] = REPLACED
            found.regions.append(region)
    _pair_ends(sides, twins)
    _add_inner(sides, found)
    return found


def _sources(record: Record, side: Side) -> dict[str, Sequence[str]]:
    """The nodes of the input from which rules made each node of the result, by the name of its first output. Walks do not record this."""
    traces = record.node_traces
    found: dict[str, dict[str, None]] = {}
    for node, calls in zip(side.nodes, side.calls, strict=True):
        for call in calls if node.kind == NODE and node.outputs else ():
            if isinstance(call, Call) and traces.changed(call):
                trace = traces.of(call)
                if any(event.rule != REWRITTEN for event in trace.events):
                    found.setdefault(node.outputs[0], {}).update(dict.fromkeys(trace.sources))
    return {name: list(sources) for name, sources in found.items()}


def explain(found: Comparison, sides: tuple[Side, Side], costs: tuple[Sequence[float], Sequence[float]], origins: Origins) -> None:
    """Adds costs, rules and other reasons to the regions."""
    before, after = sides
    replaced = [list(dict.fromkeys(rule for call in calls for rule in origins.replaced_by(call))) for calls in before.calls]
    all_readers = _readers(before)
    readers = [[i for i in each if found.states[0][i] == REPLACED] for each in all_readers]
    for region in found.regions:
        region.costs = sum(costs[0][i] for i in region.before), sum(costs[1][i] for i in region.after)
        rules = Counter(after.rule(i, origins) for i in region.after)
        rules.update(rule for i in region.before for rule in replaced[i])
        rules.pop("", None)
        if not rules:
            constant = region.before and all(any(map(origins.is_constant, before.calls[i])) for i in region.before)
            passes = Counter(filter(None, (after.pass_name(i, origins) for i in region.after)))
            region.other = ["constant folding"] if constant else [f"pass {name}" for name, _ in passes.most_common()]
            rules.update([] if region.other else _above(region.before, replaced, readers))
        region.rules = [name for name, _ in rules.most_common()]
        if not region.after:
            region.into = _read_instead(region, found, sides, all_readers)
            if region.into and not region.rules and not region.other:
                region.other = ["its readers read another node instead"]


def _above(nodes: Sequence[int], replaced: Sequence[list[str]], readers: Sequence[list[int]]) -> list[str]:
    """The rules that replaced the nearest readers of some nodes: they left the nodes without a reader."""
    seen = set(nodes)
    level = list(nodes)
    for _ in range(_CLIMB):
        level = [reader for node in level for reader in readers[node] if reader not in seen]
        seen.update(level)
        rules = [rule for node in dict.fromkeys(level) for rule in replaced[node]]
        if rules or not level:
            return rules
    return []


def _read_instead(region: Region, found: Comparison, sides: tuple[Side, Side], readers: Sequence[list[int]]) -> list[int]:
    """The nodes of the result that the counterparts of the readers of a region read in its place."""
    into: dict[int, None] = {}
    for node in region.before:
        for reader in readers[node]:
            twin = found.twins[0][reader]
            parts = sides[1].nodes[twin].operands if twin >= 0 else []
            for old, new in zip(sides[0].nodes[reader].operands, parts, strict=False):
                if old == node and isinstance(new, int) and sides[1].nodes[new].kind == NODE:
                    into[new] = None
    return list(into)


def _readers(side: Side) -> list[list[int]]:
    """The readers of each node."""
    found: list[list[int]] = [[] for _ in side.nodes]
    for number, node in enumerate(side.nodes):
        for part in dict.fromkeys(part for part in node.operands if isinstance(part, int)):
            found[part].append(number)
    return found


def grouped(found: Comparison, sides: tuple[Side, Side], most: int) -> list[dict[str, AnyValue]]:
    """The regions as plain data, grouped by equal operators, the largest saving first. Omits nodes from number `most` on."""
    groups: dict[object, list[Region]] = {}
    operators: dict[object, tuple[Counter[str], ...]] = {}
    for region in found.regions:
        named = tuple(Counter(sides[at].nodes[i].operator for i in nodes) for at, nodes in enumerate((region.before, region.after)))
        key = frozenset(named[0].items()), frozenset(named[1].items()), bool(region.what)
        operators[key] = named
        groups.setdefault(key, []).append(region)
    data = []
    for group, regions in groups.items():
        regions.sort(key=lambda region: -region.saving)
        rules = Counter(name for region in regions for name in region.rules)
        other = Counter(name for region in regions for name in region.other)
        nodes = [[i for region in regions for i in region.before], [i for region in regions for i in region.after]]
        data.append(
            {
                "before": [[shown(name, 80), count] for name, count in operators[group][0].items()],
                "after": [[shown(name, 80), count] for name, count in operators[group][1].items()],
                "rules": [shown(name, 120) for name, _ in rules.most_common()],
                "other": [shown(name, 120) for name, _ in other.most_common()],
                "costs": [sum(region.costs[at] for region in regions) for at in (0, 1)],
                "nodes": [sum(is_counted(side.nodes[i]) for i in numbers) for side, numbers in zip(sides, nodes, strict=True)],
                "instances": [
                    {
                        "before": [i for i in region.before if i < most],
                        "after": [i for i in region.after if i < most],
                        "into": [i for i in region.into if i < most],
                        "costs": list(region.costs),
                        "rules": region.rules,
                        "what": [shown(text, 240) for text in region.what],
                    }
                    for region in regions
                ],
            }
        )
    return sorted(data, key=_rank)


def _rank(group: dict[str, AnyValue]) -> tuple[float, int, int]:
    """Sorts by saving, then by removed nodes, then by number of places."""
    (before, after), (nodes_before, nodes_after) = group["costs"], group["nodes"]
    return after - before, nodes_after - nodes_before, -len(group["instances"])


def savings(found: Comparison) -> dict[str, tuple[float, int, int]]:
    """For each rule the saving of the regions that it contributed to, split evenly between the rules of a region, the number of these
    regions, and the number of removed nodes."""
    total: dict[str, tuple[float, int, int]] = {}
    for region in found.regions:
        for rule in region.rules:
            saving, count, nodes = total.get(rule, (0.0, 0, 0))
            total[rule] = saving + region.saving / len(region.rules), count + 1, nodes + len(region.before) - len(region.after)
    return total


def _numbers(side: Side, where: str, nodes: "Sequence[NodeProto]") -> list[int]:
    """The indices of the nodes of a graph by their outputs; -1 for no node. Graphs beside each other may use the same names."""
    return [next((side.by_place[where, name] for name in node.output if (where, name) in side.by_place), -1) for node in nodes]


def _pair_ends(sides: tuple[Side, Side], twins: Sequence[list[int]]) -> None:
    """Pairs inputs and outputs with equal names."""
    named = {(node.kind, node.where, node.name): number for number, node in enumerate(sides[0].nodes) if node.kind != NODE}
    for number, node in enumerate(sides[1].nodes):
        other = named.get((node.kind, node.where, node.name))
        if node.kind != NODE and other is not None:
            twins[0][other], twins[1][number] = number, other


def _add_inner(sides: tuple[Side, Side], found: Comparison) -> None:
    """Adds the unpaired nodes of subgraphs to the region of the node that contains the subgraph."""
    for at, side in enumerate(sides):
        region_of = {i: region for region in found.regions for i in ((region.before, region.after)[at])}
        for number, node in enumerate(side.nodes):
            if node.kind == NODE and found.twins[at][number] < 0 and number not in region_of:
                region = region_of.get(node.owner)
                if region is None:
                    region = Region([], [])
                    found.regions.append(region)
                (region.before, region.after)[at].append(number)
                region_of[number] = region
                found.states[at][number] = REPLACED
