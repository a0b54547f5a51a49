"""Eliminates unused let bindings. The graph form has no dead code: it contains only what the result needs."""

from collections.abc import Collection, Sequence

from passat.ir.effects import effectful_nodes
from passat.ir.expr import Expr, Function, Let, Var
from passat.ir.traverse import children, post_order, with_children


def drop_dead_lets(function: Function, *, pure: Collection[str] = (), ignore_impurity: bool = False) -> Function:
    """The function without unused lets, except those whose value has effects (references, stateful calls, calls of unknown functions,
    including global functions that are not `pure`).

    Like Relay's DeadCodeElimination v0.18. With `ignore_impurity`, also drops values with effects, as v0.8 does, which changes program
    behavior.
    """
    order = post_order(function)
    if not any(isinstance(node, Let) for node in order):
        return function
    effectful = set() if ignore_impurity else effectful_nodes(function, pure)
    dropped: dict[Var, Expr | None] = {let.var: None for let in _dead(function, effectful)}
    return _without(function, order, dropped) if dropped else function


def inline_single_uses(function: Function, *, pure: Collection[str] = (), ignore_impurity: bool = False) -> Function:
    """The function with lets inlined whose values have no effects and a single use, in the same function literal. If the use were in
    another literal, each call of it would compute the value."""
    order = post_order(function)
    if not any(isinstance(node, Let) for node in order):
        return function
    effectful = set() if ignore_impurity else effectful_nodes(function, pure)
    bound, uses = _uses(order)
    once: dict[Var, Expr | None] = {var: let.value for var, let in bound.items() if uses.get(var) == [True] and let.value not in effectful}
    return _without(function, order, once) if once else function


def _without(function: Function, order: Sequence[Expr], values: dict[Var, Expr | None]) -> Function:
    """The function without the lets of some variables; `values` has the replacements of the variables."""
    made: dict[int, Expr] = {}
    for node in order:
        if isinstance(node, Let) and node.var in values:
            made[id(node)] = made[id(_behind(node.body, values))]
        else:
            made[id(node)] = with_children(node, [made[id(_behind(part, values))] for part in children(node)])
    result = made[id(function)]
    assert isinstance(result, Function)
    return result


def _behind(part: Expr, values: dict[Var, Expr | None]) -> Expr:
    """The replacement of a part: the value of a variable, followed through variables that have values themselves."""
    while isinstance(part, Var):
        value = values.get(part)
        if value is None:
            break
        part = value
    return part


def _uses(order: Sequence[Expr]) -> tuple[dict[Var, Let], dict[Var, list[bool]]]:
    """The lets by their variables, and for each use of a variable, whether it is in the function literal of its let."""
    bound = {node.var: node for node in order if isinstance(node, Let)}
    homes: dict[Var, set[Expr]] = {}
    used: dict[Var, list[Expr]] = {}
    for function in (node for node in order if isinstance(node, Function)):
        for node in post_order(function.body, into=lambda part: not isinstance(part, Function)):
            if isinstance(node, Function):
                continue
            if isinstance(node, Let):
                homes.setdefault(node.var, set()).add(function)
            for part in (node.value, node.body) if isinstance(node, Let) else children(node):
                if isinstance(part, Var):
                    used.setdefault(part, []).append(function)
        if isinstance(function.body, Var):
            used.setdefault(function.body, []).append(function)
    return bound, {var: [homes[var] == {place} for place in places] for var, places in used.items() if var in homes}


def _dead(function: Function, effectful: Collection[Expr]) -> list[Let]:
    """The dead lets. Starts from the result, and visits the value of a let once its variable is needed."""
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
