"""The debug executor: the graph executor with the values and the times of all nodes, and a trace for Chrome's trace viewer."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from passat.ir.tensor import Tensor
from passat.runtime.devices import Device
from passat.runtime.graph.executor import GraphExecutor
from passat.runtime.graph.graph import Graph
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.module import Module, check_counts
from passat.runtime.values import NDArray

_SERVICES: Final = ("run_individual", "execute_node", "get_node_output", "debug_get_output", "profile", "chrome_trace")
_HEADER: Final = ("Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs")


class DebugExecutor(GraphExecutor):
    """Runs a graph and keeps the results and the time of each node, in seconds."""

    def __init__(self, graph_json: str | Graph, lib: Module, device: Device | None = None) -> None:
        super().__init__(graph_json, lib, device)
        self.type_key = "GraphExecutorDebug"
        self.times: list[float] = [0.0] * len(self.graph.nodes)
        """The times of the nodes in the last run."""
        self._kept: dict[int, Sequence[Tensor]] = {}
        self.functions.update((name, getattr(self, name)) for name in _SERVICES)

    def run(self) -> None:
        """Computes all nodes, and measures each."""
        self._kept.clear()
        super().run()

    def run_node(self, number: int) -> Sequence[Tensor]:
        """Computes a node, and keeps its results and its time."""
        begin = time.perf_counter()
        results = super().run_node(number)
        self.times[number] = time.perf_counter() - begin
        self._kept[number] = results
        return results

    def run_individual(self, number: int = 1, repeat: int = 1, min_repeat_ms: float = 0) -> list[list[float]]:
        """The mean times of the nodes over `number` runs, for each node `repeat` times. Runs go on until `min_repeat_ms` have passed."""
        check_counts(number, repeat)
        self.run()
        found: list[list[float]] = [[] for _ in self.graph.nodes]
        for _ in range(repeat):
            begin, count = time.perf_counter(), 0
            spent = [0.0] * len(self.graph.nodes)
            while count < number or (time.perf_counter() - begin) * 1000 < min_repeat_ms:
                self.run()
                count += 1
                spent = [before + now for before, now in zip(spent, self.times, strict=True)]
            for node, whole in enumerate(spent):
                found[node].append(whole / count)
        self.times = [times[-1] for times in found]
        return found

    def execute_node(self, number: int) -> None:
        """Computes a node whose inputs have been computed."""
        self.run_node(number)

    def get_node_output(self, number: int, index: int = 0) -> NDArray:
        """A result of a node that has been computed. Raises GraphError for others."""
        results = self._kept.get(number, ())
        if not 0 <= index < len(results):
            raise GraphError(f"the node {number} has no result {index} yet; run the graph first")
        return NDArray(results[index])

    def debug_get_output(self, node: int | str, out: NDArray | None = None) -> NDArray:
        """Computes the nodes up to one, given by number or name, and returns its first result, copied to `out` if that is given."""
        names = [each.name for each in self.graph.nodes]
        number = names.index(node) if isinstance(node, str) and node in names else node
        if not isinstance(number, int) or not 0 <= number < len(names):
            raise GraphError(f"the graph has no node {node!r}; it has: {', '.join(names)}")
        self._storage.clear()
        for each in range(number + 1):
            self.run_node(each)
        found = self.get_node_output(number)
        return found if out is None else out.copyfrom(found)

    def profile(self, sort_by_time: bool = True) -> str:
        """The nodes of the last run as a table, with their times in microseconds; the slowest first, or in order."""
        graph = self.graph
        total = sum(self.times[number] for number, node in enumerate(graph.nodes) if node.function is not None) or 1e-9
        rows: list[tuple[str, ...]] = []
        for number, node in enumerate(graph.nodes):
            if node.function is not None:
                shape = str(tuple(graph.types[graph.row_ptr[number]].shape)) if node.outputs else "()"
                spent = self.times[number]
                cells = (f"{spent * 1e6:.3f}", f"{spent * 100 / total:.3f}", shape, str(len(node.inputs)), str(node.outputs))
                rows.append((node.name, node.function, *cells))
        if sort_by_time:
            rows.sort(key=lambda row: -float(row[2]))
        rows.append(("Total_time", "-", f"{total * 1e6:.3f}", "-", "-", "-", "-"))
        rules = tuple("-" * len(name) for name in _HEADER)
        widths = [max(len(row[i]) for row in (_HEADER, *rows)) for i in range(len(_HEADER))]
        lines = [_HEADER, rules, *rows]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + "  " for line in lines)

    def chrome_trace(self) -> str:
        """The last run as JSON for Chrome's trace viewer (chrome://tracing): a begin and an end of each node, one after the other."""
        events: list[dict[str, object]] = []
        clock = 0.0
        for node, spent in zip(self.graph.nodes, self.times, strict=True):
            for phase, at in (("B", clock), ("E", clock + spent)):
                arguments = {"func_name": node.function} if node.function is not None else {}
                events.append({"ts": at * 1e6, "ph": phase, "tid": 1, "pid": 1, "name": node.name, "args": arguments})
            clock += spent
        return json.dumps({"displayTimeUnit": "ns", "traceEvents": events})

    def write_trace(self, path: "str | Path") -> None:
        """Writes `chrome_trace` to a file. Raises OSError."""
        Path(path).write_text(self.chrome_trace())
