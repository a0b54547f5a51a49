"""ONNX's backend interface (`onnx.backend.base`) over the import, the interpreter and the kernels of Passat. ONNX Runtime is not used.

    import passat.onnx_backend as backend
    (y,) = backend.run_model(model, [x])

A node that Passat does not model is imported as an opaque call, and computed in the first of these ways that applies:

* If, Loop, Scan, and operators of sequences and optional values: by `run_region` and `SIMPLE`;
* by kernels, if the node is not opaque once the types and values of its operands are known;
* by the body of the operator, if ONNX defines it as a function, and its nodes in the same ways;
* by the reference implementation of the onnx package. `PassatRep.by_reference` names these operators.
"""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType
from onnx.inliner import inline_local_functions, inline_selected_functions
from onnx.reference import ReferenceEvaluator

from passat.ir.counting import counted
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx
from passat.ir.onnx.attributes import schema_of
from passat.ir.onnx.frame import Frame
from passat.ir.onnx.inference import newest_version, node_proto, outer_name
from passat.ir.onnx.opaque import REGIONS, OpaqueOp
from passat.ir.onnx.tensors import dense_proto, read_tensor
from passat.ir.onnx.value_types import value_info
from passat.ir.onnx_mapping import OLDEST_READ
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType
from passat.runtime.interpreter import Closure, ExecutorError, Interpreter, Value
from passat.runtime.values import ConstructorValue, type_of_data


