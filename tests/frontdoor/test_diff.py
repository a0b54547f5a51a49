"""`passat.diff` and `passat diff`: corresponding nodes of two models, and differences between the models."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper, parser
from typer.testing import CliRunner

import passat
from passat.cli.app import app
from passat.ir.onnx import OnnxError, save
from passat.model_diff import Change, Instance
from tests.share import share

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"


def parsed(body: str, *, values: str = "", signature: str = "(float[n, 4] x) => (float[n, 4] y)", opset: int = 20) -> ModelProto:
    model: ModelProto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> g {signature} <{values}> {{ {body} }}')
    return model


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["diff", *map(str, arguments)], env={"COLUMNS": "1000"})
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = Neg(x) b = Exp(x) y = Mul(a, b)", "p = Exp(x) q = Neg(x) y = Mul(q, p)"),
        ("a = Neg(x) b = Exp(x) y = Mul(a, b)", "a = Neg(x) b = Exp(x) y = Mul(b, a)"),
        ("y = Softmax(x)", "y = Softmax<axis = -1>(x)"),
        ("y = Gelu(x)", 'y = Gelu<approximate = "none">(x)'),
    ],
)
def test_names_order_and_defaults_make_no_difference(before: str, after: str) -> None:
    found = passat.diff(parsed(before), parsed(after))
    assert found.equal
    assert found.moved == 0
    assert str(found).endswith("the models are the same up to names and the order of nodes")


def test_constants_are_compared_by_content(tmp_path: Path) -> None:
    inline = parsed("y = Add(x, w)", values="float[4] w = {1, 2, 3, 4}")
    node = parsed("w = Constant<value = float[4] {1, 2, 3, 4}>() y = Add(x, w)")
    onnx.save(inline, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=1)
    assert passat.diff(inline, node).equal
    assert passat.diff(node, tmp_path / "m.onnx").equal
    found = passat.diff(inline, parsed("y = Add(x, w)", values="float[4] w = {1, 2, 3, 5}"))
    assert found.changes == [
        Change(
            "y", "y", "Add", ("operand 1 is another constant: float32[4] = [1.0, 2.0, 3.0, 4.0] became float32[4] = [1.0, 2.0, 3.0, 5.0]",)
        )
    ]
    assert (found.same, found.moved, found.differences) == (0, 1, [])


def test_external_data_counts(tmp_path: Path) -> None:
    model = parsed("a = Add(x, w) y = Add(a, v)")
    for name in ("w", "v"):
        model.graph.initializer.append(numpy_helper.from_array(np.ones((1000, 4), np.float32), name))
    inside = model.ByteSize()
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=1)
    tied = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    del tied.graph.initializer[1].external_data[:]
    tied.graph.initializer[1].external_data.extend(tied.graph.initializer[0].external_data)
    onnx.save(tied, tmp_path / "tied.onnx")
    found = passat.diff(tmp_path / "m.onnx", tmp_path / "tied.onnx")
    assert inside < found.bytes_before < inside + 500
    assert 16_000 <= found.bytes_before - found.bytes_after < 16_100


def test_without_other_operators_their_row_is_omitted() -> None:
    assert "others" not in str(passat.diff(parsed("y = Relu(x)"), parsed("y = Neg(x)")))
    assert "others" in str(passat.diff(parsed("a = Exp(x) y = Relu(a)"), parsed("a = Exp(x) y = Neg(a)")))


LAYER = (
    "m{0} = MatMul(x{0}, w{0}) d{0} = Div(m{0}, c) e{0} = Erf(d{0}) f{0} = Add(e{0}, one) g{0} = Mul(m{0}, f{0}) h{0} = Mul(g{0}, half)"
    " x{1} = Softmax(h{0}) "
)
FUSED = "m{0} = MatMul(x{0}, w{0}) other{0} = Gelu(m{0}) x{1} = Softmax(other{0}) "


def layers(text: str, count: int) -> ModelProto:
    body = "".join(text.format(i, i + 1) for i in range(count)).replace("x0,", "x,")
    model = parsed(f"{body} y = Neg(x{count})", values="float c = {1.4142135}, float one = {1}, float half = {0.5}")
    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(random.normal(size=(4, 4)).astype(np.float32), f"w{i}") for i in range(count)]
    model.graph.initializer.extend(weights)
    return model


def test_places_that_differ_in_the_same_way_stand_together() -> None:
    found = passat.diff(layers(LAYER, 3), layers(FUSED, 3))
    assert [(each.before, each.after) for each in found.differences] == [({"Div": 1, "Erf": 1, "Add": 1, "Mul": 2}, {"Gelu": 1})]
    assert found.differences[0].instances[1] == Instance(("d1", "e1", "f1", "g1", "h1"), ("other1",))
    assert (found.same, found.moved) == (1, 6)
    assert found.changes == []


def test_removed_and_added_nodes() -> None:
    found = passat.diff(parsed("a = Identity(x) b = Neg(a) y = Exp(b)"), parsed("b = Neg(x) c = Abs(b) y = Exp(c)"))
    assert [(each.before, each.after) for each in found.differences] == [({"Identity": 1}, {}), ({}, {"Abs": 1})]


def test_attributes_and_operands() -> None:
    before = parsed("[t] y = Transpose<perm = [0, 1]>(x)")
    after = parsed("[t] y = Transpose<perm = [1, 0]>(x)")
    assert passat.diff(before, after).changes == [Change("t", "t", "Transpose", ("perm: [0, 1] changed to [1, 0]",))]
    found = passat.diff(parsed("y = Clip(x)"), parsed("y = Clip(x, low)", values="float low = {0}"))
    assert found.changes == [Change("y", "y", "Clip", ("1 operand became 2",))]


def test_attributes_that_say_what_holds_without_them() -> None:
    weight, images = "float[1, 4, 1] w = {1, 2, 3, 4}", "(float[n, 4, 3] x) => (float[n, 1, 3] y)"
    stated = '<kernel_shape = [1], pads = [0, 0], strides = [1], auto_pad = "NOTSET">'
    before, after = (parsed(f"y = Conv{text}(x, w)", values=weight, signature=images) for text in (stated, ""))
    assert passat.diff(before, after).equal


def test_equal_attributes_of_operators_that_an_opset_redefined() -> None:
    def softmax(text: str, opset: int) -> ModelProto:
        return parsed(f"y = Softmax{text}(x)", signature="(float[n, 4, 4] x) => (float[n, 4, 4] y)", opset=opset)

    for text, change in {
        "": "axis and all after it removed: 1",
        "<axis = 1>": "axis added: 1, axis and all after it removed: 1",
    }.items():
        (found,) = passat.diff(softmax(text, 11), softmax(text, 13)).changes
        assert ", ".join(found.what) == change
    assert not passat.diff(softmax("<axis = -1>", 11), softmax("", 13)).changes


def test_metadata_of_models() -> None:
    before = parsed("y = Neg(x) z = Exp(x)", signature="(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)")
    after = parsed("y = Neg(x)", signature="(float[1, 4] x) => (float[1, 4] y)", opset=21)
    assert passat.diff(before, after).interface == [
        "the opset of ai.onnx 20 became 21",
        "the input 'x' was float32[n, 4] and is float32[1, 4]",
        "the output 'y' was float32[n, 4] and is float32[1, 4]",
        "the output 'z', float32[n, 4], is gone",
    ]


def test_inputs_of_other_names_stand_at_the_same_places() -> None:
    found = passat.diff(parsed("y = Neg(x)"), parsed("y = Neg(data)", signature="(float[n, 4] data) => (float[n, 4] y)"))
    assert found.same == 1
    assert found.interface == ["the input 'x', float32[n, 4], is gone", "there is a new input 'data', float32[n, 4]"]


def test_a_difference_in_a_branch() -> None:
    def branched(body: str) -> ModelProto:
        text = f"y = If (c) <then_branch = t () => (float[n, 4] u) {{ {body} }}, else_branch = e () => (float[n, 4] v) {{ v = Exp(a) }}>"
        return parsed(f"a = Neg(x) [choose] {text}", signature="(bool c, float[n, 4] x) => (float[n, 4] y)")

    found = passat.diff(branched("p = Abs(a) u = Sqrt(p)"), branched("u = Sqrt(a)"))
    assert [(each.before, each.after, each.graph) for each in found.differences] == [({"Abs": 1}, {}, "If 'choose': then_branch")]
    assert "gone in one place of If 'choose': then_branch: Abs" in str(found)
    assert passat.diff(branched("u = Sqrt(a)"), branched("q = Sqrt(a) u = Identity(q)")).differences[0].after == {"Identity": 1}


def test_a_model_and_its_optimized_form() -> None:
    path = EXAMPLES / "bert_tiny.onnx"
    found = passat.diff(path, passat.optimize(path, verify=False).model)
    assert found.nodes_after["Gemm"] == 12
    (gemm,) = [each for each in found.differences if each.after == {"Gemm": 1}]
    assert gemm.before == {"MatMul": 1, "Add": 1}
    assert len(gemm.instances) == 11  # the last one also reshapes, before the normalization that is returned


def test_many_nodes_are_compared_in_time_that_grows_with_them() -> None:
    count = share(5_000, 20_000)
    body = "".join(f"x{i + 1} = {'Neg' if i % 7 else 'Abs'}(x{i}) " for i in range(count)).replace("(x0)", "(x)") + f"y = Exp(x{count})"
    before = parsed(body)
    after = parsed(body.replace("x2501 = Neg", "x2501 = Sin"))
    found = passat.diff(before, after)
    assert [(each.before, each.after) for each in found.differences] == [({"Neg": 1}, {"Sin": 1})]


def test_the_command_and_its_json(tmp_path: Path) -> None:
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    save(layers(LAYER, 4), before)
    save(layers(FUSED, 4), after)
    assert (
        run(before, after)
        == f"""\
