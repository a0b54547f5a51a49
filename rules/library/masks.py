"""Simplifies masks and selections: arithmetic on masks, redundant selections, and redundant operators that exporters write around attention
(padding masks gathered element by element, NaN guards of softmax).

Operators: where cast logical_not logical_and, comparisons, add subtract multiply divide minimum clip nn.softplus reshape nn.matmul
gather_nd take isnan nn.thresholded_relu nn.softmax broadcast_to.

Sources: (1 - mask) * large negative number; torch's softplus, which is the identity above a threshold; T5's relative position buckets,
which cast discarded logarithms of 0 to integers; torch's exporters for scaled_dot_product_attention and for transformer masks.
"""

import math
from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.op import Op
from passat.ir.shape import same_dim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.analysis import Analysis, Made
from passat.rules.guards import (
    Term,
    guard,
    has_dtype,
    is_all,
    is_finite,
    is_float,
    is_integer,
    same_shape,
    same_type,
    shape_of,
)
from passat.rules.holes import cases, operator
from passat.rules.library.arithmetic import CHOSEN_ZERO, constants_in_range, without_nan
from passat.rules.library.attention import is_minus_infinity
from passat.rules.library.factoring import reduces_axis
from passat.rules.library.products import is_scalar
from passat.rules.pattern import PCall, PCase, attributes, constants, op, tensors
from passat.rules.rule_set import RuleSet

x, y, z, v = tensors("x y z v")
c, d, e, b = constants("c d e b")
t, u, a, p, q = attributes("t u a p q")
_SIGN = "the sign of 0"
_CHOICE = op.where(x, c, d)
f = operator("f", "add", "subtract", "multiply", "divide")
equal = cases("equal", "equal", "not_equal")
order = cases("order", "less", "less_equal", "greater", "greater_equal")
negated = cases("negated", "mask", "equality")


@guard
def is_past_the_bend(c: Term) -> bool | str:
    """Above the threshold, softplus differs from its operand by less than rounding."""
    value = c.value().uniform()
    if value is None:
        return "the elements of the constant differ"
    step = float(ml_dtypes.finfo(to_numpy(c.type.dtype)).eps)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    bound = float(value)
    return (bound > 0 and math.exp(-bound) < bound * step / 4) or f"above {value}, softplus still differs from its operand"


@guard
def casts_in_range_where_read(c: Term, e: Term, dtype: str) -> bool | str:
    """Some values are out of range of the integer type that they are cast to, but only where the mask discards them."""
    if e.type.dtype not in FLOATS or dtype not in ("int32", "int64") or c.type.shape != e.type.shape:
        return f"{e.type!r} is not a cast to integers under a `where` with a mask of the same shape"
    bound = 2.0**30
    values = e.value().numpy().astype(np.float64)
    fits = np.abs(values) < bound
    if not np.all(fits | c.value().numpy()) or np.any(np.isnan(values)):
        return "`where` selects a number that is out of range"
    return not np.all(fits) or "all numbers are in range"


use = cases("use", "cast", "sum", "minimum")


def _used(number: PCall) -> PCase:
    """An integer, and what masks compute of it."""
    return use(cast=number, sum=number + b, minimum=op.minimum(number + b, y))


_UNREAD = _used(op.cast(e, dtype=t))
_CLAMPED = _used(op.cast(op.clip(e, a_min=-(2.0**30), a_max=2.0**30), dtype=t))


@guard
def takes_all_in_order(c: Term, x: Term, batch_dims: int) -> bool | str:
    """The indices are those of all elements in row-major order."""
    places, data = c.value(), x.type
    if batch_dims or not data.is_static or places.shape[-1] != data.ndim:
        return f"{data!r} is not indexed element by element"
    if places.size != data.ndim * (data.size or 0):
        return f"{c.type!r} does not contain the index of each element of {data!r} once"
    sizes = data.concrete_shape
    wanted = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, data.ndim)
    given = places.numpy().reshape(-1, data.ndim).astype(np.int64)
    return bool(np.all(np.where(given < 0, given + np.asarray(sizes), given) == wanted)) or "the indices are in a different order"


