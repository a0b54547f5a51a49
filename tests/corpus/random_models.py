"""Random models: small graphs of the operators that rules are about, in the neighbourhoods that make rules fire."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

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


class Maker:
    """Makes one model from a seed."""

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

    # ---- operators

    def unary(self) -> None:
        """An elementwise operator of one operand."""
        x = self.floating()
        if x is not None:
            op = self.one_of(
                ["Neg", "Neg", "Relu", "Relu", "Abs", "Identity", "Sigmoid", "Tanh", "Floor", "Sign", "Erf", "Softplus", "Clip"]
            )
            extra = [self.constant(-0.5), self.constant(0.75)] if op == "Clip" else []
            self.node(op, [x, *extra], "float32", x.shape)

    def binary(self) -> None:
        """Arithmetic, often with a constant."""
        x = self.floating() if self.chance(0.85) else self.value(lambda value: value.dtype == "int64")
        if x is None:
            return
        y = self.partner(x)
        op = self.one_of(
            ["Add", "Sub", "Mul", "Add", "Mul", "Max", "Min"] if x.dtype == "int64" else ["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"]
        )
        if op == "Pow":
            y = self.constant(self.one_of([1.0, 2.0, 0.5, 3.0]))
            x = self.node("Abs", [x], "float32", x.shape)[0]
        if op == "Div":
            y = self.constant(self.one_of([1.0, 2.0, -0.25, 3.0]))
        pair = [x, y] if self.chance(0.7) or op in ("Div", "Pow") else [y, x]
        self.node(op, pair, x.dtype, np.broadcast_shapes(x.shape, y.shape))

    def compare(self) -> None:
        """A comparison, a logical operator, or a choice between two values."""
        x = self.floating()
        if x is None:
            return
        y = self.partner(x)
        (flag,) = self.node(self.one_of(["Less", "Greater", "Equal", "LessOrEqual"]), [x, y], "bool", np.broadcast_shapes(x.shape, y.shape))
        if self.chance(0.3):
            (flag,) = self.node("Not", [flag], "bool", flag.shape)
        if self.chance(0.3):
            other = self.partner(flag)
            (flag,) = self.node(self.one_of(["And", "Or"]), [flag, other], "bool", np.broadcast_shapes(flag.shape, other.shape))
        if self.chance(0.7):
            z = self.partner(x)
            if not broadcasts(z.shape, flag.shape):
                z = self.constant(self.number())
            self.node("Where", [flag, x, z], "float32", np.broadcast_shapes(flag.shape, x.shape, z.shape))

    def cast(self) -> None:
        """A cast, and often one back."""
        x = self.value()
        if x is None:
            return
        kinds = {"float32": ["float64", "float32"], "float64": ["float32"], "int64": ["float32", "float64"], "bool": ["float32", "int64"]}
        target = self.one_of(kinds[x.dtype])
        (y,) = self.node("Cast", [x], target, x.shape, to=KINDS[target])
        if target == "float64" or self.chance(0.2):
            self.node("Cast", [y], "float32", x.shape, to=TensorProto.FLOAT)

    def transpose(self) -> None:
        """A permutation, and often another."""
        x = self.value(lambda value: len(value.shape) > 1)
        for _ in range(self.one_of([1, 1, 2])):
            if x is not None:
                perm = [int(i) for i in self.random.permutation(len(x.shape))]
                (x,) = self.node("Transpose", [x], x.dtype, tuple(x.shape[i] for i in perm), perm=perm)

    def reshape(self) -> None:
        """A reshape by constants, or by a shape that is computed from another."""
        x = self.value(lambda value: value.shape.count(N) <= 1 and all(size % N or size == N for size in value.shape))
        if x is None:
            return
        fixed = [size for size in x.shape if size != N]
        target = factors(int(np.prod(fixed, dtype=int)), self.random)
        if N in x.shape:
            place = int(self.random.integers(len(target) + 1))
            entries = [*target[:place], -1, *target[place:]]
            shape = tuple(N if entry == -1 else entry for entry in entries)
            if place < len(x.shape) and x.shape[place] == N and self.chance(0.5):
                entries[place] = 0
            if self.chance(0.4):
                self.node("Reshape", [x, self.computed_shape(x, entries)], x.dtype, shape)
                return
        else:
            entries, shape = list(target), tuple(target)
            if entries and self.chance(0.4):
                entries[int(self.random.integers(len(entries)))] = -1
        self.node("Reshape", [x, self.constant(entries, "int64")], x.dtype, shape)

    def computed_shape(self, x: Value, entries: list[int]) -> Value:
        """The shape as exporters compute it: Shape, Gather, Unsqueeze, Concat."""
        (shape,) = self.node("Shape", [x], "int64", (len(x.shape),))
        (size,) = self.node("Gather", [shape, self.constant(x.shape.index(N), "int64")], "int64", ())
        (size,) = self.node("Unsqueeze", [size, self.constant([0], "int64")], "int64", (1,))
        parts = [size if entry in (0, -1) else self.constant([entry], "int64") for entry in entries]
        return self.node("Concat", parts, "int64", (len(parts),), axis=0)[0]

    def axes(self) -> None:
        """New axes, and their removal."""
        x = self.value()
        if x is None:
            return
        if 1 in x.shape and self.chance(0.5):
            axis = x.shape.index(1)
            self.node("Squeeze", [x, self.constant([axis], "int64")], x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :]))
        elif len(x.shape) < 5:
            axis = int(self.random.integers(len(x.shape) + 1))
            self.node("Unsqueeze", [x, self.constant([axis], "int64")], x.dtype, (*x.shape[:axis], 1, *x.shape[axis:]))

    def slice(self) -> None:
        """A part of an axis, forwards or backwards."""
        x = self.value(lambda value: len(value.shape) > 0)
        if x is None:
            return
        axis = int(self.random.integers(len(x.shape)))
        size = x.shape[axis]
        steps: list[tuple[int, int, int]] = [(0, 2**31, 1), (-1, -(2**31), -1)]
        if size % N:
            start, end, step = (
                int(i)
                for i in (self.random.integers(-size, size), self.random.integers(-size - 1, size + 3), self.one_of([1, 1, 2, -1, -2]))
            )
            steps.append((start, end, step))
        start, end, step = self.one_of(steps)
        length = len(range(size)[start:end:step])
        bounds = [self.constant([number], "int64") for number in (start, end, axis if self.chance(0.7) else axis - len(x.shape), step)]
        self.node("Slice", [x, *bounds], x.dtype, (*x.shape[:axis], length, *x.shape[axis + 1 :]))

    def concat(self) -> None:
        """A concatenation of a value with itself, with a constant, or of its own parts."""
        x = self.value(lambda value: len(value.shape) > 0)
        if x is None:
            return
        axis = int(self.random.integers(len(x.shape)))
        size = x.shape[axis]
        if self.chance(0.4) and size % N and size > 1:
            first = int(self.random.integers(1, size))
            parts = self.node(
                "Split",
                [x, self.constant([first, size - first], "int64")],
                x.dtype,
                resized(x, axis, first),
                resized(x, axis, size - first),
                axis=axis,
            )
            self.node("Concat", parts if self.chance(0.7) else parts[::-1], x.dtype, x.shape, axis=axis)
        elif int(np.prod(x.shape)) < 2000:
            others = [x] * int(self.random.integers(1, 3))
            self.node("Concat", others, x.dtype, resized(x, axis, size * len(others)), axis=axis)

    def move(self) -> None:
        """Expand, Tile, Pad, Gather, Flatten."""
        x = self.floating()
        if x is None or int(np.prod(x.shape)) > 2000:
            return
        op = self.one_of(["Expand", "Tile", "Pad", "Gather", "Flatten"])
        rank = len(x.shape)
        if op == "Expand":
            entries = [1 if size % N == 0 else size if size > 1 or self.chance(0.5) else 3 for size in x.shape]
            self.node(op, [x, self.constant(entries, "int64")], x.dtype, np.broadcast_shapes(x.shape, tuple(entries)))
        elif op == "Tile":
            repeats = [self.one_of([1, 1, 2]) for _ in x.shape]
            self.node(op, [x, self.constant(repeats, "int64")], x.dtype, tuple(a * b for a, b in zip(x.shape, repeats, strict=True)))
        elif op == "Pad" and rank and all(size % N for size in x.shape):
            before, after = ([self.one_of([0, 0, 1]) for _ in x.shape] for _ in range(2))
            shape = tuple(size + a + b for size, a, b in zip(x.shape, before, after, strict=True))
            extra = [self.constant(self.number())] if self.chance(0.5) else []
            self.node(op, [x, self.constant(before + after, "int64"), *extra], x.dtype, shape)
        elif op == "Gather" and rank:
            axis = int(self.random.integers(rank))
            if x.shape[axis] > 0:
                places = self.random.integers(-1, min(x.shape[axis], 2), size=self.one_of([(), (1,), (2,), (2, 2)]))
                shape = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
                self.node(op, [x, self.constant(places, "int64")], x.dtype, shape, axis=axis)
        elif op == "Flatten" and x.shape.count(N) <= 1:
            axis = int(self.random.integers(rank + 1))
            shape = (int(np.prod(x.shape[:axis], dtype=int)), int(np.prod(x.shape[axis:], dtype=int)))
            self.node(op, [x], x.dtype, shape, axis=axis)

    def reduce(self) -> None:
        """A reduction, a softmax, or a running sum."""
        x = self.floating()
        if x is None or not x.shape or 0 in x.shape:
            return
        op = self.one_of(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "Softmax", "LogSoftmax", "CumSum", "ArgMax"])
        axis = int(self.random.integers(-len(x.shape), len(x.shape)))
        keep = self.one_of([0, 1])
        place = axis % len(x.shape)
        reduced = resized(x, place, 1) if keep else (*x.shape[:place], *x.shape[place + 1 :])
        if op in ("Softmax", "LogSoftmax"):
            self.node(op, [x], "float32", x.shape, axis=axis)
        elif op == "CumSum":
            self.node(op, [x, self.constant(axis, "int64")], "float32", x.shape)
        elif op == "ArgMax":
            self.node(op, [x], "int64", reduced, axis=axis, keepdims=keep)
        elif op == "ReduceSum" or self.opset >= 18:
            self.node(op, [x, self.constant([axis], "int64")], "float32", reduced, keepdims=keep)
        else:
            self.node(op, [x], "float32", reduced, axes=[axis], keepdims=keep)

    def product(self) -> None:
        """A product by a weight, with what often follows it."""
        x = self.value(
            lambda value: value.dtype == "float32" and len(value.shape) > 1 and 0 < value.shape[-1] < 40 and value.shape[-1] % N != 0
        )
        if x is None:
            return
        width = self.one_of([1, 3, 4])
        weight = self.constant(self.random.normal(size=(x.shape[-1], width)))
        if self.chance(0.2):
            (weight,) = self.node("Mul", [weight, self.constant(self.number())], "float32", weight.shape)
        if len(x.shape) == 2 and self.chance(0.4):
            bias = self.constant(self.random.normal(size=self.one_of([(width,), (1, width), (1,), ()])))
            (y,) = self.node(
                "Gemm", [x, weight, bias], "float32", (x.shape[0], width), alpha=self.one_of([1.0, 0.5]), beta=self.one_of([1.0, 2.0])
            )
        else:
            (y,) = self.node("MatMul", [x, weight], "float32", (*x.shape[:-1], width))
        for op in ("Add", "Mul", "Div", "Add"):
            if self.chance(0.4):
                numbers = self.random.normal(size=self.one_of([(width,), (1,), ()])) if op != "Div" else self.one_of([2.0, 3.0])
                (y,) = self.node(op, [y, self.constant(numbers)], "float32", y.shape)

    def convolution(self) -> None:
        """A convolution of one or two dimensions, transposed or not, with what often follows it."""
        x = self.value(
            lambda value: (
                value.dtype == "float32" and len(value.shape) in (3, 4) and all(0 < size < 40 and size % N for size in value.shape[1:])
            )
        )
        if x is None:
            return
        channels, outputs = x.shape[1], self.one_of([1, 2, 3])
        kernel = self.one_of([1, 1, min(3, *x.shape[2:])])
        size = (kernel,) * (len(x.shape) - 2)
        transposed = self.chance(0.25)
        weight = self.constant(self.random.normal(size=(channels, outputs, *size) if transposed else (outputs, channels, *size)))
        spatial = tuple(side + kernel - 1 if transposed else side - kernel + 1 for side in x.shape[2:])
        bias = [self.constant(self.random.normal(size=outputs))] if self.chance(0.5) else []
        (y,) = self.node("ConvTranspose" if transposed else "Conv", [x, weight, *bias], "float32", (x.shape[0], outputs, *spatial))
        for _ in range(self.one_of([0, 1, 2, 3])):
            step = self.one_of(["BatchNormalization", "Mul", "Add", "Relu", "Identity", "Sub"])
            if step == "BatchNormalization":
                parts = [self.constant(self.random.normal(size=outputs)) for _ in range(3)]
                (y,) = self.node(step, [y, *parts, self.constant(self.random.uniform(0.5, 2, outputs))], "float32", y.shape)
            elif step in ("Relu", "Identity"):
                (y,) = self.node(step, [y], "float32", y.shape)
            else:
                shape = self.one_of([(), (1,), (outputs, *(1 for _ in size)), (1, outputs, *(1 for _ in size)), (1,) * len(y.shape)])
                numbers = np.full(shape, self.number()) if self.chance(0.3) else self.random.normal(size=shape)
                (y,) = self.node(step, [y, self.constant(numbers)], "float32", np.broadcast_shapes(y.shape, shape))

    def pool(self) -> None:
        """Pooling, or a rearrangement of channels and space."""
        x = self.value(
            lambda value: value.dtype == "float32" and len(value.shape) == 4 and all(1 < size < 40 and size % N for size in value.shape[2:])
        )
        if x is None or x.shape[1] % N == 0:
            return
        op = self.one_of(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization", "SpaceToDepth"])
        batch, channels, height, width = x.shape
        if op in ("MaxPool", "AveragePool"):
            pads = self.one_of([[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]])
            shape = (batch, channels, height + pads[0] + pads[2] - 1, width + pads[1] + pads[3] - 1)
            self.node(op, [x], "float32", shape, kernel_shape=[2, 2], pads=pads)
        elif op == "SpaceToDepth":
            if height % 2 == 0 and width % 2 == 0:
                (y,) = self.node(op, [x], "float32", (batch, channels * 4, height // 2, width // 2), blocksize=2)
                self.node("DepthToSpace", [y], "float32", x.shape, blocksize=2)
        elif op == "InstanceNormalization":
            self.node(op, [x, *(self.constant(self.random.normal(size=channels)) for _ in range(2))], "float32", x.shape)
        else:
            self.node(op, [x], "float32", (batch, channels, 1, 1))

    def variadic(self) -> None:
        """A sum, mean, maximum or minimum of one to three operands, or an operator with a slope."""
        x = self.floating()
        if x is None:
            return
        op = self.one_of(["Sum", "Mean", "Max", "Min", "PRelu", "LeakyRelu", "Elu"])
        if op == "PRelu":
            self.node(op, [x, self.constant(0.25)], "float32", x.shape)
        elif op in ("LeakyRelu", "Elu"):
            self.node(op, [x], "float32", x.shape, alpha=self.one_of([0.0, 0.1, 1.0]))
        else:
            parts = [x, *(self.partner(x) for _ in range(int(self.random.integers(0, 3))))]
            try:
                shape = np.broadcast_shapes(*(part.shape for part in parts))
            except ValueError:
                return
            self.node(op, parts, "float32", shape)

    def sizes(self) -> None:
        """Values made from shapes: ranges, filled tensors, expansions to the shape of another value, sizes as numbers."""
        x = self.floating()
        if x is None:
            return
        op = self.one_of(["Range", "ConstantOfShape", "Expand", "Size", "Shape"])
        (shape,) = self.node("Shape", [x], "int64", (len(x.shape),))
        if op == "Range" and x.shape and x.shape[0] % N:
            (size,) = self.node("Gather", [shape, self.constant(0, "int64")], "int64", ())
            self.node(op, [self.constant(0, "int64"), size, self.constant(1, "int64")], "int64", (x.shape[0],))
        elif op == "ConstantOfShape":
            (filled,) = self.node(op, [shape], "float32", x.shape, value=numpy_helper.from_array(np.array([self.number()], np.float32)))
            self.node(self.one_of(["Add", "Mul"]), [x, filled], "float32", x.shape)
        elif op == "Expand":
            self.node(op, [self.constant(np.full((1,) * len(x.shape), self.number())), shape], "float32", x.shape)
        elif op == "Size":
            self.node(op, [x], "int64", ())

    def pick(self) -> None:
        """The largest elements, a diagonal half, elements by index."""
        x = self.value(
            lambda value: value.dtype == "float32" and len(value.shape) > 1 and 1 < value.shape[-1] < 40 and value.shape[-1] % N != 0
        )
        if x is None:
            return
        op = self.one_of(["TopK", "Trilu", "GatherElements", "Einsum"])
        if op == "TopK":
            shape = (*x.shape[:-1], 1)
            values, _ = self.node(op, [x, self.constant([1], "int64")], "float32", shape, shape, axis=-1)
            self.values = [value for value in self.values if value.name != f"v{self.count - 1}"]
            self.values.append(values)
        elif op == "Trilu":
            self.node(op, [x], "float32", x.shape, upper=self.one_of([0, 1]))
        elif op == "GatherElements" and all(size % N for size in x.shape):
            places = self.random.integers(-1, 2, size=x.shape)
            self.node(op, [x, self.constant(places, "int64")], "float32", x.shape, axis=len(x.shape) - 1)
        elif op == "Einsum" and len(x.shape) == 2:
            weight = self.constant(self.random.normal(size=(x.shape[1], 3)))
            self.node(op, [x, weight], "float32", (x.shape[0], 3), equation="ij,jk->ik")

    def branch(self) -> None:
        """A condition on a value whose branches read values of the outside."""
        x = self.floating()
        if x is None or 0 in x.shape:
            return
        zero = self.constant(self.number())
        graphs = []
        for side in range(2):
            names = [f"b{self.count}_{side}_{i}" for i in range(3)]
            inner = [
                helper.make_node(self.one_of(["Add", "Mul", "Sub"]), [x.name, zero.name], [names[0]]),
                helper.make_node(self.one_of(["Neg", "Relu", "Identity"]), [names[0]], [names[1]]),
                helper.make_node(self.one_of(["Neg", "Relu", "Abs"]), [names[1]], [names[2]]),
            ]
            graphs.append(
                helper.make_graph(
                    inner, f"branch{side}", [], [helper.make_tensor_value_info(names[2], KINDS["float32"], symbolic(x.shape))]
                )
            )
        whole = list(range(len(x.shape)))
        reduced = [x, self.constant(whole, "int64")] if whole else [x]
        (largest,) = self.node("ReduceSum", reduced, "float32", (), keepdims=0)
        (flag,) = self.node("Greater", [largest, self.constant(0.0)], "bool", ())
        self.node("If", [flag], "float32", x.shape, then_branch=graphs[0], else_branch=graphs[1])

    def normalise(self) -> None:
        """A layer normalisation."""
        if self.opset < 17:
            return
        x = self.value(
            lambda value: value.dtype == "float32" and len(value.shape) > 0 and 1 < value.shape[-1] < 40 and value.shape[-1] % N != 0
        )
        if x is not None:
            width = x.shape[-1]
            parts = [self.constant(self.random.normal(size=width)) for _ in range(2)]
            self.node("LayerNormalization", [x, *parts], "float32", x.shape, axis=-1)

    def repeat(self) -> None:
        """A node that is there already, once more."""
        if self.nodes:
            node = self.one_of(self.nodes)
            if len(node.output) == 1:
                old = next(value for value in self.values if value.name == node.output[0])
                copy = NodeProto()
                copy.CopyFrom(node)
                new = Value(f"v{self.count}", old.dtype, old.shape, old.constant)
                self.count += 1
                copy.name, copy.output[0] = f"again_{self.count}", new.name
                self.nodes.append(copy)
                self.values.append(new)

    def fold(self) -> None:
        """Starts a computation on constants."""
        shape = self.one_of([(), (1,), (3,), (2, 3), (1, 3, 1)])
        self.values.append(self.constant(self.random.normal(size=shape) if self.chance(0.6) else np.full(shape, self.number())))

    # ---- the whole

    def model(self, steps: int) -> ModelProto:
        """A model of about so many steps."""
        size = N if self.symbolic else 4
        for shape in [
            self.one_of([(size, 4), (2, size, 4), (size, 2, 5, 5), (size, 2, 6), (3, 4), (size,), (4, 4), (1, 3)])
            for _ in range(self.one_of([1, 2, 2]))
        ]:
            self.input("float32", shape)
        if self.chance(0.2):
            self.input("int64", (size,))
        weights = {
            self.unary: 4, self.binary: 7, self.compare: 1, self.cast: 2, self.transpose: 3, self.reshape: 4, self.axes: 2, self.slice: 2,
            self.concat: 2, self.move: 3, self.reduce: 1, self.product: 3, self.convolution: 3, self.normalise: 1, self.repeat: 2, self.fold: 1,
            self.pool: 2, self.variadic: 1, self.sizes: 1, self.pick: 1, self.branch: 1,
        }  # fmt: skip
        options = [step for step, weight in weights.items() for _ in range(weight)]
        for _ in range(steps):
            self.one_of(options)()
        read = {name for node in self.nodes for name in node.input}
        made = [value for value in self.values if value.name.startswith("v")]
        outputs = [value for value in made if value.name not in read or self.chance(0.1)][-6:] or self.inputs[:1]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(value.name, KINDS[value.dtype], symbolic(value.shape)) for value in self.inputs],
            [
                helper.make_tensor_value_info(value.name, KINDS[value.dtype], [f"{value.name}_{i}" for i in range(len(value.shape))])
                for value in outputs
            ],
            self.tensors,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def feed(self, seed: int = 0) -> dict[str, Array]:
        """Inputs of the sizes that the model was made with."""
        random = np.random.default_rng(seed)
        return {
            value.name: random.integers(-3, 3, value.shape)
            if value.dtype == "int64"
            else random.normal(size=value.shape).astype(value.dtype)
            for value in self.inputs
        }


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
