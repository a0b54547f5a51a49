"""Strategies of guards of data movement, reductions, sizes and index arithmetic: slices, splits, lists of sizes."""

import math
from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.op import Op
from passat.ir.ops.elementwise import finite_limits
from passat.ir.ops.slicing import END
from passat.rules.checking.sampler import Sampler
from passat.rules.library.arithmetic import always_wins, binds_nothing, is_unit, is_zero_of, outcome
from passat.rules.library.commuting import is_no_scalar
from passat.rules.library.data_movement import are_adjacent, is_split_where_joined, is_whole_split, part_slice
from passat.rules.library.dynamic_shapes import (
    chooses_numbers,
    counts_pairs,
    counts_rows,
    is_column,
    is_number,
    is_one_number,
    names_all_in_order,
)
from passat.rules.library.gathers import are_along_one_axis, are_single
from passat.rules.library.index_arithmetic import fits, is_above_zero, is_below_zero, is_index
from passat.rules.library.index_forms import multiply_to
from passat.rules.library.index_logic import contradicts, is_at_most, is_truth, never_meet, never_negative_together, one_is_negative
from passat.rules.library.reductions import is_count, reduces_copies
from passat.rules.library.relay_forms import is_product
from passat.rules.library.views import keeps_batches
from passat.rules.samples import Sample, Samples, Strategy, always, strategy_for

# ---- data_movement


def _joined_parts(sampler: Sampler, count: int) -> tuple[int, list[tuple[int, ...]], dict[str, AnyValue]]:
    """An axis, shapes that can be concatenated along it, and the attributes of a split at the boundaries."""
    shape = sampler.shape(1, 3)
    axis = sampler.integer(-len(shape), len(shape) - 1)
    sizes = [sampler.dim() for _ in range(count)]
    shapes = [tuple(size if i == axis % len(shape) else dim for i, dim in enumerate(shape)) for size in sizes]
    places = tuple(sum(sizes[:i]) for i in range(1, count))
    whole = count if len(set(sizes)) == 1 and sampler.chance(0.5) else places
    return axis, shapes, {"axis": axis % len(shape) - sampler.pick((0, len(shape))), "indices_or_sections": whole}


@strategy_for(is_whole_split)
def _a_whole_split(sampler: Sampler, x: Sample, split: Sample, cut: Sample, axis: Sample, count: int) -> Samples:
    at, shapes, attrs = _joined_parts(sampler, count)
    size = sum(shape[at] for shape in shapes)
    whole = tuple(size if i == at % len(shapes[0]) else dim for i, dim in enumerate(shapes[0]))
    return [Sample(whole), None, Sample(value=attrs), Sample(value=at)]


@strategy_for(is_split_where_joined)
def _a_split_where_joined(sampler: Sampler, split: Sample, cut: Sample, axis: Sample, *parts: Sample) -> Samples:
    at, shapes, attrs = _joined_parts(sampler, len(parts))
    return [None, Sample(value=attrs), Sample(value=at), *map(Sample, shapes)]


@strategy_for(part_slice)
def _within_a_part(
    sampler: Sampler, cut: Sample, axis: Sample, before: Sequence[Sample], part: Sample, behind: Sequence[Sample], which: str
) -> Samples:
    at, shapes, _ = _joined_parts(sampler, len(before) + 1 + len(behind))
    place, rank = len(before), len(shapes[0])
    sizes = [shape[at] for shape in shapes]
    sizes[place] = max(sizes[place], 1)
    shapes = [tuple(size if i == at % rank else dim for i, dim in enumerate(shape)) for shape, size in zip(shapes, sizes, strict=True)]
    start = sum(sizes[:place])
    begin = sampler.integer(start, start + sizes[place] - 1)
    value = {
        "begin": (begin,),
        "end": (sampler.integer(begin + 1, start + sizes[place]),),
        "strides": sampler.pick([None, (1,), (2,)]),
        "axes": (at % rank - sampler.pick((0, rank)),),
    }
    samples = list(map(Sample, shapes))
    return [Sample(value=value), Sample(value=at), samples[:place], samples[place], samples[place + 1 :]]


@strategy_for(are_adjacent)
def _some_places(sampler: Sampler, axes: Sample, strides: Sample, axis: Sample, x: Sample, *places: Sample) -> Samples:
    shape = list(sampler.shape(1, 3))
    at = sampler.integer(-len(shape), len(shape) - 1)
    sizes = [sampler.integer(1, 3) for _ in places[1:]]
    shape[at] = sum(sizes) + sampler.integer(0, 2)
    begin = sampler.integer(0, shape[at] - sum(sizes))
    found = [(begin + sum(sizes[:i]),) for i in range(len(places))]
    same = at % len(shape) - sampler.pick((0, len(shape)))
    return [Sample(value=(same,)), Sample(value=(1,)), Sample(value=at), Sample(tuple(shape)), *[Sample(value=each) for each in found]]


# ---- gathers


