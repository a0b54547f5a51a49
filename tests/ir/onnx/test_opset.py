"""Models converted to a later opset. `test_opset_audit.py` compares each version of each operator with ONNX Runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import passat
from passat.ir.onnx.errors import OnnxError
from passat.ir.onnx.opset import in_opset

Run = Callable[[ModelProto, dict[str, Any]], list[Any]]


def model(opset: int, body: str = "y = Relu(x)", given: str = "float[2, 3] x", results: str = "float[2, 3] y") -> ModelProto:
    found: ModelProto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main ({given}) => ({results}) {{ {body} }}')
    return found


def opset_of(found: ModelProto) -> int:
    versions: set[int] = {entry.version for entry in found.opset_import if not entry.domain}
    return versions.pop()


def test_a_model_in_a_later_opset() -> None:
    raised = in_opset(model(17), 23)
    assert opset_of(raised) == 23
    onnx.checker.check_model(raised, full_check=True)


def test_default_values_of_attributes_of_local_functions_are_kept() -> None:
    """The inliner of the onnx package ignores them."""
    found = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 15, "own": 1]> main (float[2, 3] x) => (float[2, 3] y) { b = own.leaky(x) y = Neg(b) }
        <domain: "own", opset_import: ["": 15]> leaky <k: float = 0.5> (x) => (y) { y = LeakyRelu <alpha: float = @k> (x) }"""
    )
    raised = in_opset(found, 16)
    assert not raised.functions
    assert {(each.name, each.f) for node in raised.graph.node for each in node.attribute} == {("alpha", 0.5)}


def test_a_model_that_is_there_already_is_itself() -> None:
    same = model(18)
    assert in_opset(same, 18) is same


def test_opsets_are_not_lowered() -> None:
    with pytest.raises(OnnxError, match="has opset 18 and cannot be lowered to 17"):
        in_opset(model(18), 17)


def test_an_unknown_opset() -> None:
    with pytest.raises(OnnxError, match=r"cannot be converted from opset 18 to 999: the installed onnx .* supports 1 to"):
        in_opset(model(18), 999)


@pytest.mark.parametrize("name", ["ReduceLogSum", "ReduceLogSumExp"])
def test_element_types_that_an_operator_no_longer_takes(name: str) -> None:
    of_integers = model(18, f"y = {name}(x)", "int64[2, 3] x", "int64[1, 1] y")
    with pytest.raises(OnnxError, match=f"{name} .* cannot be converted from opset 18 to 28: opset 28 does not support int64"):
        in_opset(of_integers, 28)


def test_an_unknown_element_type_that_an_operator_may_no_longer_take() -> None:
    of_integers = model(18, "y = ReduceLogSum(x)", "int64[2, 3] x", "int64[1, 1] y")
    for value in (*of_integers.graph.input, *of_integers.graph.output):
        value.type.tensor_type.ClearField("shape")
    with pytest.raises(OnnxError, match=r"ReduceLogSum .* to 28: the element type of its operand is unknown"):
        in_opset(of_integers, 28)


def test_a_logarithm_of_a_sum_is_converted_to_its_newest_version() -> None:
    assert opset_of(in_opset(model(18, "y = ReduceLogSum(x)", results="float[1, 1] y"), 28)) == 28


@pytest.mark.parametrize("elem", ["float", "float16", "double"])
def test_a_swish_loads_in_later_opsets(elem: str, run: Run) -> None:
    """ONNX Runtime has no kernel for it, and expands it as a function in opset 24 only."""
    source = model(24, "y = Swish(x)", f"{elem}[2] x", f"{elem}[2] y")
    dtype = helper.tensor_dtype_to_np_dtype(source.graph.input[0].type.tensor_type.elem_type)
    feed = {"x": np.array([-1.5, 2], dtype)}
    np.testing.assert_allclose(run(in_opset(source, 26), feed)[0], run(source, feed)[0], rtol=1e-2 if elem == "float16" else 1e-6)


