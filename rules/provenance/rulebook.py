"""The rules that certificates may speak of: those of Passat's library, by name, and those that are given, and what writing does."""

import functools
from collections.abc import Iterable
from typing import Final

from passat.ir.attrs import Attrs
from passat.rules.conditions import Refuse, Term, computed
from passat.rules.library import rule_sets
from passat.rules.pattern import OpNames, attributes, op, tensors
from passat.rules.rule import EAGER, Rule, RuleSet, RuleSetMeta

_WITH_AXIS: Final = ("cumsum", "nn.log_softmax", "nn.softmax", "topk")
"""Operators of one operand whose axis may be counted from either end."""


@computed
def column(axis: int, data: Term) -> tuple[int, ...]:
    """The shape in which a bias is added to the data along an axis."""
    rank = data.type.ndim
    return (-1, *(1,) * (rank - axis % rank - 1))


@computed
def from_the_front(attrs: Attrs, data: Term) -> Attrs:
    """The attributes with the axis counted from the front. Refuses where it is."""
    if attrs["axis"] >= 0:
        raise Refuse("the axis is counted from the front")
    return Attrs({**attrs, "axis": attrs["axis"] + data.type.ndim})


def _rules() -> RuleSetMeta:
    x, b = tensors("x b")
    (a,) = attributes("a")
    rules: dict[str, Rule] = {
        "identity": op.copy(x) >> x,
        "two": (op.elemwise_sum((x, b)) >> x + b).exploring(),
        "bias": (op.nn.bias_add(x, b, axis=a) >> op.add(x, op.reshape(b, newshape=column(a, x)))).exploring(),
    }
    for name in _WITH_AXIS:
        head = OpNames(name)
        rules[name.replace(".", "_")] = (head(x, attrs=a) >> head(x, attrs=from_the_front(a, x))).exploring()
    doc = "Other words for the same: what becomes of programs written to ONNX and read again, and what passes without rules change."
    return RuleSetMeta("WrittenAndRead", (RuleSet,), {"__doc__": doc, **rules})


Written = _rules()


def rules_by_name(sets: Iterable[RuleSetMeta] = ()) -> dict[str, Rule]:
    """The rules of the library and of some sets, each direction by itself."""
    return {**_library(), **_by_name(sets)}


@functools.cache
def _library() -> dict[str, Rule]:
    return _by_name([Written, *rule_sets().values()])


def _by_name(sets: Iterable[RuleSetMeta]) -> dict[str, Rule]:
    every = (rule for rules in sets for rule in rules)
    return {each.name: each for rule in every for each in ([rule] if rule.kind == EAGER else rule.directions())}
