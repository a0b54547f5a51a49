"""Transposes and products: (A B)^T = B^T A^T. A transpose before or behind a product is a flag of it, part of a weight, or meets another
transpose. Operators: nn.matmul nn.dense nn.batch_matmul nn.bias_add transpose.

Exporters of column vectors multiply weights from the left, W x + b; the same with rows, x^T W^T + b^T, is what chains of products, biases
and the Gemm of ONNX are made for. `passat.rules.library.passages` has how transposes get past sums and activations.
"""

from collections.abc import Sequence

from passat.rules.conditions import Term, computed, condition, has_rank, is_float
from passat.rules.library.factoring import is_not_constant
from passat.rules.library.matmul_chains import product
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

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


def _flags() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for flag in (False, True):
        plain, now = {"transpose_a": p, "transpose_b": flag}, {"transpose_a": p, "transpose_b": not flag}
        matrix = op.transpose(y, axes=(1, 0))
        rules[f"right_{'back' if flag else 'turned'}"] = op.nn.matmul(x, matrix, **plain) >> op.nn.matmul(x, y, **now)
        plain, now = {"transpose_a": flag, "transpose_b": p}, {"transpose_a": not flag, "transpose_b": p}
        matrix = op.transpose(x, axes=(1, 0))
        rules[f"left_{'back' if flag else 'turned'}"] = op.nn.matmul(matrix, y, **plain) >> op.nn.matmul(x, y, **now)
    doc = "A transpose of a matrix goes into the product that reads it."
    named = {name: rule.when(is_float(x), has_rank(y, 2), has_rank(x, 2)).inexact(_NOTE).exploring() for name, rule in rules.items()}
    weights = {
        "right_weight": op.nn.matmul(x, w, transpose_a=p, transpose_b=True)
        >> op.nn.matmul(x, op.transpose(w, axes=(1, 0)), transpose_a=p, transpose_b=False),
        "left_weight": op.nn.matmul(w, x, transpose_a=True, transpose_b=p)
        >> op.nn.matmul(op.transpose(w, axes=(1, 0)), x, transpose_a=False, transpose_b=p),
    }
    named |= {name: rule.when(is_not_constant(x)).inexact(_NOTE).exploring() for name, rule in weights.items()}
    return RuleSetMeta("TransposedOperands", (RuleSet,), {"__doc__": doc, **named})


TransposedOperands = _flags()


def _products() -> RuleSetMeta:
    whole, dense, batches = product(x, y), op.nn.dense(x, y), op.nn.batch_matmul(x, y, transpose_a=p, transpose_b=q)
    flagged = op.nn.matmul(x, y, transpose_a=p, transpose_b=q)
    now = {"transpose_a": other(q), "transpose_b": other(p)}
    rules = {
        "matmul": (op.transpose(whole, axes=r) >> product(turned(y), turned(x))).when(
            transposes_matrices(r, whole), is_stack(x), is_stack(y)
        ),
        "matmul_flags": (op.transpose(flagged, axes=r) >> op.nn.matmul(y, x, **now)).when(transposes_matrices(r, flagged), is_set(p, q)),
        "dense": (op.transpose(dense, axes=r) >> product(y, turned(x))).when(transposes_matrices(r, dense)),
        "batch_matmul": (op.transpose(batches, axes=r) >> op.nn.batch_matmul(y, x, **now)).when(transposes_matrices(r, batches)),
        "both_turned": (product(op.transpose(x, axes=p), op.transpose(y, axes=q)) >> turned(product(y, x))).when(
            transposes_matrices(p, x), transposes_matrices(q, y)
        ),
    }
    doc = "The transpose of a product is the product of the transposes, the other way round."
    return RuleSetMeta("TransposedProducts", (RuleSet,), {"__doc__": doc, **{k: v.inexact(_NOTE).exploring() for k, v in rules.items()}})


TransposedProducts = _products()


class WeightsLast(RuleSet):
    """A weight that multiplies from the left multiplies from the right what is transposed before and behind."""

    matmul = (
        (product(w, x) >> turned(product(turned(x), turned(w))))
        .when(is_stack(w), is_stack(x), is_not_constant(x))
        .inexact(_NOTE)
        .exploring()
    )
    matmul_turned = (
        (op.nn.matmul(w, x, transpose_a=False, transpose_b=True) >> turned(product(x, turned(w))))
        .when(is_not_constant(x))
        .inexact(_NOTE)
        .exploring()
    )
    dense = (op.nn.dense(w, x) >> turned(product(x, turned(w)))).when(is_not_constant(x)).inexact(_NOTE).exploring()
