"""Models held as objects of other packages: `onnx_ir.Model` and `torch.onnx.ONNXProgram`.

Types are recognized by name. Neither package is imported here: the caller has already imported it.
"""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast
from typing import Any as AnyValue

from passat.ir.onnx import OnnxError

if TYPE_CHECKING:
    from onnx import ModelProto

IR_MODEL: Final = ("onnx_ir", "Model")
PROGRAM: Final = ("torch", "ONNXProgram")


class OnnxIRModel(Protocol):
    """An `onnx_ir.Model`."""

    @property
    def graph(self) -> AnyValue:
        """The main graph."""

    @property
    def opset_imports(self) -> AnyValue:
        """The opset version of each domain."""


class TorchProgram(Protocol):
    """A `torch.onnx.ONNXProgram`: what `torch.onnx.export(..., dynamo=True)` returns."""

    @property
    def model(self) -> OnnxIRModel:
        """The exported model."""

    @property
    def exported_program(self) -> AnyValue:
        """The program that was exported."""


class Converted(NamedTuple):
    """A ModelProto, and the folder of its external data, None without external data."""

    proto: "ModelProto"
    folder: str | None


def convert(model: object) -> Converted | None:
    """The ModelProto of an `onnx_ir.Model` or a `torch.onnx.ONNXProgram`; None for any other object.

    Weights in external files stay there. Raises OnnxError for a model that cannot be converted, and for one with external files in several
    folders.
    """
    if _is(model, PROGRAM):
        model = cast("TorchProgram", model).model
    if not _is(model, IR_MODEL):
        return None
    onnx_ir = sys.modules[IR_MODEL[0]]
    folders = sorted({os.path.abspath(tensor.base_dir) for tensor in _tensors(model) if isinstance(tensor, onnx_ir.ExternalTensor)})
    if len(folders) > 1:
        raise OnnxError(
            f"the onnx_ir.Model has external data in several folders: {', '.join(folders)}; "
            "onnx_ir.external_data.load_to_model(model) reads all of it into memory"
        )
    try:
        proto: ModelProto = onnx_ir.to_proto(model)
    except Exception as error:  # onnx_ir, and the tensors of other packages in it, raise errors of many kinds
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise OnnxError(f"onnx_ir cannot write the model as ONNX: {type(cause).__name__}: {cause}") from error
    return Converted(proto, folders[0] if folders else None)


def _is(model: object, kind: tuple[str, str]) -> bool:
    package, name = kind
    return any(each.__name__ == name and each.__module__.partition(".")[0] == package for each in type(model).__mro__)


def _tensors(model: AnyValue) -> Iterator[AnyValue]:
    """The tensors of all graphs of an `onnx_ir.Model`: initializers and attributes."""
    graphs = [model.graph, *model.graph.subgraphs()]
    for function in model.functions.values():
        graphs += [function, *function.subgraphs()]
    for graph in graphs:
        for value in getattr(graph, "initializers", {}).values():
            yield value.const_value
        for node in graph:
            for attribute in node.attributes.values():
                if not attribute.is_ref() and attribute.type.name in ("TENSOR", "TENSORS"):
                    yield from attribute.value if attribute.type.name == "TENSORS" else (attribute.value,)
