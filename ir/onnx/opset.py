"""Models in a later opset than they came in."""

from typing import Final

from onnx import ModelProto, helper, version_converter

from passat.ir.onnx.errors import OnnxError

_MOST_BYTES: Final = 2**31 - 1
"""Protocol buffers hold no more, and `onnx.version_converter` works on them."""


def in_opset(model: ModelProto, opset: int) -> ModelProto:
    """The model in a later opset of the default domain, by `onnx.version_converter`; itself where it is in that opset.

    Raises OnnxError for an earlier opset, one that this `onnx` does not know, and for a model that the converter refuses.
    """
    found = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=opset)
    if opset == found:
        return model
    if opset < found:
        raise OnnxError(f"the model is in opset {found}; opsets can be raised, not lowered to {opset}")
    if model.ByteSize() > _MOST_BYTES:
        raise OnnxError("the model is too large for the version converter of onnx; keep its weights in a file of their own")
    try:
        converted: ModelProto = version_converter.convert_version(model, opset)
    except Exception as error:  # the converter raises whatever it meets
        said = " ".join(str(error).split())[:300]
        raise OnnxError(f"the model does not go from opset {found} to {opset}: {said}") from error
    converted.ir_version = max(model.ir_version, helper.find_min_ir_version_for(converted.opset_import))
    return converted
