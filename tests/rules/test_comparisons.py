"""Guards that compare attributes, sizes, ranks and element types: when they hold, and the reasons of rejections."""

import math
import operator
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from passat.ir.expr import Call, Expr, Function, Var
from passat.ir.op import get_op
from passat.ir.shape import ANY, Dim, Shape, SymDim
from passat.ir.types import TensorType
from passat.rules import RuleSet, attribute_arithmetic
from passat.rules.attribute_arithmetic import equals
from passat.rules.checking.check_sets import check_rule
from passat.rules.guards import Guard, Reject, has_dtype, is_float
from passat.rules.holes import cases
from passat.rules.pattern import RuleError, attributes, number, op, tensors
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.running import saturate

N, M = SymDim.named("n"), SymDim.named("m")
x, y = tensors("x y")
a, b = attributes("a b")


def outcome(rule: Rule, function: Function) -> str:
    """The reason why the rule rejects its match; '' if it fires."""
    found = saturate(function, RuleSetMeta("Own", (RuleSet,), {"rule": rule}), rules__cost="nodes")
    remarks = [remark for remarks in found.statistics.remarks.values() for remark in remarks]
    assert (found.function is function) == bool(remarks)
    return "".join(remark.removeprefix("Own.rule rejected 1 time: ") for remark in remarks)


def on_shape(shape: Shape, asked: Guard, dtype: str = "float32") -> str:
    """The outcome for a tensor of a shape."""
    data = Var("x", TensorType(shape, dtype))
    return outcome((op.abs(op.abs(x)) >> op.abs(x)).when(asked), Function([data], _call("abs", _call("abs", data))))


def on_alphas(first: float, second: float, asked: Guard) -> str:
    """The outcome for two numbers."""
    data = Var("x", TensorType((2, 3), "float32"))
    inner = _call("nn.leaky_relu", data, alpha=first)
    rule = op.nn.leaky_relu(op.nn.leaky_relu(x, alpha=a), alpha=b) >> op.nn.relu(x)
    return outcome(rule.when(asked).inexact("a test"), Function([data], _call("nn.leaky_relu", inner, alpha=second)))


def _call(name: str, operand: Expr, **attrs: object) -> Call:
    return Call(get_op(name), [operand], get_op(name).bind_attrs(attrs))


HOLDING: Final[list[tuple[Shape, Guard]]] = [
    ((4, 3), x.shape[0] > 3),
    ((4, 3), x.shape[-1] <= x.shape[0]),
    ((4, 3), x.shape[0] * x.shape[1] == 12),
    ((4, 3), x.shape[0] / x.shape[1] > 1.3),
    ((4, 3), x.ndim == 2),
    ((4, 3), x.shape[x.ndim - 1] != 4),
    ((4, 3), x.shape == (4, 3)),
    ((4, 3), x.shape == op.abs(x).shape),
    ((4, 3), x.shape != (4, 3, 1)),
    ((), x.ndim < 1),
    ((), x.shape == ()),
    ((4, 3), x.shape == (np.int64(4), 3)),
    ((N, 3), x.shape == (N, 3)),
    ((4, 3), x.dtype == "float32"),
    ((4, 3), x.dtype != "int32"),
    ((N, 3), x.shape[0] >= 0),
    ((N, 3), x.shape[0] + 1 > 0.5),
    ((N, 3), x.shape[0] > -0.5),
    ((N, 3), x.shape[0] * 2 % 2 == 0),
    ((N, N + 1), x.shape[0] < x.shape[1]),
    ((N, N + 1), x.shape[0] != x.shape[1]),
    ((N, N), x.shape[0] == x.shape[1]),
    ((N, 3), x.shape != (1, 2)),
    ((ANY, 3), x.ndim == 2),
    ((ANY, 3), x.shape[1] == 3),
    ((ANY, 3), x.shape != (1, 2)),
]


@pytest.mark.parametrize(("shape", "asked"), HOLDING, ids=repr)
def test_a_comparison_that_holds(shape: Shape, asked: Guard) -> None:
    assert on_shape(shape, asked) == ""


