"""Unused lets: which are removed, which stay because of their effects, and programs with shared parts."""

from passat.ir.analysis import well_formed
from passat.ir.expr import Call, Expr, Function, GlobalVar, If, Let, RefCreate, RefRead, RefWrite, Tuple, Var
from passat.ir.infer import infer_type
from passat.ir.text import parse_expr
from passat.ir.traverse import post_order
from passat.rules.passes.simplify import drop_dead_lets
from tests.rules.building import func, ops, splat, var
from tests.rules.running import assert_equal_in_value

x = var("x")


def lets(expr: Expr) -> list[str]:
    return [node.var.name_hint for node in post_order(expr) if isinstance(node, Let)]


def dropped(text: str) -> Function:
    function = parse_expr(text)
    assert isinstance(function, Function)
    result = drop_dead_lets(function)
    assert well_formed(result)
    return result


def test_an_unused_let_is_removed() -> None:
    result = dropped("fn (%x: int8) { let %a = negative(%x); let %b = negative(%a); %x }")
    assert lets(result) == []
    result = dropped("fn (%x: int8) { let %a = negative(%x); let %b = negative(%a); %a }")
    assert lets(result) == ["a"]


def test_if_all_lets_are_used_the_function_is_unchanged() -> None:
    function = parse_expr("fn (%x: int8) { let %a = negative(%x); let %b = negative(%a); (%a, %b) }")
    assert isinstance(function, Function)
    assert drop_dead_lets(function) is function
    plain = func(ops.exp(x))
    assert drop_dead_lets(plain) is plain


def test_lets_inside_of_values_branches_and_functions() -> None:
    result = dropped(
        "fn (%x: int8, %c: bool) { let %a = { let %u = negative(%x); %x }; if (%c) { let %v = negative(%a); %a } else { %x } }"
    )
    assert lets(result) == ["a"]
    result = dropped("fn (%x: int8) { let %f = fn (%y: int8) { let %u = negative(%y); %y }; %f(%x) }")
    assert lets(result) == ["f"]


def test_a_function_that_only_calls_itself_is_removed() -> None:
    f, y = Var("f"), var("y", (), "int8")
    recursive = Function([y], Call(f, [y]), ret_type=y.type_annotation)
    a = var("a", (), "int8")
    function = Function([a], Let(f, recursive, a))
    assert lets(drop_dead_lets(function)) == []
    used = Function([a], Let(f, recursive, Call(f, [a])))
    assert drop_dead_lets(used) is used


def test_stateful_calls_stay() -> None:
    dropout = Var("d")
    function = Function([x], Let(dropout, ops.nn.dropout(x)[0], x))
    assert drop_dead_lets(function) is function


def test_references_and_their_operands_stay() -> None:
    a, r, done = Var("a"), Var("r"), Var("_")
    body = Let(a, ops.negative(x), Let(r, RefCreate(x), Let(done, RefWrite(r, a), RefRead(r))))
    function = Function([x], body)
    assert drop_dead_lets(function) is function


def test_calls_of_functions_that_are_not_known_stay() -> None:
    unused = Var("u")
    function = Function([x], Let(unused, Call(GlobalVar("elsewhere"), [x]), x))
    assert drop_dead_lets(function) is function
    known = Function([x], Let(unused, Call(Function([y := var("y")], ops.exp(y)), [x]), x))
    assert lets(drop_dead_lets(known)) == []


def test_a_shared_value_keeps_its_operands() -> None:
    """The value of the dead let is shared with the result. Only the let is removed, not the binding below it."""
    a, b = Var("a"), Var("b")
    shared = ops.negative(a)
    function = Function([x], Let(a, ops.exp(x), Let(b, shared, ops.abs(shared))))
    infer_type(function)
    result = drop_dead_lets(function)
    assert lets(result) == ["a"]
    assert well_formed(result)
    assert_equal_in_value(function, result, exact=True)


def test_dead_lets_that_share_a_part() -> None:
    a, b, c = Var("a"), Var("b"), Var("c")
    shared = ops.negative(a)
    function = Function([x], Let(a, ops.exp(x), Let(b, ops.abs(shared), Let(c, ops.sin(shared), x))))
    assert lets(drop_dead_lets(function)) == []


def test_a_let_of_a_variable() -> None:
    a, b = Var("a"), Var("b")
    function = Function([x], Let(a, ops.exp(x), Let(b, a, Tuple([x]))))
    assert lets(drop_dead_lets(function)) == []
    kept = Function([x], Let(a, ops.exp(x), Let(b, a, Tuple([b]))))
    assert drop_dead_lets(kept) is kept


def test_a_branch_that_is_dead_with_its_condition() -> None:
    c, u = Var("c"), Var("u")
    function = Function([x], Let(c, ops.greater(ops.sum(x, axis=(0, 1)), splat(0.0)), Let(u, If(c, x, ops.exp(x)), x)))
    assert lets(drop_dead_lets(function)) == []


def test_a_chain_of_20_000_dead_lets() -> None:
    names = [Var(f"v{i}") for i in range(20_000)]
    body: Expr = x
    values = [x, *names]
    for i in reversed(range(len(names))):
        body = Let(names[i], ops.negative(values[i]), body)
    assert drop_dead_lets(Function([x], body)).body is x
