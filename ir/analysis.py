"""Analyses of expressions: used, bound and free variables, and well-formedness."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeGuard

from passat.ir.expr import (
    Call,
    Clause,
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
from passat.ir.traverse import children, pattern_vars, post_order


def _visited(expr: Expr) -> Iterator[Expr | Clause]:
    """Yields every node once, before its parts, and the clauses of a match before their results."""
    seen: set[Expr] = set()
    stack: list[Expr | Clause] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Clause):
            yield node
            stack.append(node.rhs)
        elif node not in seen:
            seen.add(node)
            yield node
            stack.extend((*reversed(node.clauses), node.data) if type(node) is Match else reversed(children(node)))


def all_vars(expr: Expr) -> list[Var]:
    """Returns all variables, bound or used, without duplicates, in the order of the text: patterns come before the results of arms."""
    found: dict[Var, None] = {}
    for node in _visited(expr):
        if isinstance(node, Var):
            found[node] = None
        elif isinstance(node, Clause):
            found.update((var, None) for var in pattern_vars(node.lhs))
    return list(found)


def bound_vars(expr: Expr) -> list[Var]:
    """Returns the variables that functions, lets and match arms inside the expression bind, outer ones first."""
    found: dict[Var, None] = {}
    for node in _visited(expr):
        if isinstance(node, Function):
            found.update((var, None) for var in node.params)
        elif isinstance(node, Let):
            found[node.var] = None
        elif isinstance(node, Clause):
            found.update((var, None) for var in pattern_vars(node.lhs))
    return list(found)


def free_vars(expr: Expr) -> list[Var]:
    """Returns the variables that are used but not bound inside the expression.

    Variables are compared by identity, so a binding anywhere inside counts.
    """
    bound = set(bound_vars(expr))
    return [var for var in all_vars(expr) if var not in bound]


def check_constant(expr: Expr) -> bool:
    """Whether an expression is a constant, or a tuple of constants (Relay's ConstantChecker)."""
    return all(isinstance(node, (Constant, Tuple)) for node in post_order(expr))


def is_call_of(expr: object, *names: str) -> TypeGuard[Call]:
    """Whether an expression is a call of one of some operators."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names


def is_effectful(expr: Expr) -> bool:
    """Whether evaluation may have or observe side effects: references, or stateful operators."""
    for node in post_order(expr):
        if isinstance(node, (RefCreate, RefRead, RefWrite)):
            return True
        if isinstance(node, Call) and isinstance(node.op, Op) and node.op.stateful:
            return True
    return False


def node_count(expr: Expr) -> int:
    """Returns the number of distinct nodes except operators. A shared node counts once."""
    return sum(not isinstance(node, Op) for node in post_order(expr))


class Flaw(NamedTuple):
    """A flaw of a program: a sentence, the expression, and the name of the enclosing function (empty for a lone expression)."""

    text: str
    expr: Expr
    function: str = ""

    def __str__(self) -> str:
        return f"in @{self.function}: {self.text}" if self.function else self.text


def binding_flaws(node: Expr | IRModule) -> list[Flaw]:
    """Returns the flaws in the variable bindings of an expression or a module; empty if it is well formed.

    Every variable must be bound once and used only inside its scope. The value of a let may use the variable if it is a function. Functions
    of a module must not have free variables, and may call only functions of the module.
    """
    if not isinstance(node, IRModule):
        return _ill_bound(node)
    names = {var.name_hint for var in node.functions}
    found: list[Flaw] = []
    for var, function in node.functions.items():
        wrong = _ill_bound(function)
        free = free_vars(function)
        unknown = {part.name_hint: part for part in post_order(function) if isinstance(part, GlobalVar) and part.name_hint not in names}
        if free or unknown:
            users = _first_users(post_order(function))
            wrong += [Flaw(f"the variable %{part.name_hint} is free", users.get(part, part)) for part in free]
            wrong += [Flaw(f"the module has no function @{name}", users.get(part, part)) for name, part in unknown.items()]
        found += [flaw._replace(function=var.name_hint) for flaw in wrong]
    return found


def ill_formed(node: Expr | IRModule) -> list[str]:
    """Returns the flaws in the variable bindings (`binding_flaws`) as sentences."""
    return [str(flaw) for flaw in binding_flaws(node)]


def well_formed(expr: Expr | IRModule) -> bool:
    """Whether every variable is bound once and used in scope (Relay's `analysis.well_formed`). `ill_formed` lists the reasons."""
    return not binding_flaws(expr)


def _ill_bound(expr: Expr) -> list[Flaw]:
    scopes = Scopes(expr)
    rebound = dict.fromkeys(scopes.rebound)
    used = [node for node in scopes.order if isinstance(node, Var) and node in scopes.binders and node not in rebound]
    outside = [var for var in used if not scopes.binders[var].encloses(scopes.place(var))]
    if not rebound and not outside:
        return []
    last_binder = {var: node for node in scopes.order for var in _bound_by(node)}
    users = _first_users([node for node in scopes.order if not isinstance(node, Var)], scopes)
    twice = [Flaw(f"the variable %{var.name_hint} is bound more than once", last_binder[var]) for var in rebound]
    return twice + [Flaw(f"the variable %{var.name_hint} is used outside its scope", users.get(var, var)) for var in outside]


def _first_users(order: Iterable[Expr], scopes: Scopes | None = None) -> dict[Expr, Expr]:
    """For each part, the first node that uses it (not as a binding). With scopes: for each variable, the first use outside its scope."""
    users: dict[Expr, Expr] = {}
    for node in order:
        bound = _bound_by(node)
        for part in children(node):
            binder = scopes.binders.get(part) if scopes is not None and isinstance(part, Var) else None
            inside = scopes is not None and binder is not None and binder.encloses(scopes.place(node))
            if part not in bound and not inside:
                users.setdefault(part, node)
    return users


def _bound_by(node: Expr) -> Sequence[Var]:
    """The variables that a node itself binds."""
    if isinstance(node, Function):
        return node.params
    if isinstance(node, Let):
        return (node.var,)
    return [var for clause in node.clauses for var in pattern_vars(clause.lhs)] if isinstance(node, Match) else ()


__all__ = [
    "Flaw",
    "all_vars",
    "binding_flaws",
    "bound_vars",
    "check_constant",
    "free_vars",
    "ill_formed",
    "is_call_of",
    "is_effectful",
    "node_count",
    "pattern_vars",
    "post_order",
    "well_formed",
]
