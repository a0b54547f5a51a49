"""Each thread has its own contexts."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.module import IRModule
from passat.passmgr import PassContext, PassInfo, PassInstrument, Sequential, module_pass
from tests.share import share


def test_a_new_thread_has_its_own_default() -> None:
    seen: list[PassContext] = []

    def look() -> None:
        seen.extend([PassContext.current(), PassContext.current()])

    with PassContext(opt_level=4):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen[0] is seen[1]
    assert seen[0].opt_level == 2
    assert seen[0] is not PassContext.current()


def test_threads_have_separate_contexts() -> None:
    barrier = threading.Barrier(8)
    pipeline = Sequential(
        [module_pass(lambda mod, ctx: IRModule(attrs={"level": ctx.opt_level}), opt_level=i, name=f"P{i}") for i in range(8)]
    )

    def work(level: int) -> bool:
        ok = True
        for _ in range(20):
            with PassContext(opt_level=level) as ctx:
                barrier.wait(60)
                ok &= PassContext.current() is ctx
                ok &= pipeline(IRModule()).attrs == {"level": level}
                ok &= len(pipeline.plan().order) == level + 1
                barrier.wait(60)
                ok &= PassContext.current() is ctx
        return ok

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def level() -> int:
    return PassContext.current().opt_level


def test_nothing_is_carried_into_threads_unasked() -> None:
    with PassContext(opt_level=4), ThreadPoolExecutor(1) as pool:
        assert pool.submit(level).result() == 2


def test_a_context_is_carried_into_threads_and_pools() -> None:
    seen: list[PassContext] = []

    def look() -> None:
        seen.append(PassContext.current())

    with PassContext(opt_level=4) as ctx, ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ctx.wrap(pow), [2, 3], [3, 2])) == [8, 9]
        assert pool.submit(ctx.run, level).result() == 4
        assert pool.submit(level).result() == 2  # the context of the thread is unchanged
        thread = threading.Thread(target=ctx.wrap(look))
        thread.start()
        thread.join()
    assert seen == [ctx]


def test_run_hands_on_arguments_results_and_exceptions() -> None:
    def divide(a: int, *, by: int) -> float:
        return a / by

    ctx = PassContext()
    outside = PassContext.current()
    assert ctx.run(divide, 3, by=2) == 1.5
    wrapped = ctx.wrap(divide)
    assert wrapped.__name__ == "divide"
    with pytest.raises(ZeroDivisionError):
        wrapped(3, by=0)
    assert PassContext.current() is outside


def test_a_context_is_carried_at_any_depth_and_closed() -> None:
    ctx = PassContext(opt_level=1)

    def leave_open() -> int:
        PassContext(opt_level=3).__enter__()
        with PassContext(opt_level=0):
            return ctx.run(level)

    outside = PassContext.current()
    assert ctx.run(leave_open) == 1
    assert PassContext.current() is outside


def test_instruments_of_a_context_that_is_carried_run_but_are_not_entered() -> None:
    seen: list[str] = []

    class Watch(PassInstrument):
        def enter_pass_ctx(self) -> None:
            seen.append("enter")

        def exit_pass_ctx(self) -> None:
            seen.append("exit")

        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            seen.append(info.name)

    nothing = module_pass(lambda mod, ctx: mod, opt_level=0, name="nothing")
    with PassContext(instruments=[Watch()]) as ctx, ThreadPoolExecutor(1) as pool:
        pool.submit(ctx.run, nothing, IRModule()).result()
    assert seen == ["enter", "nothing", "exit"]


def test_threads_that_share_a_context_lose_no_counts() -> None:
    ctx = PassContext()

    def count() -> None:
        for _ in range(5000):
            PassContext.current().record("P", "n")
            PassContext.current().remark("P", "said")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(ctx.wrap(count)) for _ in range(4)]:
            done.result()
    assert ctx.statistics.counters == {"P": {"n": 20_000}}
    assert ctx.statistics.remarks == {"P": {"said": 20_000}}


@settings(max_examples=share(10, 20))
@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=2, max_size=4))
def test_nested_contexts_of_threads_do_not_mix(nests: list[list[int]]) -> None:
    barrier = threading.Barrier(len(nests))

    def nest(levels: list[int]) -> list[int]:
        seen = []
        with ExitStack() as stack:
            for opt_level in levels:
                stack.enter_context(PassContext(opt_level=opt_level))
                barrier.wait(60)
                seen.append(level())
            for _ in range(max(map(len, nests)) - len(levels)):
                barrier.wait(60)
        return [*seen, level()]

    with ThreadPoolExecutor(len(nests)) as pool:
        assert list(pool.map(nest, nests)) == [[*levels, 2] for levels in nests]
