"""The comparison runs what a model chooses by its inputs: both branches of a flag, several iterations, lengths and modes that it asks for."""

import copy
from dataclasses import replace

import pytest
from onnx import ModelProto, parser

from passat import optimize
from passat.choose import choose_feed
from passat.feeds import InputSpec, Trial, make_feed
from passat.ir.onnx.branches import computed_ifs
from passat.runner import Runner
from passat.verify import AS_USUAL
from tests.comparing import compare_models

FLAG = """<ir_version: 9, opset_import: ["" : 18]> g (bool{shape} flag, float[4] x) => (float[4] y) {{
    y = If (flag) <then_branch = t () => (float[4] a) {{ a = {then}(x) }}, else_branch = e () => (float[4] b) {{ b = {otherwise}(x) }}>
}}"""
LOOP = """<ir_version: 9, opset_import: ["" : 18]> g (int64 count, float[4] x) => (float[4] y) {{
    yes = Constant <value = bool {{1}}> ()
    y = Loop (count, yes, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {{
        d = Identity(c)
        w = Add({carried}, {carried})
    }}>
}}"""
RATE = """<ir_version: 9, opset_import: ["" : 18]> g (int64 rate, float[4] x) => (float[4] y) {{
    {constant}
    whole = Cast <to = 6> (rate)
    is_wide = Equal ({first}, {second})
    y = If (is_wide) <then_branch = t () => (float[4] a) {{ a = {then}(x) }}, else_branch = e () => (float[4] b) {{ b = Neg(x) }}>
}}"""
WIDE = "wide = Constant <value = int32 {16000}> ()"
SOUND = """<ir_version: 9, opset_import: ["" : 18]> g (float[?, ?] x, float[2, ?, 8] state) => (float[?, ?] y, float[2, ?, 8] next) {
    pads = Constant <value = int64[4] {0, 0, 0, 40}> ()
    axes = Constant <value = int64[2] {0, 2}> ()
    rows = Constant <value = int64[2] {-1, 1}> ()
    padded = Pad <mode = "reflect"> (x, pads)
    sums = ReduceSum <keepdims = 0> (state, axes)
    column = Reshape (sums, rows)
    y = Concat <axis = 1> (padded, column)
    next = SCALE (state)
}"""
GUARDED = """<ir_version: 9, opset_import: ["" : 18]> g (float[N, 4] x) => (float[N, 4] y) {
    first = Neg (x) second = Neg (first)
    size = Size (x) limit = Constant <value = int64 {LIMIT}> () large = Greater (size, limit)
    y = If (large) <then_branch = t () => (float[N, 4] a) { a = Exp (second) }, else_branch = e () => (float[N, 4] b) { b = Sin (second) }>
}"""


def flag(then: str, otherwise: str, shape: str = "") -> ModelProto:
    return parser.parse_model(FLAG.format(then=then, otherwise=otherwise, shape=shape))


@pytest.mark.parametrize("shape", ["", "[1]"])
@pytest.mark.parametrize("seed", range(6))
def test_both_branches_of_a_flag_run(seed: int, shape: str) -> None:
    original = flag("Neg", "Sin", shape)
    assert compare_models(original, copy.deepcopy(original), seed=seed).equal is True
    assert compare_models(original, flag("Cos", "Sin", shape), seed=seed).equal is False
    assert compare_models(original, flag("Neg", "Cos", shape), seed=seed).equal is False


def test_flags_have_all_values_in_pairs() -> None:
    specs = [InputSpec(name, "tensor(bool)", (), scalar=True) for name in ("a", "b", "c")]
    feeds = [make_feed(specs, Trial(seed)) for seed in range(4)]
    for first, second in (("a", "b"), ("b", "c"), ("a", "c")):
        assert len({(bool(feed[first]), bool(feed[second])) for feed in feeds}) == 4


