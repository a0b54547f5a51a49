"""`passat.profile` and `passat profile`: whether a model is faster than another by more than noise. No test asserts a time."""

import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from typer.testing import CliRunner

import passat
from passat.choose import NothingToTimeError
from passat.cli.app import app
from passat.ir.argument_checks import ArgumentError
from passat.ir.onnx import save
from passat.profiling import ModelProfile, OperatorTime, Ratio
from passat.runner import Runner

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
BRIEFLY = 0.1
"""Seconds of measurement."""


def parsed(body: str, *, signature: str = "(float[n, 4] x) => (float[n, 4] y)") -> ModelProto:
    model: ModelProto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g {signature} {{ {body} }}')
    return model


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["profile", "--seconds", str(BRIEFLY), *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def made(ratio: Ratio, control: Ratio) -> ModelProfile:
    return ModelProfile("a", "b", 2, 1, {}, 1, 9, 1e-3, ratio.median * 1e-3, ratio, control, [OperatorTime("Neg", 2, 1e-3, 1, 5e-4)])


@pytest.mark.parametrize(
    ("ratio", "control", "verdict"),
    [
        (Ratio(0.9, 0.88, 0.93), Ratio(1.0, 0.98, 1.02), "faster"),
        (Ratio(0.9, 0.88, 0.93), Ratio(0.95, 0.92, 1.02), "no different"),
        (Ratio(0.99, 0.97, 1.01), Ratio(1.0, 0.99, 1.01), "no different"),
        (Ratio(1.1, 1.05, 1.2), Ratio(1.0, 0.98, 1.02), "slower"),
        (Ratio(1.01, 1.005, 1.02), Ratio(1.0, 0.98, 1.02), "no different"),
        (Ratio(1.1, 1.05, 1.2), Ratio(1.04, 1.01, 1.06), "no different"),
    ],
)
def test_only_what_is_beyond_noise_is_a_difference(ratio: Ratio, control: Ratio, verdict: str) -> None:
    assert made(ratio, control).verdict == verdict


def test_sessions_are_released_before_others_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has the weights of its model, which may be gigabytes."""
    alive: list[weakref.ref[Runner]] = []
    most = {True: 0, False: 0}

    class Counted(Runner):
        def __init__(self, *arguments: Any, apart: bool = False, **keywords: Any) -> None:
            super().__init__(*arguments, apart=apart, **keywords)
            self.apart = apart
            alive.append(weakref.ref(self))
            there = [each for one in alive if (each := one()) is not None]
            assert len({each.apart for each in there}) == 1  # type: ignore[attr-defined]  # its own
            most[apart] = max(most[apart], len(there))

    monkeypatch.setattr("passat.profiling.Runner", Counted)
    passat.profile(parsed("y = Neg(x)"), parsed("y = Abs(x)"), seconds=BRIEFLY)
    assert most == {True: 1, False: 3}


def test_the_verdict_in_one_line() -> None:
    assert (
        str(made(Ratio(0.5, 0.45, 0.6), Ratio(1.0, 0.98, 1.02)))
        == """\
b is faster: 0.500 (0.450 to 0.600) of the time; the first model against itself 1.000 (0.980 to
1.020)

model  nodes    time
a          2    1 ms
b          1  500 us
medians of 9 rounds on 1 thread

operator  before        after
Neg         1 ms  2 x  500 us  1 x  -500 us
operators: means of separate runs with the profiler of ONNX Runtime"""
    )


def test_times_do_not_contradict_the_ratio() -> None:
    model = parsed("y = Neg(x)")
    found = passat.profile(model, model, seconds=BRIEFLY)
    assert found.seconds_after == pytest.approx(found.seconds_before * found.ratio.median)


def test_models_of_the_same_name_are_distinguished() -> None:
    found = made(Ratio(0.9, 0.88, 0.92), Ratio(1.0, 0.99, 1.01))
    found.after = found.before
    assert str(found).startswith("the second model is faster: ")


def test_measured_times() -> None:
    before = parsed("a = Neg(x) b = Exp(a) c = Sin(b) y = Cos(c)")
    found = passat.profile(before, parsed("y = Neg(x)"), dims={"n": 300}, seconds=BRIEFLY)
    assert (found.nodes_before, found.nodes_after, found.sizes) == (4, 1, {"n": 300})
    assert found.rounds >= 63
    assert found.ratio.low <= found.ratio.median <= found.ratio.high
    calls = {each.operator: (each.calls_before, each.calls_after) for each in found.operators}
    assert calls == {name: (1, float(name == "Neg")) for name in ("Neg", "Exp", "Sin", "Cos")}
    assert all((each.seconds_before > 0) == (each.calls_before > 0) for each in found.operators)


def test_inputs_of_ones_own() -> None:
    model = parsed("y = Neg(x)")
    found = passat.profile(model, model, inputs={"x": np.ones((7, 4), np.float32)}, seconds=BRIEFLY)
    assert found.sizes == {"n": 7}


def test_the_command_and_its_json(tmp_path: Path) -> None:
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    save(parsed("a = Neg(x) y = Exp(a)"), before)
    save(parsed("y = Exp(x)"), after)
    data = json.loads(run(before, after, "--dim", "n=5", "--json"))
    assert data["sizes"] == {"n": 5}
    assert data["verdict"] in ("faster", "slower", "no different")
    text = run(before, "--dim", "n=5", "--passes", "FoldConstant")
    assert "the optimized model is " in text
    assert "on 1 thread, n=5\n" in text


def test_unmeasurable_models(tmp_path: Path) -> None:
    model = parsed("y = Neg(x)")
    path = tmp_path / "model.onnx"
    save(model, path)
    assert "the model has no input with a dimension named 'm'; its named dimensions are n" in run(path, path, "--dim", "m=2", code=2)
    assert "the dimension n has size 0, so there is nothing to measure" in run(path, path, "--dim", "n=0", code=2)
    assert "--dim takes NAME=SIZE with a whole number, such as batch=1, not 'n'" in run(path, path, "--dim", "n", code=2)
    assert "options of the passes do not apply if a RESULT is given" in run(path, path, "-O", "2", code=2)
    with pytest.raises(ArgumentError, match="threads must be an integer from 1 to"):
        passat.profile(model, model, threads=0)
    other = parsed("y = Neg(z)", signature="(float[n, 4] z) => (float[n, 4] y)")
    with pytest.raises(NothingToTimeError, match="does not run on the inputs of the other model"):
        passat.profile(model, other, seconds=BRIEFLY)
    broken = ModelProto()
    broken.CopyFrom(model)
    broken.graph.node[0].op_type = "NoSuch"
    onnx.save(broken, path)
    assert f"error: {path} is not loaded by ONNX Runtime: " in run(path, path, code=1)


def test_a_model_that_does_not_run_is_named(tmp_path: Path) -> None:
    model = parsed("shape = Constant<value_ints = [7, 4]>() y = Reshape(x, shape)")
    path = tmp_path / "model.onnx"
    save(model, path)
    for arguments in ((path,), (path, path)):
        assert f"error: {path} does not run on random inputs: " in run(*arguments, code=1)
    assert f"error: {path}: the model has no input with a dimension named 'm'" in run(path, path, "--dim", "m=2", code=2)


def test_ones_own_inputs_compare_the_result_with_the_model(tmp_path: Path) -> None:
    path, inputs = tmp_path / "model.onnx", tmp_path / "inputs.npz"
    body = "shape = Constant<value_ints = [7, 4]>() a = Reshape(x, shape) b = Neg(a) y = Neg(b)"
    save(parsed(body, signature="(float[n, 4] x) => (float[7, 4] y)"), path)
    np.savez(inputs, x=np.ones((7, 4), np.float32))
    assert "of the time" in run(path, "--inputs", inputs)
