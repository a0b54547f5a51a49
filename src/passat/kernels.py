"""Creates kernels for a model, verifies and times them, and keeps them if the whole model gets faster. Finds the library beside a model."""

import contextlib
import hashlib
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.choose import MARGIN, Candidate, NothingToTimeError, race
from passat.ir.module import IRModule
from passat.ir.passat_error import PassatError
from passat.passmgr import PassContext
from passat.report import Timing
from passat.runner import CustomOpsError, Runner, VerifyError, custom_operators, sentence_of
from passat.runtime.kernels import CompilerError, Kernels, build_library, compiler, fuse, library_source
from passat.runtime.kernels.fusing import Key, key
from passat.verify import Comparing, Reference

if TYPE_CHECKING:
    from onnx import ModelProto

HASH: Final = "passat.kernels"
"""The key in the metadata of a model: its value is the hash of its library."""
NOTHING: Final = "kernels: nothing to gain, "


class KernelsError(PassatError, ValueError):
    """A model whose kernel library is missing, or belongs to another model."""

    exit_code = 1


class WithKernels(NamedTuple):
    """A model with kernels and its library, if that is faster; what happened in one line, and the times."""

    model: "ModelProto | None"
    library: bytes
    said: str
    timings: list[Timing]


def library_path(model: str | os.PathLike[str]) -> Path:
    """The path of a model's kernel library.

    >>> library_path("models/model.onnx").name
    'model.kernels.so'
    """
    return Path(model).with_suffix(".kernels.so")


def library_of(path: str | os.PathLike[str]) -> list[str]:
    """The library of kernels of the model in a file, if it has kernels. Raises KernelsError for another model's library."""
    from passat.ir.onnx.files import in_memory

    proto = in_memory(path)
    wanted = next((entry.value for entry in proto.metadata_props if entry.key == HASH), None)
    if wanted is None:
        return []
    library = library_path(path)
    if not library.is_file():
        raise KernelsError(f"{path} needs its kernel library {library}, which does not exist")
    if hashlib.sha256(library.read_bytes()).hexdigest() != wanted:
        raise KernelsError(f"{library} is not the kernel library that was written with {path}")
    return [str(library)]


def with_kernels(model: "ModelProto", nodes: int, folder: str | None, how: Comparing) -> WithKernels:
    """Adds kernels for nodes that ONNX Runtime leaves unfused, if the whole model gets faster.

    Raises NoCompilerError, VerifyError.
    """
    command = compiler()
    try:
        before = left_by_runtime(model, folder)
        kernels = fuse(model, before.keys())
        if kernels is None:
            return _without(f"{NOTHING}ONNX Runtime leaves no chains of elementwise operators and reductions")
        library = build_library(library_source(kernels.kernels, kernels.domain), command)
        return _tried(model, kernels, library, before, nodes, folder, how)
    except VerifyError:
        raise
    except (CompilerError, CustomOpsError, NothingToTimeError) as error:
        return _without(f"kernels: none were made: {error}")
    except Exception as error:  # ONNX Runtime's errors have no common base class
        return _without(f"kernels: none were made: {sentence_of(error)}")


def _tried(
    model: "ModelProto", kernels: Kernels, library: bytes, before: Counter[Key], nodes: int, folder: str | None, how: Comparing
) -> WithKernels:
    changed = kernels.model
    entry = changed.metadata_props.add()
    entry.key, entry.value = HASH, hashlib.sha256(library).hexdigest()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:  # Windows keeps libraries that are loaded
        path = os.path.join(temporary, "model.kernels.so")
        Path(path).write_bytes(library)
        with custom_operators([path]):
            after = left_by_runtime(changed, folder)
            lost = _foreign(before) - _foreign(after)
            if lost:
                return _without(f"kernels: none were made: they would prevent ONNX Runtime from creating {', '.join(sorted(lost))}")
            found = Reference(model, how, folder=folder).check(changed)
            if not found.equal:
                return _without(f"kernels: none were kept: the comparison with the model failed: {found.mismatch or found.skipped}")
            candidate = Candidate("with kernels", IRModule(), PassContext())
            timings, best = race(model, nodes, [(candidate, changed)], folder, how)
    made = sum(node.domain == kernels.domain for node in changed.graph.node)
    count = f"{kernels.nodes} nodes became {made} kernel{'s' * (made != 1)}"
    if best is None:
        failed = timings[1].failed
        times = f"the model takes {timings[0].seconds * 1e3:.3g} ms, and {timings[1].seconds * 1e3:.3g} ms with kernels"
        if failed:
            return WithKernels(None, b"", f"kernels: none were kept: {failed}", timings)
        unsure = timings[1].seconds < timings[0].seconds * (1 - MARGIN)
        why = "kernels: none were kept, since the times vary too much to be sure of a gain: " if unsure else NOTHING
        return WithKernels(None, b"", why + times, timings)
    gain = timings[0].seconds / timings[1].seconds
    return WithKernels(changed, library, f"kernels: the model is {gain:.2f} times as fast on one thread ({count})", timings)


def _without(said: str) -> WithKernels:
    return WithKernels(None, b"", said, [])


def left_by_runtime(model: "ModelProto", folder: str | None) -> Counter[Key]:
    """The nodes after ONNX Runtime's own fusions."""
    from passat.ir.onnx.files import in_memory

    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "fused.onnx")
        Runner(model, folder=folder, threads=1, optimize=True, apart=True, written=path)
        return Counter(key(node) for node in in_memory(path).graph.node)


def _foreign(nodes: Counter[Key]) -> Counter[str]:
    """ONNX Runtime's own operators, which its fusions create."""
    found: Counter[str] = Counter()
    for (domain, kind, _, _), count in nodes.items():
        if domain and not domain.startswith(HASH):
            found[kind] += count
    return found


def write_library(library: bytes, model: str | os.PathLike[str]) -> None:
    """Writes the library beside a model, atomically."""
    path = library_path(model)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(library)
        Path(temporary).chmod(0o755)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
