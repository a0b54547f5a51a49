"""Partial matches: for each node that a pattern's root may match, which parts match and which do not."""

from collections.abc import Iterator, Mapping
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.tensor import Tensor
from passat.rules.engine.matching import Matcher
from passat.rules.engine.symbols import CALL, TUPLE, Symbol
from passat.rules.engine.variant import symbol_of
from passat.rules.pattern import AttrHole, Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar
from passat.rules.subterms import pattern_parts, subterms
from passat.rules.why_not.view import View

_STATES: Final = 2_000
"""Maximum number of steps to align the pattern at one node."""
_ROOTS: Final = 50_000
"""Maximum number of nodes that are tried."""


class _Absent:
    """The value of an attribute that a node lacks."""

    def __repr__(self) -> str:
        return "absent"


_ABSENT: Final = _Absent()


class Failure(NamedTuple):
    """A part of the pattern that does not match: `what` of `wanted` (a part, an attribute, a repeated hole) is `given`. The part is operand
    `position` of the node `whole`, which is matched by `of`; the root has no such node. `other` is the other operand of a commutative
    operator, if the part does not match it either."""

    what: str
    wanted: AnyValue
    given: AnyValue
    whole: int = -1
    of: Pattern | None = None
    position: int = 0
    other: int = -1


class Alignment(NamedTuple):
    """A partial match at a node: how many parts match, which do not, the matched nodes, the e-classes bound to terms, and the payloads of
    calls."""

    root: int
    agreed: int
    parts: int
    failures: tuple[Failure, ...]
    nodes: tuple[int, ...]
    bound: Mapping[object, int]
    payloads: Mapping[object, int]

    @property
    def off_root(self) -> bool:
        """True if the root itself does not match."""
        return bool(self.failures) and self.failures[0].whole < 0

    def row(self, matcher: Matcher) -> tuple[int, ...]:
        """The row of a complete match, as the engine would have found it."""
        calls = [part for part in subterms(matcher.rule.lhs) if isinstance(part, (PCall, PGet)) and symbol_of(part).has_payload]
        return (*[self.bound[key] for key in matcher.class_keys], *[self.payloads[call.key] for call in calls])


class _Todo(NamedTuple):
    """A part of the pattern to align with an e-class, the parent node, and the e-classes of the parts above."""

    pattern: Pattern
    cls: int
    whole: int
    of: Pattern | None
    position: int
    other: int
    rest: "_Todo | None"
    above: tuple[int, ...] = ()


class _State(NamedTuple):
    """The alignment so far; scores are in halves."""

    todo: _Todo | None
    score: int
    failures: tuple[Failure, ...]
    nodes: tuple[int, ...]
    bound: dict[object, int]
    attrs: dict[str, AnyValue]
    payloads: dict[object, int]


