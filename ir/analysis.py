"""Facts about expressions: which variables they use, bind and leave free; whether they are well formed."""

from passat.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    Var,
)
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.scopes import Scopes
from passat.ir.traverse import pattern_vars, post_order


def all_vars(expr: Expr) -> list[Var]:
    """Every variable that occurs, bound or used, once, in post-order."""
    found: dict[Var, None] = {}
    for node in post_order(expr):
        if isinstance(node, Var):
            found[node] = None
        elif isinstance(node, Match):
            found.update((var, None) for clause in node.clauses for var in pattern_vars(clause.lhs))
    return list(found)


def bound_vars(expr: Expr) -> list[Var]:
    """Variables bound inside the expression by functions, lets and match arms."""
    found: dict[Var, None] = {}
    for node in post_order(expr):
        if isinstance(node, Function):
            found.update((var, None) for var in node.params)
        elif isinstance(node, Let):
            found[node.var] = None
        elif isinstance(node, Match):
            found.update((var, None) for clause in node.clauses for var in pattern_vars(clause.lhs))
    return list(found)


def free_vars(expr: Expr) -> list[Var]:
    """Variables used but not bound inside the expression. A variable is an object, so binding one anywhere inside binds it."""
    bound = set(bound_vars(expr))
    return [var for var in all_vars(expr) if var not in bound]


def check_constant(expr: Expr) -> bool:
    """Whether an expression is a constant, or a tuple of constants (Relay's ConstantChecker)."""
    return all(isinstance(node, (Constant, Tuple)) for node in post_order(expr))


def is_effectful(expr: Expr) -> bool:
    """Whether evaluating an expression can do or read more than its value: references, or operators that are stateful."""
    for node in post_order(expr):
        if isinstance(node, (RefCreate, RefRead, RefWrite)):
            return True
        if isinstance(node, Call) and isinstance(node.op, Op) and node.op.stateful:
            return True
    return False


def node_count(expr: Expr) -> int:
    """The number of distinct nodes that a reader would count: everything but operators, counted once however often it is shared."""
    return sum(not isinstance(node, Op) for node in post_order(expr))


def ill_formed(node: Expr | IRModule) -> list[str]:
    """What is wrong with the variables of an expression or a module, a sentence each; nothing where it is well formed.

    Every variable is bound once, and used only inside of what binds it; a let's own value may use it where that is a function. The
    functions of a module have no free variables, and call functions that the module has.
    """
    if isinstance(node, IRModule):
        names = {var.name_hint for var in node.functions}
        found: list[str] = []
        for var, function in node.functions.items():
            wrong = _ill_bound(function)
            wrong += [f"the variable %{free.name_hint} is free" for free in free_vars(function)]
            used = {part.name_hint: None for part in post_order(function) if isinstance(part, GlobalVar)}
            wrong += [f"the module has no function @{name}" for name in used if name not in names]
            found += [f"in @{var.name_hint}: {sentence}" for sentence in wrong]
        return found
    return _ill_bound(node)


def well_formed(node: Expr | IRModule) -> bool:
    """Whether every variable is bound once and used in scope (Relay's `analysis.well_formed`); `ill_formed` says what is wrong."""
    return not ill_formed(node)


def _ill_bound(expr: Expr) -> list[str]:
    scopes = Scopes(expr)
    rebound = dict.fromkeys(scopes.rebound)
    used = [node for node in scopes.order if isinstance(node, Var) and node in scopes.binders and node not in rebound]
    outside = [var for var in used if not scopes.binders[var].encloses(scopes.place(var))]
    return [f"the variable %{var.name_hint} is bound more than once" for var in rebound] + [
        f"the variable %{var.name_hint} is used outside of what binds it" for var in outside
    ]


__all__ = [
    "all_vars",
    "bound_vars",
    "check_constant",
    "free_vars",
    "ill_formed",
    "is_effectful",
    "node_count",
    "pattern_vars",
    "post_order",
    "well_formed",
]
