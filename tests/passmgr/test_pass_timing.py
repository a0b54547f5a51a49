"""PassTimingInstrument: the rendering of the reference, the data, failures."""

import re
import threading

import pytest

from passat.ir.module import IRModule
from passat.passmgr import PassContext, PassTimingInstrument, Sequential, module_pass, render_times
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
        with pytest.warns(UserWarning, match="^no passes have been profiled, did you enable pass profiling\\?$"):
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


def test_threads_are_measured_apart(mod: IRModule) -> None:
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
