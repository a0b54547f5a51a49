"""What is known about integer expressions of loops: bounds, modular sets, simpler forms and proofs (TVM's `arith.Analyzer`)."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import ClassVar, Final, NamedTuple

from passat.ir.dtypes import INTEGERS
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.tir import arithmetic as tir
from passat.ir.tir.expr import IntImm, PrimExpr, SizeVar, Var, convert
from passat.ir.tir.ranges import Range
from passat.ir.types import TensorType
from passat.rules.analysis import Analysis, Made
from passat.rules.passes.index_expressions import Reader, Span, call, integer, truth
from passat.rules.passes.index_saturation import IndexGraph, Simplified, is_simplified
from passat.rules.range_guards import RANGES

_LARGEST: Final = 1 << 62


@dataclass
class ConstIntBound:
    """The least and the greatest value of an integer."""

    min_value: int
    max_value: int

    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = -POS_INF


@dataclass
class ModularSet:
    """The integers `coeff*k + base`."""

    coeff: int
    base: int


class Analyzer:
    """Answers questions about integer expressions, given bounds, values and congruences of variables, and conditions that hold."""

    def __init__(self) -> None:
        self._spans: dict[Var, Span] = {}
        self._values: dict[Var, PrimExpr] = {}
        self._sets: dict[Var, Modular] = {}
        self._conditions: list[PrimExpr] = []

    # ---- what is known

    def update(self, var: Var, info: ConstIntBound | ModularSet, override: bool = False) -> None:
        """Adds bounds or a modular set of a variable; `override` replaces earlier ones. Raises TypeError for anything else."""
        if isinstance(info, ConstIntBound):
            found = Span(info.min_value, info.max_value)
            self._spans[var] = found if override or var not in self._spans else _meet(self._spans[var], found)
        elif isinstance(info, ModularSet):
            made = Modular.of(info.coeff, info.base)
            self._sets[var] = made if override or var not in self._sets else self._sets[var].meet(made)
        else:
            raise TypeError(f"update takes a ConstIntBound or a ModularSet, not a {type(info).__name__}")

    def bind(self, var: Var, expr: AnyValue) -> None:
        """Gives a variable a value, or a range of values."""
        if not isinstance(expr, Range):
            self._values[var] = convert(expr)
            return
        least, most = self.const_int_bound(expr.min), self.const_int_bound(expr.min + expr.extent - 1)
        self._spans[var] = Span(least.min_value, most.max_value)

    @contextmanager
    def constraint_scope(self, constraint: AnyValue) -> Iterator[None]:
        """A context in which a condition holds."""
        before = dict(self._spans), dict(self._sets), list(self._conditions)
        for part in _conjuncts(convert(constraint)):
            self._assume(part)
        try:
            yield
        finally:
            self._spans, self._sets, self._conditions = before

    def _assume(self, condition: PrimExpr) -> None:
        self._conditions.append(condition)
        for left, right, sign in (
            ((condition.a, condition.b, 1), (condition.b, condition.a, -1)) if isinstance(condition, tir.CmpOp) else ()
        ):
            bound = self.const_int_bound(right) if is_simplified(right) else None
            if isinstance(left, Var) and bound is not None:
                found = _implied(condition, bound, sign)
                if found is not None:
                    known = self.const_int_bound(left)
                    self._spans[left] = _meet(Span(known.min_value, known.max_value), found)
            if isinstance(condition, tir.EQ) and isinstance(left, (tir.Mod, tir.FloorMod)):
                variable, divisor = left.a, left.b
                if isinstance(variable, Var) and isinstance(divisor, IntImm) and isinstance(right, IntImm):
                    self.update(variable, ModularSet(divisor.value, right.value))

    # ---- answers

    def const_int_bound(self, expr: AnyValue) -> ConstIntBound:
        """The bounds of an expression."""
        graph = IndexGraph([self.reader().read(convert(expr))])
        found = graph.graph.fact(RANGES, graph.nodes[0])
        if found is None:
            return ConstIntBound(ConstIntBound.NEG_INF, ConstIntBound.POS_INF)
        low = ConstIntBound.NEG_INF if found.low <= -_LARGEST else int(found.low)
        return ConstIntBound(low, ConstIntBound.POS_INF if found.high >= _LARGEST else int(found.high))

    def modular_set(self, expr: AnyValue) -> ModularSet:
        """The modular set of an expression."""
        reader = self.reader()
        for var, found in self._sets.items():
            quotient = reader.read(Var(f"{var.name}_quotient", "int64"))
            reader.bind_expression(var, call("add", call("multiply", quotient, integer(found.coeff)), integer(found.base)))
        graph = IndexGraph([reader.read(convert(expr))])
        return ModularSet(*graph.graph.fact(MODULAR_SETS, graph.nodes[0]))

    def simplify(self, expr: AnyValue, steps: int = 2) -> PrimExpr:
        """The smallest form of an expression that the rules find; `steps` is accepted for TVM's signature."""
        node = convert(expr)
        made: PrimExpr = Simplified([node], self.reader()).place(node)
        return made

    rewrite_simplify = canonical_simplify = simplify

    def can_prove(self, condition: AnyValue) -> bool:
        """True if the rules show that a condition holds."""
        reader = self.reader()
        asked = reader.read(convert(condition))
        for given in self._conditions:
            asked = call("logical_or", call("logical_not", reader.read(given)), asked)
        return IndexGraph([asked, truth(True)]).same(0, 1)

    def can_prove_equal(self, lhs: AnyValue, rhs: AnyValue) -> bool:
        """True if the rules show that two expressions are equal."""
        reader = self.reader()
        return IndexGraph([reader.read(convert(lhs)), reader.read(convert(rhs))]).same(0, 1)

    def bound(self, var: Var, span: Span) -> None:
        """Sets the bounds of a variable."""
        self._spans[var] = span

    def reader(self) -> Reader:
        """A reader of expressions that knows bounds and values."""
        reader = Reader(self._span)
        for var, value in self._values.items():
            reader.bind(var, value)
        return reader

    def _span(self, var: Var) -> Span | None:
        found = self._spans.get(var)
        return found if found is None or not isinstance(var, SizeVar) else _meet(found, Span(0, None))


