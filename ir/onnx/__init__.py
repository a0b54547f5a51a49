"""ONNX models in and out. Importing this package does not import onnx; its functions do, and say how to install it where it is missing."""

import os
from typing import TYPE_CHECKING

from passat.ir.module import IRModule
from passat.ir.onnx.errors import OnnxError, require_onnx

if TYPE_CHECKING:
    from onnx import ModelProto

    Path = str | os.PathLike[str]

__all__ = ["OnnxError", "check", "from_onnx", "load", "read_model", "save", "to_onnx"]


def from_onnx(model: "ModelProto | Path", *, folder: "Path | None" = None, lenient: bool = False) -> IRModule:
    """The module of a model or of a file: `main` is the graph; `attrs["onnx"]` keeps what else the model holds (`Frame`).

    Tensors are not copied: the module reads them from `model`, which must not change afterward. `folder` is where the
    external data of a `ModelProto` lies. Raises OnnxError.

    `lenient`: what contradicts itself is a warning (`Frame.warnings`), not an error: for models that ONNX Runtime loads all the same.
    Shapes that are declared wrong are never more than that.
    """
    require_onnx()
    if isinstance(model, (str, os.PathLike)):
        return load(model, lenient=lenient)
    from passat.ir.onnx.importer import import_model

    return import_model(model, folder=None if folder is None else os.fspath(folder), lenient=lenient)


def to_onnx(module: IRModule, *, written: dict[int, list[str]] | None = None) -> "ModelProto":
    """The model of a module: the frame that it was read with, around what `main` computes now. `written` is told, by the identity of
    each call, the names of all values that its nodes make, and by that of each function's body, where it is no call, those of its results.

    Tensors in external files stay there, under the locations that the source names; `save` copies them. Raises OnnxError for
    programs that ONNX cannot express.
    """
    require_onnx()
    from passat.ir.onnx.exporter import export_model

    return export_model(module, written=written)


def load(path: "Path", *, lenient: bool = False) -> IRModule:
    """The module of a model file; `lenient` as in `from_onnx`. External data is mapped when it is first needed. Raises OnnxError."""
    require_onnx()
    from passat.ir.onnx.files import load_module

    return load_module(os.fspath(path), lenient=lenient)


def save(module: "IRModule | ModelProto", path: "Path", *, folder: "Path | None" = None, check: bool = True) -> None:
    """Writes a module, or a model, to a file, through temporary files that are moved into place; with `check`, once `onnx.checker`
    accepts it.

    Where tensors lie in external files, or the model would be larger than protobuf allows (2 GB), all large tensors go to
    `<name>.data` beside it (or to `<name>.1.data` ..., as a file that is there is never written over). `folder` is where the
    external data of a `ModelProto` lies. Raises OnnxError, and leaves everything as it was then.
    """
    require_onnx()
    from passat.ir.onnx.files import save_module

    save_module(module, os.fspath(path), folder=None if folder is None else os.fspath(folder), check=check)


def read_model(path: "Path") -> "ModelProto":
    """The model in a file as it is, without its external data. Raises OnnxError."""
    require_onnx()
    from passat.ir.onnx import files

    return files.read_model(os.fspath(path))


def check(model: "ModelProto") -> None:
    """Runs `onnx.checker` over a model; whether its external data is there is not looked at. Raises CheckerError."""
    require_onnx()
    from passat.ir.onnx import files

    files.check_model(model)
