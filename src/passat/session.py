"""ONNX Runtime sessions, and the child process that runs them: `serve` answers requests one after the other.

Messages have a JSON head, and raw arrays. Nothing that is read is executed. The child process imports everything imported here, and should
start fast.
"""

import contextlib
import ctypes
import json
import math
import os
import re
import threading
from collections.abc import Mapping, Sequence
from io import RawIOBase
from queue import SimpleQueue
from typing import Any as AnyValue
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from passat.ir.counting import counted
from passat.ir.onnx_runtime import onnx_runtime

_NARROW: Final[Mapping[str, int]] = {"tensor(bfloat16)": 16}
"""Types that ONNX Runtime does not exchange with NumPy, by their ONNX numbers; passed as raw memory."""


def usable_cores() -> int:
    """The number of cores that this process may use. A batch system, a container or `taskset` may grant fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SessionSettings(NamedTuple):
    """How a model is loaded: the folder of its external data, the number of threads (0 for all), the optimization level, the seed of random
    operators, whether memory is kept, the libraries of custom operators, the path for the optimized model, and the file name prefix for
    operator times."""

    folder: str | None = None
    threads: int = 0
    optimize: bool | Literal["all"] = False
    seed: int | None = None
    arena: bool = False
    libraries: Sequence[str] = ()
    written: str | None = None
    profile: str | None = None


class Session:
    """A session in this process. Raises ImportError without ONNX Runtime, and its error if the model does not load."""

    def __init__(self, model: bytes | str, settings: SessionSettings) -> None:
        onnxruntime = onnx_runtime()
        if settings.seed is not None:
            onnxruntime.set_seed(settings.seed)  # for random operators without a seed of their own
        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        levels = {False: level.ORT_DISABLE_ALL, True: level.ORT_ENABLE_EXTENDED, "all": level.ORT_ENABLE_ALL}
        options.graph_optimization_level = levels[settings.optimize]
        options.intra_op_num_threads = settings.threads or usable_cores()
        options.log_severity_level = 4
        if settings.arena:  # another session is timed next: threads spin only within a run
            options.add_session_config_entry("session.force_spinning_stop", "1")
        else:  # nothing is timed: threads need not spin while waiting
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_cpu_mem_arena = settings.arena  # without the arena, memory is freed immediately; with it, times are realistic
        if settings.written is not None:
            options.optimized_model_filepath = settings.written
        if settings.profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = settings.profile
        for library in settings.libraries:
            options.register_custom_ops_library(library)
        if isinstance(model, str) and not _is_utf8(model):  # ONNX Runtime opens no other paths
            settings = settings._replace(folder=settings.folder or os.path.dirname(os.path.abspath(model)))
            with open(model, "rb") as file:
                model = file.read()
        if settings.folder is not None and _is_utf8(settings.folder):
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", settings.folder)
        self._values = onnxruntime.OrtValue
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.inputs: tuple[tuple[str, str, tuple[int | str | None, ...]], ...] = tuple(
            (value.name, value.type, tuple(value.shape)) for value in self._session.get_inputs()
        )
        """Names, types and shapes."""
        self.outputs: tuple[tuple[str, str], ...] = tuple((value.name, value.type) for value in self._session.get_outputs())
        """Names and types."""
        self._float_maps = [at for at, (_, kind) in enumerate(self.outputs) if "map(" in kind and "tensor(float)" in kind]
        self._narrow = any(kind in _NARROW for _, kind, *_ in (*self.inputs, *self.outputs))

    def run(self, feed: Mapping[str, AnyValue]) -> list[AnyValue]:
        """The values of all outputs, in order."""
        names = [name for name, _ in self.outputs]
        if not self._narrow:
            values: list[AnyValue] = self._session.run(names, dict(feed))
            for at in self._float_maps:
                values[at] = _single(values[at])
            return values
        made = {name: self._to_runtime(feed[name], name, kind) for name, kind, _ in self.inputs}
        found = self._session.run_with_ort_values(names, made)
        if others := [name for name, value in zip(names, found, strict=True) if not value.is_tensor()]:
            raise ValueError(f"the output {others[0]!r} is not a tensor, which a model with bfloat16 inputs or outputs cannot have here")
        return [_from_runtime(value) for value in found]

    def end_profile(self) -> str:
        """Ends profiling; returns the path of the file with the operator times."""
        return str(self._session.end_profiling())

    def _to_runtime(self, value: AnyValue, name: str, kind: str) -> AnyValue:
        if "seq(" in kind:
            raise ValueError(f"the input {name!r} is a sequence, which a model with bfloat16 inputs or outputs cannot have here")
        if kind in _NARROW:
            return self._values.ortvalue_from_numpy_with_onnx_type(np.require(value, requirements="C").view(np.uint16), _NARROW[kind])
        return self._values.ortvalue_from_numpy(value)


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _single(value: AnyValue) -> AnyValue:
    """Maps, or sequences of them, with numbers of their element type: ONNX Runtime's binding makes them Python's floats of 64 bits."""
    if isinstance(value, list):
        return [_single(each) for each in value]
    return {key: np.float32(number) for key, number in value.items()}


def _from_runtime(value: AnyValue) -> AnyValue:
    if value.data_type() not in _NARROW:
        return value.numpy()
    import ml_dtypes

    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, ml_dtypes.bfloat16).reshape(value.shape())


Array: TypeAlias = npt.NDArray[np.generic]
Head: TypeAlias = dict[str, AnyValue]

_LENGTH: Final = 8
"""Number of bytes that encode the length of a head."""
_LONGEST_HEAD: Final = 1 << 30
_PLAIN: Final = re.compile(r"[<>|=][biufcUS]\d{1,9}")
"""NumPy's names of its own element types."""


