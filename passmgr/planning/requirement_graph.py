"""The graph of requirements to look at, of all registered passes or of a pipeline. Cycles and unknown names are shown, not refused."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from passat.passmgr.passes import Pass
from passat.passmgr.planning.render import dot_text, mermaid_text, pass_label
from passat.passmgr.registry import PassEntry, PassOptionError, UnknownPassError, get_entry, list_passes


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A pass. `key` tells it from all others, `parent` is the key of the pipeline that it is a member of.

    `kind` is "module", "function", "pipeline" and so on, or "unknown" for a name under which nothing is registered; `level` is None where
    it is not known.
    """

    key: str
    name: str
    kind: str
    level: int | None
    parent: str = ""
    doc: str = ""


class RequirementGraph:
    """Which pass requires which, and which pipeline contains which.

    `edges` are pairs of keys, a pass and one that it requires, in declared order; `cyclic` are those of them that are part of a cycle.

    >>> print(requirement_graph([get_entry("InferType").make({})]).to_text())
    InferType  module, level 0
    <BLANKLINE>
    """

    def __init__(self, nodes: Iterable[GraphNode], edges: Iterable[tuple[str, str]]) -> None:
        self.nodes = {node.key: node for node in nodes}
        self.edges = tuple(dict.fromkeys(edges))
        self.cyclic = frozenset(self._find_cyclic())

    def children(self, key: str = "") -> list[GraphNode]:
        """The members of a pipeline; without a key, the passes that are no members."""
        return [node for node in self.nodes.values() if node.parent == key]

    def to_text(self) -> str:
        """One line per pass: what it is and what it requires; members of a pipeline are set in below it."""
        rows = [("  " * depth + node.name, self._about(node)) for node, depth in self._walk()]
        wide = max((len(name) for name, _ in rows), default=0)
        return "".join(f"{name:{wide}}  {about}".rstrip() + "\n" for name, about in rows) or "(no passes)\n"

    def to_json(self) -> str:
        """An object: passes (with key, name, kind, level, parent, requires) and cyclic (pairs of keys)."""
        passes = [
            {
                "key": node.key,
                "name": node.name,
                "kind": node.kind,
                "level": node.level,
                "parent": node.parent or None,
                "requires": [target for source, target in self.edges if source == node.key],
            }
            for node in self.nodes.values()
        ]
        return json.dumps({"passes": passes, "cyclic": [list(edge) for edge in self.edges if edge in self.cyclic]}, indent=2)

    def to_dot(self) -> str:
        """A Graphviz digraph. Arrows lead from what is required to what requires it, red ones are part of a cycle."""
        ids = {key: f"p{at}" for at, key in enumerate(self.nodes, 1)}
        lines = ["digraph requirements {", "  rankdir=LR;", "  node [shape=box];"]
        for node, depth, ends in self._nested():
            indent = "  " * (depth + 1)
            label = dot_text(node.name)
            if ends:
                lines.append(f"{indent}}}")
            elif self.children(node.key):
                lines += [
                    f"{indent}subgraph cluster_{ids[node.key]} {{",
                    f"{indent}  label={label};",
                    f"{indent}  {ids[node.key]} [shape=point];",
                ]
            else:
                style = ", color=red, fontcolor=red" if node.kind == "unknown" else ""
                lines.append(f"{indent}{ids[node.key]} [label={label}, tooltip={dot_text(describe(node))}{style}];")
        for edge in self.edges:
            lines.append(f"  {ids[edge[1]]} -> {ids[edge[0]]}{' [color=red]' if edge in self.cyclic else ''};")
        return "\n".join([*lines, "}"]) + "\n"

    def to_mermaid(self) -> str:
        """A Mermaid flowchart with the same arrows as the Graphviz form."""
        ids = {key: f"p{at}" for at, key in enumerate(self.nodes, 1)}
        lines = ["flowchart LR"]
        for node, depth, ends in self._nested():
            indent = "  " * (depth + 1)
            label = mermaid_text(node.name)
            if ends:
                lines.append(f"{indent}end")
            elif self.children(node.key):
                lines.append(f'{indent}subgraph {ids[node.key]}["{label}"]')
            else:
                lines.append(f'{indent}{ids[node.key]}["{label}"]{":::unknown" if node.kind == "unknown" else ""}')
        lines += [f"  {ids[target]} --> {ids[source]}" for source, target in self.edges]
        red = ",".join(str(at) for at, edge in enumerate(self.edges) if edge in self.cyclic)
        lines += [f"  linkStyle {red} stroke:#c00"] if red else []
        return "\n".join([*lines, "  classDef unknown color:#c00,stroke:#c00"]) + "\n"

    def to_svg(self) -> str:
        """A picture in SVG, made without Graphviz: what is required stands left of what requires it."""
        from passat.passmgr.planning.graph_svg import graph_svg

        return graph_svg(self)

    def _about(self, node: GraphNode) -> str:
        required = [target for source, target in self.edges if source == node.key]
        shown = ", ".join(self.nodes[key].name + (" (in a cycle)" if (node.key, key) in self.cyclic else "") for key in required)
        return describe(node) + (f", requires {shown}" if required else "")

    def _walk(self) -> Iterator[tuple[GraphNode, int]]:
        return ((node, depth) for node, depth, ends in self._nested() if not ends)

    def _nested(self) -> Iterator[tuple[GraphNode, int, bool]]:
        """Every pass with how deep it is nested; a pipeline once more, with True, behind its members."""
        members: dict[str, list[GraphNode]] = {}
        for node in self.nodes.values():
            members.setdefault(node.parent, []).append(node)
        stack = [(node, 0, False) for node in reversed(members.get("", []))]
        while stack:
            node, depth, ends = stack.pop()
            yield node, depth, ends
            if not ends and node.key in members:
                stack.append((node, depth, True))
                stack.extend((member, depth + 1, False) for member in reversed(members[node.key]))

    def _find_cyclic(self) -> Iterator[tuple[str, str]]:
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph(self.edges)
        graph.add_edges_from((node.parent, node.key) for node in self.nodes.values() if node.parent)
        component = {key: at for at, keys in enumerate(nx.strongly_connected_components(graph)) for key in keys}
        return (edge for edge in self.edges if component[edge[0]] == component[edge[1]])


