"""What random models are made of: values with shapes, choices among them, nodes and constants."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

N = 7
"""The size that the symbolic dimension `n` has while a model is made. No constant size is a multiple of it."""
OPSET = 18
KINDS = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]


class Value:
    """A value of the graph: its name, element type, and shape where n is `N`; the elements where it is a constant."""

    def __init__(self, name: str, dtype: str, shape: tuple[int, ...], constant: bool = False) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.constant = constant


class Builder:
    """A model that is being made, from a seed."""

    def __init__(self, seed: int, *, opset: int = OPSET, symbolic: bool = True) -> None:
        self.random = np.random.default_rng(seed)
        self.opset = opset
        self.symbolic = symbolic
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []
        self.inputs: list[Value] = []
        self.values: list[Value] = []
        self.count = 0

    # ---- choices

    def one_of(self, options: Sequence[Any]) -> Any:
        """One of some options."""
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        """True that often."""
        return bool(self.random.random() < probability)

    def value(self, fits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """A value that fits, the later ones more often."""
        found = [value for value in self.values if fits(value)]
        if not found:
            return None
        return found[-1 - int(self.random.integers(min(len(found), 6)))] if self.chance(0.8) else self.one_of(found)

    def floating(self, rank: int | None = None) -> Value | None:
        """A value of type float32, of some rank."""
        return self.value(lambda value: value.dtype == "float32" and (rank is None or len(value.shape) == rank))

    # ---- parts

    def input(self, dtype: str, shape: tuple[int, ...]) -> Value:
        """An input of the model."""
        found = Value(f"in{len(self.inputs)}", dtype, shape)
        self.inputs.append(found)
        self.values.append(found)
        return found

    def constant(self, array: Any, dtype: str = "float32") -> Value:
        """An initialiser."""
        data = np.asarray(array, dtype)
        found = Value(f"c{len(self.tensors)}", dtype, data.shape, constant=True)
        self.tensors.append(numpy_helper.from_array(data, found.name))
        return found

    def node(self, op: str, inputs: Sequence[Value | None], dtype: str, *shapes: tuple[int, ...], **attributes: Any) -> list[Value]:
        """A node, with results of one type; they may be read from now on."""
        found = []
        for shape in shapes:
            found.append(Value(f"v{self.count}", dtype, shape, constant=all(value is None or value.constant for value in inputs)))
            self.count += 1
        names = ["" if value is None else value.name for value in inputs]
        made = helper.make_node(op, names, [value.name for value in found], name=f"{op}_{len(self.nodes)}", **attributes)
        self.nodes.append(made)
        self.values += found
        return found

    def number(self) -> float:
        """A number that rules like, or any."""
        return float(self.one_of([0.0, 1.0, -1.0, 2.0, 0.5, -0.0, float(self.random.normal())]))

    def partner(self, x: Value) -> Value:
        """An operand that broadcasts against x."""
        if self.chance(0.4):
            other = self.value(lambda value: value.dtype == x.dtype and broadcasts(value.shape, x.shape))
            if other is not None:
                return other
        shape = [1 if size % N == 0 or self.chance(0.5) else size for size in x.shape]
        shape = shape[int(self.random.integers(len(shape) + 1)) :] if self.chance(0.6) else shape
        if self.chance(0.1):
            shape = [1, *shape]
        array = np.full(shape, self.number()) if self.chance(0.6) else self.random.normal(size=shape)
        return self.constant(array if x.dtype != "bool" else array > 0, x.dtype)


def symbolic(shape: tuple[int, ...]) -> list[int | str]:
    """A shape as the model declares it."""
    return ["n" if size == N else size for size in shape]


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two shapes broadcast, to something that is not much larger."""
    try:
        return int(np.prod(np.broadcast_shapes(a, b))) <= 4000
    except ValueError:
        return False


def resized(value: Value, axis: int, size: int) -> tuple[int, ...]:
    """The shape of a value with another size of one axis."""
    return (*value.shape[:axis], size, *value.shape[axis + 1 :])


def factors(size: int, random: np.random.Generator) -> list[int]:
    """A number as a product of up to four."""
    if size == 0:
        return [0, 1]
    found: list[int] = []
    for _ in range(int(random.integers(0, 3))):
        divisors = [d for d in range(1, min(size, 12) + 1) if size % d == 0 and d % N]
        found.append(int(divisors[int(random.integers(len(divisors)))]))
        size //= found[-1]
    return [*found, size] if size > 1 or not found or random.random() < 0.3 else found
