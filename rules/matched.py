"""The part of a program that a rule rewrote, before and after, as functions of the values bound to the rule's holes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from passat.ir.analysis import free_vars
from passat.ir.attrs import EMPTY_ATTRS
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.engine.graph import CALL, CONST, GET, TUPLE, Graph, Symbol
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher
from passat.rules.engine.trace import Application, Run
from passat.rules.engine.variant import Variant
from passat.rules.pattern import PConst, PVar, subterms


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
    matcher = application.matcher
    befores: list[Expr] = []
    plain = matcher.matcher if isinstance(matcher, Grouper) else matcher
    for placed in application.matched:
        found = part.match(plain, placed.variant, placed.row)
        if found is None:
            return None
        befores.append(found)
    afters = part.made([node for _, node in application.unions], application.made)
    if afters is None or len(befores) != len(afters):
        return None
    before, after = (sides[0] if len(sides) == 1 else Tuple(tuple(sides)) for sides in (befores, afters))
    used = {*map(id, free_vars(before)), *map(id, free_vars(after))}
    params = [var for var in part.params if id(var) in used]
    try:
        first, second = (infer_type(Function(params, body)) for body in (before, after))
    except InferError:  # a type depends on elements of a constant that became a parameter
        return None
    return Matched(first, second, tuple(dict.fromkeys(node for placed in application.matched for node in placed.nodes)))


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

    def match(self, matcher: Matcher, variant: Variant, row: Sequence[int]) -> Expr | None:
        """The matched left side, with operands in their order in the program. None if a hole cannot become a parameter."""
        names = {node.key: node.name for node in subterms(matcher.rule.lhs) if isinstance(node, (PVar, PConst))}
        asked = {node.key for node in subterms(matcher.rule.lhs) if isinstance(node, PConst)}
        count = len(matcher.class_keys)
        columns: dict[int, int] = {}
        hints: dict[int, str] = {}
        must: set[int] = set()
        for key, register, cls in zip(matcher.class_keys, variant.classes, row[:count], strict=True):
            columns[register] = cls
            if key in names:
                hints[register] = names[key]
            if key in asked:
                must.add(register)
        payloads = dict(zip(variant.payloads, row[count:], strict=True))
        below: dict[int, dict[int, int]] = {}
        symbols: dict[int, Symbol | None] = {0: matcher.root}
        for whole, i, register, expected in variant.steps:
            below.setdefault(whole, {})[i] = register
            symbols[register] = expected
        made: dict[int, Expr] = {}
        stack = [0]
        while stack:
            register = stack[-1]
            if register in made:
                stack.pop()
                continue
            head, parts = symbols[register], _in_order(below, register)
            missing = [part for part in parts if part not in made]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if head is None or head.kind == CONST:
                found = self._hole(columns[register], hints.get(register, ""), register in must or register not in hints)
                if found is None:
                    return None
            else:
                found = self._apply(head, payloads.get(register, 0), [made[part] for part in parts])
            made[register] = found
        for register, cls in columns.items():
            self._bound.setdefault(cls, made[register])
            if register:
                self._later.setdefault(self.graph.find(cls), made[register])
        return made[0]

    def _hole(self, cls: int, hint: str, must: bool) -> Expr | None:
        known = self._bound.get(cls)
        if known is not None:
            return known
        constant = self.graph.constant_of(cls)
        if isinstance(constant, Tensor) and (must or self.constants):
            return Constant(constant)
        found = self._param(self.graph.types[self.graph.find(cls)], hint or "x")
        if found is not None:
            self._bound[cls] = found
        return found

    def _param(self, type_: Type, hint: str) -> Expr | None:
        """A parameter for a hole; for a tuple, one per field."""
        if isinstance(type_, TupleType):
            fields = [self._param(field, f"{hint}{i}") for i, field in enumerate(type_.fields)]
            return Tuple(tuple([field for field in fields if field is not None])) if None not in fields else None
        if not isinstance(type_, TensorType):
            return None
        name, number = hint, 1
        while name in self._names:
            number += 1
            name = f"{hint}_{number}"
        self._names.add(name)
        self.params.append(Var(name, type_))
        return self.params[-1]

    # ---- the right side

    def made(self, roots: Sequence[int], fresh: Iterable[int]) -> list[Expr] | None:
        """The expressions of the nodes created by an application, over the values that the match binds. None as for `match`."""
        graph, new = self.graph, set(fresh)
        done: dict[int, Expr] = {}
        stack = list(roots)
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            known = None if node in new else self._bound.get(node) or self._later.get(graph.find(node))
            if known is None and graph.symbols[node].kind == CONST:
                known = Constant(graph.tensors[graph.payloads[node]])
            if known is None and graph.symbols[node].kind not in (CALL, TUPLE, GET):
                known = self._param(graph.types[graph.find(node)], "x")
                if known is None:
                    return None
            missing = [] if known is not None else [part for part in graph.operands[node] if part not in done]
            if missing:
                stack += missing
                continue
            stack.pop()
            done[node] = known or self._apply(graph.symbols[node], graph.payloads[node], [done[part] for part in graph.operands[node]])
        return [done[root] for root in roots]

    def _apply(self, head: Symbol, payload: int, operands: Sequence[Expr]) -> Expr:
        if head.kind == TUPLE:
            return Tuple(tuple(operands))
        if head.kind == GET:
            return TupleGetItem(operands[0], payload)
        assert head.op is not None
        return Call(head.op, tuple(operands), self.graph.attrs[payload] if head.has_payload else EMPTY_ATTRS)


def _in_order(below: Mapping[int, Mapping[int, int]], register: int) -> list[int]:
    """The registers of the operands of a node, in order."""
    return [part for _, part in sorted(below.get(register, {}).items())]
