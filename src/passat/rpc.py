"""`tvm.rpc`: sessions with a server, which hold its files, modules, functions and arrays."""

from passat.runtime.remote import LocalSession, RemoteError, Session

__all__ = ["LocalSession", "RPCError", "RPCSession"]

RPCSession = Session
RPCError = RemoteError
