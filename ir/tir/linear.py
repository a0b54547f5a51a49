"""Integer expressions as polynomials, and what can be proved of them from the ranges of variables.

The polynomials are those of `passat.ir.shape`; an atom is a variable, or an expression that is not a polynomial. As indices do, expressions
are assumed not to overflow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

from passat.ir.shape import ANY, Any, Dim, Monomial, SymDim
from passat.ir.tir.arithmetic import Add, FloorDiv, FloorMod, Max, Min, Mul, Sub
from passat.ir.tir.equality import difference, digest
from passat.ir.tir.expr import Cast, IntImm, PrimExpr, SizeVar, Var, const
from passat.ir.tir.functor import post_order

Polynomial = int | SymDim
_STEPS: Final = 64
"""The number of atoms that a proof replaces by their bounds."""


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
            return _sized(polynomial(whole) + left // divisor)
        made = FloorDiv(self.expr(left, self._dtype(left)), const(divisor, self._dtype(left)))
        name = self._name(made)
        self._forms[name] = Quotient(left, divisor)
        return _sized(polynomial(whole) + SymDim.named(name))

    def _dtype(self, value: Polynomial) -> str:
        names = [name for monomial, _ in terms_of(value) for name in monomial]
        return max((self._exprs[name].dtype for name in names), key=lambda dtype: (len(dtype), dtype), default="int32")

    def _polynomial(self, expr: PrimExpr, done: Mapping[int, Polynomial]) -> Polynomial:
        if isinstance(expr, IntImm):
            return expr.value
        made: Dim = ANY
        if isinstance(expr, Cast) and expr.type.is_index and expr.value.type.is_index and expr.type.bits >= expr.value.type.bits:
            return done[id(expr.value)]
        if isinstance(expr, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)) and expr.type.is_index:
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
            elif isinstance(b, int) and b > 0:
                whole = self.quotient(a, b)
                made = whole if isinstance(expr, FloorDiv) else a - whole * b
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

    def is_nonnegative(self, value: Polynomial) -> bool:
        """Whether a polynomial is proved to be at least 0 for all values of the variables in their ranges."""
        return self._nonnegative(value, _STEPS)

    def _nonnegative(self, value: Polynomial, steps: int) -> bool:
        if isinstance(value, int):
            return value >= 0
        if all(coefficient >= 0 and all(self._lowest.get(name) == 0 for name in monomial) for monomial, coefficient in value.terms):
            return True
        if steps <= 0:
            return False
        for name in sorted({name for monomial, _ in value.terms for name in monomial}, key=self._order):
            factor, rest = split(value, name)
            if factor is None:
                continue
            form = self._forms.get(name)
            if isinstance(form, tuple) and isinstance(factor, int):
                kind, *sides = form
                both = (kind is Min) == (factor > 0)
                found = (self._nonnegative(_sized(rest + side * factor), steps // 2) for side in sides)
                return all(found) if both else any(found)
            if isinstance(form, Quotient) and isinstance(factor, int):
                # divisor * quotient is between dividend - divisor + 1 and dividend
                bound = form.dividend - (form.divisor - 1) if factor > 0 else form.dividend
                if self._nonnegative(_sized(rest * form.divisor + bound * factor), steps - 1):
                    return True
                continue
            for bounds, sign in ((self._lowest, 1), (self._highest, -1)):
                found_bound = bounds.get(name)
                if found_bound is None or name in names_of(found_bound) or not self._nonnegative(_sized(factor * sign), steps // 2):
                    continue
                if self._nonnegative(_sized(rest + factor * found_bound), steps - 1):
                    return True
        return False

    def _order(self, name: str) -> int:
        """Atoms made later depend on earlier ones, so they are replaced first."""
        return -int(name[1:])


def _sized(value: Dim) -> Polynomial:
    """The result of arithmetic on polynomials, which is one."""
    assert not isinstance(value, Any)
    return value


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
