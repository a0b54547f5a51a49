"""Identities of arithmetic, powers, clips and decisions by ranges: each rule on a program that it rewrites, and on one that it does not."""

import math
from collections.abc import Callable
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Call, Expr
from passat.ir.op import Op, list_ops
from passat.ir.tensor import Tensor
from passat.rules.library import Arithmetic, Constants, Copies, Factoring, Powers
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import assert_equal_in_value, operators, run, saturate
from tests.share import share

x, y = var("x"), var("y")
cond = var("cond", dtype="bool")
count = var("count", (2, 3), "int32")


def element_type(of: Op) -> str:
    """An element type that the operator accepts."""
    if of.name.startswith("logical"):
        return "bool"
    if of.name.startswith("bitwise"):
        return "int32"
    return "uint8" if of.name.endswith("shift") else "float32"


def unit_case(of: Op) -> Case:
    dtype = element_type(of)
    a = var("a", dtype=dtype)
    assert of.unit is not None
    return case(of(a, splat(of.unit, (3,), dtype)), of(a, splat(1 - of.unit, (3,), dtype)), f"not {of.unit}")


def zero_case(of: Op) -> Case:
    dtype = "bool" if of.name.startswith("logical") else "int32"
    a = var("a", dtype=dtype)
    assert of.zero is not None
    return case(of(a, splat(of.zero, (3,), dtype)), of(a, splat(1 - of.zero, (3,), dtype)), f"not {of.zero}")


def with_constants(make: Callable[[Expr, Expr, Expr], Expr], *, name: str) -> Case:
    """A rule on two constants: it fires on ordinary ones, and not if their combination exceeds the range."""
    two, three = splat(2.0), numbers((3,))
    huge, tiny = splat(3e38), splat(1e-38)
    odd = {"add": (huge, huge), "subtract": (huge, splat(-3e38)), "multiply": (huge, huge), "divide": (huge, tiny), "divided": (tiny, huge)}
    return case(make(x, two, three), make(x, *odd[name]), "of the constants leaves the range of float32")


def negated(value: Expr) -> Expr:
    return ops.negative(value)  # type: ignore[no-any-return]  # the calls of `ops` have no static type