REJECTED: Final[list[tuple[Shape, Guard, str]]] = [
    ((2, 3), x.shape[0] > 3, "x.shape[0] > 3: 2 > 3 does not hold"),
    ((2, 3), x.shape[0] >= 2.5, "x.shape[0] >= 2.5: 2 >= 2.5 does not hold"),
    ((2, 3), x.ndim != 2, "x.ndim != 2: 2 != 2 does not hold"),
    ((2, 3), x.shape == (2, 4), "x.shape == (2, 4): (2, 3) == (2, 4) does not hold"),
    ((2, 3), x.shape == (2,), "x.shape == (2,): (2, 3) == (2,) does not hold"),
    ((2, 3), x.dtype == "int8", "x.dtype == 'int8': 'float32' == 'int8' does not hold"),
    ((2, 3), x.shape[2] > 0, "x.shape[2] > 0: (2, 3) has no element 2"),
    ((2, 3), x.shape[-3] > 0, "x.shape[-3] > 0: (2, 3) has no element -3"),
    ((), x.shape[0] > 0, "x.shape[0] > 0: () has no element 0"),
    ((2, 3), x.shape > 0, "x.shape > 0: (2, 3) is not a number"),
    ((2, 0), x.shape[0] % x.shape[1] == 0, "x.shape[0] % x.shape[1] == 0: division by zero"),
    ((N, 3), x.shape[0] > 0, "x.shape[0] > 0: n > 0 is not known"),
    ((N, 3), x.shape[0] == 3, "x.shape[0] == 3: n == 3 is not known"),
    ((N, 3), x.shape[0] != 3, "x.shape[0] != 3: n != 3 is not known"),
    ((N, M), x.shape[0] <= x.shape[1], "x.shape[0] <= x.shape[1]: n <= m is not known"),
    ((N, 3), x.shape[0] < 0, "x.shape[0] < 0: n < 0 does not hold"),
    ((N + 1, N), x.shape[0] == x.shape[1], "x.shape[0] == x.shape[1]: n + 1 == n does not hold"),
    ((N, N), x.shape[0] != x.shape[1], "x.shape[0] != x.shape[1]: n != n does not hold"),
    ((N, 3), x.shape[0] == 2.5, "x.shape[0] == 2.5: n == 2.5 does not hold"),
    ((N, 3), x.shape[0] < float("inf"), "x.shape[0] < inf: n < inf is not known"),
    ((N, 3), x.shape[0] / 2 > 1, "x.shape[0] / 2 > 1: the size n is not known"),
    ((N, 3), x.shape[0] + 0.5 > 0, "x.shape[0] + 0.5 > 0: the size n is not known"),
    ((ANY, 3), x.shape[0] >= 0, "x.shape[0] >= 0: ? >= 0 is not known"),
    ((ANY, 3), x.shape[0] == x.shape[0] + 0, "x.shape[0] == x.shape[0] + 0: ? == ? is not known"),
    ((ANY, 3), x.shape == op.abs(x).shape, "x.shape == abs(x).shape: (?, 3) == (?, 3) is not known"),
]


@pytest.mark.parametrize(("shape", "asked", "reason"), REJECTED, ids=repr)
def test_the_reason_of_a_comparison_that_is_not_certain(shape: Shape, asked: Guard, reason: str) -> None:
    assert on_shape(shape, asked) == reason


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (a > 0, ""),
        (a * b < 0.2, ""),
        (b - a == 0.25, ""),
        (a != b, ""),
        (a >= b, "a >= b: 0.25 >= 0.5 does not hold"),
        ((a + b) * 2 > 1.5, "(a + b) * 2 > 1.5: 1.5 > 1.5 does not hold"),
        (a / (a - a) > 1, "a / (a - a) > 1: division by zero"),
        (a == "none", "a == 'none': 0.25 == 'none' does not hold"),
        (equals(a, None), "a == None: 0.25 == None does not hold"),
    ],
    ids=repr,
)
def test_attributes_are_compared(asked: Guard, reason: str) -> None:
    assert on_alphas(0.25, 0.5, asked) == reason


def test_no_number_is_in_order_with_nan() -> None:
    for asked in (a < b, a <= b, a > b, a >= b):
        assert "does not hold" in str(asked.function(float("nan"), 0.5))


