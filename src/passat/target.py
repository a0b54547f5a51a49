"""`tvm.target`: compilation targets. Here that is the CPU."""

from passat.runtime.devices import Target

__all__ = ["Target", "create"]

create = Target
"""The name of `Target` before TVM 0.7."""
