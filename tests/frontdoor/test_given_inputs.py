"""`--inputs FILE.npz`: the user's own inputs are checked, and models are compared on them and on random ones."""

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import ModelProto, parser
from typer.testing import CliRunner

import passat
from passat import MismatchError
from passat.cli.app import app
from passat.given_inputs import GivenInputs, InputsError, read_inputs, write_inputs
from passat.rules import RuleSet, op, rule_pass, tensors
from tests.comparing import compare_models

x = tensors("x")[0]
F = np.float32


class BelowHundred(RuleSet):
    """Correct on small numbers, such as random inputs, and wrong on others."""

    clipped = op.negative(op.negative(op.clip(x, a_min=-100.0, a_max=100.0))) >> x


def parsed(text: str) -> ModelProto:
    model: ModelProto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {text}')
    return model


SUM = parsed("""(float[n, 3] a, float[k, 3] b, int64[2] c) => (float[m, 3] y) {
    s = Concat <axis = 0>(a, b) t = Cast <to = 1>(c) u = ReduceSum(t) y = Add(s, u)
}""")
SUM.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n + 1"
GOOD = {"a": np.ones((2, 3), F), "b": np.ones((3, 3), F), "c": np.array([1, 2])}


def test_they_are_the_first_trial() -> None:
    found = compare_models(SUM, SUM, inputs=GOOD)
    assert found.equal is True
    assert [(trial.source, trial.sizes) for trial in found.trials] == [
        ("the inputs given", {"n": 2}),
        ("", {"n": 2}),
        ("", {"n": 5}),
        ("", {"n": 1}),
    ]


HALVES = parsed(
    "(float[n] a, float[h] b) => (float[h] y) <int64[1] s = {1}, int64[1] e = {99}, int64[1] t = {2}> { u = Slice(a, s, e, , t) y = Add(u, b) }"
)
for _value in (HALVES.graph.input[1], HALVES.graph.output[0]):
    _value.type.tensor_type.shape.dim[0].dim_param = "n//2"


LONG = parsed("(float[n] a) => (float[n] y) { y = Neg(a) }")
LONG.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "a" * 10_000


def test_sizes_that_follow_from_others_are_not_drawn() -> None:
    """`n//2` was a name with a size of its own, and results of right passes were rejected."""
    found = compare_models(HALVES, HALVES)
    assert found.equal is True
    assert [trial.sizes for trial in found.trials] == [{"n": 2}, {"n": 5}, {"n": 4}]
    assert compare_models(HALVES, HALVES, inputs={"a": np.ones(5, F), "b": np.ones(2, F)}).equal is True
    with pytest.raises(InputsError, match="the input 'b' has size 3 where n//2 is 2"):
        compare_models(HALVES, HALVES, inputs={"a": np.ones(5, F), "b": np.ones(3, F)})


def declared(*dims: str) -> ModelProto:
    """A model with inputs of these sizes, and a result for each."""
    names = [f"x{i}" for i in range(len(dims))]
    sides = [", ".join(f"float[d] {name}" for name in each) for each in (names, [f"y{i}" for i in range(len(dims))])]
    model = parsed(f"({sides[0]}) => ({sides[1]}) {{ {' '.join(f'y{i} = Neg({name})' for i, name in enumerate(names))} }}")
    for i, dim in enumerate(dims):
        for value in (model.graph.input[i], model.graph.output[i]):
            value.type.tensor_type.shape.dim[0].dim_param = dim
    return model


def test_inputs_of_computed_sizes_are_not_empty() -> None:
    """Models were compared on empty inputs only, on which any results are equal."""
    for dim, sizes in (("n//100", [128, 224, 512]), ("max(0, n - 4)", [5, 8, 16])):
        model = declared(dim)
        assert [trial.sizes for trial in compare_models(model, model).trials] == [{"n": size} for size in sizes]


def test_computed_sizes_that_do_not_hold_are_drawn_like_names() -> None:
    """Such a model did not run on any random inputs."""
    model = declared("n - 2000")
    assert [trial.sizes for trial in compare_models(model, model).trials] == [{"?n - 2000": size} for size in (2, 5, 1)]


