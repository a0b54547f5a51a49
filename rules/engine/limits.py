"""Limits of saturation with their defaults, checked within iterations, and the back-off of single rules. The user's Ctrl-C, too: the first
stops a saturation and keeps the best program so far, the second interrupts as usual."""

import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from types import FrameType
from typing import Final, NamedTuple

from passat.ir.counting import counted
from passat.passmgr.inspection.resources import resident_bytes


class Interruption:
    """Whether the user has requested a stop."""

    def __init__(self) -> None:
        self.requested = False

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the second one interrupts the program


_open: list[Interruption] = []
"""The active interruption, which all threads poll."""


def interrupted() -> bool:
    """True if saturations must stop."""
    return bool(_open) and _open[-1].requested


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """A context in which the first Ctrl-C stops the current and later saturations with the best program so far. Only the outermost context
    counts, in the main thread, if no other handler for SIGINT is installed; otherwise nothing changes.

    >>> with interruptible() as interruption:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interruption.requested
    True
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if _open or not usual or threading.current_thread() is not threading.main_thread():
        yield _open[-1] if _open else Interruption()
        return
    interruption = Interruption()
    _open.append(interruption)
    signal.signal(signal.SIGINT, interruption._request)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _open.pop()


_MEGABYTE: Final = 1 << 20


class StopReason(StrEnum):
    """Why a saturation ends: saturated, a limit, the user, or a failure of egglog."""

    SATURATED = "saturated"
    NODES = "nodes"
    MATCHES = "matches"
    ROUNDS = "rounds"
    UNIONS = "unions"
    TIME = "time"
    MEMORY = "memory"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class Stop(NamedTuple):
    """The end of a saturation: its reason, and the limit or egglog's message."""

    reason: StopReason
    detail: str = ""

    def __str__(self) -> str:
        if self.reason is StopReason.FAILED:
            return self.detail
        limit = f"stopped at the limit of {self.reason}: {self.detail}"
        return limit if self.detail else str(self.reason)


SATURATED: Final = Stop(StopReason.SATURATED)
INTERRUPTED: Final = Stop(StopReason.INTERRUPTED)


_RULE_MATCHES: Final = 5_000


class Limits(NamedTuple):
    """Limits at which saturation stops and the best program so far is extracted: nodes added to the program's own, matches processed (one
    that folds a constant counts as fifty), iterations, and growth of the process in megabytes. A rule that exceeds `rule_matches` in an
    iteration is banned for a while (`Backoff`), and one that has used up its share (`Shares`) ends for the rest of the phase. `unions`
    bounds rule applications, for bisection.

    `seconds` bounds wall time. It has no default, since load on the machine would change results. `memory` is a safety net far above the
    memory that the other limits allow.
    """

    nodes: int = 200_000
    matches: int = 1_000_000
    rounds: int = 12
    seconds: float = math.inf
    memory: float = 8192.0
    rule_matches: int = _RULE_MATCHES
    unions: int | None = None

    def share(self, nodes: int) -> int:
        """The maximum number of matches of one rule in a phase: `rule_matches`, or its default if it is lower, for each 200 nodes of the
        program; a smaller one counts as 200. Exports of models need up to 3,000, all rules together; more are forms of a few nodes in all
        orders."""
        return max(self.rule_matches, _RULE_MATCHES) * max(nodes, 200) // 200


class LimitReached(Exception):
    """Saturation reached a limit, or the user stopped it."""

    def __init__(self, reason: StopReason, detail: str = "") -> None:
        self.stop = Stop(reason, detail)
        super().__init__(str(self.stop))


