"""What exporters make of masks: ones less a mask times a large negative number, choices that are added to and multiplied, negated
comparisons. Operators: where cast logical_not logical_and equal not_equal less less_equal greater greater_equal add subtract multiply
divide.
"""

from passat.rules.conditions import equals, has_dtype, is_all, is_finite, is_float, is_integer, same_type
from passat.rules.library.arithmetic import CHOSEN_ZERO
from passat.rules.pattern import PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

x, y, z, v = tensors("x y z v")
c, d, e = constants("c d e")
t, u = attributes("t u")
_SIGN = "the sign of 0"


class MaskArithmetic(RuleSet):
    """Arithmetic on a mask that was cast to numbers is a choice between two numbers."""

    inverted_scaled = (
        ((c - op.cast(x, dtype=t)) * d >> op.where(x, 0.0, d))
        .when(has_dtype(x, "bool"), is_float(d), is_all(c, 1), is_finite(d))
        .inexact(_SIGN)
    )
    scaled = (op.cast(x, dtype=t) * d >> op.where(x, d, 0.0)).when(has_dtype(x, "bool"), is_float(d), is_finite(d)).inexact(_SIGN)
    inverted = (c - op.cast(x, dtype=t) >> op.cast(op.logical_not(x), dtype=t)).when(has_dtype(x, "bool"), is_all(c, 1)).exploring()
    product = (
        (op.cast(x, dtype=t) * op.cast(y, dtype=u) >> op.cast(op.logical_and(x, y), dtype=t))
        .when(has_dtype(x, "bool"), has_dtype(y, "bool"), equals(t, u))
        .exploring()
    )
    not_negated = (op.where(op.logical_not(x), y, z) >> op.where(x, z, y)).inexact(CHOSEN_ZERO)
    first_again = (op.where(x, op.where(x, y, z), v) >> op.where(x, y, v)).when(same_type(y, op.where(x, y, z))).inexact(CHOSEN_ZERO)
    second_again = (op.where(x, v, op.where(x, y, z)) >> op.where(x, v, z)).when(same_type(z, op.where(x, y, z)))


def _choices() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for name in ("add", "subtract", "multiply", "divide"):
        of = getattr(op, name)
        whole: PCall = of(op.where(x, c, d), e)
        rule = (whole >> op.where(x, of(c, e), of(d, e))).when(same_type(op.where(x, c, d), whole), is_float(c))
        rules[f"{name}_constant"] = rule.inexact(CHOSEN_ZERO)
    doc = "Arithmetic on a choice between constants is a choice between other constants."
    return RuleSetMeta("MaskConstants", (RuleSet,), {"__doc__": doc, **rules})


MaskConstants = _choices()


class NegatedComparisons(RuleSet):
    """The negation of a comparison is another one."""

    equal = op.logical_not(op.equal(x, y)) >> op.not_equal(x, y)
    not_equal = op.logical_not(op.not_equal(x, y)) >> op.equal(x, y)
    less = (op.logical_not(op.less(x, y)) >> op.greater_equal(x, y)).when(is_integer(x))
    less_equal = (op.logical_not(op.less_equal(x, y)) >> op.greater(x, y)).when(is_integer(x))
    greater = (op.logical_not(op.greater(x, y)) >> op.less_equal(x, y)).when(is_integer(x))
    greater_equal = (op.logical_not(op.greater_equal(x, y)) >> op.less(x, y)).when(is_integer(x))
