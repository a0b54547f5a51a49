"""Expressions of the loop IR: their base, constants, variables, casts and calls. Python's operators build them.

As in TVM v0.8, operators match the types of their operands (`match_types`) and fold constants; the constructors do neither.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any as AnyValue
from typing import ClassVar, Final

from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.tir.intrinsics import Intrinsic, intrinsic
from passat.ir.tir.node import Node
from passat.ir.tir.types import DataType, PointerType, PrimType, TirError, canonical, show_integer


class ExprOp:
    """Python's operators of expressions. `a == b` and `a != b` are deferred: as conditions, they compare identity."""

    __slots__ = ()
    __hash__ = object.__hash__

    def asobject(self) -> "PrimExpr":
        """The expression."""
        raise NotImplementedError

    def __add__(self, other: AnyValue) -> "PrimExpr":
        return _binary("+", self, other)

    def __radd__(self, other: AnyValue) -> "PrimExpr":
        return _binary("+", other, self)

    def __sub__(self, other: AnyValue) -> "PrimExpr":
        return _binary("-", self, other)

    def __rsub__(self, other: AnyValue) -> "PrimExpr":
        return _binary("-", other, self)

    def __mul__(self, other: AnyValue) -> "PrimExpr":
        return _binary("*", self, other)

    def __rmul__(self, other: AnyValue) -> "PrimExpr":
        return _binary("*", other, self)

    def __truediv__(self, other: AnyValue) -> "PrimExpr":
        return _true_divide(self, other)

    def __rtruediv__(self, other: AnyValue) -> "PrimExpr":
        return _true_divide(other, self)

    def __floordiv__(self, other: AnyValue) -> "PrimExpr":
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: AnyValue) -> "PrimExpr":
        return _binary("floordiv", other, self)

    def __mod__(self, other: AnyValue) -> "PrimExpr":
        return _binary("floormod", self, other)

    def __rmod__(self, other: AnyValue) -> "PrimExpr":
        return _binary("floormod", other, self)

    def __neg__(self) -> "PrimExpr":
        return _binary("*", self, const(-1, convert(self).dtype))

    def __lshift__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("shift_left", self, other)

    def __rlshift__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("shift_left", other, self)

    def __rshift__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("shift_right", self, other)

    def __rrshift__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("shift_right", other, self)

    def __and__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("bitwise_and", self, other)

    def __rand__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("bitwise_and", other, self)

    def __or__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("bitwise_or", self, other)

    def __ror__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("bitwise_or", other, self)

    def __xor__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("bitwise_xor", self, other)

    def __rxor__(self, other: AnyValue) -> "PrimExpr":
        return bit_operation("bitwise_xor", other, self)

    def __invert__(self) -> "PrimExpr":
        value = convert(self)
        if not value.type.is_integer:
            raise TirError(f"~ applies to integers, not to {value.dtype}")
        return Call(value.dtype, "tir.bitwise_not", [value])

    def __lt__(self, other: AnyValue) -> "PrimExpr":
        return _binary("<", self, other)

    def __le__(self, other: AnyValue) -> "PrimExpr":
        return _binary("<=", self, other)

    def __gt__(self, other: AnyValue) -> "PrimExpr":
        return _binary(">", self, other)

    def __ge__(self, other: AnyValue) -> "PrimExpr":
        return _binary(">=", self, other)

    def __eq__(self, other: object) -> "EqualOp":  # type: ignore[override]  # TVM's ==, which builds an expression
        return EqualOp(self, other)

    def __ne__(self, other: object) -> "NotEqualOp":  # type: ignore[override]  # TVM's !=, which builds an expression
        return NotEqualOp(self, other)

    def __bool__(self) -> bool:
        raise ValueError("an expression has no truth value; combine conditions with tir.all and tir.any instead of and, or, not")

    def equal(self, other: AnyValue) -> "PrimExpr":
        """The expression `self == other`."""
        return _binary("==", self, other)

    def astype(self, dtype: str) -> "PrimExpr":
        """The value converted to another type."""
        return cast(dtype, self)


class EqualOp(ExprOp):
    """`a == b`: an expression where one is needed, and whether they are one node as a condition of Python."""

    __slots__ = ("a", "b")
    __hash__ = None  # type: ignore[assignment]  # a condition is not a key

    def __init__(self, a: AnyValue, b: AnyValue) -> None:
        self.a, self.b = a, b

    def asobject(self) -> "PrimExpr":
        """The expression."""
        return _binary("==", self.a, self.b)

    def same_as(self, other: object) -> bool:
        """Whether this is the other comparison."""
        return self is other

    def __bool__(self) -> bool:
        return self.a is self.b or (isinstance(self.b, SymDim) and isinstance(self.a, PrimExpr) and self.a.as_dim() == self.b)