UNITS = {"add": "add_zero", "subtract": "subtract_zero", "power": "power_one"}
"""The rules of operators whose unit has a rule of its own."""
CASES: dict[str, Case] = {
    **{f"Arithmetic.{UNITS.get(of.name, f'unit[{of.name}]')}": unit_case(of) for of in list_ops() if of.unit is not None and of.arity == 2},
    **{f"Arithmetic.zero[{of.name}]": zero_case(of) for of in list_ops() if of.zero is not None},
    "Arithmetic.against_itself[difference]": case(count - count, x - x, "the elements are float32"),
    "Arithmetic.against_itself[bits]": case(ops.bitwise_xor(count, count), ops.bitwise_xor(count, ops.bitwise_not(count)), ""),
    "Arithmetic.against_itself[truth]": case(ops.logical_xor(cond, cond), ops.logical_xor(cond, ops.logical_not(cond)), ""),
    "Arithmetic.same_operands": case(ops.logical_and(cond, cond), ops.logical_and(cond, ops.logical_not(cond)), ""),
    "Arithmetic.absorbed_operand": case(ops.maximum(x, ops.maximum(x, y)), ops.maximum(x, ops.minimum(x, y)), ""),
    "Arithmetic.even[cos, negative]": case(ops.cos(negated(x)), ops.sin(ops.abs(x)), ""),
    "Arithmetic.even[cosh, abs]": case(ops.cosh(ops.abs(x)), ops.cosh(ops.exp(x)), ""),
    "Arithmetic.odd": case(negated(ops.tanh(negated(x))), ops.exp(negated(x)), ""),
    "Arithmetic.involution_twice": case(ops.negative(ops.negative(x)), ops.negative(ops.exp(x)), ""),
    "Arithmetic.idempotent_twice": case(ops.nn.relu(ops.nn.relu(x)), ops.nn.relu(ops.exp(x)), ""),
    "Arithmetic.clip_twice": case(
        ops.clip(ops.clip(x, a_min=-1.0, a_max=1.0), a_min=-1.0, a_max=1.0),
        ops.clip(ops.clip(x, a_min=-1.0, a_max=1.0), a_min=0.0, a_max=1.0),
        "a == b: Attrs(a_min=-1.0, a_max=1.0) == Attrs(a_min=0.0, a_max=1.0) does not hold",
    ),
    "Arithmetic.copy[copy]": case(ops.copy(x), ops.exp(x), ""),
    "Arithmetic.copy[leaky_relu]": case(ops.nn.leaky_relu(x, alpha=1.0), ops.nn.leaky_relu(x, alpha=0.5), "alpha is 0.5, not 1.0"),
    "Arithmetic.add_negative": case(x + negated(y), x + ops.abs(y), ""),
    "Arithmetic.subtract_negative": case(x - negated(y), x - ops.abs(y), ""),
    "Arithmetic.negative_of_difference": case(negated(x - y), negated(x + y), ""),
    "Arithmetic.product_of_negatives": case(negated(x) * negated(y), negated(x) * y, ""),
    "Arithmetic.quotient_of_negatives": case(
        negated(x) / negated(y), negated(var("i", dtype="int8")) / negated(var("j", dtype="int8")), "the elements are int8"
    ),
    "Arithmetic.divide_one": case(splat(1.0) / x, splat(2.0) / x, "not 1"),
    "Arithmetic.multiply_reciprocal": case(x * ops.reciprocal(y), x / ops.reciprocal(y), ""),
    "Arithmetic.where_true": case(ops.where(splat(1, (3,), "bool"), x, y), ops.where(const([True, False, True], "bool"), x, y), "differ"),
    "Arithmetic.where_false": case(ops.where(splat(0, (3,), "bool"), x, y), ops.where(splat(1, (3,), "bool"), x, y), "not 0"),
    "Arithmetic.where_same": case(ops.where(cond, y, y), ops.where(cond, var("v", (3,)), var("v", (3,))), ""),
    "Arithmetic.one_of_one[elemwise_sum]": case(ops.elemwise_sum(tup(x)), ops.elemwise_sum(tup(x, y)), ""),
    "Arithmetic.one_of_one[elemwise_mean]": case(ops.elemwise_mean(tup(x)), ops.elemwise_mean(tup(x, y)), ""),
    "Arithmetic.one_of_one[elemwise_max]": case(ops.elemwise_max(tup(x)), ops.elemwise_max(tup(x, y)), ""),
    "Arithmetic.one_of_one[elemwise_min]": case(ops.elemwise_min(tup(x)), ops.elemwise_min(tup(x, y)), ""),
    "Constants.sum[add_add]": with_constants(lambda a, c, d: (a + c) + d, name="add"),
    "Constants.sum[add_subtract]": with_constants(lambda a, c, d: (a + c) - d, name="subtract"),
    "Constants.sum[subtract_add]": with_constants(lambda a, c, d: (a - c) + d, name="subtract"),
    "Constants.sum[subtract_subtract]": with_constants(lambda a, c, d: (a - c) - d, name="add"),
    "Constants.product[multiply_multiply]": with_constants(lambda a, c, d: (a * c) * d, name="multiply"),
    "Constants.product[multiply_divide]": with_constants(lambda a, c, d: (a * c) / d, name="divide"),
    "Constants.product[divide_multiply]": with_constants(lambda a, c, d: (a / c) * d, name="divided"),
    "Constants.product[divide_divide]": with_constants(lambda a, c, d: (a / c) / d, name="multiply"),
}
narrow = var("narrow", (3,))
base = ops.exp(x)
wide = splat(1.0, (2, 3))
c, d = numbers((3,), seed=1), numbers((3,), seed=2)
huge = splat(3e38, (3,))


def power(value: float) -> Case:
    return case(
        ops.power(base, splat(value)), ops.power(base, splat(value + 1)), f"the elements of the constant are {value + 1}, not {value:g}"
    )


def binomials(a: Expr, b: Expr, plus: Callable[[Expr, Expr], Expr]) -> dict[tuple[str, str], Expr]:
    two = splat(2.0)
    return {
        ("outside", "between"): ops.add(plus(a * a, (a * b) * two), b * b),
        ("inside", "between"): ops.add(plus(a * a, (a * two) * b), b * b),
        ("outside", "last"): plus(a * a + b * b, (a * b) * two),
        ("inside", "last"): plus(a * a + b * b, (a * two) * b),
    }


def binomial_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for sign, plus in (("sum", ops.add), ("difference", ops.subtract)):
        fitting, others = binomials(x, y, plus), binomials(x, narrow, plus)
        found |= {
            f"Powers.binomial[{order}, {sign}, {two}]": case(fitting[two, order], others[two, order], "the types differ")
            for two, order in fitting
        }
    return found


