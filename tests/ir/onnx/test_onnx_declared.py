"""Declarations that contradict inferred types: they cause a warning, the model is still read, and neither type is relied on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

import passat
import passat.ir.ops  # importing registers the readers
from passat.ir.expr import Call
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx, to_onnx
from passat.ir.onnx.attributes import schema_of
from passat.ir.onnx.declared import agreed, holding
from passat.ir.onnx.value_types import parse_type, show_type, type_of, value_info
from passat.ir.onnx_mapping import OLDEST_READ, READERS
from passat.ir.traverse import post_order
from passat.runner import Runner

Parse = Callable[..., ModelProto]
CUSTOM = ', "com.mycompany" : 1'


def warnings(module: IRModule) -> list[str]:
    return [warning.message for warning in module.attrs["onnx"].warnings]


def types(module: IRModule) -> dict[str, str]:
    """The types of all results of calls, by name, including those in subgraphs."""
    calls = [node for node in post_order(module["main"]) if isinstance(node, Call) and node.span is not None and node.span.outputs]
    return {call.span.outputs[0]: show_type(call.checked_type) for call in calls if call.span is not None}


def declare(model: ModelProto, name: str, *shape: int | str, element: int = TensorProto.FLOAT) -> ModelProto:
    model.graph.value_info.append(helper.make_tensor_value_info(name, element, shape))
    return model


def test_an_output_of_another_rank_keeps_its_declaration(parse: Parse) -> None:
    model = parse("g (float[T, 8210] x) => (float[1, seqlen] y) { b = Unsqueeze(x, a) y = Relu(b) }")
    model.graph.initializer.append(helper.make_tensor("a", TensorProto.INT64, [1], [1]))
    module = from_onnx(model)
    sentence = (
        "'y' is declared as float32[1, seqlen], but the Relu node that produces 'y' returns float32[T, 1, 8210]; the declaration is ignored"
    )
    assert warnings(module) == [sentence]
    assert to_onnx(module).graph.output == model.graph.output


def test_wrongly_declared_outputs_are_not_read_by_name(parse: Parse) -> None:
    """ONNX Runtime relies on the declaration there, and does not run a Scan whose body would then have a value without shape."""
    model = parse(
        "g (float[1, 3] x, float[4, 3] s) => (float[1, 3] y, float[4, 1, 3] z, float[N, M, N, M] w) {"
        " a = Cos(x)"
        " y, z = Scan<num_scan_inputs = 1, body = body (float[A, B] c, float[3] i) => (float[C, D] d, float[E, F] e)"
        " { d = Max(c, a) e = Add(d, i) }>(x, s)"
        " w = Identity(a) }",
        opset=10,
    )
    feed = {"x": np.ones((1, 3), np.float32), "s": np.ones((4, 3), np.float32)}
    expected = Runner(model).run(feed)
    result = passat.optimize(model).model
    assert [(node.op_type, *node.output) for node in result.graph.node] == [("Cos", "a"), ("Scan", "y", "z"), ("Identity", "w")]
    for found, wanted in zip(Runner(result).run(feed), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_scan_runs_on_parts_whose_sizes_are_computed(parse: Parse) -> None:
    """Conversion writes such models: if sizes of parts are not constant, ONNX infers no rank."""
    model = parse(
        "g (float[0, 2, 4] x, float[7] s) => (float[p, q, r] y) {"
        " y, z = Scan<num_scan_inputs = 1, body = body (float[A, B, C] c, float i) => (float[] d, float[] e) { d, e = Split<axis = 0>(c) }>(x, s) }",
        opset=17,
    )
    feed = {"x": np.zeros((0, 2, 4), np.float32), "s": np.zeros(7, np.float32)}
    result = passat.optimize(model, opset=22, verify=False).model
    assert [value.shape for value in Runner(result).run(feed)] == [value.shape for value in Runner(model).run(feed)] == [(0, 2, 4)]


def test_sizes_of_the_body_of_a_scan_are_not_taken_from_wrong_declarations(parse: Parse) -> None:
    model = parse(
        "g (float[o, h, w] c, float[7] s) => (float[p, q, r] y) <int64[1] k = {1}> {"
        " y, z = Scan<num_scan_inputs = 1, body = body (float[a, 2, b] t, float i) => (float[] d, float[] e)"
        " { d, w = TopK<axis = 0>(t, k) m = Identity(i) e = Identity(m) }>(c, s) }",
        opset=20,
    )
    feed = {"c": np.ones((1, 5, 3), np.float32), "s": np.zeros(7, np.float32)}
    result = passat.optimize(model, verify=False).model
    assert len(result.graph.node[0].attribute) == len(model.graph.node[0].attribute)
    assert [value.shape for value in Runner(result).run(feed)] == [value.shape for value in Runner(model).run(feed)] == [(1, 5, 3)]


def test_inferred_shapes_are_right(parse: Parse) -> None:
    module = from_onnx(declare(parse("g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x) y = Neg(a) }"), "a", 9))
    assert warnings(module) == [
        "'a' is declared as float32[9], but the Relu node that produces 'a' returns float32[2, 3]; the declaration is ignored"
    ]
    assert types(module) == {"a": "float32[2, 3]", "y": "float32[2, 3]"}


def test_contradictory_declarations_are_ignored(parse: Parse) -> None:
    text = "g (float[2, 3] x) => (int64[p, q] y) { a = NonZero(x) b = Transpose(a) y = Neg(b) }"
    module = from_onnx(declare(parse(text), "a", 5, 7, element=TensorProto.INT64))
    sentence = (
        "'a' is declared as int64[5, 7], but the NonZero node that produces 'a' returns int64[2, ?]; neither is used where they differ"
    )
    assert warnings(module) == [sentence]
    assert types(module)["a"] == "int64[?, 7]"
    assert types(module)["b"] == "int64[7, ?]"
    again = from_onnx(to_onnx(module))
    assert (types(again), warnings(again)) == (types(module), warnings(module))


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.DOUBLE], ids=["shape", "element type"])
def test_a_declaration_that_leads_to_a_contradiction_is_not_believed(element: int, parse: Parse) -> None:
    text = "g (float[3, 3] x) => (float[3, 3] y) { a = com.mycompany.Thing(x) b = Neg(a) y = Relu(b) }"
    model = declare(parse(text, imports=CUSTOM), "a", 7, 7, element=element)
    module = from_onnx(model)
    (sentence,) = warnings(module)
    assert sentence.endswith("the declared types of 'a' are ignored")
    assert types(module) == {"a": "_", "b": "_", "y": "float32[3, 3]"}
    assert from_onnx(declare(parse(text, imports=CUSTOM), "a", 3, 3)).attrs["onnx"].warnings == []


def test_operands_that_do_not_fit_because_of_a_declaration(parse: Parse) -> None:
    text = "g (float[3, 3] x) => (float[3, 3] y) { a = com.mycompany.Thing(x) b = MatMul(a, x) y = Relu(b) }"
    module = from_onnx(declare(parse(text, imports=CUSTOM), "a", 3, 7))
    assert warnings(module) == [
        "the MatMul node that produces 'b' does not accept operands of types float32[3, 7], float32[3, 3]: Incompatible dimensions for matrix "
        "multiplication; the declared types of 'a' are ignored"
    ]


def test_declarations_that_contradict_each_other_one_by_one(parse: Parse) -> None:
    """After a few of them none is trusted, so that a model is not read once for each."""
    nodes = [f"a{i} = com.mycompany.Thing(x) b{i} = Neg(a{i})" for i in range(10)]
    model = parse(f"g (float[3] x) => (float[3] b9) {{ {' '.join(nodes)} }}", imports=CUSTOM)
    for i in range(10):
        declare(declare(model, f"a{i}", 7), f"b{i}", 3)
    module = from_onnx(model)
    assert 3 <= len(warnings(module)) <= 4
    assert set(types(module).values()) == {"_"}


@pytest.mark.parametrize("place", ["value_info", "output"])
def test_another_element_type_is_an_error(place: str, parse: Parse) -> None:
    """ONNX Runtime does not load such models either."""
    model = parse(f"g (float[2] x) => ({'int64' if place == 'output' else 'float'}[2] y) {{ a = Neg(x) y = Relu(a) }}")
    if place == "value_info":
        declare(model, "a", 2, element=TensorProto.INT64)
    with pytest.raises(OnnxError, match="is declared as int64"):
        from_onnx(model)
    assert len(warnings(from_onnx(model, lenient=True))) == 1


def test_lenient_reading_keeps_contradictions(parse: Parse) -> None:
    model = parse("g (float[2, 3] x) => (float[N, M] y) { a = MatMul(x, x) b = Neg(a) y = Neg(b) }")
    with pytest.raises(OnnxError, match="does not accept operands"):
        from_onnx(model)
    module = from_onnx(model, lenient=True)
    assert len(warnings(module)) == 1
    assert types(module) == {"a": "_", "b": "_", "y": "float32[N, M]"}
    assert [node.op_type for node in to_onnx(module).graph.node] == ["MatMul", "Neg", "Neg"]


def test_a_domain_that_is_not_imported_can_be_read_leniently(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }")
    assert warnings(from_onnx(model, lenient=True)) == [
        "the com.microsoft.Gelu node that produces 'y' is of the operator domain 'com.microsoft', which the model does not import"
    ]


LOOP = """g (float[2, 3] x, int64 n) => (float[N, 3] y) {{
    y = Loop(n, , x) <body = b (int64 i, bool c, {carried} v) => (bool d, float[M, 3] w) {{
        d = Identity(c)
        s = Relu(v)
        w = {step}
    }}>
}}"""


@pytest.mark.parametrize(
    ("carried", "step", "inside", "warned"),
    [
        ("float[2, 3]", "Neg(s)", "float32[2, 3]", ""),
        ("float[2, 3]", "Concat<axis = 0>(s, s)", "float32[?, 3]", "float32[4, 3]"),
        ("float[K, 3]", "Concat<axis = 0>(s, s)", "float32[?, 3]", ""),
        ("float[5, 3]", "Neg(s)", "float32[?, 3]", "float32[2, 3]"),
        ("float[3]", "Neg(s)", "_", "float32[2, 3]"),
        ("float[2, 3]", "Unsqueeze(s, i1)", "_", "float32[1, 2, 3]"),
    ],
)
def test_types_of_loop_carried_values(carried: str, step: str, inside: str, warned: str, parse: Parse) -> None:
    """The type of a loop-carried value holds before the loop, and after each iteration."""
    model = parse(LOOP.format(carried=carried, step=step))
    model.graph.initializer.append(helper.make_tensor("i1", TensorProto.INT64, [1], [0]))
    module = from_onnx(model)
    assert types(module)["s"] == inside
    name = carried.replace("float", "float32")
    expected = f"the input 'v' of a loop is declared as {name}, but the loop passes {warned}; neither is used where they differ"
    assert warnings(module) == ([expected] if warned else [])


def test_declarations_of_nodes_out_of_order_around_a_subgraph(parse: Parse) -> None:
    """A subgraph that reads later values is read twice; declarations around it still count then."""
    text = """g (float[3] x, bool c) => (float[3] y) {
        a = com.mycompany.Thing(x)
        z = If(c) <then_branch = t () => (float[3] p) { p = Neg(late) }, else_branch = e () => (float[3] q) { q = Neg(x) }>
        late = Neg(a)
        y = Relu(z)
    }"""
    module = from_onnx(declare(parse(text, imports=CUSTOM), "a", 3))
    assert types(module)["late"] == "float32[3]"


def test_other_declarations_that_say_nothing(parse: Parse) -> None:
    """Declarations of inputs, of initializers, of unknown names, duplicates, and declarations without a type."""
    model = parse("g (float[2, 3] x) => (float[2, 3] y) { a = Add(x, w) y = Relu(a) }")
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]))
    for name in ("x", "w", "nothing", ""):
        declare(model, name, 9)
    model.graph.value_info.append(ValueInfoProto(name="a"))
    module = from_onnx(model)
    assert warnings(module) == []
    assert types(module) == {"a": "float32[2, 3]", "y": "float32[2, 3]"}


@pytest.mark.parametrize(
    ("inferred", "declared", "expected"),
    [
        ("float32[2, 3]", "float32[2, 4]", "float32[2, ?]"),
        ("float32[2, n]", "float32[2, 4]", "float32[2, 4]"),
        ("float32[2, n]", "float32[3, m]", "float32[?, n]"),
        ("float32[2]", "float32[2, 1]", "_"),
        ("float32[2]", "int64[2]", "_"),
        ("seq(float32[2])", "seq(float32[3])", "seq(float32[?])"),
        ("seq(float32[2])", "seq(float32[2, 1])", "_"),
        ("_", "float32[3]", "float32[3]"),
    ],
)
def test_facts_of_both_declarations(inferred: str, declared: str, expected: str) -> None:
    assert show_type(agreed(parse_type(inferred), parse_type(declared))) == expected


@pytest.mark.parametrize(
    ("declared", "found", "expected"),
    [
        ("float32[2, 3]", "float32[2, 4]", "float32[2, ?]"),
        ("float32[2, n]", "float32[2, 4]", "float32[2, n]"),
        ("float32[2, n]", "float32[2, 2*n]", "float32[2, ?]"),
        ("float32[?, n]", "float32[5, ?]", "float32[?, n]"),
        ("float32[2]", "float32[2, 1]", "_"),
        ("_", "float32[3]", "_"),
    ],
)
def test_facts_that_hold_of_both(declared: str, found: str, expected: str) -> None:
    assert show_type(holding(parse_type(declared), parse_type(found))) == expected


def test_a_module_with_warnings_can_be_copied(parse: Parse) -> None:
    import pickle

    module = from_onnx(parse("g (float[2] x) => (float[3] y) { y = Relu(x) }"))
    copy: Any = pickle.loads(pickle.dumps(module))
    assert warnings(copy) == warnings(module) != []


def test_negative_dimensions_are_unknown_and_reported(parse: Parse) -> None:
    model = parse("g (float[2, 3] x) => (float[2, 3] y) { y = Neg(x) }")
    assert warnings(from_onnx(model)) == []
    for value, size in ((model.graph.input[0], -2), (model.graph.output[0], -1)):
        value.type.tensor_type.shape.dim[0].dim_value = size
    module = from_onnx(model)
    assert warnings(module) == [
        "the input 'x' is declared with the dimension -2, which is treated as unknown",
        "the output 'y' is declared with the dimension -1, which is treated as unknown",
    ]
    assert str(module["main"].params[0].checked_type) == "Tensor[(?, 3), float32]"
    for rows in (1, 4):
        session = onnxruntime.InferenceSession(to_onnx(module).SerializeToString())
        assert session.run(None, {"x": np.ones((rows, 3), np.float32)})[0].shape == (rows, 3)


@pytest.mark.parametrize("text", ["_", "seq(_)", "opt(_)", "opt(seq(_))"])
def test_containers_of_unknown_types_are_not_declared(text: str) -> None:
    assert not value_info("s", parse_type(text)).HasField("type")


def not_inferred() -> list[tuple[str, int]]:
    """The operators of Passat for whose results ONNX infers nothing in the newest opset."""
    opsets = range(OLDEST_READ, onnx.defs.onnx_opset_version() + 1)
    schemas = {(op, opset): schema_of(op, opset, "") for op in READERS for opset in opsets}
    newest = {op: opset for (op, opset), schema in schemas.items() if schema and not schema.has_type_and_shape_inference_function}
    return sorted(newest.items())


@pytest.mark.parametrize(("op", "opset"), not_inferred())
@pytest.mark.parametrize("again", [False, True], ids=["as it was read", "made anew"])
def test_types_that_onnx_does_not_infer_are_declared(op: str, opset: int, again: bool) -> None:
    operands = {"GroupNormalization": "x, x1, x1", "GreaterOrEqual": "x, x", "LessOrEqual": "x, x"}[op]
    attributes = "<num_groups = 1>" if op == "GroupNormalization" else ""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[1, 1, n] x, float[1] x1) => (float[] y) {{ a = {op} {attributes} ({operands}) '
        "y = Cast <to = 1> (a) }"
    )
    module = from_onnx(model)
    if again:
        module.attrs["onnx"].origins.clear()
    declared = [(value.name, show_type(type_of(value.type)).partition("[")[2]) for value in to_onnx(module).graph.value_info]
    assert declared == [("a", "1, 1, n]")]


def test_a_scan_runs_on_types_that_onnx_does_not_infer() -> None:
    """ONNX Runtime runs no Scan whose body has an unknown shape. (The values of the body are declared without one.)"""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 14]> g (float[2, 2] x) => (bool[2, 2] y, bool[2, 2] z) <bool[2, 2] a> {
          n = Neg(x) m = Neg(n) a = LessOrEqual(m, x)
          y, z = Scan (a, a) <body = b (bool[?, ?] c, bool[?] d) => (bool[] e, bool[] f) { e = Or(a, a) f = Not(d) }, num_scan_inputs = 1>
        }"""
    )
    result = passat.optimize(model, verify=False).model
    assert [node.op_type for node in result.graph.node] == ["LessOrEqual", "Scan"]
    feed = {"x": np.array([[1, -2], [np.nan, 4]], np.float32)}
    assert [value.tolist() for value in Runner(result).run(feed)] == [value.tolist() for value in Runner(model).run(feed)]


def test_narrowly_declared_outputs_are_not_read_by_name(parse: Parse) -> None:
    """The first output is declared with one column, and has five: ONNX Runtime only warns, unless something reads the value by that
    name."""
    model = parse(
        "g (int64[n, m] x) => (uint8[n, 1] a, uint8[k, 5] y) { b = Cast<to = 2>(x) a = Cast<to = 2>(x) y = Concat<axis = 0>(b, c) }",
        opset=18,
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones((2, 5), np.uint8), "c"))
    feed = {"x": np.arange(10).reshape(2, 5)}
    result = passat.optimize(model, verify=False).model
    for found, wanted in zip(Runner(result).run(feed), Runner(model).run(feed), strict=True):
        np.testing.assert_array_equal(found, wanted)
