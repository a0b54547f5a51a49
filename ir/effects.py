"""Finds the nodes with side effects, which must be evaluated exactly once, in place and in order."""

from collections.abc import Collection

from passat.ir.expr import BaseFunc, Call, Constructor, Expr, Function, GlobalVar, Let, RefCreate, RefRead, RefWrite, Var
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import evaluation_parts, post_order
from passat.ir.types import FuncType


def effectful_nodes(expr: Expr, pure: Collection[str] = ()) -> set[Expr]:
    """Returns the nodes whose evaluation may have or observe side effects.

    These are uses of references and stateful operators, calls of unknown functions (parameters, recursive functions, globals other than
    those that are named as `pure`), and nodes that contain one of them. Creating a closure has no effect. Calling it has the effects of its
    body, even if a higher-order operator calls it.
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
            or (isinstance(node, Call) and _calls_effects(node, functions, found, pure))
        ):
            found.add(node)
    return found


def pure_functions(module: IRModule, *roots: BaseFunc) -> set[str]:
    """The names of the functions of a module that some functions reach and whose calls have no effects. Recursion is not an effect.

    >>> from passat.ir.text import parse
    >>> module = parse("def @f() { @g() } def @g() { @f() } def @h(%r: ref(int8)) { ref_read(%r) } def @main() { (@f, @h) }")
    >>> sorted(pure_functions(module, module["main"]))
    ['f', 'g']
    """
    functions = {var.name_hint: made for var, made in module.functions.items()}
    users: dict[str, list[str]] = {name: [] for root in roots for name in _globals_in(root)}
    impure: list[str] = []
    waiting = list(users)
    while waiting:
        name = waiting.pop()
        made = functions.get(name)
        if not isinstance(made, Function) or made.body in effectful_nodes(made.body, functions):
            impure.append(name)
            continue
        for other in _globals_in(made):
            if other not in users:
                users[other] = []
                waiting.append(other)
            users[other].append(name)
    pure = set(users)
    while impure:
        name = impure.pop()
        if name in pure:
            pure.remove(name)
            impure += users[name]
    return pure


def _globals_in(function: BaseFunc) -> set[str]:
    return {node.name_hint for node in post_order(function) if isinstance(node, GlobalVar)}


def _calls_effects(call: Call, functions: dict[Expr, Function], found: set[Expr], pure: Collection[str]) -> bool:
    callee = call.op
    if isinstance(callee, Constructor) or (isinstance(callee, GlobalVar) and callee.name_hint in pure):
        return False
    if not isinstance(callee, Op):
        return callee not in functions or functions[callee].body in found
    return callee.stateful or any(
        functions[arg].body in found if arg in functions else isinstance(arg._checked_type, FuncType) for arg in call.args
    )