class WireError(ValueError):
    """A malformed message, or a value that cannot be sent."""


def pack(value: AnyValue, arrays: list[Array]) -> AnyValue:
    """Encodes a value for a head: an array, None, a number, a string, a list of these, or a mapping. Appends arrays to `arrays`.

    Raises WireError for anything else.
    """
    match value:
        case np.ndarray() | np.generic():
            return _packed_array(np.asarray(value, order="C"), arrays)
        case None | bool() | int() | float() | str():
            return {"is": value}
        case list() | tuple():
            return {"list": [pack(each, arrays) for each in value]}
        case Mapping():
            return {"map": [[pack(key, arrays), pack(each, arrays)] for key, each in value.items()]}
    raise WireError(f"a {type(value).__name__} cannot be sent to another process")


def _packed_array(value: Array, arrays: list[Array]) -> AnyValue:
    if value.dtype.kind == "O":
        texts = value.ravel().tolist()
        if not all(isinstance(text, str) for text in texts):
            raise WireError("an array of objects other than strings cannot be sent to another process")
        return {"texts": texts, "shape": value.shape}
    arrays.append(value)
    return {"array": len(arrays) - 1}


def unpack(form: AnyValue, arrays: Sequence[Array]) -> AnyValue:
    """Decodes a value."""
    match form:
        case {"is": value}:
            return value
        case {"array": int(index)}:
            return arrays[index]
        case {"texts": list(texts), "shape": list(shape)}:
            found = np.empty(len(texts), object)
            found[:] = texts
            return found.reshape(shape)
        case {"list": list(parts)}:
            return [unpack(part, arrays) for part in parts]
        case {"map": list(parts)}:
            return {unpack(key, arrays): unpack(part, arrays) for key, part in parts}
    raise WireError("a value in no known form")


def write(stream: RawIOBase, head: Mapping[str, AnyValue], arrays: Sequence[Array] = ()) -> None:
    """Writes a message. Raises OSError if the reader is gone."""
    kinds = [[_name(array.dtype), array.shape] for array in arrays]
    data = json.dumps({"head": head, "arrays": kinds}).encode()
    _write_all(stream, memoryview(len(data).to_bytes(_LENGTH, "little") + data))
    for array in arrays:
        _write_all(stream, array.reshape(-1).view(np.uint8).data)


