"""`tvm.tir.ir_builder`: builds statements step by step."""

from passat.ir.tir.builder import BufferVar, IRBuilder, create

__all__ = ["BufferVar", "IRBuilder", "create"]
