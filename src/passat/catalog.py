"""Lists passes and rules as plain rows: rule sets by file, the passes that run them, and the meaning of the functions that they name."""

import inspect
import re
import string
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypedDict

from rich.table import Table
from rich.text import Text

import passat.rules.passes  # noqa: F401  # importing registers the passes of the library
from passat.passmgr import EVERYTHING, Pass, get_entry, list_passes
from passat.passmgr.options import show_annotation, show_value
from passat.render import plain_table
from passat.rules.guards import Guard
from passat.rules.holes import OperatorHole
from passat.rules.library import rule_files, rule_sets
from passat.rules.pattern import Computed, PCall
from passat.rules.planned_rules import other_passes, registered_rule_passes
from passat.rules.rule import KEPT, MIXED, REDUCING, RESOLVED, Rule
from passat.rules.rule_pass import ALWAYS, RulePass
from passat.rules.rule_set import RuleSet, RuleSetMeta
from passat.rules.subterms import subterms
from passat.rules.symbolic import is_written
from passat.rules.typecheck import values_of


class Subject(NamedTuple):
    """A file of rule sets: its displayed path, its docstring, and its sets in definition order."""

    path: str
    doc: str
    sets: tuple[RuleSetMeta, ...]


def library_subjects() -> list[Subject]:
    """The files of the library by name, then those of rule sets that belong to passes."""
    found = [
        Subject(f"rules/library/{module.__name__.rpartition('.')[2]}.py", inspect.cleandoc(module.__doc__ or ""), sets)
        for module, sets in rule_files().items()
    ]
    known = {rules for subject in found for rules in subject.sets}
    others = dict.fromkeys(rules.base for _, pass_ in registered_rule_passes() for rules in pass_.sets if rules.base not in known)
    return found + subjects_of(rules for rules in others if rules.__module__.startswith("passat."))


def plugin_sets() -> dict[str, RuleSetMeta]:
    """The rule sets of registered passes other than Passat's own, by name."""
    sets = (rules.base for _, pass_ in registered_rule_passes() for rules in pass_.sets)
    return {rules.__name__: rules for rules in sets if not rules.__module__.startswith("passat.")}


def subjects_of(sets: Iterable[RuleSetMeta]) -> list[Subject]:
    """The files of some rule sets; of a library file only the given sets."""
    files: dict[str, list[RuleSetMeta]] = {}
    for rules in dict.fromkeys(sets):
        files.setdefault(rules.__module__, []).append(rules)
    found = []
    for name, given in files.items():
        module = sys.modules[name]
        file = Path(module.__file__ or name)
        path = f"{name.removeprefix('passat.').replace('.', '/')}.py" if name.startswith("passat.") else file.name
        found.append(Subject(path, inspect.cleandoc(module.__doc__ or ""), tuple(given)))
    return found


def runners(passes: Sequence[tuple[str, RulePass]]) -> dict[RuleSetMeta, dict[str, list[RuleSetMeta]]]:
    """The names of the passes that run each rule set, with the forms in which they do: the set, its rules as another kind, or some."""
    found: dict[RuleSetMeta, dict[str, list[RuleSetMeta]]] = {}
    for name, pass_ in passes:
        for rules in dict.fromkeys((*pass_.sets, *ALWAYS)):
            by = found.setdefault(rules.base, {})
            if not any(rules in forms and name.startswith(f"{other}{{") for other, forms in by.items()):
                by.setdefault(name, []).append(rules)
    return found


def operators_of(rules: Iterable[Rule]) -> list[str]:
    """The names of the operators on either side of some rules, sorted."""
    names: set[str] = set()
    for rule in rules:
        for node in (*subterms(rule.lhs), *subterms(rule.rhs)):
            if isinstance(node, PCall):
                hole: object = node.op
                names |= {one.name for one in hole.fitting(rule.lhs)} if isinstance(hole, OperatorHole) else {node.op.name}
    return sorted(names)


def named_functions(rules: Iterable[Rule]) -> tuple[list[Callable[..., AnyValue]], list[Callable[..., AnyValue]]]:
    """The guard functions of some rules, and the functions that compute attributes and numbers; each sorted by name."""
    values = [value for rule in rules for value in values_of(rule)]
    kinds = [{value.function for value in values if isinstance(value, kind)} for kind in (Guard, Computed)]
    return _named(kinds[0]), _named(kinds[1])


def _named(functions: Iterable[Callable[..., AnyValue]]) -> list[Callable[..., AnyValue]]:
    """The functions that texts of rules name, not those of operators, sorted."""
    return sorted([one for one in functions if not is_written(one)], key=lambda one: (one.__name__, one.__module__))


def call_of(function: Callable[..., AnyValue]) -> str:
    """The function with its parameter names: `is_all(c, value)`."""
    parameters = inspect.signature(function).parameters.values()
    return f"{function.__name__}({', '.join(f'*{each.name}' if each.kind is each.VAR_POSITIONAL else each.name for each in parameters)})"


