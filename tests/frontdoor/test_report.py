"""The contents and display of reports, and the progress line."""

import io
import json

import onnx
from onnx import TensorProto, helper
from rich.console import Console

from passat.feeds import Trial
from passat.passmgr import PassTime, Statistics
from passat.render import ProgressLine, rendered
from passat.report import Report, RuleReport, histogram
from passat.rules.engine.limits import INTERRUPTED, Stop, StopReason
from passat.rules.engine.report import Rejected, early_end
from passat.verify import OutputReport, VerifyReport
from tests.patience import comes_true


def branch(name: str) -> onnx.GraphProto:
    nodes = [helper.make_node("Neg", ["x"], [name])]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])])


def conditional() -> onnx.ModelProto:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=branch("a"), else_branch=branch("b")),
        helper.make_node("Strange", ["y"], ["z"], domain="made.up", values=[1, 2]),
    ]
    inputs = [value, helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2])])
    function = helper.make_function(
        "made.up", "Strange", ["p"], ["q"], [helper.make_node("Exp", ["p"], ["q"])], [helper.make_opsetid("", 18)]
    )
    return helper.make_model(graph, functions=[function])


def filled() -> Report:
    report = Report("in.onnx", nodes_before={"Add": 3, "Constant": 2, "Neg": 4}, nodes_after={"Add": 1, "Neg": 4})
    report.cost_before, report.cost_after = 0.002, 0.001
    report.seconds = {"read": 0.1, "passes": 0.2}
    statistics = Statistics()
    statistics.record("Simplify", "merged", 2)
    statistics.record("Simplify", "seconds", 0.1)
    for key, amount in {
        "matched:Sums.zero": 3,
        "rejected:Sums.zero": 3,
        "fired:Sums.zero": 2,
        "matched:Sums.other": 1,
        "fired:Sums.other": 0,
    }.items():
        statistics.record("Simplify", key, amount)
    statistics.remark("Simplify", early_end(Stop(StopReason.NODES, "more than 10")))
    statistics.remark("Simplify", "something else")
    statistics.remark("Simplify", Rejected("Sums.zero", "c is 1", 2))
    report.take_statistics(statistics, [PassTime("Simplify", 0.15, 0)], {"Mine.rule": ""})
    trials = (Trial(0, {"n": 2}), Trial(1, {"n": 5}))
    report.verification = VerifyReport(True, (OutputReport("y", "tensor(float)", 1e-6, 1e-7, 2),), trials, seconds=0.3)
    report.output = "out.onnx"
    return report


def test_nodes_in_subgraphs_and_functions_count() -> None:
    assert histogram(conditional()) == {"Exp": 1, "If": 1, "Neg": 2, "made.up.Strange": 1}


def test_statistics_become_rules_passes_limits_and_remarks() -> None:
    report = filled()
    assert [(rule.name, rule.matched, rule.rejected, rule.fired) for rule in report.rules] == [
        ("Sums.zero", 3, 3, 2),
        ("Mine.rule", 0, 0, 0),
        ("Sums.other", 1, 0, 0),
    ]
    assert report.passes[0].counters == {"merged": 2}
    assert report.limits == ["Simplify: stopped at the limit of nodes: more than 10; the best program so far was extracted"]
    assert report.remarks == ["Simplify: something else", "Simplify: Sums.zero rejected 2 times: c is 1"]
    assert report.rules[0].reasons == {"c is 1": 2, "(other reasons)": 1}


def test_an_interruption_is_reported_once() -> None:
    report, statistics = Report(), Statistics()
    for name in ("Simplify", "Algebra"):
        statistics.remark(name, early_end(INTERRUPTED))
        statistics.remark(name, early_end(Stop(StopReason.NODES, "more than 10")))
    report.take_statistics(statistics, [])
    assert [limit.partition(";")[0] for limit in report.limits] == [
        "Simplify: interrupted",
        "Simplify: stopped at the limit of nodes: more than 10",
        "Algebra: stopped at the limit of nodes: more than 10",
    ]


