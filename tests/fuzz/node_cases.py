"""The test cases of the onnx package, one node each, randomly changed: attributes, sizes, constant operands, opset.

The models also return the shapes of their results, so that a wrongly inferred shape becomes a wrong value. Declarations of results are
right, or absent.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, helper, numpy_helper

from passat.ir.onnx.opaque import RANDOM, REGIONS
from passat.runner import Runner
from tests.fuzz.builder import IR_VERSION
from tests.fuzz.graphs import NEWEST, OLDEST, Case, counted
from tests.fuzz.judge import bits_differ
from tests.fuzz.values import Array
from tests.onnx_cases import collected

MOST_ELEMENTS: Final = 20_000
"""Maximum number of elements of all operands; larger cases take time and show nothing new."""
LEFT_OUT: Final = RANDOM | REGIONS | {"ImageDecoder"}
_FLAGS: Final = (0, 1, 1, 2, -1)


def _integers(name: str, others: Sequence[int] = ()) -> Sequence[int]:
    """Values for an integer attribute. With a `saturate` other than 0 and 1, ONNX Runtime's Cast leaves its result uninitialized."""
    return (0, 1) if name == "saturate" else (*_FLAGS, *others)


@lru_cache(1)
def node_cases() -> Sequence[tuple[NodeProto, Sequence[ValueInfoProto], Sequence[Array], int]]:
    """The node of each case, its declared inputs and their values, and its opset."""
    found = []
    for case in collected():
        model, data = case.model, case.data_sets
        if model is None or not data or len(model.graph.node) != 1 or model.graph.node[0].op_type in LEFT_OUT:
            continue
        values = [numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value for value in data[0][0]]
        arrays = [np.asarray(value) for value in values if isinstance(value, (np.ndarray, np.generic))]
        if len(arrays) == len(values) and sum(array.size for array in arrays) <= MOST_ELEMENTS:
            opset = next((entry.version for entry in model.opset_import if not entry.domain), NEWEST)
            found.append((model.graph.node[0], tuple(model.graph.input), tuple(arrays), min(opset, NEWEST)))
    return found


@lru_cache(1)
def _words() -> Mapping[tuple[str, str], Sequence[bytes]]:
    """The string values that attributes of operators have in the cases."""
    found: dict[tuple[str, str], dict[bytes, None]] = defaultdict(dict)
    for node, *_ in node_cases():
        for attribute in node.attribute:
            if attribute.type == AttributeProto.STRING:
                found[node.op_type, attribute.name][attribute.s] = None
    return {key: tuple(texts) for key, texts in found.items()}


class Mutation:
    """Draws changes to a case."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return bool(self.random.random() < share)

    def pick(self, options: Sequence[Any]) -> Any:
        """One of some values."""
        return options[int(self.random.integers(len(options)))]

    def array(self, array: Array) -> Array:
        """An operand of another size, or, for a list of axes or sizes, with another element."""
        if array.ndim and self.chance(0.35):
            axis = int(self.random.integers(array.ndim))
            size = array.shape[axis]
            wanted = max(0, self.pick((0, 1, size - 1, size + 1, size + 2, max(1, size // 2))))
            if size:
                array = np.take(array, np.arange(wanted) % size, axis)
        if array.ndim > 1 and array.shape[0] and self.chance(0.1):
            array = array[0]
        elif self.chance(0.05):
            array = array[np.newaxis]
        if array.dtype == np.int64 and array.size and self.chance(0.3):
            array = array.copy()
            place = np.unravel_index(int(self.random.integers(array.size)), array.shape)
            array[place] = self.pick((0, 1, 2, 3, -1, int(array[place]) + 1))
        return array

    def attributes(self, node: NodeProto, schema: onnx.defs.OpSchema) -> None:
        """The attributes with some changed, added or removed; only attributes of the operator."""
        words = _words()
        kept = [attribute for attribute in node.attribute if attribute.name in schema.attributes and not self.chance(0.05)]
        for attribute in kept:
            if not self.chance(0.3):
                continue
            if attribute.type == AttributeProto.INT:
                attribute.i = self.pick(_integers(attribute.name, (attribute.i + 1, attribute.i - 1)))
            elif attribute.type == AttributeProto.INTS and attribute.ints:
                place = int(self.random.integers(len(attribute.ints)))
                attribute.ints[place] = self.pick((0, 1, 2, 3, -1, attribute.ints[place] + 1, attribute.ints[place] - 1))
            elif attribute.type == AttributeProto.FLOAT:
                attribute.f = self.pick((0.0, 0.5, 1.0, 2.0))
            elif attribute.type == AttributeProto.STRING:
                attribute.s = self.pick(words[node.op_type, attribute.name])
        there = {attribute.name for attribute in kept}
        for name, declared in schema.attributes.items():
            if name not in there and self.chance(0.15):
                if declared.type == onnx.defs.OpSchema.AttrType.INT:
                    kept.append(helper.make_attribute(name, self.pick(_integers(name))))
                elif (node.op_type, name) in words:
                    kept.append(helper.make_attribute(name, self.pick(words[node.op_type, name])))
        node.ClearField("attribute")
        node.attribute.extend(kept)

    def sizes(self, shape: Sequence[int]) -> list[int | None]:
        """Declared sizes: all, some, or none."""
        unknown = self.pick((0.0, 0.3, 1.0))
        return [None if self.chance(unknown) else size for size in shape]


def mutated_case(seed: int) -> Case | None:
    """The case of a seed; None if ONNX Runtime does not run it."""
    draw = Mutation(seed)
    source, inputs, arrays, opset = draw.pick(node_cases())
    if draw.chance(0.5):
        opset = draw.pick(range(OLDEST, NEWEST + 1))
    node = NodeProto()
    node.CopyFrom(source)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    draw.attributes(node, schema)
    graph = onnx.GraphProto(name="case", node=[node])
    feed: dict[str, Array] = {}
    for i, (value, array) in enumerate(zip(inputs, map(draw.array, arrays), strict=True)):
        if i and draw.chance(0.6):
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), value.name))
        else:
            graph.input.append(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, draw.sizes(array.shape)))
            feed[value.name] = array
    names = [name for name in node.output if name]
    graph.output.extend(ValueInfoProto(name=name, type=TypeProto()) for name in names)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    if node.domain:
        model.opset_import.append(helper.make_opsetid(node.domain, schema.since_version))
    return _with_shapes(model, feed, draw, f"{node.op_type} {seed}")


def _with_shapes(model: ModelProto, feed: Mapping[str, Array], draw: Mutation, name: str) -> Case | None:
    """The model with declared outputs and their shapes as further outputs."""
    try:
        runner = Runner(model, threads=1)
        results = runner.run(feed)
        if bits_differ(results, runner.run(feed)):
            return None  # ONNX Runtime leaves some elements uninitialized
    except Exception:  # ONNX Runtime has no exception class for what it rejects
        return None
    graph = model.graph
    del graph.output[:]
    for (output, kind), result in zip(runner.outputs, results, strict=True):
        if not isinstance(result, np.ndarray) or not kind.startswith("tensor("):
            return None
        element = helper.np_dtype_to_tensor_dtype(result.dtype)
        graph.output.append(helper.make_tensor_value_info(output, element, draw.sizes(result.shape)))
        graph.node.append(helper.make_node("Shape", [output], [f"{output}_shape"]))
        graph.output.append(helper.make_tensor_value_info(f"{output}_shape", onnx.TensorProto.INT64, [None]))
    return counted(name, model, (feed,))
