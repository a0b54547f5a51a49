"""Running an optimisation with some of its rules, or with its first so many applications of rules, and asking whether the result is bad."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeAlias

from passat.checks import Check
from passat.crash import FailureWatch
from passat.ir.module import IRModule
from passat.passmgr import PassContext, Sequential
from passat.passmgr.debugging.bisect import PassRaisedError
from passat.rules.engine.interruption import interruptible
from passat.rules.engine.journal import Journal
from passat.rules.rule import Rule, equation_of
from passat.rules.rule_pass import RulePass

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

    def run(self, enabled: Collection[str] | None, unions: int | None, journal: Journal | None = None) -> Outcome:
        """Runs the pipeline with some rules, or all where that is None, up to so many applications. With None for these too it runs as it
        would otherwise, with regions. What is raised outside of any pass passes through, and so does Ctrl-C."""
        self.count += 1
        config: dict[str, AnyValue] = {"rules.disabled": self.disabled(enabled)}
        if unions is not None:
            config["rules.unions"] = unions
        if journal is not None:
            config["rules.journal"] = journal
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
            raise KeyboardInterrupt  # the best so far of an optimisation says nothing of its rules
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

    def again(self, enabled: Collection[str] | None, unions: int | None, journal: Journal | None = None) -> tuple[bool | None, Outcome]:
        """The answer of another run."""
        self._tell(f"running the passes ({self.runs.count + 1})")
        outcome = self.runs.run(enabled, unions, journal)
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
