"""The data of a page for small models."""

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import passat
from passat.page.document import egraphs_of
from passat.page.origins import input_of, made_by_rules
from passat.page.texts import Strings, script_json
from passat.pipelines import build_pipeline
from passat.rules import RuleSet, op, tensors
from passat.rules.planned_rules import leaves
from passat.rules.rule_pass import RulePass
from tests.frontdoor.page.large_model import NODES_OF_A_LAYER, layered
from tests.frontdoor.page.pages import column, data_of, optimized, small_model
from tests.fuzz.graphs import random_case
from tests.share import share

WALKS = {pass_.info.name for pass_ in leaves(build_pipeline()) if not isinstance(pass_, RulePass)}
"""The passes of the default pipeline that have no rules."""
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "models"


def test_the_models_before_and_after() -> None:
    data = data_of(optimized(small_model()))
    assert column(data, "before", "label") == ["x", "Add", "Mul", "Sqrt", "Add", "y"]
    assert column(data, "after", "label") == ["x", "Abs", "Add", "y"]
    assert data["graphs"]["before"]["state"] == [0, 1, 1, 1, 0, 0]
    assert data["graphs"]["after"]["state"] == [0, 1, 0, 0]
    assert column(data, "after", "rule") == ["", "Small.root", "", ""]
    assert column(data, "after", "name") == ["x", "/block/Sqrt", "/block/Add_1", "y"]
    assert column(data, "before", "type")[2] == "float32[2, 3]"
    assert data["graphs"]["before"]["kind"] == [1, 0, 0, 0, 0, 2]


def test_operands_are_nodes_or_the_texts_of_constants() -> None:
    data = data_of(optimized(small_model()))
    x, zero = data["graphs"]["before"]["operands"][1]
    assert x == 0
    assert data["strings"][-1 - zero] == "float32[3] = [0.0, 0.0, 0.0]"
    assert data["graphs"]["before"]["operands"][2] == [1, 1]


def test_counterparts() -> None:
    data = data_of(optimized(small_model()))
    assert data["graphs"]["before"]["twin"] == [0, -1, -1, -1, 2, 3]
    assert data["graphs"]["after"]["twin"] == [0, -1, 4, 5]


def test_a_change_has_its_nodes_costs_and_rules() -> None:
    data = data_of(optimized(small_model()))
    (change,) = data["regions"]
    assert (change["before"], change["after"]) == ([["Add", 1], ["Mul", 1], ["Sqrt", 1]], [["Abs", 1]])
    assert change["nodes"] == [3, 1]
    (place,) = change["instances"]
    assert (place["before"], place["after"], place["what"]) == ([1, 2, 3], [1], [])
    assert set(place["rules"]) == {"Small.root", "Small.add_zero"}
    assert change["costs"][0] - change["costs"][1] == pytest.approx(data["head"]["costs"][0] - data["head"]["costs"][1])


def test_rules_share_the_saving_of_a_change() -> None:
    data = data_of(optimized(small_model()))
    rules = {rule["name"]: rule for rule in data["rules"]}
    assert rules["Small.root"]["saving"] == rules["Small.add_zero"]["saving"] > 0
    assert sum(rule["saving"] for rule in rules.values()) == pytest.approx(data["head"]["costs"][0] - data["head"]["costs"][1])
    assert [rules["Small.root"][name] for name in ("regions", "removed", "made")] == [1, 2, 1]


def test_a_node_is_paired_with_those_that_it_was_made_from() -> None:
    """Not with a node that only preceded its reader."""
    text = """<ir_version: 9, opset_import: ["" : 17]> g (float[2, 3] x) => (float[2, 3] y, float[2, 3] u) <float[3] zero = {0, 0, 0}> {
        m = Mul(x, x)
        s = Sqrt(m)
        r = Add(s, zero)
        y = Relu(r)
        u = Tanh(s)
    }"""
    data = data_of(optimized(onnx.parser.parse_model(text)))
    assert [(change["before"], change["after"]) for change in data["regions"]] == [
        ([["Mul", 1], ["Sqrt", 1]], [["Abs", 1]]),
        ([["Add", 1]], []),
    ]


