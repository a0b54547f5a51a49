"""Holes for operators: one equation that holds of every operator with some traits, and of those that are declared later."""

from collections.abc import Mapping, Sequence
from types import EllipsisType, MappingProxyType
from typing import Any as AnyValue
from typing import Final, Literal, cast, get_args

from passat.ir.op import Op, list_ops
from passat.rules.parts_hole import PartsHole
from passat.rules.pattern import Pattern, PCall, RuleError, TermLike, find_operator, subterms
from passat.rules.symbolic import OperatorTerm

Trait = Literal[
    "elementwise",
    "movement",
    "commutative",
    "associative",
    "idempotent",
    "involution",
    "even",
    "odd",
    "non_negative",
    "monotonic",
    "follows_sizes",
]
TRAITS: Final[tuple[Trait, ...]] = get_args(Trait)
"""The facts in the declaration of an operator (`passat.ir.op.Op`) that a hole may ask for."""


class OperatorHole(OperatorTerm):
    """A hole for an operator, applied as operators are: `f(x)`, or `f(x, attrs=a)` where it keeps its attributes.

    A rule with holes for operators stands for one rule for each choice of operators, `Rule.directions()`.
    """

    __slots__ = ("but", "choices", "name", "operands", "traits")
    kind = "a hole for an operator that is not applied"
    comparison = "write f(...)"

    def __init__(
        self, name: str, choices: tuple[str, ...], operands: int | None, traits: Mapping[Trait, bool], but: tuple[str, ...]
    ) -> None:
        self.name = name
        self.choices = choices
        self.operands = operands
        self.traits = dict(traits)
        self.but = but

    def __call__(self, *args: TermLike | EllipsisType, **attrs: AnyValue) -> PCall:
        """The operator, whichever it is, applied to terms."""
        given = len(args) - (... in args)
        if self.operands is not None and given != self.operands and not any(isinstance(arg, PartsHole) for arg in args):
            raise RuleError(f"{self.name} stands for operators with arity={self.operands}, the pattern gives {given} operands")
        # No consumer of patterns meets this call: `Rule.directions` puts operators in the place of the hole.
        return PCall(cast(Op, self), args, attrs)

    # What a call asks of its operator.

    variadic = True
    is_own = True
    defaults: Mapping[str, AnyValue] = MappingProxyType({})

    @property
    def attr_params(self) -> frozenset[str]:
        """The attributes that every operator has which may stand here."""
        return frozenset.intersection(*(frozenset(found.attr_params) for found in self.operators()))

    def operators(self) -> list[Op]:
        """The operators that may stand here, in the order of their names, or in that in which they are listed."""
        if self.choices:
            return [find_operator(name) for name in self.choices]
        return list(filter(self._fits, list_ops()))

    def fitting(self, pattern: Pattern) -> list[Op]:
        """The operators that may stand in a pattern: where that applies the hole without attributes, of those with a trait the ones
        that have none, since nothing would be said about theirs."""
        calls = [node for node in subterms(pattern) if isinstance(node, PCall) and self is cast(object, node.op)]
        bare = not self.choices and any(not call.attrs for call in calls)
        counts = {len(call.args) for call in calls if not any(isinstance(arg, PartsHole) for arg in call.args)}
        return [found for found in self.operators() if not (bare and found.attr_params) and counts <= {found.arity}]

    def stands_for(self, found: Op) -> bool:
        """Whether an operator may stand here; one that takes any number of operands, as those of which nothing is declared do, where the
        hole does too."""
        if self.choices:
            return found.name in self.choices
        return self._fits(found) if not found.variadic else self.operands is None and not self.traits and not found.stateful

    def _fits(self, found: Op) -> bool:
        if found.variadic or self.operands not in (None, found.arity) or found.name in self.but or found.stateful:
            return False
        return all(getattr(found, trait) is wanted for trait, wanted in self.traits.items())

    def meaning(self) -> str:
        """What the hole stands for, as in "f is equal or less".

        >>> operator("f", elementwise=True, arity=1, but=("copy",)).meaning()
        'f is any elementwise operator of 1 operand but copy'
        """
        if self.choices:
            return f"{self.name} is {any_of(self.choices)}"
        traits = [trait if wanted else f"not {trait}" for trait, wanted in self.traits.items()]
        operands = "" if self.operands is None else " of 1 operand" if self.operands == 1 else f" of {self.operands} operands"
        return f"{self.name} is {' '.join(['any', *traits, 'operator'])}{operands}" + (f" but {any_of(self.but)}" if self.but else "")

    def __repr__(self) -> str:
        return self.name


def any_of(names: Sequence[str]) -> str:
    """A list of which one is meant: "a, b or c"."""
    return " or ".join([part for part in (", ".join(names[:-1]), *names[-1:]) if part])


def operator(name: str, *choices: str, arity: int | None = None, but: tuple[str, ...] = (), **traits: bool) -> OperatorHole:
    """A hole for the operators with some traits and a number of operands, for those that are listed, or for any.

    >>> f, g = operator("f", elementwise=True, arity=1), operator("g", "maximum", "minimum")
    >>> g.operators()
    [maximum, minimum]

    Without `arity` the pattern says how many operands: `f(x)`, or `f(*xs)` for any number. Raises RuleError where a trait is none, and
    where no operator has the traits.
    """
    for trait in traits:
        if trait not in TRAITS:
            raise RuleError(f"operator({name!r}): there is no trait {trait!r}; traits are {', '.join(TRAITS)}")
    if choices and (traits or arity is not None or but):
        raise RuleError(f"operator({name!r}): operators are meant by their names or by arity= and traits, not by both")
    if arity is not None and (not isinstance(arity, int) or isinstance(arity, bool)):
        raise RuleError(f"operator({name!r}): arity= is the number of operands, not {arity!r}")
    made = OperatorHole(name, choices, arity, cast("Mapping[Trait, bool]", traits), but)
    if not made.operators():
        raise RuleError(f"operator({name!r}): there is no operator with these traits and arity={arity}")
    return made
