"""Zeros and ones of a type, and the fields of nested tuples."""

from collections.abc import Callable, Sequence

from passat.ir.dtypes import FLOATS
from passat.ir.expr import Constant, Expr, Tuple, TupleGetItem
from passat.ir.gradients.registry import GradientError
from passat.ir.op import call_op
from passat.ir.types import TensorType, TupleType, Type, leaves


def filled(name: str, like: Expr, type_: Type) -> Expr:
    """Zeros or ones of a type (`name` is "zeros" or "ones"). For a dynamic shape, `like` gives the shape."""
    if isinstance(type_, TensorType):
        if type_.is_static:
            return call_op(name, shape=type_.shape, dtype=type_.dtype)
        return call_op(f"{name}_like", like)
    return Tuple([filled(name, field_of(like, i), field) for i, field in enumerate(tensors_of(type_))])


def tensors_of(type_: Type) -> tuple[Type, ...]:
    """The fields of a tuple type. Raises GradientError for other types; callers handle tensors before."""
    if not isinstance(type_, TupleType):
        raise GradientError(f"a value of type {type_} cannot be differentiated; only tensors and tuples of tensors can be")
    return type_.fields


def field_of(value: Expr, index: int) -> Expr:
    """A field of a tuple."""
    return value.fields[index] if isinstance(value, Tuple) else TupleGetItem(value, index)


def reshaped(value: Expr, newshape: Sequence[int]) -> Expr:
    """A value in another shape, in which 0 is a size."""
    return call_op("reshape", value, newshape=tuple(newshape), allowzero=0 in newshape)


def is_differentiable(expr: Expr, type_: Type) -> bool:
    """Whether an operand needs a gradient: it is not a constant and has a floating-point tensor."""
    return not isinstance(expr, Constant) and any(isinstance(leaf, TensorType) and leaf.dtype in FLOATS for leaf in leaves(type_))


def per_tensor(gradient: Expr, type_: Type, use: Callable[[tuple[int, ...], Expr, TensorType], None]) -> None:
    """Calls `use` for each tensor in a value of a type: with the indices of its fields, the expression and the type."""
    stack: list[tuple[tuple[int, ...], Expr, Type]] = [((), gradient, type_)]
    while stack:
        path, part, kind = stack.pop()
        if isinstance(kind, TensorType):
            use(path, part, kind)
        else:
            stack += [((*path, i), field_of(part, i), field) for i, field in reversed(list(enumerate(tensors_of(kind))))]
