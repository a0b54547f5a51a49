"""Random models: small graphs of the operators that rules are about, in the neighbourhoods that make rules fire."""

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from tests.corpus.random_movement import Movement
from tests.corpus.random_values import KINDS, Array, N, Value, broadcasts, resized, symbolic


class Maker(Movement):
    """Makes one model from a seed."""

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
