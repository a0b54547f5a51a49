"""Strategies of guards of layouts, windows and blocks: images, pools, paddings."""

import math
from collections.abc import Sequence

import numpy as np

from passat.ir.ops.blocked_layouts import joined_shape, without_blocks
from passat.ir.ops.windows import SPATIAL
from passat.rules.checking.sampler import Sampler
from passat.rules.library.batch_norm import scales_axis
from passat.rules.library.blocked_layouts import has_whole_axes, is_beside, leads_to_blocks, leads_to_whole_axes, leaves_blocks, returns
from passat.rules.library.exchanges import fits_inside, is_plain, mixes_channels
from passat.rules.library.layouts import has_part, lays_out, moves_blocks
from passat.rules.library.lowering import is_over_plane
from passat.rules.library.raising import are_groups, are_same_axes, is_about, is_epsilon, is_of_axes, is_per_channel, is_trailing
from passat.rules.library.windows import dilates, fits_window, is_least, is_least_finite, pads_space
from passat.rules.samples import Sample, Samples, always, strategy_for

# ---- layouts


@strategy_for(lays_out)
def _an_image(sampler: Sampler, axes: Sample, x: Sample) -> Samples:
    rank = len(x.shape) if x.shape is not None else sampler.pick((3, 4, 4, 5))
    if rank < 3:
        return None
    order = sampler.pick([(0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))])
    return [Sample(value=order), Sample(shape=x.shape or tuple(sampler.pick((1, 2, 2, 3)) for _ in range(rank)))]


@strategy_for(has_part)
def _enough_parts(sampler: Sampler, split: Sample, attrs: Sample, x: Sample, i: int) -> Samples:
    shape = x.shape or tuple(sampler.full() for _ in range(sampler.pick((3, 4))))
    axis = sampler.integer(0, len(shape) - 1)
    places = tuple(sorted(sampler.integer(0, shape[axis]) for _ in range(i + sampler.pick((0, 1)))))
    return [None, Sample(value={"axis": axis, "indices_or_sections": places}), Sample(shape=shape), None]


@strategy_for(moves_blocks)
def _channels_apart(sampler: Sampler, axes: Sample, x: Sample, whole: Sample) -> Samples:
    batch, height, width, groups, size = (sampler.pick((1, 2, 3)) for _ in range(5))
    shape = (batch, groups, size, height, width)
    return [Sample(value=(0, 3, 1, 2)), Sample(shape=(batch, height, width, groups * size)), Sample(shape=shape)]


# ---- blocked_layouts


@strategy_for(returns, leads_to_blocks, leads_to_whole_axes)
def _chained(sampler: Sampler, s: Sample, d: Sample, t: Sample, u: Sample) -> Samples:
    block = sampler.pick((1, 2, 3))
    whole, blocked = sampler.pick(("NCHW", "NHWC", "CHWN")), f"NCHW{block}c"
    first, last = sampler.pick((whole, blocked)), sampler.pick((whole, blocked, "HWNC", "NCHW2c", f"NHWC{block}c"))
    between = blocked if first == whole else whole
    return [Sample(value=value) for value in (first, between, between, last)]


@strategy_for(has_whole_axes)
def _turned(sampler: Sampler, layout: Sample, p: Sample) -> Samples:
    return [Sample(value=sampler.pick(("NCHW", "NHWC"))), Sample(value=sampler.pick(((0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3))))]


@strategy_for(leaves_blocks)
def _blocked_image(sampler: Sampler, s: Sample, d: Sample, x: Sample) -> Samples:
    block = sampler.pick((1, 2, 2, 3))
    shape = (sampler.pick((1, 2)), sampler.pick((1, 2, 2)), sampler.pick((2, 3, 4)), sampler.pick((2, 3, 4)), block)
    return [Sample(value=f"NCHW{block}c"), Sample(value=sampler.pick(("NCHW", "NCHW", "NHWC"))), Sample(shape=shape)]


