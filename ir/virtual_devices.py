"""What TVM's programs have for placing values on devices. There is one device here, so they cannot be read."""

from typing import Final

CLASSES: Final = frozenset({"SEScope", "VirtualDevice"})
"""The type keys of devices, under the names of two versions of TVM."""
OPERATORS: Final = frozenset({"device_copy", "on_device"})
"""The operators that place values on devices."""
NOT_SUPPORTED: Final = "virtual devices are not supported: write the program without virtual_device, on_device and device_copy"
