"""Which rule sets there are, by the file that they stand in, which passes run them, and what the functions that they name mean."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any as AnyValue
from typing import NamedTuple

from passat.passmgr import Pass, list_passes
from passat.rules.holes import OperatorHole
from passat.rules.library import rule_files
from passat.rules.multi_root import PJoined
from passat.rules.pattern import Computed, Pattern, PCall, PNumber, subterms
from passat.rules.rule import Rule, RuleSetMeta
from passat.rules.rule_pass import RulePass


class Subject(NamedTuple):
    """A file of rule sets: its path as readers know it, what its docstring says, and its sets in the order of their definition."""

    path: str
    doc: str
    sets: tuple[RuleSetMeta, ...]


def library_subjects() -> list[Subject]:
    """The files of the library, by name, and those of rule sets that passes have for themselves."""
    found = [
        Subject(f"rules/library/{module.__name__.rpartition('.')[2]}.py", inspect.cleandoc(module.__doc__ or ""), sets)
        for module, sets in rule_files().items()
    ]
    known = {rules for subject in found for rules in subject.sets}
    others = dict.fromkeys(rules.base for _, pass_ in registered_rule_passes() for rules in pass_.sets if rules.base not in known)
    return found + subjects_of(rules for rules in others if rules.__module__.startswith("passat."))


def subjects_of(sets: Iterable[RuleSetMeta]) -> list[Subject]:
    """The files that some rule sets stand in; of a file of the library the sets that are given."""
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


def leaves(pass_: Pass) -> Iterator[Pass]:
    """The passes of a pipeline, those of nested ones in their places."""
    stack = [pass_]
    while stack:
        each = stack.pop()
        if each.members is None:
            yield each
        else:
            stack.extend(reversed(each.members))


def registered_rule_passes() -> list[tuple[str, RulePass]]:
    """The registered passes that are made of rules, as pipelines name them: by name, and once more with each switch that brings further
    rule sets. Of pipelines those members that have no name of their own, under that of the pipeline."""
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
        for option in entry.options.values():
            switched = entry.make({option.name: True}) if option.default is False else None
            if isinstance(switched, RulePass) and set(switched.sets) - set(made.sets):
                found.append((f"{entry.name}{{{option.name}=True}}", switched))
    return found


def runners(passes: Sequence[tuple[str, RulePass]]) -> dict[RuleSetMeta, dict[str, list[str]]]:
    """The names of the passes that run each rule set, with the kinds that its rules have there; "" is the kind that they say themselves."""
    found: dict[RuleSetMeta, dict[str, list[str]]] = {}
    for name, pass_ in passes:
        for rules in dict.fromkeys(pass_.sets):
            by = found.setdefault(rules.base, {})
            if not any(name.startswith(f"{other}{{") for other in by):
                by.setdefault(name, []).append("" if rules.base is rules else rules.rules[0].kind)
    return found


def operators_of(rules: Iterable[Rule]) -> list[str]:
    """The names of the operators on either side of some rules, sorted."""
    stack: list[Pattern] = [side for rule in rules for side in (rule.lhs, rule.rhs)]
    names: set[str] = set()
    while stack:
        for node in subterms(stack.pop()):
            if isinstance(node, PCall):
                hole: object = node.op
                names |= {one.name for one in hole.operators()} if isinstance(hole, OperatorHole) else {node.op.name}
            elif isinstance(node, PJoined):
                stack.append(node.of)
    return sorted(names)


def named_functions(rules: Iterable[Rule]) -> tuple[list[Callable[..., AnyValue]], list[Callable[..., AnyValue]]]:
    """The functions of the conditions of some rules, and those that compute attributes and numbers for them; each sorted by name."""
    conditions: set[Callable[..., AnyValue]] = set()
    computed: set[Callable[..., AnyValue]] = set()
    for rule in rules:
        stack: list[AnyValue] = [rule.rhs]
        for condition in rule.conditions:
            conditions.add(condition.function)
            stack += condition.args
        while stack:
            value = stack.pop()
            if isinstance(value, Computed):
                computed.add(value.function)
                stack += value.args
            elif isinstance(value, (tuple, list)):
                stack += value
            elif isinstance(value, Pattern):
                for node in subterms(value):
                    if isinstance(node, PCall):
                        stack += node.attrs.values()
                    elif isinstance(node, PNumber):
                        stack.append(node.value)
                    elif isinstance(node, PJoined):
                        stack.append(node.of)
    return sorted(conditions, key=_order), sorted(computed, key=_order)


def _order(function: Callable[..., AnyValue]) -> tuple[str, str]:
    return function.__name__, function.__module__


def call_of(function: Callable[..., AnyValue]) -> str:
    """The function with the names of its parameters: `is_all(c, value)`."""
    parameters = inspect.signature(function).parameters.values()
    return f"{function.__name__}({', '.join(f'*{each.name}' if each.kind is each.VAR_POSITIONAL else each.name for each in parameters)})"


def meaning(function: Callable[..., AnyValue]) -> str:
    """What the docstring of the function says, as one paragraph, without examples; and its name in words where it has none."""
    doc = inspect.cleandoc(function.__doc__ or "")
    text = " ".join(re.split(r"^>>> ", doc, maxsplit=1, flags=re.MULTILINE)[0].split())
    return text or f"{function.__name__.replace('_', ' ')}."
