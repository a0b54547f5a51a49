"""Operators that occur together in real models, where rules fire: chains of a family, in which each node reads the previous one."""

from typing import Final

from onnx import NodeProto

from tests.fuzz.builder import Builder, Value
from tests.fuzz.operators import draw_node, operators

FAMILIES: Final[tuple[str, ...]] = (
    "Transpose Transpose Reshape Reshape Squeeze Unsqueeze Slice Concat Split Expand Gather Flatten Tile Pad Identity",
    "Add Add Sub Mul Mul Div Neg Abs Pow Sqrt Reciprocal Max Min Sum Mean Clip Relu Identity Exp Log Where Sigmoid Tanh Erf",
    "MatMul MatMul Gemm Add Add Mul Div Sub Transpose Reshape Relu BatchNormalization Concat Slice Split",
    "Conv Conv ConvTranspose BatchNormalization Mul Add Sub Div Relu Clip Pad MaxPool AveragePool Concat Sigmoid HardSigmoid",
    "ReduceMean ReduceSum ReduceMax Sub Pow Mul Add Sqrt Div LayerNormalization Softmax LogSoftmax Transpose Cast InstanceNormalization",
    "Shape Shape Size Gather Unsqueeze Concat Slice ReduceProd Cast Mul Div Reshape ConstantOfShape Expand Range Where Equal Squeeze",
    "Not And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual Where Cast Max Min IsNaN IsInf Clip",
    "QuantizeLinear DequantizeLinear DynamicQuantizeLinear Cast Cast Clip Round Floor MatMulInteger Relu Add Mul CastLike",
    "Gather GatherElements GatherND ScatterElements ScatterND OneHot TopK ArgMax Slice Concat Cast Trilu CumSum Unsqueeze",
    "DepthToSpace SpaceToDepth Reshape Transpose Reshape Resize Pad Slice Conv GlobalAveragePool Flatten Gemm Softmax Dropout",
)  # fmt: skip
"""Families of operators; operators that are listed twice are drawn more often."""


def draw_chain(graph: Builder, start: Value | None = None) -> None:
    """A few nodes of a family; sometimes two on the same value."""
    known = operators(graph.opset)
    family = [op for op in str(graph.one_of(FAMILIES)).split() if op in known]
    start = start or graph.known()
    for _ in range(graph.integer(1, 2)):
        graph.focus = start
        for _ in range(graph.integer(2, 5)):
            results = draw_node(graph, str(graph.one_of(family)))
            graph.focus = graph.one_of(results) if results else graph.focus
    graph.focus = None


def draw_twin(graph: Builder, node: NodeProto | None = None) -> list[Value] | None:
    """A copy of an existing node under other names."""
    if not graph.nodes:
        return None
    node = node or graph.one_of(graph.nodes)
    old = [next((value for value in graph.values if value.name == name), None) for name in node.output]
    if any(value is None for value in old):
        return None
    copy = NodeProto()
    copy.CopyFrom(node)
    made = [Value(graph.name(), value.kind, value.array) for value in old if value is not None]
    copy.name = f"again_{graph.count}"
    copy.output[:] = [value.name for value in made]
    graph.nodes.append(copy)
    graph.values += made
    return made
