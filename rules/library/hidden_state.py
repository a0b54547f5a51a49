"""Restructures weights and hidden states of transformers: folds per-feature scales into the preceding linear layer, merges products with
gathered weights, and collapses [batch, sequence, hidden] to [batch * sequence, hidden].

Operators: nn.matmul nn.bias_add add multiply nn.layer_norm nn.rms_norm split take gather_nd reshape dyn.reshape shape_of transpose
broadcast_to tile, reductions, and elementwise operators of one and two operands.

ConvNeXt and CaiT scale the output of a block before they add it to the input
(Touvron et al. 2021, LayerScale).

Exporters of mixtures of experts gather the chosen expert's weight for each row, [rows, columns, features], and multiply each row by its own
copy (Shazeer et al. 2017). The alternative multiplies each row by all experts in one product with one weight, and gathers the chosen
results: more arithmetic, but no copies. The cost model decides; many rows and few experts favor the alternative. `gather_nd` with a batch
axis accepts negative indices as `take` does, so the rules need no facts about the indices.
"""

from passat.ir.bounds import at_least
from passat.ir.shape import same_dim, same_dims
from passat.rules.guards import Reject, Term, computed, guard, is_axis, is_float
from passat.rules.holes import cases
from passat.rules.library.batch_norm import stays_finite, stays_in_range
from passat.rules.library.products import is_vector_of
from passat.rules.library.products import product as matmul
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule_set import RuleSet

x, y, i = tensors("x y i")
w, b, s = constants("w b s")
p, a, e = attributes("p a e")
_NOTE = "scales weight and bias instead of the result"


@guard
def is_feature_scale(s: Term, w: Term) -> bool | str:
    """The scale is a vector with one element per column of the weight matrix."""
    if w.type.ndim != 2 or s.type.ndim != 1:
        return f"{s.type!r} is not a vector, or {w.type!r} is not a matrix"
    return same_dims(s.type.shape, w.type.shape[1:]) or f"{s.type!r} does not have one element for each column of {w.type!r}"


_REGROUPS = "a product of another shape may accumulate in another order"


@guard
def are_experts(w: Term, i: Term, whole: Term, rank: int) -> bool | str:
    """`w` stacks nonempty weights of several experts, and `i` has one index per row of the result, in one axis or with a second axis of
    size 1."""
    experts, places = w.type, i.type.shape
    if experts.ndim != 3 or not all(at_least(size, 1) for size in experts.shape):
        return f"{experts!r} is not a stack of weights"
    if len(places) != rank or places[1:] not in ((), (1,)):
        return f"{i.type!r} is not one index for each row"
    return (whole.type.ndim == 3 and same_dim(places[0], whole.type.shape[0])) or f"{whole.type!r} lacks one row for each of {i.type!r}"


@guard
def is_batch_of_vectors(x: Term, i: Term, w: Term, axis: int) -> bool | str:
    """A vector for each index, as matrices of one column if features are the last axis of the weights, otherwise of one row."""
    return _is_batch(x, i, w, axis) or f"{x.type!r} does not have one vector of {w.type!r} for each of {i.type!r}"


def _is_batch(x: Term, i: Term, w: Term, axis: int) -> bool:
    shape, places = x.type.shape, i.type.shape
    if len(shape) != 3 or shape[axis] != 1:
        return False
    return bool(places) and same_dim(shape[0], places[0]) and same_dim(shape[3 - axis], w.type.shape[axis])


@guard
def repeats_rows(x: Term, repeated: Term, i: Term, w: Term, vectors: Term, axis: int) -> bool | str:
    """Each row of a matrix is repeated for each of its experts, (rows, 1, features) to (rows, choices, features), and then split into
    vectors."""
    source, target = x.type.shape, repeated.type.shape
    if (len(source), len(target)) != (3, 3) or source[1] != 1 or not isinstance(target[1], int) or target[1] < 1:
        return f"{repeated.type!r} does not consist of repeated rows of {x.type!r}"
    kept = same_dim(source[0], target[0]) and same_dim(source[2], target[2]) and same_dim(source[2], w.type.shape[axis])
    batch = kept and _is_batch(vectors, i, w, axis)
    return batch or f"{vectors.type!r} does not consist of repeated rows of {x.type!r}, one for each index of {i.type!r}"


