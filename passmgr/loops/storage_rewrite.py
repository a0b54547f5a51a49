"""Shares memory whose lifetimes do not overlap, and allocates it outside of loops.

A walk: lifetimes depend on all statements of a function.
"""

from dataclasses import dataclass
from typing import Any as AnyValue

from passat.ir import prim_func
from passat.ir.module import IRModule
from passat.ir.tir.equality import difference
from passat.ir.tir.expr import PrimExpr, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order, rewrite
from passat.ir.tir.stmt import Allocate, AttrStmt, SeqStmt, Stmt, Store, stmt_seq
from passat.ir.tir.values import Load, Ramp, true
from passat.passmgr.context import PassContext
from passat.passmgr.loops.ssa import renamed_definitions
from passat.passmgr.loops.storage_blocks import Block
from passat.passmgr.loops.storage_plan import Plan
from passat.passmgr.loops.storage_regions import Regions
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import PrimFuncPass


@dataclass(frozen=True, repr=False)
class StorageRewrite(PrimFuncPass):
    """Lets memory whose lifetimes do not overlap share one allocation, also where a statement replaces its operand by its result.

    Allocations move out of loops and branches, but not out of parallel loops and threads. A function never needs more memory at a time than
    before, if all its branches are taken. Memory with a tag (such as `global:tag`) is one block. Memory whose pointer has another name is
    left alone. Runs after StorageFlatten.
    """

    info = PassInfo(0, "tir.StorageRewrite")

    def transform_function(self, func: prim_func.PrimFunc, mod: IRModule, ctx: PassContext) -> prim_func.PrimFunc:
        """Changes the allocations of a function."""
        if not isinstance(func, PrimFunc) or not any(isinstance(node, Allocate) for node in post_order(func.body)):
            return func
        body = renamed_definitions(func.body, func.params)
        found = Regions(body)
        made = _Rewriting(found, Plan(found)).rewritten(body)
        return func if difference(made, func.body) is None else func.with_body(made)


class _Rewriting:
    """Puts allocations at the start of regions, and moves accesses into them."""

    def __init__(self, found: Regions, plan: Plan) -> None:
        self._removed = {memory.var for memory in found.memory.values() if memory.is_movable and memory.first is None}
        self._added: dict[int, list[Block]] = {}
        self._moved: dict[Var, tuple[Var, int]] = {}
        """The new pointer, and the number of bytes from the start of the block."""
        for region, blocks in plan.blocks():
            self._added[id(region.body)] = blocks
            for block in blocks:
                for place, offset in block.offsets.items():
                    for member in place.members:
                        self._moved[member.var] = block.memory.var, offset
        self._removed |= self._moved.keys()
        self._open: list[AnyValue] = []

    def rewritten(self, body: Stmt) -> Stmt:
        """The statement with its new allocations."""
        made: Stmt = rewrite(body, self._after, self._before)
        return made

    def _before(self, node: AnyValue) -> None:
        self._open.append(node)

    def _after(self, node: AnyValue) -> AnyValue:
        """The replacement of a node whose parts are done; the node before that is the last one that is open."""
        before, made = self._open.pop(), node
        if isinstance(node, Allocate) and node.buffer_var in self._removed:
            made = node.body
        elif isinstance(node, SeqStmt) and any(isinstance(part, SeqStmt) for part in node.seq):
            made = stmt_seq(*node.seq)
        elif isinstance(node, Var) and node in self._moved:
            made, _ = self._moved[node]
        elif isinstance(node, (Load, Store)) and node.buffer_var in self._moved:
            var, offset = self._moved[node.buffer_var]
            type_ = node.type if isinstance(node, Load) else node.value.type
            made = node.with_fields(buffer_var=var, index=_shifted(node.index, offset // type_.itemsize))
        elif isinstance(node, AttrStmt) and isinstance(node.node, Var) and node.node in self._moved:
            made = node.with_fields(node=self._moved[node.node][0])
        for block in reversed(self._added.get(id(before), ())):
            made = Allocate(block.memory.var, block.memory.node.dtype, block.extents, true(), made)
        return made


def _shifted(index: PrimExpr, places: int) -> PrimExpr:
    """An index that is higher by a number of places."""
    if places == 0:
        return index
    if isinstance(index, Ramp):
        return Ramp(const(places, index.base.dtype) + index.base, index.stride, index.lanes)
    return const(places, index.dtype) + index
