"""The defects that the fuzzer detects, and how it reduces them."""

import json
import resource
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto

import passat
from tests.fuzz import judge
from tests.fuzz.folder import read, write
from tests.fuzz.graphs import Case, counted, random_case
from tests.fuzz.judge import Settings, bits_differ, examine
from tests.fuzz.minimize import Minimizer
from tests.fuzz.mutation import is_text, mutated, mutated_bytes
from tests.fuzz.noise import DRAWS, Noise, inner_values
from tests.fuzz.values import FLOAT, OUTSIDE, STRING, is_finite, random_array
from tests.fuzz.worker import limit_cpu, work

EXACT = Settings(3, "exact")
ROUNDED = Settings(3, "reassociate")


def parse(text: str, **feed: Any) -> Case:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\n{text}')
    found = counted("parsed", model, (feed,))
    assert found is not None
    return found


def swapping(monkeypatch: pytest.MonkeyPatch, wrong: str, right: str) -> None:
    """Makes the optimizer replace one operator by another."""

    def optimized(model: ModelProto, settings: Settings) -> passat.Result:
        result = passat.optimize(model, verify=False, passes="", opt_level=0)
        copy = ModelProto()
        copy.CopyFrom(result.model)
        for node in copy.graph.node:
            node.op_type = right if node.op_type == wrong else node.op_type
        result.model = copy
        return result

    monkeypatch.setattr(judge, "optimized", optimized)


CHAIN = "g (float[2,3] x, float[3] y) => (float[2,3] a, float[2,3] b) { n = Neg(x) s = Sub(n, y) r = Relu(s) a = Exp(r) b = Abs(r) }"
X, Y = np.array([[1, -2, 3], [0.5, 0, -1]], np.float32), np.array([1, 2, -3], np.float32)


def test_a_result_that_only_runs_without_optimizations_is_found() -> None:
    case = parse("g (float x) => (float y) { y = Abs(x) }", x=np.array(-3, np.float32))
    text = "g (float x) => (float y) <int64[1] one = {1}> { axes = Sub(one, one) y = ReduceL2<keepdims = 0>(x, axes) }"
    other = parse(text, x=np.array(-3, np.float32)).model
    found = judge.compared(case, other, EXACT)
    assert found is not None
    assert found.kind == "fails when optimized"
    assert judge.compared(replace(case, model=other), other, EXACT) is None


def test_a_wrong_operator_is_found_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    swapping(monkeypatch, "Sub", "Add")
    case = parse(CHAIN, x=X, y=Y)
    found = examine(case, EXACT)
    assert found is not None
    assert found.kind == "values"
    smaller, found = Minimizer(case, found, EXACT, 60).run()
    assert [node.op_type for node in smaller.model.graph.node] == ["Sub"]
    assert found.key(smaller.model) == "values.Sub"


def test_scalars_are_moved_like_other_numbers() -> None:
    case = parse("g (float x) => (string y) <float half = {0.5}> { a = Mul(x, half) y = Cast<to = 8>(a) }", x=np.asarray(0.3, np.float32))
    noise = Noise(case.model, case.feeds[0])
    assert len(noise.variants()) == DRAWS
    assert noise.of(0, np.asarray("0.15", object)).share == 1


