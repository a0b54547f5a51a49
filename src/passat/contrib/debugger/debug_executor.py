"""`tvm.contrib.debugger.debug_executor`: runs graphs with the times and the values of all nodes, and writes them to a folder."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any as AnyValue

from passat.contrib.graph_executor import GraphModule, device_of, remote_graph
from passat.runtime.devices import Device, cpu
from passat.runtime.graph import DebugExecutor, read_graph, save_param_dict
from passat.runtime.module import Module
from passat.runtime.values import NDArray

__all__ = ["GraphModuleDebug", "create"]

GRAPH_DUMP_FILE_NAME = "_tvmdbg_graph_dump.json"
CHROME_TRACE_FILE_NAME = "_tvmdbg_execution_trace.json"
TENSORS_FILE_NAME = "output_tensors.params"


class DebugResult:
    """The results of a run, as a table."""

    def __init__(self, executor: Module) -> None:
        self._executor = executor

    def get_debug_result(self, sort_by_time: bool = True) -> str:
        """The nodes with their times in microseconds."""
        return str(self._executor["profile"](sort_by_time))


class GraphModuleDebug(GraphModule):
    """Runs a graph, and writes the graph, the values and a trace of times to `dump_root`, a temporary folder by default.

    The executor may be that of a session; files are written here. Raises OSError that names `dump_root`, and TypeError if it is not a path.
    """

    def __init__(
        self,
        module: Module,
        device: Device | Sequence[Device] | None,
        graph_json_str: str,
        dump_root: "str | os.PathLike[str] | None" = None,
    ) -> None:
        super().__init__(module)
        self._graph = read_graph(graph_json_str)
        if not isinstance(dump_root, (str, os.PathLike, type(None))):
            raise TypeError(f"dump_root is the path of a folder, not {dump_root!r}")
        self._dump_root = Path(tempfile.mkdtemp(prefix="tvmdbg_") if dump_root is None else dump_root)
        self._is_temporary = dump_root is None
        where = device_of(device) or cpu()
        self._dump_path = str(self._dump_root / f"_tvmdbg_device_{where.kind.upper()}_{where.device_id}")
        try:
            Path(self._dump_path).mkdir(parents=True, exist_ok=True)
            (Path(self._dump_path) / GRAPH_DUMP_FILE_NAME).write_text(graph_json_str)
        except OSError as error:
            why = "it is not a folder" if self._dump_root.is_file() else str(error.strerror)
            raise type(error)(f"dump_root {self._dump_root} cannot be written: {why}; name another folder") from error
        self.debug_datum = DebugResult(module)

    def run(self, number: int = 10, repeat: int = 1, min_repeat_ms: float = 1, sort_by_time: bool = True, **input_dict: AnyValue) -> None:
        """Sets inputs by name, measures all nodes, writes the values and the trace, and prints the table of times."""
        self.set_input(**input_dict)
        self.run_individual(number, repeat, min_repeat_ms)
        folder, value = Path(self._dump_path), self.module["get_node_output"]
        nodes = enumerate(self._graph.nodes)
        values = {f"{node.name}____{index}": value(place, index) for place, node in nodes for index in range(node.outputs)}
        (folder / TENSORS_FILE_NAME).write_bytes(save_param_dict(values))
        (folder / CHROME_TRACE_FILE_NAME).write_text(self.module["chrome_trace"]())
        print(self.debug_datum.get_debug_result(sort_by_time))

    def run_individual(self, number: int, repeat: int = 1, min_repeat_ms: float = 0) -> list[list[float]]:
        """The mean times of the nodes in seconds."""
        return list(map(list, self.module["run_individual"](number, repeat, min_repeat_ms)))

    def debug_get_output(self, node: int | str, out: NDArray | None = None) -> NDArray:
        """The value of a node, given by number or name; computes the nodes up to it."""
        found: NDArray = self.module["debug_get_output"](node)
        return found if out is None else out.copyfrom(found)

    def exit(self) -> None:
        """Removes what was written."""
        shutil.rmtree(self._dump_root if self._is_temporary else self._dump_path, ignore_errors=True)


def create(
    graph_json_str: str,
    libmod: Module,
    device: Device | Sequence[Device] | None = None,
    dump_root: "str | os.PathLike[str] | None" = None,
) -> GraphModuleDebug:
    """Runs a graph with the functions of a library, and measures its nodes. Raises GraphError, ValueError, and OSError for `dump_root`."""
    chosen = device_of(device)
    made = remote_graph("debug graph", graph_json_str, libmod) or DebugExecutor(graph_json_str, libmod, chosen)
    module = GraphModuleDebug(made, chosen, graph_json_str, dump_root)
    if libmod.implements_function("get_graph_params"):
        module.set_input(**libmod["get_graph_params"]())
    return module
