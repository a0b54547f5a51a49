"""Rules on tensors of one value repeated: each on a program where it holds, and on one where it does not."""

import pytest

from passat.ir.expr import Constant, Expr
from passat.rules.library import Fills, Units
from passat.rules.rule import Rule, RuleSetMeta
from tests.rules.building import const, func, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_refuses, pairs
from tests.rules.running import operators, optimise

x, small, v = var("x"), var("small", (3,)), var("v", ("n", 3))
scalar = var("s", ())


def filled(form: str, like: Expr, *shape: int) -> Expr:
    """A tensor of one value, like another or of that shape."""
    forms = {
        "full": lambda: ops.full(scalar, shape=shape),
        "full_like": lambda: ops.full_like(like, scalar),
        "zeros": lambda: ops.zeros(shape=shape),
        "ones": lambda: ops.ones(shape=shape),
        "zeros_like": lambda: ops.zeros_like(like),
        "ones_like": lambda: ops.ones_like(like),
    }
    return forms[form]()  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def fill_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for form in ("full", "full_like", "zeros", "ones", "zeros_like", "ones_like"):
        fill = filled(form, x, 2, 3)
        found[f"Fills.right[{form}]"] = case(x + fill, small + fill, "the types differ")
        found[f"Fills.left[{form}]"] = case(fill - x, fill - small, "the types differ")
        found[f"Fills.divisor[{form}]"] = case(x / fill, small / fill, "the types differ")
    return found


CASES = {
    "Fills.zeros_like": case(ops.zeros_like(x), ops.zeros_like(v), "is not static"),
    "Fills.ones_like": case(ops.ones_like(x), ops.ones_like(v), "is not static"),
    "Fills.full_like": case(ops.full_like(x, scalar), ops.full_like(v, scalar), "is not static"),
    "Fills.cast_like": case(ops.cast_like(x, var("d", (1,), "float64")), ops.cast(x, dtype="float64"), ""),
    "Fills.reshape_like": case(
        ops.reshape_like(x, var("six", (6,))), ops.reshape_like(v, var("w", ("m", 3))), "the left side Tensor[(m, 3), float32]"
    ),
    "Fills.broadcast_to_like": case(ops.broadcast_to_like(small, x), ops.broadcast_to_like(small, v), "is not static"),
    "Fills.collapse_sum_like": case(
        ops.collapse_sum_like(x, small), ops.collapse_sum_like(v, var("u", ("n", 1))), "is not static, or empty"
    ),
    "Fills.collapse_nothing": case(ops.collapse_sum_like(x, var("y")), ops.collapse_sum_like(x, small), "the types differ"),
    **fill_cases(),
}
TABLE = pairs(CASES, Fills)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_refuses(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_refuses(rules, rule, example)


def test_what_is_like_another_tensor_does_not_need_it() -> None:
    outcome = optimise(func(ops.zeros_like(ops.tanh(x))), Fills)
    assert operators(outcome.function) == ["zeros"]


def test_units_are_found_in_tensors_of_any_size() -> None:
    body = (v + ops.zeros_like(v)) * ops.ones_like(v)
    assert optimise(func(body), Fills, Units).function.body is v


def test_a_filled_tensor_becomes_a_number() -> None:
    outcome = optimise(func(x / ops.full(splat(4.0), shape=(2, 3))), Fills)
    divisor = outcome.function.body.args[1]  # type: ignore[attr-defined]  # a call
    assert isinstance(divisor, Constant)
    assert divisor.data.shape == ()


@pytest.mark.parametrize("form", ["full", "full_like", "zeros", "zeros_like"])
def test_a_quotient_of_integers_keeps_what_may_be_0(form: str) -> None:
    """ONNX Runtime does not load a quotient by an integer constant 0, even of an empty tensor."""
    integers = var("i", (0, 3), "int32")
    fill = {
        "full": ops.full(const(0, "int32"), shape=(0, 3)),
        "full_like": ops.full_like(integers, const(0, "int32")),
        "zeros": ops.zeros(shape=(0, 3), dtype="int32"),
        "zeros_like": ops.zeros_like(integers),
    }[form]
    outcome = optimise(func(integers / fill), Fills)
    assert outcome.fired("Fills.divisor") == 0
    assert any("int32, not floating-point numbers" in remark for remark in outcome.remarks)
