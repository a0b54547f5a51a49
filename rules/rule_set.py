"""Rule sets: classes whose attributes are rules, which get their names from there."""

import contextlib
import copyreg
import functools
import sys
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from typing import Any as AnyValue
from typing import ClassVar, Final

from passat.ir.counting import counted
from passat.rules.guards import Guard
from passat.rules.pattern import PCall, PGet, PTuple, RuleError
from passat.rules.rule import LIBRARY, Rule

_CHECKING: Final = ContextVar("checking", default=True)


@contextlib.contextmanager
def types_unchecked() -> Iterator[None]:
    """Sets made within are not checked for types, so that one invalid rule does not hide the others: the caller checks each rule."""
    before = _CHECKING.set(False)
    try:
        yield
    finally:
        _CHECKING.reset(before)


class _Body(dict[str, AnyValue]):
    """The namespace of a class body. Raises RuleError if a rule would be overwritten by another of the same name."""

    def __setitem__(self, name: str, value: AnyValue) -> None:
        old = self.get(name)
        if isinstance(old, Rule) and not (isinstance(value, Rule) and value.lhs is old.lhs and value.rhs is old.rhs):
            raise RuleError(f"{self.get('__qualname__')}.{name} is defined twice; every rule of a set needs its own name")
        super().__setitem__(name, value)


def _check_none_within(where: str, values: Collection[AnyValue], namespace: Mapping[str, AnyValue]) -> None:
    """Raises RuleError if a collection in a class body contains a rule that is not an attribute of the class, which the set would lack."""
    for value in values.values() if isinstance(values, Mapping) else values:
        if isinstance(value, Rule) and not any(value is own for own in namespace.values()):
            raise RuleError(
                f"{where} is a {type(values).__name__} that contains the rule [{value!r}], which the set would lack: make each rule a "
                "separate attribute"
            )


