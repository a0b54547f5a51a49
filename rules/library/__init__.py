"""The rule library: one file per subject.

`rule_sets()` discovers the sets in the files, so no list of them is maintained. `passat.rules.library.Arithmetic` also works but imports
every file; code that has to start quickly imports a set from its own file.
"""

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any as AnyValue

from passat.rules.pattern import RuleError
from passat.rules.rule_set import RuleSetMeta


@functools.cache
def rule_files() -> Mapping[ModuleType, tuple[RuleSetMeta, ...]]:
    """The modules that define rule sets, sorted by name, each with its sets in definition order."""
    found: dict[ModuleType, tuple[RuleSetMeta, ...]] = {}
    for name in sorted(each.name for each in pkgutil.iter_modules(__path__)):
        module = importlib.import_module(f"{__name__}.{name}")
        own = [value for value in vars(module).values() if isinstance(value, RuleSetMeta) and value.__module__ == module.__name__]
        if own:
            found[module] = tuple(dict.fromkeys(own))
    return found


@functools.cache
def rule_sets() -> Mapping[str, RuleSetMeta]:
    """All rule sets of the library by name, sorted. Raises RuleError for a duplicate name."""
    found: dict[str, RuleSetMeta] = {}
    for module, sets in rule_files().items():
        for rules in sets:
            if rules.__name__ in found:
                raise RuleError(f"{module.__name__} and {found[rules.__name__].__module__} both define a rule set {rules.__name__}")
            found[rules.__name__] = rules
    return dict(sorted(found.items()))


def __getattr__(name: str) -> AnyValue:
    """A rule set by name."""
    if name[:1].isupper() and name in rule_sets():  # Python also asks for module names, which start with a lower-case letter.
        return rule_sets()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *rule_sets()])
