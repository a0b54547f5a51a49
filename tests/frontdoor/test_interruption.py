"""Ctrl-C at each stage of an optimization: before the result is decided, the best program so far is returned, or the input if there is
none; later, nothing is written."""

import concurrent.futures
import multiprocessing.process
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto, helper
from typer.testing import CliRunner

import passat
from passat.cli.app import Terminated, app
from passat.jobs import run_jobs
from passat.render import ProgressLine


class Number:
    """A job."""

    name = "a number"

    def __call__(self) -> int:
        return 7


class Handler:
    """A job that returns whether Ctrl-C raises KeyboardInterrupt, without which a saturation does not keep the best program so far."""

    name = "a handler"

    def __call__(self) -> bool:
        return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def negations() -> ModelProto:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    nodes = [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Neg", ["t"], ["u"]), helper.make_node("Relu", ["u"], ["y"])]
    return helper.make_model(helper.make_graph(nodes, "g", infos[:1], infos[1:]), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pressed_at(stage: str, times: int = 1) -> Callable[[str], None]:
    def tell(text: str) -> None:
        if text.startswith(stage):
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

    return tell


@pytest.mark.parametrize(
    ("stage", "passes_ran", "nodes"),
    [
        ("reading the model", False, 3),
        ("running InferType", True, 3),
        ("running DeadCodeElimination", True, 1),
        ("pricing the result", True, 1),
    ],
)
def test_before_the_result_is_decided_the_best_so_far_comes_back(stage: str, passes_ran: bool, nodes: int) -> None:
    result = passat.optimize(negations(), progress=pressed_at(stage), passes="InferType, SimplifyExpr, DeadCodeElimination")
    assert result.report.interrupted
    assert bool(result.report.passes) == passes_ran
    assert len(result.model.graph.node) == nodes
    assert (result.report.verification is not None) == (nodes == 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("stage", "times"), [("checking the result", 1), ("comparing with the original", 1), ("reading the model", 2)])
def test_later_and_the_second_time_it_ends_the_call(stage: str, times: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        passat.optimize(negations(), progress=pressed_at(stage, times))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("stage", "said", "written"),
    [
        ("reading", "interrupted; nothing better was found so far, so the input was written to out.onnx", True),
        ("pricing", "interrupted; the best so far was written to out.onnx", True),
        ("comparing", "interrupted; nothing was written", False),
        ("writing out.onnx", "interrupted; nothing was written", False),
    ],
)
def test_the_command_reports_written_files(stage: str, said: str, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.onnx").write_bytes(negations().SerializeToString())
    tell = pressed_at(stage)
    monkeypatch.setattr(ProgressLine, "__call__", lambda self, text: tell(text))
    result = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "out.onnx"])
    assert (result.exit_code, result.stderr) == (130, f"error: {said}\n")
    assert sorted(os.listdir()) == ["in.onnx", *(["out.onnx"] if written else [])]
    if stage == "reading":
        assert Path("out.onnx").read_bytes() == Path("in.onnx").read_bytes()


@pytest.mark.parametrize(("error", "said", "code"), [(KeyboardInterrupt, "interrupted", 130), (Terminated, "terminated", 143)])
def test_an_interruption_outside_of_stages_is_reported_too(
    error: type[BaseException], said: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object) -> None:
        raise error

    monkeypatch.setattr("passat.cli.passes.errors", pressed)
    result = CliRunner().invoke(app, ["order"])
    assert (result.exit_code, result.stderr) == (code, f"error: {said}\n")


class Lossy(queue.SimpleQueue[int]):
    """A queue in which Ctrl-C arrives between the taking of an element and its use."""

    pressed = False

    def get(self, block: bool = True, timeout: float | None = None) -> int:
        found = super().get(block, timeout)
        if not Lossy.pressed:
            Lossy.pressed = True
            raise KeyboardInterrupt
        return found


def terminated(_number: int, _frame: object) -> None:
    raise Terminated


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_while_a_process_starts_is_held_back(sent: signal.Signals) -> None:
    """By this process until it has started the other one, and there until it runs the job. The first process would run the job that waits
    for the second one, too."""
    outcomes = run_jobs(dict.fromkeys(range(3), Number()), processes=2)
    spawn = multiprocessing.process.BaseProcess.start
    started: list[multiprocessing.process.BaseProcess] = []

    def pressed(process: multiprocessing.process.BaseProcess) -> None:
        spawn(process)
        started.append(process)
        if len(started) == 2:
            signal.raise_signal(sent)
            for each in started if sent == signal.SIGINT else ():  # as a terminal does
                assert each.pid is not None
                os.kill(each.pid, signal.SIGINT)

    usual = signal.signal(signal.SIGTERM, terminated)
    found: list[int | Exception] = []
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(multiprocessing.process.BaseProcess, "start", pressed)
            with pytest.raises(Terminated if sent == signal.SIGTERM else KeyboardInterrupt):
                found.extend(outcome for _, outcome in outcomes)
        assert signal.getsignal(signal.SIGTERM) is terminated
    finally:
        signal.signal(signal.SIGTERM, usual)
    assert {type(outcome) for outcome in found} == {InterruptedError}
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_jobs_in_other_processes_have_the_usual_handler() -> None:
    assert dict(run_jobs(dict.fromkeys(range(4), Handler()), processes=2)) == dict.fromkeys(range(4), True)


def test_a_job_that_ends_with_an_interruption_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr("passat.jobs.queue.SimpleQueue", Lossy)
        outcomes = run_jobs({0: Number()}, executor=pool)
        assert next(outcomes) == (0, 7)
        with pytest.raises(KeyboardInterrupt):
            next(outcomes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_after_the_work_shows_no_traceback(number: signal.Signals) -> None:
    late = f"import atexit, os, sys; from passat.__main__ import main; atexit.register(lambda: os.kill(os.getpid(), {int(number)}))"
    command = [sys.executable, "-c", f"{late}; sys.argv[1:] = ['--version']; main()"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-number, "")
    assert done.stdout.startswith("passat ")
