"""What passes tell about their work: counters and remarks, per pass."""

import difflib
import threading
from collections.abc import Mapping
from typing import Final

REMARKS_LIMIT: Final = 1000
"""Different remarks that are kept of one pass; further ones are counted under one text, so that a long-lived process does not grow."""


class UnknownCounterError(LookupError):
    """A counter that a pass records, but does not declare. The message gives the nearest of those that it declares."""


_LOCK: Final = threading.Lock()
_DECLARED: Final[dict[str, Mapping[str, str]]] = {}


def declare_counters(pass_name: str, counters: Mapping[str, str]) -> None:
    """Makes counters those of the passes of a name, beside those that are declared already. Raises TypeError for what is no mapping of
    strings to strings."""
    known = _DECLARED.get(pass_name)
    if known is counters:  # passes that are made again and again
        return
    if not isinstance(counters, Mapping) or not all(isinstance(text, str) for item in counters.items() for text in item):
        raise TypeError(f"counters are a mapping of names to descriptions, not {counters!r}")
    _DECLARED[pass_name] = {**known, **counters} if known else counters


def declared_counters(pass_name: str) -> dict[str, str]:
    """The counters that the passes of a name declare, each with its description."""
    return dict(_DECLARED.get(pass_name, {}))


def _check(pass_name: str, key: str, declared: Mapping[str, str]) -> None:
    if not any(key.startswith(name[:-1]) for name in declared if name.endswith("*")):
        near = difflib.get_close_matches(key, declared, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it declares: {', '.join(declared)}"
        raise UnknownCounterError(f"the pass {pass_name} does not declare the counter {key!r}; {hint}")


class Statistics:
    """Counters and remarks by the name of the pass. Each context has its own; passes write through `ctx.record` and `ctx.remark`.

    >>> statistics = Statistics()
    >>> statistics.record("FoldConstant", "merged", 2)
    >>> statistics.record("FoldConstant", "merged")
    >>> statistics.counters
    {'FoldConstant': {'merged': 3}}
    """

    __slots__ = ("counters", "remarks")

    def __init__(self) -> None:
        self.counters: dict[str, dict[str, float]] = {}
        self.remarks: dict[str, dict[str, int]] = {}

    def record(self, pass_name: str, key: str, amount: float = 1) -> None:
        """Adds to a counter; a counter starts at 0. Raises UnknownCounterError where passes of that name declare others, but not it."""
        declared = _DECLARED.get(pass_name)
        if declared is not None and key not in declared:
            _check(pass_name, key, declared)
        with _LOCK:  # a context may be shared by threads
            counters = self.counters.setdefault(pass_name, {})
            counters[key] = counters.get(key, 0) + amount

    def remark(self, pass_name: str, text: str, times: int = 1) -> None:
        """Keeps a sentence, and how often it was said."""
        with _LOCK:
            remarks = self.remarks.setdefault(pass_name, {})
            if text not in remarks and len(remarks) >= REMARKS_LIMIT:
                text = "(further remarks)"
            remarks[text] = remarks.get(text, 0) + times

    def add(self, other: "Statistics") -> None:
        """Adds all that another one has."""
        with _LOCK:
            counters = [(name, key, amount) for name, found in other.counters.items() for key, amount in found.items()]
            remarks = [(name, text, times) for name, found in other.remarks.items() for text, times in found.items()]
        for name, key, amount in counters:
            self.record(name, key, amount)
        for name, text, times in remarks:
            self.remark(name, text, times)

    def copy(self) -> "Statistics":
        """Statistics that have counted as much."""
        copied = Statistics()
        copied.add(self)
        return copied

    def to_dict(self) -> dict[str, dict[str, dict[str, float]]]:
        """Plain data: `{"counters": {pass: {key: number}}, "remarks": {pass: {text: times}}}`."""
        return {
            "counters": {name: dict(counters) for name, counters in self.counters.items()},
            "remarks": {name: dict(remarks) for name, remarks in self.remarks.items()},
        }
