"""Eliminates unused let bindings. In graph form there is no dead code, since only what the result needs is reachable."""

from collections.abc import Sequence

from passat.ir.effects import effectful_nodes
from passat.ir.expr import Expr, Function, Let, Var
from passat.ir.traverse import children, post_order, with_children


def drop_dead_lets(function: Function) -> Function:
    """The function without unused lets, except those whose value has effects (references, stateful calls, calls of unknown functions).

    Like Relay's DeadCodeElimination v0.18. v0.8 also drops effectful values, which changes program behavior.
    """
    order = post_order(function)
    dropped = {id(let) for let in _dead(function, order)}
    if not dropped:
        return function
    made: dict[int, Expr] = {}
    for node in order:
        if id(node) in dropped:
            assert isinstance(node, Let)
            made[id(node)] = made[id(node.body)]
        else:
            made[id(node)] = with_children(node, [made[id(part)] for part in children(node)])
    result = made[id(function)]
    assert isinstance(result, Function)
    return result


def _dead(function: Function, order: Sequence[Expr]) -> list[Let]:
    """The dead lets. Starts from the result, and visits the value of a let once its variable is needed."""
    if not any(isinstance(node, Let) for node in order):
        return []
    effectful = effectful_nodes(function)
    waiting: dict[Var, Let] = {}
    needed: set[Expr] = set()
    stack: list[Expr] = [function.body]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        if isinstance(node, Let):
            stack.append(node.body)
            if node.var in needed or node.value in effectful:
                stack.append(node.value)
            else:
                waiting[node.var] = node
        elif isinstance(node, Var):
            let = waiting.pop(node, None)
            if let is not None:
                stack.append(let.value)
        else:
            stack.extend(_read(node))
    return list(waiting.values())


def _read(node: Expr) -> tuple[Expr, ...]:
    """The operands of a node, excluding the variables that it binds."""
    if isinstance(node, Function):
        return (node.body,)
    return tuple(children(node))
