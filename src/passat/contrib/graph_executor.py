"""`tvm.contrib.graph_executor`: runs built modules. Formerly `tvm.contrib.graph_runtime`."""

from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.similar_names import did_you_mean
from passat.runtime.devices import Device, cpu
from passat.runtime.graph import ExecutorFactory, GraphExecutor
from passat.runtime.graph.executor import set_inputs
from passat.runtime.graph.params import check_bytes
from passat.runtime.module import BenchmarkResult, Module
from passat.runtime.packed_func import PackedFunc
from passat.runtime.remote import RemoteArray, RemoteModule
from passat.runtime.values import NDArray, array

__all__ = ["GraphModule", "create"]


class GraphModule:
    """Runs a graph: sets inputs by name or number, runs, and returns results.

    lib = relay.build(mod, target="llvm", params=params)
    module = GraphModule(lib["default"](passat.cpu()))
    module.set_input("x", data)
    module.run()
    module.get_output(0).numpy()
    """

    def __init__(self, module: Module) -> None:
        if isinstance(module, ExecutorFactory):
            raise TypeError("a GraphModule runs an executor, not a built module: pass lib['default'](device)")
        if not isinstance(module, Module):
            raise TypeError(f"a GraphModule runs an executor, such as lib['default'](device), not a {type(module).__name__}")
        self.module = module

    def set_input(self, key: int | str | None = None, value: AnyValue = None, **params: AnyValue) -> None:
        """Sets an input by name or number, and others by name; names that are not inputs are ignored, as in TVM."""
        if key is not None:
            if not isinstance(key, (str, int)):
                raise TypeError(f"an input is set by its name or number, set_input('x', value), not by a {type(key).__name__}")
            if self.module["get_input"](key) is None:
                known = self.get_input_info()[0]
                hint = did_you_mean(str(key), known)
                raise RuntimeError(f"Could not find '{key}' in graph's inputs; it has: {', '.join(known) or 'none'}{hint}")
            self.module["set_input"](key, self._array(value))
        set_inputs(self.module, {name: self._array(each) for name, each in params.items()})

    def set_input_zero_copy(self, key: int | str | None = None, value: AnyValue = None, **params: AnyValue) -> None:
        """The same as `set_input`: arrays share their elements where they can."""
        self.set_input(key, value, **params)

    def run(self, **input_dict: AnyValue) -> None:
        """Sets inputs by name, and runs the graph."""
        self.set_input(**input_dict)
        self.module["run"]()

    def get_num_outputs(self) -> int:
        """The number of results."""
        return int(self.module["get_num_outputs"]())

    def get_num_inputs(self) -> int:
        """The number of inputs, with the parameters."""
        return int(self.module["get_num_inputs"]())

    def get_input(self, index: int | str, out: NDArray | None = None) -> NDArray | None:
        """An input by number or name, copied to `out` if that is given; None for an unknown name."""
        found: NDArray | None = self.module["get_input"](index)
        return found if out is None or found is None else out.copyfrom(found)

    def get_input_index(self, name: str) -> int:
        """The number of an input; -1 for an unknown name."""
        return int(self.module["get_input_index"](name))

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """The shapes and the element types of the inputs, by name."""
        shapes, dtypes = self.module["get_input_info"]()
        return shapes, dtypes

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """A result by number, copied to `out` if that is given."""
        if isinstance(self.module, RemoteModule) and out is not None and not isinstance(out, RemoteArray):
            return out.copyfrom(self.module["get_output"](index))
        found: NDArray = self.module["get_output"](index, out)
        return found

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Sets inputs to the arrays that `save_param_dict` has written."""
        self.module["load_params"](bytearray(check_bytes(params_bytes)))

    def share_params(self, other: "GraphModule", params_bytes: bytes | bytearray) -> None:
        """Shares the inputs named in `save_param_dict`'s bytes with another module."""
        self.module["share_params"](other.module, bytearray(check_bytes(params_bytes)))

    def __getitem__(self, key: str) -> PackedFunc:
        return self.module[key]

    def benchmark(
        self,
        device: Device,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        end_to_end: bool = False,
        **kwargs: AnyValue,
    ) -> BenchmarkResult:
        """Measures a function; `end_to_end` includes setting the inputs and reading the results."""
        arguments: list[AnyValue] = []
        if end_to_end:
            func_name, arguments = "run_from_inputs", [device.device_type, device.device_id]
            for name, value in kwargs.items():
                arguments += [name, self._array(value)]
        else:
            self.set_input(**kwargs)
        evaluator = self.module.time_evaluator(func_name, device, repeat=repeat, number=number, min_repeat_ms=min_repeat_ms or 0)
        return evaluator(*arguments)

    def _array(self, value: AnyValue) -> AnyValue:
        """Arrays as functions of the module take them: of its session, if it is remote."""
        if isinstance(value, RemoteArray):
            return value
        device = self.module.owned.session.cpu() if isinstance(self.module, RemoteModule) else cpu()
        return array(value, device) if isinstance(value, (np.ndarray, NDArray)) else value


def create(graph_json_str: str, libmod: Module, device: Device | Sequence[Device] | None = None, ctx: Device | None = None) -> GraphModule:
    """Runs a graph in TVM's JSON with the functions of a library. `ctx` is a former name of `device`.

    Raises GraphError for graphs that cannot be read, and ValueError for values that are not devices.
    """
    chosen = device_of(device if device is not None else ctx)
    return GraphModule(remote_graph("graph", graph_json_str, libmod) or GraphExecutor(graph_json_str, libmod, chosen))


def remote_graph(operation: str, graph_json_str: str, libmod: Module) -> Module | None:
    """An executor where the library is; None for a library of this process. Raises TypeError for graphs that are not texts."""
    if not isinstance(graph_json_str, str):
        raise TypeError(f"the graph must be a text in JSON, not a {type(graph_json_str).__name__}")
    if not isinstance(libmod, RemoteModule):
        return None
    made: Module = libmod.owned.session.request(operation, graph_json_str, libmod)
    return made


def device_of(device: Device | Sequence[Device] | None) -> Device | None:
    """The first of the given devices. Raises ValueError for other values."""
    given = device[0] if isinstance(device, (list, tuple)) and device else device
    if given is not None and not isinstance(given, Device):
        raise ValueError("dev has to be the type of Device or a list of Device")
    return given
