"""Constant folding: what is folded, the maximum cost, splats, shapes, tuples, and failing kernels."""

import numpy as np
import pytest

from passat.ir.expr import Call, Constant, Expr, Let, TupleGetItem, Var
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.library.folding import ConstantFolding, TupleProjection
from passat.rules.passes.simplify import fold_constant
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.running import Outcome, apply, assert_equal_in_value, operators

x = var("x")


def _same(value: TensorType) -> TensorType:
    return value


no_kernel = Op("test.no_kernel", _same)
rejects = Op("test.rejects", _same)
rejects.kernel = lambda value: int("no number")


def folded(body: Expr, **config: object) -> Outcome:
    function = func(body)
    outcome = apply(fold_constant(), function, **config)
    assert_equal_in_value(function, outcome.function, exact=True)
    return outcome


def only_constant(outcome: Outcome) -> Tensor:
    body = outcome.function.body
    assert isinstance(body, Constant)
    return body.data


def test_calls_on_constants_are_computed() -> None:
    outcome = folded(x + (splat(2.0) * const([1.0, 2.0, 3.0]) - splat(1.0)))
    assert operators(outcome.function) == ["add"]
    assert outcome.applied(ConstantFolding) == 2
    body = outcome.function.body
    assert isinstance(body, Call)
    constant = body.args[1]
    assert isinstance(constant, Constant)
    assert constant.data.numpy().tolist() == [1.0, 3.0, 5.0]


def test_a_whole_program_of_constants() -> None:
    assert only_constant(folded(ops.exp(splat(0.0)) + splat(1.0))).numpy() == 2.0


def test_without_folding_the_function_is_unchanged() -> None:
    for body in (x, ops.exp(x) + splat(1.0), tup(x, splat(2.0)), const([1.0]), ops.split(x, indices_or_sections=2)[1]):
        function = func(body)
        outcome = apply(fold_constant(), function)
        assert outcome.function is function
        assert outcome.applied(ConstantFolding) == 0


def test_stateful_calls_stay() -> None:
    assert operators(folded(ops.nn.dropout(const([1.0, 2.0]))[0]).function) == ["nn.dropout"]


def test_calls_without_operands_stay() -> None:
    assert operators(folded(ops.zeros(shape=(2, 3), dtype="float32") + x).function) == ["zeros", "add"]


def test_calls_without_kernel_or_known_size_stay() -> None:
    assert operators(apply(fold_constant(), func(no_kernel(splat(1.0)))).function) == ["test.no_kernel"]
    nowhere = ops.onnx.ai.mine.Thing(splat(1.0))
    assert operators(apply(fold_constant(), func(nowhere)).function) == ["onnx.ai.mine.Thing"]


def test_a_kernel_that_fails_leaves_the_call() -> None:
    outcome = apply(fold_constant(), func(x + rejects(splat(1.0) + splat(2.0))))
    assert operators(outcome.function) == ["test.rejects", "add"]
    assert outcome.applied(ConstantFolding) == 1
    division = func(var("i", (), "int32") + const(1, "int32") / const(0, "int32"))
    assert apply(fold_constant(), division).function is division


def test_tuples_and_their_fields() -> None:
    pieces = ops.split(const([1.0, 2.0, 3.0, 4.0]), indices_or_sections=2)
    assert only_constant(folded(pieces[1])).numpy().tolist() == [3.0, 4.0]
    assert only_constant(folded(ops.concatenate(tup(const([1.0]), const([2.0]))))).numpy().tolist() == [1.0, 2.0]
    outcome = folded(TupleGetItem(tup(x, ops.exp(x)), 0))
    assert outcome.function.body is x
    assert outcome.applied(TupleProjection) == 1


def test_static_shapes_are_constants() -> None:
    assert only_constant(folded(ops.shape_of(var("v", (4, 5)), dtype="int64"))).numpy().tolist() == [4, 5]
    assert only_constant(folded(ops.shape_of(var("v", (4, 5)), dtype="int32"))).dtype == "int32"
    assert only_constant(folded(ops.ndarray_size(var("v", (4, 5)), dtype="int64"))).numpy() == 20
    partly = func(ops.shape_of(var("v", ("n", 5)), dtype="int64"))
    assert apply(fold_constant(), partly).function is partly


def test_the_known_part_of_a_shape_folds() -> None:
    shape = ops.shape_of(var("v", ("n", 5, 6)), dtype="int64")
    last = ops.take(shape, const(2, "int64"), axis=0)
    assert only_constant(folded(last)).numpy() == 6
    product = ops.prod(ops.strided_slice(shape, begin=(1,), end=(3,)))
    assert only_constant(folded(product)).numpy() == 30


