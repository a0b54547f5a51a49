"""Makes paddings before windows part of them, and convolutions of blocks in the batch dilated ones. Operators: nn.pad nn.conv1d nn.conv2d
nn.conv3d qnn.conv2d nn.space_to_batch_nd nn.batch_to_space_nd, poolings by maximum and mean.

From Relay's FoldExplicitPadding and FlattenAtrousConv.
"""

import math
from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.bounds import at_least
from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.ops.windows import SPATIAL, begins_ends, per_axis
from passat.rules.guards import Term, computed, guard
from passat.rules.holes import cases
from passat.rules.pattern import Pattern, attributes, constants, op, tensors
from passat.rules.rule_set import RuleSet

x, y, z, s, t = tensors("x y z s t")
(c,) = constants("c")
a, b, d, k, p, q, v = attributes("a b d k p q v")
dims = cases("dims", "one", "two", "three")
_RANK = dims(one=1, two=2, three=3)
_PADDED = op.nn.pad(x, pad_width=p, pad_mode="constant", pad_value=v)


def _layout(attrs: Attrs) -> str:
    return str(attrs["layout" if "layout" in attrs else "data_layout"])


def _joined(pad_width: Sequence[Sequence[int]], padding: int | Sequence[int], layout: str) -> tuple[int, ...]:
    """The padding of a window, with that of its operand before it."""
    letters = SPATIAL[len(layout) - 2]
    widths = [pad_width[layout.index(letter)] for letter in letters]
    begins, ends = begins_ends(padding, len(letters))
    before = (begin + width[0] for begin, width in zip(begins, widths, strict=True))
    return (*before, *(end + width[1] for end, width in zip(ends, widths, strict=True)))


def _pads_space(pad_width: Sequence[Sequence[int]], layout: str) -> bool | str:
    if len(pad_width) != len(layout) or any(any(pair) for letter, pair in zip(layout, pad_width, strict=True) if letter in "NC"):
        return f"{pad_width} pads other axes of {layout} than the spatial ones"
    return min(map(min, pad_width)) >= 0 or f"{pad_width} crops"


@guard
def pads_space(p: Sequence[Sequence[int]], q: int | Sequence[int], attrs: Attrs, x: Term, rank: int) -> bool | str:
    """The operand is padded along the axes over which the window moves, and not cropped."""
    return _pads_space(p, _layout(attrs))


@guard
def fits_window(p: Sequence[Sequence[int]], q: int | Sequence[int], attrs: Attrs, x: Term, rank: int) -> bool | str:
    """The operand is padded along the axes over which the window moves, and each window reaches beyond the whole padding."""
    found = _pads_space(p, _layout(attrs))
    if found is not True:
        return found
    padding, size = _joined(p, q, _layout(attrs)), per_axis(attrs.pool_size, rank, "pool_size")
    if any(step != 1 for step in per_axis(attrs.dilation, rank, "dilation")):
        return f"the window is dilated by {attrs.dilation}"
    return all(width < length for width, length in zip(padding, (*size, *size), strict=True)) or f"pads by {padding}, the window is {size}"


def _is(number: float, v: AnyValue, x: Term) -> bool:
    """Whether a padding is a number, as an element of the tensor."""
    return bool(np.asarray(v).astype(to_numpy(x.type.dtype)) == number)


@guard
def is_zero(v: AnyValue, x: Term) -> bool | str:
    """The padding is 0, and not -0, in the element type, which may have no 0."""
    if isinstance(v, str) or v != 0 or math.copysign(1, v) < 0:
        return f"pads with {v}"
    return _is(0, v, x) or f"{x.type.dtype} has no 0"


def _least(x: Term) -> tuple[float, float]:
    """The least number of an element type, and its least finite one."""
    kind = to_numpy(x.type.dtype)
    if x.type.dtype in FLOATS:
        return -math.inf, float(ml_dtypes.finfo(kind).min)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    least = int(ml_dtypes.iinfo(kind).min)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    return least, least


@guard
def is_least(v: AnyValue, x: Term) -> bool | str:
    """The padding is the least number of the element type, which a maximum ignores."""
    return _is(_least(x)[0], v, x) or f"pads with {v}"


@guard
def is_least_finite(v: AnyValue, x: Term) -> bool | str:
    """The padding is the least finite number of the element type."""
    least, finite = _least(x)
    return (finite != least and _is(finite, v, x)) or f"pads with {v}"


@guard
def counts_padding(q: int | Sequence[int], attrs: Attrs) -> bool | str:
    """The mean is of all elements of a window, padding among them: it says so, or pads nothing itself."""
    return bool(attrs.count_include_pad) or not any((q,) if isinstance(q, int) else q) or f"the mean leaves its own padding {q} out"


@guard
def pads_with(v: AnyValue, c: Term) -> bool | str:
    """The padding is the number for zero."""
    return (c.type.size == 1 and c.value().uniform() == v) or f"pads with {v}, which is not the zero point"


