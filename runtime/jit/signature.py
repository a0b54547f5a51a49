"""The arguments of compiled functions: pointers to arrays, numbers, and the sizes that the shapes of the arrays determine."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.counting import counted
from passat.ir.dtypes import to_numpy
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Array
from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import Call, IntImm, PrimExpr, Var
from passat.ir.tir.flatten import flatten
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order, substitute
from passat.ir.tir.intrinsics import CallEffectKind
from passat.ir.tir.stmt import BufferStore, Store
from passat.runtime.jit.callbacks import FAILED, Callbacks
from passat.runtime.values import NDArray

C_TYPES: Final[dict[str, AnyValue]] = {
    **{f"int{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
    "bool": ctypes.c_bool,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "handle": ctypes.c_void_p,
}
"""The types of numbers that compiled functions take."""

NATIVE = "native"
"""The attribute of a caller that has the compiled function."""


class ArgumentError(PassatError, ValueError):
    """Arguments that a compiled function does not take."""


def explicit(function: PrimFunc) -> "tuple[Signature, PrimFunc]":
    """The signature of a function, and the function of pointers, numbers and sizes that is compiled for it. Its memory is flat."""
    signature = Signature.of(function)
    return signature, PrimFunc(signature.variables, flatten(function).body, attrs=function.attrs)


@dataclass(frozen=True)
class Signature:
    """The parameters of a function: `inputs` as they are given, and then the sizes that are not among them.

    A parameter with a buffer is an array, which must have its element type, rank and sizes and be contiguous in row-major order.
    """

    name: str
    inputs: tuple[tuple[Var, Buffer | None], ...]
    sizes: tuple[Var, ...]
    written: frozenset[Var]
    assertions: tuple[str, ...] = ()
    callbacks: Callbacks | None = None

    @classmethod
    def of(cls, function: PrimFunc) -> "Signature":
        """The signature of a function."""
        inputs = tuple((param, function.buffer_map.get(param)) for param in function.params)
        known = {param for param, buffer in inputs if buffer is None}
        sizes: dict[Var, None] = {}
        for _, buffer in inputs:
            if buffer is not None:
                for expr in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                    sizes |= {part: None for part in post_order(expr) if isinstance(part, Var) and part not in known}
        written: set[Var] = set()
        for node in post_order(function.body):
            if isinstance(node, (Store, BufferStore)):
                written.add(node.buffer_var if isinstance(node, Store) else node.buffer.data)
            elif isinstance(node, Call) and node.op.effect >= CallEffectKind.UpdateState:
                written |= {part for part in post_order(node) if isinstance(part, Var)}
        return cls(function.name or "main", inputs, tuple(sizes), frozenset(written))

    @property
    def c_types(self) -> list[AnyValue]:
        """The types of the arguments of the compiled function."""
        return [C_TYPES[var.dtype] for var in self.variables]

    @property
    def variables(self) -> list[Var]:
        """The variables that the arguments of the compiled function set, in order."""
        return [param if buffer is None else buffer.data for param, buffer in self.inputs] + list(self.sizes)

    def caller(self, function: AnyValue, code: AnyValue) -> Callable[..., None]:
        """The Python function that calls a compiled function, which lives as long as `code`."""

        def run(*args: AnyValue) -> None:
            self.call(function, args)

        run.__name__ = self.name
        run.__dict__["code"] = code
        run.__dict__[NATIVE] = function
        return run

    def call(self, function: AnyValue, args: Sequence[AnyValue]) -> None:
        """Calls a compiled function. Raises ArgumentError for wrong arguments, and AssertionError if an assertion does not hold."""
        if len(args) != len(self.inputs):
            raise ArgumentError(f"{self.name} takes {counted(len(self.inputs), 'argument')}, not {len(args)}")
        given: list[AnyValue] = []
        back: list[tuple[NDArray, Array]] = []
        arrays: list[tuple[Buffer, Array]] = []
        numbers: dict[Var, int] = {}
        for place, ((param, buffer), arg) in enumerate(zip(self.inputs, args, strict=True)):
            if buffer is None:
                given.append(C_TYPES[param.dtype](arg))
                if param.type.is_integer:
                    numbers[param] = int(arg)
                continue
            array = self._array(arg, buffer, place)
            arrays.append((buffer, array))
            if isinstance(arg, NDArray) and buffer.data in self.written:
                array = array.copy()
                back.append((arg, array))
            given.append(ctypes.c_void_p(array.ctypes.data))
            arrays[-1] = (buffer, array)
        sizes = self._sizes(arrays, numbers)
        status = function(*given, *[C_TYPES[var.dtype](sizes[var]) for var in self.sizes])
        for arg, array in back:
            arg.copyfrom(array)
        if status == FAILED and self.callbacks is not None:
            self.callbacks.reraise()
        if status:
            raise AssertionError(self.assertions[status - 1])

    def _array(self, arg: AnyValue, buffer: Buffer, place: int) -> Array:
        where = f"argument {place} ({buffer.name}) of {self.name}"
        array = arg.tensor.numpy() if isinstance(arg, NDArray) else arg
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"{where} is an array, not a {type(arg).__name__}")
        if array.dtype != to_numpy(buffer.dtype):
            raise ArgumentError(f"{where} has elements of type {buffer.dtype}, not {array.dtype}")
        if array.ndim != len(buffer.shape):
            raise ArgumentError(f"{where} has {counted(len(buffer.shape), 'dimension')}, not {array.ndim}")
        if not array.flags.c_contiguous:
            if isinstance(arg, NDArray):  # such as a repeated number, which has no memory for each element
                return array.copy()
            raise ArgumentError(f"{where} must be contiguous: pass numpy.ascontiguousarray of it")
        if buffer.data in self.written and isinstance(arg, np.ndarray) and not array.flags.writeable:
            raise ArgumentError(f"{where} is written to, but the array is read-only")
        return array

    def _sizes(self, arrays: Sequence[tuple[Buffer, Array]], numbers: Mapping[Var, int]) -> dict[Var, int]:
        """The sizes that the arrays determine. Raises ArgumentError for sizes that do not agree."""
        known = dict(numbers)
        expected: list[tuple[Buffer, int, PrimExpr, int]] = []
        for buffer, array in arrays:
            steps = [stride // max(array.itemsize, 1) for stride in array.strides]
            strides = zip(buffer.strides, steps, strict=bool(buffer.strides))
            facts = [*zip(buffer.shape, array.shape, strict=True), *strides, (buffer.elem_offset, 0)]
            for place, (expr, size) in enumerate(facts):
                if isinstance(expr, Var) and expr not in known:
                    known[expr] = size
                elif place < array.ndim or size != 0:
                    expected.append((buffer, place, expr, size))
        values = {var: IntImm(var.dtype, size) for var, size in known.items()}
        for buffer, place, expr, size in expected:
            value = substitute(expr, values)
            stride_of_one = place >= len(buffer.shape) and buffer.shape
            if isinstance(value, IntImm) and value.value != size and not stride_of_one:
                raise ArgumentError(f"dimension {place} of {buffer.name} is {value.value} in {self.name}, but the array has {size}")
        missing = [var.name for var in self.sizes if var not in known]
        if missing:
            raise ArgumentError(f"the arrays do not determine {', '.join(missing)} of {self.name}")
        return known
