"""Models that crash ONNX Runtime: verification continues and reports the crash. Values from the other process are exact."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto
from typer.testing import CliRunner, Result

import passat
from passat import apart
from passat.apart import ApartSession, EndedError, RejectedError
from passat.cli.app import app
from passat.ir.onnx import from_onnx
from passat.ir.op import Op
from passat.kernels import settings_of_threads
from passat.measure import Measured
from passat.model_checks import CheckError, Slower
from passat.passmgr import module_pass
from passat.report import MismatchError, UnverifiedError
from passat.runner import Runner, loads
from passat.session import Session, SessionSettings, read
from passat.verify import Reference
from tests.comparing import compare_models

ENDED = "ONNX Runtime ended its process with signal 11"
LOAD = "g (float[2, 2, 2] x, int64[2, 1] i) => (float[n] y) { a = Neg(x) b = Neg(a) y = GatherND<batch_dims = -2>(b, i) }"
"""ONNX Runtime crashes when it loads this model."""
EMPTY = "e = Identity(nothing) m = InstanceNormalization(e, one, one) z = ReduceSum<keepdims = 0>(m)"
CONSTANTS = "<float[2, 1, 0] nothing = {}, float[1] one = {1}>"
RUN = f"g (float[2, 2] x) => (float[2, 2] y) {CONSTANTS} {{ {EMPTY} a = Neg(x) b = Neg(a) y = Add(b, z) }}"
"""ONNX Runtime crashes when it runs this model: the mean of nothing reads invalid memory."""
FINE = "g (float[2, 2] x) => (float[2, 2] y) { a = Neg(x) b = Neg(a) y = Abs(b) }"
DYING = [
    (FINE, RUN.replace("a = Neg(x) b = Neg(a)", "b = Abs(x)")),
    (LOAD.replace("<batch_dims = -2>", ""), LOAD.replace("a = Neg(x) b = Neg(a)", "b = Abs(x)")),
]
"""Models that run, but whose results do not."""
ENDLESS = """<ir_version: 10, opset_import: ["": 18]>
g (float[2] x, int64 n, bool c) => (float[2] y) {
  y = Loop(n, c, x) <body = b (int64 i, bool d, float[2] v) => (bool e, float[2] w) { e = Identity(d) w = Sin(v) }>
}"""
SOMETIMES = f"""g (float[n, 2] x) => (float[n, 2] y) {CONSTANTS} {{
  shape = Shape(x) rows = Gather(shape, zero) two = Equal(rows, five)
  w = If(two) <then_branch = t () => (float[2, 2] p) {{ {EMPTY} p = Identity(z) }},
              else_branch = f () => (float[1, 1] q) {{ q = Constant<value = float[1, 1] {{0}}>() }}>
  y = Add(x, w)
}}""".replace("one = {1}>", "one = {1}, int64 zero = {0}, int64 five = {5}>")
"""Crashes on five rows."""


def parsed(text: str) -> ModelProto:
    found: ModelProto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> {text}')
    return found


def becoming(text: str) -> Any:
    """A pass whose result is a given model."""
    return module_pass(lambda mod, ctx: from_onnx(parsed(text)), opt_level=0, name="Becoming")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [(LOAD, f"ONNX Runtime does not load the original: {ENDED}"), (RUN, f"does not run on random inputs: {ENDED}")],
    ids=["load", "run"],
)
def test_an_original_that_ends_it_is_not_compared(text: str, said: str) -> None:
    with pytest.raises(UnverifiedError, match=said):
        passat.optimize(parsed(text))


def test_the_command_reports_it(tmp_path: Path) -> None:
    onnx.save(parsed(LOAD), "in.onnx")
    rejected = run("optimize", "in.onnx", "-o", "out.onnx")
    assert rejected.exit_code == 1
    assert ENDED in rejected.stderr
    assert "--allow-unverified" in rejected.stderr
    assert not (tmp_path / "out.onnx").exists()
    accepted = run("optimize", "in.onnx", "-o", "out.onnx", "--allow-unverified")
    assert accepted.exit_code == 0, accepted.stderr
    assert ENDED in " ".join(accepted.stdout.split())
    assert len(onnx.load("out.onnx").graph.node) < len(parsed(LOAD).graph.node)


@pytest.mark.parametrize(("original", "result"), DYING, ids=["run", "load"])
def test_a_result_that_ends_it_is_wrong(original: str, result: str) -> None:
    report = compare_models(parsed(original), parsed(result))
    assert report.equal is False
    assert ENDED in report.mismatch
    with pytest.raises(MismatchError, match=f"{ENDED}.*the difference comes from the pass Becoming"):
        passat.optimize(parsed(original), passes=[becoming(result)], cost=_DearNegation())


class _DearNegation:
    """Makes a form without negation cheaper."""

    def call(self, op: Op, *_: Any) -> float:
        return 1.0 if op.name == "negative" else 1e-3


def test_a_model_that_crashes_on_some_inputs_is_compared_on_others() -> None:
    reference = Reference(parsed(SOMETIMES))
    assert reference.ended == ENDED
    assert {"n": 5} not in [trial.sizes for trial in reference.trials]
    report = reference.check(parsed(SOMETIMES))
    assert report.equal is True
    assert len(report.trials) == 3


def test_an_occasional_crash_is_not_a_difference() -> None:
    """The original changes its results between runs, as a model that reads invalid memory may."""
    onnx.save(parsed(FINE), "in.onnx")
    reference = Reference("in.onnx")
    onnx.save(parsed(RUN), "in.onnx")
    report = reference.check(parsed(RUN))
    assert report.equal is None
    assert report.skipped == f"{ENDED} on the result with seed 0, and sometimes on the original"


def test_a_process_that_was_killed_is_started_again() -> None:
    runner = Runner(parsed(FINE), apart=True)
    x = np.array([[1, -2], [3, 4]], np.float32)
    before = runner.run({"x": x})[0]
    for _ in range(2):
        keeper = apart._state.keeper
        assert keeper is not None
        keeper._process.kill()
        keeper._process.wait()
        assert runner.run({"x": x})[0].tobytes() == before.tobytes()


def test_a_killed_process_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(onnx.parser.parse_model(ENDLESS), apart=True)
    keeper = apart._state.keeper
    assert keeper is not None

    def killed(stream: Any) -> object:
        """Waits for the answer of a process that is killed when it has the request. Killed before, it would be started again."""
        keeper._process.kill()
        return read(stream)

    monkeypatch.setattr("passat.apart.read", killed)
    with pytest.raises(EndedError, match="with signal 9"):
        runner.run({"x": np.ones(2, np.float32), "n": np.array(2**62), "c": np.array(True)})


def test_an_interruption_ends_it_and_no_half_answer_is_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(parsed(FINE), apart=True)
    with monkeypatch.context() as patched:
        patched.setattr("passat.apart.read", lambda _: _interrupt())
        with pytest.raises(KeyboardInterrupt):
            runner.run({"x": np.zeros((2, 2), np.float32)})
    assert runner.run({"x": np.ones((2, 2), np.float32)})[0].tolist() == [[1, 1], [1, 1]]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not say which cores a process may use")
def test_a_session_has_a_thread_for_each_core_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    for cores in (1, 3):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        session = Session(parsed(FINE).SerializeToString(), SessionSettings())
        assert session._session.get_session_options().intra_op_num_threads == cores
        assert len(settings_of_threads()) == min(cores, 2)


def _interrupt() -> None:
    raise KeyboardInterrupt


VALUES = {
    "float32": ("float[2, 2] x", "float[2, 2] y", np.array([[1.5, -0.0], [np.nan, np.inf]], np.float32)),
    "scalar": ("double x", "double y", np.array(0.1)),
    "empty": ("int64[0, 3] x", "int64[0, 3] y", np.zeros((0, 3), np.int64)),
    "bool": ("bool[3] x", "bool[3] y", np.array([True, False, True])),
    "float16": ("float16[2] x", "float16[2] y", np.array([1, 65504], np.float16)),
    "bfloat16": ("bfloat16[2, 1] x", "bfloat16[2, 1] y", np.array([[1.5], [3e38]], ml_dtypes.bfloat16)),
    "string": ("string[2, 2] x", "string[2, 2] y", np.array([["", "ü"], ["two words", "'\"\n"]], object)),
    "strided": ("float[3, 2] x", "float[3, 2] y", np.arange(6, dtype=np.float32).reshape(2, 3).T),
    "sequence": ("seq(float[n]) x", "seq(float[n]) y", [np.ones(2, np.float32), np.zeros(3, np.float32)]),
    "texts in a sequence": ("seq(string[n]) x", "seq(string[n]) y", [np.array(["a", "b"], object)]),
    "optional": ("optional(float[2]) x", "optional(float[2]) y", np.ones(2, np.float32)),
    "absent": ("optional(float[2]) x", "optional(float[2]) y", None),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_a_session_in_this_process(name: str) -> None:
    given, made, value = VALUES[name]
    model = parsed(f"g ({given}) => ({made}) {{ y = Identity(x) }}").SerializeToString()
    one, other = Session(model, SessionSettings(threads=1)), ApartSession(lambda: model, SessionSettings(threads=1))
    assert (one.inputs, one.outputs) == (other.inputs, other.outputs)
    (expected,), (found,) = one.run({"x": value}), other.run({"x": value})
    assert type(expected) is type(found)
    for left, right in zip(*(parts if isinstance(parts, list) else [parts] for parts in (expected, found)), strict=True):
        assert type(left) is type(right)
        if left is not None:
            assert (left.dtype, left.shape) == (right.dtype, right.shape)
            assert left.tolist() == right.tolist() if left.dtype == object else left.tobytes() == right.tobytes()


def test_rounding_is_the_same_and_so_are_random_numbers() -> None:
    random = np.random.default_rng(0)
    text = "g (float[17, 33] x, float[33, 9] w) => (float[17, 9] y, float[17, 9] r) { y = MatMul(x, w) r = RandomNormalLike(y) }"
    feed = {"x": random.normal(size=(17, 33)).astype(np.float32), "w": random.normal(size=(33, 9)).astype(np.float32)}
    found = [Runner(parsed(text), threads=1, seed=5, apart=where).run(feed) for where in (False, True, True)]
    for each in found[1:]:
        assert [value.tobytes() for value in each] == [value.tobytes() for value in found[0]]


def test_external_data_and_paths_are_relative_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parsed("g (float[300] x) => (float[300] y) { y = Add(x, w) }").graph
    graph.initializer.append(onnx.numpy_helper.from_array(np.arange(300, dtype=np.float32), "w"))
    model = parsed(FINE)
    model.graph.CopyFrom(graph)
    folder = tmp_path / "there"
    folder.mkdir()
    onnx.save(model, str(folder / "m.onnx"), save_as_external_data=True, location="m.data", size_threshold=0)
    in_memory = onnx.load(str(folder / "m.onnx"), load_external_data=False)
    feed = {"x": np.ones(300, np.float32)}
    for place, path, data in ((tmp_path, "there/m.onnx", "there"), (folder, "m.onnx", ".")):
        monkeypatch.chdir(place)
        assert loads(path)
        assert Runner(path, apart=True).run(feed)[0].tolist() == list(range(1, 301))
        assert Runner(in_memory, folder=data, apart=True).run(feed)[0].tolist() == list(range(1, 301))


def test_a_file_that_is_open_in_this_process_only() -> None:
    """Such as /dev/stdin: in the child process it is another one."""
    with open(Path(__file__).parents[2] / "examples" / "models" / "resnet_tiny.onnx", "rb") as file:
        assert loads(f"/dev/fd/{file.fileno()}")


def test_messages_of_onnx_runtime_are_passed_on() -> None:
    model = parsed("g (float[2] x) => (float[2] y) { y = NoSuchThing(x) }")
    with pytest.raises(RejectedError) as there:
        Runner(model, apart=True)
    with pytest.raises(Exception, match="NoSuchThing") as here:
        Runner(model)
    assert str(there.value) == str(here.value)
    runner = Runner(parsed(FINE), apart=True)
    with pytest.raises(RejectedError, match="Got invalid dimensions"):
        runner.run({"x": np.zeros((3, 3), np.float32)})


def test_whether_it_loads() -> None:
    assert loads(parsed(FINE))
    assert loads(parsed(RUN))
    assert not loads(parsed(LOAD))
    assert not loads(b"nonsense")


def test_unused_sessions_are_released() -> None:
    runner = Runner(parsed(FINE), apart=True)
    keeper, number = apart._state.keeper, runner._session._number  # type: ignore[union-attr]  # it is apart
    assert keeper is not None
    del runner
    gc.collect()
    with pytest.raises(RejectedError):
        keeper.ask({"do": "run", "session": number, "feed": {"map": []}}, [])


def test_loading_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    apart._state.stop()
    with monkeypatch.context() as patched:
        patched.setattr("passat.apart.LONGEST_SECONDS", 0.0)
        assert not loads(parsed(FINE))
    assert loads(parsed(FINE))


LOOP = """g (float[4] x) => (float[4] y) <int64 count = {COUNT}, float zero = {0.0}, bool t = {1}> {
    a = Loop (count, t, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) { d = Identity (c) w = Sin (v) }>
    y = Add (a, zero)
}"""
FOREVER = LOOP.replace("COUNT", "1099511627776").replace("g (", "endless (", 1)


@pytest.fixture
def a_quarter_of_a_second_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit for runs of FOREVER. On a busy machine other requests may take longer: starting the process is part of the first one."""
    ask = apart._Keeper.ask
    endless: set[int] = set()

    def limited(self: Any, request: Any, arrays: Any) -> object:
        with monkeypatch.context() as patched:
            if request["do"] == "load" and b"endless" in arrays[0].tobytes():
                endless.add(request["session"])
            if request["do"] == "run" and request["session"] in endless:
                patched.setattr("passat.apart.LONGEST_SECONDS", 0.25)
            return ask(self, request, arrays)

    monkeypatch.setattr(apart._Keeper, "ask", limited)


