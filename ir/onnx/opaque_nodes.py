"""Imports a node as an opaque call: its types, its subgraphs as functions, and their captured values as operands."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Function, Span, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.onnx import inference
from passat.ir.onnx.attributes import attribute_kinds
from passat.ir.onnx.contrib_types import has_rule
from passat.ir.onnx.declared import DisbeliefError, holding
from passat.ir.onnx.doubts import contradiction
from passat.ir.onnx.errors import OnnxError, require_text
from passat.ir.onnx.frame import NOT_KEPT, copy_fields
from passat.ir.onnx.opaque import REGIONS, OpaqueOp, escape, is_stateful, opaque_name
from passat.ir.onnx.read_again import read_operand
from passat.ir.onnx.scope import (
    GRAPH,
    Scope,
    all_names,
    attribute_graphs,
    describe,
    free_names,
    inner_nodes,
    rename_captured,
)
from passat.ir.onnx.tensors import tensor_proto
from passat.ir.onnx.value_types import UNKNOWN, show_type, type_of
from passat.ir.onnx_mapping import OnnxNode
from passat.ir.op import OpTypeError, get_op
from passat.ir.ops.emitting import shortest
from passat.ir.types import TupleType, Type, compatible

if TYPE_CHECKING:
    from passat.ir.onnx.importer import Importer

_DATA_ELEMENTS = 4096
"""Maximum number of elements of constants that are passed to ONNX's inference."""


def opaque_call(
    importer: "Importer",
    node: NodeProto,
    seen: OnnxNode,
    rest: Sequence[AttributeProto],
    scope: Scope,
) -> Sequence[Expr]:
    """Returns the values of a node's outputs, as fields of an opaque call.

    `seen` is the node with imported operands; `rest` are its attributes that cannot be converted. Raises DisbeliefError if declarations
    contradict each other.
    """
    inputs, attrs, span = seen.inputs, seen.attrs, seen.span
    outputs = node.output
    domain = "" if node.domain == "ai.onnx" else node.domain
    require_text(node.op_type, domain, *seen.attrs)
    version = importer.opsets.get(domain)
    if version is None and (domain or importer.frame.model.ir_version >= 3):
        importer.findings.contradiction(f"{describe(node)} is of the operator domain {domain!r}, which the model does not import", span)
        version = inference.newest_version(domain)
    op = get_op(opaque_name(domain, node.op_type))
    assert isinstance(op, OpaqueOp)
    mask = "".join("1" if name else "0" for name in outputs) or "1"
    values: dict[str, AnyValue] = {escape(name): _shortest(value) for name, value in attrs.items()}
    values |= {"opset": version or 1, "outputs": mask}
    if node.overload:
        values["overload"] = node.overload
    operands: list[Expr] = [Tuple(()) if value is None else value for value in inputs]
    if not domain and node.op_type in REGIONS:
        bodies = [attribute for attribute in rest if attribute.type == GRAPH]
        rest = [attribute for attribute in rest if attribute.type != GRAPH]
        there = {attribute.name for attribute in bodies}
        for name, kind in attribute_kinds(node.op_type, values["opset"]).items():
            if kind == GRAPH and name not in there:
                raise OnnxError(f"{describe(node)} has no graph {name!r}")
        functions: list[Expr] = []
        captured: list[Expr] = []
        counts: list[int] = []
        for attribute in bodies:
            carried = operands[2:] if node.op_type == "Loop" else []
            function, outer = _region(importer, attribute.g, scope, [operand.checked_type for operand in carried])
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
    types, grounds = _result_types(importer, node, seen, op, operands, values)
    call = Call(op, operands, Attrs(values), span=span)
    call._checked_type = types[0] if len(types) == 1 else TupleType(types)
    importer.grounds.put(call, grounds)
    if "captured" not in values:
        importer.record(call, node, inputs)
    if len(types) == 1:
        return [call] * len(outputs)
    fields = [infer_type(TupleGetItem(call, i, span)) for i in range(len(types))]
    for field in fields:
        importer.grounds.put(field, grounds)
    # An absent output has no name, so its placeholder is never read.
    places = [mask[:i].count("1") if there == "1" else 0 for i, there in enumerate(mask)]
    return [fields[place] for place in places]


def _shortest(value: AnyValue) -> AnyValue:
    """The value of an attribute as rules write it: 32-bit floats as shortest decimals."""
    if isinstance(value, tuple):
        return tuple(map(_shortest, value))
    return shortest(value) if isinstance(value, float) else value


