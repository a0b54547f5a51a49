"""Matrix products and their surroundings: biases, reshapes, scales, weights on the left, and parallel products and convolutions of one
operand, merged together with the elementwise tail of each branch. Operators: nn.matmul nn.dense nn.batch_matmul nn.conv2d nn.bias_add
nn.relu add multiply divide reshape dyn.reshape transpose expand_dims squeeze.

Exporters of column vectors multiply weights from the left, W x + b. The row form, x^T W^T + b^T, is the one that chains of products, biases
and ONNX's Gemm expect.

From Relay's CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul. Branches merge up to the point where their
operators differ; biases and scales may differ.
"""

import math
from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

import ml_dtypes

from passat.ir.bounds import at_least
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.shape import Dim, same_dim, same_dims
from passat.rules.guards import Reject, Term, computed, guard, has_rank, is_axis, is_finite, is_float, is_not_empty, shape_of
from passat.rules.holes import cases
from passat.rules.library.arithmetic import is_not_constant
from passat.rules.library.batch_norm import is_not, stays_finite, stays_in_range
from passat.rules.library.views import keeps_shape
from passat.rules.multi_pattern import each, joined, parts
from passat.rules.pattern import CaseValue, Pattern, PCall, PVar, attributes, constants, op, tensors
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSet

x, y, z, sizes = tensors("x y z sizes")
w, b, c = constants("w b c")
weight, added, scale, shift = tensors("weight added scale shift")
a, p, q, s, t, u, k, e = attributes("a p q s t u k e")
_REGROUPS = "a product of another shape may accumulate in another order"
_NOTE = "sums in another order"
_BLOCKS: Final = "accumulates in blocks of another size"


def product(left: Pattern, right: Pattern) -> PCall:
    """`numpy.matmul` without transpose flags."""
    return op.nn.matmul(left, right, transpose_a=False, transpose_b=False)


@guard
def is_row_bias(b: Term, product: Term) -> bool | str:
    """A vector as long as the rows of a floating-point matrix; runtimes need not support an integer Gemm."""
    if product.type.ndim != 2 or product.type.dtype not in FLOATS:
        return f"{product.type!r} is not a floating-point matrix"
    return same_dims(b.type.shape, product.type.shape[1:]) or f"{b.type!r} is not a bias for {product.type!r}"


@guard
def keeps_rows(x: Term, flat: Term) -> bool | str:
    """The reshape only merges leading axes and keeps rows."""
    return (x.type.ndim >= 2 and flat.type.ndim == 2 and same_dim(x.type.shape[-1], flat.type.shape[-1])) or (
        f"{flat.type!r} does not have the rows of {x.type!r}"
    )


@guard
def is_matrix(w: Term) -> bool | str:
    """The weight is a matrix with at least one row: the product over an empty axis has elements that its factors do not."""
    return (w.type.ndim == 2 and w.type.shape[0] != 0) or f"{w.type!r} is not a matrix with rows"


@guard
def is_vector_of(b: Term, w: Term) -> bool | str:
    """The constant is a floating-point vector as long as the rows of the weight (see `is_row_bias`)."""
    return (
        same_dims(b.type.shape, w.type.shape[1:]) and b.type.dtype in FLOATS
    ) or f"{b.type!r} is not a bias for a product with {w.type!r}"


@computed
def matrix_rows(w: Term) -> tuple[int, ...]:
    """The newshape that collapses the data to a matrix for the weight."""
    size = w.type.shape[0]
    if not isinstance(size, int):
        raise Reject(f"{w.type!r} is not static")
    return (-1, size)


_FLAT = op.nn.matmul(op.reshape(x, ...), w, transpose_a=False, transpose_b=False)
_VIEWED = op.reshape(_FLAT + b, ...)
shape = cases("shape", "static", "computed")


def _viewed(flat: Pattern) -> Pattern:
    return shape(static=op.reshape(flat, ...), computed=op.dyn.reshape(flat, sizes, ...))


def _with_view(data: Pattern) -> Pattern:
    return view(
        reshape=op.reshape(data, attrs=a),
        squeeze=op.squeeze(data, attrs=a),
        expand_dims=op.expand_dims(data, attrs=a),
        transpose=op.transpose(data, attrs=a),
    )


view = cases("view", "reshape", "squeeze", "expand_dims", "transpose")
_MOVED: Final = _with_view(x)
_UNFLAT, _UNFLAT_BIASED = _viewed(_FLAT), _viewed(op.nn.bias_add(_FLAT, b, axis=p))


