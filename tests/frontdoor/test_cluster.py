"""Commands with `--cluster`, and dask's clients as executors, also while workers are killed. Skipped without dask.distributed
(`make cluster`)."""

import concurrent.futures
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any as AnyValue

import onnx
import pytest
from onnx import parser
from typer.testing import CliRunner

import passat
from passat.cli.app import app
from passat.cluster import ClusterError, connected
from passat.measure import FILE, Measured
from tests.patience import comes_true


def test_without_dask_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = CliRunner().invoke(app, ["optimize", "a.onnx", "--cluster", "tcp://127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.stderr == ("error: a cluster needs dask.distributed, which is not installed: pip install 'passat[cluster]' installs it\n")


@pytest.fixture
def cluster() -> Iterator[AnyValue]:
    """A cluster of two processes for each test: a worker that is killed while dask starts it is not replaced."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed; make cluster installs it")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50) as made:
        yield made


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = parser.parse_model('<ir_version: 9, opset_import: ["" : 20]> g (float[n] x) => (float[n] y) { a = Neg(x) y = Neg(a) }')
    for name in ("a.onnx", "b.onnx"):
        onnx.save(model, name)
    Path("bad.onnx").write_text("no model")


@pytest.mark.filterwarnings("default")  # dask's own
def test_the_command_runs_on_a_cluster(cluster: AnyValue) -> None:
    address = cluster.scheduler_address
    result = CliRunner().invoke(
        app, ["optimize", "a.onnx", "bad.onnx", "b.onnx", "-o", "out", "--cluster", address], env={"COLUMNS": "200"}
    )
    assert result.exit_code == 1
    assert sorted(line.split(",")[-1] for line in result.stdout.splitlines()) == [" written to out/a.onnx", " written to out/b.onnx"]
    assert "bad.onnx is not an ONNX model" in result.stderr
    assert len(onnx.load("out/a.onnx").graph.node) == 1


@pytest.mark.filterwarnings("default")
def test_a_client_is_an_executor(cluster: AnyValue) -> None:
    with cluster.get_client() as client:
        first, second = passat.optimize_many(["a.onnx", "bad.onnx"], executor=client, verify=False)
    assert first.report is not None
    assert first.report.node_count_after == 1
    assert "is not an ONNX model" in str(second.error)


# ---- jobs whose worker is killed

KILLS = """
import os, signal, time, uuid
from pathlib import Path
from passat.passmgr import module_pass, register_pass
from passat.rules import *

STARTS = Path(__file__).parent / "starts"
STARTS.mkdir(exist_ok=True)

def started(name):
    # Kills the process at the first start of `killed`, and at each start of `fatal`.
    first = not list(STARTS.glob(f"{name}.*"))
    (STARTS / f"{name}.{uuid.uuid4().hex}").touch()
    if name == "fatal" or (name == "killed" and first):
        time.sleep(2)  # dask does not replace a worker that ends while it starts
        os.kill(os.getpid(), signal.SIGKILL)

@register_pass("Starts", override=True)
@module_pass(opt_level=0, name="Starts")
def starts(mod, ctx):
    text = str(mod)
    started("killed" if "exp" in text else "fatal" if "tanh" in text else "plain")
    return mod

@guard
def starts_killed(x):
    if "Mine" in globals():
        started("killed")
    return True

@guard
def starts_fatal(x):
    if "Mine" in globals():
        started("fatal")
    return True

x, y = tensors("x y")

class Mine(RuleSet):
    plain = op.negative(op.negative(x)) >> x
    killed = (op.nn.relu(op.nn.relu(x)) >> op.nn.relu(x)).when(starts_killed(x))
    wrong = x / 2 >> x * 0.25
    fatal = (op.abs(op.abs(x)) >> op.abs(x)).when(starts_fatal(x))
    loops = x + y >> y + x
"""


@pytest.fixture
def kills() -> str:
    Path("kills.py").write_text(KILLS)
    return "kills.py"


@pytest.mark.filterwarnings("default")
def test_models_whose_worker_is_killed_run_again(cluster: AnyValue, kills: str) -> None:
    names = [f"{number}.onnx" for number in range(6)]
    for name, operator in zip(names, ["Neg", "Abs", "Exp", "Relu", "Tanh", "Sigmoid"], strict=True):
        body = f"a = Neg(x) b = Neg(a) y = {operator}(b)"
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g (float[n] x) => (float[n] y) {{ {body} }}')
        onnx.save(model, name)
    options: dict[str, AnyValue] = {"rules": kills, "passes": "Starts, SimplifyExpr", "verify": False}
    with cluster.get_client() as client:
        found = passat.optimize_many(names, output="out", executor=client, **options)
    assert [one.source for one in found] == names
    assert [one.source for one in found if one.error is not None] == ["4.onnx"]
    assert str(found[4].error).startswith("4.onnx: the executor has lost the job: KilledWorker: ")
    assert [one.report.node_count_after for one in found if one.report] == [1] * 5
    assert sorted(path.name for path in Path("out").iterdir()) == [name for name in names if name != "4.onnx"]


@pytest.mark.filterwarnings("default")
def test_rules_whose_worker_is_killed_are_checked_again(cluster: AnyValue, kills: str) -> None:
    chosen = [option for name in ("plain", "killed", "wrong", "loops") for option in ("--rule", f"Mine.{name}")]
    command = ["rules", "check", kills, "--instances", "20", "--json"]
    there = CliRunner().invoke(app, [*command, *chosen, "--cluster", cluster.scheduler_address])
    assert len(list(Path("starts").glob("killed.*"))) > 1, there.stderr  # otherwise the next line kills this process
    here = CliRunner().invoke(app, [*command, *chosen])  # `killed` has started before
    assert (here.exit_code, there.exit_code) == (1, 1)
    assert json.loads(there.stdout) == json.loads(here.stdout)
    assert [row["verdict"] for row in json.loads(here.stdout)] == ["sound", "sound", "rejected", "rejected"]
    lost = CliRunner().invoke(app, [*command, "--cluster", cluster.scheduler_address])
    rows = json.loads(lost.stdout)
    assert [row["name"] for row in rows] == [f"Mine.{name}" for name in ("plain", "killed", "wrong", "fatal", "loops")]
    assert rows[3]["findings"][0]["text"].startswith("the executor has lost the job: KilledWorker: ")
    assert [row for row in rows if row["name"] != "Mine.fatal"] == json.loads(here.stdout)


@pytest.mark.filterwarnings("default")
def test_operators_are_measured_once_although_a_worker_is_killed(cluster: AnyValue) -> None:
    names = [f"{number}.onnx" for number in range(4)]
    for number, name in enumerate(names):  # four operators of its own each, and one that all have
        x = f"float[{50 + number}, 400]"
        body = "a = Relu(x) b = Relu(a) c = Exp(b) d = Tanh(c) y = Add(d, d) z = Sqrt(w)"
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g ({x} x, float[70] w) => ({x} y, float[70] z) {{ {body} }}')
        onnx.save(model, name)

    def optimized(folder: str, **options: AnyValue) -> tuple[list[int], list[str]]:
        """How many operators each model has measured, and which were measured altogether."""
        found = passat.optimize_many(names, cost=Measured(folder=Path(folder).absolute()), verify=False, **options)
        assert [one.error for one in found] == [None] * 4
        notes = [
            re.match(r"(\d+) operators measured .*, (\d+) from the cache, 0 estimated", one.report.cost_notes[0])
            for one in found
            if one.report
        ]
        counts = [(int(note[1]), int(note[2])) for note in notes if note]
        assert [sum(count) for count in counts] == [5] * 4
        return [new for new, _ in counts], [json.loads(line)[2] for line in Path(folder, FILE).read_text().splitlines() if line]

    with cluster.get_client() as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        client.wait_for_workers(2, timeout=60)
        victim, *_ = client.run(os.getpid).values()

        def kill() -> None:
            """Kills a worker after a few measurements."""
            file = Path("there", FILE)
            comes_true(lambda: file.exists() and len(file.read_text().split()) > 20)
            os.kill(victim, signal.SIGKILL)

        killing = pool.submit(kill)
        counts, keys = optimized("there", executor=client)
        killing.result()
    usual, all_keys = optimized("here")
    assert sorted(keys) == sorted(all_keys)  # none is lost, or measured again
    assert sum(usual) == len(keys) == 17
    assert 17 - 5 <= sum(counts) <= 17  # the rest was measured by the killed worker


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere"])
def test_a_cluster_that_is_not_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed; make cluster installs it")
    monkeypatch.setattr("passat.cluster.SECONDS", 0.5)
    with pytest.raises(ClusterError, match=f"no dask scheduler can be reached at {address}: "), connected(address):
        pass
