"""Reducers: functions of two values that also reduce a value over axes, such as `sum(x[i, k], axis=k)`."""

from collections.abc import Callable
from typing import Any as AnyValue

from passat.ir.tir.arithmetic import Add, Max, Min
from passat.ir.tir.expr import PrimExpr, Var, const, convert
from passat.ir.tir.ops import max_value, min_value
from passat.ir.tir.ranges import CommReducer, IterVar, Reduce


def comm_reducer(fcombine: Callable[..., AnyValue], fidentity: Callable[..., AnyValue], name: str = "reduce") -> Callable[..., AnyValue]:
    """A reducer of a commutative and associative function, and the function of element types that makes its neutral element.

    The reducer takes a value, or a tuple of values, and an axis or several, with a condition `where` and initial values `init`. With
    values only, it combines them: `sum(x, y)`.

    >>> product = comm_reducer(lambda x, y: x * y, lambda dtype: const(1, dtype))
    >>> k = IterVar((0, 8), "k", IterVar.CommReduce)
    >>> product(k.var, axis=k).dtype
    'int32'
    """

    def reduce(expr: AnyValue, axis: AnyValue, where: AnyValue = None, init: AnyValue = None) -> AnyValue:
        several = isinstance(expr, (list, tuple))
        sources = [convert(each) for each in (expr if several else [expr])]
        dtypes = [source.dtype for source in sources]
        lhs, rhs = ([Var(f"{letter}_{place}" if several else letter, dtype) for place, dtype in enumerate(dtypes)] for letter in "xy")
        result = fcombine(lhs, rhs) if several else [fcombine(lhs[0], rhs[0])]
        identity = fidentity(*dtypes) if several else [fidentity(dtypes[0])]
        combiner = CommReducer(lhs, rhs, result, identity)
        axes = axis if isinstance(axis, (list, tuple)) else [axis]
        initial = [] if init is None else init if isinstance(init, (list, tuple)) else [init]
        made = [Reduce(combiner, sources, axes, where, place, initial) for place in range(len(sources))]
        return tuple(made) if several and len(made) > 1 else made[0]

    def reducer(expr: AnyValue, *values: AnyValue, axis: AnyValue = None, where: AnyValue = None, init: AnyValue = None) -> AnyValue:
        named = {key: value for key, value in (("axis", axis), ("where", where), ("init", init)) if value is not None}
        if named or (values and isinstance(values[0], (IterVar, list, tuple))):
            return reduce(expr, *values, **named)
        if not values:
            raise TypeError(f"{name} takes a value and axes that reduce_axis makes, or several values")
        total = expr
        for value in values:
            if value is not None:
                total = fcombine(total, value)
        return total

    reduce.__name__ = reduce.__qualname__ = name
    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"The {name} of a value over axes, or of several values."
    return reducer


def _zero(dtype: str) -> PrimExpr:
    return const(0, dtype)


sum = comm_reducer(Add.of, _zero, "sum")  # TVM's name
min = comm_reducer(Min.of, max_value, "min")  # TVM's name
max = comm_reducer(Max.of, min_value, "max")  # TVM's name
