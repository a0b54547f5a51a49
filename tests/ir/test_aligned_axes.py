"""Aligned axes: a call on some positions of its operands has those positions of the result."""

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from passat.ir.aligned_axes import Place, aligned_axes, aligned_places
from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, Tuple, Var
from passat.ir.infer import infer_type
from passat.ir.shape import evaluate_dim
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, tensor_type
from tests.rules.building import const, func, ops, tup, var
from tests.rules.running import assert_equal_in_value

x, y, row, scalar = var("x", (2, 3, 4)), var("y", (2, 3, 4)), var("row", (4,)), var("scalar", ())
one_row, other = var("one_row", (2, 1, 4)), var("other", (2, 4, 5))
matrix, weights, names = var("matrix", (4, 5)), var("weights", (5, 4)), var("names", ("b", "s", 4))


def attend(mask: Expr, **attrs: bool) -> Expr:
    """Three queries of two heads on five keys and values."""
    keys, values = var("k", (2, 5, 4)), var("v", (2, 5, 4))
    made: Expr = ops.nn.attention(x, keys, values, mask, q_num_heads=2, kv_num_heads=2, scale=0.5, **attrs)
    return made


CASES: Sequence[tuple[Expr, Sequence[tuple[int | None, ...] | None]]] = [
    (ops.tanh(x), [(0,), (1,), (2,)]),
    (x + row, [(0, None), (1, None), (2, 0)]),
    (ops.subtract(scalar, x), [(None, 0), (None, 1), (None, 2)]),
    (x * one_row, [(0, 0), (1, None), (2, 2)]),
    (x + var("table", (3, 4)), [(0, None), (1, 0), (2, 1)]),
    (x + var("plate", (1, 3, 4)), [(0, None), (1, 1), (2, 2)]),
    (ops.where(ops.greater(x, y), x, row), [(0, 0, None), (1, 1, None), (2, 2, 0)]),
    (ops.nn.matmul(x, matrix), [(0, None), (1, None), None]),
    (ops.nn.matmul(x, other), [(0, 0), (1, None), None]),
    (ops.nn.matmul(matrix, weights, transpose_a=True, transpose_b=True), [(1, None), None]),
    (ops.nn.matmul(row, matrix), [None]),
    (ops.nn.matmul(matrix, var("batch", (2, 5, 3))), [(None, 0), (0, None), None]),
    (ops.nn.matmul(var("scores", (1, 3, 4)), other), [(None, 0), (1, None), None]),
    (ops.nn.dense(x, weights), [(0, None), (1, None), None]),
    (ops.nn.bias_add(x, row, axis=-1), [(0, None), (1, None), None]),
    (ops.nn.softmax(x, axis=1), [(0,), None, (2,)]),
    (ops.nn.log_softmax(x), [(0,), (1,), None]),
    (ops.nn.layer_norm(x, row, row), [(0, None, None), (1, None, None), None]),
    (ops.nn.rms_norm(x, var("plane", (3, 4)), axis=1), [(0, None), None, None]),
    (attend(tup()), [(0, 0, 0, None), (1, None, None, None), None]),
    (attend(tup(), is_causal=True), [(0, 0, 0, None), None, None]),
    (attend(var("pairs", (2, 1, 3, 5))), [(0, 0, 0, 0), (1, None, None, 2), None]),
    (attend(var("shared", (3, 5))), [(0, 0, 0, None), (1, None, None, 0), None]),
    (attend(var("heads", (1, 2, 3, 5))), [(0, 0, 0, None), (1, None, None, 2), None]),
    (attend(var("keys", (2, 1, 1, 5))), [(0, 0, 0, 0), (1, None, None, None), None]),
    (attend(var("per_key", (5,))), [(0, 0, 0, None), (1, None, None, None), None]),
    (ops.sum(x, axis=(1,)), [(0,), (2,)]),
    (ops.mean(x, axis=(2,), keepdims=True), [(0,), (1,), None]),
    (ops.max(x, axis=(2,), exclude=True), [(2,)]),
    (ops.transpose(x, axes=(2, 0, 1)), [(2,), (0,), (1,)]),
    (ops.transpose(x), [(2,), (1,), (0,)]),
    (ops.reshape(x, newshape=(2, 3, 2, 2)), [(0,), (1,), None, None]),
    (ops.reshape(x, newshape=(6, 4)), [None, (2,)]),
    (ops.reshape(names, newshape=(0, 0, 2, 2)), [(0,), (1,), None, None]),
    (ops.broadcast_to(one_row, shape=(1, 3, 1)), [(0,), (None,), (2,)]),
    (ops.broadcast_to(row, shape=(2, 3, 4)), [(None,), (None,), (0,)]),
    (ops.broadcast_to(var("column", (2, 3, 1)), shape=(5,)), [(0,), (1,), (None,)]),
    (ops.expand_dims(x, axis=1), [(0,), None, (1,), (2,)]),
    (ops.squeeze(one_row), [(0,), (2,)]),
    (ops.strided_slice(x, begin=(1,), end=(3,), axes=(1,)), [(0,), None, (2,)]),
    (ops.take(x, const(1, "int64"), axis=1), [(0, None), (2, None)]),
    (ops.take(x, const([[1, 0]], "int64"), axis=1), [(0, None), None, None, (2, None)]),
    (ops.take(x, const(3, "int64")), []),
    (ops.concatenate(tup(x, one_row), axis=1), [(0,), None, (2,)]),
    (tup(x, y), [(0, 0), (1, 1)]),
    (tup(x, one_row), [(0, 0), None, (2, 2)]),
    (tup(x, row), [None, None, None]),
    (tup(tup(x, y), x), [None]),
    (ops.split(x, indices_or_sections=2, axis=2), [(0,), (1,), None]),
    (ops.split(x, indices_or_sections=2, axis=2)[0], [(0,), (1,), (2,)]),
    (ops.cumsum(x, axis=1), [None, None, None]),
    (ops.nn.batch_matmul(x, var("right", (2, 5, 4))), [None, None, None]),
    (ops.nn.dropout(x)[0], [(0,), (1,), (2,)]),
    (ops.nn.dropout(x), [None, None]),
]


