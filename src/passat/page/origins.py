"""Which rule or pass made which node of a result, and in which e-graph an expression can be looked at."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from passat.ir.expr import Call, Expr
from passat.ir.traverse import post_order
from passat.rules.engine.graph import CALL, GET, TUPLE, Graph
from passat.rules.engine.journal import Run
from passat.rules.engine.rebuild import parts_of
from passat.rules.provenance.trail import Passed
from passat.rules.provenance.walks import counterparts, is_only_rebuilt
from passat.rules.rule import without_operators


class Place(NamedTuple):
    """A class of an e-graph: which run's, and its number."""

    run: int
    cls: int


class Origins:
    """What is known of the expressions of all runs, by their identity. The runs keep the expressions alive.

    A rule made a node where it applied first and built it; what later passes only gave other operands stays that rule's. `passed` are the
    passes between which the runs are: of those without runs, which are walks, what they made is known from what they were given.
    """

    def __init__(self, runs: Sequence[Run], passed: Sequence[Passed] = ()) -> None:
        self.places: dict[int, Place] = {}
        self._rules: dict[int, str] = {}
        self._passes: dict[int, str] = {}
        self._named: dict[object, str] = {}
        walks = [each for each in passed if each.first == each.end and each.before is not each.after]
        for number, run in enumerate(runs):
            while walks and walks[0].end <= number:
                self._walk(walks.pop(0))
            for key, node in run.graph.ids.items():
                self._see(key, number, run, node)
            if run.choice is not None:
                self._follow(number, run, run.choice)
        for walk in walks:
            self._walk(walk)

    def rule_of(self, expr: Expr | None) -> str:
        """The rule that made an expression; "" where none did, as far as is known."""
        if expr is None:
            return ""
        return self._rules.get(id(expr)) or self._named.get(_name(expr), "")

    def pass_of(self, expr: Expr | None) -> str:
        """The pass without rules that made an expression, or gave it other operands; "" where none did, as far as is known."""
        return "" if expr is None else self._passes.get(id(expr), "")

    def place_of(self, expr: Expr | None) -> Place | None:
        """Where an expression can be looked at: in the last e-graph in which there was a choice for it, else in the last at all."""
        return self.places.get(id(expr))

    def _walk(self, walk: Passed) -> None:
        """Finds what a pass has made that has no rules. What it only built anew is still the work of whoever had made it."""
        old = {id(expr) for function in walk.before.functions.values() for expr in post_order(function)}
        found = counterparts(walk.before, walk.after)
        for function in walk.after.functions.values():
            for expr in post_order(function):
                if id(expr) in old:
                    continue
                earlier = found.get(id(expr))
                self._note_as(expr, self.rule_of(earlier))
                who = self.pass_of(earlier) if earlier is not None and is_only_rebuilt(expr, found) else walk.name
                if who:
                    self._passes.setdefault(id(expr), who)
                if id(earlier) in self.places:
                    self.places.setdefault(id(expr), self.places[id(earlier)])

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
        rule = without_operators(run.provenance.get(node, ("", 0))[0])
        origin = run.graph.origins[node]
        if not rule and origin is not None:
            rule = self.rule_of(origin)
            if not rule and self.pass_of(origin):
                self._passes.setdefault(id(expr), self.pass_of(origin))
        self._note_as(expr, rule)

    def _note_as(self, expr: Expr, rule: str) -> None:
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
