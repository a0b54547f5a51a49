"""Gradients of elementwise operators: derivatives as a table, and operators of two operands."""

import math
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.expr import Call, Constant, Expr
from passat.ir.gradients.registry import built_in
from passat.ir.op import call_op, get_op
from passat.ir.types import tensor_type


def scalar(value: float, like: Expr) -> Constant:
    """A scalar constant of the element type of an expression."""
    return Constant(np.asarray(value, to_numpy(tensor_type(like.checked_type).dtype)))


def summed(gradient: Expr, operand: Expr, result: Call) -> Expr:
    """The gradient of an operand that was broadcast to the shape of a result."""
    narrow, wide = tensor_type(operand.checked_type), tensor_type(result.checked_type)
    return gradient if narrow.is_static and narrow.shape == wide.shape else call_op("collapse_sum_like", gradient, operand)


def _where(condition: Expr, x: Expr, y: Expr) -> Expr:
    return call_op("where", condition, x, y)


class _Scalars:
    """Arithmetic of an expression with numbers, which become constants of its element type."""

    def __init__(self, like: Expr) -> None:
        self._like = like

    def __call__(self, value: float) -> Expr:
        return scalar(value, self._like)


Derivative = Callable[[Expr, Expr, _Scalars, AnyValue], Expr]
"""The derivative of the operand `x`, the result `y`, scalars and attributes."""


def _sigmoid(x: Expr) -> Expr:
    return call_op("sigmoid", x)


def _clipped(x: Expr, s: _Scalars, a: AnyValue) -> Expr:
    inside: Expr = s(1)
    for bound, name in ((a.a_min, "less"), (a.a_max, "greater")):
        if bound is not None:
            inside = _where(call_op(name, x, s(bound)), s(0), inside)
    return inside


def _gelu(x: Expr, s: _Scalars, approximate: str) -> Expr:
    if approximate == "tanh":
        inner = call_op("tanh", s(math.sqrt(2 / math.pi)) * (x + s(0.044715) * x * x * x))
        slope = s(math.sqrt(2 / math.pi)) * (s(1) + s(3 * 0.044715) * x * x)
        return s(0.5) * (s(1) + inner) + s(0.5) * x * (s(1) - inner * inner) * slope
    density = s(1 / math.sqrt(2 * math.pi)) * call_op("exp", s(-0.5) * x * x)
    return s(0.5) * (s(1) + call_op("erf", x * s(math.sqrt(0.5)))) + x * density


def _mish(x: Expr, s: _Scalars) -> Expr:
    bound = call_op("tanh", call_op("nn.softplus", x))
    return bound + x * (s(1) - bound * bound) * _sigmoid(x)


def _swish(x: Expr, alpha: Expr, s: _Scalars) -> Expr:
    part = _sigmoid(alpha * x)
    return part * (s(1) + alpha * x * (s(1) - part))


def _between(x: Expr, s: _Scalars) -> Expr:
    """1 for elements between 0 and 1, otherwise 0."""
    return _where(call_op("less", x, s(0)), s(0), _where(call_op("greater", x, s(1)), s(0), s(1)))


def _hard_swish(x: Expr, line: Expr, s: _Scalars) -> Expr:
    return call_op("clip", line, a_min=0.0, a_max=1.0) + x * s(1 / 6) * _between(line, s)


DERIVATIVES: Final[dict[str, Derivative]] = {
    "exp": lambda x, y, s, a: y,
    "log": lambda x, y, s, a: s(1) / x,
    "log2": lambda x, y, s, a: s(1 / math.log(2)) / x,
    "sqrt": lambda x, y, s, a: s(0.5) / y,
    "rsqrt": lambda x, y, s, a: s(-0.5) * y * y * y,
    "reciprocal": lambda x, y, s, a: -(y * y),
    "negative": lambda x, y, s, a: s(-1),
    "sin": lambda x, y, s, a: call_op("cos", x),
    "cos": lambda x, y, s, a: -call_op("sin", x),
    "tan": lambda x, y, s, a: s(1) + y * y,
    "sinh": lambda x, y, s, a: call_op("cosh", x),
    "cosh": lambda x, y, s, a: call_op("sinh", x),
    "tanh": lambda x, y, s, a: s(1) - y * y,
    "asin": lambda x, y, s, a: call_op("rsqrt", s(1) - x * x),
    "acos": lambda x, y, s, a: -call_op("rsqrt", s(1) - x * x),
    "atan": lambda x, y, s, a: s(1) / (s(1) + x * x),
    "asinh": lambda x, y, s, a: call_op("rsqrt", x * x + s(1)),
    "acosh": lambda x, y, s, a: call_op("rsqrt", x * x - s(1)),
    "atanh": lambda x, y, s, a: s(1) / (s(1) - x * x),
    "sigmoid": lambda x, y, s, a: y * (s(1) - y),
    "erf": lambda x, y, s, a: s(2 / math.sqrt(math.pi)) * call_op("exp", -(x * x)),
    "abs": lambda x, y, s, a: _where(call_op("less", x, s(0)), s(-1), s(1)),
    "clip": lambda x, y, s, a: _clipped(x, s, a),
    "nn.relu": lambda x, y, s, a: _where(call_op("less", x, s(0)), s(0), s(1)),
    "nn.leaky_relu": lambda x, y, s, a: _where(call_op("less", x, s(0)), s(a.alpha), s(1)),
    "nn.elu": lambda x, y, s, a: _where(call_op("less", x, s(0)), y + s(a.alpha), s(1)),
    "nn.softplus": lambda x, y, s, a: _sigmoid(x),
    "nn.swish": lambda x, y, s, a: _swish(x, s(a.alpha), s),
    "nn.gelu": lambda x, y, s, a: _gelu(x, s, a.approximate),
    "nn.mish": lambda x, y, s, a: _mish(x, s),
    "nn.selu": lambda x, y, s, a: s(a.gamma) * _where(call_op("less", x, s(0)), s(a.alpha) * call_op("exp", x), s(1)),
    "nn.celu": lambda x, y, s, a: _where(call_op("less", x, s(0)), call_op("exp", x / s(a.alpha)), s(1)),
    "nn.softsign": lambda x, y, s, a: s(1) / ((s(1) + call_op("abs", x)) * (s(1) + call_op("abs", x))),
    "nn.hard_sigmoid": lambda x, y, s, a: s(a.alpha) * _between(s(a.alpha) * x + s(a.beta), s),
    "nn.hard_swish": lambda x, y, s, a: _hard_swish(x, x * s(1 / 6) + s(0.5), s),
    "nn.thresholded_relu": lambda x, y, s, a: _where(call_op("greater", x, s(a.alpha)), s(1), s(0)),
    "nn.shrink": lambda x, y, s, a: _where(call_op("greater", call_op("abs", x), s(a.lambd)), s(1), s(0)),
    "contrib.quick_gelu": lambda x, y, s, a: _swish(x, s(a.alpha), s),
    "fast_exp": lambda x, y, s, a: y,
    "fast_tanh": lambda x, y, s, a: s(1) - y * y,
    "fast_erf": lambda x, y, s, a: s(2 / math.sqrt(math.pi)) * call_op("exp", -(x * x)),
}
"""The derivative of each elementwise operator of one operand."""


