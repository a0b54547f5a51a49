"""Products and convolutions of one operand that run as one, with what each branch does elementwise afterwards.

Operators: nn.conv2d nn.dense nn.matmul nn.batch_matmul nn.bias_add nn.relu add multiply reshape transpose expand_dims.

Relay's CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul. A branch ends in the same operators as the others, with
biases and scales of its own, or it is taken together up to where they differ.
"""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.bounds import at_least
from passat.ir.shape import Dim, same_dim
from passat.rules.case_hole import cases
from passat.rules.conditions import Refuse, Term, computed, condition, has_rank, is_axis
from passat.rules.multi_root import each, joined, parts
from passat.rules.pattern import CaseValue, Pattern, PVar, attributes, op, tensors
from passat.rules.rule import Rule, RuleSet

x, w, b, c, d = tensors("x w b c d")
p, q, s, t, u, k, e = attributes("p q s t u k e")
_NOTE: Final = "sums in blocks of another size"


@condition
def is_laid_out(layout: str, weight: str, data: str) -> bool | str:
    """Data is laid out so, and outputs are the first axis of the weight."""
    return (layout == data and weight.startswith("O")) or f"the layouts are {layout} and {weight}"


@condition
def is_column_of(c: Term, whole: Term) -> bool | str:
    """The tensor has one number for each channel of data laid out as N, channels, space."""
    rank = whole.type.ndim
    shape = c.type.shape
    fits = rank - 1 <= len(shape) <= rank and all(dim == 1 for i, dim in enumerate(shape) if i != len(shape) - rank + 1)
    return (fits and shape[1 - rank] == whole.type.shape[1]) or f"{c.type!r} does not vary along the channels of {whole.type!r} alone"


@condition
def is_row_of(c: Term, whole: Term) -> bool | str:
    """The tensor is a vector along the last axis."""
    return (c.type.ndim == 1 and c.type.shape == whole.type.shape[-1:]) or f"{c.type!r} is no vector along the last axis of {whole.type!r}"


def _together(root: Pattern, whole: Pattern, axis: int | CaseValue, *guards: AnyValue) -> Rule:
    rule: Rule = each(root, sharing=x) >> parts(whole, axis=axis)
    return rule.when(*guards).inexact(_NOTE)


kind, layout = cases("kind", "dense", "matmul"), cases("layout", "nchw", "nhwc")
tail, bias = cases("tail", "plain", "biased", "shifted"), cases("bias", "none", "biased")
end, ending = cases("end", "plain", "relu"), cases("end", "scaled", "shifted", "shifted_relu")
_HELD: Final = {"strides": s, "padding": p, "dilation": q, "kernel_size": k, "data_layout": t, "kernel_layout": u, "groups": 1}
_CONV, _CONVS = op.nn.conv2d(x, w, ..., **_HELD), op.nn.conv2d(x, joined(w, axis=0), **_HELD)
_CHANNEL: Final = layout(nchw=1, nhwc=-1)


def _ended(of: Pattern) -> Pattern:
    return end(plain=of, relu=op.nn.relu(of))


def _biased(of: Pattern, vector: Pattern) -> Pattern:
    return bias(none=of, biased=op.nn.bias_add(of, vector, axis=e))


def _spread(of: Pattern, scale: Pattern, shift: Pattern) -> Pattern:
    return ending(scaled=of * scale, shifted=of + shift, shifted_relu=op.nn.relu(of + shift))


class ParallelConvolutions(RuleSet):
    """Convolutions of one tensor, with equal attributes and kernels of one size, are parts of one convolution."""

    biased = _together(
        _ended(_biased(_CONV, b)),
        _ended(_biased(_CONVS, joined(b, axis=0))),
        _CHANNEL,
        is_laid_out(t, u, layout(nchw="NCHW", nhwc="NHWC")),
        *bias.only("biased", is_axis(e, _CHANNEL, _CONV)),
    )
    per_channel = _together(
        _spread(_CONV, c, d),
        _spread(_CONVS, joined(c, axis=-3), joined(d, axis=-3)),
        1,
        is_laid_out(t, u, "NCHW"),
        *ending.only("scaled", is_column_of(c, _CONV)),
        *ending.only("shifted shifted_relu", is_column_of(d, _CONV)),
    )


def _product(weight: Pattern) -> Pattern:
    return op.nn.matmul(x, weight, transpose_a=False, transpose_b=False)


def _tailed(of: Pattern, vector: Pattern) -> Pattern:
    return _ended(tail(plain=of, biased=op.nn.bias_add(of, vector, axis=e), shifted=of + vector))


