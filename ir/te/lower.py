"""Lowers schedules to statements of loops, and these to functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue

from passat.ir.expr import GlobalVar
from passat.ir.module import IRModule
from passat.ir.te.bounds import Bodies, Domains, infer_bound, values_of
from passat.ir.te.schedule import Fuse, Loop, Schedule, Stage
from passat.ir.te.tensor import ComputeOp, ExternOp, Tensor
from passat.ir.tir.buffer import Buffer, decl_buffer
from passat.ir.tir.expr import Call, IntImm, PrimExpr, Var, cast, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order, rewrite, substitute
from passat.ir.tir.node import Node
from passat.ir.tir.ops import likely
from passat.ir.tir.ranges import IterVar, Range, Reduce
from passat.ir.tir.stmt import (
    AttrStmt,
    BufferRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    stmt_seq,
)
from passat.ir.tir.types import TirError
from passat.ir.tir.values import BufferLoad, ProducerLoad, true

Wrap = Callable[[Stmt], Stmt]


class BufferBinding(Node):
    """A buffer of the statement of an ExternOp, and the tensor that it represents."""

    __slots__ = ("buffer", "producer")
    FIELDS = ("buffer", "producer")

    def __init__(self, buffer: Buffer, producer: Tensor) -> None:
        self.buffer, self.producer = buffer, producer


def schedule_ops(schedule: Schedule, domains: Domains) -> Stmt:
    """The loops of a schedule, which read and write tensors."""
    return _Lowering(schedule, domains).whole()


class _Lowering:
    def __init__(self, schedule: Schedule, domains: Domains) -> None:
        self._schedule, self._domains = schedule.normalize(), domains
        self._bodies = Bodies(schedule)

    def whole(self) -> Stmt:
        """The statements of all stages."""
        body: Stmt | None = None
        for stage in reversed(self._schedule.stages):
            if isinstance(stage.op, (ComputeOp, ExternOp)) and not stage.is_inline and stage.attached is None:
                body = self._pipeline(stage, body)
        if body is None:
            raise TirError("the schedule computes nothing")
        return body

    def _pipeline(self, stage: Stage, consumers: Stmt | None) -> Stmt:
        """The statements of a stage and of those that use its results, with memory for the results."""
        produced = self._extern(stage.op) if isinstance(stage.op, ExternOp) else self._compute(stage)
        if stage.double_buffered:
            for tensor in stage.op.outputs:
                produced = AttrStmt(tensor, "double_buffer_scope", 1, produced)
        body = produced if consumers is None else SeqStmt([produced, consumers])
        for tensor in reversed(stage.op.outputs):
            if isinstance(stage.op, ComputeOp):
                bounds = [self._domains[iv] for iv in stage.op.axis]
            else:
                bounds = [Range.from_min_extent(const(0, size.dtype), size) for size in tensor.shape]
            body = ProducerRealize(tensor, bounds, true(), body, stage.scope or "global")
            for place, iv in enumerate(stage.op.axis):
                if iv in stage.alignments:
                    body = AttrStmt(tensor, "buffer_dim_align", Call("handle", "tir.tvm_tuple", [place, *stage.alignments[iv]]), body)
        return body

    def _extern(self, op: ExternOp) -> Stmt:
        body = op.body
        pairs = (*zip(op.output_placeholders, op.outputs, strict=True), *zip(op.input_placeholders, op.input_tensors, strict=True))
        for buffer, tensor in reversed(pairs):
            body = AttrStmt(BufferBinding(buffer, tensor), "buffer_bind_scope", 1, body)
        return body

    def _compute(self, stage: Stage) -> Stmt:
        op = stage.op
        assert isinstance(op, ComputeOp)
        loops = stage.leaf_iter_vars
        reducing = [place for place, iv in enumerate(loops) if iv.iter_type == IterVar.CommReduce]
        first = reducing[0] if reducing else len(loops)
        leaves, wraps = self._loops(stage, loops, "")
        values = values_of(stage, self._domains, leaves)
        args = [values[iv] for iv in op.axis]
        bodies = self._bodies[op]
        reduction = bodies[0]
        if not isinstance(reduction, Reduce):
            provided = stmt_seq(*[ProducerStore(op.output(place), part, args) for place, part in enumerate(self._with(bodies, values))])
            return self._nest(stage, loops, wraps, self._guarded(stage, values, provided))
        values_by_var = {iv.var: value for iv, value in values.items()}
        sources = [substitute(part, values_by_var) for part in reduction.source]
        results = [tensor(*args) for tensor in op.outputs]
        updated = reduction.combiner.combine(results, sources)
        update = stmt_seq(*[ProducerStore(tensor, part, args) for tensor, part in zip(op.outputs, updated, strict=True)])
        condition = substitute(reduction.condition, values_by_var)
        if not (isinstance(condition, IntImm) and condition.value):
            update = IfThenElse(condition, update)
        update = self._nest(stage, loops[first:], wraps[first:], self._guarded(stage, values, update))
        data = [iv for iv in loops[first:] if iv.iter_type != IterVar.CommReduce]
        init_leaves, init_wraps = self._loops(stage, data, ".init")
        init_values = values_of(stage, self._domains, {**{iv: leaves[iv] for iv in loops[:first]}, **init_leaves})
        init_args = [init_values[iv] for iv in op.axis]
        starts = self._with(reduction.init or reduction.combiner.identity_element, init_values)
        init = stmt_seq(*[ProducerStore(tensor, part, init_args) for tensor, part in zip(op.outputs, starts, strict=True)])
        init = self._guarded(stage, init_values, init)
        for wrap in reversed(init_wraps):
            init = wrap(init)
        return self._nest(stage, loops[:first], wraps[:first], SeqStmt([init, update]))

    def _with(self, parts: Sequence[PrimExpr], values: Mapping[IterVar, PrimExpr]) -> list[PrimExpr]:
        by_var = {iv.var: value for iv, value in values.items()}
        return [substitute(part, by_var) for part in parts]

    def _loops(self, stage: Stage, loops: Sequence[IterVar], suffix: str) -> tuple[dict[IterVar, PrimExpr], list[Wrap]]:
        """The value of each loop, and the function that puts a statement into it."""
        values: dict[IterVar, PrimExpr] = {}
        wraps: list[Wrap] = []
        encloses = any(other.attached is not None and other.attached[0] is stage for other in self._schedule.stages)
        for iv in loops:
            value, wrap = self._loop(iv, stage.loops.get(iv, Loop()), suffix)
            values[iv] = value
            wraps.append(wrap if value is iv.var or suffix or not encloses else _named(iv.var, value, wrap))
        return values, wraps

    def _loop(self, iv: IterVar, loop: Loop, suffix: str) -> tuple[PrimExpr, Wrap]:
        dom = self._domains[iv]
        if loop.thread is not None:
            thread = loop.thread
            return cast(iv.dtype, thread.var) + dom.min, lambda body: AttrStmt(thread, "thread_extent", dom.extent, body)
        if isinstance(dom.extent, IntImm) and dom.extent.value == 1:
            return dom.min, lambda body: body
        at_zero = isinstance(dom.min, IntImm) and dom.min.value == 0
        var = iv.var if at_zero and not suffix else Var(f"{iv.var.name}{suffix or '.idx'}", iv.dtype)

        def wrap(body: Stmt) -> Stmt:
            made: Stmt = For(var, const(0, var.dtype), cast(var.dtype, dom.extent), loop.kind, body)
            for key, value in reversed(loop.pragmas):
                made = AttrStmt(iv, f"pragma_{key}", 1 if value is None else value, made)
            return made

        return (var if at_zero else var + dom.min), wrap

    def _nest(self, stage: Stage, loops: Sequence[IterVar], wraps: Sequence[Wrap], body: Stmt) -> Stmt:
        """Puts a statement into loops, together with the stages that are computed inside them."""
        for iv, wrap in zip(reversed(loops), reversed(wraps), strict=True):
            for other in reversed(self._schedule.stages):
                if other.attached is not None and other.attached[0] is stage and other.attached[1] is iv:
                    body = self._pipeline(other, body)
            body = wrap(body)
        return body

    def _guarded(self, stage: Stage, values: Mapping[IterVar, PrimExpr], body: Stmt) -> Stmt:
        """A statement under the conditions that the dimensions are in range, except for those that always hold."""
        assert isinstance(stage.op, ComputeOp)
        conditions: list[PrimExpr] = []
        for relation in stage.relations:
            if isinstance(relation, Fuse) or relation.parent not in values:
                continue
            dom, covered = self._domains[relation.parent], self._domains[relation.outer].extent * self._domains[relation.inner].extent
            if not (isinstance(covered, IntImm) and isinstance(dom.extent, IntImm) and covered.value == dom.extent.value):
                conditions.append(values[relation.parent] < dom.min + dom.extent)
        if stage.attached is not None:
            for iv in stage.op.axis:
                if iv in values and iv.dom is not None:
                    conditions += self._inside(values[iv], self._domains[iv], iv.dom.extent)
        for condition in reversed(conditions):
            body = IfThenElse(likely(condition), body)
        return body

    @staticmethod
    def _inside(value: PrimExpr, dom: Range, extent: PrimExpr) -> list[PrimExpr]:
        """The conditions that a computed index is inside of a tensor, unless its range shows that it is."""
        known = isinstance(dom.min, IntImm) and isinstance(dom.extent, IntImm) and isinstance(extent, IntImm)
        if dom.extent is extent or (known and int(dom.min) >= 0 and int(dom.min) + int(dom.extent) <= int(extent)):  # type: ignore[call-overload]  # constants
            return []
        return [value >= 0, value < extent]


def _named(var: Var, value: PrimExpr, wrap: Wrap) -> Wrap:
    """A loop in which a variable has its value, for the stages that are computed inside."""
    return lambda body: wrap(LetStmt(var, value, body))


def to_prim_func(args: Sequence[Tensor | Buffer | Var], stmt: Stmt, binds: Mapping[Tensor, Buffer] | None = None) -> PrimFunc:
    """A function of tensors, buffers and numbers whose body is a statement of `schedule_ops`. Tensors become buffers."""
    buffers: dict[Tensor, Buffer] = dict(binds or {})
    params: list[Var] = []
    buffer_map: dict[Var, Buffer] = {}
    for place, arg in enumerate(args):
        if not isinstance(arg, (Tensor, Buffer, Var)):
            raise TypeError(f"the arguments of a function are tensors, buffers and variables, not a {type(arg).__name__}")
        if any(arg is each for each in args[:place]):
            raise TirError(f"{arg.name} is an argument twice; the arguments of a function differ")
        if isinstance(arg, Var):
            params.append(arg)
            continue
        if isinstance(arg, Tensor) and arg not in buffers:
            buffers[arg] = decl_buffer(arg.shape, arg.dtype, arg.name)
        buffer = buffers[arg] if isinstance(arg, Tensor) else arg
        params.append(Var(buffer.name, "handle"))
        buffer_map[params[-1]] = buffer
    external = set(buffers)
    nodes = post_order(stmt)
    scopes = {node.producer: node.storage_scope for node in nodes if isinstance(node, ProducerRealize)}
    for tensor, scope in scopes.items():
        if tensor not in buffers:
            buffers[tensor] = decl_buffer(tensor.shape, tensor.dtype, tensor.name, scope=scope)

    def buffer_of(tensor: Tensor) -> Buffer:
        if tensor not in buffers:
            raise TirError(f"the tensor {tensor.name} is read, but it is not an argument of the function")
        return buffers[tensor]

    bound: dict[Buffer, Buffer] = {
        node.node.buffer: buffer_of(node.node.producer)
        for node in nodes
        if isinstance(node, AttrStmt) and isinstance(node.node, BufferBinding)
    }

    def lowered(node: AnyValue) -> AnyValue:
        if isinstance(node, ProducerLoad):
            return BufferLoad(buffer_of(node.producer), node.indices)
        if isinstance(node, ProducerStore):
            return BufferStore(buffer_of(node.producer), node.value, node.indices)
        if isinstance(node, ProducerRealize):
            body, buffer = node.body, buffer_of(node.producer)
            return body if node.producer in external else BufferRealize(buffer, node.bounds, node.condition, body)
        if isinstance(node, AttrStmt) and isinstance(node.node, BufferBinding):
            return node.body
        if isinstance(node, AttrStmt) and isinstance(node.node, Tensor):
            return node.body if node.node in external else node.with_fields(node=buffer_of(node.node))
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in bound:
            return node.with_fields(buffer=bound[node.buffer])
        return None

    variables: dict[Var, PrimExpr] = {}
    for ours, theirs in bound.items():
        pairs = (*zip(ours.strides, theirs.strides, strict=False), (ours.elem_offset, theirs.elem_offset))
        variables |= {a: b for a, b in pairs if isinstance(a, Var)}
        variables[ours.data] = theirs.data
    body = rewrite(stmt, lowered)
    attrs = {"from_legacy_te_schedule": True}
    return PrimFunc(params, substitute(body, variables) if variables else body, buffer_map=buffer_map, attrs=attrs)


def schedule_to_module(
    schedule: Schedule,
    args: Sequence[Tensor | Buffer | Var],
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
) -> IRModule:
    """A module with the function of a schedule."""
    function = to_prim_func(args, schedule_ops(schedule, infer_bound(schedule)), binds)
    named = function.with_attr({"global_symbol": name, "tir.noalias": True})
    return IRModule({GlobalVar(name): named})


__all__ = ["BufferBinding", "schedule_ops", "schedule_to_module", "to_prim_func"]
