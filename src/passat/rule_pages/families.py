"""Families of rules: those that say the same of several operators or numbers, told once.

`abs(transpose(x, axes=p)) -> transpose(abs(x), axes=p)` and the same of `exp` become `f(transpose(x, axes=p)) -> transpose(f(x), axes=p)`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from passat.ir.op import list_ops
from passat.rules.rule import Rule

_TOKEN: Final = re.compile(r"(?<= )[-+*/@](?= )|[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|\s+|.")
_SYMBOLS: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "@": "nn.matmul"}
_NUMBERED: Final = re.compile(r"(?<=\b[a-z])\d+\b")
"""The numbers of holes: of `x12` the 12."""
_LEAST: Final = 3
_BREAK: Final = "\n"


class Family(NamedTuple):
    """Rules that differ in the operators or numbers that some letters stand for: the equation and the conditions with the letters in them,
    and what these stand for in each rule. A rule that is alone has no letters."""

    rules: tuple[Rule, ...]
    equation: str
    conditions: tuple[str, ...]
    letters: tuple[str, ...] = ()
    values: tuple[tuple[str, ...], ...] = ()


def families(rules: Iterable[Rule]) -> list[Family]:
    """The rules in the order of the first of each family."""
    operators = {op.name for op in list_ops()}
    groups: dict[tuple[object, ...], list[tuple[Rule, list[str]]]] = {}
    for rule in rules:
        tokens = _TOKEN.findall(_BREAK.join([elided(repr(rule)), *_conditions(rule)]))
        shape = tuple(_class(token, operators) for token in tokens)
        groups.setdefault((shape, rule.kind, rule.liberty, rule.note), []).append((rule, tokens))
    found: list[Family] = []
    for group in groups.values():
        made = _family(group, operators) if len(group) >= _LEAST else None
        found += [made] if made else [_alone(rule) for rule, _ in group]
    order = {rule.name: i for i, rule in enumerate(rule for group in groups.values() for rule, _ in group)}
    return sorted(found, key=lambda family: order[family.rules[0].name])


def _alone(rule: Rule) -> Family:
    return Family((rule,), elided(repr(rule)), _conditions(rule))


def _conditions(rule: Rule) -> tuple[str, ...]:
    """The conditions, in which the left side as a whole is `left`."""
    return tuple(elided(repr(condition).replace(repr(rule.lhs), "left")) for condition in rule.conditions)


def elided(text: str) -> str:
    """The text of a term without the operands between the first and the last of many that are alike.

    >>> elided("concatenate((x0, exp(x1), exp(x2), exp(x3), exp(x4), exp(x5)), axis=p)")
    'concatenate((x0, exp(x1), ..., exp(x5)), axis=p)'
    """
    stack: list[list[str]] = [[""]]
    for character in text:
        if character == "(":
            stack.append([""])
        elif character == ")":
            items = stack.pop()
            end = "," if len(items) > 1 and not items[-1] else ""
            stack[-1][-1] += f"({', '.join(_without_middle(items[:-1] if end else items))}{end})"
        elif character == ",":
            stack[-1].append("")
        elif character != " " or stack[-1][-1]:
            stack[-1][-1] += character
    return ", ".join(stack[0])


def _without_middle(items: Sequence[str]) -> list[str]:
    """Items, of which each run that only counts up has its first and last one."""
    runs: list[list[str]] = []
    for item in items:
        if runs and _follows(runs[-1][-1], item):
            runs[-1].append(item)
        else:
            runs.append([item])
    return [item for run in runs for item in (run if len(run) <= _LEAST else [run[0], "...", run[-1]])]


def _follows(item: str, other: str) -> bool:
    """Whether another item is the same with the next number in the one hole that has one."""
    numbers = [set(map(int, _NUMBERED.findall(each))) for each in (item, other)]
    if any(len(found) != 1 for found in numbers):
        return False
    (first,), (second,) = numbers
    return second == first + 1 and _NUMBERED.sub("#", item) == _NUMBERED.sub("#", other)


def _class(token: str, operators: set[str]) -> str:
    """What tokens have in common that a letter may stand for."""
    if token in operators:
        return "operator"
    if token in _SYMBOLS:
        return "symbol"
    return "number" if token[-1].isdigit() and (not token[0].isalpha() or _NUMBERED.search(token)) else token


def _family(group: Sequence[tuple[Rule, list[str]]], operators: set[str]) -> Family | None:
    """The group as a family, where at most two letters say all that differs."""
    columns: dict[tuple[str, ...], list[int]] = {}
    shown: dict[tuple[str, ...], list[str]] = {}
    for place, column in enumerate(zip(*(tokens for _, tokens in group), strict=True)):
        if len(set(column)) > 1:
            key = tuple(_SYMBOLS.get(token, token) for token in column)
            columns.setdefault(key, []).append(place)
            shown.setdefault(key, list(column))
    if not 1 <= len(columns) <= 2:
        return None
    tokens = list(group[0][1])
    letters: list[str] = []
    for key, places in columns.items():
        number = key[0] not in operators
        free = ("n", "m") if number else ("∘", "∙") if any(tokens[place] in _SYMBOLS for place in places) else ("f", "g")
        letter = next(name for name in free if name not in letters)
        letters.append(letter)
        for place in places:
            tokens[place] = letter
    equation, *conditions = "".join(tokens).split(_BREAK)
    values = tuple(zip(*(shown[key] for key in columns), strict=True))
    return Family(tuple(rule for rule, _ in group), equation, tuple(conditions), tuple(letters), values)
