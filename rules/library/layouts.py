"""Convolutions and poolings in other layouts. Operators: nn.conv*d nn.conv*d_transpose nn.max_pool*d nn.avg_pool*d nn.global_*_pool*d
transpose.

A convolution of transposed data by a transposed weight, transposed back, is the convolution. Which layout is better is for a cost model to
say (`passat.rules.passes.layouts`), so the rules explore. How the transposes then move until they cancel: `data_movement`
and `passat.rules.library.layout_passages`. Relay's ConvertLayout and AlterOpLayout.
"""

from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.op import Op, OpTypeError, list_ops
from passat.ir.ops.windows import SPATIAL, axes_of
from passat.rules.conditions import Term, computed, condition
from passat.rules.operator_hole import OperatorHole, operator
from passat.rules.pattern import RuleError, attributes, op, tensors
from passat.rules.rule import Rule, RuleSet

x, w = tensors("x w")
(a,) = attributes("a")
DEFAULT: Final = "default"
"""The kernel layout that goes with a data layout."""
LAST: Final = "channels last"
FIRST: Final = "channels first"
"""The data layout of each operator in which the channels are the last axis, or axis 1."""
CONVOLUTIONS: Final = {of.name: of for of in list_ops() if "kernel_layout" in of.attr_params}
POOLINGS: Final = {of.name: of for of in list_ops() if "layout" in of.attr_params}


def data_attribute(name: str) -> str:
    """The attribute that says how the data of an operator are laid out."""
    return "data_layout" if name in CONVOLUTIONS else "layout"


def _letters(name: str) -> str:
    """The data layout that an operator has where nothing is said."""
    found: str = (CONVOLUTIONS | POOLINGS)[name].defaults[data_attribute(name)]
    return found


def channels_last(of: Op) -> str:
    """The data layout of an operator in which the channels are the last axis."""
    return f"N{_letters(of.name)[2:]}C"


def channels_first(of: Op) -> str:
    """The data layout of an operator in which the channels are axis 1."""
    return _letters(of.name)


def check_layouts(name: str, data: str, kernel: str = DEFAULT) -> None:
    """Raises RuleError where an operator has no layouts, or not these."""
    if name not in CONVOLUTIONS and name not in POOLINGS:
        raise RuleError(f"{name} has no layouts; those that have are {', '.join([*CONVOLUTIONS, *POOLINGS])}")
    try:
        axes_of(data, _letters(name))
        if kernel != DEFAULT:
            if name in POOLINGS:
                raise RuleError(f"{name} has no kernel, and so no kernel layout {kernel!r}")
            axes_of(kernel, "OI" + SPATIAL[len(data) - 2])
        elif name in CONVOLUTIONS:
            kernel_layout(name, data, kernel, depthwise=False)
    except OpTypeError as error:
        raise RuleError(f"{name}: {error}") from None


def kernel_layout(name: str, data: str, kernel: str, *, depthwise: bool) -> str:
    """The layout of a weight that goes with a data layout, where none is named: outputs first (inputs, of transposed convolutions) where
    channels are axis 1, and last where they are last; HWOI for HWNC, and of depthwise convolutions over planes. Raises RuleError."""
    places = _letters(name)[2:]
    if kernel != DEFAULT:
        return kernel
    if data == f"NC{places}":
        return ("IO" if name.endswith("transpose") else "OI") + places
    if data == f"N{places}C":
        return places + ("OI" if depthwise and name == "nn.conv2d" else "IO")
    if data == "HWNC":
        return "HWOI"
    raise RuleError(f"{name}: no kernel layout goes with the data layout {data}; name one")


def is_depthwise(attrs: Attrs, shape: tuple[AnyValue, ...]) -> bool:
    """Whether each channel of a convolution whose weight has that shape is convolved by itself."""
    layout = attrs["kernel_layout"]
    outputs, inputs = shape[layout.index("O")], shape[layout.index("I")]
    return bool(attrs["groups"] > 1 and outputs == attrs["groups"] and inputs == 1)


