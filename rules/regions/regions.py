"""Splits large functions into regions: stretches of dataflow between cuts that few values cross, such as the layers of a network."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.op import Op, is_followed
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TupleType
from passat.rules.engine.graph import operands_of
from passat.rules.engine.matching import Matcher

LEAST: Final = 40
"""Minimum number of nodes of a region; the last one may have fewer."""
WINDOW: Final = 400
"""Number of nodes among which the best cut is chosen."""
_DEPTH: Final = 4
"""The depth that `repeats` compares."""
_CROSSING: Final = 12
"""Maximum number of values that cross a cut."""
_NEVER: Final = 1000
"""Weight of values that must not cross a cut: tuples, whose fields rules match, and shape arithmetic, which inference follows."""

Edges = frozenset[tuple[Op, int, Op]]
"""The operators that rules match below each other: (whole, operand, part)."""


@dataclass(slots=True, eq=False)
class Region:
    """Consecutive nodes of a function in topological order; the external values and constants that they use, each once; and the nodes used
    elsewhere. `key` is equal for regions of equal structure (see `key_of`)."""

    nodes: Sequence[Expr]
    inputs: Sequence[Expr]
    tensors: Sequence[Tensor]
    outputs: Sequence[Expr]
    key: object = None


class Numbers:
    """Small integers for equal values."""

    def __init__(self) -> None:
        self._by_id: dict[int, int] = {}
        self._by_value: dict[object, int] = {}
        self._kept: list[object] = []
        self._next = count()

    def __call__(self, value: object) -> int:
        """The number of a value, which must be hashable and compare by content."""
        found = self._by_id.get(id(value))
        if found is None:
            found = self._by_value.get(value)
            if found is None:
                found = self._by_value[value] = next(self._next)
            self._by_id[id(value)] = found
            self._kept.append(value)  # keeps it alive, so that its identity stays unique
        return found


def edges_of(matchers: Iterable[Matcher]) -> Edges:
    """The edges of the left sides of rules."""
    return frozenset(
        (whole.op, i, part.op)
        for matcher in matchers
        for variant in matcher.variants
        for whole, i, part in variant.edges
        if whole.op is not None and part.op is not None
    )


def cut(function: Function, edges: Edges) -> list[Region] | None:
    """The regions of a function, in order: each uses only parameters, constants and results of earlier ones. A final tuple is in none of
    them. None if the function has more than calls of pure operators, tuples and projections, or stays in one piece."""
    body = function.body
    results = set(map(id, body.fields if type(body) is Tuple else (body,)))
    nodes = _dataflow(body)
    if nodes is None:
        return None
    if type(body) is Tuple:
        nodes.pop()
    place = {id(node): i for i, node in enumerate(nodes)}
    bounds = _bounds(nodes, place, edges)
    if len(bounds) < 2:
        return None
    regions: list[Region] = []
    made_in: dict[int, int] = {}
    used: list[dict[int, Expr]] = [{} for _ in bounds]
    first = 0
    for number, end in enumerate(bounds):
        inputs: dict[int, Expr] = {}
        tensors: dict[int, Tensor] = {}
        inside = nodes[first:end]
        for node in inside:
            made_in[id(node)] = number
            if id(node) in results:
                used[number][id(node)] = node
            for part in operands_of(node):
                home = made_in.get(id(part), -1)
                if home == number:
                    continue
                if type(part) is Constant:
                    tensors[id(part.data)] = part.data
                else:
                    inputs[id(part)] = part
                    if home >= 0:
                        used[home][id(part)] = part
        regions.append(Region(inside, list(inputs.values()), list(tensors.values()), ()))
        first = end
    for region, outputs in zip(regions, used, strict=True):
        region.outputs = list(outputs.values())
    return regions


def _dataflow(body: Expr) -> list[Expr] | None:
    """The calls, tuples and projections of an expression, operands first; None if it has anything else but variables and constants."""
    nodes = [node for node in post_order(body, parts_of=operands_of) if type(node) is not Var and type(node) is not Constant]
    return nodes if all(map(_is_pure, nodes)) else None


def _is_pure(node: Expr) -> bool:
    if type(node) is Call:
        return type(node.op) is Op and not node.op.stateful
    return type(node) is Tuple or type(node) is TupleGetItem


def _bounds(nodes: Sequence[Expr], place: dict[int, int], edges: Edges) -> list[int]:
    """The ends of the regions, including the last."""
    last = list(range(len(nodes)))
    crossing = [0] * (len(nodes) + 1)  # changes of the number of values that cross before each node
    for i, node in enumerate(nodes):
        op = node.op if type(node) is Call else None
        for slot, part in enumerate(operands_of(node)):
            at = place.get(id(part))
            if at is None:
                continue
            last[at] = i
            if type(part) is Call and (op, slot, part.op) in edges:
                crossing[at + 1] += 1
                crossing[i + 1] -= 1
    for i, node in enumerate(nodes):
        if last[i] > i:
            type_ = node.checked_type
            weight = _NEVER if type(type_) is TupleType or is_followed(type_) else 1
            crossing[i + 1] += weight
            crossing[last[i] + 1] -= weight
    for i in range(len(nodes)):
        crossing[i + 1] += crossing[i]
    bounds: list[int] = []
    start = 0
    while start + 2 * LEAST <= len(nodes):
        window = range(start + LEAST, min(start + LEAST + WINDOW, len(nodes) - LEAST + 1))
        at = min(window, key=crossing.__getitem__)
        short = len(window) < WINDOW and bounds  # near the end there may be no good cut
        if crossing[at] > (max(crossing[bound] for bound in bounds) if short else _CROSSING):
            start = window[-1] + 1 - LEAST
            continue
        bounds.append(at)
        start = at
    return [*bounds, len(nodes)]


def repeats(nodes: Sequence[Expr]) -> bool:
    """True if nodes repeat: few distinct combinations of operator and operand operators, to a limited depth."""
    kinds = {id(node): hash(node.op) if type(node) is Call else hash(type(node)) for node in nodes}
    for _ in range(_DEPTH):
        known = kinds.get
        kinds = {id(node): hash((kinds[id(node)], *[known(id(part), 0) for part in operands_of(node)])) for node in nodes}
    return 2 * len(set(kinds.values())) <= len(nodes)


def key_of(region: Region, numbers: Numbers) -> object:
    """A key that is equal for regions that differ only in the contents of constants and in their inputs: operators, attributes, types,
    sharing."""
    known = {id(expr): i for i, expr in enumerate((*region.inputs, *region.nodes))}
    place = {id(tensor): ~i for i, tensor in enumerate(region.tensors)}
    codes: list[int] = [len(region.inputs)]
    for node in region.nodes:
        if type(node) is Call:
            codes += (numbers(node.op), numbers(node.attrs))
        else:
            codes += (-1, node.index if type(node) is TupleGetItem else -1)
        parts = operands_of(node)
        codes += (numbers(node.checked_type), len(parts))
        for part in parts:
            code = known.get(id(part))
            codes.append(place[id(part.data)] if code is None else code)  # type: ignore[attr-defined]  # what has no number is a constant
    return (tuple(codes), tuple([(tensor.dtype, tensor.shape) for tensor in region.tensors]), tuple([known[id(o)] for o in region.outputs]))
