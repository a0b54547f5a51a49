"""What the target runs faster: of two ways to write the same the one that ONNX Runtime's kernels run faster, and its own operators (domain
com.microsoft) where the target has them. Operators: mean nn.global_avg_pool2d reshape nn.gelu nn.swish nn.matmul multiply divide add
transpose contrib.*.

Choosing a form is the last thing that is done to a program, and costs what it costs: such rules lower.
"""

from collections.abc import Sequence
from typing import Any as AnyValue

from passat.ir.bounds import at_least
from passat.ir.shape import ANY
from passat.rules.case_hole import cases
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Refuse, Term, computed, condition, has_dtype, scalar_of
from passat.rules.drafts import Draft, Drafts
from passat.rules.library.products import is_scalar, other, product
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import RuleSet

x, y = tensors("x y")
b, c = constants("b c")
p, a, e, r = attributes("p a e r")


def _a_plane(dice: Dice, axis: Draft, x: Draft) -> Drafts:
    shape = x.shape if x.shape is not None and len(x.shape) == 4 else tuple(dice.full() for _ in range(4))
    return [Draft(value=dice.pick([(2, 3), (3, 2), (-2, -1), (-1, 2)])), Draft(shape)]


@condition(draw=_a_plane)
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


@computed
def with_open_size(newshape: tuple[int, ...], x: Term) -> tuple[int, ...]:
    """The newshape that counts the one size which it copied, and whose name is known. Refuses where another size is open or 0: counting
    would not find it. Of a size without a name ONNX Runtime may believe that it is another, and then refuse to count it."""
    if newshape.count(0) != 1 or any(entry < 0 for entry in newshape) or len(newshape) < 2:
        raise Refuse(f"newshape={newshape} does not copy one size among others that are known")
    size = x.type.shape[newshape.index(0)]
    if isinstance(size, int) or size is ANY:
        raise Refuse(f"the size that newshape={newshape} copies from {x.type!r} is {'unknown' if size is ANY else 'known'}")
    return tuple(entry or -1 for entry in newshape)


class TargetForms(RuleSet):
    """The mean over all but samples and channels is a global pooling, whose kernel works on the blocked layout of convolutions. A reshape
    that copies one size counts it instead: where ONNX Runtime does not see the name of a size behind reshapes, vision transformers with any
    number of samples run 2 to 7 % faster."""

    global_pool = (
        (op.mean(x, axis=p, keepdims=True, exclude=False) >> op.nn.global_avg_pool2d(x))
        .when(is_over_plane(p, x), is_pooled(x), has_plane(x))
        .inexact("the sum may be taken in another order")
        .lowering()
    )
    open_size = (op.reshape(x, newshape=p, allowzero=False) >> op.reshape(x, newshape=with_open_size(p, x), allowzero=False)).lowering()


_ROUNDS = "one operator rounds at other places than the nodes that it stands for"


@condition
def is_bias_of(b: Term, x: Term) -> bool | str:
    """A vector with an element for each place of the last axis."""
    fits = b.type.ndim == 1 and x.type.ndim >= 1 and b.type.shape == x.type.shape[-1:] and b.type.dtype == x.type.dtype
    return fits or f"{b.type!r} is no vector along the last axis of {x.type!r}"


@condition
def swaps_last_two(axes: Sequence[int] | None, x: Term) -> bool | str:
    """The permutation exchanges the last two dimensions of three or more: flags of other products do that for matrices."""
    rank = x.type.ndim
    order = tuple(axis % rank for axis in axes) if axes is not None else tuple(reversed(range(rank)))
    return (rank > 2 and order == (*range(rank - 2), rank - 1, rank - 2)) or f"axes={axes} does not exchange the last two dimensions"


@condition
def are_stacks_of_matrices(x: Term, y: Term) -> bool | str:
    """Both operands have two dimensions or more."""
    return (x.type.ndim >= 2 and y.type.ndim >= 2) or f"{x.type!r} or {y.type!r} is a vector"


@condition
def sums_something(x: Term, axis: int) -> bool | str:
    """The products are certainly sums of something: of nothing, ONNX Runtime's FusedMatMul leaves undefined what MatMul makes 0."""
    return (x.type.ndim >= 2 and at_least(x.type.shape[axis], 1)) or f"axis {axis} of {x.type!r}, which is summed over, may be empty"


def _batches_agree(x: Term, y: Term) -> bool:
    return x.type.shape[:-2] == y.type.shape[:-2] and ANY not in x.type.shape[:-2]


@condition
def is_turned_left(x: Term, y: Term) -> bool | str:
    """There are matrices on the left, or both batches are the same: ONNX Runtime's FusedMatMul does not turn none for one on the right."""
    some = all(at_least(size, 1) for size in x.type.shape[:-2])
    return some or _batches_agree(x, y) or f"{x.type!r}, which is turned, may be of no matrices, and {y.type!r} is another batch"


