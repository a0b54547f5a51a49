"""Laws of instruments under exceptions at random points."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.module import IRModule
from passat.passmgr import PassContext, PassInfo, PassInstrument, PassTimingInstrument, Sequential, module_pass
from tests.share import share


class BoomError(Exception):
    """The exception that the tests raise."""


class Fragile(PassInstrument):
    """Counts its calls, and raises at those that the script names."""

    def __init__(self, fails: set[str]) -> None:
        self.fails = fails
        self.calls: Counter[str] = Counter()

    def _call(self, point: str) -> None:
        if point in self.fails:
            raise BoomError(point)
        self.calls[point] += 1

    def enter_pass_ctx(self) -> None:
        self._call("enter")

    def exit_pass_ctx(self) -> None:
        self.calls["exit"] += 1  # a call that raises is counted, too
        if "exit" in self.fails:
            raise BoomError("exit")

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        self._call("should")
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._call("before")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._call("after")

    def pass_failed(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        self._call("failed")


points = st.sets(st.sampled_from(["enter", "should", "before", "after", "failed", "pass", "exit"]), max_size=2)


@settings(max_examples=share(120, 300))
@given(st.lists(points, min_size=1, max_size=4), st.booleans())
def test_enter_and_exit_balance_and_the_stack_is_restored(scripts: list[set[str]], fails: bool) -> None:
    instruments = [Fragile(script) for script in scripts]
    before = PassContext.current()
    timing = PassTimingInstrument()

    @module_pass(opt_level=0)
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        if fails:
            raise BoomError("pass")
        return mod

    raised = False
    try:
        with PassContext(instruments=[*instruments, timing]):
            Sequential([body, body])(IRModule())
    except BoomError:
        raised = True
    assert PassContext.current() is before
    assert not timing._running.open
    used = {point for script in scripts for point in script}
    if not used & {"enter", "should", "before", "after", "exit"}:
        assert raised == fails
    for instrument in instruments:
        calls = instrument.calls
        assert calls["exit"] <= calls["enter"]
        if "exit" not in used:
            assert calls["exit"] == calls["enter"]
        if not instrument.fails & {"after", "failed"}:
            assert calls["after"] + calls["failed"] == calls["before"]
