"""Bisection of a pipeline: finds the pass that makes a predicate of the module true."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from passat.ir.module import IRModule
from passat.ir.passat_error import PassatError
from passat.passmgr.context import PassContext
from passat.passmgr.debugging.executions import Execution, ExecutionTracker, function_of, show_error
from passat.passmgr.inspection.checks import KeptFunctionsCheck
from passat.passmgr.pass_info import PassInfo, Statistics
from passat.passmgr.passes import FunctionPass, Pass
from passat.passmgr.sequential import Sequential

Predicate: TypeAlias = Callable[[IRModule], object]
"""The predicate: True for a bad module, False for a good one, None if undecidable."""


class BisectError(PassatError, RuntimeError):
    """The bisection found nothing. The message gives the reason."""

    exit_code = 1


class AlreadyTrueError(BisectError):
    """The predicate is true for the input, so no pass makes it true."""


class NeverTrueError(BisectError):
    """The predicate is false for the result of the whole pipeline, so there is no pass to find."""


class PassRaisedError(BisectError):
    """A pass raised an exception, and exceptions do not count as true. `found` names the pass and the exception."""

    def __init__(self, message: str, found: str) -> None:
        super().__init__(message)
        self.found = found


class CannotTellError(BisectError):
    """The predicate is undecidable for the input or the result; `what` names which."""

    def __init__(self, message: str, what: str) -> None:
        super().__init__(message)
        self.what = what


class FlappingError(BisectError):
    """The predicate is not deterministic."""


@dataclass(frozen=True, eq=False)
class PassBisect:
    """The result of a bisection: `execution` is the first one that makes the predicate true.

    * `before` and `after` are the modules before and after it; `after` is None if the pass raised `error`.
    * `function` is the affected function, if it is known and unique.
    * If the predicate was undecidable for modules in between, there are several `candidates`; `execution` is the last one, and `before` the
      module before the first one.
    * `executions` are those of the whole pipeline (up to an exception), `calls` counts calls of the predicate.
    """

    execution: Execution
    before: IRModule
    after: IRModule | None
    function: str | None
    error: Exception | None
    candidates: tuple[Execution, ...]
    executions: tuple[Execution, ...]
    calls: int

    def __str__(self) -> str:
        if len(self.candidates) > 1:
            listed = ", ".join(f"{one.number} ({one.place})" for one in self.candidates)
            return f"one of the passes {listed}, of {len(self.executions)}: the check cannot tell between them"
        function = f", function @{self.function}" if self.function is not None else ""
        raised = f", which raised {show_error(self.error)}" if self.error else ""
        return f"pass {self.execution.number} of {len(self.executions)}, {self.execution.place}{function}{raised}"


def bisect_passes(
    pipeline: Pass,
    mod: IRModule,
    predicate: Predicate,
    ctx: PassContext | None = None,
    *,
    crashes: bool = False,
    confirm: bool = True,
) -> PassBisect:
    """Finds the first execution of a pipeline that makes a predicate true, in a logarithmic number of calls.

    The pipeline runs once, in a copy of `ctx` (by default the current context), and the module after each pass is kept. The predicate must
    be false for the input and true for the result. It is called for log2(n) of the n different modules in between and, with `confirm`,
    again for the two modules found. If it changes from false to true several times, any of these changes is found.

    With `crashes`, an exception in a pass counts as true; otherwise it raises BisectError.

    Raises AlreadyTrueError, NeverTrueError, FlappingError, BisectError. Exceptions of the predicate propagate.
    """
    ctx = PassContext.current() if ctx is None else ctx
    states = _Snapshots(pipeline, mod, ctx, crashes)
    asked = _Questions(states, predicate)
    if asked.about(0, "the input"):
        raise AlreadyTrueError("the input is bad already, before any pass ran")
    if not states.marks:
        raise NeverTrueError(f"no pass changes the module, so none makes it bad ({_count(len(states.executions))} ran)")
    if not asked.about(len(states.marks), "the result"):
        raise NeverTrueError(f"the result of the whole pipeline is good ({_count(len(states.executions))} ran)")
    low, high = first_true(len(states.marks), asked)
    if confirm:
        asked.again(low, expected=False)
        asked.again(high, expected=True)
    candidates = tuple(states.executions[mark - 1] for mark in states.marks[low:high])
    before, after, error = states.modules[low], states.modules[high], None
    assert before is not None  # a missing module counts as true
    execution = candidates[-1]
    function = None
    if after is None:
        error = states.error
        function = None if error is None else function_of(error)
    elif len(candidates) == 1:
        function = _changed_function(pipeline, ctx, execution, before, after, asked.ask)
    return PassBisect(execution, before, after, function, error, candidates, tuple(states.executions), asked.calls)


def first_true(count: int, ask: Callable[[int], bool | None]) -> tuple[int, int]:
    """Finds where answers change from false to true, from 0 (assumed false) to `count` (assumed true).

    The answer is None for all numbers between the two returned ones.

    >>> first_true(100, lambda number: number >= 42)
    (41, 42)
    """
    low, high = 0, count
    unknown: set[int] = set()
    while True:
        open_ = [number for number in range(low + 1, high) if number not in unknown]
        if not open_:
            return low, high
        middle = min(open_, key=lambda number: abs(2 * number - low - high))
        answer = ask(middle)
        if answer is None:
            unknown.add(middle)
        elif answer:
            high = middle
        else:
            low = middle


class _Keeper(ExecutionTracker):
    """Keeps the module after each execution. Modules share unchanged parts."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: list[IRModule] = []

    def execution_ends(self, mod: IRModule, execution: Execution) -> None:
        self.modules.append(mod)

    def execution_fails(self, mod: IRModule, execution: Execution, error: BaseException) -> None:
        self.modules[execution.number - 1 :] = [mod]  # if the exception is caught, the pass changed nothing


