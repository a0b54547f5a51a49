"""Functions, modules and arrays of another process (TVM's RPC).

* `wire` encodes messages: JSON, raw arrays and bytes.
* `server` answers requests: it holds the objects, and a private folder for files.
* `session` sends them, and `handles` are its arrays, functions, modules and devices.

A session and its server are in one process (`LocalSession`), or on two sides of a cluster (`passat.rpc`).
"""

from passat.runtime.remote.handles import RemoteArray, RemoteDevice, RemoteFunction, RemoteModule
from passat.runtime.remote.server import Server
from passat.runtime.remote.session import LocalSession, Session
from passat.runtime.remote.wire import RemoteError

__all__ = ["LocalSession", "RemoteArray", "RemoteDevice", "RemoteError", "RemoteFunction", "RemoteModule", "Server", "Session"]
