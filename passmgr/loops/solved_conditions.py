"""The values of a loop variable for which conditions in the loop are known to hold, or not to hold.

A condition of integers is a set of polynomials that are nonnegative (`passat.ir.tir.linear`). The variables of inner loops are replaced by
their bounds, then the polynomials are solved for the loop variable.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.arithmetic import EQ, GE, GT, LE, LT, NE, And, CmpOp, Max, Min, Not, Or
from passat.ir.tir.expr import Call, IntImm, PrimExpr, Var
from passat.ir.tir.functor import children, post_order, substitute
from passat.ir.tir.linear import Polynomial, Polynomials
from passat.ir.tir.ranges import IterVar, Reduce
from passat.ir.tir.stmt import Allocate, AttrStmt, For, LetStmt, Stmt
from passat.ir.tir.values import Let
from passat.passmgr.loops.effects import is_total, mentions

_SETS: Final = 8
"""Maximum number of sets of inequalities for a condition, only one of which must hold."""
_SIZE: Final = 64
"""Maximum number of inequalities of a set."""


@dataclass(frozen=True)
class Fact:
    """A condition has a value if the loop variable is at least `low` and less than `end`; None for any number."""

    condition: PrimExpr
    value: bool
    low: Polynomial | None
    end: Polynomial | None


@dataclass(frozen=True)
class Scope:
    """The variables of the loops and threads around an expression, from outer to inner, and the values of others."""

    variables: tuple[Var, ...] = ()
    values: Mapping[Var, PrimExpr] = field(default_factory=dict)

    def value(self, expr: PrimExpr) -> PrimExpr:
        """An expression of the variables."""
        return substitute(expr, self.values) if self.values else expr


_Inequality = tuple[Polynomial, Sequence[Var]]
"""A polynomial that is nonnegative, and the variables in whose scope it is."""


def is_likely(node: object) -> bool:
    """Whether a node is a condition that usually holds."""
    return isinstance(node, Call) and node.op.name == "tir.likely"


def limited(polynomials: Polynomials, node: Stmt) -> Var | None:
    """The variable that a statement defines, with the range of its values made known; None if there is none."""
    if isinstance(node, For):
        var, low, extent = node.loop_var, node.min, node.extent
    elif isinstance(node, AttrStmt) and isinstance(node.node, IterVar):
        var, low, extent = node.node.var, IntImm(node.node.var.dtype, 0), node.value
        if node.attr_key not in ("thread_extent", "virtual_thread"):
            return None
    elif isinstance(node, LetStmt):
        known = node.var.type.is_index and is_total(node.value)
        value = polynomials.of(node.value) if known else None
        polynomials.limit(node.var, value, value)
        return node.var
    else:
        return node.buffer_var if isinstance(node, Allocate) else None
    known = var.type.is_index and extent.type.is_index and is_total(low) and is_total(extent)
    polynomials.limit(var, low if known else None, low + extent - 1 if known else None)
    return var


def facts(var: Var, body: Stmt, outer: Sequence[Var], compared: bool, polynomials: Polynomials) -> Iterator[Fact]:
    """What is known of the likely conditions of a loop for some values of its variable; with `compared`, also of all comparisons.

    `outer` are variables around the loop on which the facts must not depend.
    """
    for condition, scope in _conditions(body, outer, compared, polynomials).values():
        for value, sets in _inequalities(condition, scope, polynomials).items():
            for needed in sets:
                fact = _fact(var, condition, value, needed, polynomials)
                if fact is not None:
                    yield fact


def _conditions(body: Stmt, outer: Sequence[Var], compared: bool, polynomials: Polynomials) -> dict[int, tuple[PrimExpr, Scope]]:
    """The conditions by identity, each with a scope in which it occurs; the variables of a condition are the same in all of them."""
    found: dict[int, tuple[PrimExpr, Scope]] = {}
    stack: list[tuple[Stmt, Scope]] = [(body, Scope(tuple(outer)))]
    while stack:
        node, scope = stack.pop()
        for child in children(node):
            if isinstance(child, PrimExpr):
                for condition in _in_expression(child, compared):
                    found.setdefault(id(condition), (condition, scope))
        inner = _inner(node, scope, polynomials)
        stack += [(child, inner) for child in reversed(children(node)) if isinstance(child, Stmt)]
    return found


def _inner(node: Stmt, scope: Scope, polynomials: Polynomials) -> Scope:
    """The scope of the statements in a statement."""
    if scope.values and isinstance(node, (For, AttrStmt, LetStmt)):
        names = ("min", "extent") if isinstance(node, For) else ("value",)
        node = node.with_fields(**{name: scope.value(getattr(node, name)) for name in names})
    var = limited(polynomials, node)
    if var is None:
        return scope
    if isinstance(node, LetStmt) and is_total(node.value):
        return replace(scope, values={**scope.values, node.var: node.value})
    return replace(scope, variables=(*scope.variables, var))


def _in_expression(expr: PrimExpr, compared: bool) -> Iterator[PrimExpr]:
    """The conditions in an expression, except for those with variables that are defined in it."""
    parts = post_order(expr)
    found = [part for part in parts if is_likely(part) or (compared and isinstance(part, CmpOp) and part.a.type.is_index)]
    if not found:
        return
    defined: set[Var] = set()
    for part in parts:
        if isinstance(part, Let):
            defined.add(part.var)
        elif isinstance(part, Reduce):
            defined.update(axis.var for axis in part.axis)
    for part in found:
        assert isinstance(part, PrimExpr)
        if part.lanes == 1 and not (defined and mentions(part, defined)):
            yield part


def _inequalities(condition: PrimExpr, scope: Scope, polynomials: Polynomials) -> dict[bool, list[list[_Inequality]]]:
    """For each value of a condition, sets of inequalities; if all of a set hold, the condition has the value."""
    done: dict[int, dict[bool, list[list[_Inequality]]]] = {}
    for part in post_order(condition):
        found: dict[bool, list[list[_Inequality]]] = {True: [], False: []}
        if isinstance(part, (And, Or)):
            a, b = done[id(part.a)], done[id(part.b)]
            both = isinstance(part, And)
            joined = [[*one, *other] for one, other in product(a[both], b[both])]
            found = {both: [needed for needed in joined if len(needed) <= _SIZE][:_SETS], not both: (a[not both] + b[not both])[:_SETS]}
        elif isinstance(part, Not):
            found = {value: done[id(part.a)][not value] for value in (True, False)}
        elif isinstance(part, Call) and is_likely(part):
            found = done[id(part.args[0])]
        elif isinstance(part, CmpOp) and part.a.type.is_index:
            left, right = (polynomials.of(scope.value(side)) for side in (part.a, part.b))
            found = {
                value: [[(limit, scope.variables) for limit in needed] for needed in _compared(type(part), value, left, right)]
                for value in (True, False)
            }
        done[id(part)] = found
    return done[id(condition)]


def _compared(kind: type[CmpOp], value: bool, a: Polynomial, b: Polynomial) -> list[list[Polynomial]]:
    """Sets of polynomials; if all of a set are nonnegative, a comparison of two numbers has the value."""
    above: AnyValue = b - a
    below: AnyValue = a - b
    if kind in (EQ, NE):
        return [[above, below]] if (kind is EQ) is value else [[above - 1], [below - 1]]
    made = kind if value else _OPPOSITE[kind]
    return [[{LT: above - 1, LE: above, GT: below - 1, GE: below}[made]]]


_OPPOSITE: Final[dict[type[CmpOp], type[CmpOp]]] = {LT: GE, GE: LT, GT: LE, LE: GT}


def _fact(var: Var, condition: PrimExpr, holds: bool, needed: Sequence[_Inequality], polynomials: Polynomials) -> Fact | None:
    """The values of a variable for which all inequalities hold for all values of the others; None if unknown."""
    low: Polynomial | None = None
    end: Polynomial | None = None
    for value, variables in needed:
        parts = polynomials.without(value, variables, var)
        if parts is None:
            return None
        for part in parts:
            solved = polynomials.range_of(part, var)
            if solved is None:
                return None
            least, most = solved
            if not all(limit is None or usable(limit, var.dtype, polynomials) for limit in solved):
                return None
            if least is not None:
                low = least if low is None else polynomials.extreme(Max, low, least, var.dtype)
            if most is not None:
                after: AnyValue = most + 1
                end = after if end is None else polynomials.extreme(Min, end, after, var.dtype)
    return Fact(condition, holds, low, end)


def usable(value: Polynomial, dtype: str, polynomials: Polynomials) -> bool:
    """Whether a polynomial is a number of a type of indices, and may be evaluated anywhere."""
    return polynomials.fits(value, dtype) and is_total(polynomials.expr(value, dtype))
