"""Reshapes, transposes, concatenations, splits, slices and pads, in every version of ONNX: read, evaluated, typed with symbols, and written
in other opsets."""

from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import pytest

from passat.ir.expr import Constant, Var
from passat.ir.shape import SymDim
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType

if TYPE_CHECKING:
    from tests.ir.ops.movement.conftest import Bench

ALL = (7, 9, 10, 11, 13, 14, 18, 21, 24, 26)
SINCE_10 = ALL[2:]


def floats(*shape: int) -> Array:
    return np.asarray(np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) - 2.5, np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


RESHAPES: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((2, 3, 4), (4, 6), 0),
    ((2, 3, 4), (0, -1), 0),
    ((2, 3, 4), (0, 0, 0), 0),
    ((2, 3, 4), (-1,), 0),
    ((2, 3, 4), (2, 1, 3, 1, -1), 0),
    ((2, 3, 4), (-1, 0, 2), 0),
    ((), (1, 1), 0),
    ((1, 1), (), 0),
    ((), (-1,), 0),
    ((0, 3), (0, 3), 0),
    ((0, 3), (3, 0), 1),
    ((0, 3), (-1, 3), 0),
    ((2, 0, 5), (0, 0, 5), 0),
    ((2, 0, 5), (0, 10), 1),
    ((4, 2), (2, 4), 1),
]


@pytest.mark.parametrize(("shape", "newshape", "allowzero"), RESHAPES)
def test_reshape(bench: "Bench", shape: tuple[int, ...], newshape: tuple[int, ...], allowzero: int) -> None:
    attrs = {"allowzero": 1} if allowzero else {}
    has_elements = 0 not in shape  # the element count of empty tensors determines nothing
    for version in (14, 25) if allowzero else (7, 14, 25):
        bench.hold("Reshape", version, [floats(*shape), ints(*newshape)], attrs, opsets=ALL, symbolic=has_elements)


@pytest.mark.parametrize(
    ("shape", "perm"), [((2, 3, 4), (2, 0, 1)), ((2, 3), None), ((), ()), ((0, 3), (1, 0)), ((1, 2, 3, 4), (0, 2, 3, 1))]
)
def test_transpose(bench: "Bench", shape: tuple[int, ...], perm: tuple[int, ...] | None) -> None:
    bench.hold("Transpose", 7, [floats(*shape)], {"perm": perm} if perm else {}, opsets=ALL)


@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 2, 1), (0,)), ((1, 2, 1), (0, 2)), ((1, 2, 1), (-1,)), ((1, 1), (1, 0)), ((1, 0), (0,)), ((1, 2, 1), None)]
)
def test_squeeze(bench: "Bench", shape: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    oldest = 11 if axes and min(axes) < 0 else 7
    bench.hold("Squeeze", oldest, [floats(*shape)], {} if axes is None else {"axes": axes}, opsets=ALL)
    for version in (13, 25):
        bench.hold("Squeeze", version, [floats(*shape)] + ([] if axes is None else [ints(*axes)]), opsets=ALL)


@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 3), (0,)), ((2, 3), (1, 3)), ((2, 3), (-1, 0)), ((), (0,)), ((0,), (2, 0)), ((3,), (-2,))]
)
def test_unsqueeze(bench: "Bench", shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    bench.hold("Unsqueeze", 11 if min(axes) < 0 else 7, [floats(*shape)], {"axes": axes}, opsets=ALL)
    for version in (13, 25):
        bench.hold("Unsqueeze", version, [floats(*shape), ints(*axes)], opsets=ALL)


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3, 4), 1), ((2, 3, 4), 0), ((2, 3, 4), 3), ((2, 3, 4), -1), ((2, 0, 4), 2), ((), 0), ((5,), 1)]
)
def test_flatten(bench: "Bench", shape: tuple[int, ...], axis: int) -> None:
    bench.hold("Flatten", 11 if axis < 0 else 9, [floats(*shape)], {"axis": axis}, opsets=ALL)
    if axis == 1 and shape:
        bench.hold("Flatten", 9, [floats(*shape).astype(np.int64)], {"axis": axis}, opsets=ALL)


@pytest.mark.parametrize(
    ("shapes", "axis"), [([(2, 3), (1, 3)], 0), ([(2, 3), (2, 0), (2, 1)], 1), ([(2, 3), (2, 3)], -1), ([(4,)], 0), ([(0, 2), (0, 2)], 1)]
)
def test_concat(bench: "Bench", shapes: list[tuple[int, ...]], axis: int) -> None:
    arrays = [floats(*shape) + i for i, shape in enumerate(shapes)]
    bench.hold("Concat", 11 if axis < 0 else 7, arrays, {"axis": axis}, opsets=ALL, variable=range(len(arrays)))


