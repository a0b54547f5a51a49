"""Algebra of matrix products: merges chained weights, reassociates products by cost, and turns transposes into flags. Operators: nn.matmul
nn.dense nn.batch_matmul nn.bias_add add subtract multiply divide transpose reshape squeeze.

Linear maps compose: (x W1 + b1) W2 + b2 = x (W1 W2) + (b1 W2 + b2), and x W + (x A) B = x (W + A B), as in a LoRA adapter. Reassociating a
sum with infinities of both signs may turn NaN into an infinity. Factoring, as in these two, preserves infinities. Chains of products
without weights may lose them.

(A B)^T = B^T A^T: a transpose before or after a product becomes a flag of it, folds into a weight, or cancels another transpose.
`commuting` moves transposes past sums and activations.
"""

import math
from collections.abc import Sequence
from typing import Final

from passat.ir.bounds import at_least
from passat.ir.ops.newshape import static_newshape
from passat.ir.shape import Shape, same_dim
from passat.rules.guards import (
    Reject,
    Term,
    computed,
    guard,
    has_rank,
    is_axis,
    is_finite,
    is_float,
    same_shape,
)
from passat.rules.holes import CaseHole, cases
from passat.rules.library.arithmetic import constants_in_range, is_no_zero, is_not_constant
from passat.rules.library.batch_norm import is_not, is_not_normalized, products_stay_finite, stays_in_range, sum_stays_finite
from passat.rules.library.products import is_product_bias, is_scalar, is_stack, product, turned
from passat.rules.pattern import Pattern, attributes, constants, op, tensors
from passat.rules.rule import MIXED, RESOLVED
from passat.rules.rule_set import RuleSet

x, y, z = tensors("x y z")
w, v, b, c = constants("w v b c")
a, p, q, r = attributes("a p q r")
_GROUPED: Final = "reassociates sums and products"
_NOTE: Final = "scales the weights instead of the operand"
_SUMS: Final = "sums in another order"
_MOST: Final = 4e9
"""Maximum number of multiplications for the product of two weights, which is computed during optimization."""


def _weighted(kind: CaseHole, left: Pattern, weight: Pattern) -> Pattern:
    """The product with a weight, in either form."""
    return kind(matmul=product(left, weight), dense=op.nn.dense(left, weight))


def _right(kind: CaseHole, weight: Pattern) -> Pattern:
    """The weight as the right operand of a product."""
    return kind(matmul=weight, dense=op.transpose(weight, axes=(1, 0)))


first, second = cases("first", "matmul", "dense"), cases("second", "matmul", "dense")


@guard
def is_modest(w: Term, v: Term) -> bool | str:
    """The product of two weights is cheap to compute; it contracts the last axis of the first."""
    sizes = [dim for dim in (*w.type.shape, v.type.shape[-1]) if isinstance(dim, int)]
    return math.prod(sizes) <= _MOST or f"the product of {w.type!r} and {v.type!r} takes {math.prod(sizes):.2g} multiplications"


@guard
def is_no_bottleneck(w: Term, v: Term) -> bool | str:
    """The size between the weights is not smaller than the one before or the one after. A cheapest grouping of a chain of products does not
    need such a size: one of its neighbors serves in its place. Where the first weight has at least as many columns as rows, the product of
    both replaces them at no extra cost even if the first product has other users."""
    return not _is_bottleneck(w, v) or f"the size between {w.type!r} and {v.type!r} is the smallest"


@guard
def is_bottleneck(w: Term, v: Term) -> bool | str:
    """The size between the weights is smaller than those before and after. The product of both may then be larger than both, as in a LoRA
    adapter."""
    return _is_bottleneck(w, v) or f"the size between {w.type!r} and {v.type!r} is not the smallest"


def _is_bottleneck(w: Term, v: Term) -> bool:
    rows, columns = w.type.concrete_shape
    return columns < min(rows, v.type.concrete_shape[-1])


@guard
def is_not_square(whole: Term) -> bool | str:
    """The numbers of rows and columns differ, as those of queries and cached keys do. Otherwise either operand is as cheap to scale, and
    looking for places for its scale takes a tenth of the time of a decoder."""
    shape = whole.type.shape
    return len(shape) < 2 or not same_dim(*shape[-2:]) or f"the product is {whole.type!r}, whose operands are as cheap to scale"