@pytest.mark.usefixtures("a_quarter_of_a_second_a_run")
def test_a_loop_without_an_end_is_not_compared() -> None:
    with pytest.raises(UnverifiedError, match=r"does not run on random inputs: ONNX Runtime takes more than 0\.25 seconds to run a model"):
        passat.optimize(parsed(FOREVER))


@pytest.mark.usefixtures("a_quarter_of_a_second_a_run")
def test_a_result_that_takes_too_long_is_not_called_wrong() -> None:
    report = compare_models(parsed(LOOP.replace("COUNT", "3")), parsed(FOREVER))
    assert report.equal is None
    assert "ONNX Runtime takes more than 0.25 seconds to run a model: the result, on " in report.skipped


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    apart._state.stop()
    yield
    apart._state.is_possible = True


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(("name", "value"), [("executable", ""), ("executable", "/nowhere/python"), ("frozen", True)])
def test_without_child_processes_models_run_in_this_process(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, name, value, raising=False)
    assert compare_models(parsed(FINE), parsed(FINE)).equal is True
    assert apart._state.keeper is None
    assert not loads(parsed(FINE))


@pytest.mark.usefixtures("one_process")
def test_if_the_child_cannot_import_passat_models_run_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_COMMAND", "raise SystemExit(1)")
    assert compare_models(parsed(FINE), parsed(FINE)).equal is True
    monkeypatch.setattr(apart, "_COMMAND", "print('hello ' * 99)")
    apart._state.is_possible = True
    assert compare_models(parsed(FINE), parsed(FINE)).equal is True


