"""Arguments of `passat.optimize`: accepted forms of models, rules and passes, and the message for everything else."""

import dataclasses
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import passat
from passat import Result, bisection, certificates, given_inputs, verify
from passat.ir import onnx as ir_onnx
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError
from passat.passmgr import ConfigError, list_passes, parse_pipeline, registry
from passat.rulefile import RuleFileError
from passat.rules import Machine, RuleSet
from passat.settings import Settings

EXAMPLE = Path(__file__).parents[2] / "examples" / "models" / "resnet_tiny.onnx"
RULES = '''
from passat.rules import RuleSet, op, tensor

x = tensor("x")


class Negated(RuleSet):
    """Negations that meet."""

    twice = op.negative(op.negative(x)) >> x
'''
PASSES = '''
from passat.passmgr import function_pass, module_pass, register_pass


@register_pass("CountOfTest")
@function_pass(opt_level=0, name="CountOfTest", required=["InferType"])
def count(func, mod, ctx):
    """Counts."""
    ctx.record("CountOfTest", "functions seen")
    ctx.record("CountOfTest", "seconds", 2.5)
    return func


@register_pass("RemarkOfTest")
@module_pass(opt_level=0, name="RemarkOfTest", required=["CountOfTest"])
def remark(mod, ctx):
    """Remarks."""
    for number in range(25):
        ctx.remark("RemarkOfTest", f"remark {number}")
    return mod
'''


def negations() -> ModelProto:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    nodes = [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Neg", ["t"], ["y"])]
    return helper.make_model(helper.make_graph(nodes, "g", infos[:1], infos[1:]), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


MODEL = negations()


def optimized(model: AnyValue = MODEL, **options: AnyValue) -> Result:
    return passat.optimize(model, **{"verify": False, "passes": "InferType", **options})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    list_passes()  # before it is copied
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))  # other tests list the passes
    Path("rules.py").write_text(RULES)
    Path("passes.py").write_text(PASSES)
    Path("model.onnx").write_bytes(MODEL.SerializeToString())
    return tmp_path


class _OfBytes(os.PathLike[AnyValue]):
    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> bytes:
        return os.fsencode(self._path)


def test_a_path_may_be_of_bytes(folder: Path) -> None:
    result = passat.optimize(_OfBytes("model.onnx"), rules=_OfBytes("rules.py"), verify=False)
    result.save(_OfBytes("out.onnx"))
    assert (result.report.output, Path("out.onnx").exists()) == ("out.onnx", True)
    [one] = passat.optimize_many([_OfBytes("model.onnx")], output=_OfBytes("results"), verify=False)
    assert (one.error, Path("results/model.onnx").exists()) == (None, True)
    with pytest.raises(given_inputs.InputsError, match="cannot be read"):
        passat.optimize("model.onnx", inputs=_OfBytes("none.npz"))


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, io.BytesIO])
def test_a_model_is_taken_as_bytes_and_as_a_file_object(form: Callable[[bytes], AnyValue]) -> None:
    result = optimized(form(MODEL.SerializeToString()))
    assert result.report.source == "a model in memory"
    assert result.report.node_count_before == 2


def test_a_model_is_taken_as_an_open_file(folder: Path) -> None:
    with open("model.onnx", "rb") as file:
        assert optimized(file).report.node_count_before == 2


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            3,
            "a model must be a ModelProto, its path, its bytes, a binary file object that holds it, an onnx_ir.Model or a torch.onnx.ONNXProgram, not int",
        ),
        (None, "not NoneType"),
        ([MODEL], "not list"),
        (b"", "a model in memory is not an ONNX model: it is empty"),
        (b"abc", "a model in memory is not an ONNX model, or is truncated"),
        (io.StringIO("text"), "a file object must be binary, as from open(path, 'rb'); read() of this one returns str"),
        ("a\0b", "cannot be read: the name is not a valid file name"),
        ("/dev/zero", "/dev/zero cannot be read: it is a device, not a file"),
    ],
)
def test_files_that_are_not_models_are_rejected_in_one_sentence(model: AnyValue, said: str) -> None:
    with pytest.raises(OnnxError) as caught:
        optimized(model)
    assert said in str(caught.value)


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("as_text", [False, True])
def test_rules_are_taken_as_the_path_of_a_file(folder: Path, as_list: bool, as_text: bool) -> None:
    path = "rules.py" if as_text else Path("rules.py")
    result = optimized(rules=[path] if as_list else path)
    assert [rule.fired for rule in result.report.rules if rule.name == "Negated.twice"] == [1]


