"""The rules that certificates may speak of: those of Passat's library, by name, and those that are given."""

import functools
from collections.abc import Iterable

from passat.rules.library import rule_sets
from passat.rules.provenance.written import Written
from passat.rules.rule import Rule, RuleSetMeta


def rules_by_name(sets: Iterable[RuleSetMeta] = ()) -> dict[str, Rule]:
    """The rules of the library and of some sets, each direction by itself."""
    return {**_library(), **_by_name(sets)}


@functools.cache
def _library() -> dict[str, Rule]:
    return _by_name([Written, *rule_sets().values()])


def _by_name(sets: Iterable[RuleSetMeta]) -> dict[str, Rule]:
    return {direction.name: direction for rules in sets for rule in rules for direction in rule.directions()}