@strategy_for(is_beside)
def _beside_blocks(sampler: Sampler, y: Sample, x: Sample, s: Sample, d: Sample, wider: bool) -> Samples:
    if x.shape is None or s.value is None or d.value is None:
        return None
    whole = dict(zip(without_blocks(s.value), joined_shape(x.shape, s.value), strict=True))
    shape = tuple(sampler.pick((whole[letter], whole[letter], 1)) for letter in d.value)
    return [Sample(shape=shape[sampler.pick((1, 2, 3)) :] if wider else shape), None, None, None, None]


# ---- windows


def _image(sampler: Sampler, rank: int) -> tuple[str, tuple[int, ...], tuple[tuple[int, int], ...]]:
    """A layout, a shape and widths of a padding of spatial axes."""
    letters = SPATIAL[rank]
    last = sampler.chance(0.4)
    sizes = [sampler.pick((2, 3, 4)) for _ in letters]
    pairs = [(sampler.pick((0, 1)), sampler.pick((0, 1))) for _ in letters]
    batch, channels = sampler.pick((1, 2)), sampler.pick((1, 2, 3))
    if last:
        return f"N{letters}C", (batch, *sizes, channels), ((0, 0), *pairs, (0, 0))
    return f"NC{letters}", (batch, channels, *sizes), ((0, 0), (0, 0), *pairs)


@strategy_for(pads_space)
def _window(sampler: Sampler, p: Sample, q: Sample, attrs: Sample, x: Sample, rank: int) -> Samples:
    layout, shape, widths = _image(sampler, rank)
    kernel = f"OI{SPATIAL[rank]}" if layout[1] == "C" else f"{SPATIAL[rank]}IO"
    said = {"data_layout": layout, "kernel_layout": kernel, "groups": 1, "channels": None, "kernel_size": None}
    return [Sample(value=widths), Sample(value=(sampler.pick((0, 1)),) * rank), Sample(value=said), Sample(shape), None]


@strategy_for(fits_window)
def _pool(sampler: Sampler, p: Sample, q: Sample, attrs: Sample, x: Sample, rank: int) -> Samples:
    layout, shape, widths = _image(sampler, rank)
    said = {"layout": layout, "pool_size": (2,) * rank, "dilation": (1,) * rank, "count_include_pad": sampler.chance(0.5)}
    return [Sample(value=widths), Sample(value=(sampler.pick((0, 0, 1)),) * rank), Sample(value=said), Sample(shape), None]


strategy_for(is_least)(always(Sample(value=-math.inf), Sample(dtype="float32")))
strategy_for(is_least_finite)(always(Sample(value=float(np.finfo(np.float32).min)), Sample(dtype="float32")))


@strategy_for(dilates)
def _dilated(sampler: Sampler, b: Sample, k: Sample, p: Sample, q: Sample, attrs: Sample, x: Sample, rank: int) -> Samples:
    letters = SPATIAL[rank]
    blocks = tuple(sampler.pick((1, 2, 3)) for _ in letters)
    sizes = [sampler.pick((2, 3, 4, 5)) for _ in letters]
    begins = [sampler.pick((0, block)) for block in blocks]
    rest = [-(size + begin) % block for size, begin, block in zip(sizes, begins, blocks, strict=True)]
    ends = [more + sampler.pick((0, block)) for more, block in zip(rest, blocks, strict=True)]
    kept = [(min(begin, sampler.pick((0, 1))), min(end, more)) for begin, end, more in zip(begins, ends, rest, strict=True)]
    said = {"data_layout": f"N{letters}C", "kernel_layout": f"{letters}IO", "groups": 1, "channels": None, "kernel_size": None}
    shape = (sampler.pick((1, 2)), *sizes, sampler.pick((1, 2, 3)))
    pairs = tuple(zip(begins, ends, strict=True))
    return [
        Sample(value=blocks),
        Sample(value=tuple(kept)),
        Sample(value=pairs),
        Sample(value=(0,) * rank),
        Sample(value=said),
        Sample(shape),
        None,
    ]


# ---- batch_norm


@strategy_for(scales_axis)
def _scaled_and_shifted(sampler: Sampler, attrs: Sample, whole: Sample, axis: int) -> Samples:
    return [Sample(value={"center": True, "scale": True, "axis": axis}), None]


# ---- lowering


