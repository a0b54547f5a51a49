"""Constant folding as a decision: what may be folded, and what it costs in bytes."""

from collections.abc import Sequence

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.evaluate import EvaluateError, Value, evaluate_call, gives_splat
from passat.ir.folding import folded_value, is_endless, keeps_bits
from passat.ir.module import IRModule
from passat.ir.onnx_mapping import DEFAULT_OPSET
from passat.ir.op import KnownValue, Op
from passat.ir.shape import is_static
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.engine.deferred import deferred, is_worth_deferring


def written_opset(mod: IRModule | None) -> int:
    """The opset that a module is written in: that of the ONNX model which it was read from, or the one for all others."""
    return int(getattr(None if mod is None else mod.attrs.get("onnx"), "version", DEFAULT_OPSET))


class Folder:
    """Decides and folds. A result may be `max_growth` bytes larger than the constants it is made of, since these may go;
    what is refused for its size, or for that of its operands, is counted in `refused`. Splats weigh nothing. A kernel that fails leaves
    the call as it is.
    With `static`, dynamic operators whose shapes are known become static ones on the way, so that the types behind them become better.
    With `exact` only calls are folded that `keeps_bits` allows; the others are left to ONNX Runtime.
    `opset` is that of the model which the calls are part of.
    """

    def __init__(
        self, max_growth: int = 1 << 20, max_bytes: int = 1 << 30, *, static: bool = False, exact: bool = False, opset: int = DEFAULT_OPSET
    ) -> None:
        self.max_growth = max_growth
        self.max_bytes = max_bytes
        self.static = static
        self.exact = exact
        self.opset = opset
        self.refused = 0
        self.failed: dict[str, int] = {}

    def fold(self, op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> Value | None:
        """The value of a call on constants, or None: stateful, without operands or kernel, of unknown size, too large, or not exact."""
        if op.stateful or op.kernel is None or not values or (self.exact and not keeps_bits(op, values, type_)):
            return None
        size = _bytes(type_)
        if size is None:
            return None
        if size > min(self.max_growth, self.max_bytes) and self._is_too_large(op, values, size):
            self.refused += 1
            return None
        if is_endless(op, values):
            self.refused += 1
            return None
        try:
            return self.evaluate(op, values, attrs, type_)
        except EvaluateError:
            self.failed[op.name] = self.failed.get(op.name, 0) + 1
            return None

    def evaluate(self, op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> Value:
        """The value of a call; one that takes long is computed when its elements are first needed. Raises EvaluateError."""
        if isinstance(type_, TensorType) and is_worth_deferring(op, values, attrs, type_):
            return deferred(self._value_in_any_case, op, values, attrs, type_)
        return self._value(op, values, attrs, type_)

    def _value(self, op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> Value:
        return folded_value(op, values, attrs, type_, self.opset)

    def _value_in_any_case(self, op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> Value:
        """The value of a deferred call, which has become part of the program: by the kernel where ONNX Runtime refuses."""
        try:
            return self._value(op, values, attrs, type_)
        except EvaluateError:
            return evaluate_call(op, values, attrs, type_)

    def from_known(self, known: KnownValue | None, type_: TensorType) -> Tensor | None:
        """The constant that shape arithmetic knows in full (all elements integers or bools)."""
        if known is None or isinstance(known, tuple) or not type_.is_static:
            return None
        elements = known.reshape(-1).tolist()
        if any(type(element) not in (int, bool) for element in elements):
            return None
        return Tensor.dense(np.asarray(elements, bool if type_.dtype == "bool" else np.int64).reshape(known.shape), type_.dtype)

    def _is_too_large(self, op: Op, values: Sequence[Value], size: float) -> bool:
        return not self._splat(op, values) and size > min(_value_bytes(values) + self.max_growth, self.max_bytes)

    @staticmethod
    def _splat(op: Op, values: Sequence[Value]) -> bool:
        """Whether the result is one value repeated, which takes no bytes (see `evaluate_call`)."""
        flat = [tensor for value in values for tensor in (value if isinstance(value, tuple) else (value,))]
        return all(isinstance(tensor, Tensor) for tensor in flat) and gives_splat(op, [t for t in flat if isinstance(t, Tensor)])


def _bytes(type_: Type) -> float | None:
    if isinstance(type_, TensorType):
        return type_.nbytes if is_static(type_.shape) else None
    if isinstance(type_, TupleType):
        sizes = [_bytes(field) for field in type_.fields]
        return None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)
    return None


def _value_bytes(values: Sequence[Value]) -> int:
    """Bytes that the operands take in a file: nothing for a splat."""
    total = 0
    for value in values:
        total += _value_bytes(value) if isinstance(value, tuple) else 0 if value.is_splat else value.nbytes
    return total
