"""`tvm.nd`: arrays and the devices they are on. Formerly `tvm.ndarray`."""

from typing import TYPE_CHECKING

from passat.relay.names import missing_name
from passat.runtime import Device, NDArray, array, cpu, device
from passat.runtime.values import empty, from_dlpack

__all__ = [
    "Device",
    "NDArray",
    "array",
    "context",
    "cpu",
    "cuda",
    "device",
    "empty",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "metal",
    "opencl",
    "rocm",
    "vpi",
    "vulkan",
]

context = device
"""The former name of `device`."""


def cuda(dev_id: int = 0) -> Device:
    """A GPU by CUDA, which does not exist here."""
    return Device("cuda", dev_id)


gpu = cuda


def opencl(dev_id: int = 0) -> Device:
    """A device of OpenCL, which does not exist here."""
    return Device("opencl", dev_id)


def metal(dev_id: int = 0) -> Device:
    """A GPU by Metal, which does not exist here."""
    return Device("metal", dev_id)


def rocm(dev_id: int = 0) -> Device:
    """A GPU by ROCm, which does not exist here."""
    return Device("rocm", dev_id)


def vpi(dev_id: int = 0) -> Device:
    """A simulated accelerator, which does not exist here."""
    return Device("vpi", dev_id)


def ext_dev(dev_id: int = 0) -> Device:
    """An accelerator by an extension of TVM, which does not exist here."""
    return Device("ext_dev", dev_id)


def vulkan(dev_id: int = 0) -> Device:
    """A GPU by Vulkan, which does not exist here."""
    return Device("vulkan", dev_id)


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("nd", __all__)
