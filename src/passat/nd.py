"""`tvm.nd`: arrays and the devices they are on. Formerly `tvm.ndarray`."""

from typing import TYPE_CHECKING, Final

from passat.relay.names import missing_name
from passat.runtime import Device, NDArray, array, cpu, device
from passat.runtime.devices import KINDS
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
    "from_dlpack",
    "gpu",
    "metal",
    "opencl",
    "rocm",
    "vulkan",
]

_FORMER: Final[dict[str | int, str]] = {"gpu": "cuda", "nvptx": "cuda", "cl": "opencl", "cpu_pinned": "cuda_host"}


def context(dev_type: str | int, dev_id: int = 0) -> Device:
    """A device by kind or target, also of kinds that do not exist here (`exist`). Formerly the name of `device`.

    >>> context("cuda").exist, context("llvm").exist
    (False, True)
    """
    name = dev_type.partition(" ")[0] if isinstance(dev_type, str) else dev_type
    name = _FORMER.get(name, name)
    return Device(name, dev_id) if name in (*KINDS, *KINDS.values()) else device(str(dev_type), dev_id)


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


def vulkan(dev_id: int = 0) -> Device:
    """A GPU by Vulkan, which does not exist here."""
    return Device("vulkan", dev_id)


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("nd", __all__)
