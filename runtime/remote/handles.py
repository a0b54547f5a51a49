"""Arrays, functions, modules and devices of a session. Their contents stay on the server until they are requested."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar
from typing import Any as AnyValue

from passat.ir.tensor import Tensor
from passat.runtime.devices import Device
from passat.runtime.module import BenchmarkResult, Module, check_counts
from passat.runtime.packed_func import PackedFunc
from passat.runtime.remote.wire import Handle, RemoteError
from passat.runtime.values import NDArray

if TYPE_CHECKING:
    from passat.runtime.remote.session import Session

_A = TypeVar("_A")


class Owned:
    """An object on the server of a session. The server forgets it when nothing here uses it."""

    def __init__(self, session: "Session", handle: Handle) -> None:
        self.session = session
        self.handle = handle
        weakref.finalize(self, session.released.append, handle.number).atexit = False


@dataclass(frozen=True, init=False, repr=False)
class RemoteDevice(Device):
    """A device of a session's server. Arrays are created on it by `nd.array(data, device)`."""

    session: "Session" = field(kw_only=True)

    def __init__(self, session: "Session", device_type: int | str, device_id: int = 0) -> None:
        super().__init__(device_type, device_id)
        object.__setattr__(self, "session", session)

    @property
    def is_local(self) -> bool:
        """False: programs run on it as modules that the session has loaded."""
        return False

    def place(self, array: _A) -> _A:
        """A copy of the array on this device."""
        assert isinstance(array, NDArray)
        made: _A = self.session.request("put", array.tensor)
        return made

    def __str__(self) -> str:
        return f"remote:{self.kind}({self.device_id})"

    def __repr__(self) -> str:
        return f"RemoteDevice({self.kind!r}, {self.device_id})"


class RemoteArray(NDArray):
    """An array on the server: reading its elements downloads them, writing uploads them. Shape and element type are known here."""

    def __init__(self, session: "Session", handle: Handle) -> None:
        self.owned: Final = Owned(session, handle)
        self._shape, self._dtype = handle.about

    @property
    def _tensor(self) -> Tensor:
        found = self.owned.session.request("elements", self)
        assert isinstance(found, Tensor)
        return found

    @_tensor.setter
    def _tensor(self, value: Tensor) -> None:
        self.owned.session.request("write", self, value)

    @property
    def tensor(self) -> Tensor:
        """The elements, downloaded."""
        return self._tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return tuple(self._shape)

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return str(self._dtype)

    @property
    def device(self) -> Device:
        """The CPU of the server."""
        return self.owned.session.cpu()

    def __repr__(self) -> str:
        return f"RemoteArray({self.dtype}{list(self.shape)})"


class RemoteFunction(PackedFunc):
    """A function on the server, which takes numbers, texts, bytes, None, and arrays, functions and modules of the same session."""

    def __init__(self, session: "Session", handle: Handle) -> None:
        owned = Owned(session, handle)

        def call(*args: AnyValue) -> AnyValue:
            return session.request("call", owned.handle, *args)

        super().__init__(call, str(handle.about[0]))
        self.owned: Final = owned

    def __repr__(self) -> str:
        return f"RemoteFunction({self.name})"


class RemoteModule(Module):
    """A module on the server; its functions run there."""

    def __init__(self, session: "Session", handle: Handle) -> None:
        super().__init__(type_key=str(handle.about[0]))
        self.owned: Final = Owned(session, handle)

    def _find(self, name: str, *, query_imports: bool) -> PackedFunc | None:
        found: PackedFunc | None = self.owned.session.request("within", self, name, query_imports)
        return found

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """The function of that name, also of imported modules with `query_imports`. Raises AttributeError for an unknown name."""
        found = self._find(name, query_imports=query_imports)
        if found is None:
            raise AttributeError(f"the remote module has no function '{name}'")
        return found

    @property
    def entry_func(self) -> PackedFunc:
        """The entry function of the module. Raises RemoteError if it is ambiguous."""
        found: PackedFunc = self.owned.session.request("entry", self)
        return found

    def import_module(self, module: Module) -> None:
        """Adds a module of the same session whose functions this one uses."""
        self.owned.session.request("import", self, module)

    def __setitem__(self, name: str, function: Callable[..., AnyValue]) -> None:
        raise RemoteError("functions cannot be added to a remote module; add them before export_library")

    def time_evaluator(
        self, func_name: str, dev: Device | None = None, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0
    ) -> Callable[..., BenchmarkResult]:
        """Returns a function that measures another one on the server, as `Module.time_evaluator`. Only the times are sent."""
        self.get_function(func_name, query_imports=True)
        check_counts(number, repeat)

        def measure(*args: AnyValue) -> BenchmarkResult:
            return BenchmarkResult(self.owned.session.request("time", self, func_name, number, repeat, min_repeat_ms, *args))

        return measure

    def __repr__(self) -> str:
        return f"RemoteModule({self.type_key})"


KINDS_OF_HANDLES: Final = {"array": RemoteArray, "function": RemoteFunction, "module": RemoteModule}
"""The classes of objects, by the kinds of their handles."""
