"""Substitutes expressions for free variables."""

from collections.abc import Mapping

from passat.ir.analysis import bound_vars, free_vars
from passat.ir.expr import Constant, Expr, Function, Var
from passat.ir.passat_error import PassatError
from passat.ir.traverse import children, post_order, with_children


class BindError(PassatError, ValueError, RuntimeError):
    """Several parameters have the same name, so that binding by name is ambiguous."""


def bind(expr: Expr, binds: Mapping[Var, Expr]) -> Expr:
    """Substitutes expressions for variables, as Relay's `bind` does. Returns the same object if none of them occurs.

    Bound parameters of a function are removed from its parameters, and free variables of the substituted expressions are appended to them.
    Raises ValueError for variables that are bound inside the expression.

    >>> from passat.ir.expr import const, var
    >>> x, y = var("x", "int8"), var("y", "int8")
    >>> bind(Function([x, y], x + y), {y: const(1, "int8")})
    fn (%x: int8) {
      add(%x, 1i8)
    }
    """
    if not isinstance(expr, Function):
        return _replaced(expr, binds, set(bound_vars(expr)))
    body = _replaced(expr.body, binds, set(bound_vars(expr.body)))
    params = [param for param in expr.params if param not in binds]
    if body is expr.body and len(params) == len(expr.params):
        return expr
    known = {*expr.params, *free_vars(expr)}
    bound = Function(params, body, expr.ret_type, expr.type_params, expr.attrs, expr.span)
    added = [var for var in free_vars(bound) if var not in known]
    return Function([*params, *added], body, expr.ret_type, expr.type_params, expr.attrs, expr.span) if added else bound


def bind_params_by_name(function: Function, params: Mapping[str, Expr]) -> Function:
    """Substitutes values (usually constants) for the parameters with the given names. Other names are ignored, as in Relay.

    Raises BindError if several parameters have the same name.
    """
    named: dict[str, Var] = {}
    for param in function.params:
        if param.name_hint in params and named.setdefault(param.name_hint, param) is not param:
            raise BindError(f"several parameters are called %{param.name_hint}; bind them by variable instead of by name")
    bound = bind(function, {var: params[name] for name, var in named.items()})
    assert isinstance(bound, Function)  # a function maps to a function
    return bound


def _replaced(expr: Expr, binds: Mapping[Var, Expr], bound: set[Var]) -> Expr:
    clashes = [var for var in binds if var in bound]
    if clashes:
        raise ValueError(f"the variable %{clashes[0].name_hint} is bound inside the expression and cannot be substituted")
    done: dict[Expr, Expr] = {}
    for node in post_order(expr):
        if isinstance(node, Var):
            done[node] = binds.get(node, node)
        elif isinstance(node, Constant):
            done[node] = node
        else:
            done[node] = with_children(node, [done[part] for part in children(node)])
    return done[expr]
