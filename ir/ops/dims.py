"""Arithmetic and comparison of dimensions, for the kernels of shape arithmetic. Results are exact, or `Any` if undecidable.

A kernel wrapped in `on_dims` computes numeric arrays as before, and object arrays of dimensions element by element.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any as AnyValue

import numpy as np

from passat.ir.bounds import at_least, positive_part
from passat.ir.op import Kernel
from passat.ir.shape import ANY, Any, Dim, SymDim, divide
from passat.ir.tensor import Array


def on_dims(function: Callable[..., object], kernel: Callable[..., AnyValue], *, truth: bool = False) -> Kernel:
    """Wraps a kernel to apply `function` elementwise if an operand is an object array, and `kernel` otherwise.

    `truth` marks comparisons: their result is a bool array if every element is decided, so they also apply to strings.
    """

    @functools.wraps(kernel, updated=())
    def either(*operands: Array, **attrs: AnyValue) -> AnyValue:
        if all(operand.dtype != np.object_ for operand in operands):
            return kernel(*operands, **attrs)
        found = np.asarray(np.frompyfunc(function, len(operands), 1)(*operands), np.object_)
        return found.astype(np.bool_) if truth and ANY not in found.reshape(-1).tolist() else found

    return either


def quotient(dividend: Dim, divisor: Dim) -> Dim:
    """Quotient rounded toward zero, as ONNX divides integers; `Any` if that may differ from rounding down.

    >>> n = SymDim.named("n")
    >>> quotient(-7, 2), quotient(n + 1, 2), quotient(n - 1, 2), quotient(4 * n, 2)
    (-3, (n + 1)//2, ?, 2*n)
    """
    if isinstance(dividend, int) and isinstance(divisor, int):
        if divisor == 0:
            return ANY
        size = abs(dividend) // abs(divisor)
        return size if (dividend < 0) == (divisor < 0) else -size
    floor = divide(dividend, divisor)
    if floor * divisor == dividend or (at_least(dividend, 0) and at_least(divisor, 0)):
        return floor
    return ANY


def floor_remainder(dividend: Dim, divisor: Dim) -> Dim:
    """Remainder of floor division, with the sign of the divisor.

    >>> floor_remainder(-7, 3), floor_remainder(SymDim.named("n") * 4, 4)
    (2, 0)
    """
    floor = divide(dividend, divisor)
    return ANY if isinstance(floor, Any) else dividend - floor * divisor


def greatest(a: Dim, b: Dim) -> Dim:
    """Maximum of two dimensions or computed integers; `Any` for integers beyond 32 bits, some of which ONNX Runtime compares incorrectly.

    >>> n = SymDim.named("n")
    >>> greatest(n, 0), greatest(n, n + 2), greatest(4, n)
    (n, n + 2, max(0, n - 4) + 4)
    """
    if isinstance(a, int) and isinstance(b, int):
        return ANY if max(abs(a), abs(b)) >= 1 << 31 else max(a, b)
    if isinstance(a, int) or (isinstance(b, SymDim) and repr(a) < repr(b)):
        a, b = b, a  # canonical order of the operands
    return b + positive_part(a - b)


def smallest(a: Dim, b: Dim) -> Dim:
    """Minimum of two dimensions or computed integers."""
    return a + b - greatest(a, b)


def equal(a: object, b: object) -> object:
    """Whether two dimensions, truth values or strings are equal: True, False, or `Any`."""
    if isinstance(a, (str, bytes)):
        return a == b
    if isinstance(a, Any) or isinstance(b, Any):
        return ANY
    if a == b:
        return True
    return False if less(a, b) is True or less(b, a) is True else ANY  # type: ignore[arg-type]  # neither string nor Any: dimensions


def less(a: Dim, b: Dim) -> object:
    """Whether one dimension is less than another: True, False, or `Any`."""
    return True if at_least(b, a + 1) else False if at_least(a, b) else ANY


def less_equal(a: Dim, b: Dim) -> object:
    """Whether one dimension is less than or equal to another: True, False, or `Any`."""
    return negation(less(b, a))


def negation(truth: object) -> object:
    """Negates True or False; `Any` stays `Any`."""
    return ANY if isinstance(truth, Any) else not truth


def conjunction(a: object, b: object) -> object:
    """Three-valued logical and."""
    return False if a is False or b is False else ANY if isinstance(a, Any) or isinstance(b, Any) else True


def disjunction(a: object, b: object) -> object:
    """Three-valued logical or."""
    return negation(conjunction(negation(a), negation(b)))


def choice(condition: object, a: object, b: object) -> object:
    """Selects `a` or `b` by a truth value; for an unknown one, `Any` unless both are equal."""
    if isinstance(condition, Any):
        return a if a == b and not isinstance(a, Any) else ANY
    return a if condition else b


def product(dims: Array, axes: tuple[int, ...], keepdims: bool) -> AnyValue:
    """Products of dimensions along axes."""
    return _along(operator.mul, 1, dims, axes, keepdims)


def total(dims: Array, axes: tuple[int, ...], keepdims: bool) -> AnyValue:
    """Sums of dimensions along axes."""
    return _along(operator.add, 0, dims, axes, keepdims)


def _along(function: Callable[..., object], start: int, dims: Array, axes: tuple[int, ...], keepdims: bool) -> AnyValue:
    return np.frompyfunc(function, 2, 1, identity=start).reduce(dims, axis=axes, keepdims=keepdims)
