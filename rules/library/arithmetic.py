"""Identities of elementwise arithmetic. Operators: every elementwise operator that declares a unit, an involution or idempotence, or that
it is even or odd (`passat.ir.op.Op`); add subtract multiply divide negative reciprocal sqrt power logical_* where elemwise_*."""

import math
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.attrs import EMPTY_ATTRS
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.evaluate import evaluate_call
from passat.ir.op import Op, get_op, list_ops
from passat.ir.tensor import Tensor
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Term, condition, equals, is_all, is_float, keeps_type, same_type
from passat.rules.drafts import Draft, Drafts
from passat.rules.operator_hole import operator
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule import RuleSet

x, y, z = tensors("x y z")
c, d = constants("c d")
a, b = attributes("a b")

TIES: Final = "of 0.0 and -0.0 either is the larger one"
CHOSEN_ZERO: Final = "ONNX Runtime makes 0.0 of a -0.0 that is chosen where the condition holds, or not, depending on shapes"


@condition
def is_no_negative_zero(c: Term) -> bool | str:
    """The constant is not -0.0: of x = -0.0, x - -0.0 is 0.0."""
    element = c.value().uniform()
    return element is None or math.copysign(1.0, float(element)) > 0 or "the elements of the constant are -0.0"


def _its_unit(dice: Dice, c: Draft, of: Op) -> Drafts:
    return [Draft(elements=() if of.unit is None else (of.unit,)), None]


@condition(draw=_its_unit)
def is_unit(c: Term, of: Op) -> bool | str:
    """Every element of the constant is the unit of the operator."""
    element = c.value().uniform()
    if element is None:
        return "the elements of the constant differ"
    return bool(element == of.unit) or f"the elements of the constant are {element}, not {of.unit}"


_APART: Final = ("add", "subtract", "power")
unital = operator("unital", *(of.name for of in list_ops() if of.unit is not None and of.arity == 2 and of.name not in _APART))


class Units(RuleSet):
    """A binary operator on its unit: x + 0, x * 1, x - 0, x / 1, x and true. The matcher tries both orders where it is commutative."""

    # IEEE 754: -0.0 + 0.0 is 0.0; pow(x, 1) is x in every libm, but kernels may round on the way.
    add = (x + c >> x).when(is_all(c, 0), keeps_type(x, x + c)).inexact("-0.0 + 0.0 is 0.0")
    power = (op.power(x, c) >> x).when(is_all(c, 1), keeps_type(x, op.power(x, c))).inexact("kernels may round on the way")
    subtract = (x - c >> x).when(is_all(c, 0), keeps_type(x, x - c), is_no_negative_zero(c))
    unit = (unital(x, c) >> x).when(is_unit(c, unital), keeps_type(x, unital(x, c)))


involution = operator("involution", involution=True, arity=1)
idempotent = operator("idempotent", idempotent=True, arity=1, but=("cast", "copy", "abs"))  # abs is even, which says more
clipping = operator("clipping", "clip", "nn.thresholded_relu")  # idempotent for the same attributes
twofold = operator("twofold", idempotent=True, arity=2)


class Repetitions(RuleSet):
    """An operator applied twice, or to one operand twice: f(f(x)) is x or f(x), f(x, x) is x."""

    alone = twofold(x, x) >> x
    absorbed = (twofold(x, twofold(x, y)) >> twofold(x, y)).inexact(TIES)
    undone = involution(involution(x)) >> x
    once = idempotent(idempotent(x)) >> idempotent(x)
    alike = (clipping(clipping(x, attrs=a), attrs=b) >> clipping(x, attrs=a)).when(equals(a, b))


even, odd = operator("even", even=True, arity=1), operator("odd", odd=True, arity=1)
sign_change = operator("sign_change", "negative", "abs")
of_one = operator("of_one", *(f"elemwise_{kind}" for kind in ("sum", "mean", "max", "min")))


