"""Attributes that users register for operators: what a pass asks for, such as FTVMLegalize."""

from enum import IntEnum
from typing import Any as AnyValue


class OpPattern(IntEnum):
    """Operator kinds, from those that fuse with most others to those that fuse with none (Relay's OpPattern)."""

    ELEMWISE = 0
    """Each element of the result depends on the elements at its position."""
    BROADCAST = 1
    """Elementwise, with operands repeated along axes."""
    INJECTIVE = 2
    """Each element of the result depends on known elements of the operands."""
    COMM_REDUCE = 3
    """Combines elements along axes, in any order."""
    OUT_ELEMWISE_FUSABLE = 4
    """Accepts elementwise operators on its output: products and convolutions."""
    TUPLE = 7
    """A tuple of results."""
    OPAQUE = 8
    """Fuses with nothing."""


class Registered:
    """An operator's attributes by name. Those of a higher level take the place of those of a lower one."""

    __slots__ = ()

    name: str
    pattern: int
    stateful: bool
    non_computational: bool
    registered: dict[str, tuple[int, AnyValue]]
    """Values by name, with the levels that they were registered with."""

    def get_attr(self, attr_name: str) -> AnyValue:
        """The attribute, None where there is none. `TOpPattern`, `TOpIsStateful` and `TNonComputational` are part of the
        declaration, unless others are registered."""
        found = self.registered.get(attr_name)
        if found is not None:
            return found[1]
        declared = {"TOpPattern": self.pattern, "TOpIsStateful": self.stateful, "TNonComputational": self.non_computational or None}
        return declared.get(attr_name)

    def has_attr(self, attr_name: str) -> bool:
        """Whether there is such an attribute."""
        return self.get_attr(attr_name) is not None

    def set_attr(self, attr_name: str, value: AnyValue, plevel: int = 10) -> None:
        """Registers an attribute, unless one of a higher level is there. Raises ValueError where one of the same level is."""
        level = self.registered.get(attr_name, (-1, None))[0]
        if level == plevel:
            raise ValueError(f"{self.name} has the attribute {attr_name} with level {plevel} already; reset it, or register a higher level")
        if plevel > level:
            self.registered[attr_name] = (plevel, value)

    def reset_attr(self, attr_name: str) -> None:
        """Removes what was registered, if anything was."""
        self.registered.pop(attr_name, None)