@pytest.mark.parametrize(("call", "expected"), CASES)
def test_the_axes_of_a_call(call: Expr, expected: Sequence[tuple[int | None, ...] | None]) -> None:
    infer_type(call)
    assert [aligned_axes(call, axis) for axis in range(len(expected))] == list(expected)


LAWS = [
    (call, axis)
    for call, expected in CASES
    if isinstance(call, Call)
    for axis, aligned in enumerate(expected)
    if aligned is not None and isinstance(infer_type(call).checked_type, TensorType)
]


def resized(call: Call, axis: int, size: int) -> tuple[int, ...]:
    """The shape of a broadcast whose result has another size along an axis."""
    rank = tensor_type(call.checked_type).ndim
    return tuple(size if place == axis - rank + len(call.attrs.shape) else entry for place, entry in enumerate(call.attrs.shape))


@pytest.mark.parametrize(("call", "axis"), LAWS)
def test_positions_of_operands_give_those_of_the_result(call: Call, axis: int) -> None:
    """The law: a call on the last and first positions of its operands is the last and first position of its result."""
    aligned = aligned_axes(call, axis)
    assert aligned is not None
    places = const([-1, 0], "int64")

    def chosen(part: Expr, at: int | None) -> Expr:
        if isinstance(part, Tuple):
            return tup(*[chosen(field, at) for field in part.fields])
        return part if at is None else ops.take(part, places, axis=at)

    parts = [chosen(part, at) for part, at in zip(call.args, aligned, strict=True)]
    attrs = call.attrs
    if "newshape" in attrs:
        attrs = Attrs(attrs, newshape=tuple(2 if place == axis else size for place, size in enumerate(attrs.newshape)))
    if call.op is ops.broadcast_to(x, shape=()).op:
        attrs = Attrs(attrs, shape=resized(call, axis, 2))
    params = [node for node in post_order(call) if isinstance(node, Var)]
    before, after = func(ops.take(call, places, axis=axis), *params), func(Call(call.op, parts, attrs), *params)
    assert_equal_in_value(before, after, exact=False, special=False, sizes={"b": 2, "s": 3})


