"""What checking found, as plain data."""

from dataclasses import asdict, dataclass, field
from typing import Any as AnyValue
from typing import Final, Literal

SOUND: Final = "sound"
REFUSED: Final = "refused"
UNCHECKED: Final = "unchecked"


@dataclass
class Finding:
    """Something that is wrong with a rule, in a sentence. `kind` is one of `value`, `breaks`, `raises`, `types`, `never matches`,
    `never holds`, `undefined`, `loops`, `few`, `subsumed`, `enlarges`; a finding that does not refuse the rule is a warning."""

    kind: str
    text: str
    refuses: bool = True


@dataclass
class Counterexample:
    """The smallest instance found on which the sides differ, line by line, and how they do."""

    lines: list[str]
    reason: str


@dataclass
class RuleReport:
    """What became of one rule. `refused` counts instances by the condition that refused them, `not_compared` by the reason."""

    name: str
    rule: str
    conditions: list[str]
    math: str
    source: str
    seed: int
    drawn: int = 0
    ill_typed: int = 0
    accepted: int = 0
    compared: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    not_compared: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    counterexample: Counterexample | None = None
    mended_by: str = ""
    reproduce: str = ""

    @property
    def verdict(self) -> Literal["sound", "refused", "unchecked"]:
        """`sound` where nothing speaks against the rule, `unchecked` where nothing could be compared."""
        if any(finding.refuses for finding in self.findings):
            return "refused"
        return "sound" if self.compared else "unchecked"

    @property
    def ok(self) -> bool:
        """Whether the rule may be used."""
        return self.verdict == SOUND

    def data(self) -> dict[str, AnyValue]:
        """The report for JSON."""
        return {"verdict": self.verdict, **asdict(self)}


def count(counts: dict[str, int], key: str) -> None:
    """One more of a kind."""
    counts[key] = counts.get(key, 0) + 1
