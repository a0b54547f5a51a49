"""Groups of functions that call each other."""

from collections.abc import Mapping, Sequence


def recursive_groups(calls: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Groups names so that those that reach each other are in one group, and groups come after those that they call.

    These are the strongly connected components. Ignores calls of names that are not keys.

    >>> recursive_groups({"main": ["even", "log"], "even": ["odd"], "odd": ["even", "log"], "log": []})
    [['log'], ['even', 'odd'], ['main']]
    """
    place = {name: at for at, name in enumerate(calls)}
    edges = [(name, callee) for name, callees in calls.items() for callee in callees if callee in place]
    if not edges:  # as in models, which spares the 0.15 s import of networkx
        return [[name] for name in calls]
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(calls)
    graph.add_edges_from(edges)
    return [sorted(group, key=place.__getitem__) for group in nx.strongly_connected_components(graph)]
