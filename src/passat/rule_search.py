"""Searches for the rules and rule applications that make a result bad, by running optimizations with some of them only."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeAlias

from passat.crash import FailureWatch
from passat.ir.module import IRModule
from passat.model_checks import Check
from passat.passmgr import PassContext, Sequential
from passat.passmgr.debugging.bisect import PassRaisedError, first_true
from passat.rules.engine.limits import interruptible
from passat.rules.engine.trace import Trace
from passat.rules.rule import Rule, equation_of
from passat.rules.rule_pass import RulePass

ALL: Final = 1 << 30
"""A number of applications that is never reached. Like any limit, it disables regions."""

AskRules: TypeAlias = Callable[[Sequence[str]], bool | None]
"""True if the result is bad with these rules alone; None if unknown."""
AskCount: TypeAlias = Callable[[int], bool | None]
"""True if the result is bad after this many applications; None if unknown."""


def smallest_set(rules: Sequence[str], ask: AskRules) -> list[str]:
    """A minimal subset of rules that is bad; all rules together are bad, and no rules are good.

    One guilty rule among n takes log2(n) + 1 questions. If several are only bad together, each of them takes one more than that.

    >>> asked = []
    >>> def ask(rules):
    ...     asked.append(len(rules))
    ...     return {"r20", "r70"} <= set(rules)
    >>> smallest_set([f"r{i}" for i in range(100)], ask), len(asked)
    (['r20', 'r70'], 16)
    """
    answers: dict[frozenset[str], bool | None] = {frozenset(): False, frozenset(rules): True}

    def known(chosen: Sequence[str]) -> bool | None:
        key = frozenset(chosen)
        if key not in answers:
            answers[key] = ask(chosen)
        return answers[key]

    kept: list[str] = []
    rest = list(rules)
    while rest and not known(kept):
        # The kept rules are bad together with the rest, but not known to be bad alone: at least one of the rest is needed.
        kept, rest = _narrow(kept, rest, known)
    return _without_needless(kept, known)


def _narrow(kept: list[str], rest: list[str], ask: AskRules) -> tuple[list[str], list[str]]:
    low, high = first_true(len(rest), lambda count: ask([*rest[:count], *kept]))
    return [*rest[low:high], *kept], rest[:low]


def _without_needless(kept: list[str], ask: AskRules) -> list[str]:
    """The set without unneeded rules: all of the rest are needed to be bad. There are unneeded ones if one rule hides the effect of
    another."""
    i = 0
    while len(kept) > 1 and i < len(kept):
        others = [*kept[:i], *kept[i + 1 :]]
        if ask(others):
            kept, i = others, 0
        else:
            i += 1
    return kept


def first_application(count: int | None, ask: AskCount) -> tuple[int, int] | None:
    """The last good and the first bad number of applications, if the result is bad after all; numbers between them are undecided. None if
    it is bad before any.

    If `count` is unknown because the run does not finish, searches by doubling.

    >>> first_application(1000, lambda number: number >= 3)
    (2, 3)
    >>> first_application(None, lambda number: number >= 3)
    (2, 3)
    """
    if ask(0):
        return None
    if count is not None:
        return first_true(count, ask)
    low, high = 0, 1
    while high < ALL and not (answer := ask(high)):
        low, high = (low if answer is None else high), 2 * high
    first, second = first_true(high - low, lambda number: ask(low + number))
    return low + first, low + second


Tell: TypeAlias = "Callable[[str], None] | None"
"""Receives progress messages."""


class Outcome(NamedTuple):
    """The result of a run: the module, or the exception of a pass and the sentence that names the pass; the number of applications of each
    rule, in order of first application."""

    module: IRModule | None
    error: Exception | None
    fired: Mapping[str, int]
    accused: str = ""

    @property
    def applications(self) -> int | None:
        """The number of rule applications; None if a pass raised, since its count is incomplete."""
        return None if self.error is not None else sum(self.fired.values())


class RuleRuns:
    """A pipeline on a module, to run in the settings of a context with some of its rules."""

    def __init__(self, pipeline: Sequential, module: IRModule, settings: PassContext) -> None:
        self.pipeline = pipeline
        self.module = module
        self.settings = settings
        self.count = 0
        """The number of runs of the pipeline."""
        steps = [step.pass_ for step in pipeline.plan(settings).walk() if step.runs]
        passes = [pass_ for pass_ in steps if isinstance(pass_, RulePass)]
        self.rules: dict[str, Rule] = {rule.name: rule for pass_ in passes for rule in pass_.rules}
        """All rules of the pipeline by name, one per direction."""
        self._disabled: list[str] = list(settings.get_config("rules.disabled"))

    def names(self) -> list[str]:
        """The names of all rules of the pipeline, one for both directions."""
        return list(dict.fromkeys(map(equation_of, self.rules)))

    def disabled(self, enabled: Collection[str] | None) -> list[str]:
        """The value of `rules.disabled` that enables only these rules; sets without enabled rules are named as a whole. None enables
        all."""
        if enabled is None:
            return self._disabled
        off = [name for name in self.names() if name not in enabled]
        left = {name.partition(".")[0] for name in self.names() if name in enabled}
        return list(dict.fromkeys([*self._disabled, *(name if (of := name.partition(".")[0]) in left else of for name in off)]))

    def run(self, enabled: Collection[str] | None, unions: int | None, trace: Trace | None = None) -> Outcome:
        """Runs the pipeline with some rules (None: all), up to a number of applications (None: unlimited, with regions). Propagates
        exceptions from outside of passes, and Ctrl-C."""
        self.count += 1
        config: dict[str, AnyValue] = {"rules.disabled": self.disabled(enabled)}
        if unions is not None:
            config["rules.unions"] = unions
        if trace is not None:
            config["rules.trace"] = trace
        watch = FailureWatch()
        context = self.settings.inside(None, config, [watch])
        module, error, accused = None, None, ""
        with context, interruptible() as asked:
            try:
                module = self.pipeline(self.module)
            except Exception as raised:
                accusation = watch.accuse(raised, None)
                if accusation is None:
                    raise
                error, accused = raised, str(accusation).partition("; before it ran: ")[0]
        if asked.requested:
            raise KeyboardInterrupt  # an interrupted result says nothing about its rules
        fired: dict[str, int] = {}
        for counters in context.statistics.counters.values():
            for key, times in counters.items():
                what, colon, rule = key.partition(":")
                if colon and what == "fired" and times:
                    fired[rule] = fired.get(rule, 0) + int(times)
        return Outcome(module, error, fired, accused)


class Questions:
    """Asks a check about runs, each once, and counts the calls. With `crashes`, a pass that raises counts as bad."""

    def __init__(self, runs: RuleRuns, check: Check, *, crashes: bool = False, tell: Tell = None) -> None:
        self.runs = runs
        self.check = check
        self.calls = 0
        self._crashes = crashes
        self._tell = tell or (lambda _: None)
        self._answers: dict[tuple[frozenset[str] | None, int | None], tuple[bool | None, Outcome]] = {}

    def __call__(self, enabled: Iterable[str] | None, unions: int | None = ALL) -> bool | None:
        """True if the result is bad. Raises PassRaisedError if a pass raises and that does not count."""
        return self.answer(enabled, unions)[0]

    def answer(self, enabled: Iterable[str] | None, unions: int | None = ALL) -> tuple[bool | None, Outcome]:
        """The answer, and its run."""
        key = (None if enabled is None else frozenset(enabled), unions)
        if key not in self._answers:
            self._answers[key] = self.again(*key)
        return self._answers[key]

    def again(self, enabled: Collection[str] | None, unions: int | None, trace: Trace | None = None) -> tuple[bool | None, Outcome]:
        """The answer of a repeated run."""
        self._tell(f"running the passes ({self.runs.count + 1})")
        outcome = self.runs.run(enabled, unions, trace)
        if outcome.error is not None and not self._crashes:
            raise PassRaisedError(f"{outcome.accused}; --check crash looks for that", outcome.accused) from outcome.error
        if outcome.module is None:
            return True, outcome
        self.calls += 1
        self._tell(f"checking a model ({self.calls})")
        answer = self.check(outcome.module)
        return (None if answer is None else bool(answer)), outcome
