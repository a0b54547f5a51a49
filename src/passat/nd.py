"""`tvm.nd`: arrays and the devices they are on."""

from passat.runtime import Device, NDArray, array, cpu, device

__all__ = ["Device", "NDArray", "array", "cpu", "device"]
