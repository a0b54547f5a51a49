"""Mixtures of experts without copies of weights. Operators: nn.matmul take gather_nd reshape transpose broadcast_to tile.

Exporters gather the weight of the chosen expert for each row, [rows, columns, features], and multiply each row by its own copy (Shazeer et
al. 2017 have the method). The other way round each row is multiplied by all experts, in one product with one weight, and the results of
those that were chosen are gathered: more arithmetic, and no copy. Which is cheaper is for the cost to say: with many rows and few experts
the second. `gather_nd` with a shared axis counts from the back where `take` does, so nothing need be known of the indices.
"""

from passat.ir.bounds import at_least
from passat.ir.shape import same_dim
from passat.rules.case_hole import cases
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Refuse, Term, computed, condition, is_float
from passat.rules.drafts import Draft, Drafts
from passat.rules.library.products import product
from passat.rules.pattern import constant, op, tensors
from passat.rules.rule import RuleSet

x, i = tensors("x i")
w = constant("w")
_NOTE = "a product of another shape may sum in another order"


def _some_experts(dice: Dice, w: Draft, i: Draft, whole: Draft, rank: int) -> Drafts:
    rows = 2 * dice.full()  # so that each of them may be there twice
    return [Draft((dice.full(), dice.full(), dice.full())), Draft((rows, 1)[:rank]), None]


@condition(draw=_some_experts)
def are_experts(w: Term, i: Term, whole: Term, rank: int) -> bool | str:
    """Weights of several experts, none of them empty, and one index for each row of the result; indices have one axis, or two of which
    the second counts one."""
    experts, places = w.type, i.type.shape
    if experts.ndim != 3 or not all(at_least(size, 1) for size in experts.shape):
        return f"{experts!r} is no stack of weights"
    if len(places) != rank or places[1:] not in ((), (1,)):
        return f"{i.type!r} is not one index for each row"
    return (whole.type.ndim == 3 and same_dim(places[0], whole.type.shape[0])) or f"{whole.type!r} has not a row for each of {i.type!r}"


def _a_vector_for_each(dice: Dice, x: Draft, i: Draft, w: Draft, axis: int) -> Drafts:
    if i.shape is None or w.shape is None:
        return None
    return [Draft((i.shape[0], w.shape[2], 1) if axis == 2 else (i.shape[0], 1, w.shape[1])), None, None]


@condition(draw=_a_vector_for_each)
def is_batch_of_vectors(x: Term, i: Term, w: Term, axis: int) -> bool | str:
    """A vector for each index, as matrices of one column where features are the last axis of the weights, and of one row elsewhere."""
    return _is_batch(x, i, w, axis) or f"{x.type!r} has not a vector of {w.type!r} for each of {i.type!r}"


def _is_batch(x: Term, i: Term, w: Term, axis: int) -> bool:
    shape, places = x.type.shape, i.type.shape
    if len(shape) != 3 or shape[axis] != 1:
        return False
    return bool(places) and same_dim(shape[0], places[0]) and same_dim(shape[3 - axis], w.type.shape[axis])


def _rows_twice(dice: Dice, x: Draft, repeated: Draft, i: Draft, w: Draft, vectors: Draft, axis: int) -> Drafts:
    if i.shape is None or w.shape is None:
        return None
    rows, features, count = i.shape[0], w.shape[axis], dice.pick((1, 2))
    whole = (rows, features, 1) if axis == 2 else (rows, 1, features)
    return [Draft((rows // count, 1, features)), Draft((rows // count, count, features)), None, None, Draft(whole)]


@condition(draw=_rows_twice)
def repeats_rows(x: Term, repeated: Term, i: Term, w: Term, vectors: Term, axis: int) -> bool | str:
    """Each row of a matrix is repeated as often as it has experts: (rows, 1, features) to (rows, choices, features), to vectors."""
    source, target = x.type.shape, repeated.type.shape
    if (len(source), len(target)) != (3, 3) or source[1] != 1 or not isinstance(target[1], int) or target[1] < 1:
        return f"{repeated.type!r} are no repeated rows of {x.type!r}"
    kept = same_dim(source[0], target[0]) and same_dim(source[2], target[2]) and same_dim(source[2], w.type.shape[axis])
    batch = kept and _is_batch(vectors, i, w, axis)
    return batch or f"{vectors.type!r} are not rows of {x.type!r}, each of them repeated, one for each of {i.type!r}"


@computed
def flat_rows(w: Term, axis: int) -> tuple[int, int]:
    """The newshape that makes rows of vectors of features, the axis of the weights that is summed over."""
    return -1, _size(w, axis)


@computed
def all_columns(w: Term, axis: int) -> tuple[int, int]:
    """The newshape of the weights of all experts as one: (features, experts * columns)."""
    return _size(w, axis), _size(w, 0) * _size(w, 3 - axis)


@computed
def by_expert(w: Term, axis: int) -> tuple[int, int, int]:
    """The newshape of the products with all experts: (rows, experts, columns)."""
    return -1, _size(w, 0), _size(w, 3 - axis)


@computed
def vectors_of(w: Term, axis: int) -> tuple[int, ...]:
    """The newshape of the result: a vector for each row, of one column where features are the last axis of the weights."""
    columns = _size(w, 3 - axis)
    return (-1, columns, 1) if axis == 2 else (-1, 1, columns)


@computed
def choices(repeated: Term) -> tuple[int, int, int]:
    """The newshape of indices: (rows, choices, 1)."""
    count = repeated.type.shape[1]
    assert isinstance(count, int)  # by `repeats_rows`
    return -1, count, 1


def _size(w: Term, axis: int) -> int:
    size = w.type.shape[axis]
    if not isinstance(size, int):
        raise Refuse(f"{w.type!r} is not static")
    return size


gather = cases("gather", "taken", "gathered")
rows = cases("rows", "alone", "broadcast", "tiled")
side = cases("side", "columns", "rows")
_AXIS = side(columns=2, rows=1)
_RANK = gather(taken=1, gathered=2)
_GATHERED = gather(taken=op.take(w, i, axis=0), gathered=op.gather_nd(w, i, batch_dims=0))
_REPEATED = rows(alone=x, broadcast=op.broadcast_to(x), tiled=op.tile(x))
_VECTORS = rows(alone=x, broadcast=op.reshape(op.broadcast_to(x)), tiled=op.reshape(op.tile(x)))
_WHOLE = side(columns=product(_GATHERED, _VECTORS), rows=product(_VECTORS, _GATHERED))
_INDICES = op.reshape(i, newshape=rows(alone=(-1, 1), broadcast=choices(op.broadcast_to(x)), tiled=choices(op.tile(x))))
_ALL = op.reshape(op.transpose(w, axes=side(columns=(2, 0, 1), rows=(1, 0, 2))), newshape=all_columns(w, _AXIS))
_PRODUCTS = op.reshape(op.reshape(x, newshape=flat_rows(w, _AXIS)) @ _ALL, newshape=by_expert(w, _AXIS))


class Experts(RuleSet):
    """Products with gathered weights, a copy for each row, become products with all weights, of which those that count are gathered."""

    gather_after = (
        (_WHOLE >> op.reshape(op.gather_nd(_PRODUCTS, _INDICES, batch_dims=1), newshape=vectors_of(w, _AXIS)))
        .when(are_experts(w, i, _WHOLE, _RANK), is_float(w))
        .when(*rows.only("alone", is_batch_of_vectors(x, i, w, _AXIS)))
        .when(*rows.only("broadcast tiled", repeats_rows(x, _REPEATED, i, w, _VECTORS, _AXIS)))
        .exploring()
        .inexact(_NOTE)
    )
