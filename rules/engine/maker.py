"""Creates the nodes of right sides in a graph."""

from collections.abc import Sequence

from passat.ir.attrs import Attrs
from passat.ir.evaluate import Value
from passat.ir.op import Op
from passat.ir.types import Type
from passat.rules.engine.graph import CALL, GET_SYMBOL, TUPLE, Graph, symbol


class GraphMaker:
    """Creates the nodes of right sides in a graph (`passat.rules.substitution.Maker`)."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def add_call(self, op: Op, operands: Sequence[int], attrs: Attrs) -> int:
        """The node of a call."""
        payload = self.graph.attr_id(attrs) if op.attr_params or op.variadic else 0
        return self.graph.make(symbol(CALL, op, len(operands)), payload, tuple(map(self.graph.find, operands)))

    def add_tuple(self, operands: Sequence[int]) -> int:
        """The node of a tuple."""
        return self.graph.make(symbol(TUPLE, None, len(operands)), 0, tuple(map(self.graph.find, operands)))

    def add_field(self, operand: int, index: int) -> int:
        """The node of a field of a tuple."""
        return self.graph.make(GET_SYMBOL, index, (self.graph.find(operand),))

    def add_value(self, value: Value) -> int:
        """The node of a constant, or of a tuple of constants."""
        return self.graph.add_value(value)

    def type_of(self, cls: int) -> Type:
        """The type of an e-class."""
        return self.graph.types[self.graph.find(cls)]
