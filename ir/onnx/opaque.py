"""Opaque operators, which Passat does not model: `onnx.<Op>` of the default domain, `onnx.<domain>.<Op>` of others.

A call keeps everything in the node. Its attributes are those of the node and these:

* `opset`: the version of the operator's domain;
* `outputs`: which outputs are present, as "1", "110" ...; for several outputs the call returns a tuple of the present ones;
* `types`: the types of the results as text (`passat.ir.onnx.value_types.show_type`), if ONNX's inference alone does not find them, except
  those of ONNX Runtime's own operators that are not declared (`passat.ir.onnx.contrib_types`);
* `disputed`: the declared types of the results, if inference contradicts them; only `types` is reliable then;
* `protos`: a serialized node with the attributes that cannot be converted (graphs, types, sparse tensors, empty lists);
* `overload`: the overload of a local function;
* `unique`: makes the call unequal to any other, because its subgraphs may have side effects (random numbers, custom operators);
* `bodies`, `captured`: for If, Loop and Scan, the attributes that hold functions, and the number of captured values of each.

An attribute of the node with one of these names gets a trailing underscore. Absent inputs are empty tuples. Importing this module does not
import onnx.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.op import Op, op_family
from passat.ir.tensor import Tensor
from passat.ir.types import TupleType, Type

if TYPE_CHECKING:
    from onnx import NodeProto

PREFIX: Final = "onnx."
RESERVED: Final = frozenset({"opset", "outputs", "types", "disputed", "protos", "overload", "bodies", "captured", "unique"})
REGIONS: Final = frozenset({"If", "Loop", "Scan"})
RANDOM: Final = frozenset({"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})
"""Nondeterministic operators. (Dropout is opaque only if it may be in training mode.)"""
WIDENING: Final = frozenset({"DequantizeLinear"})
"""Operators that are not folded: a folded quantized weight takes four times the memory and runs in floating point."""
_KNOWN_DOMAINS: Final = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training"})


class OpaqueOp(Op):
    """An ONNX operator by domain and type. Its calls accept any operands and attributes."""

    __slots__ = ("domain", "op_type")

    def __init__(self, name: str) -> None:
        super().__init__(name, lambda *types, **attrs: _relation(self, types, attrs), doc=f"The ONNX operator {name.removeprefix(PREFIX)}.")
        domain, _, op_type = name.removeprefix(PREFIX).rpartition(".")
        self.domain = domain
        self.op_type = op_type.replace("%2E", ".")
        # A custom operator may have side effects, so it is not treated as a function of its operands.
        self.stateful = is_stateful(domain, op_type)
        self.exact = "integers"
        # Those of ONNX Runtime are not folded: some round differently on other processors.
        if domain in _KNOWN_DOMAINS and not self.stateful and op_type not in REGIONS | WIDENING:
            self.kernel = lambda *values, **attrs: _kernel(self, values, attrs)

    def bind_attrs(self, given: Mapping[str, AnyValue]) -> Attrs:
        """Returns the attributes as given, with defaults for `outputs` (one output) and `opset` (the newest version)."""
        if "opset" in given and "outputs" in given:
            return Attrs(given)
        from passat.ir.onnx.inference import newest_version

        return Attrs({"opset": newest_version(self.domain), "outputs": "1", **given})


op_family(PREFIX, OpaqueOp)


def is_stateful(domain: str, op_type: str) -> bool:
    """Whether an ONNX operator is not known to be a pure function of its operands."""
    if domain.startswith("com.microsoft"):  # operators of ONNX Runtime that Passat knows are pure functions
        from passat.ir.onnx.contrib_types import has_rule

        return not has_rule(domain, op_type)
    return op_type in RANDOM or domain not in _KNOWN_DOMAINS


def dequantizes(op: object) -> bool:
    """Whether an operator is DequantizeLinear."""
    return isinstance(op, OpaqueOp) and op.op_type in WIDENING


def opaque_name(domain: str, op_type: str) -> str:
    """The name of the opaque operator for an ONNX operator.

    >>> opaque_name("", "Resize"), opaque_name("com.microsoft", "Gelu")
    ('onnx.Resize', 'onnx.com.microsoft.Gelu')
    """
    return f"{PREFIX}{domain}{'.' if domain else ''}{op_type.replace('.', '%2E')}"


def operator_name(node: "NodeProto") -> str:
    """The name of a node's operator, after that of its domain for operators of other domains."""
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def own_attributes(attrs: Mapping[str, AnyValue]) -> dict[str, AnyValue]:
    """The attributes of a call that belong to its node, under their ONNX names."""
    return {_unescape(name): value for name, value in attrs.items() if name not in RESERVED}


def escape(name: str) -> str:
    """The name on the call of an attribute of the node.

    >>> escape("axis"), escape("opset"), escape("opset_")
    ('axis', 'opset_', 'opset__')
    """
    return f"{name}_" if name.rstrip("_") in RESERVED else name


def _unescape(name: str) -> str:
    return name[:-1] if name.endswith("_") and name.rstrip("_") in RESERVED else name


def _relation(op: OpaqueOp, types: tuple[Type, ...], attrs: dict[str, AnyValue]) -> Type:
    """The types of ONNX's inference, refined by the declared types of the call."""
    from passat.ir.onnx import inference

    declared = inference.declared_types(attrs)
    if declared is not None and ("disputed" in attrs or inference.all_known(declared)):
        found = declared
    elif "bodies" in attrs:
        found = inference.merge(inference.region_types(op.op_type, types, attrs), declared)
    else:
        found = inference.merge(inference.node_types(op, types, attrs), declared)
    return found[0] if len(found) == 1 else TupleType(found)


def _kernel(op: OpaqueOp, values: tuple[AnyValue, ...], attrs: dict[str, AnyValue]) -> AnyValue:
    """Computes the operator by ONNX Runtime, in the version of the call. Raises ValueError on failure."""
    from passat.ir.onnx.inference import node_proto
    from passat.ir.onnx.ort_evaluator import evaluate_node

    if any(isinstance(value, tuple) and value for value in values):
        raise ValueError("an ONNX operator cannot take a tuple as an operand")
    if "unique" in attrs or any(attrs.get("captured", ())):
        raise ValueError("its subgraphs are not pure functions of its operands")
    operands = [None if isinstance(value, tuple) else Tensor.dense(value) for value in values]
    node = node_proto(op, [operand is None for operand in operands], attrs)
    results = [result.numpy() for result in evaluate_node(node, operands, {op.domain: attrs["opset"]})]
    return results[0] if len(results) == 1 else tuple(results)
