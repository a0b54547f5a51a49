"""Checks rules: generates instances of each until enough are accepted, tries each, and reports problems; then compares the rules of a set
with each other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from passat.ir.expr import Expr
from passat.rules.checking.fixing import fix, loosened
from passat.rules.checking.relations import circles, covered, enlarges, reducing_matchers, starts
from passat.rules.checking.report import Counterexample, Finding, RuleReport, instance_lines
from passat.rules.checking.shrink import shrink, weight
from passat.rules.checking.trial import WRONG, Trial, Trier, Verdict
from passat.rules.checking.trying import Checked, tried
from passat.rules.guards import Check
from passat.rules.pattern import Computed, PCall, RuleError, is_undeclared
from passat.rules.rule import LIBERTIES, Liberty, Rule
from passat.rules.subterms import subterms

INSTANCES: Final = 200
_MORE: Final = "docs/custom-operators.md"


def check_rule(rule: Rule, *, instances: int = INSTANCES, seed: int = 0) -> Checked:
    """Tries a rule on random instances until its guards accept at least this many for each of its directions.

    The instances depend only on the seed and the name of the rule, so checking a rule alone uses the same ones.
    """
    unknown = _without_kernel(rule)
    if unknown:
        checked = Checked(rule, seed)
        checked.find("undefined", unknown, rejects=False)
        return checked
    checked = tried(rule, seed, instances)
    if checked.raised:
        _raised(checked, *checked.raised)
    elif checked.wrong:
        _explain(checked, seed, instances)
    _judge(checked, instances)
    return checked


def _without_kernel(rule: Rule) -> str:
    """Why an undeclared operator cannot be computed; '' if all can."""
    for node in (*subterms(rule.lhs), *subterms(rule.rhs)):
        if isinstance(node, PCall) and is_undeclared(node) and node.op.kernel is None:
            return f"{node.op.name.removeprefix('onnx.')} is not declared: @define_op(..., kernel=...) defines what it computes ({_MORE})"
        if isinstance(node, PCall) and not node.op.is_own and node.op.kernel is None:
            return f"{node.op.name} is declared without a kernel: kernel=... defines what it computes ({_MORE})"
    return ""


def _raised(checked: Checked, trier: Trier, trial: Trial) -> None:
    """Reports an exception of a guard, on the smallest instance."""
    small = shrink(trier, trial.case, lambda found: found.verdict is Verdict.RAISES)
    # Exceptions of guards and computed attributes arrive as RuleErrors that name them.
    said = " ".join(str(small.error).split()) if isinstance(small.error, RuleError) else small.reason
    checked.find("raises", f"{said}; return a reason, or raise Reject(reason)")
    checked.report.counterexample = Counterexample(instance_lines(small), small.reason)


def _explain(checked: Checked, seed: int, instances: int) -> None:
    """Reports the smallest counterexample and a fix. Prefers counterexamples with finite numbers and differences beyond rounding."""
    report = checked.report
    for liberty in reversed(LIBERTIES[LIBERTIES.index(checked.rule.liberty) :]):
        wrong = [(trier, trial) for trier, trial in _under(checked, liberty) if trial.verdict in WRONG]
        if wrong:
            break
    trier, trial = min(wrong, key=lambda pair: (pair[1].verdict is not Verdict.DISAGREES, weight(pair[1].case)))
    small = shrink(trier, trial.case, lambda found: found.verdict is trial.verdict)
    report.counterexample = Counterexample(instance_lines(small), small.reason)
    of = f"{len(checked.wrong)} of {report.compared} instances"
    if all(other.verdict is Verdict.MISDECLARED for _, other in checked.wrong):
        checked.find("value", f"{small.reason} (in {of}): correct the kernel or the declared type; no guard helps")
        return
    checked.find("value" if trial.verdict is Verdict.DISAGREES else "breaks", f"the sides differ in {of}: {small.reason}")
    report.fixed_by = fix(checked, seed, instances)


def _under(checked: Checked, liberty: Liberty) -> Iterator[tuple[Trier, Trial]]:
    """The wrong trials, repeated as if the rule allowed this liberty."""
    again: dict[int, Trier] = {}
    for trier, trial in checked.wrong:
        other = again.get(id(trier))
        if other is None:
            same = liberty == trier.rule.liberty
            other = again[id(trier)] = trier if same else Trier(loosened(trier.rule, liberty), trier.roots, inner=trier.inner)
        yield other, trial if other is trier else other.try_case(trial.case)


def _judge(checked: Checked, instances: int) -> None:
    """Derives findings from the counts."""
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
        checked.find("undefined", f"none of {report.accepted} instances could be compared: {most}", rejects=False)
    else:
        checked.find("few", f"only {report.compared} of {report.drawn} instances drawn could be compared", rejects=False)


def _never_accepted(checked: Checked) -> None:
    """Reports the check that rejected all instances: the last guard evaluated on any of them."""
    report, ways = checked.report, checked.rule.directions()
    asked = [repr(guard) for way in ways for guard in way.guards]
    types = [
        by for by, rejection in checked.rejections.items() if rejection.check in (Check.ILL_TYPED, Check.TYPES) and rejection.by is None
    ]
    held = [guard for guard in asked if guard in report.rejected]
    by = types[0] if types else held[-1] if held else max(report.rejected, key=lambda text: report.rejected[text])
    number, rejection = report.rejected[by], checked.rejections.get(by)
    reason = by if rejection is None else rejection.reason
    if by in types:
        checked.find("types", f"{by} in all {number} instances that were not rejected before: {reason}")
    elif by in held:
        checked.find("never holds", f"the guard {by} held in none of {number} instances: {reason}")
    elif rejection is not None and isinstance(rejection.by, Computed):
        checked.find("never holds", f"{by} had a value in none of {number} instances: {reason}")
    else:
        checked.find("never matches", f"the left side matched none of {number} instances: {reason}")


class RuleCheck(NamedTuple):
    """A rule that was checked by itself, its report, instances from which to look for cycles, and whether it made every instance more
    expensive."""

    rule: Rule
    report: RuleReport
    starts: tuple[Expr, ...] = ()
    enlarges: bool = False


def check_alone(rule: Rule, *, instances: int = INSTANCES, seed: int = 0) -> RuleCheck:
    """Checks a rule by itself."""
    checked = check_rule(rule, instances=instances, seed=seed)
    if not checked.report.ok:
        return RuleCheck(rule, checked.report)
    return RuleCheck(rule, checked.report, starts(checked), enlarges(checked))


Progress = Callable[[str], None]


def check_rules(
    rules: Iterable[Rule], *, instances: int = INSTANCES, seed: int = 0, progress: Progress = lambda text: None
) -> list[RuleReport]:
    """Checks rules, each on at least this many instances, and against each other. The reports are in the order of the rules.

    >>> from passat.rules.pattern import op, tensors
    >>> x, y = tensors("x y")
    >>> [report] = check_rules([(x - y >> y - x).named("Mine.swap")], instances=20)
    >>> report.verdict, report.counterexample.reason
    ('rejected', 'the element is 1.0 on the right, -1.0 on the left')
    """
    found = []
    once = distinct(rules)
    for number, rule in enumerate(once, 1):
        progress(f"checking {rule.name}, {number} of {len(once)}")
        found.append(check_alone(rule, instances=instances, seed=seed))
    return related(found, progress)


def distinct(rules: Iterable[Rule]) -> list[Rule]:
    """The rules, without those whose names occur again."""
    return list({rule.name: rule for rule in rules}.values())


def related(checked: Sequence[RuleCheck], progress: Progress = lambda text: None) -> list[RuleReport]:
    """The reports of checked rules, extended by relations between rules."""
    progress("looking for cycles of rules")
    reports = {found.report.name: found.report for found in checked}
    sound = [found for found in checked if found.report.ok]
    for path in circles([(found.rule, found.starts) for found in sound], reducing_matchers(found.rule for found in sound)):
        shown = " -> ".join([*path, path[0]])
        text = f"forms a cycle, so it improves no program: {shown}; use .exploring() on one of them"
        if len(set(path)) == 1:
            text = "returns to its input, so it improves no program: use .exploring(), or .and_back()"
        for name in dict.fromkeys(path):
            reports[name].findings.append(Finding("loops", text))
    for general, special in covered([found.rule for found in sound]):
        text = f"is subsumed by {general.name}"
        reports[special.name].findings.append(Finding("subsumed", text, rejects=False))
    for found in sound:
        if found.report.ok and found.enlarges:
            text = "made every instance more expensive, so it never pays by itself: use .exploring()"
            found.report.findings.append(Finding("enlarges", text, rejects=False))
    return list(reports.values())
