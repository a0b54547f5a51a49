"""The nodes of the loop IR: expressions, statements, and functions of buffers and sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

ARITY: Final = {
    "abs": 1, "add": 2, "div": 2, "exp": 1, "leaky": 2, "max": 2, "min": 2, "mul": 2, "neg": 1, "relu": 1, "sigmoid": 1, "sqrt": 1,
    "sub": 2, "tanh": 1, "clip_low": 2, "clip_high": 2,
}  # fmt: skip
"""The scalar functions, by name, with their number of arguments."""


@dataclass(frozen=True)
class Var:
    """A named number: a loop counter, a size, or a value bound by `Let`."""

    name: str
    dtype: str = "int64"


@dataclass(frozen=True)
class Const:
    """A constant."""

    value: float
    dtype: str = "float32"


@dataclass(frozen=True)
class Buffer:
    """A memory buffer for numbers of one type."""

    name: str
    dtype: str = "float32"


@dataclass(frozen=True)
class Load:
    """The element of a buffer at an index."""

    buffer: Buffer
    index: "Expr"


@dataclass(frozen=True)
class Call:
    """A scalar function from `ARITY`, applied to arguments.

    >>> Call("add", (Const(1.0),))
    Traceback (most recent call last):
        ...
    ValueError: add has 2 arguments, not 1
    """

    name: str
    args: "tuple[Expr, ...]"

    def __post_init__(self) -> None:
        if self.name not in ARITY:
            raise ValueError(f"there is no scalar function {self.name}")
        if len(self.args) != ARITY[self.name]:
            raise ValueError(f"{self.name} has {ARITY[self.name]} arguments, not {len(self.args)}")


Expr: TypeAlias = Var | Const | Load | Call


@dataclass(frozen=True)
class Store:
    """Sets the element of a buffer at an index."""

    buffer: Buffer
    index: Expr
    value: Expr


@dataclass(frozen=True)
class Let:
    """Binds a name to a value in a statement."""

    var: Var
    value: Expr
    body: "Stmt"


@dataclass(frozen=True)
class For:
    """Runs a statement with each number below an extent."""

    var: Var
    extent: Expr
    body: "Stmt"


@dataclass(frozen=True)
class Seq:
    """A sequence of statements."""

    body: "Sequence[Stmt]"


Stmt: TypeAlias = Store | Let | For | Seq


@dataclass(frozen=True)
class LoopFunc:
    """A function of buffers and sizes; can be the body of a `PrimFunc`."""

    name: str
    params: tuple[Buffer | Var, ...]
    body: Stmt
