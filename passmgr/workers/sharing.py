"""Function passes whose functions are shared out among processes, or threads: with the same outcome as one after the other.

It happens in contexts with the config option `passmgr.workers` (so many processes, at least 2, which are kept between runs) or with an
`executor` from `concurrent.futures` (a ThreadPoolExecutor gets the functions as they are, every other kind of executor pickled tasks).

* The whole module goes to each worker once, flat (`passat.ir.serialize`), constants as raw buffers in one file that all workers map.
  Only nodes that the pass made come back; they stand upon the module's own. A function that was left as it was stays the same object.
* Results, exceptions (of the first function of the module that raises, with its notes), counters and remarks are taken in the order
  of the module: as if it had been worked through in this process. Instruments see the pass from here; what it runs in a worker they
  do not.
* A pass has to be picklable, or registered under a name. What cannot travel, or breaks a worker (a process that is killed), is run
  in this process instead, and a remark says so. Where a cluster has tried a function on worker after worker, and all ended, the function
  stays as it was. A context with `diag_ctx` is served in this process as well, but for threads.

Sending a program costs about 10 us per expression, there and back. So this pays for passes that take much more than that (saturation
does, a peephole does not), and for modules with several functions of some size: those with fewer expressions than the option
`passmgr.workers_from` are worked through in this process.
"""

import os
import pickle
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Final, NamedTuple

from passat.ir.expr import Expr, Function, GlobalVar
from passat.ir.module import IRModule
from passat.ir.serialize import decode, module_state
from passat.passmgr.context import PassContext
from passat.passmgr.passes import FunctionPass, checked, functions_came_or_went, is_optimised
from passat.passmgr.workers.crew import Again, WorkerLostError, worker_ended
from passat.passmgr.workers.parcels import (
    Answer,
    CannotTravelError,
    Parcel,
    Refusal,
    Settings,
    StatisticsLog,
    Task,
    job_of,
    pack,
    remove,
    replay,
)
from passat.passmgr.workers.worker import attempt, work
from passat.passmgr.workers.worker_pool import WorkerPool, discard, hand_out, no_workers

_SHARES_PER_WORKER: Final = 4


