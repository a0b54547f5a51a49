"""`passat optimize --cluster`, and dask's clients as executors. Skipped without dask.distributed (`make cluster`)."""

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


def test_without_dask_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = CliRunner().invoke(app, ["optimize", "a.onnx", "--cluster", "tcp://127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.stderr == ("error: a cluster needs dask.distributed, which is not installed: pip install 'passat[cluster]' installs it\n")


@pytest.fixture(scope="module")
def cluster() -> Iterator[AnyValue]:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed; make cluster installs it")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as made:
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


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", "tls://127.0.0.1:1"])
def test_a_cluster_that_is_not_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed; make cluster installs it")
    monkeypatch.setattr("passat.cluster.SECONDS", 0.5)
    with pytest.raises(ClusterError, match=f"no dask scheduler can be reached at {address}: "), connected(address):
        pass
