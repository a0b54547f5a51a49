"""Products and their surroundings: biases, reshapes, scales and transposes. Operators: nn.matmul nn.dense nn.batch_matmul nn.bias_add add
multiply divide reshape transpose.

(A B)^T = B^T A^T: a transpose before or behind a product is a flag of it, part of a weight, or meets another transpose. Exporters of column
vectors multiply weights from the left, W x + b; the same with rows, x^T W^T + b^T, is what chains of products, biases and the Gemm of ONNX
are made for. `data_movement` has how transposes get past sums and activations.
"""

import math
from collections.abc import Sequence

import ml_dtypes

from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.shape import same_dim
from passat.rules.case_hole import cases
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Refuse, Term, computed, condition, has_rank, is_float, is_not_empty, shape_of
from passat.rules.drafts import Draft, Drafts
from passat.rules.library.batch_norm import is_not, stays_finite
from passat.rules.library.factoring import is_not_constant
from passat.rules.library.views import keeps_shape
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import RuleSet

x, y, z = tensors("x y z")
w, b, c = constants("w b c")
a, p, q, r = attributes("a p q r")
_REGROUPS = "a product of another shape may sum in another order"


def product(left: Pattern, right: Pattern) -> PCall:
    """The product of `numpy.matmul`, operands as they are."""
    return op.nn.matmul(left, right, transpose_a=False, transpose_b=False)


def _a_row_and_a_matrix(dice: Dice, b: Draft, product: Draft) -> Drafts:
    matrix = product.shape if product.shape is not None and len(product.shape) == 2 else (dice.full(), dice.full())
    return [Draft(matrix[1:]), Draft(matrix)]


@condition(draw=_a_row_and_a_matrix)
def is_row_bias(b: Term, product: Term) -> bool | str:
    """A vector as long as the rows of a matrix of floating-point numbers: what runs a Gemm need not do so for integers."""
    if product.type.ndim != 2 or product.type.dtype not in FLOATS:
        return f"{product.type!r} is no matrix of floating-point numbers"
    return b.type.shape == product.type.shape[1:] or f"{b.type!r} is no bias of {product.type!r}"


@condition
def keeps_rows(x: Term, flat: Term) -> bool | str:
    """The reshape only merges leading axes: rows stay rows."""
    return (x.type.ndim >= 2 and flat.type.ndim == 2 and same_dim(x.type.shape[-1], flat.type.shape[-1])) or (
        f"{flat.type!r} does not have the rows of {x.type!r}"
    )


@condition
def is_matrix(w: Term) -> bool | str:
    """The weight is a matrix, and not one without rows: a product over nothing has elements that its factors have not."""
    return (w.type.ndim == 2 and w.type.shape[0] != 0) or f"{w.type!r} is no matrix with rows"


@condition
def is_vector_of(b: Term, w: Term) -> bool | str:
    """The constant is a vector as long as the rows of the weight, of floating-point numbers (see `is_row_bias`)."""
    return (b.type.shape == w.type.shape[1:] and b.type.dtype in FLOATS) or f"{b.type!r} is no bias of a product by {w.type!r}"


@condition
def is_along_columns(axis: int) -> bool | str:
    """The bias of a matrix is along its last axis."""
    return axis in (1, -1) or f"the bias is along axis {axis}"


@computed
def matrix_rows(w: Term) -> tuple[int, ...]:
    """The newshape that makes a matrix for a weight."""
    size = w.type.shape[0]
    if not isinstance(size, int):
        raise Refuse(f"{w.type!r} is not static")
    return (-1, size)


_FLAT = op.nn.matmul(op.reshape(x, ...), w, transpose_a=False, transpose_b=False)
_VIEWED = op.reshape(_FLAT + b, ...)
_UNFLAT = op.reshape(_FLAT, ...)
_UNFLAT_BIASED = op.reshape(op.nn.bias_add(_FLAT, b, axis=p), ...)