@pytest.mark.parametrize("seed", range(6))
def test_a_loop_runs_more_than_one_iteration(seed: int) -> None:
    original = parser.parse_model(LOOP.format(carried="v"))
    assert compare_models(original, copy.deepcopy(original), seed=seed).equal is True
    assert compare_models(original, parser.parse_model(LOOP.format(carried="x")), seed=seed).equal is False


@pytest.mark.parametrize("operands", [("whole", "wide"), ("wide", "whole")])
def test_an_integer_takes_the_value_that_the_model_compares_it_with(operands: tuple[str, str]) -> None:
    def rate(then: str) -> ModelProto:
        return parser.parse_model(RATE.format(constant=WIDE, first=operands[0], second=operands[1], then=then))

    assert compare_models(rate("Sin"), rate("Sin")).equal is True
    report = compare_models(rate("Sin"), rate("Cos"))
    assert report.equal is False


RATES = """<ir_version: 9, opset_import: ["": 18]> g (float[4] x, int64 rate) => (float[4] y) <int64 a = {8000}, int64 b = {16000}, int64 c = {32000}> {
    low = Equal(rate, a)  middle = Equal(rate, b)  high = Equal(rate, c)  r = Sin(x)  s = Cos(x)  t = THEN(x)
    u = Where(low, r, x)  v = Where(middle, s, u)  y = Where(high, t, v)
}"""


@pytest.mark.parametrize("seed", range(4))
def test_an_integer_takes_each_value_that_the_model_compares_it_with(seed: int) -> None:
    one, other = (parser.parse_model(RATES.replace("THEN", operator)) for operator in ("Tan", "Abs"))
    assert compare_models(one, copy.deepcopy(one), seed=seed).equal is True
    assert compare_models(one, other, seed=seed).equal is False


def test_branches_on_inputs_are_watched() -> None:
    """When only inputs of the user run, they may take one branch."""
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[4] x, bool f) => (float[4] y) <bool always = {1}> {
        y = If(f)<then_branch = t () => (float[4] a) { a = Sin(x) }, else_branch = e () => (float[4] b) { b = Cos(x) }>
        z = If(always)<then_branch = t () => (float[4] a) { a = Sin(x) }, else_branch = e () => (float[4] b) { b = Cos(x) }>
    }"""
    assert [node.output[0] for node in computed_ifs(parser.parse_model(text))] == ["y"]


def test_the_unknown_size_of_a_state_is_the_batch() -> None:
    """The sequence must be longer than its padding, and the batch is the first axis of the input and the second one of the state."""
    sound = [parser.parse_model(SOUND.replace("SCALE", op)) for op in ("Neg", "Abs")]
    report = compare_models(sound[0], sound[0])
    assert report.equal is True
    assert all(trial.sizes["?0"] < trial.sizes["?1"] for trial in report.trials)
    assert compare_models(*sound).equal is False


@pytest.mark.parametrize(("limit", "unrun"), [(4, ""), (1000, "then_branch of 'y'"), (0, "else_branch of 'y'")])
def test_branches_that_no_input_runs_are_named(limit: int, unrun: str) -> None:
    result = optimize(parser.parse_model(GUARDED.replace("LIMIT", str(limit))))
    assert result.report.verification is not None
    assert result.report.verification.equal is True
    assert [warning.partition(";")[0] for warning in result.report.warnings] == (
        [f"no input of the comparison runs the {unrun}"] if unrun else []
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_timed_loop_has_iterations(seed: int) -> None:
    feed = choose_feed(Runner(parser.parse_model(LOOP.format(carried="v"))), replace(AS_USUAL, seed=seed))
    assert int(feed["count"]) == 8


def test_single_values_of_other_types_are_no_choices() -> None:
    assert not any(InputSpec("x", f"tensor({kind})", (1,)).is_choice for kind in ("float8e4m3fn", "float", "string", "uint8"))
    assert not InputSpec("x", "seq(tensor(bool))", (1,)).is_choice
    assert not InputSpec("x", "tensor(bool)").is_choice  # of unknown rank
