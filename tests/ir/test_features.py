"""The language constructs that a program uses."""

import pytest

from passat.ir.expr import Expr, Function, If, Let, Var, const, var
from passat.ir.features import Feature, detect_feature
from passat.ir.module import IRModule
from passat.ir.text import parse_expr

TEXTS = {
    "free_var %x: int8; %x": "fVar",
    "@f": "fGlobalVar",
    "1": "fConstant",
    "()": "fTuple",
    "(1,).0": "fTuple fTupleGetItem fConstant",
    "fn () { 1 }": "fFunction fConstant",
    "add(1, 2)": "fOp fCall fConstant",
    "let %x = 1; %x": "fLet fVar fConstant",
    "if (True) { 1 } else { 2 }": "fIf fConstant",
    "ref_read(ref(1))": "fRefCreate fRefRead fConstant",
    "ref_write(ref(1), 2)": "fRefCreate fRefWrite fConstant",
    "match (1) { _ => { 2 }, }": "fMatch fConstant",
    "%0 = add(1, 2); add(%0, %0)": "fOp fCall fConstant fGraph",
}


@pytest.mark.parametrize("text", TEXTS)
def test_of_expressions(text: str) -> None:
    assert {feature.name for feature in detect_feature(parse_expr(text))} == set(TEXTS[text].split())


def test_a_reused_variable_is_not_a_graph() -> None:
    x: Expr = var("x", shape=())
    assert Feature.fGraph not in detect_feature(x + x)
    y = x + x
    assert Feature.fGraph in detect_feature(If(const(True), y, y))


def test_a_function_that_names_itself() -> None:
    f, x = var("f"), var("x")
    assert Feature.fLetRec in detect_feature(Let(f, Function([x], f(x)), f))
    assert Feature.fLetRec not in detect_feature(Let(f, Function([x], x), f))


def test_of_modules() -> None:
    mod = IRModule.from_expr(Let(Var("a"), const(1), const(2)))
    assert detect_feature(mod) == {Feature.fLet, Feature.fConstant, Feature.fVar, Feature.fFunction}
    assert detect_feature(const(1), mod) == detect_feature(mod)


def test_numbers_are_those_of_relay() -> None:
    assert [feature.value for feature in Feature] == list(range(17))
    assert (Feature.fVar, Feature.fLet, Feature.fLetRec) == (0, 8, 16)
    assert Feature.__doc__
