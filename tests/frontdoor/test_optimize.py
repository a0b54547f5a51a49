"""`passat.optimize`: results, rejected arguments, kept models, and reproducible output."""

import gc
import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import passat
from passat import MismatchError, optimize, relay
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError
from passat.passmgr import InferType, PassContext, PassInfo, PassInstrument, PipelineError, Sequential, module_pass
from passat.pipelines import build_pipeline
from passat.rules import RuleError, RuleSet, op, rule_pass, tensors
from passat.rules.engine.graph import Graph
from passat.runner import Runner
from tests.frontdoor.small_pipeline import SMALL

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"
x, y = tensors("x y")


class Negations(RuleSet):
    """A sound rule that makes a program smaller."""

    doubled = op.negative(op.negative(x)) >> x


class Wrong(RuleSet):
    """An unsound rule that the type check cannot detect."""

    cosine = op.cos(x) >> x


def build(nodes: Sequence[NodeProto], constants: Mapping[str, npt.NDArray[np.generic]] | None = None) -> ModelProto:
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")}
    tensors_ = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", [values["x"]], [values["y"]], tensors_)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def chain(*ops: str) -> ModelProto:
    names = ["x", *(f"v{i}" for i in range(len(ops) - 1)), "y"]
    return build([helper.make_node(name, [names[i]], [names[i + 1]], name=f"node{i}") for i, name in enumerate(ops)])