@computed
def flat_rows(w: Term, axis: int) -> tuple[int, int]:
    """The newshape of a matrix of feature rows; the features are the contracted axis of the weights."""
    return -1, _size(w, axis)


@computed
def all_columns(w: Term, axis: int) -> tuple[int, int]:
    """The newshape of all experts' weights as one matrix: (features, experts * columns)."""
    return _size(w, axis), _size(w, 0) * _size(w, 3 - axis)


@computed
def by_expert(w: Term, axis: int) -> tuple[int, int, int]:
    """The newshape of the products with all experts: (rows, experts, columns)."""
    return -1, _size(w, 0), _size(w, 3 - axis)


@computed
def vectors_of(w: Term, axis: int) -> tuple[int, ...]:
    """The newshape of the result: one vector per row, with one column if features are the last axis of the weights."""
    columns = _size(w, 3 - axis)
    return (-1, columns, 1) if axis == 2 else (-1, 1, columns)


@computed
def choices(repeated: Term) -> tuple[int, int, int]:
    """The newshape of the indices: (rows, choices, 1)."""
    count = repeated.type.shape[1]
    assert isinstance(count, int)  # by `repeats_rows`
    return -1, count, 1


def _size(w: Term, axis: int) -> int:
    size = w.type.shape[axis]
    if not isinstance(size, int):
        raise Reject(f"{w.type!r} is not static")
    return size


bias = cases("bias", "none", "added", "biased")
gather = cases("gather", "taken", "gathered")
rows = cases("rows", "alone", "broadcast", "tiled")
gathered_side = cases("side", "columns", "rows")
_AXIS = gathered_side(columns=2, rows=1)
_RANK = gather(taken=1, gathered=2)
_GATHERED = gather(taken=op.take(w, i, axis=0), gathered=op.gather_nd(w, i, batch_dims=0))
_REPEATED = rows(alone=x, broadcast=op.broadcast_to(x, ...), tiled=op.tile(x, ...))
_VECTORS = rows(alone=x, broadcast=op.reshape(op.broadcast_to(x, ...), ...), tiled=op.reshape(op.tile(x, ...), ...))
_WHOLE = gathered_side(columns=matmul(_GATHERED, _VECTORS), rows=matmul(_VECTORS, _GATHERED))
_INDICES = op.reshape(i, newshape=rows(alone=(-1, 1), broadcast=choices(op.broadcast_to(x, ...)), tiled=choices(op.tile(x, ...))))
_ALL = op.reshape(op.transpose(w, axes=gathered_side(columns=(2, 0, 1), rows=(1, 0, 2))), newshape=all_columns(w, _AXIS))
_PRODUCTS = op.reshape(op.reshape(x, newshape=flat_rows(w, _AXIS)) @ _ALL, newshape=by_expert(w, _AXIS))


class HiddenStates(RuleSet):
    """Folds per-feature scales into the weight and bias of the preceding linear layer. Rewrites products with gathered per-row weights as
    products with all weights, followed by a gather."""

    scaled = (
        (
            bias(none=x @ w, added=x @ w + b, biased=op.nn.bias_add(x @ w, b, axis=p)) * s
            >> bias(none=x @ (w * s), added=x @ (w * s) + b * s, biased=op.nn.bias_add(x @ (w * s), b * s, axis=-1))
        )
        .when(
            is_feature_scale(s, w),
            *bias.only("added", is_vector_of(b, w)),
            *bias.only("biased", is_axis(p, -1, x @ w)),
            is_float(w),
            stays_in_range(w, s),
            *bias.only("added biased", stays_finite(b, s)),
        )
        .inexact(_NOTE)
    )
    gathered_experts = (
        (_WHOLE >> op.reshape(op.gather_nd(_PRODUCTS, _INDICES, batch_dims=1), newshape=vectors_of(w, _AXIS)))
        .when(are_experts(w, i, _WHOLE, _RANK), is_float(w))
        .when(*rows.only("alone", is_batch_of_vectors(x, i, w, _AXIS)))
        .when(*rows.only("broadcast tiled", repeats_rows(x, _REPEATED, i, w, _VECTORS, _AXIS)))
        .exploring()
        .inexact(_REGROUPS)
    )
