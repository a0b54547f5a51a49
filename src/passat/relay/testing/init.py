"""Networks as modules with random parameters."""

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from passat.ir.expr import Expr
from passat.ir.module import IRModule
from passat.ir.tensor import Array
from passat.ir.types import TensorType
from passat.passmgr import InferType
from passat.runtime import NDArray

Workload: TypeAlias = tuple[IRModule, dict[str, NDArray]]
"""A module, and the values of its parameters other than `data`."""


_VALUES: Final = {"bias": 0, "beta": 0, "mean": 0, "gamma": 1, "var": 1}
"""The values of parameters other than weights, by the end of the name."""


class Initializer:
    """Fills the array of a parameter by the end of its name: `weight` by `_init_weight`, which subclasses define, scales (`gamma`) and
    variances (`var`) by 1, shifts (`bias`, `beta`, `mean`) by 0. Raises ValueError for other names.
    """

    def __call__(self, name: str, array: Array) -> None:
        """Fills an array."""
        if name.endswith("weight"):
            self._init_weight(name, array)
            return
        value = next((value for end, value in _VALUES.items() if name.endswith(end)), None)
        if value is None:
            raise ValueError(f"the parameter %{name} has no initial value: its name ends with none of weight, {', '.join(_VALUES)}")
        array[...] = value

    def _init_weight(self, name: str, array: Array) -> None:
        raise NotImplementedError


class Xavier(Initializer):
    """Fills weights by Xavier Glorot's rule: uniform, with a wider range the fewer inputs and outputs there are. The numbers are TVM's,
    without a change of NumPy's global generator."""

    def __init__(self, seed: int = 0, magnitude: float = 3.0) -> None:
        self._random = np.random.RandomState(seed)
        self._magnitude = magnitude

    def _init_weight(self, name: str, array: Array) -> None:
        if array.ndim < 2:
            raise ValueError(f"the weight %{name} has the shape {array.shape}, but Xavier's rule needs two dimensions and more")
        area = float(np.prod(array.shape[2:]))
        factor = area if "depthwise" in name else (array.shape[0] + array.shape[1]) * area / 2
        bound = np.sqrt(self._magnitude / factor)
        array[...] = self._random.uniform(-bound, bound, array.shape)


class Constant(Initializer):
    """Fills each weight with equal numbers, whose sum is 1."""

    def _init_weight(self, name: str, array: Array) -> None:
        array[...] = 1 / array.size


def create_workload(net: Expr, initializer: Callable[[str, Array], None] | None = None, seed: int = 0) -> Workload:
    """Creates a module from a network, with inferred types, and values of its parameters. The parameter `data` is the input.

    Raises ValueError for parameters of unknown type, and for those whose names the initializer does not know.
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
