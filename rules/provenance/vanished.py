"""Nodes of the input that are not in the result: what each of them became, and by which rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from passat.ir.expr import Call, Constant, Expr, TupleGetItem, Var
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.ir.types import TupleType
from passat.rules.engine.graph import operands_of
from passat.rules.engine.symbols import CONST
from passat.rules.engine.trace import Run
from passat.rules.provenance.node_traces import SELECTED, Event, Index, name_of
from passat.rules.provenance.pass_trace import PassEvent, counterparts, expressions, is_selected

UNUSED = "nothing reads it"


@dataclass
class Vanished:
    """The fate of an expression: its equal in the result (None if there is none, or if it is unknown), whether nothing reads it, whether an
    eager rule folded it to a constant, whether its equal has only the positions that the program selects, and the events that led there.
    While it is followed through the passes, all that is known so far."""

    equal: Expr | None
    unused: bool = False
    folded: bool = False
    selected: bool = False
    events: dict[Event, None] = field(default_factory=dict)


def follow(exprs: Mapping[str, Expr], pass_events: Sequence[PassEvent], runs: Sequence[Run]) -> dict[str, Vanished]:
    """Follows named expressions of the input through the passes."""
    found = {name: Vanished(expr) for name, expr in exprs.items()}
    for each in pass_events:
        if each.before is each.after:
            continue
        saturations = [_Saturation(Index(number, runs[number])) for number in range(each.first, each.end)]
        later: _Rebuilt | None = None
        for one in found.values():
            if one.equal is None:
                continue
            saturation = next((run for run in saturations if run.has(one.equal)), None)
            if saturation is None:
                later = later or _Rebuilt(each)
            (saturation or later).follow(one, one.equal)  # type: ignore[union-attr]  # one of them is not None
    return found


class _Rebuilt:
    """The expressions that a pass without rules kept or rebuilt."""

    def __init__(self, each: PassEvent) -> None:
        self._name = each.name
        self._kept = set(expressions(each.after))
        self._later = {old: new for new, old in counterparts(each.before, each.after).items()}

    def follow(self, one: Vanished, expr: Expr) -> None:
        """Continues with the counterpart after the pass."""
        if expr in self._kept:
            return
        one.equal = self._later.get(expr)
        if one.equal is None:
            one.events[Event(self._name, "removed", ())] = None
        elif is_selected(self._name, one.equal, expr):
            one.selected = True
            one.events[Event(self._name, SELECTED, ())] = None


class _Saturation:
    """One saturation, from its input to the extracted program."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._run = index.run
        self._results: dict[int, Expr] | None = None
        self._users: dict[int, list[Expr]] = {}

    def has(self, expr: Expr) -> bool:
        """True if an expression is in the program that was saturated."""
        return id(expr) in self._run.graph.ids

    def follow(self, one: Vanished, expr: Expr) -> None:
        """Continues with the extracted equal of an expression."""
        run = self._run
        if run.choice is None or run.result is run.body:
            return
        if self._results is None:
            self._results = {}
            for made, cls in run.extracted():
                self._results.setdefault(cls, made)
        node = run.graph.ids[id(expr)]
        new = self._results.get(run.graph.find(node))
        if new is expr:
            return
        folded = run.graph.symbols[node].kind == CONST and not isinstance(expr, Constant)
        one.folded = one.folded or folded
        if folded or new is not None:
            one.events.update(dict.fromkeys(self._index.becoming(node, expr)))
        if new is None:
            one.unused = True
            one.events.update(self._readers(expr))
        one.equal = new

    def _readers(self, expr: Expr) -> dict[Event, None]:
        """The events that replaced the readers of an expression, so that nothing reads it."""
        assert self._results is not None
        run = self._run
        if not self._users:
            for reader in post_order(run.body, parts_of=lambda node: [part for part in operands_of(node) if id(part) in run.graph.ids]):
                for part in operands_of(reader):
                    self._users.setdefault(id(part), []).append(reader)
        events: dict[Event, None] = {}
        seen: set[int] = set()
        stack = [expr]
        while stack:
            for reader in self._users.get(id(stack.pop()), ()):
                if id(reader) in seen or id(reader) not in run.graph.ids:
                    continue
                seen.add(id(reader))
                node = run.graph.ids[id(reader)]
                if run.graph.find(node) in self._results:
                    events.update(dict.fromkeys(self._index.becoming(node, reader)))
                else:
                    stack.append(reader)
        return events


def described(expr: Expr | None, written: Mapping[int, Sequence[str]]) -> str:
    """The name of the value in the result that equals an expression; '' if it has none."""
    place = 0
    if isinstance(expr, TupleGetItem):
        place, expr = expr.index, expr.tuple_value
    if isinstance(expr, Constant):
        return "a constant"
    if isinstance(expr, Var):
        return expr.name_hint
    names = () if expr is None else written.get(id(expr), ())
    if isinstance(expr, Call):  # also has the values between its nodes, which come first
        type_ = expr.checked_type
        names = names[-len(type_.fields) if isinstance(type_, TupleType) else -1 :]
    return names[place] if place < len(names) else ""


def named_calls(module: IRModule) -> dict[str, Expr]:
    """The calls of a module by the names of their nodes."""
    found: dict[str, Expr] = {}
    for expr in expressions(module):
        if isinstance(expr, Call) and (name := name_of(expr)):
            found.setdefault(name, expr)
    return found
