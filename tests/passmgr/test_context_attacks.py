"""Contexts in unusual situations: interrupts in hooks, coroutines and generators, exits out of order, copies, subclasses, deep nesting."""

import asyncio
import contextlib
import copy
import pickle
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from passat.ir.module import IRModule
from passat.passmgr import PassContext, PassInfo, PassInstrument, PassTimingInstrument, Sequential, module_pass
from passat.passmgr.pass_info import Statistics


class Noisy(PassInstrument):
    """Records its calls, and raises or calls something there."""

    def __init__(self, log: list[str], name: str, at: str = "", action: Callable[[], object] | None = None) -> None:
        self.log, self.name, self.at, self.action = log, name, at, action

    def _hear(self, hook: str) -> bool:
        self.log.append(f"{self.name} {hook}")
        if hook == self.at and self.action is not None:
            self.action()
        return True

    def enter_pass_ctx(self) -> None:
        self._hear("enter")

    def exit_pass_ctx(self) -> None:
        self._hear("exit")

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return self._hear("should")

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._hear("before")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._hear("after")

    def pass_failed(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        self._hear("failed")


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@module_pass(opt_level=0)
def nothing(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@module_pass(opt_level=0)
def broken(mod: IRModule, ctx: PassContext) -> IRModule:
    raise ValueError("broken")


@pytest.mark.parametrize("at", ["enter", "exit", "should", "before", "after", "failed"])
@pytest.mark.parametrize("error", [ValueError("in a hook"), KeyboardInterrupt("in a hook")])
def test_an_error_of_a_hook_leaves_the_context_and_closes_instruments(at: str, error: BaseException) -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[Noisy(log, "a"), Noisy(log, "b", at, raising(error)), Noisy(log, "c")])
    with pytest.raises((ValueError, KeyboardInterrupt)), ctx:
        (broken if at == "failed" else nothing)(IRModule())
    assert PassContext.entered() is None
    opened = [line.split()[0] for line in log if line.endswith("before") and not (at == "before" and line == "b before")]
    closed = [line.split()[0] for line in log if line.endswith((" after", " failed"))]
    assert sorted(opened) == sorted(closed)


def test_an_interrupt_while_instruments_are_taken_back() -> None:
    log: list[str] = []
    interrupt = KeyboardInterrupt()
    ctx = PassContext(
        instruments=[Noisy(log, "a"), Noisy(log, "b", "exit", raising(interrupt)), Noisy(log, "c", "enter", raising(ValueError("first")))]
    )
    with pytest.raises(KeyboardInterrupt) as caught, ctx:
        raise AssertionError("the context is not entered")
    assert caught.value is interrupt
    assert isinstance(caught.value.__context__, ValueError)
    assert log == ["a enter", "b enter", "c enter", "b exit", "a exit"]
    assert ctx.instruments == ()


def test_an_interrupt_in_pass_failed_does_not_keep_the_others_from_hearing() -> None:
    log: list[str] = []
    with (
        pytest.raises(KeyboardInterrupt),
        PassContext(instruments=[Noisy(log, "a", "failed", raising(KeyboardInterrupt())), Noisy(log, "b")]),
    ):
        broken(IRModule())
    assert log[-4:] == ["a failed", "b failed", "a exit", "b exit"]


def test_interleaved_coroutines_have_separate_contexts() -> None:
    async def one(level: int, turns: int) -> list[int]:
        seen = []
        with PassContext(level, inherit=True) as ctx:
            for _ in range(turns):
                await asyncio.sleep(0)
                seen.append(PassContext.current().opt_level)
                assert PassContext.current() is ctx
            assert ctx.disabled_pass == ["FromOutside"]
        return seen

    async def many() -> list[list[int]]:
        return await asyncio.gather(*(one(level, 9 - level) for level in range(5)))

    with PassContext(disabled_pass=["FromOutside"]) as outer:
        seen = asyncio.run(many())
        assert PassContext.current() is outer
    assert seen == [[level] * (9 - level) for level in range(5)]


def test_a_context_that_another_task_has_entered_cannot_be_left() -> None:
    async def leave(ctx: PassContext) -> None:
        ctx.__exit__(None, None, None)

    async def enter(ctx: PassContext) -> None:
        ctx.__enter__()

    async def main() -> None:
        ctx = PassContext()
        await asyncio.create_task(enter(ctx))
        assert PassContext.entered() is None
        with pytest.raises(RuntimeError, match=r"^exited a PassContext that is not entered in this thread or asyncio task$"):
            await asyncio.create_task(leave(ctx))

    asyncio.run(main())


def test_a_generator_that_yields_inside_of_a_context_leaves_no_trace() -> None:
    log: list[str] = []

    def generator() -> Generator[None, None, None]:
        with PassContext(1):
            yield

    held = generator()
    with (
        pytest.raises(
            RuntimeError,
            match="exited a PassContext that is not the innermost one entered in this thread; do not yield inside it in a generator",
        ),
        PassContext(4, instruments=[Noisy(log, "outer")]),
    ):
        next(held)
    assert log == ["outer enter", "outer exit"]
    assert PassContext.current().opt_level == 1
    held.close()
    assert PassContext.entered() is None


def test_threads_begin_with_no_context() -> None:
    seen: list[PassContext | None] = []
    with PassContext(3):
        thread = threading.Thread(target=lambda: seen.append(PassContext.entered()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_ten_thousand_contexts() -> None:
    with contextlib.ExitStack() as stack:
        contexts = [stack.enter_context(PassContext(level % 5, inherit=True)) for level in range(10_000)]
        assert PassContext.current() is contexts[-1]
    assert PassContext.entered() is None


@pytest.mark.parametrize("at", ["enter", "exit"])
def test_instruments_cannot_be_replaced_while_they_are_entered_or_left(at: str) -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[Noisy(log, "a", at, lambda: ctx.override_instruments([]))])
    text = r"^the instruments of a PassContext cannot be replaced while they are being entered or exited$"
    with pytest.raises(RuntimeError, match=text), ctx:
        pass
    assert log == ["a enter"] if at == "enter" else ["a enter", "a exit"]
    assert PassContext.entered() is None
    ctx.override_instruments([Noisy(log, "b")])
    assert log[-1] == "b enter"


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda ctx: pickle.loads(pickle.dumps(ctx))])
@pytest.mark.parametrize("config", [{}, {"testing.immutable_module": True, "rules.disabled": ["A"]}])
def test_copies(how: Callable[[PassContext], PassContext], config: dict[str, Any]) -> None:
    ctx = PassContext(3, ["R"], ["D"], [Holds()], config)
    ctx.record("P", "runs", 2)
    ctx.remark("P", "said")
    ctx.remark("P", "said")
    copied = how(ctx)
    assert repr(copied) == repr(ctx)
    assert copied.statistics.to_dict() == ctx.statistics.to_dict()
    copied.config["rules.nodes"] = 1
    copied.disabled_pass.append("E")
    copied.record("P", "runs")
    assert (ctx.config, ctx.disabled_pass, ctx.statistics.counters) == (config, ["D"], {"P": {"runs": 2}})
    held = copied.instruments[0]
    assert isinstance(held, Holds)
    with copied:
        nothing(IRModule())
    assert held.passes == 1
    assert (held is ctx.instruments[0]) is (how is copy.copy)


