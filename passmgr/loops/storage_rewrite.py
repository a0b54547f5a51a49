"""Shares memory whose lifetimes do not overlap, and allocates it outside of loops.

A walk: lifetimes depend on all statements of a function.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any as AnyValue
from typing import Final

from passat.ir import prim_func
from passat.ir.module import IRModule
from passat.ir.shape import Any, Dim
from passat.ir.tir.equality import difference
from passat.ir.tir.expr import IntImm, PrimExpr, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order, rewrite
from passat.ir.tir.linear import Polynomials, terms_of
from passat.ir.tir.stmt import Allocate, AttrStmt, SeqStmt, Stmt, Store, stmt_seq
from passat.ir.tir.values import Load, Ramp, true
from passat.passmgr.context import PassContext
from passat.passmgr.loops.in_place import is_in_place
from passat.passmgr.loops.ssa import renamed_definitions
from passat.passmgr.loops.storage_regions import Memory, Region, Regions, Step
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import PrimFuncPass

_KINDS: Final = ("global", "shared", "warp", "local", "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")
_REGISTERS: Final = _KINDS[2:]
_SMALL: Final = 4
"""Memory of at most as many bytes becomes a register."""
_LARGEST: Final = 2**31 - 1
"""The largest index of type int32."""


def tag_of(scope: str) -> str:
    """What follows the kind of memory in a scope. Memory with a tag is one block.

    >>> tag_of("global"), tag_of("local.L0A"), tag_of("global:tag"), tag_of("shared.dyn")
    ('', '.L0A', ':tag', '')
    """
    kind = next((kind for kind in _KINDS if scope.startswith(kind)), scope)
    tag = scope[len(kind) :]
    return "" if tag in (".dyn", ".workspace") else tag


@dataclass(eq=False)
class Place:
    """Memory for members that use it one after another. The last one does from the step `since` to the step `until` of a region."""

    members: list[Memory]
    size: Dim
    since: int
    until: int

    @property
    def scope(self) -> str:
        """The kind of memory."""
        return self.members[0].scope

    @property
    def alignment(self) -> int:
        """The alignment in bytes."""
        return max(member.alignment for member in self.members)

    @property
    def is_shared(self) -> bool:
        """Whether others may use it. What becomes registers is not shared."""
        if tag_of(self.scope):
            return True
        return self.scope not in _REGISTERS and not (isinstance(self.size, int) and self.size <= _SMALL)

    def fits(self, other: "Place", polynomials: Polynomials) -> bool:
        """Whether the members of another place may use this one after its own; it may have to grow."""
        if self.scope != other.scope or not (self.is_shared and other.is_shared):
            return False
        if isinstance(self.size, int) and isinstance(other.size, int):
            return True
        sizes = {member.element_size for member in (*self.members, *other.members)}
        return len(sizes) == 1 and (polynomials.is_at_least(self.size, other.size) or polynomials.is_at_least(other.size, self.size))

    def take(self, other: "Place", polynomials: Polynomials) -> None:
        """Adds the members of another place that fits."""
        self.members += other.members
        self.since, self.until = other.since, other.until
        if not polynomials.is_at_least(self.size, other.size):
            self.size = other.size


@dataclass(eq=False)
class Block:
    """One allocation for places, each of which begins at a number of bytes from its start."""

    offsets: dict[Place, int]
    size: Dim
    """The size in bytes."""
    memory: Memory
    """The member that gives the allocation its pointer and element type."""

    @property
    def extents(self) -> Sequence[PrimExpr]:
        """The numbers of elements, whose product is that of the allocation."""
        extents = self.memory.node.extents
        if self.memory.size == self.size:
            return extents
        assert isinstance(self.size, int), "members of different known sizes"
        count = self.size // self.memory.element_size
        return [IntImm("int64" if count > _LARGEST else extents[0].dtype if extents else "int32", count)]


def blocks_of(places: Sequence[Place]) -> list[Block]:
    """The allocations for places: one for those with the same tag whose sizes are known, and for each other one."""
    groups: dict[object, list[Place]] = {}
    for place in places:
        is_part = tag_of(place.scope) and isinstance(place.size, int) and not any(member.is_opaque for member in place.members)
        groups.setdefault(place.scope if is_part else place, []).append(place)
    found = []
    for group in groups.values():
        block = _block(group)
        fits = len(group) == 1 or (isinstance(block.size, int) and block.size <= _LARGEST)
        found.extend([block] if fits else [_block([place]) for place in group])
    return found


def _block(places: Sequence[Place]) -> Block:
    members = [member for place in places for member in place.members]
    if len(places) == 1 and not isinstance(places[0].size, int):
        [place] = places
        return Block({place: 0}, place.size, next(member for member in members if member.size == place.size))
    offsets: dict[Place, int] = {}
    end = 0
    for place in sorted(places, key=lambda each: -each.alignment):  # without gaps, if sizes are multiples of the alignment
        assert isinstance(place.size, int)
        offsets[place] = end = end + -end % place.alignment
        end += place.size
    memory = next((member for member in members if end % member.element_size == 0), members[0])
    return Block(offsets, end + -end % memory.element_size, memory)


@dataclass(eq=False)
class _Planned:
    """The places of a region, and the largest sums of memory that is allocated at the same time in its steps."""

    places: list[Place] = field(default_factory=list)
    inside: list[Dim] = field(default_factory=list)

    def sums(self, moved: Sequence[Place] = ()) -> list[Dim]:
        """The largest sums of memory that is allocated at the same time, without places that moved out."""
        kept = [place for place in self.places if place not in moved] if moved else self.places
        own = sum(block.size for block in blocks_of(kept))
        return [own + each for each in self.inside]


class Plan:
    """The memory that is allocated at the start of regions, for the regions of a function."""

    def __init__(self, found: Regions) -> None:
        self._polynomials = found.polynomials
        self._planned: dict[Region, _Planned] = {}
        before: dict[Region, list[Dim]] = {}
        allocated = _sums_around(found.memory.values(), lambda memory: not memory.is_used_after)
        kept = _sums_around(found.memory.values(), lambda memory: not memory.is_movable)
        for region in reversed(found.regions):
            after = sum(memory.size for memory in region.memory if memory.is_used_after)
            before[region] = [after + each for each in _sums_of_steps(region, allocated, before.__getitem__)]
            self._planned[region] = self._plan(region, allocated, kept, before[region])

    def blocks(self) -> Iterator[tuple[Region, list[Block]]]:
        """The allocations of each region that has some."""
        for region, planned in self._planned.items():
            if planned.places:
                yield region, blocks_of(planned.places)

    def _plan(self, region: Region, allocated: "_Sums", kept: "_Sums", before: list[Dim]) -> _Planned:
        moving = {
            inner: [place for place in self._planned[inner].places if self._leaves(place, inner, region)]
            for inner in (step.region for step in region.steps)
            if inner is not None
        }
        shared = {inner: [place for place in places if place.is_shared] for inner, places in moving.items()}
        attempts: list[Mapping[Region, list[Place]]] = [moving, shared, {}]
        for moved in attempts:
            planned = _Planned(self._places(region, moved), self._inside(region, kept, moved))
            if all(any(_is_at_most(new, old) for old in before) for new in planned.sums()):
                for inner, places in moved.items():
                    self._planned[inner].places = [place for place in self._planned[inner].places if place not in places]
                return planned
        return _Planned([], self._inside(region, allocated, {}))

    def _inside(self, region: Region, around: "_Sums", moved: Mapping[Region, list[Place]]) -> list[Dim]:
        return _sums_of_steps(region, around, lambda inner: self._planned[inner].sums(moved.get(inner, ())))

    def _leaves(self, place: Place, inner: Region, outer: Region) -> bool:
        """Whether a place of a region may be allocated at the start of the one around it. Sizes that may be negative there stay."""
        return all(
            inner.lets_out(member)
            and member.variables.isdisjoint(outer.lets)
            and all(_is_at_most(0, self._polynomials.of(extent)) for extent in member.node.extents)
            for member in place.members
        )

    def _places(self, region: Region, moved: Mapping[Region, list[Place]]) -> list[Place]:
        """The places of the memory of a region and of what moves out of those inside: each begins its lifetime in the best place."""
        born: list[list[Place]] = [[] for _ in region.steps]
        for memory in region.memory:
            if memory.is_movable and memory.first is not None and memory.last is not None:
                born[memory.first].append(Place([memory], memory.size, memory.first, memory.last))
        for number, step in enumerate(region.steps):
            places = moved.get(step.region, []) if step.region is not None else []
            born[number].extend(Place(list(place.members), place.size, number, number) for place in places)
        made: list[Place] = []
        for number, (step, begun) in enumerate(zip(region.steps, born, strict=True)):
            for place in begun:
                found = self._in_place(place, made, step, number) or self._free(place, made, number)
                if found is None:
                    made.append(place)
                else:
                    found.take(place, self._polynomials)
        return sorted(made, key=lambda place: min(member.number for member in place.members))

    def _in_place(self, wanted: Place, places: Iterable[Place], step: Step, number: int) -> Place | None:
        """A place whose content a step uses for the last time, and replaces."""
        if len(wanted.members) != 1:
            return None
        [memory] = wanted.members
        for place in places:
            if place.since < number == place.until and place.fits(wanted, self._polynomials):
                last = place.members[-1]
                if last.node.dtype == memory.node.dtype and is_in_place(step.node, memory.var, last.var):
                    return place
        return None

    def _free(self, wanted: Place, places: Iterable[Place], number: int) -> Place | None:
        """The place whose size is the closest among those that are not in use; first those that are large enough."""
        free = [place for place in places if place.until < number and place.fits(wanted, self._polynomials)]

        def distance(place: Place) -> tuple[bool, int]:
            rest = place.size - wanted.size
            return (rest < 0, abs(rest)) if isinstance(rest, int) else (rest == wanted.size, 0)

        return min(free, key=distance, default=None)


_Sums = Callable[[Memory | None], Dim]
"""How much is allocated inside a statement that allocates memory, in bytes."""


def _sums_around(memory: Iterable[Memory], counts: Callable[[Memory], bool]) -> _Sums:
    found: dict[Memory | None, Dim] = {None: 0}
    for each in memory:
        found[each] = found[each.around] + (each.size if counts(each) else 0)
    return found.__getitem__


def _sums_of_steps(region: Region, around: _Sums, inside: Callable[[Region], list[Dim]]) -> list[Dim]:
    """The largest sums of memory that is allocated at the same time in the steps of a region."""
    largest: list[Dim] = []
    for step in region.steps:
        for each in [0] if step.region is None else inside(step.region):
            total = around(step.around) + each
            if not any(_is_at_most(total, other) for other in largest):
                largest = [*(other for other in largest if not _is_at_most(other, total)), total]
    return largest


def _is_at_most(value: Dim, other: Dim) -> bool:
    """Whether a sum of sizes is at most another one for all values of their variables, which are not negative."""
    rest = other - value
    return not isinstance(rest, Any) and all(coefficient >= 0 for _, coefficient in terms_of(rest))


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
