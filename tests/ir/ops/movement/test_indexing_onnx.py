"""Gathers, scatters, one-hots, triangles, ranks, and tensors made from shapes, in every version of ONNX, as in test_movement_onnx."""

from typing import TYPE_CHECKING
from typing import Any as AnyValue

import ml_dtypes
import numpy as np
import pytest

from passat.ir.evaluate import EvaluateError, evaluate_call
from passat.ir.expr import Constant, Var
from passat.ir.onnx_mapping import OnnxVersionError
from passat.ir.op import Op, get_op
from passat.ir.ops.movement import transpose
from passat.ir.shape import SymDim
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType

if TYPE_CHECKING:
    from tests.ir.ops.movement.conftest import Bench

N = SymDim.named("n")
ALL = (7, 9, 10, 11, 13, 14, 18, 21, 24, 26)


def floats(*shape: int) -> Array:
    return np.asarray(np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) - 2.5, np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def number(value: AnyValue, dtype: AnyValue = np.int64) -> Array:
    return np.array(value, dtype)


@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((4, 3), ints(2, 0, 3), 0),
        ((4, 3), ints(2, 0).reshape(1, 2), 1),
        ((4, 3), number(1), 0),
        ((4,), number(2), 0),
        ((4, 3), ints(), 1),
        ((0, 3), ints(), 0),
        ((4, 3), ints(-1, 0).astype(np.int32), -1),
    ],
)
def test_gather(bench: "Bench", shape: tuple[int, ...], indices: Array, axis: int) -> None:
    version = 7 if indices.size == 0 or indices.min() >= 0 else 11
    bench.hold("Gather", version, [floats(*shape), indices], {"axis": axis}, opsets=[opset for opset in ALL if opset >= version])
    bench.hold("Gather", 13, [floats(*shape), indices], {} if axis == 0 else {"axis": axis}, opsets=(13, 24))


@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((3, 3), [[1, 0, -1], [2, 2, 0]], 0),
        ((3, 3), [[1, 0], [2, -3]], 1),
        ((4, 2), [[1], [3], [0]], 0),
        ((2, 3), [[2]], -1),
        ((4,), [0, 0, 3, 1, 2], 0),
    ],
)
def test_gather_elements(bench: "Bench", shape: tuple[int, ...], indices: list[AnyValue], axis: int) -> None:
    for version in (11, 13):
        bench.hold("GatherElements", version, [floats(*shape), number(indices)], {"axis": axis}, opsets=(11, 13, 26))


@pytest.mark.parametrize(
    ("shape", "indices", "batch"),
    [
        ((3, 4), [[0, 1], [-1, 2]], 0),
        ((3, 4), [[0], [2]], 0),
        ((3, 4), [1, 2], 0),
        ((2, 3, 4), [[[1], [0], [2]], [[0], [0], [1]]], 1),
        ((2, 3, 4), [[2, 1], [0, 3]], 1),
        ((2, 2, 4), [[[3], [1]], [[0], [2]]], 2),
    ],
)
def test_gather_nd(bench: "Bench", shape: tuple[int, ...], indices: list[AnyValue], batch: int) -> None:
    attrs = {"batch_dims": batch} if batch else {}
    bench.hold("GatherND", 12 if batch else 11, [floats(*shape), number(indices)], attrs, opsets=(12, 13, 26))


@pytest.mark.parametrize(("version", "reduction"), [(11, None), (13, "none"), (16, "add"), (16, "mul"), (18, "max"), (18, "min")])
def test_scatter_elements(bench: "Bench", version: int, reduction: str | None) -> None:
    attrs: dict[str, AnyValue] = {"axis": 1} if reduction in (None, "none") else {"axis": 1, "reduction": reduction}
    indices = number([[1, 0], [-1, 2]])
    bench.hold("ScatterElements", version, [floats(3, 4), indices, floats(2, 2) * 3], attrs, opsets=(18, 26))
    if reduction is None:
        bench.hold("Scatter", 9, [floats(3, 4), abs(indices), floats(2, 2)], attrs, opsets=(10, 11, 26))
    elif reduction != "none":
        twice = number([[1, 1], [-3, 2]])
        bench.hold("ScatterElements", 18, [floats(3, 4), twice, floats(2, 2) * 3], attrs)


