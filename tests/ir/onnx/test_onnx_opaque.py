"""Opaque operators: what their calls carry, and the types and values of their results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

from passat.ir.attrs import Attrs
from passat.ir.dim_text import parse_dim
from passat.ir.evaluate import EvaluateError, evaluate_call
from passat.ir.expr import Call, Function, const, var
from passat.ir.infer import InferError, infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, check, from_onnx, to_onnx
from passat.ir.onnx.opaque import OpaqueOp, escape, opaque_name, own_attributes
from passat.ir.onnx.value_types import MAP, OPTIONAL, SEQUENCE, SPARSE, UNKNOWN, parse_type, show_type, type_of, type_proto
from passat.ir.op import get_op
from passat.ir.shape import ANY, SymDim
from passat.ir.shape import Any as Unknown
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type, TypeCall
from tests.share import share

Parse = Callable[..., ModelProto]

dims = st.one_of(
    st.integers(0, 9),
    st.just(ANY),
    st.sampled_from(["n", "batch", "s0", "max(n, 1)", "a,b", ', "', '"', "]"]).map(parse_dim),
    st.sampled_from(["n", "seq-len"]).map(lambda name: SymDim.named(name) * 2 + 1),
)
tensors = st.builds(TensorType, st.lists(dims, max_size=4).map(tuple), st.sampled_from(["float32", "int4", "string", "bool", "bfloat16"]))
types: st.SearchStrategy[Type] = st.recursive(
    st.one_of(tensors, st.just(UNKNOWN), tensors.map(lambda type_: TypeCall(SPARSE, [type_]))),
    lambda inner: st.one_of(
        inner.map(lambda type_: TypeCall(SEQUENCE, [type_])),
        inner.map(lambda type_: TypeCall(OPTIONAL, [type_])),
        inner.map(lambda type_: TypeCall(MAP, [TensorType((), "int64"), type_])),
    ),
    max_leaves=4,
)


@settings(max_examples=share(35, 200))
@given(types)
def test_types_as_text_and_back(type_: Type) -> None:
    assert parse_type(show_type(type_)) == type_


def test_a_size_whose_text_is_read_as_another_size_is_unknown() -> None:
    """`2*audio-1` is one less than twice the size `audio`."""
    assert show_type(TensorType((SymDim.named("audio-1"), 2 * SymDim.named("audio-1")), "int8")) == "int8[audio-1, ?]"


@settings(max_examples=share(35, 200))
@given(types)
def test_types_as_protos_and_back(type_: Type) -> None:
    assert type_of(type_proto(type_)) == type_


@pytest.mark.parametrize("text", ["", "float32", "vec(float32[])", "float32[2", "seq()"])
def test_text_that_is_not_a_type(text: str) -> None:
    with pytest.raises(ValueError, match="is not a type"):
        parse_type(text)


def test_negative_and_missing_dimensions_are_unknown() -> None:
    proto = type_proto(TensorType((2, 3)))
    proto.tensor_type.shape.dim[0].dim_value = -1
    proto.tensor_type.shape.dim[1].Clear()
    found = type_of(proto)
    assert isinstance(found, TensorType)
    assert all(isinstance(dim, Unknown) for dim in found.shape)


@settings(max_examples=share(10, 50))
@given(st.dictionaries(st.sampled_from(["axis", "opset", "outputs", "types", "opset_", "outputs__", "bodies", "x_"]), st.integers()))
def test_attributes_that_are_called_like_ours(attributes: dict[str, int]) -> None:
    attrs = {escape(name): value for name, value in attributes.items()} | {"opset": 17, "outputs": "1"}
    assert own_attributes(attrs) == attributes


def test_operators_by_name() -> None:
    op = get_op("onnx.com.example.Thing")
    assert isinstance(op, OpaqueOp)
    assert (op.domain, op.op_type) == ("com.example", "Thing")
    assert op.stateful
    assert op.kernel is None
    det = get_op("onnx.Det")
    assert not det.stateful
    assert det.kernel is not None
    assert get_op("onnx.RandomNormal").stateful
    dotted = get_op(opaque_name("torch.nn", "Linear.forward"))
    assert isinstance(dotted, OpaqueOp)
    assert (dotted.domain, dotted.op_type) == ("torch.nn", "Linear.forward")


def test_built_by_hand_with_the_newest_version() -> None:
    call = infer_type(get_op("onnx.Det")(var("x", shape=("n", 3, 3))))
    assert repr(call.checked_type) == "Tensor[(n,), float32]"


def test_types_come_from_onnx_again_after_a_change(parse: Parse) -> None:
    module = from_onnx(parse("g (float[2, 3, 3] x) => (float[2] y) { y = Det(x) }"))
    call: Any = module["main"].body
    again = infer_type(Call(call.op, [var("x", shape=(5, 3, 3))], call.attrs))
    assert repr(again.checked_type) == "Tensor[(5,), float32]"


def test_operands_that_do_not_fit() -> None:
    with pytest.raises(InferError, match="Det"):
        infer_type(get_op("onnx.Det")(var("x", shape=(3,))))


def test_types_that_depend_on_values_are_carried(parse: Parse) -> None:
    model = parse(
        "g (float[1, 1, 2, 2] x) => (float[N, C, H, W] y) {"
        ' s = Constant<value_ints = [1, 1, 4, 6]>()\n y = Resize<mode = "cubic", antialias = 1>(x, , , s) }',
        opset=18,
    )
    call: Any = from_onnx(model)["main"].body
    assert repr(call.checked_type) == "Tensor[(1, 1, 4, 6), float32]"
    assert call.attrs["types"] == ("float32[1, 1, 4, 6]",)
    again = infer_type(Call(call.op, call.args, call.attrs))
    assert again.checked_type == call.checked_type


def test_empty_operands_of_resize_are_absent(parse: Parse) -> None:
    """As TensorFlow's converter and early exports of PyTorch write them, also in opsets where they are optional."""
    model = parse(
        "g (float[1, 3, H, W] x) => (float[N, C, K, L] y) <float[0] none = {}, int64[4] sizes = {1, 3, 17, 23}> {"
        ' y = Resize <mode = "linear"> (x, none, none, sizes) }',
        opset=18,
    )
    call: Any = from_onnx(model)["main"].body
    assert repr(call.checked_type) == "Tensor[(1, 3, 17, 23), float32]"


