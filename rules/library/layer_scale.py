"""A factor for each feature after a linear layer: it goes into weight and bias. Operators: nn.matmul nn.bias_add add multiply.

ConvNeXt and CaiT scale what a block adds to its input (Touvron et al. 2021, LayerScale).
"""

from passat.rules.conditions import Term, condition, is_axis, is_float
from passat.rules.library.batch_norm import stays_finite
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule import RuleSet

(x,) = tensors("x")
w, b, s = constants("w b s")
(p,) = attributes("p")
_NOTE = "scales weight and bias instead of the result"


@condition
def is_feature_scale(s: Term, w: Term) -> bool | str:
    """The factor is a vector with an element for each column of a weight, which is a matrix."""
    if w.type.ndim != 2 or s.type.ndim != 1:
        return f"{s.type!r} is no vector, or {w.type!r} no matrix"
    return s.type.shape == w.type.shape[1:] or f"{s.type!r} has not an element for each column of {w.type!r}"


@condition
def is_feature_bias(b: Term, w: Term) -> bool | str:
    """The bias is a vector with an element for each column of a weight."""
    return (b.type.ndim == 1 and b.type.shape == w.type.shape[1:]) or f"{b.type!r} is no bias of a product by {w.type!r}"


class LayerScale(RuleSet):
    """Factors for each feature go into weight and bias of the linear layer before them."""

    product = ((x @ w) * s >> x @ (w * s)).when(is_feature_scale(s, w), is_float(w), stays_finite(w, s)).inexact(_NOTE)
    biased = (
        ((x @ w + b) * s >> x @ (w * s) + b * s)
        .when(is_feature_scale(s, w), is_feature_bias(b, w), is_float(w), stays_finite(w, s), stays_finite(b, s))
        .inexact(_NOTE)
    )
    biased_matrix = (
        (op.nn.bias_add(x @ w, b, axis=p) * s >> op.nn.bias_add(x @ (w * s), b * s, axis=-1))
        .when(is_feature_scale(s, w), is_axis(p, -1, x @ w), is_float(w), stays_finite(w, s), stays_finite(b, s))
        .inexact(_NOTE)
    )