@strategy_for(is_over_plane)
def _a_plane(sampler: Sampler, axis: Sample, x: Sample) -> Samples:
    shape = x.shape if x.shape is not None and len(x.shape) == 4 else tuple(sampler.full() for _ in range(4))
    return [Sample(value=sampler.pick([(2, 3), (3, 2), (-2, -1), (-1, 2)])), Sample(shape)]


# ---- exchanges


@strategy_for(fits_inside)
def _one_in_the_middle(sampler: Sampler, small: Sample, large: Sample, v: Sample, w: Sample) -> Samples:
    said = {"strides": sampler.integer(1, 2), "dilation": 1, "groups": 1, "channels": None, "kernel_size": None}
    layouts = {"data_layout": "NCHW", "kernel_layout": "OIHW"}
    outputs, inputs, margin = sampler.full(), sampler.full(), sampler.integer(0, 1)
    attrs = [Sample(value={**said, **layouts, "padding": (padding,) * 4}) for padding in (margin, margin + 1)]
    return [*attrs, Sample((outputs, inputs, 1, 1)), Sample((outputs, inputs, 3, 3))]


strategy_for(is_plain)(always(Sample(value={"groups": 1})))


@strategy_for(mixes_channels)
def _one_place(sampler: Sampler, attrs: Sample, v: Sample) -> Samples:
    """Without padding and strides; the kernel has as many axes as the weight, if they are known, or two."""
    rank = len(v.shape) - 2 if v.shape is not None and len(v.shape) > 2 else 0
    said = {"strides": 1, "padding": 0}
    return [Sample(value=said), Sample((*v.shape[:2], *(1,) * rank) if v.shape is not None and rank else None)]


# ---- raising


@strategy_for(is_epsilon)
def _an_epsilon(sampler: Sampler, c: Sample) -> Samples:
    return [Sample((1,) * sampler.pick((0, 0, 1)), "float32", elements=(sampler.pick((1e-5, 1e-3, 0.1, 0.0, 1e-12)),))]


@strategy_for(is_about)
def _about(sampler: Sampler, c: Sample, value: float, x: Sample) -> Samples:
    return [Sample((1,) * sampler.pick((0, 0, 0, 1)), elements=(value,)), None, None]


@strategy_for(is_trailing)
def _last_axes(sampler: Sampler, axis: Sample, x: Sample) -> Samples:
    shape = x.shape or sampler.shape(1)
    count = min(sampler.pick((1, 1, 2, 3)), len(shape))
    return [Sample(value=_named(sampler, range(len(shape) - count, len(shape)), len(shape))), Sample(shape)]


@strategy_for(are_same_axes)
def _same_axes(sampler: Sampler, one: Sample, other: Sample, x: Sample) -> Samples:
    if one.value is None or x.shape is None:
        return None
    axes = one.value if isinstance(one.value, tuple) else (one.value,)
    return [None, Sample(value=_named(sampler, axes, len(x.shape))), None]


def _named(sampler: Sampler, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Some axes in any order, each from the front or from the end."""
    order = sampler.generator.permutation(len(axes)) if sampler.chance(0.3) else range(len(axes))
    return tuple(axes[i] % rank - sampler.pick((0, 0, rank)) for i in order)


@strategy_for(is_of_axes)
def _of_axes(sampler: Sampler, g: Sample, x: Sample, axis: Sample) -> Samples:
    if x.shape is None or not isinstance(axis.value, tuple):
        return None
    return [Sample(x.shape[len(x.shape) - len(axis.value) :]), None, None]


@strategy_for(are_groups)
def _some_groups(sampler: Sampler, groups: Sample, x: Sample, whole: Sample) -> Samples:
    count, each, places = sampler.pick((1, 2, 2, 3)), sampler.full(), tuple(sampler.full() for _ in range(sampler.integer(1, 3)))
    data = (sampler.full(), count * each, *places)
    return [Sample((data[0], count, each * math.prod(places))), Sample(data), Sample(data)]


@strategy_for(is_per_channel)
def _one_for_each_channel(sampler: Sampler, c: Sample, x: Sample) -> Samples:
    if x.shape is None or len(x.shape) < 2:
        return None
    wanted = (x.shape[1], *(1,) * (len(x.shape) - 2))
    return [Sample(sampler.pick([wanted, (1, *wanted)]))]