@guard
def has_entries(y: Term) -> bool | str:
    """The matrices are certainly nonempty: an empty sum is 0 even if another factor is infinite."""
    return all(at_least(dim, 1) for dim in y.type.shape[-2:]) or f"matrices of {y.type!r} may be empty"


@guard
def are_stacks(x: Term, y: Term, z: Term) -> bool | str:
    """All are matrices or stacks of matrices of one shape, so that nothing broadcasts."""
    ranks = {term.type.ndim for term in (x, y, z)}
    if len(ranks) != 1 or min(ranks) < 2:
        return f"the ranks are {sorted(ranks)}"
    stacks = [term.type.shape[:-2] for term in (x, y, z)]
    same = all(same_dim(m, n) for other in stacks[1:] for m, n in zip(stacks[0], other, strict=True))
    return same or f"the stacks have shapes {stacks}"


@guard
def is_row_scale(c: Term, w: Term, axis: int) -> bool | str:
    """The constant is a vector with one element per index of an axis of the weight."""
    return (c.type.ndim == 1 and same_dim(c.type.shape[0], w.type.shape[axis])) or f"{c.type!r} does not scale axis {axis} of {w.type!r}"


def certain_newshape(source: Shape, target: Shape) -> tuple[int, ...]:
    """The newshape between two shapes. Rejects shapes that need more than one -1, or one in a tensor that may be empty."""
    attrs = static_newshape(source, target)
    if attrs is None or attrs["allowzero"]:
        raise Reject(f"no reshape of {source} certainly gives {target}")
    newshape: tuple[int, ...] = tuple(attrs["newshape"])
    if -1 in newshape and not all(at_least(dim, 1) for dim, entry in zip(target, newshape, strict=True) if entry != -1):
        raise Reject(f"{target} may be empty")
    return newshape


@guard
def keeps_row_size(x: Term, view: Term) -> bool | str:
    """The reshape keeps the size of the last axis, and thus every row."""
    return same_dim(x.type.shape[-1], view.type.shape[-1]) or f"{view.type!r} does not have the rows of {x.type!r}"


@computed
def view_of_rows(x: Term, view: Term) -> tuple[int, ...]:
    """The newshape that gives the rows of a tensor the leading axes of a view."""
    return certain_newshape(x.type.shape, (*view.type.shape[:-1], x.type.shape[-1]))


_INNER, _RIGHT_W, _RIGHT_V = _weighted(first, x, w), _right(first, w), _right(second, v)
_BOTH: Final = product(x, product(_RIGHT_W, _RIGHT_V))
_SHIFTED: Final = _BOTH + product(b, _RIGHT_V)
bias = cases("bias", "none", "added", "biased")
_MEETING: Final = bias(none=_INNER, added=_INNER + b, biased=op.nn.bias_add(_INNER, b, axis=p))
_MET: Final = (
    (_weighted(second, _MEETING, v) >> bias(none=_BOTH, added=_SHIFTED, biased=_SHIFTED))
    .when(has_rank(w, 2), has_rank(v, 2), has_entries(w), is_modest(_RIGHT_W, _RIGHT_V), products_stay_finite(w, v, _RIGHT_V, 0))
    .when(*bias.only("added", is_product_bias(b, _INNER)), *bias.only("biased", is_axis(p, -1, _INNER)))
    .inexact(_GROUPED, nonfinite=RESOLVED)
)
_PLAIN: Final = product(x, w)
_VIEW: Final = op.reshape(bias(none=_PLAIN, added=_PLAIN + b, biased=op.nn.bias_add(_PLAIN, b, axis=p)), ...)
_VIEWED: Final = product(op.reshape(x, newshape=view_of_rows(x, _VIEW)), product(w, v))
biases = cases("biases", "none", "shifted", "left", "both")
_LEFT, _OTHER = _weighted(first, x, w), _weighted(second, x, v)
_SUM: Final = product(x, _RIGHT_W + _RIGHT_V)


@guard
def is_regular_divisor(c: Term) -> bool | str:
    """The divisor and its reciprocal are finite and far from 0."""
    value = c.value().uniform()
    size = abs(float(value)) if value is not None else 0.0
    return 1e-4 < size < 1e4 or f"the divisor is {value}"


seen = cases("seen", "plain", "reshape", "squeeze")
_NORMED: Final = (y / z) * b
"""A normalization. Biases of products do not pass views: CollapseBatchDims moves the view and makes bias and product a Gemm."""
_ROWS: Final = seen(plain=x, reshape=_NORMED, squeeze=_NORMED)


