"""Shared by the tests of ONNX import and export: models from text, ONNX Runtime without optimizations, counts of live nodes."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto

from passat.ir.expr import Call, Expr, Function
from passat.ir.module import IRModule
from passat.ir.onnx_runtime import onnx_runtime
from passat.ir.traverse import rewrite

Feeds = Mapping[str, Any]


def _parse(text: str, *, opset: int = 17, ir: int = 8, imports: str = "") -> ModelProto:
    model: ModelProto = onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}{imports}]>\n{text}')
    return model


@pytest.fixture(scope="session")
def parse() -> Callable[..., ModelProto]:
    """A model from ONNX's text form of its graph."""
    return _parse


def _run(model: ModelProto, feeds: Feeds) -> list[Any]:
    ort = onnx_runtime()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, dict(feeds))
    return found


@pytest.fixture(scope="session")
def run() -> Callable[[ModelProto, Feeds], list[Any]]:
    """The outputs of a model under ONNX Runtime with its optimizations off."""
    return _run


def _inner(node: NodeProto) -> list[GraphProto]:
    return [graph for attribute in node.attribute for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)]


def _count(graph: GraphProto, counter: Counter[str]) -> set[str]:
    """Counts the nodes that the outputs depend on, and collects the names that the graph reads."""
    live = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if live & set(node.output):
            live |= set(node.input)
            if node.op_type not in ("Constant", "ConstantOfShape"):
                counter[f"{node.domain}.{node.op_type}"] += 1
            for graph_ in _inner(node):
                live |= _count(graph_, counter)
    return live


def _histogram(model: ModelProto) -> Counter[str]:
    counter: Counter[str] = Counter()
    _count(model.graph, counter)
    return counter


@pytest.fixture(scope="session")
def histogram() -> Callable[[ModelProto], Counter[str]]:
    """The number of nodes of each operator that the outputs depend on, including subgraphs, without constants."""
    return _histogram


def rebuilt_module(module: IRModule) -> IRModule:
    """The same program with new objects for all calls."""

    def replace(old: Expr, new: Expr) -> Expr:
        if new is old and isinstance(old, Call):
            return Call(old.op, old.args, old.attrs, old._type_args, old.span)
        if new is old and isinstance(old, Function):
            return Function(old.params, old.body, old.ret_type, old.type_params, old.attrs, old.span)
        return new

    main = module["main"]
    return IRModule({"main": main.with_body(rewrite(main.body, replace))}, attrs=module.attrs)


@pytest.fixture(scope="session")
def rebuilt() -> Callable[[IRModule], IRModule]:
    """The same program with new objects for all calls, so that the exporter writes each with its operator's writer."""
    return rebuilt_module


@pytest.fixture
def random() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(0)
