"""Cost models: what a node costs on a machine. Costs are positive and finite; lower is better; those of nodes add up."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from passat.ir.attrs import Attrs
from passat.ir.cost import memory_bound
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.ir.types import Type

_REMEMBERED: Final = 50_000
"""A model remembers so many prices."""
EPSILON: Final = 1e-9
"""What is free still costs this much, so that of equal programs the one with fewer nodes wins, and no cycle is free."""


class CostModel(Protocol):
    """The price of one call of an operator on operands of given types."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The cost of the call, greater than zero."""
        ...


class Machine(NamedTuple):
    """A machine as the roofline model sees it: floating-point operations and bytes a second, and seconds to start one operator."""

    flops: float = 5e10
    bandwidth: float = 1e10
    launch: float = 1e-6


class Roofline:
    """Seconds by the roofline model (Williams, Waterman, Patterson 2009): the larger of arithmetic and traffic, plus a start.

    >>> from passat.ir.op import get_op
    >>> from passat.ir.types import TensorType
    >>> t = TensorType((1000, 1000), "float32")
    >>> round(Roofline().call(get_op("add"), [t, t], t, Attrs()), 6)
    0.001201
    """

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine or Machine()
        self._known: dict[tuple[object, ...], float] = {}

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """Seconds of one call."""
        key = (op, result, *types) if op.cost is memory_bound else (op, attrs, result, *types)
        found = self._known.get(key)
        if found is None:
            flops, traffic = op.cost(types, result, attrs)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            launch = 0.0 if op.name == "nn.bias_add" else self.machine.launch  # written as the bias of the product it follows
            found = self._known[key] = max(flops / self.machine.flops, traffic / self.machine.bandwidth) + launch + EPSILON
        return found


ROOFLINE: Final = Roofline()
"""The model that is used where none is named: one object, since the passes of a pipeline ask for the same prices again and again."""


class NodeCount:
    """One for every call: the fewest nodes win, whatever they do."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """One."""
        return 1.0


def program_cost(root: Expr, model: CostModel) -> float:
    """What a program costs, shared parts once. Calls on nothing but constants are free: whoever runs the program folds them."""
    constant: set[int] = set()
    total = 0.0
    for node in post_order(root):
        if isinstance(node, Constant):
            constant.add(id(node))
        elif isinstance(node, Call) and isinstance(node.op, Op):
            if node.args and not node.op.stateful and all(id(arg) in constant for arg in node.args):
                constant.add(id(node))
            else:
                total += model.call(node.op, [arg.checked_type for arg in node.args], node.checked_type, node.attrs)
        elif isinstance(node, (Tuple, TupleGetItem)):
            parts = node.fields if isinstance(node, Tuple) else (node.tuple_value,)
            if all(id(part) in constant for part in parts):
                constant.add(id(node))
    return total
