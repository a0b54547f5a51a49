"""Names of TVM before 0.7 that stand for something else in later versions."""

from passat.runtime import PackedFunc as Function
from passat.runtime import convert, cpu
from passat.runtime import load_module as load

__all__ = ["Function", "convert", "cpu", "load"]
