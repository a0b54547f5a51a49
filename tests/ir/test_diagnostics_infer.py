"""Type inference reports all independent errors at once, and leaves the program unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import (
    Call,
    Clause,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Span,
    Tuple,
    TupleGetItem,
    Var,
    const,
    var,
)
from passat.ir.functor import ExprMutator
from passat.ir.infer import InferError, infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.text import parse, parse_expr
from passat.ir.traverse import post_order
from passat.ir.types import TensorType
from tests.share import share
from tests.strategies import programs

x = var("x", shape=(2, 3))
y = var("y", shape=(4,))
scalar = var("c", "bool", None)
f32 = TensorType((2, 3))


def wrong(name: str) -> Call:
    """A call without a valid type."""
    return Call(get_op("add"), [x, y], span=Span(name))


def told(program: Expr | IRModule) -> list[str]:
    """The locations of the errors, in order."""
    with pytest.raises(InferError) as caught:
        infer_module(program) if isinstance(program, IRModule) else infer_type(program)
    assert len(str(caught.value).split("\n")) == len(caught.value.diagnostics)
    return ["" if found.span is None else found.span.source_name for found in caught.value.diagnostics]


def test_errors_of_independent_places_in_program_order() -> None:
    assert told(Tuple([wrong("a"), wrong("b"), Tuple([wrong("c")])])) == ["a", "b", "c"]


def test_consequences_of_an_error_are_not_reported() -> None:
    a = wrong("a")
    assert told(Tuple([a, a + x, (a + y).astype("int8"), get_op("nn.softmax")(a, axis=7), a[3], a(x), RefRead(a)])) == ["a"]
    assert told(If(a, x, x)) == ["a"]
    assert told(If(scalar, a, x)) == ["a"]
    assert told(RefWrite(RefCreate(a), x)) == ["a"]
    assert told(Function([x], a, TensorType((), "int8"))) == ["a"]
    assert told(Match(a, [Clause(PatternTuple([PatternWildcard()]), x)])) == ["a"]


@pytest.mark.parametrize(
    ("expr", "places"),
    [
        (Let(var("v", "int8", None), x, wrong("a"), Span("let")), ["let", "a"]),
        (Let(Var("v"), wrong("a"), wrong("b")), ["a", "b"]),
        (If(x, wrong("a"), wrong("b"), Span("if")), ["a", "b", "if"]),
        (If(scalar, x, y, Span("if")), ["if"]),
        (Match(x, [Clause(PatternTuple([]), wrong("a")), Clause(PatternWildcard(), wrong("b"))], span=Span("m")), ["m", "a", "b"]),
        (Match(x, [Clause(PatternWildcard(), x), Clause(PatternWildcard(), y)], span=Span("m")), ["m"]),
        (Function([x], wrong("a")), ["a"]),
        (Call(Function([x], wrong("a")), [wrong("b")]), ["a", "b"]),
        (Call(Function([x], wrong("a"), f32), [y], span=Span("c")), ["a", "c"]),
        (TupleGetItem(Tuple([wrong("a"), x]), 2, Span("b")), ["a", "b"]),
    ],
)
def test_order_and_independence(expr: Expr, places: list[str]) -> None:
    assert told(expr) == places


def test_variables_of_a_let_or_pattern_that_is_wrong_have_an_unknown_type() -> None:
    v, p = Var("v"), Var("p")
    assert told(Let(v, wrong("a"), Tuple([v + x, v[0], wrong("b")]))) == ["a", "b"]
    assert told(Match(Tuple([x]), [Clause(PatternTuple([PatternVar(p), PatternVar(v)]), Tuple([p + v, wrong("b")]))], span=Span("m"))) == [
        "m",
        "b",
    ]
    assert v._checked_type is None
    assert p._checked_type is None


def test_a_declared_type_overrides_that_of_the_value() -> None:
    v = var("v", shape=(2, 3))
    assert told(Let(v, wrong("a"), Call(get_op("add"), [v, y], span=Span("b")))) == ["a", "b"]


def test_a_shared_error_is_reported_once() -> None:
    a = wrong("a")
    expr: Expr = a
    for _ in range(50):
        expr = expr + expr
    assert told(expr) == ["a"]


def test_the_program_is_left_as_it_was() -> None:
    a, fine = wrong("a"), x + x
    v = Var("v")
    behind = Call(get_op("add"), [v, const(1.0)])
    program = Tuple([fine, Let(v, a, behind)])
    for _ in range(2):
        assert told(program) == ["a"]
        assert fine.checked_type == f32  # expressions with a type keep it
        assert {node._checked_type for node in (a, v, behind, program)} == {None}
    assert infer_type(Tuple([fine, x])).checked_type is not None


def test_known_values_are_kept() -> None:
    shape = get_op("shape_of")(x)
    bad = Call(get_op("add"), [shape, const(1.0)], span=Span("a"))
    reshaped = Call(get_op("dyn.reshape"), [x, bad], span=Span("b"))
    assert told(reshaped) == ["a"]
    assert not hasattr(bad, "_known_value")


def test_patterns_have_locations() -> None:
    with pytest.raises(InferError, match=r"^from_string:2:15: the pattern Nil is matched against a value of type int32$"):
        parse("type List[A] { Cons(A, List[A]), Nil }\ndef @main() { match (1) { Nil => 1 } }")
    with pytest.raises(InferError, match=r"^from_string:2:15: the constructor Cons has 2 fields"):
        parse("type List[A] { Cons(A, List[A]), Nil }\ndef @main() { match (Nil) { Cons(%x) => 1 } }")
    nested = PatternConstructor(parse("type L { C(L) }").type_definitions.popitem()[1].constructors[0], [PatternVar(Var("v"))])
    with pytest.raises(InferError, match=r"^m: the pattern C is matched"):
        infer_type(Match(x, [Clause(nested, x)], span=Span("m")))


def test_all_functions_of_a_module_in_its_order() -> None:
    module = IRModule(
        {
            "main": Function([x, y], Tuple([GlobalVar("later")(x), wrong("main")])),
            "later": Function([x, y], wrong("later"), f32),
            "fine": Function([x], x + x),
            "caller": Function([x], Tuple([GlobalVar("fine")(x), GlobalVar("untyped")(x)[1]])),
            "untyped": Function([x, y], wrong("untyped")),
        }
    )
    for _ in range(2):
        with pytest.raises(InferError) as caught:
            infer_module(module)
        assert [found.notes for found in caught.value.diagnostics] == [
            ("in the function @main",),
            ("in the function @main",),
            ("in the function @later",),
            ("in the function @caller",),
            ("in the function @untyped",),
        ]
        assert "a function with 2 parameters is called with 1 argument" in str(caught.value)
        assert module["untyped"]._checked_type is None
        assert module.get_global_var("caller")._checked_type is None
    module["untyped"] = Function([x], Tuple([x, x]))
    for name, body in {"main": x, "later": x}.items():
        module[name] = Function([x], body)
    module["caller"] = Function([x], GlobalVar("untyped")(x)[1])
    assert infer_module(module)["caller"].body.checked_type == f32


def test_errors_of_a_text_are_quoted() -> None:
    text = """\