@pytest.mark.parametrize("name", ["-3", "99999999999*99999999999"])
def test_a_number_that_no_size_has_is_a_name(name: str) -> None:
    """With a negative one the process ended in ONNX's inference of a Slice of it, with one beyond 64 bits in a MemoryError."""
    model = parsed(
        "(float[n] x) => (float[k] y) <int64[1] s = {0}, int64[1] e = {4}> { z = Slice(x, s, e, s) y = Concat <axis = 0>(x, z) }"
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
    assert passat.optimize(model).report.node_count_after == 2
    assert compare_models(model, model).trials[0].sizes == {name: 2}


def test_long_names_of_sizes_are_shortened() -> None:
    trial = compare_models(LONG, LONG).trials[0]
    assert str(trial).startswith("seed 0, aaaa")
    assert len(str(trial)) < 150


def test_differences_on_user_inputs_alone_are_found(tmp_path: Path) -> None:
    clip = parsed("(float[n] x) => (float[n] y) <float low = {-100}, float high = {100}> { c = Clip(x, low, high) d = Neg(c) y = Neg(d) }")
    passes = [rule_pass(BelowHundred, opt_level=0)]
    assert passat.optimize(clip, passes=passes).report.node_count_after == 1, "an Identity"
    np.savez(tmp_path / "large.npz", x=np.array([1, 1000], F))
    with pytest.raises(MismatchError, match=r"1000?.* \(the inputs in .*large\.npz\); the difference comes from the pass BelowHundred"):
        passat.optimize(clip, passes=passes, inputs=tmp_path / "large.npz")
    with pytest.raises(MismatchError, match="the inputs given"):
        passat.optimize(clip, passes=passes, inputs={"x": np.array([1, 1000], F)})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """This includes names that are parameters of `numpy.savez`, strings that it would pickle, and bfloat16, which has no name in the
    file."""
    arrays = {"file": np.ones(2, F), "a/b": np.array(["one", "zwölf"], object), "h": np.ones(3, ml_dtypes.bfloat16)}
    write_inputs(GivenInputs("", arrays), tmp_path / "inputs.npz")
    read = read_inputs(tmp_path / "inputs.npz").arrays
    assert {name: array.dtype.kind for name, array in read.items()} == {"file": "f", "a/b": "U", "h": "V"}
    assert read["a/b"].tolist() == ["one", "zwölf"]
    assert read["h"].tobytes() == arrays["h"].tobytes()


def test_a_model_that_runs_on_them_alone_is_compared() -> None:
    """No random number is larger than two hundred."""
    model = parsed("(float[n] x, int64[1] i) => (float[k] y) <int64[1] most = {200}> { s = Sub(i, most) y = Expand(x, s) }")
    alone = compare_models(model, model)
    assert alone.equal is None
    assert "does not run on random inputs" in alone.skipped
    assert "--inputs FILE.npz" in alone.skipped
    found = compare_models(model, model, inputs={"x": np.ones(1, F), "i": np.array([204])})
    assert found.equal is True
    assert [trial.source for trial in found.trials] == ["the inputs given"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"c": None}, "'c', which are missing; the model takes 'a', 'b', 'c'"),
        ({"d": np.ones(3, F)}, "'d', which the model does not take; the model takes 'a', 'b', 'c'"),
        ({"a": np.ones((2, 3))}, "the input 'a' has element type float64, the model takes float32"),
        ({"c": np.array([1, 2], np.int32)}, "the input 'c' has element type int32, the model takes int64"),
        ({"a": np.ones((2, 4), F)}, "the input 'a' has shape [2, 4], the model takes [n, 3]"),
        ({"a": np.ones(3, F)}, "the input 'a' has shape [3], the model takes [n, 3]"),
        ({"c": np.array([1, 2, 3])}, "the input 'c' has shape [3], the model takes [2]"),
        ({"b": np.ones((4, 3), F)}, "the input 'b' has size 4 where n + 1 is 3"),
    ],
)
def test_they_have_to_be_such_as_the_model_takes(changed: dict[str, Any], said: str) -> None:
    given = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    with pytest.raises(InputsError) as caught:
        compare_models(SUM, SUM, inputs=given)
    assert str(caught.value) == f"the inputs given: {said}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"z": np.ones(2, F)}, "'z', which the model does not take; the model takes 'x', 's'"),
        ({"x": np.ones(2)}, "'s', which are missing; the model takes 'x', 's'"),
        ({"x": np.ones(2), "s": np.array(1, F)}, "the input 'x' has element type float64, the model takes float32"),
        ({"x": np.ones((2, 2), F), "s": np.array(1, F)}, "the input 'x' has shape [2, 2], the model takes [n]"),
        ({"x": np.ones(2, F), "s": np.ones(1, F)}, "the input 's' has shape [1], the model takes []"),
    ],
)
def test_they_are_checked_before_the_model_is_read(given: dict[str, Any], said: str) -> None:
    """So they are checked even if no pass changes anything."""
    model = parsed("(float[n] x, float s) => (float[n] y) <float w = {1}> { y = Add(x, s) }")
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, []))
    told: list[str] = []
    with pytest.raises(InputsError) as caught:
        passat.optimize(model, inputs=given, progress=told.append)
    assert str(caught.value) == f"the inputs given: {said}"
    assert told == ["reading the model"]
    assert passat.optimize(model, inputs={"x": np.ones(2, F), "s": np.array(1, F)}).report.kept


