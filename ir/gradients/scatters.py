"""Gradients of operators that write, combine or choose elements at indices."""

from passat.ir.expr import Call, Expr, TupleGetItem
from passat.ir.gradients.adjoints import field_of
from passat.ir.gradients.registry import GradientError, built_in
from passat.ir.op import call_op


def _check_reduction(call: Call) -> bool:
    """Whether updates are added; otherwise they replace elements. Raises GradientError for other reductions."""
    reduction = call.attrs.reduction
    if reduction not in ("none", "add"):
        raise GradientError(f"the gradient of {call.op!r} supports only the reductions none and add, not {reduction}")
    return bool(reduction == "add")


@built_in("scatter_elements")
def scatter_elements_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient of the data, without replaced elements, and the gradient at the indices for the updates."""
    _, indices, updates = call.args
    axis = call.attrs.axis
    added = _check_reduction(call)
    kept = grad if added else call_op("scatter_elements", grad, indices, call_op("zeros_like", updates), axis=axis)
    return [kept, None, call_op("gather", grad, indices, axis=axis)]


@built_in("scatter_nd")
def scatter_nd_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient of the data, without replaced slices, and the gradient at the indices for the updates."""
    _, indices, updates = call.args
    added = _check_reduction(call)
    kept = grad if added else call_op("scatter_nd", grad, indices, call_op("zeros_like", updates))
    return [kept, None, call_op("gather_nd", grad, indices)]


@built_in("topk", "dyn.topk")
def topk_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient of the values at their indices."""
    data = call.args[0]
    indices, values = TupleGetItem(call, 1), field_of(grad, 0)
    found = call_op("scatter_elements", call_op("zeros_like", data), indices, values, axis=call.attrs.axis)
    return [found, *[None] * (len(call.args) - 1)]
