"""Which storage each value of a function gets, as Relay's GraphPlanMemory gives it out."""

from bisect import bisect_left, insort
from typing import Final

from passat.ir.buffers import BufferView, Origin
from passat.ir.expr import Expr, Function

_RANGE: Final = 16
"""Free storage is taken for values that are so many times smaller or larger, at most."""


class StoragePlan:
    """`storage_of[i]` is the storage of buffer `i` of the view, `sizes` the bytes of each storage (None: not known before the run).

    Parameters and constants have storage of their own. A result is given the smallest free storage that is large enough; else the largest
    that is not, which grows; else new storage. Its operands are still there then, and become free afterwards, if nobody needs them: nothing
    is written in place. Values of unknown size share with none, views have the storage of what they view (as in TVM from v0.8 on).

    >>> from passat.ir.text import parse_expr
    >>> plan = StoragePlan(BufferView(parse_expr("fn (%x: Tensor[(4), int8]) { negative(negative(negative(negative(%x)))) }")))
    >>> plan.storage_of, plan.sizes
    ((0, 1, 2, 1, 2), (4, 4, 4))
    """

    def __init__(self, view: BufferView) -> None:
        self.view = view
        self._free: list[tuple[int, int, int]] = []
        self._freed = 0
        self._sizes: list[int | None] = []
        given: dict[int, int] = {}
        for buffer in view.buffers:
            if buffer.origin is not Origin.COMPUTED:
                given[buffer.number] = self._new(buffer.size)
        expiring: dict[int, list[int]] = {}
        made: dict[int, list[int]] = {}
        for buffer in view.buffers:
            if buffer.origin is Origin.COMPUTED:
                made.setdefault(buffer.first, []).append(buffer.number)
                expiring.setdefault(buffer.last, []).append(buffer.number)
        for step in range(1, view.end):
            for number in made.get(step, ()):
                given[number] = self._request(view.buffers[number].size)
            for number in sorted(expiring.get(step, ()), key=lambda number: -view.buffers[number].first):  # unread results first
                self._release(given[number])
        self.storage_of = tuple(given[number] for number in range(len(view.buffers)))
        self.sizes: tuple[int | None, ...] = tuple(self._sizes)

    def of(self, node: Expr) -> tuple[int, ...]:
        """The storages of the value of a node: of a tuple those of its fields."""
        return tuple(self.storage_of[number] for number in self.view.of(node))

    @property
    def total(self) -> int | None:
        """The bytes of all storages together; None where one is not known."""
        known = [size for size in self._sizes if size is not None]
        return sum(known) if len(known) == len(self._sizes) else None

    def _new(self, size: int | None) -> int:
        self._sizes.append(size)
        return len(self._sizes) - 1

    def _request(self, size: int | None) -> int:
        """Free storage for a value, or new."""
        if size is None:
            return self._new(None)
        free = self._free
        place = bisect_left(free, (size, 0, 0))
        if place < len(free) and free[place][0] <= size * _RANGE:
            return free.pop(place)[2]
        if place > 0 and free[place - 1][0] >= size // _RANGE:
            storage = free.pop(place - 1)[2]
            self._sizes[storage] = size
            return storage
        return self._new(size)

    def _release(self, storage: int) -> None:
        size = self._sizes[storage]
        if size is not None:
            self._freed += 1
            insort(self._free, (size, self._freed, storage))


def storage_plan(function: Function) -> StoragePlan:
    """The storage plan of a function (`StoragePlan`)."""
    return StoragePlan(BufferView(function))
