"""Shared by the tests of the corpus: optimizes a model from text with all passes, and compares the result with the original."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto

import passat
from benchmarks.differences import difference
from passat import Report
from passat.ir.onnx import check
from passat.runner import Runner

Feed = Mapping[str, Any]
LEVEL = 3
"""The level at which all of the default pipeline runs."""


def parse(text: str, *, opset: int = 18, ir: int = 9, imports: str = "") -> ModelProto:
    """A model from ONNX's text form of its graph, and of its local functions after it."""
    model: ModelProto = onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}{imports}]>\n{text}')
    return model


def run(model: ModelProto, feed: Feed) -> list[Any]:
    """The outputs of a model under ONNX Runtime with its optimizations off."""
    return Runner(model, threads=1).run(feed)


def optimize(model: ModelProto, *feeds: Feed, verify: bool = True, again: bool = True, **options: Any) -> tuple[ModelProto, Report]:
    """The optimized model and the report, after the checks that hold for every model: the input is unchanged, `onnx.checker` accepts the
    result, its values are the same on random inputs and on the given feeds, its interface is the same byte for byte, and optimizing it
    again does not make it more expensive. With ONNX Runtime's default optimizations it loads if the input does.
    """
    before = model.SerializeToString()
    result = passat.optimize(model, opt_level=LEVEL, verify=verify, **options)
    assert model.SerializeToString() == before
    report, out = result.report, result.model
    assert report.kept or not verify or (report.verification is not None and report.verification.equal is True), report.verification
    check(out)
    assert_same_interface(out, model)
    for feed in feeds:
        for i, (want, got) in enumerate(zip(run(model, feed), run(out, feed), strict=True)):
            assert not difference(want, got).reason, f"output {i}: {difference(want, got).reason}"
    assert not loads_optimized(model) or loads_optimized(out)
    if again:
        second = passat.optimize(out, opt_level=LEVEL, verify=False).report
        assert second.cost_after <= report.cost_after * (1 + 1e-6)
        assert second.node_count_after <= report.node_count_after
    return out, report


def loads_optimized(model: ModelProto) -> bool:
    """True if ONNX Runtime loads a model with its default optimizations, which may end its process."""
    try:
        Runner(model, threads=1, optimize="all", apart=True)
    except Exception:  # ONNX Runtime has no exception class for what it rejects
        return False
    return True


def assert_same_interface(found: ModelProto, model: ModelProto) -> None:
    """Checks that inputs, outputs, metadata and versions are equal; outputs without a shape may get one, as `onnx.checker` requires."""
    for value, other in zip(model.graph.output, found.graph.output, strict=True):
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            assert (other.name, other.type.tensor_type.elem_type) == (value.name, value.type.tensor_type.elem_type)
        else:
            assert other.SerializeToString() == value.SerializeToString()
    assert interface(found) == interface(model)


def interface(model: ModelProto) -> tuple[list[bytes], list[str], list[tuple[str, str]], list[tuple[str, int]]]:
    """The interface of a model: inputs without a fixed value, names of outputs, metadata, versions."""
    fixed = {tensor.name for tensor in model.graph.initializer} if model.ir_version < 4 else set()
    return (
        [value.SerializeToString() for value in model.graph.input if value.name not in fixed],
        [value.name for value in model.graph.output],
        [(entry.key, entry.value) for entry in model.metadata_props],
        sorted((entry.domain, entry.version) for entry in model.opset_import),
    )


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """All nodes of a model, including subgraphs and local functions."""
    pending: list[GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while pending:
        for node in pending.pop().node:
            yield node
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else attribute.graphs


def operators(model: ModelProto, leave_out: tuple[str, ...] = ("Constant", "ConstantOfShape", "Identity")) -> dict[str, int]:
    """The number of nodes of each operator in a model, without nodes that only hold a constant or rename a value."""
    return dict(Counter(node.op_type for node in nodes(model) if node.op_type not in leave_out))


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Random numbers of type float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
