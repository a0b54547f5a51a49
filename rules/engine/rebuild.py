"""Rebuilds expressions from extracted nodes. Unchanged parts keep their objects."""

from collections.abc import Mapping, Sequence

from passat.ir.expr import Call, Constant, Expr, Span, Tuple, TupleGetItem
from passat.ir.traverse import children, with_children
from passat.rules.engine.graph import Graph, operands_of
from passat.rules.engine.symbols import CONST, GET, LEAF_SYMBOL, REGION, TUPLE, Symbol

_NEAR = 6
_NEAR_NODES = 32
"""Maximum depth, and number of nodes, of the search for the application that a new node corresponds to."""


def rebuild(
    graph: Graph,
    choice: Mapping[int, int],
    root: int,
    leaves: Mapping[int, Expr] | None = None,
    shared: dict[int, Expr] | None = None,
    provenance: Mapping[int, tuple[str, int]] | None = None,
) -> Expr:
    """The expression of a node for a choice of one node per e-class, operands first (`passat.rules.extraction.extract`). `leaves` replaces
    leaf expressions and regions, by identity; `shared` has the results for expressions shared with other bodies, so that sharing is
    preserved.

    A new node that replaces an old one takes over its span, and with it its ONNX names. Any other new node takes the span of the nodes that
    it was made from, without the names of values. `provenance` has the root of the match for each new node. Equal nodes are shared.
    """
    made: dict[int, Expr] = {}
    equal: dict[tuple[object, ...], Expr] = {}
    replaced = leaves or {}
    symbols, payloads, operands, classes, origins = graph.symbols, graph.payloads, graph.operands, graph.classes, graph.origins
    for cls, node in choice.items():
        symbol, origin = symbols[node], origins[node]
        if shared is not None and id(origin) in shared:
            made[cls] = shared[id(origin)]
            continue
        if symbol is LEAF_SYMBOL and origin is not None:
            made[cls] = replaced.get(id(origin), origin)
            continue
        parts = tuple([made[part if classes[part] == part else graph.find(part)] for part in operands[node]])
        if symbol.kind == REGION and origin is not None:
            made[cls] = _around(replaced.get(id(origin), origin), parts)
            if shared is not None:
                shared[id(origin)] = made[cls]
            continue
        key = (symbol, payloads[node], parts)  # expressions compare by identity
        expr = equal.get(key)
        if expr is None:
            expr = origin if origin is not None and operands_of(origin) == parts else _make(graph, cls, node, parts, provenance or {})
            equal[key] = expr
        made[cls] = expr
        if shared is not None and origin is not None and parts:
            shared[id(origin)] = expr
    return made[graph.find(root)]


def _make(graph: Graph, cls: int, node: int, operands: tuple[Expr, ...], provenance: Mapping[int, tuple[str, int]]) -> Expr:
    span = _span(graph, cls, node) or _span_of_match(graph, node, provenance)
    made = applied(graph, graph.symbols[node], graph.payloads[node], operands, span)
    return made if isinstance(made, Constant) else made.assume_type(graph.types[cls])


def applied(graph: Graph, symbol: Symbol, payload: int, operands: Sequence[Expr], span: Span | None = None) -> Expr:
    """The expression of a symbol and payload of a graph on some operands."""
    if symbol.kind == TUPLE:
        return Tuple(operands, span)
    if symbol.kind == GET:
        return TupleGetItem(operands[0], payload, span)
    if symbol.kind == CONST:
        return Constant(graph.tensors[payload], span)
    assert symbol.op is not None
    return Call(symbol.op, operands, graph.attrs[payload], span=span)


def _around(region: Expr, operands: tuple[Expr, ...]) -> Expr:
    """A region with other operands; itself if they are unchanged."""
    return with_children(region, (*operands, *children(region)[len(operands_of(region)) :])).assume_type(region._checked_type)


def _span(graph: Graph, cls: int, node: int) -> Span | None:
    for candidate in (node, cls):
        origin = graph.origins[candidate] or graph.places.get(candidate)
        if isinstance(origin, TupleGetItem) and origin.span is None:
            origin = origin.tuple_value
        if origin is not None and origin.span is not None:
            return origin.span
    return None


def _span_of_match(graph: Graph, node: int, provenance: Mapping[int, tuple[str, int]]) -> Span | None:
    """The source position of a node created by a rule: the nearest application of the same operator below the root of the match, otherwise
    the root."""
    if node not in provenance:
        return None
    symbol, root = graph.symbols[node], node
    while root in provenance and provenance[root][1] < root:
        root = provenance[root][1]
    found = _span(graph, root, root)
    if found is None:
        return None  # a program without names has no spans anywhere
    below = [root]
    for _ in range(_NEAR):
        same = next((_span(graph, part, part) for part in below if graph.symbols[part].op is symbol.op is not None), None)
        if same is not None:
            return same._replace(outputs=())
        below = [part for whole in below for part in graph.operands[whole]][:_NEAR_NODES]
    return found._replace(outputs=())
