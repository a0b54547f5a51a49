"""Rules with holes for operators: expansion, names, disabling, counts and queries."""

from typing import Any, cast

import pytest

from passat.catalog import rule_rows, rules_text
from passat.ir.module import IRModule
from passat.rules import RuleError, RuleSet, attributes, constant, op, operator, rule_pass, tensors, tensors_of
from passat.rules.checking.check_sets import check_rule
from passat.rules.rule_set import RuleSetMeta
from passat.rules.why_not.ask import Inquiry, WhyNotError
from tests.rules.building import func, ops, var
from tests.rules.running import apply, operators, saturate

x, y = tensors("x y")
c = constant("c")
a, p = attributes("a p")
f = operator("f", elementwise=True, arity=1, but=("copy",))
extremum = operator("extremum", "maximum", "minimum")


class Operated(RuleSet):
    """Doubled operators, and a view that moves."""

    twice = extremum(extremum(x, y), y) >> extremum(x, y)
    moved = (f(op.transpose(x, axes=p), attrs=a) >> op.transpose(f(x, attrs=a), axes=p)).and_back()


v, w = var("v", (2, 3)), var("w", (2, 3))
BOTH = func(ops.minimum(ops.minimum(v, w), w) + ops.maximum(ops.maximum(v, w), w))


def test_a_rule_expands_to_its_operators() -> None:
    assert [rule.name for rule in Operated] == ["Operated.twice", "Operated.moved"]
    assert [each.name for each in Operated.twice.directions()] == ["Operated.twice[maximum]", "Operated.twice[minimum]"]
    assert repr(Operated.twice.directions()[0]) == "maximum(maximum(x, y), y) -> maximum(x, y)"
    names = [each.name for each in Operated.moved.directions()]
    assert {"Operated.moved[nn.relu]", "Operated.moved.back[nn.relu]"} <= set(names)
    assert "Operated.moved[copy]" not in names


def test_attributes_are_kept_if_an_operator_has_any() -> None:
    made = {each.name: repr(each) for each in Operated.moved.directions()}
    assert made["Operated.moved[exp]"] == "exp(transpose(x, axes=p)) -> transpose(exp(x), axes=p)"
    assert made["Operated.moved[clip]"] == "clip(transpose(x, axes=p), attrs=a) -> transpose(clip(x, attrs=a), axes=p)"


def test_guards_and_computed_values_receive_the_operator() -> None:
    from passat.rules.guards import same_type, shape_of

    rule = (extremum(x, y) >> op.broadcast_to(x, shape=shape_of(extremum(x, y)))).when(same_type(x, extremum(x, y)))
    direction = rule.named("Guards.seen").directions()[1]
    assert repr(direction) == "minimum(x, y) -> broadcast_to(x, shape=shape_of(minimum(x, y)))"
    assert [repr(each) for each in direction.guards] == ["same_type(x, minimum(x, y))"]


def test_it_fires_and_is_counted_under_the_name_of_the_rule() -> None:
    outcome = saturate(BOTH, Operated)
    assert sorted(operators(outcome.function)) == ["add", "maximum", "minimum"]
    assert outcome.fired("Operated.twice") == 2


@pytest.mark.parametrize(
    ("disabled", "left"),
    [("Operated.twice", 4), ("Operated.twice[maximum]", 3), ("Operated", 4), ("Operated.moved", 2)],
)
def test_a_rule_is_switched_off_as_a_whole_or_for_one_operator(disabled: str, left: int) -> None:
    outcome = apply(rule_pass(Operated), BOTH, rules__disabled=[disabled])
    assert sum(name in ("maximum", "minimum") for name in operators(outcome.function)) == left


def test_why_not_answers_for_each_operator() -> None:
    inquiry = Inquiry(IRModule({"main": BOTH}), rule_pass(Operated))
    assert inquiry.is_set("Operated.twice")
    assert inquiry.rules_of("Operated.twice") == ["Operated.twice[maximum]", "Operated.twice[minimum]"]
    assert inquiry.answer("Operated.twice[minimum]").findings[0].times == 1
    with pytest.raises(WhyNotError, match=r"^Operated\.twice has no form \[add\]: extremum is maximum or minimum$"):
        inquiry.answer("Operated.twice[add]")


