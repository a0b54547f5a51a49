"""EtaExpand and LambdaLift: functions as values, before and after."""

from typing import Any

import pytest

from passat import relay
from passat.ir.analysis import well_formed
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.ir.traverse import post_order

LISTS = "type List[A] { Cons(A, List[A]), Nil }\n"
CLOSURES = """
def @main(%x: int32, %y: int32) -> int32 {
  let %add = fn (%a: int32) -> int32 { add(%a, %x) };
  let %twice = fn (%f: fn (int32) -> int32, %a: int32) -> int32 { %f(%f(%a)) };
  let %plus = fn (%a: int32) -> fn (int32) -> int32 { fn (%b: int32) -> int32 { add(add(%a, %b), %y) } };
  %twice(%plus(%y), %twice(%add, %x))
}
"""
LOOP = """
def @main(%x: int32) -> int32 {
  let %loop = fn (%i: int32, %s: int32) -> int32 { if (less(%i, 10)) { %loop(add(%i, 1), add(%s, %x)) } else { %s } };
  %loop(0, 1)
}
"""
POLYMORPHIC = """
def @first[A](%x: A) -> A { let %keep = fn (%y: A) -> A { %x }; %keep(%x) }
def @main(%x: int32, %y: int32) -> int32 { add(@first(%x), %y) }
"""


def nested(module: IRModule) -> int:
    """The number of nested functions, except those that a function returns immediately."""
    count = 0
    for function in module.functions.values():
        body = function.body if isinstance(function, Function) else function
        inner = body.body if isinstance(body, Function) and body.attrs.get("Closure") else body
        count += sum(isinstance(node, Function) for node in post_order(inner))
    return count


def run(module: IRModule, *args: int) -> Any:
    return relay.create_executor(mod=module).evaluate()(*args).numpy()


@pytest.mark.parametrize(
    ("text", "functions", "args"),
    [(CLOSURES, 5, (3, 4)), (LOOP, 2, (7,)), (POLYMORPHIC, 3, (1, 2))],
    ids=["closures", "loop", "polymorphic"],
)
def test_nested_functions_become_functions_of_the_module(text: str, functions: int, args: tuple[int, ...]) -> None:
    module = parse(text)
    lifted = relay.transform.LambdaLift()(module)
    assert (len(lifted.functions), nested(lifted)) == (functions, 0)
    assert well_formed(lifted)
    assert_structural_equal(relay.transform.LambdaLift()(lifted), lifted)
    assert relay.transform.InferType()(lifted)["main"].checked_type == relay.transform.InferType()(module)["main"].checked_type
    assert run(lifted, *args) == run(module, *args)
    assert relay.transform.LambdaLift()(lifted)["main"] is lifted["main"]


def test_equal_functions_become_one() -> None:
    text = "def @main(%x: int32) { (fn (%a: int32) -> int32 { add(%a, %x) }(%x), fn (%b: int32) -> int32 { add(%b, %x) }(%x)) }"
    assert len(relay.transform.LambdaLift()(parse(text)).functions) == 2


def test_what_is_not_lifted() -> None:
    for text in (
        "def @main(%x: int32) { fn (%a: int32, Primitive=1) { add(%a, %a) }(%x) }",
        'def @main(%x: int32, Compiler="other") { fn (%a: int32) { %a }(%x) }',
        "def @main(%x: int32) { %x }",
    ):
        module = parse(text)
        assert relay.transform.LambdaLift()(module) is module


def test_names_do_not_clash() -> None:
    module = parse("def @lifted_name0() { 1 }\ndef @main() { (fn () { 2 })() }")
    lifted = relay.transform.LambdaLift()(module)
    assert sorted(var.name_hint for var in lifted.functions) == ["lifted_name0", "lifted_name1", "main"]
    assert run(lifted) == 2


def test_constructors_and_global_functions_become_functions() -> None:
    text = LISTS + "def @aux(%x: int32) -> int32 { %x }\ndef @main[A]() { (@aux, Cons, @aux(1)) }"
    aux, cons = "fn (%x: int32) -> int32 { @aux(%x) }", "fn [A](%a: A, %l: List[A]) -> List[A] { Cons(%a, %l) }"
    head = text.split("def @main")[0]
    for options, body in (
        ({"expand_global_var": True}, f"({aux}, Cons, @aux(1))"),
        ({"expand_constructor": True}, f"(@aux, {cons}, @aux(1))"),
        ({"expand_constructor": True, "expand_global_var": True}, f"({aux}, {cons}, @aux(1))"),
    ):
        made = relay.transform.EtaExpand(**options)(parse(text))
        assert_structural_equal(made, parse(f"{head}def @main[A]() {{ {body} }}"))
    module = relay.transform.InferType()(parse(text))
    assert relay.transform.EtaExpand()(module) is module
