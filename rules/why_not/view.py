"""A graph with the ONNX names of its nodes, for use in messages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from passat.ir.expr import Expr, TupleGetItem, Var
from passat.ir.tensor import Tensor
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import CONST_SYMBOL, GET, LEAF, TUPLE, Symbol
from passat.rules.provenance.node_traces import name_of, names_of

_DEPTH: Final = 2
"""Depth of the text of a node without a name."""


class View:
    """A graph with the rule that created each new node, the number of input nodes, and texts for nodes."""

    def __init__(
        self,
        graph: Graph,
        provenance: Mapping[int, tuple[str, int]] | None = None,
        initial: int | None = None,
    ) -> None:
        self.graph = graph
        self._initial = len(graph) if initial is None else initial
        self._provenance = provenance or {}
        self._by_symbol: dict[Symbol, list[int]] | None = None

    def is_made(self, node: int) -> bool:
        """True if a rule created the node."""
        return node in self._provenance

    def is_live(self, node: int) -> bool:
        """True if the node came with the program or was created by an applied rule. Rejected matches also leave nodes in the graph."""
        return node < self._initial or node in self._provenance

    def nodes_of(self, cls: int) -> Sequence[int]:
        """The nodes of an e-class."""
        return self.graph.members.get(self.graph.find(cls), (self.graph.find(cls),))

    @property
    def by_symbol(self) -> Mapping[Symbol, Sequence[int]]:
        """The live nodes of each symbol, in creation order."""
        if self._by_symbol is None:
            self._by_symbol = {}
            for node, symbol in enumerate(self.graph.symbols):
                if self.is_live(node):
                    self._by_symbol.setdefault(symbol, []).append(node)
        return self._by_symbol

    def name(self, node: int) -> str | None:
        """The name of a node in the ONNX file, otherwise of its first output. None for an input node without a name."""
        return name_of(self.graph.origins[node] or self.graph.places.get(node)) or None

    def is_any(self, nodes: Iterable[int], name: str) -> bool:
        """True if one of the nodes, or the original node that rules replaced by it, has this name, or an output with it. Other nodes of an
        e-class are elsewhere in the program, and count only for a node without names."""
        firsts = list(map(self._first, nodes))
        return any(name in (self._names(first) or self._names(self.graph.find(first))) for first in firsts)

    def _names(self, node: int) -> Sequence[str]:
        return names_of(self.graph.origins[node] or self.graph.places.get(node))

    def place(self, node: int) -> str:
        """The name of a position in the program: that of its node, otherwise its text."""
        root = self._first(node)
        name = self.name(root) or self.name(self.graph.find(root))
        return f"'{name}'" if name else self.text(root)

    def describe(self, node: int) -> str:
        """A short description of a node: its operator and name, an input, a constant."""
        graph = self.graph
        symbol, name = graph.symbols[node], self.name(node)
        if symbol.kind == LEAF:
            return _leaf(graph.leaves[graph.payloads[node]])
        if symbol is CONST_SYMBOL:
            return constant_text(graph.tensors[graph.payloads[node]])
        if symbol.kind == TUPLE:
            return f"a tuple of {symbol.arity}"
        if symbol.kind == GET:
            return f"{self._output(node)}{self.describe(graph.operands[node][0])}"
        if node in self._provenance:
            rule, root = self._provenance[node]
            at = self.name(self._first(root))
            return f"the {_kind(symbol)} that {rule} made" + (f" at '{at}'" if at else "")
        return f"{_kind(symbol)} '{name}'" if name else self.text(node)

    def _output(self, node: int) -> str:
        """The output of a node that a projection denotes; empty if it is the only one in the ONNX file."""
        origin = self.graph.origins[node]
        span = origin.tuple_value.span if isinstance(origin, TupleGetItem) else None
        index = self.graph.payloads[node]
        return "" if index == 0 and span is not None and len(span.outputs) == 1 else f"output {index} of "

    def text(self, node: int, depth: int = _DEPTH) -> str:
        """A node as an expression, to a limited depth."""
        graph = self.graph
        symbol = graph.symbols[node]
        if symbol.kind == LEAF:
            leaf = graph.leaves[graph.payloads[node]]
            return leaf.name_hint if isinstance(leaf, Var) else _leaf(leaf)
        if symbol is CONST_SYMBOL:
            return number_text(graph.tensors[graph.payloads[node]])
        if symbol.kind == GET:
            return f"{self.text(graph.operands[node][0], depth)}[{graph.payloads[node]}]"
        inner = ", ".join(self.text(part, depth - 1) for part in graph.operands[node]) if depth else "..."
        return f"({inner})" if symbol.kind == TUPLE else f"{_kind(symbol)}({inner})"

    def _first(self, node: int) -> int:
        """The original node of an e-class."""
        while node in self._provenance and self._provenance[node][1] < node:
            node = self._provenance[node][1]
        return node


def constant_text(tensor: Tensor) -> str:
    """A short description of a constant."""
    return f"a constant {tensor.dtype}{list(tensor.shape)}" if tensor.uniform() is None else f"the constant {number_text(tensor)}"


def number_text(tensor: Tensor) -> str:
    """The value of a uniform constant with enough digits to distinguish it from its neighbors; otherwise the type."""
    value = tensor.uniform()
    if value is None:
        return f"{tensor.dtype}{list(tensor.shape)}"
    return str(np.float32(value)) if tensor.dtype == "float32" else str(value)


def _leaf(leaf: Expr) -> str:
    return f"the input '{leaf.name_hint}'" if isinstance(leaf, Var) else f"a {type(leaf).__name__}"


def _kind(symbol: Symbol) -> str:
    return symbol.op.name if symbol.op is not None else "branch"
