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
from passat.rules.conditions import Refuse, Term, computed, condition, has_rank, is_axis
from passat.rules.multi_root import each, joined, parts
from passat.rules.pattern import Pattern, PVar, attributes, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

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


def _together(root: Pattern, whole: Pattern, axis: int, *guards: AnyValue) -> Rule:
    rule: Rule = each(root, sharing=x) >> parts(whole, axis=axis)
    return rule.when(*guards).inexact(_NOTE)


def _convolutions() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    held = {"strides": s, "padding": p, "dilation": q, "kernel_size": k, "data_layout": t, "kernel_layout": u, "groups": 1}

    def conv(weight: Pattern) -> Pattern:
        return op.nn.conv2d(x, weight, **held)

    for layout, channels in (("NCHW", 1), ("NHWC", -1)):
        guard = is_laid_out(t, u, layout)
        one, many = conv(w), conv(joined(w, axis=0))
        title = layout.lower()
        rules[title] = _together(one, many, channels, guard)
        biased, all_biased = op.nn.bias_add(one, b, axis=e), op.nn.bias_add(many, joined(b, axis=0), axis=e)
        along = is_axis(e, channels, one)
        rules[f"{title}_biased"] = _together(biased, all_biased, channels, guard, along)
        rules[f"{title}_biased_relu"] = _together(op.nn.relu(biased), op.nn.relu(all_biased), channels, guard, along)
        rules[f"{title}_relu"] = _together(op.nn.relu(one), op.nn.relu(many), channels, guard)
        if layout == "NCHW":
            scaled, all_scaled = one * c, many * joined(c, axis=-3)
            shifted, all_shifted = one + d, many + joined(d, axis=-3)
            of_c, of_d = is_column_of(c, one), is_column_of(d, one)
            rules[f"{title}_scaled"] = _together(scaled, all_scaled, channels, guard, of_c)
            rules[f"{title}_shifted"] = _together(shifted, all_shifted, channels, guard, of_d)
            rules[f"{title}_shifted_relu"] = _together(op.nn.relu(shifted), op.nn.relu(all_shifted), channels, guard, of_d)
    doc = "Convolutions of one tensor, with equal attributes and kernels of one size, are parts of one convolution."
    return RuleSetMeta("ParallelConvolutions", (RuleSet,), {"__doc__": doc, **rules})


ParallelConvolutions = _convolutions()


def _product(weight: Pattern) -> Pattern:
    return op.nn.matmul(x, weight, transpose_a=False, transpose_b=False)


def _products() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    kinds: dict[str, tuple[AnyValue, int]] = {"dense": (lambda weight: op.nn.dense(x, weight), 0), "matmul": (_product, -1)}
    for name, (of, outputs) in kinds.items():
        one, many = of(w), of(joined(w, axis=outputs))
        guard = has_rank(w, 2)
        bias = joined(b, axis=0)
        tails: dict[str, tuple[Pattern, Pattern, tuple[AnyValue, ...]]] = {
            "": (one, many, ()),
            "_biased": (op.nn.bias_add(one, b, axis=e), op.nn.bias_add(many, bias, axis=e), (is_axis(e, -1, one),)),
            "_shifted": (one + b, many + bias, (is_row_of(b, one),)),
        }
        for tail, (root, whole, guards) in tails.items():
            rules[f"{name}{tail}"] = _together(root, whole, -1, guard, *guards)
            rules[f"{name}{tail}_relu"] = _together(op.nn.relu(root), op.nn.relu(whole), -1, guard, *guards)
    doc = "Products of one operand with several weights are parts of one product."
    return RuleSetMeta("ParallelProducts", (RuleSet,), {"__doc__": doc, **rules})


ParallelProducts = _products()


class ParallelBatches(RuleSet):
    """Products of one stack of matrices with several stacks are parts of one product."""

    plain = _together(
        op.nn.batch_matmul(x, w, transpose_a=p, transpose_b=False),
        op.nn.batch_matmul(x, joined(w, axis=2), transpose_a=p, transpose_b=False),
        2,
    )
    turned = _together(
        op.nn.batch_matmul(x, w, transpose_a=p, transpose_b=True),
        op.nn.batch_matmul(x, joined(w, axis=1), transpose_a=p, transpose_b=True),
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


def _heads() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    kinds: dict[str, tuple[Pattern, Pattern, tuple[AnyValue, ...]]] = {
        "matmul": (_product(w), _product(joined(w, axis=-1)), ()),
        "matmul_biased": (
            op.nn.bias_add(_product(w), b, axis=e),
            op.nn.bias_add(_product(joined(w, axis=-1)), joined(b, axis=0), axis=e),
            (is_axis(e, -1, _product(w)),),
        ),
    }
    for name, (one, many, guards) in kinds.items():
        view = op.reshape(one, newshape=q)
        wide = op.reshape(many, newshape=all_heads(view))
        fits = (has_rank(w, 2), *guards, makes_heads(view, one))
        rules[f"{name}_heads"] = _together(view, wide, -2, *fits)
        turned, all_turned = op.transpose(view, axes=p), op.transpose(wide, axes=p)
        rules[f"{name}_heads_moved"] = _together(turned, all_turned, -3, *fits, moves_heads(p, view))
    doc = "Projections to heads of attention, as queries, keys and values are, with the reshapes and transposes that follow."
    return RuleSetMeta("ParallelHeads", (RuleSet,), {"__doc__": doc, **rules})


ParallelHeads = _heads()


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
