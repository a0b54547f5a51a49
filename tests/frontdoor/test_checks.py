"""The checks of a bisection: wrong values, time, crashes, commands; and the number of runs."""

import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import passat.choose
from passat import relay
from passat.bisection import READ_AND_WRITTEN, find_guilty, read_leniently
from passat.choose import Times
from passat.ir.expr import Call, Expr, Function, RefCreate, RefRead, Var
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.model_checks import CheckError, Command, Crash, Slower, WrongValue, make_check
from passat.passmgr import Pass, PassContext, Sequential, bisect_passes, module_pass
from passat.rules import RuleSet, op, rule_pass, tensor
from passat.runner import Runner, VerifyError
from passat.verify import AS_USUAL, Reference, VerifyReport, comparing


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def model(*ops: str, shape: Sequence[int | str] = ("n", 4), constant: npt.NDArray[np.generic] | None = None) -> ModelProto:
    """A chain of operators; operators with two operands get a constant as the second."""
    nodes = []
    for i, name in enumerate(ops):
        inputs = [f"v{i}" if i else "x"] + (["c"] if name in ("Mul", "MatMul") else [])
        nodes.append(helper.make_node(name, inputs, [f"v{i + 1}" if i + 1 < len(ops) else "y"]))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name in ("x", "y")]
    tensors = [] if constant is None else [numpy_helper.from_array(constant, "c")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def scaled(factor: float) -> ModelProto:
    return model("Mul", constant=np.array(factor, np.float32))


def becoming(name: str, made: ModelProto) -> Pass:
    """A pass whose result is a given model."""
    pass_: Pass = module_pass(lambda mod, ctx: from_onnx(made), opt_level=0, name=name)
    return pass_


class CountingReference(Reference):
    """Counts comparisons."""

    count = 0

    def check(self, candidate: AnyValue) -> VerifyReport:
        self.count += 1
        return super().check(candidate)


@pytest.mark.parametrize("guilty", [1, 7, 16])
def test_the_pass_that_changes_a_value_is_found_in_a_logarithm_of_comparisons(guilty: int) -> None:
    pipeline = Sequential([becoming(f"P{i}", scaled(3.0 if i >= guilty else 1.0)) for i in range(1, 17)])
    reference = CountingReference(scaled(1.0))
    assert find_guilty(reference, pipeline, from_onnx(scaled(1.0)), PassContext()) == f"P{guilty}"
    assert reference.count <= 2 + math.log2(16)


def test_a_difference_that_only_a_stage_shows_accuses_its_passes() -> None:
    """A pass whose rule fires only on what a rule of another one makes, which is not extracted in between."""

    x = tensor("x")

    class Made(RuleSet):
        sines = (op.negative(x) >> op.sin(op.sin(x))).exploring()

    class Wrong(RuleSet):
        vanish = op.sin(op.sin(x)) >> x

    pipeline = Sequential([rule_pass(Made, opt_level=0), rule_pass(Wrong, opt_level=0)])
    original = model("Neg")
    assert find_guilty(Reference(original), pipeline, from_onnx(original), PassContext()) == "Made or Wrong"


def test_who_is_not_guilty() -> None:
    reference = Reference(scaled(1.0))
    right = Sequential([becoming("Right", scaled(1.0))])
    assert find_guilty(reference, right, from_onnx(scaled(1.0)), PassContext()) == ""
    assert find_guilty(reference, right, from_onnx(scaled(2.0)), PassContext()) == READ_AND_WRITTEN

    @module_pass(opt_level=0)
    def raising(mod: IRModule, ctx: PassContext) -> IRModule:
        raise ValueError

    assert find_guilty(reference, Sequential([raising]), from_onnx(scaled(1.0)), PassContext()) == ""


def test_forms_that_onnx_does_not_have_cannot_tell() -> None:
    """A closure has no ONNX form, so the answer is a range of undecidable passes."""

    @module_pass(opt_level=0)
    def closes(mod: IRModule, ctx: PassContext) -> IRModule:
        copy = mod.shallow_copy()
        main = mod["main"]
        inner = from_onnx(model("Neg", "Exp"))["main"]  # with its own parameters: a variable is bound once
        copy["main"] = Function(main.params, Call(RefRead(RefCreate(inner)), main.params))
        return copy

    start = from_onnx(model("Neg", "Exp"))
    check = WrongValue(Reference(model("Neg", "Exp")))
    assert check(start) is False
    assert check(closes(start)) is None
    assert check.unclear.startswith("it cannot be written as ONNX: ")
    found = bisect_passes(Sequential([closes, becoming("Wrong", model("Neg", "Exp", "Exp"))]), start, check)
    assert [one.name for one in found.candidates] == ["closes", "Wrong"]
    assert "the output 'y'" in check.why


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (lambda x: Var("lost"), "in @main: the variable %lost is free"),
        (
            lambda x: relay.add(x, relay.const(np.ones(5, "float32"))),
            "in @main: add(Tensor[(n, 4), float32], Tensor[(5,), float32]): shapes (n, 4) and (5,) do not broadcast: 4 against 5",
        ),
    ],
    ids=["a free variable", "an ill-typed call"],
)
@pytest.mark.parametrize("kind", ["wrong", "slower", "larger", "crash", "true"])
def test_a_module_that_is_broken_is_bad_by_every_check(kind: str, body: Callable[[Expr], Expr], why: str) -> None:
    @module_pass(opt_level=0)
    def breaks(mod: IRModule, ctx: PassContext) -> IRModule:
        copy = mod.shallow_copy()
        copy["main"] = Function(mod["main"].params, body(mod["main"].params[0]))
        return copy

    Path("model.onnx").write_bytes(scaled(1.0).SerializeToString())
    check = make_check(kind, read_leniently("model.onnx"), AS_USUAL, 1000.0)  # a margin that no module exceeds by itself
    found = bisect_passes(Sequential([breaks]), from_onnx(scaled(1.0)), check)
    assert found.execution.name == "breaks"
    assert check.why == f"the module is broken: {why}"