def test_the_nodes_of_one_rewrite_are_one_change() -> None:
    """The saving of a change is not larger than that of the model."""
    text = """<ir_version: 9, opset_import: ["" : 17]> g (float[2, 64] x) => (float[2, 64] y) <float two = {2}, float eps = {1e-6}> {
        square = Pow(x, two)
        mean = ReduceMean <axes = [-1]> (square)
        shifted = Add(mean, eps)
        root = Sqrt(shifted)
        inverse = Reciprocal(root)
        normal = Mul(x, inverse)
        y = Mul(normal, scale)
    }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.linspace(1, 2, 64, dtype=np.float32), "scale"))
    data = data_of(passat.optimize(model, record=True, verify=False))
    (change,) = data["regions"]
    assert {name for name, _ in change["after"]} == {"ReduceMean", "Add", "Sqrt", "Div"}
    assert change["costs"][0] - change["costs"][1] == pytest.approx(data["head"]["costs"][0] - data["head"]["costs"][1])


def test_a_product_with_its_bias_is_one_change() -> None:
    """A product and a sum are written as one Gemm. The first Reshape makes the matrix, the second restores the dimensions."""
    text = """<ir_version: 9, opset_import: ["" : 17]> g (float[1, 4, 6, 8] x) => (float[1, 4, 6, 256] y) {
        p = MatMul(x, up)
        q = Add(p, bias)
        r = Relu(q)
        s = MatMul(r, down)
        t = Add(s, after)
        y = MatMul(t, up)
    }"""
    model = onnx.parser.parse_model(text)
    shapes = {"up": (8, 256), "bias": (256,), "down": (256, 8), "after": (8,)}
    rng = np.random.default_rng(0)
    model.graph.initializer.extend(numpy_helper.from_array(rng.random(shape, np.float32), name) for name, shape in shapes.items())
    data = data_of(passat.optimize(model, record=True, verify=False))
    (change,) = data["regions"]
    assert dict(change["before"]) == {"MatMul": 1, "Add": 1}
    assert dict(change["after"]) == {"Gemm": 1, "Reshape": 1}
    assert len(change["instances"]) == 2


def test_the_largest_saving_comes_first() -> None:
    data = data_of(passat.optimize(EXAMPLES / "bert_tiny.onnx", record=True, verify=False))
    savings = [change["costs"][0] - change["costs"][1] for change in data["regions"]]
    assert savings == sorted(savings, reverse=True)
    guarded, biased, scaled, *_ = data["regions"]
    assert (guarded["before"], guarded["after"]) == ([["IsNaN", 1], ["Where", 1]], [["ThresholdedRelu", 1]])
    assert (biased["before"], biased["after"]) == ([["MatMul", 1], ["Add", 1]], [["Gemm", 1]])
    assert len(biased["instances"]) == 7
    assert (scaled["before"], scaled["after"]) == ([["MatMul", 1], ["Add", 1], ["Mul", 1]], [["Gemm", 1]])
    assert len(scaled["instances"]) == 4, "of queries and keys, whose scale was folded before"
    for side in (0, 1):
        name = ("before", "after")[side]
        states = data["graphs"][name]["state"]
        assert sorted(i for change in data["regions"] for place in change["instances"] for i in place[name]) == [
            i for i, state in enumerate(states) if state
        ], "each changed node belongs to one change"


@pytest.mark.parametrize("name", ["bert_tiny.onnx", "resnet_tiny.onnx"])
def test_as_many_nodes_are_shown_as_the_report_counts(name: str) -> None:
    data = data_of(passat.optimize(EXAMPLES / name, record=True, verify=False))
    assert [sum(data["graphs"][side]["counted"]) for side in ("before", "after")] == data["head"]["nodes"]


def test_an_attribute_that_changed_is_a_change_of_its_own() -> None:
    data = data_of(passat.optimize(EXAMPLES / "bert_tiny.onnx", record=True, verify=False))
    places = [place for change in data["regions"] for place in change["instances"] if place["what"]]
    assert all(data["graphs"]["before"]["state"][i] == 2 for place in places for i in place["before"])
    assert any("became" in text or "added" in text for place in places for text in place["what"])


def test_rules() -> None:
    rules = {rule["name"]: rule for rule in data_of(optimized(small_model()))["rules"]}
    zero, root = rules["Small.add_zero"], rules["Small.root"]
    assert (zero["matched"], zero["rejected"], zero["unions"], zero["made"]) == (2, 1, 1, 0)
    assert zero["reasons"] == [["is_all(c, 0): the elements of the constant are 1.0, not 0", 1]]
    assert (root["matched"], root["rejected"], root["unions"], root["made"], root["share"]) == (1, 0, 1, 1, 0.5)
    assert root["seconds"] > 0


class Detours(RuleSet):
    """A rule whose result costs more than its match, one whose result is removed, and one that uses the result of another."""

    x, y = tensors("x y")
    costlier = op.abs(x) >> op.sqrt(x * x)
    gone = x + 0 >> x
    first = op.exp(x) * op.exp(y) >> op.exp(x + y)
    second = op.log(op.exp(x)) >> x


@pytest.mark.parametrize(("last", "taken"), [("Log", {"gone", "first", "second"}), ("Abs", {"gone", "first"})])
def test_the_statistics_say_which_rules_fired_and_were_not_taken(last: str, taken: set[str]) -> None:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y", "r")]
    edges = [
        ("Abs", ["x"], "a"),
        ("Exp", ["a"], "b"),
        ("Exp", ["y"], "c"),
        ("Mul", ["b", "c"], "d"),
        (last, ["d"], "e"),
        ("Add", ["e", "zero"], "r"),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, operands, [result]) for kind, operands, result in edges],
        "g",
        infos[:2],
        infos[2:],
        [numpy_helper.from_array(np.zeros((), np.float32), "zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    report = passat.optimize(model, passes="Detours", rules=[Detours], record=True, verify=False).report
    fired = {rule.name.partition(".")[2]: rule.taken for rule in report.rules if rule.name.startswith("Detours.") and rule.fired}
    assert fired == {name: name in taken for name in ("costlier", "gone", "first", *(["second"] if last == "Log" else []))}
    lines = [line.split() for line in str(report).splitlines() if line.endswith("fired, not extracted")]
    assert [line[0] for line in lines] == ["Detours.costlier"]


def test_rules_that_matched_nothing() -> None:
    assert data_of(optimized(small_model()))["silent"] == ["Small.never"]


def test_rounds() -> None:
    (run,) = data_of(optimized(small_model()))["runs"]
    assert (run["pass"], run["function"], run["initial"], run["applications"], run["stopped"]) == ("Small", "main", 7, 2, "saturated")
    assert [tuple(each[:4]) for each in run["rounds"]] == [(8, 8, 3, 2), (8, 6, 0, 0)]


def test_the_egraph() -> None:
    data = data_of(optimized(small_model()))
    (graph,) = data["egraphs"]
    found: dict[int, list[tuple[str, str, int]]] = {}
    for cls, label, rule, taken in zip(graph["cls"], graph["label"], graph["rule"], graph["taken"], strict=True):
        found.setdefault(cls, []).append((data["strings"][label], data["strings"][rule], taken))
    assert [("Sqrt", "", 0), ("Abs", "Small.root", 1)] in found.values()
    assert [("x", "", 1), ("Add", "", 0)] in found.values()
    assert (graph["nodes"], graph["total"]) == (8, 8)
    run, cls = data["graphs"]["after"]["place"][1]
    assert graph["classes"].index(cls) == next(at for at, nodes in found.items() if ("Sqrt", "", 0) in nodes)
    assert run == 0


def test_plan_and_passes() -> None:
    data = data_of(optimized(small_model()))
    assert data["plan"]["steps"] == [["1", "InferType", "required by Small"], ["2", "Small", "listed, level 0"]]
    assert [each["name"] for each in data["passes"]] == ["InferType", "Small"]
    assert data["plan"]["svg"]


def test_the_input_that_came_back() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "same", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 17)])
    data = data_of(optimized(model))
    assert data["head"]["kept"] == "no pass changed anything"
    assert column(data, "before", "label") == column(data, "after", "label")
    assert not any(data["graphs"]["after"]["state"])
    assert data["regions"] == []
    assert [rule for rule in data["rules"] if rule["made"]] == []


def test_a_node_is_traced_through_several_passes() -> None:
    result = passat.optimize(EXAMPLES / "bert_tiny.onnx", record=True, verify=False)
    data = data_of(result)
    assert result.record is not None
    made, calls = made_by_rules(result.record)
    assert made == {rule["name"]: rule["made"] for rule in data["rules"] if rule["made"]}
    assert all(rule["rejected"] == sum(count for _, count in rule["reasons"]) for rule in data["rules"])
    assert made
    assert calls == data["head"]["nodes"][1]
    rules = column(data, "after", "rule")
    assert {name: rules.count(name) for name in set(rules) - {""}} == made


def test_recording_does_not_change_the_result() -> None:
    model = EXAMPLES / "resnet_tiny.onnx"
    recorded, plain = passat.optimize(model, record=True, verify=False), passat.optimize(model, verify=False)
    assert recorded.model == plain.model
    assert plain.record is None
    assert not plain.report.recorded


def test_time_decides_between_candidates() -> None:
    result = passat.optimize(EXAMPLES / "resnet_tiny.onnx", choose="time", candidates=2, record=True, verify=False)
    data = data_of(result)
    assert len(data["head"]["timings"]) >= 2
    assert any(run["first"] for run in data["runs"])
    assert len(data["runs"]) == len(data["egraphs"])


def test_branches_and_local_functions_are_drawn() -> None:
    def branch(name: str, operator: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        return helper.make_graph([helper.make_node(operator, ["x"], [name])], name, [], [value])

    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch("t", "Relu"), else_branch=branch("e", "Sigmoid"))]
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
    graph = helper.make_graph(nodes, "branches", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    data = data_of(optimized(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))
    assert {"If", "Relu", "Sigmoid", "y"} <= set(column(data, "before", "label"))
    assert "If 't': then_branch" in column(data, "before", "where") or "If 'y': then_branch" in column(data, "before", "where")


def test_branches_beside_each_other_may_use_the_same_names() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]> g (bool b, bool c, float[2] x) => (float[2] y, float[2] z) {
        y = If (b) <then_branch = t () => (float[2] u) { n = Neg (x) m = Neg (n) u = Exp (m) }, else_branch = e () => (float[2] v) { v = Log (x) }>
        z = If (c) <then_branch = t () => (float[2] u) { n = Neg (x) m = Neg (n) u = Sin (m) }, else_branch = e () => (float[2] v) { v = Cos (x) }>
    }"""
    data = data_of(passat.optimize(onnx.parser.parse_model(text), record=True, verify=False))
    gone = [number for change in data["regions"] for place in change["instances"] for number in place["before"]]
    assert sorted(gone) == [number for number, label in enumerate(column(data, "before", "label")) if label == "Neg"]


