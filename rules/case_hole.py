"""Holes for cases: one equation that is spelled in several ways, or that holds with and without a part."""

from typing import Any as AnyValue
from typing import overload

from passat.rules.conditions import Condition
from passat.rules.operator_hole import any_of
from passat.rules.pattern import CaseValue, Pattern, PCase, RuleError, TermLike
from passat.rules.symbolic import Symbolic


class CaseHole(Symbolic):
    """A hole for one of some cases, applied to a value for each of them: `kind(matmul=x @ w, dense=op.nn.dense(x, w))`.

    Wherever a rule applies it, in terms, attributes and what guards are about, the case is the same. A rule with such holes stands for one
    rule for each case, `Rule.directions()`.
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
        """What depends on the case: a term where it is one in any case, and otherwise a value of an attribute or for a guard."""
        if values.keys() != set(self.names):
            raise RuleError(f"{self.name} is {any_of(self.names)}: give a value for each, and not for {any_of(tuple(values)) or 'none'}")
        return PCase(self, values) if any(map(_is_term, values.values())) else CaseValue(self, values)

    def only(self, names: str, *conditions: Condition) -> "list[CaseCondition]":
        """Conditions in some cases alone: `.when(*kind.only("dense", has_rank(x, 2)))`. Raises RuleError for what is no case."""
        for name in names.split():
            if name not in self.names:
                raise RuleError(f"{self.name} is {any_of(self.names)}, and never {name}")
        return [CaseCondition(self, tuple(names.split()), condition) for condition in conditions]

    def meaning(self) -> str:
        """What the hole stands for, as in "kind is matmul or dense"."""
        return f"{self.name} is {any_of(self.names)}"

    def __repr__(self) -> str:
        return self.name


class CaseCondition(Condition):
    """A condition that has to hold in some cases alone."""

    __slots__ = ("hole", "names", "plain")

    def __init__(self, hole: CaseHole, names: tuple[str, ...], condition: Condition) -> None:
        super().__init__(condition.function, condition.args, condition.draw)
        self.hole = hole
        self.names = names
        self.plain = condition

    def __repr__(self) -> str:
        return f"{self.plain!r} if {self.hole!r} is {any_of(self.names)}"


def _is_term(value: TermLike) -> bool:
    return isinstance(value, Pattern) or (isinstance(value, (tuple, list)) and any(map(_is_term, value)))


def cases(name: str, *names: str) -> CaseHole:
    """A hole for one of some cases, which have names.

    >>> from passat.rules.pattern import op, tensors
    >>> x, w = tensors("x w")
    >>> kind = cases("kind", "matmul", "dense")
    >>> kind(matmul=x @ w, dense=op.nn.dense(x, w))
    kind(matmul=(x @ w), dense=nn.dense(x, w))

    Raises RuleError where it leaves no choice.
    """
    for each in (name, *names):
        if not isinstance(each, str) or not each.isidentifier():
            raise RuleError(f"cases({name!r}): the name of a hole, and that of a case, is a word such as 'dense', not {each!r}")
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise RuleError(f"cases({name!r}): there are two cases at least, each with a name of its own")
    return CaseHole(name, names)
