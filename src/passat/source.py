"""The model that an optimization starts from: its name, content, and the place to read it again."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx
from passat.ir.onnx.errors import CheckerError, ContradictionError, require_onnx
from passat.model_objects import OnnxIRModel, TorchProgram, convert
from passat.settings import Variant

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.runner import ModelSource

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
    def original(self) -> "ModelSource":
        """The model for ONNX Runtime: its file, unless that is a pipe, which cannot be read again."""
        return self.path if self.path is not None and os.path.isfile(self.path) else self.proto

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

                if not loads(self.original, self.folder):
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
    """Reads a model. `folder` is the folder of the external data of a model in memory. Raises OnnxError."""
    require_onnx()
    if isinstance(model, (str, os.PathLike)):
        from passat.ir.onnx.files import read_model

        path = os.fspath(model)
        return Source(path, read_model(path), os.path.dirname(path) or ".", in_file=True)
    converted = convert(model)
    proto, own = converted or (_in_memory(model), None)
    return Source(IN_MEMORY, proto, own if folder is None else os.fspath(folder), in_file=False)


def _in_memory(model: "ModelLike") -> "ModelProto":
    data = _bytes_of(model)
    if data is not None:
        from passat.ir.onnx.files import parse_model

        return parse_model(data, IN_MEMORY)
    if not hasattr(model, "graph"):
        raise OnnxError(
            "a model must be a ModelProto, its path, its bytes, a binary file object that holds it, an onnx_ir.Model "
            f"or a torch.onnx.ONNXProgram, not {type(model).__name__}"
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
