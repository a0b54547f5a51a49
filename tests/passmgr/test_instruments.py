"""Instruments: order of calls, vetoes, exceptions at each point, overriding, the decorator."""

from typing import Any

import pytest

from passat.ir.module import IRModule
from passat.passmgr import ModulePass, PassContext, PassInfo, PassInstrument, Sequential, module_pass, pass_instrument, register_pass


class Recorder(PassInstrument):
    """Appends every call to a log that several instruments may share; raises or vetoes on request."""

    def __init__(self, label: str, log: list[str], fail: str = "", veto: tuple[str, ...] = ()) -> None:
        self.label, self.log, self.fail, self.veto = label, log, fail, veto

    def _call(self, point: str, info: PassInfo | None = None) -> None:
        self.log.append(f"{self.label}.{point}" + (f" {info.name}" if info else ""))
        if self.fail == point:
            raise ValueError(f"{self.label}.{point}")

    def enter_pass_ctx(self) -> None:
        self._call("enter")

    def exit_pass_ctx(self) -> None:
        self._call("exit")

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        self._call("should", info)
        return info.name not in self.veto

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._call("before", info)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._call("after", info)

    def pass_failed(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        self._call("failed", info)


def make(name: str, log: list[str], required: tuple[str, ...] = ()) -> ModulePass:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        log.append(name)
        return mod

    return module_pass(body, opt_level=1, name=name, required=required)


def failing(log: list[str]) -> ModulePass:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        log.append("P")
        raise KeyError("P")

    return module_pass(body, opt_level=1, name="P")


def test_order_of_calls(mod: IRModule) -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log), Recorder("b", log)]):
        make("P", log)(mod)
    assert log == [
        *("a.enter", "b.enter"),
        *("a.should P", "b.should P", "a.before P", "b.before P", "P", "a.after P", "b.after P"),
        *("a.exit", "b.exit"),
    ]


def test_all_are_asked_and_a_veto_returns_the_same_module(mod: IRModule) -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log, veto=("P",)), Recorder("b", log)]):
        assert make("P", log)(mod) is mod
    assert log == ["a.enter", "b.enter", "a.should P", "b.should P", "a.exit", "b.exit"]


def test_required_pass_of_the_context_is_not_asked_for(mod: IRModule) -> None:
    log: list[str] = []
    with PassContext(required_pass=["P"], instruments=[Recorder("a", log, veto=("P", "Q"))]):
        make("P", log)(mod)
        make("Q", log)(mod)
    assert log == ["a.enter", "a.before P", "P", "a.after P", "a.should Q", "a.exit"]


@pytest.mark.usefixtures("forgotten")
def test_instruments_see_sequentials_and_required_passes_which_can_be_vetoed(mod: IRModule) -> None:
    log: list[str] = []
    register_pass("R", make("R", log))
    pipeline = Sequential([make("P", log, ("R",)), Sequential([make("Q", log)], name="inner")])
    with PassContext(instruments=[Recorder("a", log, veto=("R", "inner"))]):
        pipeline(mod)
    assert log == [
        *("a.enter", "a.should sequential", "a.before sequential", "a.should R"),
        *("a.should P", "a.before P", "P", "a.after P", "a.should inner", "a.after sequential", "a.exit"),
    ]


def test_an_instrument_that_only_enters_costs_passes_nothing(mod: IRModule) -> None:
    class Enters(PassInstrument):
        def enter_pass_ctx(self) -> None:
            entered.append(1)

    entered: list[int] = []
    with PassContext(instruments=[Enters()]) as ctx:
        assert ctx.hooks is None
        make("P", [])(mod)
    assert entered == [1]


def test_current_is_the_outer_context_while_entering_and_leaving() -> None:
    seen: list[PassContext] = []

    class Look(PassInstrument):
        def enter_pass_ctx(self) -> None:
            seen.append(PassContext.current())

        def exit_pass_ctx(self) -> None:
            seen.append(PassContext.current())

    with PassContext() as outer, PassContext(instruments=[Look()]):
        pass
    assert seen == [outer, outer]


def test_a_context_entered_twice_enters_its_instruments_twice() -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[Recorder("a", log)])
    with ctx, ctx:
        pass
    assert log == ["a.enter", "a.enter", "a.exit", "a.exit"]


def test_failure_on_entering() -> None:
    log: list[str] = []
    names = [Recorder("a", log), Recorder("b", log), Recorder("c", log, fail="enter"), Recorder("d", log)]
    ctx = PassContext(instruments=names)
    before = PassContext.current()
    with pytest.raises(ValueError, match=r"c\.enter"), ctx:
        pytest.fail("the body runs")
    assert log == ["a.enter", "b.enter", "c.enter", "b.exit", "a.exit"]
    assert not ctx.instruments
    assert ctx.hooks is None
    assert PassContext.current() is before


def test_a_second_failure_while_entering_fails_becomes_a_note() -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[Recorder("a", log), Recorder("b", log, fail="exit"), Recorder("c", log, fail="enter")])
    with pytest.raises(ValueError, match=r"c\.enter") as caught, ctx:
        pytest.fail("the body runs")
    assert log == ["a.enter", "b.enter", "c.enter", "b.exit", "a.exit"]
    assert caught.value.__notes__ == ["and Recorder.exit_pass_ctx raised ValueError: b.exit"]


def test_failure_on_leaving_stops_the_rest_and_replaces_the_exception_of_the_body() -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[Recorder("a", log), Recorder("b", log, fail="exit"), Recorder("c", log)])
    before = PassContext.current()
    with pytest.raises(ValueError, match=r"b\.exit") as caught, ctx:
        raise KeyError("body")
    assert isinstance(caught.value.__context__, KeyError)
    assert log == ["a.enter", "b.enter", "c.enter", "a.exit", "b.exit"]
    assert not ctx.instruments
    assert PassContext.current() is before