def read(stream: RawIOBase) -> tuple[Head, list[Array]]:
    """Reads a message. Raises EOFError at the end, WireError for a malformed message."""
    size = int.from_bytes(_read_bytes(stream, _LENGTH), "little")
    if size > _LONGEST_HEAD:
        raise WireError(f"a head of {counted(size, 'byte')}")
    try:
        found = json.loads(_read_bytes(stream, size))
        head, arrays = dict(found["head"]), [_empty(name, shape) for name, shape in found["arrays"]]
    except (ValueError, TypeError, KeyError, MemoryError) as error:
        raise WireError(f"a malformed message: {error}") from error
    for array in arrays:
        _read_into(stream, array.reshape(-1).view(np.uint8).data)
    return head, arrays


def _name(dtype: np.dtype[np.generic]) -> str:
    return "bfloat16" if dtype.name == "bfloat16" else dtype.str


def _empty(name: str, shape: Sequence[int]) -> Array:
    if not all(isinstance(size, int) and size >= 0 for size in shape) or math.prod(shape) >= 1 << 62:
        raise WireError(f"an array of shape {shape}")
    if name == "bfloat16":
        import ml_dtypes

        return np.empty(shape, ml_dtypes.bfloat16)
    if not _PLAIN.fullmatch(name):
        raise WireError(f"an array of {name!r}")
    return np.empty(shape, np.dtype(name))


def _write_all(stream: RawIOBase, data: memoryview) -> None:
    while data:
        data = data[stream.write(data) or 0 :]


def _read_bytes(stream: RawIOBase, size: int) -> bytearray:
    data = bytearray(size)
    _read_into(stream, memoryview(data))
    return data


def _read_into(stream: RawIOBase, data: memoryview) -> None:
    while data:
        count = stream.readinto(data)
        if not count:
            raise EOFError
        data = data[count:]


_FAILED: Final = 1


def serve() -> None:
    """Answers requests from the input stream on the output stream. Output of libraries goes to the error stream."""
    requests: AnyValue = os.fdopen(os.dup(0), "rb", 0)
    replies: AnyValue = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    waiting: SimpleQueue[tuple[Head, list[Array]]] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, waiting), daemon=True).start()
    keeper = _Keeper()
    try:
        write(replies, keeper.begin())
        while True:
            reply = keeper.answer(*waiting.get())
            if reply is not None:
                write(replies, *reply)
            del reply  # may be large
    except OSError:  # no reader is left
        os._exit(0)


def _receive(requests: AnyValue, waiting: "SimpleQueue[tuple[Head, list[Array]]]") -> None:
    """Ends the process, even during a request, once the parent is gone."""
    try:
        while True:
            waiting.put(read(requests))
    except EOFError:
        os._exit(0)
    except BaseException:
        os._exit(_FAILED)


class _Keeper:
    """The sessions, by number."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}

    def begin(self) -> Head:
        """Imports ONNX Runtime."""
        try:
            onnxruntime = onnx_runtime()
        except ImportError as error:
            return {"missing": str(error)}
        return {"version": onnxruntime.__version__}

    def answer(self, head: Head, arrays: list[Array]) -> tuple[Head, list[Array]] | None:
        """The response to a request; None if none is expected. Errors of ONNX Runtime become responses."""
        match head["do"]:
            case "load" | "run" as what:
                try:
                    return self._load(head, arrays) if what == "load" else self._run(head, arrays)
                except Exception as error:  # ONNX Runtime's errors have no common base class
                    return {"error": str(error)}, []
            case "drop":
                self._sessions.pop(head["session"], None)
        return None

    def _load(self, head: Head, arrays: list[Array]) -> tuple[Head, list[Array]]:
        if head["cwd"] is not None:
            with contextlib.suppress(OSError):
                os.chdir(head["cwd"])
        model = head["path"] if head["path"] is not None else arrays.pop().tobytes()
        session = self._sessions[head["session"]] = Session(model, SessionSettings(**head["settings"]))
        return {"inputs": session.inputs, "outputs": session.outputs}, []

    def _run(self, head: Head, arrays: list[Array]) -> tuple[Head, list[Array]]:
        values = self._sessions[head["session"]].run(unpack(head["feed"], arrays))
        packed: list[Array] = []
        return {"values": pack(values, packed)}, packed
