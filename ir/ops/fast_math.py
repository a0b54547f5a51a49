"""Polynomial and rational approximations of exponential functions, which compilers can vectorize.

Relay's FastMath replaces exp, tanh, erf and softmax by these operators. ONNX does not have them, and ONNX runtimes use their own
approximations, so they are written as the functions they approximate. As in TVM, float64 is computed exactly; 16-bit floats are computed in
float32.
"""

import math
from collections.abc import Sequence

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.expr import Call
from passat.ir.onnx_mapping import Emitter, ToOnnx, to_onnx
from passat.ir.op import Op, define_op, get_op
from passat.ir.ops.elementwise import FLOATING, in_float32, same_type
from passat.ir.ops.erf import erf
from passat.ir.tensor import Array
from passat.ir.types import TensorType, Type

_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_EXP_END = 88.3762626647949
_EXP_INFINITE = 89.0
"""An exponent for which exp overflows."""
_TANH = (
    *(-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08),
    *(1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
)
_TANH_BELOW = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
_TANH_END = 9.0
_ERF = (
    *(-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05),
    *(-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
)
_ERF_BELOW = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02)
_ERF_END = 4.0


def _cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """A polynomial of about eight terms, plus overhead."""
    return Cost(12.0 * elements(result), sum(map(nbytes, args)) + nbytes(result))


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Horner's scheme in the element type of `x`; the first coefficient belongs to the highest power."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + x.dtype.type(coefficient)
    return value


def _exp(x: Array) -> Array:
    """2 to an integer power times a polynomial of the remainder, which is at most ln(2) / 2 (Cephes, expf)."""
    if x.dtype != np.float32:
        return np.asarray(np.exp(x))
    held = np.clip(x, np.float32(-_EXP_END), np.float32(_EXP_INFINITE))
    whole = np.floor(held * np.float32(math.log2(math.e)) + np.float32(0.5))
    rest = held - whole * np.float32(math.log(2))
    value = _polynomial(rest, _EXP) * rest * rest + rest + np.float32(1)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(value, np.nan_to_num(whole).astype(np.int32)))


def _quotient(x: Array, end: float, above: Sequence[float], below: Sequence[float]) -> Array:
    """An odd rational function that is 1 or -1 beyond `end`: x times a quotient of polynomials in x squared."""
    held = np.clip(x, x.dtype.type(-end), x.dtype.type(end))
    square = held * held
    return np.asarray(held * _polynomial(square, above) / _polynomial(square, below))


def _tanh(x: Array) -> Array:
    return _quotient(x, _TANH_END, _TANH, _TANH_BELOW) if x.dtype == np.float32 else np.asarray(np.tanh(x))


def _erf(x: Array) -> Array:
    return _quotient(x, _ERF_END, _ERF, _ERF_BELOW) if x.dtype == np.float32 else erf(x)


@define_op("fast_exp", kernel=in_float32(_exp), cost=_cost, elementwise=True)
def fast_exp(x: TensorType) -> TensorType:
    """e to the power of the element, with a relative error of about 1e-6; clamped below -88.376. Relay fast_exp."""
    return same_type(x, FLOATING)


@define_op("fast_tanh", kernel=in_float32(_tanh), cost=_cost, elementwise=True)
def fast_tanh(x: TensorType) -> TensorType:
    """The hyperbolic tangent, with an error of about 1e-6. Relay fast_tanh."""
    return same_type(x, FLOATING)


@define_op("fast_erf", kernel=in_float32(_erf), cost=_cost, elementwise=True)
def fast_erf(x: TensorType) -> TensorType:
    """The error function, with an error of about 1e-6. Relay fast_erf."""
    return same_type(x, FLOATING)


def _softmax(data: Array, axis: int) -> Array:
    if not data.size:
        return data
    powers = _exp(data - data.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


@define_op("nn.fast_softmax", kernel=in_float32(_softmax), cost=_cost, pattern=4)
def fast_softmax(data: TensorType, *, axis: int = -1) -> TensorType:
    """Softmax along an axis, with the exponentials of `fast_exp`. Relay nn.fast_softmax."""
    same_type(data, FLOATING).axis(axis)
    return data


def _write_as(name: str) -> ToOnnx:
    """Returns a writer that emits the approximated operator."""

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str | Sequence[str]:
        exact = get_op(name)
        assert exact.to_onnx is not None
        return exact.to_onnx(Call(exact, call.args, call.attrs, span=call.span), inputs, emit)

    return write


_EXACT: dict[Op, str] = {fast_exp: "exp", fast_tanh: "tanh", fast_erf: "erf", fast_softmax: "nn.softmax"}
for _fast, _name in _EXACT.items():
    to_onnx(_fast)(_write_as(_name))
