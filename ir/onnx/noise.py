"""Estimates the effect of rounding on a model (Monte Carlo arithmetic; Parker 1997).

The noisy model multiplies each rounded floating-point result by random factors near one. For nodes that sum many products, it multiplies
the operands, since the rounding error is relative to these. No noise is added to

* exact nodes, such as Reshape, Relu or Greater;
* nodes that depend only on constants and shapes, except of 16-bit floats;
* elements of sums and products that are exact.

The variation of the outputs shows how far an equivalent program with a different order of rounding may differ.
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from typing import Final

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper, shape_inference

from passat.ir.onnx.opaque import RANDOM
from passat.ir.onnx.scope import all_names, defined_names, subgraphs, without_functions

AMOUNTS: Final[Mapping[int, float]] = {1: 4 * 2.0**-23, 10: 2.0**-10, 11: 4 * 2.0**-52, 16: 2.0**-7}
"""Maximum relative noise, by ONNX number of the element type: four units in the last place, but one for narrow types, whose units are
large and whose sums are accumulated in wider types."""
_NARROW: Final = frozenset({10, 16})
"""The 16-bit element types."""
_EXACTLY: Final = frozenset({"Add", "Sub", "Mul"})
"""Operators that are recomputed in a wider type to find exact results."""
_WIDER: Final[Mapping[int, int]] = {1: 11}
"""The wider types. (ONNX Runtime may compute narrow types of the model in a wider type anyway.)"""
_EQUAL: Final = 11
"""The opset since which Equal takes floating-point numbers."""
_FEW_KERNELS: Final = 22
"""The opset since which ONNX Runtime (1.32) has no kernels for random operators."""
_POOL: Final = 65_521
"""The number of random numbers that noise is taken from, repeated, since drawing takes 20 times as long as copying; a prime, so that
periods of the model and of the noise differ."""
_ALLOWS_ZERO: Final = 14
"""The opset since which Reshape takes 0 for a size."""
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
"""Operators of the default domain that are exact or round deterministically. (No rule rewrites an adding scatter.)"""
# fmt: off
POINTWISE: Final = frozenset(
    {
        "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "DequantizeLinear", "Div", "DynamicQuantizeLinear",
        "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mean", "Mish", "Mul", "PRelu", "Pow", "Range",
        "Reciprocal", "Selu", "Shrink", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh",
    }
)
# fmt: on
"""Operators whose rounding error is relative to the result. For the others it is relative to the operands, which they sum."""

NEAR_ONE: Final = frozenset({"Celu", "Elu", "HardSigmoid", "Selu", "Sigmoid"})
"""Operators whose absolute rounding error is that of numbers near one: ONNX Runtime's Sigmoid returns multiples of 2**-25."""
LIKE_THE_OPERAND: Final = frozenset({"Gelu", "HardSwish", "Swish"})
"""Operators that multiply the operand by such a number, so that the error is relative to the operand."""


def noisy(model: ModelProto, seed: int = 0) -> ModelProto:
    """Returns the model with noise and with local functions inlined.

    Each run of a session draws different noise if `draws_anew`; the same seed gives the same noise in each session.
    """
    made = without_functions(model)
    with contextlib.suppress(Exception):  # if inference fails, the element types are guessed
        made = shape_inference.infer_shapes(made)
    names = all_values(made)
    prefix = "noise"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    writer = _Writer(prefix, seed, _opset(made))
    writer.write(made.graph, {})
    made.graph.initializer.extend(pool for pool in writer.pools.values() if isinstance(pool, TensorProto))
    nodes = [*(pool for pool in writer.pools.values() if isinstance(pool, NodeProto)), *map(_copied, made.graph.node)]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def draws_anew(model: ModelProto) -> bool:
    """Whether each run of a session of the noisy model draws other noise; otherwise only another seed does."""
    return _opset(model) < _FEW_KERNELS


def _opset(model: ModelProto) -> int:
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


def all_values(model: ModelProto) -> set[str]:
    """All names of values in a model."""
    return defined_names(model.graph) | all_names(attribute for node in model.graph.node for attribute in node.attribute)


