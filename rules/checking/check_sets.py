"""Many rules checked: each by itself, then what they are to each other."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from passat.rules.checking.check import INSTANCES, check_rule
from passat.rules.checking.relations import circles, covered, enlarges, reducing_matchers
from passat.rules.checking.report import Finding, RuleReport
from passat.rules.checking.trying import Checked
from passat.rules.rule import Rule

Progress = Callable[[str], None]


def check_rules(
    rules: Iterable[Rule], *, instances: int = INSTANCES, seed: int = 0, progress: Progress = lambda text: None
) -> list[RuleReport]:
    """Checks rules, each on at least so many instances, and against each other. The reports come in the order of the rules.

    >>> from passat.rules.pattern import op, tensors
    >>> x, y = tensors("x y")
    >>> [report] = check_rules([(x - y >> y - x).named("Mine.swap")], instances=20)
    >>> report.verdict, report.counterexample.reason
    ('refused', 'the element is 1.0 on the right, -1.0 on the left')
    """
    return related(list(check_each(rules, instances=instances, seed=seed, progress=progress)), progress)


def check_each(rules: Iterable[Rule], *, instances: int = INSTANCES, seed: int = 0, progress: Progress) -> Iterator[Checked]:
    """Checks rules one by one, each by itself."""
    once = {rule.name: rule for rule in rules}
    for number, rule in enumerate(once.values(), 1):
        progress(f"checking {rule.name}, {number} of {len(once)}")
        yield check_rule(rule, instances=instances, seed=seed)


def related(checked: Sequence[Checked], progress: Progress = lambda text: None) -> list[RuleReport]:
    """The reports of checked rules, with what the rules are to each other."""
    progress("looking for rules that go round in a circle")
    reports = {found.report.name: found.report for found in checked}
    sound = [found for found in checked if found.report.ok]
    for path in circles(sound, reducing_matchers(found.rule for found in sound)):
        shown = " -> ".join([*path, path[0]])
        text = f"goes round in a circle, so it makes no program better: {shown}; say .exploring() on one of them"
        if len(set(path)) == 1:
            text = "gives back after a while what it began with, so it makes no program better: say .exploring(), or .and_back()"
        for name in dict.fromkeys(path):
            reports[name].findings.append(Finding("loops", text))
    for general, special in covered([found.rule for found in sound]):
        text = f"does nothing that {general.name} does not do"
        reports[special.name].findings.append(Finding("subsumed", text, refuses=False))
    for found in sound:
        if found.report.ok and enlarges(found):
            text = "made every instance dearer, so it never fires by itself: say .exploring()"
            found.report.findings.append(Finding("enlarges", text, refuses=False))
    return list(reports.values())
