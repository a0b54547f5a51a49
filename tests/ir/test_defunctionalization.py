"""Defunctionalization: programs without functions as values, which compute the same."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat import relay
from passat.ir.analysis import well_formed
from passat.ir.defunctionalization import DefunctionalizationError
from passat.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Var
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.text import parse
from passat.ir.traverse import post_order
from passat.ir.type_functor import TypeVisitor
from passat.ir.types import FuncType, Type
from passat.runtime import create_executor
from tests.rules.passes.effectful_programs import source
from tests.share import share

LISTS = """
type List[A] { Cons(A, List[A]), Nil }
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => { Cons(%f(%x), @map(%f, %rest)) }, Nil => { Nil } }
}
def @sum(%xs: List[int32]) -> int32 { match (%xs) { Cons(%x, %rest) => { add(%x, @sum(%rest)) }, Nil => { 0 } } }
"""


class _Functions(TypeVisitor):
    def __init__(self, type_: Type) -> None:
        self.found = False
        self.visit(type_)

    def visit_func_type(self, typ: FuncType) -> None:
        self.found = True


def first_order(module: IRModule) -> IRModule:
    """The module with the first-order form of `main`, which is checked to be one, with all that it calls."""
    infer_module(module)
    module["main"] = relay.transform.Defunctionalization(module["main"], module)
    made = infer_module(relay.transform.RemoveUnusedFunctions()(module))
    assert well_formed(made)
    for function in made.functions.values():
        callees = {node.op for node in post_order(function) if isinstance(node, Call)}
        for node in post_order(function):
            if not isinstance(node, (Op, Constructor, GlobalVar)) and node is not function:
                assert not _Functions(node.checked_type).found, node
            if isinstance(node, (Op, Constructor, GlobalVar)):
                assert node in callees
    return made


def run(module: IRModule, *args: Any) -> Any:
    return create_executor(mod=module).evaluate()(*args)


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%x: int32) -> int32 { let %f = fn (%a: int32) -> int32 { add(%a, %x) }; %f(%f(%x)) }",
        "def @main(%x: int32) -> int32 { let %f = if (less(%x, 3)) { @double } else { fn (%a: int32) -> int32 { negative(%a) } }; %f(%x) }"
        " def @double(%x: int32) -> int32 { add(%x, %x) }",
        "def @main(%x: int32) -> int32 { let %f = @plus(%x); %f(1) } def @plus(%x: int32) { fn (%a: int32) -> int32 { add(%a, %x) } }",
        "def @main(%x: int32) -> int32 {"
        " let %down = fn (%n: int32) -> int32 { if (less(%n, 1)) { %x } else { add(%n, %down(subtract(%n, 1))) } }; %down(%x) }",
        "def @main(%x: int32) -> int32 { let %r = ref(fn () -> int32 { 1 }); let %u = ref_write(%r, fn () -> int32 { %x }); ref_read(%r)() }",
        "def @main(%x: int32) -> int32 { let %t = (@inc, %x); %t.0(%t.1) } def @inc(%x: int32) -> int32 { add(%x, 1) }",
        "def @main(%x: int32) -> int32 { @twice(@twice, @inc, %x) } def @inc(%x: int32) -> int32 { add(%x, 1) }"
        " def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) }".replace("@twice(@twice, @inc, %x)", "@twice(@inc, @twice(@inc, %x))"),
        "def @main(%x: int32) -> int32 { let %id = fn [A](%a: A) -> A { %a }; let %t = (%id(%x), @apply(%id, True)); %t.0 }"
        " def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }",
        "def @main(%x: int32) -> int32 { let %compose = fn (%f: fn (int32) -> int32, %g: fn (int32) -> int32) -> fn (int32) -> int32"
        " { fn (%a: int32) -> int32 { %f(%g(%a)) } };"
        " let %h = %compose(fn (%a: int32) -> int32 { add(%a, %x) }, fn (%a: int32) -> int32 { multiply(%a, 3) }); %compose(%h, %h)(%x) }",
        LISTS + "def @main(%x: int32) -> int32 { @sum(@map(fn (%f: fn (int32) -> int32) -> int32 { %f(%x) },"
        " Cons(@inc, Cons(fn (%a: int32) -> int32 { multiply(%a, %x) }, Nil)))) } def @inc(%x: int32) -> int32 { add(%x, 1) }",
    ],
    ids=["closure", "choice", "result", "recursion", "reference", "tuple", "generic", "generic literal", "composition", "list"],
)
def test_functions_as_values(text: str) -> None:
    expected = [run(infer_module(parse(text)), np.int32(x)).numpy() for x in (2, 5)]
    made = first_order(parse(text))
    assert [run(made, np.int32(x)).numpy() for x in (2, 5)] == expected


def test_first_order_programs_keep_their_functions() -> None:
    made = first_order(parse(LISTS + "def @main(%xs: List[int32]) -> int32 { @sum(%xs) }"))
    assert {var.name_hint for var in made.functions} == {"main", "sum"}
    assert [var.name for var in made.type_definitions] == ["List"]


@settings(max_examples=share(15, 300))
@given(st.integers(0, 1 << 32))
def test_random_programs_compute_the_same(seed: int) -> None:
    module = infer_module(parse(source(Random(seed))))
    expected = [[part.numpy() for part in run(module, *args)] for args in ((0, 1), (-3, 4))]
    made = first_order(module)
    assert [[part.numpy() for part in run(made, *args)] for args in ((0, 1), (-3, 4))] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main(%f: fn () -> int32) { %f() }", "takes or returns functions"),
        ("def @main[A](%x: A) { %x }", "with type parameters has no first-order form"),
        ("def @main(%x: int32) { let %k = fn [A](%a: A) -> int32 { %x }; %k(True) }", "make it a global function"),
        ("def @main() { let %f = @id; %f(1) } def @id[A](%x: A) -> A { %x }", "give it a type without parameters"),
    ],
)
def test_what_has_no_first_order_form(text: str, message: str) -> None:
    module = infer_module(parse(text))
    with pytest.raises(DefunctionalizationError, match=message):
        relay.transform.Defunctionalization(module["main"], module)


def test_a_deep_program() -> None:
    x = Var("x", relay.TensorType((), "int32"))
    body: Expr = x
    for _ in range(300):
        param = Var("p", relay.TensorType((), "int32"))
        body = Function([param], relay.add(param, body))(x)
    assert run(first_order(IRModule.from_expr(Function([x], body))), np.int32(1)).numpy() == 301