@pytest.mark.parametrize("rows", [0, 6])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("opset", "axis"), [(11, 0), (13, -2)])
def test_equal_parts_of_nothing(opset: int, axis: int, known: bool, rows: int, run: Run) -> None:
    """Since opset 18 ONNX Runtime rejects a number of parts for a size of 0; for a tensor of unknown rank, Passat has no split of its
    own."""
    body = f"s = Identity(x) a, b, c = Split<axis = {axis}>(s)"
    source = model(opset, body, "float[n, 2] x" if known else "float[] x", "float[p, 2] a, float[p, 2] b, float[p, 2] c")
    raised = in_opset(source, 21)
    feed = {"x": np.arange(2.0 * rows, dtype=np.float32).reshape(rows, 2)}
    for before, after in zip(run(source, feed), run(raised, feed), strict=True):
        np.testing.assert_array_equal(after, before)


def test_one_part_of_a_possibly_empty_split(run: Run) -> None:
    source = model(14, "y = Split<axis = -1>(x)", "float[2, n] x", "float[2, n] y")
    for count in (0, 3):
        (found,) = run(in_opset(source, 19), {"x": np.ones((2, count), np.float32)})
        np.testing.assert_array_equal(found, np.ones((2, count), np.float32))


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_an_axis_of_a_scalar_is_rejected(name: str) -> None:
    """Until opset 10 ONNX Runtime runs it; later it does not load it."""
    with pytest.raises(OnnxError, match=f"{name} .* cannot be converted from opset 9 to 12: opset 11 requires an axis"):
        in_opset(model(9, f"y = {name}(x)", "float x", "int64 y"), 12)
    assert opset_of(in_opset(model(9, f"y = {name}(x)", "float[3] x", "int64[1] y"), 13)) == 13


@pytest.mark.parametrize("operands", ["x", "x, low"])
def test_infinities_of_16_bits_pass_through_a_clip_without_bounds(operands: str, run: Run) -> None:
    """Until opset 12 ONNX Runtime computes it in float32; later the largest float16 is the bound."""
    before = model(11, f"y = Clip({operands})", "float16[3] x", "float16[3] y")
    if "low" in operands:
        before.graph.initializer.append(numpy_helper.from_array(np.array(-2, np.float16), "low"))
    feed = {"x": np.array([np.inf, -np.inf, 3], np.float16)}
    assert np.array_equal(run(in_opset(before, 15), feed)[0], run(before, feed)[0])


def test_nodes_whose_operators_are_the_same_stay_as_they_are() -> None:
    before = model(13, "a = Relu(x)\n b = Unsqueeze(a, at)\n y = Softmax<axis = -1>(b)", results="float[1, 2, 3] y")
    before.graph.initializer.append(numpy_helper.from_array(np.array([0]), "at"))
    before.graph.node[0].name, before.graph.node[0].doc_string = "first", "the first"
    raised = in_opset(before, 17)  # only Relu changed, in its types
    assert [node for node in raised.graph.node if node.op_type != "Relu"] == [node for node in before.graph.node if node.op_type != "Relu"]


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("target", [13, 14])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -2])
@pytest.mark.parametrize("shape", ["2, 3, 4", "2, N, 4", "A, B, C", "0, 3, 4", "2, 3, 1", "1, 3, N"])
def test_operators_that_flattened_are_converted(
    name: str, target: int, axis: int | None, shape: str, run: Run, random: np.random.Generator
) -> None:
    said = "" if axis is None else f"<axis = {axis}>"
    before = model(11, f"y = {name}{said}(x)", f"float[{shape}] x", "float[] y")
    if target == 13 and shape == "A, B, C" and axis != 2:
        with pytest.raises(
            OnnxError, match=rf"{name}.*cannot be converted from opset 11 to 13: it flattens several dimensions of unknown size"
        ):
            in_opset(before, target)
        return
    raised = in_opset(before, target)
    assert opset_of(raised) == target
    sizes = [5 if size.isalpha() else int(size) for size in shape.split(", ")]
    feeds = [sizes, [0 if size.isalpha() else int(size) for size in shape.split(", ")]]
    for given in feeds:
        x = random.standard_normal(given).astype(np.float32)
        (expected,), (found,) = run(before, {"x": x}), run(raised, {"x": x})
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


PADS = "pads = [0, 1, 0, 2]"


@pytest.mark.parametrize("elem", ["float", "float16", "double"])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("value", ["", ", value = 1.5", ", value = 0.0"])
@pytest.mark.parametrize("target", [11, 21])
def test_pads(elem: str, mode: str, value: str, target: int, run: Run, random: np.random.Generator) -> None:
    before = model(9, f'y = Pad<mode = "{mode}", {PADS}{value}>(x)', f"{elem}[2, 3] x", f"{elem}[] y")
    x = random.standard_normal((2, 3)).astype({"float": "f4", "float16": "f2", "double": "f8"}[elem])
    np.testing.assert_array_equal(run(in_opset(before, target), {"x": x})[0], run(before, {"x": x})[0])