def _seen(rows: Pattern) -> Pattern:
    """The rows, or a view; a shift that fits the last axes of both shows that it keeps the rows."""
    return seen(plain=rows, reshape=op.reshape(rows, attrs=a), squeeze=op.squeeze(rows, attrs=a))


side = cases("side", "left", "right")
_NUMBER: Final = op.reshape(c, newshape=())


@guard
def transposes_matrices(axes: Sequence[int] | None, x: Term) -> bool | str:
    """The transpose exchanges the last two axes and keeps the others."""
    rank = x.type.ndim
    order = list(reversed(range(rank))) if axes is None else [axis % rank for axis in axes]
    return (rank >= 2 and order == [*range(rank - 2), rank - 1, rank - 2]) or f"axes={axes} does not just transpose matrices"


@guard
def is_set(*flags: bool) -> bool | str:
    """At least one of the flags is set."""
    return any(flags) or "neither operand is transposed"


@computed
def other(flag: bool) -> bool:
    """The negated flag."""
    return not flag


flag = cases("flag", "turned", "back")
_SET, _NOW = flag(turned=False, back=True), flag(turned=True, back=False)
scale = cases("scale", "number", "rows")
kind = cases("kind", "matmul", "dense")
flagged = cases("flagged", "matmul", "batch_matmul")
_WHOLE = kind(matmul=product(x, y), dense=op.nn.dense(x, y))
_FLAGGED = flagged(
    matmul=op.nn.matmul(x, y, transpose_a=p, transpose_b=q), batch_matmul=op.nn.batch_matmul(x, y, transpose_a=p, transpose_b=q)
)
_EXCHANGED = {"transpose_a": other(q), "transpose_b": other(p)}


