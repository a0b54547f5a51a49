"""Runs jobs in this process, in processes of this machine, or on an executor such as a dask cluster.

A job is a picklable callable with a name. Each job has one outcome: what it returned, or its error.
"""

import concurrent.futures
import contextlib
import math
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any as AnyValue
from typing import Final, Generic, Protocol, TypeVar

from passat.ir.long_words import text_of
from passat.ir.passat_error import PassatError

ResultT_co = TypeVar("ResultT_co", covariant=True)


class Job(Protocol[ResultT_co]):
    """What runs, here or in another process."""

    @property
    def name(self) -> str:
        """What the job works on, for messages."""

    def __call__(self) -> ResultT_co:
        """Runs the job."""


class Future(Protocol):
    """The result of a job that an executor may still be running."""

    def result(self) -> AnyValue:
        """Waits for the result. Raises the job's exception."""

    def cancel(self) -> object:
        """Prevents a job from starting; False if it is running."""

    def add_done_callback(self, function: AnyValue, /) -> object:
        """Calls a function with the future once the job is done."""


class Executor(Protocol):
    """Runs jobs: an executor of `concurrent.futures`, a `dask.distributed.Client`, or a similar object."""

    def submit(self, function: AnyValue, /, *args: AnyValue) -> Future:
        """Starts a job."""


class LostError(PassatError, RuntimeError):
    """The process of a job has ended, for example because memory ran out, or an executor has lost the job."""

    exit_code = 1


def run_jobs(
    jobs: Mapping[int, Job[ResultT_co]], *, processes: int = 1, executor: Executor | None = None
) -> Iterator[tuple[int, ResultT_co | Exception]]:
    """The outcomes of jobs with their numbers, in order of completion: results, or errors. The jobs run on an executor, in several
    processes, or one after the other in this process.

    An interruption starts no further jobs, waits for the running ones, and is then raised; a second one is raised immediately.
    """
    if executor is not None:
        for number, outcome in _run(executor, jobs):
            yield number, _missing(jobs[number], outcome) if isinstance(outcome, _ExecutorError) else outcome
    elif processes > 1:
        yield from _in_processes(processes, jobs)
    else:
        for number, job in jobs.items():
            yield number, _outcome(job)


def _outcome(job: Job[ResultT_co]) -> ResultT_co | Exception:
    try:
        return job()
    except Exception as error:  # of this job
        if interruption := hidden_interruption(error):
            raise interruption from None
        return error


def hidden_interruption(error: BaseException) -> KeyboardInterrupt | None:
    """The interruption that caused an error: Python 3.11 turns one that comes while a class is made, as in an import, into a
    RuntimeError."""
    cause = error.__cause__
    return cause if cause is None or isinstance(cause, KeyboardInterrupt) else hidden_interruption(cause)


def _elsewhere(job: Job[ResultT_co], submitted: float = math.inf) -> ResultT_co | Exception:
    """Runs a job in another process: Ctrl-C interrupts it, as in this process, and errors are converted to picklable ones. One that came
    to a process of a pool after the job was submitted interrupts it, too."""
    usual = signal.getsignal(signal.SIGINT)
    held = usual is _hold or signal.SIGINT in _blocked_signals()
    other = multiprocessing.parent_process() is not None and threading.current_thread() is threading.main_thread()
    between = (_hold if held else signal.SIG_IGN if usual is signal.SIG_IGN else None) if other else None
    try:
        if between is not None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _set_blocked_signals(_blocked_signals() - {signal.SIGINT})  # raises what came while this process started
            if _INTERRUPTED and _INTERRUPTED[-1] >= submitted:
                raise KeyboardInterrupt
        found = _outcome(job)
    except KeyboardInterrupt:
        if held:
            _INTERRUPTED.append(time.monotonic())
        return InterruptedError("interrupted")
    finally:
        if between is not None:
            signal.signal(signal.SIGINT, between)
    if not isinstance(found, Exception):
        return found
    try:
        pickle.loads(pickle.dumps(found))
    except Exception:  # any error of a user's class
        error = _SentError(f"{found}")
        error.exit_code = getattr(found, "exit_code", None)  # type: ignore[misc]  # of this one
        return error
    return found


_INTERRUPTED: Final[list[float]] = []
"""When a process of a pool was interrupted, in a job or between two: jobs that were submitted before do not run."""


def _hold(_number: int, _frame: FrameType | None) -> None:
    _INTERRUPTED.append(time.monotonic())


class _Sent(Generic[ResultT_co]):
    """A job for another process, which loads it when it runs it: a process that cannot load a job would end without its error."""

    def __init__(self, job: Job[ResultT_co]) -> None:
        self.name = job.name
        self._job: Job[ResultT_co] | bytes = job

    def __getstate__(self) -> dict[str, AnyValue]:
        return {"name": self.name, "_job": pickle.dumps(self._job)}

    def __call__(self) -> ResultT_co:
        """Runs the job. Raises LostError if it cannot be loaded."""
        if not isinstance(self._job, bytes):
            return self._job()
        try:
            job: Job[ResultT_co] = pickle.loads(self._job)
        except Exception as error:  # of a user's class
            if interruption := hidden_interruption(error):
                raise interruption from None
            raise LostError(
                f"{self.name}: another process cannot load the arguments: {type(error).__name__}: {error}; classes and functions must "
                'belong to a module that it can import, or in a script be defined before `if __name__ == "__main__":`'
            ) from error
        return job()