def _result_types(
    importer: "Importer", node: NodeProto, seen: OnnxNode, op: OpaqueOp, operands: Sequence[Expr], values: dict[str, AnyValue]
) -> tuple[list[Type], frozenset[str]]:
    """Returns the types of a call's results that do not follow from its operands, and the names whose declarations they depend on."""
    inputs, outputs, title = seen.inputs, node.output, describe(node)
    names = [name for name in outputs if name]
    declared = [type_of(importer.declared[name]) if name in importer.declared else UNKNOWN for name in names] or [UNKNOWN]
    grounds = importer.grounds.of(operands)
    sentence = contradiction(node, seen.version, seen.attrs, [operand.checked_type for operand in operands])
    if sentence and (believed := importer.believed()):
        raise DisbeliefError(believed, f"{title} {sentence}")
    try:
        plain, found = _types(op, operands, values, importer.functions.get((op.domain, node.op_type, node.overload)))
        follows = "neither is used where they differ"
        disputed = [importer.is_disputed(name, type_, title, grounds, follows) for name, type_ in zip(names, found, strict=False)]
    except OpTypeError as error:
        shown = ["nothing" if value is None else show_type(value.checked_type) for value in inputs]
        sentence = f"{title} does not accept operands of types {', '.join(shown)}: {error.__cause__ or error}"
        if grounds:
            raise DisbeliefError(grounds, sentence) from error
        excerpt = [f"{', '.join(outputs)} = {node.op_type}({', '.join(node.input)})"]
        excerpt += (f"  {name}: {type_}" for name, type_ in zip(node.input, shown, strict=False) if name)
        importer.findings.contradiction(sentence, seen.span, dict.fromkeys(excerpt))
        plain, found, disputed = [], [UNKNOWN] * len(declared), [True]
    missing = len(declared) - len(found)  # the call of a local function with fewer outputs than the call
    types = inference.merge([*found, *[UNKNOWN] * missing], declared)
    if any(disputed):
        values["disputed"] = tuple(map(show_type, declared))
    # Other programs do not know the types of ONNX Runtime's own operators, so their declarations are kept.
    kept = has_rule(op.domain, op.op_type) and any(type_ != UNKNOWN for type_ in declared)
    if kept or any(disputed) or types != plain:
        values["types"] = tuple(map(show_type, types))
    return types, grounds.union(name for name, a, b in zip(names, found, types, strict=False) if a != b)


def _types(
    op: OpaqueOp, operands: Sequence[Expr], attrs: Mapping[str, AnyValue], local: FunctionProto | None
) -> tuple[list[Type], list[Type]]:
    """Returns the types of the results twice: inferred from the types of the operands only, and from all available information."""
    types = [operand.checked_type for operand in operands]
    relation = op.infer(types, Attrs(attrs))
    plain = list(relation.fields) if isinstance(relation, TupleType) else [relation]
    if local is not None and not has_rule(op.domain, op.op_type):  # ONNX Runtime prefers its own operators
        return plain, inference.function_types(local, types, attrs)
    if "bodies" not in attrs and not inference.all_known(plain):
        data = {
            i: tensor_proto(operand.data, "")
            for i, operand in enumerate(map(read_operand, operands))
            if isinstance(operand, Constant) and operand.data.size <= _DATA_ELEMENTS
        }
        if data:
            return plain, inference.node_types(op, types, attrs, data)
    return plain, plain


def _region(importer: "Importer", graph: GraphProto, scope: Scope, carried: Sequence[Type]) -> tuple[Function, list[Expr]]:
    """Imports a subgraph as a closed function, and returns it with the captured values, which become its last parameters.

    `carried` are the types of loop-carried values before the first iteration: the subgraph's inputs after the first two.
    """
    types = [type_of(value.type) for value in graph.input]
    declared = types[2 : 2 + len(carried)]
    # The declared type of a loop-carried value must hold before the loop and after each iteration.
    held = list(map(holding, declared, carried))
    given = [list(carried)]
    while True:
        mark, inner = importer.findings.mark(), Scope(scope)
        types[2 : 2 + len(held)] = held
        require_text(*(value.name for value in graph.input))
        params = [
            inner.define(value.name, Var(value.name, type_, Span("", outputs=(value.name,))))
            for value, type_ in zip(graph.input, types, strict=True)
        ]
        body = importer.body(graph, inner)
        results = body.fields if isinstance(body, Tuple) else (body,)
        found = [result.checked_type for result in results[1 : 1 + len(held)]]
        kept = list(map(holding, held, found)) if len(found) == len(held) else held
        if kept == held:
            break
        importer.findings.forget(mark)
        given.append(found)
        held = kept
    for value, said, *types_given in zip(graph.input[2:], declared, *given, strict=False):
        wrong = next((type_ for type_ in types_given if not compatible(said, type_)), None)
        if wrong is not None:
            sentence = f"the input {value.name!r} of a loop is declared as {show_type(said)}, but the loop passes {show_type(wrong)}"
            importer.findings.warn(f"{sentence}; neither is used where they differ", Span("", outputs=(value.name,)))
    header = GraphProto()
    copy_fields(graph, header, except_for=NOT_KEPT)
    captured = list(inner.captured.values())
    attrs = {"onnx": header.SerializeToString(deterministic=True)}
    return Function([*params, *(var for var, _ in captured)], body, attrs=attrs), [outer for _, outer in captured]


def _close(attributes: Sequence[AttributeProto], scope: Scope) -> tuple[list[AttributeProto], list[Expr]]:
    """Renames the captured values in the graphs of attributes to `outer:0`, `outer:1` ..., and returns the attributes and these values."""
    closed: list[AttributeProto] = []
    names: dict[str, str] = {}
    for attribute in attributes:
        copy = AttributeProto()
        copy.CopyFrom(attribute)
        for graph in attribute_graphs(copy):
            free = free_names(graph)
            for name in free:
                names.setdefault(name, inference.outer_name(len(names)))
            rename_captured(graph, {name: names[name] for name in free})
        closed.append(copy)
    return closed, [scope.find(name) for name in names]
