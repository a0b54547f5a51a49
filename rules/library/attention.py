"""Raises matrix products, softmax and slices to attention and rotary embeddings. Operators: nn.matmul nn.softmax add multiply divide where
isnan nn.thresholded_relu transpose reshape broadcast_to expand_dims concatenate strided_slice split nn.attention nn.rotary_embedding.

nn.attention takes [batch, sequence, heads * size], so the reshapes that split heads cancel the reshapes that join them. Sources: Vaswani et
al. 2017; Ainslie et al. 2023 (grouped-query attention); Su et al. 2021 (rotary embeddings). Only for targets that have both operators: ONNX
from opset 23.

The rules avoid two pitfalls of ONNX Runtime 1.2x. Its kernel treats the lowest float32 as minus infinity, so fully masked rows would be 0
instead of a mean; such masks get the next larger float32. Masks need a row for every query.
"""

from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.rules.guards import Reject, Term, computed, guard, has_dtype, has_no_zero, is_all, is_axis, is_finite, is_float
from passat.rules.holes import cases
from passat.rules.library.arithmetic import meet_in_range, without_nan
from passat.rules.library.products import is_scalar
from passat.rules.pattern import Pattern, PCall, TermLike, attributes, constants, op, tensors
from passat.rules.rule_set import RuleSet

q, k, v, m, x, y = tensors("q k v m x y")
b, c, d, s = constants("b c d s")
e, p, r = attributes("e p r")
_ROUNDS = "the fused operator rounds differently"
_EMPTIED = "fully masked rows give numbers instead of NaN"
_HEADS_BACK: Final = (0, 2, 1, 3)


@guard
def are_heads(q: Term, k: Term, v: Term) -> bool | str:
    """Queries (B, h, S, d), transposed keys (B, h, d, T) and values (B, h, T, e) with the same number of heads and static nonzero sizes."""
    types = q.type, k.type, v.type
    if any(type_.ndim != 4 or not type_.is_static or 0 in type_.shape for type_ in types):
        return f"{types} are not attention heads with known sizes"
    (batch, heads, _, size), keys, values = (type_.shape for type_ in types)
    fits = keys[:3] == (batch, heads, size) and values[:2] == (batch, heads) and keys[3] == values[2]
    return fits or f"{types} are incompatible"


@guard
def is_mask_of(m: Term, q: Term, k: Term) -> bool | str:
    """The mask has four dimensions, each equal to that of the scores or 1, and one element per key."""
    (batch, heads, rows, _), shape = q.type.shape, m.type.shape
    if m.type.ndim != 4 or not m.type.is_static:
        return f"{m.type!r} is not a mask with four dimensions"
    fits = shape[0] in (1, batch) and shape[1] in (1, heads) and shape[2] in (1, rows) and shape[3] == k.type.shape[3]
    return fits or f"{m.type!r} is not a mask for the scores of {q.type!r}"


@computed
def all_rows(m: Term, q: Term) -> tuple[int, ...]:
    """The shape of a mask with one row per query."""
    batch, heads, _, keys = m.type.concrete_shape
    return batch, heads, q.type.concrete_shape[2], keys


@guard
def is_in_range(d: Term) -> bool | str:
    """Every element of the constant is finite and not near the maximum."""
    values = d.value().numpy().astype(np.float64)
    return bool(np.all(np.isfinite(values)) and np.all(values <= 1e30)) or "an element of the mask is infinite, NaN or above 1e30"


@guard
def is_minus_infinity(d: Term) -> bool | str:
    """Every element is minus infinity."""
    return bool(np.all(np.isneginf(d.value().numpy()))) or "an element of the mask is not -infinity"


@computed
def joined_shape(x: Term, turned: bool) -> tuple[int, int, int]:
    """The newshape that joins heads: (B, S, h * d) from heads (B, h, S, d), or from transposed ones (B, h, d, S)."""
    batch, heads, rows, size = x.type.concrete_shape
    return (batch, size, heads * rows) if turned else (batch, rows, heads * size)


