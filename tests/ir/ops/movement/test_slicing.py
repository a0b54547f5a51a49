"""Slices: their lengths for all sizes, compositions, and slices without an effect."""

import itertools
from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.bounds import FAR, ceiling, least, positive_part, smaller
from passat.ir.op import OpTypeError, get_op
from passat.ir.ops.slicing import END, compose_slices, is_identity_slice, slice_length, taken_places
from passat.ir.shape import ANY, Any, Dim, SymDim, extreme
from passat.ir.types import TensorType
from tests.share import share

if TYPE_CHECKING:
    from tests.ir.ops.movement.conftest import Bench

N, M = SymDim.named("n"), SymDim.named("m")

ends = st.one_of(st.integers(-6, 6), st.sampled_from([FAR, END, -FAR, -END, 100, -100]))
strides = st.sampled_from([1, 1, 2, 3, -1, -2])
sizes = st.one_of(st.integers(0, 6), st.builds(lambda a, b: a * N + b, st.integers(1, 2), st.integers(0, 3)))
named = st.fixed_dictionaries({"n": st.integers(0, 5), "m": st.integers(0, 5)})
indices = st.one_of(ends, st.builds(lambda a, b, c: a * N + b * M + c, st.integers(-1, 1), st.integers(-1, 1), st.integers(-2, 2)))


@settings(max_examples=share(70, 400))
@given(size=sizes, begin=indices, end=indices, stride=strides, values=named)
def test_lengths_are_right_for_all_sizes(bench: "Bench", size: Dim, begin: Dim, end: Dim, stride: int, values: dict[str, int]) -> None:
    found = slice_length(size, begin, end, stride)
    places = [bench.run_dim(dim, values) or 0 for dim in (size, begin, end)]
    length = bench.run_dim(found, values)
    if length is not None:
        assert length == len(taken_places(places[0], places[1], places[2], stride))