def python(code: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    model = f'<ir_version: 10, opset_import: ["": 18]> {FINE}'
    head = (
        "import numpy as np, os, sys, onnx\nfrom passat import apart\nfrom passat.runner import Runner\n"
        f"m = onnx.parser.parse_model({model!r})\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", head + code], capture_output=True, text=True, check=False, timeout=60)
    assert not check or done.returncode == 0, done.stderr
    return done


START = "r = Runner(m, apart=True)\npid = apart._state.keeper._process.pid\nprint(pid)\n"
BUSY = f"""
import threading, time
sent, read = threading.Event(), apart.read
busy = Runner(onnx.parser.parse_model({ENDLESS!r}), apart=True)
feed = {{"x": np.ones(2, np.float32), "n": np.array(2**62), "c": np.array(True)}}
apart.read = lambda stream: (sent.set(), read(stream))[1]
threading.Thread(target=busy.run, args=[feed], daemon=True).start()
sent.wait()
time.sleep(0.2)
os._exit(0)
"""


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)", BUSY], ids=["at its end", "killed", "during a run"])
def test_it_ends_with_the_process_that_started_it(end: str) -> None:
    """The other process holds the error stream, so the test waits for its end."""
    done = python(START + end, check=False)
    assert not done.stderr
    assert int(done.stdout)


