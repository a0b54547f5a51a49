"""What walks do, the passes that have no saturations: which expressions they have only built anew, because of what stands below.

A walk leaves no journal. What it made is compared with what it was given, from the results down, and from each call that has kept its name:
calls of the same operator with the same attributes at the same place are taken for the same step.
"""

from collections.abc import Sequence

from passat.ir.expr import Call, Expr, Function, Tuple, TupleGetItem
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import post_order


def counterparts(before: IRModule, after: IRModule) -> dict[int, Expr]:
    """For the new expressions of a module, by their identity, those of the module before that they stand for; where the walk has made
    something else there is none."""
    old, named = _contents(before)
    pending: list[tuple[Expr, Expr]] = []
    for function in after.functions.values():
        pending += [(expr, named[_name(expr)]) for expr in post_order(function) if id(expr) not in old and _name(expr) in named]
    bodies = {var.name_hint: function for var, function in before.functions.items()}
    for var, function in after.functions.items():
        earlier = bodies.get(var.name_hint)
        if isinstance(function, Function) and isinstance(earlier, Function):
            pending.insert(0, (function.body, earlier.body))  # taken last: names say more
    found: dict[int, Expr] = {}
    while pending:
        new, other = pending.pop()
        if id(new) in old or id(new) in found or not _is_same_step(new, other):
            continue
        found[id(new)] = other
        pending += zip(operands(new), operands(other), strict=True)
    return found


def operands(expr: Expr) -> Sequence[Expr]:
    """What a step reads; nothing for what is no step of its own."""
    if isinstance(expr, Call) and isinstance(expr.op, Op):
        return expr.args
    if isinstance(expr, Tuple):
        return expr.fields
    return (expr.tuple_value,) if isinstance(expr, TupleGetItem) else ()


def is_only_rebuilt(new: Expr, found: dict[int, Expr]) -> bool:
    """Whether an expression reads what its counterpart read, each operand built anew perhaps; `found` has all counterparts."""
    return all(found.get(id(part), part) is other for part, other in zip(operands(new), operands(found[id(new)]), strict=True))


def _contents(module: IRModule) -> tuple[set[int], dict[object, Expr]]:
    """The expressions of a module by their identity, and by what makes them known again."""
    old: set[int] = set()
    named: dict[object, Expr] = {}
    for function in module.functions.values():
        for expr in post_order(function):
            old.add(id(expr))
            name = _name(expr)
            if name is not None:
                named.setdefault(name, expr)
    return old, named


def _name(expr: Expr) -> object:
    if isinstance(expr, Call) and expr.span is not None and expr.span.outputs:
        return (expr.op, expr.attrs, expr.span)
    return None


def _is_same_step(new: Expr, old: Expr) -> bool:
    if type(new) is not type(old) or len(operands(new)) != len(operands(old)):
        return False
    if isinstance(new, Call) and isinstance(old, Call):
        return isinstance(new.op, Op) and new.op is old.op and new.attrs == old.attrs and new.span == old.span
    if isinstance(new, TupleGetItem) and isinstance(old, TupleGetItem):
        return new.index == old.index
    return isinstance(new, Tuple)
