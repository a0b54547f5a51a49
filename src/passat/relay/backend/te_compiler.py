"""`tvm.relay.backend.te_compiler`: the name of the compile engine in TVM from 0.8 on."""

from passat.relay.backend.compile_engine import CachedFunc, CCacheKey, CCacheValue, get

__all__ = ["CCacheKey", "CCacheValue", "CachedFunc", "get"]