- {before}: 29 nodes, {before.stat().st_size / 1000:.3g} kB
+ {after}: 13 nodes, {after.stat().st_size} B

operator  before  after
Add            4      0  -4
Div            4      0  -4
Erf            4      0  -4
Gelu           0      4  +4
Mul            8      0  -8
others         9      9

9 nodes are in both: 1 read the same values, 8 other values

in 4 places: Div, Erf, Add, 2 Mul became Gelu
  - d0, e0, f0, g0 and 1 more
  + other0
  - d1, e1, f1, g1 and 1 more
  + other1
  - d2, e2, f2, g2 and 1 more
  + other2
  ... and 1 more
"""
    )
    data = json.loads(run(before, after, "--json"))
    assert data["equal"] is False
    assert (data["node_count_before"], data["node_count_after"]) == (29, 13)
    assert data["differences"][0]["instances"][3]["after"] == ["other3"]


def test_unreadable_input(tmp_path: Path) -> None:
    path = tmp_path / "no.onnx"
    assert f"error: {path} cannot be read" in run(EXAMPLES / "bert_tiny.onnx", path, code=1)
    cycle = helper.make_model(
        helper.make_graph(
            [helper.make_node("Neg", ["y"], ["z"]), helper.make_node("Neg", ["z"], ["y"])],
            "g",
            [],
            [helper.make_tensor_value_info("y", 1, [1])],
        )
    )
    with pytest.raises(OnnxError):
        passat.diff(cycle, cycle)


def test_values_that_nothing_makes_are_known_by_name() -> None:
    assert passat.diff(parsed("y = Neg(p)"), parsed("y = Neg(p)")).equal
    assert not passat.diff(parsed("y = Neg(p)"), parsed("y = Neg(q)")).equal


def test_constants_that_no_checker_accepts() -> None:
    unnamed = parsed("y = Neg(x)")
    unnamed.graph.node.append(helper.make_node("Constant", [], [], value_float=1.0))
    assert passat.diff(unnamed, unnamed).equal
    mistyped = parsed("y = Neg(x) c = Constant<value_floats = 1.0>()")
    assert passat.diff(mistyped, mistyped).equal
    assert not passat.diff(unnamed, mistyped).equal


TWO = "(float[n, 4] x, float[n, 4] z) => (float[n, 4] y)"
BOTH = "(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)"


@pytest.mark.parametrize(
    ("before", "after", "signature", "said"),
    [
        ("y = Sub(x, z)", "y = Sub(z, x)", TWO, "operand 0 is another value: 'x' became 'z'; operand 1 is another value: 'z' became 'x'"),
        (
            "[p] a = Neg(x) [q] b = Exp(x) y = Sub(a, b)",
            "[p] a = Neg(x) [q] b = Exp(x) y = Sub(b, b)",
            "(float[n, 4] x) => (float[n, 4] y)",
            "operand 0 is another value: Neg 'p' became Exp 'q'",
        ),
        ("y = Neg(x) z = Exp(x)", "z = Neg(x) y = Exp(x)", BOTH, "the output 'y' is another value: Neg 'y' became Exp 'y'"),
        ("y = Neg(x)", "y = Neg(z)", TWO, "operand 0 is another value: 'x' became 'z'"),
        ("a, b = Split<num_outputs = 2>(x) y = Neg(a)", "a, b = Split<num_outputs = 2>(x) y = Neg(b)", TWO, "Split 'a' became output 1 of"),
        ("y = Constant<value_floats = [1.0]>()", "y = Constant<value_floats = [2.0]>()", TWO, "the output 'y' is another constant"),
    ],
)
def test_nodes_that_read_other_values(before: str, after: str, signature: str, said: str) -> None:
    models = parsed(before, signature=signature), parsed(after, signature=signature)
    assert not passat.diff(*models).equal
    assert said in " ".join(str(passat.diff(*models)).split())
    assert passat.diff(models[0], models[0]).equal


def test_subgraphs_know_inputs_and_outputs_by_their_places() -> None:
    def loop(inputs: str, body: str = "t = Sub(a, b) u = Identity(b)", outputs: str = "t, u") -> ModelProto:
        ins, outs = (", ".join(f"float[n, 4] {name}" for name in names.split(", ")) for names in (inputs, outputs))
        text = f"[loop] y, v = Loop(count, , x, z) <body = g (int64 i, bool c, {ins}) => (bool d, {outs}) {{ d = Identity(c) {body} }}>"
        return parsed(text, values="int64 count = {3}", signature=TWO)

    assert passat.diff(loop("a, b"), loop("b, a", "t = Sub(b, a) u = Identity(a)")).equal
    assert not passat.diff(loop("a, b"), loop("b, a")).equal
    found = passat.diff(loop("a, b"), loop("a, b", outputs="u, t"))
    assert found.interface == [
        "output 1 of Loop 'loop': body is another value: Sub 't' became Identity 'u'",
        "output 2 of Loop 'loop': body is another value: Identity 'u' became Sub 't'",
    ]


def calling(body: str, *, opset: int = 20, call: str = "y = own.f(x)", other: str = "") -> ModelProto:
    text = f'<ir_version: 9, opset_import: ["" : 20, "own" : 1]> g (float[n] x) => (float[n] y) {{ {call} }}'
    function = f'<domain: "own", opset_import: ["" : {opset}]> f {other}(a) => (b) {{ {body} }}'
    model: ModelProto = parser.parse_model(f"{text} {function if body else ''}")
    return model


def test_functions_are_compared_by_their_bodies() -> None:
    one = calling("c = Neg(a) b = Exp(c)")
    assert passat.diff(one, calling("d = Neg(a) b = Exp(d)")).equal
    found = passat.diff(one, calling("b = Exp(a)"))
    assert [(each.before, each.after, each.graph) for each in found.differences] == [({"Neg": 1}, {}, "function own.f")]
    assert passat.diff(one, calling("c = Neg(a) b = Exp(c)", opset=19)).interface == [
        "in the function own.f, the opset of ai.onnx 20 became 19"
    ]
    assert passat.diff(one, calling("")).interface == ["the function own.f is gone"]
    scaled, call = "b = LeakyRelu<alpha = @alpha>(a)", "y = own.f<alpha = 0.5>(x)"
    assert passat.diff(calling(scaled, other="<alpha>", call=call), calling(scaled, other="<alpha>", call=call)).equal
    found = passat.diff(calling(scaled, other="<alpha>", call=call), calling("b = LeakyRelu<alpha = 0.5>(a)", other="<alpha>", call=call))
    assert found.changes == [Change("b", "b", "LeakyRelu", ("alpha: attribute of the call, alpha changed to 0.5",))]


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        ("c = Constant<value_float = 2.0>() y = Add(x, c)", "y = Add(x, c)", "float c = {2}"),
        ("c = Constant<value_ints = [4, -1]>() y = Reshape(x, c)", "y = Reshape(x, c)", "int64[2] c = {4, -1}"),
        ("y = Clip(x, , )", "y = Clip(x)", ""),
        ("y = MaxPool<kernel_shape = [1], strides = [1], pads = [0, 0]>(x)", "y = MaxPool<kernel_shape = [1]>(x)", ""),
        ("y = ConstantOfShape<value = float[1] {0}>(s)", "y = ConstantOfShape(s)", "int64[2] s = {1, 4}"),
        ("y = ai.onnx.Neg(x)", "y = Neg(x)", ""),
    ],
)
def test_other_ways_to_write_the_same(before: str, after: str, values: str) -> None:
    first = parsed(before, values=values if before.count("Constant<") == 0 else "")
    assert passat.diff(first, parsed(after, values=values)).equal
