"""Identities of elementwise arithmetic. Operators: every elementwise operator that declares a unit, an involution or idempotence
(`passat.ir.op.Op`); add subtract multiply divide negative reciprocal sqrt power logical_* where elemwise_*."""

import math
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.attrs import EMPTY_ATTRS
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.evaluate import evaluate_call
from passat.ir.op import Op, get_op, list_ops
from passat.ir.tensor import Tensor
from passat.rules.conditions import Term, condition, equals, is_all, is_float, keeps_type, same_type
from passat.rules.operator_hole import operator
from passat.rules.pattern import PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

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


def _unit_rule(of: Op) -> Rule:
    """f(x, u) = x, and f(u, x) = x where f is commutative (the matcher tries both orders)."""
    whole = PCall(of, (x, c))
    rule = (whole >> x).when(is_all(c, of.unit), keeps_type(x, whole))
    if of.name == "subtract":
        rule = rule.when(is_no_negative_zero(c))
    # IEEE 754: -0.0 + 0.0 is 0.0; pow(x, 1) is x in every libm, but kernels may round on the way.
    return rule.inexact("-0.0 + 0.0 is 0.0") if of.name in ("add", "power") else rule


def _unit_sets() -> RuleSetMeta:
    named = {op_.name.replace(".", "_"): op_ for op_ in list_ops()}
    rules = {name: _unit_rule(of) for name, of in named.items() if of.unit is not None and of.arity == 2}
    return RuleSetMeta("Units", (RuleSet,), {"__doc__": "A binary operator on its unit: x + 0, x * 1, x - 0, x / 1, x and true.", **rules})


Units = _unit_sets()
involution = operator("involution", involution=True, arity=1)
idempotent = operator("idempotent", idempotent=True, arity=1, but=("cast", "copy"))
clipping = operator("clipping", "clip", "nn.thresholded_relu")  # idempotent for the same attributes


class Repetitions(RuleSet):
    """An operator applied twice: f(f(x)) is x or f(x)."""

    undone = involution(involution(x)) >> x
    once = idempotent(idempotent(x)) >> idempotent(x)
    alike = (clipping(clipping(x, attrs=a), attrs=b) >> clipping(x, attrs=a)).when(equals(a, b))


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
    sum_of_one = op.elemwise_sum((x,)) >> x
    mean_of_one = op.elemwise_mean((x,)) >> x
    max_of_one = op.elemwise_max((x,)) >> x
    min_of_one = op.elemwise_min((x,)) >> x


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
