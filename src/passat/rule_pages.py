"""Markdown pages on rules: the default pipeline at each level, and each rule with its equation, guards and exactness."""

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any as AnyValue
from typing import Final

import passat.rules.passes  # noqa: F401  # importing registers the passes of the library
from passat.catalog import (
    Subject,
    call_of,
    leaves,
    library_subjects,
    meaning,
    named_functions,
    operators_of,
    registered_rule_passes,
    runners,
    shortened,
    used_as,
)
from passat.passmgr import Pass, PassContext
from passat.rules.passes import default_pipeline
from passat.rules.rule import EXACT, FINITE, KEPT, MIXED, RESOLVED, Rule, RuleSetMeta
from passat.rules.rule_pass import RulePass

LEVELS: Final = range(5)
_FREELY: Final = {KEPT: "", RESOLVED: "; NaN may become infinite", MIXED: "; infinities and NaN may become one another"}
_LONG: Final = 130
"""Maximum length of equations in tables."""
_WIDTH: Final = 110
_INTRODUCTION: Final = """\
In an equation, `x`, `y`, `z` ... are any tensors, and `c`, `d`, `w` ... are constants where the guards need their values. Omitted
attributes have their defaults; `...` stands for any attributes. Holes for operators, cases (`kind(matmul=..., dense=...)`) and several
operands (`*xs`) are explained above the rules. Long subexpressions that occur several times are abbreviated by capital letters.

* **where**: the guards. The rule fires if all of them hold; otherwise it reports which guard rejected the match, and why. The guards are
  explained below the rules of each file; `left` is the whole left side.
* **kind**: a *reducing* rule retires the matched node from matching; an *exploring* one adds an alternative that need not be cheaper by
  itself; a *joining* one unites two existing e-classes; an *eager* one is applied to a node when it is added, and replaces it; a
  *multi-pattern* one has several roots; a *lowering* one excludes the matched node from extraction. `<->` works in both directions.
* **values**: an *exact* rule keeps every bit. An *inexact* one changes rounding, as its note says, and does not run where `rules.math` is
  `exact`; it keeps infinities and NaN unless it says otherwise. A *finite* one assumes that no value is infinite or NaN, for the reason
  that it gives, and runs only where `rules.math` is `finite` (or in a lowering pass that is requested by name).
"""


def library_table() -> str:
    """The rule sets of the library in a table, and which passes run at each level."""
    sets = sorted((rules for subject in library_subjects() for rules in subject.sets), key=lambda rules: rules.__name__)
    rows = [
        (
            f"[{rules.__name__}](reference/every-rule.md#{rules.__name__.lower()})",
            str(len(rules)),
            ", ".join(sorted({rule.kind for rule in rules})),
            _about(rules.__doc__ or ""),
        )
        for rules in sets
    ]
    return _page(
        "# Rules",
        f"The library has {sum(map(len, sets))} rules in {len(sets)} rule sets. `passat rules list SET` prints the rules of a set, "
        "`passat rules doc SET` also what their guards mean, and `passat rules why-not MODEL` why a rule did not fire on a model. "
        "`passat rules doc` makes this page.",
        "## Rule sets",
        _table(("rule set", "rules", "kind", "about"), rows),
        "## Levels",
        "The passes that `passat optimize` runs, in this order, at each level of `-O` (3 is the default):",
        _levels(),
    )


def _library_passes() -> list[tuple[str, RulePass]]:
    """The passes that only run sets of the library, not those of users."""
    known = {rules for subject in library_subjects() for rules in subject.sets}
    return [(name, pass_) for name, pass_ in registered_rule_passes() if known.issuperset(rules.base for rules in pass_.sets)]


def _about(doc: str) -> str:
    """The first sentence of a docstring."""
    return _text(re.split(r"(?<=[.:]) ", " ".join(doc.partition("\n\n")[0].split()))[0].rstrip(":"))


def library_page() -> str:
    """All rules of the library, each with its equation and guards."""
    subjects = library_subjects()
    passes = _library_passes()
    return _page(
        _INTRODUCTION,
        _contents(subjects),
        *_pipeline(),
        *_other_passes(passes),
        *(_subject(subject, runners(passes)) for subject in subjects),
        _operator_index(subjects),
    )


def page(subjects: Sequence[Subject]) -> str:
    """The page of some files of rules, or of some sets of the library."""
    names = ", ".join(f"`{subject.path}`" for subject in subjects)
    return _page(f"# The rules of {names}", _INTRODUCTION, *(_subject(subject, None) for subject in subjects))


def _page(*parts: str) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _text(words: str) -> str:
    """Text as Markdown. Escapes markup outside of `code`."""
    parts = re.split(r"(`[^`]*`)", words)
    return "".join(part if part.startswith("`") else re.sub(r"([*<>|\[\]])", r"\\\1", part) for part in parts)


def _paragraphs(doc: str) -> str:
    return "\n\n".join(_text(" ".join(part.split())) for part in re.split(r"\n\s*\n", doc))


def _code(text: str) -> str:
    return f"`{text}`"


