"""Runs models on ONNX Runtime, which is imported on first use.

Only this module, `passat.session` and `passat.ir.onnx.ort_evaluator` use ONNX Runtime. Its errors have no common base class but Exception,
which is what callers catch.
"""

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from typing import Any as AnyValue

from passat.apart import ApartSession, EndedError, LateError, NoProcessError, RejectedError, is_installed
from passat.feeds import InputSpec, declared_inputs
from passat.ir.onnx import save
from passat.ir.onnx.errors import raise_interrupt
from passat.ir.onnx_runtime import onnx_runtime
from passat.ir.passat_error import PassatError
from passat.session import Session, SessionSettings

if TYPE_CHECKING:
    from onnx import ModelProto

ModelSource: TypeAlias = "ModelProto | bytes | str | os.PathLike[str]"
"""A model: in memory, serialized, or in a file. ONNX Runtime loads those above 2 GB from files only (`loadable`)."""

_NO_KERNELS: Final = re.compile(r"passat\.kernels\.\w+:\w+\(-1\) is not a registered")
_PREFIX: Final = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : "  # the number and the kind of the error
    r"|/\S+\.(?:cc|h):\d+ (?:(?:[\w:~]+[ &*]+)?onnxruntime::[^;]*?\)(?: const)?(?: \[with .*?\])? (?=[A-Za-z]))?"  # a place in the sources
)
_LONGEST: Final = 300
PROTOBUF_LIMIT: Final = 2_000_000_000
"""Bytes beyond which a model goes through a file to be run."""
_MISSING: Final = "models run on ONNX Runtime, which is not installed: pip install 'passat[onnx]' installs it"
_LIBRARIES: list[str] = []
"""The libraries of custom operators that new sessions load."""


class VerifyError(PassatError, RuntimeError):
    """Models cannot be run at all: ONNX Runtime is not installed."""

    exit_code = 1


class CustomOpsError(PassatError, ValueError):
    """A library of custom operators that ONNX Runtime does not load. The message names it."""

    exit_code = 1


@contextmanager
def custom_operators(libraries: Sequence[str | os.PathLike[str]]) -> Iterator[None]:
    """Registers the custom operators of shared libraries with every session created in this context. Raises CustomOpsError, VerifyError."""
    paths = [os.path.abspath(os.fsdecode(library)) for library in libraries]
    for path in paths:
        if not os.path.isfile(path):
            raise CustomOpsError(f"the library {path} of custom operators does not exist")
        if path not in _LIBRARIES:
            _check_that_it_loads(path)
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


def _check_that_it_loads(library: str) -> None:
    """Raises CustomOpsError for a library that ends the process that loads it, such as a damaged one, by loading it in a child process."""
    try:
        ApartSession(lambda: b"", SessionSettings(threads=1, libraries=(library,)))
    except LateError as error:
        raise CustomOpsError(f"the library {library} of custom operators is not loaded: {error}") from error
    except EndedError as error:
        raise CustomOpsError(f"{library} is damaged, or is no library of custom operators: loading it, {error}") from error
    except (RejectedError, NoProcessError, ImportError):  # there is no model; other errors are those of this process, too
        pass


