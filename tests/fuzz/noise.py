"""Estimates how much of a model's result is rounding: the values when every intermediate number changes by a few units in the last place.

Zeros also change their signs, which inexact rules may do: in every other draw one by one, in the others for a whole tensor. Results that
underflowed to zero change by up to the smallest normal number.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from benchmarks.differences import EPSILON, Difference, difference
from passat.runner import Runner
from tests.fuzz.builder import kind_of
from tests.fuzz.values import FLOATS, Array, is_finite

UNITS = 8
"""Units in the last place by which numbers change."""
DRAWS = 8
UNDERFLOWING = frozenset(("Mul", "Div", "Pow", "Exp"))
"""Operators whose result is zero for non-zero operands only if it underflows."""


def inner_values(model: ModelProto, feed: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
    """The values of all nodes of the main graph with their element types, without sequences and types that NumPy lacks."""
    names = [name for node in model.graph.node for name in node.output if name]
    try:
        return _shown(model, names, feed)
    except Exception:  # ONNX Runtime's inference determines more about values that are outputs, and may be wrong
        found = {}
        for name in names:
            with suppress(Exception):
                found.update(_shown(model, [name], feed))
        return found


def _shown(model: ModelProto, names: Sequence[str], feed: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
    """The values of some names. Raises the errors of ONNX Runtime."""
    declared = {value.name: value for value in model.graph.output}
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.graph.value_info.extend(value for name, value in declared.items() if name not in names)
    del copy.graph.output[:]
    copy.graph.output.extend(declared.get(name) or helper.make_empty_tensor_value_info(name) for name in names)
    kinds = {}
    for name, type_ in Runner(copy, threads=1).outputs:
        if type_.startswith("tensor(") and kind_of(type_) not in (*range(17, 30),):
            kinds[name] = kind_of(type_)
    kept = [value for value in copy.graph.output if value.name in kinds]
    del copy.graph.output[:]
    copy.graph.output.extend(kept)
    if not kinds:
        return {}
    return {name: (kinds[name], value) for name, value in zip(kinds, Runner(copy, threads=1).run(feed), strict=True)}


class Noise:
    """The results of a model for one set of inputs, and the effect of rounding on them."""

    def __init__(self, model: ModelProto, feed: Mapping[str, Any]) -> None:
        self.model = model
        self.feed = feed
        self.inner = inner_values(model, feed)
        arrays = [value for _, value in self.inner.values()]
        arrays += [np.asarray(value) for value in feed.values() if not isinstance(value, list)]
        arrays += [numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
        self.finite = all(is_finite(array) for array in arrays)
        """True if all numbers inside the model are finite, and far from the ends of their ranges."""
        self.large = any(
            not is_finite(array[np.isfinite(array)]) for array in arrays if array.dtype.kind in "fV" and "int" not in array.dtype.name
        ) or any(self._overflows(node) for node in model.graph.node)
        """True if some are finite but close to the ends of their ranges, or have exponentials that overflow, or results that overflow
        float16."""
        self._variants: list[list[Any]] | None = None

    def _overflows(self, node: NodeProto) -> bool:
        """True if an exponential of the main graph, or a float16 result, is infinite for finite operands. (ONNX Runtime computes chains of
        float16 in float32, and rounds at their end.)"""
        kind, after = self.inner.get(node.output[0], (0, None))
        if after is None or (node.op_type != "Exp" and kind != TensorProto.FLOAT16) or not np.any(np.isinf(after)):
            return False
        before = [value for name in node.input if (value := self._value(name)) is not None]
        with suppress(ValueError):  # not an elementwise operator: its operands have other shapes
            finite = [np.broadcast_to(np.isfinite(value), after.shape) for value in before if value.dtype.kind == "f"]
            return bool(np.any(np.isinf(after) & np.logical_and.reduce(finite, axis=0)))
        return False

    def _lost(self, node: NodeProto, result: Array) -> Array | None:
        """True where the result of a product is 0 although no operand is; None if it is nowhere so."""
        values = [self._value(name) for name in node.input]
        if not np.any(result == 0) or any(value is None for value in values):
            return None
        lost = result == 0
        for value in values:
            lost = lost & (value != 0)
        return lost if lost.shape == result.shape and np.any(lost) else None

    def _value(self, name: str) -> Array | None:
        """The value of a name: an input, a result or a constant."""
        if name in self.feed:
            return self.feed[name] if isinstance(self.feed[name], np.ndarray) else None
        if name in self.inner:
            return self.inner[name][1]  # type: ignore[no-any-return]  # tensors only
        return next((numpy_helper.to_array(tensor) for tensor in self.model.graph.initializer if tensor.name == name), None)

    def variants(self) -> list[list[Any]]:
        """The outputs for several draws of noise; fewer if the model does not run on some."""
        if self._variants is None:
            self._variants = []
            for seed in range(DRAWS):
                try:
                    self._variants.append(self._moved(np.random.default_rng(seed), together=bool(seed % 2)))
                except Exception:  # indices and sizes may have changed
                    continue
        return self._variants

    def of(self, index: int, expected: Any) -> Difference:
        """The largest difference that rounding makes to an output."""
        found = Difference()
        for outputs in self.variants():
            found = found.widest(difference(expected, outputs[index]))
        return found

    def _moved(self, random: np.random.Generator, *, together: bool) -> list[Any]:
        model = ModelProto()
        model.CopyFrom(self.model)
        nodes = list(model.graph.node)
        outputs = {value.name for value in model.graph.output}
        for tensor in model.graph.initializer:
            if tensor.data_type in FLOATS:
                array = numpy_helper.to_array(tensor)
                moved = np.asarray(
                    array * _factors(random, array, tensor.data_type, together), array.dtype
                )  # a scalar operand gives a scalar
                tensor.CopyFrom(numpy_helper.from_array(moved, tensor.name))
        del model.graph.node[:]
        for node in nodes:
            model.graph.node.append(node)
            made = model.graph.node[-1]
            for i, name in enumerate(node.output):
                kind, array = self.inner.get(name, (0, None))
                if kind not in FLOATS or array is None:
                    continue
                made.output[i] = f"{name} before noise"
                factor = numpy_helper.from_array(_factors(random, array, kind, together), f"{name} noise")
                model.graph.initializer.append(factor)
                lost = self._lost(node, array) if node.op_type in UNDERFLOWING and kind != TensorProto.BFLOAT16 else None
                product = name if lost is None else f"{name} without what is lost"
                model.graph.node.append(_product(made.output[i], factor.name, product, kind, len(model.graph.node)))
                if lost is not None:
                    # a sum with -0 is the number itself, regardless of its sign
                    smallest = np.where(lost, np.finfo(array.dtype).tiny * random.uniform(-1, 1, array.shape), -0.0).astype(array.dtype)
                    model.graph.initializer.append(numpy_helper.from_array(smallest, f"{name} lost"))
                    added = helper.make_node("Add", [product, f"{name} lost"], [name], name=f"noise {len(model.graph.node)}")
                    model.graph.node.append(added)
        assert outputs == {value.name for value in model.graph.output}
        feed = {
            name: np.asarray(value * _factors(random, value, helper.np_dtype_to_tensor_dtype(value.dtype), together), value.dtype)
            if not isinstance(value, list) and value.dtype.name in EPSILON
            else value
            for name, value in self.feed.items()
        }
        return Runner(model, threads=1).run(feed)


def _product(a: str, b: str, name: str, kind: int, count: int) -> Any:
    """A product; ONNX Runtime has none for bfloat16, so its values are unchanged."""
    if kind == TensorProto.BFLOAT16:
        return helper.make_node("Identity", [a], [name], name=f"noise {count}")
    return helper.make_node("Mul", [a, b], [name], name=f"noise {count}")


def _factors(random: np.random.Generator, array: Array, kind: int, together: bool) -> Array:
    """Factors for the elements. `together`: all zeros change their signs, or none does, and everything else stays."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    moved = 1.0 if together else 1 + UNITS * EPSILON[np.dtype(dtype).name] * random.uniform(-1, 1, array.shape)
    changed = random.random(() if together else array.shape) < 0.5
    return np.where((np.asarray(array) == 0) & changed, -1.0, moved).astype(dtype)
