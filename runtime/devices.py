"""Devices and targets, which scripts name: Passat computes on the CPU."""

import threading
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


class Target:
    """What a program is compiled for, by its name: `llvm` or `cpu`, with TVM's options behind it, which are kept and not read.

    As a context manager it is what `Target.current()` gives inside, in its thread. Nothing in Passat depends on it.

    Raises ValueError for what is not the CPU.

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
        """The target that was entered last in this thread. Raises ValueError where there is none, unless that is allowed."""
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
