"""Results of checking rules: sound rules, each kind of fault on the smallest instance, and fixes."""

import functools
import json

import numpy as np
import pytest

from passat.ir.types import TensorType
from passat.rules.checking.check_sets import check_rule, check_rules
from passat.rules.checking.report import RuleReport, reports_text, rule_lines, summary
from passat.rules.checking.sampler import RARE_TYPES
from passat.rules.checking.trying import tried
from passat.rules.guards import Reject, Term, computed, guard, has_dtype, is_all, is_identity, is_not_empty, same_type, scalar_of
from passat.rules.holes import tensors_of
from passat.rules.pattern import attribute, constant, number, op, tensors
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from passat.rules.samples import Sample, strategy_for
from tests.rules.checking.wrong_rules import Circle, Covering, Sound, Useless, Wrong

x, y = tensors("x y")
xs, ys = tensors_of("xs"), tensors_of("ys")
p = attribute("p")
c = constant("c")


def kinds(report: RuleReport) -> list[str]:
    return [finding.kind for finding in report.findings]


@functools.cache
def report_of(rule: Rule, instances: int = 200, seed: int = 0) -> RuleReport:
    return check_rule(rule, instances=instances, seed=seed).report


@pytest.mark.parametrize("rule", Sound.rules, ids=lambda rule: rule.name)
def test_sound_rules_pass_on_the_requested_instances(rule: Rule) -> None:
    report = report_of(rule, 60)
    assert (report.verdict, report.findings, report.fixed_by) == ("sound", [], "")
    assert report.compared == 120 if rule.back else report.compared == 60
    assert report.drawn >= report.ill_typed + report.compared


FIXED = {
    "swapped": "",
    "less_itself": ".inexact(...)",
    "halves": "",
    "relu_of_scaled": ".inexact(...).when(is_float(x), is_positive(c))",
    "transposed_sum": ".when(same_rank(x, y))",
    "pads": "",
    "products": "nn.matmul without `...` on the left side",
    "keeps_no_infinity": ".inexact(..., nonfinite='mixed')",
    "makes_finite": ".finite(...)",
    "makes_undefined": ".finite(...)",
    "scales_a_factor": ".finite(...)",
    "only_back": ".finite(...)",
}


INSTANCES = {"scales_a_factor": 100, "transposed_sum": 200}
"""A number of instances on which a rule fails often enough for a fix to be found; 60 are too few."""


def wrong_report(rule: Rule) -> RuleReport:
    name = rule.name.partition(".")[2]
    return report_of(rule, INSTANCES.get(name, 60))


def test_a_fix_is_written_as_in_a_rule_file() -> None:
    rule = (op.mean(op.transpose(x, axes=p), axis=[1, 2]) >> op.mean(x, axis=[1, 2])).when(x.ndim == 4)
    fixed_by = report_of(rule).fixed_by
    assert fixed_by == ".when(is_identity(p, op.transpose(x, axes=p)))"
    fixed: Rule = eval(f"rule{fixed_by}", {"rule": rule, "op": op, "x": x, "p": p, "is_identity": is_identity})
    assert report_of(fixed).verdict == "sound"


@pytest.mark.parametrize("rule", Wrong.rules, ids=lambda rule: rule.name)
def test_wrong_rules_get_a_counterexample_and_a_fix(rule: Rule) -> None:
    report = wrong_report(rule)
    assert (report.verdict, kinds(report)) == ("rejected", ["value"])
    assert report.fixed_by == FIXED[rule.name.partition(".")[2]]
    assert report.counterexample is not None
    assert report.counterexample.reason in report.findings[0].text


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        (Wrong.swapped, ["x: float32 = 0", "y: float32 = 1", "left  subtract(%x, %y) = -1", "right subtract(%y, %x) = 1"]),
        (Wrong.halves, ["x: float32 = 1", "left  divide(%x, 2f) = 0.5", "right multiply(%x, 0.25f) = 0.25"]),
        (Wrong.less_itself, ["x: float32 = -0.0", "left  subtract(%x, %x) = 0", "right multiply(%x, 0f) = -0.0"]),
        (
            Wrong.transposed_sum,
            [
                "x: Tensor[(2, 2), float32] = 0 throughout",
                "y: Tensor[(2,), float32] = [0, 1]",
                "left  transpose(add(%x, %y)) = [[0, 0], [1, 1]]",
                "right add(transpose(%x), transpose(%y)) = [[0, 1], [0, 1]]",
            ],
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Rule) else "",
)
def test_the_smallest_instance_is_simple(rule: Rule, lines: list[str]) -> None:
    report = wrong_report(rule)
    assert report.counterexample is not None
    assert report.counterexample.lines == lines


