"""Nodes of every ONNX operator that has several versions: representative operands and attributes, and the opsets that accept them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
EVER: Final = 99


@dataclass(frozen=True, eq=False)
class Sample:
    """A node as operator, operands (None for an absent one) and attributes, for opsets from `since` to `until`. The first `data` operands
    are inputs of the model unless it is to be folded, the others constants. `before` are nodes that compute further operands, by name.
    """

    op_type: str
    operands: tuple[Array | None, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    since: int = 7
    until: int = EVER
    data: int = EVER
    before: tuple[NodeProto, ...] = ()
    reads: tuple[str, ...] = ()

    def node(self) -> NodeProto:
        """The node, with inputs `i0`, `i1` ... and outputs `o0`, `o1` ..."""
        names = ["" if operand is None else f"i{i}" for i, operand in enumerate(self.operands)]
        return helper.make_node(self.op_type, [*(self.reads or names)], [f"o{i}" for i in range(self.outputs)], **self.attrs)

    def __str__(self) -> str:
        said = ", ".join(f"{name}={'...' if isinstance(value, GraphProto) else value}" for name, value in self.attrs.items())
        kinds = ", ".join("-" if operand is None else f"{operand.dtype}{list(operand.shape)}" for operand in self.operands)
        return f"{self.op_type}({kinds}; {said})"


def reals(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    """Numbers around 0."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def positive(*shape: int, dtype: Any = np.float32) -> Array:
    """Numbers between 0.5 and 2."""
    return np.random.default_rng(shape).uniform(0.5, 2, shape).astype(dtype)


def whole(*shape: int, dtype: Any = np.int64, low: int = -5, high: int = 6) -> Array:
    """Integers with many duplicates."""
    return np.random.default_rng(shape).integers(low, high, shape).astype(dtype)


def ints(*values: int) -> Array:
    """A vector of int64."""
    return np.array(values, np.int64)


def number(value: float, dtype: Any = np.float32) -> Array:
    """A scalar."""
    return np.array(value, dtype)


X: Final = reals(2, 3, 4)
IMAGE: Final = reals(1, 2, 5, 6)
TIES: Final = np.array([[1, 3, 3, 0], [2, 2, 1, 2], [0, 0, 0, 0]], np.float32)


