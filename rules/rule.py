"""Rules, with the checks that run when they are defined."""

import inspect
import os
from typing import TYPE_CHECKING, Final, Literal, NoReturn
from typing import Any as AnyValue

from passat.ir.similar_names import did_you_mean
from passat.rules.guards import Guard
from passat.rules.pattern import (
    AttrHole,
    CaseValue,
    Computed,
    Pattern,
    PCall,
    PCase,
    PConst,
    PGet,
    PLiteral,
    PNumber,
    PTuple,
    PVar,
    RuleError,
    has_symbol,
    is_undeclared,
)
from passat.rules.subterms import attr_holes, operator_names, pattern_parts, subterms, tensor_holes
from passat.rules.symbolic import Symbolic, missing_attribute

if TYPE_CHECKING:
    from passat.rules.expansion import Choice, Holes

EXACT, REASSOCIATE, FINITE = "exact", "reassociate", "finite"
MATH_LEVELS = (EXACT, REASSOCIATE, FINITE)
NonFinite = Literal["kept", "resolved", "mixed"]
"""What an inexact rule may do to non-finite results: keep them; turn NaN into infinity; or turn either into any other non-finite value. It
never turns a finite result into a non-finite one or vice versa."""
KEPT: Final = "kept"
RESOLVED: Final = "resolved"
MIXED: Final = "mixed"
NONFINITE: Final[tuple[NonFinite, ...]] = (KEPT, RESOLVED, MIXED)
Liberty = tuple[str, NonFinite]
LIBERTIES: Final[tuple[Liberty, ...]] = ((EXACT, KEPT), *((REASSOCIATE, words) for words in NONFINITE), (FINITE, KEPT))
"""What a rule may do to floating-point values, most restrictive first."""
REDUCING, EXPLORING, JOINING, MULTI_PATTERN, LOWERING, EAGER = "reducing", "exploring", "joining", "multi-pattern", "lowering", "eager"
"""The kinds of rules. A reducing rule retires the matched node from matching. An exploring one adds alternatives. A joining one unites two
existing e-classes, or regroups a sum or product that shares operands with another. A multi-pattern one has several roots. A lowering one
excludes the matched node from extraction. An eager one is applied to a node when it is added, and replaces it."""


LIBRARY: Final = "passat.rules.library."
"""Rules of these modules are checked by tests, not on import, which would take longer than optimizing a small model."""


