"""Shapes that ONNX's inference gets wrong: results equal those of ONNX Runtime, and every model is read."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from passat.optimizer import optimize
from passat.runner import Runner

SQUEEZED = {
    "an attribute": (11, "float[3,1,2,1]", "", "Squeeze<axes: ints = []>(x)"),
    "an attribute, sizes by name": (9, "float[a,b,c,d]", "", "Squeeze<axes: ints = []>(x)"),
    "a constant": (14, "float[3,1,2,1]", "<int64[0] none = {}>", "Squeeze(x, none)"),
    "a constant, sizes by name": (21, "float[a,b,c,d]", "<int64[0] none = {}>", "Squeeze(x, none)"),
}


def held(model: onnx.ModelProto, opset: int | None = None) -> None:
    shape = (3, 1, 2, 1)
    feed = {value.name: np.arange(6, dtype=np.float32).reshape(shape) for value in model.graph.input}
    expected = Runner(model, threads=1).run(feed)
    found = Runner(optimize(model, opset=opset, verify=False).model, threads=1).run(feed)
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("opset", [None, 22])
@pytest.mark.parametrize("name", SQUEEZED)
def test_an_empty_list_of_axes_is_none(name: str, opset: int | None) -> None:
    """ONNX's inference keeps the axes of size 1, ONNX Runtime removes them."""
    version, type_, constants, squeeze = SQUEEZED[name]
    text = f"g ({type_} x) => (int64[k] y, float[m,n] z) {constants} {{ s = {squeeze} y = Shape(s) z = Relu(s) }}"
    held(onnx.parser.parse_model(f'<ir_version: 7, opset_import: ["" : {version}]> {text}'), opset)


@pytest.mark.parametrize("opset", [None, 25])
@pytest.mark.parametrize("declared", ["float[3,1,2,1] s, float[1,2,1] t, float[1,2,2] u", "float[a,1,c,1] s"])
def test_shapes_declared_behind_an_empty_list_of_axes_are_not_believed(declared: str, opset: int | None) -> None:
    """ONNX's inference writes them into models, and ONNX Runtime returns other shapes."""
    text = f"""g (float[3,1,2,1] x) => (int64[k] y, float[m] z) <int64[0] none = {{}}, int64 first = {{0}}, {declared}>
        {{ s = Squeeze(x, none) y = Shape(s) t = Gather(s, first) u = Concat<axis = -1>(t, t) z = Transpose<perm = [0]>(u) }}"""
    held(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}'), opset)


@pytest.mark.parametrize("declared", ["", "int64[0,p] a", "int64[0,1] m", "int64[0,p] a, int64[0,1] m, int64[2] y"])
@pytest.mark.parametrize("scalar", ["float u = {1}", "uint8 u = {0}"])
def test_the_places_of_a_scalar(scalar: str, declared: str) -> None:
    """For ONNX the result has no rows, for ONNX Runtime one."""
    values = ", ".join(filter(None, [scalar, declared]))
    text = f"g (float[3,1,2,1] x) => (int64[k] y) <{values}> {{ a = NonZero(u) m = ReduceMax<axes = [1]>(a) y = Shape(m) }}"
    held(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 16]> {text}'))


