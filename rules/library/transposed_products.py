"""Transposes and products: (A B)^T = B^T A^T. A transpose before or behind a product is a flag of it, part of a weight, or meets another
transpose. Operators: nn.matmul nn.dense nn.batch_matmul nn.bias_add transpose.

Exporters of column vectors multiply weights from the left, W x + b; the same with rows, x^T W^T + b^T, is what chains of products, biases
and the Gemm of ONNX are made for. `passat.rules.library.passages` has how transposes get past sums and activations.
"""

from collections.abc import Sequence

from passat.rules.case_hole import cases
from passat.rules.conditions import Term, computed, condition, has_rank, is_float
from passat.rules.library.factoring import is_not_constant
from passat.rules.library.matmul_chains import product
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import RuleSet

x, y = tensors("x y")
(w,) = constants("w")
p, q, r = attributes("p q r")
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


class TransposedOperands(RuleSet):
    """A transpose of a matrix goes into the product that reads it."""

    matrix = (
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


kind = cases("kind", "matmul", "dense")
flagged = cases("flagged", "matmul", "batch_matmul")
_WHOLE = kind(matmul=product(x, y), dense=op.nn.dense(x, y))
_FLAGGED = flagged(
    matmul=op.nn.matmul(x, y, transpose_a=p, transpose_b=q), batch_matmul=op.nn.batch_matmul(x, y, transpose_a=p, transpose_b=q)
)
_EXCHANGED = {"transpose_a": other(q), "transpose_b": other(p)}


class TransposedProducts(RuleSet):
    """The transpose of a product is the product of the transposes, the other way round."""

    plain = (
        (op.transpose(_WHOLE, axes=r) >> product(kind(matmul=turned(y), dense=y), turned(x)))
        .when(transposes_matrices(r, _WHOLE), *kind.only("matmul", is_stack(x), is_stack(y)))
        .inexact(_NOTE)
        .exploring()
    )
    flags = (
        (
            op.transpose(_FLAGGED, axes=r)
            >> flagged(matmul=op.nn.matmul(y, x, **_EXCHANGED), batch_matmul=op.nn.batch_matmul(y, x, **_EXCHANGED))
        )
        .when(transposes_matrices(r, _FLAGGED), *flagged.only("matmul", is_set(p, q)))
        .inexact(_NOTE)
        .exploring()
    )
    both_turned = (
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
