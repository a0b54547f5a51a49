"""Programs with control flow, unknown sizes, closures and data types: the interpreter's semantics, with compiled primitive functions.

There is no bytecode: an executable is the optimized program itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue

from passat.ir.expr import Function
from passat.ir.graph_json import JSONError, load_json, save_json
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.runtime.devices import Device, Target, cpu
from passat.runtime.executor import Executor
from passat.runtime.graph.compile_engine import CachedFunc, CCacheKey, CompileEngine
from passat.runtime.graph.external import compile_external
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.library import Library
from passat.runtime.graph.primitive import nested_data, tensors_of
from passat.runtime.module import Module
from passat.runtime.values import Data


class Executable(Module):
    """An optimized program, whose primitive functions are compiled for a target. `executable["default"](device)` creates an executor."""

    def __init__(self, mod: IRModule, target: Target) -> None:
        super().__init__({"default": self.create}, "VMExecutable")
        self.mod = mod
        self.target = target
        self._engine = CompileEngine("vm_fused")
        self._external: dict[int, tuple[Function, CachedFunc]] = {}

    def create(self, *devices: Device) -> "VirtualMachine":
        """An executor of the program."""
        return VirtualMachine(self, *devices[:1])

    def compute(self, function: Function, args: Sequence[Data]) -> Data:
        """Computes a primitive function. Raises GraphError that names it."""
        flat = [tensor for arg in args for tensor in tensors_of(arg)]
        return nested_data(function.body.checked_type, iter(self._compiled(function).run(flat)))

    def _compiled(self, function: Function) -> CachedFunc:
        if "Compiler" not in function.attrs:
            return self._engine.lower(CCacheKey(function, self.target))
        found = self._external.get(id(function))
        if found is None:
            found = self._external[id(function)] = (function, compile_external(function, self.target))
        return found[1]

    def save(self) -> tuple[bytearray, Library]:
        """The program as JSON, and an empty library instead of TVM's machine code."""
        return bytearray(save_json(self.mod).encode()), Library((), self.target)

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: Module | None = None) -> "Executable":
        """The program that `save` has written. Raises GraphError for anything else."""
        try:
            mod = load_json(bytes(bytecode).decode())
        except (JSONError, UnicodeDecodeError) as error:
            raise GraphError(f"this is not a program that Executable.save has written: {error}") from error
        if not isinstance(mod, IRModule) or "main" not in mod:
            raise GraphError("this is not a program that Executable.save has written: it has no main")
        infer_module(mod)
        return Executable(mod, lib.target if isinstance(lib, Library) else Target("llvm"))


class VirtualMachine(Module):
    """Runs an executable's functions."""

    def __init__(self, exe: Executable, device: Device | None = None) -> None:
        if device is not None and not device.exist:
            raise GraphError(f"programs run on the CPU here, not on {device}")
        services: dict[str, Callable[..., AnyValue]] = {
            "run": self.run,
            "invoke": self.invoke,
            "set_input": self.set_input,
            "get_outputs": self.get_outputs,
        }
        super().__init__(services, "VirtualMachine")
        self._executable = exe
        self._executor = Executor(exe.mod, cpu() if device is None else device, exe.target, exe.compute)
        self._inputs: dict[str, tuple[Sequence[AnyValue], Mapping[str, AnyValue]]] = {}
        self._result: AnyValue = None

    def set_input(self, func_name: str, *args: AnyValue, **kwargs: AnyValue) -> None:
        """Sets the arguments of a function, in order or by name, for a call without arguments."""
        self._inputs[func_name] = (args, kwargs)

    def invoke(self, func_name: str, *args: AnyValue, **kwargs: AnyValue) -> AnyValue:
        """Calls a function of the program. Raises KeyError for unknown ones, and the executor's errors."""
        if not args and not kwargs and func_name in self._inputs:
            args, kwargs = tuple(self._inputs[func_name][0]), dict(self._inputs[func_name][1])
        function = self._executable.mod[func_name]
        self._result = self._executor.evaluate(function)(*args, **kwargs)
        return self._result

    def run(self, *args: AnyValue, **kwargs: AnyValue) -> AnyValue:
        """Calls main."""
        return self.invoke("main", *args, **kwargs)

    def get_outputs(self) -> list[AnyValue]:
        """The results of the last call, as a list."""
        return list(self._result) if isinstance(self._result, tuple) or hasattr(self._result, "fields") else [self._result]
