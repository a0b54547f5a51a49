"""Finds the nodes with side effects, which must be evaluated exactly once, in place and in order."""

from passat.ir.expr import Call, Constructor, Expr, Function, Let, RefCreate, RefRead, RefWrite, Var
from passat.ir.op import Op
from passat.ir.traverse import evaluation_parts, post_order
from passat.ir.types import FuncType


def effectful_nodes(expr: Expr) -> set[Expr]:
    """Returns the nodes whose evaluation may have or observe side effects.

    These are uses of references and stateful operators, calls of unknown functions (parameters, globals, recursive functions), and nodes
    that contain one of them. Creating a closure has no effect. Calling it has the effects of its body, even if a higher-order operator
    calls it.
    """
    found: set[Expr] = set()
    order = post_order(expr, parts_of=evaluation_parts)
    lets = {node.var: node for node in order if isinstance(node, Let)}
    functions: dict[Expr, Function] = {}
    for node in order:
        if isinstance(node, Function):
            functions[node] = node
            continue
        if isinstance(node, Var):
            let = lets.get(node)
            known = functions.get(let.value) if let is not None else None
            if known is not None:
                functions[node] = known
        elif (
            isinstance(node, (RefCreate, RefRead, RefWrite))
            or any(part in found for part in evaluation_parts(node))
            or (isinstance(node, Call) and _calls_effects(node, functions, found))
        ):
            found.add(node)
    return found


def _calls_effects(call: Call, functions: dict[Expr, Function], found: set[Expr]) -> bool:
    callee = call.op
    if isinstance(callee, Constructor):
        return False
    if not isinstance(callee, Op):
        return callee not in functions or functions[callee].body in found
    return callee.stateful or any(
        functions[arg].body in found if arg in functions else isinstance(arg._checked_type, FuncType) for arg in call.args
    )