class _SentError(PassatError, RuntimeError):
    """An error of a class that cannot be sent to another process. The message is the same."""


class _ExecutorError(Exception):
    """The error of an executor, not of a job. `started` is False for a job that the executor rejected."""

    def __init__(self, error: Exception, *, started: bool) -> None:
        super().__init__(error)
        self.error = error
        self.started = started


def _run(executor: Executor, jobs: Mapping[int, Job[ResultT_co]], most: int | None = None) -> Iterator[tuple[int, ResultT_co | Exception]]:
    """The outcomes of jobs on an executor, in order of completion, and an _ExecutorError for each job without one; at most `most` are
    submitted at a time."""
    done: queue.SimpleQueue[int] = queue.SimpleQueue()
    waiting: dict[int, Future] = {}
    pending = deque(jobs)
    interrupt: KeyboardInterrupt | None = None
    starting = _ignoring_interrupts if most is None else _holding_interrupts
    while waiting or (pending and interrupt is None):
        try:
            while pending and interrupt is None and (most is None or len(waiting) < most):
                number = pending.popleft()
                try:
                    with starting():  # processes that are started now must not end with a traceback
                        waiting[number] = executor.submit(_elsewhere, jobs[number], *([] if most is None else [time.monotonic()]))
                except Exception as error:
                    yield number, _ExecutorError(error, started=False)
                    continue
                waiting[number].add_done_callback(lambda _, number=number: done.put(number))
            if not waiting:  # the executor takes no jobs
                continue
            number = done.get()
        except KeyboardInterrupt as error:
            if interrupt is not None:
                raise
            interrupt = error
            if most is not None and type(error) is not KeyboardInterrupt:  # Ctrl-C goes to all processes, SIGTERM to one
                _interrupt_children()
            waiting = {number: future for number, future in waiting.items() if future.cancel() is False}
            for number, running in waiting.items():  # the number that was taken when the interruption came is lost
                running.add_done_callback(lambda _, number=number: done.put(number))
            continue
        future = waiting.pop(number, None)
        if future is None:  # it was not started
            continue
        try:
            yield number, future.result()
        except Exception as error:
            yield number, _ExecutorError(error, started=True)
    if interrupt is not None:
        raise interrupt


def _interrupt_children() -> None:
    for child in multiprocessing.active_children():
        if child.pid is not None:
            with contextlib.suppress(OSError):
                os.kill(child.pid, signal.SIGINT)


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Ignores Ctrl-C, as do processes that an executor of a user starts meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextlib.contextmanager
def _holding_interrupts() -> Iterator[None]:
    """Holds Ctrl-C and SIGTERM back where they raise an error: it would leave a process that is half started. Processes that are started
    meanwhile hold Ctrl-C back until they run a job."""
    usual: dict[signal.Signals, Callable[[int, FrameType | None], AnyValue]] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                usual[number] = handler
    held: list[tuple[int, FrameType | None]] = []
    for number in usual:
        signal.signal(number, lambda *how: held.append(how))
    blocked = _blocked_signals()
    _set_blocked_signals(blocked | ({signal.SIGINT} & usual.keys()))
    try:
        yield
    finally:
        _set_blocked_signals(blocked)
        for number, handler in usual.items():
            signal.signal(number, handler)
        if held:
            usual[signal.Signals(held[0][0])](*held[0])


def _blocked_signals() -> set[int]:
    """The signals that the thread blocks; none on Windows."""
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, ())) if hasattr(signal, "pthread_sigmask") else set()


def _set_blocked_signals(numbers: set[int]) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, numbers)


def _in_processes(processes: int, jobs: Mapping[int, Job[ResultT_co]]) -> Iterator[tuple[int, ResultT_co | Exception]]:
    """The outcomes of jobs in processes of this machine. A process that ends also ends the others: the jobs that were running run again,
    each in a separate process, and the rest as before."""
    jobs = {number: _Sent(job) for number, job in jobs.items()}
    spawn, rest, lost = multiprocessing.get_context("spawn"), jobs, list[int]()
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # what starts it unblocks Ctrl-C
    while rest:
        before, unstarted = len(lost), dict[int, _ExecutorError]()
        most = min(processes, len(rest))
        with concurrent.futures.ProcessPoolExecutor(most, spawn) as pool:
            for number, found in _run(pool, rest, most):
                if not isinstance(found, _ExecutorError):
                    yield number, found
                elif not found.started:
                    unstarted[number] = found
                elif isinstance(found.error, concurrent.futures.BrokenExecutor):
                    lost.append(number)
                else:
                    yield number, found.error
        rest = {number: jobs[number] for number in unstarted}
        if len(lost) == before:  # nothing was running: there can be no processes
            for number, found in unstarted.items():
                yield number, LostError(f"{jobs[number].name}: no process can be started: {text_of(found.error)}")
            break
    for number in sorted(lost):
        with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool:
            for _, found in _run(pool, {number: jobs[number]}, 1):
                lost_again = LostError(f"{jobs[number].name}: its process has ended; there may not be enough memory")
                yield number, lost_again if isinstance(found, _ExecutorError) else found


def _missing(job: Job[object], found: _ExecutorError) -> LostError:
    """The error for a job whose outcome an executor does not have, such as one that has ended several workers of a cluster."""
    why = " ".join(str(found.error).split()) or "the executor was shut down, or its scheduler was lost"
    why = f"{type(found.error).__name__}: {why}"
    return LostError(f"{job.name}: the executor {'has lost' if found.started else 'does not take'} the job: {why}")
