"""Strides of 1x1 convolutions, moved to what computes their operands: a part of the pass HoistSelections.

A 1x1 convolution with strides of 2 reads a quarter of its operand. In residual networks that have these strides in the first convolution
of a stage (ResNet v1 of Caffe, Keras and Gluon), nothing reads the rest of the last block before it, whose convolutions need strides, too.

A walk, as hoisting of selections: which positions suffice depends on all users of a tensor.
"""

from collections.abc import Sequence
from typing import Final

from passat.ir.expr import Call, Expr, Function, If, Let, Match
from passat.ir.infer import infer_type
from passat.ir.op import Op, get_op
from passat.ir.ops.windows import per_axis
from passat.ir.traverse import children, with_children
from passat.ir.types import TensorType, tensor_type
from passat.rules.passes.simplify_shapes import in_each_function, own_nodes

Steps = tuple[int, ...]
"""Distances of the positions that are read, along both axes of an image."""
ALL: Final[Steps] = (1, 1)


def hoist_strides(function: Function) -> Function:
    """The function with strides in the convolutions of which only every second position or fewer are read, also in nested functions; itself
    if there are none. Images have known sizes and channels first."""
    return in_each_function(function, _hoisted)


def _hoisted(function: Function) -> Function:
    order = own_nodes(function.body)
    if not any(is_pointwise(node) and strides_of(node) != ALL for node in order) or any(
        isinstance(node, (Let, If, Match)) for node in order
    ):
        return function
    whole: set[int] = set()
    while True:
        steps = _read(order, function.body, whole)
        lost = _lost(order, steps)
        if not lost:
            break
        whole |= lost
    if all(read == ALL for read in steps.values()):
        return function
    made: dict[int, Expr] = {}
    fewer: dict[tuple[int, Steps], Expr] = {}
    for node in order:
        made[id(node)] = node if isinstance(node, Function) else _rebuilt(node, steps, made, fewer)
    body = made[id(function.body)]
    return infer_type(Function(function.params, body, function.ret_type, function.type_params, function.attrs, function.span))


def _read(order: Sequence[Expr], root: Expr, whole: set[int]) -> dict[int, Steps]:
    """Which positions of each node are read, by identity. Nodes of `whole` are computed as a whole."""
    asked: dict[int, set[Steps]] = {id(root): {ALL}}
    steps: dict[int, Steps] = {}
    for node in reversed(order):
        wanted = asked.get(id(node), {ALL})
        read = wanted.pop() if len(wanted) == 1 and id(node) not in whole else ALL
        steps[id(node)] = read = read if read == ALL or takes_steps(node) else ALL
        for part in children(node):
            of_part = ALL
            if is_pointwise(node) and isinstance(node, Call) and part is node.args[0]:
                of_part = _times(strides_of(node), read)
            elif read != ALL and not is_convolution(node) and has_image(part, node):
                of_part = read
            asked.setdefault(id(part), set()).add(of_part)
    return steps


def _lost(order: Sequence[Expr], steps: dict[int, Steps]) -> set[int]:
    """The elementwise calls all of whose operands are computed as a whole. Operands come first, so one walk finds all calls of a chain."""
    lost: set[int] = set()
    for node in order:
        read = steps[id(node)]
        if (
            read != ALL
            and not is_convolution(node)
            and not any(steps[id(part)] == read and id(part) not in lost for part in children(node))
        ):
            lost.add(id(node))
    return lost


def _rebuilt(node: Expr, steps: dict[int, Steps], made: dict[int, Expr], fewer: dict[tuple[int, Steps], Expr]) -> Expr:
    whole, read = with_children(node, [made[id(part)] for part in children(node)]), steps[id(node)]
    if not isinstance(node, Call) or not isinstance(whole, Call) or not isinstance(node.op, Op):
        return whole
    if is_convolution(node):
        has_steps = is_pointwise(node) and steps[id(node.args[0])] != ALL
        strides = ALL if has_steps else _times(strides_of(node), read)
        attrs = node.op.bind_attrs({**node.attrs, "strides": strides})
        return whole if strides == strides_of(node) else Call(node.op, whole.args, attrs, span=node.span)
    if read == ALL:
        return whole
    args = list(whole.args)
    for i, part in enumerate(node.args):
        if steps[id(part)] == ALL and has_image(part, node):
            if (id(part), read) not in fewer:
                pool = get_op("nn.avg_pool2d")  # stays in ONNX Runtime's blocked layout, unlike a slice
                fewer[id(part), read] = Call(pool, (args[i],), pool.bind_attrs({"strides": read}), span=part.span)
            args[i] = fewer[id(part), read]
    return Call(node.op, args, node.attrs, span=node.span)


def _times(one: Steps, other: Steps) -> Steps:
    return tuple(a * b for a, b in zip(one, other, strict=True))


def strides_of(node: Expr) -> Steps:
    """The strides of a convolution, along both axes."""
    assert isinstance(node, Call)
    return per_axis(node.attrs.strides, 2, "strides")


def is_convolution(node: Expr) -> bool:
    """Of images with the channels first."""
    return (
        isinstance(node, Call) and node.op is get_op("nn.conv2d") and (node.attrs.data_layout, node.attrs.kernel_layout) == ("NCHW", "OIHW")
    )


def is_pointwise(node: Expr) -> bool:
    """True for a 1x1 convolution without padding: it reads one position for each of its result."""
    if not isinstance(node, Call) or not is_convolution(node):
        return False
    padding = node.attrs.padding
    return tensor_type(node.args[1].checked_type).shape[2:] == (1, 1) and not any((padding,) if isinstance(padding, int) else padding)


def takes_steps(node: Expr) -> bool:
    """True if some positions of a call can be computed without the others: convolutions, biases and elementwise calls on images of floats,
    and on what has one number for each channel."""
    type_ = node.checked_type
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.stateful or not isinstance(type_, TensorType):
        return False
    if type_.ndim != 4 or type_.dtype != "float32" or not all(isinstance(size, int) and size > 1 for size in type_.shape[2:]):
        return False
    if is_convolution(node):
        return True
    if node.op is get_op("nn.bias_add"):
        return type_.axis(node.attrs.axis) == 1
    return node.op.elementwise and all(
        isinstance(part.checked_type, TensorType)
        and part.checked_type.dtype == "float32"
        and (has_image(part, node) or all(size == 1 for size in part.checked_type.shape[-2:]))
        for part in node.args
    )


def has_image(part: Expr, node: Expr) -> bool:
    """True if an operand has the positions of the result."""
    own, result = part.checked_type, node.checked_type
    return isinstance(own, TensorType) and isinstance(result, TensorType) and own.ndim == 4 and own.shape[2:] == result.shape[2:]