class Rule:
    """`left >> right`: replaces instances of `left` by `right` where the guards hold.

    Made by `>>` and refined by `when`, `inexact`, `finite`, `and_back`, `exploring`, `lowering` and `budget`, each of which returns a new
    rule. The rule set provides the name: `Arithmetic.add_zero`. Raises RuleError for holes on the right that the left does not bind.
    """

    __slots__ = ("back", "guards", "kind", "lhs", "matches", "math", "name", "nonfinite", "note", "rhs", "source", "trusted")

    def __init__(
        self,
        lhs: Pattern,
        rhs: Pattern,
        guards: tuple[Guard, ...] = (),
        *,
        math: str = EXACT,
        note: str = "",
        nonfinite: NonFinite = KEPT,
        back: bool = False,
        kind: str = REDUCING,
        matches: int | None = None,
        name: str = "",
        source: str = "",
    ) -> None:
        self.lhs = lhs
        self.rhs = rhs
        self.guards = guards
        self.math = math
        self.note = note
        self.nonfinite = nonfinite
        self.back = back
        self.kind = EXPLORING if back else kind
        self.matches = matches
        self.name = name
        module, place = ("", source) if source else _caller()
        self.source = place
        self.trusted = module.startswith(LIBRARY)
        if not self.trusted:
            self.check()

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or name in Rule.__slots__:
                raise AttributeError(name)
            known = [one for one in vars(Rule) if not one.startswith("_")]
            raise missing_attribute(f"a rule has no .{name}{did_you_mean(name, known)}")

    @property
    def reducing(self) -> bool:
        """True if the rule retires the matched node from matching."""
        return self.kind in (REDUCING, LOWERING)

    @property
    def liberty(self) -> Liberty:
        """What the rule may do to floating-point values, one of `LIBERTIES`."""
        return self.math, self.nonfinite

    def check(self) -> None:
        """Raises RuleError for holes that the left side does not bind or that have one name, and for sides that cannot be those of a
        rule."""
        for hole in self.holes().parts.values():
            own = {hole.name, *(hole.part(place).name for place in range(hole.most))}
            for node in subterms(self.lhs):
                if isinstance(node, (PVar, PConst)) and node.name in own and node.key != hole.key:
                    raise RuleError(f"{self._where()}: {node.name!r} is also the name of {hole!r} or of one of its operands: rename one")
        self._check_sides()
        self._check_note()
        self._check_bound(self.rhs, *self.guards)

    def _where(self) -> str:
        return f"rule {self.name}{' ' if self.name else ''}[{self!r}]"

    def _check_sides(self) -> None:
        if isinstance(self.lhs, (PVar, PConst, PLiteral)):
            raise RuleError(f"{self._where()}: the left side must apply an operator; a bare hole would match everything")
        if self.lhs.key == self.rhs.key:
            raise RuleError(f"{self._where()}: both sides are the same")
        for node in subterms(self.lhs):
            if isinstance(node, PNumber) or (isinstance(node, PCall) and any(isinstance(value, Computed) for value in node.attrs.values())):
                raise RuleError(f"{self._where()}: the left side computes a value; bind it to a hole and add a guard")
            for name, value in node.attrs.items() if isinstance(node, PCall) else ():
                if has_symbol(value) and not isinstance(value, (AttrHole, CaseValue)):
                    raise RuleError(
                        f"{self._where()}: the left side has {name}={value!r}; a hole stands for the whole attribute: write {name}=p with "
                        "attribute('p'), and p[0] for a part of it on the right side and in guards"
                    )
            if isinstance(node, PCall) and node.unnamed:
                raise RuleError(
                    f"{self._where()}: the left side does not specify {node.unnamed[0]} of {node.op.name}: name it, or write `...` "
                    "after the operands for any attributes"
                )
        for node in subterms(self.rhs):
            if isinstance(node, PCall) and node.unnamed:
                raise RuleError(
                    f"{self._where()}: the right side does not specify {node.unnamed[0]} of {node.op.name}, which has no default"
                )
        known = {node.key for node in subterms(self.lhs)}
        same = {right.key for left, right in zip(_forms(self.lhs), _forms(self.rhs), strict=False) if _has_other_operands(left, right)}
        unknown = [node for node in subterms(self.rhs) if is_undeclared(node) and node.key not in known | same]
        if unknown:
            name = unknown[0].op.name.removeprefix("onnx.")  # type: ignore[attr-defined]  # a call
            raise RuleError(
                f"{self._where()}: the right side creates {name}, which has no declared type and cost: declare it above the rule, "
                f'with @define_op(onnx="{name}") (docs/custom-operators.md)'
            )
        kinds = {(node.name, type(node)) for side in (self.lhs, self.rhs) for node in subterms(side) if isinstance(node, (PVar, PConst))}
        for name in tensor_holes(self.lhs):
            if {(name, PVar), (name, PConst)} <= kinds:
                raise RuleError(f"{self._where()}: {name!r} is both a tensor and a constant")

    def _check_note(self) -> None:
        if self.math != EXACT and not (isinstance(self.note, str) and self.note.strip()):
            raise RuleError(f"{self._where()}: state what it changes, as in .inexact('reassociates sums') or .finite('x - x is 0')")

    def _check_bound(self, *parts: Pattern | Guard) -> None:
        """Raises RuleError if the right side, or a guard, uses holes that the left side does not bind."""
        bound, bound_attrs, bound_operators = tensor_holes(self.lhs), attr_holes(self.lhs), operator_names(self.lhs)
        for part in parts:
            value = part.args if isinstance(part, Guard) else part
            tensors, attributes, operators = tensor_holes(value), attr_holes(value), operator_names(value)
            if not (tensors <= bound and attributes <= bound_attrs and operators <= bound_operators):
                what = f"the guard {part!r}" if isinstance(part, Guard) else "the right side"
                names = [
                    *map(repr, sorted(tensors - bound)),
                    *("`...`" if name.startswith("...") else f"the attribute {name!r}" for name in sorted(attributes - bound_attrs)),
                    *(f"the operator {name!r}" for name in sorted(operators - bound_operators)),
                ]
                hint = "; to keep the attributes of a call, write attrs=p on both sides" if names[0] == "`...`" else ""
                raise RuleError(f"{self._where()}: {what} uses {names[0]}, which the left side does not bind{hint}")

    def _but(self, **changes: AnyValue) -> "Rule":
        """The rule with some slots replaced. Unchanged slots are not checked again, since rules are built in many small steps."""
        made = Rule.__new__(Rule)
        for slot in Rule.__slots__:
            setattr(made, slot, changes.get(slot, getattr(self, slot)))
        if made.back:
            made.kind = EXPLORING
        made._check_note()
        if "guards" in changes and not self.trusted:
            made._check_bound(*made.guards[len(self.guards) :])
        return made

    def when(self, *guards: Guard) -> "Rule":
        """The rule with additional guards, tried in order. Raises RuleError for anything but a guard."""
        for value in guards:
            if not isinstance(value, Guard):
                if callable(value) and not isinstance(value, Symbolic):
                    name = getattr(value, "__name__", "g")
                    if name == "<lambda>":
                        raise RuleError(
                            f"rule [{self!r}]: a lambda is not a guard: write a function with a name, decorate it with @guard, "
                            "and call it: .when(NAME(x))"
                        )
                    raise RuleError(
                        f"rule [{self!r}]: {name} is a function; a guard is the call of one that @guard decorates: .when({name}(x))"
                    )
                if isinstance(value, bool):
                    raise RuleError(
                        f"rule [{self!r}]: {value} is not a guard; write one with @guard, or compare attributes with numbers, strings and "
                        "tuples: .when(x.ndim > 1, x.dtype == 'float32')"
                    )
                raise RuleError(f"rule [{self!r}]: {value!r} is not a guard; write one with @guard or use one from passat.rules.guards")
        return self._but(guards=self.guards + guards)

    def inexact(self, note: str = "", *, nonfinite: NonFinite = KEPT) -> "Rule":
        """Marks the rule as changing floating-point rounding; `note` says how. It runs unless `rules.math` is `exact`.

        `nonfinite` states the effect on infinite and NaN results, such as reassociated sums of infinities. `"kept"` preserves them.
        `"resolved"` may turn NaN into infinity, as factoring does. `"mixed"` may also turn an infinity into NaN or the other infinity.
        Raises RuleError for any other value.
        """
        if nonfinite not in NONFINITE:
            known = " or ".join(map(repr, NONFINITE))
            raise RuleError(f"rule [{self!r}]: nonfinite= is {known}, not {nonfinite!r}")
        if self.math == FINITE:
            return self._but(note=note)
        return self._but(math=REASSOCIATE, note=note, nonfinite=max(self.nonfinite, nonfinite, key=NONFINITE.index))

    def finite(self, note: str = "") -> "Rule":
        """Marks the rule as assuming that no value is NaN or infinite; it runs only if `rules.math` is `finite`. `note` says why."""
        return self._but(math=FINITE, note=note, nonfinite=KEPT)

    def and_back(self) -> "Rule":
        """The rule in both directions. It needs the e-graph, since the reverse direction alone does not improve programs."""
        if tensor_holes(self.lhs) - tensor_holes(self.rhs) or attr_holes(self.lhs) - attr_holes(self.rhs):
            raise RuleError(f"rule [{self!r}]: the reverse direction would not bind every hole")
        if self.kind in (JOINING, LOWERING, EAGER):
            raise RuleError(f"rule [{self!r}]: {'an' if self.kind == EAGER else 'a'} {self.kind} rule has no reverse direction")
        both = self._but(back=True)
        both.directions()  # raises for a right side that cannot be a left side
        return both

    def of_kind(self, kind: str) -> "Rule":
        """The rule converted to a kind given by name, as `exploring` and similar methods do. Raises RuleError if it cannot be of that
        kind."""
        makers = {EXPLORING: Rule.exploring, JOINING: Rule.joining, LOWERING: Rule.lowering, EAGER: Rule.eager, REDUCING: Rule._reducing}
        if self.kind == kind:
            return self
        if kind not in makers:
            raise RuleError(f"rule [{self!r}]: the kinds of rules are {', '.join(sorted(makers))}, not {kind!r}")
        return makers[kind](self if self.back or self.kind == MULTI_PATTERN else self._but(kind=REDUCING))

    def _of_kind(self, kind: str) -> "Rule":
        if self.kind not in (REDUCING, MULTI_PATTERN, kind):
            raise RuleError(f"rule [{self!r}]: a rule has one kind, and this one is {self.kind} already: it cannot be {kind}, too")
        return self._but(kind=kind)

    def _reducing(self) -> "Rule":
        if self.back:
            raise RuleError(f"rule [{self!r}]: a bidirectional rule cannot be reducing")
        return self._but(kind=REDUCING)

    def exploring(self) -> "Rule":
        """Makes the rule add an alternative that need not be better; the matched node remains available for matching.

        By default a rule is *reducing*: the matched node is retired from matching, which keeps saturation small.
        """
        return self._of_kind(EXPLORING)

    def joining(self) -> "Rule":
        """Applies the rule only where its right side already exists, up to the order of operands, and unites the two. This proves sums in
        different orders equal without enumerating all orders.

        A rule that regroups, `(x + y) + z >> x + (y + z)`, also applies where `y + z` exists, or brings two operands together that another
        sum has, too (`passat.rules.engine.common_parts`)."""
        if self.back:
            raise RuleError(f"rule [{self!r}]: a joining rule has one direction")
        return self._of_kind(JOINING)

    def lowering(self) -> "Rule":
        """Marks the rule as a decomposition of an operator that the target lacks. It runs after all other rules of its pass, and excludes
        the matched node from extraction, regardless of cost."""
        if self.back:
            raise RuleError(f"rule [{self!r}]: a bidirectional rule cannot be lowering")
        return self._of_kind(LOWERING)

    def eager(self) -> "Rule":
        """Applies the rule to each node when it is added to the e-graph; the right side replaces the node, which is not available for
        extraction. The left side must be one operator over holes, or a field of a tuple of holes."""
        deep = [part for part in pattern_parts(self.lhs) if not isinstance(part, (PVar, PConst, PTuple))]
        if self.back or (deep and not isinstance(self.lhs, PGet)):
            raise RuleError(f"rule [{self!r}]: the left side of an eager rule is one operator over holes, and the rule has one direction")
        return self._of_kind(EAGER)

    def budget(self, matches: int) -> "Rule":
        """Gives the rule its own budget instead of `rules.rule_matches`; a rule that finds more matches in an iteration is banned
        (back-off)."""
        if not isinstance(matches, int) or matches < 1:
            raise RuleError(f"rule [{self!r}]: a budget is at least one match, not {matches!r}")
        return self._but(matches=matches)

    def __rshift__(self, right: object) -> NoReturn:
        raise RuleError(f"rule [{self!r}] already has a left and a right side; write a separate rule for {right!r}")

    def __eq__(self, other: object) -> bool:
        """Rules are equal by identity. Raises RuleError for a comparison with a term: `left >> right == y` does not make a rule."""
        if isinstance(other, (Symbolic, int, float, tuple, list)):
            raise RuleError(
                f"rule [{self!r}] is compared with {other!r}, which does not make a rule: write left >> right, and op.equal(x, y) for the "
                "operator"
            )
        return self is other

    __hash__ = object.__hash__

    @property
    def own_name(self) -> str:
        """The name within its set."""
        return self.name.rpartition(".")[2]

    def named(self, name: str) -> "Rule":
        """The rule under a name."""
        return self._but(name=name)

    def directions(self) -> "list[Rule]":
        """The one-way rules that this one stands for: each choice of cases, operators and numbers of operands, in each direction.

        `f(g(x)) -> g(f(x))`, named `Set.swap`, gives `Set.swap[exp, copy]` and others; a bidirectional rule also
        `Set.swap.back[exp, copy]`.
        """
        from passat.rules.expansion import Expansion  # needs patterns and guards

        return list(Expansion(self).within())

    def sides(self) -> tuple[Pattern, Pattern, tuple[Guard, ...]]:
        """The left side, and what belongs to it."""
        return self.lhs, self.rhs, self.guards

    def holes(self) -> "Holes":
        """The holes for cases, operators and numbers of operands."""
        from passat.rules.expansion import holes_in  # needs guards

        return holes_in(self.lhs, self.rhs, self.guards)

    def chosen(self, choice: "Choice") -> "Rule":
        """The rule with its holes filled by one choice, and named after it; itself if nothing is chosen."""
        from passat.rules.expansion import filled  # needs guards

        lhs, rhs, guards = [filled(side, choice) for side in self.sides()]
        return self if lhs is self.lhs else self.with_choice(choice, lhs, rhs, guards)

    def with_choice(self, choice: "Choice", lhs: Pattern, rhs: Pattern, guards: tuple[Guard, ...]) -> "Rule":
        """The rule with the choice in place of its holes."""
        one = self._but(name=self.name and f"{self.name}[{choice}]", lhs=lhs, rhs=rhs, guards=guards)
        if choice.cases and not self.trusted:
            one.check()
        return one

    def ways(self) -> "list[Rule]":
        """The rule in each of its directions."""
        if not self.back:
            return [self]
        there = self._but(back=False)
        back = there._but(lhs=self.rhs, rhs=self.lhs, name=self.name and f"{self.name}.back")
        if not self.trusted:
            back.check()
        return [there, back]

    def in_full(self) -> str:
        """The rule as text, with its guards and its effect on floating-point values."""
        when = f" when {', '.join(map(repr, self.guards))}" if self.guards else ""
        return f"{self!r}{when} [{self.math}{'' if self.nonfinite == KEPT else f', {self.nonfinite}'}]"

    @property
    def claim(self) -> str:
        """What the rule says to be equal, as text, for proofs."""
        return self.in_full()

    def __repr__(self) -> str:
        return f"{self.lhs!r} {'<->' if self.back else '->'} {self.rhs!r}"


