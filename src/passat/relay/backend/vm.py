"""`tvm.relay.vm`: builds programs with control flow, unknown sizes, closures and data types."""

from collections.abc import Mapping
from typing import Any as AnyValue

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.runtime.devices import Target
from passat.runtime.graph.build import build_vm
from passat.runtime.graph.virtual_machine import Executable, VirtualMachine

__all__ = ["Executable", "VirtualMachine", "compile"]


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
