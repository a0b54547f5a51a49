"""Which rules can be checked, and which cover others."""

import contextlib

import numpy as np
import pytest

from passat.ir.op import list_ops
from passat.rules.checking.case import Unfit, build
from passat.rules.checking.dice import Dice
from passat.rules.checking.draw import Wishes, draw
from passat.rules.checking.relations import covers
from passat.rules.conditions import equals, is_float
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule

x, y, z = tensors("x y z")
c, d = constants("c d")
p, q = attributes("p q")


def is_drawn(pattern: Pattern, tries: int) -> bool:
    """Whether one of the drawn cases is well typed."""
    wishes, dice = Wishes(pattern, ()), Dice(np.random.default_rng(0))
    for turn in range(tries):
        with contextlib.suppress(Unfit):
            build(pattern, draw(wishes, dice, unknown=turn % 4 == 3)[0])
            return True
    return False


SKIPPED = {"dyn.full", "zeros", "ones"}
"""Operators without an operand that could be a hole for any expression."""
OPERATORS = [of for of in list_ops() if not of.variadic and not of.stateful and of.arity and of.name not in SKIPPED]


def test_rules_on_every_operator_can_be_checked() -> None:
    calls = [PCall(of, tensors(" ".join(f"h{i}" for i in range(of.arity)))) for of in OPERATORS]
    assert [call.op.name for call in calls if not is_drawn(call, 250)] == []


@pytest.mark.parametrize(
    ("general", "special", "covered"),
    [
        (op.exp(x) + y >> y, op.exp(z) + x >> x, True),
        (op.exp(x) + y >> y, x + op.exp(z) >> x, True),
        (op.exp(x) - y >> y, x - op.exp(z) >> x, False),
        (x + c >> x, op.exp(y) + 0 >> op.exp(y), True),
        (x + 0 >> x, op.exp(y) + c >> op.exp(y), False),
        (x + x >> x, x + y >> x, False),
        (x + y >> x, x + x >> x, True),
        (op.transpose(x, axes=p) >> x, op.transpose(y, axes=(1, 0)) >> y, True),
        (op.transpose(x, axes=(0, 1)) >> x, op.transpose(y, axes=p) >> y, False),
        (op.transpose(x, ...) >> x, op.transpose(y, axes=(1, 0)) >> y, True),
        (op.transpose(op.transpose(x, axes=p), axes=p) >> x, op.transpose(op.transpose(x, axes=p), axes=q) >> x, False),
        ((op.exp(x) >> x).when(is_float(x)), (op.exp(y) >> y).when(is_float(y)), True),
        ((op.exp(x) >> x).when(is_float(x)), op.exp(y) >> y, False),
        (op.exp(x) >> x, (op.exp(y) >> y).when(is_float(y)), True),
        ((op.exp(x) >> x).inexact("rounds"), op.exp(y) >> y, False),
        ((op.exp(x) >> x).inexact("rounds", nonfinite="mixed"), (op.exp(y) >> y).inexact("rounds"), False),
        ((op.exp(x) >> x).inexact("rounds"), (op.exp(y) >> y).inexact("rounds", nonfinite="mixed"), True),
        ((op.transpose(x, axes=p) >> x).when(equals(p, (0, 1))), op.transpose(y) >> y, False),
        (op.concatenate((x, y)) >> x, op.concatenate((op.exp(x), y)) >> op.exp(x), True),
        (op.split(x, attrs=p)[0] >> x, op.split(op.exp(x), attrs=q)[0] >> op.exp(x), True),
    ],
    ids=repr,
)
def test_a_rule_covers_its_instances(general: Rule, special: Rule, covered: bool) -> None:
    assert covers(general, special) is covered