SPLITS: list[tuple[int, tuple[int, ...], int, list[int] | None, int]] = [
    (7, (6, 2), 0, None, 3),
    (7, (6, 2), 0, [1, 2, 3], 3),
    (11, (2, 6), -1, [0, 6], 2),
    (11, (2, 4), 1, [2, 2], 2),
    (11, (0, 4), 0, None, 2),
    (13, (6, 2), 0, None, 2),
    (13, (6, 2), 0, [4, 2], 2),
    (18, (6, 2), 0, [4, 0, 2], 3),
    (18, (6, 2), 0, [6], 1),
]


@pytest.mark.parametrize(("version", "shape", "axis", "sizes", "count"), SPLITS)
def test_split(bench: "Bench", version: int, shape: tuple[int, ...], axis: int, sizes: list[int] | None, count: int) -> None:
    arrays = [floats(*shape)]
    attrs: dict[str, AnyValue] = {"axis": axis}
    if sizes is not None and version >= 13:
        arrays.append(ints(*sizes))
    elif sizes is not None:
        attrs["split"] = sizes
    bench.hold("Split", version, arrays, attrs, opsets=ALL, outputs=count, dynamic=False)


@pytest.mark.parametrize(("size", "count"), [(6, 3), (7, 3), (5, 2), (4, 1), (7, 4)])
def test_split_in_numbers(bench: "Bench", size: int, count: int) -> None:
    bench.hold("Split", 18, [floats(size, 2)], {"num_outputs": count, "axis": 0}, opsets=ALL, outputs=count, symbolic=size % count == 0)


def test_splits_that_stay_opaque(bench: "Bench") -> None:
    x = Var("x", TensorType((SymDim.named("n"), 6), "float32"))
    assert bench.node("Split", 18, [x], {"num_outputs": 4}, 4) is None  # the last part may be smaller
    assert bench.node("Split", 13, [x, Constant(Tensor.dense(ints(2, 3)))], {}, 2) is None  # the name n would be lost
    assert bench.node("Split", 18, [x], {"num_outputs": 4, "axis": 1}, 4) is None  # 2, 2, 2 and nothing
    assert bench.node("Split", 13, [x], {"axis": 1}, 4) is None
    assert bench.node("Split", 13, [x, Var("s", TensorType((2,), "int64"))], {}, 2) is None
    assert bench.node("Split", 18, [x], {"num_outputs": 2}, 2) is None
    assert bench.node("Split", 13, [x], {}, 2) is not None


SLICES: list[tuple[tuple[int, ...], dict[str, list[int]]]] = [
    ((10,), {"starts": [2], "ends": [7]}),
    ((10,), {"starts": [-3], "ends": [2**63 - 1]}),
    ((10,), {"starts": [-30], "ends": [30]}),
    ((10,), {"starts": [7], "ends": [2]}),
    ((4, 6), {"starts": [1, 0], "ends": [-1, 2**31 - 1]}),
    ((4, 6), {"starts": [2], "ends": [-1], "axes": [1]}),
    ((4, 6), {"starts": [1, 0], "ends": [3, 5], "axes": [-1, 0]}),
    ((0, 3), {"starts": [0], "ends": [1]}),
    ((4, 6), {"starts": [1], "ends": [6], "axes": [1], "steps": [2]}),
    ((4, 6), {"starts": [-1], "ends": [-(2**63)], "axes": [1], "steps": [-1]}),
    ((4, 6), {"starts": [100, 3], "ends": [-100, 0], "axes": [1, 0], "steps": [-3, -1]}),
    ((4, 6), {"starts": [4], "ends": [1], "axes": [1], "steps": [-2]}),
    ((4, 6), {"starts": [-5], "ends": [2**31 - 1], "axes": [1], "steps": [4]}),
    ((4, 6), {"starts": [3], "ends": [-(2**31)], "axes": [1], "steps": [-1]}),
]


@pytest.mark.parametrize(("shape", "parts"), SLICES)
def test_slice(bench: "Bench", shape: tuple[int, ...], parts: dict[str, list[int]]) -> None:
    if "steps" not in parts:
        bench.hold("Slice", 7, [floats(*shape)], parts, opsets=ALL)
    operands = [None if parts.get(name) is None else ints(*parts[name]) for name in ("starts", "ends", "axes", "steps")]
    while operands[-1] is None:
        operands.pop()
    for version in (10, 13):
        bench.hold("Slice", version, [floats(*shape), *operands], opsets=ALL)
    if all(-(2**31) <= index < 2**31 for part in parts.values() for index in part):
        narrow = [None if part is None else part.astype(np.int32) for part in operands]
        bench.hold("Slice", 13, [floats(*shape), *narrow], opsets=(10, 26))