def test_values_need_an_original_that_runs() -> None:
    with pytest.raises(CheckError, match="there is nothing to compare with: ONNX Runtime does not load the original") as found:
        WrongValue(Reference(b"nonsense"))
    assert found.value.exit_code == 1


def test_the_pass_that_makes_a_model_slower_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: dict[Runner, int] = {}

    def runner(source: ModelProto | bytes, folder: str | None, threads: int = 1, *, apart: bool = False) -> Runner:
        made = source if isinstance(source, ModelProto) else onnx.load_from_string(source)
        found = Runner(made, folder=None, threads=1, apart=apart)
        costs[found] = len(made.graph.node)
        return found

    monkeypatch.setattr(passat.choose, "_runner", runner)
    monkeypatch.setattr(passat.choose, "time_of", lambda runner, feed, repeat: costs[runner] * 1e-3)
    fast, slow = model("Neg"), model("Neg", "Neg", "Neg")
    check = Slower(fast)
    pipeline = Sequential([becoming("Same", fast), becoming("Slow", slow), becoming("Also", slow)])
    assert bisect_passes(pipeline, from_onnx(fast), check).execution.name == "Slow"
    assert check.why == "it takes 3 ms where the original takes 1 ms, 3.00 times as long"


def test_times_are_measured() -> None:
    assert Slower(scaled(1.0), margin=1e6)(from_onnx(scaled(1.0))) is False
    assert Slower(scaled(1.0), margin=-1.0)(from_onnx(scaled(1.0))) is True


