"""Layouts with blocks, as NCHW16c, and their changes: layout_transform.

In NCHW16c the axis C is split into blocks of 16 elements, which form a separate axis. A capital letter names an axis; a small letter after
a size names its blocks. An axis may be split again: in OHWI16i64o2i the axis I has blocks of 32 elements, which consist of 16 blocks of 2.
"""

import re
from collections.abc import Sequence
from functools import lru_cache, reduce
from math import prod
from typing import Any as AnyValue

import numpy as np

from passat.ir.counting import counted
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op
from passat.ir.ops.movement import is_identity_permutation, transpose
from passat.ir.ops.reshaping import int64
from passat.ir.ops.windows import arranged_shape, axes_of
from passat.ir.shape import Dim, Shape, divide, may_equal
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type

Part = tuple[str, int]
"""An axis of a layout: its unique name ("C", or "c0" for the first blocks of C), and the size of blocks; 0 for a capital letter."""


@lru_cache(1000)
def parts_of(layout: str) -> tuple[Part, ...]:
    """The axes of a layout in order. Raises OpTypeError.

    >>> parts_of("NC4c")
    (('N', 0), ('C', 0), ('c0', 4))
    """
    if not isinstance(layout, str):
        raise OpTypeError(f"a layout must be a text such as NCHW, not {layout!r}")
    found: list[Part] = []
    for size, letter in re.findall(r"(\d*)([A-Za-z])", layout):
        depth = sum(name[0] == letter for name, _ in found)
        found.append((letter if letter.isupper() else f"{letter}{depth}", int(size or 0)))
    names = [name for name, _ in found]
    fits = written(found) == layout and len({*names}) == len(names)
    if not fits or any((size > 0) == name.isupper() or name[0].upper() not in names for name, size in found):
        hint = f"; did you mean {layout.upper()}?" if layout.islower() and layout.isalpha() else ""
        raise OpTypeError(f"{layout!r} is not a layout; write axes as capitals, and blocks as in NCHW4c{hint}")
    return tuple(found)


def has_blocks(layout: str) -> bool:
    """Whether an axis of the layout is split."""
    return any(size for _, size in parts_of(layout))


def without_blocks(layout: str) -> str:
    """The layout without blocks.

    >>> without_blocks("NHWC4c")
    'NHWC'
    """
    return "".join(name for name, size in parts_of(layout) if not size)


def blocks_of(layout: str, letter: str) -> tuple[int, ...]:
    """The sizes of the blocks of an axis, outer ones first."""
    return tuple(size for name, size in parts_of(layout) if size and name[0] == letter.lower())


def written(parts: Sequence[Part]) -> str:
    """The layout of some axes, the inverse of `parts_of`."""
    return "".join(f"{size or ''}{name[0]}" for name, size in parts)


def joined_shape(shape: Shape, layout: str) -> Shape:
    """The shape of a tensor of this layout after its blocks are joined. Raises OpTypeError if the sizes are not those of the layout."""
    parts = parts_of(layout)
    if len(shape) != len(parts):
        raise OpTypeError(f"the layout {layout} has {counted(len(parts), 'axis')}, but the tensor has {len(shape)}")
    for size, (name, block) in zip(shape, parts, strict=True):
        if block and not may_equal(size, block):
            raise OpTypeError(f"the layout {layout} has blocks of {block}, but the tensor has {size!r} along {name[0]}")
    return tuple(
        size * prod(blocks_of(layout, name)) if blocks_of(layout, name) else size
        for size, (name, block) in zip(shape, parts, strict=True)
        if not block
    )


def split_shape(shape: Shape, layout: str) -> Shape:
    """The inverse of `joined_shape`. Raises OpTypeError if blocks do not divide an axis."""
    sizes = dict(zip(without_blocks(layout), shape, strict=True))

    def outer(letter: str) -> Dim:
        size, block = sizes[letter], prod(blocks_of(layout, letter))
        if type(size) is int and size % block:
            raise OpTypeError(
                f"{counted(size, 'element')} along {letter} cannot be divided into blocks of {block}, which the layout {layout} requires"
            )
        return size if block == 1 else divide(size, block)

    return tuple(block or outer(name) for name, block in parts_of(layout))


def joined(array: Array, layout: str) -> Array:
    """Joins the blocks of an array of this layout."""
    names, order = names_of(layout), _beside(layout)
    shape: AnyValue = joined_shape(array.shape, layout)
    return array.transpose([names.index(name) for name in order]).reshape(shape)


def split(array: Array, layout: str) -> Array:
    """The inverse of `joined`."""
    order, names = _beside(layout), names_of(layout)
    sizes: dict[str, AnyValue] = dict(zip(names, split_shape(array.shape, layout), strict=True))
    return np.ascontiguousarray(array.reshape([sizes[name] for name in order]).transpose([order.index(name) for name in names]))


