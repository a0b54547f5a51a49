"""A-normal form and graph normal form: inverse to each other on pure programs; they keep the order of effects."""

import pytest
from hypothesis import given, settings

from passat.ir.analysis import ill_formed
from passat.ir.anf import to_anf, to_graph
from passat.ir.effects import effectful_nodes
from passat.ir.equality import assert_structural_equal, structural_equal
from passat.ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, If, Let, Match, Tuple, Var, const, var
from passat.ir.infer import infer_type
from passat.ir.op import Op, get_op
from passat.ir.text import parse_expr
from passat.ir.traverse import children, post_order
from tests.share import share
from tests.strategies import programs

x = var("x", shape=(2,))


def is_atom(expr: Expr) -> bool:
    return isinstance(expr, (Var, Constant, GlobalVar, Op, Constructor))


def bodies(program: Expr) -> list[Expr]:
    found: list[Expr] = []
    for node in post_order(program):
        if isinstance(node, Function):
            found.append(node.body)
        elif isinstance(node, If):
            found += [node.true_branch, node.false_branch]
        elif isinstance(node, Match):
            found += [clause.rhs for clause in node.clauses]
    return found


def assert_is_anf(program: Function) -> None:
    for body in bodies(program):
        rest = body
        while isinstance(rest, Let):
            parts = children(rest.value)
            if isinstance(rest.value, (If, Match)):
                parts = parts[:1]
            assert isinstance(rest.value, Function) or all(map(is_atom, parts))
            rest = rest.body
        assert is_atom(rest)


@settings(max_examples=share(18, 100))
@given(programs(effects=True))
def test_a_normal_form_binds_operations_on_atoms(program: Function) -> None:
    normal = to_anf(program)
    assert isinstance(normal, Function)
    assert ill_formed(normal) == []
    assert_is_anf(normal)
    assert to_anf(normal) is normal
    assert infer_type(normal).checked_type == infer_type(program).checked_type


@settings(max_examples=share(18, 100))
@given(programs())
def test_graph_and_a_normal_form_are_inverse(program: Function) -> None:
    graph = to_graph(program)
    assert not any(isinstance(node, Let) for node in post_order(graph))
    assert ill_formed(graph) == []
    assert_structural_equal(to_graph(to_anf(graph)), graph, sharing=True)
    assert_structural_equal(to_graph(to_anf(program)), graph)
    assert to_graph(graph) is graph


def effects(program: Expr) -> list[str]:
    """The effects in the order of their lets, as kinds of nodes."""
    return [type(node).__name__ for node in post_order(program) if type(node).__name__.startswith("Ref")]


@settings(max_examples=share(18, 100))
@given(programs(effects=True))
def test_effects_are_neither_lost_nor_made(program: Function) -> None:
    normal = to_anf(program)
    assert sorted(effects(to_graph(normal))) == sorted(effects(normal)) == sorted(effects(program))
    assert ill_formed(to_graph(normal)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fn (%x: int8) { add(negative(%x), %x) }", "let %x1 = negative(%x); let %x2 = add(%x1, %x); %x2"),
        ("fn (%x: int8) { %x }", "%x"),
        ("fn (%x: int8) { let %y = negative(%x); negative(%y) }", "let %y = negative(%x); let %x1 = negative(%y); %x1"),
        ("fn (%x: int8) { let %y = %x; negative(%y) }", "let %y = %x; let %x1 = negative(%y); %x1"),
        (
            "fn (%x: int8) { add({ let %y = negative(%x); %y }, %x) }",
            "let %y = negative(%x); let %x1 = add(%y, %x); %x1",
        ),
        (
            "fn (%x: int8) { %0 = negative(%x); add(%0, %0) }",
            "let %x1 = negative(%x); let %x2 = add(%x1, %x1); %x2",
        ),
        (
            "fn (%x: int8) { %0 = negative(%x); let %a = %0; let %b = %0; (%a, %b) }",
            "let %a = negative(%x); let %b = %a; let %x1 = (%a, %b); %x1",
        ),
        (
            "fn (%x: bool) { %0 = (1,); if (%x) { %0.0 } else { negative(%0.0) } }",
            "let %x1 = (1,); let %x2 = if (%x) { let %a = %x1.0; %a } else { let %b = %x1.0; let %c = negative(%b); %c }; %x2",
        ),
        (
            "fn (%x: int8) { let %f = fn (%n: int8) { %f(negative(%n)) }; %f(%x) }",
            "let %f = fn (%n: int8) { let %a = negative(%n); let %b = %f(%a); %b }; let %c = %f(%x); %c",
        ),
        (
            "fn (%x: int8) { fn (%y: int8, Primitive=1) { negative(negative(%y)) } }",
            "let %x1 = fn (%y: int8, Primitive=1) { negative(negative(%y)) }; %x1",
        ),
    ],
)
def test_a_normal_form_of(text: str, expected: str) -> None:
    head = text[: text.index("{")]
    assert_structural_equal(to_anf(parse_expr(text)), parse_expr(f"{head} {{ {expected} }}"), sharing=True)


