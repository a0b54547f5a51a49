"""Finds what works together, and which kernels do not compile, by bisection."""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from passat.runtime.kernels.fusing import Kernel
from passat.runtime.kernels.library import library_source
from passat.runtime.kernels.toolchain import CompilerError, build_library

_Item = TypeVar("_Item")
TRIES: Final = 48
"""The maximum number of trials. Untried items count as those that do not work."""
SECONDS: Final = 120.0
"""After this time kernels are no longer tried."""


def working(items: Sequence[_Item], works: Callable[[list[_Item], list[_Item]], bool], tries: int = TRIES) -> list[_Item]:
    """The items that work together. `works(kept, more)` tries `more` items with those that are kept already; all of them are known to fail.

    >>> working([1, 2, 3, 4, 5], lambda kept, more: 3 not in more)
    [1, 2, 4, 5]
    """
    kept: list[_Item] = []
    waiting = [list(items)]
    untried = False
    while waiting:
        part = waiting.pop()
        if untried and tries > 0:
            tries -= 1
            if works(kept, part):
                kept += part
                continue
        untried = True
        if len(part) > 1 and tries > 0:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
    return kept


def compiling(kernels: Sequence[Kernel], domain: str, command: Sequence[str]) -> list[Kernel]:
    """The kernels that the compiler accepts, of those that it rejects together. Raises CompilerError if it accepts no library at all."""
    build_library(library_source((), domain), command)

    last = time.monotonic() + SECONDS

    def works(kept: list[Kernel], more: list[Kernel]) -> bool:
        if time.monotonic() > last:
            return False
        try:
            build_library(library_source(more, domain), command)
        except CompilerError:
            return False
        return True

    return working(kernels, works)