CASES |= {
    "Powers.square": power(2.0),
    "Powers.root": power(0.5),
    "Powers.inverse": power(-1.0),
    "Powers.inverse_root": power(-0.5),
    "Powers.reciprocal_of_inverse_root": case(ops.reciprocal(ops.rsqrt(base)), ops.reciprocal(ops.exp(base)), ""),
    "Powers.divide_inverse_root": case(y / ops.rsqrt(base), ops.rsqrt(base) / y, ""),
    "Constants.negated": case(x - c, count - splat(1, (3,), "int32"), "the elements are int32"),
    "Constants.affine[multiply]": case((x * d + c) * d, (x * huge + c) * huge, "multiply of the constants leaves the range"),
    "Constants.affine[divide]": case((x / d + c) / d, (x / huge + c) / huge, "multiply of the constants leaves the range"),
    "Constants.switch_add_multiply": case((x + c) * d, (x + huge) * d, "multiply of the constants leaves the range"),
    **binomial_cases(),
}


far = ops.clip(count, a_min=0, a_max=300)


CASES |= {
    "Arithmetic.clip_nothing": case(ops.clip(count), ops.clip(count, a_min=0), "clips int32 to 0"),
    "Arithmetic.clip_nothing_finite": case(ops.clip(x), ops.clip(x, a_max=6.0), "clips float32 to"),
    "Arithmetic.clip_chain": case(
        ops.clip(ops.clip(x, a_min=0.1, a_max=6.0), a_max=3.0), ops.clip(ops.clip(x, a_min=2.0, a_max=1.0), a_max=3.0), "contain no value"
    ),
    "Arithmetic.clip_of_relu": case(
        ops.clip(ops.nn.relu(x), a_max=6.0), ops.clip(ops.nn.relu(x), a_max=-6.0), "the upper bound -6.0 is below 0"
    ),
    "Arithmetic.clip_of_extrema[low_first]": case(
        ops.minimum(ops.maximum(x, splat(0.5)), splat(6.0)),
        ops.minimum(ops.maximum(x, splat(7.0)), splat(6.0)),
        "7.0 and 6.0 are not the limits",
    ),
    "Arithmetic.clip_of_extrema[high_first]": case(
        ops.maximum(ops.minimum(x, splat(6.0)), splat(0.5)),
        ops.maximum(ops.minimum(x, splat(6.0)), splat(math.nan)),
        "nan and 6.0 are not the limits",
    ),
    "Arithmetic.clip_of_extrema[relu]": case(
        ops.minimum(ops.nn.relu(x), splat(6.0)), ops.minimum(ops.nn.relu(x), splat(-1.0)), "0.0 and -1.0 are not the limits"
    ),
    "Arithmetic.clip_cast": case(
        ops.cast(ops.cast(ops.clip(count, a_min=0, a_max=255), dtype="uint8"), dtype="int64"),
        ops.cast(ops.cast(far, dtype="uint8"), dtype="int64"),
        "uint8 cannot represent 0 ... 300",
    ),
}


bounds = st.one_of(st.none(), st.integers(-20, 20).map(lambda eighths: eighths / 8))
pooled = ops.nn.max_pool2d(ops.clip(var("image", (1, 2, 4, 4)), a_min=0.0, a_max=6.0), pool_size=(2, 2), strides=(2, 2))