def wanted(name: str, attrs: Attrs, shape: tuple[AnyValue, ...] | None, data: str, kernel: str) -> dict[str, str]:
    """The attributes of a call in these layouts; `shape` is that of the weight of a convolution, where it is known."""
    if name in POOLINGS:
        return {"layout": data}
    depthwise = shape is not None and is_depthwise(attrs, shape)
    return {"data_layout": data, "kernel_layout": kernel_layout(name, data, kernel, depthwise=depthwise)}


def _named(layout: str, of: Op) -> str:
    return {LAST: channels_last, FIRST: channels_first}[layout](of) if layout in (LAST, FIRST) else layout


@condition
def is_laid_out_otherwise(attrs: Attrs, w: Term | None, of: Op, data: str, kernel: str) -> bool | str:
    """The convolution or pooling is not in these layouts yet."""
    goal = wanted(of.name, attrs, None if w is None else w.type.shape, _named(data, of), kernel)
    return any(attrs[key] != layout for key, layout in goal.items()) or f"it is in {_named(data, of)} already"


@computed
def in_layout(attrs: Attrs, w: Term | None, of: Op, data: str, kernel: str) -> Attrs:
    """The attributes of the call in these layouts."""
    return Attrs(attrs, **wanted(of.name, attrs, None if w is None else w.type.shape, _named(data, of), kernel))


@computed
def to_layout(attrs: Attrs, of: Op, layout: str) -> tuple[int, ...]:
    """The permutation of a tensor that lays it out so."""
    return axes_of(attrs[data_attribute(of.name)], _named(layout, of))


@computed
def from_layout(attrs: Attrs, of: Op, layout: str) -> tuple[int, ...]:
    """The permutation that undoes that."""
    return axes_of(_named(layout, of), attrs[data_attribute(of.name)])


@computed
def to_kernel_layout(attrs: Attrs, w: Term, of: Op, data: str, kernel: str) -> tuple[int, ...]:
    """The permutation of a weight that lays it out so."""
    return axes_of(attrs["kernel_layout"], wanted(of.name, attrs, w.type.shape, _named(data, of), kernel)["kernel_layout"])


def conversion(name: str, data: str, kernel: str = DEFAULT) -> Rule:
    """The rule that an operator may as well be in these layouts. Raises RuleError where it has not these."""
    check_layouts(name, data, kernel)
    return _of_pooling(operator("pool", name), data) if name in POOLINGS else _of_convolution(operator("conv", name), data, kernel)


def _of_convolution(conv: OperatorHole, data: str, kernel: str = DEFAULT) -> Rule:
    weight = op.transpose(w, axes=to_kernel_layout(a, w, conv, data, kernel))
    made = conv(op.transpose(x, axes=to_layout(a, conv, data)), weight, attrs=in_layout(a, w, conv, data, kernel))
    rule = conv(x, w, attrs=a) >> op.transpose(made, axes=from_layout(a, conv, data))
    return rule.when(is_laid_out_otherwise(a, w, conv, data, kernel)).exploring()


def _of_pooling(pool: OperatorHole, data: str) -> Rule:
    made = pool(op.transpose(x, axes=to_layout(a, pool, data)), attrs=in_layout(a, None, pool, data, DEFAULT))
    rule = pool(x, attrs=a) >> op.transpose(made, axes=from_layout(a, pool, data))
    return rule.when(is_laid_out_otherwise(a, None, pool, data, DEFAULT)).exploring()


conv, pool = operator("conv", *CONVOLUTIONS), operator("pool", *POOLINGS)


class ChannelsLast(RuleSet):
    """Convolutions and poolings of data whose channels are the last axis (NHWC)."""

    convolution = _of_convolution(conv, LAST)
    pooling = _of_pooling(pool, LAST)


class ChannelsFirst(RuleSet):
    """Convolutions and poolings of data whose channels are axis 1 (NCHW)."""

    convolution = _of_convolution(conv, FIRST)
    pooling = _of_pooling(pool, FIRST)