def test_differences_beyond_rounding_are_preferred_to_signs_of_zero() -> None:
    report = wrong_report(Wrong.relu_of_scaled)
    assert report.counterexample is not None
    assert report.counterexample.reason == "the element is 0.0 on the right, -1.0 on the left"


USELESS = {
    "ill_typed": ("never matches", "no instance of the left side is well typed: logical_and("),
    "no_such_field": ("never matches", "has no field 1"),
    "held_back": ("never holds", "the guard never(x) held in none of 2"),
    "raises": ("raises", "has_even_first(x) raises IndexError: tuple index out of range; return a reason, or raise Reject(reason)"),
    "of_types": ("types", "the sides have different types in all"),
    "distributes": ("enlarges", "made every instance more expensive"),
    "round_and_round": ("loops", "returns to its input"),
}


@pytest.mark.parametrize("rule", Useless.rules, ids=lambda rule: rule.name)
def test_rules_that_never_fire_are_reported(rule: Rule) -> None:
    [report] = check_rules([rule])
    kind, text = USELESS[rule.name.partition(".")[2]]
    assert kinds(report) == [kind]
    assert text in report.findings[0].text
    assert report.ok == (kind == "enlarges")


def test_the_instance_at_which_a_condition_raises_is_shown() -> None:
    report = report_of(Useless.raises)
    assert report.counterexample is not None
    assert report.counterexample.lines == ["x: float32 = 0", "left  nn.relu(%x)"]


def test_only_rules_that_undo_each_other_are_reported() -> None:
    reports = {report.name: report for report in check_rules(Circle, instances=40)}
    circle = "forms a cycle, so it improves no program: Circle.there -> Circle.back -> Circle.there; use .exploring() on one of them"
    assert [finding.text for finding in reports["Circle.there"].findings] == [circle]
    assert [finding.text for finding in reports["Circle.back"].findings] == [circle]
    assert reports["Circle.aside"].ok


class Once(metaclass=RuleSetMeta):
    """A rule with holes."""

    doubled = op.concatenate((*xs, op.negative(op.negative(x)), *ys), axis=p) >> op.concatenate((*xs, x, *ys), axis=p)


class Twice(metaclass=RuleSetMeta):
    """The same rule."""

    doubled = op.concatenate((*xs, op.negative(op.negative(x)), *ys), axis=p) >> op.concatenate((*xs, x, *ys), axis=p)


def test_a_rule_with_holes_is_subsumed_by_its_copy() -> None:
    reports = check_rules([*Once, *Twice], instances=10)
    assert [kinds(report) for report in reports] == [[], ["subsumed"]]
    assert reports[1].findings[0].text == "is subsumed by Once.doubled"


def test_subsumed_rules_are_reported() -> None:
    reports = {report.name: report for report in check_rules(Covering, instances=40)}
    covered = {name for name, report in reports.items() if "subsumed" in kinds(report)}
    assert covered == {"Covering.of_relu", "Covering.swapped"}
    assert reports["Covering.of_relu"].findings[0].text == "is subsumed by Covering.any_sum"
    assert reports["Covering.of_relu"].ok


@guard
def unlucky(x: Term) -> bool | str:
    """Rejects scalars by an exception whose text begins like a rejection by the pattern."""
    if not x.type.shape:
        raise Reject("the attribute of luck is absent")
    return True


@computed
def never(x: Term) -> float:
    """Has no value."""
    raise Reject(f"the right side has type {x.type!r}")


def test_rejections_are_known_by_what_rejected_not_by_their_text() -> None:
    report = report_of((op.exp(x) >> op.copy(op.exp(x))).when(unlucky(x)).named("lucky"), 30)
    assert set(report.rejected) == {"unlucky(x)"}
    report = report_of((op.exp(x) >> number(never(x))).named("worthless"), 20)
    assert set(report.rejected) == {"never(x)"}
    [finding] = report.findings
    assert finding.kind == "never holds"
    assert finding.text.startswith("never(x) had a value in none of ")


