"""What exporters make of masks: ones less a mask times a large negative number, choices that are added to and multiplied, negated
comparisons. Operators: where cast logical_not logical_and equal not_equal less less_equal greater greater_equal add subtract multiply
divide.
"""

from passat.rules.case_hole import cases
from passat.rules.conditions import equals, has_dtype, is_all, is_finite, is_float, is_integer, same_type
from passat.rules.library.arithmetic import CHOSEN_ZERO
from passat.rules.operator_hole import operator
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule import RuleSet

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


_CHOICE = op.where(x, c, d)
f = operator("f", "add", "subtract", "multiply", "divide")


class MaskConstants(RuleSet):
    """Arithmetic on a choice between constants is a choice between other constants."""

    either = (f(_CHOICE, e) >> op.where(x, f(c, e), f(d, e))).when(same_type(_CHOICE, f(_CHOICE, e)), is_float(c)).inexact(CHOSEN_ZERO)


equal = cases("equal", "equal", "not_equal")
order = cases("order", "less", "less_equal", "greater", "greater_equal")


class NegatedComparisons(RuleSet):
    """The negation of a comparison is another one."""

    equality = op.logical_not(equal(equal=op.equal(x, y), not_equal=op.not_equal(x, y))) >> equal(
        equal=op.not_equal(x, y), not_equal=op.equal(x, y)
    )
    order = (
        op.logical_not(
            order(less=op.less(x, y), less_equal=op.less_equal(x, y), greater=op.greater(x, y), greater_equal=op.greater_equal(x, y))
        )
        >> order(less=op.greater_equal(x, y), less_equal=op.greater(x, y), greater=op.less_equal(x, y), greater_equal=op.less(x, y))
    ).when(is_integer(x))
