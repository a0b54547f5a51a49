"""Running models on ONNX Runtime, which is imported when a model is first run.

This module and `passat.ir.onnx.ort_evaluator` know ONNX Runtime. It raises a class of its own for each kind of refusal, with no common base
but Exception; that is what is caught where models run.
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from typing import Any as AnyValue

import numpy as np

from passat.feeds import ELEMENT_TYPES, FeedError, InputSpec, declared_inputs
from passat.ir.onnx import save
from passat.ir.onnx.errors import raise_interrupt

if TYPE_CHECKING:
    from onnx import ModelProto

ModelSource: TypeAlias = "ModelProto | bytes | str | os.PathLike[str]"
"""A model: in memory, serialised, or in a file. A model beyond 2 GB has to be a file."""

_NARROW: Final[Mapping[str, int]] = {"tensor(bfloat16)": 16}
"""Types that ONNX Runtime does not exchange with NumPy, by their numbers in ONNX: they go in and out as raw memory."""
_LOAD: Final = """
import sys
from passat.runner import Runner, custom_operators
path, folder, *libraries = sys.argv[1:]
with custom_operators(libraries):
    Runner(path or sys.stdin.buffer.read(), folder=folder or None, threads=1)
"""
_PREFIX: Final = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : "  # the number and the kind of the error
    r"|/\S+\.(?:cc|h):\d+ (?:(?:[\w:~]+[ &*]+)?onnxruntime::[^;]*?\)(?: const)?(?: \[with .*?\])? (?=[A-Za-z]))?"  # a place in the sources
)
_LONGEST: Final = 300
PROTOBUF_LIMIT: Final = 2_000_000_000
"""Bytes beyond which a model goes through a file to be run."""
_LOADING_SECONDS: Final = 600.0
_LIBRARIES: list[str] = []
"""The libraries of custom operators that sessions get."""


class VerifyError(RuntimeError):
    """Models cannot be compared at all: ONNX Runtime is not installed."""


class CustomOpsError(ValueError):
    """A library of custom operators that ONNX Runtime does not load. The message names it."""


@contextmanager
def custom_operators(libraries: Sequence[str | os.PathLike[str]]) -> Iterator[None]:
    """Gives the custom operators of shared libraries to every session that begins inside. Raises CustomOpsError, VerifyError."""
    paths = [os.path.abspath(library) for library in libraries]
    for path in paths:
        if not os.path.isfile(path):
            raise CustomOpsError(f"there is no library {path} of custom operators")
        try:
            _onnxruntime().SessionOptions().register_custom_ops_library(path)
        except VerifyError:
            raise
        except Exception as error:
            raise CustomOpsError(f"ONNX Runtime does not load {path} as a library of custom operators: {sentence_of(error)}") from error
    before = list(_LIBRARIES)
    _LIBRARIES.extend(path for path in dict.fromkeys(paths) if path not in before)
    try:
        yield
    finally:
        _LIBRARIES[:] = before


def custom_libraries() -> list[str]:
    """The libraries that sessions get now."""
    return list(_LIBRARIES)


class Runner:
    """A model in ONNX Runtime. Raises VerifyError where that is not installed, and what it raises where the model does not load."""

    def __init__(
        self,
        model: ModelSource,
        *,
        folder: str | None = None,
        threads: int = 0,
        optimise: bool | Literal["all"] = False,
        seed: int | None = None,
        arena: bool = False,
    ) -> None:
        onnxruntime = _onnxruntime()
        if seed is not None:
            onnxruntime.set_seed(seed)  # of operators that draw random numbers and have no seed of their own
        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        levels = {False: level.ORT_DISABLE_ALL, True: level.ORT_ENABLE_EXTENDED, "all": level.ORT_ENABLE_ALL}
        options.graph_optimization_level = levels[optimise]
        options.intra_op_num_threads = threads or os.cpu_count() or 1
        options.log_severity_level = 4
        if not arena:  # nothing is timed: threads that wait for work need not keep the cores busy
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_cpu_mem_arena = arena  # without it memory goes back at once; with it times are what they are elsewhere
        for library in _LIBRARIES:
            options.register_custom_ops_library(library)
        if folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        self._values = onnxruntime.OrtValue
        self._session = onnxruntime.InferenceSession(_serialised(model), options, providers=["CPUExecutionProvider"])
        self.inputs = self._inputs(model)
        self.outputs = tuple((value.name, value.type) for value in self._session.get_outputs())
        self._narrow = any(kind in _NARROW for kind in (*(spec.type for spec in self.inputs), *(kind for _, kind in self.outputs)))

    def _inputs(self, model: ModelSource) -> tuple[InputSpec, ...]:
        specs = tuple(InputSpec(value.name, value.type, tuple(value.shape)) for value in self._session.get_inputs())
        if not any(spec.of_any_rank for spec in specs):
            return specs
        from passat.ir.onnx.files import in_memory

        scalars = {spec.name for spec in declared_inputs(in_memory(model)) if spec.scalar}
        return tuple(replace(spec, scalar=spec.name in scalars) for spec in specs)

    def run(self, feed: Mapping[str, AnyValue]) -> list[AnyValue]:
        """The values of all outputs, in order."""
        names = [name for name, _ in self.outputs]
        if not self._narrow:
            values: list[AnyValue] = self._session.run(names, dict(feed))
            return values
        made = {spec.name: self._to_runtime(feed[spec.name], spec) for spec in self.inputs}
        return [_from_runtime(value) for value in self._session.run_with_ort_values(names, made)]

    def _to_runtime(self, value: AnyValue, spec: InputSpec) -> AnyValue:
        if spec.is_sequence:
            raise FeedError(f"the input {spec.name!r} is a sequence, in a model that has inputs or outputs of type bfloat16 too")
        if spec.type in _NARROW:
            return self._values.ortvalue_from_numpy_with_onnx_type(np.require(value, requirements="C").view(np.uint16), _NARROW[spec.type])
        return self._values.ortvalue_from_numpy(value)


def loads(model: ModelSource, folder: str | None = None) -> bool:
    """Whether ONNX Runtime is there, and loads a model. Asks another process: ONNX Runtime ends its own over some invalid models."""
    source = _serialised(model)
    path, data = (source, b"") if isinstance(source, str) else ("", source)
    command = [sys.executable, "-P", "-c", _LOAD, path, folder or "", *_LIBRARIES]
    try:
        return not subprocess.run(command, input=data, capture_output=True, check=False, timeout=_LOADING_SECONDS).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


@contextmanager
def loadable(model: ModelSource, folder: str | None = None) -> Iterator[ModelSource]:
    """A model such as ONNX Runtime loads: one in memory that is beyond the limit of protobuf becomes a file, which is gone afterwards."""
    if isinstance(model, (bytes, str, os.PathLike)):
        yield model
        return
    from passat.ir.onnx.sizes import model_bytes  # which needs onnx

    if model_bytes(model) < PROTOBUF_LIMIT:
        yield model
        return
    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "model.onnx")
        save(model, path, folder=folder)
        yield path


def _onnxruntime() -> AnyValue:
    try:
        import onnxruntime
    except ImportError as error:
        raise_interrupt(error)
        raise VerifyError(
            "verification runs the models on ONNX Runtime, which is not installed: pip install 'passat[onnx]' installs it; "
            "--no-verify, or verify=False, does without"
        ) from None
    return onnxruntime


def sentence_of(error: Exception) -> str:
    """What ONNX Runtime says of an error, without the place in its sources, and not too long.

    >>> sentence_of(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : /core/model.cc:25 onnxruntime::Model::Model(int) No such model"))
    'No such model'
    """
    text = _PREFIX.sub("", " ".join(str(error).split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def runtime_version() -> str:
    """The version of ONNX Runtime. Raises VerifyError where it is not installed."""
    return str(_onnxruntime().__version__)


def _serialised(model: ModelSource) -> bytes | str:
    if isinstance(model, bytes):
        return model
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    data: bytes = model.SerializeToString()
    return data


def _from_runtime(value: AnyValue) -> AnyValue:
    if not value.is_tensor() or value.data_type() not in _NARROW:
        return value.numpy()
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, ELEMENT_TYPES["bfloat16"]).reshape(value.shape())
