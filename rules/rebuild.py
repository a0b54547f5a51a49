"""From a choice of nodes back to expressions. Parts that did not change come back as the same objects."""

from collections.abc import Mapping

from passat.ir.expr import Call, Constant, Expr, Span, Tuple, TupleGetItem
from passat.rules.graph import CALL, CONST, GET, LEAF, TUPLE, Graph, Symbol


def rebuild(graph: Graph, choice: Mapping[int, int], root: int, leaves: Mapping[int, Expr] | None = None) -> Expr:
    """The expression of a node under a choice of one node per class, parts before wholes (`passat.rules.extract`).
    `leaves` replaces leaf expressions, by their identity.

    A new node in the place of an old one takes over its span, and with it its ONNX names. Equal nodes become one.
    """
    made: dict[int, Expr] = {}
    equal: dict[tuple[Symbol, int, tuple[int, ...]], Expr] = {}
    symbols, payloads, operands, classes = graph.symbols, graph.payloads, graph.operands, graph.classes
    for cls, node in choice.items():
        parts = [made[part if classes[part] == part else graph.find(part)] for part in operands[node]]
        key = (symbols[node], payloads[node], tuple(map(id, parts)))
        expr = equal.get(key)
        if expr is None:
            expr = equal[key] = _make(graph, cls, node, parts, leaves or {})
        made[cls] = expr
    return made[graph.find(root)]


def _make(graph: Graph, cls: int, node: int, operands: list[Expr], leaves: Mapping[int, Expr]) -> Expr:
    symbol, payload = graph.symbols[node], graph.payloads[node]
    origin = graph.origins[node]
    if origin is not None and (symbol.kind == LEAF or _parts_are(origin, operands)):
        return leaves.get(id(origin), origin)
    span = _span(graph, cls, node)
    made: Expr
    if symbol.kind == CALL:
        assert symbol.op is not None
        made = Call(symbol.op, operands, graph.attrs[payload], span=span)
    elif symbol.kind == TUPLE:
        made = Tuple(operands, span)
    elif symbol.kind == GET:
        made = TupleGetItem(operands[0], payload, span)
    else:
        assert symbol.kind == CONST
        return Constant(graph.tensors[payload], span)
    made._checked_type = graph.types[cls]
    return made


def _parts_are(origin: Expr, operands: list[Expr]) -> bool:
    parts: tuple[Expr, ...]
    if type(origin) is Call:
        parts = origin.args
    elif type(origin) is TupleGetItem:
        parts = (origin.tuple_value,)
    elif type(origin) is Tuple:
        parts = origin.fields
    else:
        return True
    return all(a is b for a, b in zip(parts, operands, strict=True))


def _span(graph: Graph, cls: int, node: int) -> Span | None:
    for candidate in (node, cls):
        origin = graph.origins[candidate] or graph.places.get(candidate)
        if origin is not None and origin.span is not None:
            return origin.span
    return None