class RuleSetMeta(type):
    """Collects the rules of a class body, names them after the class and the attribute, and checks them. (Tests check the types of Passat's
    own library.)"""

    rules: tuple[Rule, ...]
    base: "RuleSetMeta"
    """The set as defined. Only sets made by `of_kind`, `only` and `when` differ from it."""
    made_by: tuple[AnyValue, ...] = ()
    """The method that made the set from another one, and its arguments; empty for a set as defined."""

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **_: AnyValue) -> "_Body":
        """The namespace of a class body, which rejects duplicate rule names."""
        return _Body()

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, AnyValue]) -> "RuleSetMeta":
        """Makes the class. Raises RuleError for invalid rules."""
        cls = super().__new__(mcs, name, bases, namespace)
        if "__module__" not in namespace:  # made by a call: belongs to the caller's module, so that it can be pickled
            cls.__module__ = sys._getframe(1).f_globals.get("__name__", cls.__module__)
        bequeathed = dict.fromkeys(rule for base in reversed(bases) if isinstance(base, RuleSetMeta) for rule in base.rules)
        inherited = [rule for rule in bequeathed if rule.own_name not in namespace]
        own = []
        for attribute, value in namespace.items():
            if isinstance(value, (Rule, RuleSetMeta)) and attribute in _TAKEN:
                raise RuleError(f"{name}.{attribute} has the name of an attribute of all rule sets; choose another")
            if isinstance(value, RuleSetMeta) and value.__qualname__ == f"{namespace.get('__qualname__')}.{attribute}":
                raise RuleError(f"{name}.{attribute} is a rule set inside a rule set, whose rules no pass would run: move it out")
            if isinstance(value, Rule):
                rule = value.named(f"{name}.{attribute}")
                setattr(cls, attribute, rule)
                own.append(rule)
            elif isinstance(value, (PCall, PGet, PTuple)):
                raise RuleError(f"{name}.{attribute} is a pattern without `>>`: a rule needs a right side")
            elif isinstance(value, bool) and not attribute.startswith("_"):
                raise RuleError(
                    f"{name}.{attribute} is {value}, not a rule: comparing rules or attributes with == makes a bool; write left >> right"
                )
            elif isinstance(value, (tuple, list, set, frozenset, dict)):
                _check_none_within(f"{name}.{attribute}", value, namespace)
        cls.rules = (*inherited, *own)
        cls.base = cls
        if own and _CHECKING.get() and not cls.__module__.startswith(LIBRARY):
            from passat.rules.typecheck import check_types  # imports this module

            for rule in own:
                check_types(rule)
        return cls

    @functools.cache  # noqa: B019  # classes are never freed
    def of_kind(cls, kind: str) -> "RuleSetMeta":
        """The same rules under the same names, all of one kind, for a pass that uses them differently: `phase(Products,
        Reassociate.of_kind("joining"))`. Raises RuleError if a rule cannot be of that kind.

        >>> from passat.rules.library import Reassociate
        >>> [rule.kind for rule in Reassociate.of_kind("joining")]
        ['joining', 'joining', 'joining']
        """
        if all(rule.kind == kind for rule in cls):
            return cls
        return cls._made(tuple(rule.of_kind(kind) for rule in cls), (cls.of_kind, (kind,)))

    @functools.cache  # noqa: B019  # classes are never freed
    def only(cls, *names: str) -> "RuleSetMeta":
        """Some rules of the set, in the order of the set, for a pass that must not run the others. Raises RuleError for a name that no rule
        of the set has.

        >>> from passat.rules.library import Reassociate
        >>> [rule.name for rule in Reassociate.only("commuted")]
        ['Reassociate.commuted']
        """
        known = [rule.own_name for rule in cls]
        for name in names:
            if name not in known:
                raise RuleError(f"{cls.__name__} has no rule {name!r}; it has {', '.join(known)}")
        return cls._made(tuple(rule for rule in cls if rule.own_name in names), (cls.only, names))

    def when(cls, *guards: Guard) -> "RuleSetMeta":
        """The same rules under the same names with further guards, for a pass that applies them less often."""
        return cls._made(tuple(rule.when(*guards) for rule in cls), (cls.when, guards))

    def _made(cls, rules: tuple[Rule, ...], made_by: tuple[AnyValue, ...]) -> "RuleSetMeta":
        """The set with other rules, under the names of its own."""
        other = RuleSetMeta(cls.__name__, (RuleSet,), {"__module__": cls.__module__, "__doc__": cls.__doc__})
        for rule in rules:
            setattr(other, rule.own_name, rule)
        other.rules, other.base, other.made_by = rules, cls.base, made_by
        return other

    def __iter__(cls) -> Iterator[Rule]:
        return iter(cls.rules)

    def __len__(cls) -> int:
        return len(cls.rules)

    def _repr_html_(cls) -> str:
        """The rules as an HTML table: names, equations, guards, and what they do to floating-point values."""
        from passat.ir.markup import folded, table, text  # only for notebooks

        rows = [
            (rule.own_name, repr(rule), ", ".join(map(repr, rule.guards)), rule.kind, f"{rule.math}: {rule.note}".removesuffix(": "))
            for rule in cls
        ]
        said = f"<div>{text(' '.join(cls.__doc__.split()))}</div>" if cls.__doc__ else ""
        title = f"{cls.__name__}: {counted(len(rows), 'rule')}"
        return said + folded(title, table(("rule", "equation", "guards", "kind", "math"), rows), opened=True)


_TAKEN: Final = frozenset(name for name in (*vars(RuleSetMeta), "rules", "base", "mro") if not name.startswith("__"))


class RuleSet(metaclass=RuleSetMeta):
    """A named group of rules, its class attributes. The docstring describes the subject.

    >>> from passat.rules.pattern import tensors, op
    >>> x, = tensors("x")
    >>> class Negations(RuleSet):
    ...     twice = op.negative(op.negative(x)) >> x
    >>> [rule.name for rule in Negations]
    ['Negations.twice']
    """

    rules: ClassVar[tuple[Rule, ...]] = ()


def _pickled(rules: RuleSetMeta) -> str | tuple[AnyValue, ...]:
    """The pickled form of a set: its name, or how it was made from another one."""
    return rules.made_by or rules.__qualname__


copyreg.pickle(RuleSetMeta, _pickled)
