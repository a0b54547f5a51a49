"""The registered passes that run rules, and which rules a plan runs: why a rule does not run, disabled passes whose rules run in other
passes, and names in `rules.pick` and `rules.disabled` that are unknown: a misspelled name would disable nothing."""

import difflib
import functools
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from typing import Final, NamedTuple

from passat.ir.long_words import listed
from passat.ir.similar_names import did_you_mean, suggestion
from passat.passmgr import ConfigError, Pass, PassContext, PassEntry, Plan, list_passes
from passat.passmgr.passes import nested_passes
from passat.passmgr.planning.plan import Reason, Step
from passat.passmgr.registry import is_registered
from passat.rules import library
from passat.rules.engine.directions import expanded
from passat.rules.rule import Rule, equation_of
from passat.rules.rule_pass import RulePass, RunsRules
from passat.rules.rule_set import RuleSetMeta

_NAMED: Final = 3
"""Maximum number of passes, and of sets, that a sentence names."""


class NotRun(NamedTuple):
    """Whether a pass of the pipeline has the rule, and why no pass runs it; '' if one does."""

    is_held: bool
    why: str


def why_not_run(rule: Rule, plan: Plan, ctx: PassContext, ran: Collection[str] | None = None) -> NotRun:
    """Why no pass of a plan runs a rule; `ran` are the passes that actually ran, by default all that the plan runs."""
    name = equation_of(rule.name)
    holding = [(step, pass_) for step, pass_ in _rule_passes(plan) if any(one.name == name for one in pass_.declared)]
    whys = []
    for step, pass_ in holding:
        vetoed = "an instrument vetoed it" if ran is not None and step.name not in ran else ""
        idle = vetoed if step.runs else step.why
        why = pass_.left_out(rule, ctx) or (f"{step.name} does not run: {idle}" if idle else "")
        if not why:
            return NotRun(is_held=True, why="")
        whys.append(why)
    return NotRun(bool(holding), listed(whys, len(whys)) or "no pass of the pipeline has it")


def disabled_in_vain(plan: Plan, ctx: PassContext) -> list[str]:
    """A sentence for each disabled pass all of whose rules run in other passes, or that runs because another requires it."""
    required = {step.name: step.required_by for step in plan.walk() if step.reason is Reason.REQUIRED and step.name in ctx.disabled_pass}
    said = [f"{name} is disabled, but runs, because {by} requires it" for name, by in required.items()]
    if not any(step.reason is Reason.DISABLED for step in plan.walk()):
        return said
    running: dict[str, list[str]] = {}
    for step, pass_ in _rule_passes(plan):
        for rule in pass_.declared if step.runs else ():
            if not pass_.left_out(rule, ctx):
                running.setdefault(rule.name, []).append(step.name)
    for step, pass_ in _rule_passes(plan):
        own = {rule.name: rules.__name__ for rules in pass_.sets for rule in rules if not pass_.left_out(rule, ctx)}
        if step.reason is Reason.DISABLED and own and own.keys() <= running.keys():
            sets = _some(own.values())
            passes = _some(name for rule in own for name in running[rule])
            said.append(
                f"{step.name} is disabled, but other passes run its rules, too ({passes}): disable the rules or their sets ({sets})"
            )
    return said


def _some(names: Iterable[str]) -> str:
    """The first names."""
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:_NAMED]) + (" ..." if len(distinct) > _NAMED else "")


def _rule_passes(plan: Plan) -> list[tuple[Step, RulePass]]:
    return [(step, step.pass_) for step in plan.walk() if isinstance(step.pass_, RulePass)]


def check_pick(ctx: PassContext, steps: Sequence[Step]) -> None:
    """Raises ConfigError for a pick on an unknown pass or stage, with the nearest name, or on a pass of the pipeline without an e-graph."""
    with_egraphs = {step.name: isinstance(step.pass_, RulePass) for step in steps} | {step.stage: True for step in steps if step.stage}
    for name in ctx.get_config("rules.pick"):
        if with_egraphs.get(name):
            continue
        if name in with_egraphs:
            raise ConfigError(f"config rules.pick names {name}, which has no e-graph")
        if not is_registered(name):
            hint = did_you_mean(name, sorted(with_egraphs.keys() | {entry.name for entry in list_passes()}), 1)
            raise ConfigError(f"config rules.pick names {name!r}, which is neither in this pipeline nor registered{hint}")