CASES |= {
    "Arithmetic.rectified": case(
        ops.nn.relu(ops.exp(x)), ops.nn.relu(ops.tanh(x)), "elements may have a minus sign: their range is [-1.03125, 1.03125]"
    ),
    "Arithmetic.rectified_zeros": case(
        ops.abs(ops.sum(ops.nn.relu(x), axis=1)), ops.abs(ops.sum(x, axis=1)), "elements may be negative: their range is [-inf, inf] or NaN"
    ),
    "Arithmetic.nan_guard": case(
        ops.where(ops.isnan(ops.nn.softmax(x)), splat(0.0), ops.nn.softmax(x)),
        ops.where(ops.isnan(x), splat(0.0), x),
        "may have a minus sign",
    ),
    "Arithmetic.clipped": case(
        ops.clip(pooled, a_min=0.0, a_max=6.0),
        ops.clip(pooled, a_min=0.0, a_max=5.0),
        "the elements have the range [-0, 6] or NaN, the clip [0, 5]",
    ),
    "Arithmetic.won": case(
        ops.maximum(ops.exp(x), splat(-1.0)),
        ops.maximum(ops.exp(x), splat(1.0)),
        "the ranges do not decide which operand wins: [0, inf] or NaN and [1, 1]",
    ),
    "Arithmetic.compared": case(
        ops.less(ops.exp(x), splat(0.0)),
        ops.less(ops.exp(x), splat(2.0)),
        "the ranges do not decide the comparison: [0, inf] or NaN and [2, 2]",
    ),
    "Arithmetic.extremum_of_both": case(ops.maximum(ops.tanh(x), ops.tanh(y)), ops.maximum(ops.sign(x), ops.sign(y)), ""),
    "Arithmetic.extremum_of_all": case(ops.max(ops.tanh(x), axis=1), ops.max(ops.tanh(var("x", (2, "n"))), axis=1), "may be empty"),
}


TABLE = pairs(CASES, Arithmetic, Constants, Powers)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_a_where_with_a_wider_condition_is_not_an_identity() -> None:
    narrow = var("v", (3,))
    outcome = saturate(func(ops.where(cond, narrow, narrow)), Arithmetic)
    assert outcome.fired("Arithmetic.where_same") == 0
    assert any("the types differ: Tensor[(3,), float32] and Tensor[(2, 3), float32]" in remark for remark in outcome.remarks)


def test_a_unit_that_enlarges_is_kept() -> None:
    outcome = saturate(func(x * splat(1.0, (4, 2, 3))), Arithmetic)
    assert outcome.fired("Arithmetic.unit") == 0
    assert any("the right side has type" in remark for remark in outcome.remarks)


def test_a_unit_on_the_left_counts_for_commutative_operators() -> None:
    unit = Arithmetic.only("unit")
    assert operators(saturate(func(splat(1.0) * x), unit).function) == []
    assert operators(saturate(func(splat(1.0) / x), unit).function) == ["divide"]


@pytest.mark.parametrize(("limit", "bound"), [(0.1, 0.1), (1e-40, 1e-40), (float(np.finfo(np.float32).max), None)])
def test_the_bounds_of_a_clip_are_those_that_are_read_from_its_node(limit: float, bound: float | None) -> None:
    """Another form, such as 0.10000000149 for 0.1, left certificates incomplete."""
    body = saturate(func(ops.minimum(ops.maximum(x, splat(-limit)), splat(limit))), Arithmetic).function.body
    assert isinstance(body, Call)
    assert (body.attrs.a_min, body.attrs.a_max) == (bound if bound is None else -bound, bound)


def test_subtracting_negative_zero_stays_in_exact_mode() -> None:
    function = func(x - splat(-0.0))
    outcome = saturate(function, Arithmetic)
    assert outcome.fired("Arithmetic.subtract_zero") == 0
    assert any("are -0.0" in remark for remark in outcome.remarks)


def test_a_constant_that_may_enlarge_an_unknown_size_is_kept() -> None:
    unknown = var("u", ("?", 3))
    for ones in (splat(1.0, (2, 3)), splat(1.0, (1, 1, 3))):
        outcome = saturate(func(unknown * ones), Arithmetic)
        assert outcome.fired("Arithmetic.unit") == 0
        assert any("the right side has type" in remark for remark in outcome.remarks)
    for ones in (splat(1.0), splat(1.0, (3,)), splat(1.0, (1, 3))):
        assert saturate(func(unknown * ones), Arithmetic).function.body == unknown


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "float64"])
def test_scales_whose_product_overflows_are_not_merged(dtype: str) -> None:
    largest = {"float16": 300.0, "float32": 1e30, "bfloat16": 1e30, "float64": 1e200}[dtype]
    a = var("a", dtype=dtype)
    function = func((a * splat(largest, (), dtype)) * splat(largest, (), dtype))
    assert saturate(function, Constants).function is function
    function = func((a / splat(1 / largest, (), dtype)) / splat(1 / largest, (), dtype))
    assert saturate(function, Constants).function is function


