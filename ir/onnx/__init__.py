"""Import and export of ONNX models.

Importing this package does not import onnx. Its functions do, and report how to install it if it is missing.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from passat.ir.argument_checks import FILE, FOLDER, PATH
from passat.ir.long_words import short_repr
from passat.ir.module import IRModule
from passat.ir.onnx.errors import OnnxError, require_onnx

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.ir.tensor import Tensor

    Path = str | os.PathLike[str]

__all__ = ["OnnxError", "check", "from_onnx", "load", "read_model", "save", "to_onnx"]


def from_onnx(
    model: "ModelProto | Path", *, folder: "Path | None" = None, lenient: bool = False, constants: "Mapping[str, Tensor] | None" = None
) -> IRModule:
    """Imports a model or a file: `main` is the graph; `attrs["onnx"]` keeps the rest of the model (`Frame`).

    Tensors are not copied: the module reads them from `model`, which must not change afterward. `folder` is the folder of the external data
    of a `ModelProto`. With `lenient`, contradictions in the model are warnings (`Frame.warnings`), for models that ONNX Runtime still
    loads; wrong declared shapes always are. `constants` are initializers of the main graph that need not be read. Raises OnnxError.
    """
    require_onnx()
    if isinstance(model, PATH):
        return load(model, lenient=lenient)
    _check_kind("model", model, model=True)
    if folder is not None:
        FOLDER("folder", folder)
    from passat.ir.onnx.importer import import_model

    return import_model(model, folder=None if folder is None else os.fspath(folder), lenient=lenient, constants=constants or {})


def to_onnx(module: IRModule, *, written: dict[int, list[str]] | None = None, constants: "dict[str, Tensor] | None" = None) -> "ModelProto":
    """Exports a module: the frame of the imported model around the current `main`.

    `written` is called with the id of each call and the names of all values that its nodes produce. It is also called with the id of the
    body of each function that is not a call, and the names of its results. The initializers of the main graph are added to `constants`.
    Tensors in external files stay there; `save` copies them. Raises OnnxError for programs that ONNX cannot express.
    """
    require_onnx()
    _check_kind("module", module, module=True)
    from passat.ir.onnx.exporter import export_model

    return export_model(module, written=written, constants=constants)


def load(path: "Path", *, lenient: bool = False) -> IRModule:
    """Imports a model file; `lenient` as in `from_onnx`. External data is memory-mapped on first use. Raises OnnxError."""
    require_onnx()
    FILE("path", path)
    from passat.ir.onnx.files import load_module

    return load_module(os.fspath(path), lenient=lenient)


def save(module: "IRModule | ModelProto", path: "Path", *, folder: "Path | None" = None, check: bool = True) -> None:
    """Writes a module or a model to a file atomically; with `check`, only if `onnx.checker` accepts it.

    If tensors are external, or the model would exceed protobuf's limit of 2 GB, all large tensors are written to `<name>.data` (or
    `<name>.1.data` ..., as existing files are never overwritten). `folder` is the folder of the external data of a `ModelProto`.

    The data files of a model that is replaced are removed if they have such names and nothing refers to them any more, including the given
    model. Raises OnnxError and leaves existing files unchanged in that case.
    """
    require_onnx()
    _check_kind("module", module, module=True, model=True)
    FILE("path", path)
    if folder is not None:
        FOLDER("folder", folder)
    from passat.ir.onnx.files import save_module

    save_module(module, os.fspath(path), folder=None if folder is None else os.fspath(folder), check=check)


def read_model(path: "Path") -> "ModelProto":
    """Reads a model file without importing it, and without external data. Raises OnnxError."""
    require_onnx()
    FILE("path", path)
    from passat.ir.onnx import files

    return files.read_model(os.fspath(path))


def check(model: "ModelProto") -> None:
    """Runs `onnx.checker` over a model without checking external data. Raises CheckerError."""
    require_onnx()
    _check_kind("model", model, model=True)
    from passat.ir.onnx import files

    files.check_model(model)


def _check_kind(name: str, value: object, *, module: bool = False, model: bool = False) -> None:
    """Raises TypeError for anything but a module, or a model."""
    if not (module and isinstance(value, IRModule)) and not (model and hasattr(value, "graph")):
        said = " or ".join([*(["an IRModule"] if module else ()), *(["a ModelProto"] if model else ())])
        raise TypeError(f"{name} must be {said}, not {short_repr(value)}")
