"""Layouts with blocks, as NCHW16c: an axis is split, and its blocks of 16 elements are an axis of their own.

A capital letter names an axis, the small letter with a size before it its blocks. An axis may be split again: in OHWI16i64o2i the axis I
has blocks of 32 elements, which consist of 16 blocks of 2.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any as AnyValue

import numpy as np

from passat.ir.expr import Expr
from passat.ir.op import OpTypeError
from passat.ir.ops.movement import transpose
from passat.ir.ops.reshaping import reshape
from passat.ir.shape import Dim, Shape, divide, may_equal
from passat.ir.tensor import Array

Part = tuple[str, int]
"""The name of an axis in a layout, unique in it ("C", or "c0" for its first blocks), and the size of blocks; 0 for a capital letter."""


@lru_cache(1000)
def parts_of(layout: str) -> tuple[Part, ...]:
    """The axes of a layout in order. Raises OpTypeError.

    >>> parts_of("NC4c")
    (('N', 0), ('C', 0), ('c0', 4))
    """
    found: list[Part] = []
    for size, letter in re.findall(r"(\d*)([A-Za-z])", layout):
        depth = sum(name[0] == letter for name, _ in found)
        found.append((letter if letter.isupper() else f"{letter}{depth}", int(size or 0)))
    names = [name for name, _ in found]
    fits = "".join(f"{size or ''}{name[0]}" for name, size in found) == layout and len({*names}) == len(names)
    if not fits or any((size > 0) == name.isupper() or name[0].upper() not in names for name, size in found):
        raise OpTypeError(f"{layout!r} is no layout; write axes as capitals, and blocks as in NCHW4c")
    return tuple(found)


def has_blocks(layout: str) -> bool:
    """Whether an axis of the layout is split."""
    return any(size for _, size in parts_of(layout))


def without_blocks(layout: str) -> str:
    """The layout in which each axis is whole.

    >>> without_blocks("NHWC4c")
    'NHWC'
    """
    return "".join(name for name, size in parts_of(layout) if not size)


def blocks_of(layout: str, letter: str) -> tuple[int, ...]:
    """The sizes of the blocks of an axis, outer ones first."""
    return tuple(size for name, size in parts_of(layout) if size and name[0] == letter.lower())


def joined_shape(shape: Shape, layout: str) -> Shape:
    """The shape of a tensor of this layout once each axis is whole. Raises OpTypeError where the sizes are not those of the layout."""
    parts = parts_of(layout)
    if len(shape) != len(parts):
        raise OpTypeError(f"the layout {layout} has {len(parts)} axes, but the tensor has {len(shape)}")
    for size, (name, block) in zip(shape, parts, strict=True):
        if block and not may_equal(size, block):
            raise OpTypeError(f"the layout {layout} has blocks of {block}, but the tensor has {size!r} along {name[0]}")
    return tuple(
        size * prod(blocks_of(layout, name)) if blocks_of(layout, name) else size
        for size, (name, block) in zip(shape, parts, strict=True)
        if not block
    )


def split_shape(shape: Shape, layout: str) -> Shape:
    """The inverse of `joined_shape`. Raises OpTypeError where blocks do not divide an axis."""
    sizes = dict(zip(without_blocks(layout), shape, strict=True))

    def outer(letter: str) -> Dim:
        size, block = sizes[letter], prod(blocks_of(layout, letter))
        if type(size) is int and size % block:
            raise OpTypeError(f"{size} elements along {letter} are not divisible into blocks of {block}, as the layout {layout} has them")
        return size if block == 1 else divide(size, block)

    return tuple(block or outer(name) for name, block in parts_of(layout))


def joined(array: Array, layout: str) -> Array:
    """An array of this layout with each axis whole."""
    names, order = [name for name, _ in parts_of(layout)], _beside(layout)
    shape: AnyValue = joined_shape(array.shape, layout)
    return array.transpose([names.index(name) for name in order]).reshape(shape)


def split(array: Array, layout: str) -> Array:
    """The inverse of `joined`."""
    order, names = _beside(layout), [name for name, _ in parts_of(layout)]
    sizes: dict[str, AnyValue] = dict(zip(names, split_shape(array.shape, layout), strict=True))
    return np.ascontiguousarray(array.reshape([sizes[name] for name in order]).transpose([order.index(name) for name in names]))


def _beside(layout: str) -> list[str]:
    """The names of a layout's axes, with blocks right behind the axis that they split."""
    names = [name for name, _ in parts_of(layout)]
    return [name for letter in without_blocks(layout) for name in names if name[0] in (letter, letter.lower())]


def in_layout(data: Expr, source: str, target: str) -> Expr:
    """`data` of the layout `source` as a tensor of the layout `target`: a transpose, with reshapes where blocks differ.

    Raises OpTypeError for layouts of different axes.
    """
    if sorted(without_blocks(source)) != sorted(without_blocks(target)):
        raise OpTypeError(f"{source!r} and {target!r} have different axes")
    changed = [letter for letter in without_blocks(source) if blocks_of(source, letter) != blocks_of(target, letter)]
    order = [name for name, _ in parts_of(source)]
    # Blocks of another size are joined first; then axes are split, and all of them moved.
    if any(blocks_of(source, letter) for letter in changed):
        kept = [name for name in order if name.isupper() or name[0].upper() not in changed]
        beside = [part for name in kept for part in ([other for other in order if _is_of(other, name)] if name in changed else [name])]
        data, order = _moved(data, order, beside), beside
        while len(order) > len(kept):
            last = [order[i] for i in range(1, len(order)) if _ends(order, i, changed)]
            data = reshape(data, newshape=_merging(order, last))
            order = [name for name in order if name not in last]
    whole = {letter: blocks_of(target, letter) for letter in changed}
    for depth in range(max(map(len, whole.values()), default=0)):
        newshape: list[int] = []
        inner = {letter if not depth else f"{letter.lower()}{depth - 1}": sizes for letter, sizes in whole.items() if len(sizes) > depth}
        for name in order:
            sizes = inner.get(name, ())
            newshape += [-4, sizes[depth - 1] if depth else -1, prod(sizes[depth:])] if sizes else [0]
        data = reshape(data, newshape=tuple(newshape))
        order = [part for name in order for part in ([name, f"{name[0].lower()}{depth}"] if name in inner else [name])]
    return _moved(data, order, [name for name, _ in parts_of(target)])


def _is_of(name: str, axis: str) -> bool:
    return name[0].upper() == axis


def _ends(order: Sequence[str], place: int, changed: Sequence[str]) -> bool:
    """Whether the innermost blocks of an axis to join are at this place."""
    letter = order[place][0].upper()
    return order[place].islower() and letter in changed and not any(_is_of(name, letter) for name in order[place + 1 :])


def _merging(order: Sequence[str], last: Sequence[str]) -> tuple[int, ...]:
    following = (*order[1:], "")
    return tuple(-3 if after in last else 0 for name, after in zip(order, following, strict=True) if name not in last)


def _moved(data: Expr, order: Sequence[str], wanted: Sequence[str]) -> Expr:
    axes = tuple(order.index(name) for name in wanted)
    return data if axes == tuple(sorted(axes)) else transpose(data, axes=axes)
