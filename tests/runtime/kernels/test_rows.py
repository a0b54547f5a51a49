"""Kernels along rows: reductions, and what is computed of their results."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any as AnyValue
from typing import NamedTuple

import numpy as np
import pytest

from tests.runtime.kernels.running import DTYPES, assert_same_bits, both, fused, model, own_session, session

RMS_NORM = (
    "g (float[B,S,64] x, float[B,S,64] y, float[64] w) => (float[B,S,64] r, float[B,S,64] t) <int64[1] a = {-1}, float two = {2}, float e = {1e-6}> "
    "{ t = Add(x, y) p = Pow(t, two) m = ReduceMean<keepdims = 1>(p, a) n = Add(m, e) q = Sqrt(n) d = Div(t, q) u = Mul(d, w) s = Sigmoid(u) r = Mul(u, s) }"
)
LOG_SUM_EXP = (
    "g (float[B,N] x) => (float[B,1] r) <int64[1] a = {-1}> "
    "{ m = ReduceMax<keepdims = 1>(x, a) d = Sub(x, m) e = Exp(d) s = ReduceSum<keepdims = 1>(e, a) l = Log(s) r = Add(l, m) }"
)
SOFTMAX = (
    "g (float[B,N] x) => (float[B,N] r) <int64[1] a = {1}> "
    "{ m = ReduceMax<keepdims = 1>(x, a) d = Sub(x, m) e = Exp(d) s = ReduceSum<keepdims = 1>(e, a) r = Div(e, s) }"
)
NORM = "g (double[N] x) => (double r) <int64[1] a = {0}> { s = Abs(x) r = ReduceL2<keepdims = 0>(s, a) }"
DISTANCES = "g (float[B,N] x, float[1,N] c) => (float[B] r) <int64[1] a = {-1}> { d = Sub(x, c) r = ReduceSumSquare<keepdims = 0>(d, a) }"


def test_a_residual_with_rms_norm_and_silu_is_one_kernel_of_two_outputs(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    feeds = []
    for b, s in ((2, 3), (1, 1), (0, 3), (70, 11)):
        x, y = random.standard_normal((2, b, s, 64), np.float32)
        feeds.append({"x": x, "y": y, "w": random.standard_normal(64, np.float32)})
    for one, other in both(RMS_NORM, tmp_path, feeds, threads=2):
        np.testing.assert_allclose(other, one, rtol=2e-6, atol=1e-6)
    for one, other in both(RMS_NORM, tmp_path, feeds, threads=2, output=1):
        assert_same_bits(one, other)


@pytest.mark.parametrize("text", [LOG_SUM_EXP, SOFTMAX, DISTANCES])
def test_rows_of_any_size(text: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    feeds: list[dict[str, AnyValue]] = []
    for shape in ((3, 5), (1, 1), (4, 1), (0, 5), (300, 100), (2, 40_000)):
        feed = {"x": random.standard_normal(shape, np.float32) * 5}
        if "c)" in text:
            feed["c"] = random.standard_normal((1, shape[1]), np.float32)
        feeds.append(feed)
    for one, other in both(text, tmp_path, feeds, threads=2):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)


def test_masked_rows_and_nan(tmp_path: Path) -> None:
    """A row with NaN is NaN; ONNX Runtime's maximum may lose it."""
    x = np.zeros((4, 33), np.float32)
    x[0, 5:] = -np.inf
    x[1, 7] = np.nan
    x[2] = -np.inf
    [(one, other)] = both(SOFTMAX, tmp_path, [{"x": x}])
    np.testing.assert_allclose(other, one, rtol=1e-6)
    assert np.isnan(other[1]).all()
    assert not np.isnan(other[[0, 3]]).any()


def test_a_result_may_have_no_axes(tmp_path: Path) -> None:
    [(one, other)] = both(NORM, tmp_path, [{"x": np.linspace(-1, 2, 101)}])
    np.testing.assert_allclose(other, one, rtol=1e-12)
    assert other.shape == ()


