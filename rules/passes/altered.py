"""Calls altered by functions that users register for operators (FTVMAlterOpLayout). They are arbitrary Python, so this is a walk."""

from typing import Final

from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.op import Op
from passat.ir.ops.movement import transpose
from passat.ir.ops.windows import axes_of
from passat.ir.traverse import rewrite
from passat.ir.types import compatible

ATTRIBUTE: Final = "FTVMAlterOpLayout"
Layouts = dict[str, tuple[str, ...]]


def altered_by_attribute(function: Function) -> tuple[Function, Layouts]:
    """The function with what the registered functions return in place of calls, and the layouts that they chose, by operator.

    A registered function gets the attributes, the arguments, their types and that of the call. With None the call stays. Where it returns a
    call with other layouts on the same arguments, these and the result are transposed; where a layout has blocks (NCHW16c), the call stays.
    Raises TypeError for what it returns otherwise.
    """
    layouts: Layouts = {}
    infer_type(function)

    def alter(old: Expr, made: Expr) -> Expr:
        registered = old.op.get_attr(ATTRIBUTE) if isinstance(old, Call) and isinstance(old.op, Op) else None
        if registered is None or not isinstance(made, Call) or not isinstance(old, Call):
            return made
        found = registered(made.attrs, list(made.args), [arg.checked_type for arg in old.args], old.checked_type)
        if found is None:
            return made
        if not isinstance(found, Expr):
            raise TypeError(f"{ATTRIBUTE} of {made.op!r} returns an expression or None, not a {type(found).__name__}")
        if isinstance(found, Call) and found.op is made.op:
            found = _transposed(made, found, layouts)
        if not compatible(infer_type(found).checked_type, old.checked_type):
            raise TypeError(f"{ATTRIBUTE} of {made.op!r} made {found.checked_type!r} of {old.checked_type!r}")
        return found

    result = rewrite(function, alter)
    assert isinstance(result, Function)
    return (function if result is function else _inferred(result)), layouts


def _inferred(function: Function) -> Function:
    infer_type(function)
    return function


def _transposed(before: Call, after: Call, layouts: Layouts) -> Expr:
    """A call in other layouts, on operands in those before, and with its result in the one before."""
    names = [name for name in ("data_layout", "kernel_layout") if name in before.attrs] or ["layout"]
    if any(name not in before.attrs for name in names) or all(before.attrs[name] == after.attrs[name] for name in names):
        return after
    if any(sorted(before.attrs[name]) != sorted(after.attrs[name]) for name in names):
        return before
    assert isinstance(after.op, Op)
    layouts[after.op.name] = tuple(after.attrs[name] for name in names)
    operands = [arg if i >= len(names) else _turned(arg, before.attrs[names[i]], after.attrs[names[i]]) for i, arg in enumerate(after.args)]
    return _turned(Call(after.op, operands, after.attrs, span=after.span), after.attrs[names[0]], before.attrs[names[0]])


def _turned(expr: Expr, now: str, wanted: str) -> Expr:
    return expr if now == wanted else transpose(expr, axes=axes_of(now, wanted))
