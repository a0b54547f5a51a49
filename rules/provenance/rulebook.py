"""The rules that certificates may speak of: those of Passat's library, by name, and those that are given."""

import functools
import importlib
import pkgutil
from collections.abc import Iterable

import passat.rules.library
from passat.rules.provenance.written import Written
from passat.rules.rule import Rule, RuleSetMeta


def rules_by_name(sets: Iterable[RuleSetMeta] = ()) -> dict[str, Rule]:
    """The rules of the library and of some sets, each direction by itself."""
    return {**_library(), **_by_name(sets)}


@functools.cache
def _library() -> dict[str, Rule]:
    found: dict[RuleSetMeta, None] = {Written: None}
    for module in pkgutil.iter_modules(passat.rules.library.__path__, f"{passat.rules.library.__name__}."):
        found.update((value, None) for value in vars(importlib.import_module(module.name)).values() if isinstance(value, RuleSetMeta))
    return _by_name(found)


def _by_name(sets: Iterable[RuleSetMeta]) -> dict[str, Rule]:
    return {direction.name: direction for rules in sets for rule in rules for direction in rule.directions()}
