"""Unrolls loops: the body once for each iteration.

A walk: it copies statements, and whether it does depends on the loops around and the number of steps before.
"""

from dataclasses import dataclass, replace
from typing import Final

from passat.ir.counting import counted
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.tir.expr import IntImm, const
from passat.ir.tir.functor import Mutator, post_order, substitute
from passat.ir.tir.linear import Polynomials
from passat.ir.tir.stmt import AttrStmt, For, ForKind, SeqStmt, Stmt, nothing, stmt_seq
from passat.ir.tir.types import TirError
from passat.passmgr.context import PassContext
from passat.passmgr.loops.ssa import renamed_definitions
from passat.passmgr.options import register_option
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import PrimFuncPass

OPTION: Final = "tir.UnrollLoop"
MAX_STATEMENTS: Final = 1 << 18
"""Maximum number of statements and expressions that one loop is unrolled to."""


@dataclass(frozen=True)
class UnrollLoopConfig:
    """Which loops are unrolled, in addition to those of the kind `unrolled`.

    A serial loop around at most `auto_max_depth` unrolled ones is unrolled if it then has at most `auto_max_step` steps, or at most
    `auto_max_extent` iterations. Without `explicit_unroll`, such loops become `unrolled` loops instead.
    """

    auto_max_step: int = 0
    auto_max_depth: int = 8
    auto_max_extent: int = 0
    explicit_unroll: bool = True


register_option(OPTION, UnrollLoopConfig, None, "Which loops UnrollLoop unrolls, in addition to those marked.")


@dataclass(frozen=True, repr=False)
class UnrollLoop(PrimFuncPass):
    """Unrolls the loops marked `unroll`, and small ones as the option `tir.UnrollLoop` says.

    Raises TirError for marked loops whose number of iterations is not constant, or that become too large.
    """

    info = PassInfo(0, "tir.UnrollLoop")

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """Unrolls the loops of a function."""
        body = _Unroller(ctx.get_config(OPTION) or UnrollLoopConfig()).visit(func.body)
        return func if body is func.body else func.with_body(renamed_definitions(body))


class _Unroller(Mutator):
    """Counts steps (stores and evaluations) and loops, of one statement of a sequence at a time."""

    def __init__(self, config: UnrollLoopConfig) -> None:
        self._config, self._polynomials = config, Polynomials()
        self._steps = self._unrolled_depth = self._serial_depth = 0

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """Pragmas change the configuration of the statements below."""
        if node.attr_key == "pragma_auto_unroll_max_step":
            changed = replace(self._config, auto_max_step=_constant(node))
        elif node.attr_key == "pragma_unroll_explicit":
            changed = replace(self._config, explicit_unroll=bool(_constant(node)))
        else:
            made: Stmt = self.descend(node)
            return made
        outer, self._config = self._config, changed
        body: Stmt = self.visit(node.body)
        self._config = outer
        return body

    def _step(self, node: Stmt) -> Stmt:
        self._steps += 1
        return node

    visit_Store = visit_Evaluate = visit_BufferStore = _step

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        """Each statement is counted for itself."""
        made = []
        for stmt in node.seq:
            steps, unrolled, serial = self._steps, self._unrolled_depth, self._serial_depth
            self._steps = self._unrolled_depth = self._serial_depth = 0
            made.append(self.visit(stmt))
            self._steps += steps
            self._unrolled_depth = max(unrolled, self._unrolled_depth)
            self._serial_depth = max(serial, self._serial_depth)
        return node if all(new is old for new, old in zip(made, node.seq, strict=True)) else stmt_seq(*made)

    def visit_For(self, node: For) -> Stmt:
        """Unrolls the loop, or marks it, or neither."""
        config = self._config
        made: For = self.descend(node)
        extent = self._polynomials.constant(made.extent)
        marked = made.kind == ForKind.UNROLLED
        if marked and extent is None:
            raise TirError(
                f"the loop over {made.loop_var.name} is marked unroll, but its number of iterations is {made.extent}, not a constant"
            )
        chosen = marked or (made.kind == ForKind.SERIAL and extent is not None and self._is_small(extent))
        if chosen:
            assert extent is not None
            self._steps *= extent
            self._unrolled_depth += 1
        else:
            self._serial_depth += 1
        single = extent is not None and 0 <= extent <= 1 == config.auto_max_extent
        if (chosen and config.explicit_unroll) or single:
            assert extent is not None
            return _unrolled(made, extent)
        return made.with_fields(kind=ForKind.UNROLLED) if chosen and not marked else made

    def _is_small(self, extent: int) -> bool:
        config = self._config
        if self._serial_depth or self._unrolled_depth > config.auto_max_depth:
            return False
        return extent * self._steps <= config.auto_max_step or extent <= config.auto_max_extent


def _unrolled(node: For, extent: int) -> Stmt:
    """The bodies of a loop one after another."""
    size = max(extent, 0) * len(post_order(node.body))
    if size > MAX_STATEMENTS:
        raise TirError(
            f"the loop over {node.loop_var.name} cannot be unrolled: its {counted(extent, 'iteration')} would "
            f"have {counted(size, 'statement')} and expressions, "
            f"more than {MAX_STATEMENTS}; use a serial loop, or split it"
        )
    bodies = [substitute(node.body, {node.loop_var: node.min + const(step, node.loop_var.dtype)}) for step in range(extent)]
    return stmt_seq(*bodies) if bodies else nothing()


def _constant(node: AttrStmt) -> int:
    if not isinstance(node.value, IntImm):
        raise TirError(f"{node.attr_key} has a constant, not {node.value}")
    return node.value.value
