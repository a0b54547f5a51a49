"""The pools of worker processes that `passmgr.workers` asks for: made when first needed, kept between runs, gone when Python ends.

Workers are spawned, which is safe in programs with threads: each is a fresh Python (about half a second) that imports the main module
of the program. As everywhere with `multiprocessing`, a script that uses workers must therefore keep what it does under
`if __name__ == "__main__":`.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future
    from multiprocessing.connection import Connection


_T = TypeVar("_T")
_R = TypeVar("_R")


class WorkerPool:
    """Some worker processes, and the line by which they learn that they are to end: it closes, if by nothing else with this process."""

    def __init__(self, workers: int) -> None:
        import multiprocessing  # here, with all that it imports: few programs ask for workers
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")
        ear, self._line = context.Pipe(duplex=False)
        self.workers = workers
        self.executor = ProcessPoolExecutor(workers, context, _begin, (ear,))
        self.answered = False
        """Whether a worker has ever done anything."""
        self.aborted = False

    def submit(self, function: Callable[[_T], _R], tasks: Iterable[_T]) -> "list[Future[_R]]":
        """Hands out tasks; that starts workers where there are none."""
        with _LOCK, _importable_main(), _uninterrupted():
            return [self.executor.submit(function, task) for task in tasks]

    def has_answered(self) -> None:
        """Remembers that workers can be started here."""
        if not self.answered:
            self.answered = True
            _stillborn.clear()

    def withdraw(self, futures: "Iterable[Future[_R]]") -> None:
        """Cancels what has not been begun. Where the workers are being ended, the executor does so itself, and would stumble over futures
        that somebody else has cancelled."""
        for future in () if self.aborted else futures:
            future.cancel()

    def abort(self) -> None:
        """Ends the workers at once, whatever they are doing, those that are just starting as well."""
        self.aborted = True
        for process in list((getattr(self.executor, "_processes", None) or {}).values()):
            process.kill()  # ProcessPoolExecutor.kill_workers comes with Python 3.14
        self._line.close()
        self.executor.shutdown(wait=True, cancel_futures=True)  # what has been killed is not waited for long


def _begin(line: "Connection") -> None:
    """What a worker does first. Ctrl-C is for the process that runs the pipeline, which then ends its workers."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTIONS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()


def _end_with(line: "Connection") -> None:
    with contextlib.suppress(EOFError, OSError):
        line.recv_bytes()
    os._exit(1)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Has signals wait: a worker that is being started when an exception comes would be in nobody's list, and never end."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTIONS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _importable_main() -> Iterator[None]:
    """Keeps workers from importing a main module whose file does not exist, as where the program is read from a pipe."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if main is None or path is None or getattr(main, "__spec__", None) is not None or os.path.isfile(path):
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = path


def no_workers() -> str:
    """Why there is no point in starting workers: twice they have all ended without an answer. Else nothing."""
    if len(_stillborn) < _ATTEMPTS:
        return ""
    return 'workers end before they do anything; does the script keep what it does under `if __name__ == "__main__":`?'


_INTERRUPTIONS: Final = (signal.SIGINT, signal.SIGTERM)
_ATTEMPTS: Final = 2
_stillborn: Final[list[int]] = []
"""The sizes of the last pools, of which no worker ever answered."""
_LOCK: Final = threading.RLock()
_POOLS: Final[dict[tuple[int, int], WorkerPool]] = {}
"""By process, since a fork inherits the table but not the threads behind it, and by number of workers."""


def worker_pool(workers: int) -> WorkerPool:
    """The pool of so many workers, made where there is none."""
    with _LOCK:
        key = (os.getpid(), workers)
        pool = _POOLS.get(key)
        if pool is None:
            pool = _POOLS[key] = WorkerPool(workers)
        return pool


def hand_out(workers: int, function: Callable[[_T], _R], tasks: Sequence[_T]) -> "tuple[WorkerPool, list[Future[_R]]]":
    """Hands out tasks to the pool of so many workers; to a new one, where a worker has ended since the last time. Raises BrokenExecutor,
    OSError or AssertionError where no worker can be started."""
    from concurrent.futures import BrokenExecutor

    pool = worker_pool(workers)
    try:
        return pool, pool.submit(function, tasks)
    except BrokenExecutor:
        discard(pool)
        pool = worker_pool(workers)
        return pool, pool.submit(function, tasks)
    except KeyboardInterrupt:
        discard(pool, broken=False)
        raise


def discard(pool: WorkerPool, *, broken: bool = True) -> None:
    """Forgets a pool, and ends its workers at once. `broken` is whether they did so themselves."""
    with _LOCK:
        for key, known in list(_POOLS.items()):
            if known is pool:
                del _POOLS[key]
                if broken and not pool.answered:
                    _stillborn.append(pool.workers)
    pool.abort()


def abort_workers() -> None:
    """Ends all worker processes that `passmgr.workers` has started, whatever they are doing: for programs that are being interrupted."""
    with _LOCK:
        pools = [pool for (process, _), pool in _POOLS.items() if process == os.getpid()]
    for pool in pools:
        discard(pool, broken=False)


def shutdown_workers() -> None:
    """Ends all worker processes that `passmgr.workers` has started, when they have done what they are doing. Later runs start new ones.

    Nobody needs to call it: they end with the program.
    """
    with _LOCK:
        pools = [pool for (process, _), pool in _POOLS.items() if process == os.getpid()]
        _POOLS.clear()
        _stillborn.clear()
    for pool in pools:
        pool.executor.shutdown()
