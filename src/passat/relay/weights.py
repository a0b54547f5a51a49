"""Types of weights that were declared by name alone: `relay.var("weight")`, as the networks of `relay.testing` do it.

Relay finds them when it infers types, from the attributes of the operator and the type of its data. Here a variable without a type gets it
when the call is built, where both are known; it stands in the variable's annotation from then on.
"""

from collections.abc import Mapping, Sequence
from typing import Any as AnyValue

from passat.ir.expr import Expr, Var
from passat.ir.infer import infer_type
from passat.ir.infer_error import InferError
from passat.ir.shape import Dim
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, Type

_PER_CHANNEL = ("nn.batch_norm", "nn.bias_add", "nn.group_norm", "nn.instance_norm", "nn.layer_norm", "nn.prelu")
_CONVOLUTIONS = tuple(f"nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose"))


def is_untyped(operand: object) -> bool:
    """Whether an operand is a variable of which no type is known."""
    return isinstance(operand, Var) and operand._checked_type is None


def type_weights(name: str, operands: Sequence[Expr], attrs: Mapping[str, AnyValue], units: int | None = None) -> None:
    """Gives variables without a type, among the operands behind the data, the type that the operator `name` wants of them."""
    untyped = [operand for operand in operands[1:] if isinstance(operand, Var) and is_untyped(operand)]
    data = _type_of_data(operands[0]) if untyped else None
    if not isinstance(data, TensorType) or not data.shape:
        return
    shape: tuple[Dim, ...] | None = None
    if name in _PER_CHANNEL:
        axis = attrs.get("axis", 1)
        shape = (data.shape[axis],) if -data.ndim <= axis < data.ndim else None
    elif name in _CONVOLUTIONS:
        shape = _kernel_shape(data, attrs, transposed=name.endswith("_transpose"))
    elif name == "nn.dense" and units is not None:
        shape = (units, data.shape[-1])
    if shape is not None:
        for var in untyped:
            var.type_annotation = TensorType(shape, data.dtype)
            var.assume_type(var.type_annotation)


def known_type(expr: Expr) -> Type | None:
    """The type of an expression, where it follows from annotations alone; variables without one are left as they are."""
    if expr._checked_type is None:
        new = post_order(expr, into=lambda node: node._checked_type is None)
        if any(is_untyped(node) for node in new):
            return None
        infer_type(expr)
    return expr.checked_type


def _type_of_data(data: Expr) -> Type | None:
    try:
        return known_type(data)
    except InferError:
        return None  # which InferType will tell, with its place


def _kernel_shape(data: TensorType, attrs: Mapping[str, AnyValue], transposed: bool) -> tuple[Dim, ...] | None:
    channels, window = attrs.get("channels"), attrs.get("kernel_size")
    place = attrs["data_layout"].find("C")
    if channels is None or window is None or not 0 <= place < data.ndim:
        return None
    inner, outer, groups = data.shape[place], channels, attrs.get("groups", 1)
    if groups != 1:
        if not isinstance(inner, int):
            return None
        inner, outer = (inner, outer // groups) if transposed else (inner // groups, outer)
    sizes: dict[str, Dim] = {"O": outer, "I": inner}
    letters = [letter for letter in attrs["kernel_layout"] if letter not in sizes]
    sizes.update(zip(letters, window, strict=False))
    return tuple(sizes[letter] for letter in attrs["kernel_layout"]) if len(letters) == len(window) else None
