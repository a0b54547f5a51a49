"""Searching for the rules, and the applications of rules, that make a result bad: optimizations that run with some of them only."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeAlias

from passat.bisection import Check
from passat.crash import FailureWatch
from passat.ir.module import IRModule
from passat.passmgr import PassContext, Sequential
from passat.passmgr.debugging.bisect import PassRaisedError, first_true
from passat.rules.engine.interruption import interruptible
from passat.rules.engine.trace import Trace
from passat.rules.rule import Rule, equation_of
from passat.rules.rule_pass import RulePass

MOST: Final = 1 << 30
"""So many applications are never reached."""

AskRules: TypeAlias = Callable[[Sequence[str]], bool | None]
"""Whether it is bad with these rules alone; None where that cannot be told."""
AskCount: TypeAlias = Callable[[int], bool | None]
"""Whether it is bad after so many applications; None where that cannot be told."""


def smallest_set(rules: Sequence[str], ask: AskRules) -> list[str]:
    """A set of rules that is bad, and good without any one of its rules, of rules that are bad together; without any rule it is good.

    One guilty rule among n is found in log2(n) + 1 questions; of several that must come together, each takes as many, and one more.

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
        # The kept ones and all of the rest are bad, the kept ones alone are not known to be: one of the rest, at least, has to come in.
        kept, rest = _narrow(kept, rest, known)
    return _without_needless(kept, known)


def _narrow(kept: list[str], rest: list[str], ask: AskRules) -> tuple[list[str], list[str]]:
    low, high = first_true(len(rest), lambda count: ask([*rest[:count], *kept]))
    return [*rest[low:high], *kept], rest[:low]


def _without_needless(kept: list[str], ask: AskRules) -> list[str]:
    """The set without rules that it is bad without too: there are some where a rule hides what another does."""
    i = 0
    while len(kept) > 1 and i < len(kept):
        others = [*kept[:i], *kept[i + 1 :]]
        if ask(others):
            kept, i = others, 0
        else:
            i += 1
    return kept


def first_application(count: int | None, ask: AskCount) -> tuple[int, int] | None:
    """The number of applications that is good and the next one that is bad, where it is bad after all of them; numbers between the two are
    those of which nothing can be told. None where it is bad before any.

    Where their `count` is not known, since the run does not come to its end, it is looked for by doubling.

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
    while high < MOST and not (answer := ask(high)):
        low, high = (low if answer is None else high), 2 * high
    return _above(low, high, ask)


def _above(low: int, high: int, ask: AskCount) -> tuple[int, int]:
    """Where answers change between two numbers."""
    first, second = first_true(high - low, lambda number: ask(low + number))
    return low + first, low + second


Tell: TypeAlias = "Callable[[str], None] | None"
"""Gets a few words on what begins now."""

ALL: Final = 1 << 40
"""A number of applications that is never reached. With one, functions are taken whole, as they are for every other number."""


class Outcome(NamedTuple):
    """What a run came to: the module, or what a pass raised, as an exception and in a sentence that names the pass; how often each rule
    fired, in the order in which they are first heard of."""

    module: IRModule | None
    error: Exception | None
    fired: Mapping[str, int]
    accused: str = ""

    @property
    def applications(self) -> int | None:
        """How many applications of rules there were; None where a pass raised, since it did not come to count its own."""
        return None if self.error is not None else sum(self.fired.values())


class RuleRuns:
    """A pipeline on a module, to be run in the settings of a context with some of its rules alone."""

    def __init__(self, pipeline: Sequential, module: IRModule, settings: PassContext) -> None:
        self.pipeline = pipeline
        self.module = module
        self.settings = settings
        self.count = 0
        """How often the pipeline ran."""
        steps = [step.pass_ for step in pipeline.plan(settings).walk() if step.runs]
        passes = [pass_ for pass_ in steps if isinstance(pass_, RulePass)]
        self.rules: dict[str, Rule] = {rule.name: rule for pass_ in passes for rule in pass_.rules}
        """All rules of the pipeline by name, each direction by itself."""
        self._disabled: list[str] = list(settings.get_config("rules.disabled"))

    def names(self) -> list[str]:
        """The names of all rules of the pipeline, both directions under one."""
        return list(dict.fromkeys(map(equation_of, self.rules)))

    def disabled(self, enabled: Collection[str] | None) -> list[str]:
        """What `rules.disabled` is where no rules run but these; a set none of whose rules runs goes by its name. None enables all."""
        if enabled is None:
            return self._disabled
        off = [name for name in self.names() if name not in enabled]
        left = {name.partition(".")[0] for name in self.names() if name in enabled}
        return list(dict.fromkeys([*self._disabled, *(name if (of := name.partition(".")[0]) in left else of for name in off)]))

    def run(self, enabled: Collection[str] | None, unions: int | None, trace: Trace | None = None) -> Outcome:
        """Runs the pipeline with some rules, or all where that is None, up to so many applications. With None for these too it runs as it
        would otherwise, with regions. What is raised outside of any pass passes through, and so does Ctrl-C."""
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
            raise KeyboardInterrupt  # the best so far of an optimization says nothing of its rules
        fired: dict[str, int] = {}
        for counters in context.statistics.counters.values():
            for key, times in counters.items():
                what, colon, rule = key.partition(":")
                if colon and what == "fired" and times:
                    fired[rule] = fired.get(rule, 0) + int(times)
        return Outcome(module, error, fired, accused)


class Questions:
    """Asks a check about runs, each once, and counts how often it is asked. Where `crashes`, a pass that raises is bad."""

    def __init__(self, runs: RuleRuns, check: Check, *, crashes: bool = False, tell: Tell = None) -> None:
        self.runs = runs
        self.check = check
        self.calls = 0
        self._crashes = crashes
        self._tell = tell or (lambda _: None)
        self._answers: dict[tuple[frozenset[str] | None, int | None], tuple[bool | None, Outcome]] = {}

    def __call__(self, enabled: Iterable[str] | None, unions: int | None = ALL) -> bool | None:
        """Whether the result is bad. Raises PassRaisedError where a pass raises and that does not count."""
        return self.answer(enabled, unions)[0]

    def answer(self, enabled: Iterable[str] | None, unions: int | None = ALL) -> tuple[bool | None, Outcome]:
        """The answer, and the run that it is about."""
        key = (None if enabled is None else frozenset(enabled), unions)
        if key not in self._answers:
            self._answers[key] = self.again(*key)
        return self._answers[key]

    def again(self, enabled: Collection[str] | None, unions: int | None, trace: Trace | None = None) -> tuple[bool | None, Outcome]:
        """The answer of another run."""
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


def in_words(names: Sequence[str]) -> str:
    """A list of names.

    >>> in_words(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
