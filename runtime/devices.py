"""Devices and targets, for scripts that specify them. Passat always computes on the CPU."""

import threading
from typing import NamedTuple


class Device(NamedTuple):
    """A device by kind and number."""

    device_type: str
    device_id: int = 0

    def __str__(self) -> str:
        return f"{self.device_type}({self.device_id})"


def cpu(dev_id: int = 0) -> Device:
    """Returns the CPU with a number.

    >>> print(cpu())
    cpu(0)
    """
    return Device("cpu", dev_id)


def device(dev_type: str, dev_id: int = 0) -> Device:
    """Returns a device by name: `cpu`, or the target `llvm`, which implies it. Raises ValueError for any other.

    >>> device("llvm") == cpu()
    True
    """
    if dev_type.partition(" ")[0] not in ("cpu", "llvm"):
        raise ValueError(f"unsupported device {dev_type!r}; Passat computes on the CPU: use cpu, or the target llvm")
    return Device("cpu", dev_id)


class Target:
    """The compilation target by name: `llvm` or `cpu`, with TVM's options, which are stored but not used.

    As a context manager, it becomes the result of `Target.current()` in its thread. Nothing in Passat depends on it. Raises ValueError for
    targets other than the CPU.

    >>> with Target("llvm -mcpu=skylake") as target:
    ...     print(Target.current(), target.kind, Target("llvm") == target)
    llvm -mcpu=skylake llvm False
    """

    _entered = threading.local()

    def __init__(self, target: "str | Target", host: "str | Target | None" = None) -> None:
        self._text = str(target)
        self.device = device(self._text)
        self.host = None if host is None else Target(host)

    @property
    def kind(self) -> str:
        """The name without options."""
        return self._text.partition(" ")[0]

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
