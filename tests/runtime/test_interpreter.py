"""The interpreter: dataflow, lets, ifs, calls, closures, recursion; each node is evaluated once, and deep programs are supported."""

import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.anf import to_anf, to_graph
from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Expr,
    Function,
    If,
    Let,
    Match,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    Tuple,
    TupleGetItem,
    Var,
    const,
    var,
)
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.tensor import Tensor
from passat.ir.text import parse, parse_expr
from passat.ir.types import IncompleteType, TensorType
from passat.runtime import ExecutorError, NDArray, create_executor, interpreter
from passat.runtime.python_source import run_as_python
from tests.share import share

x = var("x", shape=(2,))
ONES = np.ones(2, np.float32)


def value(text: str, *args: Any) -> Any:
    return create_executor().evaluate(parse_expr(text))(*args)


def test_dataflow() -> None:
    found = value("fn (%x: Tensor[(2), float32]) { %0 = add(%x, %x); (multiply(%0, %0), negative(%0), %x) }", ONES)
    assert [part.numpy().tolist() for part in found] == [[4, 4], [-2, -2], [1, 1]]


def test_a_field_of_an_operator_with_several_results() -> None:
    assert value("fn (%x: Tensor[(2), float32]) { %0 = split(%x, indices_or_sections=2); %0.1 }", np.array([1, 2], np.float32)).numpy() == [
        2
    ]


def test_lets_and_shadowing() -> None:
    assert value("fn (%x: int32) { let %y = add(%x, 1); let %z = { let %y = multiply(%y, 10); %y }; subtract(%z, %y) }", 1).numpy() == 18


def test_only_the_branch_that_is_taken_is_computed() -> None:
    text = "fn (%n: int32) { if (equal(%n, 0)) { 0 } else { divide(10, %n) } }"
    assert value(text, 0).numpy() == 0  # the other branch would divide by zero
    assert value(text, 3).numpy() == 3


def test_an_if_within_an_expression() -> None:
    assert value("fn (%b: bool) { add(if (%b) { let %x = 1; %x } else { 2 }, 10) }", True).numpy() == 11


def test_a_closure_captures_its_surroundings() -> None:
    text = """fn (%x: int32) {
      let %add = fn (%y: int32) { add(%x, %y) };
      let %twice = fn (%f: fn (int32) -> int32, %y: int32) { %f(%f(%y)) };
      %twice(%add, 5)
    }"""
    assert value(text, 100).numpy() == 205


def test_a_closure_that_calls_itself() -> None:
    text = """fn (%n: int32) {
      let %fact = fn (%k: int32) -> int32 { if (equal(%k, 0)) { 1 } else { multiply(%k, %fact(subtract(%k, 1))) } };
      %fact(%n)
    }"""
    assert value(text, 5).numpy() == 120


def test_functions_of_the_module() -> None:
    mod = parse("""
        def @even(%n: int32) -> bool { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
        def @odd(%n: int32) -> bool { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
        def @main(%n: int32) { (@even(%n), @odd(%n)) }
    """)
    even, odd = create_executor(mod=mod).evaluate()(7)
    assert (even.numpy(), odd.numpy()) == (False, True)


def test_calls_in_tail_position_nest_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "CALL_DEPTH", 10)
    mod = parse("""def @main(%n: int32, %sum: int32) -> int32 {
      if (equal(%n, 0)) { %sum } else { let %m = subtract(%n, 1); @main(%m, add(%sum, 1)) }
    }""")
    assert create_executor(mod=mod).evaluate()(1000, 0).numpy() == 1000


def test_other_calls_nest_deep() -> None:
    depth = share(4_000, 10_000)
    mod = parse("def @main(%n: int32) -> int32 { if (equal(%n, 0)) { 0 } else { add(@main(subtract(%n, 1)), 1) } }")
    assert create_executor(mod=mod).evaluate()(depth).numpy() == depth


def test_recursion_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interpreter.CALL_DEPTH >= 100_000
    monkeypatch.setattr(interpreter, "CALL_DEPTH", 1000)
    mod = parse("def @main(%n: int32) -> int32 { add(@main(%n), 1) }")
    with pytest.raises(ExecutorError, match=r"from_string:1:\d+: calls are nested more than 1000 deep; check that the recursion ends"):
        create_executor(mod=mod).evaluate()(0)


def test_a_long_chain_of_calls() -> None:
    length = share(4_000, 20_000)
    total: Expr = x
    for _ in range(length):
        total = total + const(1.0)
    assert create_executor().evaluate(Function([x], total))(ONES).numpy().tolist() == [length + 1, length + 1]


