"""Identities of arithmetic: each rule on a program where it holds, and on one where it does not."""

from collections.abc import Callable

import numpy as np
import pytest

from passat.ir.expr import Expr
from passat.ir.op import Op, list_ops
from passat.ir.tensor import Tensor
from passat.rules.library import Arithmetic, Constants, Units
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import Rule, RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_refuses, pairs
from tests.rules.running import assert_equal_in_value, operators, optimise, run

x, y = var("x"), var("y")
cond = var("cond", dtype="bool")


def element_type(of: Op) -> str:
    """An element type that the operator takes."""
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


def with_constants(make: Callable[[Expr, Expr, Expr], Expr], *, name: str) -> Case:
    """A rule on two constants: it fires on ordinary ones, and not where the two together leave the range."""
    two, three = splat(2.0), numbers((3,))
    huge, tiny = splat(3e38), splat(1e-38)
    odd = {"add": (huge, huge), "subtract": (huge, splat(-3e38)), "multiply": (huge, huge), "divide": (huge, tiny), "divided": (tiny, huge)}
    return case(make(x, two, three), make(x, *odd[name]), "of the constants leaves the range of float32")


def negated(value: Expr) -> Expr:
    return ops.negative(value)  # type: ignore[no-any-return]  # the calls of `ops` have no static type


CASES: dict[str, Case] = {
    **{
        (f"Units.{of.name}" if of.name in ("add", "subtract", "power") else f"Units.unit[{of.name}]"): unit_case(of)
        for of in list_ops()
        if of.unit is not None and of.arity == 2
    },
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
        "is not Attrs",
    ),
    "Arithmetic.copy": case(ops.copy(x), ops.exp(x), ""),
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
    "Constants.add_add": with_constants(lambda a, c, d: (a + c) + d, name="add"),
    "Constants.add_subtract": with_constants(lambda a, c, d: (a + c) - d, name="subtract"),
    "Constants.subtract_add": with_constants(lambda a, c, d: (a - c) + d, name="subtract"),
    "Constants.subtract_subtract": with_constants(lambda a, c, d: (a - c) - d, name="add"),
    "Constants.multiply_multiply": with_constants(lambda a, c, d: (a * c) * d, name="multiply"),
    "Constants.multiply_divide": with_constants(lambda a, c, d: (a * c) / d, name="divide"),
    "Constants.divide_multiply": with_constants(lambda a, c, d: (a / c) * d, name="divided"),
    "Constants.divide_divide": with_constants(lambda a, c, d: (a / c) / d, name="multiply"),
}
TABLE = pairs(CASES, Units, Arithmetic, Constants)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_refuses(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_refuses(rules, rule, example)


def test_where_of_a_wider_condition_is_no_identity() -> None:
    narrow = var("v", (3,))
    outcome = optimise(func(ops.where(cond, narrow, narrow)), Arithmetic)
    assert outcome.fired("Arithmetic.where_same") == 0
    assert any("the types differ: Tensor[(3,), float32] and Tensor[(2, 3), float32]" in remark for remark in outcome.remarks)


def test_a_unit_that_enlarges_is_kept() -> None:
    outcome = optimise(func(x * splat(1.0, (4, 2, 3))), Units)
    assert outcome.fired("Units.unit") == 0
    assert any("the types differ" in remark for remark in outcome.remarks)


def test_a_unit_on_the_left_counts_where_the_operator_commutes() -> None:
    assert operators(optimise(func(splat(1.0) * x), Units).function) == []
    assert operators(optimise(func(splat(1.0) / x), Units).function) == ["divide"]


def test_minus_negative_zero_is_kept_where_bits_count() -> None:
    function = func(x - splat(-0.0))
    outcome = optimise(function, Units)
    assert outcome.fired("Units.subtract") == 0
    assert any("are -0.0" in remark for remark in outcome.remarks)


def test_a_constant_that_may_enlarge_an_unknown_size_is_kept() -> None:
    unknown = var("u", ("?", 3))
    for ones in (splat(1.0, (2, 3)), splat(1.0, (1, 1, 3))):
        outcome = optimise(func(unknown * ones), Units)
        assert outcome.fired("Units.unit") == 0
        assert any("the types differ" in remark for remark in outcome.remarks)
    for ones in (splat(1.0), splat(1.0, (3,)), splat(1.0, (1, 3))):
        assert optimise(func(unknown * ones), Units).function.body == unknown


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "float64"])
def test_scales_that_overflow_together_stay_apart(dtype: str) -> None:
    largest = {"float16": 300.0, "float32": 1e30, "bfloat16": 1e30, "float64": 1e200}[dtype]
    a = var("a", dtype=dtype)
    function = func((a * splat(largest, (), dtype)) * splat(largest, (), dtype))
    assert optimise(function, Constants).function is function
    function = func((a / splat(1 / largest, (), dtype)) / splat(1 / largest, (), dtype))
    assert optimise(function, Constants).function is function


def test_zeros_among_factors_are_no_overflow() -> None:
    function = func((x * const([0.0, 2.0, 3.0])) * splat(2.0))
    outcome = optimise(function, Constants, ConstantFolding)
    assert operators(outcome.function) == ["multiply"]
    assert_equal_in_value(function, outcome.function, exact=True, special=False)


def test_integers_are_not_reassociated() -> None:
    i = var("i", dtype="int32")
    outcome = optimise(func((i * splat(3, (), "int32")) / splat(3, (), "int32")), Constants)
    assert outcome.fired("Constants.multiply_divide") == 0
    assert any("not floating-point numbers" in remark for remark in outcome.remarks)


def test_the_lowest_integer_is_its_own_negative() -> None:
    i, j = var("i", (), "int8"), var("j", (), "int8")
    function = func(negated(i) / negated(j))
    feeds = [Tensor.dense(np.int8(value)) for value in (-128, 2)]
    assert run(optimise(function, Arithmetic).function, feeds)[0].item() == 64


def test_constants_of_shapes_that_do_not_meet_are_refused_with_a_reason() -> None:
    a = var("a", (2, 3, 4))
    function = func((a + numbers((3, 1))) + numbers((2, 1, 1)))
    assert operators(optimise(function, Constants, ConstantFolding).function) == ["add"]