def test_the_places_of_a_scalar_in_a_branch() -> None:
    """The declarations around the branch come from the same inference."""
    text = """g (bool c, float u) => (int64 y) <int64[1, 0] a> {
        a = If (c) <then_branch = t () => (int64[1, 0] s) { s = NonZero(u) }, else_branch = e () => (int64[1, 0] n)
            <int64[1, 0] empty = {}> { n = Identity(empty) }>
        y = Size(a) }"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 16]> {text}')
    feed = {"c": np.asarray(True), "u": np.asarray(2, np.float32)}
    result = optimize(model, verify=False).model
    assert Runner(result, threads=1).run(feed) == Runner(model, threads=1).run(feed) == [1]


@pytest.mark.parametrize("declared", ["0,k", "1,k", "j,k"])
def test_the_places_of_a_scalar_that_comes_in(declared: str) -> None:
    text = f"g (float u) => (int64[{declared}] a, int64[1] y) {{ a = NonZero(u) y = Shape<end = 1>(a) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 16]> {text}')
    for number in (0, 1):
        feed = {"u": np.asarray(number, np.float32)}
        found = Runner(optimize(model, verify=False).model, threads=1).run(feed)
        assert [part.tolist() for part in found] == [part.tolist() for part in Runner(model, threads=1).run(feed)]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("length", ["int64 c = {1}", "int64[3] c = {1, 1, 1}"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_parts_of_one_place(place: int, length: str, keepdims: int) -> None:
    """With keepdims=0 ONNX Runtime drops the axis of parts whose length is the single number 1; ONNX ignores keepdims if lengths are
    given."""
    split = f"SplitToSequence<axis = 0, keepdims = {keepdims}>(x, c)"
    text = f"g (float[3,1,2,1] x) => (int64[k] y) <{length}, int64 i = {{{place}}}> {{ s = {split} a = SequenceAt(s, i) y = Shape(a) }}"
    held(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'))


def test_the_sequence_of_parts_without_their_axis() -> None:
    text = """g (float[3,1,2,1] x) => (int64[k] y) <int64 c = {1}> {
        s = SplitToSequence<axis = 2, keepdims = 0>(x, c) j = ConcatFromSequence<axis = 1>(s) y = Shape(j) }"""
    held(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 25]> {text}'))


@pytest.mark.parametrize("element", [onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT16, onnx.TensorProto.STRING, onnx.TensorProto.INT8])
def test_an_empty_sequence_of_any_type(element: int) -> None:
    """ONNX's inference does not support sequences of bfloat16, ONNX Runtime does."""
    node, output = helper.make_node("SequenceEmpty", [], ["s"], dtype=element), helper.make_tensor_sequence_value_info("s", element, None)
    model = helper.make_model(helper.make_graph([node], "g", [], [output]), opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    result = optimize(model, verify=False).model
    assert Runner(result, threads=1).run({}) == Runner(model, threads=1).run({}) == [[]]


@pytest.mark.parametrize("element", [onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT])
def test_an_empty_sequence_of_two_names(element: int) -> None:
    """Identity does not accept a sequence of bfloat16, and nothing declares its type here."""
    nodes = [helper.make_node("SequenceEmpty", [], [name], dtype=element) for name in "st"]
    nodes += [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Neg", ["n"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    outputs = [y, *(onnx.ValueInfoProto(name=name) for name in "st")]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], outputs), opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    result = optimize(model, verify=False).model
    assert len(result.graph.node) < len(nodes)
    assert Runner(result, threads=1).run({"x": np.ones(2, np.float32)})[1:] == [[], []]


@pytest.mark.parametrize(("begin", "end", "stride"), [(-9, -9, -1), (-1, 2**63 - 1, -1), (1, 2**31 - 1, -2)])
@pytest.mark.parametrize("dims", ["3,1,2,1", "n,1,2,1"])
def test_a_backward_slice(begin: int, end: int, stride: int, dims: str) -> None:
    constants = f"<int64[1] b = {{{begin}}}, int64[1] e = {{{end}}}, int64[1] a = {{0}}, int64[1] s = {{{stride}}}>"
    text = f"g (float[{dims}] x) => (int64[4] y, float[p,q,r,t] z) {constants} {{ z = Slice(x, b, e, a, s) y = Shape(z) }}"
    held(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'))


def test_sizes_that_onnx_runtime_doubts_are_not_counted() -> None:
    """ONNX Runtime's inference is wrong about a ConvTranspose whose paddings follow from its sizes."""
    text = """g (float[1, 2, 2, 1, 5] x) => (float[14, 3, p, 4, 1] y)
        <float[2, 2, 1, 3, 1] w = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, int64[5] sizes = {14, 3, 0, 4, 1}> {
            a = ConvTranspose <auto_pad = "SAME_UPPER", group = 2, output_padding = [0, 1, 1], strides = [3, 3, 3]> (x, w)
            b = Relu (a) y = Reshape (b, sizes) }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 19]> {text}')
    feed = {"x": np.ones((1, 2, 2, 1, 5), np.float32)}
    result = optimize(model, verify=False).model
    np.testing.assert_array_equal(Runner(result, threads=1).run(feed)[0], Runner(model, threads=1).run(feed)[0])


@pytest.mark.parametrize("op_type", ["AveragePool", "LpPool", "MaxPool"])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_shapes_declared_behind_windows_with_gaps_are_not_believed(op_type: str, auto_pad: str) -> None:
    """ONNX's inference writes them into models: a pooling with automatic padding has four rows here, two in ONNX Runtime."""
    text = f"""g (float[1,1,4,5] x) => (float[p, 2] y, int64[4] z)
        <int64[1] a = {{-1}}, int64[1] b = {{2}}, float[1,1,4,5] w, float[1,1,4,5] r, int64[2] s>
        {{ w = {op_type} <auto_pad = "{auto_pad}", dilations = [2,1], kernel_shape = [3,2]> (x) r = Relu(w) s = Concat <axis = 0> (a, b)
           y = Reshape (r, s) z = Shape (r) }}"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]> {text}')
    feed = {"x": np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5)}
    expected = Runner(model, threads=1).run(feed)
    for want, got in zip(expected, Runner(optimize(model, verify=False).model, threads=1).run(feed), strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("reduce", ["ReduceSum<keepdims = 1>(x, axes)", "ReduceSum<keepdims = 0>(x, axes)"])
def test_shapes_declared_behind_a_reduction_of_nothing_are_not_believed(reduce: str) -> None:
    text = f"g (float[3,2,0] x) => (int64[k] y) <int64[1] axes = {{-2}}> {{ w = {reduce} r = Relu(w) y = Shape(r) }}"
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> {text}'))
    feed = {"x": np.zeros((3, 2, 0), np.float32)}
    result = optimize(model, verify=False).model
    assert Runner(result, threads=1).run(feed)[0].tolist() == Runner(model, threads=1).run(feed)[0].tolist()


@pytest.mark.parametrize("columns", [3, 12])
@pytest.mark.parametrize("declared", [False, True])
def test_sizes_of_attention_that_are_not_known_are_not_zero(columns: int, declared: bool) -> None:
    """ONNX's inference assumes that they are."""
    text = """g (float[2, 4, 6] q, float[2, 5, 6] k, float[2, 5, m] v) => (int64[3] y)
        { a = Attention <q_num_heads = 3, kv_num_heads = 3> (q, k, v) b = Relu (a) y = Shape (b) }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> {text}')
    if declared:
        model = onnx.shape_inference.infer_shapes(model)
    feed = {name: np.ones((2, 4 if name == "q" else 5, columns if name == "v" else 6), np.float32) for name in "qkv"}
    result = optimize(model, verify=False).model
    assert Runner(result, threads=1).run(feed)[0].tolist() == [2, 4, columns]


@pytest.mark.parametrize("op_type", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("columns", [0, 1, 4])
def test_a_loss_of_each_element_has_the_shape_of_the_targets(op_type: str, columns: int) -> None:
    """ONNX Runtime does not check whether they fit the scores."""
    text = f'g (int64[3, m] target) => (int64[2] y) <float[1] one = {{1}}> {{ loss = {op_type} <reduction = "none"> (input, target) y = Shape (loss) }}'
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> {text}')
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.ones((3, 5, 4), np.float32), "input"))
    feed = {"target": np.zeros((3, columns), np.int64)}
    result = optimize(model, verify=False).model
    assert Runner(result, threads=1).run(feed)[0].tolist() == Runner(model, threads=1).run(feed)[0].tolist()


@pytest.mark.parametrize(
    "text",
    [
        "g () => (int64[n] y) { a = Attention <q_num_heads = 3, kv_num_heads = 3> (q, k, v) y = Shape (a) }",
        "g (float[a, b, 4] w) => (int64[n] y) { c, s = CausalConvWithState (x, w) y = Shape (c) }",
    ],
)
def test_sizes_that_onnx_runtime_makes_of_operands_that_do_not_fit(text: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 27]> {text}')
    shapes = {"q": (2, 4, 24), "k": (2, 6, 24), "v": (3, 6, 24), "x": (1, 4, 8)}
    read = {name for node in model.graph.node for name in node.input}
    constants = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items() if name in read]
    model.graph.initializer.extend(constants)
    feed = {"w": np.ones((0, 1, 4), np.float32)} if "w" in read else {}
    result = optimize(model, verify=False).model
    assert Runner(result, threads=1).run(feed)[0].tolist() == Runner(model, threads=1).run(feed)[0].tolist()


def test_a_branch_of_unknown_rank_in_an_old_opset() -> None:
    """Before opset 11 ONNX's inference declares the rank of the other branch."""
    branches = """else_branch = e () => (float[3, 1] ey) { ey = Identity(x) },
        then_branch = t () => (float[] ty) { ty, last = Loop(two, "", x) <body = b (int64 i, bool c, float[] s) => (bool d, float[] r, float z)
            { d = Identity(c)  r = Transpose(s)  z = ReduceSum<keepdims = 0>(x) }> }"""
    text = f"g (bool p, float[3, 1] x) => (int64[k] s) <int64 two = {{1}}> {{ y = If(p) <{branches}>  r = Neg(y)  s = Shape(r) }}"
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 10]> {text}'))
    assert [len(value.type.tensor_type.shape.dim) for value in model.graph.value_info] == [2, 2]
    for side in (False, True):
        feed = {"p": np.asarray(side), "x": np.ones((3, 1), np.float32)}
        found = Runner(optimize(model, verify=False).model, threads=1).run(feed)
        assert [part.tolist() for part in found] == [[1, 3] if side else [3, 1]]
