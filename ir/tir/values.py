"""The remaining expressions of the loop IR: choices, bindings, vectors, and reads of memory."""

from collections.abc import Iterable
from typing import Any as AnyValue

from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import PrimExpr, Var, const, convert
from passat.ir.tir.types import TirError, canonical


class Select(PrimExpr):
    """One of two values, which are both evaluated. The condition is a bool, or a vector of them."""

    __slots__ = ("condition", "false_value", "true_value")
    FIELDS = ("condition", "true_value", "false_value")

    def __init__(self, condition: AnyValue, true_value: AnyValue, false_value: AnyValue) -> None:
        self.condition, self.true_value, self.false_value = convert(condition), convert(true_value), convert(false_value)
        self.dtype = self.true_value.dtype
        if not self.condition.type.is_bool or self.dtype != self.false_value.dtype:
            raise TirError(
                "Select has a condition of type bool and values of one type, "
                f"not {self.condition.dtype}, {self.dtype} and {self.false_value.dtype}"
            )
        if self.condition.lanes not in (1, self.true_value.lanes):
            raise TirError(f"a condition of {self.condition.lanes} lanes does not choose among values of {self.true_value.lanes}")


class Let(PrimExpr):
    """An expression in which a variable has a value."""

    __slots__ = ("body", "value", "var")
    FIELDS = ("var", "value", "body")
    DEFINES = frozenset({"var"})

    def __init__(self, var: Var, value: AnyValue, body: AnyValue) -> None:
        self.var, self.value, self.body = var, convert(value), convert(body)
        self.dtype = self.body.dtype
        if self.value.dtype != var.dtype:
            raise TirError(f"{var.name} of type {var.dtype} cannot have a value of type {self.value.dtype}")


class Ramp(PrimExpr):
    """A vector of `base`, `base + stride`, and so on."""

    __slots__ = ("base", "stride")
    FIELDS = ("base", "stride", "lanes")

    def __init__(self, base: AnyValue, stride: AnyValue, lanes: int) -> None:
        self.base, self.stride = convert(base), convert(stride)
        if self.base.lanes != 1 or lanes <= 1:
            raise TirError(f"a ramp makes a vector from a number, not {lanes} lanes from {self.base.dtype}")
        if self.stride.dtype != self.base.dtype:
            self.stride = convert(self.stride).astype(self.base.dtype)
        self.dtype = str(self.base.type.with_lanes(int(lanes)))


class Shuffle(PrimExpr):
    """A vector of the lanes of vectors, by their numbers when they are put one after another."""

    __slots__ = ("indices", "vectors")
    FIELDS = ("vectors", "indices")
    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]

    def __init__(self, vectors: Iterable[AnyValue], indices: Iterable[AnyValue]) -> None:
        self.vectors, self.indices = tuple(map(convert, vectors)), tuple(map(convert, indices))
        if not self.vectors or not self.indices:
            raise TirError("a shuffle has vectors and indices")
        element = self.vectors[0].type.with_lanes(1)
        if any(vector.type.with_lanes(1) != element for vector in self.vectors):
            raise TirError("the vectors of a shuffle have one element type")
        self.dtype = str(element.with_lanes(len(self.indices)))


class Load(PrimExpr):
    """Elements of memory at an index. Lanes whose predicate is false are not read."""

    __slots__ = ("buffer_var", "index", "predicate")
    FIELDS = ("dtype", "buffer_var", "index", "predicate")

    def __init__(self, dtype: str, buffer_var: Var, index: AnyValue, predicate: AnyValue = None) -> None:
        [self.index] = indices_of([index])
        self.dtype, self.buffer_var = canonical(dtype), buffer_var
        self.predicate = true(self.lanes) if predicate is None else convert(predicate)
        _check_lanes(self.lanes, self.index, self.predicate)


class BufferLoad(PrimExpr):
    """The element of a buffer at an index for each dimension."""

    __slots__ = ("buffer", "indices")
    FIELDS = ("buffer", "indices")
    indices: tuple[PrimExpr, ...]

    def __init__(self, buffer: Buffer, indices: Iterable[AnyValue]) -> None:
        self.buffer, self.indices = buffer, indices_of(indices)
        self.dtype = buffer.dtype


class ProducerLoad(PrimExpr):
    """The element of a tensor (`passat.te.Tensor`) at an index for each dimension."""

    __slots__ = ("indices", "producer")
    FIELDS = ("producer", "indices")
    indices: tuple[PrimExpr, ...]

    def __init__(self, producer: AnyValue, indices: Iterable[AnyValue]) -> None:
        self.producer, self.indices = producer, indices_of(indices)
        self.dtype = producer.dtype


def indices_of(values: Iterable[AnyValue]) -> tuple[PrimExpr, ...]:
    """The indices of elements. Raises TirError for those that are not integers."""
    indices = tuple(map(convert, values))
    for index in indices:
        if not index.type.is_integer:
            raise TirError(f"an index is an integer, not {index} of type {index.dtype}")
    return indices


def true(lanes: int = 1) -> PrimExpr:
    """The condition that holds in every lane."""
    return const(True, "bool" if lanes == 1 else f"uint1x{lanes}")


def _check_lanes(lanes: int, *values: PrimExpr) -> None:
    for value in values:
        if value.lanes != lanes:
            raise TirError(f"an access of {lanes} lanes has an index and a predicate of as many, not {value.dtype}")
