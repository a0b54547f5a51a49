"""What there is: passes and rules as plain rows, for `passat passes` and `passat rules list`."""

from collections.abc import Iterable
from typing import TypedDict

import passat.rules.pipelines  # noqa: F401  # importing registers the passes of the library
from passat.passmgr import list_passes
from passat.rules.rule import Rule, RuleSet
from passat.rules.rule_pass import RulePass


class PassRow(TypedDict):
    """A pass: its name, level, what it requires, its options and the first sentence of its documentation."""

    name: str
    level: int | None
    required: list[str]
    options: list[str]
    doc: str


class RuleRow(TypedDict):
    """A rule: its name, itself as text, its conditions, what it may do to values, and the passes that run it."""

    name: str
    rule: str
    conditions: list[str]
    math: str
    note: str
    source: str
    passes: list[str]


def pass_rows() -> list[PassRow]:
    """All registered passes, sorted by name. `level` is None where it depends on an option."""
    rows = []
    for entry in list_passes():
        info = entry.info
        made = None if info is None else entry.make({})
        doc = (made.__doc__ if isinstance(made, RulePass) else entry.doc) or ""
        rows.append(
            PassRow(
                name=entry.name,
                level=None if info is None else info.opt_level,
                required=[] if info is None else list(info.required),
                options=[str(option) for option in entry.options.values()],
                doc=" ".join(doc.strip().partition("\n\n")[0].split()),
            )
        )
    return rows


def rule_rows(sets: Iterable[type[RuleSet]] | None = None) -> list[RuleRow]:
    """The rules of some sets, or of all passes, in the order of passes and definition; each rule once, with the passes that run it."""
    rows: dict[str, RuleRow] = {}
    if sets is not None:
        for rules in sets:
            for rule in rules.rules:
                rows.setdefault(rule.name, _row(rule))
        return list(rows.values())
    for entry in list_passes():
        made = None if entry.info is None else entry.make({})
        if isinstance(made, RulePass):
            for rules_ in made.sets:
                for rule in rules_.rules:
                    rows.setdefault(rule.name, _row(rule))["passes"].append(entry.name)
    return list(rows.values())


def _row(rule: Rule) -> RuleRow:
    conditions = [repr(condition) for condition in rule.conditions]
    return RuleRow(name=rule.name, rule=repr(rule), conditions=conditions, math=rule.math, note=rule.note, source=rule.source, passes=[])
