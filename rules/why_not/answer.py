"""The answer to why a rule did not fire: findings, the weightiest first, as sentences and as data."""

import enum
from collections.abc import Iterable, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple

_NAMES: Final = 4
"""So many places of a finding are named."""


class Kind(enum.StrEnum):
    """What became of a rule."""

    TAKEN = "taken"
    """It fired, and what it made is part of the result."""
    DEARER = "dearer"
    """It fired, but what it made was not taken out."""
    LEFT = "left"
    """It fired, but the engine left the function as it was."""
    REFUSED = "refused"
    """It matched, and was refused."""
    NOTHING_NEW = "nothing new"
    """It matched where its right side stood already."""
    CUT = "cut"
    """It matches, but a limit came before it."""
    RETIRED = "retired"
    """It matches what another rule had rewritten before."""
    NOT_RUN = "not run"
    """Nobody looked for it."""
    ABSENT = "absent"
    """An operator of its left side does not occur."""
    UNTYPED = "untyped"
    """What it may match is opaque, because it is not as declared, or a type is unknown."""
    NEAR = "near"
    """Its left side matches but for a part."""
    NOTHING = "nothing"
    """Nothing is like its left side."""


class Finding(NamedTuple):
    """Something that became of a rule, in a sentence; at which nodes (so many `times`) and in which passes. `extra_cost` is by how much
    the program would have been dearer than its `cost`; `agreed` of `parts` parts of the left side match."""

    kind: Kind
    text: str
    nodes: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    times: int = 1
    extra_cost: float | None = None
    cost: float | None = None
    agreed: int | None = None
    parts: int | None = None

    def to_dict(self) -> dict[str, AnyValue]:
        """The finding as plain data; what does not apply to it is left out."""
        found: dict[str, AnyValue] = {"kind": str(self.kind), "text": self.text, "nodes": list(self.nodes), "passes": list(self.passes)}
        found["times"] = self.times
        for name in ("extra_cost", "cost", "agreed", "parts"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        return found


class Answer(NamedTuple):
    """What became of a rule: its name, itself as text, the passes that looked for it, and findings, the weightiest first; of the whole
    program, or at one node."""

    rule: str
    text: str
    passes: tuple[str, ...]
    findings: tuple[Finding, ...]
    node: str | None = None

    @property
    def verdict(self) -> Kind:
        """The kind of the first finding."""
        return self.findings[0].kind

    @property
    def line(self) -> str:
        """The rule and the first finding, in one line; where an operator does not occur, why it may be opaque, or the nearest match."""
        first = self.findings[0]
        near = next((finding for finding in self.findings if finding.kind is Kind.NEAR), None)
        if first.kind is Kind.NEAR:
            return f"{self.rule}: {_near(first)}"
        untyped = next((finding for finding in self.findings if finding.kind is Kind.UNTYPED), None)
        if first.kind is Kind.ABSENT and untyped is not None:
            return f"{self.rule}: {first.text}; {untyped.text}"
        if first.kind is Kind.ABSENT and near is not None:
            return f"{self.rule}: {first.text}; {_near(near)}"
        return f"{self.rule}: {first.text}"

    def to_dict(self) -> dict[str, AnyValue]:
        """The answer as plain data for JSON."""
        return {
            "rule": self.rule,
            "text": self.text,
            "node": self.node,
            "passes": list(self.passes),
            "verdict": str(self.verdict),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.text}"]
        near = [finding for finding in self.findings if finding.kind is Kind.NEAR]
        lines += [finding.text for finding in self.findings if finding.kind is not Kind.NEAR]
        if near:
            nowhere = "nothing matches its left side; the nearest:" if self.node is None else f"it does not match at '{self.node}':"
            if near[0].parts is None:
                lines.append("there are no calls to take together:")
            else:
                lines.append(nowhere if near[0] is self.findings[0] else "the nearest to its left side:")
            lines += [f"  {_near(finding)}" for finding in near]
        return "\n".join(lines)


def _near(finding: Finding) -> str:
    parts = "" if finding.parts is None else f" ({finding.agreed} of {finding.parts} parts agree)"
    return f"{finding.text}{parts}"


def set_text(name: str, answers: Sequence[Answer]) -> str:
    """What became of the rules of a set: how many of them fired, and one line for each."""
    fired = sum(answer.verdict is Kind.TAKEN for answer in answers)
    was = "was" if fired == 1 else "were"
    said = f"{fired} of the {len(answers)} rules of {name} fired and {was} taken" if fired else f"no rule of {name} fired and was taken"
    return "\n".join([said, *(f"  {answer.line}" for answer in answers)])


def listed(things: Sequence[str], most: int = _NAMES) -> str:
    """Some things in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    >>> listed(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    shown = list(dict.fromkeys(things))
    if len(shown) > most:
        return f"{', '.join(shown[:most])} and {len(shown) - most} more"
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)


def bare(places: Iterable[str]) -> tuple[str, ...]:
    """Places without the quotes that names have in sentences."""
    return tuple(place.strip("'") for place in places)


def times(count: int) -> str:
    """A number of times.

    >>> times(1), times(2), times(3)
    ('once', 'twice', '3 times')
    """
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