@guard
def is_scalar(c: Term, x: Term) -> bool | str:
    """The constant has one element and does not increase the rank of the other operand."""
    return (c.type.size == 1 and c.type.ndim <= x.type.ndim) or f"{c.type!r} is not a single number"


@guard
def is_power_of_two(c: Term) -> bool | str:
    """The constant is a power of two, so division by it equals multiplication by its reciprocal, bit for bit."""
    value = c.value().uniform()
    if value is None or abs(math.frexp(float(value))[0]) != 0.5:
        return f"{value} is not a power of two"
    limits = ml_dtypes.finfo(to_numpy(c.type.dtype))  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    size = abs(float(value))
    return float(limits.smallest_normal) <= min(size, 1 / size) or f"{value} is too large or too small"


@guard
def is_product_bias(b: Term, x: Term) -> bool | str:
    """The constant is a vector along the last axis."""
    return (b.type.ndim == 1 and same_dims(b.type.shape, x.type.shape[-1:])) or f"{b.type!r} is not a bias for {x.type!r}"


@guard
def does_not_grow(c: Term) -> bool | str:
    """The factor is at most 1 in element types of short range, where a term may overflow although the sum does not."""
    if c.type.dtype != "float16":
        return True
    return abs(float(c.value().uniform())) <= 1 or "a part of the sum may overflow"


@computed
def no_axes(c: Term) -> tuple[int, ...]:
    """The newshape of a scalar."""
    return ()


@guard
def is_stack(x: Term) -> bool | str:
    """The tensor is a matrix, or a stack of matrices."""
    return x.type.ndim >= 2 or f"{x.type!r} is not a matrix"


@computed
def exchanged(x: Term) -> tuple[int, ...]:
    """The permutation that transposes each matrix of a stack."""
    rank = x.type.ndim
    return (*range(rank - 2), rank - 1, rank - 2)


def turned(of: Pattern) -> PCall:
    """A stack of matrices, each transposed."""
    return op.transpose(of, axes=exchanged(of))


written = cases("kind", "matmul", "matmul_turned", "dense")


class Products(RuleSet):
    """Fuses matrix products with biases, drops reshapes that exist only to form matrices, moves scalar factors through views toward the
    weights of the preceding product, where this costs nothing, and rewrites products with a weight on the left as products with a weight on
    the right, between transposes."""

    bias = (
        (op.nn.matmul(x, y, attrs=a) + b >> op.nn.bias_add(op.nn.matmul(x, y, attrs=a), b, axis=-1))
        .when(is_row_bias(b, op.nn.matmul(x, y, attrs=a)))
        .inexact("ONNX's Gemm may add the bias before it rounds")
    )
    unflatten_biased = (
        (_UNFLAT_BIASED >> op.nn.matmul(x, w) + b)
        .when(is_matrix(w), keeps_rows(x, op.reshape(x, ...)), is_axis(p, -1, _FLAT), keeps_shape(op.nn.matmul(x, w), _UNFLAT_BIASED))
        .inexact(_REGROUPS)
    )
    flatten_biased = (
        (
            _VIEWED
            >> op.reshape(op.nn.bias_add(op.nn.matmul(op.reshape(x, newshape=matrix_rows(w)), w), b, axis=-1), newshape=shape_of(_VIEWED))
        )
        .when(is_matrix(w), is_vector_of(b, w), is_not_empty(_VIEWED))  # a size of 0 in newshape means another size
        .inexact(_REGROUPS)
    )
    unflatten = (
        (_UNFLAT >> op.nn.matmul(x, w))
        .when(is_matrix(w), keeps_rows(x, op.reshape(x, ...)), keeps_shape(op.nn.matmul(x, w), _UNFLAT))
        .inexact(_REGROUPS)
    )
    through_view = (_MOVED * c >> _with_view(x * op.reshape(c, newshape=no_axes(c)))).when(is_scalar(c, _MOVED))
    division = (x / c >> x * (1.0 / c)).when(is_scalar(c, x), is_float(x), is_power_of_two(c))
    through_sum = (
        ((x + b) * c >> x * c + b * c)
        .when(is_scalar(c, x + b), is_product_bias(b, x), is_finite(c), does_not_grow(c), stays_finite(b, c))
        .exploring()
        .inexact("distributes")
    )
    into_weight = (
        (op.nn.matmul(x, w, attrs=a) * c >> op.nn.matmul(x, w * c, attrs=a))
        .when(is_not(c, 1), is_scalar(c, w), stays_in_range(w, c))
        .inexact("scales the weights")
    )
    weight_last = (
        (
            written(matmul=product(w, x), matmul_turned=op.nn.matmul(w, x, transpose_a=False, transpose_b=True), dense=op.nn.dense(w, x))
            >> turned(product(written(matmul=turned(x), matmul_turned=x, dense=x), turned(w)))
        )
        .when(*written.only("matmul", is_stack(w), is_stack(x)), is_not_constant(x))
        .inexact(_NOTE)
        .exploring()
    )