_ONE: Final = kind(dense=op.nn.dense(x, w), matmul=_product(w))
_ALL: Final = kind(dense=op.nn.dense(x, joined(w, axis=0)), matmul=_product(joined(w, axis=-1)))
operand = cases("operand", "plain", "turned")
_TURNED: Final = operand(plain=False, turned=True)


class ParallelBatches(RuleSet):
    """Products of one stack of matrices with several stacks are parts of one product."""

    together = _together(
        op.nn.batch_matmul(x, w, transpose_a=p, transpose_b=_TURNED),
        op.nn.batch_matmul(x, operand(plain=joined(w, axis=2), turned=joined(w, axis=1)), transpose_a=p, transpose_b=_TURNED),
        2,
    )


@condition
def makes_heads(view: Term, whole: Term) -> bool | str:
    """The reshape only splits the last axis into heads: (..., length, heads * size) becomes (..., length, heads, size)."""
    source, target = whole.type.shape, view.type.shape
    if len(target) != len(source) + 1 or len(source) < 2 or 0 in source or any(map(_differ, source[:-1], target)):
        return f"{whole.type!r} does not become heads in {view.type!r}"
    known = all(isinstance(dim, int) and dim > 0 for dim in target[-2:])
    return known or f"the heads of {view.type!r} are not known"


def _differ(a: Dim, b: Dim) -> bool:
    return not same_dim(a, b)


@computed
def all_heads(view: Term) -> tuple[int, ...]:
    """The newshape of the heads of all branches."""
    size = view.type.shape[-1]
    if not isinstance(size, int) or not all(at_least(dim, 1) for dim in view.type.shape):
        raise Refuse(f"{view.type!r} is not static, or may be empty")
    return (*(0,) * (view.type.ndim - 2), -1, size)


@condition
def moves_heads(axes: Sequence[int] | None, view: Term) -> bool | str:
    """The transpose takes the heads before length and size, in whichever order these are."""
    rank = view.type.ndim
    return (axes is not None and axes[-3] % rank == rank - 2) or f"axes={axes} does not take the heads to axis {rank - 3}"


heads = cases("heads", "plain", "moved")
_VIEW: Final = op.reshape(_biased(_product(w), b), ..., newshape=q)
_WIDE: Final = op.reshape(_biased(_product(joined(w, axis=-1)), joined(b, axis=0)), newshape=all_heads(_VIEW))


class ParallelProducts(RuleSet):
    """Products of one operand with several weights, with biases and relus; projections to heads of attention, as queries, keys and values
    are, with the reshapes and transposes that follow."""

    products = _together(
        _tailed(_ONE, b),
        _tailed(_ALL, joined(b, axis=0)),
        -1,
        has_rank(w, 2),
        *tail.only("biased", is_axis(e, -1, _ONE)),
        *tail.only("shifted", is_row_of(b, _ONE)),
    )
    heads = _together(
        heads(plain=_VIEW, moved=op.transpose(_VIEW, axes=p)),
        heads(plain=_WIDE, moved=op.transpose(_WIDE, axes=p)),
        heads(plain=-2, moved=-3),
        has_rank(w, 2),
        *bias.only("biased", is_axis(e, -1, _product(w))),
        makes_heads(_VIEW, _biased(_product(w), b)),
        *heads.only("moved", moves_heads(p, _VIEW)),
    )


@computed
def stacked(w: Term) -> tuple[int, ...]:
    """The newshape that makes a stack of weights of weights below each other."""
    return (-1, *_static(w))


@computed
def unstacked(w: Term) -> tuple[int, ...]:
    """The newshape that puts the products of a stack below each other."""
    return (-1, _static(w)[0])


def _static(w: Term) -> tuple[int, int]:
    rows, columns = w.type.shape
    if not isinstance(rows, int) or not isinstance(columns, int) or not rows or not columns:
        raise Refuse(f"{w.type!r} is not static, or empty")
    return rows, columns


def _stack(weight: PVar) -> Pattern:
    turned = op.nn.batch_matmul(
        op.expand_dims(x, axis=0), op.reshape(joined(weight, axis=0, alike=True), newshape=stacked(weight)), transpose_b=True
    )
    return op.reshape(turned, newshape=unstacked(weight))


class ParallelStacks(RuleSet):
    """Products of one matrix with weights of one shape are parts of the product of two stacks (Relay's `to_batch`)."""

    dense = _together(op.nn.dense(x, w), _stack(w), 0, has_rank(x, 2), has_rank(w, 2))
