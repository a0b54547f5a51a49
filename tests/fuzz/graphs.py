"""Random models: valid graphs of 3 to 40 nodes that ONNX Runtime runs, each a function of its seed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, helper

from passat.judging import flatten
from tests.fuzz.builder import IR_VERSION, Builder, Value, declaration, kind_of
from tests.fuzz.neighborhoods import draw_chain, draw_twin
from tests.fuzz.operators import draw_node, operators
from tests.fuzz.regions import draw_region
from tests.fuzz.runtime import accepts, newest_opset, run
from tests.fuzz.values import FLOAT, NARROW, OUTSIDE, random_array

OLDEST: Final = 7
NEWEST: Final = newest_opset()
MOST_COMPARED: Final = 10_000_000
"""Maximum number of elements of all results; mutated sizes lead to tensors of gigabytes."""
SYMBOLS: Final[Mapping[str, int]] = {"n": 5, "m": 6, "k": 7}
"""Sizes of symbolic dimensions while a graph is made; constant dimensions have other sizes."""

SHRINKING: Final = frozenset(
    {"AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "Pad", "QLinearConv", "Slice", "Split", "SplitToSequence"}
)
"""Operators that may return an empty tensor if an operand is smaller than the one that the graph was made with."""


@dataclass(frozen=True)
class Case:
    """A model, and inputs that it runs on; no inputs if it may be rejected with a sentence."""

    name: str
    model: ModelProto
    feeds: tuple[Mapping[str, Any], ...]
    data: bytes | None = None
    """The bytes of a file that is not a model."""
    other: ModelProto | None = None
    """The model for the comparison, in place of the optimized form."""


def random_case(seed: int, *, tame: bool | None = None, newest: int | None = None, most: int = 40) -> Case | None:
    """The model of a seed, with inputs; None if the seed gives no valid one. `tame` restricts it to finite data; `newest` is its maximum
    opset, `most` its maximum number of nodes."""
    random = np.random.default_rng(seed)
    opset = int(random.integers(OLDEST, NEWEST + 1 if newest is None else newest + 1))
    wild = bool(random.random() < 0.4)
    names = list(SYMBOLS)[: int(random.choice([0, 1, 2, 3]))]
    graph = Builder(
        random,
        opset,
        tame=tame if tame is not None else not wild,
        most_inputs=int(random.integers(1, 5)),
        symbols={name: SYMBOLS[name] for name in names},
    )
    wanted = min(int(random.choice([3, 5, 8, 12, 20, 40])), most)
    options = operators(opset)
    chained = int(graph.one_of([0, 6, 20]))  # of 20 steps
    for _ in range(4 * wanted):
        if len(graph.nodes) >= wanted:
            break
        match graph.integer(0, 19):
            case 0:
                draw_region(graph)
            case 1:
                draw_twin(graph)
            case number if number < chained:
                draw_chain(graph)
            case _:
                draw_node(graph, str(graph.one_of(options)))
    case = counted(f"graph {seed}", finished(graph), tuple(feeds_of(graph)))
    kept = tuple(feed for feed in case.feeds if is_as_declared(case.model, feed)) if case is not None else ()
    return replace(case, feeds=kept) if case is not None and kept else None


def neighbor_case(seed: int, op: str, *, tame: bool | None = None) -> Case | None:
    """A few nodes of an operator that Passat leaves opaque, each between chains of operators that rules rewrite, and sometimes twice."""
    random = np.random.default_rng(seed)
    opset = int(random.choice([opset for opset in range(OLDEST, NEWEST + 1) if op in operators(opset)]))
    names = list(SYMBOLS)[: int(random.integers(0, 3))]
    symbols = {name: SYMBOLS[name] for name in names}
    graph = Builder(
        random,
        opset,
        tame=tame if tame is not None else bool(random.random() < 0.7),
        most_inputs=int(random.integers(1, 5)),
        symbols=symbols,
    )
    for _ in range(graph.integer(1, 3)):
        if graph.chance(0.7):
            draw_chain(graph)
        for result in draw_node(graph, op) or ():
            if graph.chance(0.3):
                draw_twin(graph, graph.nodes[-1])
            draw_chain(graph, result)
    if not any(node.op_type == op.rpartition("::")[2] for node in graph.nodes):
        return None
    case = counted(f"neighbors {seed} of {op}", finished(graph), tuple(feeds_of(graph)))
    kept = tuple(feed for feed in case.feeds if is_as_declared(case.model, feed)) if case is not None else ()
    return replace(case, feeds=kept) if case is not None and kept else None


def constant_case(seed: int, op: str) -> Case | None:
    """A node of an operator on constants, mostly special ones, in a random opset."""
    random = np.random.default_rng(seed)
    opset = int(random.choice([opset for opset in range(OLDEST, NEWEST + 1) if op in operators(opset)]))
    graph = Builder(random, opset, tame=bool(random.random() < 0.2), most_inputs=0)
    return counted(f"constant {seed}", finished(graph), ({},)) if draw_node(graph, op) else None


def counted(name: str, model: ModelProto, feeds: tuple[Mapping[str, Any], ...]) -> Case | None:
    """The model with those inputs that it runs on; None if the model is not accepted, or runs on none."""
    if not accepts(model):
        return None
    kept = tuple(feed for feed in feeds if runs(model, feed))
    return Case(name, model, kept) if kept else None


def is_as_declared(model: ModelProto, feed: Mapping[str, Any]) -> bool:
    """True if outputs have the declared ranks and sizes, and sizes with names of input sizes equal these. An If with branches of several
    ranks has the rank of one of them when the graph is made, and may have the other for other inputs; the same holds for computed sizes,
    as of NonZero."""
    sizes: dict[str, int] = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        sizes.update((dim.dim_param, size) for dim, size in zip(dims, np.shape(feed.get(value.name, ())), strict=False) if dim.dim_param)
    for value, found in zip(model.graph.output, run(model, feed), strict=True):
        dims = value.type.tensor_type.shape.dim
        if value.type.HasField("tensor_type") and (
            np.ndim(found) != len(dims)
            or any(
                (dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param, size)) != size
                for dim, size in zip(dims, np.shape(found), strict=True)
            )
        ):
            return False
    return True


def runs(model: ModelProto, feed: Mapping[str, Any]) -> bool:
    """True if ONNX Runtime loads a model, and runs it on some inputs, with results that can be compared. Inputs of other ranks than
    declared, which it takes for scalars, do not count."""
    declared = {value.name: value.type.tensor_type for value in model.graph.input if value.type.tensor_type.HasField("shape")}
    if any(name in declared and np.ndim(value) != len(declared[name].shape.dim) for name, value in feed.items()):
        return False
    try:
        found = run(model, feed)
    except Exception:  # ONNX Runtime has no exception class for what it rejects
        return False
    return sum(np.size(part) for value in found for _, part in flatten(value)) <= MOST_COMPARED


def finished(graph: Builder) -> ModelProto:
    """The model of a graph: unread values are outputs, and so are some of the others."""
    read = {name for node in graph.nodes for name in node.input}
    results = [value for value in graph.values if value.name not in {entry.value.name for entry in graph.inputs}]
    chosen = [value for value in results if value.name not in read or graph.chance(0.1)] or results[-1:]
    outputs = []
    for value in chosen:
        if not value.is_sequence and value.kind in NARROW:
            outputs += graph.node("Cast", [value], to=FLOAT) or []
        elif value.kind in OUTSIDE:
            outputs.append(value)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "random",
            [declaration(entry) for entry in graph.inputs],
            [_output(graph, value) for value in outputs],
            graph.tensors,
        ),
        opset_imports=graph.imports(),
        ir_version=IR_VERSION,
        functions=graph.functions,
    )
    if graph.chance(0.3):
        try:
            model = onnx.shape_inference.infer_shapes(model)
        except onnx.shape_inference.InferenceError:
            return model
    return model


def _output(graph: Builder, value: Value) -> onnx.ValueInfoProto:
    """A declaration of an output: its sizes, names for them, or only its rank."""
    if value.is_sequence:
        return helper.make_tensor_sequence_value_info(value.name, value.kind, None)
    names = {size: name for name, size in graph.symbols.items()}
    dims: list[int | str | None]
    if graph.symbols or graph.chance(0.3):
        dims = [names.get(size) if graph.chance(0.5) else f"{value.name}_{i}" for i, size in enumerate(value.shape)]
    else:
        dims = list(value.shape)
    found: onnx.ValueInfoProto = helper.make_tensor_value_info(value.name, value.kind, dims)
    return found


def feeds_of(graph: Builder) -> list[dict[str, Any]]:
    """Inputs of the sizes that the graph was made with, first the original ones; then inputs of other sizes."""
    found = [{entry.value.name: entry.value.array for entry in graph.inputs}]
    if not graph.inputs:
        return found
    fixed = {entry.value.name for entry in graph.inputs if entry.value.name not in {value.name for value in graph.values}}
    changes: list[dict[str, int]] = [{}, {"n": 1, "m": 1, "k": 1}, {"n": 2, "m": 9, "k": 3}, {"n": 0}]
    shrinks = any(node.op_type in SHRINKING for node in graph.nodes)
    for change in changes:
        if change and (not graph.symbols or (graph.never_empty and (0 in change.values() or shrinks))):
            continue
        sizes = {SYMBOLS[name]: size for name, size in change.items()}
        feed = {}
        for entry in graph.inputs:
            value = entry.value
            shape = tuple(sizes.get(size, size) for size in value.shape)
            feed[value.name] = value.array if value.name in fixed else random_array(graph.random, value.kind, shape, tame=graph.tame)
        found.append(feed)
    return found


__all__ = ["NEWEST", "OLDEST", "Case", "counted", "kind_of", "random_case", "runs"]
