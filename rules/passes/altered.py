"""Calls altered by functions that users register for operators (FTVMAlterOpLayout), and calls converted to layouts with blocks.

A walk, not rules: the functions are arbitrary Python, and users request blocks regardless of cost.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.infer_error import InferError
from passat.ir.op import Op, OpTypeError
from passat.ir.ops.blocked_layouts import has_blocks, in_layout, joined_shape, split_shape, without_blocks
from passat.ir.ops.blocked_windows import WHOLE, fitting
from passat.ir.traverse import rewrite
from passat.ir.types import Type, compatible, tensor_type

ATTRIBUTE: Final = "FTVMAlterOpLayout"
Layouts = dict[str, tuple[str, ...]]


Chooser = Callable[[Call, Call], Expr | None]
"""Chooses the replacement of a call, or None to keep it. Gets the original call, and the call on altered operands."""


def altered_by_attribute(function: Function) -> tuple[Function, Layouts]:
    """The function with calls replaced by the results of registered functions, and the layouts that these chose, by operator.

    A registered function gets the attributes, the arguments, their types and the type of the call. It returns an expression, or None to
    keep the call. Raises TypeError if it returns anything else.
    """

    def choose(old: Call, made: Call) -> Expr | None:
        registered = _registered(old.op) if isinstance(old.op, Op) else None
        if registered is None:
            return None
        found: Expr | None = registered(made.attrs, list(made.args), [arg.checked_type for arg in old.args], old.checked_type)
        if found is not None and not isinstance(found, Expr):
            raise TypeError(f"{ATTRIBUTE} of {made.op!r} must return an expression or None, not a {type(found).__name__}")
        return found

    return _altered(function, choose)


def converted(function: Function, wanted: Mapping[str, Sequence[str]]) -> Function:
    """The function with calls converted to the given layouts of data and weights. Keeps calls with axes that blocks do not divide."""

    def choose(old: Call, made: Call) -> Expr | None:
        layouts = wanted.get(whole_op(old.op).name) if isinstance(old.op, Op) else None
        if layouts is None:
            return None
        names = [name for name in ("data_layout", "layout", "kernel_layout") if name in made.attrs]
        attrs = Attrs(made.attrs, **dict(zip(names, layouts, strict=False)))
        return Call(fitting(whole_op(old.op), *(attrs[name] for name in names)), made.args, attrs, span=made.span)

    return _altered(function, choose)[0]


def _altered(function: Function, choose: Chooser) -> tuple[Function, Layouts]:
    """The function with the chosen replacements of calls, and the layouts of calls without blocks, by operator.

    If the replacement is the same call in other layouts, the arguments and the result are converted between the layouts, unless blocks do
    not divide an axis. Raises TypeError for a replacement of another type.
    """
    layouts: Layouts = {}
    infer_type(function)

    def alter(old: Expr, made: Expr) -> Expr:
        found = choose(old, made) if isinstance(old, Call) and isinstance(made, Call) else None
        if found is None or not isinstance(old, Call) or not isinstance(made, Call):
            return made
        if isinstance(found, Call) and isinstance(found.op, Op) and whole_op(found.op) is whole_op(made.op):
            found = _laid_out(made, found, [arg.checked_type for arg in old.args], layouts)
        if not compatible(infer_type(found).checked_type, old.checked_type):
            raise TypeError(f"{ATTRIBUTE} of {made.op!r} returned type {found.checked_type!r} for a call of type {old.checked_type!r}")
        return found

    result = rewrite(function, alter)
    return (function if result is function else infer_type(result)), layouts


def whole_op(op: AnyValue) -> Op:
    """The operator on whole axes for an operator on blocks (they are one operator in Relay); any other operator itself."""
    found: Op = WHOLE.get(op, op)
    return found


def _registered(op: Op) -> AnyValue:
    """The registered function of an operator. A function registered for the operator on whole axes also applies to the one on blocks."""
    found = op.get_attr(ATTRIBUTE)
    return whole_op(op).get_attr(ATTRIBUTE) if found is None else found


def _laid_out(before: Call, after: Call, types: Sequence[Type], layouts: Layouts) -> Expr:
    """A call in other layouts, with operands and result converted from and to the previous layouts."""
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