def test_why_not_says_that_a_hole_without_attributes_stands_for_no_operator_with_some() -> None:
    class Plain(RuleSet):
        """A rule for operators without attributes."""

        once = f(f(x)) >> f(x)

    inquiry = Inquiry(IRModule({"main": BOTH}), rule_pass(Plain))
    with pytest.raises(WhyNotError, match=r"no form \[clip\]: clip has attributes, and f\(\.\.\.\) .*: write f\(\.\.\., attrs=a\)$"):
        inquiry.answer("Plain.once[clip]")


def test_the_list_describes_holes() -> None:
    text = rules_text(rule_rows([Operated]))
    assert "extremum is maximum or minimum" in text
    assert "f is any elementwise operator of 1 operand but copy" in text


def test_every_operator_is_checked() -> None:
    checked = check_rule((operator("g", "add", "maximum")(x, x) >> x).named("Wrong.same"), instances=10)
    assert checked.report.verdict == "rejected"
    assert {trier.rule.name for trier, _ in checked.wrong} == {"Wrong.same[add]"}


def test_attributes_that_are_not_named_have_their_defaults() -> None:
    reduce = operator("reduce", "sum", "max")
    rule = reduce(op.negative(op.negative(x)), axis=p) >> reduce(x, axis=p)
    assert [repr(direction) for direction in rule.directions()] == [
        "sum(negative(negative(x)), axis=p) -> sum(x, axis=p)",
        "max(negative(negative(x)), axis=p) -> max(x, axis=p)",
    ]
    with pytest.raises(RuleError, match="does not specify newshape of view"):
        operator("view", "reshape")(op.exp(x)) >> x


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: operator("f", wrong=True, arity=1), "there is no trait 'wrong'"),
        (lambda: operator("f", elementwise=True, arity=7), "there is no operator with these traits and arity=7"),
        (lambda: operator("f", elementwise=True, arity=True), "arity= is the number of operands, not True"),
        (lambda: operator("f", "add", elementwise=True, arity=2), "not both"),
        (lambda: f(x, y) >> x, "f stands for operators with arity=1, but the pattern gives 2 operands"),
        (lambda: operator("g", "add", "exp")(x) >> x, r"g is add or exp, but add takes 2 operands, and g\(x\) does not fit"),
        (lambda: operator("g", "add", "exp")(*tensors_of("xs", least=2)), r"but exp takes 1 operand, and g\(\*xs\) does not fit"),
        (lambda: operator("g", "add", "clip")(x, ...), r"but add takes 2 operands, and g\(x\) does not fit"),
        (lambda: operator("g", "add", "add"), "'add' is given twice"),
        (lambda: operator("g", "ad"), "there is no operator 'ad'; did you mean add"),
        (lambda: operator("g", cast(str, ["exp", "log"])), "operators are given by name, such as 'nn.relu', not as \\['exp', 'log'\\]"),
        (lambda: operator("g", cast(str, op.exp)), "operators are given by name, such as 'nn.relu', not as op.exp"),
        (lambda: operator("g", elementwise=True, but=("relu",)), "there is no operator 'relu'; did you mean nn.relu"),
        (lambda: operator("g", elementwise=True, but=cast(tuple[str, ...], "exp")), "but= is a tuple of names of operators, not 'exp'"),
        (lambda: operator("g", elementwise=cast(bool, "yes")), "elementwise= is True or False, not 'yes'"),
        (lambda: operator("1g", "exp"), "the name of a hole is a word"),
        (
            lambda: RuleSetMeta("None_", (RuleSet,), {"r": (g := operator("g", elementwise=True))(g(x), y) >> x}),
            "g is any elementwise operator: no choice fits both sides",
        ),
        (lambda: f(x) >> extremum(x, x), "the right side uses the operator 'extremum', which the left side does not bind"),
        (lambda: f(x, axis=1) >> x, "f has no attribute 'axis'"),
        (lambda: op.add(cast(Any, f), x) >> x, r"f is a hole for an operator that is not applied: write f\(...\)"),
        (lambda: RuleSetMeta("Two", (RuleSet,), {"r": extremum(operator("extremum", "add")(x, y), y) >> x}), "two holes for operators"),
    ],
)
def test_mistakes(make: "object", sentence: str) -> None:
    with pytest.raises(RuleError, match=sentence):
        make()  # type: ignore[operator]  # a function of the table
