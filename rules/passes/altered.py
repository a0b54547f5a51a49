"""Calls altered by functions that users register for operators (FTVMAlterOpLayout). They are arbitrary Python, so this is a walk."""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.infer_error import InferError
from passat.ir.op import Op, OpTypeError
from passat.ir.ops.blocked_convolution import contrib_conv2d_nchwc
from passat.ir.ops.blocked_layouts import has_blocks, in_layout, joined_shape, split_shape, without_blocks
from passat.ir.ops.convolution import CONVOLUTIONS
from passat.ir.traverse import rewrite
from passat.ir.types import Type, compatible, tensor_type

ATTRIBUTE: Final = "FTVMAlterOpLayout"
_CONVOLUTIONS: Final = (CONVOLUTIONS[2], contrib_conv2d_nchwc)
"""The convolution of whole axes and that of blocks, which the layout alone distinguishes."""
Layouts = dict[str, tuple[str, ...]]


def altered_by_attribute(function: Function) -> tuple[Function, Layouts]:
    """The function with what the registered functions return in place of calls, and the layouts that they chose, by operator.

    A registered function gets the attributes, the arguments, their types and that of the call. With None the call stays. Where it returns a
    call with other layouts on the same arguments, these and the result are transposed, and reshaped where a layout has blocks (NCHW16c);
    where blocks do not divide an axis, the call stays. Raises TypeError for what it returns otherwise.
    """
    layouts: Layouts = {}
    infer_type(function)

    def alter(old: Expr, made: Expr) -> Expr:
        registered = _registered(old.op) if isinstance(old, Call) and isinstance(old.op, Op) else None
        if registered is None or not isinstance(made, Call) or not isinstance(old, Call):
            return made
        found = registered(made.attrs, list(made.args), [arg.checked_type for arg in old.args], old.checked_type)
        if found is None:
            return made
        if not isinstance(found, Expr):
            raise TypeError(f"{ATTRIBUTE} of {made.op!r} returns an expression or None, not a {type(found).__name__}")
        if isinstance(found, Call) and (found.op is made.op or {found.op, made.op} <= {*_CONVOLUTIONS}):
            found = _laid_out(made, found, [arg.checked_type for arg in old.args], layouts)
        if not compatible(infer_type(found).checked_type, old.checked_type):
            raise TypeError(f"{ATTRIBUTE} of {made.op!r} made {found.checked_type!r} of {old.checked_type!r}")
        return found

    result = rewrite(function, alter)
    assert isinstance(result, Function)
    return (function if result is function else _inferred(result)), layouts


def _registered(op: Op) -> AnyValue:
    """The function for calls of an operator; that of `nn.conv2d` also alters convolutions of blocks, which are calls of it in Relay."""
    found = op.get_attr(ATTRIBUTE)
    return _CONVOLUTIONS[0].get_attr(ATTRIBUTE) if found is None and op is contrib_conv2d_nchwc else found


def _inferred(function: Function) -> Function:
    infer_type(function)
    return function


def _laid_out(before: Call, after: Call, types: Sequence[Type], layouts: Layouts) -> Expr:
    """A call in other layouts, on operands in those before, and with its result in the one before."""
    names = [name for name in ("data_layout", "kernel_layout") if name in before.attrs] or ["layout"]
    pairs = [(before.attrs[name], after.attrs[name]) for name in names if name in before.attrs and name in after.attrs]
    if not pairs or all(now == wanted for now, wanted in pairs):
        return after
    try:
        for type_, (now, wanted) in zip(types, pairs, strict=False):
            whole = dict(zip(without_blocks(now), joined_shape(tensor_type(type_).shape, now), strict=True))
            split_shape(tuple(whole[letter] for letter in without_blocks(wanted)), wanted)
        operands = [in_layout(arg, *pairs[i]) if i < len(pairs) else arg for i, arg in enumerate(after.args)]
        result = in_layout(Call(after.op, operands, after.attrs, span=after.span), *reversed(pairs[0]))
        infer_type(result)
    except (OpTypeError, InferError, KeyError):
        return before
    assert isinstance(after.op, Op)
    if not any(has_blocks(layout) for pair in pairs for layout in pair):
        layouts[after.op.name] = tuple(wanted for _, wanted in pairs)
    return result