def test_large_models_are_truncated_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.page.document.MOST", 20)
    result = optimized(layered(3))
    assert result.record is not None
    cut = data_of(result)["graphs"]["before"]
    assert len(cut["kind"]) == 20
    assert cut["total"] == len(input_of(result.record).nodes) == 3 * NODES_OF_A_LAYER + 3  # two inputs and the output
    assert all(part < 20 for parts in cut["operands"] for part in parts)


def test_large_egraphs_keep_the_surroundings_of_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.page.document.MOST_ENODES", 30)
    result = passat.optimize(layered(20), record=True, verify=False)
    assert result.record is not None
    strings = Strings()
    found = [graph for graph in egraphs_of(result.record.runs, strings) if graph is not None]
    busiest = max(found, key=lambda graph: graph["total"])
    assert busiest["nodes"] <= 30 < busiest["total"]
    assert any(strings.texts[rule] for rule in busiest["rule"])
    assert all(-1 <= part < len(busiest["classes"]) for parts in busiest["operands"] for part in parts)


def test_weights_are_not_in_the_page() -> None:
    model = small_model()
    secret = np.arange(6, dtype=np.float32).reshape(2, 3) + 0.123456
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(secret, "one"))
    texts = data_of(optimized(model))["strings"]
    assert "float32[2, 3]" in texts
    assert not any("0.123" in text for text in texts)


