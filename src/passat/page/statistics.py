"""What rules did, in full: the time that they took, why they refused, and how much of the result they made."""

from passat.page.origins import Origins
from passat.page.program import program_of
from passat.page.record import Record
from passat.report import Report
from passat.rules.provenance.histories import Histories
from passat.rules.rule import without_operators


def add_statistics(report: Report, record: Record) -> None:
    """Adds to the rules of a report what a record knows of them."""
    rules = {rule.name: rule for rule in report.rules}
    for run in record.runs[: record.first]:
        for name, statistics in run.saturation.rules.items():
            rule = rules.get(without_operators(name))
            if rule is not None:
                rule.seconds += statistics.seconds
                for reason, count in statistics.reasons.items():
                    rule.reasons[reason] = rule.reasons.get(reason, 0) + count
    made, calls = made_by_rules(record)
    histories = Histories(record.runs[: record.first], [each for each in record.passed if each.end <= record.first])
    taken = set() if report.kept else set(map(without_operators, histories.rules()))
    eager = {without_operators(name) for run in record.runs for name in run.graph.statistics}
    for rule in report.rules:
        rest = rule.refused - sum(rule.reasons.values())  # the engine keeps the first few of each saturation
        if rest > 0:
            rule.reasons["(other reasons)"] = rest
        rule.made = made.get(rule.name, 0)
        rule.share = rule.made / calls if calls else 0.0
        rule.taken = rule.name in taken or (None if rule.name in eager else False)  # what eager rules make leaves no choice
    report.recorded = True


def made_by_rules(record: Record) -> tuple[dict[str, int], int]:
    """How many of the calls of the result each rule made, and how many calls there are."""
    origins, counts = Origins(record.runs, record.passed), dict[str, int]()
    calls = program_of(record.after, most=1 << 62).calls
    for node in calls:
        rule = origins.rule_of(node.expr)
        if rule:
            counts[rule] = counts.get(rule, 0) + 1
    return counts, len(calls)


def silent_rules(record: Record) -> list[str]:
    """The rules that ran and of whose left sides nothing was found."""
    runs = record.runs[: record.first]
    stages = [stage for run in runs for stage in run.stages]
    heard = [matcher.name for stage in stages for matcher in stage.matchers] + [each.name for stage in stages for each in stage.groupers]
    ran = map(without_operators, heard)
    matched = {without_operators(name) for run in runs for name, statistics in run.saturation.rules.items() if statistics.matches}
    return [name for name in dict.fromkeys(ran) if name not in matched]