def _run(pipeline: Pass, mod: IRModule, ctx: PassContext, tracker: _Keeper) -> IRModule | Exception:
    """Runs a pipeline in a context like the given one, with another instrument. Returns its result, or the exception of a pass."""
    context = copy.copy(ctx)
    context.statistics = Statistics()
    context._install((*ctx.instruments, tracker, KeptFunctionsCheck()))
    if ctx is PassContext.current():
        context._own = (tracker,)  # the other instruments are entered already
    try:
        with context:
            return pipeline(mod)
    except Exception as error:
        if tracker.failed is None:
            raise  # raised by the pipeline itself or by an instrument, not by a pass
        return error


class _Snapshots:
    """The modules to test, kept from a run of the pipeline: the input, and one for each of `marks`, the numbers of the executions that
    produced a new module. The module of an execution that raised is None."""

    def __init__(self, pipeline: Pass, mod: IRModule, ctx: PassContext, crashes: bool) -> None:
        keeper = _Keeper()
        result = _run(pipeline, mod, ctx, keeper)
        self.error, self.executions = result if isinstance(result, Exception) else None, keeper.executions
        if self.error is not None and not crashes:
            last = self.executions[-1]
            found = f"pass {last.number} ({last.place}) raises {show_error(self.error)}"
            raise PassRaisedError(f"{found}; with crashes=True that counts as bad", found) from self.error
        self.marks: list[int] = []
        self.modules: list[IRModule | None] = [mod]
        latest = mod
        for execution, after in zip(self.executions, keeper.modules, strict=True):
            if after is not latest:
                self.marks.append(execution.number)
                self.modules.append(after)
                latest = after
        if self.error is not None:
            self.marks.append(self.executions[-1].number)
            self.modules.append(None)
        elif result is not latest:
            raise BisectError("the pipeline itself changes the module after its last pass; only changes of passes are bisected")


_ANSWERS: Final = {True: "bad", False: "good", None: "undecided"}


class _Questions:
    """Calls a predicate on states and counts the calls."""

    def __init__(self, states: _Snapshots, predicate: Predicate) -> None:
        self._states, self._predicate = states, predicate
        self.calls = 0

    def ask(self, mod: IRModule) -> bool | None:
        """The result of the predicate for a module."""
        self.calls += 1
        answer = self._predicate(mod)
        return None if answer is None else bool(answer)

    def __call__(self, state: int) -> bool | None:
        mod = self._states.modules[state]
        return True if mod is None else self.ask(mod)

    def about(self, state: int, what: str) -> bool:
        """The result for a state that must be decidable."""
        answer = self(state)
        if answer is None:
            raise CannotTellError(f"the check cannot tell whether {what} is bad: it returned None", what)
        return answer

    def again(self, state: int, expected: bool) -> None:
        """Repeats the question about a state. Raises FlappingError if the result differs."""
        states = self._states
        if states.modules[state] is None:
            return  # a run that raised cannot be repeated
        answer = self(state)
        if answer is not expected:
            place = (
                f"after pass {states.marks[state - 1]} ({states.executions[states.marks[state - 1] - 1].place})"
                if state
                else "about the input"
            )
            was, now = (_ANSWERS[one] for one in (expected, answer))
            raise FlappingError(f"the check is not deterministic: {place} it returned {was} first, then {now}")


def _changed_function(
    pipeline: Pass, ctx: PassContext, execution: Execution, before: IRModule, after: IRModule, ask: Callable[[IRModule], bool | None]
) -> str | None:
    """Finds the function whose change makes the predicate true. Among several, functions can only be tried separately for a function
    pass."""
    changed = [var for var, function in after.functions.items() if before.functions.get(var) is not function]
    if len(changed) == 1:
        return changed[0].name_hint
    if not changed or not _is_function_pass(pipeline, ctx, execution.info) or before.functions.keys() != after.functions.keys():
        return None

    def ask_mixed(count: int) -> bool | None:
        mixed = before.shallow_copy()
        mixed.functions.update((var, after.functions[var]) for var in changed[:count])
        return ask(mixed)

    low, high = first_true(len(changed), ask_mixed)
    return changed[low].name_hint if high - low == 1 else None


def _is_function_pass(pipeline: Pass, ctx: PassContext, info: PassInfo) -> bool:
    passes = [step.pass_ for step in pipeline.plan(ctx).walk()] if isinstance(pipeline, Sequential) else [pipeline]
    return any(isinstance(pass_, FunctionPass) for pass_ in passes if pass_.info is info)


def _count(executions: int) -> str:
    return "1 pass" if executions == 1 else f"{executions} passes"
