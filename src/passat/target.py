"""`tvm.target`: compilation targets. Here that is the CPU."""

from typing import TYPE_CHECKING, NoReturn

from passat.runtime.devices import TARGETS, Target

__all__ = ["Target", "create"]

create = Target
"""The name of `Target` before TVM 0.7."""


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name

    def __getattr__(name: str) -> NoReturn:
        hint = "" if name.startswith("__") else f"; Passat computes on the CPU: use Target({TARGETS[0]!r})"
        raise AttributeError(f"target has no {name!r}{hint}")
