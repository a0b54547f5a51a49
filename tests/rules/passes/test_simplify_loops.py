"""The pass tir.Simplify on functions of loops: before and after."""

from passat import te, tir
from passat.ir.module import IRModule
from passat.ir.tir.expr import Var
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.stmt import Evaluate, IfThenElse, LetStmt, Stmt, Store
from passat.passmgr import PassContext, get_pass
from passat.rules.passes.simplify_loops import simplify_statement
from passat.tir.transform import Simplify

A, B = Var("A", "handle"), Var("B", "handle")
n, m = te.size_var("n"), te.size_var("m")


def loop(var: Var, extent: object, body: Stmt) -> Stmt:
    return tir.For(var, 0, extent, 0, body)


def copy(index: object, of: object) -> Stmt:
    return Store(A, tir.Load("float32", B, of), index)


def same(found: Stmt, expected: Stmt) -> bool:
    from passat.ir import structural_equal

    return structural_equal(found, expected, map_free_vars=True)


i, j = te.var("i"), te.var("j")


def test_indices_are_simplified_by_the_bounds_of_loops() -> None:
    fused = loop(i, 8, loop(j, 16, copy(tir.floordiv(i * 16 + j, 16), tir.floormod(i * 16 + j, 16))))
    assert same(simplify_statement(fused), loop(i, 8, loop(j, 16, copy(i, j))))


def test_branches_that_loops_decide_are_dropped() -> None:
    guarded = loop(i, 8, IfThenElse(i < 12, copy(i, i), copy(i, 0)))
    assert same(simplify_statement(guarded), loop(i, 8, copy(i, i)))
    never = loop(i, 8, IfThenElse(i >= 12, copy(i, i)))
    assert same(simplify_statement(never), loop(i, 8, Evaluate(0)))


def test_branches_that_other_branches_decide_are_dropped() -> None:
    inner = IfThenElse(i * 4 + j <= n, copy(i, i), copy(i, j))
    guarded = loop(i, m, loop(j, 4, IfThenElse(i * 4 + j < n, inner)))
    assert same(simplify_statement(guarded), loop(i, m, loop(j, 4, IfThenElse(i * 4 + j < n, copy(i, i)))))
    other = loop(i, m, IfThenElse(i < n, copy(i, i), IfThenElse(i < n, copy(i, 0), copy(i, 1))))
    assert same(simplify_statement(other), loop(i, m, IfThenElse(i < n, copy(i, i), copy(i, 1))))


def test_constant_values_of_variables_are_put_in_place() -> None:
    let = LetStmt(n, 10, loop(i, n, IfThenElse(i < 12, copy(i, i))))
    assert same(simplify_statement(let), loop(i, 10, copy(i, i)))


def test_a_branch_that_may_be_taken_stays() -> None:
    guarded = loop(i, n, IfThenElse(i < 12, copy(i, i)))
    assert same(simplify_statement(guarded), guarded)


def test_expressions_inside_reads_are_simplified() -> None:
    nested = loop(i, 8, copy(i, tir.Load("int32", B, i + 3 - 3) + tir.floormod(i, 8) - i))
    assert same(simplify_statement(nested), loop(i, 8, copy(i, tir.Load("int32", B, i))))


def test_the_pass_keeps_a_module_without_changes() -> None:
    module = IRModule.from_expr(PrimFunc([A, B, n], loop(i, n, copy(i, i))))
    assert Simplify()(module) is module
    with PassContext(opt_level=0):
        assert get_pass("tir.Simplify")(module) is module
