"""Rules checked: of each one instances are drawn until enough are accepted, each is tried, and what is wrong told; then what rules of a
set are to each other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from passat.rules.checking.mend import loosened, mended
from passat.rules.checking.relations import circles, covered, enlarges, reducing_matchers
from passat.rules.checking.report import Counterexample, Finding, RuleReport, instance_lines
from passat.rules.checking.shrink import shrink, weight
from passat.rules.checking.trial import Trial, Trier, Verdict
from passat.rules.checking.trying import WRONG, Checked, tried
from passat.rules.pattern import PCall, is_undeclared, subterms
from passat.rules.rule import LIBERTIES, Liberty, Rule

INSTANCES: Final = 200
_MORE: Final = "docs/custom-operators.md"


def check_rule(rule: Rule, *, instances: int = INSTANCES, seed: int = 0) -> Checked:
    """Tries a rule on random instances, at least so many that its guards accept for each of its directions.

    The instances depend on the seed and on the name of the rule alone, so a rule that is checked by itself meets the same ones.
    """
    unknown = _without_kernel(rule)
    if unknown:
        checked = Checked(rule, seed)
        checked.find("undefined", unknown, refuses=False)
        return checked
    checked = tried(rule, seed, instances)
    if checked.raised:
        _raised(checked, *checked.raised)
    elif checked.wrong:
        _explain(checked, seed, instances)
    _judge(checked, instances)
    return checked


def _without_kernel(rule: Rule) -> str:
    """What nothing computes of the operators that Passat has not declared itself; nothing to say where there is none."""
    for node in (*subterms(rule.lhs), *subterms(rule.rhs)):
        if isinstance(node, PCall) and is_undeclared(node) and node.op.kernel is None:
            return f"{node.op.name.removeprefix('onnx.')} is not declared: @define_op(..., kernel=...) says what it computes ({_MORE})"
        if isinstance(node, PCall) and not node.op.is_own and node.op.kernel is None:
            return f"{node.op.name} is declared without a kernel: kernel=... says what it computes ({_MORE})"
    return ""


def _raised(checked: Checked, trier: Trier, trial: Trial) -> None:
    """What a guard raised, on the smallest instance."""
    small = shrink(trier, trial.case, lambda found: found.verdict is Verdict.RAISES)
    # What a guard or a computed attribute raises comes as a RuleError that names it.
    checked.find("raises", f"{small.reason.removeprefix('RuleError: ')}; a reason is to be returned, or Reject(reason) raised")
    checked.report.counterexample = Counterexample(instance_lines(small), small.reason)


def _explain(checked: Checked, seed: int, instances: int) -> None:
    """The smallest wrong instance, and what would mend the rule. What is wrong even of finite numbers and beyond rounding says most."""
    report = checked.report
    for liberty in reversed(LIBERTIES[LIBERTIES.index(checked.rule.liberty) :]):
        wrong = [(trier, trial) for trier, trial in _under(checked, liberty) if trial.verdict in WRONG]
        if wrong:
            break
    trier, trial = min(wrong, key=lambda pair: (pair[1].verdict is Verdict.BREAKS, weight(pair[1].case)))
    small = shrink(trier, trial.case, lambda found: found.verdict is trial.verdict)
    report.counterexample = Counterexample(instance_lines(small), small.reason)
    of = f"{len(checked.wrong)} of {report.compared} instances"
    checked.find("value" if trial.verdict is Verdict.DISAGREES else "breaks", f"the sides differ in {of}: {small.reason}")
    report.mended_by = mended(checked, seed, instances)


def _under(checked: Checked, liberty: Liberty) -> Iterator[tuple[Trier, Trial]]:
    """The wrong trials again, as if the rule said that it may do as much to values."""
    again: dict[int, Trier] = {}
    for trier, trial in checked.wrong:
        other = again.get(id(trier))
        if other is None:
            other = again[id(trier)] = trier if liberty == trier.rule.liberty else Trier(loosened(trier.rule, liberty), trier.roots)
        yield other, trial if other is trier else other.try_case(trial.case)


def _judge(checked: Checked, instances: int) -> None:
    """What the counts say."""
    report = checked.report
    if report.findings or report.compared >= instances:
        return
    if report.drawn == report.ill_typed:
        _, example = max(checked.type_errors.values(), default=(0, ""))
        checked.find("never matches", f"no instance of the left side is well typed: {example}")
    elif not report.accepted:
        _never_accepted(checked)
    elif not report.compared:
        most = max(report.not_compared, key=lambda text: report.not_compared[text])
        checked.find("undefined", f"none of {report.accepted} instances could be compared: {most}", refuses=False)
    else:
        checked.find("few", f"only {report.compared} of {report.drawn} instances drawn could be compared", refuses=False)


def _never_accepted(checked: Checked) -> None:
    """What refused all instances: the one that was asked last."""
    report, ways = checked.report, checked.rule.directions()
    asked = [repr(guard) for way in ways for guard in way.guards]
    types = [by for by in report.refused if "type" in by and by not in asked]
    held = [guard for guard in asked if guard in report.refused]
    by = types[0] if types else held[-1] if held else max(report.refused, key=lambda text: report.refused[text])
    number, reason = report.refused[by], checked.reasons[by]
    if by in types:
        checked.find("types", f"{by} in all {number} instances that were not refused before: {reason}")
    elif by in held:
        checked.find("never holds", f"the guard {by} held in none of {number} instances: {reason.removeprefix(f'{by}: ')}")
    else:
        checked.find("never matches", f"the left side matched none of {number} instances: {reason}")


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
