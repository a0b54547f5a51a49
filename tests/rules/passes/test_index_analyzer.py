"""Bounds, modular sets, simpler forms and proofs of integer expressions of loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat import te, tir
from passat.arith import Analyzer, ConstIntBound, ModularSet
from passat.ir import structural_equal
from passat.ir.tir.expr import IntImm, PrimExpr, Var
from passat.ir.tir.functor import substitute
from passat.ir.tir.ranges import Range
from passat.rules.passes.index_analyzer import Modular
from tests.share import share

x, y, z = (te.var(name) for name in "xyz")


def bounded(**bounds: tuple[int, int]) -> Analyzer:
    analyzer = Analyzer()
    for name, (low, high) in bounds.items():
        analyzer.update({"x": x, "y": y, "z": z}[name], ConstIntBound(low, high))
    return analyzer


def test_bounds_of_sums_quotients_and_remainders() -> None:
    analyzer = bounded(x=(0, 23), y=(4, 10))
    assert analyzer.const_int_bound(tir.truncmod(x, 8) + tir.truncdiv(x, 8) * 8) == ConstIntBound(0, 23)
    assert analyzer.const_int_bound(tir.floormod(z, y)) == ConstIntBound(0, 9)
    assert analyzer.const_int_bound(x - y) == ConstIntBound(-10, 19)


def test_bounds_of_variables_are_those_of_their_types_unless_given() -> None:
    analyzer = Analyzer()
    assert analyzer.const_int_bound(te.var("a", "int8")) == ConstIntBound(-128, 127)
    assert analyzer.const_int_bound(te.var("a", "int64")) == ConstIntBound(ConstIntBound.NEG_INF, ConstIntBound.POS_INF)
    assert analyzer.const_int_bound(te.size_var("n")) == ConstIntBound(0, ConstIntBound.POS_INF)


def test_updates_intersect_unless_they_override() -> None:
    analyzer = bounded(x=(0, 10))
    analyzer.update(x, ConstIntBound(5, 20))
    assert analyzer.const_int_bound(x) == ConstIntBound(5, 10)
    analyzer.update(x, ConstIntBound(5, 20), override=True)
    assert analyzer.const_int_bound(x) == ConstIntBound(5, 20)
    with pytest.raises(TypeError, match="update takes a ConstIntBound or a ModularSet, not a int"):
        analyzer.update(x, 3)  # type: ignore[arg-type]  # wrong on purpose


def test_ranges_and_values_are_bound_to_variables() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 8))
    analyzer.bind(y, x * 4 + 1)
    assert analyzer.const_int_bound(y) == ConstIntBound(1, 29)
    assert analyzer.modular_set(1 - y) == ModularSet(4, 0)


def test_constraints_hold_in_their_scope_only() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(tir.all(x >= 2, x < 10)):
        assert analyzer.const_int_bound(x) == ConstIntBound(2, 9)
        assert analyzer.can_prove(x < 12)
        with analyzer.constraint_scope(tir.truncmod(x, 4).equal(2)):
            assert analyzer.modular_set(x + 1) == ModularSet(4, 3)
    assert not analyzer.can_prove(x < 12)
    assert analyzer.modular_set(x + 1) == ModularSet(1, 0)


def test_a_condition_proves_another() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(x * 4 + y < z):
        assert analyzer.can_prove(x * 4 + y <= z)
        assert not analyzer.can_prove(x * 4 + y < z - 1)


def test_simplified_expressions() -> None:
    analyzer = bounded(x=(0, 7))
    assert structural_equal(analyzer.simplify(tir.floordiv(y * 8 + x, 8)), y)
    assert structural_equal(analyzer.simplify(tir.max(tir.min(y, z), tir.min(z, y))), tir.min(y, z))
    assert structural_equal(analyzer.simplify(x < 8), tir.const(True, "bool"))
    assert analyzer.can_prove_equal((y + z) * 2, z * 2 + y * 2)


def test_values_are_not_read_where_they_were_not() -> None:
    """A choice that reads memory in one branch only stays such a choice."""
    pointer = Var("A", "handle")
    guarded = tir.if_then_else(y < 8, tir.Load("int32", pointer, y + 0 * z), 0)
    kept = Analyzer().simplify(guarded + x - x)
    assert str(kept) == str(tir.if_then_else(y < 8, tir.Load("int32", pointer, y), 0))


@pytest.mark.parametrize("seed", range(50))
def test_intersections_of_modular_sets(seed: int) -> None:
    random = np.random.default_rng(seed)
    one, other = (Modular.of(int(random.integers(1, 13)), int(random.integers(0, 13))) for _ in range(2))
    both = [k for k in range(400) if k % one.coeff == one.base and k % other.coeff == other.base]
    met = one.meet(other)
    assert (not both and met == one) or both == [k for k in range(400) if k % met.coeff == met.base]


LEAVES = st.sampled_from((x, y, z)) | st.integers(-9, 9).map(lambda value: IntImm("int32", value))


def _compound(inner: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
    functions = st.sampled_from((lambda a, b: a + b, lambda a, b: a - b, tir.min, tir.max))
    divisions = st.sampled_from((tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod))
    return (
        st.tuples(functions, inner, inner).map(lambda parts: parts[0](parts[1], parts[2]))
        | st.tuples(inner, st.integers(-5, 5)).map(lambda parts: parts[0] * parts[1])
        | st.tuples(divisions, inner, st.sampled_from((-3, 2, 4, 8))).map(lambda parts: parts[0](parts[1], parts[2]))
    )


@settings(max_examples=share(12, 60))
@given(st.recursive(LEAVES, _compound, max_leaves=7), st.integers(0, 2**32 - 1))
def test_facts_and_forms_agree_with_values(expr: PrimExpr, seed: int) -> None:
    """The value lies within the bounds and in the modular set, and is that of the simplified form."""
    analyzer = bounded(x=(-5, 12), y=(0, 7), z=(-40, -2))
    bounds, modular, simple = analyzer.const_int_bound(expr), analyzer.modular_set(expr), analyzer.simplify(expr)
    random = np.random.default_rng(seed)
    for _ in range(10):
        values = {x: int(random.integers(-5, 13)), y: int(random.integers(0, 8)), z: int(random.integers(-40, -1))}
        found, other = (value_of(each, values) for each in (expr, simple))
        assert found == other
        assert bounds.min_value <= found <= bounds.max_value
        assert found % modular.coeff == modular.base if modular.coeff else found == modular.base


def value_of(expr: PrimExpr, values: dict[Var, int]) -> int:
    """The value of an expression, by the constant folding of operators."""
    from passat.ir.tir.expr import BinaryOp
    from passat.ir.tir.functor import rewrite

    placed = substitute(expr, {var: IntImm(var.dtype, value) for var, value in values.items()})
    made = rewrite(placed, after=lambda node: type(node).of(node.a, node.b) if isinstance(node, BinaryOp) else None)
    assert isinstance(made, IntImm), made
    return made.value
