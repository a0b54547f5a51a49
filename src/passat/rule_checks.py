"""Checks of rules as jobs, one for each rule. Each process reads a rule file once."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from passat.ir.expr import Expr
from passat.jobs import Executor, LostError, run_jobs
from passat.rulefile import file_to_read, load_rules
from passat.rules.checking.check_sets import RuleCheck, check_alone
from passat.rules.checking.report import RuleReport
from passat.rules.checking.trying import Checked
from passat.rules.pattern import RuleError
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSet, types_unchecked
from passat.rules.typecheck import check_types


def check_each(
    rules: Sequence[tuple[Rule, type[RuleSet]]],
    *,
    instances: int,
    seed: int,
    processes: int = 1,
    executor: Executor | None = None,
) -> Iterator[tuple[int, RuleCheck]]:
    """The checks of rules, each given with its set and returned with its number, in order of completion.

    A rule whose process ends is rejected, and one whose check was interrupted is omitted. Raises RuleFileError for sets that other
    processes cannot read.
    """
    apart, run = processes > 1 or executor is not None, uuid.uuid4().hex
    jobs = {
        number: _Check(rule.name, (file_to_read(sets) if apart else None) or sets, run, instances, seed)
        for number, (rule, sets) in enumerate(rules)
    }
    for number, outcome in run_jobs(jobs, processes=processes, executor=executor):
        rule = rules[number][0]
        if isinstance(outcome, LostError):
            lost = Checked(rule, seed)
            lost.find("raises", f"{outcome}".removeprefix(f"{rule.name}: "))
            yield number, RuleCheck(rule, lost.report)
        elif not isinstance(outcome, Exception):
            yield number, RuleCheck(rule, *outcome)
        elif not isinstance(outcome, InterruptedError):
            raise outcome


@dataclass(frozen=True)
class _Check:
    """The check of one rule."""

    name: str
    source: type[RuleSet] | str
    """The set of the rule, or the file that defines it."""
    run: str
    instances: int
    seed: int

    def __call__(self) -> tuple[RuleReport, tuple[Expr, ...], bool]:
        """The RuleCheck without its rule."""
        rule = _rules(self.source, self.run)[self.name]
        try:
            if not rule.trusted:
                check_types(rule)
        except RuleError as error:
            invalid = Checked(rule, self.seed)
            invalid.find("invalid", f"{error}".removeprefix(f"rule {rule.name} [{rule!r}]: "))
            return invalid.report, (), False
        found = check_alone(rule, instances=self.instances, seed=self.seed)
        return found.report, found.starts, found.enlarges


@lru_cache(maxsize=64)
def _rules(source: type[RuleSet] | str, run: str) -> dict[str, Rule]:
    """Rules by name. Files are read once for each `run`, since workers of a cluster live longer than files stay the same."""
    with types_unchecked():
        sets = load_rules(source) if isinstance(source, str) else [source]
    return {rule.name: rule for rules in sets for rule in rules.rules}
