"""Reading a node as an opaque call: its types, its subgraphs as functions, and the outer values that they use as operands."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Function, Span, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.onnx import inference
from passat.ir.onnx.errors import ContradictionError, OnnxError, require_text
from passat.ir.onnx.frame import NOT_KEPT, copy_fields
from passat.ir.onnx.opaque import REGIONS, OpaqueOp, escape, is_stateful, opaque_name
from passat.ir.onnx.scope import GRAPH, Scope, all_names, attribute_graphs, describe, free_names, inner_nodes, rename_free
from passat.ir.onnx.tensors import tensor_proto
from passat.ir.onnx.value_types import UNKNOWN, show_type, type_of
from passat.ir.onnx_mapping import OnnxNode
from passat.ir.op import OpTypeError, get_op
from passat.ir.types import TupleType, Type

if TYPE_CHECKING:
    from passat.ir.onnx.importer import Importer

_DATA_ELEMENTS = 4096
"""Constants of at most so many elements are shown to ONNX's inference."""


def opaque_call(
    importer: "Importer",
    node: NodeProto,
    seen: OnnxNode,
    rest: Sequence[AttributeProto],
    scope: Scope,
) -> Sequence[Expr]:
    """The values of a node's outputs, as fields of an opaque call.

    `seen` is the node with its operands read, `rest` are its attributes that have no value of ours.
    Raises ContradictionError where the operands' types contradict each other.
    """
    inputs, attrs, span = seen.inputs, seen.attrs, seen.span
    outputs = node.output
    domain = "" if node.domain == "ai.onnx" else node.domain
    require_text(node.op_type, domain, *seen.attrs)
    version = importer.opsets.get(domain)
    local = importer.functions.get((domain, node.op_type, node.overload))
    if version is None and (domain or importer.frame.model.ir_version >= 3):
        raise OnnxError(f"{describe(node)} is of the operator domain {domain!r}, which the model does not import")
    op = get_op(opaque_name(domain, node.op_type))
    assert isinstance(op, OpaqueOp)
    mask = "".join("1" if name else "0" for name in outputs) or "1"
    values: dict[str, AnyValue] = {escape(name): value for name, value in attrs.items()}
    values |= {"opset": version or 1, "outputs": mask}
    if node.overload:
        values["overload"] = node.overload
    operands: list[Expr] = [Tuple(()) if value is None else value for value in inputs]
    if not domain and node.op_type in REGIONS:
        bodies = [attribute for attribute in rest if attribute.type == GRAPH]
        rest = [attribute for attribute in rest if attribute.type != GRAPH]
        functions: list[Expr] = []
        captured: list[Expr] = []
        counts: list[int] = []
        for attribute in bodies:
            function, outer = _region(importer, attribute.g, scope)
            functions.append(function)
            captured += outer
            counts.append(len(outer))
        values |= {"bodies": tuple(attribute.name for attribute in bodies), "captured": tuple(counts)}
        operands += functions + captured
    elif rest:
        rest, outer = _close(rest, scope)
        importer.frame.inner_names |= all_names(rest)
        values["captured"] = (len(outer),)
        operands += outer
        if any(is_stateful(inner.domain, inner.op_type) for inner in inner_nodes(rest)):
            values["unique"] = outputs[0] if outputs else node.name
    if rest:
        kept = NodeProto()
        kept.attribute.extend(rest)
        values["protos"] = kept.SerializeToString(deterministic=True)
    for operand in operands:
        infer_type(operand)
    declared = [type_of(importer.declared[name]) if name in importer.declared else UNKNOWN for name in outputs if name]
    try:
        types, needed = _types(op, operands, values, declared or [UNKNOWN], local)
    except OpTypeError as error:
        shown = ["nothing" if value is None else show_type(value.checked_type) for value in inputs]
        sentence = f"{describe(node)} cannot take operands of types {', '.join(shown)}: {error.__cause__ or error}"
        excerpt = [f"{', '.join(outputs)} = {node.op_type}({', '.join(node.input)})"]
        excerpt += (f"  {name}: {type_}" for name, type_ in zip(node.input, shown, strict=False) if name)
        raise ContradictionError(sentence, span, dict.fromkeys(excerpt)) from error
    if needed:
        values["types"] = tuple(map(show_type, types))
    call = Call(op, operands, Attrs(values), span=span)
    call._checked_type = types[0] if len(types) == 1 else TupleType(types)
    if "captured" not in values:
        importer.record(call, node, inputs)
    if len(types) == 1:
        return [call] * len(outputs)
    fields = [infer_type(TupleGetItem(call, i, span)) for i in range(len(types))]
    # An output that is not there has no name, so what stands in its place is not read.
    places = [mask[:i].count("1") if there == "1" else 0 for i, there in enumerate(mask)]
    return [fields[place] for place in places]


def _types(
    op: OpaqueOp, operands: Sequence[Expr], attrs: Mapping[str, AnyValue], declared: Sequence[Type], local: FunctionProto | None
) -> tuple[list[Type], bool]:
    """The types of the results, and whether the call has to carry them because they do not follow from the operands' types alone."""
    types = [operand.checked_type for operand in operands]
    relation = op.infer(types, Attrs(attrs))
    plain = list(relation.fields) if isinstance(relation, TupleType) else [relation]
    found = plain
    if local is not None:
        found = inference.function_types(local, types, attrs)
    elif "bodies" not in attrs and not inference.all_known(plain):
        data = {
            i: tensor_proto(operand.data, "")
            for i, operand in enumerate(operands)
            if isinstance(operand, Constant) and operand.data.size <= _DATA_ELEMENTS
        }
        if data:
            found = inference.node_types(op, types, attrs, data)
    found = inference.merge(found, declared)
    return found, found != plain


def _region(importer: "Importer", graph: GraphProto, scope: Scope) -> tuple[Function, list[Expr]]:
    """A subgraph as a function that is closed, and the outer values that its last parameters stand for."""
    inner = Scope(scope)
    params = [inner.define(value.name, Var(value.name, type_of(value.type), Span("", outputs=(value.name,)))) for value in graph.input]
    body = importer.body(graph, inner)
    header = GraphProto()
    copy_fields(graph, header, except_for=NOT_KEPT)
    captured = list(inner.captured.values())
    attrs = {"onnx": header.SerializeToString(deterministic=True)}
    return Function([*params, *(var for var, _ in captured)], body, attrs=attrs), [outer for _, outer in captured]


def _close(attributes: Sequence[AttributeProto], scope: Scope) -> tuple[list[AttributeProto], list[Expr]]:
    """Attributes whose graphs read `outer:0`, `outer:1` ... where they read outer values, and these values."""
    closed: list[AttributeProto] = []
    names: dict[str, str] = {}
    for attribute in attributes:
        copy = AttributeProto()
        copy.CopyFrom(attribute)
        for graph in attribute_graphs(copy):
            for name in free_names(graph):
                names.setdefault(name, inference.outer_name(len(names)))
            rename_free(graph, names)
        closed.append(copy)
    return closed, [scope.find(name) for name in names]
