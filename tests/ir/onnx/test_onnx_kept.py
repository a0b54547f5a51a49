"""Contents of a model besides its computation are written unchanged."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from passat import optimize
from passat.ir.expr import Constant, Tuple, Var
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.onnx.opset import in_opset
from passat.ir.onnx.scope import subgraphs
from passat.ir.ops.activation import gelu
from passat.ir.tensor import Tensor
from passat.ir.types import IncompleteType, TensorType

Parse = Callable[..., ModelProto]
Run = Callable[[ModelProto, dict[str, Any]], list[Any]]

MODELS = Path(__file__).resolve().parents[3] / "examples" / "models"


def through(model: ModelProto) -> ModelProto:
    out = to_onnx(from_onnx(model))
    onnx.checker.check_model(out)
    return out


def initializer(model: ModelProto, name: str, value: Any, *, as_input: bool = False) -> None:
    tensor = numpy_helper.from_array(np.asarray(value), name)
    model.graph.initializer.append(tensor)
    if as_input:
        model.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))


def test_everything_around_the_graph(parse: Parse) -> None:
    model = parse("named (float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) }", imports=', "com.example": 3')
    model.producer_name, model.producer_version, model.domain, model.model_version, model.doc_string = "p", "1", "d", 7, "doc"
    helper.set_model_props(model, {"author": "someone", "task": "none"})
    model.graph.doc_string = "graph doc"
    model.graph.metadata_props.add(key="k", value="v")
    model.graph.input[0].doc_string = "the input"
    model.graph.node[0].doc_string = "the node"
    out = through(model)
    assert out == model


def test_names_and_order_of_inputs_and_outputs(parse: Parse) -> None:
    model = parse("g (float[N] b, float[N] a, float[3] unused) => (float[N] z, float[N] y) { y = Relu(a)\n z = Neg(b) }")
    out = through(model)
    assert [value.name for value in out.graph.input] == ["b", "a", "unused"]
    assert [value.name for value in out.graph.output] == ["z", "y"]
    assert out.graph.input == model.graph.input
    assert out.graph.output == model.graph.output
    assert list(out.graph.node) == list(model.graph.node)


def test_names_of_nodes_and_values_survive_a_change_beside_them(parse: Parse, rebuilt: Callable[..., Any]) -> None:
    model = parse("g (float[2] x) => (float[2] y) { hidden = Relu(x)\n twice = Add(hidden, hidden)\n y = Sqrt(twice) }")
    for node, name in zip(model.graph.node, ("first", "second", "third"), strict=True):
        node.name = name
    out = to_onnx(rebuilt(from_onnx(model)))
    assert [(node.name, list(node.output)) for node in out.graph.node] == [
        ("first", ["hidden"]),
        ("second", ["twice"]),
        ("third", ["y"]),
    ]


def test_a_node_that_adds_a_bias_has_the_name_of_the_product(parse: Parse) -> None:
    model = parse("g (float[2,3] x, float[3,4] w) => (float[2,4] y) { [product] p = MatMul(x, w)\n [sum] y = Add(p, b) }")
    initializer(model, "b", np.ones(4, np.float32))
    assert [(node.op_type, node.name) for node in optimize(model, verify=False).model.graph.node] == [("Gemm", "product")]


def labeled(model: ModelProto) -> ModelProto:
    """The model with metadata for each node, also in subgraphs: the name of the node, or of its first value."""
    graphs = [model.graph]
    for graph in graphs:
        for node in graph.node:
            node.metadata_props.add(key="namespace", value=node.name or node.output[0])
            graphs += subgraphs(node)
    return model


def label(node: onnx.NodeProto) -> str:
    (entry,) = node.metadata_props
    assert entry.key == "namespace"
    found: str = entry.value
    return found


def test_metadata_and_documentation_of_nodes_survive_a_change_beside_them(parse: Parse, rebuilt: Callable[..., Any]) -> None:
    model = labeled(
        parse(
            "g (float[2] x) => (float[2] y) { [first] hidden = Relu(x)\n twice = Add(hidden, hidden)\n y = com.example.Thing(twice) }",
            ir=10,
            imports=', "com.example": 3',
        )
    )
    model.graph.node[0].doc_string = "the first"
    model.graph.node[1].metadata_props.add(key="passat.rules", value='["of an earlier run"]')
    module = rebuilt(from_onnx(model))
    for each in (module, pickle.loads(pickle.dumps(module))):
        out = to_onnx(each)
        assert [label(node) for node in out.graph.node] == ["first", "twice", "y"]
        assert [node.doc_string for node in out.graph.node] == ["the first", "", ""]


def test_metadata_of_all_nodes_that_an_operator_is_written_as(parse: Parse) -> None:
    module = from_onnx(labeled(parse("g (float[2] x) => (float[2] y) { [act] y = Relu(x) }", ir=10)))
    main = module["main"]
    module["main"] = main.with_body(gelu(main.params[0], span=main.body.span))
    out = to_onnx(module)
    assert len(out.graph.node) > 1
    assert {label(node) for node in out.graph.node} == {"act"}


def test_metadata_of_a_product_with_its_bias(parse: Parse) -> None:
    """The node has the name and the metadata of the product."""
    model = labeled(parse("g (float[2,3] x, float[3,4] w) => (float[2,4] y) { [product] p = MatMul(x, w)\n [sum] y = Add(p, b) }", ir=10))
    initializer(model, "b", np.ones(4, np.float32))
    out = optimize(model, verify=False).model
    assert [(node.op_type, node.name, label(node)) for node in out.graph.node] == [("Gemm", "product", "product")]


def test_metadata_of_branches_whose_nodes_have_the_same_names(parse: Parse, rebuilt: Callable[..., Any]) -> None:
    text = """g (bool c, float[2] x) => (float[2] y) { y = If(c) <
        then_branch = t () => (float[2] a) { [node] a = Relu(x) }, else_branch = e () => (float[2] %s) { [node] %s = Neg(x) }> }"""
    for name in "ab":
        model = labeled(parse(text % (name, name), ir=10))
        for number, branch in enumerate(subgraphs(model.graph.node[0])):
            branch.node[0].metadata_props[0].value = str(number)
        made = to_onnx(rebuilt(from_onnx(model))).graph.node[0]
        found = [[entry.value for entry in branch.node[0].metadata_props] for branch in subgraphs(made)]
        assert label(made) == "y"
        assert found == ([["0"], ["1"]] if name == "b" else [[], []]), "these nodes cannot be distinguished"


def test_metadata_of_a_node_that_names_a_result(parse: Parse) -> None:
    module = from_onnx(labeled(parse("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x)\n z = Relu(x) }", ir=10)))
    main = module["main"]
    module["main"] = main.with_body(Tuple([main.body[0]] * 2))
    out = to_onnx(module)
    assert [(node.op_type, label(node)) for node in out.graph.node] == [("Relu", "y"), ("Identity", "y")]


def test_metadata_in_a_later_opset(parse: Parse) -> None:
    out = in_opset(
        labeled(parse("g (float[2,3] x) => (float[2,1] y) { s = ReduceMean<axes = [1]>(x)\n y = Relu(s) }", opset=17, ir=10)), 21
    )
    assert [(node.op_type, label(node)) for node in out.graph.node] == [("ReduceMean", "s"), ("Relu", "y")]


def test_metadata_of_results_names_nodes_that_they_come_from() -> None:
    model = labeled(onnx.load(MODELS / "bert_tiny.onnx"))
    model.ir_version = 10
    out = optimize(model, verify=False, explain=True).model
    without = []
    for node in out.graph.node:
        found = {entry.key: entry.value for entry in node.metadata_props}
        if "namespace" not in found:
            without.append(node.op_type)
        elif "passat.from" in found:
            assert found["namespace"] in json.loads(found["passat.from"]), node.name
            if node.op_type in ("MatMul", "Gemm"):
                assert found["namespace"].rpartition("/")[2].startswith(("MatMul", "Gemm")), (
                    "a product that takes in a scale is labeled as the product"
                )
    assert set(without) <= {"Shape", "Concat"}, "only nodes that stand for several of the model have none"


def test_initializers_are_constants_and_come_out_unchanged(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    initializer(model, "w", np.array([1, 2], np.float32))
    model.graph.initializer[0].doc_string = "weights"
    module = from_onnx(model)
    assert len(module["main"].params) == 1
    out = to_onnx(module)
    assert out.graph.initializer == model.graph.initializer


def test_ir_version_3_lists_initializers_as_inputs_and_stays(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { c = Add(w, v)\n y = Add(x, c) }", ir=3, opset=9)
    initializer(model, "w", np.array([1, 2], np.float32), as_input=True)
    initializer(model, "v", np.array([3, 4], np.float32), as_input=True)
    module = from_onnx(model)
    assert [param.name_hint for param in module["main"].params] == ["x"]
    out = through(model)
    assert out.ir_version == 3
    assert {value.name for value in out.graph.input} == {"x", "w", "v"}
    assert out.graph.input[0].name == "x"


def test_a_new_constant_of_ir_version_3_is_an_input_too(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }", ir=3, opset=9)
    initializer(model, "w", np.array([1, 2], np.float32), as_input=True)
    module = from_onnx(model)
    main = module["main"]
    module["main"] = main.with_body(main.body * np.array([5, 6], np.float32))
    out = to_onnx(module)
    onnx.checker.check_model(out)
    assert {value.name for value in out.graph.input} == {"x"} | {tensor.name for tensor in out.graph.initializer}
    assert len(out.graph.initializer) == 2


def test_an_overridable_default_is_not_a_constant(parse: Parse, run: Run) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    initializer(model, "w", np.array([1, 2], np.float32), as_input=True)
    module = from_onnx(model)
    assert [param.name_hint for param in module["main"].params] == ["x", "w"]
    out = through(model)
    assert out == model
    x = np.zeros(2, np.float32)
    np.testing.assert_array_equal(run(out, {"x": x})[0], [1, 2])
    np.testing.assert_array_equal(run(out, {"x": x, "w": np.array([7, 8], np.float32)})[0], [7, 8])


def test_an_output_that_is_an_input(parse: Parse, run: Run) -> None:
    model = parse("g (float[2] x, float[2] z) => (float[2] x, float[2] y) { y = Relu(z) }")
    out = through(model)
    assert [node.op_type for node in out.graph.node] == ["Relu"]
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(run(out, {"x": x, "z": x})[0], x)


def test_an_input_behind_an_identity_keeps_the_outputs_name(parse: Parse, run: Run) -> None:
    model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Identity(x)\n z = Identity(y) }")
    out = through(model)
    assert [value.name for value in out.graph.output] == ["y", "z"]
    x = np.array([1, -2], np.float32)
    for result in run(out, {"x": x}):
        np.testing.assert_array_equal(result, x)


def test_an_initializer_that_is_an_output(parse: Parse, run: Run) -> None:
    model = parse("g (float[2] x) => (float[2] w, float[2] y) { y = Add(x, w) }")
    initializer(model, "w", np.array([1, 2], np.float32))
    out = through(model)
    assert [node.op_type for node in out.graph.node] == ["Add"]
    results = run(out, {"x": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(results[0], [1, 2])
    np.testing.assert_array_equal(results[1], [1, 2])


def test_one_value_under_two_output_names(parse: Parse, run: Run) -> None:
    model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x)\n z = Relu(x) }")
    module = from_onnx(model)
    main = module["main"]
    first = main.body[0]
    module["main"] = main.with_body(type(main.body)([first, first]))  # type: ignore[call-arg]  # the body is a tuple
    out = to_onnx(module)
    onnx.checker.check_model(out)
    assert sorted(node.op_type for node in out.graph.node) == ["Identity", "Relu"]
    x = np.array([1, -2], np.float32)
    for result in run(out, {"x": x}):
        np.testing.assert_array_equal(result, [1, 0])


def test_an_output_without_a_shape_gets_the_inferred_one(parse: Parse) -> None:
    model = parse("g (float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }")
    want = parse("g (float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert through(model) == want


def test_a_constant_node_comes_back_as_an_initializer_or_a_node(parse: Parse, run: Run) -> None:
    model = parse("g (float[2] x) => (float[2] y) { c = Constant<value_floats = [1.5, 2.5]>()\n y = Add(x, c) }")
    out = through(model)
    np.testing.assert_array_equal(run(out, {"x": np.zeros(2, np.float32)})[0], [1.5, 2.5])


def test_repeated_values_are_written_as_one(parse: Parse, run: Run) -> None:
    module = from_onnx(parse("g (float[1000] x) => (float[1000] y) { y = Relu(x) }"))
    main = module["main"]
    repeated = [Constant(Tensor.splat(value, (1000,), "float32")) for value in (2.0, 0.5)]
    short = Constant(Tensor.splat(1.0, (1,), "float32"))
    module["main"] = main.with_body((main.body + repeated[0] + short) * repeated[1])
    out = to_onnx(module)
    onnx.checker.check_model(out)
    assert [node.op_type for node in out.graph.node].count("ConstantOfShape") == 2
    assert [list(tensor.dims) for tensor in out.graph.initializer] == [[1], [1]]  # the shape, which both share, and the short one
    assert out.ByteSize() < 500
    np.testing.assert_array_equal(run(out, {"x": np.zeros(1000, np.float32)})[0], np.full(1000, 1.5, np.float32))


def test_repeated_values_of_types_that_constant_of_shape_does_not_know_are_dense(parse: Parse) -> None:
    module = from_onnx(parse("g (bfloat16[1000] x) => (bfloat16[1000] y) { y = Relu(x) }", opset=18))
    main = module["main"]
    module["main"] = main.with_body(main.body + Constant(Tensor.splat(2.0, (1000,), "bfloat16")))
    out = to_onnx(module)
    onnx.checker.check_model(out)
    assert [node.op_type for node in out.graph.node] == ["Relu", "Add"]
    assert len(out.graph.initializer[0].raw_data) == 2000


def test_sparse_initializers(parse: Parse, run: Run) -> None:
    model = parse("g (float[6] x) => (float[6] y) { y = Add(x, w) }")
    values = numpy_helper.from_array(np.array([1, 5], np.float32), "w")
    indices = numpy_helper.from_array(np.array([2, 4], np.int64), "w_indices")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [6]))
    module = from_onnx(model)
    constants = [arg for arg in module["main"].body.args if isinstance(arg, Constant)]  # type: ignore[attr-defined]  # a call
    np.testing.assert_array_equal(constants[0].data.numpy(), [0, 0, 1, 0, 5, 0])
    out = through(model)
    assert out == model
    np.testing.assert_array_equal(run(out, {"x": np.zeros(6, np.float32)})[0], [0, 0, 1, 0, 5, 0])


def test_a_sparse_tensor_that_becomes_an_output_is_dense(parse: Parse, run: Run) -> None:
    """ONNX Runtime returns sparse tensors, or none, for outputs that are sparse initializers."""
    model = parse("g (float[6] x) => (float[6] y, float[6] z) { y = Identity(w)  z = Add(x, w) }")
    values = numpy_helper.from_array(np.array([1, 5], np.float32), "w")
    indices = numpy_helper.from_array(np.array([2, 4], np.int64), "w_indices")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [6]))
    made = optimize(model).model
    assert [node.op_type for node in made.graph.node] == ["Add"]
    for found in run(made, {"x": np.zeros(6, np.float32)}):
        np.testing.assert_array_equal(found, [0, 0, 1, 0, 5, 0])


def test_custom_domains_are_kept_with_all_their_attributes(parse: Parse, rebuilt: Callable[..., Any]) -> None:
    model = parse(
        "g (float[2] x) => (float[n, 2] y) { a, , b = com.example.Thing"
        '<alpha = 1.5, ids = [1, 2], name = "n", opset = 4, outputs_ = "o">(x, , x)\n y = Relu(a)\n }',
        imports=', "com.example": 3',
    )
    model.graph.node[0].attribute.append(helper.make_attribute("empty", [], attr_type=onnx.AttributeProto.FLOATS))
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 2]))
    module = from_onnx(model)
    out = to_onnx(rebuilt(module))
    onnx.checker.check_model(out)

    def attributes(graph: onnx.GraphProto) -> dict[str, bytes]:
        return {attribute.name: attribute.SerializeToString() for attribute in graph.node[0].attribute}

    assert attributes(out.graph) == attributes(model.graph)
    node = out.graph.node[0]
    assert (node.domain, node.op_type, list(node.input), list(node.output)) == ("com.example", "Thing", ["x", "", "x"], ["a", "", "b"])
    assert list(out.graph.value_info) == list(model.graph.value_info)
    again = from_onnx(out)
    (relu,) = [again["main"].body]
    assert relu.checked_type == TensorType(module["main"].body.checked_type.shape)  # type: ignore[attr-defined]  # a tensor


def test_an_output_of_unknown_type_stays_unknown(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = com.example.Thing(x)\n y = Relu(a) }", imports=', "com.example": 1')
    module = from_onnx(model)
    call = module["main"].body
    assert isinstance(call.args[0].checked_type, IncompleteType)  # type: ignore[attr-defined]  # an opaque call
    assert through(model) == model


def test_local_functions_are_called_and_kept(run: Run, rebuilt: Callable[..., Any]) -> None:
    model: ModelProto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[N, 2] x) => (float[N, 2] y) { a = local.twice <factor = 3.0> (x)\n y = Relu(a) }
        <domain: "local", opset_import: ["" : 17]>
        twice <factor> (v) => (w) { f = Constant<value_float : float = @factor>()\n w = Mul(v, f) }"""
    )
    module = from_onnx(model)
    call = module["main"].body.args[0]  # type: ignore[attr-defined]  # a call
    assert call.op.stateful
    assert repr(call.checked_type) == "Tensor[(N, 2), float32]"
    for out in (to_onnx(module), to_onnx(rebuilt(module))):
        onnx.checker.check_model(out)
        assert out.functions == model.functions
        np.testing.assert_array_equal(run(out, {"x": np.array([[1, -1]], np.float32)})[0], [[3, 0]])


