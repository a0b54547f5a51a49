"""Symbolic shape arithmetic: values of small integer tensors that are known before execution, cached on the expressions."""

import numpy as np

from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.op import FOLLOWED, KNOWN_LIMIT, KnownValue, Op, ShapeValue, is_followed
from passat.ir.shape import ANY
from passat.ir.types import TensorType


def _all_unknown(expr: Expr) -> ShapeValue | None:
    """A value with only unknown elements, for calls that also have operands with known ones; None if the tensor is not tracked."""
    type_ = expr.checked_type
    if not is_followed(type_):
        return None
    assert isinstance(type_, TensorType)
    return np.full([dim for dim in type_.shape if isinstance(dim, int)], ANY, np.object_)


def known_value(expr: Expr) -> KnownValue | None:
    """Returns the elements of a small integer tensor (or a tuple of them) as dimensions, with `Any` for unknown ones.

    Returns None if no element is known. The expression must have a type.
    """
    stack = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if hasattr(node, "_known_value"):
            continue
        if isinstance(node, Constant):
            data = node.data
            small = data.dtype in FOLLOWED and data.size <= KNOWN_LIMIT
            node._known_value = data.numpy().astype(np.object_) if small else None
        elif isinstance(node, Call) and isinstance(node.op, Op) and (node.op.known is not None or node.op.shape_arith):
            if not ready and node.op.shape_arith:
                stack.append((node, True))
                stack.extend((arg, False) for arg in node.args)
            else:
                values = [getattr(arg, "_known_value", None) for arg in node.args]
                node._known_value = node.op.known_value([arg.checked_type for arg in node.args], values, node.attrs, node.checked_type)
        elif isinstance(node, Tuple):
            if not ready:
                stack.append((node, True))
                stack.extend((field, False) for field in node.fields)
            else:
                fields = [field._known_value for field in node.fields]
                if all(field is None for field in fields):
                    node._known_value = None
                else:
                    found = [_all_unknown(part) if value is None else value for part, value in zip(node.fields, fields, strict=True)]
                    node._known_value = None if any(value is None for value in found) else tuple(found)
        elif isinstance(node, TupleGetItem):
            if not ready:
                stack += [(node, True), (node.tuple_value, False)]
            else:
                whole = node.tuple_value._known_value
                inside = isinstance(whole, tuple) and node.index < len(whole)  # inference reports other fields
                node._known_value = whole[node.index] if inside else None
        else:
            node._known_value = None
    return expr._known_value  # type: ignore[no-any-return]  # set above; the slot is not declared as it may be empty
