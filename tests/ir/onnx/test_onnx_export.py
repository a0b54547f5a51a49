"""Writing modules: any program that ONNX can express, whether it was read from ONNX or built by hand."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto
from onnxruntime import InferenceSession

from passat import optimize
from passat.ir.attrs import Attrs
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Call, Constant, Function, Let, Tuple, TupleGetItem, Var, const, var
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.onnx.errors import OnnxError
from passat.ir.op import get_op
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType
from tests.share import share

Parse = Callable[..., ModelProto]
Run = Callable[[ModelProto, dict[str, Any]], list[Any]]
X = np.array([[1, -2, 3]], np.float32)


@pytest.mark.parametrize("opset", [13, 14])
def test_one_sequence_of_two_names(opset: int, run: Run) -> None:
    """Identity accepts sequences since opset 14; before, the node that creates the sequence is written twice."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[3] x) => (seq(float[3]) s, seq(float[3]) t)'
        "{ s = SequenceConstruct(x, x) t = SequenceConstruct(x, x) }"
    )
    result = optimize(model, verify=False).model
    assert [node.op_type for node in result.graph.node] == ["SequenceConstruct", "SequenceConstruct" if opset == 13 else "Identity"]
    for given, found in zip(run(model, {"x": X[0]}), run(result, {"x": X[0]}), strict=True):
        np.testing.assert_array_equal(given, found)


def test_one_sequence_of_two_names_whose_type_inference_does_not_know(run: Run) -> None:
    """Inference rejects `keepdims` beside sizes, which ONNX ignores."""
    model = onnx.parser.parse_model(
        '<ir_version: 7, opset_import: ["": 12]> g (float[8, 8] x) => (seq(float[]) s, seq(float[]) t) <int64[2] k = {4, 4}>'
        "{ s = SplitToSequence <axis = 1, keepdims = 0> (x, k) t = SplitToSequence <axis = 1, keepdims = 0> (x, k) }"
    )
    result = optimize(model).model
    given = np.ones((8, 8), np.float32)
    for before, after in zip(run(model, {"x": given}), run(result, {"x": given}), strict=True):
        np.testing.assert_array_equal(before, after)


