"""Edge cases of names, inputs and outputs: the interface of a model stays the same."""

from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import passat
from passat.ir.onnx import OnnxError, check
from tests.corpus.optimizing import floats, interface, operators, optimize, parse


def values(*names: str, kind: int = TensorProto.FLOAT) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, kind, [4]) for name in names]


def model_of(
    nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str], constants: dict[str, float] | None = None, ir: int = 9
) -> ModelProto:
    tensors = [numpy_helper.from_array(np.full(4, value, np.float32), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", values(*inputs), values(*outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=ir)


def test_an_output_that_is_an_input() -> None:
    model = parse("g (float[4] x) => (float[4] x, float[4] y) { y0 = Neg(x)  y = Neg(y0) }")
    out, _ = optimize(model, {"x": floats(4)})
    assert operators(out) == {}


def test_an_output_that_is_an_input_and_nothing_else() -> None:
    out, _ = optimize(parse("g (float[4] x) => (float[4] x) { }"), {"x": floats(4)})
    assert not out.graph.node


def test_outputs_that_turn_out_to_be_inputs() -> None:
    model = parse(
        """g (float[4] x) => (float[4] a, float[4] b) <float zero = {0.0}> {
            a = Add(x, zero)
            b0 = Neg(x)
            b = Neg(b0)
        }"""
    )
    out, _ = optimize(model, {"x": floats(4)})
    assert operators(out) == {}


def test_outputs_that_turn_out_to_be_equal() -> None:
    model = parse(
        """g (float[4] x) => (float[4] a, float[4] b, float[4] c) <float zero = {0.0}> {
            a = Exp(x)
            b = Exp(x)
            c = Add(a, zero)
        }"""
    )
    out, _ = optimize(model, {"x": floats(4)})
    assert operators(out) == {"Exp": 1}


def test_an_output_listed_twice() -> None:
    model = parse("g (float[4] x) => (float[4] y) <float zero = {0.0}> { h = Add(x, zero)  y = Exp(h) }")
    model.graph.output.append(model.graph.output[0])
    result = passat.optimize(model, opt_level=3, verify=False)  # neither ONNX Runtime nor the reference runs such a model
    assert interface(result.model) == interface(model)
    assert operators(result.model) == {"Exp": 1}


def test_an_initializer_that_is_an_output() -> None:
    model = model_of([helper.make_node("Exp", ["x"], ["y"])], ["x"], ["w", "y"], {"w": 3.0})
    out, _ = optimize(model, {"x": floats(4)})
    assert operators(out) == {"Exp": 1}


def test_outputs_that_become_constants() -> None:
    model = parse(
        """g (float[2] x) => (float[2] y, float[2] z, float[3, 1000] s, float[2] same) <float[2] a = {1.0, 2.0}, int64[2] n = {3, 1000}> {
            y = Add(a, a)
            z = Neg(a)
            s = ConstantOfShape(n)
            same = Add(a, a)
        }"""
    )
    out, _ = optimize(model, {"x": floats(2)})
    assert operators(out) == {}
    assert out.ByteSize() < 1000


def test_unused_inputs_stay() -> None:
    model = parse("g (float[4] unused, float[4] x, int64 other) => (float[4] y) { z = Mul(unused, x)  y0 = Neg(x)  y = Neg(y0) }")
    out, _ = optimize(model, {"unused": floats(4), "x": floats(4), "other": np.array(3)})
    assert [value.name for value in out.graph.input] == ["unused", "x", "other"]


def test_no_inputs_at_all() -> None:
    model = parse("g () => (float[2] y) <float[2] a = {1.0, 2.0}> { b = Exp(a)  y = Add(a, b) }")
    out, _ = optimize(model, {})
    assert operators(out) == {}


def test_empty_and_duplicate_node_names() -> None:
    names = ["", "same", "same", "", "same"]
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"], name=name) for i, name in enumerate(names)]
    result = passat.optimize(model_of(nodes, ["v0"], ["v5"]), opt_level=3, allow_unverified=True)  # ONNX Runtime rejects it
    check(result.model)
    assert operators(result.model) == {"Neg": 1}


def test_names_of_any_letters() -> None:
    names = ["größe 1", 'a "quoted"\n name', "%4", "layer/0:1", "\U0001f600", " "]
    nodes = [
        helper.make_node("Exp" if i % 2 else "Neg", [source], [target], name=source) for i, (source, target) in enumerate(pairwise(names))
    ]
    nodes.append(helper.make_node("Add", [names[-1], "zero"], ["y"]))
    optimize(model_of(nodes, [names[0]], ["y"], {"zero": 0.0}), {names[0]: floats(4)})


def test_names_that_passat_would_make_up_itself() -> None:
    nodes = [
        helper.make_node("Add", ["constant", "two"], ["constant_1"]),
        helper.make_node("Mul", ["constant_1", "two"], ["t"]),
        helper.make_node("Mul", ["two", "three"], ["constant_2"]),
        helper.make_node("Mul", ["t", "constant_2"], ["output"]),
    ]
    optimize(model_of(nodes, ["constant"], ["output"], {"two": 2.0, "three": 3.0}), {"constant": floats(4)})


def test_nodes_in_any_order() -> None:
    model = parse("g (float[4] x) => (float[4] y) { c = Add(b, b)  y = Neg(c)  b = Exp(a)  a = Neg(x) }")
    result = passat.optimize(model, opt_level=3, verify=False)
    assert [node.op_type for node in result.model.graph.node] in (["Neg", "Exp", "Add", "Neg"], ["Add", "Neg", "Exp", "Neg"])


def test_unused_nodes_are_removed() -> None:
    model = parse("g (float[4] x) => (float[4] y) { a = Exp(x)  b = Exp(a)  y = Neg(x)  c = Add(a, b) }")
    out, _ = optimize(model, {"x": floats(4)})
    assert operators(out) == {"Neg": 1}


def test_initializers_among_the_inputs_in_ir_version_3_are_constants() -> None:
    model = parse(
        "g (float[4] x, float[4] w, float zero) => (float[4] y) <float[4] w = {1, 2, 3, 4}, float zero = {0}> "
        "{ v = Mul(w, w)  h = Add(x, zero)  y = Mul(h, v) }",
        opset=8,
        ir=3,
    )
    out, _ = optimize(model, {"x": floats(4)})
    assert operators(out) == {"Mul": 1}
    assert out.ir_version == 3
    assert {tensor.name for tensor in out.graph.initializer} <= {value.name for value in out.graph.input}
    assert "w" not in {value.name for value in out.graph.input}


def test_overridable_initializers_are_not_constants() -> None:
    model = parse(
        "g (float[4] x, float[4] w) => (float[4] y) <float[4] w = {0, 0, 0, 0}> { v = Add(w, w)  y = Add(x, v) }",
        ir=8,
    )
    out, _ = optimize(model, {"x": floats(4), "w": np.zeros(4, np.float32)}, {"x": floats(4), "w": floats(4, seed=1)}, verify=False)
    assert [value.name for value in out.graph.input] == ["x", "w"]
    assert [tensor.name for tensor in out.graph.initializer] == ["w"]
    assert operators(out) == {"Add": 2}


def test_metadata_and_documentation_stay() -> None:
    model = parse("g (float[4] x) => (float[4] y) { h = Neg(x)  y = Neg(h) }")
    model.doc_string, model.producer_name, model.model_version, model.domain = "about", "somebody", 7, "org.example"
    model.metadata_props.add(key="license", value="free")
    model.graph.doc_string = "a graph"
    model.graph.input[0].doc_string = "the input"
    model.graph.metadata_props.add(key="k", value="v")
    out, _ = optimize(model, {"x": floats(4)})
    assert (out.doc_string, out.producer_name, out.model_version, out.domain) == ("about", "somebody", 7, "org.example")
    assert (out.graph.name, out.graph.doc_string, out.graph.input[0].doc_string) == ("g", "a graph", "the input")
    assert [(entry.key, entry.value) for entry in out.graph.metadata_props] == [("k", "v")]


def test_custom_domains_pass_through() -> None:
    model = parse(
        """g (float[4] x) => (float[4] y) <float zero = {0.0}, float[4] b, float[4] c> {
            a = Add(x, zero)
            b = org.example.Strange<alpha = 2.0, mode = "odd", list = [1, 2]>(a, zero)
            c = org.example.Strange<alpha = 2.0, mode = "odd", list = [1, 2]>(a, zero)
            d = Add(b, c)
            y = Add(d, zero)
        }""",
        imports=', "org.example" : 3',
    )
    result = passat.optimize(model, opt_level=3)
    assert operators(result.model) == {"Strange": 2, "Add": 1}  # its effect is unknown, so two calls stay two
    assert result.report.verification is not None
    assert result.report.verification.equal is True
    assert result.report.verification.parts == "cut at 2 nodes unknown to ONNX Runtime (org.example.Strange)"
    strange = next(node for node in result.model.graph.node if node.op_type == "Strange")
    assert strange.domain == "org.example"
    assert {attribute.name: helper.get_attribute_value(attribute) for attribute in strange.attribute} == {
        "alpha": 2.0,
        "mode": b"odd",
        "list": [1, 2],
    }
    assert interface(result.model) == interface(model)


def test_contrib_operators_of_onnx_runtime() -> None:
    model = parse(
        """g (float[N, 4] x) => (float[N, 4] y) <float zero = {0.0}, float[N, 4] b> {
            a = Add(x, zero)
            b = com.microsoft.Gelu(a)
            y = Add(b, zero)
        }""",
        imports=', "com.microsoft" : 1',
    )
    out, _ = optimize(model, {"x": floats(3, 4)})
    assert operators(out) == {"Gelu": 1}


def test_local_functions() -> None:
    model = parse(
        """g (float[N, 4] x) => (float[N, 4] y) <float zero = {0.0}> {
            a = Add(x, zero)
            b = local.twice<k = 2.0>(a)
            c = local.twice<k = 3.0>(b)
            y = Add(c, zero)
        }
        <domain: "local", opset_import: ["" : 18]>
        twice <k> (v) => (w) { f = Constant<value_float : float = @k>()  w0 = Mul(v, f)  w = Identity(w0) }""",
        imports=', "local" : 1',
    )
    out, _ = optimize(model, {"x": floats(2, 4)})
    assert operators(out) == {"twice": 2, "Mul": 1}


def test_local_functions_without_a_type() -> None:
    model = parse(
        """g (float[N, 4] x) => (float[N, 4] y) {
            a, b = local.both(x)
            c = Neg(a)
            d = Neg(c)
            y = Add(d, b)
        }
        <domain: "local", opset_import: ["" : 18]>
        both (v) => (p, q) { p = Relu(v)  q = Exp(v) }""",
        imports=', "local" : 1',
    )
    out, _ = optimize(model, {"x": floats(2, 4)})
    assert operators(out) == {"both": 1, "Add": 1, "Relu": 1, "Exp": 1}


def test_a_model_without_an_opset_is_rejected() -> None:
    model = parse("g (float[4] x) => (float[4] y) { y = Neg(x) }")
    del model.opset_import[:]
    with pytest.raises(OnnxError):
        passat.optimize(model, verify=False)


def test_scalars_symbols_and_unknown_shapes() -> None:
    for shape in ("", "[N]", "[N, M]", "[N, N]", "[?, 3]"):
        model = parse(f"g (float{shape} x) => (float{shape} y) {{ a = Neg(x)  b = Neg(a)  y = Exp(b) }}")
        out, _ = optimize(model)
        assert operators(out) == {"Exp": 1}
    model = parse(
        "g (float[] x) => (float[] y) { a = Neg(x)  b = Neg(a)  y = Exp(b) }"
    )  # of unknown rank, which Passat's types cannot express
    result = passat.optimize(model, opt_level=3, verify=False)
    assert operators(result.model) == {"Neg": 2, "Exp": 1}


def test_an_output_without_a_shape_gets_one_even_without_other_changes() -> None:
    model = parse("g (float[N, 4] x) => (float[N, 4] y) { y = Exp(x) }")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    result = passat.optimize(model)
    assert result.report.kept
    check(result.model)
    assert operators(result.model) == {"Exp": 1}
