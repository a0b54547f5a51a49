"""Writes a graph: each call of its plan as its original node, as an opaque node, or by the writer of its operator."""

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final

from onnx import GraphProto, NodeProto, ValueInfoProto, defs

from passat.ir.counting import counted
from passat.ir.expr import Call, Constant, Expr, Function, Span, Tuple, TupleGetItem, Var
from passat.ir.onnx.declared import contradicts
from passat.ir.onnx.emitter import NodeEmitter, unusual_dtypes
from passat.ir.onnx.errors import OnnxError, OpsetError
from passat.ir.onnx.frame import Origin, label_of
from passat.ir.onnx.inference import call_attributes, declared_types, has_inference, outer_name
from passat.ir.onnx.opaque import OpaqueOp, is_stateful
from passat.ir.onnx.plan import Plan
from passat.ir.onnx.scope import all_names, attribute_graphs, rename_free
from passat.ir.onnx.tensors import tensor_proto
from passat.ir.onnx.value_types import UNKNOWN, runtime_name, type_proto, value_info
from passat.ir.onnx_mapping import OnnxVersionError
from passat.ir.op import Op
from passat.ir.types import TupleType, Type, TypeCall

if TYPE_CHECKING:
    from passat.ir.onnx.exporter import ModelWriter

_TENSOR: Final = 4
_GRAPH: Final = 5


