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
from passat.runtime.graph import DebugExecutor, GraphExecutor, load_module
from passat.runtime.graph.archive import LARGEST
from passat.runtime.module import Module
from passat.runtime.packed_func import PackedFunc, get_global_func
from passat.runtime.remote.wire import Handle, RemoteError, decode, encode
from passat.runtime.values import NDArray, TupleValue

_LONGEST_NAME: Final = 200


class Server:
    """Answers the requests of one session.

    A request is the name of an operation, its arguments, and the numbers of objects that the session no longer uses. An answer is
    whether it succeeded, and the result or the error's text. Files are in a private folder, in `parent` or that for temporary files, which
    is removed with the server.
    """

    def __init__(self, parent: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="passat-remote-", dir=parent)
        self._objects: dict[int, AnyValue] = {}
        # A server that replaces a lost one must not take its handles for its own.
        self._numbers = itertools.count(secrets.randbits(48) << 14)

    def answer(self, request: bytes) -> bytes:
        """Carries out a request. Raises nothing: errors are answers too."""
        try:
            operation, args, released = decode(request, self._found)
            for number in released:
                self._objects.pop(number, None)
            if operation not in _OPERATIONS:
                raise RemoteError(f"there is no operation {operation!r:.60}")
            return encode((True, _OPERATIONS[operation](self, *args)), self._kept)
        except Exception as error:
            return encode((False, f"{type(error).__name__}: {error}"), str)

    def close(self) -> None:
        """Forgets all objects and removes the folder."""
        self._objects.clear()
        self._folder.cleanup()

    def __del__(self) -> None:
        self.close()

    def path(self, name: AnyValue) -> Path:
        """A file of the folder. Raises RemoteError for names that are not plain names of files."""
        plain = isinstance(name, str) and name not in ("", ".", "..") and len(name) <= _LONGEST_NAME
        if not plain or not name.isprintable() or any(mark in name for mark in "/\\:"):
            raise RemoteError(f"{name!r:.80} is not the name of a file in the session's folder: names have no folders, such as model.so")
        return Path(self._folder.name, name)

    def existing(self, name: AnyValue) -> Path:
        """A file of the folder that exists. Raises FileNotFoundError without the path of the folder, which clients do not see."""
        path = self.path(name)
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {name!r} in the session's folder; upload it first")
        return path

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


def _call(server: Server, function: PackedFunc, *args: AnyValue) -> AnyValue:
    return function(*args)


def _time(server: Server, module: Module, name: str, number: int, repeat: int, least: float, *args: AnyValue) -> AnyValue:
    return module.time_evaluator(name, None, number, repeat, least)(*args).results


def _within(server: Server, module: Module, name: str, query_imports: bool) -> PackedFunc | None:
    return module.get_function(name, query_imports) if module.implements_function(name, query_imports) else None


def _write(server: Server, array: NDArray, tensor: Tensor) -> None:
    array.copyfrom(NDArray(tensor))


_OPERATIONS: Final[dict[str, Callable[..., AnyValue]]] = {
    "call": _call,
    "download": lambda server, name: read_bounded(server.existing(name), LARGEST),
    "elements": lambda server, array: array.tensor,
    "entry": lambda server, module: module.entry_func,
    "function": lambda server, name: get_global_func(name),
    "graph": lambda server, text, module: GraphExecutor(text, module),
    "debug graph": lambda server, text, module: DebugExecutor(text, module),
    "import": lambda server, module, imported: module.import_module(imported),
    "load": lambda server, name: load_module(server.existing(name)),
    "put": lambda server, tensor: NDArray(tensor),
    "remove": lambda server, name: server.path(name).unlink(missing_ok=True),
    "time": _time,
    "upload": lambda server, name, content: write_whole(server.path(name), content),
    "within": _within,
    "write": _write,
}
