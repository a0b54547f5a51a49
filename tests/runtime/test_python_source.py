"""Programs as Python source: the text, its results, and names that are not valid in Python."""

import ast
from typing import Any

import numpy as np
import pytest

from passat import relay
from passat.ir.module import IRModule
from passat.ir.text import parse, parse_expr
from passat.ir.text.std import standard_library
from passat.relay.testing import run_as_python, to_python
from passat.runtime import ConstructorValue, ExecutorError, NDArray, RefValue, TupleValue, create_executor

FACTORIAL = """
def @fact(%n: int64) -> int64 {
  if (less(%n, 1i64)) { 1i64 } else { multiply(%n, @fact(subtract(%n, 1i64))) }
}
def @unused(%n: int64) -> int64 { %n }
"""


def run(text: str, mod: IRModule | None = None) -> Any:
    return run_as_python(parse_expr(text), mod)


def test_each_node_is_a_statement() -> None:
    source = to_python(parse_expr("@fact(5i64)"), parse(FACTORIAL))
    assert source.text == (
        "def program():\n"
        "    x = fact(constant)\n"
        "    return x\n"
        "\n"
        "\n"
        "def fact(n):\n"
        "    x_1 = less(n, constant_1)\n"
        "    if truth(x_1):\n"
        "        x_2 = constant_2\n"
        "    else:\n"
        "        x_3 = subtract(n, constant_3)\n"
        "        x_4 = fact(x_3)\n"
        "        x_5 = multiply(n, x_4)\n"
        "        x_2 = x_5\n"
        "    return x_2\n"
    )
    assert source.names["constant"] == NDArray(np.int64(5))
    assert run_as_python(parse_expr("@fact(5i64)"), parse(FACTORIAL)).numpy() == 120


def test_values_are_those_of_the_executor() -> None:
    assert run("()") == TupleValue()
    assert run("(1, (2f, True))")[1][0] == NDArray(np.float32(2))
    assert run("let %x = (1, 2); %x.1") == NDArray(np.int32(2))
    assert isinstance(run("ref(1)"), RefValue)
    assert run("let %r = ref(1); let %u = ref_write(%r, 5); (ref_read(%r), %u)") == TupleValue(NDArray(np.int32(5)), TupleValue())
    function = run("fn (%x: int32) { let %f = fn (%y: int32) { add(%x, %y) }; %f(%f(1)) }")
    assert function(NDArray(np.int32(3))).numpy() == 7
    x = relay.const(np.arange(6, dtype=np.float32).reshape(2, 3))
    halves = run_as_python(relay.split(x, 3, axis=1))
    assert [part.numpy().tolist() for part in halves] == [[[0], [3]], [[1], [4]], [[2], [5]]]


def test_a_name_of_a_function_is_the_function() -> None:
    mod = parse(FACTORIAL)
    assert run_as_python(mod.get_global_var("fact"), mod)(NDArray(np.int64(4))).numpy() == 24


def test_data_types_match_and_recursion() -> None:
    mod = standard_library("prelude.rly", IRModule())
    text = "@foldl(fn (%a: int32, %b: int32) { add(%a, %b) }, 0, Cons(1, Cons(2, Cons(3, Nil))))"
    full = parse(f"{mod.astext()}\ndef @f() {{ {text} }}")
    assert run_as_python(full["f"].body, full).numpy() == 6
    pairs = parse(f"{mod.astext()}\ndef @f() {{ @map(fn (%a: int32) {{ (%a, %a) }}, Cons(1, Nil)) }}")
    value = run_as_python(pairs["f"].body, pairs)
    assert isinstance(value, ConstructorValue)
    assert value == create_executor(mod=pairs).evaluate(pairs["f"].body)


@pytest.mark.parametrize(
    "name", ["import os", "a\nb", "'''", "__class__", "None", "match", "1", "", "\N{GREEK SMALL LETTER ALPHA}", "print", "take"]
)
def test_names_are_python_names(name: str) -> None:
    x, other = relay.Var(name, relay.scalar_type("int32")), relay.Var(name, relay.scalar_type("int32"))
    function = relay.Function([x, other], relay.subtract(x, other))
    mod = IRModule({name or "f": function})
    source = to_python(mod.get_global_var(name or "f"), mod)
    assert ast.parse(source.text)
    assert source.text.isascii()
    assert run_as_python(mod.get_global_var(name or "f"), mod)(NDArray(np.int32(5)), NDArray(np.int32(3))).numpy() == 2


def test_no_text_of_the_program_gets_into_the_source() -> None:
    evil = "__import__('os').system('true')"
    call = relay.Call(relay.Function([], relay.const(1)).with_attr(evil, evil), [], {evil: evil})
    source = to_python(relay.Let(relay.Var(evil), call, relay.const(2)))
    assert "__" not in source.text
    assert "'" not in source.text
    calls = [node.func for node in ast.walk(ast.parse(source.text)) if isinstance(node, ast.Call)]
    assert all(isinstance(callee, ast.Name) for callee in calls)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("free_var %x: int32; add(%x, 1)", "the expression has free variables: %x"),
        ("let %f = fn (%n: int32) -> int32 { add(%f(%n), 1) }; %f(1)", "calls are nested too deeply for Python"),
        ("fn (%f) { if (%f) { 1 } else { 2 } }", "the condition of an if must be a scalar bool"),
    ],
)
def test_unrunnable_models(text: str, message: str) -> None:
    def call() -> None:
        run(text)(NDArray(np.int32(1)))

    with pytest.raises(ExecutorError, match=message):
        call()


def test_an_unmatched_value() -> None:
    mod = standard_library("prelude.rly", IRModule())
    full = parse(f"{mod.astext()}\ndef @f() {{ match? (Cons(1, Nil)) {{ Nil => {{ 1 }} }} }}")
    with pytest.raises(ExecutorError, match="no arm of the match accepts Cons"):
        run_as_python(full["f"].body, full)


def test_nesting_that_python_does_not_take() -> None:
    body: relay.Expr = relay.const(1)
    for _ in range(200):
        body = relay.If(relay.const(True), relay.negative(body), relay.const(2))
    with pytest.raises(ExecutorError, match=r"the program is nested more than 80 levels deep; use relay.create_executor"):
        run_as_python(body)