def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(4), float32]) {
  %0 = add(%x, %y);
  let %z: int8 = multiply(%x, nn.relu(%0));
  let %a = @g(%x,
     %z);
  subtract(%x + %y, %y)
}
def @g(%x: int8) { %x.0 }
"""
    with pytest.raises(InferError) as caught:
        parse(text, "f.relay")
    assert (
        caught.value.render()
        == """\
error: add(Tensor[(2, 3), float32], Tensor[(4,), float32]): shapes (2, 3) and (4,) do not broadcast: 3 against 4
 --> f.relay:2:8
  |
2 |   %0 = add(%x, %y);
  |        ^^^^^^^^^^^
  = note: in the function @main

error: a function with 1 parameter is called with 2 arguments
 --> f.relay:4:12
  |
4 |   let %a = @g(%x,
  |            ^^^^^^
  | ... to line 5
  = note: in the function @main

error: add(Tensor[(2, 3), float32], Tensor[(4,), float32]): shapes (2, 3) and (4,) do not broadcast: 3 against 4
 --> f.relay:6:12
  |
6 |   subtract(%x + %y, %y)
  |            ^^^^^^^
  = note: in the function @main

error: field 0 is taken from a value of type int8, which is not a tuple
 --> f.relay:8:20
  |
8 | def @g(%x: int8) { %x.0 }
  |                    ^^^^
  = note: in the function @g"""
    )


def test_many_errors_are_found_up_to_a_hundred() -> None:
    assert len(told_all(Tuple([wrong(str(i)) for i in range(50)]))) == 50
    assert len(told_all(Tuple([wrong(str(i)) for i in range(500)]))) == 100


def told_all(expr: Expr) -> list[str]:
    with pytest.raises(InferError) as caught:
        infer_type(expr)
    assert len(str(caught.value).split("\n")) == 21
    assert len(caught.value.render()) < 10_000
    return [found.sentence for found in caught.value.diagnostics]


def test_long_programs_are_abbreviated() -> None:
    expr: Expr = wrong("a")
    for _ in range(share(4_000, 20_000)):
        expr = expr + x
    with pytest.raises(InferError) as caught:
        infer_type(Tuple([expr, TupleGetItem(expr + expr, 0)]))
    assert len(caught.value.diagnostics) == 1
    assert len(caught.value.render()) < 500


class Breaker(ExprMutator):
    """Replaces some of the calls by ill-typed ones, each with its number."""

    def __init__(self, chosen: set[int]) -> None:
        super().__init__()
        self._chosen = chosen
        self._seen = 0
        self.made: list[str] = []

    def visit_call(self, call: Call) -> Expr:
        made = super().visit_call(call)
        self._seen += 1
        if self._seen - 1 not in self._chosen:
            return made
        self.made.append(f"wrong{len(self.made)}")
        bad = Call(get_op("add"), [const([1.0, 2.0, 3.0]), const([1.0, 2.0])], span=Span(self.made[-1]))
        return TupleGetItem(Tuple([bad, made]), 0)


@settings(max_examples=share(40, 80))
@given(programs(effects=True), st.sets(st.integers(0, 6), min_size=1))
def test_exactly_the_wrong_calls_are_reported(program: Function, chosen: set[int]) -> None:
    breaker = Breaker(chosen)
    broken = breaker.visit(program)
    nodes = post_order(broken)
    if not breaker.made:
        infer_type(broken)
        return
    with pytest.raises(InferError) as caught:
        infer_type(broken)
    places = [found.span.source_name for found in caught.value.diagnostics if found.span is not None]
    assert sorted(places) == sorted(breaker.made)
    assert len(caught.value.render()) < 3000 * len(places)
    kept = [node for node in nodes if node._checked_type is not None]
    with pytest.raises(InferError) as again:
        infer_type(broken)
    assert again.value.render() == caught.value.render()
    assert [node for node in nodes if node._checked_type is not None] == kept


@settings(max_examples=share(20, 40))
@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_lines_of_the_errors_of_a_text(right: list[bool]) -> None:
    lines = [f"let %v{i} = add(%x, {1 if fine else 1.5}{'i8' if fine else 'f'});" for i, fine in enumerate(right)]
    expr = parse_expr("free_var %x: int8;\n" + "\n".join(lines) + "\n%x")
    wanted = [i + 2 for i, fine in enumerate(right) if not fine]
    if not wanted:
        assert infer_type(expr)
        return
    with pytest.raises(InferError) as caught:
        infer_type(expr)
    assert [found.span.line for found in caught.value.diagnostics if found.span is not None] == wanted
