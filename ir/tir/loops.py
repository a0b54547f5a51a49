"""The nodes of loops: expressions, statements, and functions of buffers and sizes."""

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
    """A number by name: the counter of a loop, a size, or a value that `Let` names."""

    name: str
    dtype: str = "int64"


@dataclass(frozen=True)
class Const:
    """A number."""

    value: float
    dtype: str = "float32"


@dataclass(frozen=True)
class Buffer:
    """Memory for numbers of a type."""

    name: str
    dtype: str = "float32"


@dataclass(frozen=True)
class Load:
    """The element of a buffer at an index."""

    buffer: Buffer
    index: "Expr"


@dataclass(frozen=True)
class Call:
    """A scalar function of `ARITY` of arguments.

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
    """Names a value in a statement."""

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
    """Statements one after the other."""

    body: "Sequence[Stmt]"


Stmt: TypeAlias = Store | Let | For | Seq


@dataclass(frozen=True)
class LoopFunc:
    """A function of buffers and sizes. The body of a `PrimFunc`, too."""

    name: str
    params: tuple[Buffer | Var, ...]
    body: Stmt
