"""Reports of checked rules as text."""

from collections.abc import Iterable, Sequence

from passat.rules.checking.report import RuleReport


def reports_text(reports: Sequence[RuleReport], *, verbose: bool = False) -> str:
    """What was found, rule by rule where there is something to say (`verbose`: of each), and the sum of it."""
    lines: list[str] = []
    for report in reports:
        if verbose or report.findings or not report.ok:
            lines += [*rule_lines(report), ""]
    return "\n".join([*lines, summary(reports)])


def rule_lines(report: RuleReport) -> list[str]:
    """One rule: itself, how it was tried, what is wrong with it, on which smallest instance, and what would mend it."""
    lines = [f"{report.name}: {report.verdict}", f"    {report.rule}    ({report.source})"]
    if report.conditions:
        lines.append(f"    where {' and '.join(report.conditions)}")
    lines.append(f"    {_tried(report)}")
    lines += [f"    not compared, {number}: {reason}" for reason, number in _most(report.not_compared)]
    for finding in report.findings:
        lines.append(f"  {'!' if finding.refuses else '?'} {finding.text}")
        if report.counterexample and finding is report.findings[0]:
            lines += [f"      {line}" for line in report.counterexample.lines]
            lines += [f"    mended by {report.mended_by}"] if report.mended_by else []
            lines.append(f"    again with --rule {report.name} --seed {report.seed}")
    return lines


def _tried(report: RuleReport) -> str:
    said = [f"{report.drawn} instances drawn", f"{report.compared} compared"]
    if report.ill_typed:
        said.append(f"{report.ill_typed} ill-typed")
    said += [f"{number} refused: {reason}" for reason, number in _most(report.refused)]
    return ", ".join(said)


def _most(counts: dict[str, int]) -> Iterable[tuple[str, int]]:
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


def summary(reports: Sequence[RuleReport]) -> str:
    """All rules in a sentence."""
    rules = f"{len(reports)} rule{'s' * (len(reports) != 1)}"
    compared = sum(report.compared for report in reports)
    parts = [f"{rules} checked on {compared} instances"]
    for verdict in ("sound", "refused", "unchecked"):
        number = sum(report.verdict == verdict for report in reports)
        if number:
            parts.append(f"{number} {verdict}")
    warnings = sum(not finding.refuses for report in reports for finding in report.findings)
    if warnings:
        parts.append(f"{warnings} warning{'s' * (warnings != 1)}")
    return ", ".join(parts)
