"""The scope of each node: the innermost function body, branch, match arm or let body that contains all uses of the node.

Used by printing, conversion to A-normal form and the well-formedness check. The analysis is linear in the number of nodes, up to a
logarithmic factor for nested scopes.
"""

from collections.abc import Sequence
from typing import Final, cast

from passat.ir.expr import Expr, Function, If, Let, Match, Var
from passat.ir.traverse import children, evaluation_parts, pattern_vars, post_order


class Scope:
    """A region in which expressions are evaluated. `jump` is a skip pointer: any ancestor is reached in a logarithmic number of steps."""

    __slots__ = ("depth", "jump", "parent")

    def __init__(self, parent: "Scope | None" = None) -> None:
        self.parent = parent or self
        if parent is None:
            self.depth = 0
            self.jump = self
        else:
            self.depth = parent.depth + 1
            far = parent.jump
            self.jump = far.jump if parent.depth - far.depth == far.depth - far.jump.depth else parent

    def ancestor(self, depth: int) -> "Scope":
        """Returns the enclosing scope (or this one) at `depth`."""
        scope = self
        while scope.depth > depth:
            scope = scope.jump if scope.jump.depth >= depth else scope.parent
        return scope

    def encloses(self, other: "Scope") -> bool:
        """Whether `other` is this scope or nested in it."""
        return other.depth >= self.depth and other.ancestor(self.depth) is self


def common(a: Scope, b: Scope) -> Scope:
    """Returns the innermost scope that encloses two scopes."""
    if a is b:
        return a
    a, b = a.ancestor(b.depth), b.ancestor(a.depth)
    while a is not b:
        a, b = (a.jump, b.jump) if a.jump is not b.jump else (a.parent, b.parent)
    return a


_OPENING: Final = frozenset({Function, If, Match, Let})


class Scopes:
    """The scopes of an expression.

    * `order` lists every node once, operands first, in the order of evaluation.
    * `inner[node]` are the scopes that a node opens: the body of a function, the branches of an if, the arms of a match, the value and the
      body of a let.
    * `binders[var]` is the scope that binds a variable.
    * `rebound` lists variables that are bound more than once.

    With `lets=False` a let opens no scope: its parts and the expressions around it form one sequence, as in A-normal form. A let whose
    value is a function binds its variable around that function too. The value of any other let belongs to the scope of the let.
    """

    __slots__ = ("_places", "binders", "inner", "order", "rebound", "root")

    def __init__(self, expr: Expr, *, lets: bool = True) -> None:
        self.root = Scope()
        self.order = post_order(expr, parts_of=evaluation_parts)
        self.inner: dict[Expr, tuple[Scope, ...]] = {}
        self.binders: dict[Var, Scope] = {}
        self.rebound: list[Var] = []
        self._places: dict[Expr, Scope] = {expr: self.root}
        places = self._places
        for node in reversed(self.order):
            here = places[node]
            if type(node) in _OPENING:
                for part, scope in self._opened(node, here, lets):
                    known = places.get(part)
                    places[part] = scope if known is None else common(known, scope)
                continue
            for part in evaluation_parts(node):
                known = places.get(part)
                if known is not here:
                    places[part] = here if known is None else common(known, here)

    def place(self, node: Expr) -> Scope:
        """Returns the scope of a node."""
        return self._places[node]

    def _opened(self, node: Expr, here: Scope, lets: bool) -> list[tuple[Expr, Scope]]:
        """Opens the scopes of a node in scope `here`. Returns its operands, each with the scope of that use."""
        kind = type(node)
        if kind is Function:
            function = cast(Function, node)
            body = self._open(node, here, 1)[0]
            self._bind(function.params, body)
            return [(part, body) for part in children(node)]
        if kind is If:
            choice = cast(If, node)
            then, other = self._open(node, here, 2)
            return [(choice.cond, here), (choice.true_branch, then), (choice.false_branch, other)]
        if kind is Match:
            match = cast(Match, node)
            arms = self._open(node, here, len(match.clauses))
            for clause, arm in zip(match.clauses, arms, strict=True):
                self._bind(pattern_vars(clause.lhs), arm)
            return [(match.data, here), *((clause.rhs, arm) for clause, arm in zip(match.clauses, arms, strict=True))]
        let = cast(Let, node)
        recursive = type(let.value) is Function
        value = Scope(here) if lets and recursive else here
        body = Scope(value) if lets else here
        self.inner[node] = (value, body)
        self._bind((let.var,), value if recursive else body)
        return [(let.value, value), (let.var, body), (let.body, body)]

    def _open(self, node: Expr, here: Scope, count: int) -> tuple[Scope, ...]:
        self.inner[node] = tuple(Scope(here) for _ in range(count))
        return self.inner[node]

    def _bind(self, variables: Sequence[Var], scope: Scope) -> None:
        for var in variables:
            if var in self.binders:
                self.rebound.append(var)
            self.binders[var] = scope
