"""Annotations for external code generators, which tests of partitioning share."""

from typing import Final

from passat.ir.expr import Call, Expr, Var
from passat.ir.functor import ExprMutator
from passat.ir.op import Op
from passat.relay.annotation import compiler_begin, compiler_end

__all__ = ["CcompilerAnnotator"]

_CHAIN: Final = ("add", "subtract", "multiply")
"""The operators of a region, from its first to its last."""


class CcompilerAnnotator(ExprMutator):
    """Makes a region for the compiler `ccompiler` of each `multiply(subtract(add(a, b), c), d)`."""

    def visit_call(self, call: Call) -> Expr:
        """The call, with a region that ends in it."""
        if _is_chain(call, len(_CHAIN) - 1):
            return compiler_end(self._inside(call, len(_CHAIN) - 1), "ccompiler")
        return super().visit_call(call)

    def _inside(self, call: Call, place: int) -> Call:
        first = self._inside(call.args[0], place - 1) if place and isinstance(call.args[0], Call) else self._begun(call.args[0])
        return Call(call.op, [first, self._begun(call.args[1])], call.attrs)

    def _begun(self, arg: Expr) -> Expr:
        return compiler_begin(arg if isinstance(arg, Var) else self.visit(arg), "ccompiler")


def _is_chain(expr: Expr, place: int) -> bool:
    """Whether an expression is the operator of that place, on a chain of the operators before it."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op) or expr.op.name != _CHAIN[place]:
        return False
    return place == 0 or _is_chain(expr.args[0], place - 1)