class Aligner:
    """Aligns the left side of a rule with the nodes of a graph.

    A node below itself does not align: once `x + 0` is `x`, each `x + 0` would be an `(x + 0) + 0`, which no program contains.
    """

    def __init__(self, matcher: Matcher, view: View) -> None:
        self.matcher = matcher
        self.view = view
        self.pattern = matcher.rule.lhs
        self.parts = _weight(self.pattern, set())

    def nearest(self) -> list[Alignment]:
        """The best alignment at each node where enough matches, nearest first: by the number of matching parts, with a mismatched root
        weighing double."""
        found = [one for root in self._roots() if (one := self.at(root)) is not None and self._is_near(one)]
        return sorted(found, key=lambda one: (*nearness(self.view, one), one.root))

    def _is_near(self, one: Alignment) -> bool:
        """True if something matches; if the root does not, half of the parts including an operator must."""
        if not one.off_root:
            return one.agreed > 0
        return 2 * one.agreed >= self.parts and any(self.view.graph.symbols[node].op is not None for node in one.nodes)

    def _roots(self) -> Iterator[int]:
        """The nodes with the root's symbol, then users of nodes with other symbols of the pattern."""
        view, graph = self.view, self.view.graph
        head = self.matcher.root
        roots = list(view.by_symbol.get(head, ()))
        if head.op is not None and head.op.variadic:
            roots += [node for symbol, nodes in view.by_symbol.items() if symbol.op is head.op and symbol is not head for node in nodes]
        yield from roots[:_ROOTS]
        below = {symbol_of(part) for part in pattern_parts(self.pattern) if isinstance(part, (PCall, PGet, PTuple))}
        if below:
            known, count = set(roots), 0
            for node, operands in enumerate(graph.operands):
                symbol = graph.symbols[node]
                if node in known or not view.is_live(node) or symbol.kind != CALL or symbol.arity != head.arity:
                    continue
                if any(graph.symbols[part] in below for operand in operands for part in view.nodes_of(operand)):
                    yield node
                    count += 1
                    if count > _ROOTS:
                        return

    def at(self, root: int) -> Alignment | None:
        """The best alignment rooted at a node."""
        graph = self.view.graph
        best: _State | None = None
        start = _State(None, 0, (), (), {self.pattern.key: graph.find(root)}, {}, {})
        stack = list(self._on_node(start, _Todo(self.pattern, graph.find(root), -1, None, 0, -1, None), root))[::-1]
        for _ in range(_STATES):
            if not stack:
                break
            state = stack.pop()
            if best is not None and state.score + 2 * _left(state.todo) <= best.score and best.failures:
                continue
            if state.todo is None:
                if best is None or (state.score, -len(state.failures)) > (best.score, -len(best.failures)):
                    best = state
                if not state.failures:
                    break
                continue
            stack.extend(reversed(list(self._step(state._replace(todo=state.todo.rest), state.todo))))
        if best is None:
            return None
        return Alignment(root, best.score // 2, self.parts, best.failures, best.nodes, best.bound, best.payloads)

    def _step(self, state: _State, todo: _Todo) -> Iterator[_State]:
        """The ways to align the next part."""
        graph = self.view.graph
        cls, pattern = graph.find(todo.cls), todo.pattern
        before = state.bound.get(pattern.key)
        if before is not None:
            if before == cls:
                yield state._replace(score=state.score + 2)
            else:
                yield self._failed(state, todo, "same", pattern, (before, cls))
            return
        if isinstance(pattern, PVar):
            yield state._replace(bound={**state.bound, pattern.key: cls})
        elif isinstance(pattern, PConst):
            bound = {**state.bound, pattern.key: cls}
            if isinstance(graph.constants.get(cls), Tensor):
                yield state._replace(bound=bound, score=state.score + 2)
            else:
                yield self._failed(state, todo, "constant", pattern, cls)._replace(bound=bound)
        elif isinstance(pattern, PLiteral):
            yield self._literal(state, todo, pattern, cls)
        else:
            head = symbol_of(pattern)
            nodes = self.view.nodes_of(cls)
            if cls in todo.above:  # operands are older
                nodes = [node for node in nodes if node < todo.whole]
            fitting = [node for node in nodes if graph.symbols[node] is head]
            like = [] if fitting else [node for node in nodes if _alike(graph.symbols[node], head)]
            for node in fitting:
                yield from self._on_node(state, todo, node)
            if like:
                yield self._failed(state, todo, "arity", pattern, like[0], 1)
            elif not fitting:
                yield self._failed(state, todo, "part", pattern, cls)

    def _literal(self, state: _State, todo: _Todo, pattern: PLiteral, cls: int) -> _State:
        constant = self.view.graph.constants.get(cls)
        if not isinstance(constant, Tensor):
            return self._failed(state, todo, "part", pattern, cls)
        element = constant.uniform()
        if element is None or element != pattern.value:
            return self._failed(state, todo, "value", pattern, constant, 1)
        return state._replace(score=state.score + 2, bound={**state.bound, pattern.key: cls})

    def _on_node(self, state: _State, todo: _Todo, node: int) -> Iterator[_State]:
        """The ways to align a call, tuple or projection with a node; both operand orders if it is commutative."""
        graph, pattern = self.view.graph, todo.pattern
        head, symbol = symbol_of(pattern), graph.symbols[node]
        if symbol is head:
            state = state._replace(
                score=state.score + 2,
                nodes=(*state.nodes, node),
                bound={**state.bound, pattern.key: graph.find(node)},
                payloads={**state.payloads, pattern.key: graph.payloads[node]},
            )
            state = self._attributes(state, pattern, node)
        else:
            state = self._failed(state, todo, "arity" if _alike(symbol, head) else "part", pattern, node)
            if symbol.arity != head.arity:
                yield state
                return
        parts = pattern_parts(pattern)
        operands = graph.operands[node]
        above = (*todo.above, graph.find(node))
        commutative = isinstance(pattern, PCall) and pattern.op.commutative and len(parts) == 2
        for order in ((0, 1), (1, 0)) if commutative else (tuple(range(len(parts))),):
            rest = state.todo
            for i in reversed(range(len(parts))):
                other = operands[order[1 - i]] if commutative and isinstance(parts[1 - i], PVar) else -1
                rest = _Todo(parts[i], operands[order[i]], node, pattern, order[i], other, rest, above)
            yield state._replace(todo=rest)

    def _attributes(self, state: _State, pattern: Pattern, node: int) -> _State:
        graph = self.view.graph
        if isinstance(pattern, PGet):
            if graph.payloads[node] != pattern.index:
                return self._failed(state, None, "field", pattern.index, graph.payloads[node], whole=node, of=pattern)
            return state._replace(score=state.score + 2)
        if not isinstance(pattern, PCall) or not pattern.attrs:
            return state
        attrs = graph.attrs[graph.payloads[node]]
        for name, value in pattern.attrs.items():
            if not isinstance(value, AttrHole):
                wanted, given = tuple(value) if isinstance(value, list) else value, attrs.get(name, _ABSENT)
                if given == wanted:
                    state = state._replace(score=state.score + 2)
                else:
                    state = self._failed(state, None, "attribute", (name, wanted), given, whole=node, of=pattern)
                continue
            given = attrs if name == "attrs" else attrs.get(name, _ABSENT)
            if value.name not in state.attrs:
                state = state._replace(attrs={**state.attrs, value.name: given})
            elif state.attrs[value.name] == given:
                state = state._replace(score=state.score + 2)
            else:
                state = self._failed(state, None, "hole", (value.name, state.attrs[value.name]), given, whole=node, of=pattern)
        return state

    def _failed(
        self, state: _State, todo: _Todo | None, what: str, wanted: AnyValue, given: AnyValue, half: int = 0, **more: AnyValue
    ) -> _State:
        if todo is not None:
            more = {"whole": todo.whole, "of": todo.of, "position": todo.position, "other": todo.other}
        return state._replace(score=state.score + half, failures=(*state.failures, Failure(what, wanted, given, **more)))


def nearness(view: View, one: Alignment) -> tuple[int, bool, int, bool]:
    """The sort key of alignments: by matching parts, root mismatch, failures; original nodes first."""
    return one.off_root - one.agreed, one.off_root, len(one.failures), view.is_made(one.root)


def _alike(symbol: Symbol, head: Symbol) -> bool:
    """True if two symbols differ only in the number of operands."""
    return symbol is not head and symbol.kind == head.kind and symbol.op is head.op and head.kind in (CALL, TUPLE)


def _weight(pattern: Pattern, seen: set[object]) -> int:
    """The number of parts of a pattern that can match: non-hole terms, projected fields, attributes with values, and each repetition of a
    term or attribute hole."""
    total = 0
    stack = [pattern]
    while stack:
        part = stack.pop()
        if part.key in seen:
            total += 1
            continue
        seen.add(part.key)
        if isinstance(part, PVar):
            continue
        total += 1 + isinstance(part, PGet)
        for value in part.attrs.values() if isinstance(part, PCall) else ():
            key = ("attribute", value.name) if isinstance(value, AttrHole) else None
            total += key is None or key in seen
            seen.add(key)
        stack.extend(pattern_parts(part))
    return total


def _left(todo: _Todo | None) -> int:
    """An upper bound on the parts that can still match."""
    total = 0
    while todo is not None:
        total += max(1, _weight(todo.pattern, set()))
        todo = todo.rest
    return total
