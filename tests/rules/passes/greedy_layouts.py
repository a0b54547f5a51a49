"""The layouts that a walk from inputs to outputs chooses, as in TVM, and the number of transposes that it inserts."""

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.ir.types import TensorType

FOLLOWS = ("nn.relu", "add", "multiply", "concatenate", "nn.max_pool2d", "nn.batch_norm", "nn.pad", "where", "greater")
"""Operators that adopt the layout of their operands."""


def greedy_transposes(function: Function) -> int:
    """The number of transposes in a program whose convolutions are in NHWC. Operators after them adopt the layout of their first operand in
    NHWC, and the other operands are transposed to it; all other operators are in NCHW."""
    layouts: dict[int, str] = {}
    made: set[tuple[int, str]] = set()

    def brought(operand: Expr, layout: str) -> None:
        parts = operand.fields if isinstance(operand, Tuple) else (operand,)
        for part in parts:
            type_ = part.checked_type
            image = isinstance(type_, TensorType) and type_.ndim == 4 and not isinstance(part, Constant)
            if image and layouts[id(part)] != layout:
                made.add((id(part), layout))

    for node in post_order(function.body):
        layouts[id(node)] = "NCHW"
        if isinstance(node, TupleGetItem):
            layouts[id(node)] = layouts[id(node.tuple_value)]
        elif isinstance(node, Call) and isinstance(node.op, Op):
            operands = [part for arg in node.args for part in (arg.fields if isinstance(arg, Tuple) else (arg,))]
            follows = node.op.name in FOLLOWS and any(layouts[id(part)] == "NHWC" for part in operands)
            layouts[id(node)] = "NHWC" if follows or node.op.name == "nn.conv2d" else "NCHW"
            for operand in operands[:1] if node.op.name == "nn.conv2d" else operands:
                brought(operand, layouts[id(node)])
    brought(function.body, "NCHW")
    return len(made)
