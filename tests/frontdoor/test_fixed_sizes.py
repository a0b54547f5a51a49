"""`optimize --dim`, `--input-shape` and `--outputs`: a model for fixed input sizes, and for some of its outputs."""

import json
import os
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, parser
from typer.testing import CliRunner

import passat
from passat.cli.app import app
from passat.ir.onnx.specialize import SpecializeError

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
TWO = "a = Neg(x) y = Relu(a) b = Exp(w) z = Mul(b, s)"


def parsed(
    body: str = TWO, *, signature: str = "(float[n, 4] x, float[succ, ?, m] w) => (float[n, 4] y, float[succ, k, m] z)"
) -> ModelProto:
    text = f'<ir_version: 9, opset_import: ["" : 20]> g {signature} <float[1] s = {{2}}> {{ {body} }}'
    model: ModelProto = parser.parse_model(text)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "succ":  # the parser accepts names only
                dim.dim_param = "n + 1"
    return model


def shapes(values: AnyValue) -> dict[str, list[int | str]]:
    return {value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values}


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["optimize", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parsed(), "in.onnx")


def test_a_named_dimension_gets_a_size_in_the_whole_model() -> None:
    run(EXAMPLES / "bert_tiny.onnx", "-o", "out.onnx", "--dim", "batch=1", "--dim", "sequence=7")
    model = onnx.load("out.onnx")
    assert shapes(model.graph.input) == {"input_ids": [1, 7], "attention_mask": [1, 7]}
    assert shapes(model.graph.output) == {"output": [1, 7, 64]}


def test_the_callers_model_is_not_modified() -> None:
    model = parsed()
    before = model.SerializeToString()
    result = passat.optimize(model, dims={"n": 2}, input_shapes={"w": [None, 5, 3]})
    assert shapes(result.model.graph.input) == {"x": [2, 4], "w": [3, 5, 3]}
    assert model.SerializeToString() == before


def test_a_shape_fixes_dimensions_with_and_without_names() -> None:
    run("in.onnx", "-o", "out.onnx", "--input-shape", "x=2,4", "--input-shape", "w=?,5,6", "--passes", "InferType")
    model = onnx.load("out.onnx")
    assert shapes(model.graph.input) == {"x": [2, 4], "w": [3, 5, 6]}
    assert shapes(model.graph.output)["z"][2] == 6


@pytest.mark.parametrize("passes", [None, "InferType"])
@pytest.mark.parametrize("opset", [None, 21])
def test_sizes_of_outputs_that_follow_are_declared(passes: str | None, opset: int | None) -> None:
    body = "t = Shape(x) p = ReduceProd(t) z = Reshape(x, p) y = Neg(x) u = NonZero(x)"
    model = parsed(body, signature="(float[n, 4] x) => (float[m, 4] y, float[k] z, int64[r, c] u)")
    assert shapes(passat.optimize(model, passes=passes).model.graph.output) == {"y": ["m", 4], "z": ["k"], "u": ["r", "c"]}
    made = passat.optimize(model, dims={"n": 2}, passes=passes, opset=opset).model
    assert shapes(made.graph.output) == {"y": [2, 4], "z": [8], "u": [2, "c"]}


def test_an_input_without_a_rank_gets_one() -> None:
    onnx.save(parsed("y = Relu(x)", signature="(float x) => (float[n] y)"), "in.onnx")
    model = onnx.load("in.onnx")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, "in.onnx")
    run("in.onnx", "-o", "out.onnx", "--input-shape", "x=3")
    assert shapes(onnx.load("out.onnx").graph.input) == {"x": [3]}


def test_nodes_for_removed_outputs_are_removed() -> None:
    report = json.loads(run("in.onnx", "-o", "out.onnx", "--outputs", "y", "--json"))
    graph = onnx.load("out.onnx").graph
    assert ([value.name for value in graph.input], [value.name for value in graph.output]) == (["x"], ["y"])
    assert (len(graph.node), len(graph.initializer)) == (2, 0)
    assert (report["node_count_before"], report["node_count_after"]) == (4, 2)
    assert report["kept"] == "no pass changed anything; it has the sizes and outputs that were requested"


