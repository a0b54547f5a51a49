"""Answers to why-not queries: findings in order of importance, as sentences and as data; descriptions of mismatches; and the reasons why a
multi-pattern rule did not merge calls."""

import enum
import re
from collections.abc import Iterable, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.counting import counted
from passat.ir.long_words import listed, with_short_words
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.engine.bindings import Bindings
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.symbols import TUPLE
from passat.rules.guards import Reject
from passat.rules.pattern import Pattern, PCall, PConst, PGet, PLiteral, PTuple
from passat.rules.why_not.align import Alignment, Failure
from passat.rules.why_not.view import View, constant_text


class Kind(enum.StrEnum):
    """The kind of a finding, in the order of answers."""

    TAKEN = "taken"
    """It fired, and its result was extracted."""
    COSTLIER = "costlier"
    """It fired, but its result was not extracted."""
    LEFT = "left"
    """It fired, but the engine skipped the function."""
    REJECTED = "rejected"
    """It matched and was rejected; or an eager rule does not stand for the operator, or for one of its operands."""
    CUT = "cut"
    """It matches, but a limit was reached first."""
    RETIRED = "retired"
    """It matches a part that another rule had already rewritten."""
    NOTHING_NEW = "nothing new"
    """It matched where its right side already existed."""
    NOT_RUN = "not run"
    """No pass ran it."""
    ABSENT = "absent"
    """An operator of its left side does not occur."""
    UNTYPED = "untyped"
    """Possible matches are opaque: the node is not as declared, a type is unknown, or Passat does not model its operands or attributes."""
    NEAR = "near"
    """Its left side matches except for a part."""
    NOTHING = "nothing"
    """Nothing resembles its left side."""


class Finding(NamedTuple):
    """A finding about a rule, as a sentence; at which nodes (how many `times`) and in which passes. `extra_cost` is the increase of the
    program's `cost` by the rewrite; `agreed` of `parts` parts of the left side match."""

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
        """The finding as plain data; inapplicable fields are None."""
        return {**self._asdict(), "kind": str(self.kind), "nodes": list(self.nodes), "passes": list(self.passes)}


class Answer(NamedTuple):
    """The answer for a rule: its name and text, the passes that ran it, and findings in order of importance; for the whole program, or at
    one node."""

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
    def is_elsewhere(self) -> bool:
        """True if the root of the left side is not like the node in question."""
        return self.verdict is Kind.NOTHING or (self.verdict is Kind.NEAR and self.findings[0].agreed == 0)

    @property
    def line(self) -> str:
        """The rule and the first finding in one line; for an absent operator, why it may be opaque, or the nearest match."""
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
                lines.append("there are no calls to merge:")
            else:
                lines.append(nowhere if near[0] is self.findings[0] else "the nearest to its left side:")
            lines += [f"  {_near(finding)}" for finding in near]
        return with_short_words("\n".join(lines))


def _near(finding: Finding) -> str:
    parts = "" if finding.parts is None else f" ({finding.agreed} of {finding.parts} parts agree)"
    return f"{finding.text}{parts}"


def set_text(name: str, answers: Sequence[Answer]) -> str:
    """The results for a rule set: how many rules contributed to the result, and one line per rule; one for all forms of a rule with holes
    that have the same answer. At one node, rules about other operators are only counted."""
    fired = sum(answer.verdict is Kind.TAKEN for answer in answers)
    said = "the only rule" if fired == len(answers) == 1 else f"{fired} of the {len(answers)} rules" if fired else "no rule"
    node = next((f" at '{answer.node}'" for answer in answers if answer.node is not None), "")
    shown = [answer for answer in answers if not (node and answer.is_elsewhere)]
    lines = [f"{said} of {name} contributed to the result{node}", *(f"  {line}" for line in _lines(shown))]
    if others := len(answers) - len(shown):
        said = f"{others} other rules are" if others > 1 else "another rule is"
        alone = f"its {others} rules are" if others > 1 else "its rule is"
        lines.append(f"  {said if shown else alone} not about such nodes")
    return with_short_words("\n".join(lines))


def _lines(answers: Sequence[Answer]) -> list[str]:
    """One line per answer, and one for those of a rule that differ only in the operators in the rule's holes."""
    groups: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        rule, _, operators = answer.rule.removesuffix("]").partition("[")
        own = "|".join(map(re.escape, operators.split(", ")))
        text = re.sub(rf"(?<![\w.'/])({own})(?![\w.'/])", "", answer.findings[0].text) if operators else ""
        groups.setdefault((rule, text), []).append(answer)
    lines = []
    for first, *others in groups.values():
        if not others:
            lines.append(first.line)
            continue
        forms = counted(len(others), "similar form")
        found = tuple(each for i, each in enumerate(first.findings) if i == 0 or each.kind is Kind.UNTYPED)
        lines.append(first._replace(rule=f"{first.rule} and {forms}", findings=found).line)
    return lines


