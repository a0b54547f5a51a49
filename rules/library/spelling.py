"""Of two ways to write the same, the one that ONNX Runtime's kernels run faster. Operators: mean nn.global_avg_pool2d.

Spelling is the last thing that is done to a program, and costs what it costs: the rules lower.
"""

from typing import Any as AnyValue

from passat.rules.conditions import Term, condition, is_float, is_not_empty
from passat.rules.pattern import attributes, op, tensors
from passat.rules.rule import RuleSet

(x,) = tensors("x")
(p,) = attributes("p")


@condition
def is_over_plane(axis: AnyValue, x: Term) -> bool | str:
    """The axes are the last two of four. (In three dimensions a mean over the last one is as likely a mean of rows.)"""
    reason = f"axis={axis} of {x.type!r} is not all but samples and channels"
    if x.type.ndim != 4 or not isinstance(axis, tuple):
        return reason
    return sorted(each % 4 for each in axis) == [2, 3] or reason


class GlobalPools(RuleSet):
    """The mean over all but samples and channels is a global pooling, whose kernel works on the blocked layout of convolutions."""

    mean = (
        (op.mean(x, axis=p, keepdims=True, exclude=False) >> op.nn.global_avg_pool2d(x))
        .when(is_over_plane(p, x), is_float(x), is_not_empty(x))
        .inexact("the sum may be taken in another order")
        .lowering()
    )
