"""`tvm.target`: what programs are compiled for. Here that is the CPU."""

from passat.runtime.devices import Target

__all__ = ["Target"]
