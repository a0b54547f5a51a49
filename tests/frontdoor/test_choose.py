"""Choosing the program by time: the candidates, the winner, and the report. Times are given, not measured."""

import contextlib
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper
from typer.testing import CliRunner, Result

import passat
import passat.choose
import passat.measure
from passat import optimize
from passat.choose import MARGIN, SURE, Candidate, Moved, NothingToTimeError, choose_feed, fastest, programs, take_turns
from passat.cli.app import app
from passat.ir.attrs import Attrs
from passat.ir.equality import structural_equal
from passat.ir.expr import Call
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.ir.op import Op, get_op
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, Type
from passat.passmgr import Pass, PassContext, Sequential, module_pass
from passat.report import Timing
from passat.rules import CostError, NodeCount, RuleSet, op, rule_pass, tensors
from passat.runner import Runner
from passat.verify import AS_USUAL, Comparing
from tests.share import share

x = tensors("x")[0]
T = TensorType((4, 4))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PASSAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Twice(RuleSet):
    """Removes double negations."""

    negated = op.negative(op.negative(x)) >> x


def model(*kinds: str, declared: Sequence[int | str] = (4, 4)) -> ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(declared)) for name in ("x", "y")]
    names = ["x", *(f"v{i}" for i in range(len(kinds) - 1)), "y"]
    nodes = [helper.make_node(kind, [names[i]], [names[i + 1]]) for i, kind in enumerate(kinds)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def timed(seconds: Callable[[int], float]) -> Callable[..., list[list[float]]]:
    """Replaces the clock: the time of each candidate by number; the input is 0."""
    return lambda run, count, **_: [[seconds(which)] * 11 for which in range(count)]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# ---- the winner


def given_times(*seconds: float) -> list[Timing]:
    return [Timing(str(number), time, 11, 0.0 if number == 0 else 1.0) for number, time in enumerate(seconds)]


def test_the_input_wins_ties() -> None:
    assert fastest(given_times(1.0)) is None
    assert fastest(given_times(1.0, 1.0)) is None
    assert fastest(given_times(1.0, 1 - MARGIN / 2, 1 - MARGIN)) is None
    assert fastest(given_times(1.0, 1.0, 0.9)) == 1


def test_the_first_of_equals_wins() -> None:
    assert fastest(given_times(1.0, 0.5, 0.5, 0.499)) == 0
    assert fastest(given_times(1.0, 0.6, 0.5)) == 1


def test_a_lucky_median_is_not_enough() -> None:
    times = [Timing("input", 1.0, 11), Timing("a", 0.8, 11, SURE - 0.01), Timing("b", 0.9, 11, SURE)]
    assert fastest(times) == 1


def test_a_candidate_that_does_not_run_does_not_win() -> None:
    assert fastest([Timing("input", 1.0, 11), Timing("a", failed="it does not load")]) is None


@settings(max_examples=share(40, 100))
@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=6))
def test_a_winner_is_never_slower_than_the_input(seconds: list[float]) -> None:
    best = fastest(given_times(*seconds))
    if best is None:
        assert min(seconds[1:], default=seconds[0]) >= seconds[0] * (1 - MARGIN)
    else:
        assert seconds[best + 1] < seconds[0] * (1 - MARGIN)
        assert seconds[best + 1] <= min(seconds[1:]) * (1 + MARGIN)


# ---- turns


def test_turns_begin_with_each_in_turn() -> None:
    asked: list[tuple[int, int]] = []

    def one(which: int, repeat: int) -> float:
        asked.append((which, repeat))
        return 0.001 * (which + 1)

    times = take_turns(one, 3, rounds=(4, 9), seconds=0.0, turn=0.01)
    assert times == [[0.001] * 4, [0.002] * 4, [0.003] * 4]
    repeats = {0: 10, 1: 5, 2: 3}
    assert asked[9:] == [(which, repeats[which]) for first in (1, 2, 0, 1) for which in (first, (first + 1) % 3, (first + 2) % 3)]


