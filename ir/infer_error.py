"""The error of type inference: where it happened, and what else is wrong with the program."""

from collections.abc import Iterable
from typing import Any as AnyValue
from typing import Final

from passat.ir.diagnostics import Diagnostic, DiagnosticError, DiagnosticLevel, place_of
from passat.ir.expr import Expr, Match, Var
from passat.ir.traverse import pattern_vars, post_order

MAX_ERRORS: Final = 100
"""Inference looks for no more errors than this."""


class InferError(DiagnosticError, TypeError):
    """A program that has no type. The message names the expression's origin, the operator and the types.

    `diagnostics` has the errors of all independent places, in program order: what depends on an expression without a type is not
    another error.
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
        """Says which expression it is about, where that is not said yet."""
        if self._expr is None and not self._diagnostics:
            self._expr = expr
            self.args = (place_of(expr.span) + self._reason,)
        return self

    def settle(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Takes these for what is wrong. The expression is let go, so that the error does not keep the program."""
        self.diagnostics = tuple(diagnostics)
        self._expr = None

    def _state(self) -> dict[str, AnyValue]:
        return {**super()._state(), "_expr": None}


class Untyped:
    """The expressions under some roots that have no type yet, so that the types which a search for more errors gives them can be taken
    back: they follow from a wrong program."""

    def __init__(self, *roots: Expr) -> None:
        order = post_order(*roots, into=lambda node: node._checked_type is None)
        self._nodes = [node for node in order if node._checked_type is None]
        for node in list(self._nodes):
            if isinstance(node, Match):
                self._nodes += [var for clause in node.clauses for var in pattern_vars(clause.lhs) if var._checked_type is None]

    def restore(self) -> None:
        """Takes back their types, and what is known of their values."""
        for node in self._nodes:
            node._checked_type = None
            if hasattr(node, "_known_value"):
                del node._known_value


def assume_pattern(match: Match, type_: AnyValue) -> None:
    """Gives a type to the variables of a match's patterns that have none."""
    for clause in match.clauses:
        for var in pattern_vars(clause.lhs):
            assume(var, type_)


def assume(var: Var, type_: AnyValue) -> None:
    """Gives a type to a variable that has none."""
    if var._checked_type is None:
        var._checked_type = type_
