"""Functions that scripts and compiled modules call each other by (TVM's PackedFunc)."""

from collections.abc import Callable
from typing import Any as AnyValue
from typing import Literal, overload

import numpy as np

from passat.ir.expr import Expr
from passat.ir.global_functions import get_global_func as find_function
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor
from passat.ir.tir.expr import ExprOp
from passat.ir.types import Type
from passat.runtime.devices import Device, Target
from passat.runtime.values import ConstructorValue, NDArray, RefValue, TupleValue

_PLAIN = (
    *(bool, int, float, str, bytes, bytearray, type(None), NDArray, Tensor, Device, Target, Expr, Type, IRModule),
    *(TupleValue, ConstructorValue, RefValue),
)


class PackedFunc:
    """A function that takes values of the kinds that programs have, by position.

    These are numbers, texts, bytes, None, arrays, devices, modules, functions, nodes of the IR, and tuples, lists and dictionaries of them.
    Functions that are passed become PackedFuncs, lists tuples, and NumPy's scalars numbers. Other arguments raise TypeError.

    >>> PackedFunc(lambda f, x: f(x) + 1, "apply")(lambda x: 2 * x, np.int64(4))
    9
    """

    __slots__ = ("_function", "name")

    def __init__(self, function: Callable[..., AnyValue], name: str = "") -> None:
        self._function: Callable[..., AnyValue] = function._function if isinstance(function, PackedFunc) else function
        self.name = name or getattr(function, "__name__", "function")

    def __call__(self, *args: AnyValue) -> AnyValue:
        """Calls the function with converted arguments. Raises TypeError for arguments that functions do not take."""
        made = [_converted(arg, f"argument {place} of {self.name}") for place, arg in enumerate(args)]
        result = self._function(*made)
        return result if type(result) is int else convert(result)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedFunc) and self._function == other._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        return f"PackedFunc({self.name})"


class IntImm(int):
    """An integer as a node of the IR: a Python integer with TVM's accessors."""

    @property
    def value(self) -> int:
        """The integer."""
        return int(self)

    @property
    def dtype(self) -> str:
        """The element type: int32 where the integer fits, else int64."""
        return "int32" if -(1 << 31) <= self < 1 << 31 else "int64"


def convert(value: AnyValue) -> AnyValue:
    """A value as functions and the IR hold it: functions as PackedFuncs, lists as tuples, also inside of others. Other values stay; an
    integer gets TVM's accessors, and comparisons of the loop IR become expressions.

    >>> convert([1, ["a", None]])
    (1, ('a', None))
    >>> convert(len)
    PackedFunc(len)
    >>> convert(10).value
    10
    """
    if isinstance(value, (list, tuple)):
        return tuple(map(convert, value))
    if isinstance(value, dict):
        return {key: convert(part) for key, part in value.items()}
    if type(value) is int:
        return IntImm(value)
    if isinstance(value, ExprOp):
        return value.asobject()
    plain = isinstance(value, (*_PLAIN, PackedFunc, type)) or not callable(value) or _is_module(value)
    return value if plain else PackedFunc(value)


@overload
def get_global_func(name: str, allow_missing: Literal[False] = False) -> PackedFunc: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> PackedFunc | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """The global function of that name (`register_func`). Without it, None if that is allowed; otherwise raises GlobalFunctionError."""
    found = find_function(name, allow_missing)
    return None if found is None else PackedFunc(found, name)


def _converted(value: AnyValue, what: str) -> AnyValue:
    """An argument for a function. Raises TypeError that names `what`."""
    if isinstance(value, (*_PLAIN, PackedFunc)) or _is_module(value):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return tuple(_converted(part, f"an element of {what}") for part in value)
    if isinstance(value, dict):
        return {key: _converted(part, f"an element of {what}") for key, part in value.items()}
    if callable(value) and not isinstance(value, type):
        return PackedFunc(value)
    hint = "; make it an array with nd.array" if isinstance(value, np.ndarray) else ""
    raise TypeError(f"{what} is of the type {type(value).__name__}, which functions do not take{hint}")


def _is_module(value: AnyValue) -> bool:
    from passat.runtime.module import Module

    return isinstance(value, Module)
