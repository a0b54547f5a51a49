"""`relay.analysis`: facts about programs, and which functions of a module refer to which."""

from collections import Counter
from typing import TYPE_CHECKING

import networkx as nx

from passat.ir.analysis import all_vars, bound_vars, check_constant, free_vars, well_formed
from passat.ir.annotated_regions import AnnotatedRegion, AnnotatedRegionSet
from passat.ir.basic_blocks import check_basic_block_normal_form
from passat.ir.counting import counted
from passat.ir.equality import structural_equal
from passat.ir.exhaustiveness import unmatched_cases
from passat.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem
from passat.ir.features import Feature, detect_feature
from passat.ir.hashing import structural_hash
from passat.ir.kinds import check_kind
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.ops.quantization import dequantize, quantize, region_before
from passat.ir.traverse import post_order, post_order_visit
from passat.ir.type_variables import all_type_vars as _all_type_vars
from passat.ir.type_variables import bound_type_vars as _bound_type_vars
from passat.ir.type_variables import free_type_vars as _free_type_vars
from passat.ir.types import TensorType, Type, TypeVar, leaves
from passat.relay.names import missing_name


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


__all__ = [
    "AnnotatedRegion",
    "AnnotatedRegionSet",
    "CallGraph",
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "detect_feature",
    "extract_intermdeiate_expr",
    "free_type_vars",
    "free_vars",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "post_order_visit",
    "structural_equal",
    "structural_hash",
    "unmatched_cases",
    "well_formed",
]


def all_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """Every type parameter that occurs in an expression or type, once. (`mod` is accepted as in Relay, but unused.)"""
    return _all_type_vars(expr)


def bound_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type parameters that contained functions or function types bind."""
    return _bound_type_vars(expr)


def free_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The free type parameters: those that occur but are not bound."""
    return _free_type_vars(expr)


def all_dtypes(expr: Expr) -> set[str]:
    """The element types of all tensors in an expression whose type has been inferred."""
    types = [type_ for node in post_order(expr) if node._checked_type is not None for type_ in leaves(node._checked_type)]
    return {type_.dtype for type_ in types if isinstance(type_, TensorType)}


def extract_intermdeiate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """A module whose main function computes one call, tuple or field of `main`, given by its number. The numbers are those in `%0`, `%1`
    and so on, if the printed module has no inline expressions. (The misspelled name is Relay's.) Raises ValueError if there is no such
    number.
    """
    nodes = [node for node in post_order(mod["main"]) if isinstance(node, (Call, Tuple, TupleGetItem))]
    if not 0 <= expr_id < len(nodes):
        raise ValueError(
            f"the main function has {counted(len(nodes), 'node')} (calls, tuples and fields), numbered from 0, "
            f"and none has the number {expr_id}"
        )
    found = IRModule()
    found.update(mod)
    found["main"] = IRModule.from_expr(nodes[expr_id])["main"]
    return found


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """The number of calls of each operator in the functions of a module, by name."""
    nodes = (node for function in mod.functions.values() for node in post_order(function))
    return dict(Counter(node.op.name for node in nodes if isinstance(node, Call) and isinstance(node.op, Op)))


def list_fake_quantized_op_freqs(mod: IRModule) -> dict[str, int]:
    """The number of calls of each operator between `qnn.dequantize` and `qnn.quantize` in the main function, by name."""
    ends = [node for node in post_order(mod["main"]) if isinstance(node, Call) and node.op is quantize]
    regions = [region_before(end.args[0]) or () for end in ends]
    calls = {id(call): call for region in regions for call in region if call.op is not dequantize}
    return dict(Counter(call.op.name for call in calls.values() if isinstance(call.op, Op)))


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("relay.analysis", __all__)