def meaning(function: Callable[..., AnyValue]) -> str:
    """The docstring of the function as one paragraph without examples; without a docstring, its name as words."""
    doc = inspect.cleandoc(function.__doc__ or "")
    text = " ".join(re.split(r"^>>> ", doc, maxsplit=1, flags=re.MULTILINE)[0].split())
    return text or f"{function.__name__.replace('_', ' ')}."


_WIDE: Final = 110
"""Longer equations get one line per side."""
_REPEATED: Final = 24
"""Minimum length of repeated parts that are replaced by a letter."""
_FREELY: Final = {KEPT: "", RESOLVED: " (NaN may become infinite)", MIXED: " (infinities and NaN may become one another)"}


class PassRow(TypedDict):
    """A pass: its name, level, requirements, options, counters, and the first paragraph of its documentation."""

    name: str
    level: int | None
    required: list[str]
    options: list[str]
    counters: dict[str, str]
    doc: str


class OptionRow(TypedDict):
    """An option of a pass: its name, type and default as text, and whether it has a default."""

    name: str
    type: str
    default: str
    needed: bool


class PassDetails(TypedDict):
    """All data about a pass. `level` is None, and the lists are empty, if it cannot be created without options."""

    name: str
    key: str
    kind: str
    level: int | None
    options: list[OptionRow]
    required: list[str]
    required_by: list[str]
    after: list[str]
    before: list[str]
    provides: list[str]
    preserves: list[str]
    members: list[str]
    counters: dict[str, str]
    doc: str


class RuleRow(TypedDict):
    """A rule: its name, text, kind, the meaning of its operator and operand holes, its guards, its effect on values, and the passes that
    run it; `kind_in` has its kind in passes that use it as another kind."""

    name: str
    rule: str
    kind: str
    kind_in: dict[str, list[str]]
    holes: list[str]
    guards: list[str]
    math: str
    nonfinite: str
    note: str
    source: str
    passes: list[str]


def pass_rows() -> list[PassRow]:
    """All registered passes, sorted by name. `level` is None if it depends on an option."""
    rows = []
    for entry in list_passes():
        made = entry.default()
        info = None if made is None else made.info
        doc = (made.__doc__ if isinstance(made, RulePass) else entry.doc) or ""
        rows.append(
            PassRow(
                name=entry.name,
                level=None if info is None else info.opt_level,
                required=[] if info is None else list(info.required),
                options=[str(option) for option in entry.options.values()],
                counters={} if info is None else dict(info.counters),
                doc=_first_paragraph(doc),
            )
        )
    return rows


def pass_details(name: str) -> PassDetails:
    """A registered pass in full. Raises UnknownPassError."""
    list_passes()  # makes all names available for suggestions
    entry = get_entry(name)
    made = entry.default()
    info = None if made is None else made.info
    return PassDetails(
        name=entry.name,
        key=entry.key,
        kind="needs options" if made is None else _kind(made),
        level=None if info is None else info.opt_level,
        options=[_option_row(option) for option in entry.options.values()],
        required=[] if info is None else list(info.required),
        required_by=[other.name for other in list_passes() if other.info and entry.name in _short_names(other.info.required)],
        after=[] if info is None else list(info.after),
        before=[] if info is None else list(info.before),
        provides=[] if info is None else sorted(info.provides),
        preserves=[] if info is None else sorted(info.preserves),
        members=[] if made is None else [member.info.name for member in made.members or ()],
        counters={} if info is None else dict(info.counters),
        doc=inspect.cleandoc((made.__doc__ if isinstance(made, RulePass) else entry.doc) or ""),
    )


def details_text(details: PassDetails) -> str:
    """A pass in full, as text."""
    options = [f"{row['name']}: {row['type']}" + (" (needed)" if row["needed"] else f" = {row['default']}") for row in details["options"]]
    preserves = ["everything"] if EVERYTHING in details["preserves"] else details["preserves"]
    rows = {
        "registered as": details["key"],
        "kind": details["kind"],
        "level": "depends on its options" if details["level"] is None else str(details["level"]),
        "options": "\n".join(options) or "none",
        "requires": ", ".join(details["required"]) or "nothing",
        "required by": ", ".join(details["required_by"]) or "no registered pass",
        "after": ", ".join(details["after"]) or "no pass",
        "before": ", ".join(details["before"]) or "no pass",
        "provides": ", ".join(details["provides"]) or "no facts",
        "preserves": ", ".join(preserves) or "nothing",
    }
    if details["members"]:
        rows["members"] = ", ".join(details["members"])
    if details["counters"]:
        rows["counts"] = "\n".join(f"{name}: {doc}" for name, doc in details["counters"].items())
    wide = max(map(len, rows)) + 2
    lines = [details["name"]]
    for label, text in rows.items():
        lines += [f"  {label if not at else '':{wide}}{line}" for at, line in enumerate(text.split("\n"))]
    return "\n".join([*lines, "", *(f"  {line}".rstrip() for line in details["doc"].splitlines())]).rstrip()


