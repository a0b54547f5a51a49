"""Powers, roots and squares. Operators: power sqrt rsqrt reciprocal multiply divide add.

Relay's SimplifyExpr (v0.18): SimplifyAdd, SimplifyBinomial, SwitchAddMultiply. (SimplifyAdjacentMultiplyOrAdd is
`arithmetic.Constants`.) SimplifyRSqrt is `normalisation_forms.Roots`.
"""

from passat.rules.case_hole import cases
from passat.rules.conditions import is_all, is_finite, is_float, keeps_type, same_type
from passat.rules.library.arithmetic import meet_in_range
from passat.rules.pattern import constants, op, tensors
from passat.rules.rule import MIXED, RESOLVED, RuleSet

x, y = tensors("x y")
c, d = constants("c d")
_ROUNDS = "a power, a root and a quotient are rounded apart"


class Powers(RuleSet):
    """Powers with a constant exponent that are products or roots, and roots that divide."""

    square = (op.power(x, c) >> x * x).when(is_all(c, 2), keeps_type(x, op.power(x, c))).inexact(_ROUNDS)
    root = (
        (op.power(x, c) >> op.sqrt(x))
        .when(is_all(c, 0.5), is_float(x), keeps_type(x, op.power(x, c)))
        .inexact("the power of minus infinity is infinite, its root is no number", nonfinite=MIXED)
    )
    inverse = (op.power(x, c) >> op.reciprocal(x)).when(is_all(c, -1), is_float(x), keeps_type(x, op.power(x, c))).inexact(_ROUNDS)
    inverse_root = (
        (op.power(x, c) >> op.rsqrt(x))
        .when(is_all(c, -0.5), is_float(x), keeps_type(x, op.power(x, c)))
        .finite("the power of minus infinity is 0, the inverse of its root is no number")
        .exploring()  # ONNX has two operators for it
    )
    reciprocal_of_inverse_root = (op.reciprocal(op.rsqrt(x)) >> op.sqrt(x)).inexact(_ROUNDS)
    divide_inverse_root = (x / op.rsqrt(y) >> x * op.sqrt(y)).inexact(_ROUNDS)


class Doubles(RuleSet):
    """A sum that is a multiple."""

    twice = x + x >> x * 2


class Sums(RuleSet):
    """Constants on their way out of sums."""

    switch_add_multiply = (
        ((x + c) * d >> x * d + c * d)
        .when(is_float(x), is_finite(d), meet_in_range("multiply", c, d))
        .inexact("distributes")
        .exploring()
        .budget(200)
    )


sign = cases("sign", "sum", "difference")
order = cases("order", "between", "last")
two = cases("two", "outside", "inside")
_MIXED = two(outside=(x * y) * 2, inside=(x * 2) * y)
_WHOLE = order(
    between=sign(sum=x * x + _MIXED, difference=x * x - _MIXED) + y * y,
    last=sign(sum=(x * x + y * y) + _MIXED, difference=(x * x + y * y) - _MIXED),
)
_ROOT = sign(sum=x + y, difference=x - y)


class Binomials(RuleSet):
    """Both squares and twice the product are the square of a sum or a difference."""

    square = (
        (_WHOLE >> _ROOT * _ROOT)
        .when(is_float(x), same_type(x, _WHOLE), same_type(y, _WHOLE))
        .inexact("sums before products", nonfinite=RESOLVED)
    )
