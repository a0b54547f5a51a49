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
    library_subjects,
    meaning,
    named_functions,
    operators_of,
    shortened,
)
from passat.ir.counting import counted
from passat.passmgr import PassContext
from passat.rules.passes import default_pipeline
from passat.rules.planned_rules import leaves
from passat.rules.rule import EXACT, FINITE, KEPT, MIXED, RESOLVED, Rule
from passat.rules.rule_set import RuleSetMeta

LEVELS: Final = range(5)
_FREELY: Final = {KEPT: "", RESOLVED: "; NaN may become infinite", MIXED: "; infinities and NaN may become one another"}
_LONG: Final = 130
"""Maximum length of equations in tables."""
_WIDTH: Final = 110
INTRODUCTION: Final = """\
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
            first_sentence(rules.__doc__ or ""),
        )
        for rules in sets
    ]
    return joined(
        "# Rules",
        f"The library has {counted(sum(map(len, sets)), 'rule')} in {counted(len(sets), 'rule set')}. `passat "
        "rules list SET` prints the rules of a set, "
        "`passat rules doc SET` also what their guards mean, and `passat rules why-not MODEL` why a rule did not fire on a model. "
        "`passat rules doc` makes this page.",
        "## Rule sets",
        table(("rule set", "rules", "kind", "about"), rows),
        "## Levels",
        "The passes that `passat optimize` runs, in this order, at each level of `-O` (3 is the default):",
        _levels(),
    )


def first_sentence(doc: str) -> str:
    """The first sentence of a docstring."""
    return prose(re.split(r"(?<=[.:]) ", " ".join(doc.partition("\n\n")[0].split()))[0].rstrip(":"))


def page(subjects: Sequence[Subject]) -> str:
    """The page of some files of rules, or of some sets of the library."""
    names = ", ".join(f"`{subject.path}`" for subject in subjects)
    return joined(f"# The rules of {names}", INTRODUCTION, *map(section, subjects))


def joined(*parts: str) -> str:
    """The parts of a page, without the empty ones."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def prose(words: str) -> str:
    """Text as Markdown. Escapes markup outside of `code`."""
    parts = re.split(r"(`[^`]*`)", words)
    return "".join(part if part.startswith("`") else re.sub(r"([*<>|\[\]])", r"\\\1", part) for part in parts)


def _paragraphs(doc: str) -> str:
    return "\n\n".join(prose(" ".join(part.split())) for part in re.split(r"\n\s*\n", doc))


def code(text: str) -> str:
    """Text as code."""
    return f"`{text}`"


def _cell(text: str) -> str:
    """A table cell. Escapes bars, which end a cell even within code."""
    return text.replace("\\|", "|").replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [header, [":--"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _levels() -> str:
    """Which passes of the default pipeline run at each level."""
    pipeline = default_pipeline()
    running = [{id(step.pass_) for step in pipeline.plan(PassContext(opt_level=level)).walk() if step.runs} for level in LEVELS]
    rows = [(pass_.info.name, *("yes" if id(pass_) in ran else "" for ran in running)) for pass_ in leaves(pipeline)]
    return table(("pass", *(f"`-O{level}`" for level in LEVELS)), rows)


def section(subject: Subject, about: Callable[[RuleSetMeta], str] = lambda rules: "") -> str:
    """A file: its docstring, its sets, each with what is said `about` it first, and the meaning of their guards."""
    guards, computed = named_functions(rule for rules in subject.sets for rule in rules)
    parts = [f"## {subject.path}", _paragraphs(subject.doc)]
    for rules in subject.sets:
        parts += _rule_set(rules, about(rules))
    parts += _meanings("The guards of this file:", guards) + _meanings("What its right sides compute:", computed)
    return "\n\n".join(part for part in parts if part)


def _meanings(title: str, functions: Sequence[Callable[..., AnyValue]]) -> list[str]:
    if not functions:
        return []
    return [title, "\n".join(f"* {code(call_of(function))}: {prose(meaning(function))}" for function in functions)]


def _rule_set(rules: RuleSetMeta, about: str) -> list[str]:
    doc = " ".join((rules.__doc__ or "").split())
    said = [*filter(None, [about]), f"Operators: {', '.join(map(code, operators_of(rules)))}."]
    meanings = dict.fromkeys(meaning for rule in rules for meaning in rule.holes().meanings())
    said += [f"{prose(meaning)}." for meaning in meanings]
    kinds, values = {_kind(rule) for rule in rules}, {_values(rule) for rule in rules}
    if len(kinds) == 1 or len(values) == 1:
        common = [each.pop() for each in (set(kinds), set(values)) if len(each) == 1]
        said.append(f"{'All rules are' if len(rules) > 1 else 'The rule is'} {' and '.join(common)}.")
    columns: list[tuple[str, Callable[[Rule], str]]] = []
    columns += [("kind", _kind)] if len(kinds) > 1 else []
    columns += [("values", _values)] if len(values) > 1 else []
    body = _entries if any(len(repr(rule)) > _LONG for rule in rules) else _rows
    return [f"### {rules.__name__}", prose(doc), " ".join(said), body(list(rules), columns)]


def _kind(rule: Rule) -> str:
    return rule.kind


def _values(rule: Rule) -> str:
    """What the rule may do to values, with the reason."""
    return EXACT if rule.math == EXACT else f"{FINITE if rule.math == FINITE else 'inexact'} ({prose(rule.note)}{_FREELY[rule.nonfinite]})"


def _guards(rule: Rule) -> list[str]:
    """The guards, in which the left side as a whole is `left`."""
    return [repr(guard).replace(repr(rule.lhs), "left") for guard in rule.guards]


def _rows(rules: Sequence[Rule], columns: Sequence[tuple[str, Callable[[Rule], str]]]) -> str:
    """Rules as a table."""
    guarded = any(rule.guards for rule in rules)
    header = ["rule", "equation", *(["where"] if guarded else []), *(title for title, _ in columns)]
    rows = []
    for rule in rules:
        guards = [", ".join(map(code, _guards(rule)))] if guarded else []
        rows.append([code(rule.name), code(repr(rule)), *guards, *(tell(rule) for _, tell in columns)])
    return table(header, rows)


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
        lines.append(f"* {code(rule.name)}{': ' if told else ''}{'; '.join(told)}\n\n  ```text\n{block}\n  ```\n")
    return "\n".join(lines)