class NotEqualOp(EqualOp):
    """`a != b`, likewise."""

    __slots__ = ()

    def asobject(self) -> "PrimExpr":
        """The expression."""
        return _binary("!=", self.a, self.b)

    def __bool__(self) -> bool:
        return not super().__bool__()


class PrimExpr(ExprOp, Node):
    """An expression. `dtype` is its type: `int32`, `bool`, `float32x4`, `handle`."""

    __slots__ = ("dtype",)
    dtype: str

    def asobject(self) -> "PrimExpr":
        """The expression."""
        return self

    @property
    def type(self) -> DataType:
        """The type, split into kind, bits and lanes."""
        return DataType.of(self.dtype)

    @property
    def lanes(self) -> int:
        """The number of lanes of the value."""
        return self.type.lanes

    def as_dim(self) -> Dim:
        """The expression as a dimension of a tensor type; Any if it is not one."""
        return ANY


class Const(PrimExpr):
    """A constant."""

    __slots__ = ()
    value: AnyValue


class IntImm(Const):
    """An integer or boolean of a type. Equal to what has the same value: `IntImm("int32", 1) == 1`.

    Raises TirError for a number that the type does not have, and for one above 2**63 - 1, which `const` makes.
    """

    __slots__ = ("value",)
    FIELDS = ("dtype", "value")
    value: int

    def __init__(self, dtype: str, value: int) -> None:
        type_ = DataType.of(dtype)
        if not type_.is_integer or type_.lanes != 1:
            raise TirError(f"an IntImm has an integer type, not {dtype}")
        if type_.kind == "uint" and value < 0:
            raise TirError(f"{show_integer(value)} is negative, and {dtype} is unsigned")
        self.dtype, self.value = str(type_), int(value)
        if not type_.holds(self.value):
            lowest, highest = type_.limits
            raise TirError(f"{dtype} has the numbers from {lowest} to {highest}, not {show_integer(self.value)}")
        if self.value >= 1 << 63:
            raise TirError(
                f"an IntImm is at most 2**63 - 1, not {show_integer(self.value)}; tir.const makes larger numbers of the type uint64"
            )

    def __hash__(self) -> int:
        return hash(self.value)

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.value != 0

    def __eq__(self, other: object) -> AnyValue:
        return _binary("==", self, other) if _convertible(other) else NotImplemented

    def __ne__(self, other: object) -> AnyValue:
        return _binary("!=", self, other) if _convertible(other) else NotImplemented

    def as_dim(self) -> Dim:
        """The expression as a dimension."""
        return self.value


class FloatImm(Const):
    """A floating-point number of a type."""

    __slots__ = ("value",)
    FIELDS = ("dtype", "value")
    value: float

    def __init__(self, dtype: str, value: float) -> None:
        type_ = DataType.of(dtype)
        if type_.kind not in ("float", "bfloat") or type_.lanes != 1:
            raise TirError(f"a FloatImm has a floating-point type, not {dtype}")
        self.dtype, self.value = str(type_), float(value)

    def __float__(self) -> float:
        return self.value


class StringImm(Const):
    """A string, for calls of other functions."""

    __slots__ = ("value",)
    FIELDS = ("value",)
    value: str

    def __init__(self, value: str) -> None:
        self.dtype, self.value = "handle", value

    __hash__ = ExprOp.__hash__

    def __eq__(self, other: object) -> bool:  # type: ignore[override]  # strings compare by value, as in TVM
        return self.value == (other.value if isinstance(other, Const) else other)

    def __ne__(self, other: object) -> bool:  # type: ignore[override]  # likewise
        return not self == other


class Var(PrimExpr):
    """A variable, which is equal to itself only. The type is the name of one, or a type (`PointerType`)."""

    __slots__ = ("name", "type_annotation")
    FIELDS = ("name", "type_annotation")
    name: str

    def __init__(self, name: str, dtype: "str | PrimType | PointerType" = "int32") -> None:
        self.name = name
        self.type_annotation = PrimType(dtype) if isinstance(dtype, str) else dtype
        self.dtype = "handle" if isinstance(self.type_annotation, PointerType) else self.type_annotation.dtype

    @property
    def name_hint(self) -> str:
        """The name."""
        return self.name

    def as_dim(self) -> Dim:
        """The expression as a dimension."""
        return SymDim.named(self.name)


class SizeVar(Var):
    """A variable for a size, which is not negative."""

    __slots__ = ()