def _meet(one: Span, other: Span) -> Span:
    lows = [low for low in (one.low, other.low) if low is not None]
    highs = [high for high in (one.high, other.high) if high is not None]
    return Span(max(lows, default=None), min(highs, default=None))


def _conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    return [*_conjuncts(condition.a), *_conjuncts(condition.b)] if isinstance(condition, tir.And) else [condition]


def _implied(condition: PrimExpr, bound: ConstIntBound, sign: int) -> Span | None:
    """The bounds of the left side of a comparison with a right side within bounds; `sign` is -1 for swapped sides."""
    low, high = bound.min_value, bound.max_value
    less, greater = isinstance(condition, (tir.LT, tir.LE)), isinstance(condition, (tir.GT, tir.GE))
    strict = isinstance(condition, (tir.LT, tir.GT))
    if sign < 0:
        less, greater = greater, less
    if isinstance(condition, tir.EQ):
        return Span(low, high)
    if less:
        return Span(None, high - strict)
    return Span(low + strict, None) if greater else None


class Modular(NamedTuple):
    """The integers `coeff*k + base`; `base` is reduced by `coeff`."""

    coeff: int
    base: int

    @staticmethod
    def of(coeff: int, base: int) -> "Modular":
        """The set with a reduced base."""
        return Modular(abs(coeff), base % coeff if coeff else base)

    def union(self, other: "Modular") -> "Modular":
        """The smallest set that contains both."""
        return Modular.of(math.gcd(self.coeff, other.coeff, self.base - other.base), self.base)

    def meet(self, other: "Modular") -> "Modular":
        """The intersection, by the Chinese remainder theorem; this set if they are disjoint."""
        if not self.coeff or not other.coeff:
            return self if not self.coeff else other
        by = math.gcd(self.coeff, other.coeff)
        if (self.base - other.base) % by:
            return self
        step = (other.base - self.base) // by * pow(self.coeff // by, -1, other.coeff // by) if other.coeff != by else 0
        return Modular.of(self.coeff // by * other.coeff, self.base + self.coeff * step)


ANY: Final = Modular(1, 0)


class ModularSets(Analysis[Modular]):
    """What a scalar integer is congruent to: a fact `(4, 1)` means 4*k + 1 for some k; `(0, 7)` means 7. Congruences hold for the integers
    that expressions stand for: index arithmetic does not overflow."""

    def known(self, type_: TensorType, constant: Tensor | None) -> Modular | None:
        """The value of a constant, otherwise all integers."""
        if type_.dtype not in INTEGERS or type_.shape:
            return None
        return ANY if constant is None else Modular(0, int(constant.numpy()))

    def reads(self, op: Op) -> bool:
        """True for the operators of index arithmetic."""
        return op.name in _OF

    def make(self, call: Made, facts: Sequence[AnyValue]) -> Modular | None:
        """The set of a call, from those of its operands."""
        if not isinstance(call.type, TensorType) or call.type.dtype not in INTEGERS or call.type.shape:
            return None
        sets = facts[1:] if call.op.name == "where" else facts
        return None if any(fact is None for fact in sets) else _OF[call.op.name](*sets)

    def merge(self, one: Modular, other: Modular) -> Modular:
        """The intersection."""
        return one.meet(other)


MODULAR_SETS: Final = ModularSets()
"""The analysis; in a guard, `x.fact(MODULAR_SETS)` is the set of a term."""


def _floor_divide(x: Modular, y: Modular) -> Modular:
    known = not y.coeff and y.base and not x.coeff % y.base
    return Modular.of(x.coeff // y.base, x.base // y.base) if known else ANY


def _divide(x: Modular, y: Modular) -> Modular:
    return _floor_divide(x, y) if y.base and not x.base % y.base else ANY


_OF: Final[dict[str, Callable[..., Modular]]] = {
    "add": lambda x, y: Modular.of(math.gcd(x.coeff, y.coeff), x.base + y.base),
    "subtract": lambda x, y: Modular.of(math.gcd(x.coeff, y.coeff), x.base - y.base),
    "multiply": lambda x, y: Modular.of(math.gcd(x.coeff * y.coeff, x.coeff * y.base, y.coeff * x.base), x.base * y.base),
    "negative": lambda x: Modular.of(x.coeff, -x.base),
    "floor_divide": _floor_divide,
    "divide": _divide,
    **dict.fromkeys(("floor_mod", "fmod"), lambda x, y: Modular.of(math.gcd(x.coeff, y.base), x.base) if not y.coeff else ANY),
    **dict.fromkeys(("minimum", "maximum", "where"), Modular.union),
}
