"""Traversal of expressions. All functions are iterative and visit a shared node once."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

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


def children(expr: Expr) -> Sequence[Expr]:
    """Returns the direct parts of an expression in evaluation order; for a function, the parameters and the body."""
    kind = type(expr)
    if kind is Call:
        call = cast(Call, expr)
        return (call.op, *call.args)
    if kind is TupleGetItem:
        return (cast(TupleGetItem, expr).tuple_value,)
    if kind is Tuple:
        return cast(Tuple, expr).fields
    if kind is Function:
        function = cast(Function, expr)
        return (*function.params, function.body)
    if kind is Let:
        let = cast(Let, expr)
        return (let.var, let.value, let.body)
    if kind is If:
        choice = cast(If, expr)
        return (choice.cond, choice.true_branch, choice.false_branch)
    if kind is RefCreate:
        return (cast(RefCreate, expr).value,)
    if kind is RefRead:
        return (cast(RefRead, expr).ref,)
    if kind is RefWrite:
        write = cast(RefWrite, expr)
        return (write.ref, write.value)
    if kind is Match:
        match = cast(Match, expr)
        return (match.data, *(clause.rhs for clause in match.clauses))
    return ()


def evaluation_parts(expr: Expr) -> Sequence[Expr]:
    """Returns the direct parts in the order they are needed: arguments before the callee, the value of a let before its variable."""
    kind = type(expr)
    if kind is Call:
        call = cast(Call, expr)
        return (*call.args, call.op)
    if kind is Let:
        let = cast(Let, expr)
        return (let.value, let.var, let.body)
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
    old = children(expr)
    if len(old) == len(parts) and all(a is b for a, b in zip(old, parts, strict=True)):
        return expr
    kind = type(expr)
    if kind is Call:
        call = cast(Call, expr)
        return Call(parts[0], parts[1:], call.attrs, call.type_args, call.span)
    if kind is TupleGetItem:
        return TupleGetItem(parts[0], cast(TupleGetItem, expr).index, expr.span)
    if kind is Tuple:
        return Tuple(parts, expr.span)
    if kind is Function:
        function = cast(Function, expr)
        return Function(
            cast("Iterable[Var]", parts[:-1]), parts[-1], function.ret_type, function.type_params, function.attrs, function.span
        )
    if kind is Let:
        return Let(cast(Var, parts[0]), parts[1], parts[2], expr.span)
    if kind is If:
        return If(parts[0], parts[1], parts[2], expr.span)
    if kind is RefCreate:
        return RefCreate(parts[0], expr.span)
    if kind is RefRead:
        return RefRead(parts[0], expr.span)
    if kind is RefWrite:
        return RefWrite(parts[0], parts[1], expr.span)
    if kind is Match:
        match = cast(Match, expr)
        clauses = (Clause(clause.lhs, rhs) for clause, rhs in zip(match.clauses, parts[1:], strict=True))
        return Match(parts[0], clauses, match.complete, expr.span)
    raise TypeError(f"{kind.__name__} has no parts to replace")


def post_order(
    *roots: Expr, into: Callable[[Expr], bool] | None = None, parts_of: Callable[[Expr], Sequence[Expr]] = children
) -> list[Expr]:
    """Returns every node reachable from the roots once, parts first. Does not enter nodes for which `into` returns False.

    `parts_of` returns the parts of a node in order: `children` or `evaluation_parts`.
    """
    seen: set[int] = set()
    order: list[Expr] = []
    stack: list[Expr | None] = list(reversed(roots))
    pending: list[Expr] = []
    while stack:
        expr = stack.pop()
        if expr is None:  # all parts of the last pending node are done
            order.append(pending.pop())
            continue
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        parts = parts_of(expr) if into is None or into(expr) else ()
        if not parts:
            order.append(expr)
            continue
        pending.append(expr)
        stack.append(None)
        stack.extend(reversed(parts))
    return order


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], object]) -> None:
    """Calls `fvisit` on every node once, parts first (Relay's `analysis.post_order_visit`)."""
    for node in post_order(expr):
        fvisit(node)


def rewrite(root: Expr, replace: Callable[[Expr, Expr], Expr]) -> Expr:
    """Rebuilds an expression bottom-up. `replace(old, new)` gets each node before and after its parts were replaced, and returns the
    replacement.

    Returns the same object if nothing changes.
    """
    done: dict[int, Expr] = {}
    for node in post_order(root):
        done[id(node)] = replace(node, with_children(node, [done[id(part)] for part in children(node)]))
    return done[id(root)]


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
    found: list[Var] = []
    stack = [pattern]
    while stack:
        node = stack.pop()
        if isinstance(node, PatternVar):
            found.append(node.var)
        elif isinstance(node, (PatternConstructor, PatternTuple)):
            stack.extend(reversed(node.patterns))
    return found