@strategy_for(are_along_one_axis)
def _a_cut_axis(sampler: Sampler, axis: Sample, cut: Sample, x: Sample, c: Sample) -> Samples:
    shape = sampler.shape(1, 3)
    at = sampler.integer(0, len(shape) - 1)
    begin, end = sampler.pick([(0, shape[at]), (1, END), (-shape[at], -1), (-1, -END), (0, 2)])
    stride = -1 if end == -END else sampler.pick((1, 1, 2))
    attrs = {"begin": (begin,), "end": (end,), "strides": (stride,), "axes": (at,)}
    return [Sample(value=at - sampler.pick((0, len(shape)))), Sample(value=attrs), Sample(shape), Sample(elements=(0.0, -1.0))]


@strategy_for(are_single)
def _an_element(sampler: Sampler, c: Sample, d: Sample) -> Samples:
    shape = c.shape if c.shape is not None and len(c.shape) < 2 else sampler.pick([(), (1,), (2,)])
    return [Sample(shape, elements=(0.0, -1.0)), Sample((), elements=(0.0, -1.0))]


# ---- views


@strategy_for(keeps_batches)
def _some_batches(sampler: Sampler, axes: Sample, x: Sample, batches: Sample, whole: Sample) -> Samples:
    leading = tuple(sampler.full() for _ in range(sampler.pick((1, 2, 2, 3))))
    last = tuple(sampler.full() for _ in range(sampler.pick((1, 2, 2, 3))))
    order = tuple(int(axis) for axis in sampler.generator.permutation(len(last)))
    return [
        Sample(value=(0, *(axis + 1 for axis in order))),
        Sample((*leading, *last)),
        Sample((math.prod(leading), *last)),
        Sample((*sampler.pick([leading, leading[::-1], (math.prod(leading),)]), *(last[axis] for axis in order))),
    ]


# ---- dynamic_shapes


