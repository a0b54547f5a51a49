"""Basic block normal form: values that several blocks use are bound around them, and nothing else changes."""

import pytest
from hypothesis import given, settings

from passat import relay
from passat.error import TVMError
from passat.ir.analysis import ill_formed
from passat.ir.anf import to_graph
from passat.ir.basic_blocks import check_basic_block_normal_form, to_basic_blocks
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Function, If, Let, Var, const, var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.text import parse_expr
from tests.share import share
from tests.strategies import programs

BRANCHES = """
fn (%x: float32) {
  %0 = equal(%x, 2f);
  %1 = add(%x, 1f);
  %2 = add(%1, %1);
  if (%0) {
    multiply(%1, %2)
  } else {
    multiply(%1, 1f)
  }
}
"""
BOUND = """
fn (%x: float32) {
  let %v = add(%x, 1f);
  %0 = equal(%x, 2f);
  if (%0) {
    %1 = add(%v, %v);
    multiply(%v, %1)
  } else {
    multiply(%v, 1f)
  }
}
"""


@settings(max_examples=share(18, 300))
@given(programs(effects=True))
def test_any_program_has_the_form(program: Function) -> None:
    blocks = to_basic_blocks(program)
    assert isinstance(blocks, Function)
    assert ill_formed(blocks) == []
    check_basic_block_normal_form(blocks)
    assert to_basic_blocks(blocks) is blocks
    assert infer_type(blocks).checked_type == infer_type(program).checked_type


@settings(max_examples=share(18, 300))
@given(programs())
def test_without_lets_it_is_the_program_of_before(program: Function) -> None:
    assert_structural_equal(to_graph(to_basic_blocks(program)), to_graph(program), sharing=True)


def test_values_used_by_two_branches_are_bound_around_them() -> None:
    program = parse_expr(BRANCHES)
    assert_structural_equal(to_basic_blocks(program), parse_expr(BOUND))
    with pytest.raises(TVMError, match=r"add\(%x, 1f.*\) is used by several blocks; bind it by a let \(ToBasicBlockNormalForm\)"):
        check_basic_block_normal_form(program)
    run = relay.create_executor().evaluate
    for x in (2.0, 3.0):
        assert run(to_basic_blocks(program))(x) == run(program)(x)


def test_dependents_of_a_let_are_bound_after_it() -> None:
    made = to_basic_blocks(parse_expr("fn (%c: bool, %x: int8) { let %y = (%x, %x); %0 = (%y, %x); if (%c) { (%0, 1) } else { (%0, 2) } }"))
    wanted = "fn (%c: bool, %x: int8) { let %y = (%x, %x); let %v = (%y, %x); if (%c) { (%v, 1) } else { (%v, 2) } }"
    assert_structural_equal(made, parse_expr(wanted))


def test_nested_blocks_and_closures() -> None:
    text = "fn (%s: int8) { %0 = (%s, %s); (fn (%x: int8) { (%x, %0) }, fn (%z: int8) { (%z, %0) }) }"
    wanted = "fn (%s: int8) { let %v = (%s, %s); (fn (%x: int8) { (%x, %v) }, fn (%z: int8) { (%z, %v) }) }"
    assert_structural_equal(to_basic_blocks(parse_expr(text)), parse_expr(wanted))


def test_a_free_variable_belongs_to_a_block() -> None:
    c, x, y = var("c", "bool"), var("x", "int8"), var("y", "int8")
    ambiguous = If(c, x, x + x)
    with pytest.raises(TVMError, match="%x is used by several blocks"):
        check_basic_block_normal_form(ambiguous)
    check_basic_block_normal_form(Let(x, y, ambiguous))
    check_basic_block_normal_form(x + ambiguous)


def test_sealed_functions_are_left_alone() -> None:
    program = parse_expr(BRANCHES)
    assert isinstance(program, Function)
    inner = program.with_attr("Primitive", 1)
    outer = Function([y := Var("y")], relay.Call(inner, [y]))
    assert to_basic_blocks(outer) is outer
    module = IRModule.from_expr(program.with_attr("Compiler", "other"))
    assert relay.transform.ToBasicBlockNormalForm()(module) is module


def test_the_pass_returns_a_new_module() -> None:
    module = IRModule.from_expr(parse_expr(BRANCHES))
    made = relay.transform.ToBasicBlockNormalForm()(module)
    check_basic_block_normal_form(made["main"])
    assert_structural_equal(module["main"], parse_expr(BRANCHES))
    assert_structural_equal(made["main"], parse_expr(BOUND))
    assert relay.transform.ToBasicBlockNormalForm()(made) is made
    plain = IRModule.from_expr(const(1) + const(2))
    assert relay.transform.ToBasicBlockNormalForm()(plain) is plain


def test_a_deep_program_takes_no_stack() -> None:
    c, x = var("c", "bool"), var("x", "int32")
    body = x + x
    for _ in range(5_000):
        body = If(c, body + x, x)
    check_basic_block_normal_form(to_basic_blocks(Function([c, x], body)))
