"""Bounds of symbolic sizes, and their minimum and maximum. Names represent sizes, which are never negative."""

from typing import Final

from passat.ir.shape import ANY, Any, Dim, Quotient, SymDim, extreme

FAR: Final = 2**31 - 1
"""Indices of at least this value mean the end of a dimension; no dimension is longer."""


def least(dim: Dim) -> int | None:
    """Returns a lower bound of a dimension or of an integer computed from dimensions; None if there is none.

    >>> n = SymDim.named("n")
    >>> least(7), least(2 * n + 3), least(n - 1), least(9 - n)
    (7, 3, -1, None)
    """
    if isinstance(dim, Any):
        return None
    if not isinstance(dim, SymDim):
        return dim
    constant = 0
    for names, coefficient in dim.terms:
        if not names:
            constant = coefficient
        elif coefficient < 0 or not all(map(_is_size, names)):
            return None
    return constant


def _is_size(atom: str) -> bool:
    """Whether an atom is provably non-negative. A quotient may be negative if its dividend is a difference."""
    return not isinstance(atom, Quotient) or (at_least(atom.dividend, 0) and at_least(atom.divisor, 0))


def at_least(a: Dim, b: Dim) -> bool:
    """Whether `a >= b` is provable."""
    if a == b:
        return not isinstance(a, Any)
    difference = least(a - b)
    return difference is not None and difference >= 0


def positive_part(dim: Dim) -> Dim:
    """Returns `max(0, dim)`: the dimension or 0 if its sign is provable, a dimension named `max(0, ...)` otherwise.

    >>> n = SymDim.named("n")
    >>> positive_part(n + 2), positive_part(-n), positive_part(n - 2)
    (n + 2, 0, max(0, n - 2))
    """
    if at_least(dim, 0):
        return dim
    if at_least(0, dim):
        return 0
    return extreme("max", 0, dim)


def smaller(a: Dim, b: Dim) -> Dim:
    """Returns the minimum of two non-negative sizes, named `min(...)` if it is not provable which one is smaller.

    >>> n = SymDim.named("n")
    >>> smaller(n, n + 1), smaller(4, n), smaller(n, 4)
    (n, min(4, n), min(4, n))
    """
    if isinstance(a, Any) or isinstance(b, Any):
        return 0 if 0 in (a, b) else ANY
    if at_least(b, a):
        return a
    if at_least(a, b):
        return b
    return extreme("min", a, b)


def ceiling(dividend: Dim, divisor: int) -> Dim:
    """Returns the quotient of a size and a positive integer, rounded up.

    >>> ceiling(7, 2), ceiling(SymDim.named("n"), 2)
    (4, (n + 1)//2)
    """
    return dividend if divisor == 1 else (dividend + (divisor - 1)) // divisor
