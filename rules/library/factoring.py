"""Sums and products written with fewer operators. Operators: add subtract multiply divide negative exp log sqrt abs maximum minimum
nn.softmax nn.log_softmax logical_not equal not_equal, and whatever is commutative.

What takes a factor out of a sum makes more of infinities: inf * 2 - inf * 1 is NaN, inf * (2 - 1) is infinite.
"""

from typing import Final

from passat.rules.conditions import Term, condition, is_all, is_finite, is_float, keeps_type, same_type, shape_of
from passat.rules.library.arithmetic import TIES, meet_in_range
from passat.rules.library.batch_norm import along
from passat.rules.operator_hole import operator
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule import RESOLVED, Rule, RuleSet

x, y, z = tensors("x y z")
c, d = constants("c d")
(a,) = attributes("a")
_ONCE: Final = "one product instead of several"
_ORDER: Final = "rounds in another order"


@condition
def is_not_constant(y: Term) -> bool | str:
    """The term is no constant: what is computed from constants alone stays together."""
    return y.constant is None or "is a constant"


class FloatConstants(RuleSet):
    """Floats constants in sums and products outwards, one step a round, so that they fold together."""

    shift = (
        ((x + c) + y >> (x + y) + c)
        .when(is_float(x), is_not_constant(y), is_finite(c), keeps_type(x, x + c), same_type(x, x + y))
        .inexact(_ORDER)
        .exploring()
        .budget(128)
    )
    scale = (
        ((x * c) * y >> (x * y) * c)
        .when(is_float(x), is_not_constant(y), is_finite(c), keeps_type(x, x * c), same_type(x, x * y))
        .inexact(_ORDER)
        .exploring()
        .budget(128)
    )
    bias = (
        (op.nn.bias_add(x, c, axis=a) + y >> (x + y) + op.reshape(c, newshape=along(x, a)))
        .when(is_float(x), is_finite(c), is_not_constant(y), same_type(x, x + y))
        .inexact(_ORDER)
        .exploring()
        .budget(128)
    )


@condition
def are_alike(c: Term, d: Term) -> bool | str:
    """The constants have one shape, or one of them is a single number: together they are no larger than the larger one."""
    sizes = (c.type.size, d.type.size)
    return c.type.shape == d.type.shape or 1 in sizes or f"{c.type!r} and {d.type!r} have two shapes"


def _over(rule: Rule, name: str) -> Rule:
    guards = (is_float(x), is_not_constant(x), is_not_constant(y), are_alike(c, d), meet_in_range(name, c, d))
    return rule.when(*guards).inexact(_ORDER).exploring().budget(16)


class Factoring(RuleSet):
    """A factor that all parts of a sum have is taken out; constants in sums and products meet, over what is no constant."""

    products = (x * y + x * z >> x * (y + z)).inexact(_ONCE, nonfinite=RESOLVED).exploring()
    differences = (x * y - x * z >> x * (y - z)).inexact(_ONCE, nonfinite=RESOLVED).exploring()
    product_and_self = (x * y + x >> x * (y + 1.0)).when(same_type(x, x * y), is_float(x)).inexact(_ONCE, nonfinite=RESOLVED).exploring()
    product_less_self = (x * y - x >> x * (y - 1.0)).when(same_type(x, x * y), is_float(x)).inexact(_ONCE, nonfinite=RESOLVED).exploring()
    self_less_product = (x - x * y >> x * (1.0 - y)).when(same_type(x, x * y), is_float(x)).inexact(_ONCE, nonfinite=RESOLVED).exploring()
    quotients = (x / z + y / z >> (x + y) / z).when(is_float(x), same_type(x, y)).inexact(_ONCE, nonfinite=RESOLVED).exploring()
    quotient_differences = (x / z - y / z >> (x - y) / z).when(is_float(x), same_type(x, y)).inexact(_ONCE, nonfinite=RESOLVED).exploring()
    nested_quotients = (
        ((x / y) / z >> x / (y * z)).when(is_float(x), same_type(x, y), same_type(x, z)).inexact("one quotient instead of two").exploring()
    )
    divided_shift = (
        ((x + c) / d >> x / d + c / d)
        .when(is_float(x), is_finite(c), is_finite(d), meet_in_range("divide", c, d), keeps_type(x, x + c))
        .inexact("distributes")
        .exploring()
        .budget(200)
    )
    shifts_apart = _over(((x + c) + y) + d >> (x + y) + (c + d), "add")
    shifts_of_both = _over((x + c) + (y + d) >> (x + y) + (c + d), "add")
    scales_apart = _over(((x * c) * y) * d >> (x * y) * (c * d), "multiply")
    scales_of_both = _over((x * c) * (y * d) >> (x * y) * (c * d), "multiply")
    biases = (
        (op.nn.bias_add(op.nn.bias_add(x, c, axis=a), d, axis=a) >> op.nn.bias_add(x, c + d, axis=a))
        .when(meet_in_range("add", c, d))
        .inexact(_ORDER)
    )
    constant_less_shifted = (
        (c - (x + d) >> (c - d) - x).when(is_float(x), keeps_type(x, x + d), meet_in_range("subtract", c, d)).inexact(_ORDER)
    )
    constant_less_difference = (
        (c - (d - x) >> x + (c - d)).when(is_float(x), keeps_type(x, d - x), meet_in_range("subtract", c, d)).inexact(_ORDER)
    )
    shifted_difference = ((c - x) + d >> (c + d) - x).when(is_float(x), keeps_type(x, c - x), meet_in_range("add", c, d)).inexact(_ORDER)
    scaled_quotient = ((c / x) * d >> (c * d) / x).when(is_float(x), keeps_type(x, c / x), meet_in_range("multiply", c, d)).inexact(_ORDER)
    scaled_negative = (op.negative(x) * c >> x * op.negative(c)).when(is_float(x))
    negative_scaled = (op.negative(x * c) >> x * op.negative(c)).when(is_float(x))