class _Writer:
    def __init__(self, prefix: str, seed: int, opset: int) -> None:
        self._prefix = prefix
        self._opset = opset
        self._seed = seed * 100_003
        self._count = 0
        self._depth = 0
        self.pools: dict[tuple[int, float, float], TensorProto | NodeProto] = {}
        """Random numbers to take noise from, by element type and range: constants, or nodes that draw other numbers in each run."""

    def write(self, graph: GraphProto, outer: Mapping[str, int], known: Collection[str] = ()) -> None:
        """Adds noise to a graph and its subgraphs.

        `outer` are the element types of the enclosing values; `known` are those that depend only on constants and shapes.
        """
        self._depth += 1
        types = {**outer, **dict(_declared([*graph.value_info, *graph.input, *graph.output]))}
        types.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
        settled = {*known, *(tensor.name for tensor in graph.initializer)}
        """Values that depend only on constants and shapes, such as scales and sizes. They get no noise: it would change shapes, and they
        are folded with ONNX Runtime's results."""
        still: set[str] = set()
        """Values that have noise already."""
        written: list[NodeProto] = []
        for node in graph.node:
            for inner in subgraphs(node):
                self.write(inner, types, settled)
            _guess(node, types)
            exact = not node.domain and node.op_type in EXACT
            if _is_settled(node, settled):
                settled.update(node.output)
                # ONNX Runtime computes most 16-bit floats in 32 bits, and may round only at the end of a chain of nodes.
                if exact or not any(types.get(name) in _NARROW for name in node.output):
                    written.append(node)
                    continue
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
        self._depth -= 1
        copies = list(map(_copied, written))
        del graph.node[:]
        graph.node.extend(copies)

    def _fresh(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"

    def _exactness(self, node: NodeProto, kind: int) -> tuple[str, list[NodeProto]]:
        """Returns the name of a mask of the exact elements of a result, and the nodes that compute it; an empty name if this is not
        possible."""
        if node.domain or node.op_type not in _EXACTLY or kind not in _WIDER or self._opset < _EQUAL:
            return "", []
        a, b, result, wide, exact = (self._fresh() for _ in range(5))
        made = [
            helper.make_node("Cast", [name], [cast], to=_WIDER[kind])
            for name, cast in zip((*node.input, *node.output), (a, b, result), strict=True)
        ]
        made += [helper.make_node(node.op_type, [a, b], [wide]), helper.make_node("Equal", [wide, result], [exact])]
        return exact, made

    def _noise(self, plain: str, name: str, kind: int, exact: str = "", besides: str | None = None) -> Iterable[NodeProto]:
        """Emits nodes that add noise to a value, except to its `exact` elements.

        `besides` is another value that the error is relative to: the name of an operand, or the empty name for the number one.
        """
        amount = AMOUNTS[kind]
        wide = 1 if kind in _NARROW else kind
        if wide != kind:  # ONNX Runtime's random operators do not support 16-bit floats
            plain, narrow = self._fresh(), plain
            yield helper.make_node("Cast", [narrow], [plain], to=wide)
        factor = self._fresh()
        seed = float((self._seed + self._count) % (1 << 24))
        if wide == 1 and not exact:
            yield from self._drawn(plain, factor, wide, 1 - amount, 1 + amount, seed)
        elif wide == 1:
            one, drawn, differs, mask, added = (self._fresh() for _ in range(5))
            yield from self._drawn(plain, drawn, wide, -amount, amount, seed)
            yield helper.make_node("Constant", [], [one], value=helper.make_tensor(one, wide, [], [1.0]))
            yield helper.make_node("Not", [exact], [differs])
            yield helper.make_node("Cast", [differs], [mask], to=wide)  # a product with 0 and 1 is faster than Where
            yield helper.make_node("Mul", [drawn, mask], [added])
            yield helper.make_node("Add", [added, one], [factor])
        else:  # the bounds are single-precision attributes
            drawn, size, scaled, one = (self._fresh() for _ in range(4))
            yield from self._drawn(plain, drawn, wide, -1.0, 1.0, seed)
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
            yield from self._drawn(plain, added, wide, -most, most, seed + 1)
            if besides:
                operand, like, added = self._fresh(), added, self._fresh()
                yield helper.make_node("Cast", [besides], [operand], to=wide)
                yield helper.make_node("Mul", [operand, like], [added])
            yield helper.make_node("Add", [product, added], [moved])
        if wide != kind:
            yield helper.make_node("Cast", [moved], [name], to=kind)

    def _drawn(self, like: str, name: str, kind: int, low: float, high: float, seed: float) -> Iterable[NodeProto]:
        """Emits nodes that draw a random number for each element of a value; in a subgraph, which may run several times, other ones each
        time if there are random operators."""
        if self._opset < _FEW_KERNELS and (self._depth > 1 or self._opset < _ALLOWS_ZERO):
            yield helper.make_node("RandomUniformLike", [like], [name], low=low, high=high, seed=seed)
            return
        shape, size, length, start, end, one, period, whole, times, tiled, taken = (self._fresh() for _ in range(11))
        yield helper.make_node("Shape", [like], [shape])
        yield helper.make_node("Size", [like], [size])
        for constant, value in ((start, int(seed) * 7919 % _POOL), (one, 1), (period, _POOL)):
            yield helper.make_node("Constant", [], [constant], value_ints=[value])
        yield helper.make_node("Reshape", [size, one], [length])
        yield helper.make_node("Add", [start, length], [end])
        yield helper.make_node("Div", [end, period], [whole])
        yield helper.make_node("Add", [whole, one], [times])
        yield helper.make_node("Tile", [self._pool(kind, low, high), times], [tiled])
        yield helper.make_node("Slice", [tiled, start, end], [taken])
        yield helper.make_node("Reshape", [taken, shape], [name], allowzero=1)

    def _pool(self, kind: int, low: float, high: float) -> str:
        """The name of the random numbers in a range."""
        pool = self.pools.get((kind, low, high))
        if pool is None:
            seed: float = self._seed + len(self.pools)
            name = self._fresh()
            if self._opset < _FEW_KERNELS:
                seed = float(seed % (1 << 24))
                pool = helper.make_node("RandomUniform", [], [name], name, shape=[_POOL], dtype=kind, low=low, high=high, seed=seed)
            else:
                numbers = np.random.default_rng(int(seed)).uniform(low, high, _POOL)
                pool = numpy_helper.from_array(numbers.astype(helper.tensor_dtype_to_np_dtype(kind)), name)
            self.pools[kind, low, high] = pool
        return pool.name


def _copied(node: NodeProto) -> NodeProto:
    """A copy of a node: repeated fields copy their items, which become invalid when the field is cleared."""
    copy = NodeProto()
    copy.CopyFrom(node)
    return copy


def _is_settled(node: NodeProto, settled: Collection[str]) -> bool:
    if subgraphs(node) or node.op_type in RANDOM:
        return False
    return node.op_type in ("Shape", "Size") or all(name in settled for name in node.input if name)


def _besides(node: NodeProto) -> str | None:
    """The value that the error of a node is relative to, in addition to its result: the name of an operand, or the empty name for the
    number one."""
    if node.domain or node.op_type not in NEAR_ONE | LIKE_THE_OPERAND:
        return None
    return "" if node.op_type in NEAR_ONE else node.input[0]


def _declared(values: Iterable[ValueInfoProto]) -> Iterable[tuple[str, int]]:
    return ((value.name, value.type.tensor_type.elem_type) for value in values if value.type.HasField("tensor_type"))


def _guess(node: NodeProto, types: MutableMapping[str, int]) -> None:
    """Assumes that results of unknown element type have the type of the first floating-point operand."""
    found = next((types[name] for name in node.input if types.get(name) in AMOUNTS), 0)
    for name in node.output:
        if name and not types.get(name) and found:
            types[name] = found
