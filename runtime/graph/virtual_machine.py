"""Programs with control flow, unknown sizes, closures and data types: the interpreter's semantics, with compiled primitive functions.

There is no bytecode: an executable is the optimized program itself.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue

from passat.ir.counting import counted
from passat.ir.expr import Function
from passat.ir.graph_json import JSONError, load_json, save_json
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.runtime.devices import Device, Target
from passat.runtime.executor import Executor
from passat.runtime.graph.compile_engine import CachedFunc, CCacheKey, CompileEngine, compile_together
from passat.runtime.graph.external import compile_external
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.library import Library, export
from passat.runtime.graph.primitive import local_device, nested, tensors_of
from passat.runtime.module import BenchmarkResult, Module
from passat.runtime.values import Data, NDArray, TupleValue


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
        found: Data = nested(function.body.checked_type, iter(self._compiled(function).run(flat)))
        return found

    def _compiled(self, function: Function) -> CachedFunc:
        if "Compiler" not in function.attrs:
            if not self._engine.items():
                self._lower_all()
            return self._engine.lower(CCacheKey(function, self.target))
        found = self._external.get(id(function))
        if found is None:
            found = self._external[id(function)] = (function, compile_external(function, self.target))
        return found[1]

    def _lower_all(self) -> None:
        """Lowers the primitive functions of the program, so that they are compiled together."""
        for whole in self.mod.functions.values():
            for node in post_order(whole) if isinstance(whole, Function) else ():
                if isinstance(node, Function) and node.attrs.get("Primitive") and "Compiler" not in node.attrs:
                    with contextlib.suppress(GraphError):  # for those that cannot be compiled, the call raises it
                        self._engine.lower(CCacheKey(node, self.target))
        compile_together([value.cached_func for _, value in self._engine.items()])

    @property
    def globals(self) -> list[str]:
        """The names of the functions."""
        return [var.name_hint for var in self.mod.functions]

    def export_library(self, file_name: "str | os.PathLike[str]", fcompile: AnyValue = None, **options: AnyValue) -> None:
        """Writes the program to a file that `load_module` reads. TVM's options for compilers are ignored. Raises GraphError and OSError."""
        code, library = self.save()
        export(file_name, library, program=code.decode())

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
        if not isinstance(exe, Executable):
            raise TypeError(f"a virtual machine runs what relay.vm.compile has built, not a {type(exe).__name__}")
        here = local_device(device, "programs")
        services: tuple[Callable[..., AnyValue], ...] = (self.run, self.invoke, self.set_input, self.set_one_input, self.get_outputs)
        super().__init__({each.__name__: each for each in services}, "VirtualMachine")
        self._executable = exe
        self._executor = Executor(exe.mod, here, exe.target, exe.compute)
        self._inputs: dict[str, dict[str, AnyValue]] = {}
        self._result: AnyValue = self
        """The result of the last call; the machine itself before the first."""

    def init(self, ctx: Device) -> None:
        """Selects the device, as before TVM 0.7. Raises GraphError for devices other than the CPU."""
        local_device(ctx, "programs")

    def set_input(self, func_name: str, *args: AnyValue, **kwargs: AnyValue) -> None:
        """Sets the arguments of a function, in order or by name, for calls without arguments. Raises GraphError for unknown names."""
        names = self._names(func_name)
        if len(args) > len(names):
            raise GraphError(f"{func_name} has {counted(len(names), 'parameter')}, but got {counted(len(args), 'input')}")
        given: dict[str, AnyValue] = dict(zip(names, args, strict=False))
        given.update(kwargs)
        self._inputs[func_name] = {}
        for name, value in given.items():
            self.set_one_input(func_name, name, value)

    def set_one_input(self, func_name: str, key: int | str | None = None, value: AnyValue = None, **kwargs: AnyValue) -> None:
        """Sets one argument of a function, by number or name, for calls without arguments. Raises GraphError for an unknown one."""
        names = self._names(func_name)
        chosen: dict[int | str, AnyValue] = {} if key is None else {key: value}
        chosen.update(kwargs)
        for each, given in chosen.items():
            name = each if isinstance(each, str) else names[each] if 0 <= each < len(names) else None
            if name is None or name not in names:
                raise GraphError(f"{func_name} has no parameter {each!r}; it has: {', '.join(names) or 'none'}")
            self._inputs.setdefault(func_name, {})[name] = given

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """The number of a parameter of a function; -1 for an unknown name."""
        names = self._names(func_name)
        return names.index(input_name) if input_name in names else -1

    def invoke(self, func_name: str, *args: AnyValue, **kwargs: AnyValue) -> AnyValue:
        """Calls a function of the program; without arguments, on those of `set_input`. Raises KeyError, and the executor's errors."""
        if not args and not kwargs:
            kwargs = self._inputs.get(func_name, {})
        self._result = self._executor.evaluate(self._executable.mod[func_name])(*args, **kwargs)
        return self._result

    def run(self, *args: AnyValue, **kwargs: AnyValue) -> AnyValue:
        """Calls main."""
        return self.invoke("main", *args, **kwargs)

    def invoke_stateful(self, func_name: str, *args: AnyValue, **kwargs: AnyValue) -> None:
        """Calls a function; `get_outputs` has the results."""
        self.invoke(func_name, *args, **kwargs)

    def invoke_with_outputs(self, func_name: str, input_args: Mapping[str, AnyValue], output_args: Sequence[NDArray]) -> None:
        """Calls a function, and writes its results to arrays. Raises GraphError for another number of results."""
        self.invoke(func_name, **input_args)
        results = self.get_outputs()
        if len(results) != len(output_args):
            raise GraphError(f"{func_name} has {counted(len(results), 'result')}, but got {counted(len(output_args), 'array')}")
        for out, result in zip(output_args, results, strict=True):
            out.copyfrom(result)

    def get_outputs(self) -> list[AnyValue]:
        """The results of the last call, as a list. Raises GraphError if there was none."""
        if self._result is self:
            raise GraphError("the program has not been run: call run() first")
        return list(self._result) if isinstance(self._result, TupleValue) else [self._result]

    def benchmark(
        self,
        device: Device,
        *args: AnyValue,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        end_to_end: bool = False,
        **kwargs: AnyValue,
    ) -> BenchmarkResult:
        """Measures calls of a function. Arguments are set before, as nothing is transferred to the CPU (`end_to_end`)."""
        self.set_input(func_name, *args, **kwargs)
        return self.time_evaluator("invoke", device, repeat=repeat, number=number, min_repeat_ms=min_repeat_ms or 0)(func_name)

    def _names(self, func_name: str) -> list[str]:
        return [param.name_hint for param in self._executable.mod[func_name].params]