@guard
def counts_up(c: Term, x: Term, axis: int | None) -> bool | str:
    """The indices are all those of the axis, in order."""
    if axis is None or not -x.type.ndim <= axis < x.type.ndim:
        return f"axis={axis} is not an axis of {x.type!r}"
    size = x.type.shape[axis]
    if c.type.ndim != 1 or not isinstance(size, int) or c.type.shape[0] != size:
        return f"{c.type!r} does not contain each index of axis {axis} of {x.type!r} once"
    return bool(np.all(c.value().numpy().astype(np.int64) % max(size, 1) == np.arange(size))) or "the indices are in a different order"


@guard
def is_smaller(y: Term, x: Term) -> bool | str:
    """The tensor is smaller than the other, and is not a vector, which would be a bias."""
    small, large = y.type, x.type
    if small.ndim < 2 or large.ndim < 3:
        return f"{small!r} and {large!r} are not a mask and a stack of scores"
    fits = small.ndim <= large.ndim and all(a == 1 or same_dim(a, b) for a, b in zip(small.shape[::-1], large.shape[::-1], strict=False))
    return (fits and small.nbytes < large.nbytes) or f"{small!r} is not smaller than {large!r}"


_FOUND = op.gather_nd(x, c, batch_dims=p)
_BOTH = op.logical_and(c, x)
_MASK = op.where(op.broadcast_to(x, ...), c, d)
_PASSED_ON: Final = frozenset(
    ("add", "cast", "divide", "maximum", "minimum", "multiply", "negative", "subtract", "where"),
)
"""Operators whose results are infinite where an operand is."""


class Infinities(Analysis[bool]):
    """Whether infinities of the program itself, such as those of a mask, may be elements of a tensor; None if not. Inputs, and results of
    other operators, are assumed to be finite."""

    def known(self, type_: TensorType, constant: Tensor | None) -> bool | None:
        """True for constants with elements that are infinite or NaN."""
        if constant is None or type_.dtype not in FLOATS:
            return None
        element = constant.uniform()
        values = np.asarray(element if element is not None else constant.numpy()).astype(np.float64)
        return None if np.all(np.isfinite(values)) else True

    def reads(self, op: Op) -> bool:
        """True for operators that pass infinities on."""
        return op.movement or op.name in _PASSED_ON

    def make(self, call: Made, facts: Sequence[AnyValue]) -> bool | None:
        """True if an operand, or a field of one, has infinities."""
        return True if any(any(fact) if isinstance(fact, tuple) else fact for fact in facts) else None

    def merge(self, one: bool, other: bool) -> bool:
        """The fact of the older node."""
        return one


INFINITIES: Final = Infinities()


@guard
def has_no_own_infinities(x: Term) -> bool | str:
    """Only inputs can make elements infinite, not the program, as it does where it writes -infinity by a mask."""
    return not x.fact(INFINITIES) or (
        f"the program itself has infinities: where a mask fills a row of {x.type!r} with them, softmax gives NaN, which the guard replaces"
    )


@guard
def leaves_part(c: Term, axis: int, whole: Term) -> bool | str:
    """The constant is finite or -infinity, and not -infinity along the whole axis."""
    values, rank = c.value().numpy().astype(np.float64), whole.type.ndim
    if np.any(np.isnan(values)) or np.any(np.isposinf(values)):
        return "an element of the constant is infinity or NaN"
    kept = np.isfinite(values.reshape((1,) * (rank - values.ndim) + values.shape))
    return bool(np.all(np.any(kept, axis=axis % rank))) or f"the constant is -infinity along the whole of axis {axis}"


scores, guarded = cases("scores", "plain", "biased"), cases("guard", "nan", "threshold", "all", "least", "any", "most")
_SCORES = scores(plain=x, biased=x + c)
_WEIGHTS = op.nn.softmax(_SCORES, axis=p)
_MASKED, _LEFT = op.equal(_SCORES, d), op.not_equal(_SCORES, d)
_GUARDED = guarded(
    **without_nan(_WEIGHTS),
    all=op.where(op.all(_MASKED, attrs=a), 0.0, _WEIGHTS),
    least=op.where(op.cast(op.min(op.cast(_MASKED, ...), attrs=a), dtype="bool"), 0.0, _WEIGHTS),
    any=op.where(op.any(_LEFT, attrs=a), _WEIGHTS, 0.0),
    most=op.where(op.cast(op.max(op.cast(_LEFT, ...), attrs=a), dtype="bool"), _WEIGHTS, 0.0),
)


_NUMBER = op.cast(x, dtype=t)
_INVERTED = c - _NUMBER


