"""Values of ONNX programs in the interpreter, and the operators that need no kernel: If, Loop, Scan, sequences and optional values."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType
from passat.runtime.interpreter import Closure, ExecutorError, Interpreter, Value
from passat.runtime.values import ConstructorValue

_SEQUENCE: Final = 0
_NONE: Final = 1
"""Tags of the values of sequences and of optional values without element. Other optional values are their element."""


def to_value(given: AnyValue) -> Value:
    """Converts an array, a list of values (a sequence), or None (an optional value without element)."""
    if given is None:
        return ConstructorValue(_NONE, ())
    if isinstance(given, (list, tuple)):
        return ConstructorValue(_SEQUENCE, map(to_value, given))
    return Tensor.dense(np.asarray(given))


def from_value(value: Value) -> AnyValue:
    """The opposite of `to_value`. Raises ExecutorError for other values."""
    if isinstance(value, ConstructorValue):
        return None if value.tag == _NONE else list(map(from_value, value.fields))
    if not isinstance(value, Tensor):
        raise ExecutorError("an output of the model must be a tensor, a sequence or an optional value")
    return value.numpy()


def run_region(interpreter: Interpreter, op: OpaqueOp, call: Call, args: Sequence[Value]) -> Value:
    """Computes a call of If, Loop or Scan, whose bodies are closures among the operands. Raises ExecutorError."""
    attrs = call.attrs
    count = len(args) - len(attrs["bodies"]) - sum(attrs["captured"])
    operands = [None if isinstance(arg, tuple) else arg for arg in args[:count]]
    bodies: dict[str, Callable[..., list[Value]]] = {}
    at = count + len(attrs["bodies"])
    for name, closure, captured in zip(attrs["bodies"], args[count:at], attrs["captured"], strict=True):
        assert isinstance(closure, Closure)
        bodies[name] = _body(interpreter, closure, args[at : at + captured])
        at += captured
    if op.op_type == "If":
        results = bodies["then_branch" if _number(operands[0]) else "else_branch"]()
    elif op.op_type == "Loop":
        results = _loop(bodies["body"], operands, call)
    else:
        results = _scan(bodies["body"], operands, call)
    present = [value for value, there in zip(results, attrs["outputs"], strict=False) if there == "1"]
    return present[0] if len(present) == 1 else tuple(present)


def _body(interpreter: Interpreter, closure: Closure, captured: Sequence[Value]) -> Callable[..., list[Value]]:
    def run(*values: Value) -> list[Value]:
        found = interpreter.call(closure, [*values, *captured])
        return list(found) if isinstance(found, tuple) else [found]

    return run


def _number(value: "Value | None") -> AnyValue:
    if not isinstance(value, Tensor) or value.size != 1:
        raise ExecutorError("a condition or a count must be a tensor of one element")
    return value.numpy().reshape(()).item()


def _loop(body: Callable[..., list[Value]], operands: "Sequence[Value | None]", call: Call) -> list[Value]:
    """Carried values, then the values of the iterations, stacked."""
    most = None if not operands or operands[0] is None else _number(operands[0])
    goes_on = True if len(operands) < 2 or operands[1] is None else bool(_number(operands[1]))
    carried = [ConstructorValue(_NONE, ()) if value is None else value for value in operands[2:]]
    rows: list[list[Value]] = []
    while goes_on and (most is None or len(rows) < most):
        again, *results = body(Tensor.dense(np.int64(len(rows))), Tensor.dense(np.bool_(goes_on)), *carried)
        goes_on = bool(_number(again))
        carried = results[: len(carried)]
        rows.append(results[len(carried) :])
    if not rows:
        return [*carried, *_empty(call, len(carried))]
    return [*carried, *(_stacked(column, 0) for column in zip(*rows, strict=True))]


def _empty(call: Call, skipped: int) -> list[Value]:
    """The stacked values of a loop without iterations, whose unknown sizes are 0."""
    type_ = call.checked_type
    fields = (type_.fields if isinstance(type_, TupleType) else (type_,))[skipped:]
    found: list[Value] = []
    for field in fields:
        if not isinstance(field, TensorType):
            raise ExecutorError("a loop without iterations returns values of unknown rank")
        shape = (0, *(size if isinstance(size, int) else 0 for size in field.shape[1:]))
        found.append(Tensor.dense(np.zeros(shape, to_numpy(field.dtype))))
    return found


def _scan(body: Callable[..., list[Value]], operands: "Sequence[Value | None]", call: Call) -> list[Value]:
    attrs = call.attrs
    count = attrs["num_scan_inputs"]
    carried: list[Value] = [value for value in operands[: len(operands) - count] if value is not None]
    scanned = [value.numpy() for value in operands[len(operands) - count :] if isinstance(value, Tensor)]
    axes = attrs.get("scan_input_axes") or (0,) * count
    backward = attrs.get("scan_input_directions") or (0,) * count
    steps = scanned[0].shape[axes[0]]
    rows: list[list[Value]] = []
    for step in range(steps):
        slices = [
            Tensor.dense(np.asarray(array.take(steps - 1 - step if back else step, axis)))
            for array, axis, back in zip(scanned, axes, backward, strict=True)
        ]
        results = body(*carried, *slices)
        carried = results[: len(carried)]
        rows.append(results[len(carried) :])
    if not rows:
        return [*carried, *_empty(call, len(carried))]
    columns = list(zip(*rows, strict=True))
    to = attrs.get("scan_output_axes") or (0,) * len(columns)
    turned = attrs.get("scan_output_directions") or (0,) * len(columns)
    return [*carried, *(_stacked(column[::-1] if back else column, axis) for column, axis, back in zip(columns, to, turned, strict=True))]


def _stacked(values: Sequence[Value], axis: int) -> Value:
    return Tensor.dense(np.stack([from_value(value) for value in values], axis))


def _fields(sequence: Value) -> tuple[AnyValue, ...]:
    if not isinstance(sequence, ConstructorValue) or sequence.tag != _SEQUENCE:
        raise ExecutorError("the operand must be a sequence")
    return sequence.fields


def _position(value: Value, size: int) -> int:
    index = _number(value)
    if not -size <= index < size:
        raise ExecutorError(f"position {index} is out of range in a sequence of {size}")
    return int(index % size)


def _insert(sequence: Value, element: Value, *at: Value) -> Value:
    fields = _fields(sequence)
    place = _number(at[0]) if at and not isinstance(at[0], tuple) else len(fields)
    if not -len(fields) <= place <= len(fields):
        raise ExecutorError(f"position {place} is out of range in a sequence of {len(fields)}")
    place += len(fields) if place < 0 else 0
    return ConstructorValue(_SEQUENCE, (*fields[:place], element, *fields[place:]))


def _erase(sequence: Value, *at: Value) -> Value:
    fields = _fields(sequence)
    place = _position(at[0], len(fields)) if at and not isinstance(at[0], tuple) else len(fields) - 1
    return ConstructorValue(_SEQUENCE, (*fields[:place], *fields[place + 1 :]))


def _has_element(*value: Value) -> Value:
    empty = not value or isinstance(value[0], tuple) or (isinstance(value[0], ConstructorValue) and value[0].tag == _NONE)
    return Tensor.dense(np.bool_(not empty))


SIMPLE: Final[dict[str, Callable[..., Value]]] = {
    "Identity": lambda value: value,
    "SequenceConstruct": lambda *values: ConstructorValue(_SEQUENCE, values),
    "SequenceEmpty": lambda: ConstructorValue(_SEQUENCE, ()),
    "SequenceAt": lambda sequence, at: _fields(sequence)[_position(at, len(_fields(sequence)))],
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceLength": lambda sequence: Tensor.dense(np.int64(len(_fields(sequence)))),
    "Optional": lambda *value: value[0] if value else ConstructorValue(_NONE, ()),
    "OptionalHasElement": _has_element,
    "OptionalGetElement": lambda value: value,
}
"""Opaque operators of sequences and optional values, which need no kernel."""
