"""What the evaluation of an expression changes, and whether it can fail; and a pass that removes statements without effect.

The pass is a walk: it removes statements and the scopes around them, which depends on everything inside.
"""

from collections.abc import Collection, Container
from dataclasses import dataclass

from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.tir.expr import BinaryOp, Broadcast, Call, IntImm, PrimExpr, Var
from passat.ir.tir.functor import post_order, rewrite
from passat.ir.tir.intrinsics import CallEffectKind
from passat.ir.tir.node import Node
from passat.ir.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferRealize,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    ProducerRealize,
    SeqStmt,
    Stmt,
    is_nothing,
    nothing,
    stmt_list,
    stmt_seq,
)
from passat.ir.tir.values import BufferLoad, Load, ProducerLoad
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import PrimFuncPass


def has_effects(expr: PrimExpr) -> bool:
    """Whether an expression does more than to compute a value: it writes memory, or calls a function that may."""
    return any(isinstance(part, Call) and part.op.effect > CallEffectKind.ReadState for part in post_order(expr))


def mentions(node: Node, variables: Container[Var]) -> bool:
    """Whether one of some variables occurs in an expression or a statement."""
    return any(part in variables for part in post_order(node) if isinstance(part, Var))


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


@dataclass(frozen=True, repr=False)
class RemoveNoOp(PrimFuncPass):
    """Removes evaluations of values that are not used, and loops, conditions and memory around nothing.

    Calls that may change something are kept, and `while` loops, which may not end.
    """

    info = PassInfo(0, "tir.RemoveNoOp")

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """Removes the statements of a function that do nothing."""
        body = rewrite(func.body, _without_effect)
        return func if body is func.body else func.with_body(body)


def _without_effect(node: Node) -> Stmt | None:
    """What remains of a statement whose parts are done; None if it stays."""
    if isinstance(node, SeqStmt):
        kept = [part for part in stmt_list(node) if not is_nothing(part)]
        same = len(kept) == len(node.seq) > 1 and all(new is old for new, old in zip(kept, node.seq, strict=True))
        return None if same else stmt_seq(*kept) if kept else nothing()
    if isinstance(node, Evaluate):
        return None if is_nothing(node) else _if_new(evaluated(node.value), node)
    if isinstance(node, AttrStmt) and node.attr_key == "pragma_debug_skip_region":
        return nothing()
    if isinstance(node, IfThenElse):
        if node.else_case is not None and is_nothing(node.else_case):
            node = IfThenElse(node.condition, node.then_case)
            return evaluated(node.condition) if is_nothing(node.then_case) else node
        return evaluated(node.condition) if node.else_case is None and is_nothing(node.then_case) else None
    if isinstance(node, For):
        if isinstance(node.extent, IntImm) and node.extent.value <= 0:
            return nothing()
        return evaluated(node.min, node.extent) if is_nothing(node.body) else None
    if isinstance(node, (LetStmt, AttrStmt)):
        return evaluated(node.value) if is_nothing(node.body) else None
    if isinstance(node, Allocate):
        return evaluated(*node.extents) if is_nothing(node.body) else None
    if isinstance(node, (BufferRealize, ProducerRealize)):
        return node.body if is_nothing(node.body) else None
    return None


def _if_new(made: Stmt, node: Evaluate) -> Stmt | None:
    return None if isinstance(made, Evaluate) and made.value is node.value else made
