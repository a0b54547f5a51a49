"""The part of a program that a rule rewrote, before and after, as functions of the values bound to the rule's holes."""

from collections.abc import Iterable, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

from passat.ir.analysis import free_vars
from passat.ir.expr import Constant, Expr, Function, Tuple, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.engine.graph import Graph
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher
from passat.rules.engine.rebuild import applied
from passat.rules.engine.symbols import CALL, CONST, GET, TUPLE
from passat.rules.engine.trace import Application, Run
from passat.rules.engine.variant import HOLES, Placed, symbol_of
from passat.rules.pattern import Pattern, PConst, PLiteral, PVar
from passat.rules.subterms import pattern_parts


class Matched(NamedTuple):
    """The matched part and its replacement: two functions of the same parameters, which return a tuple for a multi-pattern rule. `nodes`
    are the matched nodes of the graph, root first."""

    before: Function
    after: Function
    nodes: tuple[int, ...]


def matched_part(run: Run, application: Application, *, constants: bool = True) -> Matched | None:
    """The matched part of an application. Holes bound to constants become constants or, without `constants`, parameters where the rule does
    not require a constant. None if a hole is bound to a value that cannot be a parameter, or a side has no type by itself."""
    part = _Part(run, constants)
    matcher = application.matcher.matcher if isinstance(application.matcher, Grouper) else application.matcher
    try:
        befores = [part.match(matcher, placed) for placed in application.matched]
        afters = part.made([node for _, node in application.unions], application.made)
    except _NoParameterError:
        return None
    if len(befores) != len(afters):
        return None
    before, after = (sides[0] if len(sides) == 1 else Tuple(tuple(sides)) for sides in (befores, afters))
    used = {*map(id, free_vars(before)), *map(id, free_vars(after))}
    params = [var for var in part.params if id(var) in used]
    try:
        first, second = (infer_type(Function(params, body)) for body in (before, after))
    except InferError:  # a type depends on elements of a constant that became a parameter
        return None
    return Matched(first, second, tuple(dict.fromkeys(node for placed in application.matched for node in placed.nodes)))


class _NoParameterError(Exception):
    """A hole is bound to a value that cannot be a parameter."""


class _Part:
    """Expressions for the e-classes that a match binds, and for the nodes made from them."""

    def __init__(self, run: Run, constants: bool) -> None:
        self.graph: Graph = run.graph
        self.constants = constants
        self.params: list[Var] = []
        self._bound: dict[int, Expr] = {}
        self._later: dict[int, Expr] = {}
        self._names: set[str] = set()

    # ---- the left side

    def match(self, matcher: Matcher, placed: Placed) -> Expr:
        """The matched left side, with operands in their order in the program. Raises _NoParameterError."""
        columns, payloads = matcher.bound(placed.row)
        turned = {id(place.part) for place in placed.places if place.turned}
        made: dict[tuple[AnyValue, ...], Expr] = {}

        def build(part: Pattern) -> Expr:
            if part.key not in made:
                if isinstance(part, HOLES):
                    made[part.key] = self._hole(columns[part.key], part)
                else:
                    operands = list(map(build, pattern_parts(part)[:: -1 if id(part) in turned else 1]))
                    made[part.key] = applied(self.graph, symbol_of(part), payloads.get(id(part), 0), operands)
            return made[part.key]

        whole = build(matcher.rule.lhs)
        for key, cls in columns.items():
            self._bound.setdefault(cls, made[key])
            if key != matcher.rule.lhs.key:
                self._later.setdefault(self.graph.find(cls), made[key])
        return whole

    def _hole(self, cls: int, hole: PVar | PConst | PLiteral) -> Expr:
        known = self._bound.get(cls)
        if known is not None:
            return known
        constant = self.graph.constant_of(cls)
        if isinstance(constant, Tensor) and (self.constants or not isinstance(hole, PVar)):
            return Constant(constant)
        name = "x" if isinstance(hole, PLiteral) else hole.name
        found = self._bound[cls] = self._param(self.graph.types[self.graph.find(cls)], name)
        return found

    def _param(self, type_: Type, hint: str) -> Expr:
        """A parameter for a hole; for a tuple, one per field. Raises _NoParameterError for a value of another type."""
        if isinstance(type_, TupleType):
            return Tuple(tuple([self._param(field, f"{hint}{i}") for i, field in enumerate(type_.fields)]))
        if not isinstance(type_, TensorType):
            raise _NoParameterError
        name, number = hint, 1
        while name in self._names:
            number += 1
            name = f"{hint}_{number}"
        self._names.add(name)
        self.params.append(Var(name, type_))
        return self.params[-1]

    # ---- the right side

    def made(self, roots: Sequence[int], fresh: Iterable[int]) -> list[Expr]:
        """The expressions of the nodes created by an application, over the values that the match binds. Raises _NoParameterError."""
        graph, new = self.graph, set(fresh)
        done: dict[int, Expr] = {}
        stack = list(roots)
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            known = None if node in new else self._bound.get(node) or self._later.get(graph.find(node))
            if known is None and graph.symbols[node].kind not in (CALL, CONST, TUPLE, GET):
                known = self._param(graph.types[graph.find(node)], "x")
            missing = [] if known is not None else [part for part in graph.operands[node] if part not in done]
            if missing:
                stack += missing
                continue
            stack.pop()
            done[node] = known or applied(graph, graph.symbols[node], graph.payloads[node], [done[part] for part in graph.operands[node]])
        return [done[root] for root in roots]
