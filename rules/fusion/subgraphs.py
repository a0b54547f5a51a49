"""Patterns of the rule language found in expressions as they stand: node by node, without an e-graph."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import TypeAlias

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.known import known_value
from passat.ir.types import TupleType
from passat.rules.conditions import Condition, Refuse, Term
from passat.rules.pattern import (
    AttrHole,
    Computed,
    Pattern,
    PCall,
    PConst,
    PGet,
    PLiteral,
    PTuple,
    PVar,
    RuleError,
    holes_of,
    pattern_parts,
    tensor_holes,
)

Key: TypeAlias = tuple[AnyValue, ...]
_Work: TypeAlias = "tuple[Pattern, Expr, _Work] | None"
"""What is still to be compared: a linked list, so that two ways to go on share it."""


class Match:
    """Where a pattern stands: what its terms are (`bound`, by their keys), and the attributes that it binds.

    `inner` are the nodes that the pattern names, the root among them; `leaves` the patterns of its holes and numbers, from left to right.
    """

    __slots__ = ("attrs", "bound", "inner", "leaves", "root")

    def __init__(self, root: Expr, pattern: Pattern, bound: Mapping[Key, Expr], attrs: Mapping[str, AnyValue]) -> None:
        self.root = root
        self.bound = bound
        self.attrs = attrs
        terms = list(_left_to_right(pattern))
        self.leaves = [term for term in terms if isinstance(term, (PVar, PConst, PLiteral))]
        self.inner = {id(bound[term.key]) for term in terms if not isinstance(term, (PVar, PConst, PLiteral))}

    def refusal(self, conditions: Sequence[Condition]) -> str:
        """Why the first condition that does not hold refuses; the empty text where all hold."""
        for condition in conditions:
            try:
                answer = condition.function(*[self._value(arg) for arg in condition.args])
            except Refuse as refuse:
                return f"{condition!r}: {refuse}"
            if reason := condition.refusal(answer, "of a composite function"):
                return f"{condition!r}: {reason}"
        return ""

    def _value(self, argument: AnyValue) -> AnyValue:
        if isinstance(argument, AttrHole):
            return self.attrs[argument.name]
        if isinstance(argument, Computed):
            return argument.function(*[self._value(arg) for arg in argument.args])
        if isinstance(argument, Pattern):
            return self._term(argument)
        return tuple(map(self._value, argument)) if isinstance(argument, (tuple, list)) else argument

    def _term(self, pattern: Pattern) -> Term:
        expr = self.bound.get(pattern.key)
        if expr is not None:
            return Term(expr.checked_type, expr.data if isinstance(expr, Constant) else None, known_value(expr))
        types = [self._term(part).type_ for part in pattern_parts(pattern)]
        if isinstance(pattern, PCall):
            given = {name: self._value(value) for name, value in pattern.attrs.items() if name != "attrs"}
            whole = self._value(pattern.attrs["attrs"]) if "attrs" in pattern.attrs else {}
            kept = {name: value for name, value in whole.items() if name in pattern.op.attr_params}
            return Term(pattern.op.infer(types, pattern.op.bind_attrs({**kept, **given})))
        if isinstance(pattern, PTuple):
            return Term(TupleType(types))
        raise Refuse(f"{pattern!r} has no type here")


def matches(pattern: Pattern, root: Expr) -> Iterator[Match]:
    """Every way in which a pattern stands at an expression: operands of commutative operators in both orders, the written one first.

    A hole that occurs twice is one node, or equal constants. Lets are not looked through.
    """
    ways: list[tuple[_Work, dict[Key, Expr], dict[str, AnyValue]]] = [((pattern, root, None), {}, {})]
    while ways:
        work, bound, attrs = ways.pop()
        while work is not None:
            term, expr, work = work
            known = bound.get(term.key)
            if known is not None:
                if not _same(known, expr):
                    break
                continue
            parts = _parts(term, expr, attrs)
            if parts is None:
                break
            bound[term.key] = expr
            operands = pattern_parts(term)
            if isinstance(term, PCall) and term.op.commutative and operands[0].key != operands[1].key:
                ways.append((_then(operands, parts[::-1], work), dict(bound), dict(attrs)))
            work = _then(operands, parts, work)
        else:
            yield Match(root, pattern, bound, attrs)


def check_pattern(pattern: object, conditions: Sequence[Condition]) -> Pattern:
    """The pattern, if it is one that can be looked for, with conditions on what it binds. Raises RuleError, TypeError where it is none."""
    if not isinstance(pattern, Pattern):
        raise TypeError(f"a pattern is a term of the rule language (passat.rules.pattern), not {pattern!r}")
    if not isinstance(pattern, (PCall, PTuple, PGet)):
        raise RuleError(f"the pattern {pattern!r} must apply an operator; a bare hole would match everything")
    for term in _left_to_right(pattern):
        if isinstance(term, PCall) and any(isinstance(value, Computed) for value in term.attrs.values()):
            raise RuleError(f"{term!r}: a value is computed in the pattern; bind it to a hole and state a condition")
    for condition in conditions:
        if not isinstance(condition, Condition):
            raise TypeError(f"{condition!r} is no condition (passat.rules.conditions)")
        unbound = (tensor_holes(condition.args) - tensor_holes(pattern)) | (holes_of(condition.args) - holes_of(pattern))
        if unbound:
            raise RuleError(f"the condition {condition!r} uses {sorted(unbound)[0]!r}, which the pattern does not bind")
    return pattern


def _parts(term: Pattern, expr: Expr, attrs: dict[str, AnyValue]) -> Sequence[Expr] | None:
    """The parts of an expression that stand for those of a term; None where it is something else. Binds attributes."""
    if isinstance(term, PVar):
        return ()
    if isinstance(term, (PConst, PLiteral)):
        if not isinstance(expr, Constant):
            return None
        return () if isinstance(term, PConst) or expr.data.uniform() == term.value else None
    if isinstance(term, PCall) and isinstance(expr, Call) and expr.op is term.op and len(expr.args) == len(term.args):
        return expr.args if _bind_attrs(term, expr.attrs, attrs) else None
    if isinstance(term, PTuple) and isinstance(expr, Tuple) and len(expr.fields) == len(term.fields):
        return expr.fields
    if isinstance(term, PGet) and isinstance(expr, TupleGetItem) and expr.index == term.index:
        return (expr.tuple_value,)
    return None


def _bind_attrs(term: PCall, given: Attrs, attrs: dict[str, AnyValue]) -> bool:
    for name, wanted in term.attrs.items():
        value = given if name == "attrs" else given[name]
        if isinstance(wanted, AttrHole):
            if attrs.setdefault(wanted.name, value) != value:
                return False
        elif value != (tuple(wanted) if isinstance(wanted, list) else wanted):
            return False
    return True


def _then(terms: Sequence[Pattern], parts: Sequence[Expr], work: _Work) -> _Work:
    for term, part in zip(reversed(terms), reversed(parts), strict=True):
        work = (term, part, work)
    return work


def _same(a: Expr, b: Expr) -> bool:
    return a is b or (isinstance(a, Constant) and isinstance(b, Constant) and a.data == b.data)


def _left_to_right(pattern: Pattern) -> Iterator[Pattern]:
    """The terms of a pattern, each key once, parts before wholes."""
    seen: set[Key] = set()
    stack: list[tuple[Pattern, bool]] = [(pattern, False)]
    while stack:
        term, entered = stack.pop()
        if entered:
            yield term
        elif term.key not in seen:
            seen.add(term.key)
            stack.append((term, True))
            stack += [(part, False) for part in reversed(pattern_parts(term))]
