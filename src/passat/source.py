"""The model that an optimization starts from: what it is called, what it holds, and where it can be read again."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx
from passat.ir.onnx.errors import CheckerError, ContradictionError, require_onnx

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.verify import ModelSource


@dataclass(frozen=True, eq=False)
class Source:
    """A model as it was given. `folder` is the folder of its external data."""

    name: str
    proto: "ModelProto"
    folder: str | None
    in_file: bool

    @property
    def path(self) -> str | None:
        """The path of its file, None for a model in memory."""
        return self.name if self.in_file else None

    @property
    def original(self) -> "ModelSource":
        """The model for ONNX Runtime: its file, unless that is a pipe, which cannot be read again."""
        return self.name if self.in_file and os.path.isfile(self.name) else self.proto

    @cached_property
    def is_accepted(self) -> bool:
        """Whether `onnx.checker` accepts it. ONNX Runtime runs models that it does not."""
        from passat.ir.onnx.files import check_model

        try:
            check_model(self.proto)
        except CheckerError:
            return False
        return True

    def read(self, opset: int | None) -> "tuple[ModelProto, IRModule]":
        """The model in an opset, its own where none is given, and its module. Where it contradicts itself, ONNX Runtime decides
        whether it can be read. Raises OnnxError."""
        with self.named():
            try:
                return self._read(opset, lenient=False)
            except ContradictionError:
                from passat.verify import loads

                if not loads(self.original, self.folder):
                    raise
                return self._read(opset, lenient=True)

    def _read(self, opset: int | None, *, lenient: bool) -> "tuple[ModelProto, IRModule]":
        from passat.ir.onnx.opset import in_opset  # which needs onnx

        model = self.proto if opset is None else in_opset(self.proto, opset, folder=self.folder, lenient=lenient)
        return model, from_onnx(model, folder=self.folder, lenient=lenient)

    def named(self) -> contextlib.AbstractContextManager[None]:
        """Lets an OnnxError begin with the name of the file, where there is one."""
        return about(self.name) if self.in_file else contextlib.nullcontext()


def open_source(model: "ModelProto | str | os.PathLike[str]", folder: str | os.PathLike[str] | None) -> Source:
    """Reads a model. `folder` is the folder of the external data of a model in memory. Raises OnnxError."""
    require_onnx()
    if isinstance(model, (str, os.PathLike)):
        from passat.ir.onnx.files import read_model

        path = os.fspath(model)
        return Source(path, read_model(path), os.path.dirname(path) or ".", in_file=True)
    if not hasattr(model, "graph"):
        raise OnnxError(f"optimize takes a ModelProto or the path of a model, not {type(model).__name__}")
    return Source("a model in memory", model, None if folder is None else os.fspath(folder), in_file=False)


@contextlib.contextmanager
def about(source: str, output: str | None = None) -> Iterator[None]:
    """Lets an OnnxError begin with the name of the model, unless it names the file that is written."""
    try:
        yield
    except OnnxError as error:
        if output is not None and str(error).startswith(output):
            raise
        raise error.about(source) from error