def test_passes_are_taken_as_a_list_of_names(folder: Path) -> None:
    result = optimized(rules="rules.py", passes=["FoldConstant", "Negated"])
    runs = [(run.name, run.depth) for run in result.report.passes]
    assert runs == [("InferType", 0), ("stage 1", 0), ("FoldConstant", 1), ("Negated", 1)]


def test_passes_of_a_rule_file_run_and_their_remarks_are_reported(folder: Path) -> None:
    for _ in range(2):  # the file may be loaded again
        report = optimized(rules="passes.py", passes=["RemarkOfTest"]).report
    text = str(report)
    assert report.warnings == []
    assert "1 functions seen, 2.5 seconds" in text
    assert "RemarkOfTest: remark 19\n... and 5 more remarks, which --json shows\n" in text
    assert "RemarkOfTest: remark 24" in report.remarks


def test_a_file_whose_passes_do_not_run_gives_a_warning(folder: Path) -> None:
    said = "passes.py registers the passes CountOfTest, RemarkOfTest, which do not run: a pipeline has to name them, or all passes of its `after` and `before`"
    assert optimized(rules="passes.py").report.warnings == [said]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"rules.domains": ["no.such"]},
            "config rules.domains names 'no.such', for which no pass creates operators; known domains: com.microsoft",
        ),
        (
            {"rules.domains": ["com.microsoft", "com.mikrosoft"]},
            "config rules.domains names 'com.mikrosoft', for which no pass creates operators; did you mean com.microsoft?",
        ),
    ],
)
def test_values_that_options_cannot_have(folder: Path, config: dict[str, AnyValue], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        optimized(config=config)
    assert str(caught.value) == said


def test_a_rule_file_that_failed_may_be_corrected(folder: Path) -> None:
    Path("passes.py").write_text(PASSES + "\n1 / 0\n")
    with pytest.raises(RuleFileError, match="ZeroDivisionError"):
        optimized(rules="passes.py")
    Path("passes.py").write_text(PASSES)
    assert optimized(rules="passes.py", passes="CountOfTest").report.passes[-1].own


def test_another_file_cannot_take_the_name_of_a_pass(folder: Path) -> None:
    optimized(rules="passes.py")
    Path("others.py").write_text(PASSES)
    with pytest.raises(RuleFileError, match=r"a pass is already registered under the name 'transform\.CountOfTest'"):
        optimized(rules="others.py")


def test_a_file_cannot_take_the_name_of_a_pass_of_passat(folder: Path) -> None:
    Path("others.py").write_text(PASSES.replace("CountOfTest", "FoldConstant"))
    with pytest.raises(RuleFileError, match=r"others.py.*: a pass is already registered under the name 'relay\._transform\.FoldConstant'"):
        optimized(rules="others.py")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"rules": 3}, TypeError, "rules must be RuleSet classes or paths of rule files, in a list, not 3"),
        ({"rules": [3]}, ValueError, "rules must be classes derived from passat.rules.RuleSet, not 3"),
        ({"rules": "/dev/zero"}, RuleFileError, "/dev/zero cannot be read: it is a device, not a file"),
        ({"passes": 3}, TypeError, "passes must be a string, a pass or a list of passes, not 3"),
        ({"rules": {"rules.py"}}, TypeError, "rules must be RuleSet classes or paths of rule files, in a list, not {'rules.py'}"),
        ({"rules": [RuleSet]}, ValueError, "the rule set RuleSet has no rules"),
        ({"rules": RuleSet}, ValueError, "the rule set RuleSet has no rules"),
        ({"passes": RuleSet}, TypeError, "passes must be a string, a pass or a list of passes, not <class"),
        ({"passes": {"FoldConstant"}}, TypeError, "passes must be a string, a pass or a list of passes, not {'FoldConstant'}"),
        ({"passes": iter(["FoldConstant"])}, TypeError, "passes must be a string, a pass or a list of passes, not <list_iterator"),
        ({"passes": [3]}, TypeError, "passes must be a list of Pass objects. 3 is not one"),
        ({"passes": ["FoldConstnt"]}, ValueError, "did you mean FoldConstant"),
        ({"opt_level": 9}, ValueError, "opt_level must be an integer from 0 to 4, not 9"),
        ({"opt_level": -1}, ValueError, "opt_level must be an integer from 0 to 4, not -1"),
        ({"opt_level": "3"}, TypeError, "opt_level must be an integer from 0 to 4, not '3'"),
        ({"opt_level": True}, TypeError, "opt_level must be an integer from 0 to 4, not True"),
        ({"verify": "no"}, TypeError, "verify must be True or False, not 'no'"),
        ({"record": 1}, TypeError, "record must be True or False, not 1"),
        ({"explain": None}, TypeError, "explain must be True or False, not None"),
        ({"certificate": "c.json"}, TypeError, "certificate must be True or False, not 'c.json'"),
        ({"time_limit": "1"}, TypeError, "time_limit must be a number of seconds, not '1'"),
        ({"time_limit": -1}, ValueError, "time_limit must be a number of seconds, at least 0, not -1"),
        ({"rtol": "1e-3"}, TypeError, "rtol must be a finite number, not '1e-3'"),
        ({"atol": -1.0}, ValueError, "atol must be a finite number, at least 0, not -1.0"),
        ({"rtol": float("inf")}, ValueError, "rtol must be a finite number, at least 0, not inf"),
        ({"allow_unverified": 1}, TypeError, "allow_unverified must be True or False, not 1"),
        ({"inputs": [1]}, TypeError, "inputs must be a mapping of names of inputs to arrays, or the path of a file of arrays, not [1]"),
        ({"custom_ops": "lib.so"}, TypeError, "custom_ops must be a list of paths of libraries, not 'lib.so'"),
        ({"custom_ops": iter(())}, TypeError, "custom_ops must be a list of paths of libraries, not <tuple_iterator"),
        ({"dims": {3: 4}}, TypeError, "dims must map names of dimensions to sizes, not {3: 4}"),
        ({"dims": {"n": "x"}}, TypeError, "dims: the size of the dimension 'n' must be an integer from 0 to 2147483647, not 'x'"),
        ({"input_shapes": {"x": [1, "n"]}}, TypeError, "input_shapes: a size of the input 'x' must be an integer from 0 to"),
        ({"seed": np.zeros((2, 2))}, TypeError, "seed must be an integer of at least 0, not array([[0., 0.], [0., 0.]])"),
        ({"seed": int}, TypeError, "seed must be an integer of at least 0, not <class 'int'>"),
        ({"choose": np.zeros(2)}, ValueError, "choose must be 'cost' or 'time', not array([0., 0.])"),
        ({"cost": np.zeros(2)}, AttributeError, "expect config rules.cost to have type one of"),
        ({"instruments": RuleSet}, TypeError, "instruments must be a list of PassInstrument objects, not <class"),
        ({"time_limit": 10**400}, ValueError, "time_limit must be a number of seconds, at least 0, not an int of 401 digits"),
        ({"rtol": 10**400}, ValueError, "rtol must be a finite number, at least 0, not an int of 401 digits"),
        ({"time_limit": float("nan")}, ValueError, "time_limit must be a number of seconds, at least 0, not nan"),
        ({"config": [("rules.rounds", 1)]}, TypeError, "config must be a mapping of options to values"),
        ({"config": {7: 1}}, AttributeError, "the key of a config option must be a string, not 7"),
        (
            {"config": {"rules.disabled": ["Arithmetic.ad_zero"]}},
            AttributeError,
            "names 'Arithmetic.ad_zero', which is neither a rule nor a rule set; did you mean",
        ),
        ({"cost": "x"}, AttributeError, "expect config rules.cost to have type one of 'roofline', 'nodes', 'measured' | CostModel"),
        ({"choose": "luck"}, ValueError, "choose must be 'cost' or 'time', not 'luck'"),
        ({"choose": ["cost"]}, ValueError, "choose must be 'cost' or 'time', not ['cost']"),
        ({"candidates": 2}, ValueError, "candidates=2 applies to choose='time' only; add choose='time', or drop candidates"),
        (
            {"verify": False, "seed": 1},
            ValueError,
            "seed sets how the result is compared with the input, and verify=False disables the comparison",
        ),
        ({"verify": False, "rtol": 0.1}, ValueError, "rtol sets how the result is compared with the input, and verify=False disables"),
        ({"verify": False, "allow_unverified": True}, ValueError, "allow_unverified sets how the result is compared"),
        ({"verify": False, "inputs": {"x": 1}}, ValueError, "inputs sets how the result is compared"),
        (
            {"cost": "nodes", "config": {"rules.cost": "roofline"}},
            ValueError,
            "cost='nodes' and 'roofline' in the option rules.cost contradict",
        ),
        ({"time_limit": 1, "config": {"rules.time_limit": 2}}, ValueError, "time_limit=1 and 2 in the option rules.time_limit contradict"),
        (
            {"model": "m.onnx", "folder": "f"},
            ValueError,
            "folder='f' is for models in memory; the external data of m.onnx lies in the folder",
        ),
        ({"candidates": 0}, ValueError, "candidates must be an integer of at least 1, not 0"),
        ({"candidates": 1.5}, TypeError, "candidates must be an integer of at least 1, not 1.5"),
        ({"opset": "13"}, TypeError, "opset must be an integer of at least 1, not '13'"),
        (
            {"choose": "time", "verify": False, "inputs": "x.npz", "seed": 3},
            ValueError,
            "seed=3 draws random inputs, and inputs gives them all; drop one of the two",
        ),
        ({"seed": -1}, ValueError, "seed must be an integer of at least 0, not -1"),
        ({"seed": 1.5}, TypeError, "seed must be an integer of at least 0, not 1.5"),
        ({"folder": 3}, TypeError, "folder must be the path of a folder, not 3"),
        ({"reproducer": 3}, TypeError, "reproducer must be the path of a folder, not 3"),
        ({"progress": 3}, TypeError, "progress must be a function of a string, not 3"),
        ({"instruments": 3}, TypeError, "instruments must be a list of PassInstrument objects, not 3"),
        ({"instruments": [3]}, TypeError, "instruments must be a list of PassInstrument objects; 3 is not one"),
    ],
    ids=str,
)
def test_an_argument_that_makes_no_sense_is_named(options: dict[str, AnyValue], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        optimized(**options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("opt_level", 10**5000, "an integer from 0 to 4, not an int of 5001 digits"),
        ("seed", 10**5000, "an integer of at most 63 bits, not an int of 5001 digits"),
        ("rtol", -(10**5000), "a finite number, at least 0, not an int of 5001 digits"),
        ("outputs", ["y" * 5000, 10**5000], "a list of names, not an object of type list"),
    ],
    ids=["opt_level", "seed", "rtol", "outputs"],
)
def test_integers_that_python_does_not_write(name: str, value: AnyValue, said: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        optimized(**{name: value})
    assert str(caught.value) == f"{name} must be {said}"


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: passat.inspect(EXAMPLE, folder=3), TypeError, "folder must be the path of a folder, not 3"),  # type: ignore[arg-type]
        (lambda: passat.inspect(EXAMPLE, custom_ops="lib.so"), TypeError, "custom_ops must be a list of paths of libraries, not 'lib.so'"),
        (lambda: passat.diff(EXAMPLE, EXAMPLE, folders="ab"), TypeError, "folders must be two paths of folders, with None for"),  # type: ignore[arg-type]
        (lambda: passat.profile(EXAMPLE, EXAMPLE, folders=(None,)), TypeError, "folders must be two paths of folders"),  # type: ignore[arg-type]
        (lambda: passat.profile(EXAMPLE, EXAMPLE, dims=[3]), TypeError, "dims must map names of dimensions to sizes"),  # type: ignore[arg-type]
        (lambda: passat.profile(EXAMPLE, EXAMPLE, inputs=3), TypeError, "inputs must be a mapping of names of inputs to arrays"),  # type: ignore[arg-type]
        (lambda: passat.profile(EXAMPLE, EXAMPLE, seed="1"), TypeError, "seed must be an integer of at least 0, not '1'"),  # type: ignore[arg-type]
        (lambda: passat.profile(EXAMPLE, EXAMPLE, seed=1, inputs={}), ValueError, "seed=1 draws random inputs, and inputs gives them all"),
        (lambda: passat.profile(EXAMPLE, EXAMPLE, seconds="1"), TypeError, "seconds must be a finite number of seconds, not '1'"),  # type: ignore[arg-type]
        (lambda: passat.profile(EXAMPLE, EXAMPLE, threads=1.5), TypeError, "threads must be an integer from 1 to"),  # type: ignore[arg-type]
        (lambda: passat.profile(EXAMPLE, EXAMPLE, progress=3), TypeError, "progress must be a function of a string, not 3"),  # type: ignore[arg-type]
        (lambda: verify.comparing(seed=1.5), TypeError, "seed must be an integer of at least 0, not 1.5"),  # type: ignore[arg-type]
        (lambda: verify.comparing(rtol="x"), TypeError, "rtol must be a finite number, not 'x'"),  # type: ignore[arg-type]
        (lambda: bisection.bisect_model(3, "wrong"), TypeError, "model must be the path of a file, not 3"),  # type: ignore[arg-type]
        (lambda: bisection.bisect_model(EXAMPLE, 3), TypeError, "check must be the name of a check, or a command, not 3"),  # type: ignore[arg-type]
        (lambda: bisection.bisect_model(EXAMPLE, "wrong", how=3), TypeError, "how must be made by passat.verify.comparing, not 3"),  # type: ignore[arg-type]
        (lambda: bisection.bisect_model(EXAMPLE, "larger", margin="1"), TypeError, "margin must be a finite number, not '1'"),  # type: ignore[arg-type]
        (
            lambda: bisection.bisect_model(EXAMPLE, "wrong", margin=1),
            ValueError,
            "margin applies to check='slower' or check='larger' only, not to",
        ),
        (lambda: bisection.bisect_model(EXAMPLE, "wrong", rules="r.py"), TypeError, "rules must be a list of RuleSet classes, not 'r.py'"),  # type: ignore[arg-type]
        (
            lambda: bisection.bisect_model(EXAMPLE, "larger", how=verify.comparing(3, atol=1)),
            ValueError,
            "atol applies to check='wrong' only",
        ),
        (lambda: certificates.check_certificate(3), TypeError, "certificate must be a certificate, or the path of its file, not 3"),  # type: ignore[arg-type]
        (lambda: certificates.check_certificate({}, trust="FoldConstant"), TypeError, "trust must be a list of names of passes, not 'Fold"),
        (lambda: certificates.write_certificate(3, "c.json"), TypeError, "certificate must be a certificate, not 3"),  # type: ignore[arg-type]
        (lambda: ir_onnx.from_onnx(3), TypeError, "model must be a ModelProto, not 3"),  # type: ignore[arg-type]
        (lambda: ir_onnx.to_onnx(3), TypeError, "module must be an IRModule, not 3"),  # type: ignore[arg-type]
        (lambda: ir_onnx.save(3, "o.onnx"), TypeError, "module must be an IRModule or a ModelProto, not 3"),  # type: ignore[arg-type]
        (lambda: ir_onnx.load(3), TypeError, "path must be the path of a file, not 3"),  # type: ignore[arg-type]
        (lambda: parse_pipeline(3), TypeError, "text must be the text of a pipeline, not 3"),  # type: ignore[arg-type]
        (lambda: Machine(flops="x"), ValueError, "the flops of a machine must be a positive number up to 1e+100, not 'x'"),  # type: ignore[arg-type]
        (lambda: optimized().save(3), TypeError, "path must be the path of a file, not 3"),  # type: ignore[arg-type]
        (lambda: optimized(record=True).write_report(3), TypeError, "path must be the path of a file, not 3"),  # type: ignore[arg-type]
        (lambda: optimized(record=True).write_report(""), ValueError, "the path of the file to write is empty"),
        (lambda: optimized(explain=True).explain(3), TypeError, "node must be the name of a node, not 3"),  # type: ignore[arg-type]
    ],
)
def test_other_functions_name_the_argument_too(call: Callable[[], object], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert said in str(caught.value)


@pytest.mark.parametrize("function", [passat.optimize, passat.inspect, lambda model: passat.diff(model, model)])
def test_an_empty_path_is_called_so(function: Callable[[str], object]) -> None:
    with pytest.raises(OnnxError, match=r"^the path of the model is empty$"):
        function("")


def test_a_module_is_no_model_but_can_become_one() -> None:
    with pytest.raises(OnnxError, match=r"not IRModule; passat\.ir\.onnx\.to_onnx\(module\) makes a ModelProto of it$"):
        passat.optimize(IRModule())  # type: ignore[arg-type]


def test_an_empty_path_of_the_result_is_called_so() -> None:
    with pytest.raises(OnnxError, match=r"^the path of the file to write is empty$"):
        passat.optimize(EXAMPLE, verify=False).save("")


def test_the_time_of_reading_is_without_imports() -> None:
    script = f"""
import contextlib
import sys
import passat.optimizer
from passat.report import Report

def clock(report, step, measured=Report.clock):
    before = set(sys.modules)
    with measured(report, step):
        yield
    print(step, len(set(sys.modules) - before))

Report.clock = contextlib.contextmanager(clock)
passat.optimize({str(EXAMPLE)!r}, verify=False)
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[0] == "read 0"


def test_the_keywords_are_those_of_the_settings() -> None:
    shown = inspect.signature(passat.optimize).parameters
    model, *keywords = shown.values()
    assert (model.name, model.kind) == ("model", model.POSITIONAL_OR_KEYWORD)
    assert [(one.name, one.default) for one in keywords] == [(field.name, field.default) for field in dataclasses.fields(Settings)]
    assert str(shown["opt_level"]) == "opt_level: int | None = None"
    assert optimized(model=MODEL).report.node_count_before == 2
    with pytest.raises(TypeError, match=r"^optimize\(\) got an unexpected keyword argument 'pases'; did you mean passes\?$"):
        optimized(pases="InferType")
    for option, way in (
        ("math", "config={'rules.math': ...}"),
        ("disable", "config={'rules.disabled': [...]}"),
        ("output", "the method save(path)"),
    ):
        with pytest.raises(TypeError, match=re.escape(f"unexpected keyword argument {option!r}; use {way}")):
            optimized(**{option: "finite"})
    with pytest.raises(
        TypeError, match=r"^optimize\(\) takes 1 positional argument but 2 were given; result\.save\(PATH\) writes a result$"
    ):
        passat.optimize(MODEL, "InferType")  # type: ignore[call-arg, arg-type]  # a mistake


def test_numbers_of_numpy_are_those_of_python() -> None:
    """Sizes of NumPy were in the report, which JSON did not write; levels of NumPy were rejected."""
    two: AnyValue = np.int64(2)
    small: AnyValue = np.float32(0.01)
    result = passat.optimize(EXAMPLE, dims={"batch": two}, opt_level=two, seed=two, rtol=small, time_limit=np.float64(9))
    assert "batch" in result.report.to_json()
    assert "batch" in passat.profile(EXAMPLE, EXAMPLE, dims={"batch": two}, seconds=small, threads=two).to_json()
