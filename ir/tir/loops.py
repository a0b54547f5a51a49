"""The nodes of the loop IR: expressions, statements, and functions of buffers and sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

ARITY: Final = {
    "abs": 1, "add": 2, "and": 2, "ceil": 1, "clip_high": 2, "clip_low": 2, "cos": 1, "div": 2, "eq": 2, "erf": 1, "exp": 1, "floor": 1,
    "fmod": 2, "ge": 2, "gt": 2, "half": 1, "isinf": 1, "isnan": 1, "le": 2, "leaky": 2, "log": 1, "lt": 2, "max": 2, "min": 2,
    "mod": 2, "mul": 2, "ne": 2, "neg": 1, "not": 1, "of_order": 1, "or": 2, "order": 1, "pow": 2, "relu": 1, "round": 1, "sigmoid": 1,
    "sign": 1, "sin": 1, "sqrt": 1, "sub": 2, "tanh": 1, "where": 3,
}  # fmt: skip
"""The scalar functions, by name, with their number of arguments. `half` rounds to float16; `order` maps floats to integers in the same
order, NaN last, and `of_order` maps them back. `div` and `fmod` of integers truncate, `mod` has the sign of the divisor."""
_ORDER: Final = {"order": {"float32": "int32", "float64": "int64"}, "of_order": {"int32": "float32", "int64": "float64"}}
_TESTS: Final = frozenset(("eq", "ge", "gt", "isinf", "isnan", "le", "lt", "ne"))


@dataclass(frozen=True)
class Var:
    """A named number: a loop counter, a size, or a value bound by `Let` or `Local`."""

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
    """The element of a buffer at an index. An element of a float16 buffer is a float32."""

    buffer: Buffer
    index: "Expr"

    @property
    def dtype(self) -> str:
        """The type of the value."""
        return "float32" if self.buffer.dtype == "float16" else self.buffer.dtype


@dataclass(frozen=True)
class Call:
    """A scalar function from `ARITY`, applied to arguments of one type (except for the condition of `where`).

    >>> Call("lt", (Const(1.0), Const(2.0))).dtype
    'bool'
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

    @property
    def dtype(self) -> str:
        """The type of the value."""
        kind = self.args[-1].dtype
        return "bool" if self.name in _TESTS else _ORDER.get(self.name, {}).get(kind, kind)


@dataclass(frozen=True)
class Cast:
    """Converts a value to a different type. A float out of range for an integer type becomes its least value."""

    value: "Expr"
    dtype: str


Expr: TypeAlias = Var | Const | Load | Call | Cast


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
class Local:
    """Binds a name to a number in a statement. `Accumulate` changes it."""

    var: Var
    value: Expr
    body: "Stmt"


@dataclass(frozen=True)
class Accumulate:
    """Adds a value to a `Local` (`add`), or sets it to the larger integer (`max`). A loop may regroup and reorder these."""

    var: Var
    name: str
    value: Expr


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


Stmt: TypeAlias = Store | Let | Local | Accumulate | For | Seq


@dataclass(frozen=True)
class LoopFunc:
    """A function of buffers and sizes. It writes the buffers `outputs` of its parameters."""

    name: str
    params: tuple[Buffer | Var, ...]
    body: Stmt
    outputs: tuple[Buffer, ...] = ()