def test_one_tensor_of_two_names_in_a_type_that_identity_does_not_take() -> None:
    """Identity accepts bfloat16 since opset 13; before, the node that creates the tensor is written twice."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 9]> g (int64[2] n, float[2, 2] x) => (bfloat16[a, b] s, bfloat16[a, b] t, float[2, 2] y)'
        "{ s = ConstantOfShape <value = bfloat16[1] {1}> (n) t = ConstantOfShape <value = bfloat16[1] {1}> (n)"
        " u = Transpose <perm = [1, 0]> (x) y = Transpose <perm = [1, 0]> (u) }"
    )
    result = optimize(model, verify=False).model
    assert [node.op_type for node in result.graph.node] == ["ConstantOfShape", "ConstantOfShape", "Identity"]
    InferenceSession(result.SerializeToString())


def test_operands_have_element_types_that_the_opset_permits() -> None:
    """Max takes integers since opset 12, so that a maximum over parts is not chosen before; other improvements are."""
    model = onnx.parser.parse_model(
        '<ir_version: 7, opset_import: ["" : 11]> g (int64[512, 64] x, int64[512, 64] y) => (int64[64] o)'
        "{ a = Neg (x) b = Neg (a) c = Concat <axis = 0> (b, y) o = ReduceMax <axes = [0], keepdims = 0> (c) }"
    )
    result = optimize(model)
    assert [node.op_type for node in result.model.graph.node] == ["Concat", "ReduceMax"]
    maximum = IRModule.from_expr(get_op("maximum")(var("x", shape=(2,), dtype="int64"), var("y", shape=(2,), dtype="int64")))
    maximum.attrs["onnx"] = from_onnx(model).attrs["onnx"]
    with pytest.raises(OnnxError, match="Max takes no int64 in ONNX opset 11"):
        to_onnx(maximum)


def test_one_constant_of_two_names_in_a_type_that_identity_does_not_take() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 9]> g (float[2, 2] x) => (bfloat16[a, b] s, bfloat16[a, b] t, float[2, 2] y) <int64[2] n = {2, 2}>'
        "{ s = ConstantOfShape <value = bfloat16[1] {1}> (n) t = ConstantOfShape <value = bfloat16[1] {1}> (n)"
        " u = Transpose <perm = [1, 0]> (x) y = Transpose <perm = [1, 0]> (u) }"
    )
    InferenceSession(optimize(model, verify=False).model.SerializeToString())


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1])
def test_a_backward_slice_in_which_shape_inference_finds_nothing(end: int, run: Run) -> None:
    """In a subgraph ONNX Runtime trusts the inferred size if all indices are constants."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (bool c, float[1, 2] x) => (float[1, k] y) {{
            y = If (c) <then_branch = t () => (float[1, m] u)
                <int64[1] b = {{0}}, int64[1] e = {{{end}}}, int64[1] one = {{1}}, int64[1] back = {{-1}}>
                {{ axis = Identity (one) s = Slice (x, b, e, axis, back) u = Max (s, s) }},
            else_branch = e () => (float[1, n] v) {{ v = Identity (x) }}>
        }}"""
    )
    result = optimize(model, verify=False).model
    feeds = {"c": np.array(True), "x": X[:, :2]}
    np.testing.assert_array_equal(run(model, feeds)[0], run(result, feeds)[0])


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1])
def test_axes_are_written_behind_a_backward_slice_in_which_shape_inference_finds_nothing(end: int, run: Run) -> None:
    """The slice has one element in the kernel, and none in inference, which rejects that Squeeze removes its axis."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 16]> g (float[3, 4] x) => (float[k] y)
            <int64[1] b = {{2}}, int64[1] e = {{{end}}}, int64[1] zero = {{0}}, int64[1] back = {{-3}}>
            {{ s = Slice (x, b, e, zero, back) u = Identity (s) y = Squeeze (u) }}"""
    )
    result = optimize(model).model
    assert len(result.graph.node) == 2
    given = {"x": np.arange(12, dtype=np.float32).reshape(3, 4)}
    np.testing.assert_array_equal(run(model, given)[0], run(result, given)[0])


@pytest.mark.parametrize(("shape", "warned"), [("3, 4", 1), ("n, 4", 0)])
def test_a_backward_slice_whose_size_depends_on_optimizations_is_named(shape: str, warned: int) -> None:
    """ONNX Runtime's optimizer replaces the Shape by [0, 4], but the slice has a row."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 16]> g (float[{shape}] x, float[4] z) => (float[k, l] y)
            <int64[1] far = {{2147483647}}, int64[1] zero = {{0}}, int64[1] back = {{-3}}>
            {{ s = Slice (x, far, far, zero, back) size = Shape (s) y = Expand (z, size) }}"""
    )
    found = [warning.message for warning in from_onnx(model).attrs["onnx"].warnings]
    assert len(found) == warned
    assert all("ONNX Runtime computes float32[1, 4], but infers that it is empty" in sentence for sentence in found)


def relu(x: Any) -> Any:
    return get_op("nn.relu")(x)


def written(function: Function) -> ModelProto:
    model = to_onnx(IRModule({"main": function}))
    onnx.checker.check_model(model, full_check=True)
    return model


def kinds(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_a_module_built_by_hand(run: Run) -> None:
    x = var("x", shape=("n", 3))
    model = written(Function([x], relu(x) + const(1.0)))
    assert [value.name for value in model.graph.input] == ["x"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert kinds(model) == ["Relu", "Add"]
    np.testing.assert_array_equal(run(model, {"x": X})[0], np.maximum(X, 0) + 1)


@pytest.mark.parametrize(
    ("name", "declared"), [("n", "2*n"), ("seq-len", "2*seq-len"), ("s0 - 1", "2*s0 - 2"), ("floor(n/2) + 1", ""), ("audio-1", "")]
)
def test_a_size_whose_text_is_read_as_another_size_is_not_declared(name: str, declared: str) -> None:
    """`2*audio-1` is one less than twice the size `audio`."""
    x = var("x", shape=(name, 3))
    model = written(Function([x], Call(get_op("concatenate"), [Tuple([x, x])], Attrs(axis=0))))
    assert [value.type.tensor_type.shape.dim[0].dim_param for value in (*model.graph.input, *model.graph.output)] == [name, declared]


def test_several_results_and_shared_parts(run: Run) -> None:
    x = var("x", shape=(1, 3))
    shared = relu(x)
    model = written(Function([x], Tuple([shared + shared, shared])))
    assert kinds(model) == ["Relu", "Add"]
    results = run(model, {"x": X})
    np.testing.assert_array_equal(results[0], 2 * np.maximum(X, 0))
    np.testing.assert_array_equal(results[1], np.maximum(X, 0))


def test_a_function_that_returns_its_argument_or_a_constant(run: Run) -> None:
    x = var("x", shape=(1, 3))
    model = written(Function([x], Tuple([x, Constant(X), x])))
    assert kinds(model) == ["Identity", "Identity"]
    for result in run(model, {"x": X}):
        np.testing.assert_array_equal(result, X)


def test_lets(run: Run) -> None:
    x = var("x", shape=(1, 3))
    a, b, unused = Var("a"), Var("b"), Var("unused")
    body = Let(a, relu(x), Let(unused, a * a, Let(b, Tuple([a + x, a]), TupleGetItem(b, 0) * TupleGetItem(b, 1))))
    model = written(Function([x], body))
    assert sorted(kinds(model)) == ["Add", "Mul", "Relu"]
    np.testing.assert_array_equal(run(model, {"x": X})[0], (np.maximum(X, 0) + X) * np.maximum(X, 0))


def test_parameters_of_one_name(run: Run) -> None:
    first, second = var("x", shape=(1, 3)), var("x", shape=(1, 3))
    model = written(Function([first, second], first - second))
    names = [value.name for value in model.graph.input]
    assert names == ["x", "x_1"]
    np.testing.assert_array_equal(run(model, dict(zip(names, (X, 2 * X), strict=True)))[0], -X)


def test_dead_code_is_not_written(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { dead = Exp(x)\n deader = Neg(dead)\n y = Relu(x) }")
    assert kinds(to_onnx(from_onnx(model))) == ["Relu"]


def test_the_order_of_the_source_is_kept(parse: Parse) -> None:
    nodes = ["a = Relu(x)", "b = Neg(x)", "c = Exp(x)", "d = Add(c, a)", "e = Tanh(b)", "y = Mul(e, d)"]
    model = parse(f"g (float[2] x) => (float[2] y) {{ {' '.join(node + chr(10) for node in nodes)} }}")
    assert list(to_onnx(from_onnx(model)).graph.node) == list(model.graph.node)


def test_the_order_of_the_source_is_kept_around_new_parts(parse: Parse, rebuilt: Callable[[IRModule], IRModule]) -> None:
    model = parse("g (float[2] x) => (float[2] y, float[2] z) { a = Relu(x)\n b = Neg(x)\n y = Exp(b)\n z = Tanh(a) }")
    module = rebuilt(from_onnx(model))
    main = module["main"]
    body: Any = main.body
    module["main"] = main.with_body(Tuple([body[0] + const(1.0), body[1]]))
    out = to_onnx(module)
    onnx.checker.check_model(out)
    assert kinds(out) == ["Relu", "Neg", "Exp", "Add", "Tanh"]
    assert [value.name for value in out.graph.output] == ["y", "z"]
    assert out.graph.node[3].output[0] == "y"


def test_a_new_name_does_not_take_one_that_is_there(parse: Parse) -> None:
    model = parse("g (float[2] add, float[2] constant) => (float[2] y) { y = Relu(add)\n }")
    module = from_onnx(model)
    main = module["main"]
    call: Any = main.body
    module["main"] = main.with_body(relu(call.args[0] + main.params[1] + const(2.0)))
    out = to_onnx(module)
    onnx.checker.check_model(out, full_check=True)
    names = [name for node in out.graph.node for name in node.output]
    assert len({*names, "add", "constant"}) == len(names) + 2


def test_a_bias_is_written_with_its_product_again(parse: Parse, rebuilt: Callable[[IRModule], IRModule], run: Run) -> None:
    model = parse("g (float[N, 3] x, float[4, 3] w, float[4] b) => (float[N, 4] y) { y = Gemm<transB = 1>(x, w, b) }")
    out = to_onnx(rebuilt(from_onnx(model)))
    assert kinds(out) == ["Gemm"]
    assert len(out.graph.node[0].input) == 3


def test_a_product_that_is_read_elsewhere_keeps_its_own_node(parse: Parse, rebuilt: Callable[[IRModule], IRModule], run: Run) -> None:
    model = parse("g (float[N, 3] x, float[4, 3] w, float[4] b) => (float[N, 4] y) { y = Gemm<transB = 1>(x, w, b) }")
    module = rebuilt(from_onnx(model))
    main = module["main"]
    biased: Any = main.body
    module["main"] = main.with_body(biased * biased.args[0])
    out = to_onnx(module)
    onnx.checker.check_model(out)
    w, b = np.ones((4, 3), np.float32), np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(run(out, {"x": X, "w": w, "b": b})[0], (X @ w.T + b) * (X @ w.T))


def test_a_parameter_with_a_new_type_is_declared_anew(parse: Parse) -> None:
    module = from_onnx(parse("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"))
    x = Var("x", TensorType((7, 3)))
    module["main"] = Function([x], relu(x))
    out = to_onnx(module)
    assert [dim.dim_value for dim in out.graph.input[0].type.tensor_type.shape.dim] == [7, 3]


def test_long_chains_and_wide_graphs(parse: Parse, rebuilt: Callable[[IRModule], IRModule]) -> None:
    length = share(4_000, 20_000)
    names = ["x", *(f"v{i}" for i in range(length))]
    model = parse(f"g (float[2] x) => (float[2] {names[-1]}) {{ }}")
    for name, following in pairwise(names):
        model.graph.node.add(op_type="Tanh", input=[name], output=[following])
    module = from_onnx(model)
    assert to_onnx(module) == model
    assert len(to_onnx(rebuilt(module)).graph.node) == length


def test_many_fields_behind_one_variable(run: Run) -> None:
    x = var("x", shape=(1, 3))
    parts = Var("parts")
    pieces = get_op("split")(x, indices_or_sections=3, axis=1)
    body = Let(parts, pieces, Tuple([relu(TupleGetItem(parts, i)) for i in (2, 0, 1)]))
    for result, place in zip(run(written(Function([x], body)), {"x": X}), (2, 0, 1), strict=True):
        np.testing.assert_array_equal(result, np.maximum(X[:, place : place + 1], 0))


def test_an_output_that_is_listed_twice_is_made_once(run: Run) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y, float[2] y) { u = Identity (x) y = Identity (u) }'
    )
    result = optimize(model).model
    assert kinds(result) == ["Identity"]
    assert [value.name for value in result.graph.output] == ["y", "y"]
    for given, found in zip(run(model, {"x": X[0, :2]}), run(result, {"x": X[0, :2]}), strict=True):
        np.testing.assert_array_equal(given, found)


def test_a_subgraph_declares_its_results(rebuilt: Callable[[IRModule], IRModule]) -> None:
    """Depending on the graph around it, ONNX Runtime runs or rejects a Scan whose body declares another rank."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x, float[1] s) => (float[1] t, float[2, 3, 1] y) {
            t, y = Scan <num_scan_inputs = 1, body = b (float[1] a, float[3] u) => (float[1] c, float[n] v)
                <int64[2] column = {3, 1}> { c = Identity (a) v = Reshape (u, column) }> (s, x)
        }"""
    )
    written = to_onnx(rebuilt(from_onnx(model)))
    body = next(attribute.g for attribute in written.graph.node[0].attribute if attribute.name == "body")
    assert [dim.dim_value for dim in body.output[1].type.tensor_type.shape.dim] == [3, 1]


def test_a_group_norm_of_nothing_is_nothing() -> None:
    """In the shape operand of Reshape, 0 stands for a size of the data."""
    x = var("x", shape=(1, 2, 0, 3), dtype="float64")
    scale = const(np.ones(2), "float64")
    model = written(Function([x], get_op("nn.group_norm")(x, scale, scale, num_groups=1)))
    assert kinds(model) == ["Identity"]


def test_renaming_nodes_have_unique_names() -> None:
    """ONNX Runtime does not load models in which two nodes have the same name."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] u) => (float[2] y, float[4] z)'
        "{ a = Identity (x) y = Transpose <perm = [0]> (a) [y] z = Concat <axis = 0> (u, u) }"
    )
    result = optimize(model).model
    assert sorted(kinds(result)) == ["Concat", "Identity"]
    InferenceSession(result.SerializeToString())


