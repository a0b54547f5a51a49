"""Types of the results of opaque calls: from ONNX's shape inference, from declared types, from the bodies of If, Loop and Scan, and from
Passat's own table for ONNX Runtime's operators."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import starmap
from typing import Any as AnyValue
from typing import Final

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, TypeProto
from onnx.shape_inference import InferenceError, infer_function_output_types, infer_node_outputs

from passat.ir.counting import counted
from passat.ir.infer import join
from passat.ir.onnx.attributes import is_absurd, schema_of, write_attributes
from passat.ir.onnx.contrib_types import contrib_types, has_rule
from passat.ir.onnx.declared import agreed
from passat.ir.onnx.doubts import without_doubtful
from passat.ir.onnx.opaque import OpaqueOp, opaque_name, own_attributes
from passat.ir.onnx.scope import inner_nodes
from passat.ir.onnx.value_types import UNKNOWN, parse_type, result_types, type_of, type_proto
from passat.ir.onnx_mapping import ELEMENT_TYPES, TYPE_NUMBERS
from passat.ir.op import OpTypeError, get_op
from passat.ir.shape import ANY, Shape, SymDim, names_in, product
from passat.ir.types import IncompleteType, TensorType, TupleType, Type, TypeCall

_WINDOWS: Final = frozenset({"BlackmanWindow", "HammingWindow", "HannWindow"})
_ML: Final = "ai.onnx.ml"
_ML_SAME_SHAPE: Final = frozenset({"Imputer", "Normalizer", "Scaler"})
_ML_CLASSIFIERS: Final = frozenset({"SVMClassifier", "TreeEnsembleClassifier"})
_ML_COLUMNS: Final[dict[str, AnyValue]] = {
    "FeatureVectorizer": lambda attrs: sum(attrs["inputdimensions"]) if "inputdimensions" in attrs else ANY,
    "LinearRegressor": lambda attrs: attrs.get("targets", 1),
    "SVMRegressor": lambda attrs: 1,
    "TreeEnsembleRegressor": lambda attrs: attrs.get("n_targets", ANY),
}
"""The number of columns of a result with a row for each row of the operand."""


def newest_version(domain: str) -> int:
    """The newest version of a domain that the onnx package knows; 1 for unknown domains."""
    newest = 1
    for schema_domain, version in _newest().items():
        if schema_domain == domain:
            newest = version
    return newest


@lru_cache(1)
def _newest() -> dict[str, int]:
    found = {"": onnx.defs.onnx_opset_version()}
    for schema in onnx.defs.get_all_schemas():
        if schema.domain:
            found[schema.domain] = max(found.get(schema.domain, 1), schema.since_version)
    return found


@lru_cache(4096)
def takes(op_type: str, version: int, domain: str, place: int, dtype: str) -> bool:
    """Whether the schema of an operator permits tensors of an element type as the operand at a place. True without a schema."""
    schema = schema_of(op_type, version, domain)
    if schema is None or not schema.inputs:
        return True
    kind = f"tensor({TensorProto.DataType.Name(TYPE_NUMBERS[dtype]).lower()})"
    return kind in schema.inputs[min(place, len(schema.inputs) - 1)].types


@lru_cache(4096)
def has_inference(op_type: str, version: int, domain: str) -> bool:
    """Whether inference covers the results of an operator; False for custom operators.

    Scan needs a declaration if ranks in its body are unknown, since ONNX Runtime rejects it otherwise.
    """
    schema = None if domain else schema_of(op_type, version, domain)
    return schema is None or schema.has_type_and_shape_inference_function


def call_attributes(op: OpaqueOp, attrs: Mapping[str, AnyValue]) -> list[AttributeProto]:
    """The attributes of the node of an opaque call, except the bodies of If, Loop and Scan."""
    found = write_attributes(op.op_type, op.domain, attrs["opset"], own_attributes(attrs))
    if attrs.get("protos"):
        found.extend(NodeProto.FromString(attrs["protos"]).attribute)
    return found


def node_proto(op: OpaqueOp, absent: Sequence[bool], attrs: Mapping[str, AnyValue]) -> NodeProto:
    """A standalone node with inputs `i0`, `i1` ... (if present) and outputs `o0`, `o1` ..."""
    node = NodeProto(op_type=op.op_type, domain=op.domain, overload=attrs.get("overload", ""))
    node.input.extend("" if gone else f"i{i}" for i, gone in enumerate(absent))
    node.output.extend(f"o{i}" if there == "1" else "" for i, there in enumerate(attrs["outputs"]))
    node.attribute.extend(call_attributes(op, attrs))
    return node


def node_types(
    op: OpaqueOp, types: Sequence[Type], attrs: Mapping[str, AnyValue], data: Mapping[int, TensorProto] | None = None
) -> list[Type]:
    """Returns the types that ONNX infers for the present outputs, from the types of the operands and the values of some. The types for
    ONNX Runtime's own operators are those of `contrib_types`.

    Raises OpTypeError if inference rejects the operands.
    """
    present = attrs["outputs"].count("1") or 1
    if has_rule(op.domain, op.op_type):
        return contrib_types(op.domain, op.op_type, types, attrs)
    schema = schema_of(op.op_type, attrs["opset"], op.domain)
    if schema is None or schema.deprecated:
        return [UNKNOWN] * present
    count = len(types) - sum(attrs.get("captured", ()))
    if not schema.min_input <= count <= schema.max_input:
        raise OpTypeError(f"has {counted(count, 'input')}, but must have at least {schema.min_input} and at most {schema.max_input}")
    if any(map(_vague, types)) or any(starmap(is_absurd, attrs.items())):
        return [UNKNOWN] * present
    absent = [isinstance(type_, TupleType) for type_ in types[:count]]
    if op.op_type == "Resize" and attrs["opset"] >= 13:  # ONNX's inference counts empty operands, which earlier opsets require, as given
        absent = [gone or (0 < i < 3 and _is_empty(types[i])) for i, gone in enumerate(absent)]
    node = node_proto(op, absent, attrs)
    if op.op_type == "Split" and attrs.get("num_outputs", len(node.output)) != len(node.output):  # crashes ONNX's inference
        raise OpTypeError(f"has {counted(len(node.output), 'output')}, but its attribute num_outputs is {attrs['num_outputs']}")
    if op.op_type == "STFT" and "onesided" not in attrs:
        node.attribute.add(name="onesided", type=AttributeProto.INT, i=1)  # the default, which ONNX's inference treats as 0
    given = {f"i{i}" if i < count else outer_name(i - count): _proto(type_) for i, type_ in enumerate(types) if i >= count or not absent[i]}
    values = {f"i{i}": value for i, value in (data or {}).items() if i < count and not absent[i]}
    try:
        found = infer_node_outputs(schema, node, given, values, opset_imports=_imports(op.domain, attrs["opset"], _domains(attrs)))
    except (InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as error:  # RuntimeError: too few outputs
        raise OpTypeError(reason(error)) from error
    inferred = [without_new_names(type_of(found[name]), types) if name in found else UNKNOWN for name in node.output if name]
    if op.domain == _ML:
        places = [place for place, name in enumerate(node.output) if name]
        inferred = [
            _ml_type(op.op_type, place, found, types, attrs) if isinstance(type_, IncompleteType) else type_
            for place, type_ in zip(places, inferred, strict=True)
        ]
    if inferred == [UNKNOWN] * present and not op.domain:
        inferred = [_not_inferred(op.op_type, types, attrs)] * present
    return inferred if op.domain else without_doubtful(node, attrs, types, inferred)


def _is_empty(type_: Type) -> bool:
    return isinstance(type_, TensorType) and type_.shape == (0,)


def _not_inferred(op_type: str, types: Sequence[Type], attrs: Mapping[str, AnyValue]) -> Type:
    """The type of each result of a standard operator for which ONNX infers none: what is known without it."""
    if op_type == "MeanVarianceNormalization":
        return types[0]
    if op_type == "Split":  # the rank is known even if the size of the split axis is not
        return _part(types[0], attrs.get("axis", 0))
    dtype = ELEMENT_TYPES.get(attrs.get("output_datatype", TensorProto.FLOAT)) if op_type in _WINDOWS else None
    return UNKNOWN if dtype is None else TensorType((ANY,), dtype)  # the size of a window is an operand


def _part(whole: Type, axis: int) -> Type:
    """The type of a part of a value that is split into parts of unknown sizes."""
    if not isinstance(whole, TensorType):
        return UNKNOWN
    at = axis % whole.ndim
    return whole.with_shape((*whole.shape[:at], ANY, *whole.shape[at + 1 :]))


def _ml_type(op_type: str, place: int, found: Mapping[str, TypeProto], types: Sequence[Type], attrs: Mapping[str, AnyValue]) -> Type:
    """The type of a result of an operator of ai.onnx.ml, of which ONNX's inference only finds the element type."""
    name = f"o{place}"
    dtype = ELEMENT_TYPES.get(found[name].tensor_type.elem_type) if name in found else None
    shape = _ml_shape(op_type, place, types, attrs)
    return UNKNOWN if dtype is None or shape is None else TensorType(shape, dtype)