def test_sizes_of_one_name_agree() -> None:
    model = parsed("(float[n] a, float[n] b) => (float[n] y) { y = Add(a, b) }")
    with pytest.raises(InputsError, match="the size n is 2 in one input, and 3 in 'b'"):
        compare_models(model, model, inputs={"a": np.ones(2, F), "b": np.ones(3, F)})


@pytest.mark.parametrize(
    ("kind", "array"),
    [("string", np.array(["a", "bc"])), ("bfloat16", np.array([1, 2]).astype(ml_dtypes.bfloat16)), ("bool", np.array([True, False]))],
)
def test_arrays_of_types_that_npz_stores_differently(kind: str, array: npt.NDArray[np.generic], tmp_path: Path) -> None:
    model = parsed(f"({kind}[n] x) => ({kind}[n] y) {{ y = Identity(x) }}")
    np.savez(tmp_path / "i.npz", x=array)
    found = compare_models(model, model, inputs=tmp_path / "i.npz")
    assert (found.equal, found.trials[0].sizes) == (True, {"n": 2})


def test_inputs_that_the_model_rejects() -> None:
    model = parsed("(float[n] x) => (float[m] y) <int64[2] s = {2, -1}> { y = Reshape(x, s) }")
    with pytest.raises(InputsError, match="the model does not run on the inputs given: "):
        compare_models(model, model, inputs={"x": np.ones(3, F)})


