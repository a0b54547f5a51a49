"""Function literals that are called directly: their parameters get the types of the arguments."""

from collections.abc import Sequence
from typing import TypeGuard

from passat.ir.expr import Call, Expr, Function, Var
from passat.ir.infer_error import assume
from passat.ir.traverse import post_order, rewrite
from passat.ir.types import IncompleteType, Type


def takes_types(callee: Expr) -> TypeGuard[Function]:
    """Whether an expression is a function literal without a type, and with a parameter without a type."""
    return isinstance(callee, Function) and callee._checked_type is None and any(param._checked_type is None for param in callee.params)


def bind_params(function: Function, types: Sequence[Type]) -> None:
    """Gives the parameters of a called function literal the types of the arguments, unless they have types."""
    if len(function.params) == len(types):
        for param, type_ in zip(function.params, types, strict=True):
            if not isinstance(type_, IncompleteType):
                assume(param, type_)


def annotate_called(function: Expr) -> Expr:
    """Annotates the parameters of function literals that are called directly inside a function with inferred types. Returns the same object
    if no annotation is missing."""
    called = (node.op for node in post_order(function) if isinstance(node, Call) and isinstance(node.op, Function))
    fresh: dict[Expr, Expr] = {}
    for param in (param for literal in called for param in literal.params if param.type_annotation is None):
        if param._checked_type is not None and not isinstance(param._checked_type, IncompleteType):
            fresh[param] = Var(param.name_hint, param._checked_type, param.span)
    if not fresh:
        return function
    return rewrite(function, lambda old, new: fresh.get(old) or (new if new is old else new.assume_type(old._checked_type)))