@pytest.mark.parametrize("first", range(0, 1000, share(100, 50)))
def test_data_of_random_models_have_valid_references(first: int) -> None:
    case = next(case for case in map(random_case, itertools.count(first)) if case is not None)
    result = passat.optimize(case.model, record=True, verify=False)
    data = data_of(result)
    for graph in data["graphs"].values():
        assert len({len(values) for values in graph.values() if isinstance(values, list)}) == 1
        assert all(part < len(graph["kind"]) for parts in graph["operands"] for part in parts)
        assert all(-1 - part < len(data["strings"]) for parts in graph["operands"] for part in parts if part < 0)
        for place in filter(None, graph["place"]):
            assert place[1] in data["egraphs"][place[0]]["classes"]
    rules = [rule for rule, counted in zip(column(data, "after", "rule"), data["graphs"]["after"]["counted"], strict=True) if counted]
    assert {rule["name"]: rule["made"] for rule in data["rules"] if rule["made"]} == Counter(filter(None, rules))
    assert [sum(data["graphs"][side]["counted"]) for side in ("before", "after")] == data["head"]["nodes"]
    rules, passes = column(data, "after", "rule"), column(data, "after", "pass")
    assert set(filter(None, passes)) <= WALKS
    assert not any(rule and made for rule, made in zip(rules, passes, strict=True))
    for side in ("before", "after"):
        states, twins = data["graphs"][side]["state"], data["graphs"][side]["twin"]
        assert all(twin < 0 for state, twin in zip(states, twins, strict=True) if state == 1)
        members = [i for change in data["regions"] for place in change["instances"] for i in place[side]]
        assert sorted(members) == [i for i, state in enumerate(states) if state]
    json.loads(script_json(data))


def test_results_of_eager_rules_count_as_taken() -> None:
    report = passat.optimize(EXAMPLES / "resnet_tiny.onnx", passes="FoldBatchNorm", record=True, verify=False).report
    taken = {rule.name: rule.taken for rule in report.rules if rule.fired}
    assert taken == {"ConstantFolding.call": None, "ScaleAxis.normalized": True}
