"""Expressions of the loop IR: types, constants, walks and comparison."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from passat import te, tir
from passat.ir import structural_equal, structural_hash
from passat.ir.tir.expr import PrimExpr, Var, const
from passat.ir.tir.functor import Mutator, Visitor, post_order, rewrite, substitute
from passat.ir.tir.types import TirError
from tests.share import share


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("int32", "int64", "int64"),
        ("int8", "float16", "float16"),
        ("float16", "float64", "float64"),
        ("uint32", "int8", "uint32"),
        ("int32", "uint32", "uint32"),
        ("bool", "int32", "int32"),
        ("int32", "float32x4", "float32x4"),
        ("int32x4", "float32", "float32x4"),
    ],
)
def test_operands_get_one_type(left: str, right: str, result: str) -> None:
    assert (te.var("a", left) + te.var("b", right)).dtype == result


@given(
    st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", ">", ">=", "&", "|", "^", "==", "!="]), st.integers(-50, 50), st.integers(-50, 50)
)
def test_constants_are_folded_as_python_does(symbol: str, a: int, b: int) -> None:
    if symbol in ("//", "%") and b == 0:
        with pytest.raises(TirError, match="division by zero"):
            eval(f"x {symbol} y", {"x": const(a), "y": const(b)})
        return
    folded = eval(f"x {symbol} y", {"x": const(a), "y": const(b)})
    assert isinstance(folded, tir.IntImm)
    assert folded.value == eval(f"{a} {symbol} {b}")


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**31 - 1), st.sampled_from(["int8", "uint8", "int32", "int64"]))
def test_constants_have_numbers_of_their_type(a: int, b: int, dtype: str) -> None:
    x, y = const(a), const(b)
    for made, exact in ((x + y, a + b), (x - y, a - b), (x * y, a * b)):
        assert made.value == exact if isinstance(made, tir.IntImm) else not -(2**31) <= exact < 2**31
    assert int(y.astype(dtype)) == int(np.array(b).astype(dtype))  # type: ignore[call-overload]  # a constant
    assert int(x << 5) == int(np.int32(a) << np.int32(5))  # type: ignore[call-overload]  # a constant


@given(st.integers(-50, 50), st.integers(-50, 50).filter(bool))
def test_truncated_division_agrees_with_c(a: int, b: int) -> None:
    quotient, remainder = tir.truncdiv(const(a), const(b)), tir.truncmod(const(a), const(b))
    assert (int(quotient), int(remainder)) == (int(np.trunc(a / b)), int(np.fmod(a, b)))  # type: ignore[call-overload]  # constants


def test_invalid_operations() -> None:
    x = te.var("x")
    wrongs: tuple[Callable[[], object], ...] = (
        lambda: x / 2,
        lambda: x << 32,
        lambda: const(1.5) & 1,
        lambda: tir.all(x, x),
        lambda: te.var("h", "handle") + 1,
        lambda: te.var("v", "int32x4") + te.var("w", "int32x2"),
        lambda: tir.Add(x, const(1, "int64")),
        lambda: tir.Call("int32", "tir.nothing", []),
        lambda: te.var("y", "int33x"),
        lambda: tir.IntImm("int32", 2**31),
        lambda: const(-129, "int8"),
        lambda: const(2**64, "uint64"),
        lambda: tir.IntImm("uint64", 2**63),
        lambda: tir.decl_buffer((2**16, 2**16)).vload((0, te.var("i"))),
    )
    for wrong in wrongs:
        with pytest.raises(TirError):
            wrong()
    with pytest.raises(ValueError, match=r"tir\.all"):
        bool(x)


def _sum(terms: int) -> tuple[Var, PrimExpr]:
    x = te.var("x")
    total: PrimExpr = x
    for _ in range(terms):
        total = total + x
    return x, total


def test_walks_of_long_sums() -> None:
    length = share(4_000, 20_000)
    x, total = _sum(length)
    y = te.var("y")
    assert len(post_order(total)) == length + 1
    assert structural_equal(substitute(total, {x: y}), _sum(length)[1], map_free_vars=True)
    assert rewrite(total) is total
    assert Mutator().visit(total) is total
    Visitor().visit(total)


def test_mutators_replace_what_they_name() -> None:
    class Doubled(Mutator):
        def visit_Var(self, node: Var) -> PrimExpr:  # noqa: N802  # named after the class
            return node * 2

    x, y = te.var("x"), te.var("y")
    assert str(Doubled().visit(x + y * x)) == "((x: int32*2) + ((y: int32*2)*(x*2)))"


def test_equality_of_variables() -> None:
    x, y, z = (te.var(name) for name in "xyz")
    for a, b, free, equal in (
        (x + y, x + y, False, True),
        (x + y, y + x, False, False),
        (x + y, y + x, True, True),
        (x + x, x + y, True, False),
        (tir.Let(x, 1, x + z), tir.Let(y, 1, y + z), False, True),
        (tir.Let(x, 1, x + z), tir.Let(y, 1, y + x), False, False),
    ):
        assert structural_equal(a, b, map_free_vars=free) is equal
        assert (structural_hash(a, map_free_vars=free) == structural_hash(b, map_free_vars=free)) is equal