@pytest.mark.parametrize("kind", ["float", "double", "int32", "int64"])
def test_reductions_have_onnx_runtimes_values(kind: str, tmp_path: Path) -> None:
    names = ["ReduceMax", "ReduceMin", "ReduceSum"] + (["ReduceMean", "ReduceL2", "ReduceSumSquare"] if kind in ("float", "double") else [])
    results = ", ".join(f"{kind}[B,1] r{name}" for name in names)
    steps = " ".join(f"s{name} = Neg(x) r{name} = {name}<keepdims = 1>(s{name}, a)" for name in names)
    proto = model(f"g ({kind}[B,N] x) => ({results}) <int64[1] a = {{-1}}> {{ {steps} }}")
    own, plain = own_session(proto, tmp_path, kernels=len(names)), session(proto)
    dtype = DTYPES[kind]
    random = np.random.default_rng(0)
    x: AnyValue = (random.standard_normal((50, 37)) * 100).astype(dtype)
    rows = [x]
    if kind in ("float", "double"):
        with np.errstate(over="ignore"):
            rows += [
                np.array(row, dtype) for row in ([[0.0, -0.0]], [[-0.0, -0.0]], [[np.inf, 1.0]], [[-np.inf, -np.inf]], [[1e-40, -1e-40]])
            ]
    else:
        rows.append(np.array([[np.iinfo(dtype).min + 1, np.iinfo(dtype).max, 0]], dtype))
    for row in rows:
        for name, one, other in zip(names, plain.run(None, {"x": row}), own.run(None, {"x": row}), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-3 if kind == "float" else 0, err_msg=name)
    empty = own.run(None, {"x": np.zeros((3, 0), dtype)})
    for name, one, other in zip(names, plain.run(None, {"x": np.zeros((3, 0), dtype)}), empty, strict=True):
        if kind in ("float", "double") or name == "ReduceSum":
            assert_same_bits(one, other, name)


def test_float16_is_reduced_as_float32(tmp_path: Path) -> None:
    text = "g (float16[B,N] x) => (float16[B,N] r) <int64[1] a = {-1}> { p = Mul(x, x) m = ReduceMean<keepdims = 1>(p, a) q = Sqrt(m) r = Div(x, q) }"
    x = np.random.default_rng(0).standard_normal((5, 300)).astype(np.float16)
    [(one, other)] = both(text, tmp_path, [{"x": x}])
    np.testing.assert_allclose(other.astype(np.float32), one.astype(np.float32), rtol=2e-3)


AXES = [
    ((2, 3, 4, 5), (0,)), ((2, 3, 4, 5), (1,)), ((2, 3, 4, 5), (-2, -1)), ((2, 3, 4, 5), (1, 2)), ((2, 3, 4, 5), (1, 2, 3)), ((2, 3, 4, 5), (0, 1, 2, 3)),
    ((300, 7), (0,)), ((7, 300), (0,)), ((3, 200, 130), (1,)), ((4, 1, 6), (1,)), ((4, 5, 1), (1,)), ((1, 1, 9), (0, 1)), ((0, 3, 4), (1,)), ((2, 0, 4), (1,)),
    ((2, 3, 0), (1,)), ((2, 40, 300), (-2,)),
    ((2, 3, 4), (0, 2)), ((2, 3, 4, 5), (0, 2)), ((2, 3, 4, 5), (1, 3)), ((2, 3, 4, 5), (0, 2, 3)), ((2, 3, 4, 5), (0, 1, 3)), ((5, 1, 4), (0, 2)),
    ((2, 2, 3, 2, 4), (1, 3)), ((2, 2, 3, 2, 4), (0, 1, 3)), ((2, 1, 3, 1, 4, 5), (1, 3, 4)), ((7, 3, 300), (0, 2)), ((3, 2, 5, 300), (0, 2)),
    ((0, 3, 4), (0, 2)), ((2, 3, 0), (0, 2)), ((2, 0, 4), (0, 2)),
]  # fmt: skip
NORMALIZED = (
    "{ h = Mul(x, x) s = ReduceMax<keepdims = 1>(h, a) d = Sub(h, s) e = Exp(d) t = ReduceSum<keepdims = 1>(e, a) p = Sqrt(t) q = Add(p, w) r = Div(e, q) "
    "u = ReduceMean<keepdims = 1>(r, a) o = ReduceL2<keepdims = 0>(r, a) }"
)


@pytest.fixture(scope="module")
def reductions(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[AnyValue, AnyValue]]:
    """The results of all these models on ONNX Runtime and with kernels, by their names: parts of one model, whose kernels are compiled
    together."""
    parts = [part for shape, axes in AXES for part in reduced(shape, axes)]
    feed = {name: value for part in parts for name, value in part.feed.items()}
    proto = model(
        f"g ({', '.join(part.inputs for part in parts)}) => ({', '.join(part.outputs for part in parts)}) "
        f"<{', '.join(part.constants for part in parts)}> {{ {' '.join(part.nodes for part in parts)} }}"
    )
    own = own_session(proto, tmp_path_factory.mktemp("reductions"), threads=2, kernels=None)
    names = [output.name for output in proto.graph.output]
    return dict(zip(names, zip(session(proto).run(None, feed), own.run(None, feed), strict=True), strict=True))


class Reduced(NamedTuple):
    """Parts of a model, whose names end with that of the part."""

    name: str
    feed: Mapping[str, AnyValue]
    inputs: str
    outputs: str
    constants: str
    nodes: str