@guard
def is_laid_out(layout: str, weight: str, data: str) -> bool | str:
    """The data has this layout, and outputs are the first axis of the weight."""
    return (layout == data and weight.startswith("O")) or f"the layouts are {layout} and {weight}"


@guard
def is_column_of(c: Term, whole: Term) -> bool | str:
    """The tensor has one element per channel of channels-first data."""
    rank = whole.type.ndim
    shape = c.type.shape
    fits = rank - 1 <= len(shape) <= rank and all(dim == 1 for i, dim in enumerate(shape) if i != len(shape) - rank + 1)
    return (
        fits and same_dim(shape[1 - rank], whole.type.shape[1])
    ) or f"{c.type!r} varies along an axis other than the channels of {whole.type!r}"


def _together(root: Pattern, whole: Pattern, axis: int | CaseValue, *guards: AnyValue) -> Rule:
    rule: Rule = each(root, sharing=x) >> parts(whole, axis=axis)
    return rule.when(*guards).inexact(_BLOCKS)


kind, layout = cases("kind", "dense", "matmul"), cases("layout", "nchw", "nhwc")
tail, bias = cases("tail", "plain", "biased", "shifted"), cases("bias", "none", "biased")
end, ending = cases("end", "plain", "relu"), cases("end", "scaled", "scaled_relu", "shifted", "shifted_relu")
_HELD: Final = {"strides": s, "padding": p, "dilation": q, "kernel_size": k, "data_layout": t, "kernel_layout": u, "groups": 1}
_CONV, _CONVS = op.nn.conv2d(x, weight, ..., **_HELD), op.nn.conv2d(x, joined(weight, axis=0), **_HELD)
_CHANNEL: Final = layout(nchw=1, nhwc=-1)


def _ended(of: Pattern) -> Pattern:
    return end(plain=of, relu=op.nn.relu(of))


def _biased(of: Pattern, vector: Pattern) -> Pattern:
    return bias(none=of, biased=op.nn.bias_add(of, vector, axis=e))


def _spread(of: Pattern, scale: Pattern, shift: Pattern) -> Pattern:
    return ending(scaled=of * scale, scaled_relu=op.nn.relu(of * scale), shifted=of + shift, shifted_relu=op.nn.relu(of + shift))


def _tailed(of: Pattern, vector: Pattern) -> Pattern:
    return _ended(tail(plain=of, biased=op.nn.bias_add(of, vector, axis=e), shifted=of + vector))


_ONE: Final = kind(dense=op.nn.dense(x, weight), matmul=product(x, weight))
_ALL: Final = kind(dense=op.nn.dense(x, joined(weight, axis=0)), matmul=product(x, joined(weight, axis=-1)))
operand = cases("operand", "plain", "turned")
_TURNED: Final = operand(plain=False, turned=True)


_BATCH: Final = op.nn.batch_matmul(x, weight, transpose_a=p, transpose_b=_TURNED)
_BATCHES: Final = op.nn.batch_matmul(
    x, operand(plain=joined(weight, axis=2), turned=joined(weight, axis=1)), transpose_a=p, transpose_b=_TURNED
)
sum_of = cases("sum_of", "none", "shifted")


@guard
def makes_heads(view: Term, whole: Term) -> bool | str:
    """The reshape only splits the last axis into heads: (..., length, heads * size) becomes (..., length, heads, size)."""
    source, target = whole.type.shape, view.type.shape
    if len(target) != len(source) + 1 or len(source) < 2 or 0 in source or any(map(_differ, source[:-1], target)):
        return f"{whole.type!r} is not split into heads by {view.type!r}"
    known = all(isinstance(dim, int) and dim > 0 for dim in target[-2:])
    return known or f"the sizes of the heads of {view.type!r} are unknown"


