"""Of two ways to write the same, the one that ONNX Runtime's kernels run faster. Operators: mean nn.global_avg_pool2d reshape.

Spelling is the last thing that is done to a program, and costs what it costs: the rules lower.
"""

from typing import Any as AnyValue

from passat.ir.bounds import at_least
from passat.rules.conditions import Refuse, Term, computed, condition
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


@condition
def has_plane(x: Term) -> bool | str:
    """There are channels, and something to take the mean of: ONNX Runtime pools nothing else. (Of no samples there are no means, in either
    spelling.)"""
    return all(at_least(size, 1) for size in x.type.shape[1:]) or f"the planes of {x.type!r} may be empty"


@condition
def is_pooled(x: Term) -> bool | str:
    """ONNX Runtime pools elements of the type: float32, as which it takes float16 too."""
    return x.type.dtype in ("float32", "float16") or f"ONNX Runtime has no global pooling of {x.type.dtype}"


class GlobalPools(RuleSet):
    """The mean over all but samples and channels is a global pooling, whose kernel works on the blocked layout of convolutions."""

    mean = (
        (op.mean(x, axis=p, keepdims=True, exclude=False) >> op.nn.global_avg_pool2d(x))
        .when(is_over_plane(p, x), is_pooled(x), has_plane(x))
        .inexact("the sum may be taken in another order")
        .lowering()
    )


@computed
def with_open_size(newshape: tuple[int, ...], x: Term) -> tuple[int, ...]:
    """The newshape that counts the one size which it copied. Refuses where another size is open or 0: counting would not find it."""
    if newshape.count(0) != 1 or any(entry < 0 for entry in newshape) or len(newshape) < 2:
        raise Refuse(f"newshape={newshape} does not copy one size among others that are known")
    if isinstance(x.type.shape[newshape.index(0)], int):
        raise Refuse(f"the size that newshape={newshape} copies from {x.type!r} is known")
    return tuple(entry or -1 for entry in newshape)


class OpenSizes(RuleSet):
    """A reshape that copies one size counts it instead: where ONNX Runtime does not see the name of a size behind reshapes, vision
    transformers with any number of samples run 2 to 7 % faster."""

    count = (op.reshape(x, newshape=p, allowzero=False) >> op.reshape(x, newshape=with_open_size(p, x), allowzero=False)).lowering()