class Masks(RuleSet):
    """Rewrites arithmetic on masks and on selections between constants as selections, and negated comparisons as comparisons. Drops
    redundant selections, gathers that select all of a mask in order, and guards of softmax against rows that are masked entirely, where no
    mask of the program itself may do so. Keeps masks as small as broadcasting allows, and clamps out-of-range casts whose results `where`
    discards. Above its threshold, `softplus(x)` equals `x`."""

    inverted_scaled = (
        (_INVERTED * d >> op.where(x, 0.0, d)).when(has_dtype(x, "bool"), is_float(d), is_all(c, 1), is_finite(d)).inexact(_SIGN)
    )
    scaled = (op.cast(x, dtype=t) * d >> op.where(x, d, 0.0)).when(has_dtype(x, "bool"), is_float(d), is_finite(d)).inexact(_SIGN)
    inverted = (_INVERTED >> op.cast(op.logical_not(x), dtype=t)).when(has_dtype(x, "bool"), is_all(c, 1)).exploring()
    product = (
        (op.cast(x, dtype=t) * op.cast(y, dtype=u) >> op.cast(op.logical_and(x, y), dtype=t))
        .when(has_dtype(x, "bool"), has_dtype(y, "bool"), t == u)
        .exploring()
    )
    # ONNX has no operator for `not_equal`, which is written as two nodes.
    not_negated = (
        op.where(negated(mask=op.logical_not(x), equality=op.not_equal(x, v)), y, z)
        >> op.where(negated(mask=x, equality=op.equal(x, v)), z, y)
    ).inexact(CHOSEN_ZERO)
    first_again = (op.where(x, op.where(x, y, z), v) >> op.where(x, y, v)).when(same_type(y, op.where(x, y, z))).inexact(CHOSEN_ZERO)
    second_again = (op.where(x, v, op.where(x, y, z)) >> op.where(x, v, z)).when(same_type(z, op.where(x, y, z)))
    of_choice = (f(_CHOICE, e) >> op.where(x, f(c, e), f(d, e))).when(same_type(_CHOICE, f(_CHOICE, e)), is_float(c)).inexact(CHOSEN_ZERO)
    negated_equality = op.logical_not(equal(equal=op.equal(x, y), not_equal=op.not_equal(x, y))) >> equal(
        equal=op.not_equal(x, y), not_equal=op.equal(x, y)
    )
    negated_order = (
        op.logical_not(
            order(less=op.less(x, y), less_equal=op.less_equal(x, y), greater=op.greater(x, y), greater_equal=op.greater_equal(x, y))
        )
        >> order(less=op.greater_equal(x, y), less_equal=op.greater(x, y), greater=op.less_equal(x, y), greater_equal=op.less(x, y))
    ).when(is_integer(x))
    unread = (op.where(c, x, _UNREAD) >> op.where(c, x, _CLAMPED)).when(casts_in_range_where_read(c, e, t), same_shape(e, _UNREAD))
    softplus_threshold = (
        (op.where(op.greater(x, c), x, op.nn.softplus(x)) >> op.nn.softplus(x))
        .when(is_float(x), is_past_the_bend(c))
        .inexact("softplus rounds where the operand was selected")
    )
    looked_up = (_FOUND >> op.reshape(x, newshape=shape_of(_FOUND))).when(takes_all_in_order(c, x, p))
    taken = (op.take(x, c, axis=p) >> x).when(counts_up(c, x, p))
    and_true = (_BOTH >> op.broadcast_to(x, shape=shape_of(_BOTH))).when(is_all(c, 1))
    added_first = (
        (x + y + z >> x + (y + z))
        .when(is_smaller(y, x), is_smaller(z, x), constants_in_range("add", y, z))
        .inexact("adds in another order")
    )
    where_broadcast = (_MASK >> op.broadcast_to(op.where(x, c, d), shape=shape_of(_MASK))).exploring().inexact(CHOSEN_ZERO)
    softmax_guard = (
        (_GUARDED >> _WEIGHTS)
        .when(
            same_type(_WEIGHTS, _GUARDED),
            *guarded.only("all least any most", is_minus_infinity(d), is_scalar(d, _SCORES), reduces_axis(a, p, _WEIGHTS)),
            *scores.only("biased", leaves_part(c, p, _WEIGHTS)),
            has_no_own_infinities(x),
        )
        .finite("infinite or NaN operands give NaN instead of 0")
    )
