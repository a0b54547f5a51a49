"""Sessions on workers of a dask cluster. Most are skipped without dask.distributed (`make cluster`)."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest
from typer.testing import CliRunner

import passat
from passat import relay, rpc
from passat.cli.app import app
from passat.cluster import WAIT, ClusterError
from passat.contrib import graph_executor
from passat.runtime.remote import RemoteArray
from tests.patience import comes_true

FUNCTIONS = """
import glob, os, time
from distributed import get_worker
from passat import register_func

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)

register_func("test.pid", os.getpid, override=True)
register_func("test.folders", lambda: tuple(glob.glob(get_worker().local_directory + "/passat-remote-*")), override=True)
register_func("test.sleep", time.sleep, override=True)
register_func("test.wait_for", wait_for, override=True)
register_func("test.add_to", lambda x: lambda y: x + y, override=True)
"""
pytestmark = pytest.mark.filterwarnings("default")  # dask's own


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("distributed", reason="dask.distributed is not installed; make cluster installs it")
    path = tmp_path_factory.mktemp("functions") / "functions.py"
    path.write_text(FUNCTIONS)
    return str(path)


@pytest.fixture(scope="module")
def server(functions: str) -> Iterator[rpc.Server]:
    with rpc.Server(key="small", preload=functions) as made:
        yield made


def test_functions_arrays_and_files(server: rpc.Server) -> None:
    with rpc.connect("127.0.0.1", server.port, key="small") as session:
        assert session.get_function("test.pid")() != os.getpid()
        assert session.get_function("test.add_to")(10)(12) == 22
        data = np.arange(6, dtype="float32").reshape(2, 3)
        array = passat.nd.array(data, session.cpu())
        assert isinstance(array, RemoteArray)
        np.testing.assert_array_equal(array.numpy(), data)
        session.upload(bytearray(b"abc"), "a.bin")
        assert session.download("a.bin") == bytearray(b"abc")
        with pytest.raises(rpc.RPCError, match="is not the name of a file"):
            session.download("../a")
        with pytest.raises(rpc.RPCError, match=r"^TypeError: "):
            session.get_function("test.sleep")("a")


def test_folders_end_with_sessions(server: rpc.Server) -> None:
    with rpc.connect(server.address) as session, rpc.connect(server.address) as other:
        folders = session.get_function("test.folders")

        def settled(count: int) -> bool:
            return comes_true(lambda: len(folders()) == count)

        assert settled(2)
        other.close()
        assert settled(1)


def test_servers_listen_on_this_computer_only(server: rpc.Server) -> None:
    psutil: AnyValue = pytest.importorskip("psutil")

    with rpc.connect(server.address) as session:
        processes = [psutil.Process(), psutil.Process(session.get_function("test.pid")())]
        listening = [each.laddr.ip for process in processes for each in process.net_connections() if each.status == psutil.CONN_LISTEN]
    assert len(listening) > 2
    assert set(listening) == {"127.0.0.1"}


def test_a_built_module_runs_on_the_worker(server: rpc.Server, tmp_path: Path) -> None:
    x = relay.var("x", shape=(1, 3))
    relay.build(relay.Function([x], x * relay.const(2.0)), target="numpy").export_library(tmp_path / "lib.so")
    with rpc.connect(server.address) as session:
        session.upload(tmp_path / "lib.so")
        module = graph_executor.GraphModule(session.load_module("lib.so")["default"](session.cpu()))
        module.run(x=np.array([[1, 2, 3]], "float32"))
        np.testing.assert_array_equal(module.get_output(0).numpy(), [[2, 4, 6]])
        assert module.module.time_evaluator("run", session.cpu(), number=2, repeat=3)().mean > 0


def test_the_scheduler_is_a_tracker(server: rpc.Server) -> None:
    with rpc.connect_tracker(server.address) as tracker:
        (entry,) = tracker.summary()["server_info"]
        assert (entry["key"], entry["addr"][0]) == ("server:small", "127.0.0.1")
        with pytest.raises(
            ClusterError, match=r"no worker .* has the resource 'large', and none has joined within 0.5 s; workers have small$"
        ):
            tracker.request("large", wait=0.5)


def test_sessions_without_a_key_share_workers(server: rpc.Server) -> None:
    with rpc.connect_tracker(server.address) as tracker, tracker.request("small") as first, rpc.connect(server.address) as second:
        first.upload(b"1", "a")
        with pytest.raises(rpc.RPCError, match="FileNotFoundError"):
            second.download("a")


# ---- leases


def queue(tracker: rpc.TrackerSession) -> tuple[int, int]:
    """Free workers and pending requests."""
    found = tracker.summary()["queue_info"]["small"]
    return found["free"], found["pending"]


def becomes(tracker: rpc.TrackerSession, free: int, pending: int) -> bool:
    return comes_true(lambda: queue(tracker) == (free, pending))


def test_a_worker_serves_one_session_with_its_key_at_a_time(server: rpc.Server) -> None:
    with rpc.connect_tracker(server.address) as tracker:
        assert becomes(tracker, 1, 0)
        first = tracker.request("small")
        assert queue(tracker) == (0, 0)
        begin = time.monotonic()
        with pytest.raises(
            ClusterError,
            match=r"^each worker .* with the resource 'small' has other sessions, and none has become free within 1 s; end a s",
        ):
            rpc.connect(server.address, key="small", wait=1)
        assert 1 <= time.monotonic() - begin < WAIT
        assert becomes(tracker, 0, 0)
        first.close()
        assert becomes(tracker, 1, 0)


def test_requests_wait_in_order(server: rpc.Server) -> None:
    order: list[int] = []
    with rpc.connect_tracker(server.address) as tracker, ThreadPoolExecutor(2) as pool:
        assert becomes(tracker, 1, 0)
        first = tracker.request("small")

        def serve(number: int) -> None:
            with tracker.request("small", wait=60):
                order.append(number)
                time.sleep(0.2)

        waiting = []
        for number in (1, 2):
            waiting.append(pool.submit(serve, number))
            assert becomes(tracker, 0, number)
        first.close()
        for each in waiting:
            each.result()
    assert order == [1, 2]


def test_a_running_request_holds_the_worker_beyond_its_session(server: rpc.Server) -> None:
    with rpc.connect_tracker(server.address) as tracker:
        assert becomes(tracker, 1, 0)
        begin = time.monotonic()
        session = tracker.request("small", session_timeout=0.5)
        with pytest.raises(rpc.RPCError, match="has not answered"):
            session.get_function("test.sleep")(4)
        with tracker.request("small", wait=60):
            assert time.monotonic() - begin > 4


def test_a_client_that_is_killed_releases_its_worker(server: rpc.Server) -> None:
    script = f"""
