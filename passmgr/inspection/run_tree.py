"""The runs of passes that an instrument measures, as a tree for each thread."""

import threading
from collections.abc import Iterator
from typing import Generic, Protocol, Self, TypeVar


class Run(Protocol):
    """One run of a pass, with those inside it."""

    children: list[Self]


_R = TypeVar("_R", bound=Run)


class RunTree(threading.local, Generic[_R]):
    """What one thread has measured: the runs of this context, those that are going on, and the runs of the context left last."""

    def __init__(self) -> None:
        self.runs: list[_R] = []
        self.open: list[_R] = []
        self.finished: list[_R] = []

    def begin(self, run: _R) -> None:
        """A run begins, inside the one that is going on."""
        (self.open[-1].children if self.open else self.runs).append(run)
        self.open.append(run)

    def leave(self) -> None:
        """The context is left; its runs are kept until the next."""
        self.finished, self.runs, self.open = self.runs, [], []

    def walk(self) -> Iterator[tuple[_R, int]]:
        """The runs of the context entered now, or else of the last one, in the order in which they began; and how deep each is nested."""
        stack = [(run, 0) for run in reversed(self.runs or self.finished)]
        while stack:
            run, depth = stack.pop()
            yield run, depth
            stack.extend((child, depth + 1) for child in reversed(run.children))
