"""The rules of the library in full, and the passes that run them."""

from collections.abc import Mapping, Sequence

from passat.catalog import Subject, library_subjects, operators_of, runners
from passat.passmgr import Pass
from passat.rule_pages import INTRODUCTION, code, first_sentence, joined, prose, section, table
from passat.rules.passes import default_pipeline
from passat.rules.planned_rules import leaves, registered_rule_passes
from passat.rules.rule_pass import RulePass
from passat.rules.rule_set import RuleSetMeta


def every_rule() -> str:
    """Returns all rules of the library, each with its equation and guards, in a section for each file."""
    subjects = library_subjects()
    passes = _library_passes()
    run_by = runners(passes)
    return joined(
        INTRODUCTION,
        _contents(subjects),
        *_pipeline(),
        *_other_passes(passes),
        *(section(subject, lambda rules: _run_by(run_by.get(rules, {}))) for subject in subjects),
        _operator_index(subjects),
    )


def _library_passes() -> list[tuple[str, RulePass]]:
    """The passes that only run sets of the library, not those of users."""
    known = {rules for subject in library_subjects() for rules in subject.sets}
    return [(name, pass_) for name, pass_ in registered_rule_passes() if known.issuperset(rules.base for rules in pass_.sets)]


def _run_by(passes: Mapping[str, Sequence[RuleSetMeta]]) -> str:
    """Which passes run a set, given the forms in which they do."""
    by = ", ".join(code(name) + _uses(forms) for name, forms in passes.items())
    return f"Run by {by or 'no pass by itself; pass its name to `Legalize`, or to your own `rule_pass`'}."


def _uses(forms: Sequence[RuleSetMeta]) -> str:
    """The forms in which a pass uses a set, if they differ from the set."""
    uses = [_used_as(rules) for rules in forms]
    others = " and ".join(filter(None, uses))
    return f" ({'also ' if '' in uses else ''}{others})" if others else ""


def _used_as(rules: RuleSetMeta) -> str:
    """How a form of a set differs from the set, in words; '' if it does not."""
    own = {rule.name: rule.kind for rule in rules.base}
    kind = next((rule.kind for rule in rules if rule.kind != own[rule.name]), "")
    part = f"only {', '.join(rule.own_name for rule in rules)}" if len(rules) < len(rules.base) else ""
    return ", ".join(filter(None, [kind, part]))


def _link(rules: RuleSetMeta) -> str:
    use = _used_as(rules)
    return f"[{rules.__name__}](#{rules.__name__.lower()}){use and f' ({use})'}"


def _contents(subjects: Sequence[Subject]) -> str:
    count = sum(len(rules) for subject in subjects for rules in subject.sets)
    rows = [
        (
            code(subject.path.rpartition("/")[2]),
            first_sentence(subject.doc),
            ", ".join(f"{_link(each)} ({len(each)})" for each in subject.sets),
        )
        for subject in subjects
    ]
    return f"There are {count} rules, in these files of `rules/library/`:\n\n" + table(("file", "about", "sets, with their rules"), rows)


def _pipeline() -> list[str]:
    """The passes of the default pipeline, with their sets."""
    told = dict.fromkeys(_pass(pass_.info.name, pass_) for pass_ in leaves(default_pipeline()))
    return ["## The default pipeline", "In this order:", "\n".join(told)]


def _other_passes(passes: Sequence[tuple[str, RulePass]]) -> list[str]:
    """The rule passes outside of the default pipeline."""
    default = {pass_.info.name for pass_ in leaves(default_pipeline())}
    plain = {name: pass_ for name, pass_ in passes if "{" not in name}
    others = []
    for name, pass_ in passes:
        if name in plain and name not in default and pass_.sets:
            others.append(_pass(name, pass_))
        elif name not in plain:
            usual = plain[name.partition("{")[0]].sets
            kept = "the sets of the pass without the option, and " if set(usual) < set(pass_.sets) else ""
            others.append(f"* **{name}**: {kept}{', '.join(_link(rules) for rules in pass_.sets if rules not in usual)}.")
    return ["## Other passes", "These run if a pipeline names them:", "\n".join(others)]


def _pass(name: str, pass_: Pass) -> str:
    """A pass: its description and rule sets."""
    doc = prose(" ".join((pass_.__doc__ or "").split("\n\n")[0].split()))
    lines = [f"* **{name}** (level {pass_.info.opt_level}): {doc}"]
    if isinstance(pass_, RulePass) and pass_.sets:
        phases = [", ".join(map(_link, phase.sets)) + _rounds(phase.rounds) for phase in pass_.phases]
        if len(phases) == 1:
            lines.append(f"  Sets: {phases[0]}.")
        else:
            new = []
            seen: set[RuleSetMeta] = set()
            for phase in pass_.phases:
                fresh = [rules for rules in phase.sets if rules not in seen]
                again = len(phase.sets) - len(fresh)
                words = ", ".join(map(_link, fresh))
                if again:
                    words = f"{again} of those before, with {words}" if fresh else f"{again} of those before"
                new.append(words + _rounds(phase.rounds))
                seen.update(phase.sets)
            lines.append("  Sets, in phases: " + "; then ".join(new) + ".")
    return "\n".join(lines)


def _rounds(count: int | None) -> str:
    return "" if count is None else f" ({count} round{'s' if count > 1 else ''})"


def _operator_index(subjects: Sequence[Subject]) -> str:
    """The rule sets that mention each operator."""
    index: dict[str, list[RuleSetMeta]] = {}
    for subject in subjects:
        for rules in subject.sets:
            for name in operators_of(rules):
                index.setdefault(name, []).append(rules)
    rows = [(code(name), ", ".join(map(_link, index[name]))) for name in sorted(index)]
    return "## Rule sets by operator\n\n" + table(("operator", "sets"), rows)
