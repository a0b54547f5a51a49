"""Convolutions and poolings in other layouts. Operators: nn.conv*d nn.conv*d_transpose nn.max_pool*d nn.avg_pool*d nn.global_*_pool*d
transpose.

A convolution of transposed data by a transposed weight, transposed back, is the convolution. Which layout is better is for a cost model to
say (`passat.rules.passes.layouts`), so the rules explore. How the transposes then move until they cancel: `passat.rules.library.passages`
and `passat.rules.library.layout_passages`. Relay's ConvertLayout and AlterOpLayout.
"""

from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.op import OpTypeError, list_ops
from passat.ir.ops.windows import SPATIAL, axes_of
from passat.rules.conditions import Term, computed, condition
from passat.rules.pattern import PCall, RuleError, attributes, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

x, w = tensors("x w")
(a,) = attributes("a")
DEFAULT: Final = "default"
"""The kernel layout that goes with a data layout."""
CONVOLUTIONS: Final = {of.name: of for of in list_ops() if "kernel_layout" in of.attr_params}
POOLINGS: Final = {of.name: of for of in list_ops() if "layout" in of.attr_params}


def data_attribute(name: str) -> str:
    """The attribute that says how the data of an operator are laid out."""
    return "data_layout" if name in CONVOLUTIONS else "layout"


def _letters(name: str) -> str:
    """The data layout that an operator has where nothing is said."""
    found: str = (CONVOLUTIONS | POOLINGS)[name].defaults[data_attribute(name)]
    return found


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


@condition
def is_laid_out_otherwise(attrs: Attrs, w: Term | None, name: str, data: str, kernel: str) -> bool | str:
    """The convolution or pooling is not in these layouts yet."""
    goal = wanted(name, attrs, None if w is None else w.type.shape, data, kernel)
    return any(attrs[key] != layout for key, layout in goal.items()) or f"it is in {data} already"


@computed
def in_layout(attrs: Attrs, w: Term | None, name: str, data: str, kernel: str) -> Attrs:
    """The attributes of the call in these layouts."""
    return Attrs(attrs, **wanted(name, attrs, None if w is None else w.type.shape, data, kernel))


@computed
def to_layout(attrs: Attrs, key: str, layout: str) -> tuple[int, ...]:
    """The permutation of a tensor that lays it out so."""
    return axes_of(attrs[key], layout)


@computed
def from_layout(attrs: Attrs, key: str, layout: str) -> tuple[int, ...]:
    """The permutation that undoes that."""
    return axes_of(layout, attrs[key])


@computed
def to_kernel_layout(attrs: Attrs, w: Term, name: str, data: str, kernel: str) -> tuple[int, ...]:
    """The permutation of a weight that lays it out so."""
    return axes_of(attrs["kernel_layout"], wanted(name, attrs, w.type.shape, data, kernel)["kernel_layout"])


def conversion(name: str, data: str, kernel: str = DEFAULT) -> Rule:
    """The rule that an operator may as well be in these layouts. Raises RuleError where it has not these."""
    check_layouts(name, data, kernel)
    key = data_attribute(name)
    turned = PCall(_TRANSPOSE, (x,), {"axes": to_layout(a, key, data)})
    if name in POOLINGS:
        pool = POOLINGS[name]
        made = PCall(pool, (turned,), {"attrs": in_layout(a, None, name, data, kernel)})
        rule = PCall(pool, (x,), {"attrs": a}) >> PCall(_TRANSPOSE, (made,), {"axes": from_layout(a, key, data)})
        return rule.when(is_laid_out_otherwise(a, None, name, data, kernel)).exploring()
    conv = CONVOLUTIONS[name]
    weight = PCall(_TRANSPOSE, (w,), {"axes": to_kernel_layout(a, w, name, data, kernel)})
    made = PCall(conv, (turned, weight), {"attrs": in_layout(a, w, name, data, kernel)})
    rule = PCall(conv, (x, w), {"attrs": a}) >> PCall(_TRANSPOSE, (made,), {"axes": from_layout(a, key, data)})
    return rule.when(is_laid_out_otherwise(a, w, name, data, kernel)).exploring()


_TRANSPOSE: Final = next(of for of in list_ops() if of.name == "transpose")


def _all(title: str, last: bool, doc: str) -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for name in (*CONVOLUTIONS, *POOLINGS):
        letters = _letters(name)
        rules[name.removeprefix("nn.")] = conversion(name, f"N{letters[2:]}C" if last else letters)
    return RuleSetMeta(title, (RuleSet,), {"__doc__": doc, **rules})


ChannelsLast = _all("ChannelsLast", True, "Convolutions and poolings of data whose channels are the last axis (NHWC).")
ChannelsFirst = _all("ChannelsFirst", False, "Convolutions and poolings of data whose channels are axis 1 (NCHW).")