def test_constants_are_bound_on_demand() -> None:
    program = parse_expr("fn (%c: bool) { if (%c) { add(1, 2) } else { 3 } }")
    bound = "fn (%c: bool) { let %r = if (%c) { let %a = 1; let %b = 2; let %s = add(%a, %b); %s } else { let %d = 3; %d }; %r }"
    found = to_anf(program, bind_constants=True)
    assert_structural_equal(found, parse_expr(bound))
    assert to_anf(found, bind_constants=True) is found


def test_expressions_other_than_functions_become_lets() -> None:
    y = x + x
    normal = to_anf(-y)
    assert isinstance(normal, Let)
    assert normal.value is y
    assert structural_equal(to_graph(normal), -y)
    assert to_anf(x) is x


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("let %y = negative(%x); let %z = add(%y, %y); (%z, %y)", "%0 = negative(%x); (add(%0, %0), %0)"),
        ("let %unused = negative(%x); %x", "%x"),
        ("let %y = %x; let %z = %y; %z", "%x"),
        ("if (True) { let %y = negative(%x); %y } else { %x }", "if (True) { negative(%x) } else { %x }"),
        (
            "let %r = ref(%x); let %a = negative(%x); let %_ = ref_write(%r, %a); ref_read(%r)",
            "let %r = ref(%x); let %_ = ref_write(%r, negative(%x)); ref_read(%r)",
        ),
        ("let %d = nn.dropout(1f); let %e = negative(%d); %e", "let %d = nn.dropout(1f); negative(%d)"),
        ("let %y = @f(%x); negative(%y)", "let %y = @f(%x); negative(%y)"),
        ("let %f = fn (%a: int8) { negative(%a) }; let %y = %f(%x); (%y, %y)", "%0 = fn (%a: int8) { negative(%a) }(%x); (%0, %0)"),
        ("let %f = fn (%a: int8) { ref(%a) }; let %y = %f(%x); %x", "let %y = fn (%a: int8) { ref(%a) }(%x); %x"),
        ("let %f = fn (%a: int8) { %f(%a) }; let %y = %f(%x); %x", "let %f = fn (%a: int8) { %f(%a) }; let %y = %f(%x); %x"),
        ("let %y = if (True) { ref_read(ref(%x)) } else { %x }; %x", "let %y = if (True) { ref_read(ref(%x)) } else { %x }; %x"),
    ],
)
def test_graph_normal_form_of(text: str, expected: str) -> None:
    before, after = (parse_expr(f"fn (%x: int8) {{ {body} }}") for body in (text, expected))
    assert_structural_equal(to_graph(before), after, sharing=True)


def test_a_graph_whose_lets_must_stay_is_left_alone() -> None:
    program = parse_expr("fn (%x: int8) { let %r = ref(%x); let %_ = ref_write(%r, %x); ref_read(%r) }")
    assert to_graph(program) is program


def effectful(text: str) -> bool:
    program = parse_expr(text)
    return program in effectful_nodes(program)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add(1, 2)", False),
        ("ref(1)", True),
        ("(1, ref_read(ref(1)))", True),
        ("nn.dropout(1f)", True),
        ("fn () { ref(1) }", False),
        ("fn () { ref(1) }()", True),
        ("fn (%x: int8) { %x }(1i8)", False),
        ("free_var %f; %f(1)", True),
        ("@f(1)", True),
        ("let %f = fn () { ref(1) }; let %g = %f; %g", False),
        ("let %f = fn () { ref(1) }; let %g = %f; %g()", True),
        ("let %f = fn () { 1 }; let %g = %f; %g()", False),
        ("onnx.Loop(1, True, fn () { ref(1) })", True),
        ("onnx.Loop(1, True, fn () { 1 })", False),
        ("let %f = fn () { ref(1) }; onnx.Loop(1, True, %f)", True),
        ("free_var %f: fn () -> int8; onnx.Loop(1, True, %f)", True),
    ],
)
def test_expressions_with_effects(text: str, expected: bool) -> None:
    assert effectful(text) == expected


def test_making_a_value_of_a_data_type_has_no_effect() -> None:
    some = Constructor("Some", [], const(1).checked_type)
    assert effectful_nodes(Call(some, [])) == set()


def test_depth_is_data() -> None:
    expr: Expr = x
    for _ in range(share(4_000, 20_000)):
        expr = expr + x
    normal = to_anf(expr)
    assert isinstance(normal, Let)
    assert normal.body is not expr
    graph = to_graph(normal)
    assert graph is not expr
    assert len(post_order(graph)) == len(post_order(expr))


def test_paths_are_not_nodes() -> None:
    expr: Expr = x
    for _ in range(100):
        expr = Tuple([expr, expr])
    normal = to_anf(expr)
    assert sum(isinstance(node, Let) for node in post_order(normal)) == 100
    assert structural_equal(to_graph(normal), expr)


def test_bodies_nest_deep() -> None:
    one = const(1)
    cond = const(True)
    expr: Expr = -one
    for _ in range(share(3_000, 10_000)):
        expr = If(cond, expr, one)
    normal = to_anf(expr)
    assert to_anf(normal) is normal
    assert structural_equal(to_graph(normal), expr)
    assert get_op("negative") in post_order(normal)