def bare(places: Iterable[str]) -> tuple[str, ...]:
    """Node names without the quotes that they have in sentences."""
    return tuple(place.strip("'") for place in places)


def times(count: int) -> str:
    """A count as text.

    >>> times(1), times(2), times(3)
    ('once', 'twice', '3 times')
    """
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_LONG: Final = 60
"""Maximum number of characters of a pattern in a sentence."""
_TOLD: Final = 3
"""Maximum number of mismatches that are described."""


def near_miss(view: View, alignment: Alignment) -> str:
    """The position of a near miss, and its mismatches."""
    failures = list(alignment.failures)
    first, is_place = f"at {view.describe(alignment.root)}", True
    if alignment.off_root:
        first, is_place = _root(view, failures.pop(0)), False
    if failures and failures[0].what == "field" and failures[0].whole == alignment.root:
        first, is_place = _field(view, failures.pop(0)), False
    what: list[str] = []
    while failures:
        failure = failures.pop(0)
        if failures and _are_both(failure, failures[0]):
            what.append(_both(view, failure, failures.pop(0), alignment.root))
        else:
            what.append(_failure(view, failure, alignment.root))
    if len(what) > _TOLD:
        more = len(what) - _TOLD
        what[_TOLD:] = [f"{counted(more, 'more part')} {'does' if more == 1 else 'do'} not match"]
    return f"{first} {listed(what)}" if is_place else listed([first, *what])


def pattern_text(pattern: Pattern) -> str:
    """The text of an expected part of a pattern."""
    if isinstance(pattern, PConst):
        return f"a constant ({pattern.name})"
    if isinstance(pattern, PLiteral):
        return f"the number {pattern.value}"
    if isinstance(pattern, PTuple):
        return f"a tuple of {len(pattern.fields)}"
    text = repr(pattern)
    text = text[1:-1] if isinstance(pattern, PCall) and text.startswith("(") else text
    if len(text) <= _LONG:
        return text
    if isinstance(pattern, PCall):
        return f"{pattern.op.name}(...)"
    return f"output {pattern.index} of {pattern_text(pattern.of)}" if isinstance(pattern, PGet) else text


def _root(view: View, failure: Failure) -> str:
    """The mismatch at the root of a pattern."""
    found = view.describe(failure.given)
    if failure.what == "arity":
        return f"{found} has {_operands(view.graph.symbols[failure.given].arity)}, not {len(failure.wanted.args)}"
    wanted = failure.wanted
    return f"{found} is not {wanted.op.name if isinstance(wanted, PCall) else pattern_text(wanted)}"


def _are_both(failure: Failure, other: Failure) -> bool:
    """True if two failures are the operands of a commutative call, both of which mismatch in any order."""
    return (
        failure.whole == other.whole
        and isinstance(failure.of, PCall)
        and failure.of.op.commutative
        and {failure.what, other.what} <= {"part", "constant"}
        and {failure.position, other.position} == {0, 1}
    )


def _both(view: View, failure: Failure, other: Failure, root: int) -> str:
    """The mismatch of both operands."""
    found = listed([view.describe(operand) for operand in view.graph.operands[failure.whole]])
    wanted = listed([pattern_text(each.wanted) for each in (failure, other)])
    return f"the operands{_of(view, failure.whole, root)} are {found}, not {wanted}"


def _of(view: View, whole: int, root: int) -> str:
    """The phrase that names the node; empty for the root, which the sentence already names."""
    return "" if whole == root else f" of {view.describe(whole)}"


def _is_same_axis(view: View, given: int, wanted: AnyValue, node: int) -> bool:
    """True if an axis from the end and one from the front are one axis of the first operand of a node."""
    of = view.graph.types[view.graph.operands[node][0]]
    return isinstance(of, TensorType) and isinstance(wanted, int) and abs(given - wanted) == of.ndim


