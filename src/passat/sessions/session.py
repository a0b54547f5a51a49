"""A session of ONNX Runtime: a model, loaded to be run.

What is imported here is imported by the process that sessions are kept in, too, which should start fast.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, Literal, NamedTuple

import numpy as np

_NARROW: Final[Mapping[str, int]] = {"tensor(bfloat16)": 16}
"""Types that ONNX Runtime does not exchange with NumPy, by their numbers in ONNX: they go in and out as raw memory."""


class SessionSettings(NamedTuple):
    """How a model is loaded: the folder of its external data, how many threads (0 for all), which optimizations, the seed of random
    operators, whether memory is kept, and the libraries of custom operators."""

    folder: str | None = None
    threads: int = 0
    optimise: bool | Literal["all"] = False
    seed: int | None = None
    arena: bool = False
    libraries: Sequence[str] = ()


class Session:
    """A session in this process. Raises ImportError without ONNX Runtime, and what that raises where the model does not load."""

    def __init__(self, model: bytes | str, settings: SessionSettings) -> None:
        import onnxruntime

        if settings.seed is not None:
            onnxruntime.set_seed(settings.seed)  # of operators that draw random numbers and have no seed of their own
        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        levels = {False: level.ORT_DISABLE_ALL, True: level.ORT_ENABLE_EXTENDED, "all": level.ORT_ENABLE_ALL}
        options.graph_optimization_level = levels[settings.optimise]
        options.intra_op_num_threads = settings.threads or os.cpu_count() or 1
        options.log_severity_level = 4
        if not settings.arena:  # nothing is timed: threads that wait for work need not keep the cores busy
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_cpu_mem_arena = settings.arena  # without it memory goes back at once; with it times are what they are elsewhere
        for library in settings.libraries:
            options.register_custom_ops_library(library)
        if settings.folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", settings.folder)
        self._values = onnxruntime.OrtValue
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.inputs: tuple[tuple[str, str, tuple[int | str | None, ...]], ...] = tuple(
            (value.name, value.type, tuple(value.shape)) for value in self._session.get_inputs()
        )
        """Names, types and shapes."""
        self.outputs: tuple[tuple[str, str], ...] = tuple((value.name, value.type) for value in self._session.get_outputs())
        """Names and types."""
        self._narrow = any(kind in _NARROW for _, kind, *_ in (*self.inputs, *self.outputs))

    def run(self, feed: Mapping[str, AnyValue]) -> list[AnyValue]:
        """The values of all outputs, in order."""
        names = [name for name, _ in self.outputs]
        if not self._narrow:
            values: list[AnyValue] = self._session.run(names, dict(feed))
            return values
        made = {name: self._to_runtime(feed[name], name, kind) for name, kind, _ in self.inputs}
        return [_from_runtime(value) for value in self._session.run_with_ort_values(names, made)]

    def _to_runtime(self, value: AnyValue, name: str, kind: str) -> AnyValue:
        if "seq(" in kind:
            raise ValueError(f"the input {name!r} is a sequence, in a model that has inputs or outputs of type bfloat16 too")
        if kind in _NARROW:
            return self._values.ortvalue_from_numpy_with_onnx_type(np.require(value, requirements="C").view(np.uint16), _NARROW[kind])
        return self._values.ortvalue_from_numpy(value)


def _from_runtime(value: AnyValue) -> AnyValue:
    if not value.is_tensor() or value.data_type() not in _NARROW:
        return value.numpy()
    import ml_dtypes

    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, ml_dtypes.bfloat16).reshape(value.shape())
