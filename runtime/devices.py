"""Devices and targets, for scripts that specify them. Passat always computes on the CPU."""

import re
import threading
from dataclasses import dataclass
from typing import Final, TypeVar

from passat.ir.similar_names import did_you_mean

_A = TypeVar("_A")
KINDS: Final = {
    **{"cpu": 1, "cuda": 2, "cuda_host": 3, "opencl": 4, "aocl": 5, "sdaccel": 6, "vulkan": 7, "metal": 8, "vpi": 9, "rocm": 10},
    **{"rocm_host": 11, "ext_dev": 12, "hexagon": 14, "webgpu": 15},
}
"""TVM's numbers of kinds of devices. Only the CPU exists here."""
_FUNCTION_ARGS: Final = {"opencl": 128, "metal": 31}
"""TVM's limits of the number of arguments, by target."""
_FORMER: Final[dict[str | int, str]] = {"gpu": "cuda", "nvptx": "cuda", "cl": "opencl", "cpu_pinned": "cuda_host"}
"""Other names of kinds of devices."""
TARGETS: Final = ("llvm", "cpu", "c", "onnxruntime", "numpy")
"""Names of targets, which all run on the CPU."""


@dataclass(frozen=True)
class Device:
    """A device by kind, a number or a name, and its own number.

    >>> Device("cpu") == Device(1, 0), Device("cuda", 7).exist
    (True, False)
    """

    device_type: int
    device_id: int = 0

    def __init__(self, device_type: int | str, device_id: int = 0) -> None:
        number = KINDS.get(device_type) if isinstance(device_type, str) else device_type
        if number not in KINDS.values():
            hint = did_you_mean(str(device_type), (*KINDS, *TARGETS))
            raise ValueError(f"unknown kind of device {device_type!r}; known: {', '.join(KINDS)}{hint}")
        object.__setattr__(self, "device_type", number)
        object.__setattr__(self, "device_id", device_id)

    @property
    def kind(self) -> str:
        """The name of the kind."""
        return next(name for name, number in KINDS.items() if number == self.device_type)

    @property
    def exist(self) -> bool:
        """Whether programs can run on the device."""
        return self.device_type == KINDS["cpu"]

    @property
    def is_local(self) -> bool:
        """Whether programs of this process can run on the device."""
        return self.exist

    def place(self, array: _A) -> _A:
        """An array on this device: itself, if programs of this process can run on it. Raises ValueError otherwise."""
        if not self.exist:
            raise ValueError(f"unsupported device {self}; Passat computes on the CPU")
        return array

    def sync(self) -> None:
        """Does nothing: computations on the CPU are complete when their functions return."""

    def __str__(self) -> str:
        return f"{self.kind}({self.device_id})"

    def __repr__(self) -> str:
        return f"Device({self.kind!r}, {self.device_id})"


def check_device(given: object) -> Device:
    """A device, by default the CPU. Raises TypeError for other values.

    >>> check_device(None)
    Device('cpu', 0)
    """
    if given is not None and not isinstance(given, Device):
        raise TypeError(f"a device is an object such as passat.cpu(), not {given!r}")
    return cpu() if given is None else given


def cpu(dev_id: int = 0) -> Device:
    """Returns the CPU with a number.

    >>> print(cpu())
    cpu(0)
    """
    return Device("cpu", dev_id)


def device(dev_type: "str | int | Target", dev_id: int = 0) -> Device:
    """Returns a device by kind, or by a target for it; only the CPU exists here. Raises ValueError for unknown names.

    >>> device("llvm") == cpu(), device("cuda").exist
    (True, False)
    """
    given = dev_type if isinstance(dev_type, int) else str(dev_type).partition(" ")[0]
    name = _FORMER.get(given, given)
    return Device("cpu" if name in TARGETS else name, dev_id)


def enabled(target: str) -> bool:
    """Whether programs can be built for a target here.

    >>> enabled("llvm"), enabled("cuda")
    (True, False)
    """
    return target.partition(" ")[0] in TARGETS


class TargetKind(str):
    """The name of a target without options."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name, as a plain string."""
        return str(self)


class Target:
    """The compilation target by name: `llvm`, `c`, `onnxruntime`, `numpy` or `cpu`, with TVM's options. They are stored but not used,
    except for `max_function_args`.

    As a context manager, it becomes the result of `Target.current()` in its thread, which is the default target of `relay.build`. The name
    decides what computes compiled functions (docs/running.md). Other kinds of devices are targets, too, but nothing can be built for them.
    Raises ValueError for other names.

    >>> with Target("llvm -mcpu=skylake") as target:
    ...     print(Target.current(), target.kind, Target("llvm") == target)
    llvm -mcpu=skylake llvm False
    >>> Target("metal").max_function_args, Target("opencl -max_function_args=64").max_function_args
    (31, 64)
    """

    _entered = threading.local()

    def __init__(self, target: "str | Target", host: "str | Target | None" = None) -> None:
        self._text = str(target)
        if not enabled(self._text) and self.kind not in KINDS:
            raise ValueError(self._unsupported())
        self.device = Device("cpu" if enabled(self._text) else self.kind)
        self.host = None if host is None else Target(host)

    def for_building(self) -> "Target":
        """Returns the target. Raises ValueError if programs cannot be built for it here."""
        if not enabled(self._text):
            raise ValueError(self._unsupported())
        return self

    def _unsupported(self) -> str:
        return f"unsupported target {self._text!r}; Passat computes on the CPU: use {', '.join(TARGETS)}"

    @property
    def max_function_args(self) -> int:
        """The most arguments that a function may have; 0 is no limit."""
        given = re.search(r"-max_function_args=(\d{1,9})(?!\S)", self._text)
        return _FUNCTION_ARGS.get(self.kind, 0) if given is None else int(given[1])

    @property
    def kind(self) -> TargetKind:
        """The name without options."""
        return TargetKind(self._text.partition(" ")[0])

    @staticmethod
    def current(allow_none: bool = True) -> "Target | None":
        """Returns the innermost entered target of this thread. Raises ValueError if there is none, unless `allow_none`."""
        stack: list[Target] = getattr(Target._entered, "stack", [])
        if not stack and not allow_none:
            raise ValueError("Target context required. Please set it by constructing a TargetContext")
        return stack[-1] if stack else None

    def __enter__(self) -> "Target":
        if not hasattr(Target._entered, "stack"):
            Target._entered.stack = []
        Target._entered.stack.append(self)
        return self

    def __exit__(self, *raised: object) -> None:
        Target._entered.stack.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and (self._text, self.host) == (other._text, other.host)

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Target({self._text!r})"
