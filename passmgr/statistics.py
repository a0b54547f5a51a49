"""What passes tell about their work: counters and remarks, per pass."""

from typing import Final

REMARKS_LIMIT: Final = 1000
"""Different remarks that are kept of one pass; further ones are counted under one text, so that a long-lived process does not grow."""


class Statistics:
    """Counters and remarks by the name of the pass. Each context has its own; passes write through `ctx.record` and `ctx.remark`.

    >>> statistics = Statistics()
    >>> statistics.record("FoldConstant", "folded", 2)
    >>> statistics.record("FoldConstant", "folded")
    >>> statistics.counters
    {'FoldConstant': {'folded': 3}}
    """

    __slots__ = ("counters", "remarks")

    def __init__(self) -> None:
        self.counters: dict[str, dict[str, float]] = {}
        self.remarks: dict[str, dict[str, int]] = {}

    def record(self, pass_name: str, key: str, amount: float = 1) -> None:
        """Adds to a counter; a counter starts at 0."""
        counters = self.counters.setdefault(pass_name, {})
        counters[key] = counters.get(key, 0) + amount

    def remark(self, pass_name: str, text: str) -> None:
        """Keeps a sentence, and how often it was said."""
        remarks = self.remarks.setdefault(pass_name, {})
        if text not in remarks and len(remarks) >= REMARKS_LIMIT:
            text = "(further remarks)"
        remarks[text] = remarks.get(text, 0) + 1

    def to_dict(self) -> dict[str, dict[str, dict[str, float]]]:
        """Plain data: `{"counters": {pass: {key: number}}, "remarks": {pass: {text: times}}}`."""
        return {
            "counters": {name: dict(counters) for name, counters in self.counters.items()},
            "remarks": {name: dict(remarks) for name, remarks in self.remarks.items()},
        }
