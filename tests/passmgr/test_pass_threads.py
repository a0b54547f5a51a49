"""Threads have contexts of their own."""

import threading
from concurrent.futures import ThreadPoolExecutor

from passat.ir.module import IRModule
from passat.passmgr import PassContext, Sequential, module_pass


def test_a_new_thread_sees_its_own_default() -> None:
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


def test_threads_do_not_see_each_other() -> None:
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
