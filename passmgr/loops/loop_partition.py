"""Splits loops where a likely condition in them is decided, so that most iterations do not evaluate it.

A walk: it copies the bodies of loops, and where depends on the loops around and the conditions in them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any as AnyValue
from typing import Final, TypeGuard

from passat.ir import prim_func
from passat.ir.module import IRModule
from passat.ir.tir.arithmetic import And, Max, Min, Not, Or
from passat.ir.tir.expr import Call, IntImm, PrimExpr, Var
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import Mutator, post_order, rewrite, substitute
from passat.ir.tir.linear import Polynomial, Polynomials
from passat.ir.tir.node import Node
from passat.ir.tir.ranges import IterVar
from passat.ir.tir.stmt import AttrStmt, For, ForKind, IfThenElse, LetStmt, Stmt, is_nothing, nothing, stmt_seq
from passat.ir.tir.values import Select, true
from passat.passmgr.context import PassContext
from passat.passmgr.loops.effects import evaluated, is_total
from passat.passmgr.loops.solved_conditions import Fact, facts, is_likely, limited
from passat.passmgr.loops.ssa import renamed_definitions
from passat.passmgr.options import register_option
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import PrimFuncPass

OPTION: Final = "tir.LoopPartition"
MAX_PARTS: Final = 16
"""Maximum number of loops that one loop is split into."""
MAX_GROWTH: Final = 1 << 13
"""Maximum number of statements and expressions that splitting loops adds to a function."""
_HINT: Final = "pragma_loop_partition_hint"
_FIXED: Final = (ForKind.VECTORIZED, ForKind.UNROLLED)
"""The kinds of loops that need a constant number of iterations."""


@dataclass(frozen=True)
class LoopPartitionConfig:
    """Which loops are split."""

    partition_const_loop: bool = False
    """Whether loops with a constant number of iterations are split, too."""
    no_unroll_loop_with_extent_one: bool = False
    """Whether parts with one iteration stay loops."""


register_option(OPTION, LoopPartitionConfig, None, "Which loops LoopPartition splits.")


@dataclass(frozen=True, repr=False)
class LoopPartition(PrimFuncPass):
    """Splits loops into parts in which the conditions marked `likely` always hold or never do, and drops these conditions there.

    In loops with the pragma `loop_partition_hint`, all comparisons count. On blocks of threads, the statement is copied under a condition
    instead. Afterwards no condition is marked.
    """

    info = PassInfo(0, "tir.LoopPartition")

    def transform_function(self, func: prim_func.PrimFunc, mod: IRModule, ctx: PassContext) -> prim_func.PrimFunc:
        """Splits the loops of a function."""
        if not isinstance(func, PrimFunc) or not any(is_likely(node) or _is_hint(node) for node in post_order(func.body)):
            return func
        given: Stmt = renamed_definitions(func.body, func.params)
        body = _Partitioner(ctx.get_config(OPTION) or LoopPartitionConfig(), given).visit(given)
        return func.with_body(renamed_definitions(rewrite(body, _unmarked)))


def _is_hint(node: Node) -> bool:
    return isinstance(node, AttrStmt) and node.attr_key == _HINT


def _unmarked(node: Node) -> Node | None:
    """A condition without its mark, and a statement without its hint."""
    if isinstance(node, Call) and is_likely(node):
        return node.args[0]
    return node.body if isinstance(node, AttrStmt) and _is_hint(node) else None


@dataclass(frozen=True)
class _Part:
    """The iterations from `begin` to before `end`, and the conditions that are decided there, by identity."""

    begin: Polynomial
    end: Polynomial
    decided: Mapping[int, bool] = field(default_factory=dict)
    is_ordered: bool = True
    """Whether its limits are those of conditions, not the smaller or larger of two. Others are not split again."""


class _Partitioner(Mutator):
    def __init__(self, config: LoopPartitionConfig, body: Stmt) -> None:
        self._config, self._polynomials = config, Polynomials()
        nodes = post_order(body)
        self._growth = 0
        self._hinted = {
            node.node.var if isinstance(node.node, IterVar) else node.node
            for node in nodes
            if isinstance(node, AttrStmt) and _is_hint(node)
        }
        self._threads: list[Var] = []

    def visit(self, node: AnyValue) -> AnyValue:
        """The statement with its loops split."""
        return node if isinstance(node, PrimExpr) else super().visit(node)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        """The variable has its value in the statement."""
        limited(self._polynomials, node)
        made: Stmt = self.descend(node)
        return made

    def visit_For(self, node: For) -> Stmt:
        """The parts of the loop, one after another, each with its inner loops split."""
        limited(self._polynomials, node)
        var = node.loop_var
        if not self._is_candidate(node.min, node.extent, var) or node.kind == ForKind.THREAD_BINDING:
            unsplit: For = self.descend(node)
            return evaluated(node.min, node.extent) if is_nothing(unsplit.body) else unsplit
        begin = self._polynomials.of(node.min)
        whole = _Part(begin, begin + self._polynomials.of(node.extent))  # type: ignore[arg-type]  # a size
        known = list(facts(var, node.body, self._threads, var in self._hinted, self._polynomials))
        if node.kind in _FIXED:
            known = [
                fact for fact in known if all(isinstance(limit, int) for limit in (whole.begin, whole.end, fact.low or 0, fact.end or 0))
            ]
        parts = self._parts(whole, known, var.dtype)
        added = (len(parts) - 1) * len(post_order(node.body))
        if self._growth + added > MAX_GROWTH:
            parts, added = [whole], 0
        self._growth += added
        loops = [self._loop(node, part, whole) for part in parts]
        kept = [loop for loop in loops if not is_nothing(loop)]
        return stmt_seq(*kept) if kept else nothing()

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """Of blocks of threads, the statement is copied where conditions are decided; inner loops must be the same in all threads."""
        var = limited(self._polynomials, node)
        if var is None or node.attr_key != "thread_extent":
            other: Stmt = self.descend(node)
            return other
        is_block = node.node.thread_tag.startswith("blockIdx")
        if is_block and self._is_candidate(IntImm(var.dtype, 0), node.value, var):
            node = node.with_fields(body=self._in_blocks(node, var))
        if is_block:
            made: Stmt = self.descend(node)
            return made
        self._threads.append(var)
        made = self.descend(node)
        self._threads.pop()
        return made

    def _is_candidate(self, low: PrimExpr, extent: PrimExpr, var: Var) -> bool:
        if not var.type.is_index or not extent.type.is_index or not is_total(low) or not is_total(extent):
            return False
        constant = isinstance(low, IntImm) and isinstance(extent, IntImm)
        return self._config.partition_const_loop or not constant

    def _parts(self, whole: _Part, known: Sequence[Fact], dtype: str) -> list[_Part]:
        """Parts of a loop, in order, in each of which as many conditions are decided as are known to be."""
        todo, done = [whole], list[_Part]()
        while todo:
            part = todo.pop()
            pieces = self._pieces(part, known, dtype) if len(todo) + len(done) + 3 <= MAX_PARTS else [part]
            if len(pieces) == 1:
                done += pieces
            else:
                todo += reversed(pieces)
        return done

    def _pieces(self, part: _Part, known: Sequence[Fact], dtype: str) -> list[_Part]:
        """A part as the piece in which conditions are decided, and those before and after it; empty ones are left out."""
        decided = dict(part.decided)
        partly: list[Fact] = []
        for fact in known:
            cut = self._within(part, fact, dtype)
            if cut is None or id(fact.condition) in decided:
                continue
            if cut.begin == part.begin and cut.end == part.end:
                decided[id(fact.condition)] = fact.value
            elif part.is_ordered:
                partly.append(fact)
        for value in (True, False):
            middle = replace(part, decided=decided)
            for fact in partly:
                if fact.value is value and id(fact.condition) not in middle.decided:
                    cut = self._within(middle, fact, dtype)
                    middle = middle if cut is None else cut
            if middle.decided != decided:
                ordered = middle.is_ordered
                before = _Part(part.begin, middle.begin, decided, ordered)
                after = _Part(middle.end, part.end, decided, ordered)
                return [piece for piece in (before, middle, after) if piece.begin != piece.end]
        return [replace(part, decided=decided)]

    def _within(self, part: _Part, fact: Fact, dtype: str) -> _Part | None:
        """The piece of a part where a fact holds; None if it is proved to be empty."""
        begin, above = self._clamped(fact.low, part.begin, part.begin, part.end, dtype)
        end, below = self._clamped(fact.end, part.end, begin, part.end, dtype)
        if begin == end:
            return None
        ordered = part.is_ordered and above and below
        return _Part(begin, end, {**part.decided, id(fact.condition): fact.value}, ordered)

    def _clamped(
        self, limit: Polynomial | None, otherwise: Polynomial, low: Polynomial, high: Polynomial, dtype: str
    ) -> tuple[Polynomial, bool]:
        """A limit, or another value if there is none, between two others; and whether it is proved to be one of the three."""
        if limit is None:
            return otherwise, True
        made = self._polynomials.extreme(Max, limit, low, dtype)
        made = self._polynomials.extreme(Min, made, high, dtype)
        return made, made in (limit, low, high)

    def _loop(self, node: For, part: _Part, whole: _Part) -> Stmt:
        """A part of a loop, with its inner loops split."""
        var, dtype = node.loop_var, node.loop_var.dtype
        body = _decided(node.body, part.decided)
        if part.begin == whole.begin and part.end == whole.end:
            return node.with_fields(body=self.visit(body))
        begin = node.min if part.begin == whole.begin else self._polynomials.expr(part.begin, dtype)
        extent = self._polynomials.expr(part.end - part.begin, dtype)  # type: ignore[arg-type]  # a size
        if isinstance(extent, IntImm) and extent.value == 1:
            body = substitute(body, {var: begin})
            if not self._config.no_unroll_loop_with_extent_one:
                single: Stmt = self.visit(body)
                return single
        made = node.with_fields(min=begin, extent=extent, body=body)
        limited(self._polynomials, made)
        body = self.visit(body)
        return body if is_nothing(body) else made.with_fields(body=body)

    def _in_blocks(self, node: AttrStmt, var: Var) -> Stmt:
        """The statement of a thread block, in the innermost threads copied under the condition that others are decided."""
        whole = _Part(0, self._polynomials.of(node.value))
        known = facts(var, node.body, self._threads, var in self._hinted, self._polynomials)
        pieces = self._pieces(whole, list(known), var.dtype)
        middle = max(pieces, key=lambda piece: len(piece.decided))
        size = len(post_order(node.body))
        if not middle.decided or self._growth + size > MAX_GROWTH:
            return node.body
        condition = true()
        if middle.begin != whole.begin:
            condition = var >= self._polynomials.expr(middle.begin, var.dtype)
        if middle.end != whole.end:
            condition = And.of(condition, var < self._polynomials.expr(middle.end, var.dtype))
        if isinstance(condition, IntImm):
            return _decided(node.body, middle.decided)
        self._growth += size

        def chosen(body: Stmt) -> Stmt:
            return IfThenElse(condition, _decided(body, middle.decided), body)

        def innermost(stmt: Node) -> Stmt | None:
            if not _is_thread(stmt) or any(map(_is_thread, post_order(stmt.body))):
                return None
            return stmt.with_fields(body=chosen(stmt.body))

        if not any(map(_is_thread, post_order(node.body))):
            return chosen(node.body)
        made: Stmt = rewrite(node.body, before=innermost)
        return made


def _is_thread(node: Node) -> TypeGuard[AttrStmt]:
    return isinstance(node, AttrStmt) and node.attr_key == "thread_extent"


def _decided(body: Stmt, decided: Mapping[int, bool]) -> Stmt:
    """A statement without conditions whose values are known, and without what depends on them."""
    if not decided:
        return body
    made: Stmt = rewrite(body, _folded, lambda node: IntImm("bool", decided[id(node)]) if id(node) in decided else None)
    return made


def _folded(node: Node) -> Node | None:
    """What remains of a node whose condition is a constant; None for others."""
    if isinstance(node, (And, Or)):
        return type(node).of(node.a, node.b) if isinstance(node.a, IntImm) or isinstance(node.b, IntImm) else None
    if isinstance(node, Not):
        return Not.of(node.a) if isinstance(node.a, IntImm) else None
    if isinstance(node, IfThenElse) and isinstance(node.condition, IntImm):
        return node.then_case if node.condition.value else node.else_case or nothing()
    if isinstance(node, Select) and isinstance(node.condition, IntImm):
        return node.true_value if node.condition.value else node.false_value
    if isinstance(node, Call) and node.args and isinstance(node.args[0], IntImm):
        if node.op.name == "tir.if_then_else":
            return node.args[1] if node.args[0].value else node.args[2]
        return node.args[0] if is_likely(node) else None
    return None