@computed
def split_shape(q: Term, v: Term) -> tuple[int, int, int, int]:
    """The newshape that splits the heads of a result: (B, S, h, e)."""
    batch, heads, rows, _ = q.type.concrete_shape
    return batch, rows, heads, v.type.concrete_shape[3]


@computed
def head_count(q: Term) -> int:
    """The number of heads."""
    return q.type.concrete_shape[1]


@guard
def same_heads(x: Term, y: Term) -> bool | str:
    """Keys and values have the same number of heads."""
    return (
        x.type.ndim == y.type.ndim == 4 and x.type.shape[1] == y.type.shape[1]
    ) or f"{x.type!r} and {y.type!r} have different numbers of heads"


@computed
def scale_of(c: Term) -> float:
    """The scalar that multiplies the scores. Rejects values that are not positive."""
    value = c.value().uniform()
    if value is None or not 0 < float(value) < np.inf:
        raise Reject(f"the operator does not scale its scores by {value}")
    return float(value)


@computed
def just_above_lowest(m: Term) -> float:
    """The smallest float32 above the lowest one."""
    if m.type.dtype != "float32":
        raise Reject(f"the elements are {m.type.dtype}, not float32")
    return float(np.nextafter(np.finfo(np.float32).min, np.float32(0)))


def _joined(heads: Pattern, turned: bool = False) -> Pattern:
    axes = (0, 3, 1, 2) if turned else _HEADS_BACK
    return op.reshape(op.transpose(heads, axes=axes), newshape=joined_shape(heads, turned))


def _attention(mask: TermLike, scale: AnyValue) -> Pattern:
    operator = op.nn.attention(
        _joined(q), _joined(k, True), _joined(v), mask, q_num_heads=head_count(q), kv_num_heads=head_count(q), scale=scale
    )
    return op.transpose(op.reshape(operator, newshape=split_shape(q, v)), axes=_HEADS_BACK)


_PLAIN: Final = op.nn.matmul(q, k, transpose_a=False, transpose_b=False)
_CHOSEN: Final = op.where(m, c, d)
scale = cases("scale", "one", "scaled")
known = cases("mask", "none", "chosen", "biased", "biased_chosen", "chosen_biased")
unknown = cases("mask", "added", "added_twice")
guarded = cases("guard", "nan", "threshold")
_SCORES: Final = scale(one=_PLAIN, scaled=_PLAIN * s)
_GUARDS: Final = (are_heads(q, k, v), has_dtype(q, "float32"), is_axis(p, -1, _PLAIN), *scale.only("scaled", is_scalar(s, _PLAIN)))


def _weighs(weights: Pattern) -> PCall:
    return op.nn.matmul(weights, v, transpose_a=False, transpose_b=False)


def _with_mask(mask: TermLike) -> Pattern:
    """The operator with a mask for all rows, or without a mask."""
    full = () if mask == () else op.broadcast_to(mask, shape=all_rows(mask, q))
    return _attention(full, scale(one=1.0, scaled=scale_of(s)))


def _kept(mask: Pattern, of: Pattern) -> Pattern:
    return op.clip(mask, a_min=just_above_lowest(of))


_WITH_BOTH: Final = _with_mask(_kept(b + _CHOSEN, b))
_DROPPED: Final = op.nn.softmax(_SCORES + _CHOSEN, axis=p)


_STACKED: Final = q.ndim == 4
"""A stack of heads, so that its product does not conflict with rules that move scales into weights."""
side = cases("side", "queries", "keys")
_KEYS_ONCE, _VALUES_ONCE = op.expand_dims(x, ...), op.expand_dims(y, ...)
_KEYS, _VALUES = op.broadcast_to(_KEYS_ONCE, ...), op.broadcast_to(_VALUES_ONCE, ...)
_SHARED = op.nn.attention(
    q,
    op.reshape(op.transpose(op.reshape(_KEYS, ...), axes=_HEADS_BACK), ...),
    op.reshape(op.transpose(op.reshape(_VALUES, ...), axes=_HEADS_BACK), ...),
    m,
    q_num_heads=e,
    kv_num_heads=e,
    scale=p,
    is_causal=r,
)


