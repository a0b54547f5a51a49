"""Shared functions under attack: executors that are used from within, programs without a file, counters that passes ask for."""

import os
import subprocess
import sys
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import PassContext, function_pass
from passat.passmgr.workers import worker_pool
from tests.passmgr import sharing_passes as passes
from tests.passmgr.sharing_passes import chains
from tests.passmgr.test_sharing import Pickling, context

HOME = Path(__file__).resolve().parents[2]


@function_pass(opt_level=0, name="Budget")
def budget(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Works on three functions in all, and counts them."""
    if ctx.statistics.counters.get("Budget", {}).get("spent", 0) >= 3:
        return func
    ctx.record("Budget", "spent")
    return func.with_attr("done", 1)


def test_a_run_in_a_thread_of_its_own_executor_does_not_wait_for_itself() -> None:
    with ThreadPoolExecutor(1) as threads, PassContext(executor=threads) as ctx:
        result = threads.submit(ctx.wrap(lambda: passes.double_even(chains(4)))).result(timeout=60)
    assert len(result.functions) == 4


@pytest.mark.parametrize("executor", [Pickling(), ThreadPoolExecutor(1)])
def test_passes_see_what_was_counted_before(executor: Executor) -> None:
    ctx = context(executor)
    ctx.record("Budget", "spent", 2)
    with ctx:
        result = budget(chains(6))
    assert sum("done" in func.attrs for func in result.functions.values()) == 1
    assert ctx.statistics.counters["Budget"] == {"spent": 3}
    executor.shutdown()


PROGRAM = """
from tests.passmgr import sharing_passes as passes
from passat.passmgr import PassContext

with PassContext(config={"passmgr.workers": 2, "passmgr.workers_from": 0}) as ctx:
    passes.Scale()(passes.chains(4))
print(ctx.statistics.remarks, __file__)
"""


def test_a_program_from_a_pipe_has_workers() -> None:
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    done = subprocess.run([sys.executable, "-"], input=PROGRAM, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert (done.stdout, done.stderr) == ("{} <stdin>\n", "")


def test_workers_that_never_answer_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "_stillborn", [2, 2])
    with PassContext(config={"passmgr.workers": 2, "passmgr.workers_from": 0}) as ctx:
        passes.Scale()(chains(4))
    assert list(ctx.statistics.remarks["Scale"]) == [
        "ran in this process, not in workers: workers end before they do anything; "
        'does the script keep what it does under `if __name__ == "__main__":`?'
    ]
