"""PassTimingInstrument and PassMemoryInstrument: time and memory of each pass, and of the passes inside it."""

import re
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from passat.ir.module import IRModule
from passat.passmgr import PassContext, PassMemoryInstrument, PassTimingInstrument, Sequential, module_pass, render_times
from passat.passmgr.inspection import resources


@module_pass(opt_level=0)
def one(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@module_pass(opt_level=0)
def bad(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("bad")


def test_render(mod: IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 10e-6, 40e-6, 40e-6, 50e-6, 60e-6, 60e-6, 100e-6])
    monkeypatch.setattr(resources, "perf_counter", lambda: next(ticks))
    with PassContext(instruments=[timing := PassTimingInstrument()]):
        Sequential([one, Sequential([], name="inner")])(mod)
        one(mod)
        text = timing.render()
        assert text == PassTimingInstrument.render()
    assert text == (
        "sequential: 60us [20us] (60.00%; 60.00%)\n"
        "\tone: 30us [30us] (30.00%; 50.00%)\n"
        "\tinner: 10us [10us] (10.00%; 16.67%)\n"
        "one: 40us [40us] (40.00%; 40.00%)\n"
    )
    assert [(time.name, round(time.seconds * 1e6), time.depth) for time in timing.timings] == [
        ("sequential", 60, 0),
        ("one", 30, 1),
        ("inner", 10, 1),
        ("one", 40, 0),
    ]


def test_rendering_after_the_context_is_left_warns(mod: IRModule) -> None:
    with PassContext(instruments=[timing := PassTimingInstrument()]):
        one(mod)
    for render in (timing.render, PassTimingInstrument.render):
        with pytest.warns(UserWarning, match="^no passes have been profiled, did you enable pass profiling\\? .*render_times"):
            assert render() == ""
    assert [time.name for time in timing.timings] == ["one"]


def test_times_can_be_rendered_after_the_context_is_left(mod: IRModule) -> None:
    with PassContext(instruments=[timing := PassTimingInstrument()]):
        Sequential([one, Sequential([one], name="inner"), one])(mod)
        one(mod)
        text = timing.render()
    assert render_times(timing.timings) == text
    assert [line.split(":")[0] for line in text.splitlines()] == ["sequential", "\tone", "\tinner", "\t\tone", "\tone", "one"]
    assert render_times([]) == ""


def test_rendering_inside_a_pass_is_an_error(mod: IRModule) -> None:
    @module_pass(opt_level=0)
    def render(mod: IRModule, ctx: PassContext) -> IRModule:
        PassTimingInstrument.render()
        return mod

    with (
        PassContext(instruments=[PassTimingInstrument()]),
        pytest.raises(RuntimeError, match=r"^cannot print pass profile while still in a pass!"),
    ):
        render(mod)


def test_a_pass_that_raises_is_unwound(mod: IRModule) -> None:
    with PassContext(instruments=[timing := PassTimingInstrument()]):
        with pytest.raises(KeyError):
            Sequential([one, bad, one])(mod)
        one(mod)
        assert re.sub(r"\d+(\.\d+)?", "N", timing.render()) == (
            "sequential: Nus [Nus] (N%; N%)\n\tone: Nus [Nus] (N%; N%)\n\tbad: Nus [Nus] (N%; N%)\none: Nus [Nus] (N%; N%)\n"
        )
    assert [(time.name, time.depth, time.failed) for time in timing.timings] == [
        ("sequential", 0, True),
        ("one", 1, False),
        ("bad", 1, True),
        ("one", 0, False),
    ]


def test_two_instruments_do_not_disturb_each_other(mod: IRModule) -> None:
    first, second = PassTimingInstrument(), PassTimingInstrument()
    with PassContext(instruments=[first, second]):
        one(mod)
    assert len(first.timings) == len(second.timings) == 1


def test_threads_are_measured_separately(mod: IRModule) -> None:
    timing = PassTimingInstrument()
    counts: list[int] = []

    def work(times: int) -> None:
        with PassContext(instruments=[timing]):
            for _ in range(times):
                one(mod)
        counts.append(len(timing.timings))

    for times in (1, 2, 3):
        thread = threading.Thread(target=work, args=(times,))
        thread.start()
        thread.join()
    assert counts == [1, 2, 3]
    assert timing.timings == []


def test_put_in_while_a_pass_runs(mod: IRModule) -> None:
    timing = PassTimingInstrument()

    @module_pass(opt_level=0)
    def swap(mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.override_instruments([timing])
        return one(mod)

    with PassContext(instruments=[PassTimingInstrument()]):
        swap(mod)
    assert [time.name for time in timing.timings] == ["one"]


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


@pytest.fixture(autouse=True)
def nothing_stays() -> object:
    yield
    kept.clear()
    assert not tracemalloc.is_tracing()
    assert resources._OPEN == {}


def in_mb(count: int | None) -> int:
    assert count is not None
    return round(count / MB)


def test_kept_and_peak_memory(mod: IRModule) -> None:
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


def test_without_tracing_the_process_size_is_reported(mod: IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, records = iter([10 * MB, 13 * MB]), iter([20 * MB, 20 * MB])
    monkeypatch.setattr(resources, "resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(resources, "record_bytes", lambda: next(records))
    with PassContext(instruments=[memory := PassMemoryInstrument()]):
        keeps(mod)
    assert memory.runs == [("keeps", 3 * MB, 0, None, None, 0, False, "")]
    assert memory.render() == "keeps: process +3.0 MiB, record +0 B\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the size of the process may not be known")
def test_the_size_of_the_process() -> None:
    assert MB < resources.resident_bytes() <= resources.record_bytes() + MB


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the size of the process may not be known")
def test_the_record_of_a_process_is_not_that_of_the_one_that_started_it() -> None:
    large = bytearray(b"x") * (300 * MB)
    code = "from passat.passmgr.inspection.resources import record_bytes; print(record_bytes())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert MB < int(done.stdout) < len(large)


def test_tracing_that_is_on_is_used_and_stays_on(mod: IRModule) -> None:
    tracemalloc.start()
    try:
        with PassContext(instruments=[memory := PassMemoryInstrument(trace=True)]):
            keeps(mod)
        assert tracemalloc.is_tracing()
        assert [in_mb(run.allocated) for run in memory.runs] == [4]
    finally:
        tracemalloc.stop()


def test_render_with_memory(mod: IRModule) -> None:
    memory = PassMemoryInstrument(trace=True)
    assert memory.render() == ""
    with PassContext(instruments=[memory]):
        Sequential([keeps])(mod)
    assert re.sub(r"[+-][\d.]+ [KMG]?i?B", "N", memory.render()) == (
        "sequential: allocated N, peak N; process N, record N\n\tkeeps: allocated N, peak N; process N, record N\n"
    )
    assert "keeps: allocated +4.0 MiB, peak +4.0 MiB" in memory.render()


def test_a_pass_that_raises_is_unwound_with_memory(mod: IRModule) -> None:
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
        peaks(mod)
    assert [run.name for run in memory.runs] == ["keeps", "peaks"]


def test_threads_are_measured_apart_with_memory(mod: IRModule) -> None:
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


def test_put_in_while_a_pass_runs_with_memory(mod: IRModule) -> None:
    memory = PassMemoryInstrument()

    @module_pass(opt_level=0)
    def swap(mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.override_instruments([memory])
        return keeps(mod)

    with PassContext():
        swap(mod)
    assert [run.name for run in memory.runs] == ["keeps"]