@pytest.mark.parametrize(("version", "reduction"), [(11, None), (13, None), (16, "add"), (16, "mul"), (18, "max"), (18, "min")])
def test_scatter_nd(bench: "Bench", version: int, reduction: str | None) -> None:
    attrs = {} if reduction is None else {"reduction": reduction}
    bench.hold("ScatterND", version, [floats(4, 3), number([[3], [-4]]), floats(2, 3) * 2], attrs, opsets=(18, 26))
    bench.hold("ScatterND", version, [floats(4, 3), number([[3, 1]]), floats(1) * 2], attrs, opsets=(18, 26))


@pytest.mark.parametrize(
    ("indices", "axis", "depth"),
    [
        (ints(0, 2, -1, 5, -4), -1, number(3)),
        (ints(0, 2).reshape(2, 1), 0, ints(3)),
        (ints(1, 0).reshape(2, 1), 1, number(4)),
        (ints(1, 0).reshape(2, 1), -2, number(1)),
    ],
)
def test_one_hot(bench: "Bench", indices: Array, axis: int, depth: Array) -> None:
    values = number([2.5, -1.0], np.float32)
    bench.hold("OneHot", 11, [indices, depth, values], {"axis": axis}, opsets=(9, 11, 26))
    bench.hold("OneHot", 9, [indices, depth, values], {"axis": axis}, opsets=(9,), variable=(0, 1))
    bench.hold("OneHot", 11, [indices, depth, values], {"axis": axis}, opsets=(9, 26), variable=(0, 2), dynamic=False)


def test_one_hot_of_fractions(bench: "Bench") -> None:
    operands = [number([0.0, 1.0, 2.0], np.float32), number(2.0, np.float32), number([2, -1], np.int32)]
    bench.hold("OneHot", 28, operands, reference=True)
    unread = [Var("x", TensorType((3,))), Var("depth", TensorType((1,))), Var("values", TensorType((2,)))]
    assert bench.node("OneHot", 28, unread, {}) is None  # a depth that is not an integer and not known


def test_fractions_of_indices_are_dropped(bench: "Bench") -> None:
    indices = number([-0.5, 1.75, 2.0, -1.5], np.float32)
    bench.hold("OneHot", 11, [indices, number(3), number([2, -1])], opsets=(9, 11, 26))


def test_one_hot_takes_unsigned_indices(bench: "Bench") -> None:
    found = bench.value("one_hot", [number([1, 2**64 - 1], np.uint64), number(1.0, np.float32), number(0.0, np.float32)], depth=2)
    np.testing.assert_array_equal(found, [[0, 1], [0, 0]])


@pytest.mark.parametrize(("k", "upper"), [(0, 1), (1, 1), (-1, 0), (9, 0), (-9, 1)])
def test_trilu(bench: "Bench", k: int, upper: int) -> None:
    for data in (floats(3, 4), floats(2, 2, 2).astype(np.int64), floats(0, 3)):
        bench.hold("Trilu", 14, [data, number(k)], {"upper": upper}, opsets=(9, 13, 14, 26), dynamic=False)
    bench.hold("Trilu", 14, [floats(3, 3)], {}, opsets=(14, 26))


@pytest.mark.parametrize(("axis", "largest"), [(-1, 1), (0, 1), (1, 0)])
def test_topk(bench: "Bench", axis: int, largest: int) -> None:
    x = number([[3, 1, 3, 2], [0, 0, -1, 0], [5, 5, 5, 5]], np.float32)
    attrs = {"axis": axis, "largest": largest}
    bench.hold("TopK", 11, [x, ints(2)], attrs, opsets=(24,), outputs=2)
    if largest:
        bench.hold("TopK", 7, [x], {"axis": axis, "k": 2}, opsets=(9, 10, 11, 24), outputs=2)
        bench.hold("TopK", 10, [x, ints(3)], {"axis": axis}, opsets=(7, 24), outputs=2)
    bench.hold("TopK", 11, [x.astype(np.int64), ints(0)], attrs, outputs=2)


