"""ToANormalForm and ToGraphNormalForm as passes."""

import pytest

from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Function, Let, const, var
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.text import parse
from passat.passmgr import PassContext, Sequential, ToANormalForm, ToGraphNormalForm, get_pass

GRAPH = """
def @main(%x: Tensor[(2), float32]) {
  %0 = add(%x, %x);
  multiply(%0, %0)
}
"""
ANF = """
def @main(%x: Tensor[(2), float32]) {
  let %a = add(%x, %x);
  let %b = multiply(%a, %a);
  %b
}
"""


@pytest.mark.parametrize("name", ["ToANormalForm", "ToGraphNormalForm"])
def test_level_1_and_no_requirements(name: str) -> None:
    info = get_pass(f"relay._transform.{name}").info
    assert (info.name, info.opt_level, info.required) == (name, 1, ())


def test_there_and_back() -> None:
    anf = ToANormalForm()(parse(GRAPH))
    assert_structural_equal(anf, parse(ANF))
    assert_structural_equal(ToGraphNormalForm()(anf), parse(GRAPH))


def test_a_module_in_the_form_comes_back_itself() -> None:
    anf, graph = parse(ANF), parse(GRAPH)
    assert ToANormalForm()(anf) is anf
    assert ToGraphNormalForm()(graph) is graph


def test_the_module_that_goes_in_is_not_changed() -> None:
    mod = parse(GRAPH)
    main = mod["main"]
    ToANormalForm()(mod)
    assert mod["main"] is main


def test_functions_of_an_external_compiler_are_left_alone() -> None:
    x = var("x", shape=(2,))
    mod = IRModule({"main": Function([x], x + x), "theirs": Function([x], x * x, attrs={"Compiler": "dnnl"}), "kernel": PrimFunc([x])})
    made = ToANormalForm()(mod)
    assert isinstance(made["main"].body, Let)
    assert made["theirs"] is mod["theirs"]
    assert made["kernel"] is mod["kernel"]


def test_what_stands_in_primitive_functions_stays() -> None:
    x, y = var("x", shape=(2,)), var("y", shape=(2,))
    inner = Function([y], (y + y) * y, attrs={"Primitive": 1})
    made = ToANormalForm()(IRModule.from_expr(Function([x], inner(x) + x)))
    body = made["main"].body
    assert isinstance(body, Let)
    assert body.value is inner


def test_they_establish_and_undo_a_fact() -> None:
    assert ToANormalForm().info.provides == {"anf"}
    assert not ToGraphNormalForm().info.keeps("anf")
    assert get_pass("InferType").info.keeps("anf")


def test_they_are_gated_by_level() -> None:
    mod = parse(GRAPH)
    with PassContext(opt_level=0):
        assert Sequential([ToANormalForm()])(mod) is mod
    with PassContext(opt_level=1):
        assert Sequential([ToANormalForm()])(mod) is not mod


def test_a_long_chain() -> None:
    x = var("x", shape=(2,))
    body = x + x
    one = const(1.0)
    for _ in range(20_000):
        body = body + one
    anf = ToANormalForm()(IRModule.from_expr(Function([x], body)))
    assert isinstance(anf["main"].body, Let)
    assert not isinstance(ToGraphNormalForm()(anf)["main"].body, Let)