class PassatRep(BackendRep):
    """A model that was prepared. `by_reference` has the operators that the onnx package computed in the runs so far."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.module = from_onnx(inline_local_functions(model) if model.functions else model)
        self.by_reference: set[str] = set()

    def run(self, inputs: AnyValue, **kwargs: AnyValue) -> tuple[AnyValue, ...]:
        """Computes the outputs from arrays in the order of the inputs; a list is a sequence, None an optional value without element.

        Initializers are the defaults of inputs that are not given. Raises ExecutorError and TypeError.
        """
        function, frame = self.module["main"], self.module.attrs["onnx"]
        assert isinstance(frame, Frame)
        if isinstance(inputs, np.ndarray) or not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        values = [to_value(each) for each in inputs]
        params = function.params
        if len(values) > len(params):
            raise TypeError(f"the model has {counted(len(params), 'input')}, but got {counted(len(values), 'value')}")
        for param in params[len(values) :]:
            if param.name_hint not in frame.defaults:
                raise TypeError(f"the input {param.name_hint!r} has no value")
            values.append(read_tensor(frame.defaults[param.name_hint], frame.folder))
        result = Interpreter(self.module, self._operate).call(Closure(function, None), values)
        results = result if isinstance(result, tuple) and len(frame.graph.output) != 1 else (result,)
        return tuple(map(from_value, results))

    def _operate(self, interpreter: Interpreter, call: Call, args: Sequence[Value]) -> "Value | None":
        """The value of an opaque call; None for other operators."""
        op = call.op
        if not isinstance(op, OpaqueOp):
            return None
        if op.op_type in REGIONS and not op.domain and (op.op_type != "Scan" or call.attrs["opset"] > 8):
            return run_region(interpreter, op, call, args)
        own = None if op.domain else SIMPLE.get(op.op_type)
        if own is not None:
            return own(*args)
        return self._specialized(op, call, args) or self._by_body(op, call, args) or self._referred(op, call, args)

    def _specialized(self, op: OpaqueOp, call: Call, args: Sequence[Value]) -> "Value | None":
        """The value by kernels, where the node is no longer opaque if the types and values of its operands are known."""
        if not all(isinstance(arg, Tensor) or arg == () for arg in args):
            return None
        model, feeds = _alone(op, call, args, newer=True)
        try:
            module = _with_constants(model, feeds)
        except OnnxError:
            return None
        if any(isinstance(node, Call) and isinstance(node.op, OpaqueOp) for node in post_order(module["main"])):
            return None
        return Interpreter(module).call(Closure(module["main"], None), ())

    def _by_body(self, op: OpaqueOp, call: Call, args: Sequence[Value]) -> "Value | None":
        """The value by the body of the operator, where ONNX defines it as a function."""
        if not all(isinstance(arg, Tensor) or arg == () for arg in args):
            return None
        model, feeds = _alone(op, call, args, newer=True)
        try:
            inlined = inline_selected_functions(model, [(op.domain, op.op_type)], inline_schema_functions=True)
            if any((node.domain, node.op_type) == (op.domain, op.op_type) for node in inlined.graph.node):
                return None
            module = _with_constants(inlined, feeds)
        except (OnnxError, RuntimeError):  # RuntimeError: of the function body with these types
            return None
        return Interpreter(module, self._operate).call(Closure(module["main"], None), ())

    def _referred(self, op: OpaqueOp, call: Call, args: Sequence[Value]) -> Value:
        self.by_reference.add(op.name.removeprefix("onnx."))
        return _by_reference(op, call, args)


class PassatBackend(Backend):
    """Runs ONNX models by Passat's kernels, on the CPU."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: AnyValue) -> PassatRep:
        """Imports a model. Raises OnnxError for invalid models, and ValueError for devices other than the CPU."""
        if not cls.supports_device(device):
            raise ValueError(f"unsupported device {device!r}; Passat computes on the CPU")
        return PassatRep(model)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: AnyValue, device: str = "CPU", outputs_info: AnyValue = None, **kwargs: AnyValue
    ) -> tuple[AnyValue, ...]:
        """Computes one node from the values of its inputs, in the version `opset_version` of its domain, or the newest.

        Raises as `prepare` and `run` do.
        """
        if isinstance(inputs, np.ndarray) or not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        present = [name for name in node.input if name]
        if len(present) != len(inputs):
            raise TypeError(f"the node has {counted(len(present), 'input')}, but got {counted(len(inputs), 'value')}")
        declared = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(present, map(np.asarray, inputs), strict=True)
        ]
        graph = onnx.helper.make_graph([node], "node", declared, [onnx.ValueInfoProto(name=name) for name in node.output if name])
        versions = {"": newest_version(""), node.domain: kwargs.get("opset_version", newest_version(node.domain))}
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()]
        return cls.prepare(onnx.helper.make_model(graph, opset_imports=opsets), device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is the CPU."""
        return bool(Device(device).type == DeviceType.CPU)


def _alone(op: OpaqueOp, call: Call, args: Sequence[Value], *, newer: bool) -> tuple[onnx.ModelProto, dict[str, Value]]:
    """The model of an opaque call's node, and the values of its inputs by name. With `newer`, in an opset that Passat imports, if the node
    means the same there."""
    count = len(args) - sum(call.attrs.get("captured", ()))
    absent = [isinstance(arg, tuple) for arg in args[:count]]
    node = node_proto(op, absent, call.attrs)
    names = [f"i{i}" if i < count else outer_name(i - count) for i in range(len(args))]
    feeds = {name: arg for i, (name, arg) in enumerate(zip(names, args, strict=True)) if i >= count or not absent[i]}
    version = call.attrs["opset"]
    if newer and not op.domain:
        if version < OLDEST_READ and _means_the_same(node):
            version = OLDEST_READ
        _add_defaults(node, version)
    declared = [_declaration(name, arg) for name, arg in feeds.items()]
    graph = onnx.helper.make_graph([node], "node", declared, [onnx.ValueInfoProto(name=name) for name in node.output if name])
    opsets = {"": newest_version(""), op.domain: version}
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(*each) for each in opsets.items()]), feeds


def _declaration(name: str, value: Value) -> onnx.ValueInfoProto:
    return value_info(name, type_of_data(value)) if isinstance(value, Tensor) else onnx.ValueInfoProto(name=name)


def _add_defaults(node: onnx.NodeProto, version: int) -> None:
    """Adds the attributes that a node leaves to their defaults: `onnx.inliner` does not know defaults of functions."""
    schema = schema_of(node.op_type, version, "")
    # The stubs of onnx lack these two attributes.
    if schema is None or not (getattr(schema, "has_function", False) or getattr(schema, "has_context_dependent_function", False)):
        return
    present = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in present and attribute.default_value.type:
            node.attribute.append(attribute.default_value)


def _means_the_same(node: onnx.NodeProto) -> bool:
    """Whether a node of an opset before the oldest that Passat imports means the same in that one. Removes attributes that are gone there.

    The operators broadcast only where an attribute says so, and then as NumPy does unless there is an axis. Normalizations and dropouts are
    in training mode unless an attribute says otherwise.
    """
    schema = schema_of(node.op_type, OLDEST_READ, "")
    attributes = {attribute.name: attribute for attribute in node.attribute}
    tests = "is_test" in attributes and attributes["is_test"].i == 1
    if schema is None or (node.op_type in ("BatchNormalization", "Dropout") and not tests) or {"broadcast", "axis"} <= set(attributes):
        return False
    kept = [attribute for attribute in node.attribute if attribute.name not in ("broadcast", "consumed_inputs", "is_test")]
    if any(attribute.name not in schema.attributes for attribute in kept):
        return False
    del node.attribute[:]
    node.attribute.extend(kept)
    return True


def _with_constants(model: onnx.ModelProto, feeds: dict[str, Value]) -> IRModule:
    """Imports a model with the values of its inputs as constants. Raises OnnxError."""
    known = onnx.ModelProto()
    known.CopyFrom(model)
    del known.graph.input[:]
    known.graph.initializer.extend(dense_proto(value, name) for name, value in feeds.items() if isinstance(value, Tensor))
    return from_onnx(known)


def _by_reference(op: OpaqueOp, call: Call, args: Sequence[Value]) -> Value:
    """Computes an opaque call by the onnx package."""
    model, feeds = _alone(op, call, args, newer=False)
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, {name: from_value(value) for name, value in feeds.items()})
        results = [to_value(each) for each in found]
    except Exception as error:  # the reference implementation raises anything
        raise ExecutorError(f"{op.op_type} is not computed by a kernel, and the reference implementation fails: {error}") from error
    return results[0] if len(results) == 1 else tuple(results)


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


is_compatible = PassatBackend.is_compatible
prepare = PassatBackend.prepare
run_model = PassatBackend.run_model
run_node = PassatBackend.run_node
supports_device = PassatBackend.supports_device
