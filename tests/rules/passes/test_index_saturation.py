"""Saturation of index expressions: equal ones are proved equal, others are not, and the smallest form has the same value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr, Function, Var
from passat.ir.infer import infer_type
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.engine.limits import Limits
from passat.rules.passes.index_saturation import IndexGraph
from tests.rules.building import const, ops
from tests.rules.running import run
from tests.share import share

NAMES = ("x", "y", "z")
VARIABLES = [infer_type(Var(name, TensorType((), "int64"))) for name in NAMES]
x, y, z = VARIABLES


def n(value: int) -> Expr:
    return const(value, "int64")


def within(of: Expr, low: int, high: int) -> Expr:
    return ops.clip(of, a_min=low, a_max=high)  # type: ignore[no-any-return]  # `ops`


def typed(expr: Expr) -> Expr:
    return infer_type(expr)


def proved_equal(one: Expr, other: Expr) -> bool:
    return IndexGraph([one, other]).same(0, 1)


EQUAL = [
    (x * n(4) + y - (y + x), x * n(3)),
    (ops.floor_divide(x, n(6)) * n(6) + ops.floor_mod(ops.floor_divide(x, n(3)), n(2)) * n(3) + ops.floor_mod(x, n(3)), x),
    (ops.floor_divide(ops.floor_divide(x, n(2)) + n(1), n(3)), ops.floor_divide(x + n(2), n(6))),
    (ops.fmod(x * n(8), n(16)), ops.fmod(x, n(2)) * n(8)),
    (ops.minimum(x * n(3), n(9)), ops.minimum(x, n(3)) * n(3)),
    (ops.maximum(ops.minimum(x, y), ops.minimum(z, x)), ops.minimum(ops.maximum(y, z), x)),
    (ops.minimum(ops.minimum(ops.minimum(x, y), z), y), ops.minimum(ops.minimum(z, x), y)),
    (ops.less(x * n(4), n(2)), ops.less_equal(x, n(0))),
    (ops.less(n(3), ops.floor_divide(x, n(2))), ops.less(n(7), x)),
    (ops.logical_and(ops.less(x, n(1)), ops.less(n(0), x)), const(False, "bool")),
    (ops.less(x, ops.minimum(x, y)), const(False, "bool")),
    (ops.less(x, ops.minimum(x, y) - n(2)), const(False, "bool")),
    (ops.less(x, ops.minimum(x, y) + n(2)), ops.less(x, y + n(2))),
    (ops.less(ops.minimum(x, y), x + n(1)), const(True, "bool")),
    (ops.less(ops.minimum(x, y), x), ops.less(y, x)),
    (ops.less(ops.maximum(x, y), x), const(False, "bool")),
    (ops.where(ops.less(x, n(0)), y, z) - z, ops.where(ops.less(x, n(0)), y - z, n(0))),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_expressions_are_proved_equal_and_their_neighbors_are_not(one: Expr, other: Expr) -> None:
    truth = typed(one).checked_type == TensorType((), "bool")
    assert proved_equal(typed(one), typed(other))
    assert not proved_equal(typed(one), typed(ops.logical_not(other) if truth else other + n(1)))


def test_bounds_of_variables_decide_quotients_and_comparisons() -> None:
    small = within(x, 0, 7)
    assert proved_equal(typed(ops.floor_divide(y * n(8) + small, n(8))), y)
    assert not proved_equal(typed(ops.floor_divide(y * n(8) + x, n(8))), y)
    assert proved_equal(typed(ops.less(small, n(8))), const(True, "bool"))


def test_all_expressions_share_one_graph() -> None:
    graph = IndexGraph([typed(x + y), typed(y + x), typed(x * n(2)), typed(x + x)])
    assert graph.same(0, 1)
    assert graph.same(2, 3)
    assert not graph.same(0, 2)


def test_the_smallest_form_is_not_larger_than_the_expression() -> None:
    graph = IndexGraph([typed(ops.floor_divide(x * n(8) + y - x * n(8), n(4)) * n(4) + ops.floor_mod(y, n(4)))], forms=True)
    assert graph.smallest()[0] is y


_DIVISIONS = ("floor_divide", "floor_mod", "divide", "fmod")
_BOUNDED = [within(of, -20, 20) for of in VARIABLES]
_LEAVES = st.sampled_from(_BOUNDED) | st.integers(-9, 9).map(n)


def _compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    divisors = st.sampled_from((-4, -3, 2, 3, 4, 8)).map(n)
    compared = st.tuples(st.sampled_from(("less", "less_equal", "greater", "equal", "not_equal")), inner, inner)
    conditions = compared.map(lambda parts: getattr(ops, parts[0])(parts[1], parts[2]))
    two = st.tuples(st.sampled_from(("logical_and", "logical_or")), conditions, conditions)
    truths = conditions | two.map(lambda parts: getattr(ops, parts[0])(parts[1], parts[2])) | conditions.map(ops.logical_not)
    return (
        st.tuples(st.sampled_from(("add", "subtract", "minimum", "maximum")), inner, inner).map(
            lambda parts: getattr(ops, parts[0])(*parts[1:])
        )
        | st.tuples(inner, st.integers(-5, 5).map(n)).map(lambda parts: parts[0] * parts[1])
        | st.tuples(st.sampled_from(_DIVISIONS), inner, divisors).map(lambda parts: getattr(ops, parts[0])(*parts[1:]))
        | st.tuples(truths, inner, inner).map(lambda parts: ops.where(*parts))
    )


EXPRESSIONS = st.recursive(_LEAVES, _compound, max_leaves=7)


@settings(max_examples=share(12, 150))
@given(EXPRESSIONS, st.integers(0, 2**32 - 1))
def test_simplified_expressions_have_the_same_value(expr: Expr, seed: int) -> None:
    before = typed(expr)
    graph = IndexGraph([before], forms=True, limits=Limits(nodes=3_000, matches=20_000, rounds=6))
    after = typed(graph.smallest()[0])
    inputs = [node for node in VARIABLES if isinstance(node, Var)]
    random = np.random.default_rng(seed)
    for _ in range(20):
        feeds = [Tensor.dense(np.asarray(random.integers(-25, 26), np.int64)) for _ in inputs]
        (one,), (other,) = (run(Function(inputs, each), feeds) for each in (before, after))
        assert one == other, f"{before} is {one}, {after} is {other}"