@guard
def repeats_heads(x: Term, once: Term, wide: Term, split: Term, joined: Term, heads: int) -> bool | str:
    """Heads (B, k, S, d) are each repeated consecutively the same number of times, up to the number of query heads."""
    if x.type.ndim != 4 or not x.type.is_static or 0 in x.type.shape:
        return f"{x.type!r} are not attention heads with known sizes"
    batch, count, rows, size = x.type.concrete_shape
    times = heads // count
    beside = once.type.shape == (batch, count, 1, rows, size) and wide.type.shape == (batch, count, times, rows, size)
    fits = beside and split.type.shape == (batch, heads, rows, size)
    return (fits and joined.type.shape == (batch, rows, heads * size)) or f"{wide.type!r} does not repeat the heads of {x.type!r}"


@guard
def are_angles(c: Term, x: Term) -> bool | str:
    """Factors for each row (S, d) of heads (B, h, S, d) whose second half repeats the first."""
    if x.type.ndim != 4 or not x.type.is_static or 0 in x.type.shape:
        return f"{x.type!r} are not attention heads with known sizes"
    rows, size = x.type.shape[2:]
    if c.type.shape not in ((1, 1, rows, size), (1, rows, size), (rows, size)) or not isinstance(size, int) or size % 2:
        return f"{c.type!r} does not have one factor for each position in {x.type!r}"
    values = c.value().numpy().reshape(-1, 2, size // 2)
    return bool(np.array_equal(values[:, 0], values[:, 1])) or "the halves of the factors differ"


@guard
def is_half(attrs: Attrs, x: Term, which: int) -> bool | str:
    """The slice takes the first or second half of the last axis."""
    rank, size = x.type.ndim, x.type.shape[-1]
    if not isinstance(size, int) or attrs.axes is None or len(attrs.axes) != 1 or attrs.axes[0] % rank != rank - 1:
        return "the slice is not only along the last axis"
    found = range(size)[slice(attrs.begin[0], attrs.end[0], attrs.strides[0] if attrs.strides else 1)]
    half = size // 2
    return found == range(half * which, half * (which + 1)) or f"the slice selects {found}"


@computed
def angle_shape(x: Term) -> tuple[int, int, int]:
    """The shape of half the angles of each row, (B, S, d / 2)."""
    batch, _, rows, size = x.type.concrete_shape
    return batch, rows, size // 2


@computed
def row_angles(x: Term) -> tuple[int, ...]:
    """The newshape of the factors of all heads, (1, S, d)."""
    return 1, *x.type.concrete_shape[2:]


@computed
def half_of(x: Term) -> tuple[int]:
    """The end of the first half of the last axis."""
    return (x.type.concrete_shape[3] // 2,)


def _angles(factors: Pattern) -> Pattern:
    row = op.reshape(factors, newshape=row_angles(x))
    return op.broadcast_to(op.strided_slice(row, begin=(0,), end=half_of(x), strides=(1,), axes=(2,)), shape=angle_shape(x))


_SECOND, _FIRST = op.strided_slice(x, attrs=e), op.strided_slice(x, attrs=r)
_PARTED = op.split(x, indices_or_sections=2, axis=r)
halves = cases("halves", "sliced", "split")
_EXCHANGED = op.concatenate((op.negative(halves(sliced=_SECOND, split=_PARTED[1])), halves(sliced=_FIRST, split=_PARTED[0])), axis=p)
_ROTATED = op.transpose(
    op.reshape(op.nn.rotary_embedding(_joined(x), _angles(c), _angles(d), num_heads=head_count(x)), newshape=split_shape(x, x)),
    axes=_HEADS_BACK,
)


class Attention(RuleSet):
    """Raises `softmax(q @ k) @ v`, with masks and scales in any position, to nn.attention; query heads may share keys and values. Raises
    rotary embeddings: the head times cosines, plus the head with swapped halves (one negated) times sines. Moves scales of queries and keys
    to their scores."""

    # For small heads, the transposes cost more than the operator saves, unless they cancel.
    with_constant_mask = (
        (
            _weighs(
                op.nn.softmax(
                    known(
                        none=_SCORES,
                        chosen=_SCORES + _CHOSEN,
                        biased=_SCORES + b,
                        biased_chosen=(_SCORES + b) + _CHOSEN,
                        chosen_biased=_SCORES + (b + _CHOSEN),
                    ),
                    axis=p,
                )
            )
            >> known(
                none=_with_mask(()),
                chosen=_with_mask(op.where(m, c, _kept(d, d))),
                biased=_with_mask(_kept(b, b)),
                biased_chosen=_WITH_BOTH,
                chosen_biased=_WITH_BOTH,
            )
        )
        .when(*_GUARDS)
        .when(*known.only("chosen biased_chosen chosen_biased", is_all(c, 0), is_in_range(d)))
        .when(*known.only("biased biased_chosen chosen_biased", is_in_range(b)))
        .when(*known.only("chosen", is_mask_of(_CHOSEN, q, k)), *known.only("biased", is_mask_of(b, q, k)))
        .when(*known.only("biased_chosen chosen_biased", is_mask_of(b + _CHOSEN, q, k), meet_in_range("add", b, d)))
        .inexact(_ROUNDS)
        .exploring()
    )
    with_mask = (
        (
            _weighs(op.nn.softmax(unknown(added=_SCORES + x, added_twice=(_SCORES + x) + y), axis=p))
            >> unknown(added=_with_mask(_kept(x, x)), added_twice=_with_mask(_kept(x + y, x)))
        )
        .when(*_GUARDS, is_mask_of(unknown(added=x, added_twice=x + y), q, k))
        .finite(_EMPTIED)
        .exploring()
    )
    # Without this NaN guard in the program, the result has NaN where the operator gives 0.
    with_guarded_rows = (
        (_weighs(guarded(**without_nan(_DROPPED))) >> _with_mask(m))
        .when(*_GUARDS, is_all(c, 0), is_minus_infinity(d), is_mask_of(m, q, k))
        .finite(_EMPTIED)
        .exploring()
    )
    shared_heads = (
        _SHARED
        >> op.nn.attention(
            q,
            op.reshape(op.transpose(x, axes=_HEADS_BACK), newshape=joined_shape(x, False)),
            op.reshape(op.transpose(y, axes=_HEADS_BACK), newshape=joined_shape(y, False)),
            m,
            q_num_heads=e,
            kv_num_heads=head_count(x),
            scale=p,
            is_causal=r,
        )
    ).when(
        same_heads(x, y),
        repeats_heads(
            x, _KEYS_ONCE, _KEYS, op.reshape(_KEYS, ...), op.reshape(op.transpose(op.reshape(_KEYS, ...), axes=_HEADS_BACK), ...), e
        ),
        repeats_heads(
            y, _VALUES_ONCE, _VALUES, op.reshape(_VALUES, ...), op.reshape(op.transpose(op.reshape(_VALUES, ...), axes=_HEADS_BACK), ...), e
        ),
    )
    rotary = (
        (x * c + _EXCHANGED * d >> _ROTATED)
        .when(are_angles(c, x), are_angles(d, x))
        .when(*halves.only("sliced", is_half(e, x, 1), is_half(r, x, 0)), *halves.only("split", is_axis(r, -1, x)))
        .when(is_axis(p, -1, x), has_dtype(x, "float32"))
        .inexact(_ROUNDS)
    )
    scaled_operand = (
        (side(queries=q * c, keys=q) @ side(queries=k, keys=k * c) >> (q @ k) * c)
        .when(_STACKED, is_scalar(c, side(queries=q, keys=k)), is_float(q), is_finite(c))
        .exploring()
        .inexact("scales the product")
    )
    divided_scores = (
        ((q @ k) / c >> (q @ k) * (1.0 / c))
        .when(_STACKED, is_scalar(c, q @ k), is_float(q), is_in_range(c), has_no_zero(c))
        .exploring()
        .inexact("multiplies by the reciprocal")
    )