def _failure(view: View, failure: Failure, root: int) -> str:
    """The mismatch of a part below the root."""
    graph, of = view.graph, _of(view, failure.whole, root)
    if failure.what == "attribute":
        name, wanted = failure.wanted
        same = name == "axis" and isinstance(failure.given, int) and _is_same_axis(view, failure.given, wanted, failure.whole)
        accept = f", which is the same axis: axis=a with is_axis(a, {wanted}, ...) as a guard accepts both" if same else ""
        return f"{name}{of} is {failure.given!r}, not {wanted!r}{accept}"
    if failure.what == "hole":
        name, wanted = failure.wanted
        return f"the attribute {name} is {wanted!r} in one place and {failure.given!r} in the other ({view.describe(failure.whole)})"
    if failure.what == "field":
        return _field(view, failure)
    if failure.what == "same":
        before, here = failure.given
        return f"{failure.wanted!r} is {view.describe(before)} in one place and {view.describe(here)} in the other: not the same value"
    wanted = pattern_text(failure.wanted)
    place = _place(view, failure, root)
    if isinstance(failure.given, Tensor):
        several = " of several values" if failure.given.uniform() is None else ""
        return f"{place} is {constant_text(failure.given)}{several}, not {failure.wanted.value}"
    found = view.describe(failure.given)
    if failure.what == "arity":
        symbol = graph.symbols[failure.given]
        if symbol.kind == TUPLE:
            return f"{place} is a tuple of {symbol.arity}, not of {len(failure.wanted.fields)}"
        return f"{place}, {found}, has {_operands(symbol.arity)}, not {len(failure.wanted.args)}"
    if failure.other >= 0 and graph.find(failure.other) != graph.find(failure.given):
        both = [view.describe(operand) for operand in graph.operands[failure.whole]]
        return f"neither operand{of} is {wanted}: they are {listed(both)}"
    return f"{place} is {found}, not {wanted}"


def _field(view: View, failure: Failure) -> str:
    return f"output {failure.given} of {view.describe(view.graph.operands[failure.whole][0])} is used, not output {failure.wanted}"


def _place(view: View, failure: Failure, root: int) -> str:
    """The position of the mismatched operand."""
    symbol, of = view.graph.symbols[failure.whole], _of(view, failure.whole, root)
    if symbol.kind == TUPLE:
        return f"the {ordinal(failure.position)} field{of}"
    if symbol.op is None:
        return "the projected value"
    return f"the operand{of}" if symbol.arity == 1 else f"the {ordinal(failure.position)} operand{of}"


def ordinal(position: int) -> str:
    """An ordinal for a position counted from 0.

    >>> ordinal(0), ordinal(11)
    ('first', '12th')
    """
    return _ORDINALS[position] if position < len(_ORDINALS) else f"{position + 1}th"


def _operands(count: int) -> str:
    return "one operand" if count == 1 else f"{count} operands"


def why_apart(grouper: Grouper, view: View, pass_name: str, node: str | None = None) -> list[Finding]:
    """Why individually matching calls were not merged, in an input program. Adds nodes to the graph of the view."""
    graph = view.graph
    rejected: dict[str, list[int]] = {}
    matches: dict[int, Bindings] = {}
    roots = list(view.by_symbol.get(grouper.matcher.root, ()))
    for row in sorted({row for variant in grouper.matcher.variants for row in variant.search(graph, roots)}):
        try:
            matches.setdefault(row[0], grouper.matcher.bind(graph, row))
        except Reject as rejection:
            rejected.setdefault(str(rejection), []).append(row[0])
    found = []
    for reason, nodes in rejected.items():
        kept = [one for one in nodes if node is None or view.is_any([one], node)]
        if kept:
            places = [view.place(one) for one in kept]
            text = f"it matches at {listed(places)} (in {pass_name}) and is rejected: {reason}"
            found.append(Finding(Kind.REJECTED, text, bare(places), (pass_name,), len(kept)))
    groups: dict[tuple[int, ...], list[int]] = {}
    for root, match in matches.items():
        groups.setdefault(tuple(graph.find(match.node(hole)) for hole in grouper.rule.left.shared), []).append(root)
    for shared, members in groups.items():
        if node is not None and not view.is_any(members, node):
            continue
        holes = listed([f"{hole!r} ({view.describe(cls)})" for hole, cls in zip(grouper.rule.left.shared, shared, strict=True)])
        places = [view.place(member) for member in members]
        if len(members) == 1:
            text = f"only {counted(places[0], 'match')} with this {holes}: no other call can be merged with it"
        else:
            apart = _difference(matches, members) or grouper.why_apart(graph, [(member, matches[member]) for member in members])
            text = f"{listed(places)} share {holes}, but {apart}"
        found.append(Finding(Kind.NEAR, text, bare(places), (pass_name,), len(members)))
    return found


def _difference(matches: dict[int, Bindings], members: list[int]) -> str:
    """The first attribute in which calls differ; '' if there is none."""
    first = matches[members[0]].attrs
    for member in members[1:]:
        other = matches[member].attrs
        for name, value in first.items():
            if other[name] != value:
                mine, theirs = value, other[name]
                if hasattr(value, "items") and hasattr(theirs, "items"):
                    key = next(each for each in value if value[each] != theirs[each])
                    return f"their attributes differ: {key} is {value[key]!r} and {theirs[key]!r}"
                return f"the attribute {name} is {mine!r} and {theirs!r}"
    return ""
