"""Schedules: in which loops the tensors are computed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any as AnyValue

from passat.ir.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from passat.ir.tir.expr import IntImm, PrimExpr, Var, convert
from passat.ir.tir.functor import rewrite, substitute
from passat.ir.tir.ranges import IterVar
from passat.ir.tir.stmt import ForKind
from passat.ir.tir.types import TirError
from passat.ir.tir.values import ProducerLoad
from passat.ir.walks import parts_first


@dataclass(frozen=True, eq=False)
class Split:
    """`parent` is `outer * factor + inner`, or `outer` has `nparts` numbers."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: PrimExpr | None
    nparts: PrimExpr | None


@dataclass(frozen=True, eq=False)
class Fuse:
    """`fused` runs over all pairs of `outer` and `inner`."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


@dataclass(eq=False)
class Loop:
    """What is set for one loop: its kind, the thread it is bound to, and pragmas."""

    kind: ForKind = ForKind.SERIAL
    thread: IterVar | None = None
    pragmas: list[tuple[str, AnyValue]] = field(default_factory=list)


class Stage:
    """The loops of one operation. `leaf_iter_vars` are the loops, outermost first."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.leaf_iter_vars: list[IterVar] = [*op.axis, *op.reduce_axis]
        self.relations: list[Split | Fuse] = []
        self.loops: dict[IterVar, Loop] = {}
        self.scope = ""
        self.double_buffered = False
        self.alignments: dict[IterVar, tuple[int, int]] = {}
        self.is_inline = False
        self.attached: tuple[Stage, IterVar] | None = None

    def _place(self, axis: IterVar) -> int:
        if not isinstance(axis, IterVar):
            raise TypeError(f"a loop of {self.op.name} is a variable such as {self.op.name}.op.axis[0], not a {type(axis).__name__}")
        for place, leaf in enumerate(self.leaf_iter_vars):
            if leaf is axis:
                return place
        known = ", ".join(leaf.var.name for leaf in self.leaf_iter_vars)
        raise TirError(f"{axis.var.name} is not a loop of {self.op.name}, which has {known or 'none'}")

    def _loop(self, axis: IterVar) -> Loop:
        self._place(axis)
        return self.loops.setdefault(axis, Loop())

    def split(self, parent: IterVar, factor: AnyValue = None, nparts: AnyValue = None) -> tuple[IterVar, IterVar]:
        """Splits a loop into an outer one and an inner one of `factor` iterations, or an outer one of `nparts`."""
        if (factor is None) == (nparts is None):
            raise ValueError("split takes either factor or nparts")
        place, name = self._place(parent), parent.var.name
        outer, inner = (IterVar(None, Var(f"{name}.{part}", parent.dtype), parent.iter_type) for part in ("outer", "inner"))
        sizes = [None if size is None else convert(size) for size in (factor, nparts)]
        for size in sizes:
            if size is not None and (not size.type.is_integer or size.dtype == "bool" or (isinstance(size, IntImm) and size.value < 1)):
                raise TirError(f"{name} is split by a positive integer, not by {size}")
        self.relations.append(Split(parent, outer, inner, sizes[0], sizes[1]))
        self.leaf_iter_vars[place : place + 1] = [outer, inner]
        return outer, inner

    def fuse(self, *axes: IterVar) -> IterVar:
        """Fuses adjacent loops into one. Raises TirError if they are not adjacent, or differ in kind."""
        if not axes:
            raise ValueError("fuse takes at least one loop")
        outer = axes[0]
        for inner in axes[1:]:
            place = self._place(outer)
            if self._place(inner) != place + 1:
                raise TirError(f"{inner.var.name} is not directly inside {outer.var.name}, so they cannot be fused")
            if outer.iter_type != inner.iter_type:
                raise TirError(f"of {outer.var.name} and {inner.var.name}, one reduces and the other does not")
            fused = IterVar(None, Var(f"{outer.var.name}.{inner.var.name}.fused", outer.dtype), outer.iter_type)
            self.relations.append(Fuse(outer, inner, fused))
            self.leaf_iter_vars[place : place + 2] = [fused]
            outer = fused
        return outer

    def reorder(self, *axes: IterVar) -> None:
        """Puts loops into another order, in the places that they have now."""
        places = [self._place(axis) for axis in axes]
        if len(set(places)) != len(places):
            raise TirError("each loop is named once")
        for place, axis in zip(sorted(places), axes, strict=True):
            self.leaf_iter_vars[place] = axis

    def tile(self, x_parent: IterVar, y_parent: IterVar, x_factor: AnyValue, y_factor: AnyValue) -> tuple[IterVar, ...]:
        """Splits two loops, and moves both inner ones inside."""
        xo, xi = self.split(x_parent, factor=x_factor)
        yo, yi = self.split(y_parent, factor=y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def vectorize(self, var: IterVar) -> None:
        """Makes a loop vectorized. Raises TirError for a loop that reduces."""
        if var.iter_type == IterVar.CommReduce:
            raise TirError(f"{var.var.name} reduces, so it cannot be vectorized")
        self._loop(var).kind = ForKind.VECTORIZED

    def unroll(self, var: IterVar) -> None:
        """Makes a loop unrolled."""
        self._loop(var).kind = ForKind.UNROLLED

    def parallel(self, var: IterVar) -> None:
        """Makes a loop parallel. Raises TirError for a loop that reduces."""
        if var.iter_type == IterVar.CommReduce:
            raise TirError(f"{var.var.name} reduces, so it cannot be parallel")
        self._loop(var).kind = ForKind.PARALLEL

    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        """Runs the iterations of a loop on threads."""
        if not isinstance(thread_ivar, IterVar):
            raise TypeError(f"a loop is bound to a thread that te.thread_axis makes, not to a {type(thread_ivar).__name__}")
        self._loop(ivar).thread = thread_ivar

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: AnyValue = None) -> None:
        """Adds an attribute to the statement of a loop; `vectorize`, `unroll` and `parallel` set its kind."""
        if pragma_type in ("vectorize", "unroll", "parallel"):
            getattr(self, pragma_type)(var)
        else:
            self._loop(var).pragmas.append((pragma_type, pragma_value))

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Pads the memory of the results: the step of a dimension is a multiple of a factor plus an offset."""
        if not any(axis is each for each in self.op.axis):
            raise TirError(f"{axis.var.name} is not a dimension of {self.op.name}")
        if factor < 1 or offset < 0:
            raise TirError(f"the memory of {self.op.name} is aligned by a positive factor and an offset, not by {factor} and {offset}")
        self.alignments[axis] = factor, offset

    def double_buffer(self) -> None:
        """Marks the memory of the results as double-buffered, for passes of accelerators. On the CPU it has no effect."""
        self.double_buffered = True

    def set_scope(self, scope: str) -> None:
        """Puts the results into a kind of memory, such as `local`."""
        self.scope = scope

    def compute_inline(self) -> None:
        """Computes the elements where they are used. Raises TirError for reductions, outputs and statements of your own."""
        if not isinstance(self.op, ComputeOp) or self.op.reduce_axis:
            raise TirError(f"{self.op.name} cannot be computed where it is used, since it reduces or is not an expression")
        self.is_inline, self.attached = True, None

    def compute_at(self, parent: "Stage", scope: IterVar) -> None:
        """Computes the elements that one iteration of a loop of another stage needs, inside it. Raises TirError for arguments and for the
        stage itself; lowering also does unless all stages that read the elements are inside."""
        if not isinstance(parent, Stage):
            raise TypeError(f"{self.op.name} is computed inside a loop of a stage, not of a {type(parent).__name__}")
        if isinstance(self.op, PlaceholderOp):
            raise TirError(f"{self.op.name} is an argument, so it is not computed inside a loop")
        if parent is self:
            raise TirError(f"{self.op.name} cannot be computed inside its own loop")
        parent._place(scope)
        self.is_inline, self.attached = False, (parent, scope)

    def compute_root(self) -> None:
        """Computes all elements before those that use them, which is the default."""
        self.is_inline, self.attached = False, None

    def __repr__(self) -> str:
        return f"Stage({self.op.name})"


class Schedule:
    """The stages of operations and of all that they need, in the order of computation. `s[tensor]` is the stage of a tensor."""

    def __init__(self, outputs: Iterable[Operation]) -> None:
        self.outputs = tuple(outputs)
        self.stages = [Stage(op) for op in _in_order(self.outputs)]
        self._by_op = {id(stage.op): stage for stage in self.stages}
        self.bodies: dict[int, tuple[PrimExpr, ...]] = {id(op): op.body for op in _in_order(self.outputs) if isinstance(op, ComputeOp)}
        """What the operations compute, by the identity of the operation. Caches change it."""

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        if not isinstance(op, Operation):
            raise TypeError(f"a schedule has stages of tensors and operations, not of a {type(op).__name__}")
        if id(op) not in self._by_op:
            raise TirError(f"{op.name} is not part of the schedule of {', '.join(each.name for each in self.outputs)}")
        return self._by_op[id(op)]

    def cache_read(self, tensor: Tensor, scope: str, readers: Iterable[Tensor | Operation] | Tensor | Operation) -> Tensor:
        """Copies a tensor into another kind of memory, from which the readers read it. Returns the copy."""
        given = [readers] if isinstance(readers, (Tensor, Operation)) else readers
        ops = [reader.op if isinstance(reader, Tensor) else reader for reader in given]
        axis = [IterVar((0, size), f"ax{place}", IterVar.DataPar) for place, size in enumerate(tensor.shape)]
        copy = ComputeOp(f"{tensor.name}.{scope}", "", None, axis, [tensor(*[iv.var for iv in axis])])
        self._insert(copy, scope, self.stages.index(self[tensor.op]) + 1)
        cached = copy.output(0)

        def replaced(part: AnyValue) -> AnyValue:
            reads = isinstance(part, ProducerLoad) and part.producer == tensor
            return ProducerLoad(cached, part.indices) if reads else None

        for op in ops:
            if id(op) not in self.bodies or tensor not in op.input_tensors:
                raise TirError(f"{op.name} is not an expression that reads {tensor.name}")
            self.bodies[id(op)] = tuple(rewrite(body, replaced) for body in self.bodies[id(op)])
        return cached

    def cache_write(self, tensor: Tensor, scope: str) -> Tensor:
        """Computes a tensor in another kind of memory, and copies it at the end. Returns the tensor in that memory.

        Raises TirError if its loops have been changed already.
        """
        stage, op = self[tensor.op], tensor.op
        if not isinstance(op, ComputeOp) or op.num_outputs != 1 or stage.relations:
            raise TirError(f"{op.name} is not an expression with one result whose loops are unchanged")
        axis = [IterVar(iv.dom, Var(f"{iv.var.name}.c", iv.dtype), IterVar.DataPar) for iv in op.axis]
        values = {old.var: new.var for old, new in zip(op.axis, axis, strict=True)}
        bodies = [substitute(body, values) for body in self.bodies[id(op)]]
        inner = ComputeOp(f"{op.name}.{scope}", op.tag, op.attrs, axis, bodies)
        self._insert(inner, scope, self.stages.index(stage))
        cached = inner.output(0)
        self.bodies[id(op)] = (cached(*[iv.var for iv in op.axis]),)
        stage.leaf_iter_vars = list(op.axis)
        return cached

    def _insert(self, op: ComputeOp, scope: str, place: int) -> None:
        stage = Stage(op)
        stage.scope = scope
        self.stages.insert(place, stage)
        self._by_op[id(op)] = stage
        self.bodies[id(op)] = op.body

    def normalize(self) -> "Schedule":
        """The schedule itself, which needs no preparation. Raises TirError if an output is computed where it is used."""
        for op in self.outputs:
            if self[op].is_inline:
                raise TirError(f"{op.name} is an output, so it is not computed where it is used")
        return self


def create_schedule(ops: Operation | Tensor | Iterable[Operation]) -> Schedule:
    """The default schedule: each operation in its own loops, in the order of its dimensions. Raises TypeError for other arguments."""
    given = list(ops) if isinstance(ops, Iterable) and not isinstance(ops, (str, Tensor)) else [ops]
    outputs = [each.op if isinstance(each, Tensor) else each for each in given]
    for each in outputs:
        if not isinstance(each, Operation):
            raise TypeError(f"a schedule is made of operations, as in te.create_schedule(y.op), not of a {type(each).__name__}")
    return Schedule(outputs)


def _in_order(outputs: Iterable[Operation]) -> list[Operation]:
    """The operations, each after those that it needs."""
    return list(parts_first(outputs, lambda op: [tensor.op for tensor in op.input_tensors]))


__all__ = ["Fuse", "Loop", "PlaceholderOp", "Schedule", "Split", "Stage", "create_schedule"]
