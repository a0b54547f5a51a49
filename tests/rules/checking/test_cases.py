"""Drawing and building instances of patterns, and comparing values."""

import contextlib
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.op import list_ops
from passat.ir.tensor import Array
from passat.rules.attribute_arithmetic import equals
from passat.rules.checking.case import Evaluation, Unfit, build, difference, rounding
from passat.rules.checking.draw import SamplingHints, draw
from passat.rules.checking.relations import covers
from passat.rules.checking.sampler import Sampler
from passat.rules.guards import is_float
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import KEPT, MIXED, NONFINITE, RESOLVED, NonFinite, Rule
from tests.rules.building import func, ops, var
from tests.share import share

x, y, z = tensors("x y z")
c, d = constants("c d")
p, q = attributes("p q")


def is_drawn(pattern: Pattern, tries: int) -> bool:
    """True if one of the drawn cases is well typed."""
    hints, sampler = SamplingHints(pattern, ()), Sampler(np.random.default_rng(0))
    for turn in range(tries):
        with contextlib.suppress(Unfit):
            build(pattern, draw(hints, sampler, unknown=turn % 4 == 3)[0])
            return True
    return False


SKIPPED = {"dyn.full", "zeros", "ones", "annotation.compiler_begin", "annotation.compiler_end"}
"""Operators without an operand that could be a hole for an arbitrary expression, and annotations, which name a compiler."""
OPERATORS = [of for of in list_ops() if not of.variadic and not of.stateful and of.arity and of.name not in SKIPPED]


def test_rules_on_every_operator_can_be_checked() -> None:
    calls = [PCall(of, tensors(" ".join(f"h{i}" for i in range(of.arity)))) for of in OPERATORS]
    assert [call.op.name for call in calls if not is_drawn(call, 250)] == []


@pytest.mark.parametrize(
    ("general", "special", "covered"),
    [
        (op.exp(x) + y >> y, op.exp(z) + x >> x, True),
        (op.exp(x) + y >> y, x + op.exp(z) >> x, True),
        (op.exp(x) - y >> y, x - op.exp(z) >> x, False),
        (x + c >> x, op.exp(y) + 0 >> op.exp(y), True),
        (x + 0 >> x, op.exp(y) + c >> op.exp(y), False),
        (x + x >> x, x + y >> x, False),
        (x + y >> x, x + x >> x, True),
        (op.transpose(x, axes=p) >> x, op.transpose(y, axes=(1, 0)) >> y, True),
        (op.transpose(x, axes=(0, 1)) >> x, op.transpose(y, axes=p) >> y, False),
        (op.transpose(x, ...) >> x, op.transpose(y, axes=(1, 0)) >> y, True),
        (op.transpose(op.transpose(x, axes=p), axes=p) >> x, op.transpose(op.transpose(x, axes=p), axes=q) >> x, False),
        ((op.exp(x) >> x).when(is_float(x)), (op.exp(y) >> y).when(is_float(y)), True),
        ((op.exp(x) >> x).when(is_float(x)), op.exp(y) >> y, False),
        (op.exp(x) >> x, (op.exp(y) >> y).when(is_float(y)), True),
        ((op.exp(x) >> x).inexact("rounds"), op.exp(y) >> y, False),
        ((op.exp(x) >> x).inexact("rounds", nonfinite="mixed"), (op.exp(y) >> y).inexact("rounds"), False),
        ((op.exp(x) >> x).inexact("rounds"), (op.exp(y) >> y).inexact("rounds", nonfinite="mixed"), True),
        ((op.transpose(x, axes=p) >> x).when(equals(p, (0, 1))), op.transpose(y) >> y, False),
        (op.concatenate((x, y)) >> x, op.concatenate((op.exp(x), y)) >> op.exp(x), True),
        (op.split(x, attrs=p)[0] >> x, op.split(op.exp(x), attrs=q)[0] >> op.exp(x), True),
    ],
    ids=repr,
)
def test_a_rule_covers_its_instances(general: Rule, special: Rule, covered: bool) -> None:
    assert covers(general, special) is covered


F32, F64 = np.float32, np.float64


def array(*values: object, dtype: object = F32) -> Array:
    return np.array(values, dtype)  # type: ignore[call-overload,no-any-return]  # a dtype by any name


def test_exact_comparison_ignores_nan_payloads_but_not_signs_of_zero() -> None:
    quiet, other = np.array([0x7FC00000, 0xFFC00001], np.uint32).view(F32).reshape(2, 1)
    assert difference([quiet], [other]) is None
    assert difference([array(0.0)], [array(-0.0)]) == "the element at (0,) is 0.0 on the right, -0.0 on the left"
    assert difference([array(1.0)], [array(np.nextafter(F32(1), F32(2)))]) is not None


