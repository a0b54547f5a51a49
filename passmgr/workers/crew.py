"""Tasks for the workers of a context, each by itself: where one of them ends its worker, the others are done all the same.

A worker that ends takes with it what it was at, and often what was waiting for it; nobody can tell which of these tasks it was. So they
are done again one by one, with no other beside them: the task during which a worker ends once more is the one. It is given up, and not
done in this process, which might end as well.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from typing import Final, Generic, TypeVar

from passat.passmgr.context import PassContext
from passat.passmgr.workers.worker_pool import WorkerPool, discard, hand_out, no_workers

_T = TypeVar("_T")
_LOOK: Final = 0.1
"""Seconds after which to ask again whether to stop."""
Work = Callable[[bytes], bytes]


class NotDoneError(Exception):
    """A task was not done by the workers; this process may do it. The message says why."""


class WorkerLostError(Exception):
    """A worker ended while it was at a task, and another one again; or nobody waits for it any longer. The message says which."""


class Crew:
    """The workers that a context has: its executor, or so many processes."""

    def __init__(self, executor: Executor | None, workers: int = 0) -> None:
        self.executor = executor
        self.workers = max(workers, 2) if executor is None else workers or os.cpu_count() or 2

    @staticmethod
    def of(ctx: PassContext) -> "Crew | None":
        """Those of a context; None where it has none."""
        workers = ctx.config.get("passmgr.workers", 0)
        return Crew(ctx.executor, workers) if ctx.executor is not None or workers >= 2 else None


class Batch:
    """Tasks that have been handed out. `result` waits for one of them; `close` lets go of the rest.

    Nobody waits any longer once `stop` says so. Raises NotDoneError where there are no workers.
    """

    def __init__(self, crew: Crew, work: Work, tasks: Sequence[bytes], stop: Callable[[], bool]) -> None:
        self._executor, self._workers = crew.executor, crew.workers
        self._work, self._tasks, self._stop = work, tasks, stop
        self._lost: list[int] | None = None
        self._pool, self._futures = self._hand_out(work, tasks)

    def result(self, number: int) -> bytes:
        """What became of a task. Raises NotDoneError and WorkerLostError."""
        future = self._futures[number]
        if isinstance(self._executor, ThreadPoolExecutor) and future.cancel():
            return self._work(self._tasks[number])  # this may be the thread that it waits for
        if not self._is_lost(future, self._pool):
            return _answer(future)
        if self._lost is None:
            self._lost = [place for place, each in enumerate(self._futures) if self._is_lost(each, self._pool)]
        if len(self._lost) == 1 and (self._pool is None or self._pool.answered):
            raise WorkerLostError("a worker process ended before its time")
        return self._alone(number)

    def close(self, *, at_once: bool = False) -> None:
        """Withdraws what has not been begun; `at_once` ends also the workers that were started here, whatever they are doing."""
        if at_once and self._pool is not None:
            discard(self._pool, broken=False)
        if self._pool is not None:
            self._pool.withdraw(self._futures)
        else:
            for future in self._futures:
                future.cancel()

    def _hand_out(self, work: Work, tasks: Sequence[bytes]) -> tuple[WorkerPool | None, list[Future[bytes]]]:
        """Hands out tasks to the executor; where that is broken, as it then stays, to processes that are started here."""
        if self._executor is not None:
            futures: list[Future[bytes]] = []
            try:
                for task in tasks:
                    futures.append(self._executor.submit(work, task))  # noqa: PERF401  # those before a failure are to be cancelled
                return None, futures
            except BrokenExecutor:
                self._executor = None
            except Exception as error:  # of whatever kind of executor that is: shut down, cut off
                for future in futures:
                    future.cancel()
                raise NotDoneError(f"the executor takes no tasks ({type(error).__name__}: {error})") from error
        if reason := no_workers():
            raise NotDoneError(reason)
        try:
            return hand_out(self._workers, work, tasks)
        except (BrokenExecutor, OSError, AssertionError) as error:  # the last: a daemonic process may have no children
            raise NotDoneError(f"no worker can be started ({type(error).__name__}: {error})") from error

    def _is_lost(self, future: "Future[bytes]", pool: WorkerPool | None) -> bool:
        """Waits for a task; whether it ended with its worker."""
        while not future.done():
            if self._stop():
                raise WorkerLostError("interrupted")
            wait([future], _LOOK)
        lost = future.cancelled() or worker_ended(future.exception())
        if pool is not None:
            if lost:
                discard(pool)
            else:
                pool.has_answered()
        return lost

    def _alone(self, number: int) -> bytes:
        """Does a task again, with no other beside it."""
        begun = self._pool is None or self._pool.answered
        try:
            if self._executor is None:  # does a worker start at all?
                pool, (future,) = self._hand_out(_nothing, [b""])
                if self._is_lost(future, pool):
                    raise NotDoneError(no_workers() or "worker processes end before they do anything")
            pool, (future,) = self._hand_out(Again(self._work), [self._tasks[number]])
        except NotDoneError as error:
            if not begun:
                raise
            raise WorkerLostError(str(error)) from error
        if self._is_lost(future, pool):
            raise WorkerLostError("a worker process ended before its time, twice")
        return _answer(future)


def _answer(future: "Future[bytes]") -> bytes:
    error = future.exception()
    if error is not None:
        raise NotDoneError(f"{type(error).__name__}: {error}")
    return future.result()


class Again(Generic[_T]):
    """Work that is done once more: another function, as executors may keep what became of the first."""

    def __init__(self, work: Callable[[_T], bytes]) -> None:
        self._work = work

    def __call__(self, task: _T) -> bytes:
        """Does it."""
        return self._work(task)


def _nothing(task: bytes) -> bytes:
    return task


def worker_ended(error: BaseException | None) -> bool:
    """Whether an exception says that a worker has ended: one of `concurrent.futures`, or dask's, which need not be installed.

    >>> worker_ended(BrokenExecutor()), worker_ended(ValueError()), worker_ended(None)
    (True, False, False)
    """
    return isinstance(error, (BrokenExecutor, CancelledError)) or any(cls.__name__ == "KilledWorker" for cls in type(error).__mro__)
