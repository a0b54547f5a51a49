"""Strategies of comparisons: a value for the side that is open, from which the plan derives sizes, ranks and attributes."""

from typing import Any as AnyValue

from passat.rules.checking.sampler import Sampler
from passat.rules.comparisons import equals, greater, greater_equal, less, less_equal
from passat.rules.samples import Sample, Samples, strategy_for


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
