"""Rules with several roots: calls that share an operand become one call, all of them in one step.

`each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)`: the products of one `x` with several `w` are the parts of the product
with all `w` side by side. TASO (Jia et al. 2019) and TENSAT (Yang et al. 2021) call these multi-patterns; they match two roots at a time,
and again what that made, which explodes. Here a rule is applied once, to all calls of the program as it came in.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast
from typing import Any as AnyValue

from passat.rules.guards import Guard
from passat.rules.pattern import CaseValue, Pattern, PCall, PCase, PConst, PVar, RuleError, subterms, tensor_holes
from passat.rules.rule import EXACT, MERGING, Rule

if TYPE_CHECKING:
    from passat.rules.expansion import Choice


class Each:
    """The left side of a rule with several roots: every call that the pattern matches, those together that share some holes, where there
    are `at_least` so many."""

    __slots__ = ("at_least", "pattern", "shared")

    def __init__(self, pattern: Pattern, shared: tuple[PVar | PConst, ...], at_least: int = 2) -> None:
        self.pattern = pattern
        self.shared = shared
        self.at_least = at_least

    def __rshift__(self, right: "Parts") -> "MultiRule":
        if not isinstance(right, Parts):
            raise RuleError(f"the right side of each(...) is parts(whole, axis=...), not {right!r}")
        return MultiRule(self, right)

    def __repr__(self) -> str:
        many = f", at_least={self.at_least}" if self.at_least != 2 else ""
        return f"each({self.pattern!r}, sharing={', '.join(map(repr, self.shared))}{many})"


class Parts:
    """The right side: the roots, in the order of the program, are the parts of one tensor along an axis, each as long there as it was."""

    __slots__ = ("axis", "whole")

    def __init__(self, whole: Pattern, axis: int | CaseValue) -> None:
        self.whole = whole
        self.axis = cast(int, axis)  # nothing that is run meets another: `Rule.directions` puts in that of a case

    def __repr__(self) -> str:
        return f"parts({self.whole!r}, axis={self.axis})"


class PJoined(Pattern):
    """What a hole binds in all matches, concatenated along an axis. On the right sides of rules with several roots. Where they are `alike`,
    all have one shape; else they may differ along that axis."""

    __slots__ = ("alike", "axis", "of")

    def __init__(self, of: Pattern, axis: int, alike: bool = False) -> None:
        self.of = of
        self.axis = axis
        self.alike = alike
        self.key = ("joined", of.key, axis)

    def __repr__(self) -> str:
        return f"joined({self.of!r}, axis={self.axis})"


def each(pattern: Pattern, *, sharing: PVar | PConst | Iterable[PVar | PConst], at_least: int = 2) -> Each:
    """Every call that matches, together where the holes that are shared bind the same. Raises RuleError for a hole that it has not, and
    for fewer than two calls."""
    if at_least < 2:
        raise RuleError(f"each({pattern!r}): calls are taken together where there are at least 2, not {at_least!r}")
    shared = (sharing,) if isinstance(sharing, Pattern) else tuple(sharing)
    if not isinstance(pattern, (PCall, PCase)):
        raise RuleError(f"each(...) takes the application of an operator, not {pattern!r}")
    for hole in shared:
        if not isinstance(hole, (PVar, PConst)) or hole.name not in tensor_holes(pattern):
            raise RuleError(f"each({pattern!r}): {hole!r} is no hole of the pattern that could be shared")
    if not shared:
        raise RuleError(f"each({pattern!r}): what is not shared cannot be computed together; say sharing=x")
    return Each(pattern, shared, at_least)


def joined(hole: PVar | PConst, *, axis: int, alike: bool = False) -> PJoined:
    """What the hole binds in all matches, concatenated along the axis. Together is what has one shape otherwise, or, `alike`, in full."""
    return PJoined(hole, axis, alike)


def parts(whole: Pattern, *, axis: int | CaseValue) -> Parts:
    """The roots as the parts of a tensor along the axis."""
    return Parts(whole, axis)


class MultiRule(Rule):
    """A rule with several roots, made by `each(...) >> parts(...)`. `lhs` is the pattern of one root; guards hold for each match by
    itself. Attributes that the pattern binds are equal in all matches that are taken together.

    >>> from passat.rules.pattern import tensors
    >>> x, w = tensors("x w")
    >>> each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)
    each((x @ w), sharing=x) -> parts((x @ joined(w, axis=-1)), axis=-1)
    """

    __slots__ = ("left", "right")

    def __init__(
        self, left: Each, right: Parts, guards: tuple[Guard, ...] = (), *, math: str = EXACT, note: str = "", **named: AnyValue
    ) -> None:
        self.left = left
        self.right = right
        named.update(back=False, kind=MERGING)
        super().__init__(left.pattern, right.whole, guards, math=math, note=note, **named)

    def _check_sides(self) -> None:
        shared = {hole.name for hole in self.left.shared}
        for node in subterms(self.rhs):
            if isinstance(node, (PVar, PConst)) and node.name not in shared:
                raise RuleError(f"{self._where()}: {node!r} is another one in each match; say joined({node!r}, axis=...), or share it")
            if isinstance(node, PJoined) and not tensor_holes(node.of) <= tensor_holes(self.lhs) - shared:
                raise RuleError(f"{self._where()}: {node!r} joins what is no hole of its own in each match")

    def _but(self, **changes: AnyValue) -> "Rule":
        kept = {"guards": self.guards, **self._said()}
        given = {**kept, **changes}
        for name in ("back", "kind", "matches"):
            given.pop(name, None)
        return MultiRule(self.left, self.right, given.pop("guards"), **given)

    def of_kind(self, kind: str) -> "MultiRule":
        """Itself where the kind is merging. Raises RuleError for other kinds."""
        if kind != MERGING:
            raise RuleError(f"rule [{self!r}]: it has several roots, and cannot be {kind}")
        return self

    def branches(self, at_least: int) -> "MultiRule":
        """The rule where it takes so many calls at least."""
        left = each(self.left.pattern, sharing=self.left.shared, at_least=at_least)
        return MultiRule(left, self.right, self.guards, **self._said())

    def _said(self) -> dict[str, AnyValue]:
        return {name: getattr(self, name) for name in ("math", "note", "nonfinite", "name", "source")}

    def _filled(self, choice: "Choice", lhs: Pattern, rhs: Pattern, guards: tuple[Guard, ...]) -> "MultiRule":
        from passat.rules.expansion import filled  # which needs this module

        left = each(lhs, sharing=self.left.shared, at_least=self.left.at_least)
        said = {**self._said(), "name": self.name and f"{self.name}[{choice}]"}
        return MultiRule(left, parts(rhs, axis=filled(self.right.axis, choice)), guards, **said)

    def lowering(self) -> "Rule":
        """Refused: calls that run together are an alternative, not what an operator is made of."""
        raise RuleError(f"rule [{self!r}]: a rule with several roots cannot be lowering")

    def budget(self, matches: int) -> "Rule":
        """Refused: a rule with several roots is applied once."""
        raise RuleError(f"rule [{self!r}]: a rule with several roots is applied once and needs no budget")

    def and_back(self) -> "Rule":
        """Refused: parts of one tensor are no calls to go back to."""
        raise RuleError(f"rule [{self!r}]: a rule with several roots has no way back")

    def __repr__(self) -> str:
        return f"{self.left!r} -> {self.right!r}"
