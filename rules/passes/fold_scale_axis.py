"""Relay's ForwardFoldScaleAxis and BackwardFoldScaleAxis, under Relay's names. They are walks, not rules: a scale moves only if every use
of the tensors between it and a product allows it. (The rules of `ForwardScaleAxis` and `BackwardScaleAxis` move scales where that is
cheaper.)"""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import IntEnum
from math import prod
from typing import Final, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np

from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.expr import Call, Constant, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, call_op, get_op
from passat.ir.ops.blocked_layouts import names_of
from passat.ir.ops.blocked_windows import BLOCKED
from passat.ir.ops.convolution import CONVOLUTIONS
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, rewrite, with_children
from passat.ir.types import TensorType, tensor_type
from passat.passmgr import FunctionPass, PassContext, PassInfo
from passat.rules.rule import EXACT

Axes: TypeAlias = tuple[int, ...]
_RECTIFIERS: Final = ("nn.relu", "nn.leaky_relu")
_SUMS: Final = ("add", "subtract")
_CONVOLUTIONS: Final = frozenset(of for each in CONVOLUTIONS.values() for of in (each, BLOCKED.get(each, each)))


class Sign(IntEnum):
    """The sign that a scale must have to commute with the operators between it and a product."""

    ANY = 0
    NONZERO = 1
    POSITIVE = 2


class Demand(NamedTuple):
    """The axes along which a scale of a tensor can move, and the sign that the scale must have."""

    axes: Axes
    sign: Sign = Sign.ANY


class Scale(NamedTuple):
    """The value of a scale, with one axis for each scaled axis of a tensor, and these axes."""

    value: Expr
    axes: Axes


