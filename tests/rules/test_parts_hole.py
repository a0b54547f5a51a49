"""Rules with holes for any number of operands: expansion, application, and rejected uses."""

from collections.abc import Callable
from typing import cast

import pytest

from passat.catalog import rule_rows, rules_text
from passat.rules import RuleError, RuleSet, Term, attributes, constants_of, guard, op, tensors, tensors_of
from passat.rules.checking.check_sets import check_rule
from passat.rules.engine.directions import Directions
from passat.rules.engine.matching import Matcher
from passat.rules.guards import same_rank
from tests.rules.building import func, ops, tup, var
from tests.rules.running import assert_equal_in_value, operators, saturate

x, y = tensors("x y")
(p,) = attributes("p")
xs, ys = tensors_of("xs", most=2), tensors_of("ys", least=1, most=2)


class Joined(RuleSet):
    """Rules on one part of a concatenation, or on all of them."""

    negated = op.negative(op.concatenate((x, *ys), axis=p)) >> op.concatenate((op.negative(x), *(op.negative(one) for one in ys)), axis=p)
    twice = op.concatenate((*xs, op.negative(op.negative(x)), *ys), axis=p) >> op.concatenate((*xs, x, *ys), axis=p)


v, w, z = (var(name, (2, 3)) for name in "vwz")


def join(*parts: object) -> object:
    return ops.concatenate(tup(*parts), axis=0)  # type: ignore[arg-type]  # expressions


def test_a_rule_expands_to_its_numbers_of_operands() -> None:
    assert [repr(each) for each in Joined.negated.directions()] == [
        "negative(concatenate((x, ys1), axis=p)) -> concatenate((negative(x), negative(ys1)), axis=p)",
        "negative(concatenate((x, ys1, ys2), axis=p)) -> concatenate((negative(x), negative(ys1), negative(ys2)), axis=p)",
    ]
    names = [each.name.removeprefix("Joined.twice") for each in Joined.twice.directions()]
    assert names == ["[0, 1]", "[0, 2]", "[1, 1]", "[1, 2]", "[2, 1]", "[2, 2]"]
    assert repr(Joined.twice) == "concatenate((*xs, negative(negative(x)), *ys), axis=p) -> concatenate((*xs, x, *ys), axis=p)"


def test_it_fires_wherever_the_part_is() -> None:
    for place in range(3):
        parts = [v, w, z]
        parts[place] = ops.negative(ops.negative(parts[place]))
        function = func(join(*parts))  # type: ignore[arg-type]  # an expression
        outcome = saturate(function, Joined)
        assert sorted(operators(outcome.function)) == (["concatenate"] if place < 2 else ["concatenate", "negative", "negative"])
        assert_equal_in_value(function, outcome.function, exact=True)


class Mapped(RuleSet):
    """Rules whose left sides repeat a term for each operand."""

    all_but_one = op.concatenate((x, *(op.negative(one) for one in ys)), axis=p) >> op.negative(
        op.concatenate((op.negative(x), *ys), axis=p)
    )
    any_of_them = op.concatenate((op.exp(x), *(op.negative(one) for one in xs)), axis=p) >> op.concatenate(
        (op.exp(op.copy(x)), *(op.negative(one) for one in xs)), axis=p
    )


@pytest.mark.parametrize("count", [1, 2])
def test_a_left_side_may_repeat_a_term(count: int) -> None:
    outcome = saturate(func(join(v, *[ops.negative(part) for part in (w, z)[:count]])), Mapped)  # type: ignore[arg-type]  # an expression
    assert outcome.fired("Mapped.all_but_one") == 1


def test_a_program_need_not_have_a_term_that_is_repeated_for_no_operand() -> None:
    alone = Matcher(Mapped.any_of_them.directions()[0])
    assert [matcher.name for matcher in Directions(Mapped.any_of_them).within(alone.symbols)] == ["Mapped.any_of_them[0]"]


def test_a_guard_about_the_operands_holds_of_each() -> None:
    @guard
    def are_all(count: int, parts: tuple[Term, ...]) -> bool | str:
        return len(parts) == count or f"{len(parts)} parts"

    rule = (op.concatenate((x, *ys), axis=p) >> op.concatenate((*ys, x), axis=p)).when(same_rank(x, ys), are_all(2, (*ys,)))
    one, two = rule.directions()
    assert [repr(each) for each in one.guards] == ["same_rank(x, ys1)", "are_all(2, (ys1,))"]
    assert [repr(each) for each in two.guards] == ["same_rank(x, ys1)", "same_rank(x, ys2)", "are_all(2, (ys1, ys2))"]


def test_the_list_names_the_numbers() -> None:
    assert "*ys is 1 to 2 operands" in rules_text(rule_rows([Joined]))


def test_every_number_is_checked() -> None:
    checked = check_rule((op.concatenate((x, *ys), axis=p) >> op.concatenate((*ys, x), axis=p)).named("Wrong.turned"), instances=20)
    assert checked.report.verdict == "rejected"
    assert {trier.rule.name for trier, _ in checked.wrong} <= {"Wrong.turned[1]", "Wrong.turned[2]"}


SUMS = op.concatenate((*(a + b for a, b in zip(xs, ys, strict=True)),), axis=p)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: len(xs), "count the operands in a guard"),
        (lambda: tensors_of("xs", least=3, most=2), "0 <= least <= most <= 64, not 3 and 2"),
        (lambda: tensors_of("xs", least=-1), "not -1 and 7"),
        (lambda: tensors_of("xs", most=cast(int, 2.5)), "not 0 and 2.5"),
        (lambda: constants_of("cs", most=1000), "not 0 and 1000"),
        (lambda: tensors_of("x s"), "the name of a hole is a word"),
        (lambda: op.concatenate((*xs, tensors("xs2")[0]), axis=p) >> x, r"'xs2' is also the name of \*xs or of one of its operands"),
        (lambda: op.concatenate((*xs, x), axis=p) >> op.concatenate((*xs, *ys), axis=p), "'ys', which the left side does not bind"),
        ((op.negative(op.exp(xs)) >> op.exp(xs)).directions, "stands for several operands"),
        ((op.concatenate((*xs, *ys), axis=p) >> SUMS).directions, "refers to each operand of xs and of ys at the same time"),
    ],
)
def test_mistakes(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(RuleError, match=sentence):
        make()
