"""`tvm.relay.vm`: builds programs with control flow, unknown sizes, closures and data types."""

from collections.abc import Mapping
from typing import Any as AnyValue

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.runtime.devices import Target
from passat.runtime.graph.build import build_vm
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.virtual_machine import Executable, VirtualMachine
from passat.runtime.values import ADT, NDArray

__all__ = ["ADT", "Executable", "Tensor", "VMCompiler", "VirtualMachine", "compile"]

Tensor = NDArray
"""The name of an array before TVM 0.7."""


def compile(
    mod: IRModule | Function,
    target: Target | str | None = None,
    target_host: Target | str | None = None,
    params: Mapping[str, AnyValue] | None = None,
) -> Executable:
    """Builds a module for the virtual machine, by the passes of the current context's level.

    executable = relay.vm.compile(mod, target="llvm")
    relay.vm.VirtualMachine(executable, passat.cpu()).run(x)
    """
    return build_vm(mod, target, params)


class VMCompiler:
    """Builds modules step by step."""

    def __init__(self) -> None:
        self._params: dict[str, AnyValue] = {}
        self._built: Executable | None = None

    def set_params(self, params: Mapping[str, AnyValue]) -> None:
        """Sets values of parameters of main, by name."""
        self._params.update(params)

    def optimize(
        self,
        mod: IRModule | Function,
        target: Target | str | None = None,
        target_host: Target | str | None = None,
        params: Mapping[str, AnyValue] | None = None,
    ) -> tuple[IRModule, dict[str, AnyValue]]:
        """The module after the passes, and the parameters that are left over, which are none."""
        self.lower(mod, target, params=params)
        return self.get_exec().mod, {}

    def lower(
        self,
        mod: IRModule | Function,
        target: Target | str | None = None,
        target_host: Target | str | None = None,
        params: Mapping[str, AnyValue] | None = None,
    ) -> None:
        """Builds a module."""
        self._built = build_vm(mod, target, {**self._params, **(params or {})})

    def codegen(self) -> None:
        """Does nothing: primitive functions are compiled on first use."""

    def get_exec(self) -> Executable:
        """What was built. Raises GraphError before `lower`."""
        if self._built is None:
            raise GraphError("nothing was built: call lower(mod, target) first")
        return self._built