def test_the_number_of_rounds_is_limited() -> None:
    assert [len(own) for own in take_turns(lambda which, repeat: 1.0, 2, rounds=(2, 7), seconds=1e9, turn=0.0)] == [7, 7]
    clear = take_turns(lambda which, repeat: 1.0, 2, rounds=(2, 7), seconds=1e9, turn=0.0, decided=lambda times: len(times[0]) > 3)
    assert [len(own) for own in clear] == [4, 4]


def test_a_first_run_that_is_slower_than_a_turn_is_repeated() -> None:
    """It allocates memory: the model may still be fast."""
    asked: list[int] = []

    def one(which: int, repeat: int) -> float:
        asked.append(repeat)
        return 0.001 if len(asked) > 1 else 0.02

    take_turns(one, 1, rounds=(1, 1), seconds=0.0, turn=0.01)
    assert asked == [1, 1, 1, 10]


def test_slow_models_end_the_rounds_once_no_candidate_can_win() -> None:
    asked: list[int] = []

    def one(which: int, repeat: int) -> float:
        asked.append(which)
        return 1.0

    settings = {"rounds": (7, 9), "seconds": 0.0, "turn": 0.1}
    lost = take_turns(one, 2, **settings, lost=lambda times: len(times[0]) > 2)  # type: ignore[arg-type]  # of several types
    assert [len(own) for own in lost] == [3, 3]
    assert len(asked) == 2 + 2 * 3, "a run for each contestant says that it is slow"
    assert [len(own) for own in take_turns(one, 2, **settings)] == [7, 7]  # type: ignore[arg-type]


def test_a_model_that_does_not_run_has_no_inputs() -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in ("x", "y")]
    nodes = [helper.make_node("Cast", ["x"], ["a"], to=TensorProto.FLOAT), helper.make_node("Cast", ["a"], ["y"], to=TensorProto.STRING)]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    with pytest.raises(NothingToTimeError, match=r"^does not run on random inputs: "):
        choose_feed(Runner(proto), AS_USUAL)


# ---- candidates


def test_candidates_are_different_programs() -> None:
    mod = from_onnx(model("Neg", "Neg", "Exp"))
    pipeline = rule_pass(Twice)
    notes: list[str] = []
    with PassContext(config={"rules.cost": "nodes"}) as context:
        after = pipeline(mod)
    found = programs(pipeline, mod, after, context, 4, statistics=context.statistics, tell=lambda text: None, notes=notes)
    assert [candidate.name for candidate in found] == ["nodes"]
    assert found[0].module is after
    assert any("operators measured" in note for note in notes)


def test_the_time_limit_holds_for_all_candidates_together() -> None:
    mod = from_onnx(model("Neg", "Neg", "Exp"))
    told: list[str] = []
    context = PassContext(config={"rules.time_limit": 0.0})
    assert programs(rule_pass(Twice), mod, mod, context, 4, statistics=context.statistics, tell=told.append, notes=[]) == []
    assert told == []


class Doubles(RuleSet):
    """Three ways to double."""

    product = (op.add(x, x) >> op.multiply(x, 2.0)).exploring()
    division = (op.add(x, x) >> op.divide(x, 0.5)).exploring()


class Signs(RuleSet):
    """Two ways to negate."""

    sign = (op.negative(x) >> op.multiply(x, -1.0)).exploring()


class Odd:
    """Prices unlike those of other models."""

    prices: ClassVar = {"add": 5.0, "multiply": 1.0, "divide": 2.0, "negative": 0.5}

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return self.prices.get(op.name, 1.0)


