"""Short ways to write small programs: variables, constants, calls of operators by name."""

from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np
import numpy.typing as npt

from passat.ir.dim_text import parse_dim
from passat.ir.expr import Constant, Expr, Function, Tuple, Var
from passat.ir.infer import infer_type
from passat.ir.op import Op, get_op, list_ops
from passat.ir.shape import ANY, Dim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType

list_ops()  # declares all operators


def dims(*shape: Dim | str) -> tuple[Dim, ...]:
    """A shape; strings become symbolic dimensions and "?" an unknown one."""
    return tuple((ANY if dim == "?" else parse_dim(dim)) if isinstance(dim, str) else dim for dim in shape)


def var(name: str, shape: Sequence[Dim | str] = (2, 3), dtype: str = "float32") -> Var:
    """A variable of a tensor type."""
    return Var(name, TensorType(dims(*shape), dtype))


def const(value: npt.ArrayLike, dtype: str = "float32") -> Constant:
    """A constant with the given elements."""
    return Constant(Tensor.dense(value, dtype))


def numbers(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Constant:
    """A constant of that shape whose elements are small and distinct, and neither 0 nor 1."""
    generator = np.random.default_rng(seed)
    return const(generator.integers(2, 9, tuple(shape)) / 4 if "float" in dtype else generator.integers(2, 9, tuple(shape)), dtype)


def splat(value: float, shape: Sequence[int] = (), dtype: str = "float32") -> Constant:
    """A constant with one repeated value."""
    return Constant(Tensor.splat(value, tuple(shape), dtype))


def tup(*fields: Expr) -> Tuple:
    """A tuple."""
    return Tuple(fields)


class _Ops:
    """`ops.nn.relu(x)` is a call of the operator nn.relu."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> "_Ops":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Ops(f"{self._prefix}.{name}" if self._prefix else name)

    def __call__(self, *args: Expr, **attrs: AnyValue) -> AnyValue:
        op = get_op(self._prefix)
        assert isinstance(op, Op)
        return op(*args, **attrs)


ops = _Ops()


def func(body: Expr, *params: Var) -> Function:
    """A typed function; without `params`, its parameters are the free variables of the body, sorted by name."""
    from passat.ir.analysis import free_vars

    names = params or tuple(sorted(free_vars(body), key=lambda free: free.name_hint))
    function = Function(names, body)
    infer_type(function)
    return function