def test_a_guard_that_raises_rejects_like_one_that_answers() -> None:
    report = report_of((op.exp(x) >> x).when(is_all(op.exp(x), 0)).named("of_constants"), 20)
    assert set(report.rejected) == {"is_all(exp(x), 0)"}
    assert [finding.kind for finding in report.findings] == ["never holds"]
    assert "the guard is_all(exp(x), 0) held in none of " in report.findings[0].text


def test_rejections_are_counted_by_condition() -> None:
    report = report_of((x + c >> x).when(is_all(c, 0), same_type(x, x + c)).inexact("-0.0 + 0.0 is 0.0").named("zero"), 50)
    assert set(report.rejected) == {"is_all(c, 0)", "same_type(x, (x + c))"}
    assert report.drawn == report.ill_typed + report.accepted + sum(report.rejected.values())


def test_the_same_seed_gives_the_same_report_and_another_seed_other_instances() -> None:
    first, again, other = (check_rule(Wrong.halves, seed=seed, instances=60).report.data() for seed in (3, 3, 4))
    assert first == again
    assert (first["drawn"], first["ill_typed"]) != (other["drawn"], other["ill_typed"])


def test_a_rule_meets_the_same_instances_by_itself_and_among_others() -> None:
    alone = check_rule(Wrong.halves, instances=30).report
    among = check_rules([Sound.twice, Wrong.halves, Sound.commutes], instances=30)
    assert alone.data() == next(report for report in among if report.name == "Wrong.halves").data()


def test_both_directions_of_a_rule_are_tried() -> None:
    there = (op.nn.relu(x) >> op.nn.relu(op.nn.relu(x))).named("there")
    wrong_back = (op.exp(x) * y >> op.exp(x) * (y + (y - y))).finite("y - y is 0").and_back().named("back")
    assert report_of(there, 40).compared == 40
    assert report_of(wrong_back, 40).compared == 80


def test_instances_include_all_types_and_special_elements() -> None:
    checked = tried((op.copy(x) >> x).named("copy"), 0, 600)
    types = [trial.case.types["x"] for _, trial in checked.agreeing]
    arrays = [trial.left_value[0] for _, trial in checked.agreeing]
    dtypes = {type_.dtype for type_ in types if isinstance(type_, TensorType)}
    assert dtypes >= {"float32", "float16", "bfloat16", "int8", "uint32", "bool"}
    assert dtypes & set(RARE_TYPES)
    assert {array.ndim for array in arrays} >= {0, 1, 2, 3, 4}
    assert {0, 1, 2, 3} <= {size for array in arrays for size in array.shape}
    assert any(trial.case.unknown for _, trial in checked.agreeing)
    floats = np.concatenate([array.reshape(-1) for array in arrays if array.dtype == np.float32])
    assert np.isnan(floats).any()
    assert np.isinf(floats).any()
    assert (np.abs(floats[floats != 0]) < 1e-38).any()
    assert np.signbit(floats[floats == 0]).any()
    small = np.concatenate([array.reshape(-1) for array in arrays if array.dtype == np.int8])
    assert {-128, 127, 0} <= set(small.tolist())


def test_guards_on_constants_get_constants() -> None:
    report = report_of((x - y >> op.negative(y)).when(is_all(x, 0), same_type(y, x - y)).inexact("0.0 - 0.0 is 0.0").named("zero"), 60)
    assert report.compared == 60
    assert report.verdict == "sound"


def test_unevaluated_rules_are_reported_and_not_sound() -> None:
    @guard
    def is_zero(c: Term) -> bool | str:
        """True for an integer zero."""
        return c.type.dtype.startswith("int") and c.value().uniform() == 0

    rule = (op.divide(x, c) >> op.divide(x, op.copy(c))).when(is_zero(c), is_not_empty(op.divide(x, c))).named("by_zero")
    report = report_of(rule, 20)
    assert report.verdict == "unchecked"
    assert not report.ok
    assert kinds(report) == ["undefined"]
    assert list(report.not_compared) == ["the left side has no value: the kernel of divide rejected its operands"]