class Products(RuleSet):
    """Matrix products with biases, and the reshapes around them that exist only to make matrices."""

    bias = (
        (op.nn.matmul(x, y, attrs=a) + b >> op.nn.bias_add(op.nn.matmul(x, y, attrs=a), b, axis=-1))
        .when(is_row_bias(b, op.nn.matmul(x, y, attrs=a)))
        .inexact("ONNX's Gemm may add the bias before it rounds")
    )
    unflatten_biased = (
        (_UNFLAT_BIASED >> op.nn.matmul(x, w) + b)
        .when(is_matrix(w), keeps_rows(x, op.reshape(x, ...)), is_along_columns(p), keeps_shape(op.nn.matmul(x, w), _UNFLAT_BIASED))
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


def _one_number(dice: Dice, c: Draft, x: Draft) -> Drafts:
    return [Draft((1,) * dice.integer(0, 1 if x.shape is None else len(x.shape)))]


@condition(draw=_one_number)
def is_scalar(c: Term, x: Term) -> bool | str:
    """The constant has one element and does not add axes to what it meets."""
    return (c.type.size == 1 and c.type.ndim <= x.type.ndim) or f"{c.type!r} is not one number"


@condition
def is_power_of_two(c: Term) -> bool | str:
    """Dividing by the number and multiplying by its reciprocal are the same, bit for bit: both have all their bits."""
    value = c.value().uniform()
    if value is None or abs(math.frexp(float(value))[0]) != 0.5:
        return f"{value} is no power of two"
    limits = ml_dtypes.finfo(to_numpy(c.type.dtype))  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    size = abs(float(value))
    return float(limits.smallest_normal) <= min(size, 1 / size) or f"{value} is too large or too small"


@condition
def is_product_bias(b: Term, x: Term) -> bool | str:
    """The constant is a vector along the last axis."""
    return (b.type.ndim == 1 and b.type.shape == x.type.shape[-1:]) or f"{b.type!r} is no bias of {x.type!r}"


@condition
def does_not_grow(c: Term) -> bool | str:
    """Where the element type has a short range, the parts of a sum may overflow that the sum does not, unless the factor is at most 1."""
    if c.type.dtype != "float16":
        return True
    return abs(float(c.value().uniform())) <= 1 or "a part of the sum may overflow"


@computed
def no_axes(c: Term) -> tuple[int, ...]:
    """The newshape of a scalar."""
    return ()


class Scales(RuleSet):
    """A product with one number moves through views towards the weights of the product before it, where it costs nothing."""

    through_reshape = (op.reshape(x, attrs=a) * c >> op.reshape(x * op.reshape(c, newshape=no_axes(c)), attrs=a)).when(
        is_scalar(c, op.reshape(x, attrs=a))
    )
    through_transpose = (op.transpose(x, attrs=a) * c >> op.transpose(x * op.reshape(c, newshape=no_axes(c)), attrs=a)).when(
        is_scalar(c, op.transpose(x, attrs=a))
    )
    division = (x / c >> x * (1.0 / c)).when(is_scalar(c, x), is_float(x), is_power_of_two(c))
    through_sum = (
        ((x + b) * c >> x * c + b * c).when(is_scalar(c, x + b), is_product_bias(b, x), does_not_grow(c)).exploring().inexact("distributes")
    )
    into_weight = (
        (op.nn.matmul(x, w, attrs=a) * c >> op.nn.matmul(x, w * c, attrs=a))
        .when(is_not(c, 1), is_scalar(c, w), stays_finite(w, c))
        .inexact("scales the weights")
    )


_NOTE = "sums in another order"


@condition
def transposes_matrices(axes: Sequence[int] | None, x: Term) -> bool | str:
    """The transpose exchanges the last two axes and leaves the others where they are."""
    rank = x.type.ndim
    order = list(reversed(range(rank))) if axes is None else [axis % rank for axis in axes]
    return (rank >= 2 and order == [*range(rank - 2), rank - 1, rank - 2]) or f"axes={axes} does more than to transpose matrices"


@condition
def is_stack(x: Term) -> bool | str:
    """The tensor is a matrix, or a stack of matrices."""
    return x.type.ndim >= 2 or f"{x.type!r} is no matrix"


@condition
def is_set(*flags: bool) -> bool | str:
    """One of the flags at least is set."""
    return any(flags) or "neither operand is transposed"


@computed
def exchanged(x: Term) -> tuple[int, ...]:
    """The permutation that transposes each matrix of a stack."""
    rank = x.type.ndim
    return (*range(rank - 2), rank - 1, rank - 2)


@computed
def other(flag: bool) -> bool:
    """The flag that is not set where this one is."""
    return not flag


def turned(of: Pattern) -> PCall:
    """Each matrix of a stack, transposed."""
    return op.transpose(of, axes=exchanged(of))


side = cases("side", "left", "right")
flag = cases("flag", "turned", "back")
_SET, _NOW = flag(turned=False, back=True), flag(turned=True, back=False)
kind = cases("kind", "matmul", "dense")
flagged = cases("flagged", "matmul", "batch_matmul")
_WHOLE = kind(matmul=product(x, y), dense=op.nn.dense(x, y))
_FLAGGED = flagged(
    matmul=op.nn.matmul(x, y, transpose_a=p, transpose_b=q), batch_matmul=op.nn.batch_matmul(x, y, transpose_a=p, transpose_b=q)
)
_EXCHANGED = {"transpose_a": other(q), "transpose_b": other(p)}


class TransposedProducts(RuleSet):
    """A transpose goes into the product that reads it; the transpose of a product is the product of the transposes, the other way round."""

    operand = (
        (
            side(
                left=op.nn.matmul(op.transpose(x, axes=(1, 0)), y, transpose_a=_SET, transpose_b=p),
                right=op.nn.matmul(x, op.transpose(y, axes=(1, 0)), transpose_a=p, transpose_b=_SET),
            )
            >> side(left=op.nn.matmul(x, y, transpose_a=_NOW, transpose_b=p), right=op.nn.matmul(x, y, transpose_a=p, transpose_b=_NOW))
        )
        .when(is_float(x), has_rank(y, 2), has_rank(x, 2))
        .inexact(_NOTE)
        .exploring()
    )
    weight = (
        (
            side(left=op.nn.matmul(w, x, transpose_a=True, transpose_b=p), right=op.nn.matmul(x, w, transpose_a=p, transpose_b=True))
            >> side(
                left=op.nn.matmul(op.transpose(w, axes=(1, 0)), x, transpose_a=False, transpose_b=p),
                right=op.nn.matmul(x, op.transpose(w, axes=(1, 0)), transpose_a=p, transpose_b=False),
            )
        )
        .when(is_not_constant(x))
        .inexact(_NOTE)
        .exploring()
    )
    of_product = (
        (op.transpose(_WHOLE, axes=r) >> product(kind(matmul=turned(y), dense=y), turned(x)))
        .when(transposes_matrices(r, _WHOLE), *kind.only("matmul", is_stack(x), is_stack(y)))
        .inexact(_NOTE)
        .exploring()
    )
    of_flagged_product = (
        (
            op.transpose(_FLAGGED, axes=r)
            >> flagged(matmul=op.nn.matmul(y, x, **_EXCHANGED), batch_matmul=op.nn.batch_matmul(y, x, **_EXCHANGED))
        )
        .when(transposes_matrices(r, _FLAGGED), *flagged.only("matmul", is_set(p, q)))
        .inexact(_NOTE)
        .exploring()
    )
    both_operands = (
        (product(op.transpose(x, axes=p), op.transpose(y, axes=q)) >> turned(product(y, x)))
        .when(transposes_matrices(p, x), transposes_matrices(q, y))
        .inexact(_NOTE)
        .exploring()
    )


written = cases("kind", "matmul", "matmul_turned", "dense")


class WeightsLast(RuleSet):
    """A weight that multiplies from the left multiplies from the right what is transposed before and behind."""

    exchange = (
        (
            written(matmul=product(w, x), matmul_turned=op.nn.matmul(w, x, transpose_a=False, transpose_b=True), dense=op.nn.dense(w, x))
            >> turned(product(written(matmul=turned(x), matmul_turned=x, dense=x), turned(w)))
        )
        .when(*written.only("matmul", is_stack(w), is_stack(x)), is_not_constant(x))
        .inexact(_NOTE)
        .exploring()
    )