class WorkerTraceback(Exception):
    """The traceback of an exception in a worker, as text: the cause of that exception here."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Failure(NamedTuple):
    """An exception, and the function that the pass was at; None where it is about the module."""

    var: GlobalVar | None
    error: Exception


def share_out(pass_: FunctionPass, mod: IRModule, ctx: PassContext) -> tuple[list[tuple[GlobalVar, Function]], Failure | None]:
    """The functions that a pass changes, in the order of the module, up to the first failure if there is one."""
    run = _Run(pass_, mod, ctx)
    workers = ctx.config.get("passmgr.workers", 0)
    if len(run.functions) < 2 or (ctx.executor is None and workers < 2):
        run.here(range(len(run.functions)))
    elif isinstance(ctx.executor, ThreadPoolExecutor) and type(ctx.executor).__name__ != "InterpreterPoolExecutor":
        run.in_threads(ctx.executor)
    elif ctx.diag_ctx is not None:
        run.stay("diagnostics are collected in this process")
    else:
        run.in_processes(workers or os.cpu_count() or 2)
    if run.failure is None and run.resized:
        run.failure = Failure(None, functions_came_or_went())
    return run.changed, run.failure


class _Run:
    """A pass over the functions of a module: what is done so far, in order."""

    def __init__(self, pass_: FunctionPass, mod: IRModule, ctx: PassContext) -> None:
        self.pass_, self.mod, self.ctx = pass_, mod, ctx
        self.every = list(mod.functions.items())
        self.functions = [
            (place, var, func) for place, (var, func) in enumerate(self.every) if is_optimised(func) and isinstance(func, Function)
        ]
        self.changed: list[tuple[GlobalVar, Function]] = []
        self.failure: Failure | None = None
        self.order: list[Expr] = []
        self._resized = False

    @property
    def resized(self) -> bool:
        """Whether functions were added or removed, here or in a worker."""
        return self._resized or len(self.mod.functions) != len(self.every)

    def stay(self, reason: str) -> None:
        """Runs all functions here, and says why."""
        self.say(reason)
        self.here(range(len(self.functions)))

    def say(self, reason: str) -> None:
        """Remarks that functions are run here, and why."""
        self.ctx.remark(self.pass_.info.name, f"ran in this process, not in workers: {reason}")

    def here(self, share: Sequence[int]) -> None:
        """Runs some of the functions in this process."""
        for number in share:
            _, var, func = self.functions[number]
            try:
                result = self.pass_.transform_function(func, self.mod, self.ctx)
                if result is not func:
                    self.changed.append((var, checked(result)))
            except Exception as error:
                self.failure = Failure(var, error)
                return

    def in_threads(self, executor: ThreadPoolExecutor) -> None:
        """Runs each function in some thread, with a context of its own. This thread takes what no other has begun when it is its turn: it
        may be one of the executor's itself, and the others as well wait for such runs."""
        settings = Settings.of(self.ctx)
        counted = self.ctx.statistics.copy()

        def one(func: Function) -> tuple[Function | None, Exception | None, StatisticsLog]:
            log = StatisticsLog(counted)
            ctx = settings.context(log)
            ctx.diag_ctx = self.ctx.diag_ctx
            result, error = ctx.run(attempt, self.pass_, func, self.mod, ctx)
            replay(log.entries, counted)
            return result, error, log

        futures = [executor.submit(one, func) for _, _, func in self.functions]
        try:
            for (_, var, func), future in zip(self.functions, futures, strict=True):
                result, error, log = one(func) if future.cancel() else future.result()
                replay(log.entries, self.ctx.statistics)
                if error is not None:
                    self.failure = Failure(var, error)
                    return
                if result is not None:
                    self.changed.append((var, result))
        finally:
            for future in futures:
                future.cancel()

    def in_processes(self, workers: int) -> None:
        """Runs shares of the functions in processes, or here where they cannot travel."""
        state, self.order = module_state(self.mod)
        if len(self.order) < self.ctx.get_config("passmgr.workers_from"):
            self.here(range(len(self.functions)))
            return
        executor = self.ctx.executor
        if executor is None and (reason := no_workers()):
            self.stay(reason)
            return
        try:
            job = job_of(self.pass_, Settings.of(self.ctx))
            module = pack(state, "the module", in_file=executor is None or isinstance(executor, ProcessPoolExecutor))
        except (CannotTravelError, OSError) as error:
            self.stay(str(error))
            return
        key = uuid.uuid4().hex
        shares = self.shares(workers * _SHARES_PER_WORKER)
        counters = self.ctx.statistics.copy().counters
        tasks = [Task(job, key, module, [self.functions[number][0] for number in share], counters) for share in shares]
        pool: WorkerPool | None = None
        futures: list[Future[bytes]] = []
        try:
            if executor is None:
                pool, futures = hand_out(workers, work, tasks)
            else:
                futures = [executor.submit(work, task) for task in tasks]
        except BaseException as error:
            remove(module)
            if not isinstance(error, (BrokenExecutor, OSError, AssertionError)):  # the last: a daemonic process may have no children
                raise
            self.stay(f"no worker can be started ({type(error).__name__}: {error})")
            return
        try:
            _remove_when_done(module, futures)
            self.gather(shares, tasks, futures, pool)
        except BaseException:  # Ctrl-C among them
            if pool is not None:
                discard(pool, broken=False)
            raise
        finally:
            if pool is not None:
                pool.withdraw(futures)
            else:
                for future in futures:
                    future.cancel()

    def gather(self, shares: list[range], tasks: list[Task], futures: list[Future[bytes]], pool: WorkerPool | None) -> None:
        """Takes the answers in order; runs here what was refused, or lost with a worker of a pool."""
        for share, task, future in zip(shares, tasks, futures, strict=True):
            answer: Answer | Refusal
            try:
                answer = pickle.loads(future.result())
                if pool is not None:
                    pool.has_answered()
            except (BrokenExecutor, CancelledError):
                if pool is not None:
                    discard(pool)
                answer = Refusal("a worker process ended before its time")
            except Exception as error:  # of the executor's own
                if worker_ended(error):
                    self.run_alone(share, task, futures)
                    if self.failure is not None:
                        return
                    continue
                answer = Refusal(f"the executor failed ({type(error).__name__}: {error})")
            if isinstance(answer, Refusal):
                self.say(answer.reason)
                self.here(share)
            else:
                self.take(share, answer)
            if self.failure is not None:
                return

    def run_alone(self, share: range, task: Task, futures: list[Future[bytes]]) -> None:
        """Runs functions that a cluster has given up, as worker after worker ended, one at a time: what shared a worker with the one to
        blame is done now, and that one stays as it was."""
        executor = self.ctx.executor
        assert executor is not None  # a pool breaks otherwise
        ended = [future for future in futures if not future.cancelled() and worker_ended(future.exception())]
        for number in share:
            place, var, _ = self.functions[number]
            try:
                if len(ended) == len(share) == 1:
                    raise WorkerLostError
                future = executor.submit(Again(work), task._replace(places=[place]))
                answer: Answer | Refusal = pickle.loads(future.result())
            except Exception:  # of the executor's own: it may be the function that ends workers, so it is not run here
                self.ctx.remark(
                    self.pass_.info.name, f"the function @{var.name_hint} stays as it was: worker processes ended while they ran it"
                )
                continue
            if isinstance(answer, Refusal):
                self.say(answer.reason)
                self.here([number])
            else:
                self.take(range(number, number + 1), answer)
            if self.failure is not None:
                return

    def take(self, share: range, answer: Answer) -> None:
        """Takes over what a worker did to a share."""
        for number, type_ in answer.types:
            if self.order[number]._checked_type is None:
                self.order[number]._checked_type = type_
        nodes = [] if answer.encoded is None else decode(answer.encoded, self.order)
        self._resized = self._resized or answer.resized
        for number, outcome in zip(share, answer.outcomes, strict=False):
            var = self.functions[number][1]
            if outcome.failed and outcome.error is None:  # it raises here what could not be brought here
                self.here([number])
                if self.failure is not None:
                    return
                self.say("a worker raised an exception that cannot be pickled")
                self.here(share[number - share.start + 1 :])
                return
            replay(outcome.entries, self.ctx.statistics)
            if outcome.error is not None:
                error: Exception = pickle.loads(outcome.error)
                error.__cause__ = WorkerTraceback(outcome.trace)
                self.failure = Failure(var, error)
                return
            if outcome.root is not None:
                assert answer.encoded is not None
                self.changed.append((var, checked(nodes[answer.encoded.roots[outcome.root]])))

    def shares(self, count: int) -> list[range]:
        """The functions in at most so many runs of about equal numbers of expressions."""
        wanted = {id(func) for _, _, func in self.functions}
        ends = {id(node): number for number, node in enumerate(self.order) if id(node) in wanted}
        last = len(self.functions) - 1
        shares: list[range] = []
        start = 0
        for number, (_, _, func) in enumerate(self.functions):
            if number == last or ends[id(func)] * count >= len(self.order) * (len(shares) + 1):
                shares.append(range(start, number + 1))
                start = number + 1
        return shares


def _remove_when_done(parcel: Parcel, futures: list[Future[bytes]]) -> None:
    lock = threading.Lock()
    left = len(futures)

    def done(_: Future[bytes]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = not left
        if last:
            remove(parcel)

    for future in futures:
        future.add_done_callback(done)