@pytest.mark.parametrize(
    ("size", "begin", "end", "stride", "expected"),
    [
        (N, 0, END, 1, N),
        (N, 0, FAR, 2, (N + 1) // 2),
        (N, 0, N, 1, N),
        (N + 3, 2, END, 1, N + 1),
        (N + 3, -2, END, 1, 2),
        (N, -1, END, 1, smaller(N, 1)),
        (N + M, N, END, 1, M),
        (N + M, 0, N, 1, N),
        (N + M, N, N + 2 * M, 1, M),
        (N, 1, -1, 1, positive_part(positive_part(N - 1) - smaller(1, N))),
        (N + 2, 1, -1, 1, N),
        (N, -1, -END, -1, N),
        (N, 3, -END, -1, smaller(4, N)),
        (N, 5, 0, -1, ANY),
        (N, 0, ANY, 1, ANY),
        (N, ANY, END, 1, ANY),
        (ANY, 0, END, 1, ANY),
        (ANY, 0, 0, 1, 0),
        (8, 0, N, 1, smaller(8, N)),
        (smaller(N, M) + 4, 0, 4, 1, 4),
        (N - 1, 0, 3, 1, smaller(3, N - 1)),
        (N - 1, 0, N, 1, smaller(N, N - 1)),
        (extreme("min", N - 4, M) + 4, 0, 4, 1, smaller(4, extreme("min", N - 4, M) + 4)),  # 0 for N = 0
        (8, N, END, 1, positive_part(8 - N)),
    ],
)
def test_lengths(size: Dim, begin: Dim, end: Dim, stride: int, expected: Dim) -> None:
    assert slice_length(size, begin, end, stride) == expected


def test_slices_are_clamped_as_by_onnx_runtime() -> None:
    """Starts and ends beyond either end of the axis, or at it, in both directions."""
    graph = onnx.parser.parse_graph(
        "g (int64[n] x, int64[1] b, int64[1] e, int64[1] a, int64[1] s) => (int64[m] y) { y = Slice(x, b, e, a, s) }"
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    edges = (-END, -FAR, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, FAR, FAR + 1, END)
    strided, dynamic = get_op("strided_slice").kernel, get_op("dyn.strided_slice").kernel
    assert strided is not None
    assert dynamic is not None
    for size, begin, end, stride in itertools.product(range(4), edges, edges, (1, 2, -1, -2, -5)):
        operands = [np.arange(size), *(np.array([each]) for each in (begin, end, stride, 0))]
        feed = dict(zip("xbesa", operands, strict=True))
        expected = session.run(None, feed)[0].tolist()
        case = (size, begin, end, stride)
        assert list(taken_places(*case)) == expected, case
        assert slice_length(*case) == len(expected), case
        assert strided(operands[0], begin=(begin,), end=(end,), strides=(stride,), axes=(0,)).tolist() == expected, case
        assert dynamic(*operands).tolist() == expected, case


def test_bounds() -> None:
    assert least(ANY) is None
    assert least(N * M + 2) == 2
    assert least((N - 3) // 2) == -2
    assert least((N - M) // 2) is None
    assert least((N + 3) // 2) == 1
    assert least((N + M) // 2) == 0
    assert least(positive_part(N - 3)) == 0
    assert positive_part(ANY) is ANY
    assert positive_part(-3) == 0
    assert smaller(ANY, 0) == 0
    assert smaller(ANY, 1) is ANY
    assert ceiling(N, 1) == N


def test_sizes_of_the_two_parts_of_an_axis_add_up() -> None:
    for size in (N, 4 * ((N + 3) // 4), N * M):
        for cut in (2, M + 1):
            assert smaller(cut, size) + positive_part(size - cut) == size
            assert positive_part(cut - size) * 3 + smaller(cut, size) * 3 == 3 * cut
            assert repr(smaller(cut, size) + 2 * positive_part(size - cut)).count("max(0, ") == 1


def test_a_slice_from_the_end_of_a_slice_has_indices_of_64_bits() -> None:
    merged = compose_slices((N,), attrs_of((1, END, 1), 0), attrs_of((END, END, 1), 0))
    assert merged == attrs_of((END, END, 1), 0)


parts = st.tuples(ends, ends, strides)


def attrs_of(part: tuple[int, int, int], axis: int) -> dict[str, AnyValue]:
    return {"begin": (part[0],), "end": (part[1],), "strides": (part[2],), "axes": (axis,)}


@settings(max_examples=share(52, 300))
@given(size=st.integers(0, 7), hidden=st.booleans(), first=parts, then=parts, same_axis=st.booleans())
def test_two_slices_as_one(
    bench: "Bench", size: int, hidden: bool, first: tuple[int, int, int], then: tuple[int, int, int], same_axis: bool
) -> None:
    a, b = attrs_of(first, 0), attrs_of(then, 0 if same_axis else -1)
    merged = compose_slices((N if hidden else size, 5), a, b)
    if merged is None:
        assert hidden
        assert same_axis
        return
    array = np.arange(size * 5).reshape(size, 5)
    once = bench.value("strided_slice", [array], **merged)
    np.testing.assert_array_equal(once, bench.value("strided_slice", [bench.value("strided_slice", [array], **a)], **b))


def test_the_stride_of_one_place_does_not_grow() -> None:
    one, far = attrs_of((-1, -2, -1), 0), attrs_of((0, -END, -(2**31)), 0)
    assert compose_slices((1,), one, far) == compose_slices((1,), far, far) == attrs_of((0, 1, 1), 0)


def test_axes_that_both_slices_take_whole_are_left_out() -> None:
    first = {"begin": (0, 2), "end": (END, END), "strides": (1, 1), "axes": (0, 1)}
    assert compose_slices((N, 9), first, attrs_of((1, END, 1), 1)) == attrs_of((3, 9, 1), 1)
    assert compose_slices((N,), attrs_of((0, END, 1), 0), attrs_of((0, END, 1), 0)) == attrs_of((0, END, 1), 0)


def test_slices_of_symbolic_sizes_compose() -> None:
    assert compose_slices((N,), attrs_of((2, END, 1), 0), attrs_of((1, 4, 1), 0)) == attrs_of((3, 6, 1), 0)
    assert compose_slices((N,), attrs_of((2, 5, 1), 0), attrs_of((1, FAR, 1), 0)) == attrs_of((3, 5, 1), 0)
    assert compose_slices((N,), attrs_of((0, FAR, 1), 0), attrs_of((-1, -END, -1), 0)) == attrs_of((-1, -END, -1), 0)
    assert compose_slices((N,), attrs_of((-2, END, 1), 0), attrs_of((1, END, 1), 0)) is None


@settings(max_examples=share(18, 100))
@given(size=st.integers(0, 4), part=parts)
def test_calls_without_effect(bench: "Bench", size: int, part: tuple[int, int, int]) -> None:
    attrs = attrs_of(part, 0)
    array = np.arange(size)
    kept = bench.value("strided_slice", [array], **attrs)
    assert is_identity_slice(TensorType((size,), "int64"), attrs) == np.array_equal(kept, array)
    if is_identity_slice(TensorType((N,), "int64"), attrs):
        np.testing.assert_array_equal(kept, array)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"begin": (0, 1), "end": (2,)}, "begin, end, strides and axes have different lengths: 2, 1, 2, 2"),
        ({"begin": (0,), "end": (2,), "axes": (2,)}, "axis 2 is out of range for 2 dimensions"),
        ({"begin": (0, 0), "end": (2, 2), "axes": (0, -2)}, r"axes=\(0, -2\) names an axis twice"),
        ({"begin": (0,), "end": (2,), "strides": (0,)}, "a stride is 0"),
    ],
)
def test_errors(attrs: dict[str, AnyValue], message: str) -> None:
    op = get_op("strided_slice")
    with pytest.raises(OpTypeError, match=message):
        op.infer([TensorType((4, 4))], op.bind_attrs(attrs))


def test_types_keep_symbols(bench: "Bench") -> None:
    op = get_op("strided_slice")
    found = op.infer([TensorType((N, M, 4))], op.bind_attrs({"begin": (0, 1), "end": (END, 3), "axes": (0, 2)}))
    assert found == TensorType((N, M, 2))
    assert not isinstance(slice_length(N, 2, END, 3), Any)
