"""Applies multi-pattern rules: groups matches, and builds the single call that replaces each group."""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.infer import InferError
from passat.ir.op import OpTypeError
from passat.ir.shape import ANY
from passat.ir.types import TensorType, Type
from passat.rules.engine.bindings import Bindings
from passat.rules.engine.graph import Graph
from passat.rules.engine.matching import Matcher
from passat.rules.engine.report import RuleStatistics
from passat.rules.guards import Check, Reject
from passat.rules.multi_pattern import MultiRule, PJoined
from passat.rules.rule import MULTI_PATTERN, Rule
from passat.rules.substitution import agree, build_together
from passat.rules.subterms import subterms

MOST: Final = 256
"""Maximum number of calls in a group."""


class Grouper:
    """A multi-pattern rule, ready to apply to a program. `matcher` finds its roots; the program must contain `symbols`."""

    def __init__(self, rule: MultiRule) -> None:
        self.rule = rule
        self.name = rule.name
        probe = Rule(rule.lhs, rule.left.shared[0], rule.guards, math=rule.math, note=rule.note, kind=MULTI_PATTERN, name=rule.name)
        self.matcher = Matcher(probe)
        self._joined = [node for node in subterms(rule.rhs) if isinstance(node, PJoined)]
        self.symbols = self.matcher.symbols

    def groups(self, graph: Graph, initial: int, statistics: RuleStatistics) -> list[list[tuple[int, Bindings]]]:
        """Groups of matches among the first `initial` nodes, as (root, bindings), in program order. A group shares the holes that the rule
        names, has equal attributes, and operands that can be concatenated. Rejections go to the statistics."""
        roots = [node for node in range(initial) if graph.symbols[node] is self.matcher.root and graph.find(node) == node]
        rows = dict.fromkeys(row for variant in self.matcher.variants for row in variant.search(graph, roots))
        found: dict[tuple[AnyValue, ...], dict[int, Bindings]] = {}
        for row in sorted(rows):
            statistics.matches += 1
            try:
                match = self.matcher.bind(graph, row)
                shapes = tuple(_across(graph, match, part) for part in self._joined)
            except Reject as rejection:
                statistics.reject(rejection)
                continue
            shared = (match.node(hole) for hole in self.rule.left.shared)
            key = (*shared, *(value for _, value in sorted(match.attrs.items())), shapes)
            found.setdefault(key, {}).setdefault(row[0], match)
        groups = []
        for members in found.values():
            group = _in_order(graph, list(members.items()))[:MOST]
            if len(group) >= self.rule.left.at_least:
                groups.append(group)
            elif len(group) == 1:
                statistics.reject(Reject("no other call can be merged with it", Check.GROUP))
            else:
                reason = f"the group has {len(group)} calls, fewer than {self.rule.left.at_least}"
                statistics.reject(Reject(reason, Check.GROUP))
        return groups

    def why_apart(self, graph: Graph, members: Sequence[tuple[int, Bindings]]) -> str:
        """Why matches with equal attributes that bind the shared holes equally are not merged. Adds nodes to the graph."""
        for part in self._joined:
            first = graph.types[graph.find(members[0][1].node(part.of))]
            try:
                shape = _across(graph, members[0][1], part)
                other = next((match for _, match in members if _across(graph, match, part) != shape), None)
            except Reject as rejection:
                return str(rejection)
            if other is not None:
                return f"{first!r} and {graph.types[graph.find(other.node(part.of))]!r} do not fit in {part!r}"
        group = _in_order(graph, list(members))
        if len(group) < self.rule.left.at_least:
            depend = ", and one of them depends on another" if len(group) < len(members) else ""
            return f"a group has at least {self.rule.left.at_least} calls{depend}"
        try:
            self.build(graph, group)
        except Reject as rejection:
            return str(rejection)
        return "the search did not merge them"

    def build(self, graph: Graph, group: Sequence[tuple[int, Bindings]]) -> list[tuple[int, int]]:
        """The replacement of each root: (root, node). Raises Reject if the types disagree."""
        try:
            types = [graph.type_of(root) for root, _ in group]
            made = build_together(self.rule, [match for _, match in group], types, graph)
        except (OpTypeError, InferError, ValueError) as error:  # a scalar has no axis to concatenate along
            raise Reject(f"ill-typed: {error}", Check.ILL_TYPED) from None
        for (root, _), node in zip(group, made, strict=True):
            wanted, given = graph.type_of(root), graph.type_of(node)
            if not agree(self.rule, wanted, given):
                raise Reject(f"the part has type {given!r}, the root {wanted!r}", Check.TYPES)
        return [(root, node) for (root, _), node in zip(group, made, strict=True)]


def _across(graph: Graph, match: Bindings, part: PJoined) -> tuple[AnyValue, ...]:
    """The common type of concatenated operands: their element type and sizes, except along the concatenation axis."""
    type_ = _tensor(graph.type_of(match.node(part.of)))
    if not -type_.ndim <= part.axis < type_.ndim:
        raise Reject(f"{type_!r} has no axis {part.axis}", Check.PATTERN)
    at = type_.axis(part.axis)
    common = [None if axis == at and not part.alike else size for axis, size in enumerate(type_.shape)]
    if ANY in common:
        raise Reject(f"{type_!r} has an unknown size, which may differ from that of other operands", Check.PATTERN)
    return (type_.dtype, *common)


def _in_order(graph: Graph, members: list[tuple[int, Bindings]]) -> list[tuple[int, Bindings]]:
    """The members in program order, without those computed from another member."""
    members.sort(key=lambda member: member[0])
    roots = [root for root, _ in members]
    operands = graph.operands
    if all(not operands[part] for root in roots for part in operands[root] if graph.find(part) >= roots[0]):
        return members  # constants and variables have no operands
    above = set(roots)
    for node in range(roots[0], roots[-1]):
        if not above.isdisjoint(operands[node]):
            above.add(node)
    return [(root, match) for root, match in members if above.isdisjoint(operands[root])]


def _tensor(type_: Type) -> TensorType:
    if not isinstance(type_, TensorType):
        raise Reject(f"{type_!r} is not a tensor type", Check.PATTERN)
    return type_
