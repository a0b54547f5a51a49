"""Walks over anything that has parts, such as types, patterns, statements or passes. They are iterative, so that depth is no limit.

`parts_of` returns the parts of a thing in order. Two walks visit a shared part once: things with the same `key` are the same, which is
the thing itself unless it is another function, such as `id`. Expressions have a faster walk (`passat.ir.traverse.post_order`).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def _itself(part: T) -> T:
    return part


def preorder(roots: Iterable[T], parts_of: Callable[[T], Sequence[T]]) -> Iterator[T]:
    """Yields all roots and their parts, each before its own parts, and as often as it occurs.

    >>> list(preorder([[1, [2]], 3], lambda part: part if isinstance(part, list) else ()))
    [[1, [2]], 1, [2], 2, 3]
    """
    stack = [*roots][::-1]
    while stack:
        part = stack.pop()
        yield part
        stack += reversed(parts_of(part))


def reachable(roots: Iterable[T], parts_of: Callable[[T], Sequence[T]], key: Callable[[T], Hashable] = _itself) -> Iterator[T]:
    """Yields all roots and their parts once, each before those of its parts that were not yielded yet.

    >>> list(reachable([6], lambda number: [each for each in (2, 3, 4) if each < number]))
    [6, 2, 3, 4]
    """
    seen: set[Hashable] = set()
    stack = [*roots][::-1]
    while stack:
        part = stack.pop()
        if key(part) not in seen:
            seen.add(key(part))
            yield part
            stack += reversed(parts_of(part))


def parts_first(roots: Iterable[T], parts_of: Callable[[T], Sequence[T]], key: Callable[[T], Hashable] = _itself) -> Iterator[T]:
    """Yields all roots and their parts once, each after its parts. A cycle is cut where the walk meets its first thing again.

    >>> list(parts_first([6], lambda number: [each for each in (2, 3, 4) if each < number]))
    [2, 3, 4, 6]
    """
    seen: set[Hashable] = set()
    stack = [(root, False) for root in roots][::-1]
    while stack:
        part, ready = stack.pop()
        if ready:
            yield part
        elif key(part) not in seen:
            seen.add(key(part))
            stack.append((part, True))
            stack += [(inner, False) for inner in reversed(parts_of(part))]