def test_bounded_comparison_keeps_infinities_and_nan() -> None:
    assert difference([array(1.0, 0.0)], [array(1.01, -0.0)], [0.02]) is None
    assert difference([array(1.0)], [array(1.03)], [0.02]) == (
        "the element at (0,) is 1.0 on the right, 1.03 on the left; a difference of up to 0.02 would be rounding"
    )
    math.exp(-1000.0)  # leaves errno at ERANGE, for which Python 3.11 says that the absolute value of a complex NaN is too large
    assert difference([array(np.nan)], [array(0.0)], [0.02]) == "the element at (0,) is nan on the right, 0.0 on the left"
    assert difference([array(np.inf)], [array(np.nan)], [1e9]) == "the element at (0,) is inf on the right, nan on the left"
    assert difference([array(np.inf)], [array(-np.inf)], [1e9]) is not None
    assert difference([array(3e38)], [array(np.inf)], [1e9]) is not None


def test_bounds_do_not_apply_to_integers() -> None:
    assert difference([array(3, dtype=np.int8)], [array(4, dtype=np.int8)], [9.0]) is not None
    assert difference([array(True, dtype=np.bool_)], [array(True, dtype=np.bool_)]) is None


def test_only_finite_elements_count_on_request() -> None:
    assert difference([array(0.0, 1.0)], [array(np.nan, 1.0)], [0.0], finite=True) is None
    assert difference([array(np.nan)], [array(1.0)], [0.0], finite=True) is not None


@pytest.mark.parametrize(
    ("found", "expected", "rejected_by"),
    [
        (np.nan, np.nan, []),
        (np.inf, np.inf, []),
        (-np.inf, np.nan, [KEPT]),
        (np.nan, -np.inf, [KEPT, RESOLVED]),
        (np.inf, -np.inf, [KEPT, RESOLVED]),
        (1.0, np.nan, [*NONFINITE]),
        (np.nan, 1.0, [*NONFINITE]),
        (1.0, np.inf, [*NONFINITE]),
        (np.inf, 1.0, [*NONFINITE]),
    ],
)
def test_nonfinite_values_may_change_as_declared(found: float, expected: float, rejected_by: list[NonFinite]) -> None:
    pairs = {words: difference([array(found, 2.0)], [array(expected, 2.0)], [9.0], nonfinite=words) for words in NONFINITE}
    assert [words for words in NONFINITE if pairs[words]] == rejected_by
    exactly = difference([array(found)], [array(expected)], nonfinite=MIXED)
    assert bool(exactly) == bool(rejected_by), "a bitwise comparison proves nothing here"


def test_complex_numbers_are_compared_by_part() -> None:
    assert difference([array(1 + 2j, dtype=np.complex64)], [array(1 + 2j, dtype=np.complex64)]) is None
    assert difference([array(1 + 2j, dtype=np.complex64)], [array(1 - 2j, dtype=np.complex64)], [0.1]) is not None


def test_shapes_and_numbers_of_results_are_compared() -> None:
    assert difference([array(1.0)], []) == "it has 1 result, not 0"
    assert difference([array(1.0)], [array(1.0, 1.0)]) == "the type is float32[1] on the right, float32[2] on the left"
    assert difference([array(1.0), array(1.0)], [array(1.0), array(2.0)]) == (
        "the element of result 1 at (0,) is 1.0 on the right, 2.0 on the left"
    )


@settings(max_examples=share(30, 60))
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=6), st.sampled_from(["float32", "float16", "bfloat16", "float64"]))
def test_reordered_sums_are_within_the_bound(values: list[float], dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    numbers = np.array(values).astype(kind)
    there = back = np.zeros((), kind)
    for number, last in zip(numbers, numbers[::-1], strict=True):
        there, back = (there + number).astype(kind), (back + last).astype(kind)
    bound = rounding(there, float(np.sum(np.abs(numbers.astype(F64)))))
    assert difference([np.asarray(there)], [np.asarray(back)], [bound]) is None


@pytest.mark.parametrize("wide", [False, True])
def test_evaluation_returns_the_largest_intermediate_magnitude(wide: bool) -> None:
    from passat.ir.infer import infer_type
    from passat.ir.tensor import Tensor

    x = var("x", (1,))
    function = func(ops.add(ops.multiply(x, ops.multiply(x, x)), ops.negative(ops.multiply(x, ops.multiply(x, x)))))
    infer_type(function)
    evaluation = Evaluation({x: Tensor.dense(array(1000.1))}, wide=wide)
    [found] = evaluation(function.body)
    assert found.dtype == (F64 if wide else F32)
    assert found.tolist() == [0.0]
    assert 1e9 <= evaluation.magnitude() < 1.001e9