@pytest.mark.parametrize("made", ["s = Cast <to = 7> (k)", "s = Identity (l)", "o = Identity (l) s = Sub (o, one)"])
def test_types_that_depend_on_values_that_few_calls_compute_from_constants(made: str, parse: Parse) -> None:
    constants = "<int32 k = {8}, int64 l = {8}, int64 one = {1}>"
    model = parse(f"g () => (float[N] z) {constants} {{ {made} y = HannWindow (s) z = Neg (y) }}", opset=17)
    size = 7 if "Sub" in made else 8
    assert repr(from_onnx(model)["main"].body.checked_type) == f"Tensor[({size},), float32]"


def test_such_types_contradict_another_node(parse: Parse) -> None:
    """ONNX Runtime does not load the model, except with its optimizations off."""
    constants = "<int64[1] c = {-1}, float[3, 3] e = {1, 2, 3, 4, 5, 6, 7, 8, 9}>"
    model = parse(
        f"g (float[m, n] x) => (float[k, l] y) {constants} {{ i = Identity (c) r = ReduceMean (x, i) y = MatMul (r, e) }}", opset=18
    )
    with pytest.raises(OnnxError, match="the MatMul node that produces 'y' does not accept operands"):
        from_onnx(model)


@pytest.mark.parametrize("op", ["BlackmanWindow", "HammingWindow", "HannWindow"])
@pytest.mark.parametrize(("attributes", "dtype"), [("", "float32"), ("<output_datatype = 11>", "float64")])
def test_windows_of_unknown_size_have_a_rank(op: str, attributes: str, dtype: str, parse: Parse) -> None:
    element = {"float32": "float", "float64": "double"}[dtype]
    model = parse(f"g (int64 n) => ({element}[N] z) {{ y = {op} {attributes} (n) z = Neg (y) }}", opset=17)
    call: Any = from_onnx(model)["main"].body
    assert repr(call.op) == "negative"
    assert repr(call.args[0].checked_type) == f"Tensor[(?,), {dtype}]"


