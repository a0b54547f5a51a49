"""Inlining of function calls."""

import pytest

from passat.ir.analysis import ill_formed, well_formed
from passat.ir.equality import assert_structural_equal, structural_equal
from passat.ir.expr import Call, Expr, Function, Var
from passat.ir.inline import inline_calls
from passat.ir.text import parse_expr
from passat.ir.types import TensorType
from tests.share import share


def becomes(before: str, after: str) -> None:
    made = inline_calls(parse_expr(before), lambda function: not function.attrs.get("Keep"))
    wanted = parse_expr(after)
    assert structural_equal(made, wanted, sharing=True), f"{made}\nis not\n{wanted}"
    assert well_formed(made)


def test_a_call_of_a_function_literal() -> None:
    becomes(
        "fn (%x: int8, %y: int8) { %0 = fn (%p: int8, %q: int8) { add(%p, %q) }; %0(%y, %x) }",
        "fn (%x: int8, %y: int8) { add(%y, %x) }",
    )


def test_arguments_are_computed_once() -> None:
    becomes("fn (%x: int8) { %0 = fn (%p: int8) { add(%p, %p) }; %0(negative(%x)) }", "fn (%x: int8) { %0 = negative(%x); add(%0, %0) }")


def test_captures_of_a_body_are_shared() -> None:
    becomes(
        "fn (%x: int8) { %0 = negative(%x); %1 = fn (%p: int8) { add(%p, %0) }; %1(%1(%x)) }",
        "fn (%x: int8) { %0 = negative(%x); add(add(%x, %0), %0) }",
    )


def test_variables_are_new_in_each_copy() -> None:
    becomes(
        "fn (%x: int8) { %0 = fn (%p: int8) { let %t = negative(%p); add(%t, %t) }; (%0(%x), %0(%0(%x))) }",
        """fn (%x: int8) {
             %0 = (let %a = negative(%x); add(%a, %a));
             %1 = (let %b = negative(%x); add(%b, %b));
             %2 = (let %c = negative(%1); add(%c, %c));
             (%0, %2) }""",
    )
    becomes(
        "fn (%x: int8) { %0 = fn (%p: int8) { fn (%q: int8, Keep=1) { add(%p, %q) } }; (%0(%x), %0(%x)) }",
        "fn (%x: int8) { (fn (%q: int8, Keep=1) { add(%x, %q) }, fn (%r: int8, Keep=1) { add(%x, %r) }) }",
    )


def test_a_function_that_a_let_binds() -> None:
    becomes("fn (%x: int8) { let %f = fn (%p: int8) { negative(%p) }; %f(%f(%x)) }", "fn (%x: int8) { negative(negative(%x)) }")
    becomes(
        "fn (%x: int8) { let %f = fn (%p: int8) { negative(%p) }; (%f, %f(%x)) }",
        "fn (%x: int8) { let %f = fn (%p: int8) { negative(%p) }; (%f, negative(%x)) }",
    )


def test_functions_in_functions() -> None:
    becomes(
        "fn (%x: int8) { %1 = fn (%p: int8) { %0 = fn (%q: int8) { negative(%q) }; abs(%0(%p)) }; %1(%x) }",
        "fn (%x: int8) { abs(negative(%x)) }",
    )


def test_a_match_binds_variables_of_its_own_in_each_copy() -> None:
    text = "fn (%x: int8) { %0 = fn (%p: int8) { match? ((%p, %p)) { (%a, %b) => { add(%a, %b) } } }; (%0(%x), %0(%x)) }"
    once = "match? ((%x, %x)) { (%a, %b) => { add(%a, %b) } }"
    made = inline_calls(parse_expr(text), lambda function: True)
    assert_structural_equal(made, parse_expr(f"fn (%x: int8) {{ ({once}, {once}) }}"))
    assert ill_formed(made) == []


@pytest.mark.parametrize(
    "text",
    [
        "fn (%x: int8) { let %f = fn (%p: int8) -> int8 { %f(%p) }; %f(%x) }",
        "fn (%x: int8) { %0 = fn (%p: int8, Keep=1) { negative(%p) }; %0(%x) }",
        "fn (%f: fn (int8) -> int8, %x: int8) { %f(%x) }",
        "fn (%x: int8) { negative(%x) }",
    ],
)
def test_unchanged_programs(text: str) -> None:
    program = parse_expr(text)
    assert inline_calls(program, lambda function: not function.attrs.get("Keep")) is program


def test_a_match_that_is_called_once() -> None:
    becomes(
        "fn (%x: int8) { %0 = fn (%p: int8) { match? ((%p, %p)) { (%a, %b) => { add(%a, %b) } } }; %0(%x) }",
        "fn (%x: int8) { match? ((%x, %x)) { (%a, %b) => { add(%a, %b) } } }",
    )


def test_a_long_chain_of_calls() -> None:
    length = share(4_000, 30_000)
    x = Var("x", TensorType((), "float32"))
    p = Var("p", TensorType((), "float32"))
    negate = Function([p], -p)
    made: Expr = x
    for _ in range(length):
        made = Call(negate, [made])
    inlined = inline_calls(Function([x], made), lambda function: True)
    wanted: Expr = x
    for _ in range(length):
        wanted = -wanted
    assert structural_equal(inlined, Function([x], wanted))
