"""E-graphs as files: the JSON format of the extraction-gym, in which e-graphs are exchanged to compare extractors.

    {"nodes": {ID: {"op": TEXT, "cost": NUMBER, "eclass": CLASS, "children": [ID, ...]}, ...}, "root_eclasses": [CLASS, ...]}

https://github.com/egraphs-good/extraction-gym
"""

import json
import math
import os
from collections.abc import Mapping
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.bounded_read import read_bounded
from passat.rules.extraction.space import Space

BYTES_LIMIT: Final = 2 << 30
"""Files beyond this size are not read."""


class EGraphFileError(ValueError):
    """A file that is no e-graph, or one from which nothing can be extracted; the text names the file and the node."""


class EGraphFile(NamedTuple):
    """An e-graph that was read: its space, the root classes, and the ids of the nodes by their numbers."""

    space: Space
    roots: list[int]
    names: list[str]


def read_egraph(path: str | os.PathLike[str]) -> EGraphFile:
    """Reads an e-graph. Raises EGraphFileError, and OSError where the file cannot be read."""
    where = os.fspath(path)
    content = read_bounded(where, BYTES_LIMIT)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:  # a file of bytes that are no text is a ValueError as well
        raise EGraphFileError(f"{where}: not JSON: {error}") from error
    try:
        return parse_egraph(data)
    except EGraphFileError as error:
        raise EGraphFileError(f"{where}: {error}") from None


def parse_egraph(data: AnyValue) -> EGraphFile:
    """The e-graph that decoded JSON describes. Raises EGraphFileError.

    >>> one = {"op": "x", "cost": 1.0, "eclass": "a", "children": []}
    >>> parse_egraph({"nodes": {"n0": one}, "root_eclasses": ["a"]}).space.costs
    [1.0]
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("nodes"), Mapping) or not isinstance(data.get("root_eclasses"), list):
        raise EGraphFileError('no e-graph: it has to have "nodes" by their ids, and a list of "root_eclasses"')
    nodes: Mapping[str, AnyValue] = data["nodes"]
    numbers = {name: number for number, name in enumerate(nodes)}
    first: dict[str, int] = {}
    classes: list[int] = []
    costs: list[float] = []
    members: dict[int, list[int]] = {}
    for name, number in numbers.items():
        node = nodes[name]
        if not isinstance(node, Mapping) or not isinstance(node.get("eclass"), str) or not isinstance(node.get("children"), list):
            raise EGraphFileError(f'the node {name!r} has to have an "eclass" and a list of "children"')
        cost = node.get("cost", 1.0)
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not math.isfinite(cost) or cost < 0:
            raise EGraphFileError(f"the cost of the node {name!r} is {cost!r}; costs are finite and not negative")
        cls = first.setdefault(node["eclass"], number)
        classes.append(cls)
        costs.append(float(cost))
        members.setdefault(cls, []).append(number)
    children = []
    for name, node in nodes.items():
        missing = [child for child in node["children"] if not isinstance(child, str) or child not in numbers]
        if missing:
            raise EGraphFileError(f"the node {name!r} has the child {missing[0]!r}, which is no node")
        children.append(tuple([classes[numbers[child]] for child in node["children"]]))
    roots = []
    for root in data["root_eclasses"]:
        if not isinstance(root, str) or root not in first:
            raise EGraphFileError(f"the root {root!r} is no class of any node")
        roots.append(first[root])
    if not roots:
        raise EGraphFileError("it has no roots, so that there is nothing to extract")
    alternatives = {cls: found for cls, found in members.items() if len(found) > 1}
    return EGraphFile(Space(classes, children, costs, alternatives, list(range(len(classes)))), list(dict.fromkeys(roots)), list(nodes))
