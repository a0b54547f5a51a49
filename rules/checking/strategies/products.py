"""Strategies of guards of attention, masks and products: heads, stacks of rows, experts."""

import math

import numpy as np

from passat.ir.tensor import Array
from passat.rules.checking.sampler import Sampler
from passat.rules.library.attention import (
    are_angles,
    are_heads,
    is_half,
    is_in_range,
    is_mask_of,
    is_minus_infinity,
    repeats_heads,
    same_heads,
)
from passat.rules.library.grouped_heads import is_shared_by_heads, merges_groups, repeats_heads_in_groups
from passat.rules.library.hidden_state import are_experts, is_batch_of_vectors, repeats_rows
from passat.rules.library.masks import casts_in_range_where_read, counts_up, is_past_the_bend, is_smaller, leaves_part, takes_all_in_order
from passat.rules.library.products import is_product_bias, is_row_bias, is_scalar, keeps_rows, makes_heads, moves_heads
from passat.rules.provenance.stacked_rows import cuts_rows, is_one_row, is_stack_of_rows, stacks_alike
from passat.rules.samples import Sample, Samples, always, strategy_for

# ---- attention


@strategy_for(are_heads)
def _some_heads(sampler: Sampler, q: Sample, k: Sample, v: Sample) -> Samples:
    batch, heads, rows, size, keys, other = (sampler.full() for _ in range(6))
    return [Sample((batch, heads, rows, size)), Sample((batch, heads, size, keys)), Sample((batch, heads, keys, other))]


@strategy_for(is_mask_of)
def _a_mask(sampler: Sampler, m: Sample, q: Sample, k: Sample) -> Samples:
    if q.shape is None or k.shape is None:
        return None
    return [Sample((*(size if sampler.chance(0.6) else 1 for size in q.shape[:3]), k.shape[3]))]


@strategy_for(is_in_range)
def _moderate(sampler: Sampler, d: Sample) -> Samples:
    lowest = float(np.finfo(np.float32).min)
    return [
        Sample(
            elements=sampler.pick(
                [(0.0, -1.0, 0.5, -9.0, 2.0), (-1e4, lowest), lambda sampler, shape: sampler.generator.normal(size=shape)]
            )
        )
    ]


strategy_for(is_minus_infinity)(always(Sample(elements=(-math.inf,))))


@strategy_for(same_heads)
def _keys_and_values(sampler: Sampler, x: Sample, y: Sample) -> Samples:
    batch, heads, rows, size = x.shape if x.shape is not None and len(x.shape) == 4 else [sampler.full() for _ in range(4)]
    return [Sample((batch, heads, rows, size)), Sample((batch, heads, rows, sampler.pick((size, sampler.full()))))]


