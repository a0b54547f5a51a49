"""Holes of rules: for operands, one equation for tuples of any length; for operators, one equation for all operators with given traits,
including those declared later; for cases, one equation with several forms, or with and without a part."""

from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType, MappingProxyType
from typing import Any as AnyValue
from typing import Final, Literal, cast, get_args, overload

from passat.ir.counting import counted
from passat.ir.op import Op, list_ops
from passat.rules.guards import Guard
from passat.rules.pattern import CaseValue, Pattern, PCall, PCase, PConst, PVar, RuleError, TermLike, find_operator, hole_name
from passat.rules.subterms import subterms
from passat.rules.symbolic import OperatorTerm, Symbolic

MOST: Final = 7
"""Default maximum number of operands that a hole stands for."""
_LIMIT: Final = 64
"""The largest maximum. There is one rule for each number of operands."""


class LengthError(RuleError, TypeError):
    """The length of a hole is unknown. A TypeError, as tuple unpacking expects."""


class PartsHole(PVar):
    """A hole for some operands of a call, `f(*xs)`, or within a tuple, `(x, *ys)`. The right side maps over them, `*(op.exp(y) for y in
    ys)`, and a guard over the hole must hold for each. With `constant`, each operand is a constant or a tuple of constants.

    A rule with such holes stands for one rule per number of operands, `Rule.directions()`.
    """

    __slots__ = ("constant", "least", "most")

    def __init__(self, name: str, least: int, most: int, *, constant: bool = False) -> None:
        super().__init__(name)
        self.least = least
        self.most = most
        self.constant = constant
        self.key = ("parts", name, least, most, constant)

    def part(self, place: int) -> PVar | PConst:
        """The hole for one operand, counted from 0."""
        name = f"{self.name}{place + 1}"
        return PConst(name) if self.constant else PVar(name)

    def __iter__(self) -> Iterator[PVar]:
        """The hole itself, once; in a tuple it stands for all operands."""
        yield self

    def __len__(self) -> int:
        """Raises LengthError; the number of operands is known only when a rule matches."""
        raise LengthError(f"{self!r} has no length before it matches: count the operands in a guard, which gets them as (*{self.name},)")

    def meaning(self) -> str:
        """The meaning of the hole, such as "*xs is 0 to 3 operands"."""
        return f"{self!r} is {self.least} to {self.most} {'constants' if self.constant else 'operands'}"

    def __repr__(self) -> str:
        return f"*{self.name}"


def tensors_of(name: str, *, least: int = 0, most: int = MOST) -> PartsHole:
    """A hole for some operands of a tuple.

    >>> xs = tensors_of("xs", least=1)
    >>> from passat.rules.pattern import op, tensor
    >>> op.concatenate((*xs, tensor("y")), axis=1)
    concatenate((*xs, y), axis=1)

    Raises RuleError for an empty range of lengths.
    """
    return _parts_hole("tensors_of", name, least, most, constant=False)


def constants_of(name: str, *, least: int = 0, most: int = MOST) -> PartsHole:
    """A hole for some operands that are constants, or tuples of constants: `f(*cs)`. Raises RuleError for an empty range of lengths."""
    return _parts_hole("constants_of", name, least, most, constant=True)


def _parts_hole(maker: str, name: str, least: int, most: int, *, constant: bool) -> PartsHole:
    if type(least) is not int or type(most) is not int or not 0 <= least <= most <= _LIMIT:
        raise RuleError(
            f"{maker}({name!r}): least= and most= are numbers of operands, 0 <= least <= most <= {_LIMIT}, not {least} and {most}"
        )
    return PartsHole(hole_name(name), least, most, constant=constant)


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
"""The traits of an operator declaration (`passat.ir.op.Op`) that a hole can require."""