@pytest.mark.parametrize(("sizes", "said"), [((0, 3), True), ((3, 0), False), ((2, 3), True)])
def test_a_concat_of_mismatched_shapes_is_inconclusive(sizes: tuple[int, int], said: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    swapping(monkeypatch, "Neg", "Relu")
    text = "g (float[2,3] x, float[m,n] y) => (float[p,3] a) { n = Neg(x) a = Concat<axis = -2>(n, y) }"
    assert (examine(parse(text, x=X, y=np.zeros(sizes, np.float32)), EXACT) is not None) == said


@pytest.mark.parametrize(("size", "said"), [(1, False), (2, True)])
def test_a_window_that_does_not_fit_is_inconclusive(size: int, said: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    swapping(monkeypatch, "Neg", "Relu")
    text = "g (float[1,1,m,n] x) => (float[1,1,p,q] a) { n = Neg(x) a = MaxPool<kernel_shape = [2,2], strides = [2,2]>(n) }"
    assert (examine(parse(text, x=np.ones((1, 1, size, size), np.float32)), EXACT) is not None) == said


def test_a_finding_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    swapping(monkeypatch, "Sub", "Add")
    case = parse(CHAIN, x=X, y=Y)
    found = examine(case, ROUNDED)
    assert found is not None
    write(tmp_path / "one", case, found, ROUNDED)
    again, settings = read(tmp_path / "one")
    assert (again.model, settings) == (case.model, ROUNDED)
    assert examine(again, settings) == found


def test_an_exception_is_a_lost_model_with_a_location(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.ir.onnx.importer.Importer.main", lambda *_: 1 // 0)
    found = examine(parse(CHAIN, x=X, y=Y), EXACT)
    assert found is not None
    assert (found.kind, found.where.partition(".")[0]) == ("lost", "ZeroDivisionError")


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [(0.0, -0.0, False), (np.nan, -np.nan, True), (1.0, np.nextafter(np.float32(1), np.float32(2)), False), (np.inf, np.inf, True)],
)
def test_bits(left: float, right: float, same: bool) -> None:
    a, b = (np.array([1, value], np.float32) for value in (left, right))
    assert (bits_differ([a], [b]) == "") == same


def against(case: Case, text: str) -> Case:
    """A case that is compared with another model."""
    return replace(case, other=onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\n{text}'))


@pytest.mark.parametrize(("ends", "passes"), [("i = Identity(e)", True), ("i = Where(c, e, n)", False)])
def test_load_errors_from_constant_folding_of_onnx_runtime_are_excused(ends: str, passes: bool) -> None:
    """Its inference is wrong for Unsqueeze with negative axes before opset 11, so it rejects a Slice if its operands are constants."""
    opset = '<ir_version: 10, opset_import: ["" : 10]>'
    ints = "int64[2] s = {0, 0}, int64[2] e = {1, 1}, int64[2] n = {1, 0}, int64[2] a = {0, 1}"
    inputs, slices = ("float[1] x, bool[1] c", "v = Unsqueeze<axes = [-1]>(x)")
    text = f"{opset} g ({inputs}) => (float[p, q] y) <{ints}> {{ {slices} {ends} y = Slice(v, s, i, a) }}"
    folded = onnx.parser.parse_model(f"{opset} g ({inputs}) => (float[p, q] y) <{ints}> {{ {slices} y = Slice(v, s, e, a) }}")
    case = counted("sliced", onnx.parser.parse_model(text), ({"x": X[0, :1], "c": np.array([True])},))
    assert case is not None
    found = examine(replace(case, other=folded), EXACT)
    assert (found is None) == passes
    assert found is None or found.kind == "does not load"


@pytest.mark.parametrize(("x", "passes"), [(3.0, True), (3.5, False)])
def test_rounding_excuses_only_rounding_errors(x: float, passes: bool) -> None:
    """For a number that rounding may move below 3, the floor may be 2; for 3.5 it may not."""
    case = parse("g (float[1] x) => (float[1] y) { n = Neg(x) p = Neg(n) y = Floor(p) }", x=np.array([x], np.float32))
    two = against(case, "g (float[1] x) => (float[1] y) <float[1] y={2}> { }")
    assert (examine(two, ROUNDED) is None) == passes
    assert examine(two, EXACT) is not None


def test_the_finite_mode_is_held_to_finite_data() -> None:
    case = parse("g (float[2] x) => (float[2] y) { y = Sub(x, x) }", x=np.array([1, np.inf], np.float32))
    held = against(case, "g (float[2] x) => (float[2] y) <float[2] y={0,0}> { }")
    assert examine(held, Settings(3, "finite")) is None
    assert examine(held, EXACT) is not None


def test_tame_arrays_are_finite() -> None:
    random = np.random.default_rng(0)
    arrays = [random_array(random, kind, (4, 3)) for kind in sorted(OUTSIDE - {STRING}) for _ in range(20)]
    assert all(is_finite(array) for array in arrays)
    assert not all(is_finite(random_array(random, FLOAT, (4, 3), tame=False)) for _ in range(20))


def test_mutations_are_a_function_of_their_seed() -> None:
    case = random_case(3, most=5)
    assert case is not None
    data = case.model.SerializeToString()
    for seed in range(20):
        first, second = (mutated(case.model, np.random.default_rng(seed)) for _ in range(2))
        assert first == second
        assert mutated_bytes(data, np.random.default_rng(seed)) == mutated_bytes(data, np.random.default_rng(seed))
    assert any(mutated(case.model, np.random.default_rng(seed)) != case.model for seed in range(3))


def test_messages_are_compared_for_failing_models() -> None:
    case = random_case(3, most=5)
    assert case is not None
    model = case.model
    model.graph.initializer.add(name="short", data_type=onnx.TensorProto.FLOAT, dims=[7], raw_data=b"\x00")
    assert is_text(model)
    data = model.SerializeToString()
    assert not is_text(ModelProto.FromString(data.replace(b"short", b"sh\xffrt")))


def test_values_inside_are_shown_as_they_are_declared() -> None:
    """In this opset ONNX Runtime's inference is wrong about `a`, so it loads a Pad on it only if the rank is declared."""
    graph = "g (float[2] x) => (float[p, q] a, float[r, s] y) { a = Unsqueeze<axes = [-1]>(x) y = Pad<pads = [0, 0, 0, 0]>(a) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 8]> {graph}')
    assert set(inner_values(model, {"x": X[0, :2]})) == {"a", "y"}


def test_a_worker_reports_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    work("mutations", range(5, 8), tmp_path, minimize=1)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["seed"] for entry in told if entry["phase"] == "done"] == [5, 6, 7]


class TooLongError(Exception):
    """The exception that the signal raises in this test."""


def test_a_worker_that_computes_for_too_long_gets_a_signal() -> None:
    def ended(*_: object) -> None:
        raise TooLongError

    limits, handler = resource.getrlimit(resource.RLIMIT_CPU), signal.signal(signal.SIGXCPU, ended)
    try:
        limit_cpu(1)
        with pytest.raises(TooLongError):
            sum(0 for _ in count())  # does not end
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, limits)
        signal.signal(signal.SIGXCPU, handler)


def test_zeros_that_change_their_signs_together_are_excused() -> None:
    text = """signs (float[3, 9] x) => (float[3, 1] y) <float[1] one = {1}, int64[1] axes = {1}>
    { d = Sub(x, one)  n = Neg(d)  r = Reciprocal(n)  s = Sigmoid(r)  y = ReduceProd(s, axes) }"""
    case = parse(text, x=np.where(np.arange(27).reshape(3, 9) % 3, 3, 1).astype(np.float32))
    assert not np.any(passat.runner.Runner(case.model).run(case.feeds[0])[0])
    assert examine(case, ROUNDED) is None


def test_a_square_that_is_too_small_for_a_number_is_rounded() -> None:
    """Its root is nine orders of magnitude larger than the loss; the rule that removes both returns the number itself."""
    case = parse("g (float[2] x) => (float[2] y) { s = Mul(x, x) y = Sqrt(s) }", x=np.array([1e-40, 1e-30], np.float32))
    assert Noise(case.model, case.feeds[0]).of(0, np.zeros(2, np.float32)).absolute > 1e-21
    assert examine(case, ROUNDED) is None


def test_a_float16_overflow_may_stay_finite_in_a_float32_chain() -> None:
    """256 * 256, which ONNX Runtime computes and passes on in float32; other elements are infinite from the start."""
    text = "g () => (float[2] y) <float16[2] x = {23552, 31744}> { m = Mul(x, x) y = Cast<to = 1>(m) }"
    assert examine(parse(text), ROUNDED) is None


@pytest.mark.parametrize(
    "text",
    [
        "g (int64[1] x) => (uint16[1] y) { a = Cast<to = 1>(x) y = Cast<to = 4>(a) }",
        "g (float[2, 3] x) => (float[k, 3] y) <int64[2] cut = {3, 0}> { s = SplitToSequence<axis = 1>(x, cut) y = ConcatFromSequence<axis = 0>(s) }",
        "g (float[2, 3] x) => (float[j, 2, k] y) <int64[2] cut = {3, 0}>"
        "{ s = SplitToSequence<axis = 1>(x, cut) y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }",
        "g (float[2, 3] x) => (float y) <int64[2] t = {0, 0}, float[1] w = {1}> { y = SoftmaxCrossEntropyLoss(x, t, w) }",
    ],
)
def test_mismatched_shapes_are_not_a_finding(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.asarray([2**62 + 1]) if "int64[1] x" in text else np.ones((2, 3), np.float32)
    case = parse(text, x=x)
    swapping(monkeypatch, "none", "other")
    monkeypatch.setattr(judge, "bits_differ", lambda want, got: "they differ")
    assert examine(case, EXACT) is None
    fitting = parse("g (float[2] x) => (float[2] y) { y = Neg(x) }", x=np.ones(2, np.float32))
    assert examine(fitting, EXACT) is not None


def test_a_function_that_is_rounded_by_place_need_not_keep_its_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    swapping(monkeypatch, "none", "other")
    monkeypatch.setattr(judge, "bits_differ", lambda want, got: "they differ")
    assert examine(parse("g (float[2] x) => (float[2] y) { y = Log(x) }", x=np.ones(2, np.float32)), EXACT) is None


@pytest.mark.parametrize(
    ("text", "x", "said"),
    [
        ("g (float[2] x) => (float[1] y) { y = ReduceMax(x) }", np.array([np.nan, 1], np.float32), False),
        ("g (float[2] x) => (float[1] y) { y = ReduceMax(x) }", np.array([0, 1], np.float32), True),
        ("g (int64[1] x) => (int64[1] y) { y = ReduceProd(x) }", np.array([2**62 - 1]), False),
        ("g (int64[1] x) => (int64[1] y) { y = ReduceProd(x) }", np.array([2**52 - 1]), True),
    ],
)
def test_what_onnx_runtime_does_not_follow_is_no_finding(
    text: str, x: np.ndarray[Any, np.dtype[Any]], said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It skips a NaN, depending on its position, and computes reductions of int64 in float64."""
    swapping(monkeypatch, "none", "other")
    monkeypatch.setattr(judge, "bits_differ", lambda want, got: "they differ")
    assert (examine(parse(text, x=x), EXACT) is not None) == said