EACH = [
    (call, axis, batch)
    for call, expected in CASES
    if isinstance(call, Call) and isinstance(infer_type(call).checked_type, TensorType)
    for axis, batch in permutations(range(len(expected)), 2)
    if aligned_places(call, Place(axis, batch)) is not None
]


@pytest.mark.parametrize(("call", "axis", "batch"), EACH)
def test_positions_of_each_entry_of_a_batch(call: Call, axis: int, batch: int) -> None:
    """The law: a call on one position of its operands for each entry of a batch is that position of its result, in each entry."""
    sizes = {"b": 2, "s": 3}
    length, count = (evaluate_dim(tensor_type(call.checked_type).shape[at], sizes) for at in (batch, axis))
    places = [-1 if entry == 1 else entry % count for entry in range(length)]

    def chosen(part: Expr, place: Place | None) -> Expr:
        if place is None:
            return part
        assert place.batch is not None
        if isinstance(part, Tuple):
            return tup(*[chosen(field, place) for field in part.fields])
        missing = max(-place.batch, 0)
        whole = ops.expand_dims(part, axis=0, num_newaxis=missing) if missing else part
        shape = [1] * missing + [evaluate_dim(dim, sizes) for dim in tensor_type(part.checked_type).shape]
        at, along = place.axis + missing, place.batch + missing
        if place.shared:
            assert shape[along] == 1
            whole = ops.broadcast_to(whole, shape=tuple(length if i == along else size for i, size in enumerate(shape)))
        index = np.reshape(places, [length if i == along else 1 for i in range(len(shape))])
        shape[along], shape[at] = length, 1
        made: Expr = ops.gather(whole, const(np.broadcast_to(index, shape), "int64"), axis=at)
        return made

    aligned = aligned_places(call, Place(axis, batch))
    assert aligned is not None
    parts = [chosen(part, place) for part, place in zip(call.args, aligned, strict=True)]
    attrs = call.attrs
    if "newshape" in attrs:
        attrs = Attrs(attrs, newshape=tuple(1 if place == axis else size for place, size in enumerate(attrs.newshape)))
    if call.op is ops.broadcast_to(x, shape=()).op:
        attrs = Attrs(attrs, shape=resized(call, axis, 1))
    if call.op is ops.squeeze(x).op:
        attrs = Attrs(attrs, axis=(1,))
    params = [node for node in post_order(call) if isinstance(node, Var)]
    before, after = func(chosen(call, Place(axis, batch)), *params), func(Call(call.op, parts, attrs), *params)
    assert_equal_in_value(before, after, exact=False, special=False, sizes=sizes)


def test_positions_of_each_entry_align_in_most_calls() -> None:
    assert len(EACH) > 40


def test_a_tensor_without_the_batch_is_shared() -> None:
    mask = infer_type(attend(var("shared", (3, 5))))
    assert aligned_places(mask, Place(1, batch=0)) == (Place(1, batch=0), None, None, Place(0, batch=-2, shared=True))
    table = infer_type(x + var("plate", (1, 3, 4)))
    assert aligned_places(table, Place(1, batch=0)) == (Place(1, batch=0), Place(1, batch=0, shared=True))


def test_batches_that_do_not_align() -> None:
    flat = infer_type(ops.reshape(x, newshape=(6, 4)))
    assert aligned_places(flat, Place(1, batch=0)) is None
    assert aligned_places(infer_type(ops.nn.softmax(x, axis=0)), Place(1, batch=0)) is None
