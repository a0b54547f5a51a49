"""The ranges of the loops of a schedule."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any as AnyValue

from passat.ir.counting import counted
from passat.ir.te.schedule import Fuse, Schedule, Split, Stage
from passat.ir.te.tensor import ComputeOp, ExternOp, Operation, Tensor
from passat.ir.tir.arithmetic import Add, FloorDiv, FloorMod, Max, Min, Mul, Sub
from passat.ir.tir.equality import difference
from passat.ir.tir.expr import Cast, IntImm, PrimExpr, Var, const
from passat.ir.tir.functor import post_order, rewrite, substitute
from passat.ir.tir.ranges import IterVar, Range, Reduce
from passat.ir.tir.types import TirError
from passat.ir.tir.values import ProducerLoad

Domains = dict[IterVar, Range]


@dataclass(frozen=True)
class Interval:
    """The numbers from `base + low` to `base + high`."""

    base: PrimExpr | None
    low: PrimExpr
    high: PrimExpr

    def __add__(self, other: "Interval") -> "Interval":
        base = self.base if other.base is None else other.base if self.base is None else self.base + other.base
        return Interval(base, self.low + other.low, self.high + other.high)

    def scaled(self, factor: PrimExpr) -> "Interval | None":
        """The products with a constant; None for a factor that may be negative."""
        if isinstance(factor, IntImm) and factor.value < 0:
            return Interval(None if self.base is None else self.base * factor, self.high * factor, self.low * factor)
        if not isinstance(factor, IntImm):
            return None
        return Interval(None if self.base is None else self.base * factor, self.low * factor, self.high * factor)


def interval(expr: PrimExpr, known: Mapping[Var, Interval]) -> Interval | None:
    """The values of an index for variables in intervals; other variables are fixed. None if there is no useful bound."""
    if isinstance(expr, IntImm):
        return Interval(None, expr, expr)
    zero = const(0, expr.dtype)
    if isinstance(expr, Var) and expr in known:
        return known[expr]
    if not any(isinstance(part, Var) and part in known for part in post_order(expr)):
        return Interval(expr, zero, zero)
    if isinstance(expr, Cast):
        return interval(expr.value, known)
    if not isinstance(expr, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)):
        return None
    a, b = interval(expr.a, known), interval(expr.b, known)
    if isinstance(expr, FloorMod) and isinstance(expr.b, IntImm) and expr.b.value > 0:
        return Interval(None, zero, expr.b - 1)
    if a is None or b is None:
        return None
    if isinstance(expr, Add):
        return a + b
    if isinstance(expr, Sub):
        negated = b.scaled(const(-1, expr.dtype))
        return None if negated is None else a + negated
    if isinstance(expr, Mul):
        scaled = a.scaled(expr.b)
        return b.scaled(expr.a) if scaled is None else scaled
    if isinstance(expr, FloorDiv) and a.base is None and isinstance(expr.b, IntImm) and expr.b.value > 0:
        return Interval(None, a.low // expr.b, a.high // expr.b)
    if isinstance(expr, (Min, Max)) and a.base is None and b.base is None:
        return Interval(None, type(expr).of(a.low, b.low), type(expr).of(a.high, b.high))
    return None


class Bodies:
    """The expressions of the operations of a schedule, with those that are computed where they are used put in."""

    def __init__(self, schedule: Schedule) -> None:
        self._bodies: dict[int, tuple[PrimExpr, ...]] = {}
        inlined = {id(stage.op) for stage in schedule.stages if stage.is_inline}
        for stage in schedule.stages:
            if isinstance(stage.op, ComputeOp):
                self._bodies[id(stage.op)] = tuple(self._inlined(part, inlined) for part in schedule.bodies[id(stage.op)])

    def _inlined(self, body: PrimExpr, inlined: set[int]) -> PrimExpr:
        def replaced(part: AnyValue) -> AnyValue:
            if not isinstance(part, ProducerLoad) or id(part.producer.op) not in inlined:
                return None
            op: ComputeOp = part.producer.op
            values = dict(zip([iv.var for iv in op.axis], part.indices, strict=True))
            return substitute(self._bodies[id(op)][part.producer.value_index], values)

        made: PrimExpr = rewrite(body, replaced)
        return made

    def __getitem__(self, op: ComputeOp) -> tuple[PrimExpr, ...]:
        return self._bodies[id(op)]

    def reads(self, op: Operation) -> Iterator[tuple[Tensor, tuple[PrimExpr, ...] | None]]:
        """The tensors that an operation reads, and at which index; None for all of the tensor."""
        if isinstance(op, ComputeOp):
            for body in self[op]:
                for part in post_order(body):
                    if isinstance(part, ProducerLoad):
                        yield part.producer, part.indices
        else:
            for tensor in op.input_tensors:
                yield tensor, None


def infer_bound(schedule: Schedule) -> Domains:
    """The range of each loop: all of a tensor, or what one iteration of the loop needs inside which it is computed."""
    bodies = Bodies(schedule.normalize())
    domains: Domains = {}
    for stage in reversed(schedule.stages):
        if isinstance(stage.op, ComputeOp) and not stage.is_inline:
            whole = {iv: iv.dom for iv in (*stage.op.axis, *stage.op.reduce_axis) if iv.dom is not None}
            domains.update(whole if stage.attached is None else {**whole, **_needed(stage, schedule, bodies, domains)})
            _pass_down(stage, domains)
        elif isinstance(stage.op, ExternOp) and stage.attached is not None:
            _readers(stage, schedule, bodies, _free_loops(stage, schedule, domains))
    return domains


def _pass_down(stage: Stage, domains: Domains) -> None:
    """The ranges of the loops that splitting and fusing made. Raises TirError for numbers of iterations that their type does not have."""
    for relation in stage.relations:
        if isinstance(relation, Fuse):
            extent = domains[relation.outer].extent * domains[relation.inner].extent
            domains[relation.fused] = _counted(relation.fused, extent)
            continue
        whole = domains[relation.parent].extent
        size = relation.factor if relation.factor is not None else relation.nparts
        assert size is not None
        if isinstance(size, IntImm) and isinstance(whole, IntImm) and 0 < whole.value < size.value and not _has_threads(stage):
            size = whole  # without iterations that compute nothing, as in TVM
        if isinstance(size, IntImm) and not whole.type.holds(size.value if isinstance(whole, IntImm) else 2 * size.value):
            raise TirError(
                f"{relation.parent.var.name} of {stage.op.name} is split by {size.value}, which is too large for its type {whole.dtype}; "
                "split it by less"
            )
        size = size.astype(whole.dtype)
        other = (whole + (size - 1)) // size
        inner, outer = (size, other) if relation.factor is not None else (other, size)
        domains[relation.inner] = _counted(relation.inner, inner)
        domains[relation.outer] = _counted(relation.outer, outer)


def _has_threads(stage: Stage) -> bool:
    """Whether a loop of a stage runs on threads, whose number stays as it is given."""
    return any(loop.thread is not None for loop in stage.loops.values())


def _counted(loop: IterVar, extent: PrimExpr) -> Range:
    """The range of a loop of a number of iterations; arithmetic of constants is folded if its result is a number of their type."""
    if not isinstance(extent, IntImm) and not any(isinstance(part, Var) for part in post_order(extent)):
        raise TirError(
            f"the loop {loop.var.name} has {counted(extent, 'iteration')}, more than {extent.dtype} counts; "
            "make smaller loops, or sizes of the type int64 by tir.const"
        )
    return Range.from_min_extent(const(0, extent.dtype), extent)


def _needed(stage: Stage, schedule: Schedule, bodies: Bodies, domains: Domains) -> Domains:
    """The ranges of the elements of a stage that one iteration of the loop needs inside which it is computed."""
    assert stage.attached is not None
    assert isinstance(stage.op, ComputeOp)
    free = _free_loops(stage, schedule, domains)
    found: list[list[Interval | None]] = [[] for _ in stage.op.axis]
    for reader, indices in _readers(stage, schedule, bodies, free):
        for place, part in enumerate(found):
            part.append(None if indices is None else interval(root_values(indices[place], reader, domains), free[id(reader)]))
    axes = zip(stage.op.axis, found, strict=True)
    return {iv: covering for iv, parts in axes if (covering := _covering(parts)) is not None}


def _readers(
    stage: Stage, schedule: Schedule, bodies: Bodies, free: Mapping[int, object]
) -> list[tuple[Stage, tuple[PrimExpr, ...] | None]]:
    """The stages that read a stage computed inside a loop, and at which index. Raises TirError unless there are some, all inside it."""
    assert stage.attached is not None
    parent, loop = stage.attached
    where = f"{stage.op.name} is computed inside the loop {loop.var.name} of {parent.op.name}"
    found = []
    for reader in schedule.stages:
        for tensor, indices in () if reader.is_inline else bodies.reads(reader.op):
            if tensor.op is not stage.op:
                continue
            if id(reader) not in free:
                raise TirError(f"{where}, and {reader.op.name}, which reads it, is outside")
            found.append((reader, indices))
    if not found:
        raise TirError(f"{where}, where nothing reads it; compute_at takes a stage that does")
    return found


def _free_loops(stage: Stage, schedule: Schedule, domains: Domains) -> dict[int, dict[Var, Interval]]:
    """For the stages inside the loop where a stage is computed: the intervals of the loops inside that loop."""
    assert stage.attached is not None
    parent, loop = stage.attached
    inside = parent.leaf_iter_vars[parent._place(loop) + 1 :]
    known: dict[Var, Interval] = {}
    _add(known, inside, domains)
    free = {id(parent): dict(known)}
    for other in reversed(schedule.stages):
        if other.attached is not None and id(other.attached[0]) in free and other is not stage:
            outer, at = other.attached
            if outer is parent and parent._place(at) < parent._place(loop):
                continue
            each = dict(free[id(outer)])
            _add(each, other.leaf_iter_vars, domains)
            free[id(other)] = each
    return free


def _add(known: dict[Var, Interval], loops: Iterable[IterVar], domains: Domains) -> None:
    for iv in loops:
        dom = domains.get(iv)
        start = None if dom is None else interval(dom.min, known)
        if dom is not None and start is not None:
            known[iv.var] = Interval(start.base, start.low, start.high + (dom.extent - 1))


def _covering(parts: list[Interval | None]) -> Range | None:
    """The range that covers intervals; None if that is not known."""
    whole: Interval | None = None
    for part in parts:
        if part is None or (whole is not None and difference(whole.base, part.base) is not None):
            return None
        whole = part if whole is None else Interval(part.base, Min.of(whole.low, part.low), Max.of(whole.high, part.high))
    if whole is None:
        return None
    return Range.from_min_extent(whole.low if whole.base is None else whole.base + whole.low, whole.high - whole.low + 1)


def root_values(expr: PrimExpr, stage: Stage, domains: Domains) -> PrimExpr:
    """An expression of the dimensions of a stage, in terms of its loops."""
    return substitute(expr, {iv.var: value for iv, value in values_of(stage, domains, {iv: iv.var for iv in stage.leaf_iter_vars}).items()})


def values_of(stage: Stage, domains: Domains, leaves: Mapping[IterVar, PrimExpr]) -> dict[IterVar, PrimExpr]:
    """The values of the dimensions of a stage, and of the loops between, for values of the loops. Some loops may be missing."""
    values = dict(leaves)
    for relation in reversed(stage.relations):
        if isinstance(relation, Split):
            if relation.outer in values and relation.inner in values:
                start = values[relation.inner] + values[relation.outer] * domains[relation.inner].extent
                values[relation.parent] = start + domains[relation.parent].min
        elif relation.fused in values:
            extent = domains[relation.inner].extent
            values[relation.outer] = values[relation.fused] // extent + domains[relation.outer].min
            values[relation.inner] = values[relation.fused] % extent + domains[relation.inner].min
    return values


__all__ = ["Bodies", "Domains", "Interval", "Reduce", "infer_bound", "interval", "root_values", "values_of"]
