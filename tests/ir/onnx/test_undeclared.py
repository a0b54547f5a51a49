"""Inputs and outputs with incomplete declarations: the message names them, the node that produces them, and the way out. Inferred types are
declared."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TypeProto

import passat
from passat.ir.onnx import OnnxError, check, from_onnx, save, to_onnx
from passat.ir.onnx.undeclared import undeclared, without_element_type
from passat.report import UnverifiedError

PLAIN = "a = Neg(x) [last] y = Neg(a)"
CUSTOM = "a = Neg(x) b = Neg(a) y = mine.Thing(b)"
FILE = "or the operator in a rule file (docs/custom-operators.md)"


def model(body: str = PLAIN) -> ModelProto:
    text = f'<ir_version: 9, opset_import: ["": 18, "mine": 1]> g (float[n, 8] x) => (float[n, 8] y) {{ {body} }}'
    found: ModelProto = onnx.parser.parse_model(text)
    return found


def no_type(type_: TypeProto) -> None:
    type_.Clear()


def no_shape(type_: TypeProto) -> None:
    type_.tensor_type.ClearField("shape")


def no_element_type(type_: TypeProto) -> None:
    type_.tensor_type.ClearField("elem_type")


def of_type_99(type_: TypeProto) -> None:
    type_.tensor_type.elem_type = 99


def a_sequence(type_: TypeProto) -> None:
    type_.Clear()
    type_.sequence_type.SetInParent()


def an_optional(type_: TypeProto) -> None:
    type_.Clear()
    type_.optional_type.SetInParent()


def a_map(type_: TypeProto) -> None:
    type_.Clear()
    type_.map_type.SetInParent()


@pytest.mark.parametrize(
    ("body", "where", "change", "said"),
    [
        (PLAIN, "input", no_type, "the input 'x' has no declared type: declare it (sizes may be unknown)"),
        (PLAIN, "input", no_shape, "the input 'x' has no declared shape: declare it (sizes may be unknown)"),
        (PLAIN, "input", no_element_type, "the input 'x' has no declared element type: declare the right one"),
        (PLAIN, "input", a_sequence, "the input 'x' has no declared element type: declare the right one"),
        (PLAIN, "input", an_optional, "the input 'x' has no declared element type: declare the right one"),
        (PLAIN, "input", a_map, "the input 'x' has no declared type of keys: declare the right one"),
        (
            *(PLAIN, "output", no_type),
            "the output 'y', which node 'last' (Neg) produces, has no declared type: declare it (sizes may be unknown)",
        ),
        (
            *(CUSTOM, "output", no_shape),
            f"the output 'y', which a mine.Thing node produces, has no declared shape: declare it (sizes may be unknown), {FILE}",
        ),
    ],
)
def test_the_sentence_of_the_checker_names_no_value_and_ours_does(
    body: str, where: str, change: Callable[[TypeProto], None], said: str
) -> None:
    changed = model(body)
    assert undeclared(changed) == without_element_type(changed) == ""
    change(getattr(changed.graph, where)[0].type)
    with pytest.raises(OnnxError) as caught:
        check(changed)
    assert str(caught.value) == f"onnx.checker does not accept the model: {said}"


def test_other_sentences_of_the_checker_stay_its_own() -> None:
    changed = model()
    changed.graph.output[0].ClearField("type")
    changed.graph.name = ""
    with pytest.raises(OnnxError, match="Field 'name' of 'graph' is required"):
        check(changed)


@pytest.mark.parametrize("change", [no_type, no_shape, no_element_type])
def test_outputs_declare_inferred_types(change: Callable[[TypeProto], None]) -> None:
    changed = model()
    change(changed.graph.output[0].type)
    assert to_onnx(from_onnx(changed)).graph.output == model().graph.output


@pytest.mark.parametrize("change", [no_type, no_shape])
def test_an_input_that_nothing_was_done_to_comes_back_as_it_was(change: Callable[[TypeProto], None], tmp_path: Path) -> None:
    changed = model()
    change(changed.graph.input[0].type)
    result = passat.optimize(changed, verify=False)
    assert result.report.kept == "no pass changed anything"
    result.save(tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx") == changed


def test_a_file_with_external_data_is_spoken_of_as_well(tmp_path: Path) -> None:
    changed = model(CUSTOM)
    changed.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(5000, np.float32), "w"))
    onnx.save(changed, str(tmp_path / "in.onnx"), save_as_external_data=True, location="in.data", size_threshold=0)
    changed = onnx.load(str(tmp_path / "in.onnx"), load_external_data=False)
    no_shape(changed.graph.output[0].type)
    with pytest.raises(OnnxError, match=r"the output 'y', which a mine\.Thing node produces, has no declared shape"):
        save(changed, tmp_path / "out.onnx", folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.data", "in.onnx"]


@pytest.mark.parametrize(
    ("where", "change", "said"),
    [
        ("output", no_element_type, "the output 'y', which node 'last' (Neg) produces, has no declared element type"),
        ("output", of_type_99, "the output 'y', which node 'last' (Neg) produces, is declared with the unknown element type 99"),
        ("value_info", no_element_type, "the value 'a', which a Neg node produces, has no declared element type"),
    ],
)
def test_operators_without_a_kernel_for_an_element_type_are_named(where: str, change: Callable[[TypeProto], None], said: str) -> None:
    changed = model()
    changed.graph.value_info.add(name="a").type.CopyFrom(changed.graph.output[0].type)
    change(getattr(changed.graph, where)[0].type)
    with pytest.raises(UnverifiedError) as caught:
        passat.optimize(changed)
    assert f"ONNX Runtime does not load the original: {said}: declare the right one;" in str(caught.value)
