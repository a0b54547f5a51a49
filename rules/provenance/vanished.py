"""Nodes of the input that are not in the result: what each of them became, and by which rules."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from passat.ir.expr import Call, Constant, Expr, TupleGetItem, Var
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.ir.types import TupleType
from passat.rules.engine.graph import operands_of
from passat.rules.engine.symbols import CONST
from passat.rules.engine.trace import Run
from passat.rules.provenance.node_traces import SELECTED, Event, Index, name_of
from passat.rules.provenance.pass_trace import PassEvent, counterparts, is_selected

UNUSED = "nothing reads it"


class Vanished(NamedTuple):
    """The fate of an expression: its equal in the result (None if there is none, or if it is unknown), whether nothing reads it, whether an
    eager rule folded it to a constant, whether its equal has only the positions that the program selects, and the events that led there."""

    equal: Expr | None
    unused: bool
    folded: bool
    selected: bool
    events: tuple[Event, ...]


class _Followed:
    """An expression of the input that is followed through the passes."""

    def __init__(self, expr: Expr) -> None:
        self.expr: Expr | None = expr
        self.unused = False
        self.folded = False
        self.selected = False
        self.events: dict[Event, None] = {}


def follow(exprs: Mapping[str, Expr], pass_events: Sequence[PassEvent], runs: Sequence[Run]) -> dict[str, Vanished]:
    """Follows named expressions of the input through the passes."""
    found = {name: _Followed(expr) for name, expr in exprs.items()}
    for each in pass_events:
        if each.before is each.after:
            continue
        indexes = [_Saturation(Index(number, runs[number])) for number in range(each.first, each.end)]
        later: _Rebuilt | None = None
        for one in found.values():
            saturation = next((index for index in indexes if one.expr is not None and index.has(one.expr)), None)
            if saturation is not None:
                saturation.follow(one)
            elif one.expr is not None:
                later = later or _Rebuilt(each)
                later.follow(one)
    return {name: Vanished(one.expr, one.unused, one.folded, one.selected, tuple(one.events)) for name, one in found.items()}


class _Rebuilt:
    """The expressions that a pass without rules kept or rebuilt."""

    def __init__(self, each: PassEvent) -> None:
        self._name = each.name
        self._kept = _identities(each.after)
        self._later = {id(old): (old, new) for old, new in _pairs(each)}

    def follow(self, one: _Followed) -> None:
        """Continues with the counterpart after the pass."""
        if id(one.expr) in self._kept:
            return
        old, one.expr = self._later.get(id(one.expr), (None, None))
        if old is None or one.expr is None:
            one.events[Event(self._name, "removed", ())] = None
        elif is_selected(self._name, one.expr, old):
            one.selected = True
            one.events[Event(self._name, SELECTED, ())] = None


def _identities(module: IRModule) -> set[int]:
    return {id(expr) for function in module.functions.values() for expr in post_order(function)}


def _pairs(each: PassEvent) -> Iterable[tuple[Expr, Expr]]:
    """The expressions before a pass, each with its counterpart after it."""
    after = {id(expr): expr for function in each.after.functions.values() for expr in post_order(function)}
    return [(old, after[new]) for new, old in counterparts(each.before, each.after).items() if new in after]


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

    def follow(self, one: _Followed) -> None:
        """Continues with the extracted equal of an expression."""
        run = self._run
        if run.choice is None or run.result is run.body:
            return
        assert one.expr is not None
        if self._results is None:
            self._results = {}
            for expr, cls in run.extracted():
                self._results.setdefault(cls, expr)
        node = run.graph.ids[id(one.expr)]
        new = self._results.get(run.graph.find(node))
        if new is one.expr:
            return
        folded = run.graph.symbols[node].kind == CONST and not isinstance(one.expr, Constant)
        one.folded = one.folded or folded
        if new is None:
            one.unused = True
            if folded:
                one.events.update(dict.fromkeys(self._index.becoming(node, one.expr)))
            one.events.update(dict.fromkeys(self._readers(one.expr)))
        else:
            one.events.update(dict.fromkeys(self._index.becoming(node, one.expr)))
        one.expr = new

    def _readers(self, expr: Expr) -> list[Event]:
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
        return list(events)


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
    for function in module.functions.values():
        for expr in post_order(function):
            if isinstance(expr, Call) and (name := name_of(expr)):
                found.setdefault(name, expr)
    return found
