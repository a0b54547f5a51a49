"""Operands of operators that Passat leaves opaque: regions of images, transforms, texts, quantized operators of ONNX Runtime, and classical
machine learning."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.fuzz.builder import Builder, Draft, Value
from tests.fuzz.operators import Form, recipe
from tests.fuzz.values import FLOAT, INT64, STRING

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


# ---- transforms, sequence models


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


# ---- ONNX Runtime's own operators


@recipe("com.microsoft::QLinearAdd", "com.microsoft::QLinearMul", "com.microsoft::QLinearConcat")
def _quantized(graph: Builder, form: Form) -> Draft:
    kind = graph.one_of(BYTES)
    a = graph.operand({kind}, lambda value: value.rank > 0, lambda: graph.shape(1))
    b = graph.partner(a) if not form.op.endswith("Concat") else a
    parts = [part for x in (a, b) for part in (x, _scale(graph), _zero(graph, kind))]
    ends: list[Value | None] = [_scale(graph), _zero(graph, kind)]
    return Draft([*ends, *parts], {"axis": graph.integer(0, a.rank - 1)}) if form.op.endswith("Concat") else Draft([*parts, *ends])


@recipe("com.microsoft::MatMulNBits")
def _packed(graph: Builder, form: Form) -> Draft:
    x = graph.operand({FLOAT}, lambda value: value.rank > 0 and value.shape[-1] == 32, lambda: (*graph.shape(0, 2), 32))
    inputs: list[Value | None] = [x, graph.constant(graph.random.integers(0, 256, (3, 1, 16)), TensorProto.UINT8), _numbers(graph, (3,))]
    if graph.chance(0.5):
        inputs += [graph.constant([8, 8, 7], TensorProto.UINT8), None, _numbers(graph, (3,)) if graph.chance(0.5) else None]
    return Draft(inputs, {"K": 32, "N": 3, "bits": 4, "block_size": 32})


@recipe("com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization")
def _skip(graph: Builder, form: Form) -> Draft:
    x = graph.operand({FLOAT}, lambda value: value.rank == 3 and 0 not in value.shape, lambda: graph.shape(3, 3))
    other = graph.operand({FLOAT}, lambda value: value.shape == x.shape, lambda: x.shape)
    count = graph.integer(1, 3 if "Simplified" not in form.op else 2)
    return Draft([x, other, *(_numbers(graph, x.shape[-1:]) for _ in range(count))], {"epsilon": 1e-5}, graph.one_of([1, 4]))


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


@recipe("ai.onnx.ml::TreeEnsembleRegressor")
def _trees(graph: Builder, form: Form) -> Draft:
    x = _rows(graph)
    nodes = {"treeids": [0, 0, 0], "nodeids": [0, 1, 2], "featureids": [x.shape[1] - 1, 0, 0], "modes": ["BRANCH_LEQ", "LEAF", "LEAF"]}
    nodes |= {"values": [0.5, 0.0, 0.0], "truenodeids": [1, 0, 0], "falsenodeids": [2, 0, 0]}
    leaves = {"treeids": [0, 0], "nodeids": [1, 2], "ids": [0, 1], "weights": [1.0, 2.0]}
    attrs = {f"nodes_{name}": value for name, value in nodes.items()} | {f"target_{name}": value for name, value in leaves.items()}
    return Draft([x], {**attrs, "n_targets": 2, "post_transform": graph.one_of(["NONE", "SOFTMAX"])})
