"""PassProgress: starts and ends, depths, and positions among all passes; with failures, vetoes and threads."""

import threading

import pytest

from passat.ir.module import IRModule
from passat.passmgr import InferType, PassContext, PassEvent, PassInfo, PassInstrument, PassProgress, Sequential, module_pass


@module_pass(opt_level=0)
def one(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@module_pass(opt_level=0)
def two(mod: IRModule, ctx: PassContext) -> IRModule:
    return one(mod)


@module_pass(opt_level=0, required=["InferType"])
def typed(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@module_pass(opt_level=0)
def bad(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("bad")


class Veto(PassInstrument):
    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return info.name != "one"


def run(mod: IRModule, pipeline: Sequential, *others: PassInstrument, plan: bool = True) -> list[PassEvent]:
    events: list[PassEvent] = []
    progress = PassProgress(events.append, pipeline.plan() if plan else None)
    with PassContext(instruments=[*others, progress]):
        pipeline(mod)
    return events


def begun(events: list[PassEvent]) -> list[tuple[str, int, int, int]]:
    return [(event.name, event.depth, event.number, event.planned) for event in events if event.kind == "begun"]


def test_planned_passes_are_numbered(mod: IRModule) -> None:
    events = run(mod, Sequential([typed, Sequential([two, one], name="inner"), one], name="all"))
    assert begun(events) == [
        ("all", 0, 0, 5),
        ("InferType", 1, 1, 5),
        ("typed", 1, 2, 5),
        ("inner", 1, 0, 5),
        ("two", 2, 3, 5),
        ("one", 3, 0, 5),  # two runs it
        ("one", 2, 4, 5),
        ("one", 1, 5, 5),
    ]
    assert sorted((event.name, event.depth, event.number) for event in events if event.kind == "finished") == sorted(
        (name, depth, number) for name, depth, number, _ in begun(events)
    )
    assert [event.pipeline for event in events[:2]] == [True, False]
    assert all(event.seconds > 0 for event in events if event.kind == "finished")


def test_progress_without_a_plan_has_no_numbers(mod: IRModule) -> None:
    assert begun(run(mod, Sequential([one]), plan=False)) == [("sequential", 0, 0, 0), ("one", 1, 0, 0)]


def test_vetoed_passes_are_skipped_in_the_count(mod: IRModule) -> None:
    assert begun(run(mod, Sequential([one, InferType(), one, two]), Veto())) == [
        ("sequential", 0, 0, 4),
        ("InferType", 1, 2, 4),
        ("two", 1, 4, 4),
    ]


def test_texts() -> None:
    assert str(PassEvent("begun", "P", 1, 2, 7)) == "running P (2 of 7)"
    assert str(PassEvent("failed", "P", 1, 0, 0)) == "failed P"


def test_a_pass_that_raises(mod: IRModule) -> None:
    events: list[PassEvent] = []
    pipeline = Sequential([one, bad, one])
    progress = PassProgress(events.append, pipeline.plan())
    with PassContext(instruments=[progress]):
        with pytest.raises(KeyError):
            pipeline(mod)
        one(mod)
    assert [(event.kind, event.name, event.depth) for event in events] == [
        ("begun", "sequential", 0),
        ("begun", "one", 1),
        ("finished", "one", 1),
        ("begun", "bad", 1),
        ("failed", "bad", 1),
        ("failed", "sequential", 0),
        ("begun", "one", 0),
        ("finished", "one", 0),
    ]


def test_errors_of_the_callback_end_the_pipeline(mod: IRModule) -> None:
    def stop(event: PassEvent) -> None:
        if event.kind == "begun" and event.name == "two":
            raise InterruptedError("enough")

    progress = PassProgress(stop)
    with PassContext(instruments=[progress]), pytest.raises(InterruptedError):
        Sequential([one, two, one])(mod)
    assert progress._running.open == []


def test_each_context_starts_from_the_beginning(mod: IRModule) -> None:
    events: list[PassEvent] = []
    pipeline = Sequential([one, one])
    progress = PassProgress(events.append, pipeline.plan())
    for _ in range(2):
        with PassContext(instruments=[progress]):
            pipeline(mod)
    assert [event.number for event in events if event.kind == "begun"] == [0, 1, 2, 0, 1, 2]


def test_threads_report_separately(mod: IRModule) -> None:
    events: list[PassEvent] = []
    pipeline = Sequential([one, one])
    progress = PassProgress(events.append, pipeline.plan())

    def work() -> None:
        with PassContext(instruments=[progress]):
            pipeline(mod)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(event.number for event in events if event.kind == "begun") == [0] * 4 + [1] * 4 + [2] * 4
    assert {event.depth for event in events} == {0, 1}