def test_a_normalization_has_the_type_of_its_operand(parse: Parse) -> None:
    model = parse("g (float[n, 3, 4, 4] x) => (float[a, b, c, d] z) { y = MeanVarianceNormalization (x) z = Neg (y) }", opset=17)
    assert repr(from_onnx(model)["main"].body.checked_type) == "Tensor[(n, 3, 4, 4), float32]"


def test_an_absent_output_among_several(parse: Parse) -> None:
    model = parse(
        "g (float[5, 2, 3] x, float[1, 16, 3] w, float[1, 16, 4] r) => (float[5, 1, 2, 4] y, float[1, 2, 4] c) {"
        " y, , c = LSTM<hidden_size = 4>(x, w, r) }"
    )
    module = from_onnx(model)
    body: Any = module["main"].body
    assert body[0].tuple_value is body[1].tuple_value
    assert body[0].tuple_value.attrs["outputs"] == "101"
    assert [repr(field.checked_type) for field in body] == ["Tensor[(5, 1, 2, 4), float32]", "Tensor[(1, 2, 4), float32]"]


def evaluate(name: str, *values: np.ndarray[Any, Any], **attrs: Any) -> np.ndarray[Any, Any]:
    call = infer_type(get_op(name)(*map(const, values), **attrs))
    assert isinstance(call, Call)
    found = evaluate_call(get_op(name), list(map(Tensor.dense, values)), call.attrs, call.checked_type)
    assert isinstance(found, Tensor)
    return found.numpy()


def test_values_come_from_the_runtime() -> None:
    x = np.array([[[2, 1], [0, 3]]], np.float32)
    np.testing.assert_allclose(evaluate("onnx.Det", x), [6])
    np.testing.assert_array_equal(
        evaluate("onnx.BitShift", np.array([1, 2], np.uint8), np.array([3, 1], np.uint8), direction="LEFT", opset=11), [8, 4]
    )


def test_rejections_of_the_runtime_are_evaluate_errors() -> None:
    op = get_op("onnx.BitShift")
    attrs = Attrs(opset=11, outputs="1", direction="SIDEWAYS")
    with pytest.raises(EvaluateError, match="BitShift"):
        evaluate_call(op, [Tensor.dense(np.array([1], np.uint8))] * 2, attrs, TensorType((1,), "uint8"))


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(("axis", "opset"), [(0, 7), (0, 11), (1, 12), (1, 13), (0, 13)])
def test_a_value_is_that_of_the_version(
    name: str, axis: int, opset: int, parse: Parse, run: Callable[..., list[Any]], random: np.random.Generator
) -> None:
    """Until version 12 these operators flattened their operand; newer implementations do not."""
    data = random.standard_normal((2, 3, 2)).astype(np.float32)
    model = parse(f"g (float[2, 3, 2] x) => (float[2, 3, 2] y) {{ y = {name}<axis = {axis}>(x) }}", opset=opset)
    expected = run(model, {"x": data})[0]
    assert evaluate(f"onnx.{name}", data, axis=axis, opset=opset).tobytes() == expected.tobytes()


def test_an_attribute_that_implementations_overlook() -> None:
    found = evaluate("onnx.Unique", np.array([3, 1, 2, 1], np.float32), sorted=0, opset=11, types=("float32[3]",))
    assert found.tolist() == [3, 1, 2]


