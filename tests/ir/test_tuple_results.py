"""Calls with tuple results behave like tuples, as with Relay's TupleWrapper; expressions beside NumPy's arrays; texts."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from passat.ir.expr import Call, Expr, GlobalVar, TupleGetItem, var
from passat.ir.infer import infer_type
from passat.ir.op import get_op, list_ops
from passat.ir.types import FuncType, TensorType, TupleType

x = var("x", shape=(4, 6))
v = var("v", shape=(6,))


def batch_norm() -> Call:
    return get_op("nn.batch_norm")(x, v, v, v, v)


def test_a_split_is_decomposed() -> None:
    call = get_op("split")(x, indices_or_sections=2)
    first, second = call
    for i, part in enumerate((first, second)):
        assert isinstance(part, TupleGetItem)
        assert (part.tuple_value, part.index) == (call, i)
    assert call.astuple() is call


@pytest.mark.parametrize(("cut", "count"), [(3, 3), ((1, 2), 3), ((), 1)])
def test_the_length_of_a_split(cut: int | tuple[int, ...], count: int) -> None:
    assert len(get_op("split")(x, indices_or_sections=cut, axis=1)) == count


def test_lengths_are_known_without_types() -> None:
    unknown = var("u")
    assert len(get_op("nn.batch_norm")(unknown, v, v, v, v)) == 3
    assert len(get_op("nn.dropout")(unknown)) == 2
    assert len(get_op("topk")(unknown, k=1)) == 2


def test_lengths_by_type() -> None:
    pair = TupleType([TensorType((), "int8")] * 2)
    call = GlobalVar("f", FuncType([], pair))()
    with pytest.raises(TypeError, match="no known length"):
        len(call)
    infer_type(call)
    assert len(call) == len(list(call)) == 2


def test_an_index_that_is_out_of_range() -> None:
    with pytest.raises(IndexError, match="Tuple index out of range: field 3 of 3"):
        batch_norm()[3]


def test_a_call_is_true_for_any_length() -> None:
    assert x + x
    assert batch_norm()


@pytest.mark.parametrize("op", [op for op in list_ops() if op.results is not None], ids=str)
def test_the_declared_counts_are_those_of_the_types(op: Any) -> None:
    calls: dict[str, Callable[[], Call]] = {
        "split": lambda: op(x, indices_or_sections=2),
        "nn.batch_norm": batch_norm,
        "nn.dropout": lambda: op(x),
        "topk": lambda: op(x, k=2),
        "dyn.topk": lambda: op(x, var("k", "int64")),
    }
    call = calls[op.name]()
    count = len(call)
    type_ = infer_type(call).checked_type
    assert isinstance(type_, TupleType)
    assert len(type_.fields) == count


@pytest.mark.parametrize(
    ("function", "name"),
    [(operator.add, "add"), (operator.sub, "subtract"), (operator.mul, "multiply"), (operator.truediv, "divide"), (operator.lt, "greater")],
)
def test_arithmetic_of_an_array_with_an_expression_builds_a_call(function: Callable[[Any, Expr], Any], name: str) -> None:
    for number in (np.float32(2), np.ones(6, np.float32)):
        call = function(number, v)
        assert isinstance(call, Call)
        assert repr(call.op) == name


def test_an_expression_as_text() -> None:
    assert (x + x).astext().startswith('#[version = "0.0.5"]\nfree_var %x: Tensor[(4, 6), float32];\nadd(%x, %x)')
    assert (x + x).astext(annotate=lambda node: "// here" if isinstance(node, Call) else "").endswith("add(%x, %x) // here")
