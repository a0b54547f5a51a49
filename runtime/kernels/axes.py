"""The axes along which a kernel reduces: a block of adjacent ones, with the axes before and after it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from passat.ir.onnx.kernel_nodes import Shape


class Block(NamedTuple):
    """The axes from `first` up to `last`."""

    first: int
    last: int

    def is_last_axis(self, rank: int) -> bool:
        """True for the last axis alone, along which operands may broadcast in any way."""
        return self == (rank - 1, rank)


def block_of(wide: "Shape", row: "Shape") -> Block | None:
    """The axes along which a shape of one element per row differs from the shape of the elements; None if they are not adjacent.

    >>> block_of(("B", 3, 4, 5), ("B", 1, 1, 5))
    Block(first=1, last=3)
    >>> block_of(("B", 3, 1, 1), ("B", 1, 1, 1))
    Block(first=1, last=4)
    """
    if len(wide) != len(row) or wide == row:
        return None
    differ = [axis for axis, (size, kept) in enumerate(zip(wide, row, strict=True)) if size != kept]
    first, last = differ[0], differ[-1] + 1
    if any(size != 1 for size in row[first:last]):
        return None
    return Block(first, len(wide) if all(size == 1 for size in wide[last:]) else last)


def block_along(wide: "Shape", axes: Sequence[int]) -> Block | None:
    """The block of the axes of a reduction; None if others are between them."""
    row = tuple(1 if axis in axes else size for axis, size in enumerate(wide))
    return Block(min(axes), max(axes) + 1) if wide == row else block_of(wide, row)


def row_of(wide: "Shape", block: Block) -> "Shape":
    """The shape with one element per row."""
    return (*wide[: block.first], *(1 for _ in range(*block)), *wide[block.last :])


def padded(shape: "Shape", rank: int) -> "Shape":
    """The shape with leading axes of size 1."""
    return (1,) * (rank - len(shape)) + shape


def fits(shape: "Shape", wide: "Shape", block: Block) -> bool:
    """True if an operand has all elements along the block or one of them, and likewise along the axes after it. Along the last axis alone,
    that is so for all operands."""
    if block.is_last_axis(len(wide)):
        return True
    own = padded(shape, len(wide))
    return all(own[part] == wide[part] or all(size == 1 for size in own[part]) for part in (slice(*block), slice(block.last, None)))
