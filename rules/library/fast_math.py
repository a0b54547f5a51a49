"""Exponential functions approximated by polynomials: Relay's FastMath. Operators: exp tanh erf nn.softmax fast_exp fast_tanh fast_erf
nn.fast_softmax.

The rules lower: whoever asks for them wants the approximations, whatever they are thought to cost.
"""

from passat.rules.conditions import has_dtype
from passat.rules.pattern import attribute, op, tensor
from passat.rules.rule import RuleSet

x = tensor("x")
p = attribute("p")
_APPROXIMATE = "a polynomial is near the function"


class FastMath(RuleSet):
    """Approximations of exponential functions of 32-bit floats, for which they are made."""

    exp = (
        (op.exp(x) >> op.fast_exp(x)).when(has_dtype(x, "float32")).finite("a power that overflows ends near the largest number").lowering()
    )
    tanh = (op.tanh(x) >> op.fast_tanh(x)).when(has_dtype(x, "float32")).inexact(_APPROXIMATE).lowering()
    erf = (op.erf(x) >> op.fast_erf(x)).when(has_dtype(x, "float32")).inexact(_APPROXIMATE).lowering()
    softmax = (op.nn.softmax(x, axis=p) >> op.nn.fast_softmax(x, axis=p)).when(has_dtype(x, "float32")).inexact(_APPROXIMATE).lowering()
