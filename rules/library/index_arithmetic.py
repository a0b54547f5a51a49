"""Index arithmetic: sums, quotients, remainders, minima and maxima of scalar integers.

Operators: add subtract multiply negative floor_divide floor_mod divide fmod minimum maximum.

Index arithmetic is assumed not to overflow; only passes over loops use these sets. Sums are normalized by polynomials
(`passat.rules.polynomials`), quotients and minima by splitting polynomials; laws of lattices are plain equations.
"""

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from passat.ir.op import Op
from passat.ir.shape import ANY, Dim, SymDim, divide
from passat.rules.guards import Reject, Term, Tree, computed, guard, has_dtype
from passat.rules.holes import cases, operator
from passat.rules.pattern import constants, expression, op, tensors
from passat.rules.polynomials import (
    INDICES,
    Bounds,
    apply,
    atom_in,
    bounds_of,
    bounds_of_term,
    class_of,
    in_order,
    integer,
    leads_negative,
    polynomial,
    terms_of,
    tree_of,
)
from passat.rules.range_guards import lies_between
from passat.rules.rule_set import RuleSet

x, y, z = tensors("x y z")
c, d = constants("c d")
NO_OVERFLOW: Final = "index arithmetic does not overflow"
_CANONICAL: Final = "the term is in canonical form"


@guard
def is_index(x: Term) -> bool | str:
    """The term is a scalar integer."""
    type_ = x.type
    return (type_.dtype in INDICES and not type_.shape) or f"{type_!r} is not the type of an index"


@computed
def normal_form(x: Term) -> Tree:
    """The polynomial of a sum or product as nested calls, its terms in canonical order."""
    return tree_of(polynomial(x), x)


sums = operator("sums", "add", "subtract", "multiply")


class IndexSums(RuleSet):
    """Normalizes sums and products by polynomials, and writes remainders with quotients."""

    sum = (sums(x, y) >> expression(normal_form(sums(x, y)), "add", "subtract", "multiply")).finite(NO_OVERFLOW).exploring()
    negative = (op.negative(x) >> expression(normal_form(op.negative(x)), "add", "subtract", "multiply")).finite(NO_OVERFLOW).exploring()
    floor_remainder = (op.floor_mod(x, y) >> x - op.floor_divide(x, y) * y).when(is_index(x)).finite(NO_OVERFLOW).exploring()
    remainder = (op.fmod(x, y) >> x - op.divide(x, y) * y).when(is_index(x)).finite(NO_OVERFLOW).exploring()
    product_of_extrema = (op.minimum(x, y) * op.maximum(x, y) >> x * y).when(is_index(x)).exploring()


@guard
def fits(x: Term, dtype: str) -> bool | str:
    """Every value of the term is one of the integer type."""
    limits, bounds = np.iinfo(dtype), bounds_of_term(x)
    return bool(limits.min <= bounds.low and bounds.high <= limits.max) or f"the bounds are {bounds.low:g} and {bounds.high:g}"


_EXACT: Final = 1 << 24
"""Every integer up to this magnitude is a float32."""


class IndexCasts(RuleSet):
    """Drops conversions to int32 or floating-point numbers and back of values that fit."""

    narrow = (op.cast(op.cast(x, dtype="int32"), dtype="int64") >> x).when(has_dtype(x, "int64"), fits(x, "int32"))
    exact = (op.cast(op.cast(x, dtype="float32"), dtype="int64") >> x).when(has_dtype(x, "int64"), lies_between(x, -_EXACT, _EXACT))


# ---- quotients


def _is_known(bounds: Bounds) -> bool:
    return bounds.low == bounds.high


def _known(dim: Dim, x: Term) -> Dim:
    """The number that a polynomial always equals, otherwise itself."""
    bounds = bounds_of(dim, x)
    return int(bounds.low) if _is_known(bounds) else dim