class Arithmetic(RuleSet):
    """Identities between different elementwise operators."""

    copy = op.copy(x) >> x
    add_negative = x + op.negative(y) >> x - y
    subtract_negative = x - op.negative(y) >> x + y
    negative_of_difference = (op.negative(x - y) >> y - x).inexact("-(x - x) is -0.0, x - x is 0.0")
    product_of_negatives = op.negative(x) * op.negative(y) >> x * y
    # The negative of the lowest integer is itself, so of integers this is not an identity.
    quotient_of_negatives = (op.negative(x) / op.negative(y) >> x / y).when(is_float(x))
    divide_one = (op.divide(c, x) >> op.reciprocal(x)).when(is_all(c, 1), is_float(x), keeps_type(x, op.divide(c, x)))
    multiply_reciprocal = (x * op.reciprocal(y) >> x / y).inexact("one rounding instead of two")
    where_true = (op.where(c, x, y) >> x).when(is_all(c, 1), same_type(x, op.where(c, x, y))).inexact(CHOSEN_ZERO)
    where_false = (op.where(c, x, y) >> y).when(is_all(c, 0), same_type(y, op.where(c, x, y)))
    where_same = (op.where(x, y, y) >> y).when(same_type(y, op.where(x, y, y))).inexact(CHOSEN_ZERO)
    one_of_one = of_one((x,)) >> x
    even = even(sign_change(x)) >> even(x)
    odd = odd(op.negative(x)) >> op.negative(odd(x))


@condition
def meet_in_range(name: str, c: Term, d: Term) -> bool | str:
    """The operator makes finite constants of the two, and does not make 0 (or a number of few bits) of two that are not 0.

    Reassociating changes rounding; where one constant overflowed that the two together do not, it would change the result.
    """
    if c.type.dtype not in FLOATS:
        return f"the elements are {c.type.dtype}, not floating-point numbers"
    of = get_op(name)
    operands = (c.value(), d.value())
    value = evaluate_call(of, operands, EMPTY_ATTRS, of.infer((c.type, d.type), EMPTY_ATTRS))
    assert isinstance(value, Tensor)
    found = np.abs(np.asarray([value.uniform()]) if value.is_splat and value.size else value.numpy())
    reason = f"{name} of the constants leaves the range of {c.type.dtype}"
    if not np.all(np.isfinite(found)):
        return reason
    if name in ("add", "subtract"):
        return True
    zero = (operands[0].numpy() == 0) | (name == "multiply" and operands[1].numpy() == 0)
    smallest = ml_dtypes.finfo(to_numpy(c.type.dtype)).smallest_normal  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    return bool(np.all((found >= smallest) | zero)) or reason


class Constants(RuleSet):
    """Constants that meet through one operator: they become one, since what is computed from constants alone costs nothing."""

    add_add = ((x + c) + d >> x + (c + d)).when(meet_in_range("add", c, d)).inexact("reassociates a sum")
    add_subtract = ((x + c) - d >> x + (c - d)).when(meet_in_range("subtract", c, d)).inexact("reassociates a sum")
    subtract_add = ((x - c) + d >> x + (d - c)).when(meet_in_range("subtract", d, c)).inexact("reassociates a sum")
    subtract_subtract = ((x - c) - d >> x - (c + d)).when(meet_in_range("add", c, d)).inexact("reassociates a sum")
    multiply_multiply = ((x * c) * d >> x * (c * d)).when(meet_in_range("multiply", c, d)).inexact("reassociates a product")
    multiply_divide = ((x * c) / d >> x * (c / d)).when(meet_in_range("divide", c, d)).inexact("reassociates a product")
    divide_multiply = ((x / c) * d >> x * (d / c)).when(meet_in_range("divide", d, c)).inexact("reassociates a product")
    divide_divide = ((x / c) / d >> x / (c * d)).when(meet_in_range("multiply", c, d)).inexact("reassociates a product")
