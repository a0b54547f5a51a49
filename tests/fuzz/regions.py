"""Random nodes that contain graphs, and calls of random local functions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper

from tests.fuzz.builder import Builder, Draft, Value
from tests.fuzz.operators import draw_node, operators
from tests.fuzz.values import BOOL, INT64, OUTSIDE, random_array

DEPTH = 2
"""Maximum nesting of graphs."""
BRANCHES_OF_ANY_SHAPE = 11
"""The opset since which the branches of an If may have different shapes."""
SEQUENCES_ARE_MAPPED = 17
"""The opset since which SequenceMap exists."""
DOMAIN = "local"


def draw_region(graph: Builder) -> list[Value] | None:
    """Adds an If, a Loop, a Scan, a SequenceMap or a call."""
    if graph.depth >= DEPTH:
        return None
    draw: Callable[[Builder], list[Value] | None] = graph.one_of([_branch, _branch, _loop, _scan, _map, _call])
    return graph.attempt(lambda: draw(graph))


def _grow(graph: Builder, inside: Builder) -> None:
    """Adds a few nodes."""
    options = operators(inside.opset)
    for _ in range(inside.integer(1, 4)):
        if inside.chance(0.05):
            draw_region(inside)
        else:
            draw_node(inside, str(inside.one_of(options)))
    graph.never_empty |= inside.never_empty


def _is_plain(value: Value) -> bool:
    return not value.is_sequence and value.kind in OUTSIDE


def _result(inside: Builder, like: Value | None, *, same_shape: bool = False) -> Value | None:
    """A value for a graph to return, with the element type and shape of another. An outer value passes through Identity."""
    own = {name for node in inside.nodes for name in node.output}

    def fits(value: Value) -> bool:
        return _is_plain(value) and (like is None or (value.kind == like.kind and (not same_shape or value.shape == like.shape)))

    found = inside.known(lambda value: value.name in own and fits(value)) or inside.known(fits)
    if found is None or found.name in own:
        return found
    return inside.again(found)


def _graph(inside: Builder, inputs: Sequence[Value], outputs: Sequence[Value], carried: Sequence[Value] = ()) -> GraphProto:
    """The inner graph; it declares the ranks of inputs, and only the element types of outputs and loop-carried values."""
    return helper.make_graph(
        inside.nodes,
        inside.prefix,
        [helper.make_tensor_value_info(value.name, value.kind, None if value in carried else [None] * value.rank) for value in inputs],
        [helper.make_tensor_value_info(value.name, value.kind, None) for value in outputs],
        inside.tensors,
    )


def captured(graph: Builder, made: Sequence[GraphProto]) -> list[Value]:
    """The values of a graph that inner graphs read."""
    names: set[str] = set()
    pending = list(made)
    while pending:
        inner = pending.pop()
        names.update(name for node in inner.node for name in node.input)
        pending += [attribute.g for node in inner.node for attribute in node.attribute if attribute.HasField("g")]
    return [value for value in graph.values if value.name in names]


def _branch(graph: Builder) -> list[Value] | None:
    condition = graph.operand({BOOL}, lambda value: value.shape in ((), (1,)), lambda: ())
    graphs, first = [], None
    for _ in range(2):
        inside = graph.inner([value for value in graph.values if _is_plain(value)])
        _grow(graph, inside)
        result = _result(inside, first, same_shape=graph.opset < BRANCHES_OF_ANY_SHAPE)
        if result is None and first is not None:
            result = inside.again(inside.constant(random_array(graph.random, first.kind, first.shape), first.kind))
        if result is None:
            return None
        first = first or result
        graphs.append(_graph(inside, [], [result]))
    return graph.add(
        "If", Draft([condition], dict(zip(("then_branch", "else_branch"), graphs, strict=True))), captured=captured(graph, graphs)
    )


def _loop(graph: Builder) -> list[Value] | None:
    start = graph.operand(OUTSIDE)
    inside = graph.inner([value for value in graph.values if _is_plain(value)])
    step, going, carried = (
        Value(inside.name(), INT64, np.array(0)),
        Value(inside.name(), BOOL, np.array(True)),
        Value(inside.name(), start.kind, start.array),
    )
    inside.values += [step, going, carried]
    _grow(graph, inside)
    result, scanned = _result(inside, carried, same_shape=graph.chance(0.8)), _result(inside, None)
    kept = inside.again(going)
    if result is None or scanned is None or kept is None:
        return None
    if scanned.kind == TensorProto.STRING:
        return None  # ONNX Runtime moves strings out of the results of an iteration, although they may be outer values
    if scanned.name == result.name:
        scanned = inside.again(result)
        if scanned is None:
            return None
    # after no iterations, ONNX Runtime gives a scanned output the inferred rank, or rank 1 if none is inferred
    count = graph.integer(0, 3)
    scans = [scanned] if count else []
    body = _graph(inside, [step, going, carried], [kept, result, *scans], [carried])
    inputs: list[Value | None] = [graph.ints(count), graph.constant(True, BOOL) if graph.chance(0.5) else None, start]
    return graph.add("Loop", Draft(inputs, {"body": body}, 1 + len(scans)), captured=captured(graph, [body]))


def _scan(graph: Builder) -> list[Value] | None:
    if graph.opset < 9:
        return None
    x = graph.operand(OUTSIDE, lambda value: value.rank > 0 and value.shape[0] > 0, lambda: (2, *graph.shape(0, 2)))
    start = graph.operand(OUTSIDE)
    inside = graph.inner([value for value in graph.values if _is_plain(value)])
    graph.never_empty |= x.shape[0] in graph.symbols.values()  # as for Loop
    state, part = Value(inside.name(), start.kind, start.array), Value(inside.name(), x.kind, np.asarray(x.array[0], x.array.dtype))
    inside.values += [state, part]
    _grow(graph, inside)
    after, scanned = _result(inside, state, same_shape=True), _result(inside, None)
    if after is None or scanned is None:
        return None
    if scanned.name == after.name:
        scanned = inside.again(after)
        if scanned is None:
            return None
    body = _graph(inside, [state, part], [after, scanned])
    attrs: dict[str, Any] = {"body": body, "num_scan_inputs": 1}
    if graph.chance(0.3):
        attrs["scan_input_directions"] = [1]
    return graph.add("Scan", Draft([start, x], attrs, 2), captured=captured(graph, [body]))


def _map(graph: Builder) -> list[Value] | None:
    """A SequenceMap of one sequence, and sometimes of a tensor that each element meets."""
    if graph.opset < SEQUENCES_ARE_MAPPED:
        return None
    made = graph.node("SequenceConstruct", [graph.partner(x) for x in [graph.operand(OUTSIDE)] for _ in range(graph.integer(1, 3))])
    sequence = graph.known(lambda value: value.is_sequence and bool(value.array)) or (made[0] if made else None)
    if sequence is None:
        return None
    others = [graph.operand(OUTSIDE)] if graph.chance(0.4) else []
    inside = graph.inner([value for value in graph.values if _is_plain(value)])
    params = [Value(inside.name(), sequence.kind, np.asarray(sequence.array[0])), *(Value(inside.name(), x.kind, x.array) for x in others)]
    inside.values += params
    _grow(graph, inside)
    results = [found for found in (_result(inside, None) for _ in range(graph.integer(1, 2))) if found is not None]
    if not results or (results[0] is results[-1] and len(results) > 1):
        return None
    body = _graph(inside, params, results, params)
    return graph.add("SequenceMap", Draft([sequence, *others], {"body": body}, len(results)), captured=captured(graph, [body]))


def _call(graph: Builder) -> list[Value] | None:
    """A function whose body is random nodes on its parameters; its constants are nodes. It is called once or twice."""
    arguments = [graph.operand(OUTSIDE) for _ in range(graph.integer(1, 2))]
    inside = graph.inner([])
    params = [Value(inside.name(), value.kind, value.array) for value in arguments]
    inside.values += params
    _grow(graph, inside)
    result = _result(inside, None)
    if result is None:
        return None
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in inside.tensors]
    name = f"function{len(graph.functions)}"
    made = helper.make_function(
        DOMAIN,
        name,
        [value.name for value in params],
        [result.name],
        [*nodes, *map(_with_reference, inside.nodes)],
        graph.imports(),
        ["slope"],
    )
    graph.functions.append(made)
    attrs = {"slope": 0.5} if "slope" in str(made) else {}
    for _ in range(graph.integer(0, 1)):
        graph.add(name, Draft(arguments, attrs), DOMAIN)
    return graph.add(name, Draft(arguments, attrs), DOMAIN)


def _with_reference(node: NodeProto) -> NodeProto:
    """The node with its first numeric attribute replaced by a reference to an attribute of the function."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.FLOAT and not attribute.ref_attr_name:
            attribute.ClearField("f")
            attribute.ref_attr_name = "slope"
            break
    return node
