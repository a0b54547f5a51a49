"""Runs functions of loops, to compare what they do before and after a pass. Reads of memory that nothing wrote are errors."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from passat.ir.tir.arithmetic import And, Not, Or
from passat.ir.tir.expr import BinaryOp, Broadcast, Call, Cast, FloatImm, IntImm, PrimExpr, StringImm, Var
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    Store,
    While,
)
from passat.ir.tir.types import DataType
from passat.ir.tir.values import BufferLoad, Let, Load, Ramp, Select


class UndefinedBehaviorError(Exception):
    """A program reads memory that nothing wrote, or that does not exist."""


class Memory:
    """Bytes, and which of them were written."""

    def __init__(self, size: int, content: bytes | None = None) -> None:
        self.bytes = np.zeros(size, np.uint8) if content is None else np.frombuffer(content, np.uint8).copy()
        self.written = np.full(len(self.bytes), content is not None)

    def _place(self, type_: DataType, index: int) -> slice:
        place = slice(index * type_.itemsize, (index + 1) * type_.itemsize)
        if index < 0 or place.stop > len(self.bytes):
            raise UndefinedBehaviorError(f"element {index} of {len(self.bytes)} bytes")
        return place

    def read(self, type_: DataType, index: int) -> Any:
        place = self._place(type_, index)
        if not self.written[place].all():
            raise UndefinedBehaviorError(f"element {index} is read before it is written")
        return self.bytes[place].view(numpy_type(type_))[0].item()

    def write(self, type_: DataType, index: int, value: Any) -> None:
        place = self._place(type_, index)
        kind = numpy_type(type_)
        stored = int(value) % (1 << type_.bits) if type_.is_integer else value
        if type_.kind == "int" and stored >= 1 << (type_.bits - 1):
            stored -= 1 << type_.bits
        self.bytes[place] = np.array([stored], kind).view(np.uint8)
        self.written[place] = True


def numpy_type(type_: DataType) -> np.dtype[Any]:
    return np.dtype("bool" if type_.is_bool else str(type_.with_lanes(1)))


class Interpreter:
    """Runs statements. `calls` are the calls of other functions, in order."""

    def __init__(self, values: Mapping[Var, Any]) -> None:
        self.values: dict[Var, Any] = dict(values)
        self.regions: dict[Any, list[tuple[int, int]]] = {}
        self.calls: list[tuple[Any, ...]] = []

    def run(self, node: Stmt) -> None:
        match node:
            case SeqStmt():
                for part in node.seq:
                    self.run(part)
            case LetStmt():
                self.values[node.var] = self.value(node.value)
                self.run(node.body)
            case For():
                first, extent = self.value(node.min), self.value(node.extent)
                for step in range(extent):
                    self.values[node.loop_var] = first + step
                    self.run(node.body)
            case While():
                while self.value(node.condition):
                    self.run(node.body)
            case IfThenElse():
                chosen = node.then_case if self.value(node.condition) else node.else_case
                if chosen is not None:
                    self.run(chosen)
            case Allocate():
                size = DataType.of(node.dtype).itemsize * DataType.of(node.dtype).lanes
                self.values[node.buffer_var] = Memory(size * product([self.value(extent) for extent in node.extents]))
                self.run(node.body)
            case BufferRealize():
                bounds = [(self.value(bound.min), self.value(bound.extent)) for bound in node.bounds]
                self.regions[node.buffer] = bounds
                self.values[node.buffer.data] = Memory(DataType.of(node.buffer.dtype).itemsize * product([size for _, size in bounds]))
                self.run(node.body)
            case AttrStmt() if node.attr_key == "thread_extent":
                for thread in range(self.value(node.value)):
                    self.values[node.node.var] = thread
                    self.run(node.body)
            case AttrStmt() | AssertStmt():
                self.run(node.body)
            case Store():
                self._store(node.buffer_var, node.value.type, self.value(node.value), node.index, node.predicate)
            case BufferStore():
                place = self._offset(node.buffer, node.indices)
                self.values[node.buffer.data].write(DataType.of(node.buffer.dtype), place, self.value(node.value))
            case Evaluate():
                self.value(node.value)
            case _:
                raise NotImplementedError(type(node).__name__)

    def _store(self, var: Var, type_: DataType, value: Any, index: PrimExpr, predicate: PrimExpr) -> None:
        places, masks = (lanes_of(self.value(part), type_.lanes) for part in (index, predicate))
        for lane, place, mask in zip(lanes_of(value, type_.lanes), places, masks, strict=True):
            if mask:
                self.values[var].write(type_.with_lanes(1), place, lane)

    def _offset(self, buffer: Any, indices: Sequence[PrimExpr]) -> int:
        offset = 0
        bounds = self.regions.get(buffer) or [(0, self.value(extent)) for extent in buffer.shape]
        for index, (first, size) in zip(indices, bounds, strict=True):
            place = self.value(index) - first
            if not 0 <= place < size:
                raise UndefinedBehaviorError(f"index {place} of {size}")
            offset = offset * size + place
        return offset

    def value(self, node: PrimExpr) -> Any:
        match node:
            case IntImm() | FloatImm() | StringImm():
                return node.value
            case Var():
                return self.values[node]
            case Broadcast():
                return (self.value(node.value),) * node.lanes
            case Ramp():
                base, stride = self.value(node.base), self.value(node.stride)
                return tuple(base + step * stride for step in range(node.lanes))
            case Let():
                self.values[node.var] = self.value(node.value)
                return self.value(node.body)
            case Cast():
                return each(lambda value: converted(value, node.type), node.lanes, self.value(node.value))
            case Not():
                return each(operator.not_, node.lanes, self.value(node.a))
            case And() if node.lanes == 1:
                return self.value(node.a) and self.value(node.b)
            case Or() if node.lanes == 1:
                return self.value(node.a) or self.value(node.b)
            case BinaryOp():
                return each(type(node).COMPUTE, node.lanes, self.value(node.a), self.value(node.b))
            case Select():
                parts = map(self.value, (node.condition, node.true_value, node.false_value))
                return each(lambda condition, a, b: a if condition else b, node.lanes, *parts)
            case Load():
                type_ = node.type.with_lanes(1)
                indices, masks = (lanes_of(self.value(part), node.lanes) for part in (node.index, node.predicate))
                memory = self.values[node.buffer_var]
                read = [memory.read(type_, index) if mask else 0 for index, mask in zip(indices, masks, strict=True)]
                return read[0] if node.lanes == 1 else tuple(read)
            case BufferLoad():
                return self.values[node.buffer.data].read(node.type, self._offset(node.buffer, node.indices))
            case Call():
                return self._call(node)
            case _:
                raise NotImplementedError(type(node).__name__)

    def _call(self, node: Call) -> Any:
        if node.op.name == "tir.if_then_else":
            condition, first, second = node.args
            return self.value(first if self.value(condition) else second)
        args = [self.value(arg) for arg in node.args]
        if node.op.name == "tir.likely":
            return args[0]
        if node.op.name == "tir.fabs":
            return each(abs, node.lanes, *args)
        self.calls.append((node.op.name, *args))
        return 0


def converted(value: Any, type_: DataType) -> Any:
    return bool(value) if type_.is_bool else int(value) if type_.is_integer else float(value)


def product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= max(size, 0)
    return total


def lanes_of(value: Any, lanes: int) -> tuple[Any, ...]:
    return (value,) if lanes == 1 else value


def each(function: Callable[..., Any], lanes: int, *values: Any) -> Any:
    """A function of each lane."""
    if lanes == 1:
        return function(*values)
    return tuple(
        function(*parts) for parts in zip(*[value if isinstance(value, tuple) else (value,) * lanes for value in values], strict=True)
    )


def behavior(function: PrimFunc, arguments: Sequence[Any]) -> tuple[list[bytes], list[tuple[Any, ...]]]:
    """What a function leaves in its memory, and the calls that it makes. Arguments are numbers, and arrays for pointers."""
    values: dict[Var, Any] = {}
    for param, argument in zip(function.params, arguments, strict=True):
        given = Memory(0, argument.tobytes()) if isinstance(argument, np.ndarray) else argument
        values[param] = given
        if param in function.buffer_map:
            values[function.buffer_map[param].data] = given
    interpreter = Interpreter(values)
    interpreter.run(function.body)
    memory = [
        values[param].bytes.tobytes()
        for param, argument in zip(function.params, arguments, strict=True)
        if isinstance(argument, np.ndarray)
    ]
    return memory, interpreter.calls
