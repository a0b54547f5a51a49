"""Budgets of matches for each rule: one that finds too many in a round waits, so that the others are heard.

After the BackoffScheduler of egg (Willsey et al. 2021): a rule that exceeds its budget is put off for some rounds, and both its budget and
the time it is put off for double each time. Unlike there, what it has found is not found again but kept for then.
"""

from collections.abc import Sequence

Row = tuple[int, ...]

ROUNDS = 3
"""A rule is put off for so many rounds the first time."""


class Backoff:
    """What exploring rules may have decided in a round, and what waits. Queries are known by their numbers."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._own: dict[int, int] = {}
        self._times: dict[int, int] = {}
        self._until: dict[int, int] = {}
        self.waiting: dict[int, list[Row]] = {}
        """What has been put off, by query."""

    def due(self, query: int, round_: int, rows: Sequence[Row], budget: int | None = None) -> Sequence[Row]:
        """What of a query is decided now: its new matches and those that have waited, or nothing, and they wait. A query may have a budget
        of its own."""
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
        """As much of everything that waits as budgets allow, for when nothing else is left to do; at least some."""
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