def test_json_holds_everything() -> None:
    data = json.loads(filled().to_json())
    assert (data["node_count_before"], data["node_count_after"]) == (7, 5)
    assert data["nodes_after"] == {"Add": 1, "Neg": 4}
    counted = {"name": "Sums.zero", "matched": 3, "rejected": 3, "fired": 2, "own": False, "reasons": {"c is 1": 2, "(other reasons)": 1}}
    assert data["rules"][0] == {**counted, "seconds": 0.0, "made": 0, "share": 0.0, "taken": None, "why_not_run": ""}
    assert data["verification"]["equal"] is True
    assert data["verification"]["trials"][1]["sizes"] == {"n": 5}
    assert data["output"] == "out.onnx"


def test_a_report_reads() -> None:
    assert rendered(filled(), width=200).splitlines() == [
        "in.onnx: 7 nodes became 5 (-29 %), estimated 2 ms became 1 ms (-50 %), in 300 ms",
        "",
        "operator           before  after",
        "Add                     3      1  -2",
        "Constant                2      0  -2  holds data, not counted",
        "others, unchanged       4      4",
        "",
        "pass        time",
        "Simplify  150 ms  2 merged",
        "(read)    100 ms",
        "",
        "rule       fired  matched  rejected",
        "Sums.zero      2        3         3",
        "! Mine.rule did not fire: nothing matched its left side",
        "! Simplify: stopped at the limit of nodes: more than 10; the best program so far was extracted",
        "",
        "verified on ONNX Runtime: the same values up to rounding (largest relative difference 1.0e-07), "
        "on 2 random inputs (n=2; n=5), in 300 ms",
        "written to out.onnx",
    ]


def test_skipped_work_is_reported() -> None:
    report = Report("in.onnx", nodes_before={"Add": 1}, nodes_after={"Add": 1})
    assert "no operator occurs more or less often than before" in str(report)
    assert "no rule fired; passes without rules changed the model" in str(report)
    assert "verification: switched off" in str(report)
    report.kept = "no pass changed anything"
    assert "the input is returned: no pass changed anything" in str(report)
    assert "no rule fired\n" in str(report)
    assert "nothing to compare" in str(report)
    report.verification = VerifyReport(None, skipped="it does not load")
    assert "nothing was compared: it does not load" in str(report)
    report.verification = VerifyReport(True, (OutputReport("y", "tensor(float)", note="not compared: chance"),))
    assert "output y: not compared: chance" in str(report)


def test_numbers_are_not_wrapped_in_narrow_terminals() -> None:
    report = Report(rules=[RuleReport("ScaleAxis.conv2d_normalized_by_more", matched=1234, rejected=345, fired=889)])
    lines = rendered(report, width=40).splitlines()
    assert any(line.endswith("889     1234       345") for line in lines), lines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(there: bool) -> tuple[Console, io.StringIO]:
    """A console that has colors, as with FORCE_COLOR, and its output."""
    out = Terminal() if there else io.StringIO()
    return Console(file=out, force_terminal=True, width=60, highlight=False), out


def test_long_work_is_shown_on_a_terminal() -> None:
    console, out = terminal(True)
    with ProgressLine(console, delay=0.0) as progress:
        progress("running FoldConstant")
        assert comes_true(lambda: "FoldConstant" in out.getvalue())
    assert "running FoldConstant ..." in out.getvalue()


def test_short_work_is_not() -> None:
    console, out = terminal(True)
    with ProgressLine(console, delay=60.0) as progress:
        progress("running FoldConstant")
    assert "FoldConstant" not in out.getvalue()


def test_nothing_is_shown_without_a_terminal() -> None:
    console, out = terminal(False)
    with ProgressLine(console, delay=0.0) as progress:
        progress("running FoldConstant")
    assert out.getvalue() == ""


def test_long_work_is_reported_in_lines_without_a_terminal() -> None:
    for interval, said in ((0.0, "checking [a] ...\nchecking b ...\n"), (60.0, "")):
        console, out = terminal(False)
        with ProgressLine(console, lines=True, interval=interval) as progress:
            progress("checking [a]")
            progress("checking b")
        assert out.getvalue() == said