def doubled() -> ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ("x", "y")]
    nodes = [helper.make_node("Add", ["x", "x"], ["v"]), helper.make_node("Neg", ["v"], ["y"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def candidates_of(pipeline: Pass, count: int, *, pick: dict[str, int] | None = None) -> tuple[list[Candidate], list[str]]:
    mod, told = from_onnx(doubled()), list[str]()
    with PassContext(config={"rules.cost": Odd(), "rules.pick": pick or {}, "rules.joint": False}) as context:
        after = pipeline(mod)
    return programs(pipeline, mod, after, context, count, statistics=context.statistics, tell=told.append, notes=[]), told


def calls(module: IRModule) -> list[str]:
    return [node.op.name for node in post_order(module["main"]) if isinstance(node, Call) and isinstance(node.op, Op)]


def test_the_next_best_of_each_pass_take_turns_with_other_models() -> None:
    """The second best of Signs comes second among all passes, although Doubles has more."""
    found, told = candidates_of(Sequential([rule_pass(Doubles), rule_pass(Signs)]), 3)
    assert [candidate.name for candidate in found] == ["Odd", "Odd, 2nd of Doubles", "Odd, 2nd of Signs"]
    assert [calls(candidate.module) for candidate in found] == [["multiply", "negative"], ["divide", "negative"], ["multiply", "multiply"]]
    assert [text.removeprefix("looking for another program: ") for text in told] == [
        "Odd, 2nd of Doubles",
        "roofline",
        "Odd, 2nd of Signs",
    ]
    assert found[1].settings.get_config("rules.pick") == {"Doubles": 1}
    with found[1].settings:
        assert calls(Sequential([rule_pass(Doubles), rule_pass(Signs)])(from_onnx(doubled()))) == ["divide", "negative"]


def test_passes_without_changes_come_last() -> None:
    found, _ = candidates_of(Sequential([rule_pass(Signs), rule_pass(Doubles)]), 2)
    assert [candidate.name for candidate in found] == ["Odd", "Odd, 2nd of Doubles"]


def test_a_pass_is_not_asked_for_more_than_it_has() -> None:
    """The third best is the input, and thus not a candidate; the fourth equals the third."""
    found, told = candidates_of(rule_pass(Doubles), 6)
    assert [calls(candidate.module) for candidate in found] == [["multiply", "negative"], ["divide", "negative"]]
    assert [text for text in told if " of Doubles" in text] == [
        f"looking for another program: Odd, {which} of Doubles" for which in ("2nd", "3rd", "4th")
    ]


def test_the_next_best_start_from_the_pick() -> None:
    """The third best of Doubles is the input, and thus not a candidate."""
    found, told = candidates_of(Sequential([rule_pass(Doubles), rule_pass(Signs)]), 2, pick={"Doubles": 1})
    assert calls(found[0].module) == ["divide", "negative"]
    assert told[0] == "looking for another program: Odd, 3rd of Doubles"
    found, told = candidates_of(Sequential([rule_pass(Doubles), rule_pass(Signs)]), 4, pick={"Doubles": 1})
    named = {candidate.name: candidate for candidate in found}
    assert named["Odd, 2nd of Signs"].settings.get_config("rules.pick") == {"Doubles": 1, "Signs": 1}
    assert "Odd, 3rd of Doubles" not in named


def test_candidates_are_the_same_each_time() -> None:
    first, second = (candidates_of(Sequential([rule_pass(Doubles), rule_pass(Signs)]), 4)[0] for _ in range(2))
    assert [candidate.name for candidate in first] == [candidate.name for candidate in second]
    assert all(structural_equal(a.module["main"], b.module["main"]) for a, b in zip(first, second, strict=True))


def test_no_program_is_a_candidate_twice() -> None:
    found, _ = candidates_of(Sequential([rule_pass(Doubles), rule_pass(Signs)]), 8)
    pairs = itertools.combinations([from_onnx(doubled()), *(candidate.module for candidate in found)], 2)
    assert not any(structural_equal(a["main"], b["main"]) for a, b in pairs)


@pytest.mark.parametrize(("fast", "taken"), [(1, ["Mul", "Neg"]), (2, ["Div", "Neg"]), (0, ["Add", "Neg"])])
def test_the_second_best_may_win(fast: int, taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passat.choose, "take_turns", timed(lambda which: 0.5 if which == fast else 1.0))
    result = optimize(doubled(), passes="Doubles", rules=[Doubles], cost=Odd(), choose="time", candidates=2)
    assert [node.op_type for node in result.model.graph.node if node.op_type != "Constant"] == taken
    assert [(timing.name, timing.chosen) for timing in result.report.timings] == [
        (name, number == fast) for number, name in enumerate(("the input", "Odd", "Odd, 2nd of Doubles"))
    ]
    if fast:
        assert result.report.verification is not None
        assert result.report.verification.equal is True
    assert "by Odd, 2nd of Doubles" in str(result.report)


def test_moved_prices_stay_within_a_factor_of_two() -> None:
    prices = [Moved(NodeCount(), seed).call(get_op(name), [T], T, Attrs()) for seed in range(50) for name in ("exp", "tan")]
    assert all(0.5 <= price <= 2.0 for price in prices)
    assert len(set(prices)) == 100
    assert Moved(NodeCount(), 3).call(get_op("exp"), [T], T, Attrs()) == Moved(NodeCount(), 3).call(get_op("exp"), [T], T, Attrs())


# ---- whole optimizations


def test_the_fastest_is_taken_and_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passat.choose, "take_turns", timed(lambda which: 1.0 / (which + 1)))
    result = optimize(model("Neg", "Neg", "Exp"), choose="time")
    report = result.report
    assert [node.op_type for node in result.model.graph.node] == ["Exp"]
    assert [(timing.name, timing.seconds, timing.nodes, timing.chosen) for timing in report.timings] == [
        ("the input", 1.0, 3, False),
        ("roofline", 0.5, 1, True),
    ]
    assert report.verification is not None
    assert report.verification.equal is True
    assert report.kept == ""
    assert (report.node_count_before, report.node_count_after) == (3, 1)
    assert report.cost_after < report.cost_before
    text = str(report)
    assert "by roofline" in text
    assert "faster than the input in 100% of 11 rounds" in text


def test_the_input_stays_if_no_candidate_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passat.choose, "take_turns", timed(lambda which: 1.0 - which * MARGIN / 2))
    proto = model("Neg", "Neg", "Exp")
    result = optimize(proto, choose="time", cost="nodes", candidates=1)
    assert result.model is proto
    assert result.report.kept == "no candidate is faster than the input by more than 3%"
    assert [timing.chosen for timing in result.report.timings] == [True, False]
    assert result.report.node_count_after == 3
    assert result.report.cost_after == result.report.cost_before == 3


def test_a_candidate_that_does_not_load_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passat.choose, "take_turns", timed(lambda which: 1.0))
    monkeypatch.setattr(passat.choose, "loadable", lambda model, folder: contextlib.nullcontext(b"nonsense"))
    report = optimize(model("Neg", "Neg", "Exp"), choose="time").report
    assert [bool(timing.failed) for timing in report.timings] == [False, True]
    assert report.kept
    assert report.timings[1].failed.split()[0] in str(report)


