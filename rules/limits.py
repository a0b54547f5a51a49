"""Limits of saturation, checked inside a round, and what they are when nobody sets them."""

import time
from typing import NamedTuple


class Limits(NamedTuple):
    """Where saturation stops, with the best so far: nodes added to the program's own, matches decided, rounds, seconds of wall time."""

    nodes: int = 200_000
    matches: int = 1_000_000
    rounds: int = 12
    seconds: float = 60.0


class LimitReached(Exception):
    """Saturation has come to a limit; the text says which."""


class Budget:
    """What is left of limits while an e-graph grows. The clock starts when it is made."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.matches = 0
        self._start = time.perf_counter()

    def check(self, nodes: int) -> None:
        """Raises LimitReached where nodes, matches or time have run out."""
        limits = self.limits
        if nodes > limits.nodes:
            raise LimitReached(f"nodes: more than {limits.nodes}")
        if self.matches > limits.matches:
            raise LimitReached(f"matches: more than {limits.matches}")
        if time.perf_counter() - self._start > limits.seconds:
            raise LimitReached(f"time: more than {limits.seconds:g} s")
