"""`tvm.relay.backend.graph_executor_codegen`: makes graphs in TVM's JSON. Formerly `graph_runtime_codegen`."""

from passat.runtime.graph import GraphRuntimeCodegen
from passat.runtime.graph.codegen import InputNode, Node, NodeRef, OpNode, shape_to_json

__all__ = ["GraphExecutorCodegen", "GraphRuntimeCodegen", "InputNode", "Node", "NodeRef", "OpNode", "shape_to_json"]

GraphExecutorCodegen = GraphRuntimeCodegen