@strategy_for(names_all_in_order)
def _all_in_order(sampler: Sampler, c: Sample, x: Sample, axis: Sample) -> Samples:
    count = sampler.pick((1, 2, 4, 6))
    shapes = [(), (1, 1)] if count == 1 else [(count, 1), (1, count), (2, count // 2), (1, 2, count // 2, 1)]
    rank = sampler.integer(1, 3)
    at = sampler.integer(0, rank - 1)
    whole = tuple(count if i == at else sampler.full() for i in range(rank))
    return [
        Sample(
            sampler.pick(shapes), "int64", elements=lambda sampler, shape: np.arange(count).reshape(shape) - count * sampler.pick((0, 1))
        ),
        Sample(whole),
        Sample(value=at - rank * sampler.pick((0, 1))),
    ]


@strategy_for(is_number)
def _a_number(sampler: Sampler, k: Sample) -> Samples:
    return [Sample((1,) * sampler.integer(0, 1), "int64", elements=(0.0, 1.0, 2.0, 3.0, -4.0))]


@strategy_for(counts_rows)
def _rows_in_order(sampler: Sampler, index: Sample, flat: Sample, far: Sample, step: Sample, near: Sample) -> Samples:
    rows, columns = sampler.pick((2, 3)), sampler.pick((2, 3))
    ones = (1,) * sampler.integer(0, 1)
    width = (1,) * sampler.integer(0, 1)
    return [
        None,  # it follows from the other two
        Sample((rows * columns, *sampler.shape(0, 1))),
        Sample((*ones, rows, 1), "int64"),
        Sample(width, "int64", elements=(columns,)),
        Sample(sampler.pick([(columns,), (1, columns), (*ones, 1, columns)]), "int64", elements=lambda sampler, shape: np.arange(columns)),
    ]


@strategy_for(counts_pairs)
def _pairs_in_order(sampler: Sampler, x: Sample, whole: Sample, rows: Sample, columns: Sample) -> Samples:
    shape = (sampler.pick((2, 3)), sampler.pick((2, 3)))
    ones = (1,) * sampler.integer(0, 1)
    return [Sample(shape), Sample((*ones, *shape)), Sample((*ones, shape[0], 1), "int64"), Sample((shape[1],), "int64")]


@strategy_for(is_column)
def _a_column(sampler: Sampler, column: Sample, copy: Sample, whole: Sample) -> Samples:
    return None if whole.shape is None else [Sample((*whole.shape, 1), "int64"), Sample(whole.shape, "int64"), None]


@strategy_for(is_one_number)
def _number_of_a_shape(sampler: Sampler, c: Sample, whole: Sample, shape: Sample) -> Samples:
    return [Sample((1,) * sampler.integer(0, 1)), None, None]


strategy_for(chooses_numbers)(always(Sample(dtype="bool"), Sample((), "float32"), Sample((), "float32")))


# ---- commuting


@strategy_for(is_no_scalar)
def _integers(sampler: Sampler, x: Sample) -> Samples:
    return [Sample(dtype="int8", shape=x.shape or tuple(sampler.pick((1, 2, 3)) for _ in range(sampler.pick((2, 3, 4)))))]


# ---- reductions


@strategy_for(is_count)
def _the_count(sampler: Sampler, c: Sample, attrs: Sample, x: Sample, inverted: bool) -> Samples:
    shape = sampler.shape(1, 3)
    axes = tuple([axis for axis in range(len(shape)) if sampler.chance(0.6)]) or (0,)
    count = math.prod(shape[axis] for axis in axes)
    value = {"axis": axes, "keepdims": sampler.chance(0.5), "exclude": False}
    return [Sample((), elements=(1 / max(count, 1) if inverted else float(count),)), Sample(value=value), Sample(shape)]


@strategy_for(reduces_copies)
def _some_copies(sampler: Sampler, attrs: Sample, x: Sample, wide: Sample) -> Samples:
    shape = x.shape or sampler.shape(1)
    axes = tuple(axis for axis, dim in enumerate(shape) if dim == 1 or sampler.chance(0.4))
    once = shape if x.shape is not None else tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    whole = tuple(sampler.full() if axis in axes else dim for axis, dim in enumerate(once))
    named = tuple(axis - sampler.pick((0, len(shape))) for axis in axes if once[axis] == 1)
    return [Sample(value={"axis": named, "keepdims": True, "exclude": False}), Sample(once), Sample(whole)]


# ---- arithmetic


@strategy_for(binds_nothing)
def _wide_bounds(sampler: Sampler, attrs: Sample, x: Sample) -> Samples:
    dtype = sampler.pick(("int8", "uint8", "int32", "uint32", "float32", "float16")) if x.dtype is None else x.dtype
    lowest, highest = finite_limits(to_numpy(dtype))
    low, high = sampler.pick((None, float(lowest), -np.inf)), sampler.pick((None, float(highest), np.inf))
    if dtype not in FLOATS:
        low, high = (None if limit is None or np.isinf(limit) else int(limit) for limit in (low, high))
    return [Sample(value={"a_min": low, "a_max": high}), Sample(dtype=dtype)]


@strategy_for(is_product)
def _of_roots(sampler: Sampler, b: AnyValue, c: AnyValue, x: Sample) -> Samples:
    """Coefficients of a product of two sums; some of them may be numbers of the rule."""
    p, q = sampler.pick((0, 1, 1, 2, -1, 3, 0.5)), sampler.pick((0, 1, 1, 2, -1, 3, -0.5))
    if not isinstance(c, Sample):
        q = c / (p or 1)
    elif not isinstance(b, Sample):
        q = b - p
    return [Sample(value=p + q), Sample(value=p * q), None]


@strategy_for(is_unit)
def _its_unit(sampler: Sampler, c: Sample, of: Op) -> Samples:
    return [Sample(elements=() if of.unit is None else (of.unit,)), None]


@strategy_for(is_zero_of)
def _its_zero(sampler: Sampler, c: Sample, of: Op) -> Samples:
    return [Sample(elements=() if of.zero is None else (of.zero,)), None]


@strategy_for(outcome)
def _disjoint(sampler: Sampler, of: Op, x: Sample, y: Sample, whole: Sample) -> Samples:
    sides = [Sample(elements=(2.0, 3.0, 5.0)), Sample(elements=(-1.0, 0.0, sampler.pick((1.0, 2.0))))]
    return [None, *(sides if sampler.chance(0.5) else sides[::-1])]


@strategy_for(always_wins)
def _apart(sampler: Sampler, of: Op, x: Sample, y: Sample) -> Samples:
    side = 1.0 if of.name == "maximum" else -1.0
    return [None, Sample(elements=(side * 2, side * 3, float("nan"))), Sample(elements=(side * -1, side * 2))]


# ---- index_arithmetic


@strategy_for(is_index)
def _an_index(sampler: Sampler, x: Sample) -> Samples:
    return [Sample(shape=(), dtype=sampler.pick(("int64", "int64", "int32")))]


strategy_for(fits)(always(Sample(elements=(0, 1, -1, 2**31 - 1, -(2**31), 70000))))
strategy_for(is_above_zero)(always(Sample(shape=(), elements=(1, 2, 3, 4, 8))))
strategy_for(is_below_zero)(always(Sample(shape=(), elements=(-1, -2, -3, -8))))


# ---- index_forms


strategy_for(multiply_to)(always(*(Sample(shape=(), elements=(number,)) for number in (3, 2, 6))))


# ---- index_logic


def _pair(one: Sequence[int], other: Sequence[int]) -> Strategy:
    """A strategy that gives two terms constant values, sometimes."""

    def strategy(sampler: Sampler, x: Sample, y: Sample) -> Samples:
        return [Sample(shape=(), dtype="int64", elements=values if sampler.chance(0.7) else None) for values in (one, other)]

    return strategy


strategy_for(is_truth)(always(Sample(shape=(), dtype="bool")))
strategy_for(contradicts)(always(None, Sample(shape=(), dtype="bool", elements=(False,))))
strategy_for(never_negative_together)(_pair((-2, -1), (0, 1, 2)))
strategy_for(one_is_negative)(_pair((-2, -1), (0, -2)))
strategy_for(is_at_most)(_pair((-3, 0), (0, 2)))
strategy_for(never_meet)(_pair((0, 1), (2, -2)))
