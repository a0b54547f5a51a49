"""Traversal of expressions. All functions are iterative and visit a shared node once."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

from passat.ir.collector import collector_paused
from passat.ir.expr import (
    Call,
    Clause,
    Expr,
    Function,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.walks import preorder

AnyExpr = TypeVar("AnyExpr", Function, Expr)
"""The type of an expression and of what is made from it: a function for a function, any expression for others."""


def children(expr: Expr) -> Sequence[Expr]:
    """Returns the direct parts of an expression in evaluation order; for a function, the parameters and the body."""
    if type(expr) is Call:
        return (expr.op, *expr.args)
    if type(expr) is TupleGetItem:
        return (expr.tuple_value,)
    if type(expr) is Tuple:
        return expr.fields
    if type(expr) is Function:
        return (*expr.params, expr.body)
    if type(expr) is Let:
        return (expr.var, expr.value, expr.body)
    if type(expr) is If:
        return (expr.cond, expr.true_branch, expr.false_branch)
    if type(expr) is RefCreate:
        return (expr.value,)
    if type(expr) is RefRead:
        return (expr.ref,)
    if type(expr) is RefWrite:
        return (expr.ref, expr.value)
    if type(expr) is Match:
        return (expr.data, *(clause.rhs for clause in expr.clauses))
    return ()


def evaluation_parts(expr: Expr) -> Sequence[Expr]:
    """Returns the direct parts in the order they are needed: arguments before the callee, the value of a let before its variable."""
    if type(expr) is Call:
        return (*expr.args, expr.op)
    if type(expr) is Let:
        return (expr.value, expr.var, expr.body)
    return children(expr)


def bodies(root: Expr) -> list[Expr]:
    """Returns the bodies of all functions in an expression (including itself) and the branches."""
    found: list[Expr] = []
    for node in post_order(root):
        if isinstance(node, Function):
            found.append(node.body)
        elif isinstance(node, (If, Match)):
            found += children(node)[1:]
    return found


def with_children(expr: Expr, parts: Sequence[Expr]) -> Expr:
    """Rebuilds an expression with other direct parts (in the order of `children`). Returns the same object if no part changed."""
    if tuple(parts) == tuple(children(expr)):  # expressions are equal only to themselves
        return expr
    if type(expr) is Call:
        return Call(parts[0], parts[1:], expr.attrs, expr._type_args, expr.span)
    if type(expr) is TupleGetItem:
        return TupleGetItem(parts[0], expr.index, expr.span)
    if type(expr) is Tuple:
        return Tuple(parts, expr.span)
    if type(expr) is Function:
        params = cast("Sequence[Var]", parts[:-1])
        return Function(params, parts[-1], expr.ret_type, expr.type_params, expr.attrs, expr.span)
    if type(expr) is Let:
        return Let(cast(Var, parts[0]), parts[1], parts[2], expr.span)
    if type(expr) is If:
        return If(parts[0], parts[1], parts[2], expr.span)
    if type(expr) is RefCreate:
        return RefCreate(parts[0], expr.span)
    if type(expr) is RefRead:
        return RefRead(parts[0], expr.span)
    if type(expr) is RefWrite:
        return RefWrite(parts[0], parts[1], expr.span)
    if type(expr) is Match:
        clauses = (Clause(clause.lhs, rhs) for clause, rhs in zip(expr.clauses, parts[1:], strict=True))
        return Match(parts[0], clauses, expr.complete, expr.span)
    raise TypeError(f"{type(expr).__name__} has no parts to replace")


def post_order(
    *roots: Expr, into: Callable[[Expr], bool] | None = None, parts_of: Callable[[Expr], Sequence[Expr]] = children
) -> list[Expr]:
    """Returns every node reachable from the roots once, parts first. Does not enter nodes for which `into` returns False.

    `parts_of` returns the parts of a node in order: `children` or `evaluation_parts`. Passes visit the same function again and again, so
    that functions keep their nodes.
    """
    whole = roots[0] if len(roots) == 1 and into is None and parts_of is children else None
    if type(whole) is Function and hasattr(whole, "_inner"):
        return [*whole._inner, whole]
    seen: set[Expr] = set()
    order: list[Expr] = []
    parts = iter(roots)  # the remaining parts of the last pending node
    pending: list[Expr] = []
    outer: list[Iterator[Expr]] = []
    with collector_paused():  # one iterator for each level of depth
        while True:
            for expr in parts:
                if expr in seen:
                    continue
                seen.add(expr)
                inner = parts_of(expr) if into is None or into(expr) else ()
                if inner:
                    pending.append(expr)
                    outer.append(parts)
                    parts = iter(inner)
                    break
                order.append(expr)
            else:
                if not pending:
                    if type(whole) is Function:
                        whole._inner = tuple(order[:-1])
                    return order
                order.append(pending.pop())
                parts = outer.pop()


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], object]) -> None:
    """Calls `fvisit` on every node once, parts first (Relay's `analysis.post_order_visit`)."""
    for node in post_order(expr):
        fvisit(node)


def rewrite(root: AnyExpr, replace: Callable[[Expr, Expr], Expr], *, into: Callable[[Expr], bool] | None = None) -> AnyExpr:
    """Rebuilds an expression bottom-up. `replace(old, new)` gets each node before and after its parts were replaced, and returns the
    replacement. Nodes for which `into` returns False stay as they are.

    Returns the same object if nothing changes.
    """
    done: dict[int, Expr] = {}
    for node in post_order(root, into=into):
        entered = into is None or into(node)
        done[id(node)] = replace(node, with_children(node, [done[id(part)] for part in children(node)])) if entered else node
    return done[id(root)]  # type: ignore[return-value]  # a function for a function


def with_pattern_vars(pattern: Pattern, variable: Callable[[Var], Var]) -> Pattern:
    """Returns a match pattern with other variables; the same one if none changes. Recursive, because patterns are not nested deeply."""
    if isinstance(pattern, PatternVar):
        var = variable(pattern.var)
        return pattern if var is pattern.var else PatternVar(var)
    if isinstance(pattern, (PatternConstructor, PatternTuple)):
        parts = [with_pattern_vars(part, variable) for part in pattern.patterns]
        if all(new is old for new, old in zip(parts, pattern.patterns, strict=True)):
            return pattern
        return PatternConstructor(pattern.constructor, parts) if isinstance(pattern, PatternConstructor) else PatternTuple(parts)
    return pattern


def pattern_vars(pattern: Pattern) -> list[Var]:
    """Returns the variables that a match pattern binds, from left to right."""
    nested = preorder([pattern], lambda part: part.patterns if isinstance(part, (PatternConstructor, PatternTuple)) else ())
    return [part.var for part in nested if isinstance(part, PatternVar)]
