"""Values that are known before a program runs: constants, fields, closures and references."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from passat.ir.evaluate import Value as Data
from passat.ir.expr import Call, Constant, Constructor, Expr, Function, Pattern, PatternConstructor, PatternTuple, PatternVar, Var
from passat.ir.types import Type, TypeVar

Fold: TypeAlias = Callable[[Call, Sequence[Data]], Data | None]
"""Computes the call of an operator from the values of its operands, or returns None if it should be computed at run time."""


@dataclass(frozen=True, eq=False, slots=True)
class Known:
    """A value: the atom that represents it in the residual program, and its known parts. A constant is known from its atom alone."""

    atom: Expr
    parts: "Fields | Cell | Closure | None" = None
    time: int = 0
    """The time of its creation. A field is older than the value that contains it."""


@dataclass(frozen=True, eq=False, slots=True)
class Fields:
    """The fields of a tuple or, with a constructor, of a value of an algebraic data type."""

    fields: tuple[Known, ...]
    constructor: Constructor | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Cell:
    """The identity of a reference. Its content is in the store."""


@dataclass(frozen=True, eq=False, slots=True)
class Closure:
    """A function with the values of the variables that it captures, and the types of its enclosing functions' type parameters."""

    function: Function
    captured: Mapping[Var, Known]
    own: Var | None
    """The variable by which the function calls itself."""
    types: Mapping[TypeVar, Type]


class Store:
    """The known contents of references at a point of the program. Writes in a branch are forgotten after the branch.

    >>> store, cell = Store(), Cell()
    >>> store.write(cell, Known(Var("x")))
    >>> inner = Store(store)
    >>> inner.read(cell) is store.read(cell), inner.is_untouched, Store().read(cell)
    (True, True, None)
    """

    __slots__ = ("_contents", "_outer")

    def __init__(self, outer: "Store | None" = None) -> None:
        self._contents: dict[Cell, Known] = {}
        self._outer: Store | None = outer
        while self._outer is not None and self._outer.is_untouched:
            self._outer = self._outer._outer

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was written since its creation."""
        return not self._contents

    def read(self, cell: Cell) -> Known | None:
        """The content of a reference; None if it is unknown."""
        store: Store | None = self
        while store is not None:
            if cell in store._contents:
                return store._contents[cell]
            store = store._outer
        return None

    def write(self, cell: Cell, value: Known) -> None:
        """Sets the content of a reference."""
        self._contents[cell] = value


Fuel: TypeAlias = tuple[tuple[int, int], ...]
"""For each argument of a function, over all calls that are being evaluated: the earliest time, and the least value if it is a natural
number."""


def fuel_of(args: Sequence[Known]) -> Fuel:
    """The fuel of the arguments of a call."""
    return tuple((arg.time, _natural(arg.atom)) for arg in args)


def burned(before: Fuel | None, args: Sequence[Known]) -> Fuel | None:
    """The fuel that is left for a call within others of the same function; None if no argument is older or a smaller number.

    >>> ten, nine = Known(Constant(10), time=1), Known(Constant(9), time=2)
    >>> burned(fuel_of([ten]), [nine]), burned(fuel_of([nine]), [ten]), burned(fuel_of([ten]), [ten])
    (((1, 9),), ((1, 9),), None)
    """
    now = fuel_of(args)
    if before is None or len(now) != len(before):
        return now if before is None else None
    left = tuple((min(a, c), min(b, d)) for (a, b), (c, d) in zip(before, now, strict=True))
    return None if left == before else left


def _natural(atom: Expr) -> int:
    """The value of a constant that is a natural number; otherwise 0."""
    if not isinstance(atom, Constant) or atom.data.shape or not atom.data.dtype.startswith(("int", "uint")):
        return 0
    return max(0, int(atom.data.numpy()))


def data_of(value: Known) -> Data | None:
    """The value as a tensor or tuple of tensors; None if it is unknown."""
    if isinstance(value.atom, Constant):
        return value.atom.data
    if not isinstance(value.parts, Fields) or value.parts.constructor is not None:
        return None
    found = [data_of(part) for part in value.parts.fields]
    known = [part for part in found if part is not None]
    return tuple(known) if len(known) == len(found) else None


@dataclass
class Matched:
    """Whether a value matches a pattern (None if that is unknown), and the variables that the pattern binds."""

    does: bool | None = True
    bound: dict[Var, Known] = field(default_factory=dict)


def matched(pattern: Pattern, value: Known) -> Matched:
    """Matches a value with a pattern."""
    found = Matched()
    work = [(pattern, value)]
    while work:
        wanted, given = work.pop()
        parts = given.parts
        if isinstance(wanted, PatternVar):
            found.bound[wanted.var] = given
        elif isinstance(wanted, (PatternConstructor, PatternTuple)):
            if not isinstance(parts, Fields):
                found.does = None
            elif isinstance(wanted, PatternConstructor) and (parts.constructor is None or parts.constructor.tag != wanted.constructor.tag):
                return Matched(False)
            else:
                work += zip(wanted.patterns, parts.fields, strict=True)
    return found
