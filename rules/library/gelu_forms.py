"""Activations that exporters have taken apart, recovered. Operators: erf tanh sigmoid clip power multiply add divide exp log nn.gelu
nn.swish nn.hard_swish nn.mish nn.softplus nn.hard_sigmoid.

Sources: Hendrycks and Gimpel 2016 (Gelu), Ramachandran et al. 2017 (Swish), Howard et al. 2019 (HardSwish), Misra 2019 (Mish). Factors
stand in any order: x * (0.5 * (1 + f)), (x * 0.5) * (1 + f), (x * (1 + f)) * 0.5, or divided by 2.
"""

import math

import ml_dtypes

from passat.ir.dtypes import to_numpy
from passat.ir.ops.emitting import shortest
from passat.rules.case_hole import cases
from passat.rules.conditions import Refuse, Term, computed, condition, has_dtype, is_float, keeps_type
from passat.rules.library.normalisation_forms import adds_no_axes
from passat.rules.pattern import Pattern, constants, op, tensors
from passat.rules.rule import Rule, RuleSet

x, y = tensors("x y")
(c,) = constants("c")
_ROUNDS = "one operator rounds at other places than the nodes that it stands for"


@condition
def is_about(c: Term, value: float, x: Term) -> bool | str:
    """The constant is one number, the nearest that the element type has to a value, give or take the last bits that exporters round."""
    found = c.value().uniform()
    if found is None or c.type.size != 1 or c.type.ndim > x.type.ndim:
        return f"{c.type!r} is not one number"
    step = float(ml_dtypes.finfo(to_numpy(c.type.dtype)).eps)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    return abs(float(found) - value) <= max(2 * step, 1e-7) * abs(value) or f"{found} is not {value:.8g}"


def _gelu(inner: Pattern, approximate: str) -> Rule:
    whole = (x * (inner + 1.0)) * 0.5
    return (whole >> op.nn.gelu(x, approximate=approximate)).when(is_float(x), keeps_type(x, whole)).inexact(_ROUNDS)


_ROOT, _SLOPE, _BEND = math.sqrt(2), math.sqrt(2 / math.pi), 0.044715


slope = cases("slope", "divided", "scaled")
cube = cases("cube", "power", "product", "factored", "factored_square")


@condition
def has_exact_bend(x: Term) -> bool | str:
    """The elements have no more digits than float32, in which ONNX's definition of the approximated Gelu has its constants."""
    return x.type.dtype != "float64" or "ONNX's Gelu has its constants in 32 bits, which is too coarse for float64"


class Gelus(RuleSet):
    """Gelu, by the error function or by its approximation with tanh, whatever order its factors are in."""

    halved = (x / 2.0 >> x * 0.5).when(is_float(x), keeps_type(x, x / 2.0)).exploring()
    half_last = (
        ((x * 0.5) * y >> (x * y) * 0.5)
        .when(is_float(x), keeps_type(x, x * 0.5))
        .exploring()
        .inexact("halves the product instead of a factor")
    )
    erf = _gelu(op.erf(slope(divided=x / c, scaled=x * c)), "none").when(is_about(c, slope(divided=_ROOT, scaled=1 / _ROOT), x))
    tanh = _gelu(
        op.tanh(
            cube(
                power=(x + op.power(x, 3.0) * _BEND) * c,
                product=(x + ((x * x) * x) * _BEND) * c,
                factored=(x * c) * (((x * _BEND) * x) + 1.0),
                factored_square=(x * c) * ((x * x) * _BEND + 1.0),
            )
        ),
        "tanh",
    ).when(has_exact_bend(x), is_about(c, _SLOPE, x))


@computed
def slope_of(c: Term) -> float:
    """The one number of a constant, as an attribute is read that has its 32 bits."""
    value = c.value().uniform()
    if value is None:
        raise Refuse("the elements of the constant differ")
    return shortest(float(value))


_STEP = op.clip(x + 3.0, a_min=0.0, a_max=6.0)
_SIXTH = 0.16666667
"""What a file keeps of 1 / 6, in 32 bits."""


sixth = cases("sixth", "inside", "last", "scaled", "scaled_inside")
_HARD = sixth(inside=x * (_STEP / 6.0), last=(x * _STEP) / 6.0, scaled=(x * _STEP) * c, scaled_inside=x * (_STEP * c))


class Swishes(RuleSet):
    """Swish, HardSwish and Mish: a tensor times a function of it that is about a step."""

    silu = (x * op.sigmoid(x) >> op.nn.swish(x, alpha=1.0)).when(is_float(x)).inexact(_ROUNDS)
    sigmoid_gelu = (
        (x * op.sigmoid(x * c) >> op.nn.swish(x, alpha=slope_of(c))).when(has_dtype(x, "float32"), adds_no_axes(c, x)).inexact(_ROUNDS)
    )
    hard = (x * op.nn.hard_sigmoid(x, alpha=_SIXTH, beta=0.5) >> op.nn.hard_swish(x)).when(has_dtype(x, "float32")).inexact(_ROUNDS)
    hard_step = (
        (_HARD >> op.nn.hard_swish(x))
        .when(has_dtype(x, "float32"), keeps_type(x, _HARD), *sixth.only("scaled scaled_inside", is_about(c, 1 / 6, x)))
        .inexact(_ROUNDS)
    )
    softplus = (
        (op.log(op.exp(x) + 1.0) >> op.nn.softplus(x)).when(has_dtype(x, "float32")).inexact("an exponential that overflows does no harm")
    )
    mish = (x * op.tanh(op.nn.softplus(x)) >> op.nn.mish(x)).when(is_float(x)).inexact(_ROUNDS)