@computed
def joined_padding(p: Sequence[Sequence[int]], q: int | Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    """The padding of a window, with that of its operand."""
    return _joined(p, q, _layout(attrs))


_SUMS = "may be summed in another order"
_JOINED = joined_padding(p, q, a)


def _of(kind: str, *operands: Pattern, **attrs: AnyValue) -> AnyValue:
    made = [getattr(op.nn, f"{kind}{rank}d")(*operands, attrs=a, **attrs) for rank in (1, 2, 3)]
    return dims(**dict(zip(("one", "two", "three"), made, strict=True)))


@guard
def dilates(
    b: Sequence[int],
    k: Sequence[Sequence[int]],
    p: Sequence[Sequence[int]],
    q: int | Sequence[int],
    attrs: Attrs,
    x: Term,
    rank: int,
) -> bool | str:
    """The blocks are those of the axes over which the window moves, by one step, and no more is cropped than was added."""
    if _layout(attrs) != f"N{SPATIAL[rank]}C" or len(b) != rank:
        return f"the blocks have {counted(len(b), 'axis')} behind the batch, the data is laid out as {_layout(attrs)}"
    if any(step != 1 for step in per_axis(attrs.strides, rank, "strides")):
        return f"the strides are {attrs.strides}"
    return min(_unfolded(b, k, p, q)) >= 0 or f"crops {k} of a padding of {p}"


@guard
def has_plane(x: Term) -> bool | str:
    """Channels and planes are nonempty, as ONNX Runtime's pooling requires. (An empty batch has no means in either form.)"""
    return all(at_least(size, 1) for size in x.type.shape[1:]) or f"the planes of {x.type!r} may be empty"


@guard
def leaves_some(k: Sequence[Sequence[int]], whole: Term) -> bool | str:
    """Something is left of each axis that is cropped: a convolution of fewer elements than its window has is an error."""
    kept = [size for size, cut in zip(whole.type.shape[1:-1], k, strict=True) if any(cut)]
    return all(at_least(size, 1) for size in kept) or f"the crops {k} may leave nothing of {whole.type!r}"


def _unfolded(b: Sequence[int], k: Sequence[Sequence[int]], p: Sequence[Sequence[int]], q: int | Sequence[int]) -> tuple[int, ...]:
    """The padding of the dilated convolution."""
    sides = zip(begins_ends(q, len(b)), (0, 1), strict=True)
    return tuple(pair[at] + block * own - cut[at] for side, at in sides for pair, block, own, cut in zip(p, b, side, k, strict=True))


@computed
def dilated_padding(b: Sequence[int], k: Sequence[Sequence[int]], p: Sequence[Sequence[int]], q: int | Sequence[int]) -> tuple[int, ...]:
    """The padding of the dilated convolution."""
    return _unfolded(b, k, p, q)


@computed
def dilation_by(b: Sequence[int], d: int | Sequence[int]) -> tuple[int, ...]:
    """The dilation of the convolution of the whole."""
    return tuple(block * step for block, step in zip(b, per_axis(d, len(b), "dilation"), strict=True))


_BLOCKS = op.nn.space_to_batch_nd(x, block_shape=b, paddings=p, pad_value=v)
_ATTRS: dict[str, AnyValue] = {"padding": dilated_padding(b, k, p, q), "dilation": dilation_by(b, d)}


def _back(of: AnyValue) -> AnyValue:
    return op.nn.batch_to_space_nd(of, block_shape=b, crops=k)


_IN_BLOCKS: Final = _back(_of("conv", _BLOCKS, y, padding=q, dilation=d))
_QUANTIZED_IN_BLOCKS: Final = _back(op.qnn.conv2d(_BLOCKS, y, c, z, s, t, attrs=a, padding=q, dilation=d))


class Windows(RuleSet):
    """Makes paddings part of the convolutions and poolings behind them, and convolutions of blocks that are moved into the batch, and back,
    dilated convolutions."""

    convolution = (
        (_of("conv", _PADDED, y, padding=q) >> _of("conv", x, y, padding=_JOINED))
        .when(is_zero(v, x), pads_space(p, q, a, x, _RANK))
        .lowering()
        .inexact(_SUMS)
    )
    quantized = (
        (op.qnn.conv2d(_PADDED, y, c, z, s, t, attrs=a, padding=q) >> op.qnn.conv2d(x, y, c, z, s, t, attrs=a, padding=_JOINED))
        .when(pads_with(v, c), pads_space(p, q, a, x, 2))
        .lowering()
    )
    mean = (
        (
            _of("avg_pool", _PADDED, padding=q, ceil_mode=False)
            >> _of("avg_pool", x, padding=_JOINED, ceil_mode=False, count_include_pad=True)
        )
        .when(is_zero(v, x), fits_window(p, q, a, x, _RANK), counts_padding(q, a), has_plane(x))
        .lowering()
        .inexact(_SUMS)
    )
    maximum = (
        (_of("max_pool", _PADDED, padding=q, ceil_mode=False) >> _of("max_pool", x, padding=_JOINED, ceil_mode=False))
        .when(is_least(v, x), fits_window(p, q, a, x, _RANK), has_plane(x))
        .lowering()
    )
    finite_maximum = (
        (_of("max_pool", _PADDED, padding=q, ceil_mode=False) >> _of("max_pool", x, padding=_JOINED, ceil_mode=False))
        .when(is_least_finite(v, x), fits_window(p, q, a, x, _RANK), has_plane(x))
        .lowering()
        .finite("a maximum of infinities is infinite without the padding")
    )
    dilated_convolution = (
        (_IN_BLOCKS >> _of("conv", x, y, **_ATTRS))
        .when(is_zero(v, x), dilates(b, k, p, q, a, x, _RANK), leaves_some(k, _IN_BLOCKS))
        .lowering()
        .inexact(_SUMS)
    )
    dilated_quantized = (
        (_QUANTIZED_IN_BLOCKS >> op.qnn.conv2d(x, y, c, z, s, t, attrs=a, **_ATTRS))
        .when(pads_with(v, c), dilates(b, k, p, q, a, x, 2), leaves_some(k, _QUANTIZED_IN_BLOCKS))
        .lowering()
    )
