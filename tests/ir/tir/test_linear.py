"""Polynomials of index expressions have the values of the expressions, and their proofs hold for all values of the variables."""

from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from passat.ir.tir.arithmetic import Max, Min
from passat.ir.tir.expr import Cast, PrimExpr, SizeVar, Var, const
from passat.ir.tir.linear import Polynomial, Polynomials, polynomial, reduced, terms_of
from passat.ir.tir.ops import maximum, minimum, truncdiv, truncmod
from tests.passmgr.loops.interpreter import Interpreter
from tests.share import share

X, J, K, N = Var("x"), Var("j"), Var("k"), SizeVar("n")
VARIABLES = (X, J, K, N)
RANGES = {X: (-2, 3), J: (0, 4), K: (0, 0), N: (0, 5)}
"""The values of the variables. The highest value of `n` is not made known."""


@st.composite
def indices(draw: st.DrawFn, depth: int = 3) -> PrimExpr:
    form = draw(st.sampled_from(("var", "var", "const", "+", "+", "-", "*", "//", "%", "truncdiv", "truncmod", "min", "max", "cast")))
    if depth == 0 or form == "var":
        return draw(st.sampled_from(VARIABLES))
    if form == "const":
        return const(draw(st.integers(-5, 9)))
    a: PrimExpr = draw(indices(depth=depth - 1))
    if form in ("//", "%", "truncdiv", "truncmod"):
        divisor = const(draw(st.integers(1, 5)))
        return {"//": a // divisor, "%": a % divisor, "truncdiv": truncdiv(a, divisor), "truncmod": truncmod(a, divisor)}[form]
    if form == "cast":
        return Cast("int32", a)
    b: PrimExpr = draw(indices(depth=depth - 1))
    return {"+": a + b, "-": a - b, "*": a * b, "min": minimum(a, b), "max": maximum(a, b)}[form]


def valued(expr: PrimExpr, values: dict[Var, int]) -> int:
    number: int = Interpreter(values).value(expr)
    return number


def environments() -> list[dict[Var, int]]:
    """All values of the variables."""
    return [dict(zip(VARIABLES, each, strict=True)) for each in product(*(range(low, high + 1) for low, high in RANGES.values()))]


ENVIRONMENTS = environments()


def known() -> Polynomials:
    made = Polynomials()
    for var, (low, high) in RANGES.items():
        if var is not N:
            made.limit(var, low, high)
    return made


@given(index=indices(), divisor=st.integers(1, 6), other=indices())
@settings(max_examples=share(30, 600))
def test_polynomials_have_the_values_of_expressions(index: PrimExpr, divisor: int, other: PrimExpr) -> None:
    polynomials = known()
    value, second = polynomials.of(index), polynomials.of(other)
    made = polynomials.expr(value, "int32")
    quotient = polynomials.expr(polynomials.quotient(value, divisor), "int32")
    extremes = {kind: polynomials.expr(polynomials.extreme(kind, value, second, "int32"), "int32") for kind in (Min, Max)}
    for values in ENVIRONMENTS[:: len(ENVIRONMENTS) // 25]:
        expected, beside = valued(index, values), valued(other, values)
        assert valued(made, values) == expected
        assert valued(quotient, values) == expected // divisor
        assert valued(extremes[Min], values) == min(expected, beside)
        assert valued(extremes[Max], values) == max(expected, beside)


@given(index=indices())
@settings(max_examples=share(40, 800))
def test_proofs_hold_for_all_values(index: PrimExpr) -> None:
    polynomials = known()
    numbers = [valued(index, values) for values in ENVIRONMENTS]
    value = polynomials.of(index)
    for bound in {0, min(numbers), min(numbers) + 1}:
        difference: Polynomial = value - bound  # type: ignore[assignment]  # a size
        if polynomials.is_nonnegative(difference):
            assert min(numbers) >= bound


@given(index=indices())
@settings(max_examples=share(50, 1000))
def test_variables_are_replaced_by_their_ranges(index: PrimExpr) -> None:
    """What remains of a condition for one variable decides it for all values of the others."""
    polynomials = known()
    needed = polynomials.without(polynomials.of(index), [J, K], X)
    assume(needed is not None)
    assert needed is not None
    parts = [polynomials.expr(part, "int32") for part in needed]
    solved = [polynomials.range_of(part, X) for part in needed]
    limits = [[None if limit is None else polynomials.expr(limit, "int32") for limit in pair] for pair in solved if pair is not None]
    for values in ENVIRONMENTS:
        without = {var: value for var, value in values.items() if var not in (J, K)}
        holds = all(valued(part, without) >= 0 for part in parts)
        assert not holds or valued(index, values) >= 0
        if None not in solved:
            within = [
                (low is None or values[X] >= valued(low, without)) and (high is None or values[X] <= valued(high, without))
                for low, high in limits
            ]
            assert all(within) == holds


@given(coefficients=st.lists(st.integers(-8, 8), min_size=3, max_size=3), values=st.lists(st.integers(-6, 6), min_size=2, max_size=2))
def test_reduced_polynomials_have_the_same_sign(coefficients: list[int], values: list[int]) -> None:
    whole = polynomial(dict(zip([("x",), ("y",), ()], coefficients, strict=True)))
    names = dict(zip("xy", values, strict=True))

    def number(value: Polynomial) -> int:
        return sum(coefficient * (names[monomial[0]] if monomial else 1) for monomial, coefficient in terms_of(value))

    assert (number(whole) >= 0) == (number(reduced(whole)) >= 0)


def test_what_is_proved() -> None:
    polynomials = known()

    def proved(expr: PrimExpr) -> bool:
        return polynomials.is_nonnegative(polynomials.of(expr))

    assert proved(N // 4)
    assert proved((N + 3) // 4 - N // 4)
    assert proved(truncdiv(N + 3, 4) - N // 4)
    assert not proved(N // 4 - (N + 3) // 4)
    assert proved(minimum(N, J) + 1 - minimum(N, 1))
    assert proved(4 - J)
    assert not proved(3 - J)
    assert not proved(truncdiv(X, 2) - X // 2 - 1)


def test_numbers_of_a_type() -> None:
    polynomials, wide = Polynomials(), Var("wide", "int64")
    assert polynomials.fits(polynomials.of(X * 3), "int32")
    assert not polynomials.fits(polynomials.of(wide), "int32")
    assert not polynomials.fits(1 << 31, "int32")
    assert polynomials.fits(1 << 31, "int64")
