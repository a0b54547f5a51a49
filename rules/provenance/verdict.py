"""What a checked certificate proves, and the steps that it does not cover."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any as AnyValue


@dataclass(frozen=True)
class Gap:
    """A step that a certificate does not cover: the pass, the function that it changed, and why."""

    pass_name: str
    function: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.pass_name} in the function {self.function}{f': {self.reason}' if self.reason else ''}"


def gaps_of(data: Mapping[str, AnyValue]) -> list[Gap]:
    """The steps that a certificate does not cover."""
    return [Gap(part["pass"], part["function"], part["uncovered"]) for part in data["steps"] if "uncovered" in part]


@dataclass
class Verdict:
    """The claim that a certificate proves.

    `functions` are the functions whose last program equals the first, provided that each gap preserves equality. `trusted` are the gaps
    that the user accepts, `uncovered` the others; with any of these, the certificate is not `complete` and proves nothing. `unions` and
    `folds` count the replayed equations and folded constants.
    """

    unions: int = 0
    folds: int = 0
    functions: list[str] = field(default_factory=list)
    uncovered: list[Gap] = field(default_factory=list)
    trusted: list[Gap] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """True if every step is proved or trusted, and the certificate makes a claim."""
        return bool(self.functions) and not self.uncovered

    def __str__(self) -> str:
        of = "" if self.functions == ["main"] else f" of {', '.join(self.functions)}"
        names = dict.fromkeys(gap.pass_name for gap in (*self.trusted, *self.uncovered))
        trusted = f" if {', '.join(names)} can be trusted" if names else ""
        steps = f"applications of rules: {self.unions + self.folds}" + (f", {self.folds} of them folded constants" if self.folds else "")
        head = f"it holds{trusted}: the last program{of} follows from the first ({steps})"
        gaps = [*(f"trusted, not checked: pass {gap}" for gap in self.trusted), *(f"not covered: pass {gap}" for gap in self.uncovered)]
        return "\n".join([head, *gaps])