class FoldScales(FunctionPass):
    """Moves scales into the weights of products. A scale is an operand of `multiply` that varies only along the channels. Changes rounding,
    so nothing moves if `rules.math` is `exact`."""

    def __init__(self, name: str, walk: Callable[[Function], tuple[Function, int]]) -> None:
        counters = {"moved": "scales that were moved into weights"}
        self.info = PassInfo(3, name, ["InferType"], provides=("types",), preserves=("types",), counters=counters)
        self._walk = walk

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Moves the scales of one function."""
        if ctx.get_config("rules.math") == EXACT:
            return func
        made, count = self._walk(func)
        if not count:
            return func
        ctx.record(self.info.name, "moved", count)
        return infer_type(made)


def fold_forward(function: Function) -> tuple[Function, int]:
    """The function with scales moved into the weights of following products, past rectifiers and sums, and the number of these scales. A
    scale moves if all uses of the scaled tensor lead to such products."""
    order = _order(function)
    wanted: dict[int, Demand | None] = {}
    for node in reversed(order):
        for part, demand in zip(children(node), _demands(node, wanted.get(id(node))), strict=True):
            wanted[id(part)] = _both(wanted[id(part)], demand) if id(part) in wanted else demand
    scales: dict[int, Scale] = {}
    count = 0

    def move(node: Expr, made: Expr) -> Expr:
        nonlocal count
        if not isinstance(made, Call) or not isinstance(node, Call) or not isinstance(node.op, Op):
            return made
        demand = wanted.get(id(node))
        if node.op.name == "multiply" and demand is not None:
            for place in (0, 1):
                if _is_factor(node, place, demand):
                    whole, other = _type(node.args[place]), node.args[1 - place]
                    scales[id(node)] = Scale(_squeezed(made.args[1 - place], _type(other), whole, demand.axes), demand.axes)
                    count += 1
                    return made.args[place]
            return made
        for at, arg in enumerate(node.args):
            if (scale := scales.get(id(arg))) is not None:
                if not _is_product(node):
                    scales[id(node)] = scale
                return _after(node, made, at, scale)
        return made

    return rewrite(function, move, into=lambda part: not is_sealed(part)), count


def _demands(node: Expr, demand: Demand | None) -> Sequence[Demand | None]:
    """The demand on each part of an expression; `demand` is the common demand of all uses of the expression."""
    nothing: list[Demand | None] = [None] * len(children(node))
    if is_sealed(node) or not isinstance(node, Call) or not isinstance(node.op, Op):
        return nothing
    if _is_product(node):
        axes = _product_axes(node, forward=True)
        nothing[1] = axes and Demand(axes[0])
    elif demand is not None and node.op.name in _RECTIFIERS:
        nothing[1] = Demand(demand.axes, Sign.POSITIVE)
    elif demand is not None and node.op.name in _SUMS:
        at = _shifted(node, demand.axes)
        if at is not None:
            nothing[1 + at] = Demand(demand.axes, max(demand.sign, Sign.NONZERO))
    return nothing


def _after(node: Call, made: Call, at: int, scale: Scale) -> Call:
    """The call on an operand without its scale: a product with the scale in its weight, or a call whose result is not scaled either."""
    args = list(made.args)
    if _is_product(node):
        found = _product_axes(node, forward=True)
        assert found is not None
        args[1] = call_op("multiply", args[1], _along(scale, _type(node.args[1]), found[1]))
    elif len(args) == 2:
        args[1 - at] = call_op("divide", args[1 - at], _along(scale, _type(node.args[at]), scale.axes))
    return _with_args(made, args)


def fold_backward(function: Function) -> tuple[Function, int]:
    """The function with scales moved into the weights of preceding products, past rectifiers, biases and sums, and the number of these
    scales. A scale moves if the tensors between it and the product have no other uses."""
    order = _order(function)
    uses = Counter(id(part) for node in order if not is_sealed(node) for part in children(node))
    able: dict[int, Demand] = {}
    sides: dict[int, Sequence[int]] = {}
    for node in order:
        if uses[id(node)] == 1 and isinstance(node, Call) and isinstance(node.op, Op):
            found = _able(node, [able.get(id(arg)) for arg in node.args])
            if found is not None:
                able[id(node)], sides[id(node)] = found
    origin: dict[int, tuple[Call, int]] = {}
    factors: dict[int, int] = {}
    for node in reversed(order):
        if not isinstance(node, Call):
            continue
        if id(node) in origin:
            for place in sides[id(node)]:
                origin[id(node.args[place])] = origin[id(node)]
        elif isinstance(node.op, Op) and node.op.name == "multiply":
            for place, arg in enumerate(node.args):
                demand = able.get(id(arg))
                if demand is not None and _is_factor(node, place, demand):
                    factors[id(node)], origin[id(arg)] = place, (node, place)
                    break
    done: dict[int, Expr] = {}
    scales: dict[int, Scale] = {}

    def needed(node: Expr) -> Sequence[Expr]:
        """The parts, and the scale that moves to a call. There is no cycle, since the result of the call is used only for the product with
        the scale."""
        whole, place = origin.get(id(node), (None, 0))
        return children(node) if whole is None else (*children(node), whole.args[1 - place])

    for node in post_order(function, into=lambda part: not is_sealed(part), parts_of=needed):
        made = node if is_sealed(node) else with_children(node, [done[id(part)] for part in children(node)])
        if id(node) in factors:
            assert isinstance(made, Call)
            made = made.args[factors[id(node)]]
        elif id(node) in origin:
            assert isinstance(made, Call)
            assert isinstance(node, Call)
            whole, place = origin[id(node)]
            if id(whole) not in scales:
                axes = able[id(whole.args[place])].axes
                other = whole.args[1 - place]
                scales[id(whole)] = Scale(_squeezed(done[id(other)], _type(other), _type(whole), axes), axes)
            made = _before(node, made, scales[id(whole)], sides[id(node)])
        done[id(node)] = made
    result = done[id(function)]
    assert isinstance(result, Function)
    return result, len(factors)


def _able(call: Call, found: Sequence[Demand | None]) -> tuple[Demand, Sequence[int]] | None:
    """The demand that a scale of the result must meet to move to the operands, and the operands that are scaled as a whole. `found` has the
    demands of the operands. None if no scale can move."""
    assert isinstance(call.op, Op)
    if _is_product(call):
        axes = _product_axes(call, forward=False)
        return axes and (Demand(axes[0]), ())
    first = found[0] if found else None
    if call.op.name in _RECTIFIERS:
        return first and (Demand(first.axes, Sign.POSITIVE), (0,))
    if call.op.name == "nn.bias_add":
        return (first, (0,)) if first is not None and first.axes == (call.attrs.axis % _type(call).ndim,) else None
    if call.op.name not in _SUMS:
        return None
    both, types = _both(*found), [_type(arg) for arg in call.args]
    if both is not None and types[0].ndim == types[1].ndim and _agree(types[0], types[1], both.axes, both.axes):
        return both, (0, 1)
    for place, demand in enumerate(found):
        if demand is not None and _fits(types[place], types[1 - place], demand.axes):
            return demand, (place,)
    return None


def _before(node: Call, made: Call, scale: Scale, sides: Sequence[int]) -> Call:
    """The call with a scaled result; its operands `sides` are already scaled."""
    args = list(made.args)
    if _is_product(node):
        found = _product_axes(node, forward=False)
        assert found is not None
        args[1] = call_op("multiply", args[1], _along(scale, _type(node.args[1]), found[1]))
    elif made.op is get_op("nn.bias_add"):
        args[1] = call_op("multiply", args[1], scale.value)
    elif len(args) == 2 and len(sides) == 1:
        args[1 - sides[0]] = call_op("multiply", args[1 - sides[0]], _along(scale, _type(node), scale.axes))
    return _with_args(made, args)


def _with_args(call: Call, args: Sequence[Expr]) -> Call:
    made = with_children(call, [call.op, *args])
    assert isinstance(made, Call)
    return made


def _order(function: Function) -> list[Expr]:
    return post_order(function, into=lambda part: not is_sealed(part))


def _both(first: Demand | None, second: Demand | None) -> Demand | None:
    """The demand that implies two demands; None if there is none. A product folds a scale only along all of its channels, so demands on
    different axes are incompatible."""
    if first is None or second is None or first.axes != second.axes:
        return None
    return Demand(first.axes, max(first.sign, second.sign))


def _is_product(call: Call) -> bool:
    return call.op in _CONVOLUTIONS or call.op is get_op("nn.dense")


def _product_axes(call: Call, *, forward: bool) -> tuple[Axes, Axes] | None:
    """The channel axes of a product's data (or result, if not `forward`), including those of blocks, and the corresponding axes of its
    weight. None if the weight cannot be scaled along them, such as along the input channels of groups with several channels."""
    whole, weight, attrs = _type_of(call.args[0] if forward else call), _type_of(call.args[1]), call.attrs
    if whole is None or weight is None or whole.dtype not in FLOATS:
        return None
    if "groups" in attrs:
        found = _channels(attrs.data_layout, "C")
        own = _channels(attrs.kernel_layout, "O" if not forward or attrs.groups > 1 else "I")
    else:
        found, own = (whole.ndim - 1,), (1 if forward else 0,)
    count = _count(whole, found)
    if not found or not own or count is None or count != _count(weight, own):
        return None
    return None if forward and attrs.get("groups", 1) not in (1, count) else (found, own)


def _channels(layout: str, letter: str) -> Axes:
    """The positions of an axis and its blocks in a layout, outer ones first; empty if blocks come before the axis."""
    found = [(axis, name) for axis, name in enumerate(names_of(layout)) if name[0].upper() == letter]
    return tuple(axis for axis, _ in found) if found and found[0][1] == letter else ()


def _is_factor(node: Call, place: int, demand: Demand) -> bool:
    """True if a `multiply` scales its operand `place` as the demand requires."""
    whole, other = (_type_of(node.args[at]) for at in (place, 1 - place))
    if whole is None or other is None or not _has_sign(node.args[1 - place], demand.sign):
        return False
    return other.ndim == 0 or _fits(whole, other, demand.axes)


def _shifted(node: Call, axes: Axes) -> int | None:
    """The operand of a sum that the other one shifts: the other one varies only along these axes, and does not change the shape. None if
    neither does."""
    one, other = map(_type_of, node.args)
    if one is None or other is None:
        return None
    return 0 if _fits(one, other, axes) else 1 if _fits(other, one, axes) else None


def _fits(whole: TensorType, other: TensorType, axes: Axes) -> bool:
    """True if `other` has the sizes of `whole` along these axes, and size 1 along all others."""
    missing = whole.ndim - other.ndim
    if missing < 0 or axes[0] < missing:
        return False
    kept = [axis - missing for axis in axes]
    return _agree(whole, other, axes, kept) and all(size == 1 for axis, size in enumerate(other.shape) if axis not in kept)


def _has_sign(scale: Expr, sign: Sign) -> bool:
    """True if all elements of a scale are known to have the sign, to be finite, and to be large enough to divide by."""
    if sign is Sign.ANY:
        return True
    while isinstance(scale, Call) and isinstance(scale.op, Op) and scale.op.movement and len(scale.args) == 1:
        scale = scale.args[0]
    if not isinstance(scale, Constant):
        return False
    values = scale.data.numpy().astype(np.float64)
    least = float(ml_dtypes.finfo(to_numpy(scale.data.dtype)).smallest_normal)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    sized = values if sign is Sign.POSITIVE else np.abs(values)
    return bool(np.all(sized >= least) and np.all(np.isfinite(values)))


def _squeezed(scale: Expr, type_: TensorType, whole: TensorType, axes: Axes) -> Expr:
    """A scale that broadcasts to a tensor, reduced to the axes `axes`."""
    if type_.ndim == 0:
        scale = call_op("expand_dims", scale, axis=0, num_newaxis=len(axes))
        for place, axis in enumerate(axes):
            scale = call_op("repeat", scale, repeats=whole.shape[axis], axis=place)
        return scale
    kept = {axis - (whole.ndim - type_.ndim) for axis in axes}
    dropped = tuple(axis for axis in range(type_.ndim) if axis not in kept)
    return call_op("squeeze", scale, axis=dropped) if dropped else scale


def _along(scale: Scale, type_: TensorType, axes: Axes) -> Expr:
    """A scale reshaped so that it broadcasts to a tensor along these axes."""
    if len(axes) == len(scale.axes) == 1:
        behind = type_.ndim - axes[0] - 1
        return call_op("expand_dims", scale.value, axis=1, num_newaxis=behind) if behind else scale.value
    return call_op("reshape", scale.value, newshape=tuple(size if axis in axes else 1 for axis, size in enumerate(type_.shape)))


def _agree(first: TensorType, second: TensorType, axes: Sequence[int], others: Sequence[int]) -> bool:
    """True if the given axes of two tensors have the same sizes, all of which are known."""
    pairs = [(first.shape[axis], second.shape[other]) for axis, other in zip(axes, others, strict=True)]
    return all(isinstance(size, int) and size == other for size, other in pairs)


def _count(type_: TensorType, axes: Axes) -> int | None:
    """The number of elements along axes of known sizes."""
    sizes = [type_.shape[axis] for axis in axes]
    return prod(size for size in sizes if isinstance(size, int)) if all(isinstance(size, int) for size in sizes) else None


def _type_of(expr: Expr) -> TensorType | None:
    found = expr.checked_type
    return found if isinstance(found, TensorType) else None


def _type(expr: Expr) -> TensorType:
    return tensor_type(expr.checked_type)
