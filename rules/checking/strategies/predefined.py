"""Strategies of the predefined guards: constants with certain elements, types, ranges; and for a comparison, a value of the side that is
open, from which the plan derives sizes, ranks and attributes."""

from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.tensor import Array
from passat.rules.attribute_arithmetic import equals, greater, greater_equal, less, less_equal
from passat.rules.checking.sampler import Sampler
from passat.rules.guards import (
    has_dtype,
    has_no_zero,
    has_unit_strides,
    is_all,
    is_axis,
    is_finite,
    is_positive,
    is_ungrouped,
    is_unpadded,
    is_usual_convolution,
    knows_all_elements,
    same_shape,
)
from passat.rules.range_guards import always_positive, lies_between, never_nan, never_negative, never_signed
from passat.rules.samples import Sample, Samples, always, strategy_for


@strategy_for(greater)
def _greater(sampler: Sampler, a: AnyValue, b: AnyValue) -> Samples:
    return _above(sampler, a, b, 1)


@strategy_for(greater_equal)
def _greater_equal(sampler: Sampler, a: AnyValue, b: AnyValue) -> Samples:
    return _above(sampler, a, b, 0)


@strategy_for(less)
def _less(sampler: Sampler, a: AnyValue, b: AnyValue) -> Samples:
    return _turned(_above(sampler, b, a, 1))


@strategy_for(less_equal)
def _less_equal(sampler: Sampler, a: AnyValue, b: AnyValue) -> Samples:
    return _turned(_above(sampler, b, a, 0))


@strategy_for(equals)
def _equal(sampler: Sampler, a: AnyValue, b: AnyValue) -> Samples:
    one, other = _value(a), _value(b)
    if one is None and other is None:
        return None
    return [Sample(value=other), Sample(value=one)]


def _above(sampler: Sampler, high: AnyValue, low: AnyValue, by: int) -> Samples:
    """Samples of two sides, the first of which is at least `by` above the second."""
    top, bottom = _value(high), _value(low)
    if top is None and bottom is None:
        return None
    if not all(isinstance(value, (int, float)) for value in (top, bottom) if value is not None):
        return []
    more = by + sampler.pick((0, 0, 1, 3))
    return [Sample(value=bottom + more) if top is None else None, Sample(value=top - more) if bottom is None else None]


def _turned(samples: Samples) -> Samples:
    return None if samples is None else samples[::-1]


def _value(side: AnyValue) -> AnyValue:
    """The value of a side, None if it is open."""
    return side.value if isinstance(side, Sample) else side


# ---- guards


@strategy_for(is_all)
def _of_value(sampler: Sampler, c: Sample, value: float) -> Samples:
    return [Sample(elements=(value,))]


@strategy_for(has_dtype)
def _of_dtype(sampler: Sampler, x: Sample, dtype: str) -> Samples:
    return [Sample(dtype=dtype)]


@strategy_for(knows_all_elements)
def _of_sizes(sampler: Sampler, x: Sample) -> Samples:
    return [Sample(dtype=sampler.pick(("int64", "int64", "int32", "bool")))]


@strategy_for(same_shape)
def _of_one_shape(sampler: Sampler, x: Sample, y: Sample) -> Samples:
    return None if x.shape is None and y.shape is None else [Sample(shape=y.shape), Sample(shape=x.shape)]


@strategy_for(is_positive)
def _above_zero(sampler: Sampler, c: Sample) -> Samples:
    return [Sample(elements=sampler.pick([(0.5, 1.0, 2.0, 3.0), lambda sampler, shape: np.exp(sampler.generator.normal(size=shape))]))]


@strategy_for(has_no_zero)
def _no_zero(sampler: Sampler, c: Sample) -> Samples:
    return [
        Sample(elements=sampler.pick([(1.0, -1.0, 0.5, 2.0, -3.0), lambda sampler, shape: np.exp(sampler.generator.normal(size=shape))]))
    ]


@strategy_for(is_finite)
def _all_finite(sampler: Sampler, c: Sample) -> Samples:
    return [Sample(elements=sampler.pick([(0.0, 1.0, -1.0, 2.0, -1e4), lambda sampler, shape: sampler.generator.normal(size=shape)]))]


@strategy_for(is_axis)
def _an_axis(sampler: Sampler, axis: Sample, which: int, x: Sample) -> Samples:
    rank = len(x.shape) if x.shape is not None else 0
    return [Sample(value=sampler.pick([which, which % rank, which % rank - rank]) if -rank <= which < rank else which)]


strategy_for(is_ungrouped, is_usual_convolution)(always(Sample(value={"groups": 1})))
strategy_for(is_unpadded)(always(Sample(value={"padding": 0})))
strategy_for(has_unit_strides)(always(Sample(value={"strides": 1})))


# ---- range_guards


_NUMBERS: Final = (0.0, 0.5, 1.0, 1.0, 2.0, 3.5, 100.0)


def _drawn(low: float, high: float, *, zeros: tuple[float, ...] = ()) -> Sample:
    """A constant with elements in a range; sometimes with NaN and the bounds."""

    def elements(sampler: Sampler, shape: tuple[int, ...]) -> Array:
        some = [number for number in (*_NUMBERS, low, high, *zeros) if low <= number <= high]
        if sampler.chance(0.2):
            some.append(np.nan)
        return sampler.generator.choice(some, size=shape)

    return Sample(elements=elements)


strategy_for(never_signed)(always(_drawn(0.0, np.inf)))
strategy_for(never_negative)(always(_drawn(0.0, np.inf, zeros=(-0.0,))))
strategy_for(always_positive)(always(_drawn(0.5, np.inf)))
strategy_for(never_nan)(always(Sample(elements=(0.0, -0.0, 1.0, -2.5, np.inf))))


@strategy_for(lies_between)
def _between(sampler: Sampler, x: Sample, low: float, high: float) -> Samples:
    return [_drawn(low, high)]