def _ml_shape(op_type: str, place: int, types: Sequence[Type], attrs: Mapping[str, AnyValue]) -> Shape | None:
    """The shape of a result of ONNX Runtime's kernel; None if it is unknown. A vector is a single row."""
    first = types[0]
    if not isinstance(first, TensorType) or not first.shape:
        return None
    rows = first.shape[0] if len(first.shape) > 1 else 1
    if op_type in _ML_SAME_SHAPE:
        return first.shape
    if op_type in _ML_CLASSIFIERS:
        return (rows, ANY) if place else (rows,)
    if op_type in _ML_COLUMNS:
        return (rows, _ML_COLUMNS[op_type](attrs))
    if op_type == "ArrayFeatureExtractor" and len(first.shape) == 1:
        return (1, product(types[1].shape) if isinstance(types[1], TensorType) else ANY)
    return None


def function_types(function: FunctionProto, types: Sequence[Type], attrs: Mapping[str, AnyValue]) -> list[Type]:
    """Returns the types that ONNX infers for the results of a local function; unknown types if it cannot."""
    op = get_op(opaque_name(function.domain, function.name))
    present = [there == "1" for there in attrs["outputs"]]
    unknown: list[Type] = [UNKNOWN] * sum(present)
    if not isinstance(op, OpaqueOp) or any(isinstance(type_, TupleType) or _vague(type_) for type_ in types):
        return unknown
    try:
        found = infer_function_output_types(function, list(map(_proto, types)), call_attributes(op, attrs))
    except (InferenceError, ValueError):  # ValueError: unknown element type
        return unknown
    return [without_new_names(type_of(proto), types) for proto, there in zip(found, present, strict=False) if there]