def test_medians_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of the original is an outlier."""
    monkeypatch.setattr(passat.choose, "take_turns", lambda *_, **options: [[1.0, 100.0, 1.0], [1.4] * 3])
    assert Slower(scaled(1.0), margin=0.5)(from_onnx(scaled(1.0))) is False
    check = Slower(scaled(1.0), margin=0.3)
    assert check(from_onnx(scaled(1.0))) is True
    assert check.why == "it takes 1.4 s where the original takes 1 s, 1.40 times as long"


@pytest.mark.parametrize(("after", "clear"), [(2.0, True), (1.0, True), (1.12, False)])
def test_no_more_is_measured_than_is_clear(after: float, clear: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def turns(*_: object, decided: Callable[[Times], bool], **options: object) -> Times:
        times = [[1.0] * 11, [after] * 11]
        assert decided(times) is clear
        assert not decided([[*times[0], 1.0], [*times[1], 1.12]])
        return times

    monkeypatch.setattr(passat.choose, "take_turns", turns)
    assert Slower(scaled(1.0), doubt=0.05)(from_onnx(scaled(1.0))) is ((after > 1.1) if clear else None)


def test_a_model_that_does_not_run_has_no_time() -> None:
    check = Slower(scaled(1.0))
    assert check(from_onnx(model("MatMul", shape=("n", 7), constant=np.zeros((7, 7), np.float32)))) is None
    reshape = helper.make_node("Reshape", ["x", "s"], ["y"])
    values = [helper.make_tensor_value_info("x", 1, ["n"]), helper.make_tensor_value_info("s", 7, [5])]
    graph = helper.make_graph([reshape], "g", values, [helper.make_tensor_value_info("y", 1, None)])
    broken = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(CheckError, match="there is nothing to measure: the original does not run on random inputs"):
        Slower(broken)(from_onnx(scaled(1.0)))


def custom() -> ModelProto:
    """A model with an unknown operator, which ONNX Runtime does not load."""
    made = model("Neg")
    made.graph.node[0].domain = "made.up"
    made.opset_import.add(domain="made.up", version=1)
    return made


def test_a_model_that_onnx_runtime_does_not_load() -> None:
    check = Crash()
    assert check(from_onnx(scaled(1.0))) is False
    assert check(from_onnx(custom())) is True
    assert "ONNX Runtime does not load the model" in check.why


def test_a_process_that_dies_is_a_crash() -> None:
    """The mean of nothing, from another node, reads invalid memory."""
    nothing = "<float[2, 1, 0] e = {}, float[1] s = {1}> { i = Identity(e) m = InstanceNormalization(i, s, s) z = ReduceSum<keepdims=0>(m) y = Add(x, z) }"
    dying = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g (float[2, 2] x) => (float[2, 2] y) {nothing}')
    check = Crash()
    assert check(from_onnx(scaled(1.0))) is False
    assert check(from_onnx(dying)) is True
    assert check.why == "ONNX Runtime ended its process with signal 11"


def test_a_crash_on_the_inputs_of_the_user() -> None:
    """Random indices are chosen so that a model runs."""
    text = '<ir_version: 9, opset_import: ["": 18]> g (int64[n] i) => (float[n] y) <float[3] w = {1, 2, 3}> { y = Gather(w, i) }'
    module = from_onnx(onnx.parser.parse_model(text))
    assert Crash()(module) is False
    check = Crash(how=comparing(inputs={"i": np.array([7])}))
    assert check(module) is True
    assert "does not run on the inputs given" in check.why


def test_no_crash_is_looked_for_without_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(VerifyError, match="not installed"):
        Crash()(from_onnx(scaled(1.0)))


def command(code: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", code]  # starts fast


@pytest.mark.parametrize(
    ("code", "answer", "why"),
    [
        ("0", False, ""),
        ("1", True, "the command ends with exit code 1"),
        ("124", True, "the command ends with exit code 124"),
        ("125", None, ""),
        ("126", True, "the command ends with exit code 126"),
        ("127", True, "the command ends with exit code 127"),
        ("255", True, "the command ends with exit code 255"),
    ],
)
def test_the_exit_code_of_a_command_is_its_finding(code: str, answer: bool | None, why: str) -> None:
    check = Command(command(f"import sys; sys.exit({code})"))
    assert check(from_onnx(scaled(1.0))) is answer
    assert check.why == why


def test_a_command_that_dies_by_a_signal_is_bad() -> None:
    check = Command(command("import os; os.kill(os.getpid(), 15)"))
    assert check(from_onnx(scaled(1.0))) is True
    assert check.why == "the command ends with signal 15"


def loads(argument: int) -> str:
    return f"import sys; sys.exit(b'\"\\x03Mul' not in open(sys.argv[{argument}], 'rb').read())"  # the type of a node


def test_a_command_gets_the_path_of_the_model() -> None:
    assert Command([*command(loads(1))])(from_onnx(scaled(1.0))) is False
    assert Command([*command(loads(2)), "first", "{}", "last"])(from_onnx(scaled(1.0))) is False
    prefixed = loads(1).replace("sys.argv[1]", "sys.argv[1].removeprefix('--model=')")
    assert Command([*command(prefixed), "--model={}"])(from_onnx(scaled(1.0))) is False
    assert os.listdir() == []


def test_no_shell_reads_a_command() -> None:
    made = Command(["echo", "$HOME", ";", "touch", "hacked", "{}"])
    assert made(from_onnx(scaled(1.0))) is False
    assert os.listdir() == []


def test_commands_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="the check command is empty"):
        Command([])
    with pytest.raises(CheckError, match="the check command 'no-such-command' does not exist; --check takes wrong, slower"):
        Command(["no-such-command", "{}"])
    Path("script").write_text("no program\n")
    with pytest.raises(CheckError, match=r"the check command '\./script' is not executable"):
        Command(["./script"])
    Path("script").chmod(0o755)
    Path("script").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(CheckError, match=r"the check command '\./script' does not run: Exec format error"):
        Command(["./script"])(from_onnx(scaled(1.0)))


def test_external_data_is_there_for_commands(tmp_path: Path) -> None:
    weights = np.arange(4000, dtype=np.float32).reshape(4, 1000)
    square = model("MatMul", constant=weights[:, :4].copy())
    onnx.save(square, "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
    from passat.ir.onnx import load

    assert to_onnx(load("m.onnx")).graph.initializer[0].data_location == TensorProto.EXTERNAL
    checks: list[Callable[[IRModule], bool | None]] = [
        Command([sys.executable, "-c", "import onnx, sys; onnx.load(sys.argv[1])"], str(tmp_path)),
        Crash(str(tmp_path)),
        WrongValue(Reference("m.onnx")),
    ]
    assert [check(load("m.onnx")) for check in checks] == [False] * 3
