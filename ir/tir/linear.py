"""Integer expressions as polynomials, and what can be proved of them from the ranges of variables.

The polynomials are those of `passat.ir.shape`; an atom is a variable, or an expression that is not a polynomial. As indices do, expressions
are assumed not to overflow.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

from passat.ir.shape import ANY, Any, Dim, Monomial, SymDim, known_dim
from passat.ir.tir.arithmetic import Add, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Sub
from passat.ir.tir.equality import difference, digest
from passat.ir.tir.expr import Cast, IntImm, PrimExpr, SizeVar, Var, const
from passat.ir.tir.functor import post_order
from passat.ir.tir.types import DataType

Polynomial = int | SymDim
_STEPS: Final = 64
"""The maximum number of polynomials that a proof looks at."""


@dataclass(frozen=True)
class Quotient:
    """An atom that is a polynomial divided by a positive integer, rounded down."""

    dividend: Polynomial
    divisor: int


class Polynomials:
    """Polynomials of expressions, with names for their atoms.

    >>> n, polynomials = SizeVar("n"), Polynomials()
    >>> polynomials.constant((n + 2) - n)
    2
    >>> i = Var("i")
    >>> polynomials.limit(i, 0, n - 1)
    >>> polynomials.is_nonnegative(polynomials.of(n - i)), polynomials.is_nonnegative(polynomials.of(i - n))
    (True, False)
    """

    def __init__(self) -> None:
        self._names: dict[AnyValue, list[tuple[PrimExpr, str]]] = {}
        self._exprs: dict[str, PrimExpr] = {}
        self._forms: dict[str, Quotient | tuple[type, Polynomial, Polynomial]] = {}
        self._lowest: dict[str, Polynomial] = {}
        self._highest: dict[str, Polynomial] = {}
        self._steps = 0

    def of(self, expr: PrimExpr) -> Polynomial:
        """The polynomial of an expression."""
        done: dict[int, Polynomial] = {}
        for part in post_order(expr):
            if isinstance(part, PrimExpr) and part.type.is_integer:
                done[id(part)] = self._polynomial(part, done)
        return done[id(expr)]

    def constant(self, expr: PrimExpr) -> int | None:
        """The value of an expression that does not depend on variables; None for others."""
        if isinstance(expr, IntImm):
            return expr.value
        if not expr.type.is_index:
            return None
        value = self.of(expr)
        return value if isinstance(value, int) else None

    def expr(self, polynomial: Polynomial, dtype: str) -> PrimExpr:
        """The expression of a polynomial: positive terms, then negative ones, then the constant."""
        total: PrimExpr = const(0, dtype)
        terms = sorted(terms_of(polynomial), key=lambda term: (not term[0], term[1] < 0, -len(term[0]), term[0]))
        for monomial, coefficient in terms:
            product: PrimExpr = const(abs(coefficient), dtype)
            for name in monomial:
                product = self._exprs[name].astype(dtype) * product
            total = total - product if coefficient < 0 else total + product
        return total

    def limit(self, var: Var, lowest: AnyValue, highest: AnyValue) -> None:
        """States the lowest and the highest value of a variable; None for unknown."""
        name = self._name(var)
        for bounds, value in ((self._lowest, lowest), (self._highest, highest)):
            bounds.pop(name, None)
            if value is not None:
                bounds[name] = value if isinstance(value, (int, SymDim)) else self.of(value)

    def quotient(self, dividend: Polynomial, divisor: int) -> Polynomial:
        """The dividend by a positive integer, rounded down."""
        whole: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in terms_of(dividend):
            if coefficient % divisor == 0:
                whole[monomial] = coefficient // divisor
            elif not monomial:
                whole[monomial], rest[monomial] = divmod(coefficient, divisor)
            else:
                rest[monomial] = coefficient
        left = polynomial(rest)
        if isinstance(left, int):
            return known_dim(polynomial(whole) + left // divisor)
        dtype = self._dtype(left) if DataType.of("int32").holds(divisor) else "int64"
        made = FloorDiv(self.expr(left, dtype), const(divisor, dtype))
        name = self._name(made)
        self._forms[name] = Quotient(left, divisor)
        return known_dim(polynomial(whole) + SymDim.named(name))

    def _dtype(self, value: Polynomial) -> str:
        names = [name for monomial, _ in terms_of(value) for name in monomial]
        if not self.fits(value, "int32"):
            return "int64"
        return max((self._exprs[name].dtype for name in names), key=lambda dtype: (len(dtype), dtype), default="int32")

    def _polynomial(self, expr: PrimExpr, done: Mapping[int, Polynomial]) -> Polynomial:
        if isinstance(expr, IntImm):
            return expr.value
        made: Dim = ANY
        if isinstance(expr, Cast) and expr.type.is_index and expr.value.type.is_index and expr.type.bits >= expr.value.type.bits:
            return done[id(expr.value)]
        if isinstance(expr, (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)) and expr.type.is_index:
            a, b = done[id(expr.a)], done[id(expr.b)]
            if isinstance(expr, Add):
                made = a + b
            elif isinstance(expr, Sub):
                made = a - b
            elif isinstance(expr, Mul):
                made = a * b
            elif isinstance(expr, (Min, Max)):
                name = self._name(expr)
                self._forms[name] = (type(expr), a, b)
                return SymDim.named(name)
            elif isinstance(b, int) and b > 0 and (isinstance(expr, (FloorDiv, FloorMod)) or self.is_nonnegative(a)):
                whole = self.quotient(a, b)
                made = whole if isinstance(expr, (Div, FloorDiv)) else a - whole * b
        return SymDim.named(self._name(expr)) if isinstance(made, Any) else made

    def _name(self, expr: PrimExpr) -> str:
        key = expr if isinstance(expr, Var) else digest(expr)
        known = self._names.setdefault(key, [])
        for other, name in known:
            if other is expr or (not isinstance(expr, Var) and difference(other, expr) is None):
                return name
        name = f"a{len(self._exprs)}"
        known.append((expr, name))
        self._exprs[name] = expr
        if isinstance(expr, SizeVar):
            self._lowest[name] = 0
        return name

    def factor(self, value: Polynomial, var: Var) -> tuple[Polynomial | None, Polynomial]:
        """The factor of a variable and the rest; the factor is None if the variable also has powers."""
        return split(value, self._name(var))

    def is_at_least(self, value: Dim, lowest: Dim) -> bool:
        """Whether a polynomial is proved to be at least another one."""
        return self.is_nonnegative(known_dim(value - lowest))

    def is_nonnegative(self, value: Polynomial) -> bool:
        """Whether a polynomial is proved to be at least 0 for all values of the variables in their ranges."""
        self._steps = _STEPS
        return self._nonnegative(value)

    def _nonnegative(self, value: Polynomial) -> bool:
        self._steps -= 1
        if isinstance(value, int) or self._steps < 0:
            return isinstance(value, int) and value >= 0
        value = reduced(value)
        if all(coefficient >= 0 and all(map(self._is_size, monomial)) for monomial, coefficient in terms_of(value)):
            return True
        return any(
            all(map(self._nonnegative, needed))
            for name in sorted(names_of(value), key=self._order)
            for needed in self._replaced(value, name)
        )

    def _is_size(self, name: str) -> bool:
        """Whether an atom is at least 0."""
        form = self._forms.get(name)
        return self._nonnegative(form.dividend) if isinstance(form, Quotient) else self._lowest.get(name) == 0

    def _replaced(self, value: Polynomial, name: str) -> list[list[Polynomial]]:
        """Polynomials with bounds in place of an atom. If all of a list are nonnegative, so is the value."""
        factor, rest = split(value, name)
        if factor is None:
            return []
        form = self._forms.get(name)
        if form is not None and not isinstance(factor, int):
            return []
        if isinstance(form, tuple):
            kind, *sides = form
            needed = [known_dim(rest + side * factor) for side in sides]
            return [needed] if (kind is Min) == (factor > 0) else [[each] for each in needed]  # type: ignore[operator]  # an integer
        if isinstance(form, Quotient):
            return [[_of_dividend(rest, factor, form)]]  # type: ignore[arg-type]  # an integer
        for bounds, sign in ((self._lowest, 1), (self._highest, -1)):
            bound = bounds.get(name)
            if bound is not None and name not in names_of(bound) and self._nonnegative(known_dim(factor * sign)):
                return [[known_dim(rest + factor * bound)]]
        return []

    def without(self, value: Polynomial, variables: Sequence[Var], kept: Var) -> list[Polynomial] | None:
        """Polynomials without some variables, and without atoms of the variable `kept` except for itself.

        If all are nonnegative, so is the value, for all values of the variables in their ranges. None if no such polynomials are found. The
        variables are given from outer to inner: the range of one may depend on those before it.

        >>> i, j, n, polynomials = Var("i"), Var("j"), SizeVar("n"), Polynomials()
        >>> polynomials.limit(j, 0, 3)
        >>> [str(polynomials.expr(each, "int32")) for each in polynomials.without(polynomials.of(n - (i * 4 + j)), [j], i)]
        ['((n: size int32 - (i: int32*4)) - 3)']
        """
        gone = {self._name(variable): place for place, variable in enumerate(variables)}
        dependent, own = {kept, *variables}, self._name(kept)
        found: list[Polynomial] = []
        todo = [value]
        for _ in range(_STEPS):
            if not todo:
                return found
            value = reduced(todo.pop())
            names = [name for name in names_of(value) if name != own and self._depends(name, dependent)]
            if not names:
                found.append(value)
                continue
            name = max(names, key=lambda name: (name not in gone, gone.get(name, 0), -self._order(name)))
            self._steps = _STEPS
            replaced = self._replaced(value, name)
            if not replaced:
                return None
            todo += replaced[0]
        return None

    def range_of(self, value: Polynomial, var: Var) -> tuple[Polynomial | None, Polynomial | None] | None:
        """The lowest and the highest value of a variable for which a polynomial is nonnegative, None for any; None if it is not linear in
        the variable, with a constant factor, or does not depend on it and is not proved to be nonnegative.

        >>> i, n, polynomials = Var("i"), SizeVar("n"), Polynomials()
        >>> low, high = polynomials.range_of(polynomials.of(n - i * 4), i)
        >>> low is None, str(polynomials.expr(high, "int32"))
        (True, 'floordiv(n: size int32, 4)')
        """
        factor, rest = split(value, self._name(var))
        if not isinstance(factor, int):
            return None
        if factor == 0:
            return (None, None) if self.is_nonnegative(rest) else None
        return (self.quotient(known_dim(factor - 1 - rest), factor), None) if factor > 0 else (None, self.quotient(rest, -factor))

    def fits(self, value: Polynomial, dtype: str) -> bool:
        """Whether the coefficients are numbers of an integer type, and no atom has more bits."""
        bits = DataType.of(dtype).bits
        small = all(abs(coefficient) < 1 << (bits - 1) for _, coefficient in terms_of(value))
        return small and all(self._exprs[name].type.bits <= bits for name in names_of(value))

    def _depends(self, name: str, variables: set[Var]) -> bool:
        return any(part in variables for part in post_order(self._exprs[name]) if isinstance(part, Var))

    def extreme(self, kind: type[Min] | type[Max], a: Polynomial, b: Polynomial, dtype: str) -> Polynomial:
        """The smaller or the larger of two polynomials; the one that is proved to be, or an atom."""
        for one, other in ((a, b), (b, a)):
            if self.is_nonnegative(known_dim(other - one if kind is Min else one - other)):
                return one
        return self.of(kind.of(self.expr(a, dtype), self.expr(b, dtype)))

    def _order(self, name: str) -> int:
        """Atoms made later depend on earlier ones, so they are replaced first."""
        return -int(name[1:])


def _of_dividend(rest: Polynomial, factor: int, quotient: Quotient) -> Polynomial:
    """A polynomial of the dividend that is nonnegative only if `rest + factor * quotient` is."""
    slack = quotient.divisor - 1  # the dividend less this is at most divisor * quotient, which is at most the dividend
    if abs(factor) == 1:
        return known_dim(rest * quotient.divisor + quotient.dividend * factor + (slack if factor < 0 else 0))
    return known_dim(rest * quotient.divisor + (quotient.dividend - (slack if factor > 0 else 0)) * factor)


def reduced(value: Polynomial) -> Polynomial:
    """The polynomial divided by the common factor of its coefficients: nonnegative for the same integers.

    >>> reduced(polynomial({("n",): 4, (): -3}))
    n - 1
    """
    factor = math.gcd(*(coefficient for monomial, coefficient in terms_of(value) if monomial))
    return value if factor <= 1 else polynomial({monomial: coefficient // factor for monomial, coefficient in terms_of(value)})


def terms_of(value: Polynomial) -> Iterable[tuple[Monomial, int]]:
    """The monomials of a polynomial and their coefficients."""
    return value.terms if isinstance(value, SymDim) else [((), value)] if value else []


def names_of(value: Polynomial) -> set[str]:
    """The atoms of a polynomial."""
    return {name for monomial, _ in terms_of(value) for name in monomial}


def polynomial(terms: Mapping[Monomial, int]) -> Polynomial:
    """The polynomial with these coefficients.

    >>> polynomial({(): 3, ("n",): 0}), polynomial({("n",): 2})
    (3, 2*n)
    """
    kept = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    return SymDim(kept.items()) if any(kept) else kept.get((), 0)


def split(value: Polynomial, name: str) -> tuple[Polynomial | None, Polynomial]:
    """The factor of an atom and the rest; the factor is None if the atom also has powers.

    >>> split(polynomial({("n", "x"): 2, ("x",): 1, (): 5}), "x")
    (2*n + 1, 5)
    """
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(value):
        if name not in monomial:
            rest[monomial] = coefficient
        elif monomial.count(name) > 1:
            return None, value
        else:
            at = monomial.index(name)
            factor[monomial[:at] + monomial[at + 1 :]] = coefficient
    return polynomial(factor), polynomial(rest)