@pytest.mark.parametrize("op_type", ["Resize", "Upsample"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 1.5, 3), (1, 1, 0.5, 0.6), (1, 1, 2, 0.5)])
@pytest.mark.parametrize("target", [10, 11, 13, 19])
def test_resizing(op_type: str, mode: str, scales: tuple[float, ...], target: int, run: Run, random: np.random.Generator) -> None:
    opset = 9 if op_type == "Upsample" else 10
    if (op_type == "Upsample" and min(scales) < 1) or target == opset:
        return
    before = model(opset, f'y = {op_type}<mode = "{mode}">(x, s)', "float[1, 1, 4, 5] x", "float[] y")
    before.graph.initializer.append(numpy_helper.from_array(np.array(scales, np.float32), "s"))
    if mode == "nearest" and scales == (1, 1, 2, 0.5) and target > 10:
        with pytest.raises(OnnxError, match=r"Resize node that produces 'y' .*10 to \d+: it enlarges some dimensions and shrinks others"):
            in_opset(before, target)
        return
    x = random.standard_normal((1, 1, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(run(in_opset(before, target), {"x": x})[0], run(before, {"x": x})[0])


def test_resizing_by_scales_that_are_computed_is_rejected() -> None:
    before = model(10, "y = Resize(x, s)", "float[1, 1, 4, 5] x, float[4] s", "float[] y")
    with pytest.raises(
        OnnxError, match=r"the Resize node that produces 'y' cannot be converted from opset 10 to 13: its rounding depends on scales"
    ):
        in_opset(before, 13)


def test_pooling_without_a_kernel_is_rejected_for_unknown_operands() -> None:
    before = model(10, "y = Reshape(x, s)  z = GlobalLpPool(y)", "float[1, 1, 4, 5] x, int64[n] s", "float[] z")
    with pytest.raises(
        OnnxError, match="the GlobalLpPool node that produces 'z' cannot be converted from opset 10 to 22: ONNX Runtime has no kernel"
    ):
        in_opset(before, 22)


def test_operators_that_onnx_no_longer_has_are_rejected() -> None:
    before = model(8, "y = Affine <alpha = 2.0, beta = 1.0> (x)", "float[2] x", "float[2] y")
    assert in_opset(before, 9).opset_import[0].version == 9
    with pytest.raises(
        OnnxError, match="the Affine node that produces 'y' cannot be converted from opset 8 to 12: opset 10 does not have the operator"
    ):
        in_opset(before, 12)


@pytest.mark.parametrize(
    "op_type", ["Elu", "HardSigmoid", "HardSwish", "Mish", "Selu", "Softplus", "Softsign", "ThresholdedRelu", "LeakyRelu"]
)
def test_functions_that_onnx_runtime_has_no_kernel_of_float64_for(op_type: str) -> None:
    """It expands them as functions in opset 18 and cannot load them in later opsets. The conversion is rejected, in subgraphs too."""
    before = model(18, f"y = {op_type}(x)", "double[2] x", "double[2] y")
    inside = model(
        18,
        f"y = If(c) <then_branch = t () => (double[2] a) {{ a = {op_type}(x) }}, else_branch = e () => (double[2] b) {{ b = Neg(x) }}>",
        "double[2] x, bool c",
        "double[2] y",
    )
    for each in (before, inside):
        with pytest.raises(
            OnnxError, match=f"{op_type}.* cannot be converted from opset 18 to 23: ONNX Runtime has no float64 kernel for it there"
        ):
            in_opset(each, 23)
    assert in_opset(model(18, f"y = {op_type}(x)", "float[2] x", "float[2] y"), 23).opset_import[0].version == 23


def test_nodes_of_expanded_calls_have_unique_names() -> None:
    before = model(10, "a = OneHot(i, d, v)  b = OneHot(i, d, v)", "int64[1] i, int64 d, float[2] v", "float[1, n] a, float[1, n] b")
    before.graph.node[0].name, before.graph.node[1].name = "first", "second"
    made = passat.optimize(before, verify=False, opset=13).model
    names = [node.name for node in made.graph.node if node.name]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("shape", ["2, 6, 3", ""])
def test_group_normalization(shape: str, run: Run, random: np.random.Generator) -> None:
    before = model(18, "y = GroupNormalization<num_groups = 3>(x, s, b)", f"float[{shape}] x", "float[] y")
    before.graph.initializer.extend(numpy_helper.from_array(random.standard_normal(3).astype(np.float32), name) for name in "sb")
    if not shape:
        with pytest.raises(OnnxError, match="the number of its channels is unknown"):
            in_opset(before, 21)
        return
    x = random.standard_normal((2, 6, 3)).astype(np.float32)
    np.testing.assert_allclose(run(in_opset(before, 21), {"x": x})[0], run(before, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_the_mask_of_a_dropout_keeps_its_type(run: Run) -> None:
    before = model(7, "y, m = Dropout(x)\n z = Add(m, x)", results="float[2, 3] y, float[2, 3] z")
    x = np.ones((2, 3), np.float32)
    for expected, found in zip(run(before, {"x": x}), run(in_opset(before, 13), {"x": x}), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_graphs_inside_nodes_are_raised(run: Run, random: np.random.Generator) -> None:
    before = model(
        11,
        "y = If (c) <then_branch = a () => (float[2, 3, 2] p) { p = Hardmax<axis = 0>(x) }, "
        'else_branch = b () => (float[2, 3, 2] q) { q = Pad<mode = "constant">(x, pads) }>',
        "bool c, float[2, 3, 2] x",
        "float[2, 3, 2] y",
    )
    before.graph.initializer.append(numpy_helper.from_array(np.zeros(6, np.int64), "pads"))
    raised = in_opset(before, 19)
    x = random.standard_normal((2, 3, 2)).astype(np.float32)
    for choice in (True, False):
        feed = {"c": np.array(choice), "x": x}
        np.testing.assert_array_equal(run(raised, feed)[0], run(before, feed)[0])


def test_unconvertible_operators_in_subgraphs_are_named() -> None:
    body = helper.make_graph(
        [helper.make_node("Hardmax", ["e"], ["r"], axis=0)],
        "b",
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, [2, 2])],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, [2, 2])],
    )
    before = model(17, "s = SequenceConstruct(x)\n y = SequenceAt(s, at)", "float[2, 2] x, int64 at", "float[] y")
    before.graph.node.insert(1, helper.make_node("SequenceMap", ["s"], ["t"], body=body))
    before.graph.node[2].input[0] = "t"
    assert opset_of(in_opset(before, 18)) == 18
    body.node[0].op_type = "Round"
    before.graph.node[1].attribute[0].g.CopyFrom(body)
    with pytest.raises(
        OnnxError,
        match="the SequenceMap node that produces 't' cannot be converted from opset 17 to 22: operators in its subgraphs changed",
    ):
        in_opset(before, 22)


FUNCTIONS = """
<ir_version: 8, opset_import: ["": 11, "mine": 1]>
main (float[2, 3, 2] x) => (float[2, 3, 2] y) {{ y = mine.f(x) }}
<domain: "mine", opset_import: ["": 11]>
f (a) => (b) {{ b = {}(a) }}
"""


@pytest.mark.parametrize(("op_type", "functions"), [("Hardmax", 0), ("Softplus", 1)])
def test_changed_local_functions_are_inlined(op_type: str, functions: int, run: Run, random: np.random.Generator) -> None:
    before = onnx.parser.parse_model(FUNCTIONS.format(op_type))
    raised = in_opset(before, 17)
    assert len(raised.functions) == functions
    assert all(entry.version == 17 for function in raised.functions for entry in function.opset_import)
    x = random.standard_normal((2, 3, 2)).astype(np.float32)
    np.testing.assert_array_equal(run(raised, {"x": x})[0], run(before, {"x": x})[0])


def test_training_information_that_changed_is_rejected() -> None:
    before = model(11)
    before.training_info.add().algorithm.node.append(helper.make_node("Hardmax", ["x"], ["z"]))
    with pytest.raises(OnnxError, match="the training information of the model cannot be converted from opset 11 to 13"):
        in_opset(before, 13)


def test_the_first_opsets_are_raised_by_onnx(run: Run) -> None:
    before = model(6, "y = Add<axis = 0, broadcast = 1>(x, z)", "float[2, 3] x, float[2] z")
    raised = in_opset(before, 17)
    assert opset_of(raised) == 17
    x, z = np.ones((2, 3), np.float32), np.array([1, 2], np.float32)
    np.testing.assert_array_equal(run(raised, {"x": x, "z": z})[0], [[2, 2, 2], [3, 3, 3]])


def test_constants_that_were_inputs_are_none(run: Run) -> None:
    before = model(9, "y = Add(x, w)", "float[2, 3] x, float[3] w")
    before.graph.initializer.append(numpy_helper.from_array(np.arange(3, dtype=np.float32), "w"))
    before.ir_version = 3
    raised = in_opset(before, 21)
    assert raised.ir_version >= 10
    assert [value.name for value in raised.graph.input] == ["x"]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(raised, {"x": x})[0], run(before, {"x": x})[0])


