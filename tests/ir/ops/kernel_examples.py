"""Calls of every operator, on which kernels are compared with ONNX Runtime: shapes that are filled with values, and attributes.

An elementwise operator whose attributes all have defaults needs no example. A new operator of another kind does.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any as AnyValue
from typing import NamedTuple

import ml_dtypes
import numpy as np

from passat.ir.op import Op
from passat.ir.tensor import Array
from tests.ir.ops.kernel_values import extremes

Filled = tuple[int, ...]
"""The shape of an operand that is filled with values of the element type."""
Operand = Filled | Array | list[Filled]
"""An operand: filled, given, or a tuple of filled ones."""


class Example(NamedTuple):
    """Operands and attributes of a call."""

    operands: tuple[Operand, ...]
    attrs: dict[str, AnyValue]

    @property
    def is_filled(self) -> bool:
        """True if there is an operand to fill."""
        return any(not isinstance(operand, np.ndarray) for operand in self.operands)

    @property
    def is_spread(self) -> bool:
        """True if all values are combined with each other."""
        return any(
            operand == PAIR or (isinstance(operand, list) and PAIR in operand)
            for operand in self.operands
            if not isinstance(operand, np.ndarray)
        )


def call(*operands: Operand, **attrs: AnyValue) -> Example:
    return Example(operands, attrs)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def examples_of(op: Op) -> Sequence[Example]:
    """The examples of an operator. Raises KeyError if it needs some and has none."""
    if op.name in EXAMPLES:
        return EXAMPLES[op.name]
    if not op.elementwise or any(
        default is not op.defaults[name] or not isinstance(default, PLAIN) for name, default in op.defaults.items()
    ):
        raise KeyError(op.name)
    if op.operand_names == ("tensors",):
        return [call([PAIR, PAIR, PAIR]), call([PAIR]), call([PAIR, PAIR])]
    return [call(*[PAIR] * op.arity)]


PLAIN = (bool, int, float, str, type(None))
PAIR: Filled = (-1,)
"""Stands for all pairs or triples of values: operand i has them along axis i."""

INDICES = np.array([[0, 2, -1], [1, 1, 0]])
ROWS: list[dict[str, AnyValue]] = [
    {"axis": (1,)},
    {"axis": (-1,), "keepdims": True},
    {},
    {"axis": (0,), "exclude": True},
]


def _reductions() -> list[Example]:
    shapes: list[Filled] = [(150, 3), (70, 4), (11, 4), (5, 7)]
    return [
        *(call(shape, **attrs) for shape, attrs in zip(shapes, ROWS, strict=True)),
        call((3, 40, 2), axis=(0, 2)),
        call((3, 130), axis=(1,)),
    ]


def _pools(rank: int, **more: AnyValue) -> Iterator[Example]:
    shape, size = (2, 3, 9, 7, 5)[: rank + 2], (2, 3, 2)[:rank]
    yield call(shape, pool_size=size, **more)
    yield call(shape, pool_size=size, strides=(2,) * rank, padding=(1,) * 2 * rank, **more)
    yield call(shape, pool_size=(3,) * rank, strides=(2, 1, 2)[:rank], padding=(1,) * rank + (0,) * rank, dilation=(2, 2, 1)[:rank], **more)


def _ranges() -> Iterator[Example]:
    for dtype, (start, stop, step) in product(("int16", "int32", "int64", "float32", "float64"), ((1, 9, 2), (5, -5, -3), (0, 0, 1))):
        yield call(np.array(start, dtype), np.array(stop, dtype), np.array(step, dtype))
    yield call(np.array(0, np.float32), np.array(1, np.float32), np.array(0.1, np.float32))


def _of_rank(rank: int) -> dict[str, list[Example]]:
    """The examples of operators with a variant for each number of spatial dimensions."""
    space, window = (7, 5, 6)[:rank], (3, 2, 2)[:rank]
    more = {"groups": 2, "strides": (2,) * rank, "padding": (1,) * 2 * rank}
    return {
        f"nn.max_pool{rank}d": [*_pools(rank), *_pools(rank, ceil_mode=True)],
        f"nn.avg_pool{rank}d": [*_pools(rank), *_pools(rank, count_include_pad=True), *_pools(rank, ceil_mode=True)],
        f"image.resize{rank}d": [
            call((2, 3, *space), size=(4, 9, 3)[:rank]),
            call((1, 2, *space), size=(14, 10, 12)[:rank], method="nearest_neighbor", coordinate_transformation_mode="asymmetric"),
        ],
        f"nn.global_max_pool{rank}d": [call((13, 3, *space))],
        f"nn.global_avg_pool{rank}d": [call((13, 3, *space))],
        f"nn.conv{rank}d": [call((1, 4, *space), (3, 4, *window)), call((2, 4, *space), (6, 2, *window), **more)],
        f"nn.conv{rank}d_transpose": [call((1, 4, *space), (4, 3, *window)), call((2, 4, *space), (4, 3, *window), **more)],
    }


def _quotients() -> Iterator[Example]:
    """Divisors that are neither 0 nor -1: ONNX Runtime crashes on the quotient of the lowest integer and -1."""
    yield call(PAIR, PAIR)
    for dtype in NUMBERS.split()[1:9]:
        divisors = np.array([1, 2, 3, 7, 100] if dtype.startswith("u") else [1, 2, 3, 7, 100, -2, -3, -7, -100], dtype)
        yield call(extremes(dtype)[:, None], divisors)


def _places() -> Iterator[Array]:
    """Indices of every element type: at the limits of its values, above 4, and between whole numbers."""
    for dtype in NUMBERS.replace("bfloat16 ", "").split()[1:]:
        near = np.array([0.0, -0.0, 2.9999, 3.0, 3.3, -0.5, -1.0, -1.5, -4.0, -4.5]) if "float" in dtype else np.arange(-5, 6)
        with np.errstate(all="ignore"):
            yield np.concatenate([near.astype(dtype), extremes(dtype)])


NUMBERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"
WIDTHS = ((1, 2), (0, 1))

EXAMPLES: dict[str, Sequence[Example]] = {
    **{
        name: _reductions()
        for name in [
            "all",
            "any",
            "logsumexp",
            "max",
            "mean",
            "min",
            "prod",
            "reduce_l1",
            "reduce_l2",
            "reduce_log_sum",
            "reduce_sum_square",
            "sum",
        ]
    },
    **{
        name: [call((150, 3), axis=1), call((70, 4), axis=1, select_last_index=True), call((3, 5, 2), axis=0, keepdims=True)]
        for name in ("argmax", "argmin")
    },
    **{name: [call((40, 4)), call((3, 5, 2), axis=1), call((20, 1))] for name in ("nn.fast_softmax", "nn.log_softmax", "nn.softmax")},
    **{name: [call((3, 5), (7, 5)), call((2, 3, 5), (7, 5)), call((1, 40), (9, 40)), call((2, 0), (3, 0))] for name in ("nn.dense",)},
    "annotation.compiler_begin": [call((40,), compiler="other")],
    "annotation.compiler_end": [call((40,), compiler="other")],
    "annotation.checkpoint": [call((40,))],
    "narrow_cast": [
        call(np.arange(-8, 8, dtype=ml_dtypes.int4), dtype="float32"),
        call(np.arange(16, dtype=ml_dtypes.uint4), dtype="uint8"),
    ],
    "annotation.stop_fusion": [call((40,))],
    "debug": [call((40,))],
    "arange": [*_ranges()],
    "broadcast_to": [call((40, 1), shape=(2, 40, 3))],
    "broadcast_to_like": [call((40, 1), (2, 40, 3))],
    "cast": [call(PAIR, dtype=dtype) for dtype in NUMBERS.split()],
    "cast_like": [call(PAIR, np.zeros(2, dtype)) for dtype in NUMBERS.replace("bfloat16 ", "").split()],
    "clip": [
        call(PAIR, a_min=low, a_max=high)
        for low, high in (
            (None, None),
            (1, None),
            (None, 2),
            (1, 3),
            (3, 1),
            (0.0, 6.0),
            (-0.0, None),
            (None, 0.0),
            (None, np.inf),
            (math.nan, 6.0),
        )
    ],
    "collapse_sum_like": [call((2, 30, 3), (30, 1))],
    "collapse_sum_to": [call((2, 30, 3), shape=(30, 1)), call((2, 3), shape=(2, 3))],
    "concatenate": [call([(2, 20), (3, 20)], axis=0)],
    "contrib.bias_gelu": [call((30, 5), (5,))],
    "contrib.fast_gelu": [call((30, 5), (5,))],
    "contrib.fused_matmul": [call((3, 5), (5, 4)), call((2, 5, 3), (2, 4, 5), alpha=0.5, transpose_a=True, transpose_b=True)],
    "contrib.quick_gelu": [call(PAIR)],
    "cumsum": [call((30, 5), axis=1, exclusive=exclusive, reverse=reverse) for exclusive, reverse in product((False, True), repeat=2)],
    **{name: [*_quotients()] for name in ("divide", "floor_divide", "floor_mod", "fmod")},
    "dyn.broadcast_to": [call((40, 1), ints(2, 40, 3))],
    "dyn.full": [call((), ints(2, 3))],
    "dyn.one_hot": [call(INDICES, ints(3), (), ()), *(call(places, ints(4), (), ()) for places in _places())],
    "dyn.pad": [call((30, 4), ints(1, 0, 0, 2), (), pad_mode=mode) for mode in ("constant", "edge", "reflect")],
    "dyn.reshape": [call((30, 4), ints(2, -1))],
    "dyn.strided_slice": [call((30, 4), ints(1, 0), ints(9, 4), ints(2, 1), ints(0, 1))],
    "dyn.tile": [call((30, 4), ints(2, 1))],
    "dyn.topk": [call((150, 4), ints(2)), call((3, 2), ints(1)), call((150, 4), ints(3), largest=False)],
    "einsum": [call([(3, 5), (5, 7)], equation="ij,jk->ik"), *(call([(5, 5)], equation=text) for text in ("ij->ji", "ij->i", "ii->i"))],
    "expand_dims": [call((40,), axis=0)],
    "full": [call((), shape=(3, 4))],
    "full_like": [call((4, 5), ())],
    "gather": [call((3, 3), INDICES, axis=1)],
    "gather_nd": [call((3, 3), INDICES[:, :2])],
    "isinf": [call(PAIR, detect_negative=negative, detect_positive=positive) for negative, positive in product((False, True), repeat=2)],
    "ndarray_size": [call((4, 5))],
    "layout_transform": [
        call((3, 8, 2, 5), src_layout="NCHW", dst_layout="NCHW4c"),
        call((3, 2, 5, 2, 4), src_layout="NHWC4c", dst_layout="NCHW"),
        call((3, 2, 5, 2, 4), src_layout="NHWC4c", dst_layout="NCHW2c"),
    ],
    "nn.contrib_conv2d_nchwc": [
        call((1, 2, 7, 5, 2), (3, 4, 3, 2), data_layout="NCHW2c", kernel_layout="OIHW"),
        call((2, 7, 5, 2, 2), (2, 1, 3, 2, 2, 3), data_layout="NHWC2c", kernel_layout="OIHW2i3o", groups=2, strides=2, padding=1),
    ],
    "nn.contrib_conv3d_nchwc": [
        call((1, 2, 4, 7, 5, 2), (2, 1, 2, 3, 2, 4, 1), data_layout="NCDHW2c", kernel_layout="OIDHW4i1o"),
    ],
    **{
        f"nn.contrib_{kind}_pool2d_nchwc": [call((2, 3, 7, 5, 2), layout="NCHW2c", pool_size=(3, 2), padding=(1, 0, 1, 1), strides=2)]
        for kind in ("max", "avg")
    },
    **{f"nn.contrib_global_{kind}_pool2d_nchwc": [call((13, 3, 7, 5, 2), layout="NCHW2c")] for kind in ("max", "avg")},
    "nn.attention": [
        call((1, 3, 8), (1, 5, 8), (1, 5, 8), (3, 5), q_num_heads=2, kv_num_heads=2, scale=0.5),
        call((1, 3, 8), (1, 5, 4), (1, 5, 4), (3, 5), q_num_heads=4, kv_num_heads=2, scale=0.5, is_causal=True),
    ],
    "nn.batch_flatten": [call((3, 5, 7), axis=1)],
    "nn.batch_matmul": [call((2, 3, 5), (2, 7, 5)), call((2, 5, 3), (1, 5, 7), transpose_a=True, transpose_b=False)],
    "nn.batch_norm": [
        call((2, 3, 5), (3,), (3,), (3,), (3,)),
        call((2, 3, 5), (3,), (3,), (3,), (3,), scale=False, center=False),
    ],
    "nn.bias_add": [call((2, 3, 5), (3,)), call((2, 5, 3), (3,), axis=-1)],
    "nn.depth_to_space": [call((1, 8, 3, 2), block_size=2, mode=mode) for mode in ("DCR", "CRD")],
    "nn.gelu": [call(PAIR, approximate=how) for how in ("none", "tanh")],
    "nn.global_lp_pool": [call((4, 3, 5, 2), p=p) for p in (1, 2)],
    "nn.group_norm": [call((2, 4, 5), (4,), (4,), num_groups=2)],
    "nn.hard_sigmoid": [call(PAIR), call(PAIR, alpha=0.3, beta=0.1)],
    "nn.instance_norm": [call((2, 3, 5), (3,), (3,)), call((2, 3, 1), (3,), (3,))],
    "nn.l2_normalize": [call((30, 5), eps=1e-5, axis=(1,))],
    "nn.layer_norm": [call((30, 5), (5,), (5,)), call((3, 5, 7), (5, 7), (5, 7), axis=1)],
    "nn.lp_normalize": [call((30, 5), p=p) for p in (1, 2)],
    "nn.lp_pool": [call((1, 2, 9), pool_size=2), call((1, 2, 9, 7), pool_size=3, p=1, strides=2)],
    "nn.lrn": [call((2, 7, 3, 2), size=3), call((2, 7, 3, 2), size=4, alpha=0.1)],
    "nn.matmul": [
        call((3, 5), (5, 7)),
        call((2, 3, 5), (5, 7)),
        call((5, 3), (7, 5), transpose_a=True, transpose_b=True),
        call((40,), (40,)),
        call((1, 40), (40, 9)),
        call((1, 400), (400, 9)),
    ],
    "nn.pad": [
        call((30, 4), pad_width=WIDTHS),
        *(call((30, 4), pad_width=WIDTHS, pad_value=value) for value in (1.0, -0.0, math.nan, -math.inf)),
        call((30, 4), pad_width=WIDTHS, pad_mode="edge"),
        call((30, 4), pad_width=WIDTHS, pad_mode="reflect"),
        call((30, 4), pad_width=((-1, 2), (0, -1))),
    ],
    "nn.prelu": [call((30, 5), (5,)), call((30, 5), (1,))],
    "nn.rms_norm": [call((30, 5), (5,))],
    "nn.rotary_embedding": [call((1, 3, 8), (1, 3, 2), (1, 3, 2), num_heads=2)],
    "nn.selu": [call(PAIR), call(PAIR, alpha=0.3, gamma=2.0)],
    "nn.shrink": [call(PAIR), call(PAIR, lambd=0.3, bias=0.1)],
    "nn.space_to_batch_nd": [
        call((2, 3, 5, 3), block_shape=(2, 3), paddings=((0, 1), (1, 0))),
        call((2, 6), block_shape=(2,), paddings=((0, 0),)),
    ],
    "nn.batch_to_space_nd": [
        call((12, 3, 5, 2), block_shape=(2, 3), crops=((0, 1), (1, 0))),
        call((4, 6), block_shape=(2,), crops=((0, 0),)),
    ],
    "nn.space_to_depth": [call((1, 2, 4, 6), block_size=2)],
    "nn.swish": [call(PAIR), call(PAIR, alpha=0.3)],
    "one_hot": [call(INDICES, (), (), depth=3), *(call(places, (), (), depth=4, axis=0) for places in _places())],
    "ones_like": [call((4,))],
    "repeat": [call((30, 4), repeats=2, axis=1)],
    "reshape": [call((30, 4), newshape=(4, -1))],
    "reshape_like": [call((30, 4), (4, 30))],
    "reverse": [call((30, 4), axis=1)],
    "scatter_elements": [call((3, 3), INDICES, (2, 3), reduction=how) for how in ("none", "add", "mul", "max", "min")],
    "scatter_nd": [call((30,), np.arange(20).reshape(20, 1) % 10, (20,), reduction=how) for how in ("add", "mul", "max", "min")]
    + [call((30,), np.arange(20).reshape(20, 1), (20,))],
    "shape_of": [call((4, 5)), call((4, 5, 6), start=1, end=-1)],
    "split": [call((30, 4), indices_or_sections=2, axis=1)],
    "squeeze": [call((30, 1))],
    "stack": [call([(2, 20), (2, 20)], axis=1)],
    "strided_slice": [call((30, 4), begin=(1, 0), end=(20, 3), strides=(2, 1))],
    "take": [call((3, 20), INDICES, axis=0), call((3, 20), INDICES)],
    "tile": [call((30, 4), reps=(2, 1))],
    "topk": [call((150, 4), k=2), call((150, 4), k=3, largest=False), call((3, 5, 2), k=2, axis=1)],
    "transpose": [call((30, 4))],
    "trilu": [call((5, 6)), call((5, 6), upper=False, k=-1)],
    "zeros_like": [call((4,))],
    **_of_rank(1),
    **_of_rank(2),
    **_of_rank(3),
}