class Evil:
    """Would write a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("evil"),))


@pytest.mark.parametrize("kind", ["missing", "text", "pickle", "objects", "member", "large", "folder", "pipe", "damaged", "huge"])
def test_files_that_hold_no_arrays_are_rejected_and_nothing_in_them_is_executed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "i.npz"
    if kind == "text":
        path.write_text("no archive")
    elif kind == "pickle":
        path.write_bytes(pickle.dumps(Evil()))
    elif kind == "objects":
        np.savez(path, x=np.array([Evil()], object))
    elif kind == "member":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", pickle.dumps(Evil()))
    elif kind == "large":
        np.savez(path, x=np.zeros(1000, F))
        monkeypatch.setattr("passat.given_inputs.MOST_BYTES", 1000)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "damaged":  # inside the compressed bytes
        np.savez_compressed(path, x=np.random.default_rng(1).normal(size=1000))
        path.write_bytes(path.read_bytes().replace(path.read_bytes()[1000:1100], b"\xff" * 100))
    elif kind == "huge":
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }".ljust(117) + b"\n"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 24)
    with pytest.raises(InputsError, match=str(path)):
        read_inputs(path)
    onnx.save(parsed("(float[n] x) => (float[n] y) { a = Neg(x) y = Neg(a) }"), "in.onnx")
    done = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "out.onnx", "--inputs", str(path)])
    assert (done.exit_code, Path("out.onnx").exists(), Path("evil").exists()) == (1, False, False)
    assert "".join(str(path).split()) in "".join(done.output.split())


def test_every_damage_to_a_file_is_rejected(tmp_path: Path) -> None:
    good, path, random = tmp_path / "good.npz", tmp_path / "i.npz", np.random.default_rng(1)
    np.savez_compressed(good, x=np.ones((20, 3), F), i=np.arange(300))
    content, rejected = np.frombuffer(good.read_bytes(), np.uint8), 0
    for _ in range(300):
        changed = content.copy()
        changed[random.integers(len(content), size=3)] = random.integers(256, size=3)
        path.write_bytes(changed.tobytes())
        try:
            read_inputs(path)
        except InputsError:
            rejected += 1
    assert rejected > 200


def test_the_command_reports_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parsed("(float[n] x) => (float[n] y) { a = Neg(x) y = Neg(a) }"), "in.onnx")
    np.savez("i.npz", x=np.ones(4, F))
    done = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "out.onnx", "--inputs", "i.npz", "--rtol", "1e-3"])
    assert done.exit_code == 0, done.output
    assert "the same values, on the inputs in i.npz and 3 random inputs (n=2; n=5; n=1)" in " ".join(done.output.split())
    for option in (["--rtol", "nan"], ["--rtol", "-1"], ["--atol", "inf"], ["--atol", "x"]):
        rejected = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "none.onnx", *option])
        assert (rejected.exit_code, Path("none.onnx").exists()) == (2, False)
        assert option[0].strip("-") in rejected.output
    timed = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "out.onnx", "--inputs", "i.npz", "--choose", "time", "--no-verify"])
    assert timed.exit_code == 0, timed.output


@pytest.mark.parametrize("tolerance", [-1.0, float("nan"), float("inf")])
def test_tolerances_are_numbers_of_at_least_zero(tolerance: float) -> None:
    model = parsed("(float[n] x) => (float[n] y) { y = Neg(x) }")
    with pytest.raises(ValueError, match="must be a finite number, at least 0"):
        compare_models(model, model, rtol=tolerance)


def test_random_inputs_of_a_run_have_the_sizes_that_are_named(tmp_path: Path) -> None:
    model, arrays = tmp_path / "m.onnx", tmp_path / "in.npz"
    onnx.save(parser.parse_model('<ir_version: 9, opset_import: ["" : 20]> g (float[n, m] x) => (float[n, m] y) { y = Neg(x) }'), model)
    np.savez(arrays, x=np.zeros((3, 4), np.float32))

    def run(*options: str) -> str:
        return CliRunner().invoke(app, ["run", str(model), *options]).output

    assert run("--dim", "n=3", "--dim", "m=5") == "y: float32[3, 5]\n"
    assert run("--dim", "n=0") == "y: float32[0, 64]\n"
    assert run("--dim", "n=3", "--inputs", str(arrays)) == "y: float32[3, 4]\n"
    assert run("--dim", "k=3") == f"error: {model}: the model has no input with a dimension named 'k'; its named dimensions are n, m\n"
    assert run("--dim", "n=2", "--inputs", str(arrays)) == f"error: the inputs in {arrays}: the size n is 3, not 2\n"


def test_the_outputs_of_a_run_have_any_names(tmp_path: Path) -> None:
    model, arrays = tmp_path / "m.onnx", tmp_path / "out.npz"
    long = "n" * 70_000
    text = '<ir_version: 9, opset_import: ["" : 20]> g (float[2] x) => (float[2] file, seq(float[2]) s{}) {{ file = Neg(x) s = SequenceConstruct(x) {} }}'
    onnx.save(parser.parse_model(text.format("", "")), model)
    result = CliRunner().invoke(app, ["run", str(model), "-o", str(arrays)])
    assert result.stderr == f"note: {arrays} holds tensors only, not s\n"
    with np.load(arrays) as written:
        assert written.files == ["file"]
    onnx.save(parser.parse_model(text.format(f", float[2] {long}", f"{long} = Exp(x)")), model)
    result = CliRunner().invoke(app, ["run", str(model), "-o", str(arrays)])
    assert (result.exit_code, "is too long for a file of arrays" in result.stderr) == (1, True)
    named = parser.parse_model(text.format("", ""))
    named.graph.node[0].output[0] = named.graph.output[0].name = "file\0"
    onnx.save(named, model)
    result = CliRunner().invoke(app, ["run", str(model), "-o", str(arrays)])
    assert (result.exit_code, "has a null character" in result.stderr) == (1, True)


def test_a_sequence_beside_an_output_of_bfloat16(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    text = "(float[2] x) => (bfloat16[2] y, seq(float[2]) s) { y = Cast<to = 16>(x) s = SequenceConstruct(x) }"
    onnx.save(parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g {text}'), model)
    assert "the output 's' is not a tensor" in CliRunner().invoke(app, ["run", str(model)]).stderr