@pytest.mark.parametrize(
    ("shape", "to"), [((3, 1), (3, 4)), ((3,), (2, 1, 3)), ((3, 4), (1, 1)), ((2, 1, 3), (4, 1)), ((), (2,)), ((1, 3), (0, 1)), ((2,), ())]
)
def test_expand(bench: "Bench", shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    for version in (8, 13):
        bench.hold("Expand", version, [floats(*shape), ints(*to)], opsets=ALL)


@pytest.mark.parametrize(("shape", "reps"), [((2, 3), (2, 1)), ((2, 3), (1, 1)), ((2, 3), (0, 2)), ((3,), (4,)), ((0, 2), (3, 2))])
def test_tile(bench: "Bench", shape: tuple[int, ...], reps: tuple[int, ...]) -> None:
    for version in (7, 13):
        bench.hold("Tile", version, [floats(*shape), ints(*reps)], opsets=ALL)


PADS: list[tuple[tuple[int, ...], list[int], str, Array | None]] = [
    ((2, 3), [1, 0, 0, 2], "constant", None),
    ((2, 3), [1, 0, 0, 2], "constant", np.array(1.5, np.float32)),
    ((2, 3), [1, 0, 0, 2], "constant", np.array(-0.0, np.float32)),
    ((2, 3), [-1, 1, 0, -2], "constant", np.array(np.inf, np.float32)),
    ((2, 3), [0, 1, 2, 0], "edge", None),
    ((4, 3), [2, 1, 3, 2], "reflect", None),
    ((0, 3), [1, 1, 0, 1], "constant", np.array(4, np.float32)),
    ((3,), [0, 0], "constant", None),
]


@pytest.mark.parametrize(("shape", "pads", "mode", "value"), PADS)
def test_pad(bench: "Bench", shape: tuple[int, ...], pads: list[int], mode: str, value: Array | None) -> None:
    attrs: dict[str, AnyValue] = {"pads": pads, "mode": mode}
    opsets = [opset for opset in ALL if opset != 9]  # the same as 7
    bench.hold("Pad", 7, [floats(*shape)], attrs if value is None else {**attrs, "value": float(value)}, opsets=opsets)
    operands = [floats(*shape), ints(*pads)] + ([] if value is None else [value])
    for version in (11, 18, 25):
        bench.hold("Pad", version, operands, {"mode": mode}, opsets=opsets)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float64", "bool"])
def test_pad_values_are_exact(bench: "Bench", dtype: str) -> None:
    data = np.array([[1, 0]]).astype(dtype)
    value = {"int64": 2**62 + 1, "int32": -(2**31), "uint8": 255, "float64": 0.1, "bool": True}[dtype]
    bench.hold("Pad", 13, [data, ints(0, 1, 1, 0), np.array(value, dtype)], opsets=(13, 24))


def test_pad_axes_and_wrap(bench: "Bench") -> None:
    x = floats(2, 3, 4)
    bench.hold("Pad", 18, [x, ints(1, 2, 0, 3), None, ints(-1, 0)], opsets=(7, 13, 24), dynamic=False)
    bench.hold("Pad", 19, [x, ints(1, 2, 0, 1, 1, 3), None, ints(0, 1, 2)], {"mode": "wrap"}, opsets=(19, 24))


def test_pads_that_stay_opaque(bench: "Bench") -> None:
    x, pads = Var("x", TensorType((4, 4), "float32")), Constant(Tensor.dense(ints(-1, 0, 1, 0)))
    assert bench.node("Pad", 13, [x, pads], {"mode": "edge"}) is None  # the first removed part is not specified
    assert bench.node("Pad", 13, [x, pads], {"mode": "wrap"}) is None
    assert bench.node("Pad", 18, [x, pads, None, Var("a", TensorType((2,), "int64"))], {}) is None
    complex_ = Var("x", TensorType((4, 4), "complex64"))
    assert bench.node("Pad", 13, [complex_, Constant(Tensor.dense(ints(0, 0, 1, 0)))], {}) is None


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(bench: "Bench", mode: str) -> None:
    x = floats(2, 8, 3, 2)
    bench.hold("DepthToSpace", 11, [x], {"blocksize": 2, "mode": mode}, opsets=(11, 13, 26))
    bench.hold("SpaceToDepth", 28, [floats(2, 3, 4, 6)], {"blocksize": 2, "mode": mode}, reference=True)
    if mode == "DCR":
        bench.hold("DepthToSpace", 7, [x], {"blocksize": 2}, opsets=ALL)
        bench.hold("SpaceToDepth", 7, [floats(2, 3, 4, 6)], {"blocksize": 2}, opsets=ALL)