def _cell(text: str) -> str:
    """A table cell. Escapes bars, which end a cell even within code."""
    return text.replace("\\|", "|").replace("|", "\\|")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, [":--"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _used_as(forms: Sequence[RuleSetMeta]) -> str:
    """The forms in which a pass uses a set, if they differ from the set."""
    uses = [used_as(rules) for rules in forms]
    others = " and ".join(filter(None, uses))
    return f" ({'also ' if '' in uses else ''}{others})" if others else ""


def _link(rules: RuleSetMeta) -> str:
    use = used_as(rules)
    return f"[{rules.__name__}](#{rules.__name__.lower()}){use and f' ({use})'}"


def _contents(subjects: Sequence[Subject]) -> str:
    count = sum(len(rules) for subject in subjects for rules in subject.sets)
    rows = [
        (_code(subject.path.rpartition("/")[2]), _about(subject.doc), ", ".join(f"{_link(each)} ({len(each)})" for each in subject.sets))
        for subject in subjects
    ]
    return f"There are {count} rules, in these files of `rules/library/`:\n\n" + _table(("file", "about", "sets, with their rules"), rows)


def _levels() -> str:
    """Which passes of the default pipeline run at each level."""
    pipeline = default_pipeline()
    running = [{id(step.pass_) for step in pipeline.plan(PassContext(opt_level=level)).walk() if step.runs} for level in LEVELS]
    rows = [(pass_.info.name, *("yes" if id(pass_) in ran else "" for ran in running)) for pass_ in leaves(pipeline)]
    return _table(("pass", *(f"`-O{level}`" for level in LEVELS)), rows)


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
    doc = _text(" ".join((pass_.__doc__ or "").split("\n\n")[0].split()))
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


def _subject(subject: Subject, run_by: dict[RuleSetMeta, dict[str, list[RuleSetMeta]]] | None) -> str:
    """A file: its docstring, its sets, and the meaning of their guards."""
    guards, computed = named_functions(rule for rules in subject.sets for rule in rules)
    parts = [f"## {subject.path}", _paragraphs(subject.doc)]
    for rules in subject.sets:
        parts += _rule_set(rules, None if run_by is None else run_by.get(rules, {}))
    parts += _meanings("The guards of this file:", guards) + _meanings("What its right sides compute:", computed)
    return "\n\n".join(part for part in parts if part)


def _meanings(title: str, functions: Sequence[Callable[..., AnyValue]]) -> list[str]:
    if not functions:
        return []
    return [title, "\n".join(f"* {_code(call_of(function))}: {_text(meaning(function))}" for function in functions)]


def _rule_set(rules: RuleSetMeta, run_by: dict[str, list[RuleSetMeta]] | None) -> list[str]:
    doc = " ".join((rules.__doc__ or "").split())
    said = [f"Operators: {', '.join(map(_code, operators_of(rules)))}."]
    if run_by is not None:
        by = (
            ", ".join(_code(name) + _used_as(forms) for name, forms in run_by.items())
            or "no pass by itself; pass its name to `Legalize`, or to your own `rule_pass`"
        )
        said.insert(0, f"Run by {by}.")
    meanings = dict.fromkeys(meaning for rule in rules for meaning in rule.holes().meanings())
    said += [f"{_text(meaning)}." for meaning in meanings]
    kinds, values = {_kind(rule) for rule in rules}, {_values(rule) for rule in rules}
    if len(kinds) == 1 or len(values) == 1:
        common = [each.pop() for each in (set(kinds), set(values)) if len(each) == 1]
        said.append(f"{'All rules are' if len(rules) > 1 else 'The rule is'} {' and '.join(common)}.")
    columns: list[tuple[str, Callable[[Rule], str]]] = []
    columns += [("kind", _kind)] if len(kinds) > 1 else []
    columns += [("values", _values)] if len(values) > 1 else []
    body = _entries if any(len(repr(rule)) > _LONG for rule in rules) else _rows
    return [f"### {rules.__name__}", _text(doc), " ".join(said), body(list(rules), columns)]


def _kind(rule: Rule) -> str:
    return rule.kind


def _values(rule: Rule) -> str:
    """What the rule may do to values, with the reason."""
    return EXACT if rule.math == EXACT else f"{FINITE if rule.math == FINITE else 'inexact'} ({_text(rule.note)}{_FREELY[rule.nonfinite]})"


def _guards(rule: Rule) -> list[str]:
    """The guards, in which the left side as a whole is `left`."""
    return [repr(guard).replace(repr(rule.lhs), "left") for guard in rule.guards]


def _rows(rules: Sequence[Rule], columns: Sequence[tuple[str, Callable[[Rule], str]]]) -> str:
    """Rules as a table."""
    guarded = any(rule.guards for rule in rules)
    header = ["rule", "equation", *(["where"] if guarded else []), *(title for title, _ in columns)]
    rows = []
    for rule in rules:
        guards = [", ".join(map(_code, _guards(rule)))] if guarded else []
        rows.append([_code(rule.name), _code(repr(rule)), *guards, *(tell(rule) for _, tell in columns)])
    return _table(header, rows)


def _entries(rules: Sequence[Rule], columns: Sequence[tuple[str, Callable[[Rule], str]]]) -> str:
    """Rules as a list, with room for long equations."""
    lines = []
    for rule in rules:
        told = [tell(rule) for _, tell in columns]
        equation, *guards, shared = shortened([repr(rule), *_guards(rule)])
        sides = re.sub(r" (->|<->) ", r"\n\1 ", equation).split("\n")
        text = [*sides, *(["where " + ", ".join(guards)] if guards else []), *shared.splitlines()]
        wrapped = [piece for line in text for piece in textwrap.wrap(line, _WIDTH, subsequent_indent="     ", break_on_hyphens=False)]
        block = "\n".join(f"  {line}" for line in wrapped)
        lines.append(f"* {_code(rule.name)}{': ' if told else ''}{'; '.join(told)}\n\n  ```text\n{block}\n  ```\n")
    return "\n".join(lines)


def _operator_index(subjects: Sequence[Subject]) -> str:
    """The rule sets that mention each operator."""
    index: dict[str, list[RuleSetMeta]] = {}
    for subject in subjects:
        for rules in subject.sets:
            for name in operators_of(rules):
                index.setdefault(name, []).append(rules)
    rows = [(_code(name), ", ".join(map(_link, index[name]))) for name in sorted(index)]
    return "## Rule sets by operator\n\n" + _table(("operator", "sets"), rows)