def _of_derivative(derivative: Derivative) -> Callable[[Call, Expr], list[Expr | None]]:
    def gradient(call: Call, grad: Expr) -> list[Expr | None]:
        x = call.args[0]
        if tensor_type(x.checked_type).dtype not in FLOATS:
            return [None]
        return [grad * derivative(x, call, _Scalars(x), call.attrs)]

    return gradient


for _name, _derivative in DERIVATIVES.items():
    built_in(_name)(_of_derivative(_derivative))


@built_in("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "sign", "ceil", "floor", "round", "trunc")
@built_in(
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
    "logical_and",
    "logical_or",
    "logical_xor",
    "all",
    "any",
    "zeros_like",
    "ones_like",
    "shape_of",
    "ndarray_size",
)
@built_in("zeros", "ones", "argmax", "argmin")
def constant_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """No gradients, for operators whose result is constant wherever it is differentiable."""
    return [None] * len(call.args)


@built_in("copy", "annotation.checkpoint")
def copy_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient itself."""
    return [grad]


@built_in("add")
def add_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """Sums over the axes along which an operand was broadcast."""
    return [summed(grad, x, call) for x in call.args]


@built_in("subtract")
def subtract_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """As for a sum, but negated for the second operand."""
    x, y = call.args
    return [summed(grad, x, call), summed(-grad, y, call)]


@built_in("multiply")
def multiply_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The product with the other operand."""
    x, y = call.args
    return [summed(grad * y, x, call), summed(grad * x, y, call)]


@built_in("divide")
def divide_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """d(x / y) = dx / y - (x / y) / y dy."""
    x, y = call.args
    return [summed(grad / y, x, call), summed(-(grad * call / y), y, call)]


@built_in("power")
def power_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """d(x ^ y) = y x ^ (y - 1) dx + x ^ y log(x) dy. The second is NaN for negative x."""
    x, y = call.args
    base = summed(grad * y * call_op("power", x, y - scalar(1, y)), x, call)
    return [base, summed(grad * call * call_op("log", x), y, call)]


@built_in("maximum", "minimum")
def extremum_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient goes to the operand that equals the result; to the first one if both do."""
    x, y = call.args
    first = call_op("greater_equal" if call.op.same_as(get_op("maximum")) else "less_equal", x, y)
    nothing = scalar(0, grad)
    return [summed(_where(first, grad, nothing), x, call), summed(_where(first, nothing, grad), y, call)]


@built_in("fmod", "floor_mod")
def remainder_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """d(x mod y) = dx - q dy, for the rounded quotient q."""
    x, y = call.args
    quotient = x / y
    if call.op.same_as(get_op("fmod")):
        rounded = call_op("sign", quotient) * call_op("floor", call_op("abs", quotient))
    else:
        rounded = call_op("floor", quotient)
    return [summed(grad, x, call), summed(-(grad * rounded), y, call)]


@built_in("nn.prelu")
def prelu_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The slope for negative elements is the second operand."""
    x, alpha = call.args
    negative = call_op("less", x, scalar(0, x))
    return [grad * _where(negative, alpha, scalar(1, x)), summed(grad * _where(negative, x, scalar(0, x)), alpha, call)]


@built_in("contrib.bias_gelu", "contrib.fast_gelu")
def bias_gelu_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The derivative of gelu at the sum of the operands."""
    x, bias = call.args
    approximate = "tanh" if call.op.same_as(get_op("contrib.fast_gelu")) else "none"
    part = grad * _gelu(x + bias, _Scalars(x), approximate)
    return [part, summed(part, bias, call)]


@built_in("where")
def where_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient goes to the selected operand."""
    condition, x, y = call.args
    nothing = scalar(0, grad)
    return [None, summed(_where(condition, grad, nothing), x, call), summed(_where(condition, nothing, grad), y, call)]


@built_in("cast", "cast_like")
def cast_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient in the element type of the operand."""
    x = call.args[0]
    between = {tensor_type(type_).dtype for type_ in (x.checked_type, call.checked_type)}
    rest: list[Expr | None] = [None] * (len(call.args) - 1)
    return [grad.astype(tensor_type(x.checked_type).dtype) if between <= FLOATS else None, *rest]