class Cancellations(RuleSet):
    """Functions that undo each other, or that have a name together; what undoes itself, where all values are finite."""

    difference_of_same = (x - x >> x * 0.0).when(is_float(x)).finite("inf - inf is no number").exploring()
    times_zero = (x * c >> op.broadcast_to(c, shape=shape_of(x * c))).when(is_float(x), is_all(c, 0)).finite("inf * 0 is no number")
    sum_less_part = ((x + y) - x >> y).when(is_float(x), same_type(y, x + y)).finite("x may be infinite, and y be lost in the sum")
    difference_and_part = ((x - y) + y >> x).when(is_float(x), same_type(x, x - y)).finite("y may be infinite")
    negative_of_sum = (op.negative(x + c) >> op.negative(c) - x).when(is_float(x)).inexact("the sign of 0")
    log_of_exp = (op.log(op.exp(x)) >> x).inexact("two roundings less")
    log_of_softmax = (op.log(op.nn.softmax(x, axis=a)) >> op.nn.log_softmax(x, axis=a)).inexact(
        "the logarithm of a small number is kept",
        nonfinite=RESOLVED,  # of an infinity in float64, ONNX Runtime's LogSoftmax makes infinities
    )
    exp_of_log_softmax = (op.exp(op.nn.log_softmax(x, axis=a)) >> op.nn.softmax(x, axis=a)).inexact(_ORDER)
    product_of_exps = (op.exp(x) * op.exp(y) >> op.exp(x + y)).inexact("one rounding instead of two").exploring()
    root_of_square = (op.sqrt(x * x) >> op.abs(x)).inexact("two roundings less")
    square_of_abs = op.abs(x) * op.abs(x) >> x * x
    reciprocal_of_quotient = (op.reciprocal(x / y) >> y / x).inexact("one rounding instead of two")
    divided_by_quotient = (z / (x / y) >> (z * y) / x).when(is_float(x)).inexact(_ORDER).exploring()


f = operator("f", commutative=True, arity=2, but=("maximum", "minimum"))
extremum = operator("extremum", "maximum", "minimum")
g = operator("g", "add", "multiply")
IN_GROUPS: Final = (is_float(x), same_type(x, g(x, y)), same_type(y, g(y, z)), same_type(x, g(x, z)))


class Commutativity(RuleSet):
    """Operands in the other order, so that common parts are found whichever way they are written."""

    plain = (f(x, y) >> f(y, x)).when(is_not_constant(x), is_not_constant(y)).exploring().budget(200)
    extrema = (extremum(x, y) >> extremum(y, x)).when(is_not_constant(x), is_not_constant(y)).inexact(TIES).exploring().budget(200)


class Associativity(RuleSet):
    """Sums and products in other groups, so that common parts are found; with budgets, since there are exponentially many."""

    grouped = (g(g(x, y), z) >> g(x, g(y, z))).when(*IN_GROUPS).inexact(_ORDER).exploring().budget(200)
