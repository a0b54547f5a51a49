"""The rules that certificates may speak of: those of Passat's library, by name, and those that are given."""

import functools
from collections.abc import Iterable

from passat.rules.library import rule_sets
from passat.rules.provenance.written import Written
from passat.rules.rule import EAGER, Rule, RuleSetMeta


def rules_by_name(sets: Iterable[RuleSetMeta] = ()) -> dict[str, Rule]:
    """The rules of the library and of some sets, each direction by itself."""
    return {**_library(), **_by_name(sets)}


@functools.cache
def _library() -> dict[str, Rule]:
    return _by_name([Written, *rule_sets().values()])


def _by_name(sets: Iterable[RuleSetMeta]) -> dict[str, Rule]:
    every = (rule for rules in sets for rule in rules)
    return {each.name: each for rule in every for each in ([rule] if rule.kind == EAGER else rule.directions())}
