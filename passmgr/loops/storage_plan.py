"""Which memory shares its place, and where it is allocated.

Memory of a region whose lifetimes do not overlap shares a place, and so do the operand and the result of a statement that works in place.
The memory of loops and branches moves out of them, so that it is allocated once. Neither happens in a region where more memory would be
allocated at some time than before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from passat.ir.shape import Any, Dim
from passat.ir.tir.linear import terms_of
from passat.passmgr.loops.in_place import is_in_place
from passat.passmgr.loops.storage_blocks import Block, Place, blocks_of
from passat.passmgr.loops.storage_regions import Memory, Region, Regions, Step


@dataclass(eq=False)
class _Planned:
    """The places of a region, and the largest sums of memory that is allocated at the same time in its steps."""

    places: list[Place] = field(default_factory=list)
    inside: list[Dim] = field(default_factory=list)

    def sums(self, moved: Sequence[Place] = ()) -> list[Dim]:
        """The largest sums of memory that is allocated at the same time, without places that moved out."""
        kept = [place for place in self.places if place not in moved] if moved else self.places
        own = _total(block.size for block in blocks_of(kept))
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
            after = _total(memory.size for memory in region.memory if memory.is_used_after)
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


def _total(sizes: Iterable[Dim]) -> Dim:
    total: Dim = 0
    for size in sizes:
        total = total + size
    return total