@condition
def is_turned_right(x: Term, y: Term) -> bool | str:
    """There are columns, or both batches are the same: turning what has no columns then, ONNX Runtime's FusedMatMul does not broadcast."""
    some = at_least(y.type.shape[-2], 1)
    return some or _batches_agree(x, y) or f"{y.type!r}, which is turned, may have no columns then, and {x.type!r} is another batch"


@computed
def inverse_of(c: Term) -> float:
    """One by the one number that a constant holds. Refuses numbers without an inverse in range."""
    value = c.value().uniform()
    if value is None or not 1e-30 < abs(float(value)) < 1e30:
        raise Refuse(f"{value} has no inverse in range")
    return 1.0 / float(value)


@computed
def scaled_by(alpha: float, c: Term) -> float:
    """The product of a factor and the one number that a constant holds. Refuses what is out of range."""
    value = c.value().uniform()
    if value is None or not abs(alpha * float(value)) < 1e30:
        raise Refuse(f"{alpha} * {value} is out of range")
    return alpha * float(value)


kind = cases("kind", "bias_gelu", "fast_gelu")
factor = cases("factor", "product", "quotient", "left", "right")
further = cases("factor", "product", "left", "right")
side = cases("side", "left", "right")


def _fused(left: Pattern, right: Pattern) -> PCall:
    return op.contrib.fused_matmul(left, right, alpha=a, transpose_a=e, transpose_b=r)


_PLAIN = product(x, y)
_TURNS = (*side.only("left", is_turned_left(x, y)), *side.only("right", is_turned_right(x, y)))
_TURNED_X, _TURNED_Y = op.transpose(x, axes=p), op.transpose(y, axes=p)


class ContribForms(RuleSet):
    """Gelu with the bias before it, Swish with a factor, and products with factors and with transposed operands as single operators."""

    bias_gelu = (
        (
            kind(bias_gelu=op.nn.gelu(x + b, approximate="none"), fast_gelu=op.nn.gelu(x + b, approximate="tanh"))
            >> kind(bias_gelu=op.contrib.bias_gelu(x, b), fast_gelu=op.contrib.fast_gelu(x, b))
        )
        .when(is_bias_of(b, x), has_dtype(x, "float32"))
        .inexact(_ROUNDS)
    )
    quick_gelu = (op.nn.swish(x, alpha=p) >> op.contrib.quick_gelu(x, alpha=p)).when(has_dtype(x, "float32")).inexact(_ROUNDS).lowering()
    scaled_product = (
        (
            factor(product=_PLAIN * c, quotient=_PLAIN / c, left=product(x * c, y), right=product(x, y * c))
            >> op.contrib.fused_matmul(
                *(x, y),
                alpha=factor(product=scalar_of(c), quotient=inverse_of(c), left=scalar_of(c), right=scalar_of(c)),
                transpose_a=False,
                transpose_b=False,
            )
        )
        .when(is_scalar(c, factor(product=_PLAIN, quotient=_PLAIN, left=x, right=y)), has_dtype(x, "float32"))
        .when(are_stacks_of_matrices(x, y), sums_something(x, -1))
        .inexact(_ROUNDS)
    )
    transposed_product = (
        (
            product(side(left=_TURNED_X, right=x), side(left=y, right=_TURNED_Y))
            >> op.contrib.fused_matmul(x, y, alpha=1.0, transpose_a=side(left=True, right=False), transpose_b=side(left=False, right=True))
        )
        .when(swaps_last_two(p, side(left=x, right=y)), are_stacks_of_matrices(x, y), sums_something(x, side(left=-2, right=-1)), *_TURNS)
        .when(has_dtype(x, "float32"))
        .inexact(_ROUNDS)
    )
    scaled_again = (
        (
            further(product=_fused(x, y) * c, left=_fused(x * c, y), right=_fused(x, y * c))
            >> op.contrib.fused_matmul(x, y, alpha=scaled_by(a, c), transpose_a=e, transpose_b=r)
        )
        .when(is_scalar(c, further(product=_PLAIN, left=x, right=y)), has_dtype(x, "float32"))
        .inexact(_ROUNDS)
    )
    transposed_again = (
        (
            _fused(side(left=_TURNED_X, right=x), side(left=y, right=_TURNED_Y))
            >> op.contrib.fused_matmul(x, y, alpha=a, transpose_a=side(left=other(e), right=e), transpose_b=side(left=r, right=other(r)))
        )
        .when(swaps_last_two(p, side(left=x, right=y)), has_dtype(x, "float32"), *_TURNS)
        .inexact(_ROUNDS)
    )
