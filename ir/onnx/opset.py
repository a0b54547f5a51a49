"""Converts models to a later opset: imports in the old one, exports in the new one.

Operators that Passat models are written by their writers, the others are converted by `passat.ir.onnx.upgrades`. A node whose operator did
not change is kept.
"""

from dataclasses import replace as replace_fields
from typing import Final

import onnx
from onnx import ModelProto, NodeProto, helper, version_converter

from passat.ir.bounds import at_least
from passat.ir.expr import Call, Expr
from passat.ir.infer import InferError, infer_type
from passat.ir.module import IRModule
from passat.ir.onnx.errors import OnnxError
from passat.ir.onnx.exporter import export_model
from passat.ir.onnx.frame import Frame
from passat.ir.onnx.importer import import_model
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.onnx.scope import describe, inner_nodes, without_functions
from passat.ir.onnx.upgrades import NoUpgradeError, next_version, raised, split_evenly
from passat.ir.onnx_mapping import OLDEST_READ
from passat.ir.op import Op, OpTypeError, get_op
from passat.ir.traverse import rewrite
from passat.ir.types import TensorType

_MOST_BYTES: Final = 2**31 - 1
"""The size limit of protocol buffers, which the onnx tools for some models require."""
_SPLIT_BY_NUMBER: Final = 18
"""The opset since which Split has the attribute num_outputs."""
_INLINED: Final = frozenset({"Swish"})
"""Operators without a kernel in ONNX Runtime, which expands their function body only in their first opset. In later opsets they are
written by Passat's writers."""
_FUNCTIONS_OF_FLOAT64: Final = {
    **{"nn.elu": ("Elu", 18), "nn.hard_sigmoid": ("HardSigmoid", 18), "nn.hard_swish": ("HardSwish", 18), "nn.mish": ("Mish", 18)},
    **{"nn.selu": ("Selu", 18), "nn.softplus": ("Softplus", 18), "nn.softsign": ("Softsign", 18)},
    **{"nn.thresholded_relu": ("ThresholdedRelu", 18), "nn.leaky_relu": ("LeakyRelu", 16), "nn.prelu": ("PRelu", 16)},
}
"""Operators without a float64 kernel in ONNX Runtime, which expands their function body only from these opsets to 18."""
_LAST_FUNCTIONS: Final = 18


def in_opset(model: ModelProto, opset: int, *, folder: str | None = None, lenient: bool = False) -> ModelProto:
    """Converts a model to a later opset of the default domain; returns it unchanged if it has that opset.

    External data is in `folder`; `lenient` as in `from_onnx`. Raises OnnxError for an earlier opset, for one that the installed `onnx` does
    not support, and for nodes that the opset cannot express.
    """
    found = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=opset)
    if opset == found:
        return model
    if opset < found:
        raise OnnxError(f"the model has opset {found} and cannot be lowered to {opset}; only later opsets are supported")
    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise OnnxError(
            f"the model cannot be converted from opset {found} to {opset}: the installed onnx {onnx.__version__} supports 1 to {newest}"
        )
    if found < OLDEST_READ:
        model = _by_onnx(model, found, min(opset, OLDEST_READ))
        return in_opset(model, opset, folder=folder, lenient=lenient)
    model = _with_functions_inlined(model, found, opset)
    module = import_model(model, folder=folder, lenient=lenient)
    return export_model(_raised(module, opset))


def _by_onnx(model: ModelProto, found: int, opset: int) -> ModelProto:
    """Converts a model of a very old opset by `onnx.version_converter`, since Passat does not read its operators."""
    _require_small(model, f"a model of opset {found} is converted by the onnx package")
    try:
        converted: ModelProto = version_converter.convert_version(model, opset)
    except Exception as error:  # the converter raises arbitrary exceptions
        raise OnnxError(f"the model cannot be converted from opset {found} to {opset}: {' '.join(str(error).split())[:300]}") from error
    converted.ir_version = max(model.ir_version, helper.find_min_ir_version_for(converted.opset_import))
    return converted


def _require_small(model: ModelProto, why: str) -> None:
    if model.ByteSize() > _MOST_BYTES:
        raise OnnxError(f"{why}, which is limited to 2 GB; store the weights as external data")


def _with_functions_inlined(model: ModelProto, found: int, opset: int) -> ModelProto:
    """Inlines local functions if operators in them changed; otherwise returns the model unchanged."""
    nodes = [node for function in model.functions for node in function.node]
    if not any(_changes(node, found, opset) for node in nodes):
        return model
    _require_small(model, "its local functions must be inlined by the onnx package")
    return without_functions(model)