from passat import rpc

session = rpc.connect({server.address!r}, key="small")
print("connected", flush=True)
input()
"""
    with rpc.connect_tracker(server.address) as tracker:
        assert becomes(tracker, 1, 0)
        with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"connected\n"
            assert queue(tracker) == (0, 0)
            other.kill()
            with tracker.request("small", wait=60) as session:
                assert session.get_function("test.pid")() > 0


def test_requests_go_to_the_worker_that_is_free_first(functions: str) -> None:
    distributed: AnyValue = pytest.importorskip("distributed")
    options = {"resources": {"small": 1}, "preload": [functions], "dashboard_address": None, "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as made,
        rpc.connect_tracker(made.scheduler_address) as tracker,
        ThreadPoolExecutor(1) as pool,
    ):
        sessions = [tracker.request("small") for _ in range(2)]
        pids = [session.get_function("test.pid")() for session in sessions]
        assert len(set(pids)) == 2
        third = pool.submit(tracker.request, "small", wait=60)
        assert becomes(tracker, 0, 1)
        os.kill(pids[0], signal.SIGKILL)  # its session is lost, and the worker that replaces it has none
        with third.result() as session:
            assert session.get_function("test.pid")() not in pids
        for session in sessions:
            session.close()
        assert becomes(tracker, 2, 0)


# ---- lost workers and schedulers


def test_a_request_has_a_limit(server: rpc.Server, tmp_path: Path) -> None:
    with rpc.connect(server.address, session_timeout=1.5) as session:
        sleep, wait_for = (session.get_function(f"test.{name}") for name in ("sleep", "wait_for"))
        with pytest.raises(rpc.RPCError, match=r"has not answered within 1.5 s; open another session"):
            wait_for(str(tmp_path / "end"))
        (tmp_path / "end").touch()
        with pytest.raises(rpc.RPCError, match="has not answered"):
            sleep(0)


def test_a_killed_worker_is_an_error(functions: str) -> None:
    with rpc.Server(preload=functions) as server, rpc.connect(server.address) as session:
        array = passat.nd.array(np.ones(3), session.cpu())
        pid = session.get_function("test.pid")()
        (folder,) = session.get_function("test.folders")()
        sleep = session.get_function("test.sleep")
        killer = threading.Timer(1.0, os.kill, (pid, signal.SIGKILL))
        killer.start()
        begin = time.monotonic()
        with pytest.raises(rpc.RPCError, match=r"of the session is lost, with its arrays and files.*; open another session"):
            sleep(300)
        with pytest.raises(rpc.RPCError, match="of the session is lost"):
            array.numpy()
        assert time.monotonic() - begin < 300
        with rpc.connect(server.address) as other:  # on the worker that replaces it
            assert other.get_function("test.pid")() != pid
            assert not Path(folder).exists()


def test_a_lost_scheduler_is_an_error(functions: str) -> None:
    server = rpc.Server(preload=functions)
    with rpc.connect(server.address) as session:
        sleep = session.get_function("test.sleep")
        server.terminate()
        with pytest.raises(rpc.RPCError, match="is lost"):
            sleep(0)


# ---- certificates


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates `me`, issued by the authority `ca` as in docs/running.md, and `other`, which `ca` did not issue."""
    folder = tmp_path_factory.mktemp("certificates")
    new = ("openssl", "req", "-newkey", "rsa:2048", "-nodes")
    for name in ("ca", "other"):
        run(*new, "-x509", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem")
    run(*new, "-subj", "/CN=me", "-keyout", f"{folder}/me.key", "-out", f"{folder}/me.csr")
    by = ("-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key", "-CAcreateserial")
    run("openssl", "x509", "-req", "-in", f"{folder}/me.csr", *by, "-days", "2", "-out", f"{folder}/me.pem")
    return folder


def security(folder: Path, authority: str = "ca.pem", cert: str = "me.pem", key: str = "me.key") -> AnyValue:
    distributed: AnyValue = pytest.importorskip("distributed")
    each = {"cert": str(folder / cert), "key": str(folder / key)}
    roles = {f"tls_{role}_{part}": value for role in ("client", "scheduler", "worker") for part, value in each.items()}
    return distributed.Security(tls_ca_file=str(folder / authority), require_encryption=True, **roles)


@pytest.fixture(scope="module")
def encrypted(functions: str, certificates: Path) -> Iterator[rpc.Server]:
    with rpc.Server(preload=functions, security=security(certificates)) as made:
        yield made


def test_mutual_tls(encrypted: rpc.Server, certificates: Path) -> None:
    assert encrypted.address.startswith("tls://127.0.0.1:")
    with rpc.connect("127.0.0.1", encrypted.port, security=security(certificates)) as session:
        assert session.get_function("test.add_to")(1)(2) == 3


ENDED = "no dask scheduler can be reached at .*: it ended the connection, as a scheduler "


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cert": "other.pem", "key": "other.key"}, f"{ENDED}does that rejects this certificate"),
        ({"authority": "other.pem"}, "its certificate was not issued by the authority of tls_ca_file"),
        ({"key": "other.key"}, "the certificates .*/other.key cannot be used: .*mismatch"),
        ({"cert": "none.pem"}, "the certificates .*/none.pem, .* cannot be used: .*No such file"),
    ],
)
def test_wrong_certificates(encrypted: rpc.Server, certificates: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(ClusterError, match=f"^[^\n]*{said}[^\n]*$"):
        rpc.connect(encrypted.address, security=security(certificates, **options))


def test_no_certificates(encrypted: rpc.Server, server: rpc.Server, certificates: Path) -> None:
    with pytest.raises(ClusterError, match=r"^tls://.* needs certificates: set distributed.comm.tls in dask's configuration"):
        rpc.connect(encrypted.address)
    with pytest.raises(ClusterError, match=f"^{ENDED}with certificates does; its address begins with tls://"):
        rpc.connect("tcp://127.0.0.1", encrypted.port)
    with pytest.raises(ClusterError, match=f"^{ENDED}does that rejects this certificate, or has none of its own"):
        rpc.connect("tls://127.0.0.1", server.port, security=security(certificates))
    with pytest.raises(ClusterError, match=r"^security must be a distributed.Security, not \{\}$"):
        rpc.connect("127.0.0.1", server.port, security={})


def test_the_command_line_needs_certificates() -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed; make cluster installs it")
    result = CliRunner().invoke(app, ["optimize", "a.onnx", "b.onnx", "-o", "out", "--cluster", "tls://127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: tls://127.0.0.1:1 needs certificates: ")


@pytest.mark.parametrize(
    ("url", "port"), [("tcp://10.0.0.1:8786", None), ("10.0.0.1", 8786), ("example.com", 8786), ("", 1), ("ws://10.0.0.1:1", None)]
)
def test_other_computers_need_certificates(url: str, port: int | None) -> None:
    for connect in (rpc.connect, rpc.connect_tracker):
        with pytest.raises(ClusterError, match=r"is not encrypted, and all who reach a dask scheduler can run code"):
            connect(url, port)


def test_without_dask_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for make in (rpc.Server, lambda: rpc.connect("127.0.0.1", 1)):
        with pytest.raises(ClusterError, match=r"pip install 'passat\[cluster\]' installs it"):
            make()
