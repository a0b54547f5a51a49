"""Rules with holes for cases: expansion, application, and rejected uses."""

from collections.abc import Callable

import pytest

from passat.catalog import rule_rows, rules_text
from passat.rules import RuleError, RuleSet, cases, constant, each, joined, op, operator, parts, rule_pass, tensors
from passat.rules.checking.check_sets import check_rule
from passat.rules.guards import has_rank, is_all
from passat.rules.library.folding import ConstantFolding
from passat.rules.pattern import Pattern
from passat.rules.typecheck import check_types
from tests.rules.building import func, numbers, ops, splat, tup, var
from tests.rules.running import apply, assert_equal_in_value, operators, saturate

x, w, b = tensors("x w b")
c = constant("c")
f = operator("f", "exp", "sin")
kind, bias = cases("kind", "matmul", "dense"), cases("bias", "none", "row")
weight = kind(matmul=w * c, dense=w * op.reshape(c, newshape=()))


def product(of: Pattern) -> Pattern:
    made: Pattern = kind(matmul=x @ of, dense=op.nn.dense(x, of))
    return made


class Weighed(RuleSet):
    """A factor after any form of product, with or without a bias, is folded into the weight."""

    scaled = (
        (bias(none=product(w), row=product(w) + b) * c >> bias(none=product(weight), row=product(weight) + b * c))
        .when(has_rank(c, 0), *kind.only("dense", has_rank(x, 2)), *bias.only("row", has_rank(b, 1), *kind.only("matmul", is_all(c, 2))))
        .inexact("distributes")
        .exploring()
    )


NAMES = ["none, matmul", "none, dense", "row, matmul", "row, dense"]
rows, matrix, shift = var("rows", (4, 3)), numbers((3, 5)), numbers((5,))


def test_a_rule_expands_to_its_cases() -> None:
    made = {direction.name: direction for direction in Weighed.scaled.directions()}
    assert list(made) == [f"Weighed.scaled[{name}]" for name in NAMES]
    one = made["Weighed.scaled[row, matmul]"]
    assert repr(one) == "(((x @ w) + b) * c) -> ((x @ (w * c)) + (b * c))"
    assert [[repr(guard) for guard in direction.guards] for direction in made.values()] == [
        ["has_rank(c, 0)"],
        ["has_rank(c, 0)", "has_rank(x, 2)"],
        ["has_rank(c, 0)", "has_rank(b, 1)", "is_all(c, 2)"],
        ["has_rank(c, 0)", "has_rank(x, 2)", "has_rank(b, 1)"],
    ]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_it_fires_in_each_case(dense: bool, biased: bool) -> None:
    made = ops.nn.dense(rows, numbers((5, 3))) if dense else ops.nn.matmul(rows, matrix)
    function = func((made + shift if biased else made) * splat(2.0))
    outcome = saturate(function, Weighed, ConstantFolding)
    assert outcome.fired("Weighed.scaled") == 1
    assert operators(outcome.function).count("multiply") == 0
    assert_equal_in_value(function, outcome.function, exact=False)


def test_a_guard_of_some_cases_holds_in_those_alone() -> None:
    plain, biased = ops.nn.matmul(rows, matrix), ops.nn.matmul(rows, matrix) + shift
    assert saturate(func(plain * splat(3.0)), Weighed).fired("Weighed.scaled") == 1
    outcome = saturate(func(biased * splat(3.0)), Weighed)
    assert outcome.fired("Weighed.scaled") == 0
    assert any("not 2" in remark for remark in outcome.remarks), outcome.remarks


@pytest.mark.parametrize(
    ("disabled", "fired"), [("Weighed.scaled", 0), ("Weighed.scaled[none, matmul]", 0), ("Weighed.scaled[none, dense]", 1)]
)
def test_it_is_switched_off_as_one_or_for_a_case(disabled: str, fired: int) -> None:
    outcome = apply(rule_pass(Weighed), func(ops.nn.matmul(rows, matrix) * splat(2.0)), rules__disabled=[disabled])
    assert outcome.fired("Weighed.scaled") == fired


