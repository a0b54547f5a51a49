"""`tvm.arith`: bounds, modular sets, simplification and proofs of integer expressions of loops."""

from passat.rules.passes.index_analyzer import Analyzer, ConstIntBound, ModularSet

__all__ = ["Analyzer", "ConstIntBound", "ModularSet"]
