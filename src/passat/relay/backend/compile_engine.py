"""`tvm.relay.backend.compile_engine`: the cache of compiled functions."""

from passat.runtime.graph import CachedFunc, CCacheKey, CCacheValue, CompileEngine

__all__ = ["CCacheKey", "CCacheValue", "CachedFunc", "CompileEngine", "get"]


def get() -> CompileEngine:
    """The engine that scripts share."""
    return CompileEngine.get()
