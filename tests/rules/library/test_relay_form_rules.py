"""Forms of Relay's SimplifyExpr: each rule on a program where it holds, and on one where it does not; products of sums have the values of the
quadratic forms that they replace."""

import itertools
from collections.abc import Sequence

import pytest

from passat.ir.equality import structural_equal
from passat.ir.expr import Constant, Expr, Tuple
from passat.rules.library import Arithmetic, RelayForms
from passat.rules.passes.simplify import simplify_expr
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import apply, assert_equal_in_value, operators, saturate
from tests.share import SOAK

x, y = var("x"), var("y")


def dequantized(dtype: str, scale: float) -> Expr:
    return ops.qnn.dequantize(var("q", dtype=dtype), splat(scale, ()), splat(3, (), "int32"))  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def quadratic(factors: tuple[float, float, float], dtype: str, way: Sequence[int], order: str, name: str = "") -> Expr:
    """`a*x*x + b*x*y + c*y*y` in one of the forms in which it is written; a factor of 1 is left out."""
    a, b = var(f"a{name}", dtype=dtype), var(f"b{name}", dtype=dtype)

    def scaled(one: Expr, other: Expr, factor: float, way: int) -> Expr:
        number = splat(factor, (), dtype)
        if factor == 1:
            return one * other
        return ((number * one) * other, one * (other * number), (one * other) * number)[way]

    terms = {"s": scaled(a, a, factors[0], way[0]), "x": scaled(a, b, factors[1], way[1]), "t": scaled(b, b, factors[2], way[2])}
    return (terms[order[0]] + terms[order[1]]) + terms[order[2]]


CASES: dict[str, Case] = {
    "RelayForms.twice": case(x + x, x + y, ""),
    "RelayForms.root_quotient": case(splat(2.0) / ops.sqrt(x), splat(2.0) / ops.exp(x), ""),
    "RelayForms.quadratic": case(
        quadratic((1, 5, 6), "float32", (0, 0, 0), "sxt"),
        quadratic((1, 1, 6), "float32", (0, 0, 0), "sxt"),
        "the quadratic form 1, 1, 6 is not a product of two sums",
    ),
    **{
        f"RelayForms.quantized_order[of_one, {of}]": case(
            getattr(ops, of)(dequantized("int8", 0.5), axis=0),
            getattr(ops, of)(dequantized("int32", 0.5), axis=0),
            "the elements are int32, not int8 or uint8",
        )
        for of in ("argmax", "argmin")
    },
    "RelayForms.quantized_order[of_several]": case(
        ops.topk(dequantized("int8", 0.5), k=2)[1], ops.topk(dequantized("int32", 0.5), k=2)[1], "the elements are int32, not int8 or uint8"
    ),
}
TABLE = pairs(CASES, RelayForms)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_a_sum_of_integers_is_doubled_exactly() -> None:
    count = var("count", (64, 64), "int8")
    before = func(count + count)
    after = saturate(before, RelayForms, rules__math="exact").function
    assert operators(after) == ["multiply"]
    assert_equal_in_value(before, after, exact=True, special=True)


@pytest.mark.parametrize("order", ["sxt", "stx", "xts", "tsx"])
@pytest.mark.parametrize("factors", [(1, 5, 6), (6, 5, 1), (1, 4, 4)])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_quadratic_form_is_a_product_of_sums(dtype: str, factors: tuple[int, int, int], order: str) -> None:
    """In each form, also after other rewrites: for such patterns egglog 13.2 returns rows that are not matches. In CI, all forms are parts
    of one program."""
    ways = list(itertools.product(range(3), repeat=3))
    for some in [[way] for way in ways] if SOAK else [ways]:
        parts = [quadratic(factors, dtype, way, order, f"{number}") * splat(1, (), dtype) for number, way in enumerate(some)]
        before = func(tup(*parts))
        after = saturate(before, Arithmetic, RelayForms).function
        assert isinstance(after.body, Tuple)
        for way, result in zip(some, after.body.fields, strict=True):
            assert operators(func(result)).count("multiply") <= 3, way
        assert_equal_in_value(before, after, exact=dtype == "int32", special=False)


def test_coefficients_of_integers_are_integers() -> None:
    before = func(quadratic((1, 5, 2), "int32", (0, 0, 0), "sxt"))
    outcome = saturate(before, RelayForms)
    assert outcome.function is before
    assert any("are not int32" in remark for remark in outcome.remarks)


def test_coefficients_that_a_float_rounds_are_left() -> None:
    before = func(quadratic((1, 1 - 2**63, 0), "int64", (0, 0, 0), "sxt"))
    outcome = saturate(before, RelayForms)
    assert outcome.function is before
    assert any("are too large for exact roots" in remark for remark in outcome.remarks)


def test_a_scaled_sum_is_written_in_one_order() -> None:
    """The lowering rule has two products, whose operands stay in order if those of the left side are swapped."""
    scale, shift = numbers((3,), seed=1), numbers((3,), seed=2)
    wanted = func(x * scale + Constant(scale.data.numpy() * shift.data.numpy()))
    for body in ((x + shift) * scale, scale * (x + shift), scale * (shift + x)):
        assert structural_equal(apply(simplify_expr(relay=True), func(body)).function, wanted)