class OperatorHole(OperatorTerm):
    """A hole for an operator, applied like an operator: `f(x)`, or `f(x, attrs=a)` to keep its attributes.

    A rule with such holes stands for one rule per choice of operators, `Rule.directions()`.
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
        """The operator applied to terms."""
        given = len(args) - (... in args)
        parts = [arg for arg in args if isinstance(arg, PartsHole)]
        if self.operands is not None and given != self.operands and not parts:
            raise RuleError(
                f"{self.name} stands for operators with arity={self.operands}, but the pattern gives {counted(given, 'operand')}"
            )
        for of in map(find_operator, self.choices):
            rest = of.arity - given + len(parts)
            if not of.variadic and not sum(part.least for part in parts) <= rest <= sum(part.most for part in parts):
                operands = f"({', '.join([repr(arg) for arg in args if arg is not ...])})"
                raise RuleError(f"{self.meaning()}, but {of.name} takes {_operands(of.arity)}, and {self.name}{operands} does not fit")
        # `Rule.directions` replaces the hole before any consumer of patterns sees this call.
        return PCall(cast(Op, self), args, attrs)

    # The properties of an operator that a call reads.

    variadic = True
    is_own = True
    defaults: Mapping[str, AnyValue] = MappingProxyType({})

    @property
    def attr_params(self) -> frozenset[str]:
        """The attributes that all possible operators have."""
        return frozenset.intersection(*(frozenset(found.attr_params) for found in self.operators()))

    def operators(self) -> list[Op]:
        """The possible operators, sorted by name, or in the order in which they are listed."""
        if self.choices:
            return [find_operator(name) for name in self.choices]
        return list(filter(self._fits, list_ops()))

    def fitting(self, pattern: Pattern) -> list[Op]:
        """The operators that fit a pattern. If the pattern applies the hole without attributes, trait-based holes stand only for operators
        that have none."""
        calls = [node for node in subterms(pattern) if isinstance(node, PCall) and self is cast(object, node.op)]
        bare = not self.choices and any(not call.attrs for call in calls)
        counts = {len(call.args) for call in calls if not any(isinstance(arg, PartsHole) for arg in call.args)}
        return [found for found in self.operators() if not (bare and found.attr_params) and counts <= {found.arity}]

    def stands_for(self, found: Op) -> bool:
        """True if the operator may fill the hole. A variadic operator, such as an undeclared one, fits only a variadic
        hole."""
        if self.choices:
            return found.name in self.choices
        return self._fits(found) if not found.variadic else self.operands is None and not self.traits and not found.stateful

    def _fits(self, found: Op) -> bool:
        if found.variadic or self.operands not in (None, found.arity) or found.name in self.but or found.stateful:
            return False
        return all(getattr(found, trait) is wanted for trait, wanted in self.traits.items())

    def meaning(self) -> str:
        """The meaning of the hole, such as "f is equal or less".

        >>> operator("f", elementwise=True, arity=1, but=("copy",)).meaning()
        'f is any elementwise operator of 1 operand but copy'
        """
        if self.choices:
            return f"{self.name} is {any_of(self.choices)}"
        traits = [trait if wanted else f"not {trait}" for trait, wanted in self.traits.items()]
        operands = "" if self.operands is None else f" of {_operands(self.operands)}"
        return f"{self.name} is {' '.join(['any', *traits, 'operator'])}{operands}" + (f" but {any_of(self.but)}" if self.but else "")

    def __repr__(self) -> str:
        return self.name


def _operands(count: int) -> str:
    return "1 operand" if count == 1 else f"{count} operands"


def any_of(names: Sequence[str]) -> str:
    """A list of alternatives: "a, b or c"."""
    return " or ".join([part for part in (", ".join(names[:-1]), *names[-1:]) if part])


def operator(name: str, *choices: str, arity: int | None = None, but: tuple[str, ...] = (), **traits: bool) -> OperatorHole:
    """A hole for the operators with given traits and arity, for listed operators, or for any operator.

    >>> f, g = operator("f", elementwise=True, arity=1), operator("g", "maximum", "minimum")
    >>> g.operators()
    [maximum, minimum]

    Without `arity`, the pattern determines the number of operands: `f(x)`, or `f(*xs)` for any number. Every
    listed operator must take them. Raises RuleError for an unknown trait, and if no operator has the traits.
    """
    for trait, wanted in traits.items():
        if trait not in TRAITS:
            raise RuleError(f"operator({name!r}): there is no trait {trait!r}; traits are {', '.join(TRAITS)}")
        if not isinstance(wanted, bool):
            raise RuleError(f"operator({name!r}): {trait}= is True or False, not {wanted!r}")
    if not isinstance(but, tuple):
        raise RuleError(f"operator({name!r}): but= is a tuple of names of operators, not {but!r}")
    for each in (*choices, *but):
        if not isinstance(each, str):
            raise RuleError(f"operator({name!r}): operators are given by name, such as 'nn.relu', not as {each!r}")
        find_operator(each)
    if len(set(choices)) < len(choices):
        raise RuleError(f"operator({name!r}): {next(each for each in choices if choices.count(each) > 1)!r} is given twice")
    if choices and (traits or arity is not None or but):
        raise RuleError(f"operator({name!r}): give the names of operators, or arity= and traits, not both")
    if arity is not None and (not isinstance(arity, int) or isinstance(arity, bool)):
        raise RuleError(f"operator({name!r}): arity= is the number of operands, not {arity!r}")
    made = OperatorHole(hole_name(name), choices, arity, cast("Mapping[Trait, bool]", traits), but)
    if not made.operators():
        raise RuleError(f"operator({name!r}): there is no operator with these traits and arity={arity}")
    return made


class CaseHole(Symbolic):
    """A hole for one of several cases, applied to a value per case: `kind(matmul=x @ w, dense=op.nn.dense(x, w))`.

    All uses in one rule (terms, attributes, guards) choose the same case. A rule with such holes stands for one rule per case,
    `Rule.directions()`.
    """

    __slots__ = ("name", "names")
    kind = "a hole for a case that is not applied"
    comparison = "write kind(case=..., ...) with a value for each case"

    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        self.name = name
        self.names = names

    @overload
    def __call__(self, **values: Pattern) -> PCase: ...

    @overload
    def __call__(self, **values: AnyValue) -> AnyValue: ...

    def __call__(self, **values: AnyValue) -> AnyValue:
        """A value per case: a term if any value is one, otherwise an attribute value or an argument of a guard."""
        if values.keys() != set(self.names):
            missing = [name for name in self.names if name not in values]
            unknown = [name for name in values if name not in self.names]
            wrong = f"{any_of(missing)} is missing" if missing else f"{unknown[0]} is none of them"
            raise RuleError(f"{self.name} is {any_of(self.names)}: give a value for each; {wrong}")
        return PCase(self, values) if any(map(_is_term, values.values())) else CaseValue(self, values)

    def only(self, names: str, *guards: Guard) -> "list[CaseCondition]":
        """Guards for some cases only: `.when(*kind.only("dense", has_rank(x, 2)))`. Raises RuleError for an unknown case."""
        for name in names.split():
            if name not in self.names:
                raise RuleError(f"{self.name} is {any_of(self.names)}, not {name}")
        return [CaseCondition(self, tuple(names.split()), guard) for guard in guards]

    def meaning(self) -> str:
        """The meaning of the hole, such as "kind is matmul or dense"."""
        return f"{self.name} is {any_of(self.names)}"

    def __repr__(self) -> str:
        return self.name


class CaseCondition(Guard):
    """A guard that applies in some cases only."""

    __slots__ = ("hole", "names", "plain")

    def __init__(self, hole: CaseHole, names: tuple[str, ...], guard: Guard) -> None:
        super().__init__(guard.function, guard.args)
        self.hole = hole
        self.names = names
        self.plain = guard

    def __repr__(self) -> str:
        return f"{self.plain!r} if {self.hole!r} is {any_of(self.names)}"


def _is_term(value: TermLike) -> bool:
    return isinstance(value, Pattern) or (isinstance(value, (tuple, list)) and any(map(_is_term, value)))


def cases(name: str, *names: str) -> CaseHole:
    """A hole for one of several named cases.

    >>> from passat.rules.pattern import op, tensors
    >>> x, w = tensors("x w")
    >>> kind = cases("kind", "matmul", "dense")
    >>> kind(matmul=x @ w, dense=op.nn.dense(x, w))
    kind(matmul=(x @ w), dense=nn.dense(x, w))

    Raises RuleError for fewer than two cases.
    """
    for each in (name, *names):
        if not isinstance(each, str) or not each.isidentifier():
            raise RuleError(f"cases({name!r}): the name of a hole, and that of a case, is a word such as 'dense', not {each!r}")
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise RuleError(f"cases({name!r}): give at least two cases, each with its own name")
    return CaseHole(name, names)
