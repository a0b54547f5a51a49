"""The dataflow graph of a function as fusion sees it: who reads the value of each node, and how."""

from collections.abc import Sequence
from typing import Final

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, evaluation_parts, post_order
from passat.ir.types import TensorType, TupleType
from passat.rules.fusion.patterns import OpPattern, pattern_of, takes_data

_NO_NODES: Final = (Op,)


class Dataflow:
    """The nodes of a function, parts before wholes, with their kinds and the edges to what reads them.

    `readers[i]` are pairs of the number of a node that reads the value of node `i`, and the kind of the operator as what it reads sees it:
    an operator that broadcasts is elementwise to an operand of the shape of its result. `outside[i]` says that something other than
    dataflow reads the value: it is bound, branched on, returned, put into a reference, given to a function. Sealed functions
    (`passat.ir.sealed`) are not entered. Types must have been inferred.
    """

    __slots__ = ("kinds", "nodes", "numbers", "outside", "readers")

    def __init__(self, function: Function) -> None:
        found = post_order(function, into=lambda node: node is function or not is_sealed(node), parts_of=evaluation_parts)
        self.nodes: Sequence[Expr] = [node for node in found if not isinstance(node, _NO_NODES)]
        self.numbers = {id(node): number for number, node in enumerate(self.nodes)}
        count = len(self.nodes)
        self.kinds: list[OpPattern] = [OpPattern.OPAQUE] * count
        self.readers: list[list[tuple[int, OpPattern]]] = [[] for _ in range(count)]
        self.outside = [False] * count
        for number, node in enumerate(self.nodes):
            if node is function or not is_sealed(node):
                self._connect(number, node)

    def _connect(self, number: int, node: Expr) -> None:
        """Says to the parts of a node how it reads them, and what kind it is."""
        if isinstance(node, Call) and isinstance(node.op, Op) and takes_data(node):
            kind = self.kinds[number] = pattern_of(node)
            for arg in node.args:
                elementwise = kind == OpPattern.BROADCAST and _same_shape(arg, node)
                self.readers[self.numbers[id(arg)]].append((number, OpPattern.ELEMWISE if elementwise else kind))
        elif isinstance(node, Tuple):
            self.kinds[number] = OpPattern.TUPLE
            for field in node.fields:
                if isinstance(field.checked_type, TensorType):
                    self.readers[self.numbers[id(field)]].append((number, OpPattern.INJECTIVE))
                else:
                    self.outside[self.numbers[id(field)]] = True
        elif isinstance(node, TupleGetItem) and _is_flat(node.tuple_value):
            self.kinds[number] = OpPattern.INJECTIVE
            self.readers[self.numbers[id(node.tuple_value)]].append((number, OpPattern.INJECTIVE))
        elif isinstance(node, Constant):
            if not node.data.shape and node.data.dtype != "string":
                self.kinds[number] = OpPattern.ELEMWISE
        else:
            for part in children(node):
                if not isinstance(part, _NO_NODES):
                    self.outside[self.numbers[id(part)]] = True


def _same_shape(arg: Expr, call: Call) -> bool:
    given, made = arg.checked_type, call.checked_type
    return isinstance(given, TensorType) and isinstance(made, TensorType) and given.shape == made.shape


def _is_flat(expr: Expr) -> bool:
    """Whether the fields of a tuple are tensors."""
    type_ = expr.checked_type
    return isinstance(type_, TupleType) and all(isinstance(field, TensorType) for field in type_.fields)
