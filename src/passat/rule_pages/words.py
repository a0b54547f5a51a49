"""What the functions that rules name mean, in words: conditions, and attributes that are computed."""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any as AnyValue

from passat.rules.multi_root import PJoined
from passat.rules.pattern import Computed, Pattern, PCall, PNumber, subterms
from passat.rules.rule import Rule


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
