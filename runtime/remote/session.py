"""Sessions: the side that asks. The other side is a `Server`, in this process or elsewhere."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any as AnyValue

from passat.ir.bounded_read import read_bounded
from passat.runtime.devices import Device
from passat.runtime.graph.archive import LARGEST
from passat.runtime.module import Module
from passat.runtime.packed_func import PackedFunc
from passat.runtime.remote.handles import KINDS_OF_HANDLES, RemoteArray, RemoteDevice, RemoteFunction, RemoteModule
from passat.runtime.remote.server import Server
from passat.runtime.remote.wire import Handle, RemoteError, decode, encode
from passat.runtime.values import NDArray


class Session:
    """Files, modules, functions and arrays of a server, to which `send` delivers a request and returns its answer.

    Errors of remote functions, and of a server that is lost, are RemoteErrors. `close`, or leaving `with`, ends the session.
    """

    def __init__(self, send: Callable[[bytes], bytes], end: Callable[[], object] = bool) -> None:
        self._send: Callable[[bytes], bytes] | None = send
        self._end = end
        self.released: list[int] = []
        """Numbers of objects that are no longer used here; the server forgets them with the next request."""

    def request(self, operation: str, *args: AnyValue) -> AnyValue:
        """The result of an operation of the server. Raises RemoteError, and TypeError for arguments that cannot be sent."""
        if self._send is None:
            raise RemoteError("the session is closed")
        released = [self.released.pop() for _ in range(len(self.released))]
        try:
            message = encode((operation, args, released), self._sent)
        except TypeError:
            self.released += released
            raise
        succeeded, result = decode(self._send(message), self._received)
        if not succeeded:
            raise RemoteError(str(result))
        return result

    def upload(self, data: "bytes | bytearray | str | os.PathLike[str]", target: str | None = None) -> None:
        """Writes bytes, or a file, to the server's folder under the name `target`, by default that of the file."""
        if isinstance(data, (bytes, bytearray)):
            if not target:
                raise ValueError("bytes have no name: pass the name of the file as target")
            self.request("upload", target, bytes(data))
        else:
            self.request("upload", target or Path(data).name, read_bounded(data, LARGEST))

    def download(self, path: str) -> bytearray:
        """The content of a file of the server's folder."""
        return bytearray(self.request("download", path))

    def remove(self, path: str) -> None:
        """Removes a file of the server's folder. Ignores an unknown name."""
        self.request("remove", path)

    def load_module(self, path: str) -> RemoteModule:
        """A module of a file in the server's folder that `export_library` has written. Nothing else of it is executed."""
        found = self.request("load", path)
        assert isinstance(found, RemoteModule)
        return found

    def get_function(self, name: str) -> PackedFunc:
        """The global function of that name (`register_func`) in the server's process."""
        found = self.request("function", name)
        assert isinstance(found, PackedFunc)
        return found

    def device(self, dev_type: int | str, dev_id: int = 0) -> RemoteDevice:
        """A device of the server."""
        return RemoteDevice(self, dev_type, dev_id)

    context = device

    def cpu(self, dev_id: int = 0) -> RemoteDevice:
        """The CPU of the server."""
        return RemoteDevice(self, "cpu", dev_id)

    def close(self) -> None:
        """Ends the session. The server's objects and files are removed."""
        if self._send is not None:
            self._send = None
            self._end()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _received(self, handle: Handle) -> AnyValue:
        if handle.kind not in KINDS_OF_HANDLES:
            raise RemoteError(f"the server sent a {handle.kind!r:.60}, which this version of Passat does not have")
        return KINDS_OF_HANDLES[handle.kind](self, handle)

    def _sent(self, value: AnyValue) -> AnyValue:
        if isinstance(value, (RemoteArray, RemoteFunction, RemoteModule)):
            if value.owned.session is not self:
                raise TypeError(f"{value!r} belongs to another session")
            return value.owned.handle
        if isinstance(value, RemoteDevice):
            if value.session is not self:
                raise TypeError(f"{value!r} belongs to another session")
            return Device(value.device_type, value.device_id)
        if isinstance(value, NDArray):
            raise TypeError("a remote function takes arrays of its session; copy this one with nd.array(data, session.cpu())")
        if isinstance(value, (PackedFunc, Module)):
            raise TypeError(
                f"{value!r} is in this process and cannot be sent; remote functions take functions and modules of their session"
            )
        raise TypeError(f"a {type(value).__name__} cannot be sent to a remote function")


class LocalSession(Session):
    """A session with a server in this process, as TVM's `rpc.LocalSession`: for trying what another session does.

    >>> with LocalSession() as session:
    ...     session.upload(b"content", "name.bin")
    ...     session.download("name.bin")
    bytearray(b'content')
    """

    def __init__(self) -> None:
        server = Server()
        super().__init__(server.answer, server.close)