def test_lets_of_constants() -> None:
    v = Var("v")
    outcome = folded(Let(v, splat(2.0) * splat(3.0), x + v))
    assert operators(outcome.function) == ["add"]


@pytest.mark.parametrize(
    "body",
    [
        splat(2.0, (1000, 1000)) * splat(3.0, (1000, 1000)),
        ops.exp(splat(1.0, (1000, 1000))),
        splat(2.0, (1000, 1000)) + const(1.0),
        ops.transpose(splat(2.0, (1000, 500))),
        ops.reshape(splat(2.0, (1000, 500)), newshape=(-1,)),
        ops.concatenate(tup(splat(2.0, (1000, 500)), splat(2.0, (1000, 500)))),
        ops.broadcast_to(splat(2.0), shape=(1000, 1000)),
        ops.cast(splat(2.0, (1000, 1000)), dtype="int64"),
        ops.where(splat(1, (1000, 1000), "bool"), splat(2.0), splat(3.0)),
        ops.sqrt(splat(2.0, (64,)) + splat(1e-5)),
    ],
    ids=lambda body: body.op.name,
)
def test_splats_stay_splats(body: Call) -> None:
    tensor = only_constant(apply(fold_constant(), func(body)))
    assert tensor.is_splat
    small = func(body)
    assert_equal_in_value(small, apply(fold_constant(), small).function, exact=False, rounds=1)


def test_values_that_are_no_longer_splats_are_dense() -> None:
    mixed = ops.concatenate(tup(splat(2.0, (10,)), splat(3.0, (10,))))
    assert not only_constant(folded(mixed)).is_splat


def test_results_that_would_enlarge_the_file_stay() -> None:
    grown = ops.tile(numbers((100,)), reps=(4000,))
    outcome = apply(fold_constant(), func(grown))
    assert operators(outcome.function) == ["tile"]
    reason = "is_small(tile(cs1, attrs=a)): adds 1,599,600 bytes, limit 1,048,576 (rules.max_growth)"
    assert outcome.remarks == [f"ConstantFolding.{name} rejected 1 time: {reason}" for name in ("call", "exact")]
    assert operators(apply(fold_constant(), func(grown), rules__max_growth=1 << 22).function) == []


def test_growth_is_relative_to_the_replaced_constants() -> None:
    grown = func(ops.tile(numbers((100,)), reps=(2,)))
    assert operators(apply(fold_constant(), grown, rules__max_growth=399).function) == ["tile"]
    assert operators(apply(fold_constant(), grown, rules__max_growth=400).function) == []
    same = func(ops.exp(numbers((1000,))))
    assert operators(apply(fold_constant(), same, rules__max_growth=0).function) == []


def test_a_constant_of_more_than_a_gigabyte_is_not_made() -> None:
    grown = func(ops.tile(numbers((1 << 20,)), reps=(1 << 9,)))
    outcome = apply(fold_constant(), grown, rules__max_growth=1 << 40)
    assert operators(outcome.function) == ["tile"]


def test_special_values_fold_to_themselves() -> None:
    for value in (float("nan"), float("inf"), -0.0):
        tensor = only_constant(apply(fold_constant(), func(ops.negative(ops.negative(const([value, 1.0]))))))
        assert tensor.numpy()[:1].tobytes() == np.float32(value).tobytes()


def test_zero_sizes_fold() -> None:
    empty = ops.concatenate(tup(const(np.zeros((0, 3))), const(np.zeros((0, 3)))))
    assert only_constant(folded(empty)).shape == (0, 3)


_HUGE = (1 << 30, 1 << 20)


@pytest.mark.parametrize(
    "body",
    [
        ops.sum(splat(3, _HUGE, "int64")),
        ops.max(splat(3, _HUGE, "int64"), axis=0),
        ops.argmax(splat(3.0, _HUGE), axis=1),
        ops.cumsum(splat(3, _HUGE, "int64"), axis=0),
        ops.take(splat(3, _HUGE, "int64"), const([1, 5], "int64"), axis=0),
        ops.concatenate(tup(splat(3.0, _HUGE), splat(4.0, _HUGE)), axis=0),
        ops.nn.matmul(splat(3.0, _HUGE), splat(4.0, _HUGE[::-1])),
    ],
)
def test_kernels_on_huge_splats_do_not_run(body: Expr) -> None:
    outcome = apply(fold_constant(), func(body))
    assert not isinstance(outcome.function.body, Constant)
    assert outcome.applied(ConstantFolding) == 0


def test_a_splat_of_exabytes_is_moved_and_computed() -> None:
    value = ops.concatenate(tup(splat(3.0, _HUGE), splat(1.0, _HUGE) + splat(2.0, _HUGE)), axis=0)
    assert only_constant(apply(fold_constant(), func(value))).uniform() == 3.0