def test_without_timings_the_cost_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(runner: Runner, how: Comparing) -> None:
        raise NothingToTimeError("does not run on random inputs: no reason")

    monkeypatch.setattr(passat.choose, "choose_feed", fails)
    result = optimize(model("Neg", "Neg", "Exp"), choose="time")
    assert [node.op_type for node in result.model.graph.node] == ["Exp"]
    assert "nothing was timed, the cost decides: the model does not run on random inputs: no reason" in result.report.cost_notes


def test_a_model_that_is_not_loaded_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(passat.choose, "Runner", fails)
    report = optimize(model("Neg", "Neg", "Exp"), choose="time").report
    assert "nothing was timed, the cost decides: the model is not loaded by ONNX Runtime: broken" in report.cost_notes


def test_nothing_is_timed_if_nothing_changed() -> None:
    report = optimize(model("Exp"), choose="time").report
    assert report.timings == []
    assert report.kept == "no pass changed anything"


def test_real_times_are_taken_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passat.choose, "SECONDS", 600.0)  # a machine that pauses for two seconds may end with fewer rounds
    report = optimize(model(*["Neg", "Neg"] * 20, "Exp", declared=("n", 64)), choose="time", candidates=2).report
    assert all(timing.seconds > 0 and timing.rounds >= 11 for timing in report.timings)
    assert sum(timing.chosen for timing in report.timings) == 1
    assert report.seconds["choose"] > 0


