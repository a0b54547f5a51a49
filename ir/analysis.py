"""Facts about expressions: which variables they use, bind and leave free; whether they are well formed."""

from passat.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
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
    Var,
)
from passat.ir.op import Op
from passat.ir.traverse import post_order


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


def pattern_vars(pattern: Pattern) -> list[Var]:
    """The variables that a pattern of a match arm binds, from left to right."""
    found: list[Var] = []
    stack = [pattern]
    while stack:
        node = stack.pop()
        if isinstance(node, PatternVar):
            found.append(node.var)
        elif isinstance(node, (PatternConstructor, PatternTuple)):
            stack.extend(reversed(node.patterns))
    return found


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
