"""Strategies of the predefined guards: constants with certain elements, types, ranges."""

from typing import Final

import numpy as np

from passat.ir.tensor import Array
from passat.rules.checking.sampler import Sampler
from passat.rules.guards import has_dtype, has_no_zero, is_all, is_axis, is_finite, is_positive, knows_all_elements, same_shape
from passat.rules.range_guards import always_positive, lies_between, never_nan, never_negative, never_signed
from passat.rules.samples import Sample, Samples, strategy_for

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


# ---- range_guards


_NUMBERS: Final = (0.0, 0.5, 1.0, 1.0, 2.0, 3.5, 100.0)


def _drawn(low: float, high: float, *, zeros: tuple[float, ...] = ()) -> Samples:
    """A constant with elements in a range; sometimes with NaN and the bounds."""

    def elements(sampler: Sampler, shape: tuple[int, ...]) -> Array:
        some = [number for number in (*_NUMBERS, low, high, *zeros) if low <= number <= high]
        if sampler.chance(0.2):
            some.append(np.nan)
        return sampler.generator.choice(some, size=shape)

    return [Sample(elements=elements)]


@strategy_for(never_signed)
def _unsigned(sampler: Sampler, x: Sample) -> Samples:
    return _drawn(0.0, np.inf)


@strategy_for(never_negative)
def _from_zero(sampler: Sampler, x: Sample) -> Samples:
    return _drawn(0.0, np.inf, zeros=(-0.0,))


@strategy_for(always_positive)
def _above_half(sampler: Sampler, x: Sample) -> Samples:
    return _drawn(0.5, np.inf)


@strategy_for(lies_between)
def _between(sampler: Sampler, x: Sample, low: float, high: float) -> Samples:
    return _drawn(low, high)


@strategy_for(never_nan)
def _numbers(sampler: Sampler, x: Sample) -> Samples:
    return [Sample(elements=(0.0, -0.0, 1.0, -2.5, np.inf))]
