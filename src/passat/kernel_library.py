"""The library of native kernels beside a model's file: its path, its hash in the model's metadata, reading and writing."""

import hashlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from passat.ir.onnx.errors import require_onnx
from passat.ir.passat_error import PassatError
from passat.ir.whole_file import write_whole

if TYPE_CHECKING:
    from onnx import ModelProto

HASH: Final = "passat.kernels"
"""The key in the metadata of a model: its value is the hash of its library."""
MADE_FOR: Final = "passat.kernels.for"
"""The key in the metadata of a model: the operating system and the kind of processor of its library."""


class KernelsError(PassatError, ValueError):
    """A model whose kernel library is missing, or belongs to another model."""

    exit_code = 1


def library_path(model: str | os.PathLike[str]) -> Path:
    """The path of a model's kernel library.

    >>> library_path("models/model.onnx").name
    'model.kernels.so'
    """
    return Path(model).with_suffix(".kernels.so")


def this_platform() -> str:
    """The operating system and the kind of processor."""
    return f"{platform.system()} {platform.machine()}"


def hash_of(model: "ModelProto") -> str | None:
    """The hash of a model's kernel library; None if the model has no kernels."""
    return next((entry.value for entry in model.metadata_props if entry.key == HASH), None)


def library_beside(model: "ModelProto", path: str) -> bytes:
    """The library of a model that has kernels already, if it is beside the model's file, else nothing. It is read, not loaded."""
    wanted, library = hash_of(model), library_path(path)
    if wanted is None or not library.is_file():
        return b""
    found = library.read_bytes()
    return found if hashlib.sha256(found).hexdigest() == wanted else b""


def library_of(path: str | os.PathLike[str], given: Sequence[str | os.PathLike[str]] = ()) -> list[str]:
    """The library of kernels of the model in a file, if it has kernels: the one of those given that has its hash, or the one beside the
    file. Raises KernelsError if that is missing, or another model's, and OnnxError without the onnx package."""
    require_onnx()
    from passat.ir.onnx.files import in_memory

    proto = in_memory(path)
    wanted = hash_of(proto)
    if wanted is None:
        return []
    copies = (Path(name) for name in given if os.path.isfile(name))
    library = next((copy for copy in copies if _hash(copy) == wanted), library_path(path))
    made_for = next((entry.value for entry in proto.metadata_props if entry.key == MADE_FOR), this_platform())
    if made_for != this_platform():
        again = "optimize the original model with --kernels here"
        raise KernelsError(f"{library} was made for {made_for}, and does not run on {this_platform()}; {again}")
    if not library.is_file():
        raise KernelsError(f"{path} needs its kernel library {library}, which does not exist, and --custom-ops names no copy of it")
    if _hash(library) != wanted:
        raise KernelsError(f"{library} is not the kernel library that was written with {path}, and --custom-ops names no copy of it")
    return [str(library)]


def _hash(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()


def write_library(library: bytes, model: "ModelProto", to: str | os.PathLike[str]) -> None:
    """Writes the library beside a model's file, atomically. If it is empty, removes the library of an earlier model there, unless the model
    has kernels."""
    path = library_path(to)
    if not library:
        if hash_of(model) is None and path.is_file() and f"{HASH}.".encode() in path.read_bytes():
            path.unlink()
        return
    write_whole(path, library)
    path.chmod(0o755)
