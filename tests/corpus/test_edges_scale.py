"""Long chains, wide graphs, many paths: any depth and width is supported, and everything that can be merged is merged.

CI takes small sizes, `make nightly` the large ones.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import passat
from benchmarks.graphs import chain, wide
from passat.ir.onnx import check
from tests.corpus.optimizing import floats, operators, optimize
from tests.share import SOAK, share

LONG = share(1_000, 20_000)

Constants = dict[str, Any]


def build(nodes: Sequence[NodeProto], outputs: Sequence[str], shape: Sequence[int], constants: Constants | None = None) -> ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def repeated(length: int, make: Callable[[int, str, str], NodeProto], shape: Sequence[int], **constants: object) -> ModelProto:
    names = ["x", *(f"v{i}" for i in range(length))]
    nodes = [make(i, source, target) for i, (source, target) in enumerate(pairwise(names))]
    return build(nodes, [names[-1]], shape, constants)


@pytest.mark.parametrize("length", [share(3_000, 50_000)])
def test_a_long_chain(length: int) -> None:
    result = passat.optimize(chain(length), opt_level=3, verify=not SOAK)
    check(result.model)
    assert result.report.node_count_after <= length
    assert not result.report.limits


@pytest.mark.parametrize("size", [20_000, 50_000] if SOAK else [2_000])
def test_a_wide_graph(size: int) -> None:
    model = wide(size)
    result = passat.optimize(model, opt_level=3)
    check(result.model)
    assert result.report.verification is not None
    assert result.report.verification.equal is True
    assert result.report.node_count_after < 0.85 * size
    assert not result.report.limits


def test_a_graph_of_more_paths_than_can_be_walked() -> None:
    model = repeated(100, lambda i, a, b: helper.make_node("Mul" if i % 2 else "Add", [a, a], [b]), (2, 3))
    optimize(model, {"x": floats(2, 3) / 1e3})
    nodes = []
    for i in range(100):
        source = f"v{i - 1}" if i else "x"
        nodes += [helper.make_node("Neg", [source], [f"n{i}"]), helper.make_node("Neg", [f"n{i}"], [f"m{i}"])]
        nodes += [helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]), helper.make_node("Sub", [f"t{i}", source], [f"v{i}"])]
    out, _ = optimize(build(nodes, ["v99"], (2, 3)), {"x": floats(2, 3)})
    assert operators(out) == {"Tanh": 100, "Sub": 100}


CHAINS = {
    "negations": lambda n: repeated(n, lambda i, a, b: helper.make_node("Neg", [a], [b]), (2, 3)),
    "copies": lambda n: repeated(n, lambda i, a, b: helper.make_node("Identity", [a], [b]), (2, 3)),
    "zeros": lambda n: repeated(n, lambda i, a, b: helper.make_node("Add", [a, "z"], [b]), (2, 3), z=np.float32(0)),
    "transposes": lambda n: repeated(n, lambda i, a, b: helper.make_node("Transpose", [a], [b], perm=[1, 2, 0]), (3, 3, 3)),
    "transposed views": lambda n: repeated(n, lambda i, a, b: helper.make_node("Transpose", [a], [b], perm=[1, 2, 0]), (3, 3, 1)),
    "reshapes": lambda n: repeated(n, lambda i, a, b: helper.make_node("Reshape", [a, "st"[i % 2]], [b]), (2, 3), s=[6, 1], t=[3, 2]),
    "differences": lambda n: repeated(
        n, lambda i, a, b: helper.make_node("Sub", [a, "c"], [b]), (2, 3), c=np.array([0.5, 0.25, 1], np.float32)
    ),
    "new axes": lambda n: repeated(
        n, lambda i, a, b: helper.make_node("Squeeze" if i % 2 else "Unsqueeze", [a, "axes"], [b]), (2, 3), axes=[0]
    ),
    "casts": lambda n: repeated(n, lambda i, a, b: helper.make_node("Cast", [a], [b], to=1 if i % 2 else 11), (2, 3)),
    "maxima": lambda n: repeated(n, lambda i, a, b: helper.make_node("Relu", [a], [b]), (2, 3)),
    "bounds": lambda n: repeated(
        n, lambda i, a, b: helper.make_node("Clip", [a, "low", "high"], [b]), (2, 3), low=np.float32(0), high=np.float32(6)
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_that_collapse(name: str) -> None:
    result = passat.optimize(CHAINS[name](LONG), opt_level=3, verify=not SOAK)
    check(result.model)
    assert result.report.node_count_after <= 1
    assert not result.report.limits


@pytest.mark.parametrize("name", CHAINS)
def test_chains_that_are_cut_into_regions_collapse(name: str) -> None:
    result = passat.optimize(CHAINS[name](400), opt_level=3, verify=False, config={"rules.region_nodes": 100})
    assert result.report.node_count_after <= 1


def test_chains_of_constants_collapse_as_far_as_limits_let_them() -> None:
    """Sums of constants can be merged in any order, so there are more ways than fit into memory; a limit stops that."""
    length = share(60, 8_000)
    model = repeated(length, lambda i, a, b: helper.make_node("Add", [a, "c"], [b]), (2, 3), c=np.float32(0.5))
    out, report = optimize(model, {"x": floats(2, 3)}, again=False)
    assert sum(operators(out).values()) <= (1 if not report.limits else length / 50)


def test_shifted_quotients_reach_no_limit() -> None:
    """Each difference and quotient by a vector was combined with each before it, so ten of both ran into the limit of matches."""
    generator = np.random.default_rng(0)
    constants = {f"c{i}": generator.uniform(1, 2, (4, 1, 1)).astype(np.float32) for i in range(20)}
    model = repeated(20, lambda i, a, b: helper.make_node("Div" if i % 2 else "Sub", [a, f"c{i}"], [b]), (1, 4, 8, 8), **constants)
    out, report = optimize(model, {"x": floats(1, 4, 8, 8)}, again=False)
    assert sum(operators(out).values()) <= 4
    assert not report.limits


def test_slices_of_slices_collapse() -> None:
    length = share(40, 500)
    model = repeated(
        length,
        lambda i, a, b: helper.make_node("Slice", [a, "one", "end", "axis"], [b]),
        (length + 4, 3),
        one=[1],
        end=[np.iinfo(np.int64).max],
        axis=[0],
    )
    out, _ = optimize(model, {"x": floats(length + 4, 3)})
    assert operators(out) == {"Slice": 1}


def test_one_node_with_many_operands_and_one_value_with_many_readers() -> None:
    nodes = [helper.make_node("Mul", ["x", f"c{i}"], [f"v{i}"]) for i in range(LONG)]
    nodes.append(helper.make_node("Concat", [f"v{i}" for i in range(LONG)], ["y"], axis=0))
    model = build(nodes, ["y"], (1, 3), {f"c{i}": np.array(i + 2, np.float32) for i in range(LONG)})
    out, _ = optimize(model, {"x": floats(1, 3)}, verify=not SOAK)
    assert operators(out) == {"Mul": LONG, "Concat": 1}


def test_a_node_with_many_results() -> None:
    nodes = [helper.make_node("Split", ["x"], [f"p{i}" for i in range(LONG)], axis=0, num_outputs=LONG)]
    nodes += [helper.make_node("Neg", [f"p{i}"], [f"n{i}"]) for i in range(LONG)]
    nodes += [helper.make_node("Neg", [f"n{i}"], [f"m{i}"]) for i in range(LONG)]
    nodes.append(helper.make_node("Concat", [f"m{i}" for i in range(LONG)], ["y"], axis=1))
    out, _ = optimize(build(nodes, ["y"], (LONG, 3)), {"x": floats(LONG, 3)}, verify=not SOAK)
    assert operators(out) == {"Split": 1, "Concat": 1}


def test_many_outputs() -> None:
    nodes = [helper.make_node("Mul", ["x", f"c{i}"], [f"v{i}"]) for i in range(LONG)]
    model = build(nodes, [f"v{i}" for i in range(LONG)], (1, 3), {f"c{i}": np.array(i % 7, np.float32) for i in range(LONG)})
    out, _ = optimize(model, {"x": floats(1, 3)}, verify=not SOAK)
    assert len(out.graph.output) == LONG
    assert operators(out) == {"Mul": 6}


def test_a_chain_of_constants_folds() -> None:
    nodes = [helper.make_node("Add", [f"v{i - 1}" if i else "c", "d"], [f"v{i}"]) for i in range(LONG)]
    nodes.append(helper.make_node("Mul", ["x", f"v{LONG - 1}"], ["y"]))
    out, _ = optimize(build(nodes, ["y"], (2, 3), {"c": np.ones(3, np.float32), "d": np.array([1, 2, 3], np.float32)}), {"x": floats(2, 3)})
    assert operators(out) == {"Mul": 1}


def test_many_branches() -> None:
    count = LONG // 10
    nodes = []
    for i in range(count):
        source = f"v{i - 1}" if i else "x"
        branches = [
            helper.make_graph(
                [helper.make_node("Add", [source, "zero"], [f"a{i}"]), helper.make_node(op, [f"a{i}"], [f"b{i}"])],
                op,
                [],
                [helper.make_tensor_value_info(f"b{i}", TensorProto.FLOAT, (2, 3))],
            )
            for op in ("Tanh", "Neg")
        ]
        nodes.append(helper.make_node("If", ["c"], [f"v{i}"], then_branch=branches[0], else_branch=branches[1]))
    model = build(nodes, [f"v{count - 1}"], (2, 3), {"zero": np.zeros((), np.float32)})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    out, _ = optimize(model, {"x": floats(2, 3), "c": np.array(True)}, verify=not SOAK)
    assert operators(out) == {"If": count, "Tanh": count, "Neg": count}


def test_subgraphs_nested_deeply() -> None:
    inner = helper.make_graph(
        [helper.make_node("Add", ["x", "zero"], ["y0"])], "g0", [], [helper.make_tensor_value_info("y0", TensorProto.FLOAT, (2, 3))]
    )
    for depth in range(1, 12):
        other = helper.make_graph(
            [helper.make_node("Neg", ["x"], [f"n{depth}"])],
            f"e{depth}",
            [],
            [helper.make_tensor_value_info(f"n{depth}", TensorProto.FLOAT, (2, 3))],
        )
        nodes = [
            helper.make_node("If", ["c"], [f"z{depth}"], then_branch=inner, else_branch=other),
            helper.make_node("Add", [f"z{depth}", "zero"], [f"y{depth}"]),
        ]
        inner = helper.make_graph(nodes, f"g{depth}", [], [helper.make_tensor_value_info(f"y{depth}", TensorProto.FLOAT, (2, 3))])
    model = build(inner.node, ["y11"], (2, 3), {"zero": np.zeros((), np.float32)})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    out, _ = optimize(model, *({"x": floats(2, 3), "c": np.array(flag)} for flag in (True, False)))
    assert "Add" not in operators(out)
