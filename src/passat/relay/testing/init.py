"""Networks as modules with random parameters."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from passat.ir.expr import Expr
from passat.ir.module import IRModule
from passat.ir.tensor import Array
from passat.ir.types import TensorType
from passat.passmgr import InferType
from passat.runtime import NDArray

Initializer: TypeAlias = Callable[[str, Array], None]
"""Fills the array of a parameter, by its name."""
Workload: TypeAlias = tuple[IRModule, dict[str, NDArray]]
"""A module, and the values of its parameters other than `data`."""


class Xavier:
    """Fills weights by Xavier Glorot's rule: uniform, with a wider range the fewer inputs an output has. Scales and variances are 1, shifts
    0.
    """

    def __init__(self, seed: int = 0, magnitude: float = 3.0) -> None:
        self._random = np.random.default_rng(seed)
        self._magnitude = magnitude

    def __call__(self, name: str, array: Array) -> None:
        """Fills an array according to the end of the parameter's name: `weight`, `gamma`, `var`; others are 0."""
        if name.endswith(("gamma", "var")):
            array[...] = 1
        elif name.endswith("weight") and array.ndim > 1:
            area = int(np.prod(array.shape[2:]))
            bound = np.sqrt(self._magnitude * 2 / ((array.shape[0] + array.shape[1]) * area))
            array[...] = self._random.uniform(-bound, bound, array.shape)
        else:
            array[...] = 0


def create_workload(net: Expr, initializer: Initializer | None = None, seed: int = 0) -> Workload:
    """Creates a module from a network, with inferred types, and values of its parameters. The parameter `data` is the input.

    Raises ValueError for parameters of unknown type.
    """
    mod = InferType()(IRModule.from_expr(net))
    fill = initializer or Xavier(seed)
    params: dict[str, NDArray] = {}
    for param in mod["main"].params:
        if param.name_hint == "data":
            continue
        type_ = param._checked_type
        if not isinstance(type_, TensorType) or not type_.is_static:
            raise ValueError(f"the type of the parameter %{param.name_hint} is {type_!r}; declare its shape (relay.var(name, shape=...))")
        array = np.zeros(type_.concrete_shape, type_.dtype)
        fill(param.name_hint, array)
        params[param.name_hint] = NDArray(array)
    return mod, params
