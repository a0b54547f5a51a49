"""Devices, which scripts name: Passat computes on the CPU."""

from typing import NamedTuple


class Device(NamedTuple):
    """A device by its kind and number."""

    device_type: str
    device_id: int = 0

    def __str__(self) -> str:
        return f"{self.device_type}({self.device_id})"


def cpu(dev_id: int = 0) -> Device:
    """The CPU of that number.

    >>> print(cpu())
    cpu(0)
    """
    return Device("cpu", dev_id)


def device(dev_type: str, dev_id: int = 0) -> Device:
    """A device by its name: `cpu`, or `llvm`, which is a target that means it. Raises ValueError for any other.

    >>> device("llvm") == cpu()
    True
    """
    if dev_type.partition(" ")[0] not in ("cpu", "llvm"):
        raise ValueError(f"Passat computes on the CPU (cpu, or the target llvm); it has no device {dev_type!r}")
    return Device("cpu", dev_id)