def _vague(type_: Type) -> bool:
    """Whether the type of a value, or of the elements of a sequence, is unknown; ONNX's inference would report a contradiction."""
    return isinstance(type_, IncompleteType) or (isinstance(type_, TypeCall) and any(map(_vague, type_.args)))


def outer_name(index: int) -> str:
    """The name of a captured outer value in the subgraphs of an opaque call."""
    return f"outer:{index}"


def without_new_names(type_: Type, operands: Sequence[Type]) -> Type:
    """Replaces names of dimensions that no operand has by unknown dimensions. Inference invents such names, possibly the same name
    twice."""
    if not isinstance(type_, TensorType) or not any(isinstance(dim, SymDim) for dim in type_.shape):
        return type_
    names = {name for operand in operands if isinstance(operand, TensorType) for dim in operand.shape for name in names_in(dim)}
    return type_.with_shape(ANY if any(name not in names for name in names_in(dim)) else dim for dim in type_.shape)


def reason(error: Exception) -> str:
    """The part of an inference error that describes the problem."""
    return str(error).replace("[ShapeInferenceError]", "").replace("[TypeInferenceError]", "").strip().splitlines()[-1].strip()


@lru_cache(4096)
def _proto(type_: Type) -> TypeProto:
    return type_proto(type_)


@lru_cache(64)
def _imports(domain: str, version: int, others: frozenset[str]) -> list[onnx.OperatorSetIdProto]:
    versions = {name: newest_version(name) for name in others} | {domain: version}
    return [onnx.OperatorSetIdProto(domain=name, version=each) for name, each in sorted(versions.items())]


