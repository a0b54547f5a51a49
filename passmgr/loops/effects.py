"""What the evaluation of an expression changes, and whether it can fail."""

from collections.abc import Collection

from passat.ir.tir.expr import BinaryOp, Broadcast, Call, IntImm, PrimExpr
from passat.ir.tir.functor import post_order
from passat.ir.tir.intrinsics import CallEffectKind
from passat.ir.tir.stmt import Evaluate, Stmt, nothing, stmt_seq
from passat.ir.tir.values import BufferLoad, Load, ProducerLoad


def has_effects(expr: PrimExpr) -> bool:
    """Whether an expression does more than to compute a value: it writes memory, or calls a function that may."""
    return any(isinstance(part, Call) and part.op.effect > CallEffectKind.ReadState for part in post_order(expr))


def evaluated(*exprs: PrimExpr) -> Stmt:
    """A statement that evaluates those expressions that have effects."""
    kept = [Evaluate(expr) for expr in exprs if has_effects(expr)]
    return stmt_seq(*kept) if kept else nothing()


def is_total(expr: PrimExpr, harmless: Collection[str] = ()) -> bool:
    """Whether an expression may be evaluated where it need not be: it reads no memory, divides by constants other than 0, and calls only
    `harmless` functions."""
    for part in post_order(expr):
        if isinstance(part, (Load, BufferLoad, ProducerLoad)) or (isinstance(part, Call) and part.op.name not in harmless):
            return False
        if isinstance(part, BinaryOp) and part.DIVIDES:
            divisor = part.b.value if isinstance(part.b, Broadcast) else part.b
            if not isinstance(divisor, IntImm) or divisor.value == 0:
                return False
    return True
