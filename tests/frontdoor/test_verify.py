"""Comparing two models: real differences are found, others are not, and a reason is given if nothing can be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from passat import MismatchError, Result, optimize
from passat.ir.onnx import files
from passat.rules import RuleSet, constant, guard, op, tensor
from passat.rules.guards import Term
from passat.runner import Runner, VerifyError
from passat.trials import ComparedSession
from passat.verify import OutputReport, Reference, VerifyReport
from tests.comparing import compare_models

Dims = Sequence[int | str | None]
HEAD = '<ir_version: 9, opset_import: ["" : 18]> g '


def value(name: str, kind: int = TensorProto.FLOAT, shape: Dims | None = ("n", 4)) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    constants: Mapping[str, npt.NDArray[np.generic]] | None = None,
    opset: int = 18,
) -> ModelProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def unary(*ops: str, shape: Dims | None = ("n", 4), kind: int = TensorProto.FLOAT) -> ModelProto:
    nodes = [helper.make_node(op, [f"v{i}" if i else "x"], [f"v{i + 1}" if i + 1 < len(ops) else "y"]) for i, op in enumerate(ops)]
    return model(nodes, [value("x", kind, shape)], [value("y", kind, shape)])


def scaled(factor: float, shape: Dims = ("n", 4)) -> ModelProto:
    node = helper.make_node("Mul", ["x", "c"], ["y"])
    return model([node], [value("x", shape=shape)], [value("y", shape=shape)], {"c": np.array(factor, np.float32)})


def embedding(vocabulary: int, *, shift: float = 0.0, index: int = TensorProto.INT64) -> ModelProto:
    table = np.random.default_rng(0).normal(size=(vocabulary, 3)).astype(np.float32)
    table[-1] += shift
    node = helper.make_node("Gather", ["w", "ids"], ["y"])
    return model([node], [value("ids", index, ("batch", "seq"))], [value("y", shape=("batch", "seq", 3))], {"w": table})


def test_equal_models_are_equal() -> None:
    report = compare_models(unary("Neg", "Neg"), unary("Identity"))
    assert report.equal is True
    assert not report.mismatch
    assert [trial.sizes for trial in report.trials] == [{"n": 2}, {"n": 5}, {"n": 1}]
    assert report.outputs[0].compared == 3


def test_rounding_passes_and_is_measured() -> None:
    report = compare_models(scaled(1.0), scaled(1.0 + 4e-6))
    assert report.equal is True
    assert 1e-6 < report.relative < 1e-4


def test_a_difference_names_output_elements_and_trial() -> None:
    report = compare_models(scaled(1.0), scaled(1.01))
    assert report.equal is False
    assert "output 'y'" in report.mismatch
    assert "of 8 elements by more than rounding" in report.mismatch
    assert "seed 0, n=2" in report.mismatch


def test_small_outputs_are_compared_by_their_own_size() -> None:
    assert compare_models(scaled(1e-12), scaled(1.01e-12)).equal is False


def test_a_difference_that_shows_at_one_size_only() -> None:
    # equal if n is 2 or 5; at n = 1 the sum over the first axis gives another result
    summed = model(
        [helper.make_node("ReduceSum", ["x", "a"], ["y"], keepdims=1)], [value("x")], [value("y", shape=(None, 4))], {"a": np.array([0])}
    )
    report = compare_models(unary("Identity", shape=("n", 4)), summed)
    assert report.equal is False
    assert "has shape [1, 4] where [2, 4] is expected" in report.mismatch


def test_the_same_seed_gives_the_same_report() -> None:
    def stripped(report: VerifyReport) -> str:
        return repr((report.equal, report.outputs, report.trials, report.mismatch))

    assert stripped(compare_models(unary("Exp"), scaled(2.0), seed=7)) == stripped(compare_models(unary("Exp"), scaled(2.0), seed=7))
    assert stripped(compare_models(unary("Exp"), scaled(2.0), seed=7)) != stripped(compare_models(unary("Exp"), scaled(2.0), seed=8))


@pytest.mark.parametrize(
    ("kind", "ops"),
    [
        (TensorProto.FLOAT16, ("Neg", "Neg")),
        (TensorProto.BFLOAT16, ("Identity", "Identity")),
        (TensorProto.DOUBLE, ("Neg", "Neg")),
        (TensorProto.INT8, ("Neg", "Neg")),
        (TensorProto.INT32, ("Neg", "Neg")),
        (TensorProto.UINT8, ("Identity", "Identity")),
        (TensorProto.UINT16, ("Identity", "Identity")),
        (TensorProto.BOOL, ("Not", "Not")),
        (TensorProto.STRING, ("Identity", "Identity")),
    ],
)
def test_every_element_type_is_run_and_compared(kind: int, ops: tuple[str, ...]) -> None:
    report = compare_models(unary(*ops, kind=kind), unary("Identity", kind=kind))
    assert report.equal is True
    assert report.outputs[0].compared == 3


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.INT32, TensorProto.FLOAT])
def test_a_wrong_sign_is_seen_in_every_element_type(kind: int) -> None:
    assert compare_models(unary("Neg", kind=kind), unary("Identity", kind=kind)).equal is False


def test_a_scalar_of_bfloat16_is_passed_without_axes() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    scalar = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, []) for name in "xy"]
    (found,) = Runner(model(nodes, scalar[:1], scalar[1:])).run({"x": np.asarray(0.5, ml_dtypes.bfloat16)})
    assert (found.shape, float(found)) == ((), 0.5)


def test_a_wrong_bfloat16_is_seen() -> None:
    def power(exponent: float) -> ModelProto:
        nodes = [
            helper.make_node("Cast", ["x"], ["f"], to=1),
            helper.make_node("Mul", ["f", "c"], ["g"]),
            helper.make_node("Cast", ["g"], ["y"], to=16),
        ]
        return model(nodes, [value("x", 16)], [value("y", 16)], {"c": np.array(exponent, np.float32)})

    assert compare_models(power(1.0), power(1.0)).equal is True
    assert compare_models(power(1.0), power(1.5)).equal is False


def test_infinities_and_nan_have_to_be_in_the_same_places() -> None:
    clipped = model(
        [helper.make_node("Log", ["x"], ["l"]), helper.make_node("Max", ["l", "c"], ["y"])],
        [value("x")],
        [value("y")],
        {"c": np.array([-1e30], np.float32)},
    )
    assert compare_models(unary("Log"), unary("Log", "Identity")).equal is True
    report = compare_models(unary("Log"), clipped)
    assert report.equal is False
    assert "in being finite" in report.mismatch


def test_the_changed_type_of_an_output_is_a_mismatch() -> None:
    cast = model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)], [value("x")], [value("y", TensorProto.DOUBLE)])
    assert "outputs of the model changed from (y: tensor(float)) to (y: tensor(double))" in compare_models(unary("Identity"), cast).mismatch


def test_a_renamed_input_is_a_mismatch() -> None:
    renamed = model([helper.make_node("Identity", ["z"], ["y"])], [value("z")], [value("y")])
    assert "inputs of the model changed" in compare_models(unary("Identity"), renamed).mismatch


@pytest.mark.parametrize("vocabulary", [3, 60])
@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
def test_indices_stay_in_the_range_of_the_table(vocabulary: int, kind: int) -> None:
    report = compare_models(embedding(vocabulary, index=kind), embedding(vocabulary, index=kind))
    assert report.equal is True
    assert len(report.trials) == 3


def test_indices_reach_far_into_a_table_that_is_large_enough() -> None:
    assert compare_models(embedding(50), embedding(50, shift=1.0)).trials[0].ranges == {"ids": range(-50, 50)}


@pytest.mark.parametrize("kind", ["int16", "int32", "int64", "int8", "float", "float16"])
@pytest.mark.parametrize("shape", ["", "1", "2", "n"])
def test_negative_numbers_are_drawn(kind: str, shape: str) -> None:
    """Of one element, too."""
    right, wrong = (
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({kind}[{shape}] x) => ({kind}[{shape}] y) {{ y = {op} (x) }}')
        for op in ("Abs", "Identity")
    )
    assert compare_models(right, right).equal is True
    assert compare_models(right, wrong).equal is False


@pytest.mark.parametrize("kind", ["bool", "int64"])
def test_some_rows_of_masks_are_empty(kind: str) -> None:
    """A random row of 64 elements is hardly ever empty, but rows of padding are."""
    right, wrong = (
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> g ({kind}[8, 64] mask) => (float[8] y) <float[1] one = {{{least}}}>'
            "{ number = Cast <to = 1> (mask) some = ReduceMax <axes = [1], keepdims = 0> (number) y = Max (some, one) }"
        )
        for least in (0, 1)
    )
    assert compare_models(right, right).equal is True
    assert compare_models(right, wrong).equal is False


def test_sizes_of_one_name_agree_across_inputs_and_expressions() -> None:
    inputs = [value("a", shape=("n", "m")), value("b", shape=("m", "n + 1"))]
    product = model([helper.make_node("MatMul", ["a", "b"], ["y"])], inputs, [value("y", shape=("n", "n + 1"))])
    report = compare_models(product, product)
    assert report.equal is True
    assert [trial.sizes for trial in report.trials] == [{"n": 2, "m": 3}, {"n": 5, "m": 4}, {"n": 1, "m": 1}]


def test_unnamed_dimensions_get_sizes_too() -> None:
    inputs = [value("a", shape=(None, 3)), value("b", shape=(None, 3))]
    added = model([helper.make_node("Add", ["a", "b"], ["y"])], inputs, [value("y", shape=(None, 3))])
    report = compare_models(added, added)
    assert report.equal is True
    assert [dict(trial.sizes) for trial in report.trials] == [{"?0": 2}, {"?0": 5}, {"?0": 1}]


def test_sizes_that_a_model_rejects_are_passed_over() -> None:
    reshape = model(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        [value("x", shape=("n",))],
        [value("y", shape=(None, 8))],
        {"s": np.array([-1, 8])},
    )
    report = compare_models(reshape, reshape)
    assert [trial.sizes["n"] for trial in report.trials] == [8, 16, 32]


def test_large_images_come_in_small_batches() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    weight = np.ones((1, 1, 20, 20), np.float32)
    images = model([node], [value("x", shape=("b", 1, "h", "w"))], [value("y", shape=("b", 1, None, None))], {"w": weight})
    report = compare_models(images, images)
    assert report.equal is True
    assert [tuple(trial.sizes.values()) for trial in report.trials] == [(2, 32, 32), (3, 64, 64), (3, 128, 128)]


def test_sound_is_long() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[320])
    sound = model([node], [value("x", shape=("b", 1, "n"))], [value("y", shape=("b", 1, None))], {"w": np.ones((1, 1, 400), np.float32)})
    report = compare_models(sound, sound)
    assert report.equal is True
    assert [trial.sizes["n"] for trial in report.trials] == [512, 1600]


def test_equal_sizes_are_tried_if_no_small_batch_runs() -> None:
    node = helper.make_node("MatMul", ["x", "x"], ["y"])
    square = model([node], [value("x", shape=("a", "b"))], [value("y", shape=("a", "b"))])
    assert [trial.sizes for trial in compare_models(square, square).trials] == [dict.fromkeys("ab", size) for size in (1, 4, 8)]


def test_a_size_that_is_the_sum_of_two_others() -> None:
    inputs = [value("new", shape=("batch", "n", 2)), value("mask", shape=("batch", "m", 1)), value("past", shape=("batch", "p", 2))]
    nodes = [helper.make_node("Concat", ["past", "new"], ["all"], axis=1), helper.make_node("Concat", ["all", "mask"], ["y"], axis=2)]
    masked = model(nodes, inputs, [value("y", shape=("batch", "m", 3))])
    report = compare_models(masked, masked)
    assert report.equal is True
    assert [tuple(trial.sizes.values()) for trial in report.trials] == [(2, 3, 8, 5), (5, 4, 10, 6), (1, 1, 2, 1)]


def test_a_size_that_is_another_and_one_step() -> None:
    """As the mask of a model of one step with a cache is. Which size is the larger one is unknown."""
    inputs = [value("mask", shape=("batch", "m", 1)), value("past", shape=("batch", "p", 2)), value("new", shape=("batch", 1, 2))]
    nodes = [helper.make_node("Concat", ["past", "new"], ["all"], axis=1), helper.make_node("Concat", ["all", "mask"], ["y"], axis=2)]
    masked = model(nodes, inputs, [value("y", shape=("batch", "m", 3))])
    report = compare_models(masked, masked)
    assert report.equal is True
    assert [tuple(trial.sizes.values()) for trial in report.trials] == [(5, 4, 3), (2, 5, 4), (5, 4, 3)]


def test_inputs_of_unknown_rank() -> None:
    transposed = model([helper.make_node("MatMul", ["x", "x"], ["y"])], [value("x", shape=None)], [value("y", shape=None)])
    report = compare_models(transposed, transposed)
    assert report.equal is True
    assert report.trials[0].rank == 1


@pytest.mark.parametrize("kind", ["string", "bool", "float", "double", "float16", "bfloat16", "int64", "uint8"])
def test_scalars_are_fed_as_scalars(kind: str) -> None:
    text = f'<ir_version: 9, opset_import: ["" : 18]> g ({kind} x) => (int64[k] y) {{ s = Shape(x) n = Neg(s) y = Neg(n) }}'
    scalar = onnx.parser.parse_model(text)
    constant = onnx.parser.parse_model(text.replace("{ s = Shape(x)", "<int64[0] s = {}> {"))
    for given in (scalar, scalar.SerializeToString()):
        report = compare_models(given, constant)
        assert report.equal is True
        assert [trial.rank for trial in report.trials] == [0] * (3 if kind in ("bool", "int64") else 2)


def test_a_scalar_is_never_fed_as_a_vector() -> None:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (int64 x) => (int64[k] y) <int64[3] w = {1, 2, 3}> { y = Tile(w, x) }'
    vector = onnx.parser.parse_model(text)
    report = compare_models(vector, vector)
    assert report.equal is None
    assert "does not run on random inputs" in report.skipped


def test_an_original_that_does_not_load_is_skipped_with_the_reason() -> None:
    unknown = model([helper.make_node("Nonsense", ["x"], ["y"], domain="made.up")], [value("x")], [value("y")])
    report = compare_models(unknown, unknown)
    assert report.equal is None
    assert "ONNX Runtime does not load the original" in report.skipped


def test_an_original_that_never_runs_is_skipped_with_the_reason() -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    broken = model([node], [value("x", shape=("n",)), value("s", TensorProto.INT64, (5,))], [value("y", shape=None)])
    report = compare_models(broken, broken)
    assert report.equal is None
    assert "does not run on random inputs" in report.skipped


def test_a_result_that_does_not_load_or_run_is_a_mismatch() -> None:
    unknown = model([helper.make_node("Nonsense", ["x"], ["y"], domain="made.up")], [value("x")], [value("y")])
    assert "loads the original, but not the result" in compare_models(unary("Identity"), unknown).mismatch
    reshape = model([helper.make_node("Reshape", ["x", "s"], ["y"])], [value("x")], [value("y")], {"s": np.array([3, -1])})
    assert "but the result does not" in compare_models(unary("Identity"), reshape).mismatch


def random_and(factor: float, *, before: int) -> ModelProto:
    """Random numbers and a product; nodes before the random one change the numbers that ONNX Runtime draws."""
    nodes = [helper.make_node("Abs", ["x"], [f"unused{i}"]) for i in range(before)]
    nodes += [helper.make_node("RandomNormalLike", ["x"], ["r"]), helper.make_node("Mul", ["x", "c"], ["y"])]
    outputs = [value("r", shape=(50,)), value("y", shape=(50,))]
    return model(nodes, [value("x", shape=(50,))], outputs, {"c": np.array(factor, np.float32)})


def test_random_outputs_are_compared_if_both_models_draw_the_same() -> None:
    report = compare_models(random_and(1.0, before=0), random_and(1.0, before=3))
    assert report.equal is True
    assert [output.compared for output in report.outputs] == [2, 2]
    assert compare_models(random_and(1.0, before=0), random_and(1.5, before=0)).equal is False


def test_a_model_that_magnifies_rounding_is_compared_by_how_much_it_does() -> None:
    def magnified(*factors: float, offset: float = 0.0) -> ModelProto:
        nodes = [helper.make_node("Mul", [f"p{i}" if i else "x", f"c{i}"], [f"p{i + 1}"]) for i in range(len(factors))]
        nodes += [helper.make_node("Sin", [f"p{len(factors)}"], ["s"]), helper.make_node("Add", ["s", "offset"], ["y"])]
        constants = {f"c{i}": np.array(factor, np.float32) for i, factor in enumerate(factors)}
        constants["offset"] = np.array(offset, np.float32)
        return model(nodes, [value("x", shape=(64,))], [value("y", shape=(64,))], constants)

    report = compare_models(magnified(30.1, 99.7), magnified(30.1 * 99.7))
    assert report.equal is True
    assert "sensitive to rounding" in report.outputs[0].note
    assert compare_models(magnified(30.1, 99.7), magnified(30.1, 99.7, offset=2e-3)).equal is False
    assert compare_models(magnified(30.1, 99.7), magnified(30.1, 99.8)).equal is False


@pytest.mark.parametrize("opset", [9, 10, 13, 21, 22, 23])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_noise_is_drawn_in_every_opset(kind: int, opset: int) -> None:
    """ONNX Runtime has random operators up to opset 21 only, and compares floating-point numbers since 11. Without noise, the comparison is
    less strict."""
    right, wrong, same = unary("Sigmoid", "Tanh", kind=kind), unary("Sigmoid", kind=kind), unary("Sigmoid", "Tanh", "Identity", kind=kind)
    for each in (right, wrong, same):
        each.opset_import[0].version = opset
    assert compare_models(right, wrong).equal is False
    assert compare_models(right, same).equal is True


def test_rounding_inside_is_that_of_the_types_inside() -> None:
    def narrow(factor: float, kind: int) -> ModelProto:
        nodes = [
            helper.make_node("Cast", ["x"], ["a"], to=kind),
            helper.make_node("Cast", ["c"], ["d"], to=kind),
            helper.make_node("Mul", ["a", "d"], ["b"]),
            helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
        ]
        return model(nodes, [value("x")], [value("y")], {"c": np.array(factor, np.float32)})

    assert compare_models(narrow(1.1, TensorProto.FLOAT), narrow(1.101, TensorProto.FLOAT)).equal is False
    assert compare_models(narrow(1.1, TensorProto.FLOAT16), narrow(1.101, TensorProto.FLOAT16)).equal is True
    assert compare_models(narrow(1.1, TensorProto.FLOAT16), narrow(1.12, TensorProto.FLOAT16)).equal is False


def test_sequences_are_compared_part_by_part() -> None:
    def pair(*ops: str) -> ModelProto:
        nodes = [helper.make_node(op, ["x"], [f"v{i}"]) for i, op in enumerate(ops)]
        nodes.append(helper.make_node("SequenceConstruct", [f"v{i}" for i in range(len(ops))], ["y"]))
        kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
        return model(nodes, [value("x")], [helper.make_value_info("y", kind)])

    assert compare_models(pair("Neg", "Abs"), pair("Neg", "Abs")).equal is True
    assert "at [1]" in compare_models(pair("Neg", "Abs"), pair("Neg", "Neg")).mismatch
    assert "has 4 parts where 3 are expected" in compare_models(pair("Neg", "Abs"), pair("Neg", "Abs", "Abs")).mismatch


def test_sequence_inputs() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"]))
    node = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    joined = model([node], [helper.make_value_info("s", kind)], [value("y", shape=(None,))])
    assert compare_models(joined, joined).equal is True


def test_models_in_files_and_as_bytes(tmp_path: Path) -> None:
    onnx.save(unary("Neg"), tmp_path / "a.onnx")
    onnx.save(scaled(-1.0), tmp_path / "b.onnx", save_as_external_data=True, size_threshold=0, location="b.data")
    assert compare_models(tmp_path / "a.onnx", str(tmp_path / "b.onnx")).equal is True
    assert compare_models(
        unary("Neg").SerializeToString(), onnx.load(tmp_path / "b.onnx", load_external_data=False), folder=str(tmp_path)
    ).equal


def test_each_trial_is_one_run_if_the_model_runs_on_wide_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0

    def run(self: Runner, feed: Mapping[str, object]) -> list[object]:
        nonlocal runs
        runs += 1
        return plain(self, feed)

    plain = Runner.run
    monkeypatch.setattr(Runner, "run", run)
    ids = onnx.parser.parse_model(HEAD + "(int64[n] i, int64[n] j) => (int64[n] y) { y = Add(i, j) }")
    trials = Reference(ids).trials
    assert [dict(trial.ranges) for trial in trials] == [
        {"i": range(-50, 50), "j": range(-50, 50)},
        {},
        {"i": range(-50, 50), "j": range(-50, 50)},
    ]
    assert runs == len(trials)


def test_the_file_of_a_model_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def note(path: str) -> ModelProto:
        read.append(path)
        return plain(path)

    plain = files.read_model
    monkeypatch.setattr(files, "read_model", note)
    source = tmp_path / "sine.onnx"
    magnified = "(float[n] x) => (float[n] y) <float many = {12345.6}> { p = Mul(x, many) q = Mul(p, many) r = Sin(q) y = Identity(r) }"
    onnx.save(onnx.parser.parse_model(HEAD + magnified), source)
    assert optimize(source).report.verification is not None
    assert read == [str(source)]


def test_a_model_without_inputs_is_run_once() -> None:
    constant = model([helper.make_node("Neg", ["c"], ["y"])], [], [value("y", shape=(2,))], {"c": np.ones(2, np.float32)})
    report = compare_models(constant, constant)
    assert report.equal is True
    assert len(report.trials) == 1


def test_initializers_that_are_inputs_too_are_not_fed() -> None:
    base = scaled(2.0)
    base.graph.input.append(value("c", shape=()))
    base.ir_version = 3
    assert [spec.name for spec in Runner(base).inputs] == ["x"]
    assert compare_models(base, scaled(2.0)).equal is True


def test_without_onnx_runtime_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(VerifyError, match=r"pip install 'passat\[onnx\]'"):
        compare_models(unary("Neg"), unary("Neg"))


def check_excluded(result: Result, operators: list[str], warning: str) -> None:
    """The result has these operators, is equal to the original, and the warning says which rules it is optimized without."""
    assert [node.op_type for node in result.model.graph.node] == operators
    assert result.report.verification is not None
    assert result.report.verification.equal
    assert result.report.warnings == [warning]


def test_rules_that_change_nonfinite_values_are_excluded_on_a_difference() -> None:
    nodes = [
        *(helper.make_node("Div", [name, "z"], [f"{name}_z"]) for name in "xy"),
        helper.make_node("Add", ["x_z", "y_z"], ["s"]),
        helper.make_node("Neg", ["s"], ["n"]),
        helper.make_node("Neg", ["n"], ["o"]),
    ]
    feed = {name: np.zeros((1, 4), np.float32) if name == "z" else np.array([[1, -1, 1, -1]], np.float32) for name in "xyz"}
    feed["y"] = -2 * feed["x"]
    result = optimize(model(nodes, [value(name) for name in "xyz"], [value("o")]), inputs=feed)
    check_excluded(
        result,
        ["Div", "Div", "Add"],
        "the comparison found other values, which Factoring.quotients may cause where values are infinite or NaN: the result is optimized "
        "without",
    )


def test_a_wrong_rule_of_the_user_is_accused_before_rules_that_change_nonfinite_values() -> None:
    """The rule matches only where the products have become one."""
    x, w = tensor("x"), constant("w")

    class WrongTanh(RuleSet):
        """A wrong rule."""

        wrong = (op.tanh(x @ w) >> op.tanh(x)).inexact("wrong")

    adapter = onnx.parser.parse_model(
        f"{HEAD}(float[n,4] x) => (float[n,4] y) {{ a = MatMul(x, v) b = MatMul(x, w) s = Add(a, b) y = Tanh(s) }}"
    )
    for name in "vw":
        weight = np.random.default_rng(ord(name)).normal(size=(4, 4)).astype(np.float32)
        adapter.graph.initializer.append(numpy_helper.from_array(weight, name))
    with pytest.raises(MismatchError, match="the difference comes from the pass WrongTanh"):
        optimize(adapter, rules=[WrongTanh])


def test_inexact_rules_of_the_library_are_excluded_on_a_difference() -> None:
    """ONNX Runtime's Where returns 0.0 for -0.0, so that the reciprocals differ."""
    infinite = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y, float[n] z) <float h = {0.5}>'
        "{ c = Less (x, h) w = Where (c, x, x) y = Reciprocal (w) r = Relu (x) z = Relu (r) }"
    )
    result = optimize(infinite)
    check_excluded(
        result,
        ["Less", "Where", "Reciprocal", "Relu"],
        "the comparison found other values, which Arithmetic.rectified_zeros and Arithmetic.where_same "
        "may cause by rounding or the sign of 0: the result is optimized without",
    )