def _changes(node: NodeProto, found: int, opset: int) -> bool:
    """Whether the operator of a node, or of a node in its subgraphs, has a different version in the later opset."""
    return any(
        each.domain in ("", "ai.onnx") and (next_version(each.op_type, found) or opset + 1) <= opset
        for each in (node, *inner_nodes(node.attribute))
    )


def _raised(module: IRModule, opset: int) -> IRModule:
    """Converts a module to the later opset. Raises OnnxError."""
    frame = module.attrs["onnx"]
    assert isinstance(frame, Frame)
    found = frame.version

    def replace(old: Expr, new: Expr) -> Expr:
        if isinstance(new, Call) and new.op is get_op("split") and found < _SPLIT_BY_NUMBER <= opset and _may_be_empty(new):
            return split_evenly(new, opset)
        if isinstance(new, Call) and _loses_its_kernel(new, found, opset):
            raise _no_form(new, found, opset, "ONNX Runtime has no float64 kernel for it there")
        if isinstance(new, Call) and not isinstance(new.op, OpaqueOp):
            return _typed(new, old)
        if not isinstance(new, Call) or new.op.domain:  # type: ignore[attr-defined]  # the operator is opaque
            return new
        node = NodeProto.FromString(new.attrs.get("protos", b""))
        if any(_changes(inner, found, opset) for inner in inner_nodes(node.attribute)):
            raise _no_form(new, found, opset, "operators in its subgraphs changed")
        try:
            infer_type(new)
            return raised(new, opset)
        except (NoUpgradeError, InferError, OpTypeError) as error:
            raise _no_form(new, found, opset, str(error)) from error

    body = infer_type(rewrite(module["main"].body, replace))
    return IRModule({"main": module["main"].with_body(body)}, attrs={**module.attrs, "onnx": _frame(frame, found, opset)})


def _typed(call: Expr, old: Expr) -> Expr:
    """Infers the type of the call. ONNX Runtime returns a result even if no window fits into the size, which is known now."""
    try:
        return infer_type(call)
    except InferError:
        return call.assume_type(old.checked_type)


def _loses_its_kernel(call: Call, found: int, opset: int) -> bool:
    """Whether ONNX Runtime runs a float64 call in the old opset, as a function, but not in the new one."""
    named = _FUNCTIONS_OF_FLOAT64.get(call.op.name) if isinstance(call.op, Op) else None
    if named is None or not named[1] <= found <= _LAST_FUNCTIONS < opset:
        return False
    type_ = infer_type(call).checked_type
    return isinstance(type_, TensorType) and type_.dtype == "float64"


def _may_be_empty(split: Call) -> bool:
    """Whether the size may be less than the number of equal parts."""
    data, cut = infer_type(split.args[0]).checked_type, split.attrs["indices_or_sections"]
    assert isinstance(data, TensorType)
    size = data.shape[data.axis(split.attrs["axis"])]
    return isinstance(cut, int) and not isinstance(size, int) and not at_least(size, 1)


def _no_form(call: Call, found: int, opset: int, reason: str) -> OnnxError:
    assert isinstance(call.op, Op)
    node = NodeProto(op_type=call.op.op_type if isinstance(call.op, OpaqueOp) else _FUNCTIONS_OF_FLOAT64[call.op.name][0])
    if call.span is not None:
        node.name = call.span.source_name
        node.output.extend(call.span.outputs)
    return OnnxError(f"{describe(node)} cannot be converted from opset {found} to {opset}: {reason}")


def _frame(frame: Frame, found: int, opset: int) -> Frame:
    """The frame in the later opset. Original nodes are kept if their operators are the same."""
    header = ModelProto()
    header.CopyFrom(frame.model)
    for holder in (header, *header.functions):
        for entry in holder.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = opset
    header.ir_version = max(header.ir_version, helper.find_min_ir_version_for(header.opset_import, ignore_unknown=True))
    for info in header.training_info:
        if any(_changes(node, found, opset) for graph in (info.initialization, info.algorithm) for node in graph.node):
            raise OnnxError(
                f"the training information of the model cannot be converted from opset {found} to {opset}: operators in it changed"
            )
    origins = {
        key: origin for key, origin in frame.origins.items() if origin[1].op_type not in _INLINED and not _changes(origin[1], found, opset)
    }
    return replace_fields(frame, model=header, origins=origins)
