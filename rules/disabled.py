"""Checks the names in the option `rules.disabled`: a name that no rule has would disable nothing."""

import difflib
import functools
from collections.abc import Iterable, Sequence

from passat.passmgr import ConfigError, Pass, PassContext, list_passes
from passat.rules import library
from passat.rules.rule import EAGER, RuleSetMeta, equation_of
from passat.rules.rule_pass import RulePass


def check_disabled(ctx: PassContext, passes: Sequence[Pass]) -> None:
    """Raises ConfigError with the nearest name where `rules.disabled` names what is neither a rule nor a rule set: of these passes, of
    the registered ones, or of the library."""
    names = ctx.get_config("rules.disabled")
    known = _names(rules for pass_ in passes if isinstance(pass_, RulePass) for rules in pass_.sets) if names else set()
    if known.issuperset(names):
        return
    known |= _names(library.rule_sets().values())
    for entry in list_passes():
        if all(option.default is not option.empty for option in entry.options.values()) and isinstance(made := entry.make({}), RulePass):
            known |= _names(made.sets)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1)
            hint = f"; did you mean {near[0]}?" if near else "; `passat rules list` shows all names"
            raise ConfigError(f"config rules.disabled names {name!r}, which is no rule and no rule set{hint}")


def _names(sets: Iterable[RuleSetMeta]) -> set[str]:
    """The names under which rules can be disabled, those of their sets among them."""
    return set().union(*map(_names_in, sets))


@functools.lru_cache(maxsize=1024)
def _names_in(rules: RuleSetMeta) -> frozenset[str]:
    """The names of a set, and under which its rules can be disabled: to write them all out takes a second for the library."""
    found = {rules.__name__}
    for rule in rules.rules:
        directions = [rule] if rule.kind == EAGER else rule.directions()
        for name in (direction.name for direction in directions):
            found |= {name, equation_of(name), name.partition(".")[0]}
    return frozenset(found)