class Runner:
    """A model in ONNX Runtime. `folder` holds the external data of a model in memory. Raises VerifyError if ONNX Runtime is not installed,
    and its error if the model does not load.

    With `apart`, the session is in a child process, which ONNX Runtime may end: then EndedError is raised, and the next run reloads the
    model. Times then include the communication. `written` is the file for the optimized model. `profile` is the file name prefix for ONNX
    Runtime's operator times, for a session in this process.
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        folder: str | None = None,
        threads: int = 0,
        optimize: bool | Literal["all"] = False,
        seed: int | None = None,
        arena: bool = False,
        apart: bool = False,
        written: str | None = None,
        profile: str | None = None,
    ) -> None:
        if isinstance(model, (str, os.PathLike)):  # its external data is beside it
            folder = None
        settings = SessionSettings(folder, threads, optimize, seed, arena, tuple(_LIBRARIES), written, profile)
        self._session = _session(model, settings, apart=apart)
        self.inputs = self._inputs(model)
        self.outputs = self._session.outputs

    def _inputs(self, model: ModelSource) -> tuple[InputSpec, ...]:
        specs = tuple(InputSpec(name, kind, shape) for name, kind, shape in self._session.inputs)
        if not any(spec.of_any_rank for spec in specs):
            return specs
        from passat.ir.onnx.files import in_memory

        scalars = {spec.name for spec in declared_inputs(in_memory(model)) if spec.scalar}
        return tuple(replace(spec, scalar=spec.name in scalars) for spec in specs)

    def run(self, feed: Mapping[str, AnyValue]) -> list[AnyValue]:
        """The values of all outputs, in order."""
        return self._session.run(feed)

    def end_profile(self) -> str:
        """Ends profiling; returns the path of the file with the operator times."""
        assert isinstance(self._session, Session)
        return self._session.end_profile()


def _session(model: ModelSource, settings: SessionSettings, *, apart: bool) -> Session | ApartSession:
    if apart:
        if not is_installed():
            raise VerifyError(_MISSING)
        try:
            return ApartSession(partial(_serialized, model), settings)
        except NoProcessError:  # without child processes, runs in this one
            pass
        except ImportError as error:
            raise VerifyError(_MISSING) from error
    _onnxruntime()
    return Session(_serialized(model), settings)


def loads(model: ModelSource, folder: str | None = None) -> bool:
    """True if ONNX Runtime is installed and loads a model. Uses a child process: some invalid models end it."""
    settings = SessionSettings(folder, threads=1, libraries=tuple(_LIBRARIES))
    try:
        ApartSession(partial(_serialized, model), settings)
    except (RejectedError, EndedError, NoProcessError, ImportError):
        return False
    return True


@contextmanager
def loadable(model: ModelSource, folder: str | None = None) -> Iterator[ModelSource]:
    """A model that ONNX Runtime can load: one in memory beyond protobuf's limit becomes a temporary file."""
    if isinstance(model, (bytes, str, os.PathLike)):
        yield model
        return
    from passat.ir.onnx.sizes import model_bytes  # needs onnx

    if model_bytes(model) < PROTOBUF_LIMIT:
        yield model
        return
    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "model.onnx")
        save(model, path, folder=folder)
        yield path


def uninterrupted(function: Callable[..., object], *args: object) -> None:
    """Calls a function in a thread without waiting for it, except at the end of Python. For finalizers: an interruption there would be
    lost, since Python discards the exceptions of finalizers."""
    thread = threading.Thread(target=function, args=args)
    if threading.main_thread().is_alive():
        thread.start()
    else:
        thread.run()


def _onnxruntime() -> AnyValue:
    try:
        return onnx_runtime()
    except ImportError as error:
        raise_interrupt(error)
        raise VerifyError(_MISSING) from None


def sentence_of(error: Exception) -> str:
    """ONNX Runtime's error message, without source positions, shortened.

    >>> sentence_of(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : /core/model.cc:25 onnxruntime::Model::Model(int) No such model"))
    'No such model'
    """
    text = _PREFIX.sub("", " ".join(str(error).split()))
    if _NO_KERNELS.search(text):
        return "the model needs its library of kernels: --custom-ops NAME.kernels.so, or custom_ops=, registers it"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def runtime_version() -> str:
    """The version of ONNX Runtime. Raises VerifyError if it is not installed."""
    return str(_onnxruntime().__version__)


def _serialized(model: ModelSource) -> bytes | str:
    if isinstance(model, bytes):
        return model
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        own = path.startswith(("/dev/", "/proc/"))  # such as /dev/stdin, which is another file in a child process
        return os.path.realpath(path) if own else path
    data: bytes = model.SerializeToString()
    return data