def test_reports_are_json_and_text() -> None:
    reports = check_rules([Wrong.halves, Sound.twice], instances=20)
    data = json.loads(json.dumps([report.data() for report in reports]))
    assert [(row["name"], row["verdict"]) for row in data] == [("Wrong.halves", "rejected"), ("Sound.twice", "sound")]
    assert data[0]["counterexample"]["lines"][0] == "x: float32 = 1"
    text = reports_text(reports)
    assert "Wrong.halves: rejected\n" in text
    assert "repeat with --rule Wrong.halves --seed 0" in text
    assert "Sound.twice" not in text
    assert text.endswith("1 sound, 1 rejected")
    assert "Sound.twice: sound" in reports_text(reports, verbose=True)
    assert summary([]) == "0 rules checked on 0 instances"


def test_only_checks_that_rejected_many_instances_are_shown() -> None:
    rejected = {f"guard{i}(x)": 20 - i for i in range(12)}
    report = RuleReport("Mine.many", "x -> x", [], "exact", "mine.py:1", 0, drawn=200, compared=26, rejected=rejected)
    shown = rule_lines(report)[2]
    assert shown.endswith("13 rejected: guard7(x), 42 rejected by 4 other checks")


def test_computed_numbers_and_literals_are_tried() -> None:
    rules = RuleSetMeta("Numbers", (), {"doubled": (x * c >> x * number(scalar_of(c))).when(same_type(x, x * c))})
    assert report_of(rules.rules[0], 40).verdict == "sound"


def test_a_computed_number_has_a_strategy() -> None:
    @computed
    def hundredth(c: Term) -> float:
        value = c.value().uniform()
        if value != 125:
            raise Reject("not 125")
        return float(value)

    strategy_for(hundredth)(lambda sampler, c: [Sample(elements=(125,))])
    report = report_of((x * c >> x * number(hundredth(c))).when(same_type(x, x * c)).named("Mine.number"), 40)
    assert report.verdict == "sound"
    assert report.drawn < 40 * 20


def test_comparisons_plan_the_number_of_a_constant() -> None:
    report = report_of((x * c >> c * x).when(scalar_of(c) > 1000).exploring().named("Mine.large"), 40)
    assert (report.verdict, report.compared) == ("sound", 40)


def test_joining_rules_are_checked_like_others() -> None:
    assert check_rule((x + y >> y + x).joining().named("Joins.swapped"), instances=20).report.verdict == "sound"
    assert kinds(check_rule((x - y >> y - x).joining().named("Joins.wrong"), instances=20).report)[0] == "value"


def test_counterexamples_have_the_attributes_of_undeclared_operators() -> None:
    rule = (op.negative(op.onnx.Det(x, attrs=p)) >> op.onnx.Det(x, attrs=p)).named("Mine.sign")
    report = check_rule(rule, instances=20).report
    assert report.counterexample is not None
    assert any(line.startswith("left  negative(onnx.Det(") and "opset=" in line for line in report.counterexample.lines)


def test_guards_compute_without_warnings() -> None:
    """The engine ignores floating-point warnings, and so does the check: an element may be negative, and its root NaN."""

    @guard
    def has_roots(c: Term) -> bool | str:
        return bool(np.all(np.isfinite(np.sqrt(c.value().numpy())))) or "an element is negative"

    assert report_of((x * c >> c * x).when(has_dtype(x, "float32"), has_roots(c))).verdict == "sound"


def test_draws_for_inexact_rules_underflow() -> None:
    rule = (op.exp(x) * op.exp(y) >> op.exp(x + y)).inexact("one rounding instead of two").exploring().named("Mine.exps")
    assert "is inf on the right, nan on the left" in report_of(rule, 200).findings[0].text
    kept = report_of((op.log(op.exp(x)) >> x).inexact("two fewer roundings"), 200)
    assert (kept.verdict, "an intermediate value of the left side underflows" in kept.not_compared) == ("sound", True)


def test_elements_that_differ_in_the_last_digits_print_differently() -> None:
    example = report_of(x / 3 >> x * (1 / 3)).counterexample
    assert example is not None
    left, right = (line.rpartition(" = ")[2] for line in example.lines[-2:])
    assert left != right