def describe(node: GraphNode) -> str:
    """What a pass is, in words."""
    if node.kind == "unknown":
        return "not registered"
    return f"{node.kind}, level {'depends on options' if node.level is None else node.level}"


def requirement_graph(passes: Iterable[Pass] | None = None) -> RequirementGraph:
    """The requirements of passes, such as the members of a pipeline, and of all that they require; if None, of all registered passes."""
    builder = _Builder()
    if passes is None:
        for entry in list_passes():
            builder.require_entry(entry)
    else:
        for pass_ in passes:
            builder.add(pass_, pass_label(pass_), "")
    return builder.build()


class _Builder:
    def __init__(self) -> None:
        self.nodes: dict[str, GraphNode] = {}
        self.passes: dict[str, Pass] = {}
        self.waiting: list[str] = []

    def add(self, pass_: Pass, label: str, parent: str, doc: str = "") -> str:
        """A pass under the label that it has in a pipeline; the same one twice is one."""
        key = f"{parent}/{label}" if parent else label
        if key not in self.nodes:
            self.nodes[key] = GraphNode(
                key, label, kind_of(pass_), pass_.info.opt_level, parent, doc or first_paragraph(type(pass_).__doc__)
            )
            self.passes[key] = pass_
            self.waiting.append(key)
            for member in pass_.members or ():
                self.add(member, pass_label(member), key)
        return key

    def require_entry(self, entry: PassEntry) -> str:
        if entry.name not in self.nodes:
            try:
                self.add(entry.make({}), entry.name, "", first_paragraph(entry.doc))
            except PassOptionError:
                self.nodes[entry.name] = GraphNode(entry.name, entry.name, "needs options", None, doc=first_paragraph(entry.doc))
        return entry.name

    def require(self, name: str) -> str:
        try:
            return self.require_entry(get_entry(name))
        except UnknownPassError:
            member = next((key for key, pass_ in self.passes.items() if pass_.info.name == name), None)
        if member is None:
            self.nodes.setdefault(name, GraphNode(name, name, "unknown", None))
        return member or name

    def build(self) -> RequirementGraph:
        edges = []
        while self.waiting:
            key = self.waiting.pop(0)
            edges += [(key, self.require(name)) for name in self.passes[key].info.required]
        return RequirementGraph(self.nodes.values(), edges)


def kind_of(pass_: Pass) -> str:
    """Over what a pass runs, in a word: "module", "function", "pipeline"."""
    if pass_.members is not None:
        return "pipeline"
    kinds = (kind.__name__.removesuffix("Pass").lower() for kind in type(pass_).__mro__ if kind.__module__ == Pass.__module__)
    return next(kinds, "") or "pass"


def first_paragraph(doc: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((doc or "").strip().partition("\n\n")[0].split())
