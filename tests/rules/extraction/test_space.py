"""The search space of extraction: biases, and e-graphs in files."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr, Function
from passat.ir.infer import infer_type
from passat.rules.cost import ROOFLINE, program_cost
from passat.rules.engine.directions import Directions, Stage
from passat.rules.engine.engine import Engine
from passat.rules.engine.report import EngineReport
from passat.rules.extraction.ladder import climb
from passat.rules.extraction.space import EGraphFileError, parse_egraph, read_egraph
from passat.rules.library import Constants, Factoring, Products, ScaleAxis
from passat.rules.passes.algebra import linear_algebra
from passat.rules.passes.simplify import fold_batch_norm
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.running import apply, assert_equal_in_value, operators
from tests.share import share

RULES = [rule for rules in (ScaleAxis, Factoring, Products, Constants) for rule in rules if not rule.back]


@st.composite
def programs(draw: st.DrawFn) -> Function:
    """Random programs of products, biases, sums and their readers, with shared parts; some return a reshape."""
    values: list[Expr] = [var("x", (4, 4))]
    for seed in range(draw(st.integers(2, 12))):
        one, other = (values[draw(st.integers(0, len(values) - 1))] for _ in range(2))
        kind = draw(st.sampled_from(["product", "bias", "shift", "number", "sum", "times", "relu"]))
        if kind == "product":
            values.append(ops.nn.dense(one, numbers((4, 4), seed=seed)))
        elif kind == "bias":
            values.append(ops.nn.bias_add(one, numbers((4,), seed=seed), axis=-1))
        elif kind == "relu":
            values.append(ops.nn.relu(one))
        else:
            shift = {"shift": numbers((4,), seed=seed), "number": splat(3.0)}
            values.append(one * other if kind == "times" else one + shift.get(kind, other))
    last = values[-1] * values[draw(st.integers(0, len(values) - 1))]
    return func(ops.reshape(last, newshape=(16,)) if draw(st.booleans()) else last)


@settings(max_examples=share(20, 40))
@given(programs())
def test_extraction_and_program_cost_agree(function: Function) -> None:
    infer_type(function)
    report = EngineReport()
    made = infer_type(Engine([Stage(tuple(map(Directions, RULES)))]).run(function, report))
    assert not report.failures
    if report.cost_after and made is not function:  # a program that stays as it was may contain equal calls, which the e-graph counts once
        assert report.cost_after == pytest.approx(program_cost(made, ROOFLINE), abs=1e-7)
    assert program_cost(made, ROOFLINE) <= program_cost(function, ROOFLINE) + 1e-7


def test_a_view_is_free_inside_a_program_and_a_copy_where_the_program_returns_it() -> None:
    """ONNX Runtime allocates each result separately, so a Reshape that is an output copies."""
    x = var("x", (64, 1024))
    view = ops.reshape(x, newshape=(65536,))
    inside, returned, copied = (program_cost(infer_type(func(body)), ROOFLINE) for body in (ops.exp(view), ops.exp(x), ops.copy(x)))
    assert inside - returned < copied / 10
    assert program_cost(infer_type(func(view)), ROOFLINE) == pytest.approx(copied)


def hard_swish(weight: Expr) -> Expr:
    biased = ops.nn.bias_add(weight, numbers((3,)), axis=1)
    made: Expr = (biased * ops.clip(biased + splat(3.0), a_min=0.0, a_max=6.0)) / splat(6.0)
    return made


def test_a_bias_that_something_else_reads_stays_one() -> None:
    """HardSwish as exporters write it: with the 3 in a second bias, neither could be absorbed by the convolution."""
    function = func(hard_swish(ops.nn.conv2d(var("x", (1, 2, 5, 5)), numbers((3, 2, 3, 3)))))
    for pass_ in (fold_batch_norm(), linear_algebra()):
        made = apply(pass_, function).function
        assert operators(made.body).count("nn.bias_add") == 1
        assert_equal_in_value(function, made, exact=False)


def node(eclass: str, *children: str, cost: Any = 1.0) -> dict[str, Any]:
    return {"op": "f", "cost": cost, "eclass": eclass, "children": list(children)}


GOOD = {
    "nodes": {"a0": node("a", "b0", cost=2), "a1": node("a", "c0"), "b0": node("b"), "c0": node("c", "b0")},
    "root_eclasses": ["a", "a"],
}


def test_nodes_classes_and_roots() -> None:
    egraph = parse_egraph(GOOD)
    assert egraph.names == ["a0", "a1", "b0", "c0"]
    assert egraph.space.classes == [0, 0, 2, 3]
    assert egraph.space.children == [(2,), (3,), (), (2,)]
    assert egraph.space.costs == [2.0, 1.0, 1.0, 1.0]
    assert egraph.space.alternatives == {0: [0, 1]}
    assert egraph.roots == [0]
    assert climb(egraph.space, egraph.roots).cost == 3.0


def test_other_content_of_a_file_is_ignored() -> None:
    assert parse_egraph({**GOOD, "class_data": {"a": {"type": "i32"}}}).roots == [0]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], 'not an e-graph: "nodes"'),
        ({"nodes": {}}, 'a list of "root_eclasses"'),
        ({"nodes": [], "root_eclasses": []}, 'not an e-graph: "nodes"'),
        ({"nodes": {"a": node("x")}, "root_eclasses": []}, "it has no roots"),
        ({"nodes": {"a": node("x")}, "root_eclasses": ["y"]}, "no node has the root e-class 'y'"),
        ({"nodes": {"a": node("x")}, "root_eclasses": [["x"]]}, r"no node has the root e-class \['x'\]"),
        ({"nodes": {"a": node("x", "b")}, "root_eclasses": ["x"]}, "the node 'a' has the child 'b', which is not a node"),
        ({"nodes": {"a": {"op": "f"}}, "root_eclasses": ["x"]}, "the node 'a' must have an \"eclass\""),
        ({"nodes": {"a": node("x", cost=-1)}, "root_eclasses": ["x"]}, "the cost of the node 'a' is -1"),
        ({"nodes": {"a": node("x", cost=float("nan"))}, "root_eclasses": ["x"]}, "the cost of the node 'a' is nan"),
        ({"nodes": {"a": node("x", cost="1")}, "root_eclasses": ["x"]}, "the cost of the node 'a' is '1'"),
        ({"nodes": {"a": node("x", cost=True)}, "root_eclasses": ["x"]}, "the cost of the node 'a' is True"),
    ],
)
def test_files_that_are_not_e_graphs_are_rejected(data: Any, sentence: str) -> None:
    with pytest.raises(EGraphFileError, match=sentence):
        parse_egraph(data)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"nodes": {"a": {"cost": 1}}, "root_eclasses": []}'])
def test_errors_name_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "graph.json"
    path.write_bytes(content)
    with pytest.raises(EGraphFileError, match=r"graph\.json(:| is not JSON:) "):
        read_egraph(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GOOD))
    assert read_egraph(path).names == parse_egraph(GOOD).names
    with pytest.raises(FileNotFoundError):
        read_egraph(tmp_path / "none.json")