def test_operands_of_subgraphs_are_kept() -> None:
    then = helper.make_graph([helper.make_node("Neg", ["a"], ["t"])], "then", [], [helper.make_tensor_value_info("t", 1, ["n"])])
    other = helper.make_graph([helper.make_node("Exp", ["x"], ["e"])], "else", [], [helper.make_tensor_value_info("e", 1, ["n"])])
    nodes = [
        helper.make_node("Sin", ["x"], ["a"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        helper.make_node("Cos", ["x"], ["z"]),
    ]
    x, c, y, z = (
        helper.make_tensor_value_info(name, kind, dims)
        for name, kind, dims in (("x", 1, ["n"]), ("c", 9, []), ("y", 1, ["n"]), ("z", 1, ["n"]))
    )
    model = helper.make_model(helper.make_graph(nodes, "g", [x, c], [y, z]), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    result = passat.optimize(model, outputs=["y"], dims={"n": 3}).model
    assert sorted(node.op_type for node in result.graph.node) == ["If", "Sin"]
    branches = [attribute.g for node in result.graph.node for attribute in node.attribute]
    assert [shapes(branch.output) for branch in branches] == [{branch.output[0].name: [3]} for branch in branches]


def test_external_data_is_found() -> None:
    weight = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "v")
    model = parsed("a = MatMul(x, v) y = Relu(a)", signature="(float[n, 64] x) => (float[n, 64] y)")
    model.graph.initializer.append(weight)
    Path("given").mkdir()
    onnx.save(model, "given/in.onnx", save_as_external_data=True, location="in.data", size_threshold=1)
    run("given/in.onnx", "-o", "out.onnx", "--dim", "n=2", "--no-verify", "--passes", "InferType")
    run("given/in.onnx", "-o", "out.onnx", "--dim", "n=2")
    onnx.checker.check_model("out.onnx", full_check=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dim", "l=2"), "the model has no input with a dimension named 'l'; its named dimensions are n, m"),
        (("--dim", "n"), "--dim takes NAME=SIZE with a whole number, such as batch=1, not 'n'"),
        (("--dim", "n=-1"), "--dim takes NAME=SIZE"),
        (("--dim", "n=99999999999"), "--dim takes NAME=SIZE"),
        (("--dim", "n=1", "--dim", "n=2"), "--dim gives n two sizes, 1 and 2"),
        (
            ("--dim", "n=1", "--input-shape", "x=2,4"),
            "the input 'x' is given the size 2 at axis 0, which is 'n', but the dimension 'n' is given the size 1",
        ),
        (("--input-shape", "x=2,5"), "the input 'x' has the size 4 at axis 1, but 5 is given"),
        (("--input-shape", "x=2"), "the input 'x' has the shape [n, 4], but 1 size is given"),
        (("--input-shape", "x=a,4"), "--input-shape takes NAME=SIZES with whole numbers or ?, such as image=1,3,224,224, not 'x=a,4'"),
        (("--input-shape", "x=2,4", "--input-shape", "w=2,5,5"), "the input 'w' has the size 3 at axis 0, but 2 is given"),
        (("--input-shape", "v=2"), "the model has no input 'v'; its inputs are x, w"),
        (("--outputs", "zz"), "the model has no output 'zz'; its outputs are y, z"),
        (("--outputs", ","), "--outputs takes the names of outputs, separated by commas"),
    ],
)
def test_unknown_names_are_reported_in_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    assert said in run("in.onnx", "-o", "out.onnx", *arguments, code=2)
    assert os.listdir() == ["in.onnx"]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"dims": {"n": "2"}}, TypeError, "the size of the dimension 'n' must be an integer from 0 to 2147483647, not '2'"),
        ({"dims": {"n": -1}}, ValueError, "the size of the dimension 'n' must be an integer from 0"),
        ({"dims": 3}, TypeError, "dims must map names of dimensions to sizes, not 3"),
        ({"input_shapes": {"x": 3}}, TypeError, "input_shapes must map names of inputs to shapes"),
        ({"input_shapes": {"x": [1.5, 4]}}, TypeError, "a size of the input 'x' must be an integer"),
        ({"outputs": "y"}, TypeError, "outputs must be a list of names, not 'y'"),
        ({"outputs": []}, ValueError, "outputs names no output"),
        ({"dims": {"q": 1}}, SpecializeError, "the model has no input with a dimension named 'q'; its named dimensions are n"),
        ({"dims": {"max(n, 1)": 1}}, SpecializeError, "named 'max(n, 1)', which is an expression: give n a size instead; its named"),
        ({"dims": {"q + 1": 1}}, SpecializeError, "named 'q + 1'; its named dimensions are n"),
    ],
)
def test_arguments_that_make_no_sense(options: dict[str, AnyValue], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        passat.optimize(parsed(), **options)
    assert said in str(caught.value)


def test_inputs_of_ones_own_have_the_fixed_sizes() -> None:
    np.savez("inputs.npz", x=np.ones((3, 4), np.float32))
    said = run("in.onnx", "-o", "out.onnx", "--outputs", "y", "--dim", "n=2", "--inputs", "inputs.npz", code=1)
    assert "the input 'x' has shape [3, 4], the model takes [2, 4]" in said


def test_a_size_of_0_compares_no_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parsed("a = Identity(x) y = Neg(a) z = Mul(w, s)"), "in.onnx")
    said = "output y: it has no elements on these inputs, so only its shape was compared"
    assert said in run("in.onnx", "-o", "out.onnx", "--dim", "n=0")
    assert "no elements" not in run("in.onnx", "-o", "out.onnx", "--dim", "n=1")
