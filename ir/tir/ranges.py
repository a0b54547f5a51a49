"""Ranges of numbers, the variables that iterate over them, and reductions over these."""

from collections.abc import Iterable
from typing import Any as AnyValue
from typing import ClassVar, Self

from passat.ir.tir.expr import ExprOp, PrimExpr, Var, convert
from passat.ir.tir.node import Node
from passat.ir.tir.types import TirError
from passat.ir.tir.values import true


class Range(Node):
    """The numbers from `begin` to before `end`, or below `begin` if there is no `end`.

    >>> from passat.ir.tir.ranges import Range
    >>> print(Range(2, 10))
    range(min=2, ext=8)
    """

    __slots__ = ("extent", "min")
    FIELDS = ("min", "extent")
    min: PrimExpr
    extent: PrimExpr

    def __init__(self, begin: AnyValue, end: AnyValue = None) -> None:
        self.min = convert(0 if end is None else begin)
        self.extent = convert(begin) if end is None else convert(end) - self.min

    @classmethod
    def from_min_extent(cls, min_value: AnyValue, extent: AnyValue) -> Self:
        """The range of `extent` numbers that starts at `min_value`."""
        made = cls.__new__(cls)
        made.min, made.extent = convert(min_value), convert(extent)
        return made

    def rebuilt(self, values: tuple[AnyValue, ...]) -> Self:
        """A range of another minimum and extent."""
        return self.from_min_extent(*values)

    def __reduce__(self) -> tuple[AnyValue, tuple[AnyValue, ...]]:
        return (Range.from_min_extent, self.values())


class IterVar(ExprOp, Node):
    """A variable that iterates over a range, and how; as an expression, the variable."""

    __slots__ = ("dom", "iter_type", "thread_tag", "var")
    FIELDS = ("dom", "var", "iter_type", "thread_tag")
    DEFINES = frozenset({"var"})

    DataPar: ClassVar[int] = 0
    ThreadIndex: ClassVar[int] = 1
    CommReduce: ClassVar[int] = 2
    Ordered: ClassVar[int] = 3
    DimInfo: ClassVar[int] = 4
    Unrolled: ClassVar[int] = 5
    Vectorized: ClassVar[int] = 6
    Parallelized: ClassVar[int] = 7
    Tensorized: ClassVar[int] = 8

    def __init__(self, dom: AnyValue, var: Var | str, iter_type: int = 0, thread_tag: str = "") -> None:
        if isinstance(dom, (list, tuple)):
            if len(dom) != 2:
                raise TypeError(f"the domain of an iteration is a range, or a pair of numbers, not {dom!r}")
            dom = Range(dom[0], dom[1])
        if dom is not None and not isinstance(dom, Range):
            raise TypeError(f"the domain of an iteration is a range, not a {type(dom).__name__}")
        self.dom: Range | None = dom
        self.var = var if isinstance(var, Var) else Var(var, "int32" if dom is None else dom.extent.dtype)
        self.iter_type, self.thread_tag = iter_type, thread_tag

    def asobject(self) -> PrimExpr:
        """The variable."""
        return self.var

    @property
    def dtype(self) -> str:
        """The type of the variable."""
        return self.var.dtype


class CommReducer(Node):
    """A commutative and associative function of tuples: `result`, of the variables `lhs` and `rhs`, with its neutral element."""

    __slots__ = ("identity_element", "lhs", "result", "rhs")
    FIELDS = ("lhs", "rhs", "result", "identity_element")
    DEFINES = frozenset({"lhs", "rhs"})

    def __init__(self, lhs: Iterable[Var], rhs: Iterable[Var], result: Iterable[AnyValue], identity_element: Iterable[AnyValue]) -> None:
        self.lhs, self.rhs = tuple(lhs), tuple(rhs)
        self.result, self.identity_element = tuple(map(convert, result)), tuple(map(convert, identity_element))

    def combine(self, left: Iterable[PrimExpr], right: Iterable[PrimExpr]) -> tuple[PrimExpr, ...]:
        """The results for two tuples of values."""
        from passat.ir.tir.functor import substitute

        values = dict(zip((*self.lhs, *self.rhs), (*left, *right), strict=True))
        return tuple(substitute(part, values) for part in self.result)


class Reduce(PrimExpr):
    """The result number `value_index` of a reducer over the values of `source`, for each point of `axis` where `condition` holds."""

    __slots__ = ("axis", "combiner", "condition", "init", "source", "value_index")
    FIELDS = ("combiner", "source", "axis", "condition", "value_index", "init")
    DEFINES = frozenset({"axis"})
    WALKED = ("axis", "source", "condition", "init")

    def __init__(
        self,
        combiner: CommReducer,
        source: Iterable[AnyValue],
        axis: Iterable[IterVar],
        condition: AnyValue,
        value_index: int,
        init: Iterable[AnyValue] | None = None,
    ) -> None:
        self.combiner, self.source, self.axis = combiner, tuple(map(convert, source)), tuple(axis)
        self.condition = true() if condition is None else convert(condition)
        self.value_index, self.init = int(value_index), tuple(map(convert, init or ()))
        if any(not isinstance(axis, IterVar) or axis.iter_type != IterVar.CommReduce for axis in self.axis):
            raise TirError("the axes of a reduction are made by reduce_axis")
        self.dtype = self.source[self.value_index].dtype