def test_weights_in_a_file_stay_there(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(24))
    before = model(11, "y = Add(x, w)")
    weight = before.graph.initializer.add(name="w", data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    (kept,) = in_opset(before, 17, folder=str(tmp_path)).graph.initializer
    assert [(entry.key, entry.value) for entry in kept.external_data] == [("location", "w.bin")]


def test_types_that_follow_from_constants_are_kept(run: Run, random: np.random.Generator) -> None:
    """The reader of the result of a converted node is written in a form that needs the rank."""
    before = model(10, "a = Resize(x, s)\n b = Hardmax<axis = 1>(a)\n y = Tile(b, reps)", "float[1, 1, 2, N] x", "float[] y")
    before.graph.initializer.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "s"))
    before.graph.initializer.append(numpy_helper.from_array(np.array([1, 2, 1, 1]), "reps"))
    x = random.standard_normal((1, 1, 2, 3)).astype(np.float32)
    for target in (11, 13, 19):
        np.testing.assert_array_equal(run(in_opset(before, target), {"x": x})[0], run(before, {"x": x})[0])


def test_an_average_of_windows_that_do_not_fit_stays_in_its_opset() -> None:
    """Since opset 19 ONNX Runtime has another kernel, which computes another average."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 15]> g (float[3, 2, 2, 2] x) => (float[a, b, c, d] y)'
        "{ y = AveragePool <count_include_pad = 1, kernel_shape = [3, 2], strides = [2, 3]> (x) }"
    )
    with pytest.raises(
        OnnxError, match=r"AveragePool.* cannot be converted from opset 15 to 20: a window of 3 elements does not fit into 2"
    ):
        in_opset(model, 20)


def test_an_average_over_unknown_shapes_is_converted() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 15, "own" : 1]> g (float[1, 2, 4, 4] x) => (float[a, b, c, d] y)'
        "{ u = own.Thing (x) y = AveragePool <kernel_shape = [3, 3]> (u) }"
    )
    assert [node.op_type for node in in_opset(model, 20).graph.node] == ["Thing", "AveragePool"]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    "values", [[2, 1e9], [-1e9, -2e9], [0.5, 1.5], [np.inf, 1], [-np.inf, -np.inf], [-np.inf, 3], [np.nan, 1], [np.inf, -np.inf], []]
)
def test_a_sum_of_exponentials_does_not_overflow_in_later_opsets(values: list[float], keepdims: int, run: Run) -> None:
    """ONNX Runtime has no kernel for the operator in opset 28, and computes the logarithm of a sum that is infinite."""
    body = f"y = ReduceLogSumExp<keepdims = {keepdims}>(x, axes)"
    before = model(18, f"axes = Constant<value_ints = [1]>() {body}", "float[1, n] x", f"float[1{', 1' * keepdims}] y")
    feed = {"x": np.asarray([values], np.float32)}
    np.testing.assert_allclose(run(in_opset(before, 28), feed)[0], run(before, feed)[0], rtol=1e-6)


def test_a_sum_of_exponentials_over_axes_that_are_computed_is_rejected() -> None:
    before = model(18, "y = ReduceLogSumExp(x, axes)", "float[1, 2] x, int64[1] axes", "float[] y")
    with pytest.raises(OnnxError, match="ONNX Runtime has no kernel for this version, and its function body overflows in the exponentials"):
        in_opset(before, 28)


def test_the_newest_sum_of_exponentials_stays() -> None:
    newest = model(28, "a = Neg(x) b = Neg(a) y = ReduceLogSumExp(b)", "float[1, 2] x", "float[1, 1] y")
    assert [node.op_type for node in passat.optimize(newest, verify=False).model.graph.node] == ["ReduceLogSumExp"]