@strategy_for(repeats_heads)
def _repeated_heads(sampler: Sampler, x: Sample, once: Sample, wide: Sample, split: Sample, joined: Sample, heads: Sample) -> Samples:
    batch, count, rows, size = x.shape if x.shape is not None and len(x.shape) == 4 else [sampler.full() for _ in range(4)]
    times = max(heads.value // count, 1) if heads.value else sampler.pick((1, 2, 2, 3))
    return [
        Sample((batch, count, rows, size)),
        None,
        Sample((batch, count, times, rows, size)),
        Sample((batch, count * times, rows, size)),
        Sample((batch, rows, count * times * size)),
        Sample(value=count * times),
    ]


@strategy_for(are_angles)
def _some_angles(sampler: Sampler, c: Sample, x: Sample) -> Samples:
    heads = x.shape if x.shape is not None and len(x.shape) == 4 else (sampler.full(), sampler.full(), sampler.full(), 2 * sampler.full())
    rows, size = heads[2:]

    def twice(sampler: Sampler, shape: tuple[int, ...]) -> Array:
        half = sampler.generator.normal(size=(*shape[:-1], shape[-1] // 2))
        return np.concatenate([half, half], axis=-1)

    return [Sample(sampler.pick([(1, 1, rows, size), (1, rows, size), (rows, size)]), elements=twice), Sample(heads)]


@strategy_for(is_half)
def _a_half(sampler: Sampler, attrs: Sample, x: Sample, which: int) -> Samples:
    if not x.shape or x.shape[-1] % 2:
        return None
    size, axis = x.shape[-1], len(x.shape) - 1
    begin, end = sampler.pick(
        [((0,), (size // 2,)), ((-size,), (-(size // 2),))] if which == 0 else [((size // 2,), (2**63 - 1,)), ((-(size // 2),), (size,))]
    )
    return [Sample(value={"begin": begin, "end": end, "strides": sampler.pick([None, (1,)]), "axes": (sampler.pick([axis, -1]),)})]


# ---- masks


@strategy_for(is_past_the_bend)
def _past_the_bend(sampler: Sampler, c: Sample) -> Samples:
    return [Sample((1,) * sampler.integer(0, 1), elements=(sampler.pick((20.0, 24.0, 40.0)),))]


@strategy_for(is_smaller)
def _a_mask_and_scores(sampler: Sampler, y: Sample, x: Sample) -> Samples:
    large = x.shape if x.shape is not None and len(x.shape) > 2 else tuple(sampler.full() for _ in range(sampler.pick((3, 3, 4))))
    small = tuple(1 if sampler.chance(0.4) else dim for dim in large[sampler.integer(0, len(large) - 2) :])
    return [Sample(small), Sample(large)]


@strategy_for(casts_in_range_where_read)
def _some_out_of_range(sampler: Sampler, c: Sample, e: Sample, dtype: Sample) -> Samples:
    shape = tuple(sampler.full() for _ in range(sampler.integer(0, 3)))
    masked = np.asarray(sampler.generator.random(shape) < 0.5)
    masked.flat[0] = True
    numbers = np.where(masked, sampler.pick((1.5, -1.75)) * 2.0**30, 100 * sampler.generator.normal(size=shape))
    return [
        Sample(shape, "bool", elements=lambda sampler, shape: masked),
        Sample(shape, sampler.pick(("float32", "float64")), elements=lambda sampler, shape: numbers),
        Sample(value=sampler.pick(("int32", "int64"))),
    ]


@strategy_for(takes_all_in_order)
def _all_places(sampler: Sampler, c: Sample, x: Sample, batch_dims: Sample) -> Samples:
    sizes = x.shape if x.shape else tuple(sampler.full() for _ in range(sampler.pick((1, 2, 2, 3))))

    def places(sampler: Sampler, shape: tuple[int, ...]) -> Array:
        found = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1)
        return (found - np.where(sampler.generator.random(found.shape) < 0.2, np.asarray(sizes), 0)).reshape(shape)

    return [Sample((*sampler.pick([sizes, (math.prod(sizes),)]), len(sizes)), elements=places), Sample(sizes), Sample(value=0)]


@strategy_for(counts_up)
def _all_indices(sampler: Sampler, c: Sample, x: Sample, axis: Sample) -> Samples:
    sizes = x.shape if x.shape else tuple(sampler.full() for _ in range(sampler.pick((1, 2, 3))))
    at = sampler.integer(0, len(sizes) - 1)

    def counted(sampler: Sampler, shape: tuple[int, ...]) -> Array:
        return np.arange(sizes[at]).reshape(shape) - (sizes[at] if sampler.chance(0.3) else 0)

    shape = c.shape if c.shape is not None else sampler.pick([(sizes[at],), (1, sizes[at]), (sizes[at], 1)])
    return [Sample(shape, elements=counted), Sample(sizes), Sample(value=at - sampler.pick((0, len(sizes))))]


@strategy_for(leaves_part)
def _a_row_left(sampler: Sampler, c: Sample, axis: Sample, whole: Sample) -> Samples:
    if not whole.shape:
        return None

    def mask(sampler: Sampler, shape: tuple[int, ...]) -> Array:
        found = np.where(sampler.generator.random(shape) < 0.5, -np.inf, sampler.generator.normal(size=shape))
        if shape:
            found[..., :1] = 1.0
        return np.asarray(found if shape else 1.0)

    return [Sample(whole.shape, elements=mask), Sample(value=-1), None]


# ---- grouped_heads


@strategy_for(repeats_heads_in_groups)
def _repeated_heads_in_groups(sampler: Sampler, x: Sample, y: Sample, wide: Sample, heads: Sample) -> Samples:
    batch, count, times, length, size = (sampler.full() for _ in range(5))
    other = x.shape if x.shape is not None else (batch, count * times, sampler.full(), sampler.pick([length, size]))
    return [
        Sample(other),
        Sample((batch, count, 1, length, size)),
        Sample((batch, count, times, length, size)),
        Sample((batch, count * times, length, size)),
    ]


@strategy_for(merges_groups)
def _grouped_heads(sampler: Sampler, x: Sample, merged: Sample) -> Samples:
    batch, heads, group, length, size = x.shape if x.shape is not None and len(x.shape) == 5 else [sampler.full() for _ in range(5)]
    return [Sample((batch, heads, group, length, size)), Sample((batch, heads * group, length, size))]


@strategy_for(is_shared_by_heads)
def _one_mask(sampler: Sampler, m: Sample) -> Samples:
    batch, _, length, size = m.shape if m.shape is not None and len(m.shape) == 4 else [sampler.full() for _ in range(4)]
    return [Sample((sampler.pick([batch, 1]), 1, sampler.pick([length, 1]), sampler.pick([size, 1])))]


# ---- products


@strategy_for(is_row_bias)
def _a_row_and_a_matrix(sampler: Sampler, b: Sample, product: Sample) -> Samples:
    matrix = product.shape if product.shape is not None and len(product.shape) == 2 else (sampler.full(), sampler.full())
    return [Sample(matrix[1:]), Sample(matrix)]


@strategy_for(keeps_rows)
def _rows(sampler: Sampler, x: Sample, flat: Sample) -> Samples:
    shape = x.shape if x.shape is not None and len(x.shape) > 1 else tuple(sampler.dim() for _ in range(sampler.pick((2, 3, 3, 4))))
    return [Sample(shape), Sample((math.prod(shape[:-1]), shape[-1]))]


@strategy_for(is_product_bias)
def _a_row(sampler: Sampler, b: Sample, x: Sample) -> Samples:
    rows = x.shape or (*sampler.shape(0, 3), sampler.full())
    return [Sample(rows[-1:]), Sample(rows)]


@strategy_for(makes_heads)
def _split_into_heads(sampler: Sampler, view: Sample, whole: Sample) -> Samples:
    rows, heads, size = sampler.pick([(2,), (2, 1)]), sampler.full(), sampler.full()  # few, since all roots share them
    return [Sample((*rows, heads, size)), Sample((*rows, heads * size))]


@strategy_for(moves_heads)
def _heads_first(sampler: Sampler, axes: Sample, view: Sample) -> Samples:
    rank = 3 if view.shape is None else len(view.shape)
    rest = tuple(range(rank - 3))
    return [Sample(value=(*rest, rank - 2, *sampler.pick([(rank - 3, rank - 1), (rank - 1, rank - 3)]))), None]


@strategy_for(is_scalar)
def _one_number(sampler: Sampler, c: Sample, x: Sample) -> Samples:
    return [Sample((1,) * sampler.integer(0, 1 if x.shape is None else len(x.shape)))]


# ---- hidden_state


@strategy_for(are_experts)
def _some_experts(sampler: Sampler, w: Sample, i: Sample, whole: Sample, rank: int) -> Samples:
    rows = 2 * sampler.full()  # so that each may occur twice
    return [Sample((sampler.full(), sampler.full(), sampler.full())), Sample((rows, 1)[:rank]), None]


@strategy_for(is_batch_of_vectors)
def _a_vector_for_each(sampler: Sampler, x: Sample, i: Sample, w: Sample, axis: int) -> Samples:
    if i.shape is None or w.shape is None:
        return None
    return [Sample((i.shape[0], w.shape[2], 1) if axis == 2 else (i.shape[0], 1, w.shape[1])), None, None]


@strategy_for(repeats_rows)
def _rows_twice(sampler: Sampler, x: Sample, repeated: Sample, i: Sample, w: Sample, vectors: Sample, axis: int) -> Samples:
    if i.shape is None or w.shape is None:
        return None
    rows, features, count = i.shape[0], w.shape[axis], sampler.pick((1, 2))
    whole = (rows, features, 1) if axis == 2 else (rows, 1, features)
    return [Sample((rows // count, 1, features)), Sample((rows // count, count, features)), None, None, Sample(whole)]


# ---- stacked_rows


@strategy_for(is_stack_of_rows)
def _a_stack(sampler: Sampler, x: Sample) -> Samples:
    return [Sample(tuple(sampler.full() for _ in range(sampler.pick((3, 3, 4)))))]


@strategy_for(stacks_alike)
def _stacks_of_as_many_rows(sampler: Sampler, x: Sample, y: Sample) -> Samples:
    stack = x.shape if x.shape is not None and len(x.shape) > 2 else tuple(sampler.full() for _ in range(3))
    wide = sampler.pick((stack[-1], stack[-1], 1))
    return [Sample(stack), Sample((*stack[:-1], wide))]


@strategy_for(is_one_row)
def _one_row(sampler: Sampler, y: Sample, x: Sample) -> Samples:
    columns = x.shape[-1] if x.shape else sampler.full()
    return [Sample(sampler.pick([(columns,), (1, columns), (1,), ()])), None]


@strategy_for(cuts_rows)
def _the_last_axis(sampler: Sampler, attrs: Sample, x: Sample) -> Samples:
    return [Sample(value={"axis": sampler.pick([-1, len(x.shape) - 1]) if x.shape else -1})]