def test_a_long_chain_of_lets() -> None:
    length = share(4_000, 20_000)
    variables = [Var("v", TensorType((), "int32")) for _ in range(length + 1)]
    body: Expr = variables[-1]
    for before, after in reversed(list(pairwise(variables))):
        body = Let(after, before + const(1), body)
    assert create_executor().evaluate(Let(variables[0], const(0), body)).numpy() == length


def test_each_node_is_computed_once(counting: Callable[[], int]) -> None:
    total: Expr = get_op("copy")(x)
    for _ in range(60):
        total = total + total
    assert create_executor().evaluate(Function([x], If(const(True), total, x) * total))(ONES).numpy()[0] == 2.0**120
    assert counting() == 1


def test_once_for_each_call_of_its_function(counting: Callable[[], int]) -> None:
    y = var("y", shape=(2,))
    inner = Function([y], get_op("copy")(y))
    create_executor().evaluate(Function([x], Tuple([inner(x), inner(x)])))(ONES)
    assert counting() == 2


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    calls: list[int] = []

    def kernel(data: Any) -> Any:
        calls.append(1)
        return data

    monkeypatch.setattr(get_op("copy"), "kernel", kernel)
    return lambda: len(calls)


def test_values_are_forgotten_after_their_last_use() -> None:
    size = 1 << 18
    data = var("data", shape=(size,))
    total: Expr = data
    for _ in range(100):
        total = If(const(True), (total + const(1.0)) + total, data)
        total = TupleGetItem(Tuple([total, data]), 0)
    run = create_executor().evaluate(Function([data], total))
    given = np.zeros(size, np.float32)
    run(given)
    tracemalloc.start()
    try:
        run(given)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * given.nbytes


def test_a_let_that_is_a_value_and_the_result() -> None:
    twice = Let(v := var("v", "int32"), const(1) + const(2), v + v)
    assert create_executor().evaluate(Let(var("w", "int32"), twice, twice)).numpy() == 6


def test_values_shared_with_a_nested_function() -> None:
    shared = A + A
    inner = Function([n := var("n", "int32")], n + shared)
    assert create_executor().evaluate(Function([A], (shared + inner(A)) + inner(shared)))(1).numpy() == 2 + 3 + 4


def test_sizes_that_only_the_run_knows() -> None:
    text = "fn (%x: Tensor[(?, n), float32], %s: Tensor[(2), int64]) { add(dyn.reshape(%x, %s), 1f) }"
    assert value(text, np.zeros((2, 3), np.float32), np.array([3, 2])).shape == (3, 2)


def test_parameters_without_types() -> None:
    assert [part.shape for part in value("fn (%x) { split(%x, indices_or_sections=2) }", np.zeros((4, 1), np.float32))] == [(2, 1), (2, 1)]


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        (
            "fn (%x, %y) { add(%x, %y) }",
            (ONES, np.ones(3, np.float32)),
            r"from_string:1:15: add\(.*shapes \(2,\) and \(3,\) do not broadcast",
        ),
        ("fn (%n: int32) { divide(1, %n) }", (0,), r"from_string:1:18: the kernel of divide rejected its operands"),
        ("fn (%x) { %x.2 }", ((1, 2),), "field 2 is taken from a tuple of 2"),
        ("fn (%x) { %x.0 }", (ONES,), r"field 0 is taken from a value of type Tensor\[\(2,\), float32\]"),
        (
            "fn (%c) { if (less(%c, 2f)) { 1 } else { 2 } }",
            (ONES,),
            r"the condition of an if must be a scalar bool, not a value of type Tensor",
        ),
        ("fn (%f) { %f(1) }", (ONES,), r"a value of type .* cannot be called"),
        ("fn (%x) { ref_read(%x) }", (1,), "a value of type int32 is not a reference"),
        ("fn (%x) { let %f = add; %f(%x, %x) }", (ONES,), "add cannot be used as a value; wrap it in a function that calls it"),
        ("fn (%x: int32) { onnx.Nonsense(%x, opset=18) }", (1,), "onnx.Nonsense"),
    ],
)
def test_unrunnable_models(text: str, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ExecutorError, match=message):
        value(text, *args)


def test_an_operator_on_a_function() -> None:
    function = parse_expr("fn (%y: int32) { %y }").assume_type(IncompleteType())  # inference rejects it otherwise
    with pytest.raises(ExecutorError, match=r"nn.relu takes tensors, but got a function"):
        create_executor().evaluate(get_op("nn.relu")(function))


