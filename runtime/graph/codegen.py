"""Writes fused programs as graphs in TVM's JSON.

A walk, since it numbers the nodes of a whole function in execution order.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any as AnyValue
from typing import Final, TypeAlias

from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, Let, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, Type
from passat.ir.walks import preorder
from passat.runtime.devices import Target
from passat.runtime.graph.compile_engine import CachedFunc, CCacheKey, CompileEngine
from passat.runtime.graph.graph import NOP, nbytes
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.memory_plan import MemoryPlan, PlannedNode, plan_memory
from passat.runtime.graph.primitive import flat_types, nested
from passat.runtime.values import NDArray


@dataclass(frozen=True)
class NodeRef:
    """A result of a node."""

    ident: int
    index: int = 0
    version: int = 0

    def to_json(self) -> list[int]:
        """The reference as JSON."""
        return [self.ident, self.index, self.version]


@dataclass
class Node:
    """A node by name; `attrs` has the shapes, the element types and the storage ids of its results (`shape`, `dtype`, `storage_id`)."""

    name: str
    attrs: dict[str, AnyValue] = field(default_factory=dict)

    @property
    def types(self) -> list[TensorType]:
        """The types of the results."""
        return [TensorType(shape, dtype) for shape, dtype in zip(self.attrs["shape"], self.attrs["dtype"], strict=True)]

    def to_json(self) -> dict[str, AnyValue]:
        """The node as JSON."""
        raise NotImplementedError


@dataclass
class InputNode(Node):
    """An input or a constant."""

    def to_json(self) -> dict[str, AnyValue]:
        """The node as JSON."""
        return {"op": "null", "name": self.name, "inputs": []}


@dataclass
class OpNode(Node):
    """A call of a primitive function; `__nop` gives its input another shape."""

    op_name: str = NOP
    inputs: Sequence[NodeRef] = ()
    op_attrs: Mapping[str, str] = field(default_factory=dict)
    num_outputs: int = 1

    def to_json(self) -> dict[str, AnyValue]:
        """The node as JSON; all values of attributes are strings."""
        counts = {"num_inputs": str(len(self.inputs)), "num_outputs": str(self.num_outputs)}
        attrs = {**self.op_attrs, "func_name": self.op_name, "flatten_data": "0", **counts}
        return {"op": "tvm_op", "name": self.name, "attrs": attrs, "inputs": [ref.to_json() for ref in self.inputs]}


Refs: TypeAlias = "NodeRef | tuple[Refs, ...]"
"""The results of an expression: nested as its type is."""
External: TypeAlias = Callable[[Function], CachedFunc]
"""Compiles a function for an external code generator."""
_CONTROL: Final = "graphs have no control flow: use executor='vm', or create_executor('vm')"


class GraphRuntimeCodegen:
    """Makes the graph of a function of primitive functions (`FuseOps`).

    `mod` has the global functions that it calls, which must be for external code generators (`external`).

    >>> from passat.ir.text import parse_expr
    >>> from passat.rules.passes.fuse_ops import fuse_ops
    >>> made = GraphRuntimeCodegen(target="numpy")
    >>> text, functions, params = made.codegen(fuse_ops(parse_expr("fn (%x: Tensor[(2), float32]) { exp(add(%x, 1f)) }")))
    >>> list(functions), [node["name"] for node in json.loads(text)["nodes"]]
    (['fused_add_exp'], ['x', 'fused_add_exp'])
    """

    def __init__(
        self,
        mod: IRModule | None = None,
        target: Target | str = "llvm",
        engine: CompileEngine | None = None,
        external: External | None = None,
    ) -> None:
        self.mod = IRModule() if mod is None else mod
        self.target = Target(target).for_building()
        self.nodes: list[Node] = []
        self.params: dict[str, NDArray] = {}
        """The constants by name."""
        self.lowered_funcs: dict[str, CachedFunc] = {}
        self.var_map: dict[Expr, Refs] = {}
        """The results of each expression."""
        self.plan = MemoryPlan([], [])
        self._engine = engine if engine is not None else CompileEngine()
        self._external = external
        self._names: dict[str, int] = {}
        self._values: dict[Var, Expr] = {}
        """The values of the variables of lets."""

    def codegen(self, func: Function) -> tuple[str, dict[str, Function], dict[str, NDArray]]:
        """Returns the graph as JSON, the primitive functions by name, and the constants by name.

        Raises GraphError for functions with control flow, calls of operators (fuse them first) or unknown sizes.
        """
        infer_type(func)
        for param in func.params:
            self.var_map[param] = self._inputs(param)
        order = post_order(func.body, parts_of=_parts)
        self._values = {node.var: node.value for node in order if isinstance(node, Let)}
        for node in order:
            if node not in self.var_map:
                self.var_map[node] = self._results(node)
        heads = _flat(self.var_map[func.body])
        self.plan = self._planned(heads)
        for made, ids in zip(self.nodes, self.plan.storage_ids, strict=True):
            made.attrs["storage_id"] = list(ids)
        functions = {name: cached.funcs[0] for name, cached in self.lowered_funcs.items()}
        return self._json(heads), functions, self.params

    def add_node(self, node: Node, expr: Expr | Type) -> Refs:
        """Adds a node with the results of an expression, or of a type; returns them, nested as the type is."""
        type_ = expr if isinstance(expr, Type) else expr.checked_type
        types = flat_types(type_)
        node.attrs["shape"] = [type_.shape for type_ in types]
        node.attrs["dtype"] = [type_.dtype for type_ in types]
        if isinstance(node, OpNode):
            node.num_outputs = len(types)
        self.nodes.append(node)
        refs: Refs = nested(type_, iter([NodeRef(len(self.nodes) - 1, index) for index in range(len(types))]))
        return refs

    def _inputs(self, param: Var) -> Refs:
        if isinstance(param.checked_type, TensorType):
            return self.add_node(InputNode(self._unique(param.name_hint)), param)
        types = flat_types(param.checked_type)
        refs = [self.add_node(InputNode(self._unique(f"{param.name_hint}_{i}")), type_) for i, type_ in enumerate(types)]
        whole: Refs = nested(param.checked_type, iter([ref for made in refs for ref in _flat(made)]))
        return whole

    def _results(self, node: Expr) -> Refs:
        if isinstance(node, Constant):
            name = self._unique(f"p{len(self.params)}")
            self.params[name] = NDArray(node.data)
            return self.add_node(InputNode(name), TensorType(node.data.shape, node.data.dtype))
        if isinstance(node, Tuple):
            return tuple(self.var_map[part] for part in node.fields)
        if isinstance(node, TupleGetItem):
            whole = self.var_map[node.tuple_value]
            assert isinstance(whole, tuple)  # the types are checked
            return whole[node.index]
        if isinstance(node, Let):
            return self.var_map[node.body]
        if isinstance(node, Var):
            if node not in self._values:
                raise GraphError(f"main uses the variable %{node.name_hint}, which is not a parameter")
            return self.var_map[self._values[node]]
        if not isinstance(node, Call):
            raise GraphError(f"main has an expression of the kind {type(node).__name__}; {_CONTROL}")
        return self._call(node)

    def _call(self, call: Call) -> Refs:
        inputs = [ref for arg in call.args for ref in _flat(self.var_map[arg])]
        types = flat_types(call.checked_type)
        callee = call.op
        if isinstance(callee, Op):
            raise GraphError(f"main calls the operator {callee.name} itself; FuseOps makes primitive functions of operators")
        if isinstance(callee, GlobalVar):
            name = f"@{callee.name_hint}"
            if callee not in self.mod:
                raise GraphError(f"main calls {name}, which the module does not have")
            function = self.mod[callee]
            if not isinstance(function, Function) or not function.attrs.get("Primitive"):
                raise GraphError(f"main calls {name}, which is not primitive; inline it, with relay.transform.Inline() for example")
        elif isinstance(callee, Function) and callee.attrs.get("Primitive"):
            function = callee
        else:
            raise GraphError(f"main calls a {type(callee).__name__} that is not a primitive function; {_CONTROL}")
        if "Compiler" not in function.attrs and function.attrs.get("relay.reshape_only") and len(inputs) == len(types) == 1:
            return self.add_node(OpNode(self._unique("reshape_nop"), {}, NOP, inputs), call)
        cached = self._lowered(function)
        return self.add_node(OpNode(self._unique(cached.func_name), {}, cached.func_name, inputs), call)

    def _lowered(self, function: Function) -> CachedFunc:
        if "Compiler" in function.attrs:
            if self._external is None:
                raise GraphError(f"no external code generator was given for {function.attrs['Compiler']!r}")
            cached = self._external(function)
        else:
            cached = self._engine.lower(CCacheKey(function, self.target))
        self.lowered_funcs[cached.func_name] = cached
        return cached

    def _planned(self, heads: Sequence[NodeRef]) -> MemoryPlan:
        planned = []
        for node in self.nodes:
            sizes = [nbytes(type_, node.name) for type_ in node.types]
            if not isinstance(node, OpNode):
                planned.append(PlannedNode((), sizes, "fixed"))
            else:
                reads = [(ref.ident, ref.index) for ref in node.inputs]
                planned.append(PlannedNode(reads, sizes, "view" if node.op_name == NOP else "computed"))
        return plan_memory(planned, [(head.ident, head.index) for head in heads])

    def debug_dump_memory_plan(self, func: Function) -> str:
        """The text of a function, with the storage ids of the results behind each expression."""
        fresh = GraphRuntimeCodegen(self.mod, self.target, external=self._external)
        fresh.codegen(func)
        return func.astext(
            show_meta_data=False, annotate=lambda expr: f" /* storage={fresh.storage_ids(expr)} */" if expr in fresh.var_map else ""
        )

    def _json(self, heads: Sequence[NodeRef]) -> str:
        row_ptr = [0]
        for node in self.nodes:
            row_ptr.append(row_ptr[-1] + len(node.types))
        types = [type_ for node in self.nodes for type_ in node.types]
        whole = {
            "nodes": [node.to_json() for node in self.nodes],
            "arg_nodes": [number for number, node in enumerate(self.nodes) if isinstance(node, InputNode)],
            "heads": [head.to_json() for head in heads],
            "attrs": {
                "shape": ["list_shape", [shape_to_json(type_.shape) for type_ in types]],
                "dltype": ["list_str", [type_.dtype for type_ in types]],
                "storage_id": ["list_int", [storage for ids in self.plan.storage_ids for storage in ids]],
            },
            "node_row_ptr": row_ptr,
        }
        return json.dumps(whole, indent=2)

    def _unique(self, name: str) -> str:
        count = self._names.get(name)
        self._names[name] = 0 if count is None else count + 1
        return name if count is None else self._unique(f"{name}{count + 1}")

    def storage_ids(self, expr: Expr) -> list[int]:
        """The storage of the results of an expression, after `codegen`."""
        return [self.plan.storage_ids[ref.ident][ref.index] for ref in _flat(self.var_map[expr])]


def shape_to_json(shape: Sequence[AnyValue]) -> list[int]:
    """The sizes of a tensor as JSON."""
    return [int(dim) for dim in shape]


def _parts(expr: Expr) -> Sequence[Expr]:
    """The parts that are nodes of the graph: not the functions that are called."""
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, Tuple):
        return expr.fields
    if isinstance(expr, TupleGetItem):
        return (expr.tuple_value,)
    return (expr.value, expr.body) if isinstance(expr, Let) else ()


def _flat(refs: Refs) -> list[NodeRef]:
    nested = preorder([refs], lambda part: () if isinstance(part, NodeRef) else part)
    return [part for part in nested if isinstance(part, NodeRef)]