def _exact(dividend: Dim, divisor: Dim) -> Dim | None:
    """The quotient of polynomials, if it is exact; the divisor is not 0."""
    if isinstance(divisor, int):
        return None if any(factor % divisor for _, factor in terms_of(dividend)) else divide(dividend, divisor)
    found = divide(dividend, divisor)
    if found is not ANY and found * divisor == dividend:
        return found
    lead = in_order(divisor)[0]
    factor = dict(terms_of(dividend)).get(lead[0], 0)
    return factor // lead[1] if factor % lead[1] == 0 and divisor * (factor // lead[1]) == dividend else None


def _split(dividend: Dim, divisor: Dim) -> tuple[Dim, Dim]:
    """A polynomial as a multiple of the divisor and a rest: (q, r) with q*divisor + r. Terms below the divisor stay in the rest."""
    whole: Dim = 0
    rest: Dim = 0
    for names, factor in terms_of(dividend):
        term = SymDim([(names, factor)]) if names else factor
        if isinstance(divisor, int):
            count = factor // divisor if not names or factor > 0 else -(-factor // divisor)
            part = (SymDim([(names, count)]) if names else count) if count else 0
            whole, rest = whole + part, rest + (term - part * divisor)
            continue
        found = _exact(term, divisor)
        whole, rest = (whole + found, rest) if found is not None else (whole, rest + term)
    return whole, rest


def _nested(dim: Dim, name: str, x: Term) -> tuple[Dim, int, int] | None:
    """For `(p // a) + k` the parts p, a and k; None for others."""
    found = atom_in(dim)
    if found is None or found[1] != 1:
        return None
    for dividend, divisor in x.of_class(class_of(found[0])).calls(name):
        by = polynomial(divisor)
        if isinstance(by, int) and by > 0:
            return polynomial(dividend), by, found[2]
    return None


_MOST_STEPS: Final = 16
"""Maximum number of nested quotients that are merged: an e-class may contain a quotient of itself."""


