"""A random graph under construction: each node is run on ONNX Runtime when it is added, so its results are known; a node that fails is
rejected.

The functions that draw nodes therefore only need to come close to valid shapes and types.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from passat.runner import Runner
from tests.fuzz.values import BOOL, FLOAT, FLOATS, INT64, INTEGERS, NARROW, NEAT, OUTSIDE, STRING, Array, random_array

LARGEST: Final = 3000
"""Maximum number of elements of a value; a node that exceeds it is rejected."""
IR_VERSION: Final = 10
KINDS: Final[Mapping[str, int]] = {
    "float": FLOAT, "double": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "bool": BOOL, "string": STRING,
    "float8e4m3fn": TensorProto.FLOAT8E4M3FN, "float8e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ, "float8e5m2": TensorProto.FLOAT8E5M2,
    "float8e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ, "uint4": TensorProto.UINT4, "int4": TensorProto.INT4, "uint2": TensorProto.UINT2, "int2": TensorProto.INT2,
    **{f"{sign}int{bits}": getattr(TensorProto, f"{sign}int{bits}".upper()) for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Element types by their names in type strings."""

Fits = Callable[["Value"], bool]


@dataclass(eq=False)
class Value:
    """A value of the graph: its name, its element type, and its contents for the drawn inputs (a list for a sequence)."""

    name: str
    kind: int
    array: Any
    constant: bool = False
    """True for an initializer."""

    @property
    def is_sequence(self) -> bool:
        """True for a sequence of tensors."""
        return isinstance(self.array, list)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self.array.shape)

    @property
    def rank(self) -> int:
        """The number of axes of a tensor."""
        return len(self.shape)


@dataclass
class Input:
    """An input of the graph with its declared dimensions; None if no shape is declared."""

    value: Value
    dims: tuple[int | str | None, ...] | None


