"""Types that contradict inferred types, in typed and untyped programs, and the location of such an error."""

import pytest
from hypothesis import given, settings

from passat.ir.analysis import Flaw, binding_flaws
from passat.ir.expr import Clause, Constant, Expr, Function, GlobalVar, If, Let, Match, PatternTuple, PatternVar, Tuple, Var, const, var
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.text import parse
from passat.ir.traverse import post_order
from passat.ir.type_check import type_flaws
from passat.ir.types import TensorType
from tests.share import share
from tests.strategies import modules

x = var("x", shape=(2,))
c = var("c", "bool")


def flaws(body: Expr, *params: Var) -> list[Flaw]:
    return type_flaws(IRModule.from_expr(Function([x, c, *params], body)))


def typed(expr: Expr, *shape: int, dtype: str = "float32") -> Expr:
    expr._checked_type = TensorType(shape, dtype)
    return expr


@settings(max_examples=share(15, 80))
@given(modules())
def test_random_modules_have_no_flaws_and_are_not_written_to(module: IRModule) -> None:
    nodes = [node for func in module.functions.values() for node in post_order(func)]
    before = [node._checked_type for node in nodes]
    assert type_flaws(module) == []
    assert [node._checked_type for node in nodes] == before


@settings(max_examples=share(8, 40))
@given(modules())
def test_nor_have_those_whose_types_were_inferred(module: IRModule) -> None:
    assert type_flaws(parse(module.astext())) == []


a, b, f = Var("a"), Var("b"), Var("f")
wrong_add = x + var("z", shape=(3,))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (typed(-x, 3), "the type is Tensor[(3,), float32], but the parts imply Tensor[(2,), float32]"),
        (-typed(-x, 3), "the type is Tensor[(3,)"),
        (typed(Tuple([x]), 2), "but the parts imply (Tensor[(2,), float32],)"),
        (x + const([1.0, 2.0, 3.0]), "add"),
        (If(x, x, x), "the condition of an if must be a scalar bool, but has type"),
        (If(c, x, c), "the branches of an if"),
        (x[0], "which is not a tuple"),
        (Tuple([x])[0] + typed(Let(a, x, a), 5), "Tensor[(5,)"),
        (Let(typed(a, 7), x, x), "Tensor[(7,)"),  # type: ignore[arg-type]  # a Var
        (Let(Var("d", TensorType((3,))), x, x), "%d is declared as Tensor[(3,), float32], but its value has type Tensor[(2,), float32]"),
        (typed(const(1.0), 2), "the type is Tensor[(2,), float32], but the parts imply float32"),
        (Match(Tuple([x, x]), [Clause(PatternTuple([PatternVar(Var("p", TensorType((2,))))]), x)]), "a pattern of 1 field"),
    ],
)
def test_contradictions(body: Expr, message: str) -> None:
    a._checked_type = TensorType((7,)) if "(7,)" in message else None
    found = flaws(body)
    assert found, message
    assert message in found[0].text
    assert found[0].function == "main"
    assert str(found[0]) == f"in @main: {found[0].text}"


@pytest.mark.parametrize(
    "body",
    [
        Let(b, -x, b + x),
        Let(f, Function([b], f(b)), f(x)),
        Let(b, Function([x], -x), b(x)),
        Match(Tuple([x, x]), [Clause(PatternTuple([PatternVar(b), PatternVar(Var("q"))]), b + x)]),
        If(c, x, -x),
        GlobalVar("main")(x, c),
        Tuple([]),
        Var("unknown") + x,
    ],
)
def test_untyped_programs_that_can_be_typed(body: Expr) -> None:
    before = [node._checked_type for node in post_order(body)]
    assert flaws(body) == []
    assert [node._checked_type for node in post_order(body)] == before


def test_the_flaw_has_the_expression_that_it_is_about() -> None:
    inner = x + const([1.0, 2.0, 3.0])
    assert [flaw.expr for flaw in flaws(-inner)] == [inner]


def test_calls_of_functions_by_their_types() -> None:
    callee = GlobalVar("f")
    module = IRModule({"main": Function([x], GlobalVar("f")(x, x)), "k": PrimFunc([x], "text")})
    module.functions[callee] = Function([x], x, TensorType((2,)))
    assert [flaw.text for flaw in type_flaws(module)] == ["a function with 1 parameter is called with 2 arguments"]


def test_polymorphic_programs_without_types() -> None:
    module = parse("""
        type List[A] { Cons(A, List[A]), Nil }
        def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] {
          match (%l) { Cons(%h, %t) => { Cons(%f(%h), @map(%f, %t)) }, Nil => { Nil }, }
        }
        def @main(%x: int8) { @map(fn (%y: int8) { (%y, %y) }, Cons(%x, Nil)) }
    """)
    assert type_flaws(module) == []
    for function in module.functions.values():
        for node in post_order(function):
            if not isinstance(node, Constant) and not (isinstance(node, Var) and node.type_annotation):
                node._checked_type = None
    assert type_flaws(module) == []


def test_a_long_chain() -> None:
    body: Expr = x
    for _ in range(share(4_000, 50_000)):
        body = -body
    assert flaws(body) == []
    assert body._checked_type is None


def test_flaws_of_bindings_name_the_user_or_the_binder() -> None:
    u = Var("u")
    inside, outside = -u, u + u
    found = binding_flaws(Tuple([Let(u, x, inside), outside]))
    assert [(flaw.text, flaw.expr) for flaw in found] == [("the variable %u is used outside its scope", outside)]
    first = Let(u, x, u)
    again = Let(u, first, x)
    assert [flaw.expr for flaw in binding_flaws(again)] == [again]
    assert binding_flaws(IRModule({"main": Function([], -x)}))[0].expr.op is not x  # type: ignore[attr-defined]  # the call
