"""Shape arithmetic through the operators' kernels: known values equal those of a run, for all sizes."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.evaluate import EvaluateError, evaluate_call
from passat.ir.expr import Constant, Expr, const, var
from passat.ir.infer import infer_type, known_value
from passat.ir.op import Op, get_op, list_ops
from passat.ir.shape import ANY, Any, Dim, SymDim
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType
from tests.share import share

MODULES = ("arithmetic", "cast", "comparison", "reduction", "unary")
OPS = [op for op in list_ops() if op.shape_arith and op.relation.__module__ in [f"passat.ir.ops.{name}" for name in MODULES]]
ATTRS: dict[str, list[dict[str, AnyValue]]] = {
    "cast": [{"dtype": "int32"}, {"dtype": "int64"}, {"dtype": "bool"}],
    "sum": [{}, {"axis": 0}, {"axis": (0,), "keepdims": True}],
    "prod": [{}, {"axis": 0}, {"axis": (0,), "keepdims": True}],
}
N, M = SymDim.named("n"), SymDim.named("m")
integers = st.integers(-6, 6)
dims = st.one_of(
    integers,
    st.just(ANY),
    st.builds(lambda a, b, c: a * N + b * M + c, integers, integers, integers),
    st.builds(lambda a, b: (N + a) // b, st.integers(0, 6), st.integers(1, 4)),
)
truths = st.sampled_from([True, False, ANY])
sizes = st.fixed_dictionaries({"n": st.integers(0, 9), "m": st.integers(0, 9)})


def run_dim(dim: object, named: Mapping[str, int]) -> int:
    """The value of a dimension for given sizes; names of quotients and maxima are computed."""
    if isinstance(dim, SymDim):
        environment = {"max": max, "min": min, "__builtins__": {}}
        return sum(c * int(np.prod([eval(name, environment, dict(named)) for name in names])) for names, c in dim.terms)
    assert isinstance(dim, (int, bool))
    return dim


def dtypes_of(op: Op) -> Sequence[str]:
    if op.name in ("logical_not", "logical_and", "logical_or"):
        return ["bool"] * op.arity
    return ["bool", "int64", "int64"] if op.name == "where" else ["int64"] * op.arity


def object_array(elements: Sequence[object]) -> Array:
    array = np.empty(len(elements), np.object_)
    array[:] = elements
    return array


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@settings(max_examples=share(10, 60))
@given(data=st.data())
def test_inferred_values_equal_computed_ones(op: Op, data: st.DataObject) -> None:
    named = data.draw(sizes)
    attrs = op.bind_attrs(data.draw(st.sampled_from(ATTRS.get(op.name, [{}]))))
    dtypes = dtypes_of(op)
    values = [object_array([data.draw(truths if dtype == "bool" else dims) for _ in range(2)]) for dtype in dtypes]
    types = [TensorType((2,), dtype) for dtype in dtypes]
    result = op.infer(types, attrs)
    assert isinstance(result, TensorType)
    known = op.known_value(types, values, attrs, result)
    assert isinstance(known, np.ndarray)
    unknown = data.draw(integers)  # an unknown element may be anything
    concrete = [
        np.array([unknown if isinstance(dim, Any) else run_dim(dim, named) for dim in value], dtype)
        for value, dtype in zip(values, dtypes, strict=True)
    ]
    try:
        expected = evaluate_call(op, [Tensor.dense(array) for array in concrete], attrs, result)
    except EvaluateError:
        assert op.name in ("divide", "floor_mod")  # by zero
        return
    assert isinstance(expected, Tensor)
    assert known.shape == expected.shape
    for found, computed in zip(known.reshape(-1), expected.numpy().reshape(-1), strict=True):
        assert isinstance(found, Any) or run_dim(found, named) == computed


def known(expr: Expr) -> list[object]:
    value = known_value(infer_type(expr))
    assert isinstance(value, np.ndarray)
    return list(value.reshape(-1).tolist())


def vector(*elements: int, dtype: str = "int64") -> Constant:
    return Constant(np.array(elements, dtype))


def test_chains_that_exporters_write() -> None:
    shape = get_op("shape_of")(var("x", shape=("n", 6, 4)), dtype="int64")
    assert known(shape * vector(2, 1, 1)) == [2 * N, 6, 4]
    assert known(shape / vector(1, 4, 3)) == [N, 1, 1]
    assert known((shape + vector(1, 1, 1)) / vector(2, 2, 2)) == [(N + 1) // 2, 3, 2]
    assert known(get_op("floor_mod")(shape, vector(4, 4, 4))) == [N - (N // 4) * 4, 2, 0]
    assert repr(N - (N // 4) * 4) == "n - 4*(n//4)"
    assert known(get_op("maximum")(shape, vector(0, 8, 1))) == [N, 8, 4]
    assert known(get_op("prod")(shape, keepdims=True)) == [24 * N]
    assert known(get_op("sum")(shape, axis=0)) == [N + 10]
    assert known(get_op("copy")(-shape).astype("int32")) == [-N, -6, -4]


def test_the_shape_of_an_expand_may_contain_minus_one() -> None:
    shape = get_op("shape_of")(var("x", shape=("n", 6)), dtype="int64")
    given_shape = vector(-1, 3)
    assert known(get_op("where")(get_op("equal")(given_shape, vector(-1)), shape, given_shape)) == [N, 3]
    assert known(get_op("where")(get_op("equal")(shape, vector(-1)), vector(1), shape)) == [N, 6]
    assert known(get_op("where")(get_op("equal")(shape, vector(1)), vector(9), shape)) == [ANY, 6]


def test_values_beyond_the_element_type_are_unknown() -> None:
    shape = get_op("shape_of")(var("x", shape=(1 << 20, "n")), dtype="int32")
    assert known(shape * const(np.int32(1 << 12))) == [ANY, N * (1 << 12)]
    assert known(const(np.array([2**40 + 3], np.int64), "int64").astype("int32")) == [3]


@pytest.mark.parametrize("op", [op for op in OPS if op.arity == 2], ids=lambda op: op.name)
def test_scalars_and_empty_vectors(op: Op) -> None:
    for shape in ((), (0,)):
        types = [TensorType(shape, dtype) for dtype in dtypes_of(op)]
        elements: Sequence[Dim] = [1, N] if "bool" not in dtypes_of(op) else [True, True]
        values = [np.full(shape, element, np.object_) for element in elements]
        result = op.infer(types, op.bind_attrs({}))
        found = op.known_value(types, values, op.bind_attrs({}), result)
        assert isinstance(found, np.ndarray)
        assert found.shape == shape
        assert found.dtype == np.object_


def test_an_unknown_operand_gives_an_unknown_result() -> None:
    unknown = var("y", shape=(3,), dtype="int64")
    for op, other in itertools.product(("add", "maximum", "equal"), (unknown, vector(1, 2, 3))):
        assert known_value(infer_type(get_op(op)(unknown, other))) is None