def ops_of(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_a_model_comes_back_smaller_and_the_input_is_untouched() -> None:
    model = chain("Neg", "Neg", "Relu", "Relu")
    before = model.SerializeToString()
    result = optimize(model)
    assert ops_of(result.model) == ["Relu"]
    assert model.SerializeToString() == before
    assert result.report.verification is not None
    assert result.report.verification.equal is True
    assert (result.report.node_count_before, result.report.node_count_after) == (4, 1)
    assert result.report.cost_after < result.report.cost_before
    assert repr(result) == "<Result: 4 nodes became 1, verified>"


@pytest.mark.parametrize("name", ["bert_tiny", "resnet_tiny"])
def test_example_models(name: str, tmp_path: Path) -> None:
    result = optimize(EXAMPLES / f"{name}.onnx")
    report = result.report
    assert report.node_count_after < report.node_count_before
    assert report.verification is not None
    assert report.verification.equal is True
    assert any(rule.fired for rule in report.rules)
    result.save(tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx").SerializeToString() == result.model.SerializeToString()
    assert report.output == str(tmp_path / "out.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]


def test_the_same_input_gives_the_same_output() -> None:
    first, second = (optimize(EXAMPLES / "bert_tiny.onnx", verify=False).model.SerializeToString() for _ in range(2))
    assert first == second


def test_a_busy_machine_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates clocks that advance by an hour with each reading."""
    usual = optimize(EXAMPLES / "bert_tiny.onnx")
    hours = itertools.count(0, 3600)
    for clock in ("perf_counter", "monotonic", "process_time", "time"):
        monkeypatch.setattr(time, clock, lambda: float(next(hours)))
    slow = optimize(EXAMPLES / "bert_tiny.onnx")
    monkeypatch.undo()
    assert slow.report.seconds["passes"] >= 3600
    assert slow.model == usual.model
    assert slow.report.verification is not None
    assert usual.report.verification is not None
    assert slow.report.verification.trials == usual.report.verification.trials
    assert [rule.fired for rule in slow.report.rules] == [rule.fired for rule in usual.report.rules]


def test_optimizing_again_changes_nothing_more() -> None:
    once = optimize(EXAMPLES / "bert_tiny.onnx", verify=False)
    twice = optimize(once.model, verify=False)
    assert twice.report.node_count_after == once.report.node_count_after


def test_an_optimal_model_comes_back_unchanged() -> None:
    model = chain("Relu", "Sin")
    result = optimize(model)
    assert result.model is model
    assert result.report.kept == "no pass changed anything"
    assert result.report.nodes_after == {"Relu": 1, "Sin": 1}


@pytest.mark.parametrize("batch", [2, "batch"])
def test_sizes_of_a_resize_that_are_known_are_not_computed(batch: int | str) -> None:
    """Even if this is all that changes: reading the model drops the nodes, and no pass fires."""
    size, place = (numpy_helper.from_array(np.array(values, np.int64), name) for name, values in (("size", [8, 8]), ("place", [0])))
    end = numpy_helper.from_array(np.array([2], np.int64), "end")
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["r"], ["shape"]),
        helper.make_node("Slice", ["shape", "place", "end"], ["images"]),
        helper.make_node("Concat", ["images", "size"], ["sizes"], axis=0),
        helper.make_node("Resize", ["r", "", "", "sizes"], ["y"], mode="linear"),
    ]
    x_, y_ = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 3, edge, edge]) for name, edge in (("x", 4), ("y", 8)))
    model = helper.make_model(helper.make_graph(nodes, "g", [x_], [y_], [size, place, end]), opset_imports=[helper.make_opsetid("", 18)])
    result = optimize(model)
    assert ops_of(result.model) == ["Relu", "Resize"]
    assert optimize(result.model).report.kept == "no pass changed anything"


def test_a_more_expensive_result_is_replaced_by_the_input() -> None:
    @passat_module_pass
    def worse(model: ModelProto) -> ModelProto:
        return build([helper.make_node("Sin", ["x"], ["s"]), helper.make_node("Neg", ["s"], ["t"]), helper.make_node("Neg", ["t"], ["y"])])

    model = chain("Sin")
    result = optimize(model, passes=[worse])
    assert result.model is model
    assert "the result is not cheaper: 3 nodes" in result.report.kept


def test_the_input_is_priced_as_the_result_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """If its sizes are unknown, as many of them may be known once it is written and read again as of the result."""
    monkeypatch.setattr("passat.outcome._has_unknown_sizes", lambda module: True)
    monkeypatch.setattr("passat.outcome._cost", lambda module, prices: 1.0)
    monkeypatch.setattr("passat.outcome._cost_as_written", lambda job, given, model, *rest: 2.0 + len(model.graph.node))
    result = optimize(chain("Neg", "Neg", "Sin"))
    assert [node.op_type for node in result.model.graph.node] == ["Sin"]
    assert (result.report.kept, result.report.cost_before, result.report.cost_after) == ("", 5.0, 3.0)


def passat_module_pass(make: Callable[[ModelProto], ModelProto]) -> passat.passmgr.Pass:
    """A pass that replaces the module by that of another model."""
    from passat.ir.onnx import from_onnx, to_onnx
    from passat.passmgr import module_pass

    made: passat.passmgr.Pass = module_pass(lambda mod, ctx: from_onnx(make(to_onnx(mod))), opt_level=0, name=make.__name__.title())
    return made


class Veto(PassInstrument):
    """Vetoes a pass."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return info.name != "Vetoed"


@pytest.mark.parametrize("wrong_at", [0, 1, 2])
def test_a_wrong_rule_is_caught_and_its_pass_named(wrong_at: int) -> None:
    stage = [rule_pass(Negations, opt_level=0, name=name) for name in ("First", "Second")]
    stage.insert(wrong_at, rule_pass(Wrong, opt_level=0))
    passes = Sequential([*stage, InferType(), rule_pass(Wrong, opt_level=0, name="Vetoed")])
    with pytest.raises(
        MismatchError, match=r"the difference comes from the pass Wrong, and `passat rules bisect` finds its rule$"
    ) as caught:
        optimize(chain("Neg", "Neg", "Cos"), passes=passes, instruments=[Veto()])
    report = caught.value.report
    assert report.verification is not None
    assert report.verification.equal is False
    assert report.verification.guilty == "Wrong"
    assert "the output 'y'" in str(caught.value)


def test_a_wrong_pass_is_named_although_inexact_rules_fired() -> None:
    def wrong(mod: IRModule, ctx: PassContext) -> IRModule:
        main = mod["main"]
        return IRModule({"main": Function(main.params, relay.cos(main.body))})

    passes = "FoldBatchNorm,SimplifyExpr"
    with pytest.raises(MismatchError, match="the difference comes from the pass wrong"):
        optimize(EXAMPLES / "resnet_tiny.onnx", passes=[passes, module_pass(wrong, opt_level=0)])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems reject the name")
def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.onnx")
    onnx.save(chain("Neg", "Neg", "Cos"), path)
    result = optimize(path)
    assert result.report.verification is not None
    assert (result.report.verification.equal, ops_of(result.model)) == (True, ["Cos"])


def test_without_verification_nothing_is_compared() -> None:
    result = optimize(chain("Cos", "Sin"), passes=[rule_pass(Wrong, opt_level=0)], verify=False)
    assert ops_of(result.model) == ["Sin"]
    assert result.report.verification is None


def test_rules_of_ones_own_run_with_the_default_pipeline() -> None:
    class Sines(RuleSet):
        """Sines of negations."""

        odd = op.sin(op.negative(x)) >> op.negative(op.sin(x))

    result = optimize(chain("Neg", "Sin", "Neg"), rules=[Sines])
    assert ops_of(result.model) == ["Sin"]
    assert next(rule for rule in result.report.rules if rule.name == "Sines.odd").fired == 1


def test_a_rule_that_found_nothing_is_listed() -> None:
    report = optimize(chain("Relu", "Relu"), rules=[Negations]).report
    assert [rule.name for rule in report.rules if not rule.fired and not rule.matched] == ["Negations.doubled"]


def test_rule_sets_are_named_in_a_pipeline() -> None:
    pipeline = build_pipeline("InferType,Negations", [Negations, Wrong])
    assert [member.info.name for member in pipeline.members] == ["sequential", "Wrong"]
    assert optimize(chain("Neg", "Neg", "Sin"), passes="Negations", rules=[Negations]).report.pipeline == "Negations"


def test_a_rule_set_cannot_take_the_name_of_a_pass() -> None:
    taken = type("SimplifyExpr", (Negations,), {"__doc__": "Taken.", "again": op.abs(op.abs(x)) >> op.abs(x)})
    with pytest.raises(RuleError, match="has the name of a pass"):
        build_pipeline("SimplifyExpr", [taken])


def test_a_pipeline_that_cannot_be_read() -> None:
    with pytest.raises(PipelineError, match="did you mean SimplifyExpr"):
        optimize(chain("Relu"), passes="SimplfyExpr")


def test_the_level_and_the_config_reach_the_passes() -> None:
    none = optimize(chain("Neg", "Neg"), passes=[rule_pass(Negations, opt_level=3)], opt_level=2)
    assert none.report.kept
    some = optimize(chain("Neg", "Neg", "Sin"), passes=[rule_pass(Negations, opt_level=3)], opt_level=3)
    assert ops_of(some.model) == ["Sin"]
    off = optimize(chain("Neg", "Neg"), passes=[rule_pass(Negations)], config={"rules.disabled": ["Negations.doubled"]})
    assert off.report.kept
    with pytest.raises(AttributeError, match=r"rules\.nodes"):
        optimize(chain("Neg"), config={"rules.node": 3})


def test_no_time_is_a_limit_that_the_report_names() -> None:
    report = optimize(chain("Neg", "Neg", "Sin"), passes=[rule_pass(Negations)], time_limit=0.0).report
    assert report.limits
    assert "time" in report.limits[0]


def test_iterations_that_find_nothing_take_no_time() -> None:
    """10^15 iterations would take a century."""
    assert optimize(EXAMPLES / "resnet_tiny.onnx", verify=False, config={"rules.rounds": 10**15}).report.limits == []


def test_progress_names_stages_and_passes() -> None:
    told: list[str] = []
    optimize(chain("Neg", "Neg"), passes=[rule_pass(Negations)], progress=told.append)
    assert told[0] == "reading the model"
    assert "running Negations (2 of 2)" in told  # InferType runs before it
    assert told.index("running Negations (2 of 2)") < told.index("pricing the result")


def test_external_data_is_read_compared_and_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.arange(4000, dtype=np.float32).reshape(4, 1000) / 4000
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    nodes += [helper.make_node("MatMul", ["b", "w"], ["c"]), helper.make_node("MatMul", ["c", "v"], ["y"])]
    model = build(nodes, {"w": weights, "v": np.ascontiguousarray(weights.T)})
    source, other = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    other.mkdir()
    onnx.save(model, source / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    result = optimize(source / "m.onnx", passes=SMALL)
    assert result.report.verification is not None
    assert result.report.verification.equal is True
    result.save(other / "n.onnx")
    assert ops_of(onnx.load(other / "n.onnx")) == ["MatMul", "MatMul"]
    in_memory = optimize(onnx.load(source / "m.onnx", load_external_data=False), folder=source)
    assert ops_of(in_memory.model) == ["MatMul"], "the product of the weights is precomputed"
    assert in_memory.report.verification is not None
    assert in_memory.report.verification.equal is True
    monkeypatch.setattr("passat.runner.PROTOBUF_LIMIT", 0)  # like results above 2 GB, they are compared from a temporary file
    monkeypatch.setattr("passat.runner._serialized", lambda model: str(model) if isinstance(model, Path) else model)  # a ModelProto fails
    kinds = (
        (source / "m.onnx", None),
        (onnx.load(source / "m.onnx", load_external_data=False), source),
        (onnx.load(source / "m.onnx"), None),
    )
    for model_or_path, folder in kinds:
        found = optimize(model_or_path, passes=SMALL, folder=folder).report.verification
        assert found is not None
        assert found.equal is True


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x07\x12\xff\xff"])
def test_a_file_that_is_not_a_model_is_an_onnx_error_with_its_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(OnnxError, match=str(path)):
        optimize(path)


def test_values_that_are_not_paths() -> None:
    with pytest.raises(OnnxError, match=r"a model must be a ModelProto, .* or a torch\.onnx\.ONNXProgram, not int"):
        optimize(3)  # type: ignore[arg-type]  # on purpose


def test_newly_known_sizes_do_not_make_a_result_more_expensive() -> None:
    """Expand to a computed shape: before that is folded, the values after it have unknown sizes and look cheap."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("CastLike", ["sizes", "shape"], ["cast"]),
        helper.make_node("Expand", ["x", "cast"], ["e"]),
        helper.make_node("Neg", ["e"], ["n"]),
        helper.make_node("Neg", ["n"], ["p"]),
        helper.make_node("MatMul", ["p", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "c"])],
        [numpy_helper.from_array(np.array([512, 512], np.float32), "sizes"), numpy_helper.from_array(np.ones((512, 512), np.float32), "w")],
    )
    report = optimize(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)).report
    assert not report.kept
    assert (report.node_count_before, report.node_count_after) == (6, 2)
    assert report.cost_after <= report.cost_before


@pytest.mark.parametrize("limit", [-1.0, float("nan")])
def test_a_time_limit_that_is_none(limit: float) -> None:
    with pytest.raises(ValueError, match="time_limit must be a number of seconds"):
        optimize(EXAMPLES / "resnet_tiny.onnx", time_limit=limit)


def test_rules_that_are_none() -> None:
    with pytest.raises(RuleError, match=r"rules must be classes derived from passat\.rules\.RuleSet, not 3"):
        optimize(EXAMPLES / "resnet_tiny.onnx", rules=[3])  # type: ignore[list-item]  # the mistake
    with pytest.raises(TypeError, match="passes must be a string, a pass or a list of passes, not 3"):
        optimize(EXAMPLES / "resnet_tiny.onnx", passes=3)  # type: ignore[arg-type]  # the mistake


def test_two_unknown_sizes_are_not_equal() -> None:
    """Exporters write `?` for each unknown size; the two of an image need not be equal."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[a,b] x) => (float[c,d] y) {
        s = Shape(x)
        height = Constant<value_ints=[0]>()
        width = Constant<value_ints=[1]>()
        h = Gather(s, height)
        w = Gather(s, width)
        turned = Concat<axis=0>(w, h)
        r = Reshape(x, turned)
        y = Relu(r)
        }"""
    )
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_param = "?"
    made = Runner(optimize(model).model)
    assert made.run({"x": np.ones((2, 3), np.float32)})[0].shape == (3, 2)


def test_an_operator_that_onnx_runtime_has_no_kernel_for_is_not_made() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 24]> g (float[2,3] x) => (float[2,3] y) { s = Sigmoid(x) t = Mul(x, s) u = Relu(t) y = Relu(u) }'
    )
    result = optimize(model).model
    assert len(result.graph.node) < len(model.graph.node)
    Runner(result)


def test_zeros_of_unknown_sizes_do_not_explode() -> None:
    """A difference that is 0 and cannot become a constant: all its products and differences are in one e-class, but products with 0 are not
    factored."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[m, n, k, m] x) => (float[m, n, k, m] y)'
        "{ u = Sub (x, x) v = Sub (u, u) y = Relu (v) }"
    )
    result = optimize(model, opt_level=4, config={"rules.math": "finite"})
    assert len(result.model.graph.node) == 1
    assert not result.report.limits


def test_an_empty_product_does_not_explode() -> None:
    """Products without elements, their sums and multiples: e-classes that use each other once matched a pattern of five calls more often
    than memory allows."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[5,0,4,0] x) => (float[5,0,4,1] y)'
        " <float[1,1,1,1] c = {1.18}, float[5,1,0,1] m = {}> { s = Mul (x, x) w = MatMul (s, m) q = Add (w, w) y = Mul (q, c) }"
    )
    result = optimize(model, opt_level=3, config={"rules.math": "reassociate"})
    assert not result.report.limits
    assert sum(rule.matched for rule in result.report.rules) < 100_000


@pytest.mark.parametrize(
    "end",
    [
        "y = Add (g, g)",
        "p = Add (x, e) q = Mul (p, half) r = Sub (d, q) y = Mul (r, two)",
        "p = Mul (x, half) y = Add (p, p)",
        "p = Add (x, x) y = Mul (p, half)",
        "p = Add (x, two) q = Mul (e, p) r = Mul (q, two) y = Sub (r, q)",
    ],
)
def test_small_programs_do_not_explode(end: str) -> None:
    """Of a sum of a product with itself, each factor was factored out, in any order; halves and doubles were doubled without end, also if
    they are the terms of a sum."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[8] x) => (float[8] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}, float two = {2}>'
        f" {{ d = Div (x, root) e = Erf (d) a = Add (e, one) m = Mul (x, a) g = Mul (m, half) {end} }}"
    )
    report = optimize(model, verify=False).report
    assert not report.limits
    assert sum(rule.matched for rule in report.rules) < 1000


def test_orders_of_constants_are_one_form() -> None:
    """A product equals zero times itself, so its e-class contains itself, and each order of its constants gives a constant that is rounded
    differently. Each was a form of its own, until the limit of matches."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 19]> g (float[8] x) => (float y, float[3] z) {'
        " v = MatMul (x, a) n = Sub (v, v) s = MatMul (n, b) y = MatMul (s, v) t = MatMul (n, c) z = Concat <axis = -1> (t, t, t) }"
    )
    random = np.random.default_rng(0)
    for name, shape in (("a", (8, 1)), ("b", (1, 1)), ("c", (1, 1))):
        model.graph.initializer.append(numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name))
    report = optimize(model, opset=25, verify=False).report
    assert not report.limits
    assert sum(rule.matched for rule in report.rules) < 1_000


def linked(links: Sequence[Sequence[tuple[str, tuple[int, ...]]]], shape: Sequence[str | int]) -> ModelProto:
    """A chain of links, each of which is some operators with the shapes of their constants."""
    random, last = np.random.default_rng(0), "x"
    nodes: list[NodeProto] = []
    constants: list[TensorProto] = []
    for name, size in [part for link in links for part in link]:
        constants.append(
            numpy_helper.from_array(random.uniform(0.5, 1.5, size).astype(np.float32) / np.float32(max(size, default=1)), f"c{len(nodes)}")
        )
        nodes.append(helper.make_node(name, [last, constants[-1].name], [f"v{len(nodes)}"]))
        last = nodes[-1].output[0]
    first, end = (helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in (("x", shape), (last, None)))
    return helper.make_model(helper.make_graph(nodes, "g", [first], [end], constants), opset_imports=[helper.make_opsetid("", 19)])


def test_a_match_that_computes_a_constant_counts_as_many() -> None:
    """Products that are each narrower than the one before have a weight for each pair of them."""
    report = optimize(
        linked([[("MatMul", (40 - i, 39 - i))] for i in range(25)], ("n", 40)), verify=False, config={"rules.matches": 10_000}
    ).report
    assert any("more than 10000" in limit for limit in report.limits)
    assert sum(rule.matched for rule in report.rules) < 5_000


@pytest.mark.parametrize(
    ("link", "shape", "nodes"),
    [
        ([("MatMul", (8, 8))], ("n", 8), 1),
        ([("MatMul", (8, 8)), ("Add", (8,))], ("n", 8), 1),
        ([("Conv", (8, 8, 1, 1))], ("n", 8, 4, 4), 1),
        ([("Conv", (8, 8, 1, 1)), ("Add", (8, 1, 1))], ("n", 8, 4, 4), 1),
        ([("Add", (8,)), ("Mul", (8,))], ("n", 8), 2),
        ([("Add", ()), ("Mul", ())], ("n", 8), 2),
    ],
)
def test_a_chain_of_constants_shrinks_from_its_start_on(
    link: Sequence[tuple[str, tuple[int, ...]]], shape: Sequence[str | int], nodes: int
) -> None:
    """Each link was merged with each before it: fifty took ten seconds and ran into the limit of matches."""
    matched = []
    for count in (10, 40):
        report = optimize(linked([link] * count, shape), verify=count == 10).report
        assert not report.limits
        assert report.node_count_after == nodes
        matched.append(sum(rule.matched for rule in report.rules))
    assert matched[1] < 16 * matched[0]


def test_a_bottleneck_between_products_stays() -> None:
    """Two products with two columns in between cost less than one with the product of all weights."""
    model = linked([[("MatMul", size)] for size in ((64, 64), (64, 64), (64, 2), (2, 64), (64, 64))], ("n", 64))
    result = optimize(model).model
    weights = {initializer.name: tuple(initializer.dims) for initializer in result.graph.initializer}
    assert [weights[node.input[1]] for node in result.graph.node] == [(64, 2), (2, 64)]


def test_e_graphs_are_freed_without_a_garbage_collection() -> None:
    """They have the constants of the model."""
    optimize(EXAMPLES / "bert_tiny.onnx", verify=False)
    gc.collect()
    gc.disable()
    try:
        earlier = [value for value in gc.get_objects() if isinstance(value, Graph)]  # of tests that failed on purpose
        optimize(EXAMPLES / "bert_tiny.onnx", verify=False)
        assert not [value for value in gc.get_objects() if isinstance(value, Graph) and value not in earlier]
    finally:
        gc.enable()