def test_the_list_names_the_cases() -> None:
    text = rules_text(rule_rows([Weighed]))
    assert "kind is matmul or dense" in text
    assert "bias is none or row" in text
    assert "has_rank(x, 2) if kind is dense" in text


def test_operators_of_one_case_are_chosen_there() -> None:
    one = cases("one", "unary", "square")
    rule = one(unary=f(f(x)), square=op.negative(x * x)) >> one(unary=f(x), square=x)
    assert [repr(direction.lhs) for direction in rule.directions()] == ["exp(exp(x))", "sin(sin(x))", "negative((x * x))"]


def test_places_and_axes() -> None:
    part = cases("part", "first", "second")
    turned = op.negative(op.split(x, indices_or_sections=2, axis=part(first=0, second=-1))[part(first=0, second=1)]) >> x
    assert [repr(direction.lhs) for direction in turned.directions()] == [
        "negative(split(x, indices_or_sections=2)[0])",
        "negative(split(x, indices_or_sections=2, axis=-1)[1])",
    ]


def test_calls_that_run_together() -> None:
    whole = kind(matmul=x @ joined(w, axis=-1), dense=op.nn.dense(x, joined(w, axis=0)))
    rule = (each(product(w), sharing=x) >> parts(whole, axis=-1)).inexact("regroups").named("Together.all")
    assert [direction.name for direction in rule.directions()] == ["Together.all[matmul]", "Together.all[dense]"]

    class Together(RuleSet):
        """Merges products of one operand."""

        all = rule

    function = func(tup(*(ops.nn.matmul(rows, numbers((3, size))) for size in (2, 4))))
    outcome = saturate(function, Together)
    assert outcome.fired("Together.all") == 2
    assert_equal_in_value(function, outcome.function, exact=False)


def test_every_case_is_checked() -> None:
    wrong = kind(matmul=op.negative(op.exp(x)), dense=op.exp(op.negative(x))) >> kind(matmul=-op.exp(x) * 1.0, dense=op.exp(x))
    checked = check_rule(wrong.inexact("wrong").named("Wrong.one"), instances=20)
    assert checked.report.verdict == "rejected"
    assert {trier.rule.name for trier, _ in checked.wrong} == {"Wrong.one[dense]"}


def test_types_of_every_case_are_checked() -> None:
    wrong = kind(matmul=op.negative(op.exp(x)), dense=op.cast(x, dtype="int32")) >> kind(matmul=op.exp(op.negative(x)), dense=x)
    with pytest.raises(RuleError, match=r"Wrong.one\[dense\].*different types"):
        check_types(wrong.named("Wrong.one"))


ONLY_ROW = bias(none=op.exp(x), row=op.exp(x + b)) >> op.exp(b)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cases("kind", "dense"), "at least two cases"),
        (lambda: cases("kind", "dense", "dense"), "each with its own name"),
        (lambda: cases("kind", "nn.dense", "matmul"), "not 'nn.dense'"),
        (lambda: kind(matmul=x), "kind is matmul or dense: give a value for each; dense is missing"),
        (lambda: kind(matmul=x, dense=w, conv=b, add=b, mean=b), "give a value for each; conv is none of them"),
        (lambda: kind.only("conv", has_rank(x, 2)), "kind is matmul or dense, not conv"),
        (lambda: op.exp(kind), "a hole for a case that is not applied"),  # type: ignore[arg-type]  # rejected
        (lambda: kind(matmul=x, dense=w) if kind else None, "truth value"),
        ((kind(matmul=op.exp(x), dense=x) >> op.exp(-x)).directions, "the left side must apply an operator"),
        (ONLY_ROW.directions, "the right side uses 'b', which the left side does not bind"),
        (lambda: op.exp(kind(matmul=x, dense=-x)) >> cases("kind", "one", "two")(one=x, two=-x), "two holes for cases are called kind"),
    ],
)
def test_mistakes(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(RuleError, match=sentence):
        make()