def test_inexact_rules_of_the_library_are_excluded_if_only_cancellation_remains() -> None:
    """All that is left of x is its rounding in the sum, so that the noise of the comparison changes the result completely."""
    canceled = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4, 8] x) => (float[4, 8] y) <float b = {1e6}, float c = {999999}>'
        "{ s = Add (x, b) d = Sub (s, c) r = Relu (d) y = Relu (r) }"
    )
    result = optimize(canceled)
    check_excluded(
        result,
        ["Add", "Sub", "Relu"],
        "the comparison found an output that rounding alone changes, which Arithmetic.rectified_zeros, ConstantFolding.call and "
        "Constants.sum may change as well: the result is optimized without",
    )


CHAOTIC = onnx.parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 2, 8, 8] x) => (float[1, 2, 8, 8] y, float[1, 2, 8, 8] s)
    <float[2, 2, 1, 1] w = {0.3, 0.7, 0.1, -0.9}, float[2] b = {0.1, 0.3}, float[2] v = {0.7, 1.3}, float big = {1e8}> {
        c = Conv(x, w)  y = BatchNormalization(c, b, b, b, v)  m = Mul(y, big)  s = Sin(m)
    }"""
)
"""ONNX Runtime merges the normalization into the convolution, which rounds differently."""


@pytest.mark.parametrize(
    ("absolute", "wrong", "found"), [(1.0, ["s"], True), (100.0, ["s"], False), (1.0, ["y", "s"], False), (1.0, [], False)]
)
def test_a_model_that_differs_from_itself(absolute: float, wrong: list[str], found: bool) -> None:
    outputs = [OutputReport(name, "tensor(float)", absolute, reason="differs" if name in wrong else "") for name in ("y", "s")]
    reference = Reference(CHAOTIC)
    assert reference.differs_from_itself(VerifyReport(False, tuple(outputs), tuple(reference.trials))) is found


def test_a_report_of_a_difference_has_the_inputs_up_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the question whether the original differs from itself: differences on other inputs say nothing about these."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { %s }'
    doubled, wrong = (onnx.parser.parse_model(text % nodes) for nodes in ("y = Add(x, x)", "t = Neg(x) y = Add(t, x)"))
    reference = Reference(doubled)
    assert len(reference.check(doubled).trials) == len(reference.trials) == 3
    report = reference.check(wrong)
    assert report.trials == (reference.trials[0],)
    runs = list[Mapping[str, npt.NDArray[np.float32]]]()
    run = ComparedSession.run

    def counted(self: ComparedSession, feed: Mapping[str, npt.NDArray[np.float32]]) -> list[npt.NDArray[np.float32]]:
        runs.append(feed)
        return run(self, feed)

    monkeypatch.setattr(ComparedSession, "run", counted)
    assert not reference.differs_from_itself(report)
    assert [len(feed["x"]) for feed in runs] == [2]


def test_the_result_is_exact_if_the_original_differs_from_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    check, references = Reference.check, list[Reference]()

    def first_wrong(self: Reference, candidate: ModelProto) -> VerifyReport:
        references.append(self)
        report = check(self, candidate)
        if len(references) > 1:
            return report
        return replace(report, equal=False, outputs=tuple([replace(output, reason="differs") for output in report.outputs]))

    monkeypatch.setattr(Reference, "check", first_wrong)
    monkeypatch.setattr(Reference, "differs_from_itself", lambda self, report: True)
    result = optimize(
        onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { t = Neg(x) y = Neg(t) }')
    )
    said = "the comparison found other values, but rounding decides them, since the original differs from itself as much when ONNX Runtime "
    assert result.report.warnings == [said + "optimizes it: the result is optimized with rules.math=exact"]
    assert result.report.verification is not None
    assert result.report.verification.equal
    assert references[0] is references[1]


def test_numbers_of_maps_are_compared_in_their_element_type() -> None:
    def zipped(*ops: str) -> ModelProto:
        nodes = [helper.make_node(op, [f"v{i}" if i else "x", "c"], [f"v{i + 1}"]) for i, op in enumerate(ops)]
        nodes.append(helper.make_node("ZipMap", [f"v{len(ops)}"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]))
        held = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        result = ValueInfoProto(name="y", type=helper.make_sequence_type_proto(held))
        made = model(nodes, [value("x", shape=("n", 3))], [result], {"c": np.array(3, np.float32)})
        made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
        return made

    assert compare_models(zipped("Mul", "Div"), zipped("Div", "Mul")).equal is True
    assert compare_models(zipped("Mul", "Mul"), zipped("Mul")).equal is False


SIGNALING = [0x7F800001, 0xFF800002, 0x3F800000]
"""The bits of two signaling NaN and of 1 in float32: converting the former to float64 is an invalid operation, of which NumPy warns."""


@pytest.mark.parametrize("operator", ["Neg", "Relu", "Identity", "Floor"])
def test_signaling_nan_are_nan_like_others(operator: str) -> None:
    model = onnx.parser.parse_model(
        f"{HEAD}(float[3] x) => (float[3] y, float[3] z) {{ c = Identity(d) y = Add(x, c) e = Abs(y) z = {operator}(c) }}"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(SIGNALING, np.uint32).view(np.float32), "d"))
    result = optimize(model)
    assert result.report.verification is not None
    assert result.report.verification.equal is True


def test_reciprocals_of_zero_and_signaling_nan_are_not_taken() -> None:
    model = onnx.parser.parse_model(f"{HEAD}(float[3] x) => (float[3] y) {{ a = Abs(x) y = Div(a, c) }}")
    for bits in (SIGNALING, [0, 0, 0x3F800000]):
        del model.graph.initializer[:]
        model.graph.initializer.append(numpy_helper.from_array(np.array(bits, np.uint32).view(np.float32), "c"))
        result = optimize(model, opt_level=3, config={"rules.math": "finite"})
        assert [node.op_type for node in result.model.graph.node] == ["Abs", "Div"]


def test_rules_compute_with_signaling_nan() -> None:
    """Without a warning."""
    x, c = tensor("x"), constant("c")

    @guard
    def is_large(c: Term) -> bool | str:
        return bool(c.value().numpy().astype(np.float64).max() > 1e30) or "small"

    class Finite(RuleSet):
        """A rule whose guard computes with constants."""

        large = (op.nn.relu(x + c) >> x).when(is_large(c))

    model = onnx.parser.parse_model(f"{HEAD}(float[3] x) => (float[3] y) {{ a = Add(x, c) y = Relu(a) }}")
    model.graph.initializer.append(numpy_helper.from_array(np.array(SIGNALING, np.uint32).view(np.float32), "c"))
    assert optimize(model, rules=[Finite]).report.node_count_after == 2


def repeated(size: str) -> ModelProto:
    """A model that repeats zeros of two by three, whose sizes are computed."""
    return onnx.parser.parse_model(
        f"""{HEAD}(int64 n) => (float[n, a, b] y) <float zero = {{0}}> {{
            last, y = Loop(n, , zero)<body = b (int64 i, bool c, float s) => (bool d, float t, float[p, q] z) {{
                two = Constant<value_ints = [2, {size}]>()
                none = Constant<value_ints = [0, 0]>()
                sizes = Add(two, none)
                d = Identity(c)
                t = Identity(s)
                z = ConstantOfShape(sizes)
            }}>
        }}"""
    )


def test_sizes_that_only_the_result_knows_are_those_of_a_loop_without_iterations() -> None:
    """ONNX Runtime returns the shape [0, 0, 0] for the original, whose sizes it does not infer."""
    original = repeated("3")
    result = optimize(original, inputs={"n": np.array(0)})
    assert "Add" not in str(result.model)
    assert Runner(original).run({"n": np.array(0)})[0].shape == (0, 0, 0)
    assert Runner(result.model).run({"n": np.array(0)})[0].shape == (0, 2, 3)
    assert result.report.verification is not None
    assert result.report.verification.equal
    report = compare_models(original, optimize(repeated("4"), verify=False).model)
    assert report.equal is False
    assert "has shape" in report.mismatch
