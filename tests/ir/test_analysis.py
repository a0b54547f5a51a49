"""Facts about expressions: variables, scopes, constants, effects."""

import pytest
from hypothesis import given, settings

from passat.ir.analysis import (
    all_vars,
    bound_vars,
    check_constant,
    free_vars,
    ill_formed,
    is_effectful,
    node_count,
    well_formed,
)
from passat.ir.expr import Clause, Expr, Function, GlobalVar, If, Let, Match, PatternVar, RefCreate, Tuple, Var, const, var
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.scopes import Scope, Scopes, common
from passat.ir.text import parse, parse_expr
from tests.share import share
from tests.strategies import modules, programs

x, y, c = var("x", shape=(2,)), var("y", shape=(2,)), var("c", "bool")
a, b = Var("a"), Var("b")


def test_variables_by_how_they_are_bound() -> None:
    expr = Match(Function([x], x + y)(c), [Clause(PatternVar(a), Let(b, a, Tuple([])))])
    assert set(all_vars(expr)) == {x, y, c, a, b}
    assert set(bound_vars(expr)) == {x, a, b}
    assert free_vars(expr) == [y, c]


@settings(max_examples=share(18, 100))
@given(programs(effects=True))
def test_random_programs_are_well_formed(program: Function) -> None:
    assert well_formed(program)
    assert free_vars(program) == []
    assert set(all_vars(program)) >= set(free_vars(program.body))


@settings(max_examples=share(8, 30))
@given(modules())
def test_random_modules_are_well_formed(module: IRModule) -> None:
    assert ill_formed(module) == []


shared = a + x
recursive = Let(a, Function([b], a(b)), a(x))


@pytest.mark.parametrize(
    "expr",
    [
        x,
        recursive,
        Let(a, x, Tuple([shared, shared])),
        Let(a, x, If(c, shared, shared)),
        Let(a, x, Function([b], shared)(a)),
        Tuple([Function([a], shared), x]),
    ],
)
def test_well_formed_expressions(expr: Expr) -> None:
    assert well_formed(expr)


TWICE, OUTSIDE = "the variable %a is bound more than once", "the variable %a is used outside its scope"


@pytest.mark.parametrize(
    ("expr", "wrong"),
    [
        (Tuple([Let(a, x, a), a]), [OUTSIDE]),
        (Tuple([Let(a, x, shared), shared]), [OUTSIDE]),
        (Let(a, shared, a), [OUTSIDE]),
        (If(c, Let(a, x, a), a), [OUTSIDE]),
        (Function([a], a)(a), [OUTSIDE]),
        (Match(a, [Clause(PatternVar(a), a)]), [OUTSIDE]),
        (Match(x, [Clause(PatternVar(a), x), Clause(PatternVar(b), a)]), [OUTSIDE]),
        (Let(a, x, Let(a, x, x)), [TWICE]),
        (Function([a, a], x), [TWICE]),
        (Tuple([Function([a], x), Function([a], y)]), [TWICE]),
    ],
)
def test_ill_formed_expressions(expr: Expr, wrong: list[str]) -> None:
    assert ill_formed(expr) == wrong
    assert not well_formed(expr)


def test_ill_formed_modules() -> None:
    module = IRModule({"f": Function([x], GlobalVar("g")(x, y)), "h": Function([x], GlobalVar("f")(x))})
    assert ill_formed(module) == ["in @f: the variable %y is free", "in @f: the module has no function @g"]


def test_constants_and_tuples_of_them() -> None:
    assert check_constant(Tuple([const(1), Tuple([const(2.0)])]))
    assert not check_constant(Tuple([x]))
    assert not check_constant(const(1) + const(2))


def test_effects_anywhere() -> None:
    assert not is_effectful(x + y)
    assert is_effectful(Function([], RefCreate(x)))
    assert is_effectful(get_op("nn.dropout")(x))


def test_shared_nodes_count_once() -> None:
    total = x + y
    assert node_count(Tuple([total, total])) == 4


def test_scopes_are_as_deep_as_they_nest() -> None:
    root = Scope()
    chain = [root]
    for _ in range(1000):
        chain.append(Scope(chain[-1]))
    other = Scope(chain[300])
    for _ in range(500):
        other = Scope(other)
    assert all(chain[-1].ancestor(depth) is chain[depth] for depth in range(1001))
    assert common(chain[-1], other) is common(other, chain[-1]) is chain[300]
    assert common(chain[200], other) is chain[200]
    assert chain[10].encloses(chain[900])
    assert not chain[900].encloses(chain[10])
    assert not chain[301].encloses(other)


def test_nodes_belong_to_the_innermost_scope_around_their_uses() -> None:
    used, inner = x + x, y + y
    choice = If(c, Tuple([used, inner]), Tuple([used]))
    scopes = Scopes(Function([x, y, c], choice))
    body = scopes.inner[scopes.order[-1]][0]
    assert scopes.place(choice) is scopes.place(used) is body
    assert scopes.place(inner) is scopes.inner[choice][0]
    assert scopes.binders[x] is body


def test_depth_is_data() -> None:
    body: Expr = x
    for _ in range(share(4_000, 20_000)):
        body = Let(Var("v"), x, body)
    assert well_formed(body)
    assert free_vars(body) == [x]


def test_variables_are_bound_from_the_outside_in() -> None:
    function = parse_expr("fn (%x: int8) { let %a = %x; (fn (%y: int8) { %y })(%a) }")
    assert [var.name_hint for var in bound_vars(function)] == ["x", "a", "y"]


def test_variables_of_a_pattern_come_before_the_result_of_its_arm() -> None:
    module = parse(
        """#[version = "0.0.5"]
        type List[A] { Cons(A, List[A]), Nil }
        def @main(%x: List[int8], %y: int8, %z: int8) { match (%x) { Nil => { %z }, Cons(%a, _) => { add(%a, %y) } } }"""
    )
    body = module["main"].body
    assert [var.name_hint for var in all_vars(body)] == ["x", "z", "a", "y"]
    assert [var.name_hint for var in free_vars(body)] == ["x", "z", "y"]
