"""PassMemoryInstrument: what passes allocate, in a tree; peaks of several instruments and nested passes; failures."""

import re
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from passat.ir.module import IRModule
from passat.passmgr import PassContext, PassMemoryInstrument, Sequential, module_pass
from passat.passmgr.inspection import resources

MB = 1 << 20
kept: list[object] = []


@module_pass(opt_level=0)
def keeps(mod: IRModule, ctx: PassContext) -> IRModule:
    kept.append(np.ones(4 * MB, "uint8"))
    return mod


@module_pass(opt_level=0)
def peaks(mod: IRModule, ctx: PassContext) -> IRModule:
    assert np.ones(8 * MB, "uint8").size
    return mod


@module_pass(opt_level=0)
def bad(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("bad")


@pytest.fixture(autouse=True)
def nothing_stays() -> object:
    yield
    kept.clear()
    assert not tracemalloc.is_tracing()
    assert resources._OPEN == {}


def in_mb(count: int | None) -> int:
    assert count is not None
    return round(count / MB)


def test_what_is_kept_and_what_was_needed(mod: IRModule) -> None:
    with PassContext(instruments=[memory := PassMemoryInstrument(trace=True)]):
        Sequential([keeps, peaks, keeps], name="all")(mod)
    assert [(run.name, in_mb(run.allocated), in_mb(run.peak), run.depth, run.failed) for run in memory.runs] == [
        ("all", 8, 12, 0, False),
        ("keeps", 4, 4, 1, False),
        ("peaks", 0, 8, 1, False),
        ("keeps", 4, 4, 1, False),
    ]


def test_instruments_do_not_hide_peaks_from_each_other(mod: IRModule) -> None:
    first, second = PassMemoryInstrument(trace=True), PassMemoryInstrument(trace=True)
    with PassContext(instruments=[first, second]):
        Sequential([peaks, Sequential([keeps])])(mod)
    for memory in (first, second):
        assert [in_mb(run.peak) for run in memory.runs] == [8, 8, 4, 4]


def test_without_tracing_there_is_the_size_of_the_process(mod: IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, records = iter([10 * MB, 13 * MB]), iter([20 * MB, 20 * MB])
    monkeypatch.setattr(resources, "resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(resources, "record_bytes", lambda: next(records))
    with PassContext(instruments=[memory := PassMemoryInstrument()]):
        keeps(mod)
    assert memory.runs == [("keeps", 3 * MB, 0, None, None, 0, False)]
    assert memory.render() == "keeps: process +3.0 MiB, record +0 B\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the size of the process may not be known")
def test_the_size_of_the_process() -> None:
    assert MB < resources.resident_bytes() <= resources.record_bytes() + MB


def test_tracing_that_is_on_is_used_and_stays_on(mod: IRModule) -> None:
    tracemalloc.start()
    try:
        with PassContext(instruments=[memory := PassMemoryInstrument(trace=True)]):
            keeps(mod)
        assert tracemalloc.is_tracing()
        assert [in_mb(run.allocated) for run in memory.runs] == [4]
    finally:
        tracemalloc.stop()


def test_render(mod: IRModule) -> None:
    memory = PassMemoryInstrument(trace=True)
    assert memory.render() == ""
    with PassContext(instruments=[memory]):
        Sequential([keeps])(mod)
    assert re.sub(r"[+-][\d.]+ [KMG]?i?B", "N", memory.render()) == (
        "sequential: allocated N, peak N; process N, record N\n\tkeeps: allocated N, peak N; process N, record N\n"
    )
    assert "keeps: allocated +4.0 MiB, peak +4.0 MiB" in memory.render()


def test_a_pass_that_raises_is_unwound(mod: IRModule) -> None:
    memory = PassMemoryInstrument(trace=True)
    with PassContext(instruments=[memory]):
        with pytest.raises(KeyError):
            Sequential([keeps, bad])(mod)
        peaks(mod)
    assert [(run.name, run.depth, run.failed) for run in memory.runs] == [
        ("sequential", 0, True),
        ("keeps", 1, False),
        ("bad", 1, True),
        ("peaks", 0, False),
    ]
    assert memory.render().count("(failed)") == 2


def test_entered_twice(mod: IRModule) -> None:
    memory = PassMemoryInstrument(trace=True)
    with PassContext(instruments=[memory]):
        with PassContext(instruments=[memory]):
            keeps(mod)
        assert tracemalloc.is_tracing()


def test_threads_are_measured_apart(mod: IRModule) -> None:
    memory = PassMemoryInstrument()
    names: list[list[str]] = []

    def work(times: int) -> None:
        with PassContext(instruments=[memory]):
            for _ in range(times):
                keeps(mod)
        names.append([run.name for run in memory.runs])

    threads = [threading.Thread(target=work, args=(times,)) for times in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, names)) == [1, 2, 3]
    assert memory.runs == []


def test_put_in_while_a_pass_runs(mod: IRModule) -> None:
    memory = PassMemoryInstrument()

    @module_pass(opt_level=0)
    def swap(mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.override_instruments([memory])
        return keeps(mod)

    with PassContext():
        swap(mod)
    assert [run.name for run in memory.runs] == ["keeps"]