def test_quantization_annotations_follow_their_values(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { h = Relu(x)\n dead = Neg(x)\n y = Sqrt(h) }")
    initializer(model, "scale", np.float32(0.5))
    for name in ("h", "dead"):
        entry = model.graph.quantization_annotation.add(tensor_name=name)
        entry.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    out = through(model)
    assert [entry.tensor_name for entry in out.graph.quantization_annotation] == ["h"]
    assert [tensor.name for tensor in out.graph.initializer] == ["scale"]


def test_trained_values_are_not_constants(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    initializer(model, "w", np.array([1, 2], np.float32))
    info = model.training_info.add()
    info.algorithm.CopyFrom(parse("step () => (float[2] w_new) { w_new = Neg(w) }").graph)
    info.update_binding.add(key="w", value="w_new")
    module = from_onnx(model)
    assert all(isinstance(arg, Var) for arg in module["main"].body.args)  # type: ignore[attr-defined]  # a call
    out = to_onnx(module)
    assert out == model


def test_zero_size_scalar_and_text_tensors(parse: Parse) -> None:
    model = parse("g (float[0, 3] x, string[1] s) => (float[0, 3] y, string[2] t) { y = Add(x, w)\n t = Concat<axis = 0>(s, e) }")
    initializer(model, "w", np.zeros((0, 3), np.float32))
    model.graph.initializer.append(TensorProto(name="e", data_type=TensorProto.STRING, dims=[1], string_data=[b"caf\xc3\xa9\0"]))
    module = from_onnx(model)
    out = through(model)
    assert out == model
    assert module["main"].body.checked_type is not None


NARROW = ["INT2", "INT4", "UINT4", "FLOAT4E2M1", "FLOAT6E2M3", "FLOAT8E4M3FN", "FLOAT16", "BFLOAT16", "BOOL", "DOUBLE", "UINT64"]


@pytest.mark.parametrize("dtype", NARROW)
def test_initializers_of_narrow_types_are_read_and_written(parse: Parse, dtype: str) -> None:
    number = TensorProto.DataType.Value(dtype)
    model = parse("g () => (float[3] y) { y = Cast<to = 1>(w) }", opset=28, ir=14)
    model.graph.initializer.append(helper.make_tensor("w", number, [3], [1, 0, 1]))
    out = through(model)
    assert list(out.graph.initializer) == list(model.graph.initializer) or not out.graph.node
    module = from_onnx(model)
    body = module["main"].body
    constant = body if isinstance(body, Constant) else body.args[0]  # type: ignore[attr-defined]  # a call
    np.testing.assert_array_equal(constant.data.numpy().astype(np.float32), [1, 0, 1])


def test_duplicate_and_empty_node_names(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Relu(x)\n b = Neg(a)\n c = Sqrt(b)\n y = Exp(c) }")
    model.graph.node[0].name = model.graph.node[1].name = "same"
    assert through(model) == model


def test_the_same_input_gives_the_same_bytes(parse: Parse, rebuilt: Callable[..., Any]) -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Relu(x)\n b = Neg(a)\n c = Add(a, b)\n y = HardSwish(c) }")
    outs = {to_onnx(rebuilt(from_onnx(model))).SerializeToString(deterministic=True) for _ in range(3)}
    assert len(outs) == 1
