"""Places that memory shares, and their layout in allocations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.shape import Dim
from passat.ir.tir.expr import IntImm, PrimExpr
from passat.ir.tir.linear import Polynomials
from passat.passmgr.loops.storage_regions import Memory

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
