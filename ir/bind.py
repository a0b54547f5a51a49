"""Putting expressions in the place of free variables."""

from collections.abc import Mapping

from passat.ir.analysis import bound_vars, free_vars
from passat.ir.expr import Constant, Expr, Function, Var
from passat.ir.traverse import children, post_order, with_children


def bind(expr: Expr, binds: Mapping[Var, Expr]) -> Expr:
    """The expression with others in the place of variables, as Relay's `bind` does it; the same object where none of them occurs.

    Parameters of a function that are bound are parameters no more, and what is free in the expressions that take their place becomes one,
    after the others. Variables that are bound further inside are not to be replaced: ValueError.

    >>> from passat.ir.expr import const, var
    >>> x, y = var("x", "int8"), var("y", "int8")
    >>> bind(Function([x, y], x + y), {y: const(1, "int8")})
    fn (%x: int8) {
      add(%x, 1i8 /* ty=int8 */)
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
    """The function with constants, say, in the place of the parameters that have the given names; other names are ignored, as in Relay.

    Raises ValueError where a name is that of several parameters.
    """
    named: dict[str, Var] = {}
    for param in function.params:
        if param.name_hint in params and named.setdefault(param.name_hint, param) is not param:
            raise ValueError(f"several parameters are called %{param.name_hint}; bind them by their variables")
    bound = bind(function, {var: params[name] for name, var in named.items()})
    assert isinstance(bound, Function)  # of a function
    return bound


def _replaced(expr: Expr, binds: Mapping[Var, Expr], bound: set[Var]) -> Expr:
    clashes = [var for var in binds if var in bound]
    if clashes:
        raise ValueError(f"the variable %{clashes[0].name_hint} is bound inside the expression, so nothing can take its place")
    done: dict[Expr, Expr] = {}
    for node in post_order(expr):
        if isinstance(node, Var):
            done[node] = binds.get(node, node)
        elif isinstance(node, Constant):
            done[node] = node
        else:
            done[node] = with_children(node, [done[part] for part in children(node)])
    return done[expr]