class Budget:
    """The remaining limits while an e-graph grows. The clock starts on construction."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.matches = 0
        self.unions = 0
        self._start = time.perf_counter()
        self._resident = math.inf

    def check(self, nodes: int) -> None:
        """Raises LimitReached if nodes, matches or time have run out, or the user has requested a stop."""
        limits = self.limits
        if interrupted():
            raise LimitReached(StopReason.INTERRUPTED)
        if nodes > limits.nodes:
            raise LimitReached(StopReason.NODES, f"more than {limits.nodes}")
        if self.matches > limits.matches:
            raise LimitReached(StopReason.MATCHES, f"more than {limits.matches}")
        if time.perf_counter() - self._start > limits.seconds:
            raise LimitReached(StopReason.TIME, f"more than {limits.seconds:g} s")

    def spend(self, unions: int) -> None:
        """Counts unions before they are made. Raises LimitReached if they exceed the limit."""
        most = self.limits.unions
        if most is not None and self.unions + unions > most:
            raise LimitReached(StopReason.UNIONS, f"more than {most}")
        self.unions += unions

    def watch_memory(self) -> None:
        """Starts watching the memory of the process."""
        self._resident = resident_bytes()

    def check_memory(self) -> None:
        """Raises LimitReached if the process has grown too much since `watch_memory`. A call takes about 20 us."""
        if resident_bytes() - self._resident > self.limits.memory * _MEGABYTE:
            raise LimitReached(StopReason.MEMORY, f"more than {self.limits.memory:g} MB")


class Shares:
    """The matches that each rule has used up in a phase. A rule that has used up its share ends, so that the others can go on."""

    def __init__(self, share: int) -> None:
        self.share = share
        self._used: dict[str, int] = {}
        self.over: set[str] = set()
        """The rules that have ended in this phase."""
        self.ended: dict[str, str] = {}
        """The rules that have ended in any phase, and what to say of each."""

    def renew(self) -> None:
        """Begins a phase, with new shares."""
        self._used, self.over = {}, set()

    def take(self, rule: str) -> bool:
        """Takes a match from the share of a rule. If nothing is left of it, the rule ends; returns False."""
        if rule in self.over:
            return False
        used = self._used.get(rule, 0)
        if used >= self.share:
            self.end(rule)
            return False
        self._used[rule] = used + 1
        return True

    def spend(self, rule: str, matches: int) -> None:
        """Counts matches of a rule."""
        self._used[rule] = self._used.get(rule, 0) + matches

    def end(self, rule: str) -> None:
        """Ends a rule for the rest of the phase."""
        self.over.add(rule)
        self.ended[rule] = f"ended at its share of {counted(self.share, 'match')} (rules.rule_matches), and the other rules went on"


Row = tuple[int, ...]

ROUNDS = 3
"""Number of iterations of the first ban."""


class Backoff:
    """Back-off: bans exploring rules that match too often, so that other rules make progress. Queries are known by their numbers.

    After the BackoffScheduler of egg (Willsey et al. 2021): a rule that exceeds its budget is banned for some iterations; both its budget
    and the length of the ban double each time. Unlike in egg, its matches are kept for later instead of being searched again.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._own: dict[int, int] = {}
        self._times: dict[int, int] = {}
        self._until: dict[int, int] = {}
        self.waiting: dict[int, list[Row]] = {}
        """Deferred matches, by query."""

    def due(self, query: int, round_: int, rows: Sequence[Row], budget: int | None = None) -> Sequence[Row]:
        """The matches of a query to process now: new and deferred ones; none if they exceed the budget, which defers them. A query may have
        its own budget."""
        if budget is not None:
            self._own[query] = budget
        waiting = self.waiting.pop(query, None)
        rows = [*waiting, *rows] if waiting else rows
        if not rows:
            return rows
        times = self._times.get(query, 0)
        if round_ >= self._until.get(query, 0) and len(rows) <= self._own.get(query, self._budget) << times:
            return rows
        if round_ >= self._until.get(query, 0):
            self._until[query] = round_ + (ROUNDS << times)
            self._times[query] = times + 1
        self.waiting[query] = list(rows)
        return ()

    def release(self) -> dict[int, list[Row]]:
        """As many deferred matches as the budgets allow, at least some; called when no other work is left."""
        due = {}
        for query, rows in list(self.waiting.items()):
            most = self._own.get(query, self._budget) << self._times.get(query, 0)
            due[query], rest = rows[:most], rows[most:]
            self._until[query] = 0
            if rest:
                self.waiting[query] = rest
            else:
                del self.waiting[query]
        return due