class Cast(PrimExpr):
    """A value converted to another type."""

    __slots__ = ("value",)
    FIELDS = ("dtype", "value")

    def __init__(self, dtype: str, value: AnyValue) -> None:
        self.dtype, self.value = canonical(dtype), convert(value)
        if self.lanes != self.value.lanes:
            raise TirError(f"a cast keeps the number of lanes; {self.value.dtype} and {dtype} differ in it")

    def as_dim(self) -> Dim:
        """The expression as a dimension."""
        return self.value.as_dim()


class Broadcast(PrimExpr):
    """A vector whose lanes all have one value."""

    __slots__ = ("value",)
    FIELDS = ("value", "lanes")

    def __init__(self, value: AnyValue, lanes: int) -> None:
        self.value = convert(value)
        if self.value.lanes != 1 or lanes <= 1:
            raise TirError(f"a broadcast makes a vector of a number, not {lanes} lanes of {self.value.dtype}")
        self.dtype = str(self.value.type.with_lanes(int(lanes)))


class Call(PrimExpr):
    """A call of a function of `intrinsics`, given as such or by name."""

    __slots__ = ("args", "op")
    FIELDS = ("dtype", "op", "args")
    args: tuple[PrimExpr, ...]

    def __init__(self, dtype: str | None, op: Intrinsic | str, args: Iterable[AnyValue] = ()) -> None:
        self.dtype = canonical(dtype or "void")
        self.op = intrinsic(op) if isinstance(op, str) else op
        self.args = tuple(map(convert, args))


class BinaryOp(PrimExpr):
    """An operation of two values of one type, known by its `SYMBOL` in `BINARY`. The class attributes are its constant folding."""

    __slots__ = ("a", "b")
    FIELDS = ("a", "b")
    SYMBOL: ClassVar[str]
    COMPUTE: ClassVar[Callable[[AnyValue, AnyValue], AnyValue]]
    """The value of the operation on two integers, or two floats."""
    UNITS: ClassVar[tuple[int | None, int | None]] = (None, None)
    """The constants on the left and on the right that leave the other operand unchanged."""
    ZEROS: ClassVar[tuple[int | None, int | None]] = (None, None)
    """The constants on the left and on the right that are the result."""
    DIVIDES: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "SYMBOL" in cls.__dict__:
            BINARY.setdefault(cls.SYMBOL, cls)

    def __init__(self, a: AnyValue, b: AnyValue) -> None:
        self.a, self.b = convert(a), convert(b)
        if self.a.dtype != self.b.dtype:
            raise TirError(f"{type(self).__name__} has operands of one type, not {self.a.dtype} and {self.b.dtype}")
        self.dtype = self.a.dtype

    @classmethod
    def of(cls, a: AnyValue, b: AnyValue) -> PrimExpr:
        """The operation with matched types, or its value if the constants among the operands determine it."""
        left, right = match_types(convert(a), convert(b))
        folded = cls.fold(left, right)
        return cls(left, right) if folded is None else folded

    @classmethod
    def fold(cls, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """The value if the constants among the operands determine it; None otherwise, and for a value that the type does not have.

        Raises TirError for a division by zero.
        """
        x = a.value if isinstance(a, (IntImm, FloatImm)) else None
        y = b.value if isinstance(b, (IntImm, FloatImm)) else None
        if x is None and y is None:
            return None
        if cls.DIVIDES and y == 0:
            raise TirError("division by zero")
        if x is not None and y is not None:
            value = cls.COMPUTE(x, y)
            fits = not a.type.is_integer or a.type.is_bool or a.type.holds(value)
            return const(value, a.dtype) if fits else None
        if x is not None:
            return b if x == cls.UNITS[0] else a if x == cls.ZEROS[0] else None
        return a if y == cls.UNITS[1] else b if y == cls.ZEROS[1] else None


BINARY: Final[dict[str, type[BinaryOp]]] = {}
"""The operations by symbol; `passat.ir.tir.arithmetic` defines them."""


def _binary(symbol: str, a: AnyValue, b: AnyValue) -> PrimExpr:
    return BINARY[symbol].of(a, b)


def _true_divide(a: AnyValue, b: AnyValue) -> PrimExpr:
    x, y = convert(a), convert(b)
    if x.type.kind == "int" and y.type.kind == "int":
        raise TirError("/ of integers is ambiguous; use //, or tir.div, truncdiv, floordiv or indexdiv")
    return _binary("/", x, y)


def _convertible(value: object) -> bool:
    return isinstance(value, (ExprOp, bool, int, float)) or hasattr(value, "asobject") or hasattr(value, "dtype")


def convert(value: AnyValue) -> PrimExpr:
    """A Python value as an expression: numbers become int32 (int64 if they need it), float32 and bool.

    >>> convert(2.5).dtype, convert(True).dtype, convert(1 << 40).dtype
    ('float32', 'bool', 'int64')
    """
    if isinstance(value, PrimExpr):
        return value
    if hasattr(value, "asobject"):
        made: PrimExpr = value.asobject()
        return made
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, (bool, int, float)) or hasattr(value, "dtype"):
        return const(value)
    raise TypeError(f"expressions are made of numbers, strings and expressions, not of a {type(value).__name__}")


