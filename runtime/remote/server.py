"""The side of a session that computes: objects by number, global functions, and a private folder for files."""

import itertools
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any as AnyValue
from typing import Final

from passat.ir.bounded_read import read_bounded
from passat.ir.tensor import Tensor
from passat.ir.whole_file import write_whole
from passat.runtime.graph import load_module
from passat.runtime.graph.library import LARGEST
from passat.runtime.module import Module
from passat.runtime.packed_func import PackedFunc, get_global_func
from passat.runtime.remote.wire import Handle, RemoteError, decode, encode
from passat.runtime.values import NDArray, TupleValue

_LONGEST_NAME: Final = 200


class Server:
    """Answers the requests of one session.

    A request is the name of an operation, its arguments, and the numbers of objects that the session no longer uses. An answer is
    whether it succeeded, and the result or the error's text. Files are in a private folder that is removed with the server.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="passat-remote-")
        self._objects: dict[int, AnyValue] = {}
        # A server that replaces a lost one must not take its handles for its own.
        self._numbers = itertools.count(secrets.randbits(48) << 14)
        self._operations: dict[str, Callable[..., AnyValue]] = {
            "call": lambda function, *args: function(*args),
            "download": lambda name: read_bounded(self._path(name), LARGEST),
            "elements": lambda array: array.tensor,
            "entry": lambda module: module.entry_func,
            "function": get_global_func,
            "import": lambda module, imported: module.import_module(imported),
            "load": lambda name: load_module(self._path(name)),
            "put": NDArray,
            "remove": lambda name: self._path(name).unlink(missing_ok=True),
            "time": self._time,
            "upload": lambda name, content: write_whole(self._path(name), content),
            "within": self._within,
            "write": self._write,
        }

    def answer(self, request: bytes) -> bytes:
        """Carries out a request. Raises nothing: errors are answers too."""
        try:
            operation, args, released = decode(request, self._found)
            for number in released:
                self._objects.pop(number, None)
            if operation not in self._operations:
                raise RemoteError(f"there is no operation {operation!r:.60}")
            return encode((True, self._operations[operation](*args)), self._kept)
        except Exception as error:
            return encode((False, f"{type(error).__name__}: {error}"), str)

    def close(self) -> None:
        """Forgets all objects and removes the folder."""
        self._objects.clear()
        self._folder.cleanup()

    def _path(self, name: AnyValue) -> Path:
        """A file of the folder. Raises RemoteError for names that are not plain names of files."""
        plain = isinstance(name, str) and name not in ("", ".", "..") and len(name) <= _LONGEST_NAME
        if not plain or not name.isprintable() or any(mark in name for mark in "/\\:"):
            raise RemoteError(f"{name!r:.80} is not the name of a file in the session's folder: names have no folders, such as model.so")
        return Path(self._folder.name, name)

    def _within(self, module: Module, name: str, query_imports: bool) -> PackedFunc | None:
        return module.get_function(name, query_imports) if module.implements_function(name, query_imports) else None

    def _write(self, array: NDArray, tensor: Tensor) -> None:
        array.copyfrom(NDArray(tensor))

    def _time(self, module: Module, name: str, number: int, repeat: int, least: float, *args: AnyValue) -> AnyValue:
        return module.time_evaluator(name, None, number, repeat, least)(*args).results

    def _found(self, handle: Handle) -> AnyValue:
        if handle.number not in self._objects:
            raise RemoteError(f"the server does not have this {handle.kind}: it belongs to another session, or the server was lost")
        return self._objects[handle.number]

    def _kept(self, value: AnyValue) -> AnyValue:
        """A handle of a result that stays here. Raises TypeError for values without one."""
        if isinstance(value, TupleValue):
            return value.fields
        about: tuple[AnyValue, ...]
        if isinstance(value, NDArray):
            kind, about = "array", (value.shape, value.dtype)
        elif isinstance(value, Module):
            kind, about = "module", (value.type_key,)
        elif callable(value) and not isinstance(value, type):
            value = PackedFunc(value)
            kind, about = "function", (value.name,)
        else:
            raise TypeError(f"a result of the type {type(value).__name__} cannot be sent; send arrays, numbers, texts, bytes or modules")
        number = next(self._numbers)
        self._objects[number] = value
        return Handle(number, kind, about)
