"""Limits of saturation, checked inside a round, and what they are when nobody sets them."""

import math
import os
import time
from typing import Final, NamedTuple

_PAGE: Final = os.sysconf("SC_PAGE_SIZE") / (1 << 20) if hasattr(os, "sysconf") else 0.0


class Limits(NamedTuple):
    """Where saturation stops, with the best so far: nodes added to the program's own, matches decided, rounds, seconds of wall time, and
    megabytes by which the process grows. A rule that finds more than `rule_matches` in a round is put off (passat.rules.engine.backoff)."""

    nodes: int = 200_000
    matches: int = 1_000_000
    rounds: int = 12
    seconds: float = 60.0
    memory: float = 8192.0
    rule_matches: int = 10_000


class LimitReached(Exception):
    """Saturation has come to a limit; the text says which."""


class Budget:
    """What is left of limits while an e-graph grows. The clock starts when it is made."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.matches = 0
        self._start = time.perf_counter()
        self._resident = math.inf

    def check(self, nodes: int) -> None:
        """Raises LimitReached where nodes, matches or time have run out."""
        limits = self.limits
        if nodes > limits.nodes:
            raise LimitReached(f"nodes: more than {limits.nodes}")
        if self.matches > limits.matches:
            raise LimitReached(f"matches: more than {limits.matches}")
        if time.perf_counter() - self._start > limits.seconds:
            raise LimitReached(f"time: more than {limits.seconds:g} s")

    def watch_memory(self) -> None:
        """From now on the process must not grow too much."""
        self._resident = resident_megabytes()

    def check_memory(self) -> None:
        """Raises LimitReached where the process has grown too much since `watch_memory`. Asking takes some 20 us."""
        if resident_megabytes() - self._resident > self.limits.memory:
            raise LimitReached(f"memory: more than {self.limits.memory:g} MB")


def resident_megabytes() -> float:
    """What the process has in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0.0