@pytest.mark.parametrize("data", [number([1, np.nan], np.float32), number([2.0, 1.0], np.float32)])
def test_topk_leaves_open_orders_alone(bench: "Bench", data: Array) -> None:
    with pytest.raises(ValueError, match="the order of the results is unspecified"):
        bench.value("topk", [data], k=1, sorted=bool(np.isnan(data).any()))


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4), (1,)])
@pytest.mark.parametrize(
    "value", [None, number([7], np.int64), number([1.5], np.float32), number([True], np.bool_), number([-0.0], np.float64)]
)
def test_constant_of_shape(bench: "Bench", shape: tuple[int, ...], value: Array | None) -> None:
    attrs = {} if value is None else {"value": value}
    found = bench.hold("ConstantOfShape", 9, [ints(*shape)], attrs, opsets=ALL, variable=(), symbolic=False)
    assert repr(found.checked_type) == repr(TensorType(shape, "float32" if value is None else Tensor.dense(value).dtype))


@pytest.mark.parametrize(
    ("start", "limit", "delta"),
    [(0, 5, 1), (3, 9, 3), (10, 4, -2), (4, 4, 1), (5, 0, 1), (-3, 8, 5)],
)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "float32", "float64"])
def test_range(bench: "Bench", start: int, limit: int, delta: int, dtype: str) -> None:
    operands = [number(value, dtype) for value in (start, limit, delta)]
    found = bench.hold("Range", 11, operands, opsets=(7, 11, 26), variable=(), symbolic=False)
    if dtype in ("int32", "int64"):
        assert found.checked_type == TensorType((len(range(start, limit, delta)),), dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_range_of_short_floats(bench: "Bench", dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    operands = [number(value, kind) for value in (0.5, 300.0, 1.5)]
    bench.hold("Range", 27, operands, variable=(), symbolic=False, reference=True)
    x = [Constant(Tensor.dense(value)) for value in operands]
    assert bench.node("Range", 27, x, {"stash_type": 11}) is None
    written = bench.written(bench.node("Range", 27, x, {}), 14)
    assert written == ["Cast", "Cast", "Cast", "Range", "Cast"]


@pytest.mark.parametrize(("start", "end"), [(None, None), (1, None), (None, -1), (-2, 3), (2, 1), (-9, 9)])
def test_shape(bench: "Bench", start: int | None, end: int | None) -> None:
    attrs = {name: value for name, value in (("start", start), ("end", end)) if value is not None}
    bench.hold("Shape", 15 if attrs else 7, [floats(2, 0, 4)], attrs, opsets=ALL, symbolic=False)


def test_size(bench: "Bench") -> None:
    for shape in ((2, 3), (), (0, 3)):
        bench.hold("Size", 7, [floats(*shape)], opsets=ALL)


def test_our_own_operators_are_written(bench: "Bench") -> None:
    """Operators without a counterpart are written as several equivalent nodes."""
    n, x = N, floats(3, 2, 4)
    for shape in ((3, 2, 4), (n, 2, 4), (3, n, 4), (n, n + 1, 4)):
        v = Var("x", TensorType(shape, "float32"))
        for opset in (7, 9, 13, 24):
            bench.written_agrees("repeat", [v], [x], opset, repeats=3, axis=1)
            bench.written_agrees("repeat", [v], [x], opset, repeats=2, axis=-1)
            bench.written_agrees("repeat", [v], [x], opset, repeats=2)
            bench.written_agrees("stack", [(v, v)], [x], opset, axis=1)
            bench.written_agrees("stack", [(v, v)], [x], opset, axis=-1)
            bench.written_agrees("tile", [v], [x], opset, reps=(2, 1, 1, 3))
            bench.written_agrees("tile", [v], [x], opset, reps=(3,))
            bench.written_agrees("take", [v, Constant(ints(0, 7))], [x], opset)
            bench.written_agrees("shape_of", [v], [x], opset, dtype="int32", start=1)
            bench.written_agrees("ndarray_size", [v], [x], opset, dtype="int32")
            bench.written_agrees("reshape", [v], [x], opset, newshape=(-3, -2))
            bench.written_agrees("reshape", [v], [x], opset, newshape=(-2, 1))
            bench.written_agrees("reshape", [v], [x], opset, newshape=(-2,))
            bench.written_agrees("reshape", [v], [x], opset, newshape=(0, 0, -4, 2, -1))
            bench.written_agrees("expand_dims", [v], [x], opset, axis=1, num_newaxis=2)
            bench.written_agrees("squeeze", [Constant(floats(1, 3))], [], opset)
            if opset >= 9 or n not in shape:
                bench.written_agrees("zeros_like", [v], [x], opset)
                bench.written_agrees("full_like", [v, Constant(number(2.5, np.float32))], [x], opset)
                bench.written_agrees("full_like", [v, Var("f", TensorType())], [x, number(2.5, np.float32)], opset)
                bench.written_agrees("split", [v], [x], opset, indices_or_sections=(1,), axis=1)
            if opset >= 10 or shape[1] == 2:
                bench.written_agrees("reverse", [v], [x], opset, axis=1)
    for opset in (7, 9, 24):
        bench.written_agrees("zeros", [], [], opset, shape=(2, 3), dtype="int8")
        bench.written_agrees("ones", [], [], opset, shape=(2, 3))
        bench.written_agrees("full", [Var("f", TensorType())], [number(2.5, np.float32)], opset, shape=(2, 3))
    for opset in (9, 24):
        on, off = Var("on", TensorType()), Var("off", TensorType())
        operands = [Constant(ints(0, 2)), on, off]
        bench.written_agrees("one_hot", operands, [number(2.5, np.float32), number(-1, np.float32)], opset, depth=3)


@pytest.mark.parametrize(
    ("name", "opset", "operands", "attrs", "message"),
    [
        (
            "gather",
            10,
            [TensorType((2,)), TensorType((2,), "int64")],
            {},
            "gather needs ONNX opset 11 or later; the model is written in opset 10",
        ),
        (
            "reverse",
            9,
            [TensorType((3, 2), "string")],
            {"axis": 0},
            r"a slice of Tensor\[\(3, 2\), string\] with a stride other than 1 needs ONNX opset 10",
        ),
        (
            "reverse",
            9,
            [TensorType((N,))],
            {"axis": 0},
            r"a slice of Tensor\[\(n,\), float32\] with a stride other than 1 needs ONNX opset 10",
        ),
        (
            "nn.pad",
            10,
            [TensorType((2,), "int64")],
            {"pad_width": ((1, 1),)},
            r"nn.pad of Tensor\[\(2,\), int64\] with the value 0.0 needs ONNX opset 11",
        ),
        ("broadcast_to", 7, [TensorType((N,))], {"shape": (3,)}, "broadcast_to needs ONNX opset 8"),
        ("trilu", 13, [TensorType((N, 2))], {}, r"trilu of Tensor\[\(n, 2\), float32\] needs ONNX opset 14"),
        (
            "nn.space_to_depth",
            27,
            [TensorType((1, 1, 2, 2))],
            {"block_size": 2, "mode": "CRD"},
            "nn.space_to_depth in the mode CRD needs ONNX opset 28",
        ),
        ("topk", 10, [TensorType((2,))], {"k": 1, "largest": False}, "topk needs ONNX opset 11"),
        ("dyn.strided_slice", 9, [TensorType((2,)), *[TensorType((1,), "int64")] * 4], {}, "dyn.strided_slice needs ONNX opset 10"),
    ],
)
def test_operators_without_a_form_in_the_opset(
    bench: "Bench", name: str, opset: int, operands: list[TensorType], attrs: dict[str, AnyValue], message: str
) -> None:
    with pytest.raises(OnnxVersionError, match=message):
        bench.written(bench.call(name, [Var(f"x{i}", type_) for i, type_ in enumerate(operands)], **attrs), opset)


def test_every_operator_here_has_a_writer(bench: "Bench") -> None:
    assert isinstance(transpose, Op)
    assert [op.name for op in bench.operators() if op.to_onnx is None] == []


@pytest.mark.parametrize(("shape", "index"), [((0, 1), [1]), ((0, 0), [0]), ((0, 3), [-4])])
def test_an_index_out_of_range_is_an_error_for_an_empty_tensor(shape: tuple[int, ...], index: list[int]) -> None:
    """As in ONNX Runtime. NumPy does not look at it."""
    data, indices = Tensor.dense(np.zeros(shape, np.float32)), Tensor.dense(np.array(index))
    take, type_ = get_op("take"), TensorType((shape[0], len(index)), "float32")
    with pytest.raises(EvaluateError, match="out of bounds"):
        evaluate_call(take, [data, indices], take.bind_attrs({"axis": 1}), type_)
