"""Bounds of symbolic sizes, and their minimum and maximum.

One assumption is made: a name is the size of an axis, so it is not negative. Nothing is assumed of the parts of a size: in `min(q - 4, m) +
4`, which a model may declare, `q - 4` and the minimum may be negative.
"""

import math
from typing import Final

from passat.ir.shape import ANY, Any, Dim, Extreme, Quotient, SymDim, extreme

FAR: Final = 2**31 - 1
"""Indices of at least this value mean the end of a dimension; no dimension is longer."""


def least(dim: Dim) -> int | None:
    """Returns a lower bound of a dimension or of an integer computed from dimensions; None if there is none.

    >>> n = SymDim.named("n")
    >>> least(7), least(2 * n + 3), least(n - 1), least(9 - n)
    (7, 3, -1, None)
    >>> least(extreme("min", n - 4, 2 * n) + 4), least((n + 5) // 2)
    (0, 2)
    """
    if isinstance(dim, Any):
        return None
    if not isinstance(dim, SymDim):
        return dim
    total = 0
    for atoms, coefficient in dim.terms:
        bounds = [_least_atom(atom) for atom in atoms]
        known = [bound for bound in bounds if bound is not None]
        if len(known) < len(bounds) or (atoms and coefficient < 0) or (len(known) > 1 and min(known) < 0):
            return None
        total += coefficient * math.prod(known)
    return total


def _least_atom(atom: str) -> int | None:
    if isinstance(atom, Extreme):
        bounds = [least(operand) for operand in atom.operands]
        known = [bound for bound in bounds if bound is not None]
        if atom.which == "max":
            return max(known, default=None)
        return min(known) if len(known) == len(bounds) else None
    if not isinstance(atom, Quotient):
        return 0
    dividend = least(atom.dividend)
    if dividend is not None and isinstance(atom.divisor, int) and atom.divisor > 0:
        return dividend // atom.divisor
    return 0 if dividend is not None and dividend >= 0 and at_least(atom.divisor, 0) else None


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
    """Returns the minimum of two sizes of axes, which are not negative, named `min(...)` if it is not provable which one is smaller.

    >>> n = SymDim.named("n")
    >>> smaller(n, n + 1), smaller(4, n), smaller(n, 4), smaller(0, n - 1)
    (n, min(4, n), min(4, n), 0)
    """
    if 0 in (a, b):
        return 0
    if isinstance(a, Any) or isinstance(b, Any):
        return ANY
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