def names_of(layout: str) -> list[str]:
    """The names of a layout's axes, in order."""
    return [name for name, _ in parts_of(layout)]


def _beside(layout: str, letters: str = "") -> list[str]:
    """The names of a layout's axes, in its order or that of `letters`, with blocks directly after the axis that they split."""
    return [name for letter in letters or without_blocks(layout) for name in names_of(layout) if name[0] in (letter, letter.lower())]


def in_layout(data: Expr, source: str, target: str) -> Expr:
    """`data` of the layout `source` as a tensor of the layout `target`: a transpose, or a layout_transform if there are blocks.

    Raises OpTypeError for layouts of different axes.
    """
    _check_letters(source, target)
    if source == target:
        return data
    if has_blocks(source) or has_blocks(target):
        return layout_transform(data, src_layout=source, dst_layout=target)
    return transpose(data, axes=axes_of(source, target))


def _check_letters(source: str, target: str) -> None:
    if sorted(without_blocks(source)) != sorted(without_blocks(target)):
        raise OpTypeError(f"{source!r} and {target!r} have different axes; both name the same capital letters")


def _changed(shape: Shape, source: str, target: str) -> Shape:
    whole = arranged_shape(joined_shape(shape, source), without_blocks(source), without_blocks(target))
    return split_shape(whole, target)


def _change(data: Array, src_layout: str, dst_layout: str) -> Array:
    whole = joined(data, src_layout).transpose(axes_of(without_blocks(src_layout), without_blocks(dst_layout)))
    return split(whole, dst_layout)


@define_op("layout_transform", kernel=_change, movement=True)
def layout_transform(data: TensorType, *, src_layout: str, dst_layout: str) -> TensorType:
    """Moves the elements of `data` from one layout to another. At least one layout has blocks; other changes of layouts are a transpose.

    The layouts name the same axes, and blocks divide them. Relay's layout_transform. Written to ONNX as Transpose, Reshape, Transpose.
    """
    _check_letters(src_layout, dst_layout)
    if not has_blocks(src_layout) and not has_blocks(dst_layout):
        raise OpTypeError(f"{src_layout} and {dst_layout} have no blocks, so the change of layout is a transpose")
    return data.with_shape(_changed(tensor_type(data, "data").shape, src_layout, dst_layout))


@to_onnx(layout_transform)
def _write_change(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    shape = tensor_type(call.args[0].checked_type).shape
    return emit_layout(emit, inputs[0], shape, call.attrs.src_layout, call.attrs.dst_layout)


def emit_layout(emit: Emitter, name: str, shape: Shape, source: str, target: str) -> str:
    """Emits the change of layout of an ONNX value of this shape."""
    ours, theirs = _beside(source, without_blocks(target)), _beside(target)
    name = _emit_moved(emit, name, names_of(source), ours)
    if {*parts_of(source)} != {*parts_of(target)}:
        sizes = dict(zip(names_of(target), _changed(shape, source, target), strict=True))
        newshape = [size if isinstance(size, int) else -1 for size in map(sizes.__getitem__, theirs)]
        inferred = newshape.count(-1) < 2 and not (-1 in newshape and 0 in newshape)
        wanted = int64(emit, newshape) if inferred else _emit_sizes(emit, name, newshape, source, target)
        if 0 in newshape:
            need_opset(emit, 14, layout_transform)  # before, a size of 0 meant that of the operand
        name = emit.node("Reshape", [name, wanted], {"allowzero": 1} if 0 in newshape else {})
    return _emit_moved(emit, name, theirs, names_of(target))


def _emit_sizes(emit: Emitter, name: str, newshape: Sequence[int], source: str, target: str) -> str:
    """Emits the sizes of a result; unknown ones are computed from those of the operand when the model runs."""
    ours, theirs = _beside(source, without_blocks(target)), _beside(target)
    shape = emit.node("Shape", [name])
    parts: list[str] = []
    for part, size in zip(theirs, newshape, strict=True):
        if size != -1:
            parts.append(int64(emit, (size,)))
            continue
        places = [i for i, other in enumerate(ours) if other[0].upper() == part]
        found = [emit.node("Gather", [shape, int64(emit, (i,))], {"axis": 0}) for i in places]
        whole = reduce(lambda a, b: emit.node("Mul", [a, b]), found)
        block = prod(blocks_of(target, part))
        parts.append(whole if block == 1 else emit.node("Div", [whole, int64(emit, (block,))]))
    return emit.node("Concat", parts, {"axis": 0})


def _emit_moved(emit: Emitter, name: str, order: Sequence[str], wanted: Sequence[str]) -> str:
    axes = tuple(order.index(part) for part in wanted)
    return name if is_identity_permutation(axes) else emit.node("Transpose", [name], {"perm": axes})