def _domains(attrs: Mapping[str, AnyValue]) -> frozenset[str]:
    """The domains of the nodes in the subgraphs of a call, which inference requires to be imported."""
    if not attrs.get("protos"):
        return frozenset()
    return frozenset(node.domain for node in inner_nodes(NodeProto.FromString(attrs["protos"]).attribute)) - {"", "ai.onnx"}


def declared_types(attrs: Mapping[str, AnyValue], name: str = "types") -> list[Type] | None:
    """The types that a call carries, if any."""
    return list(map(parse_type, attrs[name])) if attrs.get(name) else None


def all_known(types: Sequence[Type]) -> bool:
    """Whether all types are tensors of static shape."""
    return all(isinstance(type_, TensorType) and type_.is_static for type_ in types)


def merge(inferred: Sequence[Type], declared: Sequence[Type] | None) -> list[Type]:
    """Combines inferred and declared types (`agreed`)."""
    if declared is None or len(declared) != len(inferred):
        return list(inferred)
    return list(map(agreed, inferred, declared))


def region_types(op_type: str, types: Sequence[Type], attrs: Mapping[str, AnyValue]) -> list[Type]:
    """Returns the types of the results of If, Loop and Scan, from those of their operands and bodies."""
    mask = attrs["outputs"]
    count = len(types) - len(attrs["bodies"]) - sum(attrs["captured"])
    operands = types[:count]
    results = [result_types(type_) for type_ in types[count : count + len(attrs["bodies"])]]
    if op_type == "If":
        if any(len(branch) < len(mask) for branch in results):
            raise OpTypeError(
                f"has {counted(len(mask), 'output')}, but its branches have {' and '.join(str(len(branch)) for branch in results)}"
            )
        found = [_joined(*(branch[i] for branch in results)) for i in range(len(mask))]
    elif op_type == "Loop":
        found = _loop(operands, results[0])
    else:
        found = _scan(operands, results[0], attrs)
    found += [UNKNOWN] * (len(mask) - len(found))
    return [type_ for type_, there in zip(found, mask, strict=False) if there == "1"]


def _joined(*types: Type) -> Type:
    """The type of a value of one of some types. Elements of a sequence that are unknown in one type are unknown."""
    vague = [type_ for type_ in types if _vague(type_)]
    if vague:
        return vague[0] if len(set(map(_container, types))) == 1 else UNKNOWN
    result = types[0]
    for other in types[1:]:
        result = join(result, other) or UNKNOWN
    return result


def _container(type_: Type) -> Type | None:
    return type_.func if isinstance(type_, TypeCall) else None


def _loop(operands: Sequence[Type], results: Sequence[Type]) -> list[Type]:
    """The loop-carried values, each the join of the operand and the body's result, followed by the values stacked per iteration."""
    carried = operands[2:]
    found = [_joined(before, after) for before, after in zip(carried, results[1:], strict=False)]
    return found + [_stacked(type_, 0) for type_ in results[1 + len(carried) :]]


def _scan(operands: Sequence[Type], results: Sequence[Type], attrs: Mapping[str, AnyValue]) -> list[Type]:
    """The loop-carried values, followed by the values stacked along their axes. Version 8, with a batch axis, uses the declared types."""
    if attrs["opset"] < 9:
        return [UNKNOWN] * len(results)
    if "num_scan_inputs" not in attrs:
        raise OpTypeError("requires the attribute num_scan_inputs")
    carried = operands[: len(operands) - attrs["num_scan_inputs"]]
    found = [_joined(before, after) for before, after in zip(carried, results, strict=False)]
    axes = attrs.get("scan_output_axes", ())
    return found + [_stacked(type_, axes[i] if i < len(axes) else 0) for i, type_ in enumerate(results[len(carried) :])]


def _stacked(type_: Type, axis: int) -> Type:
    if not isinstance(type_, TensorType):
        return UNKNOWN
    at = axis if axis >= 0 else axis + type_.ndim + 1
    return type_.with_shape((*type_.shape[:at], ANY, *type_.shape[at:]))
