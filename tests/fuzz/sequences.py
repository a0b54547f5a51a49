"""Operands of operators on sequences, windows, and samples by position."""

import numpy as np
from onnx import TensorProto

from tests.fuzz.builder import Builder, Draft, Value
from tests.fuzz.operators import Form, recipe
from tests.fuzz.values import FLOAT, FLOATS, INT64


def _sequence(graph: Builder) -> Value | None:
    """A sequence with elements."""
    return graph.known(lambda value: value.is_sequence and bool(value.array))


@recipe("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength")
def _at(graph: Builder, form: Form) -> Draft | None:
    sequence = _sequence(graph)
    if sequence is None:
        return None
    if form.op == "SequenceLength":
        return Draft([sequence])
    place = graph.ints(graph.integer(-len(sequence.array), len(sequence.array) - 1))
    if form.op != "SequenceInsert":
        return Draft([sequence, place])
    x = graph.operand({sequence.kind})
    return Draft([sequence, x, place] if graph.chance(0.7) else [sequence, x])


@recipe("ConcatFromSequence")
def _concatenate(graph: Builder, form: Form) -> Draft | None:
    sequence = _sequence(graph)
    if sequence is None:
        return None
    rank, new = np.ndim(sequence.array[0]), graph.integer(0, 1)
    if not rank + new:
        return None
    graph.never_empty |= bool(graph.symbols)  # as for Concat
    return Draft([sequence], {"axis": graph.integer(-rank, rank - 1 + new), "new_axis": new})


@recipe("SplitToSequence")
def _split(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0), lambda value: value.rank > 0, lambda: graph.shape(1))
    axis = graph.integer(-x.rank, x.rank - 1)
    inputs: list[Value | None] = [x]
    keeps = graph.integer(0, 1)
    if graph.chance(0.6):
        size = x.shape[axis]
        first = graph.integer(0, size)
        keeps |= first in (0, size)  # for an empty part without its axis, ONNX Runtime returns uninitialized elements
        inputs.append(graph.ints([first, size - first]) if graph.chance(0.5) else graph.ints(graph.integer(1, 3)))
    return Draft(inputs, {"axis": axis, "keepdims": int(keeps)})


@recipe("GridSample")
def _sample(graph: Builder, form: Form) -> Draft:
    x = graph.operand(form.kinds(0) & FLOATS, lambda value: value.rank == 4 and 0 not in value.shape, lambda: (1, 2, 4, 4))
    grid = graph.fresh(FLOAT, (x.shape[0], 3, 2, 2))
    attrs = {"align_corners": graph.integer(0, 1), "padding_mode": graph.one_of(["zeros", "border", "reflection"])}
    return Draft([x, grid], attrs)


@recipe("MelWeightMatrix")
def _mel(graph: Builder, form: Form) -> Draft:
    ends = [graph.constant(number) for number in (0.0, 8000.0)]
    return Draft([*(graph.constant(number, TensorProto.INT32) for number in (8, 16, 16000)), *ends])


@recipe("HannWindow", "HammingWindow", "BlackmanWindow")
def _window(graph: Builder, form: Form) -> Draft:
    return Draft([graph.ints(graph.integer(0, 8), graph.one_of([TensorProto.INT32, INT64]))], {"periodic": graph.integer(0, 1)})
