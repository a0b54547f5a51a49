"""Rule sets in notebooks."""

from typing import TYPE_CHECKING

from passat.ir.markup import folded, table, text

if TYPE_CHECKING:
    from passat.rules.rule import RuleSetMeta


def set_html(rules: "RuleSetMeta") -> str:
    """The rules of a set as an HTML table: names, equations, guards, and what they do to floating-point values."""
    rows = [
        (
            rule.own_name,
            repr(rule),
            ", ".join(map(repr, rule.guards)),
            rule.kind,
            f"{rule.math}: {rule.note}".removesuffix(": "),
        )
        for rule in rules
    ]
    said = f"<div>{text(' '.join(rules.__doc__.split()))}</div>" if rules.__doc__ else ""
    title = f"{rules.__name__}: {len(rows)} rule{'' if len(rows) == 1 else 's'}"
    return said + folded(title, table(("rule", "equation", "guards", "kind", "math"), rows), opened=True)
