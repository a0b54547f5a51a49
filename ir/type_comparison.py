"""Structural equality of types, type definitions, constructors and patterns."""

from collections.abc import Sequence
from typing import TypeAlias

from passat.ir.expr import Constructor, Pattern, PatternConstructor, PatternTuple
from passat.ir.module import TypeData
from passat.ir.types import Type, TypeVar, occurring, substitute

Names: TypeAlias = tuple[dict[TypeVar, Type], dict[TypeVar, Type]]
"""Common names for the type parameters of both sides."""


class TypeComparison:
    """Compares types up to the names of type parameters.

    Parameters bound at the same place correspond to each other. With `map_free_vars`, free ones correspond one to one in order of
    occurrence.
    """

    def __init__(self, map_free_vars: bool) -> None:
        self._map_free_vars = map_free_vars
        self.bound: Names = ({}, {})
        self._free: Names = ({}, {})
        self._count = 0

    @property
    def in_scope(self) -> bool:
        """Whether any type parameter is bound."""
        return bool(self.bound[0])

    def enter(self, ours: Sequence[Type], theirs: Sequence[Type]) -> Names:
        """Makes type parameters bound at the same place correspond; returns the previous value of `bound`."""
        before = self.bound
        self.bound = (dict(before[0]), dict(before[1]))
        for left, right in zip(ours, theirs, strict=True):
            if isinstance(left, TypeVar) and isinstance(right, TypeVar):
                self.bound[0][left] = self.bound[1][right] = self._new()
        return before

    def _new(self) -> TypeVar:
        self._count += 1
        return TypeVar(f"\0{self._count}")

    def same(self, ours: Sequence[Type | None], theirs: Sequence[Type | None]) -> bool:
        """Whether types are pairwise equal."""
        if len(ours) != len(theirs):
            return False
        for a, b in zip(ours, theirs, strict=True):
            if a is None or b is None:
                if a is not b:
                    return False
                continue
            if self._map_free_vars:
                self._map_free(a, b)
            if self._count:
                left, right = ({**free, **bound} for free, bound in zip(self._free, self.bound, strict=True))
                if substitute(a, left) != substitute(b, right):
                    return False
            elif a != b:
                return False
        return True

    def _map_free(self, a: Type, b: Type) -> None:
        for left, right in zip(occurring(a), occurring(b), strict=False):  # equal types have equally many, in the same order
            if not any(left in names[0] or right in names[1] for names in (self.bound, self._free)):
                self._free[0][left] = self._free[1][right] = self._new()

    def definitions_differ(self, a: TypeData, b: TypeData) -> str | None:
        """Describes the difference between two definitions of a type."""
        kinds = [[var.kind for var in data.type_vars] for data in (a, b)]
        if a.header != b.header or kinds[0] != kinds[1] or len(a.constructors) != len(b.constructors):
            return f"in the definition of the type {a.header!r}"
        before = self.enter(a.type_vars, b.type_vars)
        same = all(map(self.same_constructor, a.constructors, b.constructors))
        self.bound = before
        return None if same else f"in the constructors of the type {a.header!r}"

    def same_constructor(self, a: Constructor, b: Constructor) -> bool:
        """Whether two constructors build the same values."""
        if a is b:
            return True
        if a.name_hint != b.name_hint or len(a.type_vars) != len(b.type_vars):
            return False
        before = self.enter(a.type_vars, b.type_vars)
        same = self.same((a.belong_to, *a.inputs), (b.belong_to, *b.inputs))
        self.bound = before
        return same

    def same_pattern(self, a: Pattern, b: Pattern) -> bool:
        """Whether two patterns match the same values. Their variables are compared where they are bound."""
        stack = [(a, b)]
        while stack:
            left, right = stack.pop()
            if type(left) is not type(right):
                return False
            if isinstance(left, PatternConstructor) and isinstance(right, PatternConstructor):
                if not self.same_constructor(left.constructor, right.constructor) or len(left.patterns) != len(right.patterns):
                    return False
                stack.extend(zip(left.patterns, right.patterns, strict=True))
            elif isinstance(left, PatternTuple) and isinstance(right, PatternTuple):
                if len(left.patterns) != len(right.patterns):
                    return False
                stack.extend(zip(left.patterns, right.patterns, strict=True))
        return True