def elementwise() -> Iterator[Sample]:
    attrs: dict[str, Any]
    dtype: Any
    for op_type in (
        *("Abs", "Asin", "Asinh", "Atan", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu"),
        *("Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Tan", "Tanh"),
        *("ThresholdedRelu", "Acos", "Acosh", "Atanh", "Log", "Sqrt", "Celu", "IsNaN", "Identity", "Shape", "Size"),
    ):
        for dtype in (np.float32, np.float64, np.float16):
            yield Sample(op_type, (reals(3, 4, dtype=dtype) / np.asarray(4, dtype),))
        yield Sample(op_type, (np.array([-0.0, 2.5, -np.inf, np.nan, 3.0], np.float32),))
    yield Sample("Acosh", (positive(3) + np.float32(1),))
    for op_type in ("Abs", "Neg", "Relu", "Sign", "Identity", "Shape", "Size"):
        for whole_type in (np.int32, np.int64, np.int8):
            yield Sample(op_type, (whole(3, 4, dtype=whole_type),))
    yield Sample("Identity", (np.array(["a", "b"], object),), since=13)
    for op_type, attrs in {
        "Elu": {"alpha": 0.5},
        "Celu": {"alpha": 0.5},
        "Selu": {"alpha": 2.0, "gamma": 0.5},
        "HardSigmoid": {"alpha": 0.5, "beta": 0.1},
        "LeakyRelu": {"alpha": 0.3},
        "ThresholdedRelu": {"alpha": 0.2},
    }.items():
        yield Sample(op_type, (X,), attrs)
    yield Sample("Shape", (X,), {"start": 1}, since=15)
    yield Sample("Shape", (X,), {"start": -2, "end": -1}, since=15)
    values = np.array([1, np.inf, -np.inf, np.nan], np.float32)
    for attrs in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        yield Sample("IsInf", (values,), attrs, since=10)
    for op_type in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Sum", "PRelu", "Equal", "Greater", "Less"):
        for one, other in (
            (X, reals(4, seed=1)),
            (positive(2, 3), positive(2, 3)),
            (reals(3, dtype=np.float64), reals(3, dtype=np.float64)),
        ):
            yield Sample(op_type, (one, other))
    for op_type in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Mod"):
        for whole_type in (np.int32, np.int64):
            yield Sample(op_type, (whole(3, 4, dtype=whole_type), whole(4, dtype=whole_type, low=1)))
    for op_type in ("GreaterOrEqual", "LessOrEqual"):
        yield Sample(op_type, (whole(3, 4, dtype=np.float32), whole(4, dtype=np.float32)))
    yield Sample("Equal", (np.array([True, False]), np.array([True, True])))
    yield Sample("Equal", (np.array(["a", "b"], object), np.array(["a", "c"], object)), since=19)
    yield Sample("Mod", (X, positive(4)), {"fmod": 1}, since=10)
    yield Sample("Mod", (whole(3, 4), whole(4, low=1)), {"fmod": 1}, since=10)
    yield Sample("Pow", (positive(3), whole(3, low=0)), since=12)
    yield Sample("PRelu", (reals(2, 3, 4), reals(3, 1, seed=1)))
    for op_type in ("Max", "Min", "Mean", "Sum"):
        yield Sample(op_type, (X,))
        yield Sample(op_type, (X, reals(2, 3, 4, seed=1), reals(2, 3, 4, seed=2)))
        yield Sample(op_type, (X, reals(3, 1, seed=1), reals(1, seed=2)), since=8)
    for direction in ("LEFT", "RIGHT"):
        for unsigned in (np.uint8, np.uint32):
            yield Sample("BitShift", (whole(4, dtype=unsigned, low=0), whole(4, dtype=unsigned, low=0, high=3)), {"direction": direction})
    yield Sample("Where", (np.array([True, False, True]), reals(2, 3), reals(1, seed=1)))
    yield Sample("Where", (np.array([True, False, True]), whole(2, 3), whole(1)))


def clipped() -> Iterator[Sample]:
    attrs: dict[str, Any]
    dtype: Any
    for attrs in ({}, {"min": -0.5}, {"max": 0.5}, {"min": -0.5, "max": 0.25}):
        for dtype in (np.float32, np.float64, np.float16):
            yield Sample("Clip", (reals(3, 4, dtype=dtype),), attrs, until=10)
    for dtype in (np.float32, np.float64, np.float16, np.int32, np.int64):
        data, low, high = (reals(3, 4) * 3).astype(dtype), number(-1, dtype), number(2, dtype)
        for operands in ((data,), (data, low), (data, None, high), (data, low, high)):
            yield Sample("Clip", operands, since=11, data=1)


def casts() -> Iterator[Sample]:
    data = np.array([[-1.5, 0.0, 3.7], [200.0, 2.0, 1e-3]], np.float32)
    numbers = {
        "FLOAT": np.float32,
        "DOUBLE": np.float64,
        "FLOAT16": np.float16,
        "INT32": np.int32,
        "INT64": np.int64,
        "BOOL": np.bool_,
    }
    for source in (np.float32, np.float64, np.int32, np.bool_):
        for name, like in numbers.items():
            yield Sample("Cast", (data.astype(source),), {"to": TensorProto.DataType.Value(name)})
            yield Sample("CastLike", (data.astype(source), np.zeros(1, like)), since=15)
    yield Sample("Cast", (np.array(["1.5", "-2"], object),), {"to": 1}, since=9)
    yield Sample("Cast", (data,), {"to": 16}, since=13)
    for saturate in (0, 1):
        for kind in (17, 19):
            yield Sample("Cast", (data,), {"to": kind, "saturate": saturate}, since=19)


def reductions() -> Iterator[Sample]:
    attrs: dict[str, Any]
    dtype: Any
    data = positive(2, 3, 4)
    for op_type in (f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")):
        last = 12 if op_type == "ReduceSum" else 17
        for keepdims in (0, 1):
            yield Sample(op_type, (data,), {"keepdims": keepdims})
            for axes in ([0], [1, 2], [2]):
                yield Sample(op_type, (data,), {"axes": axes, "keepdims": keepdims}, until=last)
                yield Sample(op_type, (data, ints(*axes)), {"keepdims": keepdims}, since=last + 1, data=1)
        for dtype in (np.float64, np.int32, np.int64):
            yield Sample(op_type, (whole(3, 4, dtype=dtype, low=1),), {"axes": [1]}, until=last)
            yield Sample(op_type, (whole(3, 4, dtype=dtype, low=1), ints(1)), since=last + 1, data=1)
        yield Sample(op_type, (data,), {"axes": [-1]}, since=11, until=last)
        yield Sample(op_type, (data, ints(-1)), since=last + 1, data=1)
        yield Sample(op_type, (data,), {"noop_with_empty_axes": 1}, since=last + 1)
        yield Sample(op_type, (data, ints()), since=last + 1, data=1)
    for op_type in ("ReduceMax", "ReduceMin"):
        yield Sample(op_type, (np.array([[True, False], [False, False]]), ints(1)), since=20, data=1)
        yield Sample(op_type, (whole(3, 4, dtype=np.int8),), {"axes": [1]}, since=12, until=17)
    for op_type in ("ArgMax", "ArgMin"):
        for attrs in ({}, {"axis": 1}, {"axis": 1, "keepdims": 0}):
            yield Sample(op_type, (TIES,), attrs)
            yield Sample(op_type, (whole(3, 4, dtype=np.int32),), attrs)
        yield Sample(op_type, (TIES,), {"axis": -1}, since=11)
        yield Sample(op_type, (TIES,), {"axis": 1, "select_last_index": 1}, since=12)
    for attrs in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
        yield Sample("CumSum", (X, number(1, np.int64)), attrs, since=11, data=1)
        yield Sample("CumSum", (whole(3, 4, dtype=np.int32), number(-1, np.int32)), attrs, since=11, data=1)
    for op_type in ("Softmax", "LogSoftmax", "Hardmax"):
        for dtype in (np.float32, np.float64):
            for attrs in ({}, {"axis": 0}, {"axis": 1}, {"axis": 2}):
                yield Sample(op_type, (reals(2, 3, 4, dtype=dtype),), attrs)
            for attrs in ({"axis": -1}, {"axis": -2}):
                yield Sample(op_type, (reals(2, 3, 4, dtype=dtype),), attrs, since=11)
        yield Sample(op_type, (reals(2, 3, 1, 1),))
        yield Sample(op_type, (np.zeros((2, 0, 3), np.float32),))
    for attrs in ({}, {"axis": 0}, {"p": 1}, {"axis": 1, "p": 2}):
        yield Sample("LpNormalization", (X,), attrs)
    for attrs in ({"size": 3}, {"size": 1, "alpha": 0.5, "beta": 0.3, "bias": 2.0}):
        yield Sample("LRN", (IMAGE,), attrs)
    for op_type in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield Sample(op_type, (IMAGE,))
        yield Sample(op_type, (reals(2, 3, 4, dtype=np.float64),))
    yield Sample("GlobalLpPool", (IMAGE,), {"p": 1})
    largest = number(2, np.int64).reshape(1)
    for attrs in ({}, {"axis": 0}, {"axis": 1}):
        yield Sample("TopK", (TIES,), {"k": 2, **attrs}, outputs=2, until=9)
        yield Sample("TopK", (TIES, largest), attrs, outputs=2, since=10, data=1)
    for attrs in ({"largest": 0}, {"axis": -1, "largest": 0, "sorted": 1}):
        yield Sample("TopK", (TIES, largest), attrs, outputs=2, since=11, data=1)
        yield Sample("TopK", (whole(3, 4), largest), attrs, outputs=2, since=11, data=1)
    for attrs in ({}, {"axis": 1}, {"sorted": 0}, {"axis": 0, "sorted": 0}):
        yield Sample("Unique", (whole(4, 4, dtype=np.float32, low=0, high=2),), attrs, outputs=4, since=11)
        yield Sample("Unique", (whole(4, 4, low=0, high=2),), attrs, since=11)


def windows() -> Iterator[Sample]:
    attrs: dict[str, Any]
    places: list[tuple[dict[str, Any], int]] = [
        ({"kernel_shape": [2, 3]}, 7),
        ({"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}, 7),
        ({"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}, 7),
        ({"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}, 7),
        ({"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "VALID"}, 7),
    ]
    for op_type, ceil, dilated in (("AveragePool", 10, 19), ("MaxPool", 10, 10), ("LpPool", 18, 18)):
        for attrs, since in (
            *places,
            ({"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}, ceil),
            ({"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, ceil),
            ({"kernel_shape": [2, 2], "dilations": [2, 3]}, dilated),
            ({"kernel_shape": [2, 2], "dilations": [2, 1], "strides": [2, 1], "pads": [0, 1, 0, 1], "ceil_mode": 1}, max(ceil, dilated)),
        ):
            yield Sample(op_type, (IMAGE,), attrs, since=since)
            yield Sample(op_type, (reals(1, 2, 5, 6, dtype=np.float64),), attrs, since=since)
        yield Sample(op_type, (reals(1, 2, 8),), {"kernel_shape": [2], "strides": [3], "pads": [1, 1]})
    for attrs in (places[1][0], places[2][0]):
        yield Sample("AveragePool", (IMAGE,), {**attrs, "count_include_pad": 1})
        yield Sample("LpPool", (IMAGE,), {**attrs, "p": 1})
        yield Sample("LpPool", (IMAGE,), {**attrs, "p": 3})
        yield Sample("MaxPool", (IMAGE,), attrs, outputs=2, since=8)
        yield Sample("MaxPool", (IMAGE,), {**attrs, "storage_order": 1}, outputs=2, since=8)
    yield Sample("AveragePool", (IMAGE,), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}, since=10)
    yield Sample("MaxPool", (whole(1, 2, 5, 6, dtype=np.int8),), {"kernel_shape": [2, 3]}, since=12)
    indices = ints(0, 3, 5, 8).reshape(1, 1, 2, 2)
    for attrs in ({"kernel_shape": [2, 2], "strides": [2, 2]}, {"kernel_shape": [2, 2]}):
        yield Sample("MaxUnpool", (reals(1, 1, 2, 2), indices), attrs, since=9)
    unpool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Sample("MaxUnpool", (reals(1, 1, 2, 2), indices, ints(1, 1, 5, 5)), unpool, since=9, data=1)
    boxes = np.array([[0, 0, 0, 3, 3], [0, 1, 1, 4, 4]], np.float32)
    yield Sample("MaxRoiPool", (IMAGE, boxes), {"pooled_shape": [2, 2]})
    yield Sample("MaxRoiPool", (IMAGE, boxes), {"pooled_shape": [1, 2], "spatial_scale": 0.5})
    aligned = np.array([[0, 0, 3, 3], [1, 1, 4, 4]], np.float32)
    for attrs in ({}, {"output_height": 2, "output_width": 3}, {"mode": "max", "output_height": 2, "output_width": 2, "sampling_ratio": 2}):
        yield Sample("RoiAlign", (IMAGE, aligned, ints(0, 0)), {**attrs, "spatial_scale": 0.5}, since=10, data=1)
        for mode in ("half_pixel", "output_half_pixel"):
            more = {**attrs, "coordinate_transformation_mode": mode}
            yield Sample("RoiAlign", (IMAGE, aligned, ints(0, 0)), more, since=16, data=1)
    kernels: list[tuple[dict[str, Any], tuple[int, ...]]] = [
        ({}, (4, 2, 3, 3)),
        ({"pads": [1, 1, 0, 0], "strides": [2, 1]}, (4, 2, 3, 3)),
        ({"group": 2}, (4, 1, 2, 2)),
        ({"dilations": [2, 2]}, (4, 2, 2, 2)),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (4, 2, 2, 2)),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (4, 2, 2, 2)),
        ({"auto_pad": "VALID", "kernel_shape": [3, 2]}, (4, 2, 3, 2)),
    ]
    for attrs, shape in kernels:
        yield Sample("Conv", (IMAGE, reals(*shape)), attrs, data=1)
        yield Sample("Conv", (IMAGE, reals(*shape), reals(4)), attrs, data=1)
        turned = (2, 1, *shape[2:]) if "group" in attrs else (2, 4, *shape[2:])
        yield Sample("ConvTranspose", (IMAGE, reals(*turned)), attrs, data=1)
    yield Sample("ConvTranspose", (IMAGE, reals(2, 4, 3, 3), reals(4)), {"strides": [2, 2], "output_padding": [1, 1]}, data=1)
    yield Sample("ConvTranspose", (IMAGE, reals(2, 4, 3, 3)), {"strides": [2, 2], "output_shape": [11, 13]}, data=1)
    offsets = reals(1, 8, 4, 5) / np.float32(2)
    yield Sample("DeformConv", (IMAGE, reals(3, 2, 2, 2), offsets), {"kernel_shape": [2, 2]}, since=19)
    grid = np.clip(reals(1, 3, 4, 2) / np.float32(2), -1.2, 1.2).astype(np.float32)
    for mode, padding in (("linear", "zeros"), ("nearest", "border"), ("cubic", "reflection")):
        for corners in (0, 1):
            attrs = {"padding_mode": padding, "align_corners": corners}
            yield Sample(
                "GridSample",
                (IMAGE, grid),
                {**attrs, "mode": {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)},
                since=16,
                until=19,
            )
            yield Sample("GridSample", (IMAGE, grid), {**attrs, "mode": mode}, since=20)
    yield Sample("GridSample", (IMAGE, grid), since=16)


def resizing() -> Iterator[Sample]:
    attrs: dict[str, Any]
    larger, smaller = np.array([1, 1, 2, 1.5], np.float32), np.array([1, 1, 0.6, 0.5], np.float32)
    for mode in ("nearest", "linear"):
        yield Sample("Upsample", (IMAGE,), {"scales": larger.tolist(), "mode": mode}, until=8)
        yield Sample("Upsample", (IMAGE, larger), {"mode": mode}, since=9, until=9, data=1)
        for scales in (larger, smaller):
            yield Sample("Resize", (IMAGE, scales), {"mode": mode}, since=10, until=10, data=1)
    none = np.zeros(0, np.float32)
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", None):
            attrs = {"mode": mode}
            if coordinates is not None:
                attrs["coordinate_transformation_mode"] = coordinates
            for scales in (larger, smaller):
                yield Sample("Resize", (IMAGE, none, scales), attrs, since=11, until=12, data=1)
                yield Sample("Resize", (IMAGE, None, scales), attrs, since=13, data=1)
            yield Sample("Resize", (IMAGE, none, none, ints(1, 2, 7, 3)), attrs, since=11, until=12, data=1)
            yield Sample("Resize", (IMAGE, None, None, ints(1, 2, 7, 3)), attrs, since=13, data=1)
    for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        yield Sample("Resize", (IMAGE, none, larger), {"nearest_mode": nearest}, since=11, data=1)
    crop = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 1.5}
    yield Sample("Resize", (IMAGE, np.array([0, 0, 0.1, 0.2, 1, 1, 0.9, 1.1], np.float32), larger), crop, since=11, data=1)
    for attrs in ({"mode": "cubic", "cubic_coeff_a": -0.5}, {"mode": "cubic", "exclude_outside": 1}):
        yield Sample("Resize", (IMAGE, none, larger), attrs, since=11, data=1)
    yield Sample("Resize", (IMAGE, None, smaller), {"mode": "linear", "antialias": 1}, since=18, data=1)
    yield Sample("Resize", (IMAGE, None, larger[2:]), {"mode": "linear", "axes": [2, 3]}, since=18, data=1)
    fitted = {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}
    yield Sample("Resize", (IMAGE, None, None, ints(7, 9)), fitted, since=18, data=1)
    yield Sample(
        "Resize", (IMAGE, None, smaller), {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, since=19, data=1
    )


def normalization() -> Iterator[Sample]:
    attrs: dict[str, Any]
    vectors = (positive(2), reals(2), reals(2, seed=1), positive(2) + np.float32(1))
    for attrs in ({}, {"epsilon": 0.1, "momentum": 0.5}):
        yield Sample("BatchNormalization", (IMAGE, *vectors), attrs, data=1)
    yield Sample("BatchNormalization", (IMAGE, *vectors), {"spatial": 1}, until=8, data=1)
    yield Sample("BatchNormalization", (IMAGE, *vectors), {"training_mode": 1}, outputs=3, since=14, data=1)
    for attrs in ({}, {"epsilon": 0.1}):
        yield Sample("InstanceNormalization", (IMAGE, reals(2), reals(2, seed=1)), attrs, data=1)
    data = reals(2, 6, 4)
    for groups in (1, 2, 3, 6):
        attrs = {"num_groups": groups, "epsilon": 0.01}
        yield Sample("GroupNormalization", (data, reals(groups), reals(groups, seed=1)), attrs, since=18, until=20, data=1)
        yield Sample("GroupNormalization", (data, reals(6), reals(6, seed=1)), attrs, since=21, data=1)
    for axes in ({}, {"axes": [0, 2]}):
        yield Sample("MeanVarianceNormalization", (IMAGE if not axes else X,), axes, since=9)
    for outputs in (1, 2):
        yield Sample("Dropout", (X,), outputs=outputs)
        yield Sample("Dropout", (X,), {"ratio": 0.25}, outputs=outputs, until=11)
        yield Sample("Dropout", (X, number(0.25)), outputs=outputs, since=12, data=1)
        yield Sample("Dropout", (X, number(0.25), np.array(False)), {"seed": 1}, outputs=outputs, since=12, data=1)
    q, k, v = reals(1, 3, 8), reals(1, 3, 8, seed=1), reals(1, 3, 8, seed=2)
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    mask = np.tril(np.ones((3, 3), np.bool_))
    for attrs in ({}, {"scale": 0.3}, {"is_causal": 1}, {"softcap": 0.5}):
        yield Sample("Attention", (q, k, v), {**heads, **attrs}, since=23)
        yield Sample("Attention", (q, k, v, mask), {**heads, **attrs}, since=23)
        yield Sample("Attention", (q[:, :2], k, v), {**heads, **attrs}, since=23)


def products() -> Iterator[Sample]:
    dtype: Any
    for dtype in (np.float32, np.float64):
        a, b = reals(3, 4, dtype=dtype), reals(4, 5, dtype=dtype)
        yield Sample("MatMul", (a, b))
        yield Sample("MatMul", (reals(2, 3, 4, dtype=dtype), b))
        for c in (reals(3, 5, dtype=dtype), reals(5, dtype=dtype), reals(1, dtype=dtype)):
            yield Sample("Gemm", (a, b, c))
        yield Sample("Gemm", (a.T.copy(), b.T.copy(), reals(5, dtype=dtype)), {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0})
        yield Sample("Gemm", (a, b), since=11)
    yield Sample("MatMul", (whole(3, 4, dtype=np.int32), whole(4, 5, dtype=np.int32)), since=9)
    for equation in ("ij,jk->ik", "ij,jk", "ij,jk->"):
        yield Sample("Einsum", (reals(3, 4), reals(4, 5)), {"equation": equation}, since=12)
    zero, scale = np.array(3, np.uint8), number(0.25)
    quantized = (whole(3, 4, dtype=np.uint8, low=0), scale, zero, whole(4, 5, dtype=np.uint8, low=0), scale, zero, number(2.0), zero)
    yield Sample("QLinearMatMul", quantized, since=10)
    for kind in (np.uint8, np.int8):
        point = np.array(1, kind)
        yield Sample("QuantizeLinear", (reals(3, 4) * np.float32(40), scale, point), since=10, data=1)
        yield Sample("DequantizeLinear", (whole(3, 4, dtype=kind, low=0), scale, point), since=10, data=1)
        for axis in (0, -1):
            scales, points = positive(4 if axis else 3), whole(4 if axis else 3, dtype=kind, low=0)
            yield Sample("QuantizeLinear", (reals(3, 4) * np.float32(40), scales, points), {"axis": axis}, since=13, data=1)
            yield Sample("DequantizeLinear", (whole(3, 4, dtype=kind, low=0), scales, points), {"axis": axis}, since=13, data=1)
    yield Sample("QuantizeLinear", (reals(3, 4), scale), since=10, data=1)
    yield Sample("DequantizeLinear", (whole(3, 4, dtype=np.uint8, low=0), scale), since=10, data=1)
    blocks = {"axis": 1, "block_size": 2}
    yield Sample(
        "QuantizeLinear", (reals(3, 4) * np.float32(9), positive(3, 2), whole(3, 2, dtype=np.uint8, low=0)), blocks, since=21, data=1
    )
    yield Sample("DequantizeLinear", (whole(3, 4, dtype=np.uint8, low=0), positive(3, 2)), blocks, since=21, data=1)
    yield Sample("QuantizeLinear", (reals(3, 4), scale), {"output_dtype": TensorProto.INT8}, since=21, data=1)


def movement() -> Iterator[Sample]:
    attrs: dict[str, Any]
    dtype: Any
    for attrs in ({}, {"perm": [2, 0, 1]}):
        yield Sample("Transpose", (X,), attrs)
        yield Sample("Transpose", (whole(2, 3, 4, dtype=np.int8),), attrs)
    for shape in ((4, 6), (0, -1), (2, 3, 2, 2)):
        yield Sample("Reshape", (X, ints(*shape)), data=1)
    yield Sample("Reshape", (np.zeros((0, 3), np.float32), ints(3, 0)), {"allowzero": 1}, since=14, data=1)
    for axis in (None, 0, 1, 3):
        yield Sample("Flatten", (X,), {} if axis is None else {"axis": axis})
    yield Sample("Flatten", (X,), {"axis": -1}, since=11)
    yield Sample("Flatten", (whole(2, 3),), since=9)
    single = reals(1, 3, 1)
    for axes in ([0], [0, 2]):
        yield Sample("Squeeze", (single,), {"axes": axes}, until=12)
        yield Sample("Unsqueeze", (X,), {"axes": axes}, until=12)
        yield Sample("Squeeze", (single, ints(*axes)), since=13, data=1)
        yield Sample("Unsqueeze", (X, ints(*axes)), since=13, data=1)
    yield Sample("Squeeze", (single,))
    for op_type, data in (("Squeeze", single), ("Unsqueeze", X)):
        yield Sample(op_type, (data,), {"axes": [-1]}, since=11, until=12)
        yield Sample(op_type, (data, ints(-1)), since=13, data=1)
    for axis in (0, 2):
        yield Sample("Concat", (X, reals(2, 3, 4, seed=1)), {"axis": axis})
    yield Sample("Concat", (X, reals(2, 3, 4, seed=1), X), {"axis": -1}, since=11)
    yield Sample("Concat", (whole(2), whole(3)), {"axis": 0})
    yield Sample("Split", (reals(4, 6),), {"axis": 1}, outputs=3, until=17)
    yield Sample("Split", (reals(4, 6),), outputs=2, until=17)
    yield Sample("Split", (reals(4, 6),), {"axis": 1, "split": [1, 5]}, outputs=2, until=12)
    yield Sample("Split", (reals(4, 6),), {"axis": -1, "split": [1, 5]}, outputs=2, since=11, until=12)
    yield Sample("Split", (reals(4, 6), ints(1, 5)), {"axis": 1}, outputs=2, since=13, data=1)
    yield Sample("Split", (reals(4, 6),), {"axis": 1, "num_outputs": 3}, outputs=3, since=18)
    yield Sample("Split", (reals(4, 7),), {"axis": 1, "num_outputs": 3}, outputs=3, since=18)
    yield Sample("Slice", (X,), {"starts": [0, 1], "ends": [2, -1]}, until=9)
    yield Sample("Slice", (X,), {"starts": [1], "ends": [1000], "axes": [2]}, until=9)
    yield Sample("Slice", (X, ints(0, 1), ints(2, -1)), since=10, data=1)
    yield Sample("Slice", (X, ints(1), ints(1000), ints(2)), since=10, data=1)
    yield Sample("Slice", (X, ints(-1), ints(-100), ints(2), ints(-2)), since=10, data=1)
    yield Sample("Slice", (X, ints(0), ints(2), ints(-2)), since=10, data=1)
    yield Sample("Expand", (reals(3, 1), ints(2, 1, 4)), since=8, data=1)
    yield Sample("Tile", (reals(2, 3), ints(2, 2)), data=1)
    yield Sample("Gather", (X, ints(1, 0)), data=1)
    yield Sample("Gather", (X, ints(3, 0).astype(np.int32)), {"axis": 2}, data=1)
    yield Sample("Gather", (X, ints(1, -1)), {"axis": -1}, since=11, data=1)
    yield Sample("Gather", (reals(4, 3), ints(3, 0)), data=1)
    for axis in (0, 1, -1):
        yield Sample("GatherElements", (reals(3, 3), ints(0, 2, 1).reshape(1, 3)), {"axis": axis}, since=11, data=1)
    yield Sample("GatherND", (X, ints(0, 1, 1, 2).reshape(2, 2)), since=11, data=1)
    yield Sample("GatherND", (X, ints(1, 2).reshape(2, 1)), {"batch_dims": 1}, since=12, data=1)
    updates = reals(1, 3, seed=3)
    yield Sample("Scatter", (reals(3, 3), ints(1, 0, 2).reshape(1, 3), updates), since=9, until=10)
    yield Sample("Scatter", (reals(3, 3), ints(1, 0, 2).reshape(1, 3), updates), {"axis": 1}, since=9, until=10)
    for attrs in ({}, {"axis": 1}, {"axis": -1}):
        yield Sample("ScatterElements", (reals(3, 3), ints(1, 0, 2).reshape(1, 3), updates), attrs, since=11)
    yield Sample("ScatterND", (reals(4, 3), ints(1, 3).reshape(2, 1), reals(2, 3, seed=1)), since=11)
    for reduction, since in (("add", 16), ("mul", 16), ("max", 18), ("min", 18)):
        yield Sample(
            "ScatterElements", (reals(3, 3), ints(1, 1, 2).reshape(1, 3), updates), {"reduction": reduction, "axis": 1}, since=since
        )
        yield Sample("ScatterND", (reals(4, 3), ints(1, 1).reshape(2, 1), reals(2, 3, seed=1)), {"reduction": reduction}, since=since)
    for mode in ("constant", "edge", "reflect"):
        for dtype in (np.float32, np.float64):
            data = reals(3, 4, dtype=dtype)
            yield Sample("Pad", (data,), {"mode": mode, "pads": [0, 1, 2, 0]}, until=10)
            yield Sample("Pad", (data,), {"mode": mode, "pads": [0, 1, 2, 0], "value": 1.5}, until=10)
            yield Sample("Pad", (data, ints(0, 1, 2, 0)), {"mode": mode}, since=11, data=1)
            yield Sample("Pad", (data, ints(0, 1, 2, 0), number(1.5, dtype)), {"mode": mode}, since=11, data=1)
        yield Sample("Pad", (reals(3, 4), ints(1, 1), None, ints(-1)), {"mode": mode}, since=18, data=1)
    yield Sample("Pad", (reals(3, 4),), {"pads": [0, -1, 0, 1]}, until=10)
    yield Sample("Pad", (whole(3, 4), ints(0, -1, 0, 1), number(7, np.int64)), since=11, data=1)
    yield Sample("Pad", (reals(3, 4), ints(1, 2, 0, 3)), {"mode": "wrap"}, since=19, data=1)
    for axis in (0, 1):
        chosen = np.array([True, False, True])
        yield Sample("Compress", (reals(3, 3), chosen), {"axis": axis}, since=9)
    yield Sample("Compress", (reals(3, 3), np.array([False, True, True])), since=9)
    yield Sample("Compress", (reals(3, 3), np.array([False, True, True])), {"axis": -1}, since=11)
    for op_type, data in (("DepthToSpace", reals(1, 8, 2, 3)), ("SpaceToDepth", reals(1, 2, 4, 6))):
        yield Sample(op_type, (data,), {"blocksize": 2})
    for mode in ("DCR", "CRD"):
        yield Sample("DepthToSpace", (reals(1, 8, 2, 3),), {"blocksize": 2, "mode": mode}, since=11)
    yield Sample("NonZero", (whole(3, 4, dtype=np.float32),), since=9)
    yield Sample("NonZero", (whole(3, 4),), since=9)
    for attrs in ({}, {"batch_axis": 0, "time_axis": 1}):
        yield Sample("ReverseSequence", (reals(3, 3), ints(1, 3, 2)), attrs, since=10)
    for attrs in ({}, {"axis": 0}, {"axis": 1}):
        yield Sample("OneHot", (ints(0, 2, 5), number(4, np.int64), np.array([0, 1], np.float32)), attrs, since=9, data=1)
    yield Sample("OneHot", (ints(0, -2), number(4, np.int64), np.array([0, 1], np.float32)), since=11, data=1)


def creation() -> Iterator[Sample]:
    attrs: dict[str, Any]
    dtype: Any
    yield Sample("Constant", (), {"value": numpy_helper.from_array(X)})
    for attrs in ({"value_int": 3}, {"value_ints": [1, 2]}, {"value_float": 0.5}, {"value_floats": [0.5, 1.0]}, {"value_string": b"a"}):
        yield Sample("Constant", (), attrs, since=12)
    for value in (None, number(2.5).reshape(1), ints(7), np.array([True])):
        attrs = {} if value is None else {"value": numpy_helper.from_array(value)}
        yield Sample("ConstantOfShape", (ints(2, 3),), attrs, since=9, data=0)
    for attrs in ({}, {"k": 1}, {"k": -1, "dtype": TensorProto.INT64}):
        yield Sample("EyeLike", (reals(3, 4),), attrs, since=9)
    for dtype in (np.float32, np.int64, np.int32):
        yield Sample("Range", (number(1, dtype), number(9, dtype), number(3, dtype)), since=11, data=0)
    yield Sample("Det", (reals(2, 3, 3),), since=11)
    for attrs in ({}, {"inverse": 1}, {"onesided": 1}):
        yield Sample("DFT", (reals(1, 6, 1) if not attrs.get("inverse") else reals(1, 6, 2),), attrs, since=17)
    yield Sample("DFT", (reals(2, 6, 3, 1),), {"axis": 2}, since=17, until=19)
    yield Sample("DFT", (reals(2, 6, 3, 1), None, number(2, np.int64)), since=20, data=1)
    yield Sample("DFT", (reals(1, 6, 1), number(4, np.int64)), since=17, data=1)
    for seeded in ("RandomNormal", "RandomUniform"):
        yield Sample(seeded, (), {"shape": [2, 3], "seed": 1.0})
        yield Sample(f"{seeded}Like", (X,), {"seed": 1.0})
    yield Sample("RandomNormal", (), {"shape": [2, 3], "seed": 1.0, "mean": 1.0, "scale": 2.0, "dtype": TensorProto.DOUBLE})
    yield Sample("RandomUniform", (), {"shape": [2, 3], "seed": 1.0, "low": 1.0, "high": 2.0})
    yield Sample("Multinomial", (reals(2, 3),), {"sample_size": 4, "seed": 1.0})
    yield Sample("Bernoulli", (positive(2, 3) / np.float32(3),), {"seed": 1.0}, since=15)


def recurrent() -> Iterator[Sample]:
    attrs: dict[str, Any]
    x, steps, batch, size, hidden = reals(4, 2, 3), 4, 2, 3, 5
    assert x.shape == (steps, batch, size)
    for op_type, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for direction, ways in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            w, r = reals(ways, gates * hidden, size), reals(ways, gates * hidden, hidden)
            b = reals(ways, 2 * gates * hidden)
            first = reals(ways, batch, hidden)
            attrs = {"hidden_size": hidden, "direction": direction}
            outputs = 3 if op_type == "LSTM" else 2
            yield Sample(op_type, (x, w, r), attrs, outputs=outputs, data=1)
            yield Sample(op_type, (x, w, r, b, np.array([4, 2], np.int32), first), {**attrs, "clip": 0.5}, outputs=outputs, data=1)
    w, r = reals(1, 15, 3), reals(1, 15, 5)
    yield Sample("GRU", (x, w, r), {"hidden_size": 5, "linear_before_reset": 1}, outputs=2, data=1)
    yield Sample("RNN", (x, reals(1, 5, 3), reals(1, 5, 5)), {"hidden_size": 5, "activations": ["Relu"]}, outputs=2, data=1)


def losses() -> Iterator[Sample]:
    attrs: dict[str, Any]
    scores, target = reals(3, 4), ints(1, 0, 3)
    for reduction in ("mean", "sum", "none"):
        for op_type in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
            yield Sample(op_type, (scores, target), {"reduction": reduction}, since=12)
            yield Sample(op_type, (scores, target, positive(4)), {"reduction": reduction, "ignore_index": 0}, since=12)
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11]]], np.float32)
    chances = np.array([[[0.9, 0.75, 0.6]]], np.float32)
    limits = (number(3, np.int64).reshape(1), number(0.5).reshape(1), number(0.0).reshape(1))
    for attrs in ({}, {"center_point_box": 1}):
        yield Sample("NonMaxSuppression", (boxes, chances, *limits), attrs, since=10, data=2)


def structured() -> Iterator[Sample]:
    attrs: dict[str, Any]

    def value(name: str, shape: Sequence[int] | None = (2, 3), kind: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    then = helper.make_graph([helper.make_node("Neg", ["i1"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([helper.make_node("Abs", ["i1"], ["e"])], "else", [], [value("e")])
    for choice in (True, False):
        attrs = {"then_branch": then, "else_branch": other}
        yield Sample("If", (np.array(choice), reals(2, 3)), attrs, reads=("i0",))
    body = helper.make_graph(
        [
            helper.make_node("Add", ["c", "c"], ["d"]),
            helper.make_node("Identity", ["d"], ["s"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [value("n", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("c")],
        [value("on", (), TensorProto.BOOL), value("d"), value("s")],
    )
    yield Sample("Loop", (number(3, np.int64), np.array(True), reals(2, 3)), {"body": body}, outputs=2, data=3)
    scan = helper.make_graph(
        [helper.make_node("Add", ["a", "x"], ["b"]), helper.make_node("Identity", ["b"], ["y"])],
        "scan",
        [value("a", (3,)), value("x", (3,))],
        [value("b", (3,)), value("y", (3,))],
    )
    for attrs in ({}, {"scan_input_directions": [1]}, {"scan_output_directions": [1]}):
        yield Sample("Scan", (reals(3), reals(2, 3)), {"body": scan, "num_scan_inputs": 1, **attrs}, outputs=2, since=9)
    optional = helper.make_node("Optional", ["i0"], ["p"])
    yield Sample("Optional", (X,), since=15)
    for op_type in ("OptionalGetElement", "OptionalHasElement"):
        yield Sample(op_type, (X,), since=15, before=(optional,), reads=("p",))
        yield Sample(op_type, (X,), since=18)
    for attrs in ({}, {"axis": 1}, {"axis": 1, "keepdims": 0}):
        yield Sample("SplitToSequence", (reals(4, 6),), attrs, since=11)
    yield Sample("SplitToSequence", (reals(4, 6), ints(1, 3)), since=11, data=1)
    yield Sample("SplitToSequence", (reals(4, 6), number(4, np.int64)), {"axis": 1}, since=11, data=1)


FAMILIES: Final = (
    *(
        elementwise,
        clipped,
        casts,
        reductions,
        windows,
        resizing,
        normalization,
        products,
        movement,
        creation,
        recurrent,
        losses,
        structured,
    ),
)


def all_samples() -> list[Sample]:
    """All samples."""
    return [sample for family in FAMILIES for sample in family()]