def _forms(side: Pattern) -> list[Pattern]:
    """A side of a rule in each case."""
    return [form for part in pattern_parts(side) for form in _forms(part)] if isinstance(side, PCase) else [side]


def _has_other_operands(left: Pattern, right: Pattern) -> bool:
    """True if the sides call one operator with all attributes. Then its type is that of the left side."""
    return (
        isinstance(left, PCall)
        and isinstance(right, PCall)
        and left.op is right.op
        and left.attrs.keys() == right.attrs.keys() == {"attrs"}
        and left.attrs["attrs"] is right.attrs["attrs"]
    )


def without_operators(name: str) -> str:
    """The name of a direction of a rule, without the operators chosen for its holes.

    >>> without_operators("Views.swap.back[nn.relu]")
    'Views.swap.back'
    """
    return name.partition("[")[0]


def equation_of(name: str) -> str:
    """The name of the rule that a direction belongs to.

    >>> equation_of("Views.fuse.back"), equation_of("Views.back"), equation_of("Views.swap[nn.relu]")
    ('Views.fuse', 'Views.back', 'Views.swap')
    """
    return ".".join(without_operators(name).split(".")[:2])


_FILES: Final = ("rule.py", "pattern.py", "multi_pattern.py", "holes.py")
_LANGUAGE: Final = frozenset(os.path.join(os.path.dirname(__file__), name) for name in _FILES)


def _caller() -> tuple[str, str]:
    """The caller outside the rule language, where a rule is being written: the name of its module, and its file and line."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename in _LANGUAGE:
        frame = frame.f_back
    if frame is None:
        return "", ""
    return frame.f_globals.get("__name__", ""), f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