_SIZES: Final = st.integers(0, 4)
_DIMS: Final = st.recursive(
    st.sampled_from([N, M, 0, 1, 2, 3]),
    lambda parts: st.builds(lambda f, p, q: f(p, q), st.sampled_from([operator.add, operator.sub, operator.mul]), parts, parts),
    max_leaves=4,
)
_COMPARISONS: Final[dict[str, Callable[[AnyValue, AnyValue], bool]]] = {
    **{"less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge},
    **{"equals": operator.eq, "differs": operator.ne},
}


@given(st.sampled_from(sorted(_COMPARISONS)), _DIMS, _DIMS | st.sampled_from([-0.5, 1.0, 2.5]), _SIZES, _SIZES, st.booleans())
def test_a_comparison_of_sizes_holds_only_if_it_holds_for_all_sizes(
    name: str, one: Dim, other: Dim | float, n: int, m: int, turned: bool
) -> None:
    left, right = (other, one) if turned else (one, other)
    answer = getattr(attribute_arithmetic, name)(left, right).function(left, right)
    found = _COMPARISONS[name](_sized(left, n, m), _sized(right, n, m))
    if answer is True:
        assert found
    elif "does not hold" in answer:
        assert not found
    else:
        assert answer.endswith("is not known")


def _sized(dim: Dim | float, n: int, m: int) -> float:
    if not isinstance(dim, SymDim):
        assert isinstance(dim, (int, float))
        return dim
    sizes = {"n": n, "m": m}
    return sum(coefficient * math.prod(sizes[name] for name in names) for names, coefficient in dim.terms)


def test_values_without_an_order_are_rejected() -> None:
    asked = a > b
    for value in (True, "one", (1, 2), None):
        with pytest.raises(Reject, match="is not a number"):
            asked.function(value, 1)


def test_sizes_are_attributes_of_right_sides_where_they_are_known() -> None:
    rule = op.abs(op.abs(x)) >> op.reshape(x, newshape=(x.shape[0], -1))

    def on(shape: Shape) -> str:
        data = Var("x", TensorType(shape, "float32"))
        return outcome(rule, Function([data], _call("abs", _call("abs", data))))

    assert on((2, 3)) == ""
    assert on((N, 3)) == "newshape is (n, -1), with a size that is not known"
    assert on(()) == "() has no element 0"


def test_a_size_is_a_number_of_a_right_side_where_it_is_known() -> None:
    rule = (op.sum(op.ones_like(x), axis=None) >> number(x.shape[0] * x.shape[1])).inexact("a test")

    def on(shape: Shape) -> str:
        data = Var("x", TensorType(shape, "float32"))
        return outcome(rule, Function([data], _call("sum", _call("ones_like", data), axis=None)))

    assert on((2, 3)) == ""
    assert on((N, 3)) == "3*n is not a known number"
    assert on((2,)) == "(2,) has no element 1"


def test_rules_check_counts_rejections_by_comparison() -> None:
    rule = (op.abs(op.abs(x)) >> op.abs(x)).when(x.ndim == 2, x.shape[0] > 1)
    report = check_rule(rule.named("Own.rows"), instances=40).report
    assert report.verdict == "sound"
    assert report.guards == ["x.ndim == 2", "x.shape[0] > 1"]
    assert set(report.rejected) == {"x.ndim == 2", "x.shape[0] > 1"}


def test_a_comparison_is_shown_as_it_is_written() -> None:
    assert (op.abs(op.abs(x)) >> op.abs(x)).when(is_float(x), x.shape[0] > 3).in_full() == (
        "abs(abs(x)) -> abs(x) when is_float(x), x.shape[0] > 3 [exact]"
    )
    assert repr(2 ** (a - b) * -3 >= (x + y).shape[a] // 2) == "2 ** (a - b) * -3 >= (x + y).shape[a] // 2"
    assert repr(((a + b) + 1) - (a - b) < (a**b) ** 2) == "a + b + 1 - (a - b) < (a ** b) ** 2"


@pytest.mark.parametrize(
    "make",
    [
        lambda: (op.exp(x) >> op.exp(x) + 0).when(x.dtype == "float23"),
        lambda: (op.exp(x) >> op.exp(x) + 0).when(x.dtype != "float23"),
        lambda: (op.exp(x) >> op.exp(x) + 0).when(has_dtype(x, "float23")),
        lambda: (op.exp(x) >> op.exp(x) + 0).when(x.dtype == cases("kind", "one", "two")(one="float64", two="float23")),
        lambda: (op.cast(op.exp(x), dtype=a) >> op.cast(x, dtype=a)).when(a == "float23"),
        lambda: op.cast(op.cast(x, dtype="float23"), dtype="bool") >> op.cast(x, dtype="bool"),
        lambda: op.cast(op.exp(x), dtype="float32") >> op.cast(x, dtype="float23"),
    ],
)
def test_element_types_that_do_not_exist(make: Callable[[], Rule]) -> None:
    with pytest.raises(RuleError, match=r"rule Mine.rule.*: unknown element type 'float23'; .* did you mean float32"):
        RuleSetMeta("Mine", (RuleSet,), {"rule": make()})
