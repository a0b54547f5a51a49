"""Arithmetic, comparisons and logic of the loop IR, with the constants that TVM v0.8 folds when it builds them."""

import operator
from typing import Any as AnyValue
from typing import Final

from passat.ir.shape import Dim, divide
from passat.ir.tir.expr import BinaryOp, Call, IntImm, PrimExpr, cast, const, convert
from passat.ir.tir.types import DataType, TirError


def trunc_div(x: AnyValue, y: AnyValue) -> AnyValue:
    """The quotient, rounded towards zero for integers.

    >>> trunc_div(-7, 2), trunc_div(-7.0, 2.0)
    (-3, -3.5)
    """
    if isinstance(x, float):
        return x / y
    return -(-x // y) if (x < 0) != (y < 0) else x // y


def trunc_mod(x: int, y: int) -> int:
    """The remainder with the sign of the dividend.

    >>> trunc_mod(-7, 2)
    -1
    """
    return x - trunc_div(x, y) * y  # type: ignore[no-any-return]  # integers


class Add(BinaryOp):
    """The sum."""

    __slots__ = ()
    SYMBOL, COMPUTE = "+", operator.add
    UNITS = (0, 0)

    def as_dim(self) -> Dim:
        """The expression as a dimension."""
        return self.a.as_dim() + self.b.as_dim()


class Sub(BinaryOp):
    """The difference."""

    __slots__ = ()
    SYMBOL, COMPUTE = "-", operator.sub
    UNITS = (None, 0)

    def as_dim(self) -> Dim:
        """The expression as a dimension."""
        return self.a.as_dim() - self.b.as_dim()


class Mul(BinaryOp):
    """The product."""

    __slots__ = ()
    SYMBOL, COMPUTE = "*", operator.mul
    UNITS = (1, 1)
    ZEROS = (0, 0)

    def as_dim(self) -> Dim:
        """The expression as a dimension."""
        return self.a.as_dim() * self.b.as_dim()


class Div(BinaryOp):
    """The quotient; of integers, rounded towards zero."""

    __slots__ = ()
    SYMBOL, COMPUTE = "/", trunc_div
    UNITS = (None, 1)
    ZEROS = (0, None)
    DIVIDES = True


class Mod(BinaryOp):
    """The remainder of `Div`, with the sign of the dividend."""

    __slots__ = ()
    SYMBOL, COMPUTE = "%", trunc_mod
    ZEROS = (0, None)
    DIVIDES = True

    @classmethod
    def fold(cls, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """The value, as `BinaryOp.fold`."""
        return _fold_remainder(cls, a, b)


class FloorDiv(BinaryOp):
    """The quotient, rounded down."""

    __slots__ = ()
    SYMBOL, COMPUTE = "floordiv", operator.floordiv
    UNITS = (None, 1)
    ZEROS = (0, None)
    DIVIDES = True

    def as_dim(self) -> Dim:
        """The expression as a dimension."""
        return divide(self.a.as_dim(), self.b.as_dim())


class FloorMod(BinaryOp):
    """The remainder of `FloorDiv`, with the sign of the divisor."""

    __slots__ = ()
    SYMBOL, COMPUTE = "floormod", operator.mod
    ZEROS = (0, None)
    DIVIDES = True

    @classmethod
    def fold(cls, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """The value, as `BinaryOp.fold`."""
        return _fold_remainder(cls, a, b)

    def as_dim(self) -> Dim:
        """The expression as a dimension."""
        dividend, divisor = self.a.as_dim(), self.b.as_dim()
        return dividend - divide(dividend, divisor) * divisor


def _fold_remainder(cls: type[BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Remainders of index types are folded, and those by 1 are 0."""
    if not a.type.is_index:
        return None
    if isinstance(b, IntImm) and b.value == 1:
        return const(0, a.dtype)
    folded: PrimExpr | None = BinaryOp.fold.__func__(cls, a, b)  # type: ignore[attr-defined]  # a class method, called for a class below
    return folded


class Extreme(BinaryOp):
    """The smaller or the larger value; of one node and itself, that node."""

    __slots__ = ()

    @classmethod
    def of(cls, a: AnyValue, b: AnyValue) -> PrimExpr:
        """The operation, as `BinaryOp.of`."""
        x, y = convert(a), convert(b)
        for one, other in ((x, y), (y, x)):
            if isinstance(one, Limit):
                return one if (one is POS_INF) == (cls is Max) else other
        return super().of(x, y)

    @classmethod
    def fold(cls, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """The value, as `BinaryOp.fold`."""
        return a if a is b else super().fold(a, b)


class Min(Extreme):
    """The smaller value."""

    __slots__ = ()
    SYMBOL, COMPUTE = "min", min


class Max(Extreme):
    """The larger value."""

    __slots__ = ()
    SYMBOL, COMPUTE = "max", max


class CmpOp(BinaryOp):
    """A comparison. The result is bool, or a vector of them."""

    __slots__ = ()

    def __init__(self, a: AnyValue, b: AnyValue) -> None:
        super().__init__(a, b)
        self.dtype = str(DataType("uint", 1, self.a.lanes))

    @classmethod
    def fold(cls, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """The value, as `BinaryOp.fold`."""
        folded = super().fold(a, b)
        return None if folded is None else cast("bool", folded)


class EQ(CmpOp):
    """Whether two values are equal."""

    __slots__ = ()
    SYMBOL, COMPUTE = "==", operator.eq


class NE(CmpOp):
    """Whether two values differ."""

    __slots__ = ()
    SYMBOL, COMPUTE = "!=", operator.ne


class LT(CmpOp):
    """Whether the first value is less."""

    __slots__ = ()
    SYMBOL, COMPUTE = "<", operator.lt


class LE(CmpOp):
    """Whether the first value is at most the second."""

    __slots__ = ()
    SYMBOL, COMPUTE = "<=", operator.le


class GT(CmpOp):
    """Whether the first value is greater."""

    __slots__ = ()
    SYMBOL, COMPUTE = ">", operator.gt


class GE(CmpOp):
    """Whether the first value is at least the second."""

    __slots__ = ()
    SYMBOL, COMPUTE = ">=", operator.ge


class LogicalOp(BinaryOp):
    """An operation of two conditions."""

    __slots__ = ()

    def __init__(self, a: AnyValue, b: AnyValue) -> None:
        super().__init__(a, b)
        if not self.a.type.is_bool:
            raise TirError(f"{type(self).__name__} has operands of type bool, not {self.a.dtype}")

    @classmethod
    def of(cls, a: AnyValue, b: AnyValue) -> PrimExpr:
        """The operation, as `BinaryOp.of`."""
        x, y = convert(a), convert(b)
        for value in (x, y):
            if not value.type.is_bool:
                raise TirError(f"{cls.__name__} has operands of type bool, not {value.dtype}")
        return super().of(x, y)


class And(LogicalOp):
    """Whether both conditions hold; the second is not evaluated if the first does not."""

    __slots__ = ()
    SYMBOL, COMPUTE = "&&", operator.and_
    UNITS = (1, 1)
    ZEROS = (0, 0)


class Or(LogicalOp):
    """Whether one of the conditions holds; the second is not evaluated if the first does."""

    __slots__ = ()
    SYMBOL, COMPUTE = "||", operator.or_
    UNITS = (0, 0)
    ZEROS = (1, 1)


class Not(PrimExpr):
    """Whether a condition does not hold."""

    __slots__ = ("a",)
    FIELDS = ("a",)

    def __init__(self, a: AnyValue) -> None:
        self.a = convert(a)
        self.dtype = self.a.dtype
        if not self.a.type.is_bool:
            raise TirError(f"Not has an operand of type bool, not {self.a.dtype}")

    @staticmethod
    def of(a: AnyValue) -> PrimExpr:
        """The negation; of a constant, its value."""
        value = convert(a)
        return IntImm("bool", not value.value) if isinstance(value, IntImm) and value.type.is_bool else Not(value)


class Limit(Call):
    """One of the two infinities, which are operands of `Min` and `Max` while bounds are computed, and nowhere else."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("handle", "tir.tvm_static_handle")


POS_INF: Final = Limit()
NEG_INF: Final = Limit()
