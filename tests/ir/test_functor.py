"""Visitors and mutators: Relay's interface, each node once, the same object if nothing changed, and no recursion along dataflow."""

import inspect

import pytest
from hypothesis import given, settings

from passat.ir.equality import structural_equal
from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    const,
    var,
)
from passat.ir.functor import ExprFunctor, ExprMutator, ExprVisitor
from passat.ir.op import Op, get_op
from passat.ir.traverse import children, post_order
from passat.ir.type_functor import TypeFunctor, TypeMutator, TypeVisitor
from passat.ir.types import GlobalTypeVar, TensorType, Type
from tests.share import share
from tests.strategies import programs

x, y, c = var("x", shape=(2,)), var("y", shape=(2,)), var("c", "bool")
some = Constructor("Some", [TensorType((2,))], GlobalTypeVar("Option"))
p = Var("p")
EACH: list[tuple[Expr, str]] = [
    (Function([x], x), "function"),
    (Let(Var("v"), x, y), "let"),
    (x + y, "call"),
    (x, "var"),
    (GlobalVar("f"), "global_var"),
    (If(c, x, y), "if"),
    (Tuple([x, y]), "tuple"),
    (TupleGetItem(x, 0), "tuple_getitem"),
    (const(1), "constant"),
    (get_op("add"), "op"),
    (RefCreate(x), "ref_create"),
    (RefRead(x), "ref_read"),
    (RefWrite(x, y), "ref_write"),
    (some, "constructor"),
    (Match(x, [Clause(PatternConstructor(some, [PatternTuple([PatternVar(p)])]), p)]), "match"),
]


@pytest.mark.parametrize("base", [ExprFunctor, ExprVisitor, ExprMutator, TypeFunctor, TypeVisitor, TypeMutator])
def test_methods_may_name_their_parameter(base: type) -> None:
    """Type checkers require that an override keeps the names of parameters, except of positional ones."""
    methods = [method for name, method in inspect.getmembers(base, inspect.isfunction) if name.startswith("visit_")]
    assert methods
    for method in methods:
        _, parameter, *_ = inspect.signature(method).parameters.values()
        assert parameter.kind is parameter.POSITIONAL_ONLY, method


@pytest.mark.parametrize(("expr", "kind"), EACH)
def test_each_kind_has_its_method(expr: Expr, kind: str) -> None:
    calls: list[Expr] = []
    visitor = type("Recorder", (ExprVisitor,), {f"visit_{kind}": lambda self, node: calls.append(node)})()
    visitor.visit(expr)
    assert expr in calls
    assert visitor.visit(expr) is None
    assert calls.count(expr) == 1
    assert ExprMutator().visit(expr) is expr


@pytest.mark.parametrize(("expr", "kind"), EACH)
def test_the_base_does_nothing(expr: Expr, kind: str) -> None:
    base: ExprFunctor[int] = ExprFunctor()
    with pytest.raises(NotImplementedError):
        getattr(base, f"visit_{kind}")(expr)
    with pytest.raises(NotImplementedError):
        base.visit(expr)


def test_operators_of_a_kind_of_their_own_are_operators() -> None:
    opaque = get_op("onnx.SomethingNew")
    assert type(opaque) is not Op
    assert ExprMutator().visit(opaque) is opaque


def test_unknown_kinds_of_expressions_are_rejected() -> None:
    class Strange(Expr):
        pass

    with pytest.raises(TypeError, match="Strange is not a kind of expression that can be visited"):
        ExprVisitor().visit(Strange())