class Holds(PassInstrument):
    passes = 0

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.passes += 1


def test_subclasses() -> None:
    class Named(PassContext):
        def __init__(self, name: str) -> None:
            super().__init__(3)
            self.name = name

    with Named("mine") as named:
        assert PassContext.current() is named
        nothing(IRModule())
    assert copy.copy(named).name == "mine"
    text = r"^Choosy overrides pass_enabled, which plans do not call; veto passes with an instrument's should_run$"
    with pytest.raises(TypeError, match=text):

        class Choosy(PassContext):
            def pass_enabled(self, info: PassInfo) -> bool:
                return False


def test_a_context_inside_another() -> None:
    log: list[str] = []
    outer = PassContext(4, ["R"], ["D"], [Noisy(log, "outer")], {"rules.nodes": 1, "rules.rounds": 2})
    inner = outer.inside(1, {"rules.nodes": 3}, [Noisy(log, "inner")])
    assert (inner.opt_level, inner.required_pass, inner.disabled_pass) == (1, ["R"], ["D"])
    assert inner.config == {"rules.nodes": 3, "rules.rounds": 2}
    assert outer.config["rules.nodes"] == 1
    with inner:
        nothing(IRModule())
    assert log == [
        "inner enter",
        *(f"{name} {hook}" for hook in ("should", "before", "after") for name in ("inner", "outer")),
        "inner exit",
    ]
    assert outer.inside().opt_level == 4
    assert outer.inside().statistics is not outer.statistics
    assert outer.inside(config={"testing.immutable_module": True}).hooks is not None
    again = inner.with_instruments()
    assert (again.opt_level, again.config, again.instruments) == (1, inner.config, ())
    with pytest.raises(TypeError, match="opt_level must be an integer"):
        outer.inside("3")  # type: ignore[arg-type]  # the mistake


def test_statistics_are_added() -> None:
    one, other = Statistics(), Statistics()
    for statistics in (one, other):
        statistics.record("P", "runs", 2)
        statistics.remark("P", "said")
    other.remark("Q", "said")
    one.add(other)
    assert one.to_dict() == {"counters": {"P": {"runs": 4}}, "remarks": {"P": {"said": 2}, "Q": {"said": 1}}}


@pytest.mark.parametrize("inside", ["outermost", "nested"])
def test_a_pass_that_leaves_or_enters_a_context_is_named(inside: str) -> None:
    def leaving(mod: IRModule, ctx: PassContext) -> IRModule:
        PassContext.current().__exit__(None, None, None)
        return mod

    def entering(mod: IRModule, ctx: PassContext) -> IRModule:
        PassContext(opt_level=1).__enter__()
        return mod

    for run, said in (
        (leaving, "the pass Odd left the PassContext that it ran in; use `with` inside of a pass"),
        (entering, "the pass Odd entered a PassContext that it did not leave; use `with` inside of a pass"),
    ):
        pipeline = Sequential([module_pass(run, opt_level=0, name="Odd")])
        with pytest.raises(RuntimeError) as caught, PassContext(opt_level=2, instruments=[PassTimingInstrument()]):
            (pipeline if inside == "outermost" else Sequential([pipeline]))(IRModule())
        assert str(caught.value) == said
        assert PassContext.entered() is None
