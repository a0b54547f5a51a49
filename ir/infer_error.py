"""The error of type inference, with the location and the other errors of the program."""

from collections.abc import Iterable
from typing import Any as AnyValue
from typing import Final

from passat.ir.diagnostics import Diagnostic, DiagnosticError, DiagnosticLevel, place_of
from passat.ir.expr import Expr, Match, Var
from passat.ir.traverse import pattern_vars, post_order

MAX_ERRORS: Final = 100
"""Maximum number of errors that inference reports."""


class InferError(DiagnosticError, TypeError):
    """A program is ill-typed. The message names the origin of the expression, the operator and the types.

    `diagnostics` lists all independent errors in program order. Consequences of another error are not listed.
    """

    def __init__(self, reason: str, expr: Expr | None = None) -> None:
        super().__init__(reason if expr is None else place_of(expr.span) + reason)
        self._reason = reason
        self._expr = expr

    def _described(self) -> tuple[Diagnostic, ...]:
        expr = self._expr
        if expr is None:
            return (Diagnostic(DiagnosticLevel.ERROR, None, self._reason),)
        return (Diagnostic.at(expr, self._reason),)

    def locate(self, expr: Expr) -> "InferError":
        """Sets the expression that the error is about, unless it is set already."""
        if self._expr is None and not self._diagnostics:
            self._expr = expr
            self.args = (place_of(expr.span) + self._reason,)
        return self

    def settle(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Sets the diagnostics and releases the expression, so that the error does not keep the program alive."""
        self.diagnostics = tuple(diagnostics)
        self._expr = None

    def _state(self) -> dict[str, AnyValue]:
        return {**super()._state(), "_expr": None}


class Untyped:
    """The expressions below some roots that have no type yet.

    A search for further errors assigns types to them, which are removed afterward because they derive from an ill-typed program.
    """

    def __init__(self, *roots: Expr) -> None:
        order = post_order(*roots, into=lambda node: node._checked_type is None)
        self._nodes = [node for node in order if node._checked_type is None]
        for node in list(self._nodes):
            if isinstance(node, Match):
                self._nodes += [var for clause in node.clauses for var in pattern_vars(clause.lhs) if var._checked_type is None]

    def restore(self) -> None:
        """Removes the types and the cached values."""
        for node in self._nodes:
            node._checked_type = None
            if hasattr(node, "_known_value"):
                del node._known_value


def assume_pattern(match: Match, type_: AnyValue) -> None:
    """Assigns a type to the variables of a match's patterns that have none."""
    for clause in match.clauses:
        for var in pattern_vars(clause.lhs):
            assume(var, type_)


def assume(var: Var, type_: AnyValue) -> None:
    """Assigns a type to a variable that has none."""
    if var._checked_type is None:
        var._checked_type = type_
