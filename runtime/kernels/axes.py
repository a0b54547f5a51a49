"""The axes along which a kernel reduces: a block of adjacent ones, maybe one more before it, and the axes that are left."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from passat.ir.onnx.kernel_nodes import Shape


class Block(NamedTuple):
    """The axes from `first` up to `last`, and those from `outer[0]` up to `outer[1]`, if there are such, with others between them."""

    first: int
    last: int
    outer: tuple[int, int] = (0, 0)

    @property
    def parts(self) -> tuple[slice, slice]:
        """Both."""
        return slice(*self.outer), slice(self.first, self.last)

    def is_last_axis(self, rank: int) -> bool:
        """True for the last axis alone, along which operands may broadcast in any way."""
        return self == Block(rank - 1, rank)


def block_of(wide: "Shape", row: "Shape") -> Block | None:
    """The axes along which a shape of one element per row differs from the shape of the elements; None if they are more than two groups of
    adjacent ones.

    >>> block_of(("B", 3, 4, 5), ("B", 1, 1, 5))
    Block(first=1, last=3, outer=(0, 0))
    >>> block_of(("B", 3, 1, 1), ("B", 1, 1, 1))
    Block(first=1, last=4, outer=(0, 0))
    >>> block_of(("B", 3, 4, 5), (1, 3, 1, 1))
    Block(first=2, last=4, outer=(0, 1))
    """
    if len(wide) != len(row) or wide == row:
        return None
    parts: list[tuple[int, int]] = []
    for axis, (size, kept) in enumerate(zip(wide, row, strict=True)):
        if size == kept:
            continue
        if kept != 1:
            return None
        if parts and all(other == 1 for other in row[parts[-1][1] : axis]) and all(other == 1 for other in wide[parts[-1][1] : axis]):
            parts[-1] = parts[-1][0], axis + 1
        else:
            parts.append((axis, axis + 1))
    first, last = parts[-1]
    if len(parts) > 2:
        return None
    return Block(first, len(wide) if all(size == 1 for size in wide[last:]) else last, *parts[:-1])


def block_along(wide: "Shape", axes: Sequence[int]) -> Block | None:
    """The block of the axes of a reduction; None if they are more than two groups of adjacent ones."""
    row = tuple(1 if axis in axes else size for axis, size in enumerate(wide))
    return Block(min(axes), max(axes) + 1) if wide == row else block_of(wide, row)


def row_of(wide: "Shape", block: Block) -> "Shape":
    """The shape with one element per row."""
    reduced = {axis for part in block.parts for axis in range(*part.indices(len(wide)))}
    return tuple(1 if axis in reduced else size for axis, size in enumerate(wide))


def padded(shape: "Shape", rank: int) -> "Shape":
    """The shape with leading axes of size 1."""
    return (1,) * (rank - len(shape)) + shape


def fits(shape: "Shape", wide: "Shape", block: Block) -> bool:
    """True if an operand has all elements along the block or one of them, and likewise along the axes after it. Along the last axis alone,
    that is so for all operands."""
    if block.is_last_axis(len(wide)):
        return True
    own = padded(shape, len(wide))
    return all(own[part] == wide[part] or all(size == 1 for size in own[part]) for part in (*block.parts, slice(block.last, None)))
