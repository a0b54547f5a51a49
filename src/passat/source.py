"""The model that an optimization starts from: its name, content, and the place to read it again. Models may be objects of other packages,
`onnx_ir.Model` and `torch.onnx.ONNXProgram`.

Types are recognized by name. Neither package is imported here: the caller has already imported it.
"""

import contextlib
import os
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast
from typing import Any as AnyValue

from passat.ir.argument_checks import ArgumentError
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx
from passat.ir.onnx.errors import CheckerError, ContradictionError, require_onnx
from passat.settings import Variant

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.runner import ModelSource

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


def convert(model: object) -> "tuple[ModelProto, str | None] | None":
    """The ModelProto of an `onnx_ir.Model` or a `torch.onnx.ONNXProgram`, and the folder of its external data, if it has some; None for any
    other object.

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
    return proto, folders[0] if folders else None


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


ModelLike: TypeAlias = "ModelProto | str | os.PathLike[str] | bytes | bytearray | memoryview | SupportsRead | OnnxIRModel | TorchProgram"
"""A model, its file, its bytes, or a binary file object that holds them; an `onnx_ir.Model`, or a `torch.onnx.ONNXProgram`."""
IN_MEMORY: Final = "a model in memory"


class SupportsRead(Protocol):
    """A binary file object."""

    def read(self, size: int, /) -> bytes:
        """Reads at most `size` bytes."""


@dataclass(frozen=True, eq=False)
class Source:
    """A model as it was given. `folder` is the folder of its external data; `is_specialized` says that `proto` has fewer outputs or
    dynamic sizes than the model that was given."""

    name: str
    proto: "ModelProto"
    folder: str | None
    in_file: bool
    is_specialized: bool = False

    @property
    def path(self) -> str | None:
        """The path of its file; None for a model in memory."""
        return self.name if self.in_file and not self.is_specialized else None

    @property
    def prefix(self) -> str:
        """What begins a sentence about the model: the name of its file, if there is one."""
        return f"{self.name}: " if self.in_file else ""

    @property
    def original(self) -> "ModelSource":
        """The model, to be read again: its file, unless that is a pipe."""
        return self.path if self.path is not None and os.path.isfile(self.path) else self.proto

    @property
    def read_before(self) -> "ModelProto | None":
        """The content of the file that `original` and `runnable` name; None if these are a model in memory, or a file made of it."""
        return None if self.original is self.proto else self.proto

    @cached_property
    def runnable(self) -> "ModelSource":
        """The model for ONNX Runtime; one in memory that is too large for it is in a temporary file as long as this object exists."""
        from passat.runner import loadable, uninterrupted

        stack = contextlib.ExitStack()
        weakref.finalize(self, uninterrupted, stack.close)
        return stack.enter_context(loadable(self.original, self.folder))

    @cached_property
    def is_accepted(self) -> bool:
        """True if `onnx.checker` accepts it. ONNX Runtime also runs some models that the checker rejects."""
        from passat.ir.onnx.files import check_model

        try:
            check_model(self.proto)
        except CheckerError:
            return False
        return True

    def specialized(self, wanted: Variant) -> "Source":
        """The model with the fixed sizes and the outputs of a variant. Raises SpecializeError."""
        if not wanted.is_special:
            return self
        from passat.ir.onnx.specialize import fix_sizes, keep_outputs  # needs onnx

        proto = self.proto
        if not self.in_file:  # the caller's own
            proto = type(proto)()
            proto.CopyFrom(self.proto)
        fix_sizes(proto, wanted.dims or {}, wanted.input_shapes or {})
        if wanted.outputs:
            keep_outputs(proto, wanted.outputs)
        return replace(self, proto=proto, is_specialized=True)

    def read(self, opset: int | None, *, lenient: bool = False) -> "tuple[ModelProto, IRModule]":
        """The model in an opset, by default its own, and its module. If the model contradicts itself, ONNX Runtime decides whether it can
        be read, unless `lenient`. Raises OnnxError."""
        with self.named():
            if lenient:
                return self._read(opset, lenient=True)
            try:
                return self._read(opset, lenient=False)
            except ContradictionError:
                from passat.runner import loads

                if not loads(self.runnable, self.folder):
                    raise
                return self._read(opset, lenient=True)

    def _read(self, opset: int | None, *, lenient: bool) -> "tuple[ModelProto, IRModule]":
        model = self.proto
        if opset is not None:
            from passat.ir.onnx.opset import in_opset  # needs onnx

            model = in_opset(model, opset, folder=self.folder, lenient=lenient)
        module = from_onnx(model, folder=self.folder, lenient=lenient)
        if self.is_specialized:
            from passat.ir.onnx.specialize import settle_outputs  # needs onnx

            settle_outputs(model, module)
        return model, module

    def named(self) -> contextlib.AbstractContextManager[None]:
        """Prefixes an OnnxError with the name of the file, if there is one."""
        return about(self.name) if self.in_file else contextlib.nullcontext()


def open_source(model: "ModelLike", folder: str | os.PathLike[str] | None) -> Source:
    """Reads a model. `folder` is the folder of the external data of a model in memory. Raises OnnxError, ArgumentError."""
    require_onnx()
    if isinstance(model, (str, os.PathLike)):
        from passat.ir.onnx.files import read_model

        path = os.fsdecode(model)
        if folder is not None:
            raise ArgumentError(
                f"folder={os.fsdecode(folder)!r} is for models in memory; the external data of {path} lies in the folder of its file"
            )
        return Source(path, read_model(path), os.path.dirname(path) or ".", in_file=True)
    proto, own = convert(model) or (_in_memory(model), None)
    return Source(IN_MEMORY, proto, own if folder is None else os.fsdecode(folder), in_file=False)


def _in_memory(model: "ModelLike") -> "ModelProto":
    data = _bytes_of(model)
    if data is not None:
        from passat.ir.onnx.files import parse_model

        return parse_model(data, IN_MEMORY)
    if not hasattr(model, "graph"):
        hint = "; passat.ir.onnx.to_onnx(module) makes a ModelProto of it" if isinstance(model, IRModule) else ""
        raise OnnxError(
            "a model must be a ModelProto, its path, its bytes, a binary file object that holds it, an onnx_ir.Model "
            f"or a torch.onnx.ONNXProgram, not {type(model).__name__}{hint}"
        )
    return cast("ModelProto", model)


def _bytes_of(model: "ModelLike") -> bytes | None:
    """The bytes of a model given as bytes or as a file object; None for anything else. Raises OnnxError."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    read = getattr(model, "read", None)
    if not callable(read):
        return None
    from passat.ir.onnx.files import MODEL_LIMIT

    data = read(MODEL_LIMIT + 1)
    if not isinstance(data, bytes):
        raise OnnxError(f"a file object must be binary, as from open(path, 'rb'); read() of this one returns {type(data).__name__}")
    return data


@contextlib.contextmanager
def about(source: str, output: str | None = None) -> Iterator[None]:
    """Prefixes an OnnxError with the name of the model, unless it names the file that is written."""
    try:
        yield
    except OnnxError as error:
        if output is not None and str(error).startswith(output):
            raise
        raise error.about(source) from error
