"""Graphs of requirements as drawings: layers from left to right, few of whose lines cross; pipelines are boxes around their members."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from passat.passmgr.planning.requirement_graph import GraphNode, RequirementGraph, describe
from passat.passmgr.planning.svg import LINE, Drawing, Label, shortened, text_width

if TYPE_CHECKING:
    import networkx as nx

_MARGIN: Final = 20
_BETWEEN_LAYERS: Final = 70
_BETWEEN_BOXES: Final = 16
_INSET: Final = 16
_BEND: Final = 6
_SWEEPS: Final = 8
_CAPTION: Final = "Arrows lead from a pass to those that require it."
_GRID_WIDTH: Final = 900
"""How wide passes that nothing connects are set, where the others are not wider."""

Bend = tuple[str, str, int]
"""Where an edge between two passes crosses a layer."""

Item = str | Bend


@dataclass(slots=True)
class _Group:
    """The members of a pipeline, or what is no member: where each stands in it, and where the edges between them bend."""

    place: dict[Item, tuple[float, float]] = field(default_factory=dict)
    ends: dict[Item, float] = field(default_factory=dict)
    """Where the layer of an item ends at the right: lines bend only between layers, where no box is."""
    bends: dict[tuple[str, str], list[Bend]] = field(default_factory=dict)
    width: float = 0
    height: float = 0


def graph_svg(graph: RequirementGraph) -> str:
    """The graph as an SVG picture. Arrows lead from what is required to what requires it; red is what cannot be."""
    return _Layout(graph).draw()


class _Layout:
    def __init__(self, graph: RequirementGraph) -> None:
        self.graph = graph
        parents = {node.parent for node in graph.nodes.values()}
        required = {target for _, target in graph.edges}
        self.labels = {
            key: _label(node, "group" if key in parents else "required" if key in required else "") for key, node in graph.nodes.items()
        }
        self.sizes: dict[str, tuple[float, float]] = {}
        self.ancestors: dict[str, tuple[str, ...]] = {"": ()}
        for key, node in graph.nodes.items():  # parents come before their members
            self.ancestors[key] = (*self.ancestors[node.parent], key)
        self.groups: dict[str, _Group] = {}
        inner_first = sorted(graph.nodes, key=lambda key: -len(self.ancestors[key]))
        for key in [*inner_first, ""]:
            self._measure(key)

    def draw(self) -> str:
        drawing = Drawing()
        drawing.text(_CAPTION, _MARGIN, _MARGIN + 8)
        corner: dict[str, tuple[float, float]] = {"": (_MARGIN, _MARGIN + 2 * LINE)}
        for key in self.graph.nodes:
            parent = self.graph.nodes[key].parent
            x, y = self.groups[parent].place[key]
            corner[key] = (corner[parent][0] + x, corner[parent][1] + y)
            drawing.box(self.labels[key], *corner[key], *self.sizes[key])
            if key in self.groups:
                corner[key] = (corner[key][0] + _INSET, corner[key][1] + self.labels[key].height)
        for source, target in self.graph.edges:
            self._draw_edge(drawing, source, target, corner)
        whole = self.groups[""]
        width = max(whole.width, text_width(_CAPTION, 11))
        return drawing.svg(width + 2 * _MARGIN, whole.height + 2 * (_MARGIN + LINE), "Which pass requires which")

    def _draw_edge(self, drawing: Drawing, source: str, target: str, corner: dict[str, tuple[float, float]]) -> None:
        """From the right of what is required, through the bends between the two boxes that hold them, to the left of what requires it."""
        end, start = self._outline(source, corner), self._outline(target, corner)
        style = "wrong" if (source, target) in self.graph.cyclic or self.graph.nodes[target].kind == "unknown" else "arrow"
        tooltip = f"{self.graph.nodes[source].name} requires {self.graph.nodes[target].name}"
        if start[0] + start[2] > end[0]:  # a cycle, or a pipeline and its own member: the line goes along below
            below = max(start[1] + start[3], end[1] + end[3]) + _BETWEEN_BOXES / 2
            middle, beside, height = start[0] + start[2] / 2, end[0] - _BETWEEN_BOXES, end[1] + min(end[3], 44) / 2
            drawing.path(
                [(middle, start[1] + start[3]), (middle, below), (beside, below), (beside, height), (end[0], height)], style, tooltip
            )
            return
        level, (one, other) = self._siblings(source, target)
        group, (x, y) = self.groups[level], corner[level]
        height = start[1] + start[3] / 2
        points = [(start[0] + start[2], height), (x + group.ends[other], height)]
        for bend in group.bends.get((one, other), ()):
            bend_x, bend_y = group.place[bend]
            points += [(x + bend_x, y + bend_y), (x + group.ends[bend], y + bend_y)]
        height = end[1] + min(end[3], 44) / 2
        points += [(x + group.place[one][0], height), (end[0], height)]
        drawing.curve([point for at, point in enumerate(points) if not at or point != points[at - 1]], style, tooltip)

    def _outline(self, key: str, corner: dict[str, tuple[float, float]]) -> tuple[float, float, float, float]:
        x, y = corner[key]
        if key in self.groups:
            x, y = x - _INSET, y - self.labels[key].height
        return (x, y, *self.sizes[key])

    def _siblings(self, source: str, target: str) -> tuple[str, tuple[str, str]]:
        """The pipeline in which two passes are apart, and the members of it that they are or are in."""
        one, other = self.ancestors[source], self.ancestors[target]
        at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        level = one[at - 1] if at else ""
        return level, (one[at] if at < len(one) else "", other[at] if at < len(other) else "")

    def _measure(self, key: str) -> None:
        """The size of a box; of a pipeline after its members have found their places in it."""
        members = [node.key for node in self.graph.children(key)]
        if members or not key:
            group = self.groups[key] = self._arrange(key, members)
        if key:
            label = self.labels[key]
            inner = self.groups.get(key)
            width, height = (inner.width + 2 * _INSET, label.height + inner.height + _INSET) if inner else (0.0, label.height)
            self.sizes[key] = (max(label.width, width), height)
        elif not members:
            group.place, group.width, group.height = {}, 100, 20

    def _arrange(self, level: str, members: list[str]) -> _Group:
        import networkx as nx

        between: nx.DiGraph[str] = nx.DiGraph()
        between.add_nodes_from(members)
        for source, target in self.graph.edges:
            where, (one, other) = self._siblings(source, target)
            if where == level and one and other and one != other:
                between.add_edge(other, one)
        _make_acyclic(between)
        group = _Group()
        connected = between.subgraph([key for key in members if between.degree(key)])
        layers = self._ordered(connected, group)
        columns = [max(self._size(item)[0] for item in layer) for layer in layers]
        heights = [sum(self._size(item)[1] for item in layer) + _BETWEEN_BOXES * (len(layer) - 1) for layer in layers]
        group.height = max(heights, default=0)
        for layer, column, height in zip(layers, columns, heights, strict=True):
            y = (group.height - height) / 2
            for item in layer:
                group.place[item] = (group.width, y if isinstance(item, str) else y + _BEND / 2)
                group.ends[item] = group.width + column
                y += self._size(item)[1] + _BETWEEN_BOXES
            group.width += column + _BETWEEN_LAYERS
        group.width = max(0.0, group.width - _BETWEEN_LAYERS)
        self._set_in_rows(group, [key for key in members if not between.degree(key)], 0 if level else _GRID_WIDTH)
        return group

    def _set_in_rows(self, group: _Group, alone: Iterable[str], room: float) -> None:
        """Puts passes that nothing here connects below the others: in a pipeline, where lines may come in from the left, one by one."""
        x, y, tallest = 0.0, group.height + (2 * _BETWEEN_BOXES if group.height else 0), 0.0
        widest = max(group.width, room) if room else 0
        for key in alone:
            width, height = self._size(key)
            if x and x + width > widest:
                x, y, tallest = 0.0, y + tallest + _BETWEEN_BOXES, 0.0
            group.place[key] = (x, y)
            group.ends[key] = x + width
            x, tallest = x + width + _BETWEEN_BOXES, max(tallest, height)
            group.width, group.height = max(group.width, x - _BETWEEN_BOXES), y + tallest

    def _size(self, item: Item) -> tuple[float, float]:
        return self.sizes[item] if isinstance(item, str) else (0, _BEND)

    def _ordered(self, between: "nx.DiGraph[str]", group: _Group) -> list[list[Item]]:
        """The layers, each sorted by where its neighbours stand. An edge over several layers has a bend in each of those between."""
        import networkx as nx

        layers: list[list[Item]] = [list(layer) for layer in nx.topological_generations(between)]
        at = {item: i for i, layer in enumerate(layers) for item in layer}
        before: dict[Item, list[Item]] = {}
        after: dict[Item, list[Item]] = {}
        for required, requirer in between.edges:
            bends: list[Bend] = [(required, requirer, i) for i in range(at[required] + 1, at[requirer])]
            for bend in bends:
                layers[bend[2]].append(bend)
            group.bends[requirer, required] = bends
            chain: list[Item] = [required, *bends, requirer]
            for one, other in pairwise(chain):
                after.setdefault(one, []).append(other)
                before.setdefault(other, []).append(one)
        for sweep in range(_SWEEPS):
            forward = sweep % 2 == 0
            for i in range(1, len(layers)) if forward else range(len(layers) - 2, -1, -1):
                place = {item: at / len(layer) for layer in layers for at, item in enumerate(layer)}
                layers[i].sort(key=_barycentre(before if forward else after, place))
        return layers


def _barycentre(neighbours: dict[Item, list[Item]], place: dict[Item, float]) -> Callable[[Item], float]:
    def mean(item: Item) -> float:
        places = [place[other] for other in neighbours.get(item, ())]
        return sum(places) / len(places) if places else place[item]

    return mean


def _make_acyclic(graph: "nx.DiGraph[str]") -> None:
    """Takes out edges, for the layers only, until there is no cycle."""
    import networkx as nx

    while not nx.is_directed_acyclic_graph(graph):
        graph.remove_edge(*nx.find_cycle(graph)[-1][:2])


def _label(node: GraphNode, style: str) -> Label:
    full = f"{node.name}: " if len(node.name) > 64 else ""
    return Label(shortened(node.name), (describe(node),), full + (node.doc or describe(node)), "bad" if node.kind == "unknown" else style)