@pytest.mark.parametrize(
    ("fail", "calls"),
    [
        ("should", ["a.should P", "b.should P"]),
        ("before", ["a.should P", "b.should P", "c.should P", "a.before P", "b.before P", "a.failed P"]),
        (
            "after",
            [
                *("a.should P", "b.should P", "c.should P", "a.before P", "b.before P", "c.before P"),
                *("P", "a.after P", "b.after P", "c.failed P"),
            ],
        ),
    ],
)
def test_failure_around_a_pass_propagates_and_keeps_the_instruments(mod: IRModule, fail: str, calls: list[str]) -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[Recorder("a", log), Recorder("b", log, fail=fail), Recorder("c", log)])
    with pytest.raises(ValueError, match=rf"b\.{fail}"), ctx:
        make("P", log)(mod)
    assert log == ["a.enter", "b.enter", "c.enter", *calls, "a.exit", "b.exit", "c.exit"]
    assert len(ctx.instruments) == 3


def test_failure_of_the_pass(mod: IRModule) -> None:
    log: list[str] = []
    with pytest.raises(KeyError) as caught, PassContext(instruments=[Recorder("a", log, fail="failed"), Recorder("b", log)]):
        failing(log)(mod)
    assert log == [
        *("a.enter", "b.enter", "a.should P", "b.should P", "a.before P", "b.before P", "P"),
        *("a.failed P", "b.failed P", "a.exit", "b.exit"),
    ]
    assert caught.value.__notes__ == ["in the module pass P", "and an instrument's pass_failed raised ValueError: a.failed"]


def test_on_the_default_context_nothing_is_called_when_a_pass_fails(mod: IRModule) -> None:
    log: list[str] = []
    ctx = PassContext.current()
    ctx.override_instruments([Recorder("a", log)])
    try:
        with pytest.raises(KeyError):
            failing(log)(mod)
        assert log == ["a.enter", "a.should P", "a.before P", "P", "a.failed P"]
    finally:
        ctx.override_instruments(None)
    assert log[-1] == "a.exit"
    assert not PassContext.current().instruments


def test_override_instruments(mod: IRModule) -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log)]) as ctx:
        ctx.override_instruments([Recorder("b", log)])
        make("P", log)(mod)
        ctx.override_instruments(None)
        make("Q", log)(mod)
    assert log == ["a.enter", "a.exit", "b.enter", "b.should P", "b.before P", "P", "b.after P", "b.exit", "Q"]
    assert not ctx.instruments


@pytest.mark.parametrize(("old", "new", "calls"), [("exit", "", ["a.exit"]), ("", "enter", ["a.exit", "b.enter", "c.enter", "b.exit"])])
def test_failure_while_overriding_leaves_no_instruments(old: str, new: str, calls: list[str]) -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log, fail=old)]) as ctx:
        with pytest.raises(ValueError, match=r"a\.exit|c\.enter"):
            ctx.override_instruments([Recorder("b", log), Recorder("c", log, fail=new)])
        assert not ctx.instruments
    assert log == ["a.enter", *calls]


def test_overriding_with_other_objects_changes_nothing() -> None:
    log: list[str] = []
    with PassContext(instruments=[Recorder("a", log)]) as ctx:
        with pytest.raises(TypeError, match="instruments must be a list of PassInstrument objects; 3 is not one"):
            ctx.override_instruments([3])  # type: ignore[list-item]  # the mistake
        assert log == ["a.enter"]
        assert len(ctx.instruments) == 1


def test_a_pass_that_changes_the_instruments_ends_under_the_new_ones(mod: IRModule) -> None:
    log: list[str] = []

    @module_pass(opt_level=0)
    def swap(mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.override_instruments([Recorder("b", log)])
        return mod

    with PassContext(instruments=[Recorder("a", log)]):
        swap(mod)
    assert log == ["a.enter", "a.should swap", "a.before swap", "a.exit", "b.enter", "b.after swap", "b.exit"]


def test_should_run_that_forgets_to_return(mod: IRModule) -> None:
    class Forgets(PassInstrument):
        def should_run(self, mod: IRModule, info: PassInfo) -> bool:
            return None  # type: ignore[return-value]  # the mistake

    with PassContext(instruments=[Forgets()]), pytest.raises(TypeError) as caught:
        make("P", [])(mod)
    assert str(caught.value).endswith("Forgets.should_run returned None for the pass P; it must return True or False")


def test_decorator_keeps_the_class_usable() -> None:
    class Base:
        def enter_pass_ctx(self) -> None:
            log.append("base")

    @pass_instrument
    class Derived(Base):
        """Documented."""

        def __init__(self, extra: str) -> None:
            self.extra = extra

        def enter_pass_ctx(self) -> None:
            super().enter_pass_ctx()
            log.append(self.extra)

    log: list[str] = []
    instrument: Any = Derived("extra")
    assert isinstance(instrument, PassInstrument)
    assert (repr(instrument), instrument.name, Derived.__doc__) == ("Derived", "Derived", "Documented.")
    with PassContext(instruments=[instrument]):
        assert log == ["base", "extra"]


def test_decorator_with_parentheses_on_a_derived_class_and_on_others() -> None:
    class Mine(PassInstrument):
        pass

    assert pass_instrument()(Mine) is Mine
    assert pass_instrument(Mine) is Mine
    with pytest.raises(TypeError, match=r"^pi_cls must be a class$"):
        pass_instrument(3)  # type: ignore[call-overload]  # the mistake


def test_an_instrument_may_name_itself() -> None:
    class Named(PassInstrument):
        def __init__(self) -> None:
            self.name = "mine"

    assert repr(Named()) == "mine"