@dataclass
class Draft:
    """A candidate node: its operands and attributes."""

    inputs: Sequence[Value | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1


class Builder:
    """A graph that is built from a seed, in an opset."""

    def __init__(
        self, random: np.random.Generator, opset: int, *, tame: bool = True, most_inputs: int = 3, symbols: Mapping[str, int] | None = None
    ) -> None:
        self.random = random
        self.opset = opset
        self.tame = tame
        self.most_inputs = most_inputs
        self.symbols = dict(symbols or {})
        self.sizes = [1, 1, *(int(size) for size in random.choice([1, 2, 3, 4, 8], 3))]
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []
        self.inputs: list[Input] = []
        self.values: list[Value] = []
        self.functions: list[FunctionProto] = []
        self.prefix = ""
        """The prefix of names, which differs between inner graphs."""
        self.count = 0
        self.focus: Value | None = None
        """The value that the next node should read if possible."""
        self.never_empty = False
        """True if symbolic dimensions must not be 0, because ONNX Runtime would compute wrong results."""
        self.depth = 0
        """The number of enclosing graphs."""
        self.rejection = ""
        """The reason for which ONNX Runtime rejected the last rejected node."""
        kinds = [*sorted(OUTSIDE)]
        self.kinds = [FLOAT, FLOAT, FLOAT, *(int(kind) for kind in random.choice(kinds, 2))]

    # ---- choices

    def one_of(self, options: Sequence[Any]) -> Any:
        """One of several options."""
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.random.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """An integer from a range, including its end."""
        return int(self.random.integers(low, high + 1))

    def number(self) -> float:
        """A number that rules match, or any number."""
        return float(self.one_of([*NEAT, float(self.random.normal())]))

    def kind(self, allowed: Collection[int]) -> int:
        """An element type, if possible one that the graph prefers."""
        preferred = [kind for kind in self.kinds if kind in allowed]
        return int(self.one_of(preferred) if preferred and self.chance(0.8) else self.one_of(sorted(allowed)))

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        """A shape with a rank in a range."""
        options = [*self.sizes, *self.symbols.values(), *self.symbols.values()]
        return tuple(0 if self.chance(0.02) else int(self.one_of(options)) for _ in range(self.integer(low, high)))

    def inner(self, values: Sequence[Value]) -> "Builder":
        """A graph inside this one that starts with some values, and has no other inputs."""
        self.count += 1
        inside = Builder(self.random, self.opset, tame=self.tame, most_inputs=0)
        inside.prefix = f"{self.prefix}g{self.count}_"
        inside.sizes, inside.kinds, inside.functions = self.sizes, self.kinds, self.functions
        inside.values = list(values)
        inside.depth = self.depth + 1
        return inside

    # ---- values

    def name(self) -> str:
        """An unused name."""
        self.count += 1
        return f"{self.prefix}v{self.count}"

    def known(self, fits: Fits = lambda value: True) -> Value | None:
        """A suitable value of the graph, more often a recent one."""
        found = [value for value in self.values if fits(value)]
        if not found:
            return None
        if self.focus in found and self.chance(0.8):
            return self.focus
        return found[-1 - int(self.random.integers(min(len(found), 5)))] if self.chance(0.75) else self.one_of(found)

    def operand(self, kinds: Collection[int], fits: Fits = lambda value: True, shape: Callable[[], tuple[int, ...]] | None = None) -> Value:
        """A suitable tensor of one of some element types: an existing one, or a new input or constant of a shape."""
        found = self.known(lambda value: not value.is_sequence and value.kind in kinds and fits(value)) if self.chance(0.9) else None
        return found or self.fresh(self.kind(kinds), shape() if shape is not None else self.shape())

    def fresh(self, kind: int, shape: Sequence[int]) -> Value:
        """A new input, or a new constant."""
        if len(self.inputs) < self.most_inputs and kind in OUTSIDE and self.chance(0.7):
            return self.input(kind, shape)
        return self.constant(random_array(self.random, kind, shape, tame=self.tame), kind)

    def input(self, kind: int, shape: Sequence[int]) -> Value:
        """A new input. Symbolic sizes are declared by their names."""
        value = Value(f"in{len(self.inputs)}", kind, random_array(self.random, kind, shape, tame=self.tame))
        names = {size: name for name, size in self.symbols.items()}
        dims = tuple(names.get(size, size) for size in shape)
        declared = tuple(None if isinstance(dim, str) and self.chance(0.05) else dim for dim in dims)
        self.inputs.append(Input(value, None if self.symbols and self.chance(0.03) else declared))
        self.values.append(value)
        return value

    def constant(self, array: Any, kind: int = FLOAT) -> Value:
        """A new initializer, which nodes do not choose as an operand."""
        data = np.asarray(array) if kind in NARROW or kind == STRING else np.asarray(array, helper.tensor_dtype_to_np_dtype(kind))
        self.count += 1
        value = Value(f"{self.prefix}c{self.count}", kind, data, constant=True)
        self.tensors.append(numpy_helper.from_array(data, value.name))
        return value

    def ints(self, numbers: Sequence[int] | int, kind: int = INT64) -> Value:
        """Integers as a constant; sometimes as an input or a computed value, so that they are unknown before the run."""
        array = np.asarray(numbers, helper.tensor_dtype_to_np_dtype(kind))
        if len(self.inputs) < self.most_inputs and self.chance(0.1):
            value = Value(f"in{len(self.inputs)}", kind, array)
            self.inputs.append(Input(value, array.shape))
            return value
        value = self.constant(array, kind)
        return (self.again(value) if self.chance(0.07) else None) or value

    def partner(self, x: Value, kind: int | None = None) -> Value:
        """An operand that broadcasts with x."""
        kind = x.kind if kind is None else kind
        if self.chance(0.5):
            found = self.known(lambda value: not value.is_sequence and value.kind == kind and broadcasts(value.shape, x.shape))
            if found is not None:
                return found
        shape = [1 if size in self.symbols.values() or self.chance(0.4) else size for size in x.shape]
        if shape and self.chance(0.5):
            shape = shape[self.integer(0, len(shape)) :]
        if len(shape) < 6 and self.chance(0.1):
            shape = [int(self.one_of(self.sizes)), *shape]
        return self.fresh(kind, shape) if self.chance(0.15) else self.constant(random_array(self.random, kind, shape, tame=self.tame), kind)

    # ---- nodes

    def attempt(self, draw: Callable[[], "list[Value] | None"]) -> "list[Value] | None":
        """The nodes that a function adds, or no change if it returns None."""
        nodes, values, inputs, tensors, functions = (
            len(self.nodes),
            len(self.values),
            len(self.inputs),
            len(self.tensors),
            len(self.functions),
        )
        found = draw()
        if found is None:
            del self.nodes[nodes:], self.values[values:], self.inputs[inputs:], self.tensors[tensors:], self.functions[functions:]
        return found

    def again(self, value: Value) -> Value | None:
        """The same value as the result of a node."""
        made = self.node("Identity", [value])
        return made[0] if made else None

    def node(self, op: str, inputs: Sequence[Value | None], outputs: int = 1, domain: str = "", **attrs: Any) -> list[Value] | None:
        """Adds a node if ONNX Runtime runs it, and returns its results; attributes that are None are omitted."""
        return self.add(op, Draft(inputs, attrs, outputs), domain)

    def add(self, op: str, draft: Draft, domain: str = "", captured: Sequence[Value] = ()) -> list[Value] | None:
        """Adds a draft like `node`; `captured` are the values that graphs in its attributes read."""
        names = [self.name() for _ in range(draft.outputs)]
        made = helper.make_node(op, ["" if x is None else x.name for x in draft.inputs], names, name=f"{op}_{self.count}", domain=domain)
        for name, value in sorted(draft.attrs.items()):
            if value is not None:
                kind = AttributeProto.INTS if isinstance(value, list) and not value else None
                made.attribute.append(helper.make_attribute(name, value, attr_type=kind))
        reads = [x for x in draft.inputs if x is not None]
        results = self.results(made, [*reads, *captured])
        if results is None or any(size_of(value.array) > LARGEST for value in results):
            return None
        self.nodes.append(made)
        self.values += results
        return results

    def results(self, node: NodeProto, reads: Sequence[Value]) -> list[Value] | None:
        """The results of a node, or None if ONNX Runtime rejects it."""
        if any(value.is_sequence for value in reads):
            return self._replayed(node)
        tensors = [numpy_helper.from_array(value.array, value.name) for value in {value.name: value for value in reads}.values()]
        return self._run([node], tensors, {}, list(node.output), [])

    def _replayed(self, node: NodeProto) -> list[Value] | None:
        """The results of a node that reads sequences, which cannot be constants: runs the whole graph."""
        feed = {entry.value.name: entry.value.array for entry in self.inputs}
        return self._run([*self.nodes, node], self.tensors, feed, list(node.output), [declaration(entry) for entry in self.inputs])

    def _run(
        self,
        nodes: Sequence[NodeProto],
        tensors: Sequence[TensorProto],
        feed: Mapping[str, Any],
        names: list[str],
        inputs: list[ValueInfoProto],
    ) -> list[Value] | None:
        try:
            runner = Runner(self._model(nodes, tensors, names, inputs), threads=1)
            kinds = [kind_of(type_) for _, type_ in runner.outputs]
            if any(kind in NARROW for kind in kinds):  # which are not outputs
                casts = [helper.make_node("Cast", [name], [f"{name}_wide"], to=FLOAT) for name in names]
                wide = Runner(self._model([*nodes, *casts], tensors, [f"{name}_wide" for name in names], inputs), threads=1)
                arrays = [array.astype(helper.tensor_dtype_to_np_dtype(kind)) for array, kind in zip(wide.run(feed), kinds, strict=True)]
            else:
                arrays = runner.run(feed)
        except Exception as error:  # ONNX Runtime has no exception class for what it rejects
            self.rejection = str(error)
            return None
        return [Value(name, kind, array) for name, kind, array in zip(names, kinds, arrays, strict=True)]

    def _model(
        self, nodes: Sequence[NodeProto], tensors: Sequence[TensorProto], names: list[str], inputs: list[ValueInfoProto]
    ) -> ModelProto:
        graph = helper.make_graph(nodes, "probe", inputs, [helper.make_empty_tensor_value_info(name) for name in names], tensors)
        return helper.make_model(graph, opset_imports=self.imports(), ir_version=IR_VERSION, functions=self.functions)

    def imports(self) -> list[Any]:
        """The operator sets of the model."""
        own = {function.domain for function in self.functions}
        return [
            helper.make_opsetid("", self.opset),
            helper.make_opsetid("ai.onnx.ml", 3),
            *(helper.make_opsetid(domain, 1) for domain in sorted({"com.microsoft", "com.microsoft.nchwc", *own})),
        ]


def kind_of(type_: str) -> int:
    """The element type in ONNX Runtime's name of a type, such as `seq(tensor(float))`. Raises KeyError for other names."""
    return KINDS[type_.rpartition("tensor(")[2].rstrip(")")]


def size_of(array: Any) -> int:
    """The number of elements of a tensor or sequence."""
    return sum(map(size_of, array)) if isinstance(array, list) else int(np.size(array))


def declaration(entry: Input) -> ValueInfoProto:
    """The declaration of an input of the graph."""
    found: ValueInfoProto = helper.make_tensor_value_info(entry.value.name, entry.value.kind, entry.dims)
    return found


def broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    """True if two shapes broadcast."""
    try:
        np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        return False
    return True


__all__ = ["FLOATS", "INTEGERS", "KINDS", "Array", "Builder", "Draft", "Fits", "Input", "Value", "broadcasts", "declaration", "kind_of"]