def test_zeros_among_factors_are_not_an_overflow() -> None:
    function = func((x * const([0.0, 2.0, 3.0])) * splat(2.0))
    outcome = saturate(function, Constants, ConstantFolding)
    assert operators(outcome.function) == ["multiply"]
    assert_equal_in_value(function, outcome.function, exact=True, special=False)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_sums_and_products_of_integers_are_regrouped_exactly_where_they_overflow(dtype: str) -> None:
    a, large, larger = var("a", (4,), dtype), splat(np.iinfo(dtype).max, (), dtype), splat(np.iinfo(dtype).max - 6, (4,), dtype)
    for made in ((a + large) + larger, (a + large) - larger, (a - large) + larger, (a - large) - larger, (a * large) * larger):
        function = func(made)
        optimized = saturate(function, Constants, ConstantFolding).function
        assert len(operators(optimized)) == 1
        assert_equal_in_value(function, optimized, exact=True, special=False)


def test_quotients_of_integers_are_not_reassociated() -> None:
    i, three = var("i", dtype="int32"), splat(3, (), "int32")
    for form, made in {
        "multiply_divide": (i * three) / three,
        "divide_multiply": (i / three) * three,
        "divide_divide": (i / three) / three,
    }.items():
        outcome = saturate(func(made), Constants)
        assert outcome.fired(f"Constants.product[{form}]") == 0
        assert any("not floating-point numbers" in remark for remark in outcome.remarks)


def test_the_lowest_integer_is_its_own_negative() -> None:
    i, j = var("i", (), "int8"), var("j", (), "int8")
    function = func(negated(i) / negated(j))
    feeds = [Tensor.dense(np.int8(value)) for value in (-128, 2)]
    assert run(saturate(function, Arithmetic).function, feeds)[0].item() == 64


def test_constants_of_shapes_that_do_not_meet_are_rejected_with_a_reason() -> None:
    a = var("a", (2, 3, 4))
    function = func((a + numbers((3, 1))) + numbers((2, 1, 1)))
    assert operators(saturate(function, Constants, ConstantFolding).function) == ["add"]


def test_an_exponent_that_enlarges_its_base_stays() -> None:
    outcome = saturate(func(ops.power(narrow, splat(2.0, (2, 3)))), Powers)
    assert operators(outcome.function) == ["power"]
    assert any("the right side has type" in remark for remark in outcome.remarks)


def test_integers_have_squares_but_no_roots() -> None:
    count = var("count", (64, 64), "int64")
    before = func(ops.power(count, splat(2, (), "int64")))
    outcome = saturate(before, Powers)
    assert outcome.fired("Powers.square") == 1
    assert_equal_in_value(before, outcome.function, exact=True, special=False)
    outcome = saturate(func(ops.power(count, const(-1, "int64"))), Powers)
    assert any("not floating-point" in remark for remark in outcome.remarks)


@pytest.mark.parametrize("shape", [(), (1, 1), ("n",)])
def test_one_integer_is_squared_as_a_floating_point_number(shape: tuple[int | str, ...]) -> None:
    """ONNX Runtime does so: the square of the largest integer is then the lowest one, not 1."""
    outcome = saturate(func(ops.power(var("count", shape, "int64"), splat(2, (), "int64"))), Powers)
    assert any("computes this power of integers as floating-point numbers" in remark for remark in outcome.remarks)


def test_squares_are_merged_unless_exact() -> None:
    function = func(x * x + (x * y) * splat(2.0) + y * y)
    assert saturate(function, Powers).count("fired:Powers.binomial") == 1
    assert saturate(function, Powers, rules__math="exact").count("fired:Powers.binomial") == 0


@settings(max_examples=share(20, 40))
@given(bounds, bounds, bounds, bounds)
def test_two_clips_are_merged(low: AnyValue, high: AnyValue, then_low: AnyValue, then_high: AnyValue) -> None:
    before = func(ops.clip(ops.clip(x, a_min=low, a_max=high), a_min=then_low, a_max=then_high))
    after = saturate(before, Arithmetic).function
    hollow = any(None not in pair and pair[0] > pair[1] for pair in ((low, high), (then_low, then_high)))
    kept = 1 + (hollow and (low, high) != (then_low, then_high))  # equal clips are one
    assert operators(after) == ["clip"] * kept
    feed = [Tensor.dense(np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3))]
    assert np.array_equal(run(after, feed)[0], run(before, feed)[0])