def test_a_forked_process_has_one_of_its_own() -> None:
    code = START + (
        "x = np.ones((2, 2), np.float32)\n"
        "sys.stdout.flush()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    r.run({'x': x}); print(apart._state.keeper._process.pid); sys.stdout.flush(); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert r.run({'x': x})[0].tolist() == [[1, 1], [1, 1]] and apart._state.keeper._process.pid == pid\n"
    )
    one, other = python(code).stdout.split()
    assert one != other


def test_output_of_a_library_is_not_a_response() -> None:
    """The output stream of the other process is the error stream of this one."""
    serving = (
        "import os; from passat import session; run = session.Session.run; "
        "session.Session.run = lambda *given: (os.write(1, b'printed'), run(*given))[1]; session.serve()"
    )
    code = f"apart._COMMAND = {serving!r}\n"
    done = python(code + START + "print(r.run({'x': np.ones((2, 2), np.float32)})[0].sum())")
    assert done.stderr == "printed"
    assert done.stdout.split()[1:] == ["4.0"]


def test_no_process_starts_without_a_comparison() -> None:
    code = "import passat\npassat.optimize(m, verify=False)\nprint(apart._state.keeper)\npassat.optimize(m)\nprint(apart._state.keeper is None)\n"
    assert python(code).stdout.split() == ["None", "False"]


