"""Exports modules to ONNX: calls become nodes. A call that is unchanged since the import becomes its original node."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

import passat.ir.ops  # noqa: F401  # importing registers the writers
from passat.ir.collector import collector_paused
from passat.ir.expr import Expr, Function, GlobalVar, Tuple, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.inline import inline_calls
from passat.ir.module import IRModule
from passat.ir.naming import Names
from passat.ir.onnx.constants import ConstantPool, Place
from passat.ir.onnx.declared import contradicts, says_more, settle
from passat.ir.onnx.errors import OnnxError
from passat.ir.onnx.frame import Frame
from passat.ir.onnx.graph_writer import GraphWriter
from passat.ir.onnx.tensors import tensor_proto
from passat.ir.onnx.value_types import UNKNOWN, type_of, value_info
from passat.ir.onnx_mapping import DEFAULT_OPSET, ELEMENT_TYPES
from passat.ir.tensor import Tensor
from passat.ir.types import IncompleteType, TensorType, TupleType, Type

DEFAULT_IR_VERSION: Final = 10
"""The IR version of modules that were not imported from ONNX, with `DEFAULT_OPSET`."""


def export_model(
    module: IRModule,
    place: Place = lambda tensors: {},
    written: dict[int, list[str]] | None = None,
    constants: dict[str, Tensor] | None = None,
) -> ModelProto:
    """Exports the `main` of a module.

    `written` is called with the id of each call and the names of all values that its nodes produce. It is also called with the id of the
    body of each function that is not a call, and the names of its results. The initializers of the main graph are added to `constants`.
    Raises OnnxError for programs that ONNX cannot express.
    """
    if "main" not in module:
        raise OnnxError("the module has no function called main")
    try:
        with collector_paused():
            writer = ModelWriter(module, written)
            model = writer.write(place)
    except UnicodeDecodeError as error:
        raise OnnxError(f"the model contains text that is not UTF-8: {error.object!r}") from error
    if constants is not None:
        constants.update(writer.constants.initializers)
    return model


class ModelWriter:
    """Writes a model. Stores the state that its graphs share: names, constants, versions."""

    def __init__(self, module: IRModule, written: dict[int, list[str]] | None = None) -> None:
        self.main = _inlined(module["main"])
        self._functions = module.functions
        self.written = written
        frame = module.attrs.get("onnx")
        self.frame = frame if isinstance(frame, Frame) else _default_frame()
        self.versions = self.frame.opsets
        self.names = Names(self.frame.inner_names)
        self.node_names = Names()
        self.imports: dict[str, int] = {}
        """Versions of domains of opaque nodes that the source did not import."""
        annotations = self.frame.graph.quantization_annotation
        referred = {parameter.value for entry in annotations for parameter in entry.quant_parameter_tensor_names}
        apart = referred | {entry.tensor_name for entry in annotations}
        self.constants = ConstantPool(self.names, self.versions.get("", DEFAULT_OPSET), apart)

    def write(self, place: Place) -> ModelProto:
        """Returns the model."""
        frame = self.frame
        writer = GraphWriter(self)
        inputs = self._inputs(writer)
        fields = result_fields(infer_type(self.main.body))
        outputs = self._outputs(fields)
        disputed = {
            value.name
            for value, field in zip(outputs, fields, strict=True)
            if contradicts(value.type, field.checked_type) or says_more(value.type, field.checked_type)
        }
        writer.write(fields, [value.name for value in outputs], disputed)
        self.tell_results(self.main.body, [value.name for value in outputs])
        model = ModelProto()
        model.CopyFrom(frame.model)
        if any(not node.domain for node in writer.nodes):
            self.imports.setdefault("", DEFAULT_OPSET)
        for domain, version in self.imports.items():
            if domain not in self.versions:
                model.opset_import.add(domain=domain, version=version)
        graph = model.graph
        graph.CopyFrom(frame.graph)
        del graph.input[:], graph.output[:], graph.quantization_annotation[:]
        initializers = self.constants.finish(place, {value.name for value in outputs})
        graph.node.extend(self.constants.nodes)
        graph.node.extend(writer.nodes)
        graph.input.extend(inputs)
        graph.output.extend(outputs)
        initializers.update((name, partial(tensor_proto, tensor, name)) for name, tensor in frame.defaults.items())
        for name in sorted(initializers, key=lambda name: frame.order.get(name, len(frame.order))):
            initializers[name](graph.initializer.add())
        graph.sparse_initializer.extend(self.constants.sparse)
        graph.value_info.extend(writer.value_infos)
        self._annotate(graph)
        if 0 < model.ir_version < 4:
            # These versions require every initializer to be an input, and still treat it as a constant.
            known = {value.name for value in inputs}
            graph.input.extend(_declaration(tensor) for tensor in graph.initializer if tensor.name not in known)
        return model

    def function(self, expr: Expr) -> Function | None:
        """The function that an expression is or names; None if it is another expression."""
        function = self._functions.get(expr) if isinstance(expr, GlobalVar) else expr
        if not isinstance(function, Function):
            return None
        infer_type(function)
        return function

    def tell_results(self, body: Expr, names: Sequence[str]) -> None:
        """Reports the names of the results of a function whose body is not a call."""
        if self.written is not None:
            self.written.setdefault(id(body), list(names))

    def _inputs(self, writer: GraphWriter) -> list[ValueInfoProto]:
        """The declarations of the parameters, kept from the source if they are still valid. Also names the parameters."""
        declared = {value.name: value for value in self.frame.graph.input}
        found: list[ValueInfoProto] = []
        self.names.used.update(self.frame.defaults)
        for param in self.main.params:
            name = param.name_hint
            known = declared.pop(name, None)
            type_ = param.type_annotation or UNKNOWN
            if known is not None:
                self.names.used.add(name)
                found.append(known if type_of(known.type) == type_ else value_info(name, type_))
            elif name not in self.frame.defaults:
                name = self.names.take(name)
                found.append(value_info(name, type_))
            writer.names[id(param)] = name
        return found

    def _outputs(self, fields: Sequence[Expr]) -> list[ValueInfoProto]:
        declared = self.frame.graph.output
        found = [_whole(value, field.checked_type) for value, field in zip(declared, fields, strict=False)]
        if self.frame.settled:
            found = [ValueInfoProto.FromString(value.SerializeToString()) for value in found]  # the frame keeps its own
            for value, field in zip(found, fields, strict=False):
                settle(value.type, field.checked_type)
        self.names.used.update(value.name for value in found)
        for i, field in enumerate(fields[len(found) :], len(found)):
            found.append(value_info(self.names.take("output" if len(fields) == 1 else f"output_{i}"), field.checked_type))
        return found

    def _annotate(self, graph: GraphProto) -> None:
        """Keeps the quantization annotations of values that still exist, with the constants they refer to."""
        kept = [entry for entry in self.frame.graph.quantization_annotation if entry.tensor_name in self.names.used]
        there = {tensor.name for tensor in graph.initializer}
        for entry in kept:
            graph.quantization_annotation.append(entry)
            for parameter in entry.quant_parameter_tensor_names:
                tensor = self.frame.annotated.get(parameter.value)
                if tensor is not None and tensor.name not in there:
                    there.add(tensor.name)
                    graph.initializer.append(tensor)


def result_fields(body: Expr) -> Sequence[Expr]:
    """The results of a function."""
    if isinstance(body, Tuple):
        return body.fields
    type_ = body.checked_type
    if isinstance(type_, TupleType):
        return [infer_type(TupleGetItem(body, i)) for i in range(len(type_.fields))]
    return (body,)


def _inlined(main: Function) -> Function:
    """Inlines the functions that main calls, since ONNX has no form for these calls."""
    made = inline_calls(main, lambda function: True)
    return main if made is main else infer_type(made)


def _whole(declared: ValueInfoProto, type_: Type) -> ValueInfoProto:
    """The declaration of an output, completed by the inferred type; `onnx.checker` requires an element type and a shape."""
    tensor = declared.type.tensor_type
    missing = not declared.type.WhichOneof("value")
    missing |= declared.type.HasField("tensor_type") and not (tensor.elem_type and tensor.HasField("shape"))
    return value_info(declared.name, type_) if missing and not isinstance(type_, IncompleteType) else declared


def _default_frame() -> Frame:
    model = ModelProto(ir_version=DEFAULT_IR_VERSION, producer_name="passat")
    model.opset_import.add(domain="", version=DEFAULT_OPSET)
    return Frame(model, GraphProto(name="main"))


def _declaration(tensor: TensorProto) -> ValueInfoProto:
    return value_info(tensor.name, TensorType(tensor.dims, ELEMENT_TYPES[tensor.data_type]))