@pytest.mark.parametrize(
    ("dtype", "math", "left"),
    [("float32", "finite", []), ("int32", "exact", []), ("float32", "reassociate", ["multiply", "subtract", "subtract"])],
)
def test_products_with_zero_do_not_grow(dtype: str, math: str, left: list[str]) -> None:
    """0 * (d - d) is a product with 0 as well; its differences with itself made products without end."""
    body = var("a", (), dtype) * splat(0, (), dtype)
    done = saturate(func((body - body) - body), Arithmetic, Factoring, ConstantFolding, rules__math=math)
    assert operators(done.function) == left
    assert sum(done.count(f"matched:{rule.name}") for rule in (*Arithmetic, *Factoring)) < 1000


def test_a_bound_stays_as_it_was_written() -> None:
    merged = saturate(func(ops.clip(ops.clip(x, a_min=0.1, a_max=6.0), a_max=0.7)), Arithmetic).function.body
    assert dict(merged.attrs) == {"a_min": 0.1, "a_max": 0.7}  # type: ignore[attr-defined]  # a call


@pytest.mark.parametrize(("low", "high"), [(-0.0, None), (0.0, -0.0), (-1.0, -0.0)])
def test_zeros_keep_their_signs_if_a_clip_absorbs_a_relu(low: float, high: float | None) -> None:
    before = func(ops.clip(ops.nn.relu(x), a_min=low, a_max=high))
    after = saturate(before, Arithmetic).function
    assert operators(after) == ["clip"]
    feed = [Tensor.dense(np.array([[-0.0, 0.0, -2.0], [2.0, np.nan, -1e-40]], np.float32))]
    assert np.array_equal(np.signbit(run(after, feed)[0]), np.signbit(run(before, feed)[0]))


def test_a_clip_to_bytes_needs_no_bytes() -> None:
    body = ops.cast(ops.cast(ops.clip(count, a_min=0, a_max=255), dtype="uint8"), dtype="int32")
    assert operators(saturate(func(body), Arithmetic, Copies).function) == ["clip"]


def test_fractions_are_cut_off_by_a_cast() -> None:
    body = ops.cast(ops.cast(ops.clip(x, a_min=0.0, a_max=255.0), dtype="uint8"), dtype="float32")
    assert saturate(func(body), Arithmetic).fired("Arithmetic.clip_cast") == 0


@pytest.mark.parametrize(
    ("compare", "bound", "decided"),
    # NaN is neither less than, equal to, nor greater than anything, so only comparisons that never hold are decided.
    [("less", 0.0, True), ("greater_equal", 0.0, False), ("equal", -1.0, True), ("not_equal", -1.0, True), ("greater", -1.0, False)],
)
def test_comparisons_with_possible_nan(compare: str, bound: float, decided: bool) -> None:
    found = saturate(func(getattr(ops, compare)(ops.exp(x), splat(bound))), Arithmetic).function
    assert (operators(found) == []) is decided


def test_sizes_are_never_negative() -> None:
    size = ops.shape_of(var("x", ("n", 3)))
    zero = const([0, 0], "int64")
    assert operators(saturate(func(ops.maximum(size, zero)), Arithmetic).function) == ["shape_of"]
    assert operators(saturate(func(ops.less(size, zero)), Arithmetic).function) == []
    assert operators(saturate(func(ops.greater(size, zero)), Arithmetic).function) == ["shape_of", "greater"]


def test_integers_that_may_wrap_around_have_any_sign() -> None:
    small = ops.cast(var("x", dtype="uint8"), dtype="int8")
    assert operators(saturate(func(ops.abs(small)), Arithmetic).function) == ["cast", "abs"]
    wide = ops.cast(var("x", dtype="uint8"), dtype="int16")
    assert operators(saturate(func(ops.abs(wide)), Arithmetic).function) == ["cast"]
    squared = ops.multiply(wide, wide)
    assert operators(saturate(func(ops.abs(squared)), Arithmetic).function) == ["cast", "multiply", "abs"]


def test_bounds_and_traits_meet() -> None:
    body = ops.nn.relu(ops.cosh(ops.negative(x)))
    assert operators(saturate(func(body), Arithmetic).function) == ["cosh"]


def test_zeros_keep_their_signs_under_exact_mathematics() -> None:
    body = ops.abs(ops.nn.relu(x))
    assert operators(saturate(func(body), Arithmetic).function) == ["nn.relu"]
    kept = saturate(func(body), Arithmetic, rules__math="exact").function
    assert operators(kept) == ["nn.relu", "abs"]
    zeros = [Tensor.dense(np.full((2, 3), -0.0, np.float32))]
    assert not np.signbit(run(kept, zeros)[0]).any()
