"""What there is: passes and rules as plain rows, for `passat passes` and `passat rules list`."""

from collections.abc import Iterable
from typing import TypedDict

from rich.table import Table
from rich.text import Text

import passat.rules.passes  # noqa: F401  # importing registers the passes of the library
from passat.passmgr import list_passes
from passat.render import plain_table
from passat.rules import Rule, RulePass, RuleSet


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


def passes_table(rows: Iterable[PassRow]) -> Table:
    """The passes as a table."""
    table = plain_table("pass", "level", "what it does")
    for row in rows:
        name = row["name"] + (f"{{{', '.join(row['options'])}}}" if row["options"] else "")
        table.add_row(name, "" if row["level"] is None else str(row["level"]), Text(row["doc"]))
    return table


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


def rules_text(rows: Iterable[RuleRow]) -> str:
    """The rules as text: under the name of each, itself, its conditions, and what it does to rounding where it does anything."""
    lines: list[str] = []
    for row in rows:
        lines += [row["name"] + (f"    ({', '.join(row['passes'])})" if row["passes"] else ""), f"    {row['rule']}"]
        lines += [f"    where {' and '.join(row['conditions'])}"] if row["conditions"] else []
        lines += [f"    {row['math']}: {row['note']}"] if row["note"] else []
    return "\n".join(lines)


def _row(rule: Rule) -> RuleRow:
    conditions = [repr(condition) for condition in rule.conditions]
    return RuleRow(name=rule.name, rule=repr(rule), conditions=conditions, math=rule.math, note=rule.note, source=rule.source, passes=[])
