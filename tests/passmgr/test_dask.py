"""Functions and regions on a cluster of dask's, of processes; one is killed in the middle."""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

from passat.ir.module import IRModule
from passat.ir.text import astext
from passat.passmgr import PassContext
from passat.rules.regions import regions
from passat.rules.rule_pass import RulePass
from tests.passmgr import sharing_passes as passes
from tests.passmgr.sharing_passes import chains
from tests.rules.regions import region_passes

distributed = pytest.importorskip("distributed", reason="dask's distributed is not installed (extra `remote`)")
HERE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    """A cluster of two processes, whose workers are started again where they end; a task is tried twice."""
    import dask

    environment = {region_passes.HOME: str(os.getpid()), "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)])}
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.nanny.pre-spawn-environ": environment,
        "distributed.worker.daemon": True,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor()


def context(executor: Executor, **config: object) -> PassContext:
    return PassContext(executor=executor, config={"passmgr.workers_from": 0, **config})


def test_functions_run_on_a_cluster(executor: Executor) -> None:
    mod = chains(7)
    with context(executor) as ctx:
        there = passes.double_even(mod)
    with PassContext() as alone:
        here = passes.double_even(chains(7))
    assert astext(there) == astext(here)
    assert ctx.statistics.to_dict() == alone.statistics.to_dict()
    with context(executor):
        marked = passes.mark_process(mod)
    processes = {func.attrs["process"] for func in marked.functions.values()}
    assert os.getpid() not in processes


def test_a_function_that_ends_workers_stays_as_it_was(executor: Executor) -> None:
    mod = chains(4)
    with context(executor, **{"test.sharing": os.getpid()}) as ctx:
        result = passes.die_at_two(mod)
    assert ["done" in func.attrs for func in result.functions.values()] == [True, True, False, True]
    assert result["f2"] is mod["f2"]
    assert list(ctx.statistics.remarks["die_at_two"]) == ["the function @f2 stays as it was: worker processes ended while they ran it"]


def test_a_region_that_ends_workers_stays_as_it_was(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "LEAST", 3)
    monkeypatch.setattr(regions, "WINDOW", 20)
    mod = IRModule.from_expr(region_passes.layers())
    plain, deadly = (RulePass([rules], name="Tried") for rules in (region_passes.Plain, region_passes.Deadly))
    with PassContext(config={"rules.region_nodes": 0}):
        here = plain(mod)
    with context(executor, **{"rules.region_nodes": 0}) as ctx:
        assert astext(plain(mod)) == astext(here)
        assert not ctx.statistics.remarks
        result = deadly(mod)
    (remark,) = ctx.statistics.remarks["Tried"]
    assert remark.startswith("a region of 6 nodes stays as it was: ")
    for kind in region_passes.KINDS:
        assert region_passes.negations(result["main"], kind) == [3 if kind == "tanh" else 1] * 3
