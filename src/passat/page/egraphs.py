"""The e-graphs of a page as plain data: all e-classes and e-nodes, or those around which rules applied."""

from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any as AnyValue
from typing import Final

from passat.ir.expr import Var
from passat.page.texts import Strings, attrs_text, constant_text, shown, type_text
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import CALL, CONST, GET, LEAF
from passat.rules.engine.trace import Run
from passat.rules.rule import without_operators

MOST: Final = 2_000
"""Maximum number of e-nodes shown of an e-graph; those near applied rules come first."""
MOST_TOGETHER: Final = 40_000
"""Maximum number of e-nodes of all e-graphs of a page."""
_DEPTH: Final = 2
_USERS: Final = 8
"""Maximum number of users of an e-class that are kept in a truncated e-graph."""


def egraphs_of(
    runs: Sequence[Run], strings: Strings, spelling: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, AnyValue] | None]:
    """The e-graph of each run, truncated; None beyond the total limit. E-graphs with the most merged e-classes come first. `spelling` maps
    operators of the intermediate representation to ONNX operators."""
    left = MOST_TOGETHER
    found: list[dict[str, AnyValue] | None] = [None] * len(runs)
    for number in sorted(range(len(runs)), key=lambda i: (-len(runs[i].graph.members), -len(runs[i].applications), i)):
        if left > 0:
            made = found[number] = _egraph(runs[number], strings, spelling, min(MOST, left))
            left -= made["nodes"]
    return found


def _egraph(run: Run, strings: Strings, spelling: Mapping[str, str], most: int) -> dict[str, AnyValue]:
    """One e-graph as columns. Operands are indices into the list of e-classes; -1 for an e-class that is left out."""
    graph = run.graph
    nodes_of = _nodes(run)
    classes = _chosen_classes(run, nodes_of, most)
    place = {cls: at for at, cls in enumerate(classes)}
    columns: dict[str, list[AnyValue]] = {name: [] for name in ("cls", "label", "operator", "attrs", "cost", "rule", "taken", "operands")}
    for cls in classes:
        for node in nodes_of[cls]:
            rule = without_operators(run.provenance.get(node, ("", 0))[0])
            columns["cls"].append(place[cls])
            label = _label(graph, node)
            columns["label"].append(strings.number(spelling.get(label, label)))
            columns["operator"].append(strings.number(label))
            columns["attrs"].append(strings.number(_attrs(graph, node)))
            columns["cost"].append(None if run.space is None else float(f"{run.space.costs[node]:.4g}"))
            columns["rule"].append(strings.number(rule))
            columns["taken"].append(int(run.choice is not None and run.choice.get(cls) == node))
            columns["operands"].append([place.get(graph.find(part), -1) for part in graph.operands[node]])
    return {
        "classes": classes,
        "types": [strings.number(type_text(graph.types[cls])) for cls in classes],
        "constant": [at for at, cls in enumerate(classes) if cls in graph.constants],
        "root": place.get(graph.find(run.root), -1),
        "nodes": len(columns["cls"]),
        "total": len(graph),
        **columns,
    }


def _nodes(run: Run) -> dict[int, list[int]]:
    """The e-nodes of each e-class; of congruent ones only one."""
    graph = run.graph
    found: dict[int, list[int]] = {}
    seen: set[object] = set()
    for node in range(len(graph)):
        cls = graph.find(node)
        content = (cls, graph.symbols[node], graph.payloads[node], tuple([graph.find(part) for part in graph.operands[node]]))
        taken = run.choice is not None and run.choice.get(cls) == node
        if content not in seen or taken:
            seen.add(content)
            found.setdefault(cls, []).append(node)
    return found


def _chosen_classes(run: Run, nodes_of: dict[int, list[int]], most: int) -> list[int]:
    """The e-classes to keep, in the order of the program: all, or those in which rules applied with those around them."""
    if sum(map(len, nodes_of.values())) <= most:
        return sorted(nodes_of)
    graph = run.graph
    users: dict[int, list[int]] = {}
    for cls, nodes in nodes_of.items():
        for node in nodes:
            for part in graph.operands[node]:
                users.setdefault(graph.find(part), []).append(cls)
    kept: set[int] = set()
    room = most
    for start in _seeds(run):
        queue, near = deque([(start, 0)]), {start}
        while queue and room > 0:
            cls, depth = queue.popleft()
            if cls not in kept and len(nodes_of[cls]) <= room:
                kept.add(cls)
                room -= len(nodes_of[cls])
            if depth < _DEPTH:
                below = [graph.find(part) for node in nodes_of[cls] for part in graph.operands[node]]
                around = [other for other in (*below, *users.get(cls, ())[:_USERS]) if other not in near]
                near.update(around)
                queue.extend((other, depth + 1) for other in around)
        if room <= 0:
            break
    return sorted(kept)


def _seeds(run: Run) -> list[int]:
    """The most important e-classes: those of the first application of each rule, then of the second, and so on."""
    turns: dict[str, int] = {}
    found: list[tuple[int, int, int]] = []
    for number, application in enumerate(run.applications):
        turn = turns[application.rule] = turns.get(application.rule, 0) + 1
        found += [(turn, number, run.graph.find(root)) for root, _ in application.unions]
    ordered = [cls for _, _, cls in sorted(found)]
    return list(dict.fromkeys([*ordered, *sorted(run.graph.members), run.graph.find(run.root)]))


def _label(graph: Graph, node: int) -> str:
    symbol, payload = graph.symbols[node], graph.payloads[node]
    if symbol.kind == CALL and symbol.op is not None:
        return shown(symbol.op.name, 80)
    if symbol.kind == CONST:
        return "constant"
    if symbol.kind == GET:
        return f".{payload}"
    if symbol.kind == LEAF:
        leaf = graph.leaves[payload]
        return shown(leaf.name_hint, 80) if isinstance(leaf, Var) else type(leaf).__name__
    return symbol.kind


def _attrs(graph: Graph, node: int) -> str:
    symbol, payload = graph.symbols[node], graph.payloads[node]
    if symbol.kind == CALL and symbol.op is not None:
        defaults = symbol.op.defaults
        return attrs_text({name: value for name, value in graph.attrs[payload].items() if name not in defaults or value != defaults[name]})
    return constant_text(graph.tensors[payload]) if symbol.kind == CONST else ""