def reduced(shape: tuple[int, ...], axes: tuple[int, ...]) -> Iterator[Reduced]:
    """The normalization with sizes that are known, and not."""
    random = np.random.default_rng(0)
    within = {axis % len(shape) for axis in axes}
    x = random.standard_normal(shape, np.float32)
    w = random.random([1 if axis in within else size for axis, size in enumerate(shape)], np.float32)
    case = f"{'_'.join(map(str, shape))}_along_{'_'.join(str(axis % len(shape)) for axis in axes)}"
    for name, sizes in ((f"static_{case}", list(map(str, shape))), (f"dynamic_{case}", [f"D{axis}_{case}" for axis in range(len(shape))])):
        rows = ["1" if axis in within else size for axis, size in enumerate(sizes)]
        left = ",".join(size for axis, size in enumerate(sizes) if axis not in within)
        yield Reduced(
            name,
            {f"x_{name}": x, f"w_{name}": w},
            f"float[{','.join(sizes)}] x_{name}, float[{','.join(rows)}] w_{name}",
            f"float[{','.join(sizes)}] r_{name}, float[{','.join(rows)}] u_{name}, float{f'[{left}]' if left else ''} o_{name}",
            f"int64[{len(axes)}] a_{name} = {{{', '.join(map(str, axes))}}}",
            re.sub(r"\b([a-z])\b", rf"\1_{name}", NORMALIZED.strip("{} ")),
        )


@pytest.mark.parametrize(("shape", "axes"), AXES)
def test_reductions_along_one_or_two_groups_of_adjacent_axes(
    shape: tuple[int, ...], axes: tuple[int, ...], reductions: Mapping[str, tuple[AnyValue, AnyValue]]
) -> None:
    """Three levels, with an operand that has one element for each row or column, and results of all forms; with sizes that are known, and
    not."""
    for part in reduced(shape, axes):
        for name in "ruo":
            one, other = reductions[f"{name}_{part.name}"]
            assert one.shape == other.shape
            if 0 not in shape:
                np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6, err_msg=name)
        made = fused(model(f"g ({part.inputs}) => ({part.outputs}) <{part.constants}> {{ {part.nodes} }}"))
        assert len(made.groups) <= 2  # the reduction without dimensions is the last node, in a kernel of its own or none
        assert made.nodes >= 9


def test_three_groups_of_axes_are_left_alone() -> None:
    text = "g (float[2,3,4,5,6] x) => (float[1,3,1,5,1] r) <int64[3] a = {0, 2, 4}> { s = Neg(x) t = Abs(s) r = ReduceSum<keepdims = 1>(t, a) }"
    assert [node.op_type for node in fused(model(text)).model.graph.node] == ["Kernel0", "ReduceSum"]


def test_operands_that_broadcast_along_part_of_the_axes_are_left_alone(tmp_path: Path) -> None:
    """Of (C, 1) along two axes, and of (W,) beside columns."""
    for axes in ((1, 2), (0,)):
        text = (
            f"g (float[2,3,4] x, float[3,1] b) => (float[2,3,4] r) <int64[{len(axes)}] a = {{{', '.join(map(str, axes))}}}> "
            "{ s = Mul(x, b) e = Exp(s) t = ReduceSum<keepdims = 1>(e, a) r = Div(e, t) }"
        )
        random = np.random.default_rng(0)
        feed = {"x": random.standard_normal((2, 3, 4), np.float32), "b": random.standard_normal((3, 1), np.float32)}
        [(one, other)] = both(text, tmp_path, [feed])
        np.testing.assert_allclose(other, one, rtol=1e-5)


@pytest.mark.parametrize("kind", ["float16", "double", "int32", "int64"])
def test_columns_of_other_types(kind: str, tmp_path: Path) -> None:
    names = ["ReduceMax", "ReduceMin", "ReduceSum"]
    results = ", ".join(f"{kind}[B,1,C] r{name}" for name in names)
    steps = " ".join(f"s{name} = Abs(x) r{name} = {name}<keepdims = 1>(s{name}, a)" for name in names)
    proto = model(f"g ({kind}[B,N,C] x) => ({results}) <int64[1] a = {{1}}> {{ {steps} }}")
    x: AnyValue = (np.random.default_rng(0).standard_normal((3, 20, 150)) * 100).astype(DTYPES[kind])
    own = own_session(proto, tmp_path, kernels=len(names)).run(None, {"x": x})
    for name, one, other in zip(names, session(proto).run(None, {"x": x}), own, strict=True):
        np.testing.assert_allclose(
            other.astype(np.float64), one.astype(np.float64), rtol=2e-3 if kind == "float16" else 1e-12, err_msg=name
        )


def test_numbers_of_rows_without_a_reduction_are_a_kernel_of_their_own(tmp_path: Path) -> None:
    text = "g (float[B,N] x, float[B,1] y) => (float[B,N] r) { s = Exp(y) t = Neg(s) u = Mul(x, t) r = Abs(u) }"
    random = np.random.default_rng(0)
    feed = {"x": random.standard_normal((3, 4), np.float32), "y": random.standard_normal((3, 1), np.float32)}
    [(one, other)] = both(text, tmp_path, [feed], kernels=2)
    np.testing.assert_allclose(other, one, rtol=1e-6)