@pytest.mark.parametrize(("options", "said"), [({"choose": "luck"}, "choose must be 'cost' or 'time'"), ({"candidates": 0}, "at least 1")])
def test_bad_options(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        optimize(model("Exp"), **options)  # type: ignore[arg-type]  # that is what is tried


# ---- a user's cost model that fails


class Broken:
    """Returns no price for unknown operators."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return float("nan") if op.name == "exp" else 1.0


@pytest.mark.parametrize("choose", ["cost", "time"])
def test_a_bad_model_is_named_and_no_pass_is_blamed(choose: str) -> None:
    with pytest.raises(CostError, match=r"^the cost model Broken returned nan for exp\(Tensor\[\(4, 4\), float32\]\) -> Tensor"):
        optimize(model("Neg", "Neg", "Exp"), cost=Broken(), choose=choose)  # type: ignore[arg-type]  # a text is one of them


def test_a_bad_cost_model_is_an_error_even_if_no_pass_uses_it() -> None:
    with pytest.raises(CostError, match="the cost model Broken returned nan"):
        optimize(model("Exp"), passes="DeadCodeElimination", cost=Broken())


class Fond:
    """Makes exponentials expensive."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return 100.0 if op.name == "exp" else 1.0


def test_the_final_choice_uses_the_same_cost_model() -> None:
    report = optimize(model("Neg", "Neg", "Exp"), cost=Fond()).report
    assert (report.cost_model, report.cost_before, report.cost_after) == ("Fond", 102, 100)
    assert "estimated 102 Fond became 100 Fond" in str(report)


def test_a_result_of_higher_cost_is_not_taken() -> None:
    @module_pass(opt_level=0)
    def becomes(mod: IRModule, ctx: PassContext) -> IRModule:
        return from_onnx(model("Exp"))

    kept = optimize(model("Sin", "Cos"), passes=[becomes], cost=Fond()).report.kept
    assert kept == "the result is not cheaper: 1 node, estimated 100 Fond, against 2 and 2 Fond"
    assert not optimize(model("Sin", "Cos"), passes=[becomes], cost="nodes", verify=False).report.kept


# ---- the command line


def test_the_command_has_the_same_choices(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passat.choose, "take_turns", timed(lambda which: 1.0 / (which + 1)))
    onnx.save(model("Neg", "Neg", "Exp"), "model.onnx")
    done = run("optimize", "model.onnx", "-o", "out.onnx", "--cost", "nodes", "--choose", "time", "--candidates", 2, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["cost_model"], report["cost_before"], report["cost_after"]) == ("nodes", 3.0, 1.0)
    assert [timing["name"] for timing in report["timings"]] == ["the input", "nodes"]


@pytest.mark.parametrize("option", [("--cost", "roofline"), ("--config", "rules.cost=nodes"), ("--config", 'rules.machine={"launch": 1}')])
def test_options_of_the_command(option: tuple[str, str]) -> None:
    onnx.save(model("Neg", "Neg", "Exp"), "model.onnx")
    done = run("optimize", "model.onnx", "-o", "out.onnx", *option, "--no-verify")
    assert done.exit_code == 0, done.output
    shown = {"roofline": "us", "rules.cost=nodes": "estimated 3 nodes became 1 node ("}.get(option[1], "estimated 3 s became 1 s")
    assert shown in done.stdout


@pytest.mark.parametrize(
    ("option", "code", "said"),
    [
        (("--cost", "fast"), 2, "fast"),
        (("--choose", "luck"), 2, "luck"),
        (("--candidates", "0"), 2, "--candidates"),
        (("--config", "rules.cost=fast"), 2, "config rules.cost takes"),
        (("--config", 'rules.machine={"flops": 0}'), 1, "the flops of a machine must be a positive number up to 1e+100, not 0"),
        (("--config", "rules.machine=that"), 2, "config rules.machine takes"),
    ],
)
def test_bad_options_of_the_command(option: tuple[str, str], code: int, said: str) -> None:
    onnx.save(model("Neg", "Neg", "Exp"), "model.onnx")
    done = run("optimize", "model.onnx", "-o", "out.onnx", *option)
    assert done.exit_code == code
    assert said in done.output
    assert "Traceback" not in done.output
    assert not Path("out.onnx").exists()
