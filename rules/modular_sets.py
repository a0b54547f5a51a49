"""Modular sets: an e-class analysis of what an integer is congruent to. A fact `(4, 1)` means 4*k + 1 for some k; `(0, 7)` means 7.

Congruences hold for the integers that expressions stand for: index arithmetic does not overflow.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.dtypes import INTEGERS
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.analysis import Analysis, Made


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
    """The modular sets of scalar integers."""

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


def _add(x: Modular, y: Modular) -> Modular:
    return Modular.of(math.gcd(x.coeff, y.coeff), x.base + y.base)


def _subtract(x: Modular, y: Modular) -> Modular:
    return Modular.of(math.gcd(x.coeff, y.coeff), x.base - y.base)


def _multiply(x: Modular, y: Modular) -> Modular:
    return Modular.of(math.gcd(x.coeff * y.coeff, x.coeff * y.base, y.coeff * x.base), x.base * y.base)


def _floor_divide(x: Modular, y: Modular) -> Modular:
    if y.coeff or not y.base or x.coeff % y.base:
        return ANY
    return Modular.of(x.coeff // y.base, x.base // y.base)


def _divide(x: Modular, y: Modular) -> Modular:
    exact = not y.coeff and y.base and not x.coeff % y.base and not x.base % y.base
    return Modular.of(x.coeff // y.base, x.base // y.base) if exact else ANY


def _floor_mod(x: Modular, y: Modular) -> Modular:
    return Modular.of(math.gcd(x.coeff, y.base), x.base) if not y.coeff else ANY


_OF: Final[dict[str, Callable[..., Modular]]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "negative": lambda x: Modular.of(x.coeff, -x.base),
    "floor_divide": _floor_divide,
    "divide": _divide,
    "floor_mod": _floor_mod,
    "fmod": _floor_mod,
    "minimum": Modular.union,
    "maximum": Modular.union,
    "where": Modular.union,
}
