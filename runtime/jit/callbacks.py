"""Calls of registered Python functions from compiled functions (`tir.call_packed`)."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any as AnyValue

import numpy as np

from passat.ir.dtypes import to_numpy
from passat.ir.tensor import Array
from passat.runtime.packed_func import get_global_func
from passat.runtime.values import NDArray

FAILED = -1
"""The status of a compiled function in which a Python function raised an exception."""


@dataclass(frozen=True)
class ArrayArgument:
    """An array among the arguments, passed as the address of its first element and its sizes."""

    dtype: str
    ndim: int


class Callbacks:
    """The Python functions that compiled functions call, and the exception that one of them raised last."""

    def __init__(self) -> None:
        self.symbols: dict[str, int] = {}
        """The addresses of C functions, by the name that compiled functions call."""
        self._kept: list[AnyValue] = []
        self._error: BaseException | None = None

    def symbol(self, name: str, kinds: Sequence[str | ArrayArgument]) -> str:
        """The name of a C function that calls a registered function with arguments of these kinds.

        It takes the address of the arguments, each in 64 bits, writes an integer result to the first of them, and returns whether the
        function raised an exception.
        """

        def run(slots: int) -> int:
            try:
                self._call(name, kinds, (ctypes.c_int64 * _slots(kinds)).from_address(slots))
            except BaseException as error:  # exceptions cannot pass through compiled code; `reraise` raises it
                self._error = error
                return 1
            return 0

        made = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(run)
        self._kept.append(made)
        address = ctypes.cast(made, ctypes.c_void_p).value
        assert address is not None
        symbol = f"passat_callback_{address:x}"
        self.symbols[symbol] = address
        return symbol

    @staticmethod
    def _call(name: str, kinds: Sequence[str | ArrayArgument], slots: AnyValue) -> None:
        args: list[AnyValue] = []
        arrays: list[tuple[NDArray, Array]] = []
        place = 0
        for kind in kinds:
            if isinstance(kind, ArrayArgument):
                memory = _view(slots[place], slots[place + 1 : place + 1 + kind.ndim], kind.dtype)
                arrays.append((NDArray(memory), memory))
                args.append(arrays[-1][0])
                place += kind.ndim
            elif kind == "float":
                args.append(ctypes.c_double.from_buffer(ctypes.c_int64(slots[place])).value)
            else:
                args.append(int(slots[place]))
            place += 1
        before = [array.tensor for array, _ in arrays]
        result = get_global_func(name)(*args)
        for (array, memory), tensor in zip(arrays, before, strict=True):
            if array.tensor is not tensor:
                memory[...] = array.tensor.numpy()
        slots[0] = result if isinstance(result, int) else 0

    def reraise(self) -> None:
        """Raises the exception of the Python function that failed."""
        error, self._error = self._error, None
        if error is not None:
            raise error


def _slots(kinds: Sequence[str | ArrayArgument]) -> int:
    return max(1, sum(1 + kind.ndim if isinstance(kind, ArrayArgument) else 1 for kind in kinds))


def _view(address: int, shape: Sequence[int], dtype: str) -> Array:
    kind = to_numpy(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if not size:
        return np.zeros(tuple(shape), kind)
    found: Array = np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), kind).reshape(tuple(shape))
    return found
