"""The nodes of an e-graph that a match stands for."""

from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

from passat.rules.engine.graph import Graph
from passat.rules.engine.variant import Variant, symbol_of
from passat.rules.pattern import Pattern, PConst, PLiteral, PVar, pattern_parts


class Placed(NamedTuple):
    """A match where it lies: its row (`Matcher.bind` says what that binds), the left side with all operands in the order in which they
    stand, and the nodes that calls, tuples and projections of it matched, the root first."""

    row: tuple[int, ...]
    variant: Variant
    nodes: tuple[int, ...]


class Place(NamedTuple):
    """A part of a left side, the node that it matched, and whether the operands of that stand the other way round."""

    part: Pattern
    node: int
    turned: bool


def find_places(
    graph: Graph,
    part: Pattern,
    cls: int,
    classes: Mapping[tuple[AnyValue, ...], int],
    payloads: Mapping[int, int],
    members: Mapping[int, Sequence[int]],
) -> list[Place] | None:
    """The places of the calls, tuples and projections of a part of a left side in a class, wholes first; None where it does not match
    there. `classes` are those that the match bound, by the keys of the parts; `payloads` those of its calls, by identity; `members` lists
    the nodes of classes that have several."""
    cls = graph.find(cls)
    if classes.get(part.key, cls) != cls:
        return None
    if isinstance(part, (PVar, PConst, PLiteral)):
        return []
    head, parts = symbol_of(part), pattern_parts(part)
    turns = (False, True) if head.op is not None and head.op.commutative and len(parts) == 2 else (False,)
    for node in members.get(cls, (cls,)):
        if graph.symbols[node] is not head or payloads.get(id(part), graph.payloads[node]) != graph.payloads[node]:
            continue
        for turned in turns:
            operands = graph.operands[node][:: -1 if turned else 1]
            below = [find_places(graph, *at, classes, payloads, members) for at in zip(parts, operands, strict=True)]
            if None not in below:
                return [Place(part, node, turned), *(place for places in below for place in places or ())]
    return None