def check_disabled(ctx: PassContext, passes: Sequence[Pass]) -> None:
    """Raises ConfigError with the nearest name if `rules.disabled` names neither a rule nor a rule set of these passes, of the registered
    passes, or of the library."""
    names = ctx.get_config("rules.disabled")
    known = _names(rules for pass_ in passes if isinstance(pass_, RulePass) for rules in pass_.sets) if names else set()
    if known.issuperset(names):
        return
    known |= _names(library.rule_sets().values())
    known |= _names(rules for _, made in registered_passes() if isinstance(made, RulePass) for rules in made.sets)
    for name in names:
        if name not in known:
            raise ConfigError(f"config rules.disabled names {name!r}, which is neither a rule nor a rule set{_hint(name, known)}")


def _hint(name: str, known: Set[str]) -> str:
    """The rest of the sentence about an unknown name: similar names."""
    owner, bracket, operators = name.partition("[")
    likely = sorted(known)
    if bracket and owner in known:
        likely = [one for one in likely if one.startswith((f"{owner}.", f"{owner}[")) and "[" in one]
        if not likely:
            return f"; {owner} can only be disabled for all operators, as {owner}"
        alike = [one for one in likely if one.endswith(bracket + operators)] or difflib.get_close_matches(name, likely, 1)
        if alike:
            return suggestion(alike[:3])
    return did_you_mean(name, likely, 1) or "; `passat rules list` shows all names"


def _names(sets: Iterable[RuleSetMeta]) -> set[str]:
    """The names under which rules can be disabled, including those of their sets."""
    return set().union(*map(_names_in, sets))


@functools.lru_cache(maxsize=1024)
def _names_in(rules: RuleSetMeta) -> frozenset[str]:
    """The names of a set and its rules that can be disabled. Cached: listing the library takes a second."""
    found = {rules.__name__}
    for rule in rules.rules:
        for name in (direction.name for direction in expanded(rule)):
            found |= {name, equation_of(name), name.partition(".")[0]}
    return frozenset(found)


def leaves(pass_: Pass) -> Iterator[Pass]:
    """The passes of a pipeline, with nested ones in place."""
    return (each for each in nested_passes(pass_) if each.members is None)


def registered_passes() -> list[tuple[PassEntry, Pass]]:
    """The registered passes that need no options, with their entries."""
    return [(entry, made) for entry in list_passes() if (made := entry.default()) is not None]


def registered_rule_passes() -> list[tuple[str, RulePass]]:
    """The registered rule passes by their pipeline names, with a variant for each switch that adds rule sets. Members of pipelines without
    a name of their own are listed under the pipeline's name."""
    names = {entry.name for entry in list_passes()}
    found: list[tuple[str, RulePass]] = []
    for entry, made in registered_passes():
        found += [
            (entry.name, each) for each in leaves(made) if isinstance(each, RulePass) and (each is made or each.info.name not in names)
        ]
        if not isinstance(made, RulePass):
            continue
        found += [(entry.name, each) for each in made.inner]
        for option in entry.options.values():
            switched = entry.make({option.name: True}) if option.default is False else None
            if isinstance(switched, RulePass) and set(switched.sets) - set(made.sets):
                found.append((f"{entry.name}{{{option.name}=True}}", switched))
    return found


def other_passes() -> list[tuple[str, Pass, Sequence[Rule]]]:
    """The registered passes that run rules without being rule passes, with their rules."""
    passes = [(entry.name, made) for entry, made in registered_passes() if not isinstance(made, RulePass)]  # which expands its rules
    return [(name, made, made.rules) for name, made in passes if isinstance(made, RunsRules)]
