"""Rules that hardly any random program matches are checked on programs built from their guards. Each rule is changed in one place, and the
check detects the change."""

from collections.abc import Iterator
from typing import Any as AnyValue

import pytest

from passat.rules.checking.trying import tried
from passat.rules.library import Attention, RaiseOps
from passat.rules.pattern import Pattern, PCall, PGet, PTuple
from passat.rules.rule import Rule
from passat.rules.subterms import subterms

CHECKED: tuple[Rule, ...] = (
    *Attention.only("with_constant_mask", "with_mask", "with_guarded_rows", "shared_heads", "rotary"),
    RaiseOps.group_norm,
)
NEEDED = {
    "Attention.with_constant_mask[none, one]": {"is_axis"},
    "Attention.with_guarded_rows[nan, one]": {"is_axis", "is_all", "is_minus_infinity"},
    "Attention.rotary[sliced]": {"are_angles", "is_half"},
    "Attention.rotary[split]": {"are_angles"},
    "RaiseOps.group_norm": {"is_all", "is_per_channel"},
}
"""Guards that keep values correct. Without other guards a right side has no type, or the same values under Passat's own kernels."""


def put(node: Pattern, old: Pattern, new: Pattern) -> Pattern:
    """The pattern with one part replaced."""
    if node.key == old.key:
        return new
    if isinstance(node, PCall):
        return PCall(node.op, [put(arg, old, new) for arg in node.args], node.attrs)
    if isinstance(node, PTuple):
        return PTuple([put(field, old, new) for field in node.fields])
    return PGet(put(node.of, old, new), node.index) if isinstance(node, PGet) else node


def with_right(rule: Rule, right: Pattern) -> Rule:
    """The rule with another right side."""
    kept: dict[str, AnyValue] = {name: getattr(rule, name) for name in ("math", "note", "nonfinite", "kind", "name")}
    return Rule(rule.lhs, right, rule.guards, **kept)


def other_values(call: PCall) -> Iterator[dict[str, AnyValue]]:
    """Invalid attributes for a call: other permutations, scales, counts, axes."""
    attrs = call.attrs
    if call.op.name == "transpose":
        order = attrs["axes"]
        for i in range(len(order) - 1):
            yield {"axes": (*order[:i], order[i + 1], order[i], *order[i + 2 :])}
    elif call.op.name == "nn.attention":
        yield {"scale": 0.5 if repr(attrs["scale"]) == "1.0" else 1.0}
        yield {"q_num_heads": 1, "kv_num_heads": 1}
        yield from ({"is_causal": value} for value in (False, True) if repr(value) != repr(attrs["is_causal"]))
    elif call.op.name == "nn.rotary_embedding":
        yield {"interleaved": True}
    elif call.op.name == "nn.group_norm":
        yield from ({"num_groups": 1}, {"axis": 2}, {"epsilon": 0.5})
    elif call.op.name == "strided_slice":
        yield {"begin": (1,)}
    elif call.op.name == "split":
        yield {"axis": -2}
    elif call.op.name == "take":
        yield {"axis": 1}


def changed(rule: Rule) -> Iterator[Rule]:
    """The rule with one change in its right side."""
    for node in {node.key: node for node in subterms(rule.rhs)}.values():
        if isinstance(node, PGet) and node.index:
            yield with_right(rule, put(rule.rhs, node, PGet(node.of, node.index - 1)))
        if not isinstance(node, PCall):
            continue
        for values in other_values(node):
            yield with_right(rule, put(rule.rhs, node, PCall(node.op, node.args, {**node.attrs, **values})))
        first = 1 if node.op.name in ("nn.rotary_embedding", "nn.group_norm") else 0
        if node.op.name in ("nn.attention", "nn.rotary_embedding", "nn.group_norm"):
            parts = list(node.args)
            parts[first : first + 2] = parts[first : first + 2][::-1]
            yield with_right(rule, put(rule.rhs, node, PCall(node.op, parts, node.attrs)))


RULES = [direction for rule in CHECKED for direction in rule.directions()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_wrong_permutation_scale_or_axis_is_found(rule: Rule) -> None:
    others = list(changed(rule))
    if rule.name.startswith("Attention.with_") and rule.name != "Attention.with_guarded_rows[nan, one]":
        others = others[:: len(others) // 2]  # all of the same kind
    assert others
    for other in others:
        checked = tried(other, 0, 40, enough=1)
        assert checked.wrong, f"{other!r} is not found out: {checked.report.data()}"


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.name in NEEDED], ids=lambda rule: rule.name)
def test_without_a_condition_values_are_wrong(rule: Rule) -> None:
    for left_out in rule.guards:
        if left_out.function.__name__ in NEEDED[rule.name]:
            kept = tuple(guard for guard in rule.guards if guard is not left_out)
            other = Rule(rule.lhs, rule.rhs, kept, math=rule.math, note=rule.note, name=rule.name)
            assert tried(other, 0, 120, enough=1).wrong, f"nothing is wrong without {left_out!r}"