class MatmulAlgebra(RuleSet):
    """Merges linear maps that are chained or summed where this is cheaper, and folds scales and shifts into weights. Reassociates products
    of non-constants by cost, with budgets that bound the exponential number of forms. Moves scales of right operands to left ones, and
    transposes into flags of products and past products."""

    meet = _MET.when(is_no_bottleneck(_RIGHT_W, _RIGHT_V))
    meet_larger = _MET.when(is_bottleneck(_RIGHT_W, _RIGHT_V)).exploring()
    meet_reshaped = (
        (product(_VIEW, v) >> bias(none=_VIEWED, added=_VIEWED + product(b, v), biased=_VIEWED + product(b, v)))
        .when(has_rank(w, 2), has_rank(v, 2), is_stack(x), keeps_row_size(_PLAIN, _VIEW))
        .when(has_entries(w), is_modest(w, v), products_stay_finite(w, v, v, 0))
        .when(*bias.only("added", is_product_bias(b, _PLAIN)), *bias.only("biased", is_axis(p, -1, _PLAIN)))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )
    sum_of_products = (
        (
            biases(none=_LEFT, shifted=_LEFT + y, left=op.nn.bias_add(_LEFT, b, axis=p), both=op.nn.bias_add(_LEFT, b, axis=p))
            + biases(none=_OTHER, shifted=_OTHER, left=_OTHER, both=op.nn.bias_add(_OTHER, c, axis=p))
            >> biases(none=_SUM, shifted=_SUM + y, left=op.nn.bias_add(_SUM, b, axis=p), both=op.nn.bias_add(_SUM, b + c, axis=p))
        )
        .when(has_rank(w, 2), has_rank(v, 2), same_shape(_RIGHT_W, _RIGHT_V), sum_stays_finite(w, v))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )
    difference_of_products = (
        (_LEFT - _OTHER >> product(x, _RIGHT_W - _RIGHT_V))
        .when(has_rank(w, 2), has_rank(v, 2), same_shape(_RIGHT_W, _RIGHT_V), sum_stays_finite(w, v))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )
    regroup = (
        (product(product(x, y), z) >> product(x, product(y, z)))
        .when(are_stacks(x, y, z), has_entries(y), products_stay_finite(x, y, x, -1), products_stay_finite(y, z, y, -1))
        .inexact(_GROUPED, nonfinite=MIXED)
        .and_back()
        .budget(64)
    )
    common_left = (
        (product(x, y) + product(x, z) >> product(x, y + z))
        .when(same_shape(y, z), is_not_constant(y), is_no_zero(x))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
        .budget(64)
    )
    common_right = (
        (product(x, z) + product(y, z) >> product(x + y, z))
        .when(same_shape(x, y), is_no_zero(z), constants_in_range("add", x, y))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
        .budget(64)
    )
    scaled_rows = (
        (_weighted(first, x * c, w) >> product(x, _RIGHT_W * op.reshape(c, newshape=scale(number=(), rows=(-1, 1)))))
        .when(
            has_rank(w, 2),
            *scale.only("number", is_scalar(c, x), is_not(c, 1)),
            *scale.only("rows", is_row_scale(c, _RIGHT_W, 0), is_product_bias(c, x), is_not_normalized(x, c)),
            stays_in_range(w, c),
        )
        .inexact(_NOTE)
        .exploring()
        .budget(64)
    )
    shifted_rows = (
        (_weighted(first, _seen(_ROWS + c), w) >> product(_seen(_ROWS), _RIGHT_W) + product(c, _RIGHT_W))
        .when(
            has_rank(w, 2),
            is_row_scale(c, _RIGHT_W, 0),
            is_product_bias(c, _ROWS),
            is_float(_ROWS),
            products_stay_finite(w, c, _RIGHT_W, 0),
        )
        .inexact(_NOTE)
        .exploring()
        .budget(64)
    )
    divided_product = (
        (product(x, y) / c >> product(x, y) * (1.0 / c))
        .when(is_float(x), is_scalar(c, product(x, y)), is_regular_divisor(c))
        .inexact("two roundings")
        .exploring()
    )
    scaled_product = (
        (product(x, y) * c >> product(side(left=x * _NUMBER, right=x), side(left=y, right=y * _NUMBER)))
        .when(is_float(x), is_scalar(c, product(x, y)), is_not(c, 1), is_finite(c), stays_in_range(side(left=x, right=y), c))
        .inexact(_NOTE)
        .exploring()
    )
    other_scaled_operand = (
        (product(x, y * c) >> product(x * _NUMBER, y))
        .when(is_float(x), is_scalar(c, y), is_not(c, 1), is_finite(c), stays_in_range(x, c), is_not_square(product(x, y * c)))
        .inexact("scales the other operand")
        .exploring()
    )
    transposed_operand = (
        (
            side(
                left=op.nn.matmul(op.transpose(x, axes=(1, 0)), y, transpose_a=_SET, transpose_b=p),
                right=op.nn.matmul(x, op.transpose(y, axes=(1, 0)), transpose_a=p, transpose_b=_SET),
            )
            >> side(left=op.nn.matmul(x, y, transpose_a=_NOW, transpose_b=p), right=op.nn.matmul(x, y, transpose_a=p, transpose_b=_NOW))
        )
        .when(is_float(x), has_rank(y, 2), has_rank(x, 2))
        .inexact(_SUMS)
        .exploring()
    )
    transposed_weight = (
        (
            side(left=op.nn.matmul(w, x, transpose_a=True, transpose_b=p), right=op.nn.matmul(x, w, transpose_a=p, transpose_b=True))
            >> side(
                left=op.nn.matmul(op.transpose(w, axes=(1, 0)), x, transpose_a=False, transpose_b=p),
                right=op.nn.matmul(x, op.transpose(w, axes=(1, 0)), transpose_a=p, transpose_b=False),
            )
        )
        .when(is_not_constant(x))
        .inexact(_SUMS)
        .exploring()
    )
    transpose_of_product = (
        (op.transpose(_WHOLE, axes=r) >> product(kind(matmul=turned(y), dense=y), turned(x)))
        .when(transposes_matrices(r, _WHOLE), *kind.only("matmul", is_stack(x), is_stack(y)))
        .inexact(_SUMS)
        .exploring()
    )
    transpose_of_flagged_product = (
        (
            op.transpose(_FLAGGED, axes=r)
            >> flagged(matmul=op.nn.matmul(y, x, **_EXCHANGED), batch_matmul=op.nn.batch_matmul(y, x, **_EXCHANGED))
        )
        .when(transposes_matrices(r, _FLAGGED), *flagged.only("matmul", is_set(p, q)))
        .inexact(_SUMS)
        .exploring()
    )
    transposed_operands = (
        (product(op.transpose(x, axes=p), op.transpose(y, axes=q)) >> turned(product(y, x)))
        .when(transposes_matrices(p, x), transposes_matrices(q, y))
        .inexact(_SUMS)
        .exploring()
    )
