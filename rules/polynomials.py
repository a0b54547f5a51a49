"""Polynomials of integer expressions: an e-class analysis that writes sums, differences and products as polynomials over *atoms*.

An atom is an e-class without such a form (a variable, a quotient, a minimum), named after the e-class: `e17`. Sums with the same terms in
any order have the same polynomial (`passat.ir.shape.SymDim`), so that rules need neither associativity nor commutativity. An e-class with
several forms gets the lightest one: a remainder counts as heavy, since `x - x//c*c` is written with quotients alone.

Polynomials are exact if arithmetic does not overflow. Their bounds follow from the value ranges of the atoms (`passat.rules.ranges`); a
quotient whose dividend occurs as well is replaced by the dividend minus a remainder: `x - x//4*4` lies in [0, 3] for every x.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any as AnyValue
from typing import Final, NamedTuple

import numpy as np

from passat.ir.op import get_op
from passat.ir.shape import Any, Dim, Monomial, SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, Type
from passat.rules.analysis import Analysis, Made
from passat.rules.guards import Applied, Reject, Term, Tree
from passat.rules.range_guards import RANGES
from passat.rules.ranges import limits_of


class Bounds(NamedTuple):
    """A closed interval of integers; infinite where nothing is known."""

    low: float
    high: float

    def __add__(self, other: "Bounds") -> "Bounds":  # type: ignore[override]  # intervals are added, not concatenated
        return Bounds(self.low + other.low, self.high + other.high)

    def times(self, other: "Bounds") -> "Bounds":
        """The bounds of products."""
        found = [_product(a, b) for a in self for b in other]
        return Bounds(min(found), max(found))

    def meet(self, other: "Bounds") -> "Bounds":
        """The intersection."""
        return Bounds(max(self.low, other.low), min(self.high, other.high))


ALL = Bounds(-math.inf, math.inf)


def _product(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def bounds_of_term(x: Term) -> Bounds:
    """The bounds of a term by its value range; the limits of the element type count as unbounded, since arithmetic does not overflow."""
    found, limits = x.fact(RANGES), limits_of(x.type.dtype)
    if found is None or limits is None:
        return ALL
    return Bounds(-math.inf if found.low <= limits.low else found.low, math.inf if found.high >= limits.high else found.high)


def bounds_of(dim: Dim, x: Term) -> Bounds:
    """The bounds of a polynomial over atoms of the e-graph of a term."""
    found = _sum(dim, x)
    for names, factor in terms_of(dim):
        if len(names) != 1 or not (found.low == -math.inf or found.high == math.inf or found.low < found.high):
            continue
        atom = x.of_class(class_of(names[0]))
        for name, truncates in (("floor_divide", False), ("divide", True)):
            for dividend, divisor in atom.calls(name):
                by = polynomial(divisor)
                if isinstance(by, int) and by > 0 and factor % by == 0:
                    # c*(p//c) is p - r, and r is the remainder
                    rest = dim - SymDim.named(names[0]) * factor + polynomial(dividend) * (factor // by)
                    remainder = Bounds(1 - by if truncates else 0, by - 1)
                    found = found.meet(_sum(rest, x) + remainder.times(Bounds(-factor // by, -factor // by)))
    return found


def _sum(dim: Dim, x: Term) -> Bounds:
    total = Bounds(0, 0)
    for names, factor in terms_of(dim):
        part = Bounds(factor, factor)
        for name in dict.fromkeys(names):
            power, bounds = names.count(name), bounds_of_term(x.of_class(class_of(name)))
            if power % 2 == 0:
                size = Bounds(0 if bounds.low <= 0 <= bounds.high else min(abs(bounds.low), abs(bounds.high)), max(map(abs, bounds)))
                bounds, power = size.times(size), power // 2
            whole = bounds
            for _ in range(power - 1):
                whole = whole.times(bounds)
            part = part.times(whole)
        total += part
    return total


INDICES: Final = frozenset({"int32", "int64"})
_HEAVY: Final = 1000
"""Weight of calls for which a rule knows a form over lighter atoms."""
_MOST_TERMS: Final = 32
_MOST: Final = 1 << 62
"""Bounds on the terms and the coefficients of a polynomial; larger ones stay calls."""


class Form(NamedTuple):
    """The polynomial of an e-class (None if it is an atom), its weight, and the weights of its atoms."""

    dim: Dim | None
    weight: int
    atoms: Mapping[str, int] = {}

    def of(self, cls: int) -> "Form":
        """The form in which users of an e-class see it."""
        if self.dim is not None:
            return self
        name = f"e{cls}"
        return Form(SymDim.named(name), self.weight, {name: self.weight})


class Polynomials(Analysis[Form]):
    """The polynomials of scalar integers."""

    names_classes = True

    def known(self, type_: TensorType, constant: Tensor | None) -> Form | None:
        """The value of a constant, otherwise an atom."""
        if type_.dtype not in INDICES or type_.shape:
            return None
        if constant is None:
            return Form(None, 2)
        return Form(int(constant.numpy()), 1)

    def make(self, call: Made, facts: Sequence[AnyValue]) -> Form | None:
        """The polynomial of a sum or product of scalars; any other call is an atom that weighs more than its operands."""
        if not _is_index(call.type):
            return None
        if call.op.name in _COMPUTE and all(fact is not None for fact in facts):
            found = _combined(call.op.name, [fact.of(cls) for fact, cls in zip(facts, call.operands, strict=True)])
            if found is not None:
                return found
        weight = 2 + 3 * sum(fact.weight if isinstance(fact, Form) else 2 for fact in facts)
        return Form(None, weight + (_HEAVY if _is_heavy(call.op.name, facts) else 0))

    def merge(self, one: Form, other: Form) -> Form:
        """The lighter form; an atom before a polynomial of the same weight."""
        return min(one, other, key=_rank)


POLYNOMIALS: Final = Polynomials()
"""The analysis; in a guard, `x.fact(POLYNOMIALS)` is the form of a term."""


def _is_index(type_: Type) -> bool:
    return isinstance(type_, TensorType) and type_.dtype in INDICES and not type_.shape


def _is_heavy(name: str, facts: Sequence[AnyValue]) -> bool:
    """True if a rule of `passat.rules.library.index_arithmetic` or `index_logic` has another form for the call."""
    if name in ("floor_mod", "fmod", "maximum"):
        return True
    dims = [fact.dim if isinstance(fact, Form) else None for fact in facts]
    if name == "minimum":
        return dims[1] != 0 or (dims[0] is not None and (_content(dims[0]) > 1 or leads_negative(dims[0])))
    if name == "where":
        return dims[2] != 0 or (dims[1] is not None and dims[1] != 1)
    if name not in ("floor_divide", "divide") or not isinstance(dims[1], int):
        return False
    by, dividend = dims[1], dims[0] or 0
    if by <= 0 or name == "divide":
        return by <= 0
    return any(not -by < factor < by or (not names and factor < 0) for names, factor in terms_of(dividend))


def _content(dim: Dim) -> int:
    return math.gcd(*(factor for _, factor in terms_of(dim)))


def _rank(form: Form) -> tuple[int, bool, tuple[tuple[Monomial, int], ...]]:
    terms = form.dim.terms if isinstance(form.dim, SymDim) else ()
    return form.weight, form.dim is not None, terms


_COMPUTE: Final[Mapping[str, Callable[..., Dim]]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negative": operator.neg,
}


def _combined(name: str, forms: Sequence[Form]) -> Form | None:
    """The form of a sum or product; None if it is too large."""
    dims = [form.dim for form in forms if form.dim is not None]
    found = _COMPUTE[name](*dims)
    atoms = dict(chain.from_iterable(form.atoms.items() for form in forms))
    return formed(found, atoms)


def formed(dim: Dim, atoms: Mapping[str, int]) -> Form | None:
    """The form of a polynomial over weighted atoms; None if it is too large."""
    if isinstance(dim, Any):
        return None
    if not isinstance(dim, SymDim):
        return Form(dim, 1) if abs(dim) < _MOST else None
    if len(dim.terms) > _MOST_TERMS or any(abs(factor) >= _MOST for _, factor in dim.terms):
        return None
    names = {name for names, _ in dim.terms for name in names}
    weight = sum(sum(atoms[name] for name in monomial) + abs(factor).bit_length() - 1 for monomial, factor in dim.terms)
    return Form(dim, weight, {name: atoms[name] for name in names})


# ---- in rules


def polynomial(x: Term) -> Dim:
    """The polynomial of a term. Rejects anything but scalar integers."""
    form = x.fact(POLYNOMIALS)
    if form is None or not _is_index(x.type):
        raise Reject(f"{x.type!r} is not the type of a scalar integer")
    found = form.of(x.cls).dim if form.dim is None else form.dim
    assert found is not None
    return found


def terms_of(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    """The terms of a polynomial; the monomial of the constant is empty."""
    if isinstance(dim, SymDim):
        return dim.terms
    assert not isinstance(dim, Any)
    return (((), dim),) if dim else ()


def constant_in(dim: Dim) -> int:
    """The constant term."""
    return dict(terms_of(dim)).get((), 0)


def class_of(atom: str) -> int:
    """The e-class that an atom names."""
    return int(atom[1:])


def atom_in(dim: Dim) -> tuple[str, int, int] | None:
    """The atom, the factor and the constant of a polynomial with one linear term; None for others."""
    others = [term for term in terms_of(dim) if term[0]]
    if len(others) != 1 or len(others[0][0]) != 1:
        return None
    return others[0][0][0], others[0][1], constant_in(dim)


def leads_negative(dim: Dim) -> bool:
    """True if the first term in canonical order has a negative factor."""
    return first_factor(dim) < 0


def first_factor(dim: Dim) -> int:
    """The factor of the first term in canonical order, preferably not the constant; 0 for 0."""
    ordered = in_order(dim)
    return ordered[0][1] if ordered else 0


def in_order(dim: Dim) -> list[tuple[Monomial, int]]:
    """The terms of a polynomial in canonical order: products of fewer atoms and older atoms first, the constant last."""
    return sorted(terms_of(dim), key=lambda term: (not term[0], len(term[0]), sorted(map(class_of, term[0]))))


def tree_of(dim: Dim, x: Term) -> Tree:
    """A polynomial as calls of add, subtract and multiply, in canonical form; `x` is any term of the match and has the element type."""

    def product(monomial: Monomial, factor: int) -> Tree:
        if not monomial:
            return integer(factor, x)
        found: Tree = x.of_class(class_of(monomial[0]))
        for name in sorted(monomial, key=class_of)[1:] if len(monomial) > 1 else ():
            found = apply("multiply", found, x.of_class(class_of(name)))
        return found if factor == 1 else apply("multiply", found, integer(factor, x))

    terms = [(tuple(sorted(monomial, key=class_of)), factor) for monomial, factor in in_order(dim)]
    positive = [term for term in terms if term[1] > 0]
    if not positive:
        if len(terms) == 1 and terms[0][1] != -1:
            return product(*terms[0])
        total: Tree = integer(0, x)
        rest = terms
    else:
        total, rest = product(*positive[0]), [term for term in terms if term is not positive[0]]
    for monomial, factor in rest:
        if not monomial:
            total = apply("add", total, integer(factor, x))
        else:
            total = apply("add" if factor > 0 else "subtract", total, product(monomial, abs(factor)))
    return total


def apply(name: str, *operands: Tree) -> Applied:
    """A call in a tree."""
    return Applied(get_op(name), operands)


def integer(value: int, x: Term) -> Tensor:
    """A scalar constant of the element type of a term. Rejects values that the type cannot represent."""
    limits = np.iinfo(x.type.dtype)
    if not limits.min <= value <= limits.max:
        raise Reject(f"{x.type.dtype} cannot represent {value}")
    return Tensor.dense(np.asarray(value, x.type.dtype))
