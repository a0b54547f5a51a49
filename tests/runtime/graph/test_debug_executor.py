"""The debug executor: values and times of nodes, and the trace."""

import json

import numpy as np
import pytest

from passat.runtime.graph import DebugExecutor, GraphError
from passat.runtime.graph.build import build
from tests.runtime.graph.programs import X, expected, layer, weights


def debugged() -> DebugExecutor:
    made = build(layer(), "numpy", params=weights())["debug_create"]("default")
    assert isinstance(made, DebugExecutor)
    made.set_input("x", X)
    return made


def test_times_and_trace() -> None:
    executor = debugged()
    times = executor.run_individual(number=2, repeat=3)
    assert [len(each) for each in times] == [3] * len(executor.graph.nodes)
    assert all(spent > 0 for node, each in zip(executor.graph.nodes, times, strict=True) for spent in each if node.function)
    trace = json.loads(executor.chrome_trace())
    events = trace["traceEvents"]
    assert trace["displayTimeUnit"] == "ns"
    assert [event["ph"] for event in events] == ["B", "E"] * len(executor.graph.nodes)
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    assert events[0]["ts"] == 0
    table = executor.profile().splitlines()
    assert table[0].split() == ["Node", "Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs"]
    assert table[-1].startswith("Total_time")


def test_values_of_nodes() -> None:
    executor = debugged()
    with pytest.raises(GraphError, match="run the graph first"):
        executor.get_node_output(0)
    executor.run()
    np.testing.assert_array_equal(executor.get_node_output(0).numpy(), X)
    last = executor.graph.nodes[-1].name
    np.testing.assert_allclose(executor.debug_get_output(last).numpy(), expected(X), rtol=1e-6)
    with pytest.raises(GraphError, match="the graph has no node 'nothing'; it has: x"):
        executor.debug_get_output("nothing")


def test_the_name_of_the_module() -> None:
    with pytest.raises(GraphError, match="the module is called 'default', not 'other'"):
        build(layer(), "numpy")["debug_create"]("other")
