"""Steps of random models that move data: permutations, views, slices, and shapes that are computed."""

import numpy as np
from onnx import numpy_helper

from tests.corpus.random_values import Builder, N, Value, factors, resized


class Movement(Builder):
    """A model that is being made, by steps that move data."""

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
