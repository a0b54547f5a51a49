"""A graph with the names that its nodes have in the ONNX file: what sentences say of nodes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from passat.ir.expr import Expr, Span, TupleGetItem, Var
from passat.ir.tensor import Tensor
from passat.rules.engine.graph import CONST_SYMBOL, GET, LEAF, TUPLE, Graph, Symbol

_DEPTH: Final = 2
"""How deep the text of a node without a name goes."""


class View:
    """A graph, the nodes of each class that has several, the rule that made each new node, how many nodes came in, and how nodes are
    spoken of."""

    def __init__(
        self,
        graph: Graph,
        members: Mapping[int, Sequence[int]] | None = None,
        provenance: Mapping[int, tuple[str, int]] | None = None,
        initial: int | None = None,
    ) -> None:
        self.graph = graph
        self._initial = len(graph) if initial is None else initial
        self._members = members or {}
        self._provenance = provenance or {}
        self._by_symbol: dict[Symbol, list[int]] | None = None

    def is_made(self, node: int) -> bool:
        """Whether a rule made a node."""
        return node in self._provenance

    def is_live(self, node: int) -> bool:
        """Whether a node came in, or a rule that was applied made it: what a refused match was tried with stays in the graph as well."""
        return node < self._initial or node in self._provenance

    def nodes_of(self, cls: int) -> Sequence[int]:
        """The nodes of a class."""
        return self._members.get(self.graph.find(cls), (self.graph.find(cls),))

    @property
    def by_symbol(self) -> Mapping[Symbol, Sequence[int]]:
        """The live nodes of each symbol, in the order in which they were made."""
        if self._by_symbol is None:
            self._by_symbol = {}
            for node, symbol in enumerate(self.graph.symbols):
                if self.is_live(node):
                    self._by_symbol.setdefault(symbol, []).append(node)
        return self._by_symbol

    def name(self, node: int) -> str | None:
        """The name of a node in the ONNX file, else of its first output. None where it came in without one."""
        return next(iter(names_of(self.graph.origins[node] or self.graph.places.get(node))), None)

    def is_any(self, nodes: Iterable[int], name: str) -> bool:
        """Whether one of some nodes, or what stood in its class from the start, has a name, or an output of that name."""
        graph = self.graph
        return any(name in names_of(graph.origins[each] or graph.places.get(each)) for node in nodes for each in (node, graph.find(node)))

    def place(self, node: int) -> str:
        """How a place in the program is named: by the name of its node, or by itself where it has none."""
        root = self._first(node)
        name = self.name(root) or self.name(self.graph.find(root))
        return f"'{name}'" if name else self.text(root)

    def describe(self, node: int) -> str:
        """What a node is, in a few words: its operator and name, an input, a constant."""
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
        """Which output of its node a field is; nothing where that has only this one in the ONNX file."""
        origin = self.graph.origins[node]
        span = origin.tuple_value.span if isinstance(origin, TupleGetItem) else None
        index = self.graph.payloads[node]
        return "" if index == 0 and span is not None and len(span.outputs) == 1 else f"output {index} of "

    def text(self, node: int, depth: int = _DEPTH) -> str:
        """A node as an expression, its operands down to a depth."""
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
        """What stood in the program where a node is now."""
        while node in self._provenance and self._provenance[node][1] < node:
            node = self._provenance[node][1]
        return node


def names_of(expr: Expr | None) -> tuple[str, ...]:
    """The names of an expression in the ONNX file: that of its node, and those of its outputs."""
    span: Span | None = None if expr is None else expr.span
    if span is None and isinstance(expr, TupleGetItem):
        span = expr.tuple_value.span
    return () if span is None else tuple(filter(None, (span.source_name, *span.outputs)))


def constant_text(tensor: Tensor) -> str:
    """A constant in a few words."""
    return f"a constant {tensor.dtype}{list(tensor.shape)}" if tensor.uniform() is None else f"the constant {number_text(tensor)}"


def number_text(tensor: Tensor) -> str:
    """The number that a constant repeats, with as many digits as tell it from its neighbors; else the type."""
    value = tensor.uniform()
    if value is None:
        return f"{tensor.dtype}{list(tensor.shape)}"
    return str(np.float32(value)) if tensor.dtype == "float32" else str(value)


def _leaf(leaf: Expr) -> str:
    return f"the input '{leaf.name_hint}'" if isinstance(leaf, Var) else f"a {type(leaf).__name__}"


def _kind(symbol: Symbol) -> str:
    return symbol.op.name if symbol.op is not None else "branch"
