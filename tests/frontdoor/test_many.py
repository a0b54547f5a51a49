"""`passat.optimize_many`, and `passat optimize` with several models: each has its own result, and a failure does not stop the others."""

import concurrent.futures
import json
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any as AnyValue

import onnx
import pytest
from onnx import ModelProto, parser
from typer.testing import CliRunner, Result

import passat
from passat.cli.app import app
from passat.ir.argument_checks import ArgumentError
from passat.ir.onnx import OnnxError
from passat.jobs import LostError
from passat.many import output_paths
from passat.passmgr import PassContext
from passat.report import MismatchError

OPTIONS: dict[str, AnyValue] = {"verify": False, "passes": "SimplifyExpr, DeadCodeElimination"}
FLAGS = ("--no-verify", "--passes", OPTIONS["passes"])


def parsed(body: str = "a = Neg(x) b = Neg(a) y = Relu(b)") -> ModelProto:
    model: ModelProto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g (float[n] x) => (float[n] y) {{ {body} }}')
    return model


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["optimize", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def nodes(path: str | Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parsed(), "a.onnx")
    onnx.save(parsed("a = Abs(x) b = Abs(a) y = Exp(b)"), "b.onnx")
    Path("bad.onnx").write_text("no model")


# ---- in Python


def test_models_of_all_kinds_come_back_in_order() -> None:
    told: list[str] = []
    found = passat.optimize_many(["a.onnx", "bad.onnx", parsed(), Path("b.onnx")], progress=told.append, **OPTIONS)
    assert [one.source for one in found] == ["a.onnx", "bad.onnx", "a model in memory", "b.onnx"]
    assert [one.report and one.report.node_count_after for one in found] == [1, None, 1, 2]
    assert isinstance(found[1].error, OnnxError)
    assert found[0].result is not None
    assert [node.op_type for node in found[0].result.model.graph.node] == ["Relu"]
    assert told[1] == "bad.onnx failed, 2 of 4"


def test_any_executor_will_do_and_gets_absolute_paths(tmp_path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        [one] = passat.optimize_many(["a.onnx"], executor=pool, **OPTIONS)
    assert one.source == "a.onnx"
    assert one.report is not None
    assert one.report.source == "a.onnx"


def test_the_folder_of_the_results_is_created() -> None:
    found = passat.optimize_many(["a.onnx", "bad.onnx"], output="new/folder", **OPTIONS)
    assert [one.error is None for one in found] == [True, False]
    assert nodes("new/folder/a.onnx") == ["Relu"]
    passat.optimize_many(["bad.onnx"], output=Path("none"), **OPTIONS)
    assert not Path("none").exists()
    with pytest.raises(ArgumentError, match=r"the folder a\.onnx/out of the results cannot be created: Not a directory"):
        passat.optimize_many(["b.onnx"], output="a.onnx/out", **OPTIONS)


class Lost:
    """An executor that loses its jobs, as a dask client does whose scheduler has ended."""

    def submit(self, function: AnyValue, /, *args: AnyValue) -> concurrent.futures.Future[AnyValue]:
        future: concurrent.futures.Future[AnyValue] = concurrent.futures.Future()
        future.cancel()
        return future


def test_a_lost_job_is_an_error() -> None:
    [one] = passat.optimize_many(["a.onnx"], executor=Lost(), **OPTIONS)
    assert str(one.error).startswith("a.onnx: the executor has lost the job: ")
    assert str(one.error).endswith("Error: the executor was shut down, or its scheduler was lost")


class Immediately:
    """An executor that supports futures, and nothing else of `concurrent.futures`."""

    def __init__(self) -> None:
        self.given: list[AnyValue] = []

    def submit(self, function: AnyValue, *arguments: AnyValue) -> AnyValue:
        self.given += arguments
        future: concurrent.futures.Future[AnyValue] = concurrent.futures.Future()
        future.set_result(function(*arguments))
        return future


def test_files_are_found_from_other_folders(tmp_path: Path) -> None:
    executor = Immediately()
    passat.optimize_many(["a.onnx"], executor=executor, custom_ops=["lib.so"], output=["c.onnx"], **OPTIONS)
    [task] = executor.given
    assert (task.model, task.target, task.keywords["custom_ops"]) == (
        *(str(tmp_path / "a.onnx"), str(tmp_path / "c.onnx")),
        [str(tmp_path / "lib.so")],
    )


def test_the_context_around_holds_for_all() -> None:
    with PassContext(disabled_pass=["SimplifyExpr"]), concurrent.futures.ThreadPoolExecutor(1) as pool:
        here, there = (passat.optimize_many(["a.onnx"], executor=executor, **OPTIONS)[0] for executor in (None, pool))
    assert here.report is not None
    assert there.report is not None
    assert (here.report.node_count_after, there.report.node_count_after) == (3, 3)


class Unsendable(passat.PassatError):
    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


def test_errors_that_cannot_be_sent_keep_their_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: AnyValue, **__: AnyValue) -> None:
        raise Unsendable("one sentence")

    monkeypatch.setattr("passat.many.optimize", fails)
    [one] = passat.optimize_many(["a.onnx"], executor=Immediately(), **OPTIONS)
    assert (type(one.error).__name__, str(one.error), getattr(one.error, "exit_code", None)) == ("_SentError", "one sentence", 1)


def test_a_process_that_ends_takes_no_other_model_along() -> None:
    Path("ends.py").write_text(
        "import os\nfrom passat.passmgr import module_pass, register_pass\n\n\n"
        '@register_pass("Ends")\n@module_pass(opt_level=0, name="Ends")\n'
        "def ends(mod, ctx):\n"
        '    if "exp" in str(mod):\n        os._exit(3)\n    return mod\n'
    )
    found = passat.optimize_many(["a.onnx", "b.onnx"], jobs=2, verify=False, rules="ends.py", passes="Ends, SimplifyExpr")
    assert [type(one.error) for one in found] == [type(None), LostError]
    assert str(found[1].error) == "b.onnx: its process has ended; there may not be enough memory"


def test_processes_that_cannot_be_started_say_why() -> None:
    """A script without `if __name__ == "__main__":` runs again in each process that it starts, which may not start others."""
    Path("script.py").write_text(
        "import passat\n\nfor one in passat.optimize_many(['a.onnx', 'b.onnx'], jobs=2, verify=False, passes='SimplifyExpr'):\n"
        "    print(one.source, one.error)\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("a.onnx None\nb.onnx None\n")
    assert "a.onnx: no process can be started: An attempt has been made to start a new process" in done.stdout
    assert "memory" not in done.stdout


class NotLoadable:
    """A cost model that no other process can load, like one that a script defines inside `if __name__ == "__main__":`."""

    def call(self, *_: AnyValue) -> float:
        return 1.0

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("one",)


def test_arguments_that_another_process_cannot_load_are_named() -> None:
    found = passat.optimize_many(["a.onnx", "b.onnx"], jobs=2, verify=False, cost=NotLoadable())
    assert [str(one.error).partition(";")[0] for one in found] == [
        f"{name}: another process cannot load the arguments: ValueError: invalid literal for int() with base 10: 'one'"
        for name in ("a.onnx", "b.onnx")
    ]


class InterruptedImport:
    """A cost model during whose import in another process Ctrl-C comes, while a class is made."""

    def call(self, *_: AnyValue) -> float:
        return 1.0

    def __reduce__(self) -> tuple[AnyValue, tuple[()]]:
        return _make_class, ()


def _make_class() -> None:
    class Field:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    type("Plan", (), {"field": Field()})


def test_an_interruption_while_arguments_are_loaded_is_one() -> None:
    found = passat.optimize_many(["a.onnx", "b.onnx"], jobs=2, verify=False, cost=InterruptedImport())
    assert [str(one.error) for one in found] == ["interrupted", "interrupted"]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"jobs": 0}, ArgumentError, "jobs must be an integer of at least 1, not 0"),
        ({"seeds": 0}, TypeError, "optimize_many() got an unexpected keyword argument 'seeds'; did you mean seed?"),
        ({"seed": -1}, ArgumentError, "seed must be an integer of at least 0, not -1"),
        ({"output": ["x.onnx"]}, ArgumentError, "output has 1 path for 2 models"),
        ({"output": "."}, ArgumentError, "the result ./a.onnx would replace the model a.onnx; give another folder or other names"),
        ({"output": ["x.onnx", "x.onnx"]}, ArgumentError, "a.onnx and b.onnx would both be written to x.onnx"),
    ],
)
def test_arguments_that_make_no_sense_are_rejected_before_anything_runs(
    options: dict[str, AnyValue], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        passat.optimize_many(["a.onnx", "b.onnx"], **options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("models", "keywords", "error", "said"),
    [
        ("a.onnx", {}, TypeError, "models must be a list of models, not 'a.onnx'"),
        (5, {}, TypeError, "models must be a list of models, not 5"),
        (["a.onnx"], {"jobs": "2"}, TypeError, "jobs must be an integer of at least 1, not '2'"),
        (["a.onnx"], {"output": 5}, TypeError, "output must be a folder, or a list of paths, not 5"),
        ({"a.onnx"}, {}, TypeError, "models must be a list of models, not {'a.onnx'}"),
        (["a.onnx"], {"output": ["a", 5]}, TypeError, "output must be a folder, or a list of paths, not"),
        (["a.onnx"], {"output": ""}, ArgumentError, "output is empty; it names the folder of the results"),
        (
            ["a.onnx"],
            {"executor": 5},
            TypeError,
            "executor must be an executor of concurrent.futures, or have a method submit as these do, not 5",
        ),
        (["a.onnx"], {"executor": object, "jobs": 2}, TypeError, "executor must be an executor of concurrent.futures"),
        (["a.onnx"], {"executor": concurrent.futures.ThreadPoolExecutor(1), "jobs": 2}, ArgumentError, "jobs=2 starts processes here"),
        (["a.onnx"], {"progress": 5}, TypeError, "progress must be a function of a string, not 5"),
        (["a.onnx"], {"jobs": 2, "explain": True}, ArgumentError, "explain=True makes results that cannot come back from another process"),
    ],
)
def test_arguments_of_other_types(models: AnyValue, keywords: dict[str, AnyValue], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        passat.optimize_many(models, **keywords)


def test_an_executor_that_takes_no_jobs_is_not_waited_for() -> None:
    pool = concurrent.futures.ThreadPoolExecutor(1)
    pool.shutdown()
    for one in passat.optimize_many(["a.onnx", "b.onnx"], executor=pool, **OPTIONS):
        assert str(one.error).endswith("does not take the job: RuntimeError: cannot schedule new futures after shutdown")


def test_a_model_in_memory_has_no_file_name() -> None:
    with pytest.raises(ArgumentError, match="a model in memory has no file name: give a path for each result"):
        output_paths([parsed()], "out")


def test_an_error_with_a_report_can_be_sent() -> None:
    error = pickle.loads(pickle.dumps(MismatchError("differs", passat.Report(source="a.onnx"))))
    assert (str(error), error.report.source) == ("differs", "a.onnx")


# ---- the command


@pytest.mark.parametrize("jobs", [(), ("--jobs", "2")])
def test_each_model_has_its_line_and_one_failure_stops_no_other(jobs: tuple[str, ...]) -> None:
    result = run("a.onnx", "bad.onnx", "b.onnx", "-o", "out", *FLAGS, *jobs, code=1)
    lines = sorted(result.stdout.splitlines())
    assert [line.partition(" (")[0] for line in lines] == ["a.onnx: 3 nodes became 1", "b.onnx: 3 nodes became 2"]
    assert all(line.endswith(f", not verified, written to out/{name}.onnx") for name, line in zip("ab", lines, strict=True))
    assert result.stderr == (
        "error: bad.onnx is not an ONNX model, or is truncated: it does not parse as protobuf\nerror: 1 of 3 models was not optimized\n"
    )
    assert sorted(os.listdir("out")) == ["a.onnx", "b.onnx"]
    assert nodes("out/a.onnx") == ["Relu"]


def test_warnings_have_their_text() -> None:
    printed = run("a.onnx", "b.onnx", "--dry-run", "--passes", "").stdout
    assert printed.count("\n  ! no pass runs: the pipeline is empty\n") == 2


def test_without_a_folder_results_go_beside_the_models() -> None:
    run("a.onnx", "b.onnx", *FLAGS)
    assert sorted(os.listdir()) == ["a.onnx", "a.optimized.onnx", "b.onnx", "b.optimized.onnx", "bad.onnx"]


def test_one_model_is_written_into_an_existing_folder() -> None:
    Path("out").mkdir()
    assert "written to out/a.onnx" in run("a.onnx", "-o", "out", *FLAGS).stdout
    assert "the result a.onnx would replace the model a.onnx" in run("a.onnx", "-o", ".", *FLAGS, code=2).stderr


def test_a_folder_is_created_only_for_results() -> None:
    assert "error: 2 of 2 models were not optimized" in run("bad.onnx", "none.onnx", "-o", "out/inner", code=1).stderr
    assert "out" not in os.listdir() or not os.listdir("out")


def test_json_is_a_list_in_the_order_of_the_models() -> None:
    printed = run("bad.onnx", "a.onnx", "--dry-run", "--json", *FLAGS, code=1).stdout
    failed, done = json.loads(printed)
    assert sorted(failed) == ["error", "source"]
    assert (done["source"], done["node_count_after"], done["output"]) == ("a.onnx", 1, "")


@pytest.mark.parametrize("place", ["passat.settings.check_effects", "passat.cli.optimize.check_settings"])
def test_json_is_a_list_if_an_interruption_comes_before_the_first_job(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, pressed)
    result = run("a.onnx", "b.onnx", "--dry-run", "--json", code=130)
    assert json.loads(result.stdout) == []
    assert result.stderr.startswith("error: interrupted")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a.onnx", "sub/a.onnx", "-o", "out"), "a.onnx and sub/a.onnx would both be written to out/a.onnx"),
        (("a.onnx", "a.onnx"), "a.onnx and a.onnx would both be written to a.optimized.onnx"),
        (("a.onnx", "b.onnx", "-o", "."), "the result a.onnx would replace the model a.onnx; give another folder or other names"),
        (
            ("a.onnx", "b.onnx", "-o", "bad.onnx"),
            "-o bad.onnx is a file; with several models, here a.onnx and b.onnx, it names the folder of the results",
        ),
        (
            ("a.onnx", "b.onnx", "-o", "out/file.onnx"),
            "-o out/file.onnx names a file; with several models, here a.onnx and b.onnx, it names the folder of the results",
        ),
        (("a.onnx", "b.onnx", "--report", "page.html"), "--report applies to one model, and several are given"),
        (("a.onnx", "b.onnx", "--dump-ir", "dump"), "--dump-ir applies to one model, and several are given"),
        (("a.onnx", "b.onnx", "--dim", "n"), "--dim takes NAME=SIZE"),
        (("a.onnx", "b.onnx", "--disable", "NoPass"), "--disable names 'NoPass'"),
        (("a.onnx", "b.onnx", "--quiet", "--verbose"), "--quiet and --verbose contradict each other"),
        (
            ("a.onnx", "--math", "reassociate", "--config", "rules.math=exact"),
            "--math reassociate and --config rules.math=exact contradict each other",
        ),
        (("a.onnx", "--config", "rules.seconds=NaN"), "expect config rules.seconds to be at least 0 but get nan"),
        (
            ("a.onnx", "-o", "out.onnx", "--cluster", "tcp://127.0.0.1:1"),
            "-o out.onnx names a file; with --cluster it names the folder of the results, so give one without .onnx",
        ),
    ],
)
def test_invalid_arguments_are_rejected_before_anything_runs(arguments: tuple[str, ...], said: str) -> None:
    Path("sub").mkdir()
    onnx.save(parsed(), "sub/a.onnx")
    before = sorted(os.listdir())
    assert said in run(*arguments, code=2).stderr
    assert sorted(os.listdir()) == before


def test_quiet_prints_errors_only() -> None:
    result = run("a.onnx", "bad.onnx", "-o", "out", "--quiet", *FLAGS, code=1)
    assert result.stdout == ""
    assert result.stderr.count("error: ") == 2


def test_a_folder_is_for_the_models_in_memory(tmp_path: Path) -> None:
    """Beside files it was an error of each file."""
    onnx.save(parsed(), tmp_path / "a.onnx")
    mixed = passat.optimize_many([tmp_path / "a.onnx", parsed()], folder=tmp_path, **OPTIONS)
    assert [one.error for one in mixed] == [None, None]
    [alone] = passat.optimize_many([tmp_path / "a.onnx"], folder=tmp_path, **OPTIONS)
    assert "is for models in memory" in str(alone.error)


def test_paths_in_any_sequence_are_absolute_for_an_executor() -> None:
    executor = Immediately()
    passat.optimize_many(["a.onnx"], executor=executor, custom_ops=deque(["lib.so"]), output=["c.onnx"], **OPTIONS)
    [task] = executor.given
    assert task.keywords["custom_ops"] == [os.path.abspath("lib.so")]