def floor_quotient(dividend: Dim, divisor: Dim, x: Term, steps: int = _MOST_STEPS) -> Tree:
    """The quotient of two polynomials, rounded down, in canonical form."""
    if divisor == 0:
        raise Reject("division by zero")
    if isinstance(divisor, int) and divisor < 0:
        return floor_quotient(-dividend, -divisor, x, steps)
    whole, rest = _split(dividend, divisor)
    if whole == 0 and (found := _exact(dividend, divisor)) is not None:
        return tree_of(found, x)
    if isinstance(divisor, int):
        rest, divisor = _reduced(rest, divisor, x)
        bounds = bounds_of(rest, x)
        if bounds.low > -math.inf and bounds.low // divisor == bounds.high // divisor:
            whole, rest = whole + int(bounds.low // divisor), 0
        elif divisor == 1:
            whole, rest = whole + rest, 0
        elif (inner := _nested(rest, "floor_divide", x)) is not None:
            rest, divisor = inner[0] + inner[2] * inner[1], divisor * inner[1]
            if whole == 0 and steps:
                return floor_quotient(rest, divisor, x, steps - 1)
    if rest == 0:
        return tree_of(whole, x)
    quotient = apply("floor_divide", tree_of(rest, x), tree_of(divisor, x))
    return quotient if whole == 0 else apply("add", tree_of(whole, x), quotient)


def _reduced(rest: Dim, divisor: int, x: Term) -> tuple[Dim, int]:
    """The dividend and divisor without common factors, and without a part that is less than such a factor."""
    factors = [factor for names, factor in terms_of(rest) if names]
    for by in sorted({math.gcd(factor, divisor) for factor in factors} | {math.gcd(divisor, *factors)}, reverse=True):
        if by == 1:
            continue
        multiple: Dim = 0
        other: Dim = 0
        for names, factor in terms_of(rest):
            if names and factor % by == 0:
                multiple = multiple + SymDim([(names, factor // by)])
            else:
                other = other + (SymDim([(names, factor)]) if names else factor)
        bounds = bounds_of(other, x)
        if bounds.low > -math.inf and bounds.low // by == bounds.high // by:
            return _reduced(multiple + int(bounds.low // by), divisor // by, x) if divisor > by else (multiple + int(bounds.low // by), 1)
    return rest, divisor


@computed
def floor_quotient_of(x: Term, y: Term, whole: Term) -> Tree:
    """The canonical form of a quotient that is rounded down."""
    bounds = bounds_of_term(whole)
    return integer(int(bounds.low), x) if _is_known(bounds) else floor_quotient(polynomial(x), polynomial(y), x)


@computed
def quotient_of(x: Term, y: Term, whole: Term) -> Tree:
    """The canonical form of a quotient that is rounded toward zero: a quotient that is rounded down where the signs are known."""
    p, q, bounds = polynomial(x), polynomial(y), bounds_of_term(whole)
    if _is_known(bounds):
        return integer(int(bounds.low), x)
    if q == 0:
        raise Reject("division by zero")
    if isinstance(q, int) and q < 0:
        return apply("subtract", integer(0, x), apply("divide", x, integer(-q, x)))
    found = _exact(p, q)
    if found is not None:
        return tree_of(found, x)
    if bounds_of(q, x).meet(bounds_of_term(y)).low >= 0:
        signs = bounds_of(p, x).meet(bounds_of_term(x))
        if signs.low >= 0:
            return floor_quotient(p, q, x)
        if signs.high <= 0:
            return apply("subtract", integer(0, x), floor_quotient(-p, q, x))
    if leads_negative(p):
        return apply("subtract", integer(0, x), apply("divide", tree_of(-p, x), y))
    if not isinstance(q, int):
        return apply("divide", tree_of(p, x), tree_of(q, x))
    by = math.gcd(q, *(factor for _, factor in terms_of(p)))
    p, q = divide(p, by), q // by
    inner = _nested(p, "divide", x)
    if inner is not None and inner[2] == 0:
        p, q = inner[0], q * inner[1]
    return apply("divide", tree_of(p, x), integer(q, x))


sign = cases("sign", "positive", "negative")
which = cases("which", "minimum", "maximum")


@guard
def is_above_zero(c: Term) -> bool | str:
    """The constant is positive."""
    return bool(c.value().numpy() > 0) or "the constant is not positive"


@guard
def is_below_zero(c: Term) -> bool | str:
    """The constant is negative."""
    return bool(c.value().numpy() < 0) or "the constant is not negative"


division = operator("division", "floor_divide", "divide")
_EXTREMUM = which(minimum=op.minimum(x, y), maximum=op.maximum(x, y))
_PARTS: Final = ("add", "subtract", "multiply")


class IndexQuotients(RuleSet):
    """Normalizes quotients: takes multiples of the divisor out, cancels factors, merges nested quotients, and moves quotients below minima
    and maxima."""

    floor = (
        (op.floor_divide(x, y) >> expression(floor_quotient_of(x, y, op.floor_divide(x, y)), "floor_divide", *_PARTS))
        .when(is_index(x))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    truncated = (
        (op.divide(x, y) >> expression(quotient_of(x, y, op.divide(x, y)), "divide", "floor_divide", *_PARTS))
        .when(is_index(x))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    of_extremum = (
        (
            division(_EXTREMUM, c)
            >> which(minimum=op.minimum(division(x, c), division(y, c)), maximum=op.maximum(division(x, c), division(y, c)))
        )
        .when(is_index(x), is_index(y), is_index(c), is_above_zero(c))
        .exploring()
    )
    of_extremum_negative = (
        (
            division(_EXTREMUM, c)
            >> which(minimum=op.maximum(division(x, c), division(y, c)), maximum=op.minimum(division(x, c), division(y, c)))
        )
        .when(is_index(x), is_index(y), is_index(c), is_below_zero(c))
        .finite(NO_OVERFLOW)
        .exploring()
    )


# ---- minima and maxima


def smaller_of(p: Dim, q: Dim, x: Term) -> Tree:
    """The minimum of two polynomials: one of them where bounds decide, otherwise `q + g*min((p - q)/g, 0)`."""
    difference = p - q
    bounds = bounds_of(difference, x)
    if bounds.high <= 0:
        return tree_of(p, x)
    if bounds.low >= 0:
        return tree_of(q, x)
    if leads_negative(difference):
        difference, q = -difference, p
    by = math.gcd(*(factor for _, factor in terms_of(difference)))
    least: Tree = apply("minimum", tree_of(divide(difference, by), x), integer(0, x))
    if by != 1:
        least = apply("multiply", least, integer(by, x))
    return least if q == 0 else apply("add", tree_of(q, x), least)


@computed
def smaller(x: Term, y: Term) -> Tree:
    """The canonical form of a minimum."""
    one, other = bounds_of_term(x), bounds_of_term(y)
    if one.high <= other.low or other.high <= one.low:
        return x if one.high <= other.low else y
    return smaller_of(polynomial(x), polynomial(y), x)


def _leaves(name: str, terms: Iterable[Term]) -> dict[int, Term]:
    """The operands of nested calls of an operator, by their e-classes. A term that is an operand of itself counts as one."""
    found: dict[int, Term] = {}
    opened: set[int] = set()
    stack = list(terms)
    while stack:
        term = stack.pop()
        if term.cls in found or term.cls in opened:
            continue
        inside = {*opened, term.cls}
        calls = [operands for operands in term.calls(name) if inside.isdisjoint(operand.cls for operand in operands)]
        if calls:
            opened.add(term.cls)
            stack += calls[0]
        else:
            found[term.cls] = term
    return found


@computed
def chain(of: Op, x: Term, y: Term) -> Tree:
    """Nested minima or maxima as a chain of distinct operands in canonical order, without those that bounds decide."""
    kept: list[Dim] = []
    for _, term in sorted(_leaves(of.name, (x, y)).items()):
        dim = polynomial(term)
        sign = 1 if of.name == "minimum" else -1
        if any(bounds_of((other - dim) * sign, x).high <= 0 for other in kept):
            continue
        kept = [other for other in kept if bounds_of((dim - other) * sign, x).high > 0]
        kept.append(dim)
    total = tree_of(kept[0], x)
    for dim in kept[1:]:
        total = apply(of.name, total, tree_of(dim, x))
    return total


inner = operator("inner", "minimum", "maximum")


class IndexExtrema(RuleSet):
    """Normalizes minima and maxima: `min(x, y)` is `y + min(x - y, 0)`, `max(x, y)` is `x + y - min(x, y)`; and the laws of lattices."""

    minimum = (
        (op.minimum(x, y) >> expression(smaller(x, y), "minimum", *_PARTS)).when(is_index(x), is_index(y)).finite(NO_OVERFLOW).exploring()
    )
    maximum = (op.maximum(x, y) >> x + y - op.minimum(x, y)).when(is_index(x), is_index(y)).finite(NO_OVERFLOW).exploring()
    nested = (
        (inner(inner(x, y), z) >> expression(chain(inner, inner(x, y), z), "minimum", "maximum", *_PARTS))
        .when(is_index(x), is_index(y), is_index(z))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    absorbed_minimum = (op.minimum(x, op.maximum(x, y)) >> x).when(is_index(x), is_index(y)).exploring()
    absorbed_maximum = (op.maximum(x, op.minimum(x, y)) >> x).when(is_index(x), is_index(y)).exploring()
    minimum_of_maxima = (
        (op.minimum(op.maximum(x, y), op.maximum(x, z)) >> op.maximum(x, op.minimum(y, z))).when(is_index(x)).exploring().budget(100)
    )
    maximum_of_minima = (
        (op.maximum(op.minimum(x, y), op.minimum(x, z)) >> op.minimum(x, op.maximum(y, z))).when(is_index(x)).exploring().budget(100)
    )
