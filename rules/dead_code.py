"""Dead code: bindings that nobody uses. In graph form there is none, since only what the result needs is reachable."""

from passat.ir.analysis import is_effectful
from passat.ir.expr import Expr, Function, Let, Var
from passat.ir.traverse import children, post_order, with_children


def drop_dead_lets(function: Function) -> Function:
    """The function without the lets whose variable is not used, unless their value does more than compute (references, stateful calls).

    Relay's DeadCodeElimination; its v0.8 drops effectful values too, which changes what programs do, so we follow v0.18.
    """
    uses: dict[Var, int] = {}
    order = post_order(function)
    for node in order:
        for part in _read(node):
            if isinstance(part, Var):
                uses[part] = uses.get(part, 0) + 1
    dropped: set[int] = set()
    # From the outside in: dropping a let frees what its value used.
    for node in reversed(order):
        if isinstance(node, Let) and not uses.get(node.var) and not is_effectful(node.value):
            dropped.add(id(node))
            for inner in post_order(node.value):
                for part in _read(inner):
                    if isinstance(part, Var):
                        uses[part] -= 1
            if isinstance(node.value, Var):
                uses[node.value] -= 1
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


def _read(node: Expr) -> tuple[Expr, ...]:
    """The parts of a node that it reads: all but the variables that it binds."""
    if isinstance(node, Let):
        return (node.value, node.body)
    if isinstance(node, Function):
        return (node.body,)
    return tuple(children(node))
