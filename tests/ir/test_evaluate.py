"""Evaluation of calls on constants by the operators' kernels; splats stay splats."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.evaluate import EvaluateError, Value, evaluate_call
from passat.ir.op import Kernel, Op, get_op
from passat.ir.shape import ANY
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from tests.share import share

add, concatenate = get_op("add"), get_op("concatenate")


def value_type(value: Value) -> Type:
    return TupleType(map(value_type, value)) if isinstance(value, tuple) else TensorType(value.shape, value.dtype)


def evaluate(op: Op, *args: Value, **attrs: object) -> Value:
    bound = op.bind_attrs(attrs)
    return evaluate_call(op, args, bound, op.infer([value_type(arg) for arg in args], bound))


def tensor(value: Value) -> Tensor:
    assert isinstance(value, Tensor)
    return value


@st.composite
def operands(draw: st.DrawFn) -> Tensor:
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 1), (2, 3), (0, 3)]))
    if draw(st.booleans()):
        return Tensor.splat(draw(st.integers(-3, 3)), shape, "float32")
    return Tensor.dense(np.asarray(np.arange(int(np.prod(shape, dtype=int))).reshape(shape), np.float32))


@settings(max_examples=share(60, 150))
@given(operands(), operands(), st.sampled_from(["add", "multiply", "maximum", "less"]))
def test_splats_and_dense_operands_give_the_same(a: Tensor, b: Tensor, name: str) -> None:
    op = get_op(name)
    try:
        expected = evaluate(op, Tensor.dense(a.numpy().copy()), Tensor.dense(b.numpy().copy()))
    except TypeError:
        return  # shapes that do not broadcast
    found = tensor(evaluate(op, a, b))
    assert found == expected
    if a.is_splat and b.is_splat and found.size:
        assert found.is_splat


def test_huge_splats_are_computed_on_as_one_element() -> None:
    huge = (1 << 20, 1 << 20)
    found = tensor(evaluate(add, Tensor.splat(1.0, huge, "float32"), Tensor.splat(2.0, (1,), "float32")))
    assert (found.is_splat, found.shape, found.uniform()) == (True, huge, 3.0)
    moved = tensor(evaluate(get_op("transpose"), Tensor.splat(1.0, (1 << 20, 5), "float32"), axes=(1, 0)))
    assert (moved.is_splat, moved.shape) == (True, (5, 1 << 20))
    joined = tensor(evaluate(concatenate, (Tensor.splat(1.0, huge, "float32"), Tensor.splat(1.0, huge, "float32")), axis=0))
    assert (joined.is_splat, joined.shape) == (True, (1 << 21, 1 << 20))


def test_splats_of_different_values_become_dense_together() -> None:
    found = tensor(evaluate(concatenate, (Tensor.splat(1.0, (2,), "float32"), Tensor.splat(2.0, (1,), "float32")), axis=0))
    assert found == Tensor.dense(np.array([1, 1, 2], np.float32))
    zeros = tensor(evaluate(concatenate, (Tensor.splat(0.0, (1,), "float32"), Tensor.splat(-0.0, (1,), "float32")), axis=0))
    assert np.signbit(zeros.numpy()).tolist() == [False, True]


def test_results_that_repeat_one_element_become_splats() -> None:
    found = tensor(evaluate(get_op("broadcast_to"), Tensor.dense(np.float32(2)), shape=(3, 4)))
    assert (found.is_splat, found.uniform()) == (True, 2.0)


def test_several_results() -> None:
    parts = evaluate(get_op("split"), Tensor.dense(np.arange(6.0)), indices_or_sections=2, axis=0)
    assert isinstance(parts, tuple)
    assert [tensor(part).numpy().tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]


def test_results_of_unknown_sizes_have_the_size_of_the_kernels_result() -> None:
    one = Tensor.dense(np.ones((2, 3), np.float32))
    assert tensor(evaluate_call(add, [one, one], EMPTY_ATTRS, TensorType((ANY, 3)))).shape == (2, 3)


def strange(kernel: Kernel | None) -> Op:
    op = Op("test.strange", lambda x: x)
    op.kernel = kernel
    return op


def reject(x: object) -> object:
    raise ValueError("no such thing")


@pytest.mark.parametrize(
    ("op", "result", "message"),
    [
        (strange(None), TensorType((2,)), "test.strange has no kernel"),
        (strange(reject), TensorType((2,)), "the kernel of test.strange rejected its operands: no such thing"),
        (
            strange(lambda x: x.astype(np.int8)),
            TensorType((2,)),
            "the kernel of test.strange returned int8, but the type relation expects float32",
        ),
        (
            strange(lambda x: x[:1]),
            TensorType((2,)),
            r"the kernel of test.strange returned shape \(1,\), but the type relation expects Tensor\[\(2,\), float32\]",
        ),
        (strange(lambda x: x), TensorType((2, 1)), r"returned shape \(2,\)"),
        (strange(lambda x: (x,)), TupleType([TensorType((2,))] * 2), "returned 1 result, but 2 are declared"),
    ],
)
def test_expressions_that_cannot_be_evaluated(op: Op, result: Type, message: str) -> None:
    with pytest.raises(EvaluateError, match=message):
        evaluate_call(op, [Tensor.dense(np.ones(2, np.float32))], EMPTY_ATTRS, result)


def test_overflow_and_division_by_zero_are_values() -> None:
    big = Tensor.dense(np.array([3e38, 0.0], np.float32))
    assert tensor(evaluate(add, big, big)).numpy().tolist() == [np.inf, 0.0]
    assert np.isnan(tensor(evaluate(get_op("divide"), big, big)).numpy()[1])


def test_attributes_reach_the_kernel() -> None:
    data = Tensor.dense(np.array([-2.0, 2.0], np.float32))
    relu = get_op("nn.leaky_relu")
    found = evaluate_call(relu, [data], Attrs(alpha=0.5), TensorType((2,)))
    assert tensor(found).numpy().tolist() == [-1.0, 2.0]


def test_strings() -> None:
    names = Tensor.dense(np.array(["a", "b"]))
    found = evaluate(get_op("equal"), names, Tensor.splat("a", (1,), "string"))
    assert tensor(found).numpy().tolist() == [True, False]
