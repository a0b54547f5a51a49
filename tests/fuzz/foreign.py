"""Operands of operators that Passat leaves opaque: regions of images, transforms, texts, ONNX Runtime's own operators, and classical
machine learning."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.builder import Builder, Draft, Value
from tests.fuzz.operators import Form, recipe
from tests.fuzz.values import FLOAT, INT64, STRING, Array
from tests.ir.onnx.test_contrib_types import INSTANCES, Draw

INT32 = TensorProto.INT32
BYTES = (TensorProto.UINT8, TensorProto.INT8)


def _image(graph: Builder) -> Value:
    fits = lambda value: value.rank == 4 and 0 not in value.shape and max(value.shape) < 9  # noqa: E731  # read once
    return graph.operand({FLOAT}, fits, lambda: (graph.integer(1, 2), graph.one_of([1, 2, 4]), 4, 4))


def _rows(graph: Builder) -> Value:
    """A matrix that is not empty."""
    return graph.operand(
        {FLOAT}, lambda value: value.rank == 2 and 0 not in value.shape, lambda: (graph.integer(1, 3), graph.integer(1, 8))
    )


def _numbers(graph: Builder, shape: Sequence[int]) -> Value:
    """A weight: mostly a constant."""
    return graph.fresh(FLOAT, shape) if graph.chance(0.2) else graph.constant(graph.random.normal(size=shape))


def _scale(graph: Builder) -> Value:
    return graph.constant(graph.one_of([0.5, 0.25, 0.1, 1.0]))


def _zero(graph: Builder, kind: int) -> Value:
    return graph.constant(graph.one_of([0, 0, 1, 7]), kind)


def _given(graph: Builder, **attrs: Any) -> dict[str, Any]:
    """Some of the attributes."""
    return {name: value for name, value in attrs.items() if graph.chance(0.6)}


# ---- regions of images


@recipe("RoiAlign", "MaxRoiPool")
def _regions(graph: Builder, form: Form) -> Draft:
    x = _image(graph)
    corners = np.sort(graph.random.uniform(0, 4, (3, 2, 2)), 1).reshape(3, 4)
    if form.op == "MaxRoiPool":
        return Draft([x, graph.constant(np.hstack([np.zeros((3, 1)), corners]))], {"pooled_shape": [2, graph.integer(1, 2)]})
    attrs = _given(graph, mode=graph.one_of(["avg", "max"]), output_height=2, output_width=2, sampling_ratio=1)
    if form.has("coordinate_transformation_mode"):
        attrs |= _given(graph, coordinate_transformation_mode=graph.one_of(["half_pixel", "output_half_pixel"]))
    return Draft([x, graph.constant(corners), graph.ints([0, x.shape[0] - 1, 0])], attrs)


@recipe("MaxUnpool")
def _unpool(graph: Builder, form: Form) -> Draft | None:
    x = _image(graph)
    if 1 in x.shape[2:]:
        return None
    pooled = graph.node("MaxPool", [x], 2, kernel_shape=[2, 2], strides=[2, 2])
    return Draft(pooled[:2], {"kernel_shape": [2, 2], "strides": [2, 2]}) if pooled else None


@recipe("NonMaxSuppression")
def _suppress(graph: Builder, form: Form) -> Draft:
    boxes = graph.operand({FLOAT}, lambda value: value.rank == 3 and value.shape[2] == 4, lambda: (1, 4, 4))
    limits = [graph.ints(graph.integer(0, 3)), graph.constant(0.5), graph.constant(graph.one_of([0.0, -1.0]))][: graph.integer(1, 3)]
    return Draft(
        [boxes, _numbers(graph, (boxes.shape[0], 2, boxes.shape[1])), *limits], _given(graph, center_point_box=graph.integer(0, 1))
    )


@recipe("AffineGrid")
def _grid(graph: Builder, form: Form) -> Draft:
    rank = graph.integer(2, 3)
    theta = graph.fresh(graph.kind(form.kinds(0) & {FLOAT, TensorProto.DOUBLE}), (2, rank, rank + 1))
    return Draft([theta, graph.ints([2, *(graph.integer(1, 4) for _ in range(rank + 1))])], {"align_corners": graph.integer(0, 1)})


@recipe("Col2Im")
def _folded(graph: Builder, form: Form) -> Draft:
    size, block, channels = [graph.integer(2, 5) for _ in range(2)], [graph.integer(1, 2) for _ in range(2)], graph.integer(1, 2)
    columns = math.prod(whole - part + 1 for whole, part in zip(size, block, strict=True))
    x = graph.fresh(FLOAT, (graph.integer(1, 2), channels * math.prod(block), columns))
    return Draft([x, graph.ints(size), graph.ints(block)])


@recipe("DeformConv")
def _deformed(graph: Builder, form: Form) -> Draft:
    x = _image(graph)
    made = [size - 1 for size in x.shape[2:]]
    inputs: list[Value | None] = [x, _numbers(graph, (2, x.shape[1], 2, 2)), _numbers(graph, (x.shape[0], 8, *made))]
    inputs += [_numbers(graph, (2,)) if graph.chance(0.5) else None, _numbers(graph, (x.shape[0], 4, *made))]
    return Draft(inputs if graph.chance(0.5) else inputs[:3], {"kernel_shape": [2, 2]} if graph.chance(0.5) else {})


# ---- transforms, losses


@recipe("STFT")
def _short_transform(graph: Builder, form: Form) -> Draft:
    sides = graph.integer(0, 1)
    x = graph.operand({FLOAT}, lambda value: value.rank == 3 and value.shape[2] == 1 and value.shape[1] >= 4, lambda: (2, 8, 1))
    window = _numbers(graph, (4,)) if graph.chance(0.6) else None
    length = graph.ints(4) if window is None or graph.chance(0.5) else None
    attrs = {"onesided": sides} if graph.chance(0.7) else {}
    return Draft([x, graph.ints(graph.integer(1, 3)), window, *([length] if length else [])], attrs)


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(graph: Builder, form: Form) -> Draft:
    shape = (graph.integer(1, 3), graph.integer(1, 4), *(graph.integer(1, 3) for _ in range(graph.integer(0, 2))))
    x = graph.operand({FLOAT}, lambda value: value.rank > 1 and 0 not in value.shape, lambda: shape)
    target = graph.ints(graph.random.integers(0, x.shape[1], (x.shape[0], *x.shape[2:])))  # type: ignore[arg-type]  # an array of integers
    weights = [_numbers(graph, (x.shape[1],))] if graph.chance(0.4) else []
    attrs = _given(graph, reduction=graph.one_of(["none", "mean", "sum"]), ignore_index=graph.integer(0, 2))
    return Draft([x, target, *weights], attrs, graph.integer(1, 2) if form.op.startswith("Softmax") else 1)


@recipe("DFT")
def _transform(graph: Builder, form: Form) -> Draft:
    x = graph.operand(
        {FLOAT}, lambda value: value.rank == 3 and value.shape[2] in (1, 2) and 0 not in value.shape, lambda: (2, 4, graph.integer(1, 2))
    )
    inverse = graph.integer(0, 1)
    attrs = {"inverse": inverse, "onesided": graph.integer(0, 1 - inverse)}
    length = graph.ints(graph.integer(2, 6)) if graph.chance(0.5) else None
    return Draft([x, length, graph.ints(1)], attrs) if form.version >= 20 else Draft([x, length], {**attrs, "axis": 1})


# ---- texts


@recipe("StringNormalizer")
def _normalized(graph: Builder, form: Form) -> Draft:
    x = graph.operand({STRING}, lambda value: value.rank == 1 or value.shape[:1] == (1,), lambda: graph.shape(1, 1))
    return Draft([x], _given(graph, case_change_action=graph.one_of(["LOWER", "UPPER", "NONE"]), stopwords=["a", "B"], is_case_sensitive=1))


@recipe("TfIdfVectorizer")
def _counted(graph: Builder, form: Form) -> Draft:
    x = graph.operand({STRING, INT64, INT32}, lambda value: value.rank in (1, 2))
    attrs: dict[str, Any] = {"pool_strings": ["a", "B", "a", "a"]} if x.kind == STRING else {"pool_int64s": [1, 2, 1, 1]}
    attrs |= {
        "ngram_counts": [0, 2],
        "ngram_indexes": [0, 2, 1],
        "max_gram_length": 2,
        "min_gram_length": 1,
        "max_skip_count": graph.integer(0, 1),
    }
    return Draft([x], {**attrs, "mode": graph.one_of(["TF", "IDF", "TFIDF"]), **_given(graph, weights=[0.5, 2.0, 1.0])})


@recipe("RegexFullMatch")
def _matched(graph: Builder, form: Form) -> Draft:
    return Draft([graph.operand({STRING})], {"pattern": graph.one_of(["a", "[a-z]*", ".*"])})


# ---- ONNX Runtime's own operators


class _Drawn(Draw):
    """Draws an instance of an operator, with sizes that the graph has names for."""

    def __init__(self, graph: Builder) -> None:
        super().__init__(graph.integer(0, 2**31))
        self._named = list(graph.symbols.values())

    def size(self, least: int = 1, most: int = 4) -> int:
        return (
            int(self.some(*self._named))
            if self._named and (least, most) == (1, 4) and self.rng.random() < 0.4
            else super().size(least, most)
        )


def _own(graph: Builder, form: Form) -> Draft:
    """Operands like those with which the types of the results are tested. Real numbers are values of the graph if some have the shape."""
    domain, _, name = form.op.rpartition("::")
    drawn = INSTANCES[domain][name](_Drawn(graph))
    graph.never_empty = True
    # With keys and values of different sizes, ONNX Runtime leaves a part of the second result of Attention uninitialized; with past keys
    # and values but without its later results, MultiHeadAttention reads memory that nothing wrote.
    results = 1 if "qkv_hidden_sizes" in drawn.attrs else 3 if name == "MultiHeadAttention" and len(drawn.operands) > 3 else drawn.results
    return Draft([None if operand is None else _like(graph, operand) for operand in drawn.operands], drawn.attrs, results)


def _like(graph: Builder, array: Array) -> Value:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    if array.dtype.kind != "f" or not array.ndim:
        return graph.ints(array, kind) if array.ndim else graph.constant(array, kind)  # type: ignore[arg-type]  # an array
    return graph.known(lambda value: not value.is_sequence and (value.kind, value.shape) == (kind, array.shape)) or graph.fresh(
        kind, array.shape
    )


recipe(*(f"{domain}::{name}" for domain, names in INSTANCES.items() for name in names))(_own)


@recipe("com.microsoft::TransposeMatMul", "com.microsoft::CDist")
def _products(graph: Builder, form: Form) -> Draft:
    x = _rows(graph)
    if form.op.endswith("CDist"):
        return Draft([x, _numbers(graph, (3, x.shape[1]))], {"metric": graph.one_of(["euclidean", "sqeuclidean"])})
    flips = [graph.integer(0, 1) for _ in range(2)]
    inner = x.shape[0 if flips[0] else 1]
    return Draft(
        [x, _numbers(graph, (2, inner) if flips[1] else (inner, 2))], {"transA": flips[0], "transB": flips[1], "alpha": graph.number()}
    )


@recipe(*(f"com.microsoft::{name}" for name in ("ExpandDims", "Trilu", "Pad", "GatherND", "Unique", "MurmurHash3", "Range")))
def _older(graph: Builder, form: Form) -> Draft:
    """Operators that the standard has, too, in other forms."""
    x = _rows(graph)
    match form.op.rpartition("::")[2]:
        case "ExpandDims":
            return Draft([x, graph.constant(graph.integer(-3, 2), INT32)])
        case "Trilu":
            return Draft([x, graph.ints(graph.integer(-2, 2))], {"upper": graph.integer(0, 1)})
        case "Pad":
            return Draft(
                [x, graph.ints([graph.integer(0, 2) for _ in range(4)]), graph.constant([0.5])],
                {"mode": graph.one_of(["constant", "edge"])},
            )
        case "GatherND":
            return Draft([x, graph.ints([[0], [x.shape[0] - 1]])])  # type: ignore[list-item]  # a matrix
        case "Unique":
            return Draft([graph.operand({FLOAT}, lambda value: value.rank == 1 and 0 not in value.shape, lambda: (4,))], {}, 3)
        case "MurmurHash3":
            return Draft([graph.operand({INT32, INT64, STRING, FLOAT})], {"positive": graph.integer(0, 1)})
    return Draft([graph.constant(number) for number in (0, graph.integer(1, 5), 1)])


# ---- classical machine learning


@recipe("ai.onnx.ml::Scaler", "ai.onnx.ml::Normalizer")
def _features(graph: Builder, form: Form) -> Draft:
    x = _rows(graph)
    if form.op.endswith("Normalizer"):
        return Draft([x], {"norm": graph.one_of(["MAX", "L1", "L2"])})
    return Draft([x], {"offset": [0.5] * graph.one_of([1, x.shape[1]]), "scale": [2.0] * x.shape[1]})


@recipe("ai.onnx.ml::LabelEncoder")
def _labels(graph: Builder, form: Form) -> Draft:
    x = graph.operand({INT64, STRING})
    keys: dict[str, Any] = {"keys_int64s": [0, 1, 2]} if x.kind == INT64 else {"keys_strings": ["a", "B", ""]}
    return Draft([x], keys | graph.one_of([{"values_floats": [0.5, 1.0, 2.0]}, {"values_int64s": [3, 4, 5]}]))


@recipe("ai.onnx.ml::TreeEnsembleRegressor", "ai.onnx.ml::TreeEnsembleClassifier")
def _trees(graph: Builder, form: Form) -> Draft:
    x, classifies = _rows(graph), form.op.endswith("Classifier")
    nodes = {"treeids": [0, 0, 0], "nodeids": [0, 1, 2], "featureids": [x.shape[1] - 1, 0, 0], "modes": ["BRANCH_LEQ", "LEAF", "LEAF"]}
    nodes |= {"values": [0.5, 0.0, 0.0], "truenodeids": [1, 0, 0], "falsenodeids": [2, 0, 0]}
    leaves = {"treeids": [0, 0], "nodeids": [1, 2], "ids": [0, 1], "weights": [1.0, 2.0]}
    kind = "class" if classifies else "target"
    attrs = {f"nodes_{name}": value for name, value in nodes.items()} | {f"{kind}_{name}": value for name, value in leaves.items()}
    if classifies:
        return Draft([x], {**attrs, **_classes(graph), "post_transform": graph.one_of(["NONE", "SOFTMAX", "LOGISTIC"])}, 2)
    return Draft([x], {**attrs, "n_targets": 2, "post_transform": graph.one_of(["NONE", "SOFTMAX"])})


def _classes(graph: Builder, ints: str = "classlabels_int64s") -> dict[str, Any]:
    return graph.one_of([{ints: [3, 7]}, {"classlabels_strings": ["a", "B"]}])  # type: ignore[no-any-return]  # one of the list


@recipe("ai.onnx.ml::LinearRegressor", "ai.onnx.ml::LinearClassifier", "ai.onnx.ml::SVMRegressor", "ai.onnx.ml::SVMClassifier")
def _linear(graph: Builder, form: Form) -> Draft:
    x = _rows(graph)
    width, count = x.shape[1], graph.integer(1, 3)
    transform = graph.one_of(["NONE", "SOFTMAX", "LOGISTIC"])
    vectors = {
        "kernel_type": graph.one_of(["LINEAR", "RBF", "POLY"]),
        "kernel_params": [0.5, 0.0, 2.0],
        "support_vectors": [0.5] * 2 * width,
    }
    match form.op.rpartition("::")[2]:
        case "LinearRegressor":
            return Draft(
                [x], {"coefficients": [0.5] * width * count, "intercepts": [1.0] * count, "targets": count, "post_transform": "NONE"}
            )
        case "LinearClassifier":
            weights = {"coefficients": [0.5, -1.0] * width, "intercepts": [1.0, 0.5]}
            return Draft([x], {**weights, **_classes(graph, "classlabels_ints"), "post_transform": transform}, 2)
        case "SVMRegressor":
            return Draft([x], {**vectors, "coefficients": [0.5, 1.0], "rho": [0.25], "n_supports": 2})
    weights = {"coefficients": [0.5, -1.0], "rho": [0.25], "vectors_per_class": [1, 1]}
    return Draft([x], {**vectors, **weights, **_classes(graph, "classlabels_ints")}, 2)


@recipe(
    *(
        f"ai.onnx.ml::{name}"
        for name in ("ArrayFeatureExtractor", "Binarizer", "FeatureVectorizer", "Imputer", "OneHotEncoder", "CategoryMapper")
    )
)
def _encoded(graph: Builder, form: Form) -> Draft:
    x = (
        _rows(graph)
        if graph.chance(0.7)
        else graph.operand({FLOAT}, lambda value: value.rank > 0 and 0 not in value.shape, lambda: graph.shape(1, 3))
    )
    match form.op.rpartition("::")[2]:
        case "ArrayFeatureExtractor":
            return Draft([x, graph.ints([graph.integer(0, x.shape[-1] - 1) for _ in range(graph.integer(1, 3))])])
        case "Binarizer":
            return Draft([x], {"threshold": graph.number()})
        case "FeatureVectorizer":
            return Draft([x, x], {"inputdimensions": [x.shape[-1]] * 2})
        case "Imputer":
            return Draft(
                [x],
                {
                    "imputed_value_floats": [0.5] * graph.one_of([1, x.shape[-1]]),
                    "replaced_value_float": graph.one_of([0.0, 1.0, float("nan")]),
                },
            )
        case "OneHotEncoder":
            words = graph.operand({INT64, STRING})
            return Draft(
                [words],
                {
                    **({"cats_strings": ["a", "B"]} if words.kind == STRING else {"cats_int64s": [0, 1, 2]}),
                    "zeros": graph.one_of([1, 1, 0]),
                },
            )
    return Draft(
        [graph.operand({INT64, STRING})], {"cats_int64s": [0, 1], "cats_strings": ["a", "B"], "default_int64": 7, "default_string": "none"}
    )
