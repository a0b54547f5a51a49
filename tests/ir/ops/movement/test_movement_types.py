"""Types of operators that move, join, select and create elements: symbols are kept, and mistakes are reported."""

from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost
from passat.ir.op import OpTypeError, get_op
from passat.ir.ops.movement import (
    compose_permutations,
    inverse_permutation,
    is_identity_permutation,
    is_reshaping_permutation,
)
from passat.ir.shape import ANY, SymDim
from passat.ir.types import TensorType, TupleType, Type
from tests.share import share

N, M = SymDim.named("n"), SymDim.named("m")
I1, I2, SCALAR = TensorType((5,), "int64"), TensorType((5, 2), "int64"), TensorType()


def tensor(*shape: AnyValue) -> TensorType:
    return TensorType(shape)


def pair(*fields: Type) -> TupleType:
    return TupleType(fields)


def infer(name: str, *types: Type, **attrs: AnyValue) -> Type:
    return get_op(name).infer(types, get_op(name).bind_attrs(attrs))


@pytest.mark.parametrize(
    ("name", "types", "attrs", "expected"),
    [
        ("transpose", [tensor(N, 3, ANY)], {}, tensor(ANY, 3, N)),
        ("transpose", [tensor(N, 3, 4)], {"axes": (-1, 0, 1)}, tensor(4, N, 3)),
        ("squeeze", [tensor(N, 3, M)], {"axis": (0, 2)}, tensor(3)),
        ("squeeze", [tensor(1, 3, 1)], {"axis": -1}, tensor(1, 3)),
        ("expand_dims", [tensor(N, 3)], {"axis": -2}, tensor(N, 1, 3)),
        ("expand_dims", [tensor(N, 3)], {"axis": 1, "num_newaxis": 2}, tensor(N, 1, 1, 3)),
        ("expand_dims", [tensor(N, 3)], {"axis": (0, -1)}, tensor(1, N, 3, 1)),
        ("nn.batch_flatten", [tensor(N, M, 4)], {"axis": 2}, tensor(N * M, 4)),
        ("nn.batch_flatten", [tensor()], {"axis": 0}, tensor(1, 1)),
        ("concatenate", [pair(tensor(N, 3), tensor(ANY, 2), tensor(4, M))], {"axis": 1}, tensor(4, M + 5)),
        ("concatenate", [pair(tensor(N, 3), tensor(N, ANY))], {"axis": -1}, tensor(N, ANY)),
        ("stack", [pair(tensor(N, 3), tensor(ANY, 3))], {"axis": 1}, tensor(N, 2, 3)),
        ("broadcast_to", [tensor(N, 1)], {"shape": (2, 1, 4)}, tensor(2, N, 4)),
        ("broadcast_to", [tensor(N, 1)], {"shape": (5, 4)}, tensor(5, 4)),
        ("tile", [tensor(N, 2)], {"reps": (3, 1, 2)}, tensor(3, N, 4)),
        ("repeat", [tensor(N, 2)], {"repeats": 3, "axis": 0}, tensor(3 * N, 2)),
        ("repeat", [tensor(N, 2)], {"repeats": 3}, tensor(6 * N)),
        ("reverse", [tensor(N, 2)], {"axis": 0}, tensor(N, 2)),
        ("split", [tensor(N, 6)], {"indices_or_sections": 2}, pair(tensor(N // 2, 6), tensor(N // 2, 6))),
        ("split", [tensor(N + 5, 6)], {"indices_or_sections": (2, 5)}, pair(tensor(2, 6), tensor(3, 6), tensor(N, 6))),
        ("nn.pad", [tensor(N, 6)], {"pad_width": ((1, 2), (-1, 0))}, tensor(N + 3, 5)),
        ("nn.depth_to_space", [tensor(N, 8, M, 3)], {"block_size": 2}, tensor(N, 2, 2 * M, 6)),
        ("nn.space_to_depth", [tensor(N, 2, 2 * M, 6)], {"block_size": 2}, tensor(N, 8, M, 3)),
        ("nn.space_to_batch_nd", [tensor(N, 5, 4, M)], {"block_shape": (2, 1), "paddings": ((1, 0), (0, 2))}, tensor(2 * N, 3, 6, M)),
        ("nn.batch_to_space_nd", [tensor(2 * N, 3, 6, M)], {"block_shape": (2, 1), "crops": ((1, 0), (0, 2))}, tensor(N, 5, 4, M)),
        ("take", [tensor(N, 6), I2], {"axis": 1}, tensor(N, 5, 2)),
        ("take", [tensor(N, 6), I2], {}, tensor(5, 2)),
        ("gather", [tensor(N, 6), I2], {"axis": 1}, tensor(5, 2)),
        ("gather_nd", [tensor(N, M, 4), I2], {}, tensor(5, 4)),
        ("gather_nd", [tensor(5, M, N, 4), I2], {"batch_dims": 1}, tensor(5, 4)),
        ("one_hot", [TensorType((N,), "int32"), SCALAR, SCALAR], {"depth": 7, "axis": 0}, tensor(7, N)),
        ("topk", [tensor(N, 6)], {"k": 2}, pair(tensor(N, 2), TensorType((N, 2), "int64"))),
        ("shape_of", [tensor(N, ANY, 2)], {"start": -2, "dtype": "int32"}, TensorType((2,), "int32")),
        ("full_like", [tensor(N, 2), SCALAR], {}, tensor(N, 2)),
    ],
)
def test_types(name: str, types: list[Type], attrs: dict[str, AnyValue], expected: Type) -> None:
    assert infer(name, *types, **attrs) == expected


@pytest.mark.parametrize(
    ("name", "types", "attrs", "message"),
    [
        (
            "transpose",
            [tensor(2, 3)],
            {"axes": (0, 0)},
            r"transpose\(Tensor\[\(2, 3\), float32\]; axes=\(0, 0\)\): axes=\(0, 0\) is not a permutation of 2 axes",
        ),
        ("squeeze", [tensor(2, 3)], {"axis": (0,)}, "axis 0 has size 2; only axes of size 1 can be removed"),
        ("squeeze", [tensor(N, 3)], {}, "requires a static shape"),
        ("squeeze", [tensor(1, 3)], {"axis": 2}, r"axis=\(2,\) is out of range for 2 dimensions"),
        ("expand_dims", [tensor(1, 3)], {"axis": (0, 0)}, r"axis=\(0, 0\) names an axis twice"),
        ("expand_dims", [tensor(1, 3)], {"axis": 4}, "axis=4 is out of range for 2 dimensions"),
        ("expand_dims", [tensor(1, 3)], {"axis": (0,), "num_newaxis": 2}, "num_newaxis requires an integer axis"),
        ("nn.batch_flatten", [tensor(1, 3)], {"axis": 3}, "axis=3 is out of range for 2 dimensions"),
        ("concatenate", [tensor(2)], {}, r"takes a tuple of at least one tensor, not Tensor\[\(2,\), float32\]"),
        ("concatenate", [pair(tensor(2, 3), tensor(3, 2))], {"axis": 0}, "axis 1: sizes 3 and 2 must be equal"),
        (
            "concatenate",
            [pair(tensor(2), I1)],
            {},
            "all fields must have the same element type and rank, but field 1 is .*int64.* and field 0 is .*float32.*",
        ),
        ("concatenate", [pair(tensor(2), tensor(2))], {"axis": 1}, r"Tensor\[\(2,\), float32\] has no axis 1"),
        ("stack", [pair(tensor(2), tensor(2))], {"axis": 2}, "axis=2 is out of range for a result of 2 dimensions"),
        ("broadcast_to", [tensor(3)], {"shape": (4,)}, "3 against 4"),
        ("broadcast_to", [tensor(3)], {"shape": (-1,)}, "negative entry"),
        ("tile", [tensor(3)], {"reps": (-1,)}, "negative entry"),
        ("repeat", [tensor(3)], {"repeats": -1}, "repeats=-1 is negative"),
        ("reverse", [tensor(3)], {"axis": 1}, "has no axis 1"),
        ("split", [tensor(7)], {"indices_or_sections": 2}, "a size of 7 cannot be split into 2 equal parts"),
        (
            "split",
            [tensor(7)],
            {"indices_or_sections": (4, 2)},
            r"indices_or_sections=\(4, 2\) must be increasing positions within a size of 7",
        ),
        ("nn.pad", [tensor(7)], {"pad_width": ((1, 1), (1, 1))}, "pad_width has 2 pairs for 1 dimension"),
        ("nn.pad", [tensor(3)], {"pad_width": ((-2, -2),)}, r"pad_width \(-2, -2\) crops more than a size of 3"),
        ("nn.pad", [tensor(3)], {"pad_width": ((1, 1),), "pad_mode": "mirror"}, "pad_mode must be one of constant, edge, reflect, wrap"),
        ("nn.pad", [I1], {"pad_width": ((1, 1),), "pad_value": 0.5}, "pad_value=0.5 is not a valid int64"),
        ("nn.depth_to_space", [tensor(1, 6, 2, 2)], {"block_size": 2}, "the number of channels 6 is not a multiple of 4"),
        ("nn.space_to_depth", [tensor(1, 6, 2)], {"block_size": 2}, "must have 4 dimensions"),
        (
            "nn.space_to_batch_nd",
            [tensor(1, 5)],
            {"block_shape": (2,), "paddings": ((0, 0),)},
            "5 elements with the padding cannot be divided",
        ),
        ("nn.space_to_batch_nd", [tensor(1)], {"block_shape": (2,), "paddings": ((0, 0),)}, "a batch and 1 spatial dimension"),
        ("nn.batch_to_space_nd", [tensor(3, 5)], {"block_shape": (2,), "crops": ((0, 0),)}, "a batch of 3 is not divisible"),
        ("nn.batch_to_space_nd", [tensor(4, 5)], {"block_shape": (2,), "crops": ((0, -1),)}, "numbers that are not negative"),
        ("nn.batch_to_space_nd", [tensor(4, 5)], {"block_shape": (0,), "crops": ((0, 1),)}, "contains a number less than 1"),
        ("nn.depth_to_space", [tensor(1, 4, 2, 2)], {"block_size": 2, "mode": "X"}, "mode='X'"),
        ("take", [tensor(3), tensor(2)], {}, "indices must be int32 or int64, but have element type float32"),
        ("gather", [tensor(3), I2], {}, "data and indices must have equally many dimensions, but have 1 and 2"),
        ("gather", [tensor(9, 1), I2], {}, "indices have size 2 in axis 1, but data has 1"),
        ("gather_nd", [tensor(3), I2], {}, "indices need 2 axes after 0 batch dimensions, but data has 1 dimension"),
        ("gather_nd", [tensor(3, 4), TensorType((2, N), "int64")], {}, "the last dimension of indices must be static, but indices are .*"),
        ("gather_nd", [tensor(3, 2, 2), I2], {"batch_dims": 1}, "batch dimension 0 has size 3 in data but 5 in indices"),
        ("scatter_elements", [tensor(9), I1, tensor(4)], {}, r"updates must have shape \(5,\), but have \(4,\)"),
        (
            "scatter_elements",
            [tensor(9), I1, tensor(5)],
            {"reduction": "or"},
            "reduction must be one of none, add, mul, max, min, not 'or'",
        ),
        ("scatter_nd", [tensor(9, 9, 2), I2, tensor(5)], {}, r"updates must have shape \(5, 2\), but have \(5,\)"),
        (
            "scatter_nd",
            [tensor(9, 9), I2, I1],
            {},
            "data has element type float32, but updates have int64; cast one",
        ),
        ("full", [tensor(1)], {"shape": (2,)}, r"fill_value must be a scalar, but is Tensor\[\(1,\), float32\]"),
        ("full", [SCALAR], {"shape": (2,), "dtype": "int8"}, "fill_value has element type float32, but must have int8; cast it"),
        ("full", [SCALAR], {"shape": (-2,)}, r"shape=\(-2,\) contains an invalid size"),
        ("zeros", [], {"shape": (2,), "dtype": "string"}, "strings have no zeros and ones"),
        ("shape_of", [tensor(1)], {"dtype": "int8"}, "dtype must be int32 or int64, not 'int8'"),
        ("arange", [SCALAR, SCALAR, TensorType((), "int64")], {}, "must have one signed numeric type, but have float32, float32, int64"),
        ("one_hot", [I1, SCALAR, TensorType((), "int8")], {"depth": 3}, "off_value has element type int8, but must have float32"),
        ("one_hot", [I1, SCALAR, SCALAR], {"depth": 3, "axis": 2}, "axis=2 is out of range for a result of 2 dimensions"),
        ("trilu", [tensor(3)], {}, "data must be numbers with at least 2 dimensions"),
        ("topk", [tensor(3)], {"k": 4}, "k=4 is out of range for a size of 3"),
    ],
)
def test_errors(name: str, types: list[Type], attrs: dict[str, AnyValue], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        infer(name, *types, **attrs)


permutations = st.integers(0, 5).flatmap(lambda rank: st.tuples(st.permutations(range(rank)), st.permutations(range(rank))))


@settings(max_examples=share(40, 100))
@given(pair=permutations)
def test_permutations(pair: tuple[list[int], list[int]]) -> None:
    first, then = pair
    array = np.arange(int(np.prod(range(2, 2 + len(first)), dtype=int))).reshape(tuple(range(2, 2 + len(first))))
    both = array.transpose(first).transpose(then)
    np.testing.assert_array_equal(array.transpose(compose_permutations(first, then)), both)
    assert is_identity_permutation(compose_permutations(first, inverse_permutation(first)))
    assert is_identity_permutation(first) == (list(first) == sorted(first))


@settings(max_examples=share(40, 100))
@given(shape=st.lists(st.integers(1, 3), max_size=4), data=st.data())
def test_transposes_that_are_reshapes(shape: list[int], data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(len(shape))))
    array = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    moved = array.transpose(axes)
    assert is_reshaping_permutation(tuple(shape), axes) == np.array_equal(moved, array.reshape(moved.shape))


def test_reshapes_cost_nothing_and_copies_their_bytes() -> None:
    x = tensor(4, 8)
    attrs = get_op("reshape").bind_attrs({"newshape": (32,)})
    assert get_op("reshape").cost([x], tensor(32), attrs) == Cost(0.0, 0.0)
    assert get_op("transpose").cost([x], tensor(8, 4), get_op("transpose").bind_attrs({})) == Cost(32.0, 256.0)


def test_a_slice_reads_what_it_writes() -> None:
    for name, indices in (("strided_slice", []), ("dyn.strided_slice", [TensorType((1,), "int64")] * 4)):
        assert get_op(name).cost([tensor(1000, 4), *indices], tensor(2, 4), Attrs()) == Cost(8.0, 64.0)


def test_traits() -> None:
    moving = (
        "reshape transpose squeeze expand_dims nn.batch_flatten concatenate stack split strided_slice broadcast_to tile repeat reverse full"
    )
    assert all(get_op(name).movement for name in moving.split())
    assert not any(get_op(name).movement for name in ("nn.pad", "take", "gather", "trilu", "one_hot", "dyn.reshape", "full_like"))