@pytest.mark.parametrize("opset", [9, 23])
def test_bfloat16_of_a_computed_shape_is_a_constant_of_shape(opset: int, rebuilt: Callable[[IRModule], IRModule]) -> None:
    """ONNX Runtime has no Expand for it."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (int64[2] n) => (bfloat16[a, b] y)'
        "{ y = ConstantOfShape <value = bfloat16[1] {1}> (n) }"
    )
    written = to_onnx(rebuilt(from_onnx(model)))
    assert kinds(written) == ["ConstantOfShape"]
    InferenceSession(written.SerializeToString())


def test_a_written_model_is_read_again_without_its_initializers() -> None:
    x = var("x", TensorType((2, 3), "float32"))
    module = IRModule({"main": Function([x], get_op("nn.rms_norm")(x + const(X), const(X[0])))})
    constants: dict[str, Tensor] = {}
    model = to_onnx(module, constants=constants)
    read = from_onnx(model)
    for tensor in model.graph.initializer:
        if tensor.name in constants:
            tensor.raw_data = b"?"
    again = from_onnx(model, constants=constants)
    assert_structural_equal(again, read)
    found = [node.data for node in post_order(again["main"]) if isinstance(node, Constant)]
    assert len(found) >= 2
    assert {id(data) for data in found} <= set(map(id, constants.values()))


def test_scalars_that_onnx_takes_as_vectors_only(run: Run) -> None:
    x, k = var("x", TensorType((2, 3), "float32")), var("k", TensorType((), "int64"))
    best = get_op("dyn.topk")(x, k)
    places = [
        get_op("one_hot")(k, const(2.0), const(1.0), depth=3),
        get_op("dyn.one_hot")(k, const(np.array(3)), const(2.0), const(1.0), axis=0),
    ]
    written = to_onnx(IRModule({"main": Function([x, k], Tuple([best[0], best[1], *places]))}))
    found = run(written, {"x": np.array([[1, 3, 2], [6, 4, 5]], np.float32), "k": np.array(2)})
    expected = ([[3, 2], [6, 5]], [[1, 2], [0, 2]], [1, 1, 2], [1, 1, 2])
    for value, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value, right)


def test_a_result_without_an_onnx_form_is_an_error() -> None:
    x = var("x", TensorType((2, 3), "float32"))
    dropped = get_op("nn.dropout")(x)
    for body in (dropped, dropped[1], get_op("concatenate")(dropped, axis=0)):
        with pytest.raises(OnnxError, match=r"^result 1 of the operator nn\.dropout has no ONNX form$"):
            to_onnx(IRModule({"main": Function([x], body)}))
