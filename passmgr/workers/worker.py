"""What a worker process does: it keeps passes and the last module, and transforms the functions that it is told to."""

import pickle
import traceback
from typing import Final

from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.ir.serialize import Encoded, decode_module, encode
from passat.ir.types import Type
from passat.passmgr.context import PassContext
from passat.passmgr.passes import FunctionPass, checked
from passat.passmgr.statistics import Statistics
from passat.passmgr.workers.parcels import (
    Answer,
    CannotTravelError,
    Outcome,
    Refusal,
    Settings,
    StatisticsLog,
    Task,
    dumps,
    read_job,
    replay,
    unpack,
)

_JOBS_KEPT: Final = 32
_JOBS: Final[dict[bytes, tuple[FunctionPass, Settings]]] = {}
_MODULES: "Final[dict[str, _Module]]" = {}


class _Module:
    """A module that came in a parcel, the numbering of its nodes, and which of these have no type."""

    def __init__(self, task: Task) -> None:
        self.module, self.order = decode_module(unpack(task.module))
        self.functions = list(self.module.functions.items())
        self.counted = Statistics()
        """What was counted in the context before, and here since then."""
        self.counted.counters = {name: dict(counters) for name, counters in task.counters.items()}
        self._untyped = [number for number, node in enumerate(self.order) if node._checked_type is None]

    def new_types(self) -> list[tuple[int, Type]]:
        """The types that nodes were given since the last time."""
        still: list[int] = []
        found: list[tuple[int, Type]] = []
        for number in self._untyped:
            type_ = self.order[number]._checked_type
            if type_ is None:
                still.append(number)
            else:
                found.append((number, type_))
        self._untyped = still
        return found


def attempt(pass_: FunctionPass, func: Function, mod: IRModule, ctx: PassContext) -> tuple[Function | None, Exception | None]:
    """Transforms a function: the new one, or None where it is the old one; or the exception. Raises CannotTravelError where the pass
    says so of itself."""
    try:
        result = pass_.transform_function(func, mod, ctx)
        return (None if result is func else checked(result)), None
    except CannotTravelError:
        raise
    except Exception as error:
        return None, error


def kept_job(packed: bytes) -> tuple[FunctionPass, Settings]:
    """What `job_of` packed, unpacked once. Raises what `read_job` raises."""
    job = _JOBS.get(packed)
    if job is None:
        job = read_job(packed)
        if len(_JOBS) >= _JOBS_KEPT:
            _JOBS.clear()
        _JOBS[packed] = job
    return job


def work(task: Task) -> bytes:
    """Runs a task; the pickled Answer, or Refusal where the task cannot be read or the results cannot be handed back."""
    try:
        job = kept_job(task.job)  # before the module, as it may import the operators that are in there
        module = _MODULES.get(task.key)
        if module is None:
            _MODULES.clear()
            module = _MODULES[task.key] = _Module(task)
    except Exception as error:
        reason = str(error) if isinstance(error, CannotTravelError) else f"{type(error).__name__}: {error}"
        return pickle.dumps(Refusal(f"a worker cannot read the task: {reason}"))
    try:
        return dumps(_answer(*job, module, task.places), "what the pass made")
    except CannotTravelError as error:
        return pickle.dumps(Refusal(str(error)))


def _answer(pass_: FunctionPass, settings: Settings, module: _Module, places: list[int]) -> Answer:
    outcomes: list[Outcome] = []
    roots: list[Expr] = []
    for place in places:
        func = module.functions[place][1]
        assert isinstance(func, Function)  # others are not sent
        log = StatisticsLog(module.counted)
        ctx = settings.context(log)
        result, error = ctx.run(attempt, pass_, func, module.module, ctx)
        replay(log.entries, module.counted)
        if error is not None:
            outcomes.append(_failure(error, log))
            break
        outcomes.append(Outcome(None if result is None else len(roots), log.entries))
        if result is not None:
            roots.append(result)
    encoded: Encoded | None = encode(roots, module.order)[0] if roots else None
    resized = len(module.module.functions) != len(module.functions)
    if resized:
        _MODULES.clear()
    return Answer(outcomes, encoded, module.new_types(), resized)


def _failure(error: Exception, log: StatisticsLog) -> Outcome:
    trace = "".join(traceback.format_exception(error))
    try:
        pickled = pickle.dumps(error)
        copy = pickle.loads(pickled)
        whole = type(copy) is type(error) and str(copy) == str(error)
    except Exception:  # of whatever exception a pass has raised: it raises it again where it is asked for
        whole = False
    return Outcome(None, log.entries, True, pickled if whole else None, trace)
