"""Imports ONNX models: a graph becomes a function, and a node becomes an equivalent call or an opaque call."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import Any as AnyValue
from typing import Final

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

import passat.ir.ops  # noqa: F401  # importing registers the readers
from passat.ir.collector import collector_paused
from passat.ir.custom_ops import NOT_AS_DECLARED, declared_op
from passat.ir.diagnostics import Diagnostic, DiagnosticLevel
from passat.ir.expr import Call, Constant, Expr, Function, Span, Tuple, TupleGetItem, Var
from passat.ir.infer import InferError, infer_type, type_of_call
from passat.ir.module import IRModule
from passat.ir.onnx.attributes import Signature, has_invalid_text, read_attributes, signature_of
from passat.ir.onnx.declared import DisbeliefError, Grounds, contradicts, same_kind
from passat.ir.onnx.errors import ContradictionError, OnnxError, require_text
from passat.ir.onnx.findings import Findings
from passat.ir.onnx.frame import NOT_KEPT, Frame, copy_fields
from passat.ir.onnx.opaque_nodes import opaque_call
from passat.ir.onnx.scope import Scope, UndefinedError, describe, read_names, sort_nodes, unread_outputs
from passat.ir.onnx.tensors import read_sparse, read_tensor
from passat.ir.onnx.value_types import negative_sizes, show_type, type_of
from passat.ir.onnx_mapping import OLDEST_READ, READERS, FromOnnx, OnnxNode
from passat.ir.op import OpTypeError
from passat.ir.ops.slicing import goes_past_the_end, strided_slice
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type

_WALK: Final = 32
_READINGS: Final = 3
"""Number of imports that drop only contradictory declarations; the next one drops all of them."""
_NO_ATTRIBUTES: Final[dict[str, AnyValue]] = {}
_OPTIONAL_OUTPUTS: Final = frozenset({"BatchNormalization", "Dropout", "LayerNormalization"})
"""Operators whose later outputs are for training or for other operators, and are often declared but not read. (MaxPool is not listed: for
NaN, ONNX Runtime's kernel with indices returns NaN, and its kernel without indices returns the lowest number.)

Until version 14, a batch normalization is in training mode if its later outputs are declared, even if they are not read.
"""
_PLACED: Final = frozenset({"Squeeze", "Unsqueeze"})
"""Operators that do not support negative axes before opset 11. If they have them anyway, ONNX Runtime's kernels are correct but its shape
inference is not, so they are rewritten."""


def import_model(
    model: ModelProto,
    *,
    folder: str | None = None,
    lenient: bool = False,
    constants: Mapping[str, Tensor] = {},
) -> IRModule:
    """Imports a model whose external data is in `folder`; `lenient` and `constants` as in `from_onnx`. Raises OnnxError."""
    disbelief: list[DisbeliefError] = []
    try:
        header = ModelProto()
        copy_fields(model, header, except_for={"graph"})
        while True:
            frame = Frame(header, GraphProto(), folder)
            _check_versions(frame)
            frame.warnings += (Diagnostic(DiagnosticLevel.WARNING, None, str(found)) for found in disbelief)
            try:
                with collector_paused():
                    function = Importer(frame, disbelief, lenient=lenient).main(model.graph, constants)
                return IRModule({"main": function}, attrs={"onnx": frame})
            except DisbeliefError as found:
                disbelief.append(found)
    except UnicodeDecodeError as error:
        raise OnnxError(f"the model contains text that is not UTF-8: {error.object!r}") from error


def _check_versions(frame: Frame) -> None:
    newest = onnx.defs.onnx_opset_version()
    advice = f"the installed onnx {onnx.__version__} supports versions 1 to %d; upgrade onnx, or export the model for an older version"
    if not frame.model.HasField("ir_version"):
        raise OnnxError("the model has no IR version (`model.ir_version`), which ONNX Runtime requires; set it, for example to 10")
    if not 0 <= frame.model.ir_version <= onnx.IR_VERSION:  # ONNX Runtime accepts 0 as an old version
        raise OnnxError(f"the model has IR version {frame.model.ir_version}; {advice % onnx.IR_VERSION}")
    if frame.model.ir_version >= 3 and not frame.model.opset_import:  # earlier versions imply opset 1
        raise OnnxError(
            "the model does not say which version of the ONNX operators it uses (`model.opset_import` is empty); export it again, or "
            "set the version it was exported for, for example `model.opset_import.add(version=17)`"
        )
    if not 1 <= frame.version <= newest:
        raise OnnxError(f"the model uses version {frame.version} of the ONNX operators; {advice % newest}")


def complaint(node: NodeProto, opsets: Mapping[str, int], ir_version: int) -> str:
    """The error of `onnx.checker` for a node; empty if it accepts the node."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = dict(opsets)
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as error:
        return f"{describe(node)} is not valid: {str(error).strip().splitlines()[0]}"
    return ""


class Importer:
    """Imports the graphs of a model, except the declarations in `disbelief`. `lenient` as in `from_onnx`."""

    def __init__(self, frame: Frame, disbelief: Sequence[DisbeliefError] = (), *, lenient: bool = False) -> None:
        self.frame = frame
        self.grounds = Grounds()
        self.findings = Findings(frame.warnings, lenient=lenient)
        self._disbelieved = frozenset().union(*(found.names for found in disbelief))
        self._nothing_believed = len(disbelief) >= _READINGS
        self.opsets = frame.opsets
        self.functions = {(function.domain, function.name, function.overload): function for function in frame.model.functions}
        self.declared: dict[str, onnx.TypeProto] = {}
        self._around: list[dict[str, onnx.TypeProto]] = []
        self.source = GraphProto()
        self._read_anywhere: set[str] | None = None

    def main(self, graph: GraphProto, constants: Mapping[str, Tensor]) -> Function:
        """Imports the main graph: its parameters are the inputs without an initializer. Some initializers are known as `constants`."""
        frame = self.frame
        header = frame.graph
        self.source = graph
        copy_fields(graph, header, except_for=NOT_KEPT | {"input"})
        frame.unread = unread_outputs(graph)
        scope = Scope(None)
        for what, values in (("input", graph.input), ("output", graph.output)):
            for value in values:
                for size in negative_sizes(value.type):
                    self.findings.warn(
                        f"the {what} {value.name!r} is declared with the dimension {size}, which is treated as unknown", None
                    )
        fixed = {tensor.name: tensor for tensor in graph.initializer}
        overridable = frame.model.ir_version >= 4
        for value in graph.input:
            name = value.name
            if name in fixed:
                if not overridable:
                    continue
                frame.defaults[name] = fixed[name]
            header.input.append(value)
            require_text(name)
            scope.define(name, Var(name, type_of(value.type), Span("", outputs=(name,))))
        for entry in graph.quantization_annotation:
            names = [parameter.value for parameter in entry.quant_parameter_tensor_names]
            frame.annotated.update((name, fixed[name]) for name in names if name in fixed)
        for info in frame.model.training_info:
            for binding in (*info.initialization_binding, *info.update_binding):
                if binding.key in fixed and binding.key not in scope.values:
                    tensor = frame.defaults[binding.key] = fixed[binding.key]
                    data = read_tensor(tensor, self.frame.folder)
                    require_text(tensor.name)
                    scope.define(tensor.name, Var(tensor.name, TensorType(data.shape, data.dtype), Span("", outputs=(tensor.name,))))
        params = [value for value in scope.values.values() if isinstance(value, Var)]
        for name in fixed:
            if name in constants and name not in scope.values:
                scope.define(name, Constant(constants[name], Span("", outputs=(name,))))
        try:
            body = self.body(graph, scope)
        except UndefinedError as missing:
            raise OnnxError(f"{missing.reader} reads {missing.name!r}, which is not defined") from None
        except OnnxError as error:
            if not isinstance(error, ContradictionError):
                self.findings.settle(*error.diagnostics)
            raise
        self.findings.settle()
        function = Function(params, body)
        infer_type(function)
        return function

    def body(self, graph: GraphProto, scope: Scope) -> Expr:
        """Returns the value of a graph whose inputs are in `scope`: the value of a single output, or a tuple of all. Raises
        UndefinedError."""
        order = self.frame.order
        named: Iterable[AnyValue] = chain(graph.input, graph.initializer)
        of_nodes = [(*node.output[:], node.name, node.op_type, node.domain) for node in graph.node]
        require_text(*chain.from_iterable(of_nodes), *(each.name for each in named))
        for tensor in graph.initializer:
            name = tensor.name
            order[name] = len(order)
            if name not in scope.values:
                self._define(name, partial(read_tensor, tensor, self.frame.folder), scope)
        for sparse in graph.sparse_initializer:
            self._define(sparse.values.name, partial(read_sparse, sparse, self.frame.folder), scope)
        said = () if self._nothing_believed else (*graph.value_info, *graph.output)
        self._around.append(self.declared)
        self.declared = {value.name: value.type for value in said if value.name not in self._disbelieved}
        try:
            self._read_sorted(graph, scope)
            fields = self._results(graph, scope)
        finally:
            self.declared = self._around.pop()
        return fields[0] if len(fields) == 1 else infer_type(Tuple(fields))

    def believed(self) -> frozenset[str]:
        """The values whose declarations are used, in this graph and the enclosing ones."""
        return frozenset().union(self.declared, *self._around)

    def _define(self, name: str, read: Callable[[], Tensor], scope: Scope) -> None:
        """Defines a constant. An unreadable constant without readers is skipped with a warning, as in ONNX Runtime."""
        span = Span("", outputs=(name,))
        try:
            scope.define(name, Constant(read(), span))
        except OnnxError as error:
            if name in self._read_names():
                raise
            self.findings.warn(f"{error.args[0]}; nothing reads it", span)

    def _read_sorted(self, graph: GraphProto, scope: Scope) -> None:
        """Imports the nodes of a graph, sorting them topologically if they are not in order. Raises UndefinedError."""
        start, mark = len(scope.values), self.findings.mark()
        try:
            self.read_nodes(graph.node, scope)
        except UndefinedError as missing:
            if not any(missing.name in node.output for node in graph.node):
                raise
            for name in list(scope.values)[start:]:
                del scope.values[name]
            self.findings.forget(mark)
            self.read_nodes(sort_nodes(graph.node), scope)

    def _results(self, graph: GraphProto, scope: Scope) -> list[Expr]:
        """Returns the values of a graph's outputs. Raises UndefinedError."""
        fields: list[Expr] = []
        for value in graph.output:
            try:
                fields.append(scope.find(value.name))
            except UndefinedError as missing:
                missing.reader = missing.reader or "the list of outputs"
                raise
            said, type_ = self.declared.get(value.name), fields[-1].checked_type
            if said is not None and contradicts(said, type_) and not any(value.name in node.output for node in graph.node):
                self.is_disputed(value.name, type_, "the graph", frozenset(), "the declaration is ignored")
        return fields

    def read_nodes(self, nodes: Iterable[NodeProto], scope: Scope) -> None:
        """Imports nodes in order. Raises UndefinedError at the first node that reads an undefined value."""
        values = scope.values
        find = values.get
        order = self.frame.order
        version = self.opsets.get("", 1)
        readers: dict[str, FromOnnx] = READERS if version >= OLDEST_READ else {}
        declared = self.declared
        for node in nodes:
            op_type = node.op_type
            inputs: list[Expr | None] = []
            tensors = True
            for name in node.input[:]:  # a slice is a list, and takes half the time of iterating over the field
                if not name:
                    inputs.append(None)
                    continue
                value = find(name)
                if value is None:
                    value = self._outer(name, scope, node)
                inputs.append(value)
                if type(value._checked_type) is not TensorType:
                    tensors = False
            while inputs and inputs[-1] is None and op_type != "Loop":  # the only operator that must have absent trailing operands
                inputs.pop()
            outputs = tuple(node.output[:])
            if len(outputs) > 1 and op_type in _OPTIONAL_OUTPUTS and (version >= 14 or op_type != "BatchNormalization"):
                outputs = self._outputs_read(outputs)
            span = Span(node.name, outputs=outputs)
            self.frame.remember(node, span)
            domain = node.domain
            own = not domain or domain == "ai.onnx"
            reader = readers.get(op_type) if own else self._foreign(node)
            signature = signature_of(op_type, version) if own and (reader is not None or op_type == "Constant") else None
            attrs = _NO_ATTRIBUTES
            rest: Sequence[AttributeProto] = ()
            if node.attribute:
                attrs, rest = read_attributes(node.attribute, self.frame.folder, None if signature is None else signature.kinds)
            seen = OnnxNode(op_type, version, inputs, attrs, len(outputs), span)
            results: Sequence[Expr] | None = None
            if own and op_type == "Constant":
                results = self._constant(node, attrs, rest, span)
            elif not tensors or rest or reader is None or not outputs or has_invalid_text(attrs):
                pass
            elif not own or _fits(signature, len(inputs), len(outputs)):
                results = self._read(reader, seen, node)
            opaque = results is None
            if results is None:
                results = opaque_call(self, node, seen, rest, scope)
            order[outputs[0] if outputs else ""] = len(order)
            grounds = self.grounds.of(inputs)
            for name, result in zip(outputs, results, strict=False):
                if name:
                    if name in values:
                        raise OnnxError(f"{describe(node)} produces {name!r}, which is the name of another value")
                    values[name] = result
                    if not opaque:
                        self.grounds.put(result, grounds)
                        if name in declared:
                            if not own:
                                self.frame.declared.add(name)
                            self.is_disputed(name, result.checked_type, describe(node), grounds, "the declaration is ignored")

    def _foreign(self, node: NodeProto) -> FromOnnx | None:
        """The reader of a node of a custom domain, unless the model defines the operator as a local function and no plug-in declares it."""
        reader = READERS.get(f"{node.domain}::{node.op_type}")
        if (node.domain, node.op_type, node.overload) in self.functions and declared_op(f"{node.domain}.{node.op_type}") is None:
            return None
        return reader

    def is_disputed(self, name: str, type_: Type, maker: str, grounds: frozenset[str], follows: str) -> bool:
        """Whether a type contradicts the declared type of a value. Adds a warning with the consequence (`follows`) in that case.

        Raises DisbeliefError if the type depends on other declarations.
        """
        said = self.declared.get(name)
        if said is None or not contradicts(said, type_):
            return False
        declared = type_of(said)
        sentence = f"{name!r} is declared as {show_type(declared)}, but {maker} returns {show_type(type_)}"
        if grounds:
            raise DisbeliefError(grounds, sentence)
        span = Span("", outputs=(name,))
        if same_kind(declared, type_):
            self.findings.warn(f"{sentence}; {follows}", span)
        else:
            self.findings.contradiction(sentence, span)
        return True

    def _outputs_read(self, outputs: tuple[str, ...]) -> tuple[str, ...]:
        """The outputs of a node up to the last one that is read; at least the first."""
        read = self._read_names()
        last = max((i for i, name in enumerate(outputs) if name in read), default=0)
        return outputs[: last + 1]

    def _read_names(self) -> Set[str]:
        """The names of all values that are read."""
        if self._read_anywhere is None:
            self._read_anywhere = read_names(self.source)
        return self._read_anywhere

    def _outer(self, name: str, scope: Scope, node: NodeProto) -> Expr:
        try:
            return scope.find(name)
        except UndefinedError as missing:
            missing.reader = describe(node)
            raise

    def _constant(self, node: NodeProto, attrs: dict[str, AnyValue], rest: Sequence[AttributeProto], span: Span) -> Sequence[Expr] | None:
        """Returns the value of a Constant node, from any of its attributes."""
        if len(attrs) == 1 and not rest:
            ((name, value),) = attrs.items()
            if name == "value" and isinstance(value, Tensor):
                return (Constant(value, span),)
            kind = {"value_int": "int64", "value_ints": "int64", "value_float": "float32", "value_floats": "float32"}.get(name)
            if kind is not None or name in ("value_string", "value_strings"):
                return (Constant(Tensor.dense(value, kind or "string"), span),)
        elif not attrs and len(rest) == 1 and rest[0].HasField("sparse_tensor"):
            return (Constant(read_sparse(rest[0].sparse_tensor, self.frame.folder), span),)
        return None

    def _read(self, reader: FromOnnx, node: OnnxNode, proto: NodeProto) -> Sequence[Expr] | None:
        """Applies a reader to a node and returns a value per output; None if the node must be opaque."""
        try:
            found = reader(node)
            if found is None:
                return None
            if not isinstance(found, Expr):
                for value in found:
                    infer_type(value)
                if len(found) < node.n_outputs:
                    return None
                if found and isinstance(found[0], TupleGetItem) and _is_tuple(found, found[0].tuple_value):
                    self.record(found[0].tuple_value, proto, node.inputs)
                return found
            if found._checked_type is None:
                if type(found) is Call and all(arg._checked_type is not None for arg in found.args):
                    found._checked_type = type_of_call(found)
                else:
                    infer_type(found)
        except (OpTypeError, InferError) as error:
            # The shapes contradict each other, or Passat's operator is stricter than ONNX's; opaque_call reports it.
            if declared_op(f"{proto.domain}.{proto.op_type}") is not None:
                self.findings.warn(f"{describe(proto)} {NOT_AS_DECLARED}: {error}", node.span)
            return None
        except MemoryError:
            return None  # Passat's operator is stricter than the node
        except (IndexError, KeyError, AssertionError, TypeError, AttributeError):
            # An operand or attribute is missing or has the wrong kind.
            if proto.domain in ("", "ai.onnx"):
                sentence = complaint(proto, self.opsets, self.frame.model.ir_version)
                if not sentence:
                    raise
                self.findings.contradiction(sentence, node.span)
            return None  # onnx.checker does not know ONNX Runtime's own operators
        type_ = found._checked_type
        if type(type_) is TupleType:
            if len(type_.fields) < node.n_outputs:
                return None
            self.record(found, proto, node.inputs)
            return [infer_type(TupleGetItem(found, i, node.span)) for i in range(node.n_outputs)]
        if node.n_outputs != 1:
            return None
        if type(found) is Call:
            self.record(found, proto, node.inputs)
        return (found,)

    def _warn_of_two_sizes(self, node: NodeProto, found: Call) -> None:
        """Warns of a slice that goes past the end (`goes_past_the_end`) and has elements. Where its shape is read, ONNX Runtime's optimizer
        uses the inferred size."""
        type_ = found.checked_type
        if isinstance(type_, TensorType) and type_.is_static and 0 not in type_.shape:
            self.findings.warn(
                f"{describe(node)} goes backward and ends at the largest integer: ONNX Runtime computes {show_type(type_)}, "
                "but infers that it is empty, so that results may depend on its optimizations; Passat follows what it computes",
                Span(node.name, outputs=tuple(node.output)),
            )

    def record(self, found: Expr, node: NodeProto, inputs: Sequence[Expr | None]) -> None:
        """Records the original node of a call if the call depends on everything that the node reads; otherwise the node would restore
        removed operands."""
        if type(found) is not Call or (node.op_type in _PLACED and self.opsets.get("", 1) < 11 and _counts_from_the_end(node)):
            return
        if found.op is strided_slice and goes_past_the_end(found.attrs):
            self._warn_of_two_sizes(node, found)
            return
        reads = tuple(inputs)
        origins = self.frame.origins
        if found.args == reads:  # compares expressions by identity
            if id(found) not in origins:
                origins[id(found)] = (found, node, found.args, found.args)
            return
        present = [value for value in inputs if value is not None]
        wanted = {id(value) for value in present if type(value) is not Constant}
        known = {id(value) for value in present}
        stack = [*found.args]
        for _ in range(_WALK):
            if not stack:
                break
            part = stack.pop()
            if id(part) in known:
                wanted.discard(id(part))
            elif isinstance(part, Call):
                stack.extend(part.args)
            elif isinstance(part, Tuple):
                stack.extend(part.fields)
            elif isinstance(part, TupleGetItem):
                stack.append(part.tuple_value)
            elif not isinstance(part, Constant):
                return
        if not stack and not wanted and id(found) not in origins:
            origins[id(found)] = (found, node, reads, present)


def _fits(signature: Signature | None, inputs: int, outputs: int) -> bool:
    """Whether a node may have these numbers of inputs and outputs. Readers ignore additional ones."""
    return signature is not None and signature.least_inputs <= inputs <= signature.most_inputs and outputs <= signature.most_outputs


def _is_tuple(values: Sequence[Expr], whole: Expr) -> bool:
    return all(isinstance(value, TupleGetItem) and value.tuple_value is whole and value.index == i for i, value in enumerate(values))


def _counts_from_the_end(node: NodeProto) -> bool:
    return any(axis < 0 for attribute in node.attribute if attribute.name == "axes" for axis in attribute.ints)
