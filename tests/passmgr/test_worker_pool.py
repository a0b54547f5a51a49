"""Worker processes: they run passes, are kept, and come to an end, whatever happens to them or to the program."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Constant, Function, var
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor
from passat.ir.text import astext
from passat.passmgr import PassContext, shutdown_workers
from tests.passmgr import sharing_passes as passes
from tests.passmgr.sharing_passes import chains
from tests.strategies import modules

HOME = Path(__file__).resolve().parents[2]
SETTINGS = {"passmgr.workers": 2, "passmgr.workers_from": 0}
WAIT = 60.0


@pytest.fixture(autouse=True, scope="module")
def workers() -> Iterator[None]:
    """Workers that can import the tests; none are left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HOME))
        yield
        shutdown_workers()


def processes(mod: IRModule) -> set[int]:
    with PassContext(config=SETTINGS):
        marked = passes.mark_process(mod)
    return {func.attrs["process"] for func in marked.functions.values()}


def gone(process: int) -> bool:
    """Whether a process ends in time. One that has ended and waits for its parent has ended."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_workers_are_other_processes_and_are_kept() -> None:
    first = processes(chains(12))
    assert os.getpid() not in first
    assert len(first | processes(chains(12))) <= 2
    shutdown_workers()
    assert all(map(gone, first))
    assert not first & processes(chains(12))


@settings(deadline=None, max_examples=15)
@given(modules())
def test_random_modules_give_the_same_with_workers(mod: IRModule) -> None:
    here = passes.double_even(mod)
    with PassContext(config=SETTINGS) as ctx:
        there = passes.double_even(mod)
    assert_structural_equal(here, there, sharing=True)
    assert astext(here) == astext(there)
    assert not ctx.statistics.remarks.get("double_even") or "workers" not in str(ctx.statistics.remarks)


def test_exceptions_come_back() -> None:
    with PassContext(config=SETTINGS), pytest.raises(KeyError) as caught:
        passes.raise_at_three(chains(8))
    assert caught.value.__notes__ == ["noted in the pass", "in the function pass raise_at_three, function @f3"]
    with PassContext(config=SETTINGS), pytest.raises(SystemExit) as left:
        passes.leave(chains(4))
    assert left.value.code == 3


def test_a_worker_that_is_killed_at_work() -> None:
    config = {**SETTINGS, "test.sharing": os.getpid()}
    with PassContext(config=config) as ctx:
        result = passes.die_in_workers(chains(5))
    assert [func.attrs["done"] for func in result.functions.values()] == [1] * 5
    assert set(ctx.statistics.remarks["die_in_workers"]) == {"ran in this process, not in workers: a worker process ended before its time"}
    assert os.getpid() not in processes(chains(5))


def test_a_worker_that_is_killed_between_runs() -> None:
    for process in processes(chains(12)):
        with contextlib.suppress(ProcessLookupError):  # the pool ends the others as soon as it notices
            os.kill(process, signal.SIGKILL)
        assert gone(process)
    with PassContext(config=SETTINGS):
        result = passes.double_even(chains(5))
    assert astext(result) == astext(passes.double_even(chains(5)))


def test_large_constants_lie_in_a_file_that_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    weights = Constant(Tensor.dense(np.arange(1 << 19, dtype=np.float32)))
    x = var("x", shape=(1 << 19,))
    mod = IRModule({f"f{i}": Function([x], x + weights) for i in range(4)})
    with PassContext(config=SETTINGS):
        result = passes.double_even(mod)
    assert result["f0"].body is not mod["f0"].body
    assert_structural_equal(result, passes.double_even(mod), sharing=True)
    shutdown_workers()
    assert list(tmp_path.iterdir()) == []


def test_a_pool_that_is_handed_in() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, PassContext(executor=pool, config={"passmgr.workers_from": 0}):
        marked = passes.mark_process(chains(6))
    assert len({func.attrs["process"] for func in marked.functions.values()} - {os.getpid()}) == 1


SLEEPING = """
import os, sys
from tests.passmgr import sharing_passes as passes
from passat.passmgr import PassContext
from passat.passmgr.workers.worker_pool import worker_pool

if __name__ == "__main__":
    with PassContext(config={"passmgr.workers": 2, "passmgr.workers_from": 0}):
        marked = passes.mark_process(passes.chains(12))
        print(*{func.attrs["process"] for func in marked.functions.values()}, flush=True)
        passes.sleep(passes.chains(4))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_program(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "script.py"
    script.write_text(SLEEPING)
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as program:
        assert program.stdout is not None
        started = [int(word) for word in program.stdout.readline().split()]
        assert started
        time.sleep(0.5)  # so that the tasks are under way
        if how is signal.SIGINT:
            os.killpg(program.pid, how)  # as a terminal does: the workers get it too
        else:
            program.send_signal(how)
        _, errors = program.communicate(timeout=WAIT)
    assert program.returncode == -how
    assert all(map(gone, started))
    if how is signal.SIGINT:
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert errors.count("Traceback") == 1


UNGUARDED = """
from tests.passmgr import sharing_passes as passes
from passat.passmgr import PassContext

with PassContext(config={"passmgr.workers": 2, "passmgr.workers_from": 0}) as ctx:
    passes.Scale()(passes.chains(3))
print(ctx.statistics.remarks)
"""


def test_a_script_without_a_guard_still_ends(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=environment, timeout=WAIT)
    assert done.returncode == 0
    assert done.stdout.count("a worker process ended before its time") == 1
    assert 'if __name__ == "__main__"' in done.stderr.replace("'", '"')
