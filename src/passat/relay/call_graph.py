"""`relay.analysis.CallGraph`: which functions of a module refer to which."""

import networkx as nx

from passat.ir.expr import GlobalVar
from passat.ir.module import IRModule
from passat.ir.traverse import post_order

__all__ = ["CallGraph"]


class CallGraph:
    """The functions of a module and their references to each other; `graph` is a networkx.MultiDiGraph of their names.

    >>> from passat import relay
    >>> module = relay.parse("def @f(%x: int8) { %x } def @main(%x: int8) { @f(@f(%x)) }")
    >>> CallGraph(module)
    CallGraph:
    @main: #refs = 0, refers to @f
    @f: #refs = 1, refers to nothing
    """

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
        self.graph.add_nodes_from(var.name_hint for var in module.functions)
        for var, function in module.functions.items():
            # As in TVM, a shared node is one reference, however often it is used.
            callees = [node.name_hint for node in post_order(function) if isinstance(node, GlobalVar)]
            self.graph.add_edges_from((var.name_hint, callee) for callee in callees)

    def ref_count(self, var: GlobalVar | str) -> int:
        """The number of references to a function, including those in itself. Raises KeyError."""
        return len(self.graph.in_edges(self._name(var)))

    def global_call_count(self, var: GlobalVar | str) -> int:
        """The number of references to functions of the module in a function. Raises KeyError."""
        return len(self.graph.out_edges(self._name(var)))

    def is_recursive(self, var: GlobalVar | str) -> bool:
        """True if a function refers to itself, directly or through others. Raises KeyError."""
        name = self._name(var)
        return any(name == callee or nx.has_path(self.graph, callee, name) for callee in self.graph.successors(name))

    def print_var(self, var: GlobalVar | str) -> str:
        """One line of text about a function. Raises KeyError."""
        name = self._name(var)
        callees = ", ".join(f"@{callee}" for callee in dict.fromkeys(self.graph.successors(name)))
        return f"@{name}: #refs = {self.ref_count(name)}, refers to {callees or 'nothing'}"

    def __repr__(self) -> str:
        order = [name for part in nx.strongly_connected_components(self.graph) for name in sorted(part)]
        return "\n".join(("CallGraph:", *map(self.print_var, reversed(order))))

    def _name(self, var: GlobalVar | str) -> str:
        return self.module.get_global_var(var if isinstance(var, str) else var.name_hint).name_hint
