"""Multi-pattern rules: merge all calls that share an operand into one call, in one step.

`each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)`: the products of one `x` with several `w` are the parts of the product
with all `w` concatenated. TASO (Jia et al. 2019) and TENSAT (Yang et al. 2021) match multi-patterns two roots at a time, and match their
own results again, which explodes. Passat applies such a rule once, to all calls of the input program.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast
from typing import Any as AnyValue

from passat.rules.guards import Guard
from passat.rules.pattern import CaseValue, Pattern, PCall, PCase, PConst, PVar, RuleError
from passat.rules.rule import EXACT, MULTI_PATTERN, Rule
from passat.rules.subterms import subterms, tensor_holes

if TYPE_CHECKING:
    from passat.rules.expansion import Choice


class Each:
    """The left side of a multi-pattern rule: all calls that match the pattern, grouped by the holes that they share, in groups of
    `at_least` calls."""

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
    """The right side: the roots, in program order, are the parts of one tensor along an axis; each part keeps its size."""

    __slots__ = ("axis", "whole")

    def __init__(self, whole: Pattern, axis: int | CaseValue) -> None:
        self.whole = whole
        self.axis = cast(int, axis)  # `Rule.directions` resolves cases before the rule runs

    def __repr__(self) -> str:
        return f"parts({self.whole!r}, axis={self.axis})"


class PJoined(Pattern):
    """The values of a hole in all matches, concatenated along an axis; for right sides of multi-pattern rules. If `alike`, all have the
    same shape; otherwise they may differ along that axis."""

    __slots__ = ("alike", "axis", "of")

    def __init__(self, of: Pattern, axis: int, alike: bool = False) -> None:
        self.of = of
        self.axis = axis
        self.alike = alike
        self.key = ("joined", of.key, axis)

    def __repr__(self) -> str:
        return f"joined({self.of!r}, axis={self.axis})"


def each(pattern: Pattern, *, sharing: PVar | PConst | Iterable[PVar | PConst], at_least: int = 2) -> Each:
    """All calls that match the pattern and bind the shared holes equally. Raises RuleError for a shared hole that the pattern lacks, and
    for fewer than two calls."""
    if not isinstance(at_least, int) or at_least < 2:
        raise RuleError(f"each({pattern!r}): a group has at least 2 calls, not {at_least!r}")
    shared = (sharing,) if isinstance(sharing, Pattern) else tuple(sharing)
    if not isinstance(pattern, (PCall, PCase)):
        raise RuleError(f"each(...) takes the application of an operator, not {pattern!r}")
    for hole in shared:
        if not isinstance(hole, (PVar, PConst)) or hole.name not in tensor_holes(pattern):
            raise RuleError(f"each({pattern!r}): {hole!r} is not a hole of the pattern and cannot be shared")
    if not shared:
        raise RuleError(f"each({pattern!r}): calls must share a hole; write sharing=x")
    return Each(pattern, shared, at_least)


def joined(hole: PVar | PConst, *, axis: int, alike: bool = False) -> PJoined:
    """The values of a hole in all matches, concatenated along the axis. Groups values that agree in all other sizes or, if `alike`, in all
    sizes."""
    if not isinstance(hole, (PVar, PConst)) or not isinstance(axis, int):
        raise RuleError(f"joined({hole!r}, axis={axis!r}): joins a hole along an axis, which is a number")
    return PJoined(hole, axis, alike)


def parts(whole: Pattern, *, axis: int | CaseValue) -> Parts:
    """The roots are the parts of a tensor along the axis. Raises RuleError for anything else."""
    if not isinstance(whole, Pattern) or not isinstance(axis, (int, CaseValue)):
        raise RuleError(f"parts({whole!r}, axis={axis!r}): the parts of a term along an axis, which is a number")
    return Parts(whole, axis)


class MultiRule(Rule):
    """A multi-pattern rule, made by `each(...) >> parts(...)`. `lhs` is the pattern of one root; guards hold for each match separately.
    Attributes that the pattern binds must be equal in all matches of a group.

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
        named.update(back=False, kind=MULTI_PATTERN)
        super().__init__(left.pattern, right.whole, guards, math=math, note=note, **named)

    def _check_sides(self) -> None:
        shared = {hole.name for hole in self.left.shared}
        for node in subterms(self.rhs):
            if isinstance(node, (PVar, PConst)) and node.name not in shared:
                raise RuleError(f"{self._where()}: {node!r} differs between matches; write joined({node!r}, axis=...), or share it")
            if isinstance(node, PJoined) and not tensor_holes(node.of) <= tensor_holes(self.lhs) - shared:
                raise RuleError(f"{self._where()}: {node!r} joins a hole that does not differ between matches")
        super()._check_sides()

    def _but(self, **changes: AnyValue) -> "Rule":
        if "kind" in changes:
            raise RuleError(f"rule [{self!r}]: a multi-pattern rule cannot be {changes['kind']}")
        given = {"guards": self.guards, **self._said(), **changes}
        return MultiRule(self.left, self.right, given.pop("guards"), **given)

    def branches(self, at_least: int) -> "MultiRule":
        """The rule for groups of at least this many calls."""
        left = each(self.left.pattern, sharing=self.left.shared, at_least=at_least)
        return MultiRule(left, self.right, self.guards, **self._said())

    @property
    def claim(self) -> str:
        """What the rule says to be equal, as text: for groups of any size, since only the gain depends on it."""
        return self.branches(2).in_full()

    def _said(self) -> dict[str, AnyValue]:
        return {name: getattr(self, name) for name in ("math", "note", "nonfinite", "name", "source")}

    def with_choice(self, choice: "Choice", lhs: Pattern, rhs: Pattern, guards: tuple[Guard, ...]) -> "MultiRule":
        """The rule with the choice in place of its holes."""
        from passat.rules.expansion import filled  # imports this module

        left = each(lhs, sharing=self.left.shared, at_least=self.left.at_least)
        said = {**self._said(), "name": self.name and f"{self.name}[{choice}]"}
        return MultiRule(left, parts(rhs, axis=filled(self.right.axis, choice)), guards, **said)

    def exploring(self) -> "Rule":
        """The rule itself: merged calls are an alternative."""
        return self

    def budget(self, matches: int) -> "Rule":
        """Raises RuleError: a multi-pattern rule is applied once."""
        raise RuleError(f"rule [{self!r}]: a multi-pattern rule is applied once and needs no budget")

    def and_back(self) -> "Rule":
        """Raises RuleError: the parts of a tensor are not calls that a rule could restore."""
        raise RuleError(f"rule [{self!r}]: a multi-pattern rule has no reverse direction")

    def __repr__(self) -> str:
        return f"{self.left!r} -> {self.right!r}"