def _kind(pass_: Pass) -> str:
    """What a pass runs on: "module", "function", "pipeline"."""
    if pass_.members is not None:
        return "pipeline"
    kinds = (kind.__name__.removesuffix("Pass").lower() for kind in type(pass_).__mro__ if kind.__module__ == Pass.__module__)
    return next(kinds, "") or "pass"


def _first_paragraph(doc: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(doc.strip().partition("\n\n")[0].split())


def _short_names(names: Iterable[str]) -> set[str]:
    """Names as users write them; unregistered ones are unchanged."""
    known = {entry.key: entry.name for entry in list_passes()}
    return {known.get(name, name) for name in names}


def _option_row(option: inspect.Parameter) -> OptionRow:
    needed = option.default is option.empty
    try:
        default = "" if needed else show_value(option.default)
    except ValueError:  # it has no text form
        default = repr(option.default)
    annotation = "any" if option.annotation is option.empty else show_annotation(option.annotation)
    return OptionRow(name=option.name, type=annotation, default=default, needed=needed)


def passes_table(rows: Iterable[PassRow]) -> Table:
    """The passes as a table."""
    table = plain_table("pass", "level", "what it does")
    for row in rows:
        options = f"\noptions: {', '.join(row['options'])}" if row["options"] else ""
        table.add_row(row["name"], "" if row["level"] is None else str(row["level"]), Text(row["doc"] + options))
    return table


def rule_rows(sets: Iterable[type[RuleSet]] | None = None) -> list[RuleRow]:
    """The rules of some sets, or of all passes and of the library, in the order of passes and definition; each rule once, with the passes
    that run it."""
    run_by, others = runners(registered_rule_passes()), dict[str, list[str]]()
    for pass_name, _, rules_ in other_passes():
        for rule in rules_:
            others.setdefault(rule.name, []).append(pass_name)
    rows: dict[str, RuleRow] = {}
    chosen: Iterable[RuleSetMeta] = [*run_by, *rule_sets().values()] if sets is None else sets
    for rules in dict.fromkeys(chosen):
        for rule in rules.rules:
            row, forms_by = rows.setdefault(rule.name, _row(rule)), run_by.get(rules, {})
            by = {name: [each.kind for form in forms for each in form if each.name == rule.name] for name, forms in forms_by.items()}
            row["passes"] += [name for name, kinds in by.items() if kinds and name not in row["passes"]]
            row["passes"] += [name for name in others.get(rule.name, ()) if name not in row["passes"]]
            row["kind_in"].update((name, kinds) for name, kinds in by.items() if set(kinds) - {rule.kind})
    return list(rows.values())


def rules_text(rows: Iterable[RuleRow]) -> str:
    """The rules as text: the name of each, its equation, its kind unless it is reducing, its guards, and its effect on rounding. Capital
    letters abbreviate long repeated parts."""
    lines: list[str] = []
    for row in rows:
        rule, *guards, shared = shortened([row["rule"], *row["guards"]])
        sides = re.sub(r" (->|<->) ", r"\n    \1 ", rule) if len(rule) > _WIDE else rule
        lines += [row["name"] + (f"    ({', '.join(row['passes'])})" if row["passes"] else ""), f"    {sides}"]
        kinds = [row["kind"], *(f"in {name} {' and '.join(used)}" for name, used in row["kind_in"].items())]
        lines += [f"    kind: {'; '.join(kinds)}"] if kinds != [REDUCING] else []
        lines += [f"    {meaning}" for meaning in row["holes"]]
        lines += [f"    where {' and '.join(guards)}"] if guards else []
        lines += [f"    {part}" for part in shared.splitlines()]
        lines += [f"    {row['math']}: {row['note']}{_FREELY[row['nonfinite']]}"] if row["note"] else []
    return "\n".join(lines)


def shortened(texts: Sequence[str]) -> list[str]:
    """The equation and the guards of a rule, then the definitions of the abbreviations in them."""
    texts = [*texts, ""]
    for letter in string.ascii_uppercase:
        whole = "\n".join(texts)
        repeated = [part for part in _calls(whole) if len(part) >= _REPEATED and whole.count(part) > 1]
        if not repeated:
            break
        part = max(repeated, key=len)
        texts = [*(text.replace(part, letter) for text in texts[:-1]), texts[-1].replace(part, letter) + f"{letter} = {part}\n"]
    return texts


def _calls(text: str) -> list[str]:
    """The calls and parenthesized terms in a text, in the order of their ends."""
    found, starts = [], []
    for parenthesis in re.finditer(r"[\w.]*\(|\)", text):
        if parenthesis[0] != ")":
            starts.append(parenthesis.start())
        elif starts:
            found.append(text[starts.pop() : parenthesis.end()])
    return found


def _row(rule: Rule) -> RuleRow:
    guards = [repr(guard) for guard in rule.guards]
    return RuleRow(
        name=rule.name,
        rule=repr(rule),
        kind=rule.kind,
        kind_in={},
        holes=rule.holes().meanings(),
        guards=guards,
        math=rule.math,
        nonfinite=rule.nonfinite,
        note=rule.note,
        source=rule.source,
        passes=[],
    )