@pytest.mark.parametrize("text", [LOAD, RUN], ids=["load", "run"])
def test_a_model_that_ends_it_is_not_timed(text: str) -> None:
    report = passat.optimize(parsed(text), choose="time", allow_unverified=True).report
    assert any(note.startswith("nothing was timed, the cost decides: the model") and note.endswith(ENDED) for note in report.cost_notes)
    with pytest.raises(CheckError, match=f"there is nothing to measure: .*{ENDED}"):
        Slower(parsed(text))(from_onnx(parsed(text)))


@pytest.mark.parametrize(("original", "result"), DYING, ids=["run", "load"])
def test_a_result_that_ends_it_has_no_time(original: str, result: str) -> None:
    report = passat.optimize(parsed(original), passes=[becoming(result)], choose="time", candidates=1).report
    assert [timing.failed for timing in report.timings] == ["", ENDED]
    check = Slower(parsed(original))
    assert check(from_onnx(parsed(result))) is None
    assert check.unclear == f"it does not run on ONNX Runtime: {ENDED}"


def test_a_node_that_ends_it_is_not_measured(tmp_path: Path) -> None:
    report = passat.optimize(parsed(LOAD), cost=Measured(folder=tmp_path), allow_unverified=True).report
    assert any(note.endswith("ONNX Runtime does not run it by itself") for note in report.cost_notes)