def _differ(a: Dim, added: Dim) -> bool:
    return not same_dim(a, added)


@computed
def all_heads(view: Term) -> tuple[int, ...]:
    """The newshape of the heads of all branches."""
    size = view.type.shape[-1]
    if not isinstance(size, int) or not all(at_least(dim, 1) for dim in view.type.shape):
        raise Reject(f"{view.type!r} is not static, or may be empty")
    return (*(0,) * (view.type.ndim - 2), -1, size)


@guard
def moves_heads(axes: Sequence[int] | None, view: Term) -> bool | str:
    """The transpose moves the heads before length and size."""
    rank = view.type.ndim
    return (axes is not None and axes[-3] % rank == rank - 2) or f"axes={axes} does not move the heads to axis {rank - 3}"


heads = cases("heads", "plain", "moved")
_VIEW: Final = op.reshape(_biased(product(x, weight), added), ..., newshape=q)
_WIDE: Final = op.reshape(_biased(product(x, joined(weight, axis=-1)), joined(added, axis=0)), newshape=all_heads(_VIEW))


@computed
def stacked(w: Term) -> tuple[int, ...]:
    """The newshape that makes a stack of vertically concatenated weights."""
    return (-1, *_static(w))


@computed
def unstacked(w: Term) -> tuple[int, ...]:
    """The newshape that concatenates the products of a stack vertically."""
    return (-1, _static(w)[0])


def _static(w: Term) -> tuple[int, int]:
    rows, columns = w.type.shape
    if not isinstance(rows, int) or not isinstance(columns, int) or not rows or not columns:
        raise Reject(f"{w.type!r} is not static, or empty")
    return rows, columns


def _stack(weight: PVar) -> Pattern:
    turned = op.nn.batch_matmul(
        op.expand_dims(x, axis=0), op.reshape(joined(weight, axis=0, alike=True), newshape=stacked(weight)), transpose_b=True
    )
    return op.reshape(turned, newshape=unstacked(weight))


class Parallel(RuleSet):
    """Merges calls that share an operand: convolutions of one tensor with equal attributes and kernel sizes; products of one operand with
    several weights, including biases and ReLUs; projections to attention heads (queries, keys, values), including the reshapes and
    transposes that follow; products of one stack of matrices with several stacks, with the vectors added to them. `stacks` merges products
    with weights of one shape into a batched product (Relay's `to_batch`)."""

    convolutions = _together(
        _ended(_biased(_CONV, added)),
        _ended(_biased(_CONVS, joined(added, axis=0))),
        _CHANNEL,
        is_laid_out(t, u, layout(nchw="NCHW", nhwc="NHWC")),
        *bias.only("biased", is_axis(e, _CHANNEL, _CONV)),
    )
    convolutions_per_channel = _together(
        _spread(_CONV, scale, shift),
        _spread(_CONVS, joined(scale, axis=-3), joined(shift, axis=-3)),
        1,
        is_laid_out(t, u, "NCHW"),
        *ending.only("scaled scaled_relu", is_column_of(scale, _CONV)),
        *ending.only("shifted shifted_relu", is_column_of(shift, _CONV)),
    )
    batches = _together(
        sum_of(none=_BATCH, shifted=_BATCH + added),
        sum_of(none=_BATCHES, shifted=_BATCHES + joined(added, axis=-1)),
        2,
        *sum_of.only("shifted", is_product_bias(added, _BATCH)),
    )
    products = _together(
        _tailed(_ONE, added),
        _tailed(_ALL, joined(added, axis=0)),
        -1,
        has_rank(weight, 2),
        *tail.only("biased", is_axis(e, -1, _ONE)),
        *tail.only("shifted", is_product_bias(added, _ONE)),
    )
    heads = _together(
        heads(plain=_VIEW, moved=op.transpose(_VIEW, axes=p)),
        heads(plain=_WIDE, moved=op.transpose(_WIDE, axes=p)),
        heads(plain=-2, moved=-3),
        has_rank(weight, 2),
        *bias.only("biased", is_axis(e, -1, product(x, weight))),
        makes_heads(_VIEW, _biased(product(x, weight), added)),
        *heads.only("moved", moves_heads(p, _VIEW)),
    )
    stacks = _together(op.nn.dense(x, weight), _stack(weight), 0, has_rank(x, 2), has_rank(weight, 2))
