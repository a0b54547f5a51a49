"""Expressions and modules as flat data: round trips, depth, sharing, tensors, copies."""

import copy
import functools
import pickle
from typing import Any

import numpy as np
from hypothesis import given, settings

from passat.ir.equality import assert_structural_equal
from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    Tuple,
    TupleGetItem,
    Var,
    var,
)
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.serialize import numbering
from passat.ir.source import SourceName
from passat.ir.tensor import Array, Tensor
from passat.ir.text import astext, parse_expr
from passat.ir.types import GlobalTypeVar, TensorType, TypeCall
from tests.share import share
from tests.strategies import modules, programs, tensors


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def assert_same_nodes(a: list[Expr], b: list[Expr]) -> None:
    """Asserts that two numberings describe the same program, with equal types and spans."""
    assert [type(node) for node in a] == [type(node) for node in b]
    for left, right in zip(a, b, strict=True):
        assert left._checked_type == right._checked_type
        assert left.span == right.span


@settings(max_examples=share(10, 60))
@given(modules())
def test_modules_come_back(module: IRModule) -> None:
    module.attrs["fact"] = (1, "two")
    back = again(module)
    assert_structural_equal(module, back, sharing=True)
    assert astext(back) == astext(module)
    assert back.attrs == module.attrs
    roots = [*module.functions, *module.functions.values()]
    assert_same_nodes(numbering(*roots), numbering(*back.functions, *back.functions.values()))
    assert {gv.name_hint for gv in back} == {gv.name_hint for gv in module}


@settings(max_examples=share(10, 60))
@given(programs(effects=True))
def test_programs_come_back_with_their_types(program: Function) -> None:
    infer_type(program)
    back = again(program)
    assert_structural_equal(program, back, sharing=True)
    assert_same_nodes(numbering(program), numbering(back))
    assert_structural_equal(copy.deepcopy(program), program, sharing=True)


@settings(max_examples=share(10, 60))
@given(tensors(["float32", "int64", "bool", "string", "bfloat16", "int4"]))
def test_tensors_come_back_as_they_are_stored(tensor: Tensor) -> None:
    back = again(Constant(tensor)).data
    assert back == tensor
    assert back.is_splat == tensor.is_splat


def test_depth_is_data() -> None:
    length = share(4_000, 20_000)
    x = var("x", shape=(2,))
    calls: Expr = x
    lets: list[tuple[Var, Expr]] = []
    tuples: Expr = x
    for _ in range(length):
        calls = get_op("negative")(calls)
    for i in range(length):
        lets.append((Var(f"v{i}"), get_op("abs")(lets[-1][0] if lets else x)))
        tuples = TupleGetItem(Tuple([tuples]), 0)
    body: Expr = lets[-1][0]
    for bound, value in reversed(lets):
        body = Let(bound, value, body)
    assert_structural_equal(again(calls), calls, map_free_vars=True)
    for root in (body, tuples):
        assert [type(node) for node in numbering(again(root))] == [type(node) for node in numbering(root)]
    assert len(numbering(copy.deepcopy(calls))) == length + 2


def test_a_node_that_is_shared_is_written_once() -> None:
    expr: Expr = var("x", shape=(2,))
    for _ in range(100):
        expr = expr + expr
    back = again(expr)
    assert len(numbering(back)) == len(numbering(expr)) == 102
    assert back.args[0] is back.args[1]


def test_variables_are_one_in_all_that_is_pickled_together() -> None:
    x, f = var("x", shape=(2,)), GlobalVar("f")
    first, second, variable, name = again((x + x, Call(f, [x]), x, f))
    assert first.args[0] is first.args[1] is second.args[0] is variable
    assert second.op is name
    assert first.op is get_op("add")


def test_nested_patterns() -> None:
    header = GlobalTypeVar("List")
    cons = Constructor("Cons", [TensorType(), TypeCall(header, [])], TypeCall(header, []), 1)
    a, b, c, x = Var("a"), Var("b"), Var("c"), Var("x")
    pattern = PatternTuple(
        [
            PatternConstructor(cons, [PatternVar(a), PatternConstructor(cons, [PatternWildcard(), PatternVar(b)])]),
            PatternTuple(),
            PatternConstructor(cons),
            PatternVar(c),
        ]
    )
    match = Match(x, [Clause(pattern, Tuple([c, a, b])), Clause(PatternWildcard(), x), Clause(PatternVar(c), c)], complete=False)
    back = again(match)
    left: Any = back.clauses[0].lhs
    assert [type(part) for part in left.patterns] == [PatternConstructor, PatternTuple, PatternConstructor, PatternVar]
    assert left.patterns[0].patterns[1].patterns[1].var is back.clauses[0].rhs.fields[2]
    assert left.patterns[0].constructor is left.patterns[2].constructor
    assert left.patterns[0].patterns[0].var is back.clauses[0].rhs.fields[1]
    assert back.clauses[2].lhs.var is back.clauses[2].rhs
    assert not back.complete
    assert_structural_equal(Function([x], match), Function([back.data], back))


def ones(size: int) -> Array:
    return np.ones(size, np.float32)


def test_lazy_tensors_with_picklable_loaders_stay_lazy() -> None:
    lazy = Tensor.lazy("float32", (3,), functools.partial(ones, 3), source="there", key=("file", "x"))
    back = again(lazy)
    assert repr(back) == "Tensor(float32[3], lazy)"
    assert (back.source, back.key()) == ("there", ("file", "x"))
    assert back.numpy().tolist() == [1, 1, 1]
    local = Tensor.lazy("float32", (3,), lambda: np.zeros(3, np.float32))
    assert again(local).numpy().tolist() == [0, 0, 0]


def test_elements_travel_out_of_band() -> None:
    array = np.arange(1000, dtype=np.float32)
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(Function([], Constant(Tensor.dense(array))), 5, buffer_callback=buffers.append)
    assert len(data) < 1000
    back = pickle.loads(data, buffers=buffers)
    assert np.shares_memory(back.body.data.numpy(), array)


def test_equal_spans_of_two_texts_keep_their_texts() -> None:
    texts = "fn (%x: int8) { negative(%x) }", "fn (%x: int8) { abs(%x) }"
    module = IRModule({f"f{i}": parse_expr(text, "one name") for i, text in enumerate(texts)})  # type: ignore[misc]  # they are functions
    for i, text in enumerate(texts):
        span = again(module)[f"f{i}"].span
        assert isinstance(span.source_name, SourceName)
        assert span.source_name.text == text


def test_copies() -> None:
    x = var("x", shape=(2,))
    call = x + x
    shallow: Any = copy.copy(call)
    assert shallow is not call
    assert shallow.args[0] is x
    deep: Any = copy.deepcopy(Tuple([call, call, x]))
    assert deep.fields[0] is deep.fields[1]
    assert deep.fields[0].args[0] is deep.fields[2] is not x
