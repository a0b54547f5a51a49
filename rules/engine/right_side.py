"""Compiles the right sides of rules for the engine: the nodes that a match makes."""

from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.walks import parts_first
from passat.rules.engine.bindings import Bindings
from passat.rules.engine.common_parts import CommonParts
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import Symbol
from passat.rules.engine.variant import symbol_of
from passat.rules.guards import Check, Reject
from passat.rules.pattern import Pattern, PCall, PGet, PLiteral, PNumber, PVar
from passat.rules.rule import LOWERING, Rule
from passat.rules.subterms import pattern_parts, subterms

_NOT_THERE: Final = "its right side does not exist yet"


class RightSide:
    """The right side of a direction of a rule. `slots` are the columns of the parts of the left side in a row; the left side `commutes` if
    its operands match in either order."""

    def __init__(self, rule: Rule, slots: Mapping[tuple[AnyValue, ...], int], commutes: bool) -> None:
        self._root = symbol_of(rule.lhs)
        self._operands = [slots.get(part.key, -1) for part in pattern_parts(rule.lhs)]
        """The columns of the operands of the root; -1 for those that have none."""
        self._hole = slots.get(rule.rhs.key, -1)
        """The column of a right side that makes nothing."""
        self._made = _compiled(rule.rhs, slots)
        """The nodes that the right side makes, operands first; operands are columns of the row, or ~i for the i-th made node."""
        again = [node for node, head, _ in self._made if not isinstance(node, (PVar, PNumber)) and head == self._root]
        self._may_turn = rule.kind == LOWERING and len(again) == 1 and commutes
        """True for a lowering rule with a commutative root, if its right side makes one call of that operator. That call gets the order of
        operands in the program; otherwise the order would depend on that of the matches."""
        calls = [node for side in (rule.lhs, rule.rhs) for node in subterms(side) if not isinstance(node, PVar)]
        alike = {symbol_of(node) for node in calls} == {self._root}
        self._regroups = len(calls) == 4 and alike and self._root.arity == 2 and not self._root.has_payload
        """True if both sides are two calls of one operator with two operands, as in `(x + y) + z -> x + (y + z)`."""

    def make(self, match: Bindings) -> int:
        """The node of the right side."""
        graph, row = match.graph, match.row
        made: list[int] = []
        turned = self._may_turn and self._is_turned(match)
        for node, head, operands in self._made:
            if isinstance(node, (PLiteral, PNumber)):
                made.append(match.build_computed(graph, node, match.root_type))
                continue
            payload = 0
            if isinstance(node, PCall):
                if node.op.attr_params or node.op.variadic:
                    payload = graph.attr_id(match.call_attrs(node))
            elif isinstance(node, PGet):
                payload = node.index
            parts = tuple([graph.find(made[~i] if i < 0 else row[i]) for i in operands])
            if turned and head == self._root:
                parts = parts[::-1]
            is_last = len(made) == len(self._made) - 1
            if is_last and match.new is None and graph.differs_in_rounding(graph.find(row[0]), head, payload, parts):
                return row[0]
            made.append(graph.make(head, payload, parts))
        return made[-1] if made else row[self._hole]

    def _is_turned(self, match: Bindings) -> bool:
        """True if the program has the operands of the root in the opposite order to the left side."""
        graph, root = match.graph, match.graph.find(match.row[0])
        if graph.symbols[root] != self._root:
            return False
        given = [graph.find(node) for node in graph.operands[root]]
        bound = [graph.find(match.row[slot]) if slot >= 0 else None for slot in self._operands]
        turned = all(cls in (None, other) for cls, other in zip(bound, reversed(given), strict=True))
        return turned and given[0] != given[1] and any(cls is not None for cls in bound)

    def existing(self, match: Bindings) -> int:
        """The existing node for the right side, up to the order of operands, outside the root's e-class, or that of a chain that is
        regrouped. Raises Reject if there is none."""
        graph, row, made = match.graph, match.row, list[int]()
        root = graph.find(row[0])
        for node, head, operands in self._made:
            parts = tuple([graph.find(made[~i] if i < 0 else row[i]) for i in operands])
            payload = graph.attr_id(match.call_attrs(node)) if isinstance(node, PCall) and head.has_payload else 0
            found = graph.there(head, payload, parts) if isinstance(node, PCall) else None
            if found is None:
                return self._regrouped(graph, row, root)
            made.append(found)
        built = made[-1] if made else row[self._hole]
        if graph.find(built) == root:
            raise Reject(_NOT_THERE, Check.ABSENT)
        return built

    def _regrouped(self, graph: Graph, row: Sequence[int], root: int) -> int:
        """The node of a chain that is regrouped because another chain shares operands of its part. Raises Reject for other right sides."""
        if not self._regroups:
            raise Reject(_NOT_THERE, Check.ABSENT)
        if graph.common_parts is None:
            graph.common_parts = CommonParts(graph)
        (_, head, inner), (_, _, outer) = self._made
        part = graph.common_parts.make(head, tuple([graph.find(row[i]) for i in inner]), root)
        if part is None:
            raise Reject(_NOT_THERE, Check.ABSENT)
        built = graph.make(head, 0, tuple([graph.find(part if i < 0 else row[i]) for i in outer]))
        if graph.find(built) == root:
            raise Reject(_NOT_THERE, Check.ABSENT)
        graph.common_parts.use(part, root, built)
        return built


def _compiled(rhs: Pattern, slots: Mapping[tuple[AnyValue, ...], int]) -> list[tuple[Pattern, Symbol, tuple[int, ...]]]:
    """The nodes that a right side makes, operands first."""
    made: dict[tuple[AnyValue, ...], int] = {}
    plan: list[tuple[Pattern, Symbol, tuple[int, ...]]] = []

    def fresh(parts: Sequence[Pattern]) -> list[Pattern]:
        return [part for part in parts if part.key not in slots]

    for node in parts_first(fresh([rhs]), lambda node: fresh(pattern_parts(node)[::-1]), lambda node: node.key):
        operands = tuple(~made[part.key] if part.key in made else slots[part.key] for part in pattern_parts(node))
        plan.append((node, symbol_of(node), operands))
        made[node.key] = len(plan) - 1
    return plan
