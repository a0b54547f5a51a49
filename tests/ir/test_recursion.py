"""Groups of functions that call each other."""

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from passat.ir.recursion import recursive_groups
from tests.share import share

NAMES = [f"f{i}" for i in range(8)]


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES))))
def test_groups_are_strongly_connected_and_come_after_those_they_call(calls: dict[str, list[str]]) -> None:
    groups = recursive_groups(calls)
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(calls)
    graph.add_edges_from((name, callee) for name, callees in calls.items() for callee in callees if callee in calls)
    reached = {name: {name, *nx.descendants(graph, name)} for name in calls}
    of = {name: group for group in groups for name in group}
    assert all((one in of[other]) == (one in reached[other] and other in reached[one]) for one in calls for other in calls)
    place = {name: i for i, group in enumerate(groups) for name in group}
    assert all(place[callee] <= place[name] for name, callee in graph.edges)


def test_length_of_a_chain_is_no_limit() -> None:
    count = share(4_000, 50_000)
    groups = recursive_groups({f"f{i}": [f"f{i + 1}"] for i in range(count)})
    assert groups[0] == [f"f{count - 1}"]
