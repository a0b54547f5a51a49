"""What rounding does to a model: the same model with noise in every result that is rounded.

Each floating-point result of a node that rounds is multiplied by random factors near one, and so are the operands of nodes that add many
products up, whose rounding is relative to these. Nodes that are exact, such as Reshape, Relu or Greater, are left alone, and so are
nodes that depend on constants and shapes alone, and elements of sums and products that happen to be exact: what is computed by these
alone does not move at all. How far the outputs move tells how far a program may differ that computes the same in another order of rounding
(Monte Carlo arithmetic; Parker 1997).
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from typing import Final

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, shape_inference

from passat.ir.onnx.opaque import RANDOM
from passat.ir.onnx.scope import all_names, defined_names, subgraphs, without_functions

AMOUNTS: Final[Mapping[int, float]] = {1: 4 * 2.0**-23, 10: 2.0**-10, 11: 4 * 2.0**-52, 16: 2.0**-7}
"""By what part of them results are moved, at most, by the numbers of element types in ONNX: four units in the last place, and one of the
narrow types, where a unit is much and sums are done in wider ones."""
_EXACTLY: Final = frozenset({"Add", "Sub", "Mul"})
"""Operators that are done again in a wider type, to see where they have not rounded."""
_WIDER: Final[Mapping[int, int]] = {1: 11}
"""Types that such operators are done again in. (What is narrow in the model ONNX Runtime may compute in a wider type anyway.)"""
_WHERE: Final = 9
"""The opset from which on there is Where."""
# fmt: off
EXACT: Final = frozenset(
    {
        "Abs", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil",
        "Clip", "Compress", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape", "DepthToSpace", "Dropout", "Equal", "Expand",
        "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "GlobalMaxPool", "Greater", "GreaterOrEqual", "Hardmax",
        "Identity", "If", "IsInf", "IsNaN", "Less", "LessOrEqual", "Loop", "Max", "MaxPool", "MaxRoiPool", "MaxUnpool", "Min", "Mod", "Neg",
        "NonMaxSuppression", "NonZero", "Not", "OneHot", "Optional", "OptionalGetElement", "OptionalHasElement", "Or", "Pad",
        "QuantizeLinear", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "ReduceMax", "ReduceMin", "Relu",
        "Reshape", "ReverseSequence", "Round", "Scan", "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct", "SequenceEmpty",
        "SequenceErase", "SequenceInsert", "SequenceLength", "Shape", "Sign", "Size", "Slice", "SpaceToDepth", "Split", "SplitToSequence",
        "Squeeze", "StringConcat", "TensorScatter", "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Where",
        "Xor",
    }
)
# fmt: on
"""Operators of the default domain that do not round, or always alike; the rest do. (A scatter that adds is no rule's business.)"""
# fmt: off
POINTWISE: Final = frozenset(
    {
        "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "DequantizeLinear", "Div", "DynamicQuantizeLinear",
        "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mean", "Mish", "Mul", "PRelu", "Pow", "Range",
        "Reciprocal", "Selu", "Shrink", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh",
    }
)
# fmt: on
"""Operators whose rounding is relative to their result. That of the others is relative to their operands, of which they add many up."""

NEAR_ONE: Final = frozenset({"Celu", "Elu", "HardSigmoid", "Selu", "Sigmoid"})
"""Operators whose small results are rounded as numbers around one are: those of ONNX Runtime's Sigmoid are multiples of 2**-25."""
LIKE_THE_OPERAND: Final = frozenset({"Gelu", "HardSwish", "Swish"})
"""Operators whose results are rounded as the operand is, which they multiply by such a number."""


def noisy(model: ModelProto, seed: int = 0) -> ModelProto:
    """The model with noise; each run of a session draws other noise, and the same seed the same from session to session. Local functions
    stand where they were called."""
    made = without_functions(model)
    with contextlib.suppress(Exception):  # whatever inference stumbles over: the element types that it would have found are guessed
        made = shape_inference.infer_shapes(made)
    names = all_values(made)
    prefix = "noise"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    opset = max((entry.version for entry in made.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    _Writer(prefix, seed, opset).write(made.graph, {})
    return made


def all_values(model: ModelProto) -> set[str]:
    """Every name given to a value anywhere in a model."""
    return defined_names(model.graph) | all_names(attribute for node in model.graph.node for attribute in node.attribute)


class _Writer:
    def __init__(self, prefix: str, seed: int, opset: int) -> None:
        self._prefix = prefix
        self._opset = opset
        self._seed = seed * 100_003
        self._count = 0

    def write(self, graph: GraphProto, outer: Mapping[str, int], known: Collection[str] = ()) -> None:
        """Puts noise into a graph, and into those inside it. `outer` are the element types of the values around it, and `known` those among
        them that follow from constants and shapes alone."""
        types = {**outer, **dict(_declared([*graph.value_info, *graph.input, *graph.output]))}
        types.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
        settled = {*known, *(tensor.name for tensor in graph.initializer)}
        """What follows from constants and shapes alone, as scales and sizes do: with noise these make other shapes, and they are folded as
        ONNX Runtime computes them."""
        still: set[str] = set()
        """What has noise already."""
        written: list[NodeProto] = []
        for node in graph.node:
            for inner in subgraphs(node):
                self.write(inner, types, settled)
            _guess(node, types)
            if _is_settled(node, settled):
                settled.update(node.output)
                written.append(node)
                continue
            exact = not node.domain and node.op_type in EXACT
            if not exact and (node.domain or node.op_type not in POINTWISE):
                for place, name in enumerate(node.input):
                    if name and name not in still and name not in settled and types.get(name) in AMOUNTS:
                        node.input[place] = self._fresh()
                        written += self._noise(name, node.input[place], types[name])
            written.append(node)
            for place, name in enumerate(node.output):
                if not exact and name and types.get(name) in AMOUNTS:
                    node.output[place] = self._fresh()
                    exact_there, nodes = self._exactness(node, types[name])
                    written += [*nodes, *self._noise(node.output[place], name, types[name], exact_there, _besides(node))]
                    still.add(name)
        # The list of a proto takes copies, and what it holds is gone once it is cleared.
        copies = [NodeProto.FromString(node.SerializeToString()) for node in written]
        del graph.node[:]
        graph.node.extend(copies)

    def _fresh(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"

    def _exactness(self, node: NodeProto, kind: int) -> tuple[str, list[NodeProto]]:
        """The name of a value that says which elements of a result have not been rounded, and the nodes that find out; no name where that
        cannot be told."""
        if node.domain or node.op_type not in _EXACTLY or kind not in _WIDER or self._opset < _WHERE:
            return "", []
        a, b, result, wide, exact = (self._fresh() for _ in range(5))
        made = [
            helper.make_node("Cast", [name], [cast], to=_WIDER[kind])
            for name, cast in zip((*node.input, *node.output), (a, b, result), strict=True)
        ]
        made += [helper.make_node(node.op_type, [a, b], [wide]), helper.make_node("Equal", [wide, result], [exact])]
        return exact, made

    def _noise(self, plain: str, name: str, kind: int, exact: str = "", besides: str | None = None) -> Iterable[NodeProto]:
        """Nodes that make a value with noise of one without; none for the elements that another value says are `exact`. `besides` is what
        the value is also rounded like: an operand, or one where that has no name."""
        amount = AMOUNTS[kind]
        wide = 1 if kind in (10, 16) else kind
        if wide != kind:  # ONNX Runtime's random operators do not make 16-bit floats
            plain, narrow = self._fresh(), plain
            yield helper.make_node("Cast", [narrow], [plain], to=wide)
        factor = self._fresh()
        seed = float((self._seed + self._count) % (1 << 24))
        if wide == 1:
            yield helper.make_node("RandomUniformLike", [plain], [factor], low=1 - amount, high=1 + amount, seed=seed)
            if exact:
                one, drawn, factor = self._fresh(), factor, self._fresh()
                yield helper.make_node("Constant", [], [one], value=helper.make_tensor(one, wide, [], [1.0]))
                yield helper.make_node("Where", [exact, one, drawn], [factor])
        else:  # the bounds are attributes, in single precision
            drawn, size, scaled, one = (self._fresh() for _ in range(4))
            yield helper.make_node("RandomUniformLike", [plain], [drawn], low=-1.0, high=1.0, seed=seed)
            yield helper.make_node("Constant", [], [size], value=helper.make_tensor(size, wide, [], [amount]))
            yield helper.make_node("Constant", [], [one], value=helper.make_tensor(one, wide, [], [1.0]))
            yield helper.make_node("Mul", [drawn, size], [scaled])
            yield helper.make_node("Add", [scaled, one], [factor])
        moved = name if wide == kind else self._fresh()
        if besides is None:
            yield helper.make_node("Mul", [plain, factor], [moved])
        else:
            product, added = self._fresh(), self._fresh()
            most = AMOUNTS[wide]
            yield helper.make_node("Mul", [plain, factor], [product])
            yield helper.make_node("RandomUniformLike", [plain], [added], low=-most, high=most, seed=seed + 1)
            if besides:
                operand, like, added = self._fresh(), added, self._fresh()
                yield helper.make_node("Cast", [besides], [operand], to=wide)
                yield helper.make_node("Mul", [operand, like], [added])
            yield helper.make_node("Add", [product, added], [moved])
        if wide != kind:
            yield helper.make_node("Cast", [moved], [name], to=kind)


def _is_settled(node: NodeProto, settled: Collection[str]) -> bool:
    if any(True for _ in subgraphs(node)) or node.op_type in RANDOM:
        return False
    return node.op_type in ("Shape", "Size") or all(name in settled for name in node.input if name)


def _besides(node: NodeProto) -> str | None:
    """What results of a node are rounded like besides themselves: an operand by its name, one by none."""
    if node.domain or node.op_type not in NEAR_ONE | LIKE_THE_OPERAND:
        return None
    return "" if node.op_type in NEAR_ONE else node.input[0]


def _declared(values: Iterable[ValueInfoProto]) -> Iterable[tuple[str, int]]:
    return ((value.name, value.type.tensor_type.elem_type) for value in values if value.type.HasField("tensor_type"))


def _guess(node: NodeProto, types: MutableMapping[str, int]) -> None:
    """Takes results whose element type is not known to have that of the first floating-point operand."""
    found = next((types[name] for name in node.input if types.get(name) in AMOUNTS), 0)
    for name in node.output:
        if name and not types.get(name) and found:
            types[name] = found