@pytest.mark.parametrize("outputs", [["y"], ["y", "z"], ["y", "", "z"]])
@pytest.mark.parametrize("made", [[], ["b"]])
def test_a_call_with_more_outputs_than_its_function_has(outputs: list[str], made: list[str]) -> None:
    """ONNX Runtime rejects it; Passat reads as much as possible, and the missing value has an unknown type."""
    function = helper.make_function("local", "f", ["a"], made, [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 18)])
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])] for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("f", ["x"], outputs, domain="local")], "g", ends[0], ends[1])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=9)
    assert [node.op_type for node in to_onnx(from_onnx(model)).graph.node] == ["f"]


def test_operators_of_old_opsets_are_opaque(parse: Parse) -> None:
    call: Any = from_onnx(parse("g (float[2] x, float[1] z) => (float[2] y) { y = Add<axis = 0, broadcast = 1>(x, z) }", opset=6))[
        "main"
    ].body
    assert call.op.name == "onnx.Add"
    assert call.attrs["opset"] == 6


def test_calls_whose_graphs_draw_random_numbers_are_never_equal(parse: Parse) -> None:
    each = "SequenceMap (s) <body = each{} (float[2] e) => (float[2] r{}) {{ r{} = RandomNormalLike(e) }}>"
    maps = [each.format(i, i, i) for i in range(2)]
    model = parse(
        f"g (float[2] x) => (float[4] y, float[4] z) {{ s = SequenceConstruct(x, x)\n a = {maps[0]}\n b = {maps[1]}\n"
        " y = ConcatFromSequence<axis = 0>(a)\n z = ConcatFromSequence<axis = 0>(b) }"
    )
    body: Any = from_onnx(model)["main"].body
    first, second = (field.args[0] for field in body)
    assert (first.attrs["unique"], second.attrs["unique"]) == ("a", "b")


def test_other_domains_are_imported_by_modules_built_by_hand() -> None:
    x = var("x", shape=(2, 3))
    call = get_op("onnx.ai.onnx.ml.Binarizer")(x, threshold=0.5)
    model = to_onnx(IRModule({"main": Function([x], call)}))
    check(model)
    assert {entry.domain for entry in model.opset_import} == {"", "ai.onnx.ml"}
    assert repr(call.checked_type) == "Tensor[(2, 3), float32]"


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "said"),
    [
        ("If", ["c"], {"then_branch": 0, "else_branch": [1, 2]}, "has no graph 'else_branch'"),
        ("Loop", ["m", "c"], {"body": 3}, "has no graph 'body'"),
        ("Resize", ["x", "", "", "m"], {"mode": 1}, "Expected: 'STRING', actual: 'INT'"),
        ("StringSplit", ["x"], {"delimiter": [1]}, "has output size 1"),
        ("Constant", [], {"value": 4}, "Expected: 'TENSOR', actual: 'INT'"),
        ("Constant", [], {"value_strings": [4]}, "Expected: 'STRINGS', actual: 'INTS'"),
        ("TfIdfVectorizer", ["x"], {"pool_strings": [7], "mode": "TF", "ngram_counts": 3}, "actual: 'INT"),
        ("Optional", [], {"type": 1}, "Expected: 'TYPE_PROTO', actual: 'INT'"),
    ],
)
def test_attributes_of_undeclared_kinds(op_type: str, inputs: list[str], attributes: dict[str, Any], said: str) -> None:
    node = helper.make_node(op_type, inputs, ["y"], **attributes)
    kinds = {"x": (TensorProto.FLOAT, [2]), "m": (TensorProto.INT64, [1]), "c": (TensorProto.BOOL, []), "y": (TensorProto.FLOAT, None)}
    values = {name: helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()}
    graph = helper.make_graph([node], "g", [values[name] for name in "xmc"], [values["y"]])
    with pytest.raises(OnnxError, match=said):
        from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8))


_TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}
_LEAVES = {"treeids": [0, 0], "nodeids": [1, 2], "ids": [0, 1], "weights": [1.0, 2.0]}
_SUPPORT: dict[str, Any] = {
    "coefficients": [1.0, 2.0],
    "rho": [0.1],
    "support_vectors": [1.0] * 6,
    "kernel_type": "LINEAR",
    "kernel_params": [0.1, 0.0, 3.0],
}


@pytest.mark.parametrize(
    ("op_type", "attributes", "for_rows", "for_vector"),
    [
        ("Scaler", {"offset": [0.0], "scale": [2.0]}, ["float32[n, 3]"], ["float32[3]"]),
        ("Normalizer", {"norm": "L2"}, ["float32[n, 3]"], ["float32[3]"]),
        ("Imputer", {"imputed_value_floats": [0.0]}, ["float32[n, 3]"], ["float32[3]"]),
        ("LinearRegressor", {"coefficients": [1.0] * 6, "targets": 2}, ["float32[n, 2]"], ["float32[1, 2]"]),
        ("SVMRegressor", _SUPPORT | {"n_supports": 2}, ["float32[n, 1]"], ["float32[1, 1]"]),
        (
            "SVMClassifier",
            _SUPPORT | {"vectors_per_class": [1, 1], "classlabels_ints": [3, 4]},
            ["int64[n]", "float32[n, ?]"],
            ["int64[1]", "float32[1, ?]"],
        ),
        (
            "TreeEnsembleRegressor",
            _TREE | {f"target_{name}": numbers for name, numbers in _LEAVES.items()} | {"n_targets": 2},
            ["float32[n, 2]"],
            ["float32[1, 2]"],
        ),
        (
            "TreeEnsembleClassifier",
            _TREE | {f"class_{name}": numbers for name, numbers in _LEAVES.items()} | {"classlabels_strings": ["a", "b"]},
            ["string[n]", "float32[n, ?]"],
            ["string[1]", "float32[1, ?]"],
        ),
        ("FeatureVectorizer", {"inputdimensions": [3]}, ["float32[n, 3]"], ["float32[1, 3]"]),
        ("ArrayFeatureExtractor", {}, ["float32[n, 2]"], ["float32[1, 2]"]),
    ],
)
def test_types_of_ai_onnx_ml_are_those_of_onnx_runtime(
    op_type: str, attributes: dict[str, Any], for_rows: list[str], for_vector: list[str]
) -> None:
    inputs = ["x", "at"] if op_type == "ArrayFeatureExtractor" else ["x"]
    outputs = [f"y{i}" for i in range(len(for_rows))]
    node = helper.make_node(op_type, inputs, outputs, domain="ai.onnx.ml", **attributes)
    declared = [helper.make_empty_tensor_value_info(name) for name in outputs]
    at = [helper.make_tensor("at", TensorProto.INT64, [2], [0, 2])][: len(inputs) - 1]
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    shapes: list[tuple[list[str | int], list[int], list[str]]] = [(["n", 3], [4, 3], for_rows), ([3], [3], for_vector)]
    for given_shape, sizes, expected in shapes:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, given_shape)
        model = helper.make_model(helper.make_graph([node], "g", [x], declared, at), opset_imports=imports, ir_version=8)
        result = from_onnx(model)["main"].body.checked_type
        found = list(result.fields) if isinstance(result, TupleType) else [result]
        assert list(map(show_type, found)) == expected
        values = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": np.ones(sizes, np.float32)})
        for type_, array in zip(found, values, strict=True):
            assert isinstance(type_, TensorType)
            assert array.dtype == (object if type_.dtype == "string" else type_.dtype)
            known = [4 if dim == SymDim.named("n") else dim for dim in type_.shape]
            assert all(dim is ANY or dim == size for dim, size in zip(known, array.shape, strict=True))