def const(value: AnyValue, dtype: str | None = None) -> PrimExpr:
    """A constant; a vector type makes a broadcast. Without a type, that of the value: int32, float32, bool, or a NumPy number's.

    >>> const(1, "int32x4").dtype, const(2.9, "int32").value
    ('int32x4', 2)
    """
    if dtype is None:
        named = getattr(value, "dtype", None)
        if named is not None:
            dtype = str(named)
        elif isinstance(value, bool):
            dtype = "bool"
        elif isinstance(value, int):
            dtype = "int32" if -(1 << 31) <= value < 1 << 31 else "int64"
        else:
            dtype = "float32"
    type_ = DataType.of(dtype)
    if type_.lanes > 1:
        return Broadcast(const(value, str(type_.with_lanes(1))), type_.lanes)
    if type_.is_integer:
        number = bool(value) if type_.is_bool else int(value)
        if type_.kind == "uint" and number >= 1 << 63 and type_.holds(number):
            return Call(dtype, "tir.large_uint_imm", [const(number & 0xFFFFFFFF, "uint32"), const(number >> 32, "uint32")])
        return IntImm(dtype, number)
    if type_.kind in ("float", "bfloat"):
        return FloatImm(dtype, value)
    raise TirError(f"there are no constants of the type {dtype}")


def cast(dtype: str, value: AnyValue) -> PrimExpr:
    """The value converted to a type: constants are converted, numbers become vectors by a broadcast."""
    given, wanted = convert(value), DataType.of(dtype)
    if given.dtype == str(wanted):
        return given
    if wanted.lanes != 1 and given.lanes == 1:
        return Broadcast(cast(str(wanted.with_lanes(1)), given), wanted.lanes)
    if isinstance(given, IntImm) and not wanted.is_bool and (wanted.kind == "int" or (wanted.kind == "uint" and given.value >= 0)):
        return const(wanted.wrapped(given.value), str(wanted))
    if isinstance(given, (IntImm, FloatImm)):
        return const(given.value, str(wanted))
    if given.type.kind == "handle":
        raise TirError(f"a handle cannot be converted to {dtype}")
    return Cast(dtype, given)


def match_types(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Converts two operands to one type, as TVM v0.8 does: numbers to vectors, integers to floats, fewer bits to more, and signed
    integers to unsigned ones of the same size. Raises TirError for types that do not match."""
    if a.dtype == b.dtype:
        return a, b
    if a.lanes != b.lanes:
        if a.lanes == 1:
            a = Broadcast(a, b.lanes)
        elif b.lanes == 1:
            b = Broadcast(b, a.lanes)
        else:
            raise TirError(f"the vectors {a.dtype} and {b.dtype} have different numbers of lanes")
    x, y = a.type, b.type
    if x == y:
        return a, b
    if x.is_float or y.is_float:
        if "handle" in (x.kind, y.kind):
            raise TirError(f"the types {a.dtype} and {b.dtype} do not match")
        to_right = not x.is_float or (y.is_float and x.bits < y.bits)
    elif x.is_integer and y.is_integer:
        to_right = x.bits < y.bits or (x.bits == y.bits and y.kind == "uint")
    else:
        raise TirError(f"the types {a.dtype} and {b.dtype} do not match")
    return (cast(b.dtype, a), b) if to_right else (a, cast(a.dtype, b))


_BITS: Final[dict[str, Callable[[int, int], int]]] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
}


def bit_operation(name: str, a: AnyValue, b: AnyValue) -> PrimExpr:
    """An operation on the bits of integers; constants of index types are folded, and an `int`
    takes the type of the other operand. Raises TirError for other types, and bad shifts."""
    x = const(a, convert(b).dtype) if type(a) is int else convert(a)
    y = const(b, x.dtype) if type(b) is int else convert(b)
    if not x.type.is_integer or not y.type.is_integer:
        raise TirError(f"{name} applies to integers, not to {x.dtype} and {y.dtype}")
    x, y = match_types(x, y)
    if x.type.is_index and isinstance(y, IntImm):
        if name.startswith("shift") and not 0 <= y.value < x.type.bits:
            raise TirError(f"a shift of {x.dtype} is at least 0 and less than {x.type.bits}, not {y.value}")
        if isinstance(x, IntImm):
            return IntImm(x.dtype, x.type.wrapped(_BITS[name](x.value, y.value)))
        if name.startswith("shift") and y.value == 0:
            return x
    return Call(x.dtype, f"tir.{name}", [x, y])