class GraphWriter:
    """Writes the nodes of a graph. `inner` means a subgraph, which must contain the constants that it returns."""

    def __init__(self, model: "ModelWriter", *, inner: bool = False) -> None:
        self.model = model
        self.inner = inner
        self.names: dict[int, str] = {}
        self.several: dict[int, list[str]] = {}
        self.outputs: frozenset[str] = frozenset()
        self.nodes: list[NodeProto] = []
        self.value_infos: list[ValueInfoProto] = []
        self.read = model.constants.read
        self.emitter = NodeEmitter(model.constants.version, model.constants.value, self.read)

    def write(self, results: Sequence[Expr], wanted: Sequence[str], disputed: Container[str] = ()) -> None:
        """Writes the nodes that compute `results`, under the wanted names, which are already reserved.

        The declared types of `disputed` results are wrong, or may be. Nodes that did not read these names in the source must not read them
        now, since ONNX Runtime relies on the declarations.
        """
        model = self.model
        self.outputs = frozenset(wanted)
        self.read.update(wanted)
        roots = [result for result in results if not (self.inner and isinstance(result, Constant))]
        plan = self.plan = Plan(roots, model.frame.origins, model.frame.order)
        results = [plan.resolve(result) for result in results]
        targets: dict[tuple[int, int], str] = {}
        for result, name in zip(results, wanted, strict=True):
            if isinstance(result, Constant):
                if not self.inner:
                    model.constants.add(result, name)
            elif name in disputed and plan.is_read(result) and (name in model.frame.unread or name not in _names(result)):
                continue
            elif isinstance(result, TupleGetItem):
                targets.setdefault((id(result.tuple_value), result.index), name)
            else:
                targets.setdefault((id(result), 0), name)
        for call in plan.calls:
            if isinstance(call.op, OpaqueOp) and call.attrs.get("protos"):
                model.names.used |= all_names(NodeProto.FromString(call.attrs["protos"]).attribute)
        origins = model.frame.origins
        model.node_names.used.update(
            call.span.source_name for call in plan.calls if call.span is not None and id(call) in origins and id(call) not in plan.merged
        )
        chosen = [self._choose(call, targets) for call in reversed(plan.calls)]
        for constant in plan.constants:
            model.constants.add(constant)
        for call in plan.calls:
            names, node_name = chosen.pop()
            if names:
                self._write_call(call, names, node_name)
        for name, result in dict(zip(wanted, results, strict=True)).items():
            if self.inner and isinstance(result, Constant):
                node = NodeProto(op_type="Constant", name=self.model.node_names.take(name), output=[name])
                tensor_proto(result.data, "", node.attribute.add(name="value", type=_TENSOR).t)
                self.nodes.append(node)
            elif isinstance(result, Constant) and not self._can_rename(result.checked_type):
                model.constants.add_again(result, name)
            elif self.name(result) != name:
                self.read.add(self.name(result))
                self.nodes.append(self._again(self.name(result), name, result.checked_type))

    def _can_rename(self, type_: Type) -> bool:
        """Whether Identity supports values of a type in the opset of the model; an unknown type may be that of a sequence."""
        proto = type_proto(type_)
        taken = defs.get_schema("Identity", self.model.frame.version).type_constraints[0].allowed_type_strs
        return ("seq(tensor(float))" if proto.WhichOneof("value") is None else runtime_name(proto)) in taken

    def _again(self, source: str, name: str, type_: Type) -> NodeProto:
        """Emits a node that gives a value another name: Identity, or a copy of the producer if Identity does not support the type."""
        made = next((node for node in self.nodes if source in node.output), None)
        # Without operands, an attribute determines the type; Identity may not support a type that inference does not know.
        says_type = type_ == UNKNOWN and made is not None and not made.input and not is_stateful(made.domain, made.op_type)
        if made is None or (self._can_rename(type_) and not says_type):
            identity = NodeProto(op_type="Identity", name=self.model.node_names.take(name), input=[source], output=[name])
            if made is not None:
                identity.MergeFromString(label_of(made))
            return identity
        again = NodeProto()
        again.CopyFrom(made)
        again.name = self.model.node_names.take(name)
        for i, output in enumerate(made.output):
            again.output[i] = name if output == source else self.model.names.take(output) if output else ""
        return again

    def _choose(self, call: Call, targets: dict[tuple[int, int], str]) -> tuple[list[str], str]:
        """Chooses the names of a call's results and of its node; no result names if the call is merged into another node.

        Called in reverse order, so that a whole node gets its name before its parts.
        """
        key = id(call)
        if key in self.plan.merged:
            return [], ""
        span = call.span
        type_ = call._checked_type
        count = len(type_.fields) if type(type_) is TupleType else 1
        outputs: Sequence[str] = span.outputs if span is not None else ()
        if len(outputs) != count:
            outputs = [name for name in outputs if name]
        take = self.model.names.take
        names: list[str] = []
        for i in range(count):
            name = targets.get((key, i))
            if name is None:
                name = take((outputs[i] if i < len(outputs) else "") or call.op.name.rpartition(".")[2])  # type: ignore[attr-defined]  # planned calls call operators
            names.append(name)
        if key in self.model.frame.origins:
            return names, ""
        span = self._replaced(call)
        title = span.source_name if span is not None else names[0]  # nodes without a name in the source stay unnamed
        return names, self.model.node_names.take(title) if title else ""

    def _replaced(self, call: Call) -> Span | None:
        """The span of the node of the source that the nodes of a call replace. The sum with a bias belongs to the product."""
        product = call.args[0] if call.args else call
        return (product.span or call.span) if id(product) in self.plan.merged else call.span

    def _write_call(self, call: Call, wanted: list[str], node_name: str) -> None:
        origin = self.model.frame.origins.get(id(call))
        op, first, version = call.op, len(self.nodes), self.model.frame.version
        assert isinstance(op, Op)
        if origin is not None:
            self._write_origin(origin, wanted)
        elif isinstance(op, OpaqueOp):
            self._write_opaque(call, op, wanted, node_name)
        else:
            wanted = self._write_own(call, op, wanted, node_name)
        if origin is None:
            span = self._replaced(call)
            for node in self.nodes[first:]:
                self.model.frame.label(node, span)
        if isinstance(op, OpaqueOp):
            self._declare(wanted, declared_types(call.attrs, "disputed") or declared_types(call.attrs) or ())
        elif (
            (origin is None and (not op.is_own or any(node.domain for node in self.nodes[first:])))
            or not self.model.frame.declared.isdisjoint(wanted)
            or not all(has_inference(node.op_type, version, node.domain) for node in self.nodes[first:])
        ):
            type_ = call.checked_type
            self._declare(wanted, type_.fields if isinstance(type_, TupleType) else [type_])
        if self.model.written is not None:
            self._tell(call, self.model.written, [name for node in self.nodes[first:] for name in node.output[:] if name])
        if type(call._checked_type) is TupleType:
            self.several[id(call)] = wanted
        else:
            self.names[id(call)] = wanted[0]

    def _tell(self, call: Call, written: dict[int, list[str]], names: list[str]) -> None:
        """Reports the results of the nodes of a call, and of the product merged with it."""
        written[id(call)] = names
        product = call.args[0] if call.args else call
        if id(product) in self.plan.merged:
            written[id(product)] = names

    def _write_own(self, call: Call, op: Op, wanted: list[str], node_name: str) -> list[str]:
        """Writes a call of one of Passat's operators, merging a bias with its product. Returns the names of the results."""
        args = call.args
        if op.name == "nn.bias_add" and id(call.args[0]) in self.plan.merged:
            product = call.args[0]
            assert isinstance(product, Call)
            assert isinstance(product.op, Op)
            call, op, args = product, product.op, (*product.args, call.args[1])
        if op.to_onnx is None:
            hint = "; relay.qnn.transform.CanonicalizeOps replaces most quantized operators" if op.name.startswith("qnn.") else ""
            raise OnnxError(f"the operator {op.name} has no ONNX form{hint}")
        named = [self._operand(arg) for arg in args]
        operands = [name for names in named for name in names]
        try:
            found = op.to_onnx(call, operands, self.emitter)
        except OnnxVersionError as error:
            raise OpsetError(f"{wanted[0]}: {error}") from error
        dtypes = unusual_dtypes([arg._checked_type for arg in args], named)
        if dtypes and (wrong := self.emitter.mistyped(dtypes)):
            raise OpsetError(f"{wanted[0]}: {wrong} in ONNX opset {self.model.frame.version}")
        results = [found] if isinstance(found, str) else list(found)
        if len(results) != len(wanted):
            raise OnnxError(f"the operator {op.name} has {counted(len(wanted), 'result')}, but its ONNX form has {len(results)}")
        nodes, names = self.emitter.finish(results, wanted, node_name, self.model.names, self.model.node_names, self.model.versions)
        for node in nodes:
            if node.domain:
                self.model.imports.setdefault(node.domain, 1)
        self.nodes += nodes
        return names

    def _write_origin(self, origin: Origin, wanted: list[str]) -> None:
        """Writes an original node with updated value names."""
        _, node, reads, _ = origin
        known = self.names
        inputs = ["" if value is None else known.get(id(value)) or self.name(value) for value in reads]
        self.read.update(inputs)
        if node.output != wanted:
            node = _with_names(node, inputs, _placed(node.output, wanted))
        elif node.input != inputs:
            node = _with_names(node, inputs, wanted)
        self.nodes.append(node)

    def _write_opaque(self, call: Call, op: OpaqueOp, wanted: list[str], node_name: str) -> None:
        """Writes an opaque call: the node it keeps, with its functions as subgraphs."""
        attrs = call.attrs
        node = NodeProto(op_type=op.op_type, domain=op.domain, name=node_name, overload=attrs.get("overload", ""))
        node.attribute.extend(call_attributes(op, attrs))
        args = list(call.args)
        captured: Sequence[int] = attrs.get("captured", ())
        outer = [self.name(arg) for arg in args[len(args) - sum(captured) :]]
        args = args[: len(args) - sum(captured)]
        if "bodies" in attrs:
            bodies = args[len(args) - len(attrs["bodies"]) :]
            args = args[: len(args) - len(bodies)]
            start = 0
            for name, body, count in zip(attrs["bodies"], bodies, captured, strict=True):
                function = self.model.function(self.plan.resolve(body))
                if function is None:
                    raise OnnxError(f"the attribute {name} of {op.op_type} must be a function")
                graph = self._region(function, outer[start : start + count], ranked=op.op_type == "Scan")
                node.attribute.add(name=name, type=_GRAPH, g=graph)
                start += count
        elif outer:
            names = {outer_name(i): name for i, name in enumerate(outer)}
            for attribute in node.attribute:
                for graph in attribute_graphs(attribute):
                    rename_free(graph, names)
        inputs = [self._operand(arg) for arg in args]
        if any(len(names) != 1 for names in inputs):
            raise OnnxError(f"{op.op_type} cannot take a tuple as an operand")
        node.input.extend(names[0] for names in inputs)
        while "bodies" not in attrs and node.input and not node.input[-1]:
            node.input.pop()
        self.read.update(node.input, outer)
        made = iter(wanted)
        node.output.extend(next(made) if there == "1" else "" for there in attrs["outputs"])
        self.model.imports.setdefault(op.domain, attrs["opset"])
        self.nodes.append(node)

    def _region(self, function: Function, captured: Sequence[str], *, ranked: bool) -> GraphProto:
        """Writes a function as a subgraph whose last parameters are the captured outer values.

        With `ranked`, declares the known ranks of results, since ONNX Runtime requires them for Scan and may not infer them.
        """
        from passat.ir.onnx.exporter import result_fields

        graph: GraphProto = GraphProto.FromString(function.attrs.get("onnx", b""))
        graph.name = graph.name or "body"
        writer = GraphWriter(self.model, inner=True)
        take = self.model.names.take
        own = function.params[: len(function.params) - len(captured)]
        for i, param in enumerate(own):
            if i == len(graph.input):
                graph.input.append(value_info(param.name_hint, param.checked_type))
            writer.names[id(param)] = graph.input[i].name = take(graph.input[i].name)
        for param, name in zip(function.params[len(own) :], captured, strict=True):
            writer.names[id(param)] = name
        fields = result_fields(function.body)
        # ONNX Runtime's Loop moves a sequence that its body only passes on out of the operand, which other nodes may still read.
        moves = self._can_rename(UNKNOWN)  # Identity of sequences
        passed = {id(param): writer.names[id(param)] for param in own if not (moves and isinstance(param.checked_type, TypeCall))}
        for i, field in enumerate(fields):
            if i == len(graph.output):
                graph.output.append(value_info("output", field.checked_type))
            declared, found = graph.output[i].type, type_proto(field.checked_type)
            if contradicts(declared, field.checked_type):  # ONNX Runtime then rejects Scan in some contexts
                declared.CopyFrom(found)
            elif ranked and found.tensor_type.HasField("shape") and not declared.tensor_type.HasField("shape"):
                for dim in found.tensor_type.shape.dim:  # sizes may depend on wrong declarations
                    dim.Clear()
                declared.CopyFrom(found)
            # A result that was an input of the subgraph in the source too keeps the name of the input.
            name = graph.output[i].name
            graph.output[i].name = passed[id(field)] if id(field) in passed and field.name_hint == name else take(name)  # type: ignore[attr-defined]  # parameters are variables
        writer.write(fields, [value.name for value in graph.output])
        self.model.tell_results(function.body, [value.name for value in graph.output])
        graph.node.extend(writer.nodes)
        graph.value_info.extend(writer.value_infos)
        return graph

    def _declare(self, names: Sequence[str], types: Sequence[Type]) -> None:
        """Declares the results whose types cannot be inferred again, and keeps the declarations of disputed ones."""
        for name, type_ in zip(names, types, strict=False):
            declared = value_info(name, type_)
            if declared.HasField("type") and name not in self.outputs:
                self.value_infos.append(declared)

    def name(self, expr: Expr) -> str:
        """Returns the name of a written value. Raises OnnxError for an unbound variable."""
        name = self.names.get(id(expr))
        if name is None:
            name = self._find(expr)
            self.names[id(expr)] = name
        return name

    def _find(self, expr: Expr) -> str:
        if isinstance(expr, Constant):
            return self.model.constants.add(expr)
        found = self.plan.resolve(expr)
        if isinstance(found, TupleGetItem):
            whole = self.plan.resolve(found.tuple_value)
            if id(whole) in self.several:
                return self._result(whole, found.index)
        elif found is not expr:
            return self.name(found)
        if isinstance(found, Var):
            raise OnnxError(f"the variable {found.name_hint!r} is not bound")
        raise OnnxError(f"a value of type {found.checked_type!r} is used where ONNX requires a single tensor")

    def _operand(self, arg: Expr) -> Sequence[str]:
        """The names of an operand: for a tuple those of its fields, for an absent operand the empty name."""
        name = self.names.get(id(arg))
        if name is not None:
            return (name,)
        found = self.plan.resolve(arg)
        if isinstance(found, Tuple):
            return [name for field in found.fields for name in self._operand(field)] or ("",)
        if id(found) not in self.several:
            return (self.name(arg),)
        return [self._result(found, index) for index in range(len(self.several[id(found)]))]

    def _result(self, call: Expr, index: int) -> str:
        """The name of one of several results of a call."""
        name = self.several[id(call)][index]
        if not name:
            raise OnnxError(f"result {index} of the operator {call.op.name} has no ONNX form")  # type: ignore[attr-defined]  # planned calls call operators
        return name


def _with_names(node: NodeProto, inputs: Sequence[str], outputs: Sequence[str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = inputs
    copy.output[:] = outputs
    return copy


def _placed(outputs: Sequence[str], wanted: Sequence[str]) -> Sequence[str]:
    """Maps the outputs of a node to other names: all outputs, the present ones, or the first ones if the others are not read.

    A node may have fewer outputs than its call has results: for batch normalization only the first result is an output, the others are
    operands.
    """
    places = [i for i, name in enumerate(outputs) if name][: len(wanted)]
    if len(outputs) == len(wanted):
        return wanted
    results = [""] * (places[-1] + 1)
    for place, name in zip(places, wanted, strict=False):
        results[place] = name
    return results


def _names(result: Expr) -> Sequence[str]:
    """The names of a value in the source."""
    return result.span.outputs if result.span is not None else ()
