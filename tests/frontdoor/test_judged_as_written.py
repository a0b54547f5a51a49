"""A result is priced as the ONNX that is written: a call that is written as several nodes costs those nodes."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, helper, parser

import passat.choose
from passat import optimize
from passat.ir.expr import Function
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, to_onnx
from passat.ir.onnx.frame import Frame
from passat.ir.op import Op, get_op, list_ops
from passat.outcome import NAMES_ONLY
from passat.passmgr import Pass, module_pass
from passat.rules import RuleSet, op, tensors
from passat.rules.checking.case import Unfit, build
from passat.rules.checking.draw import SamplingHints, draw
from passat.rules.checking.sampler import Sampler
from passat.rules.cost import CostName
from passat.rules.pattern import PCall
from tests.share import share

x, y = tensors("x y")
OPERATORS = [each for each in list_ops() if not each.variadic and not each.stateful and each.arity and each.name != "dyn.full"]
OPSETS = (13, 23)
TRIES = share(12, 25)
COSTS: tuple[CostName, ...] = ("roofline", "nodes")


def parsed(text: str, opset: int = 21) -> ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> g {text}')


def nodes_of(model: ModelProto) -> tuple[str, ...]:
    return tuple(node.op_type for node in model.graph.node if node.op_type != "Constant")


def calls(of: Op) -> Iterator[Function]:
    """Functions with one call of an operator, on random operands with random attributes."""
    pattern = PCall(of, (*tensors(" ".join(f"h{i}" for i in range(of.arity))), ...))
    hints, sampler = SamplingHints(pattern, ()), Sampler(np.random.default_rng(0))
    for _ in range(TRIES):
        try:
            case, dtype = draw(hints, sampler)
            program = build(pattern, case)
        except Unfit:
            continue
        hints.note(dtype, 1)
        function = infer_type(Function(list(program.params.values()), program.body))
        assert isinstance(function, Function)
        yield function


def in_opset(function: Function, opset: int) -> IRModule:
    model = ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", opset)])
    return IRModule({"main": function}, attrs={"onnx": Frame(model, GraphProto(name="main"))})


def replaced(function: Function) -> Pass:
    """A pass that replaces the module by that function."""
    return module_pass(lambda mod, ctx: IRModule({"main": function}, attrs=mod.attrs), opt_level=0, name="Replaced")


def test_one_call_for_several_nodes_is_not_an_improvement() -> None:
    """For every operator: turning the nodes that a call is written as into that call is not an improvement."""
    several: dict[str, set[tuple[str, ...]]] = {}
    for of in OPERATORS:
        seen = several.setdefault(of.name, set())
        for function, opset in itertools.product(calls(of), OPSETS):
            if len(seen) >= share(1, 2):
                break
            try:
                model = to_onnx(in_opset(function, opset))
            except OnnxError:  # the operator was introduced in a later opset
                continue
            nodes = nodes_of(model)
            if len(nodes) < 2 or nodes in seen:
                continue
            seen.add(nodes)
            for cost in COSTS:
                result = optimize(model, passes=[replaced(function)], cost=cost, verify=False)
                assert result.model is model, f"{of.name}: {nodes} became {nodes_of(result.model)}"
                assert result.report.kept == NAMES_ONLY
                assert result.report.cost_after == result.report.cost_before
    names = {name for name, found in several.items() if found}
    assert len(names) >= 49
    assert {"nn.swish", "nn.gelu", "nn.rms_norm", "one_hot", "repeat", "isfinite", "nn.group_norm", "stack", "log2"} <= names


SWISH = "(float[4, 64] x) => (float[4, 64] y) { s = Sigmoid(x) y = Mul(x, s) }"


@pytest.mark.parametrize("cost", [*COSTS, "measured"])
def test_swish_comes_back_byte_for_byte(cost: CostName, tmp_path: Path) -> None:
    onnx.save(parsed(SWISH), tmp_path / "in.onnx")
    result = optimize(tmp_path / "in.onnx", cost=cost)
    assert result.report.kept
    result.save(tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "in.onnx").read_bytes()


@pytest.mark.parametrize("cost", COSTS)
def test_other_improvements_count_separately(cost: CostName) -> None:
    """For a swish beside a double negation, only the removed negations count."""
    model = parsed("(float[4, 64] x) => (float[4, 64] y) { s = Sigmoid(x) m = Mul(x, s) n = Neg(m) k = Neg(n) y = Sin(k) }")
    result = optimize(model, cost=cost)
    assert sorted(nodes_of(result.model)) == ["Mul", "Sigmoid", "Sin"]
    alone = optimize(parsed("(float[4, 64] x) => (float[4, 64] y) { s = Sigmoid(x) m = Mul(x, s) y = Sin(m) }"), cost=cost)
    assert result.report.cost_after == pytest.approx(alone.report.cost_before)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_a_swish_of_opset_24_does_not_hide_other_improvements(alpha: float) -> None:
    """It is written as a product, since ONNX Runtime has no kernel for it. As one call, the input was cheaper than that."""
    model = parsed(f"(float[4, 64] x) => (float[4, 64] y) {{ n = Neg (x) k = Neg (n) y = Swish <alpha = {alpha}> (k) }}", 24)
    result = optimize(model)
    assert "Neg" not in nodes_of(result.model)
    assert optimize(result.model).model == result.model
    alone = parsed(f"(float[4, 64] x) => (float[4, 64] y) {{ y = Swish <alpha = {alpha}> (x) }}", 24)
    assert optimize(alone).model is alone


def test_a_swish_is_not_a_candidate_for_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(run: object, count: int, **_: object) -> list[list[float]]:
        return [[1.0 / (which + 1)] * 11 for which in range(count)]

    monkeypatch.setattr(passat.choose, "take_turns", times)
    model = parsed(SWISH)
    result = optimize(model, choose="time")
    assert result.model is model
    assert not result.report.timings


class Lowered(RuleSet):
    """Lowering rules apply regardless of cost."""

    swish = (op.nn.swish(x) >> x * op.sigmoid(x)).lowering()


def test_a_result_lowered_to_the_input_is_replaced_by_it() -> None:
    model = parsed(SWISH)
    assert optimize(model, rules=[Lowered]).model is model


class Choices(RuleSet):
    """A product of a mask and a constant as a Where, which exists since opset 9; the sum of a value with itself."""

    choice = op.multiply(op.cast(x, ...), y) >> op.where(x, y, op.zeros_like(y))
    twice = op.add(y, y) >> op.multiply(y, 2)


@pytest.mark.parametrize(("opset", "chosen"), [(8, False), (9, True)])
def test_operators_missing_in_the_opset_are_not_extracted(opset: int, chosen: bool) -> None:
    """The results of other rules are kept."""

    class ByName:
        """Casts and sums are expensive."""

        def call(self, op: Op, types: object, result: object, attrs: object) -> float:
            return 100.0 if op.name in ("cast", "add") else 1.0

    model = parsed(
        """(bool[2, 3] m, float[2, 3] y) => (float[2, 3] r) { f = Cast <to = 1> (m) t = Add (y, y) p = Mul (f, t) r = Relu (p) }""", opset
    )
    result = optimize(model, rules=[Choices], passes="Choices", cost=ByName())
    assert not result.report.kept
    assert ("Where" in nodes_of(result.model)) is chosen
    assert "Add" not in nodes_of(result.model)


def test_a_pass_that_makes_operators_missing_in_the_opset_keeps_the_input() -> None:
    """The input is returned, and the report gives the reason."""

    @module_pass(opt_level=0, name="Choose")
    def choose(module: IRModule, context: object) -> IRModule:
        main = module["main"]
        mask, value = main.params
        return IRModule({"main": main.with_body(get_op("where")(mask, value, value))}, attrs=module.attrs)

    model = parsed("(bool[2, 3] m, float[2, 3] y) => (float[2, 3] r) { a = Relu (y) r = Relu (a) }", 8)
    result = optimize(model, passes=[choose])
    assert result.model is model
    assert result.report.kept.startswith("the result has no form in the model's opset (--opset converts it to a later one): r: where needs")


def test_a_convolution_with_its_bias_costs_what_it_costs_when_it_is_read() -> None:
    model = parsed(
        "(float[1, 2, 8, 8] x, float[1] c) => (float[1, 3, 8, 8] y)"
        "<float[3, 2, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[3] b = {1, 2, 3}> {"
        " n = Neg(x) m = Neg(n) k = Conv(m, w, b) r = Relu(k) y = Relu(r) }"
    )
    result = optimize(model, verify=False)
    assert nodes_of(result.model) == ("Conv", "Relu")
    again = optimize(result.model, verify=False)
    assert again.report.cost_before == pytest.approx(result.report.cost_after, rel=1e-12)


BOXES = """(float[1, 64, 25] x) => (float[1, 4, 25] y) <float[1, 16, 1, 1] w = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, int64[4] s = {1, 4, 16, 25}, int64[3] t = {1, 4, 25}> {
    boxes = Reshape (x, s)
    last = Transpose <perm = [0, 3, 1, 2]> (boxes)
    weights = Softmax <axis = 3> (last)
    channels = Transpose <perm = [0, 3, 2, 1]> (weights)
    means = Conv (channels, w)
    double = Add (means, means)
    y = Reshape (double, t)
}"""


@pytest.mark.parametrize(("opset", "transposes"), [(12, 2), (13, 1)])
def test_a_softmax_stays_along_the_last_axis_where_an_opset_has_no_other(opset: int, transposes: int) -> None:
    result = optimize(parsed(BOXES, opset))
    assert nodes_of(result.model).count("Transpose") == transposes
    assert not result.report.kept
    assert "Add" not in nodes_of(result.model)


def test_a_resize_that_folding_makes_readable_costs_the_same_in_the_input() -> None:
    one, two = (int(np.float16(number).view(np.uint16)) for number in (1, 2))
    text = f"""(float16[1, 64, 32, 32] x, float[1] z) => (float16[1, 64, 64, 64] y, float[1] same) <float16[4] s = {{{one}, {one}, {two}, {two}}}> {{
        scales = Cast <to = 1> (s)
        y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , scales)
        less = Neg (z)
        more = Neg (less)
        same = Abs (more)
    }}"""
    result = optimize(parsed(text))
    assert not result.report.kept
    assert sorted(nodes_of(result.model)) == ["Abs", "Resize"]


def test_shapes_that_reading_knows_are_no_longer_computed() -> None:
    text = """(float[1, 8, 16, 16] x, float[1, 8, 32, 32] z) => (float[1, 8, 32, 32] y) <int64[1] zero = {0}, int64[1] two = {2}, int64[2] s = {32, 32}> {
        shape = Shape (x)
        start = Slice (shape, zero, two)
        sizes = Concat <axis = 0> (start, s)
        larger = Resize <mode = "nearest"> (x, , , sizes)
        y = Add (larger, z)
    }"""
    result = optimize(parsed(text))
    assert nodes_of(result.model) == ("Resize", "Add")
    again = optimize(result.model)
    assert again.model is result.model
    assert again.report.kept == "no pass changed anything"


def test_weights_of_a_model_that_no_pass_changes_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing the contents of 500 MB takes a second."""

    def compared(*_: object) -> bool:
        raise AssertionError("compares two models")

    monkeypatch.setattr("passat.ir.onnx.same_graph.differs_in_names_only", compared)
    model = parsed("(float[4, 2] x) => (float[4, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { m = MatMul(x, w) y = Relu(m) }")
    result = optimize(model)
    assert result.model is model
    assert result.report.kept == "no pass changed anything"