class Order(ExprVisitor):
    """Records nodes in the order of their visits."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Expr] = []

    def visit(self, expr: Expr) -> None:
        if expr not in self.memo_map:
            super().visit(expr)
            self.done.append(expr)


@settings(max_examples=share(15, 80))
@given(programs(effects=True))
def test_a_visitor_visits_each_node_once_after_its_operands(program: Function) -> None:
    order = Order()
    order.visit(program)
    assert len(order.done) == len(set(order.done))
    assert {node for node in order.done if not isinstance(node, Var)} == {node for node in post_order(program) if not isinstance(node, Var)}
    place = {node: i for i, node in enumerate(order.done)}
    assert all(place[part] < place[node] for node in order.done for part in children(node))


@settings(max_examples=share(15, 80))
@given(programs(effects=True))
def test_a_mutator_that_changes_nothing_gives_the_same_object(program: Function) -> None:
    assert ExprMutator().visit(program) is program


class Copy(ExprMutator):
    """Replaces every constant and variable."""

    def visit_constant(self, constant: Constant) -> Expr:
        return Constant(constant.data)

    def visit_var(self, var: Var) -> Expr:
        return Var(var.name_hint, var.type_annotation)


@settings(max_examples=share(15, 80))
@given(programs(effects=True))
def test_a_mutator_keeps_all_that_it_does_not_change(program: Function) -> None:
    copy = Copy().visit(program)
    assert copy is not program
    assert structural_equal(copy, program, sharing=True)


@pytest.mark.parametrize(("expr", "kind"), [each for each in EACH if children(each[0])])
def test_a_mutator_rebuilds_the_users_of_changes(expr: Expr, kind: str) -> None:
    copy = Copy().visit(expr)
    assert type(copy) is type(expr)
    assert copy is not expr
    assert structural_equal(copy, expr, map_free_vars=True)


def test_results_are_shared_as_nodes_are() -> None:
    shared = x + const(1.0)
    result = Copy().visit(Tuple([shared, shared]))
    assert isinstance(result, Tuple)
    assert result[0] is result[1]


def test_an_overridden_method_replaces_calls() -> None:
    class Simplify(ExprMutator):
        def visit_call(self, call: Call) -> Expr:
            new = super().visit_call(call)
            assert isinstance(new, Call)
            return new.args[0] if new.op is get_op("negative") else new

    minus = -(x + -y)
    assert structural_equal(Simplify().visit(-minus), x + y)


def test_an_overridden_visit_gets_every_node_without_caching() -> None:
    class Cut(ExprMutator):
        def visit(self, expr: Expr) -> Expr:
            return const(0.0) if expr is y else super().visit(expr)

    result = Cut().visit(Tuple([x + y, -y, y]))
    assert y not in post_order(result)
    assert x in post_order(result)


def test_types_are_visited_in_place() -> None:
    class Half(ExprMutator):
        def visit_type(self, type_: Type) -> Type:
            return TensorType(type_.shape, "float16") if isinstance(type_, TensorType) else type_

    v, f = Var("v", x.type_annotation), GlobalVar("f")
    program = Function([x], Let(v, Call(f, [x], None, [TensorType((3,))]), v), TensorType((2,)), attrs={"Primitive": 1})
    half = Half().visit(program)
    assert repr(half) == (
        "fn (%x: Tensor[(2), float16], Primitive=1) -> Tensor[(2), float16] {\n"
        "  let %v: Tensor[(2), float16] = @f[Tensor[(3), float16]](%x);\n"
        "  %v\n"
        "}"
    )


def test_bound_variables_must_stay_variables() -> None:
    class Wrong(ExprMutator):
        def visit_var(self, var: Var) -> Expr:
            return const(1)

    with pytest.raises(TypeError, match="%x is bound here, so visiting it must return a variable, not Constant"):
        Wrong().visit(Function([x], x))


def test_a_let_can_be_entered_between_its_value_and_its_body() -> None:
    events: list[str] = []

    class Scoped(ExprVisitor):
        def enter_let(self, let: Let) -> None:
            events.append(f"enter {let.var.name_hint}")

        def visit_var(self, var: Var) -> None:
            events.append(var.name_hint)

        def visit_let(self, let: Let) -> None:
            events.append(f"leave {let.var.name_hint}")

    a, b = Var("a"), Var("b")
    Scoped().visit(Let(a, x, Let(b, y, c)))
    assert events == ["x", "a", "enter a", "y", "b", "enter b", "c", "leave b", "leave a"]


def test_chains_of_calls_take_no_stack() -> None:
    expr: Expr = x
    for _ in range(share(4_000, 20_000)):
        expr = expr + y
    assert ExprMutator().visit(expr) is expr
    assert x not in post_order(Copy().visit(expr))


def test_chains_of_lets_take_no_stack() -> None:
    length = share(4_000, 20_000)
    one = const(1)
    body: Expr = x
    nested: Expr = x
    for _ in range(length):
        body = Let(Var("v"), one, body)
    for _ in range(length):
        nested = Let(Var("v"), nested, one)
    visitor = ExprVisitor()
    visitor.visit(Tuple([body, nested]))
    assert len(visitor.memo_map) == 4 * length + 3
    assert Copy().visit(nested) is not nested


def test_paths_are_not_nodes() -> None:
    expr: Expr = x
    for _ in range(100):
        expr = expr + expr
    visitor = ExprVisitor()
    visitor.visit(expr)
    assert len(visitor.memo_map) == 102
