"""The static forms of dyn.* operators: both forms are equal for all sizes that the symbols can have."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.evaluate import EvaluateError
from passat.ir.op import KnownValue, OpTypeError, get_op
from passat.ir.ops.slicing import END
from passat.ir.ops.static_forms import StaticForm, static_form
from passat.ir.shape import ANY, Any, Dim, Shape, SymDim
from passat.ir.tensor import Array, Tensor
from passat.ir.types import IncompleteType, TensorType, TupleType, Type
from tests.share import share

if TYPE_CHECKING:
    from tests.ir.ops.movement.conftest import Bench

N, M = SymDim.named("n"), SymDim.named("m")
SIZES = {"n": 3, "m": 4}

entries = st.sampled_from([0, 1, 2, 3, 4, 6, 12, -1, N, M, N * M, 2 * N, N + 1, ANY])
shapes = st.lists(st.sampled_from([0, 1, 2, 3, 4, N, M, 2 * N, N * M, N + 1]), min_size=0, max_size=4).map(tuple)
named = st.fixed_dictionaries({"n": st.integers(0, 4), "m": st.integers(1, 4)})


def known(dims: Sequence[Dim]) -> KnownValue:
    array = np.empty(len(dims), np.object_)
    array[:] = dims
    return array


def vector(length: int) -> TensorType:
    return TensorType((length,), "int64")


def form_of(op: str, data: Type, *operands: Sequence[Dim] | None, **attrs: AnyValue) -> StaticForm | None:
    """The static form of a call on `data` and vectors with these known elements."""
    types = [data, *(vector(0 if dims is None else len(dims)) for dims in operands)]
    values = [None, *(None if dims is None else known(dims) for dims in operands)]
    return static_form(op, types, values, get_op(op).bind_attrs(attrs))


def instances(dims: Sequence[Dim], sizes: dict[str, int], unknown: Sequence[int], bench: "Bench") -> list[int]:
    given = iter(unknown)
    found = [next(given) if isinstance(dim, Any) else bench.run_dim(dim, sizes) for dim in dims]
    return [dim for dim in found if dim is not None]


def attempt(bench: "Bench", op: str, operands: Sequence[Array], **attrs: AnyValue) -> Array | None:
    try:
        found = bench.value(op, operands, **attrs)
    except (EvaluateError, OpTypeError):
        return None
    assert isinstance(found, np.ndarray)
    return found


@settings(max_examples=share(88, 500))
@given(
    shape=shapes,
    dims=st.lists(entries, max_size=4),
    sizes=named,
    allowzero=st.booleans(),
    unknown=st.lists(st.integers(0, 12), min_size=4, max_size=4),
)
def test_reshape(bench: "Bench", shape: Shape, dims: list[Dim], sizes: dict[str, int], allowzero: bool, unknown: list[int]) -> None:
    try:
        form = form_of("dyn.reshape", TensorType(shape), dims, allowzero=allowzero)
    except OpTypeError:
        return
    concrete = instances(shape, sizes, (), bench)
    array = np.arange(np.prod(concrete, dtype=int), dtype=np.float32).reshape(concrete)
    dynamic = attempt(bench, "dyn.reshape", [array, np.array(instances(dims, sizes, unknown, bench), np.int64)], allowzero=allowzero)
    if form is None or dynamic is None or not (array.size or allowzero):
        return  # an empty tensor may have any shape; except for allowzero, the static form is for non-empty ones
    assert form.operands == (0,)
    np.testing.assert_array_equal(bench.value(form.op, [array], **form.attrs), dynamic)


@settings(max_examples=share(52, 300))
@given(
    shape=shapes,
    dims=st.lists(entries.filter(lambda dim: dim != -1), max_size=4),
    sizes=named,
    unknown=st.lists(st.integers(0, 4), min_size=4, max_size=4),
)
def test_broadcast_to(bench: "Bench", shape: Shape, dims: list[Dim], sizes: dict[str, int], unknown: list[int]) -> None:
    form = form_of("dyn.broadcast_to", TensorType(shape), dims)
    concrete = instances(shape, sizes, (), bench)
    array = np.arange(np.prod(concrete, dtype=int), dtype=np.float32).reshape(concrete)
    dynamic = attempt(bench, "dyn.broadcast_to", [array, np.array(instances(dims, sizes, unknown, bench), np.int64)])
    if form is not None and dynamic is not None:
        np.testing.assert_array_equal(bench.value(form.op, [array], **form.attrs), dynamic)


places = st.one_of(st.integers(-5, 5), st.sampled_from([END, -END, N, N + 1, N - 1, M, N + M, ANY]))


@settings(max_examples=share(70, 400))
@given(
    size=st.sampled_from([4, N, N + 2, N + M]),
    begin=places,
    end=places,
    stride=st.sampled_from([1, 2, -1]),
    sizes=named,
    unknown=st.integers(-5, 5),
)
def test_strided_slice(bench: "Bench", size: Dim, begin: Dim, end: Dim, stride: int, sizes: dict[str, int], unknown: int) -> None:
    form = form_of("dyn.strided_slice", TensorType((2, size)), [begin], [end], [stride], [-1])
    array = np.arange(2 * instances([size], sizes, (), bench)[0], dtype=np.float32).reshape(2, -1)
    operands = [np.array(instances([dim], sizes, [unknown], bench), np.int64) for dim in (begin, end, stride, -1)]
    if form is not None:
        np.testing.assert_array_equal(bench.value(form.op, [array], **form.attrs), bench.value("dyn.strided_slice", [array, *operands]))


def test_forms() -> None:
    x = TensorType((N, M, 768))
    assert form_of("dyn.reshape", x, [N, M, 12, 64]) == StaticForm("reshape", (0,), {"newshape": (0, 0, 12, 64), "allowzero": False})
    assert form_of("dyn.reshape", x, [N, M, ANY, 64]) == StaticForm("reshape", (0,), {"newshape": (0, 0, 12, 64), "allowzero": False})
    assert form_of("dyn.reshape", x, [N * M, 768]) == StaticForm("reshape", (0,), {"newshape": (-1, 768), "allowzero": False})
    assert form_of("dyn.reshape", x, [0, ANY, -1]) is None
    assert form_of("dyn.reshape", TensorType((N, ANY)), [N, 2, ANY, 4], allowzero=True) is None
    assert form_of("dyn.reshape", TensorType((N * M, 8)), [N, M, 8]) is None
    assert form_of("dyn.reshape", TensorType((ANY, ANY, 8)), [0, 0, 2, ANY]) == StaticForm(
        "reshape", (0,), {"newshape": (0, 0, 2, 4), "allowzero": False}
    )
    assert form_of("dyn.broadcast_to", TensorType((1, M)), [3, M]) == StaticForm("broadcast_to", (0,), {"shape": (3, 1)})
    assert form_of("dyn.broadcast_to", TensorType((5,)), [2, ANY]) == StaticForm("broadcast_to", (0,), {"shape": (2, 1)})
    assert form_of("dyn.broadcast_to", TensorType((1,)), [M]) is None
    assert form_of("dyn.full", TensorType(), [2, 3]) == StaticForm("full", (0,), {"shape": (2, 3), "dtype": None})
    assert form_of("dyn.full", TensorType(), [2, N]) is None
    assert form_of("dyn.tile", x, [1, 2, 3]) == StaticForm("tile", (0,), {"reps": (1, 2, 3)})
    assert form_of("dyn.tile", x, [1, N, 3]) is None
    assert form_of("dyn.strided_slice", x, [0], [M], [1], [1]) == StaticForm(
        "strided_slice", (0,), {"begin": (0,), "end": (END,), "strides": (1,), "axes": (1,)}
    )
    assert form_of("dyn.strided_slice", x, [0], [N], [1], [1]) is None
    assert form_of("dyn.topk", x, [5], axis=1) == StaticForm("topk", (0,), {"k": 5, "axis": 1, "largest": True, "sorted": True})
    assert form_of("dyn.topk", x, [N]) is None
    assert static_form("reshape", [x], [None], Attrs(newshape=(-1,), allowzero=False)) is None


def test_pads_and_one_hots() -> None:
    x, scalar = TensorType((2, 3)), TensorType()
    types, values = [x, vector(4), scalar], [None, known([0, 1, 2, 0]), None]
    attrs = get_op("dyn.pad").bind_attrs({})
    assert static_form("dyn.pad", types, values, attrs) is None  # the value is unknown
    found = static_form("dyn.pad", types, values, attrs, [None, None, Tensor.dense(np.float32(1.5))])
    assert found == StaticForm("nn.pad", (0,), {"pad_width": ((0, 2), (1, 0)), "pad_mode": "constant", "pad_value": 1.5})
    edge = get_op("dyn.pad").bind_attrs({"pad_mode": "edge"})
    found = static_form("dyn.pad", types, values, edge)
    assert found is not None
    assert found.attrs["pad_mode"] == "edge"
    assert static_form("dyn.pad", types, [None, known([0, -1, 2, 0]), None], edge) is None
    whole = [TensorType((2,), "int64"), vector(4), TensorType((), "int64")]
    found = static_form("dyn.pad", whole, [None, known([0, 1]), known([2**60 + 1])], attrs)
    assert found is not None
    assert found.attrs["pad_value"] == 2**60 + 1
    types = [TensorType((2,), "int64"), TensorType((), "int64"), scalar, scalar]
    depth = np.array(7, np.object_)
    hot = get_op("dyn.one_hot").bind_attrs({})
    assert static_form("dyn.one_hot", types, [None, depth, None, None], hot) == StaticForm(
        "one_hot", (0, 2, 3), {"depth": 7, "axis": -1, "dtype": None}
    )
    assert static_form("dyn.one_hot", types, [None, None, None, None], hot) is None


@pytest.mark.parametrize(
    ("op", "data", "operands", "expected"),
    [
        ("dyn.reshape", TensorType((N, 768)), [[N, 12, ANY]], TensorType((N, 12, 64))),
        ("dyn.reshape", TensorType((N, 768)), [None], IncompleteType()),
        ("dyn.broadcast_to", TensorType((1, M)), [[N, 1]], TensorType((N, M))),
        ("dyn.broadcast_to", TensorType((1, 4)), [[ANY, ANY]], TensorType((ANY, 4))),
        ("dyn.full", TensorType(), [[N, ANY, 2]], TensorType((N, ANY, 2))),
        ("dyn.tile", TensorType((N, 2)), [[3, M]], TensorType((3 * N, 2 * M))),
        ("dyn.pad", TensorType((N, 2)), [[1, ANY, 2, 3]], TensorType((N + 3, ANY))),
        ("dyn.strided_slice", TensorType((N, M)), [[ANY], [END], [1], [0]], TensorType((ANY, M))),
        ("dyn.strided_slice", TensorType((N + M, 4)), [[N], [END], [1], [0]], TensorType((M, 4))),
        ("dyn.strided_slice", TensorType((N, M)), [[0], [END], [1], [ANY]], TensorType((ANY, ANY))),
        ("dyn.topk", TensorType((4, M)), [[ANY]], TupleType([TensorType((4, ANY)), TensorType((4, ANY), "int64")])),
    ],
)
def test_types_use_known_values(op: str, data: TensorType, operands: list[list[Dim] | None], expected: Type) -> None:
    types: list[Type] = [data, *(TensorType((ANY,) if dims is None else (len(dims),), "int64") for dims in operands)]
    values = [None, *(None if dims is None else known(dims) for dims in operands)]
    if op == "dyn.pad":
        types.append(TensorType())
        values.append(None)
    assert get_op(op).infer(types, get_op(op).bind_attrs({}), values) == expected


@pytest.mark.parametrize(
    ("op", "types", "dims", "message"),
    [
        (
            "dyn.reshape",
            [TensorType((2, 3)), TensorType((1,), "float32")],
            None,
            r"shape must be a vector of int32 or int64, but is Tensor\[\(1,\), float32\]",
        ),
        ("dyn.reshape", [TensorType((2, 3)), vector(2)], [4, -2], "shape has the invalid entry -2"),
        ("dyn.reshape", [TensorType((2, 3)), vector(1)], [4], r"\(2, 3\) has 6 elements, but \(4,\) has 4"),
        ("dyn.broadcast_to", [TensorType((2, 3)), vector(1)], [4], r"shapes \(2, 3\) and \(4,\) do not broadcast"),
        ("dyn.full", [TensorType((1,)), vector(1)], [4], r"fill_value must be a scalar, but is Tensor\[\(1,\), float32\]"),
        ("dyn.tile", [TensorType((2, 3)), vector(1)], [4], "reps has 1 entry, but data has 2 dimensions"),
        ("dyn.topk", [TensorType((2, 3)), vector(1)], [4], "k=4 is out of range for a size of 3"),
        ("dyn.topk", [TensorType((2, 3)), vector(2)], None, r"k must be a single int32 or int64, but is Tensor\[\(2,\), int64\]"),
    ],
)
def test_errors(op: str, types: list[Type], dims: list[Dim] | None, message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        get_op(op).infer(types, get_op(op).bind_attrs({}), None if dims is None else [None, known(dims)])


def test_slices_with_lists_of_different_lengths() -> None:
    op = get_op("dyn.strided_slice")
    with pytest.raises(OpTypeError, match="different lengths"):
        op.infer([TensorType((2, 3)), vector(1), vector(2), vector(1), vector(1)], op.bind_attrs({}))
    with pytest.raises(OpTypeError, match=r"axes=\(0, -2\) names an axis twice"):
        op.infer([TensorType((2, 3)), *[vector(2)] * 4], op.bind_attrs({}), [None, *[known([1, 1])] * 3, known([0, -2])])
    with pytest.raises(OpTypeError, match="a stride is 0"):
        op.infer([TensorType((2, 3)), *[vector(1)] * 4], op.bind_attrs({}), [None, *[known([0])] * 4])