@st.composite
def programs(draw: st.DrawFn) -> tuple[Expr, Any]:
    """An expression over %a and %b with shared parts, lets, ifs, tuples and closures, and its value for 2 and 3."""
    pool: list[tuple[Expr, int]] = [(A, 2), (B, 3), (const(5), 5)]
    for _ in range(draw(st.integers(1, 12))):
        (left, m), (right, n) = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        kind = draw(st.sampled_from(["add", "subtract", "let", "if", "tuple", "call", "closure"]))
        inner = Var("v", TensorType((), "int32"))
        if kind in ("add", "subtract"):
            pool.append((get_op(kind)(left, right), m + n if kind == "add" else m - n))
        elif kind == "let":
            pool.append((Let(inner, left, inner + (inner + right)), 2 * m + n))
        elif kind == "if":
            pool.append((If(left < right, right, left), max(m, n)))
        elif kind == "tuple":
            pool.append((TupleGetItem(Tuple([left, right]), 1), n))
        elif kind == "call":
            pool.append((Function([inner], inner + left)(right), m + n))
        else:
            name = Var("f")
            pool.append((Let(name, Function([inner], (inner + left) - left), name(name(right)) + left), m + n))
    return pool[-1]


A, B = (Var(name, TensorType((), "int32")) for name in "ab")


@settings(max_examples=share(25, 150))
@given(programs())
def test_random_programs_in_every_form(case: tuple[Expr, int]) -> None:
    expr, expected = case
    function = Function([A, B], expr)
    for form in (function, to_anf(function), to_graph(to_anf(function))):
        assert create_executor().evaluate(form)(2, 3).numpy() == expected
    assert run_as_python(function)(NDArray(np.int32(2)), NDArray(np.int32(3))).numpy() == expected


def test_constants_are_values() -> None:
    assert create_executor().evaluate(Constant(np.array([1, 2], np.int64))).dtype == "int64"


DEEP: dict[str, Callable[[Expr], Expr]] = {
    "calls": lambda inner: inner + const(0),
    "let bodies": lambda inner: Let(Var("v"), const(1), inner),
    "let values": lambda inner: Let(v := Var("v"), inner, v),
    "branches": lambda inner: If(const(True), inner, const(0)),
    "fields": lambda inner: TupleGetItem(Tuple([inner]), 0),
    "references": lambda inner: RefRead(RefCreate(inner)),
    "data of matches": lambda inner: Match(inner, [Clause(PatternVar(v := Var("v")), v)]),
    "clauses": lambda inner: Match(const(0), [Clause(PatternWildcard(), inner)]),
}


@pytest.mark.parametrize("kind", DEEP)
def test_programs_nested_deep(kind: str) -> None:
    expr: Expr = const(1)
    for _ in range(share(3_000, 100_000)):
        expr = DEEP[kind](expr)
    assert create_executor().evaluate(expr) == NDArray(np.int32(1))


def test_references_within_references_and_shared_ones() -> None:
    expr: Expr = const(1)
    for _ in range(5_000):
        expr = RefCreate(expr)
    found = create_executor().evaluate(expr)
    for _ in range(5_000):
        found = found.value
    assert found == NDArray(np.int32(1))
    one, other = value("fn () { let %r = ref(1); (%r, %r) }")
    assert one is other


def test_nested_functions_that_are_called_at_once() -> None:
    """They read variables of outer functions, through their arguments and directly."""
    add, outer = get_op("add"), var("x", shape=())
    params = [var("p", shape=()) for _ in range(4000)]
    body: Expr = add(params[-1], outer)
    for param, argument in zip(reversed(params), reversed([outer, *params[:-1]]), strict=True):
        body = Function([param], body)(add(argument, const(1.0)))
    assert create_executor().evaluate(Function([outer], body))(np.float32(1)).numpy() == 4002


def test_a_value_that_nested_functions_share_is_computed_once() -> None:
    calls: list[str] = []

    def operate(_: object, call: Call, values: object) -> None:
        assert isinstance(call.op, Op)
        calls.append(call.op.name)

    a, b = var("a", shape=()), var("b", shape=())
    exp, add = get_op("exp"), get_op("add")
    shared = exp(x)
    inner = Function([b], add(add(shared, b), add(shared, shared)))
    middle = Function([a], add(inner(a), add(inner(a), shared)))
    function = Function([x], add(add(shared, shared), middle(const(0.0))))
    made = interpreter.Interpreter(IRModule(), operate).call(interpreter.Closure(function, None), [Tensor.dense(ONES)])
    assert isinstance(made, Tensor)
    np.testing.assert_allclose(made.numpy(), np.exp(ONES) * 9)
    assert calls.count("exp") == 1
