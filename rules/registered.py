"""The registered passes that run rules."""

from collections.abc import Iterator, Sequence

from passat.passmgr import Pass, list_passes
from passat.passmgr.passes import nested_passes
from passat.rules.rule import Rule
from passat.rules.rule_pass import RulePass, RunsRules


def leaves(pass_: Pass) -> Iterator[Pass]:
    """The passes of a pipeline, with nested ones in place."""
    return (each for each in nested_passes(pass_) if each.members is None)


def registered_rule_passes() -> list[tuple[str, RulePass]]:
    """The registered rule passes by their pipeline names, with a variant for each switch that adds rule sets. Members of pipelines without
    a name of their own are listed under the pipeline's name."""
    entries = list_passes()
    names = {entry.name for entry in entries}
    found: list[tuple[str, RulePass]] = []
    for entry in entries:
        if entry.info is None:
            continue
        made = entry.make({})
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
    found: list[tuple[str, Pass, Sequence[Rule]]] = []
    for entry in list_passes():
        made = None if entry.info is None else entry.make({})
        if not isinstance(made, RulePass) and isinstance(made, RunsRules):  # which reads `rules`, and a rule pass expands them
            found.append((entry.name, made, made.rules))
    return found
