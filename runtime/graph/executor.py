"""The graph executor: runs graphs of primitive functions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, TypeAlias

import numpy as np

from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS
from passat.ir.similar_names import did_you_mean
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.runtime.devices import Device
from passat.runtime.graph.graph import COPY, NOP, Graph, GraphNode, read_graph
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.library import Library
from passat.runtime.graph.params import load_param_dict
from passat.runtime.graph.primitive import call_with_results, local_device
from passat.runtime.module import Module
from passat.runtime.values import NDArray, to_data

Step: TypeAlias = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""Computes the results of a node."""
_SERVICES: Final = (
    *("set_input", "set_input_zero_copy", "get_input", "get_input_index", "get_input_info", "get_num_inputs", "run", "get_output"),
    *("get_num_outputs", "load_params", "share_params", "run_from_inputs"),
)


class GraphExecutor(Module):
    """Runs a graph with the functions of a library. Its methods are functions of the module too, under the same names.

    Values are kept by the storage ids of the graph, so a value is freed when its storage is written again. Raises GraphError for
    graphs that cannot be run.
    """

    def __init__(self, graph_json: str | Graph, lib: Module, device: Device | None = None) -> None:
        super().__init__(type_key="GraphExecutor")
        if not isinstance(lib, Module):
            raise TypeError(f"the functions of a graph are in a module, such as lib.get_lib(), not in a {type(lib).__name__}")
        self.device = local_device(device, "graphs")
        self.graph = graph_json if isinstance(graph_json, Graph) else read_graph(graph_json)
        self._steps: list[Step | None] = [self._step(number, node, lib) for number, node in enumerate(self.graph.nodes)]
        self._places = {self.graph.nodes[number].name: place for place, number in enumerate(self.graph.inputs)}
        self._inputs = [NDArray(Tensor.splat(0, type_.concrete_shape, type_.dtype)) for type_ in self.input_types]
        self._storage: dict[int, tuple[int, Tensor]] = {}
        """The value in each storage, and the entry that its elements belong to."""
        self._roots = list(_roots(self.graph))
        self.functions.update((name, getattr(self, name)) for name in _SERVICES)

    @property
    def input_types(self) -> list[TensorType]:
        """The types of the inputs."""
        return [self.graph.types[self.graph.entry(number, 0)] for number in self.graph.inputs]

    def set_input(self, key: int | str, value: AnyValue) -> None:
        """Sets an input by name or number: arrays, numbers and lists. Floating-point arrays are converted to its type.

        Raises GraphError for an unknown input, and TypeError for other types.
        """
        place = self._place(key)
        type_ = self.input_types[place]
        given = value.dtype if isinstance(value, NDArray) else str(getattr(value, "dtype", ""))
        if given != type_.dtype and given in FLOATS and type_.dtype in FLOATS:
            value = NDArray(np.asarray(value), type_.dtype)
        data = to_data(value, type_, f"the input {self.graph.nodes[self.graph.inputs[place]].name!r}")
        assert isinstance(data, Tensor)  # the type is that of a tensor
        self._inputs[place].copyfrom(NDArray(data))

    set_input_zero_copy = set_input

    def get_input(self, key: int | str) -> NDArray | None:
        """An input, which can be written to; None for an unknown name."""
        return None if isinstance(key, str) and key not in self._places else self._inputs[self._place(key)]

    def get_input_index(self, name: str) -> int:
        """The number of an input; -1 for an unknown name."""
        return self._places.get(name, -1)

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """The shapes and the element types of the inputs, by name."""
        types = dict(zip(self._places, self.input_types, strict=True))
        return {name: type_.concrete_shape for name, type_ in types.items()}, {name: type_.dtype for name, type_ in types.items()}

    def get_num_inputs(self) -> int:
        """The number of inputs, with the constants."""
        return len(self.graph.inputs)

    def get_num_outputs(self) -> int:
        """The number of results."""
        return len(self.graph.heads)

    def load_params(self, param_bytes: bytes | bytearray) -> None:
        """Sets inputs to the arrays of `save_param_dict`. Names that are not inputs are ignored, as in TVM."""
        for name, value in load_param_dict(param_bytes).items():
            if name in self._places:
                self.set_input(name, value)

    def share_params(self, other: "GraphExecutor", param_bytes: bytes | bytearray) -> None:
        """Shares the inputs named in `save_param_dict`'s bytes with another executor: writes to one are seen by the other."""
        for name in load_param_dict(param_bytes):
            if name in self._places and (shared := other.get_input(name)) is not None:
                place = self._places[name]
                if (shared.shape, shared.dtype) != (self.input_types[place].concrete_shape, self.input_types[place].dtype):
                    raise GraphError(f"the input {name!r} has another type in the other graph")
                self._inputs[place] = shared

    def run(self) -> None:
        """Computes all nodes. Raises GraphError that names the failing one."""
        self._storage.clear()
        for number in range(len(self.graph.nodes)):
            self.run_node(number)

    def run_from_inputs(self, *args: AnyValue) -> tuple[NDArray, ...]:
        """Sets inputs, given as names and values in turn after the device's kind and number, runs, and returns the results."""
        for name, value in zip(args[2::2], args[3::2], strict=True):
            self.set_input(name, value)
        self.run()
        return tuple(self.get_output(index) for index in range(self.get_num_outputs()))

    def run_node(self, number: int) -> Sequence[Tensor]:
        """Computes a node whose inputs have been computed; returns its results."""
        graph, step = self.graph, self._steps[number]
        if step is None:
            results: Sequence[Tensor] = [self._inputs[self._places[graph.nodes[number].name]].tensor]
        else:
            results = step([self.value(graph.entry(*read)) for read in graph.nodes[number].inputs])
        first = graph.row_ptr[number]
        if len(results) != graph.nodes[number].outputs:
            raise GraphError(
                f"the node {graph.nodes[number].name!r} gave {counted(len(results), 'result')}, not {graph.nodes[number].outputs}"
            )
        for entry, result in enumerate(results, first):
            type_ = graph.types[entry]
            if (result.shape, result.dtype) != (type_.shape, type_.dtype):
                found = TensorType(result.shape, result.dtype)
                raise GraphError(f"the node {graph.nodes[number].name!r} gave {found!r}, but the graph declares {type_!r}")
            self._storage[graph.storage_ids[entry]] = (self._roots[entry], result)
        return results

    def value(self, entry: int) -> Tensor:
        """The value of an entry. Raises GraphError if it has not been computed, or its storage was written since."""
        root, found = self._storage.get(self.graph.storage_ids[entry], (-1, None))
        if found is None:
            raise GraphError("the graph has not been run: call run() first")
        if root != self._roots[entry]:
            raise GraphError(f"the plan of the graph overwrites the storage {self.graph.storage_ids[entry]} before its last use")
        sizes = self.graph.types[entry].concrete_shape
        return found if found.shape == sizes else Tensor.dense(found.numpy().reshape(sizes))

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """A result, copied to `out` if it is given."""
        if not isinstance(index, int) or not 0 <= index < len(self.graph.heads):
            raise GraphError(f"there is no result {index!r}; results of the graph: {len(self.graph.heads)}, counted from 0")
        found = NDArray(self.value(self.graph.entry(*self.graph.heads[index])))
        return found if out is None else out.copyfrom(found)

    def _place(self, key: int | str) -> int:
        place = self._places.get(key) if isinstance(key, str) else key
        if not isinstance(place, int) or not 0 <= place < len(self._inputs):
            hint = did_you_mean(str(key), self._places)
            raise GraphError(f"the graph has no input {key!r}; it has: {', '.join(self._places) or 'none'}{hint}")
        return place

    def _step(self, number: int, node: GraphNode, lib: Module) -> Step | None:
        """What computes a node; None for an input."""
        if node.function is None:
            return None
        results = self.graph.types[self.graph.row_ptr[number] : self.graph.row_ptr[number + 1]]
        if node.function == NOP:
            return lambda args: [_reshaped(args[0], results[0], node.name)]
        if node.function == COPY:
            return list
        source = next((module for module in lib.with_imports() if node.function in module.functions), None)
        if source is None:
            raise GraphError(f"the node {node.name!r} calls {node.function!r}, which the library does not have")
        if isinstance(source, Library):
            return source.compiled[node.function].run
        function = source.get_function(node.function)
        return lambda args: call_with_results(function, args, results)


def _roots(graph: Graph) -> Iterator[int]:
    """For each entry the one whose elements it has: itself, or the input of a chain of `__nop`s."""
    roots: list[int] = []
    for node in graph.nodes:
        for _ in range(node.outputs):
            roots.append(roots[graph.entry(*node.inputs[0])] if node.function == NOP else len(roots))
            yield roots[-1]


def _reshaped(value: Tensor, type_: TensorType, name: str) -> Tensor:
    if value.size != type_.size:
        raise GraphError(f"the node {name!r} cannot give {counted(value.size, 'element')} the type {type_!r}")
    return Tensor.dense(value.numpy().reshape(type_.concrete_shape))


def set_inputs(executor: Module, values: Mapping[str, AnyValue]) -> None:
    """Sets inputs by name. Names that are not inputs are ignored, as in TVM."""
    for name, value in values.items():
        if executor["get_input_index"](name) >= 0:
            executor["set_input"](name, value)
