"""Executors of expressions by kind, with Relay's names: the reference executor, and those that build programs first."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.expr import Function, GlobalVar
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.runtime.devices import Device, Target, check_device
from passat.runtime.executor import Executor
from passat.runtime.graph.given_params import with_params
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.primitive import nested, tensors_of
from passat.runtime.interpreter import Value
from passat.runtime.values import NDArray, TupleValue

_MAIN: Final = "main"


class _BuildingExecutor(Executor):
    """An executor that builds what it evaluates, by the passes of the current context's level."""

    def _with_main(self, function: Function) -> IRModule:
        """The module with a function as its main. Raises GraphError if the function calls the main that it replaces."""
        module = self.mod.shallow_copy()
        if _MAIN in module and module[_MAIN] is function:
            return module
        if _MAIN in module and any(isinstance(node, GlobalVar) and node.name_hint == _MAIN for node in post_order(function)):
            raise GraphError("a function that calls @main is not built: name the module's main otherwise, or use create_executor('debug')")
        module[_MAIN] = function
        return module


class GraphEvaluator(_BuildingExecutor):
    """Builds what it evaluates for the graph executor: programs without control flow, whose sizes are known."""

    def prepare(self, function: Function) -> Callable[[Sequence[Value]], AnyValue]:
        """The function as a built graph. Raises GraphError for functions that are not graphs, and the errors of the passes."""
        from passat.runtime.graph.build import build

        infer_type(function)
        graph = build(self._with_main(function), self.target).create(self.device)
        result = function.body.checked_type

        def compute(values: Sequence[Value]) -> AnyValue:
            for place, tensor in enumerate(tensor for value in values for tensor in tensors_of(value)):
                graph.set_input(place, NDArray(tensor))
            graph.run()
            outputs = map(graph.get_output, range(graph.get_num_outputs()))
            return nested(result, outputs, lambda fields: TupleValue(*fields))

        return compute


class VMEvaluator(_BuildingExecutor):
    """Builds what it evaluates for the virtual machine."""

    def prepare(self, function: Function) -> Callable[[Sequence[Value]], AnyValue]:
        """The function as a built program. Raises the errors of the passes."""
        from passat.runtime.graph.build import build_vm

        executable = build_vm(self._with_main(function), self.target)
        return Executor(executable.mod, self.device, self.target, executable.compute).prepare(executable.mod[_MAIN])


_KINDS: Final[Mapping[str, type[Executor]]] = {"debug": Executor, "graph": GraphEvaluator, "vm": VMEvaluator}


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Device | None = None,
    target: str | Target = "llvm",
    params: Mapping[str, AnyValue] | None = None,
    ctx: Device | None = None,
) -> Executor:
    """Creates an executor, whose `evaluate` runs programs. `params` are bound to the parameters of main by name. `ctx` is a former name of
    `device`.

    `debug` computes by the operators' kernels. `graph` and `vm` build programs with `relay.build` first, when they evaluate them.

    Raises RuntimeError for an unknown kind, and ValueError for devices and targets other than the CPU.

    >>> from passat.ir.expr import const
    >>> create_executor().evaluate(const(2.0) * const(3.0)).numpy()
    array(6., dtype=float32)
    """
    if kind not in _KINDS:
        raise RuntimeError(f"unknown execution strategy: {kind}; known: {', '.join(_KINDS)}")
    here, device = Target(target).for_building().device, device or ctx
    if not check_device(device).is_local:
        raise ValueError(f"unsupported device {device}; Passat computes on the CPU")
    if params and mod is not None:
        mod = mod.shallow_copy()
        mod[_MAIN] = with_params(mod[_MAIN], params)
    return _KINDS[kind](mod, device or here, target)
