"""Which rule made which node of a result, and in which e-graph an expression can be looked at."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from passat.ir.expr import Call, Expr
from passat.rules.engine.graph import CALL, GET, TUPLE, Graph
from passat.rules.engine.journal import Run
from passat.rules.engine.rebuild import parts_of


class Place(NamedTuple):
    """A class of an e-graph: which run's, and its number."""

    run: int
    cls: int


class Origins:
    """What is known of the expressions of all runs, by their identity. The runs keep the expressions alive.

    A rule made a node where it applied first and built it; what later passes only gave other operands stays that rule's.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.places: dict[int, Place] = {}
        self._rules: dict[int, str] = {}
        self._named: dict[object, str] = {}
        for number, run in enumerate(runs):
            for key, node in run.graph.ids.items():
                self._see(key, number, run, node)
            if run.choice is not None:
                self._follow(number, run, run.choice)

    def rule_of(self, expr: Expr | None) -> str:
        """The rule that made an expression; "" where none did, as far as is known."""
        if expr is None:
            return ""
        return self._rules.get(id(expr)) or self._named.get(_name(expr), "")

    def place_of(self, expr: Expr | None) -> Place | None:
        """Where an expression can be looked at: in the last e-graph in which there was a choice for it, else in the last at all."""
        return self.places.get(id(expr))

    def _see(self, key: int, number: int, run: Run, node: int) -> None:
        cls = run.graph.find(node)
        if key not in self.places or cls in run.members:
            self.places[key] = Place(number, cls)

    def _follow(self, number: int, run: Run, choice: Mapping[int, int]) -> None:
        """Goes through a result and the nodes that were chosen for it side by side."""
        graph = run.graph
        pending: list[tuple[Expr, int]] = [(run.result, graph.find(run.root))]
        seen: set[int] = set()
        while pending:
            expr, cls = pending.pop()
            node = choice.get(cls)
            if node is None or id(expr) in seen:
                continue
            seen.add(id(expr))
            self._see(id(expr), number, run, node)
            self._note(expr, run, node)
            if graph.symbols[node].kind in (CALL, TUPLE, GET) and _is(expr, graph, node):
                pending += [(part, graph.find(operand)) for part, operand in zip(parts_of(expr), graph.operands[node], strict=True)]

    def _note(self, expr: Expr, run: Run, node: int) -> None:
        rule = run.provenance.get(node, ("", 0))[0]
        origin = run.graph.origins[node]
        if not rule and origin is not None:
            rule = self.rule_of(origin)
        if rule:
            self._rules[id(expr)] = rule
            name = _name(expr)
            if name is not None:
                self._named[name] = rule


def _is(expr: Expr, graph: Graph, node: int) -> bool:
    """Whether an expression is built of operands as the node is."""
    symbol = graph.symbols[node]
    return len(parts_of(expr)) == len(graph.operands[node]) and (not isinstance(expr, Call) or expr.op is symbol.op)


def _name(expr: Expr) -> object:
    """What makes an expression known again that a pass has built anew with other operands."""
    if isinstance(expr, Call) and expr.span is not None and expr.span.outputs:
        return (expr.op, expr.attrs, expr.span)
    return None
