"""Rules and rule sets: names, directions, guards, effects on values, and what is rejected when they are made."""

import re
from collections.abc import Callable

import pytest

from passat.rules.guards import computed, guard, has_rank, is_float, same_type, shape_of
from passat.rules.multi_pattern import MultiRule, each, joined, parts
from passat.rules.pattern import RuleError, attributes, constants, number, op, tensors
from passat.rules.rule import EXACT, FINITE, KEPT, LIBERTIES, MIXED, REASSOCIATE, RESOLVED, Rule
from passat.rules.rule_set import RuleSet, RuleSetMeta

x, y, z = tensors("x y z")
c, d = constants("c d")
p, q = attributes("p q")


@guard
def fits(*values: object) -> bool | str:
    """Always holds."""
    return True


@computed
def half(value: int) -> int:
    """Half of it."""
    return value // 2


class Sums(RuleSet):
    """Sums of two.

    And more about them.
    """

    swap = x + y >> y + x
    same = (op.subtract(x, y) >> op.negative(y - x)).inexact("of zeros").when(is_float(x))
    helper = x  # not a rule


def test_rules_are_named_after_their_set() -> None:
    assert [rule.name for rule in Sums] == ["Sums.swap", "Sums.same"]
    assert Sums.swap.name == "Sums.swap"
    assert len(Sums) == 2
    assert Sums.rules[0] is Sums.swap
    assert Sums.helper is x


def test_a_rule_prints_as_written() -> None:
    assert repr(Sums.swap) == "(x + y) -> (y + x)"
    assert repr(Sums.swap.and_back()) == "(x + y) <-> (y + x)"
    assert repr(Sums.same.guards) == "(is_float(x),)"


def test_a_rule_knows_its_source_line() -> None:
    assert re.fullmatch(r"test_rule\.py:\d+", Sums.swap.source)
    assert Sums.swap.source != Sums.same.source


def test_a_set_derived_from_another_has_its_rules_too() -> None:
    class More(Sums):
        """Sums and more."""

        twice = op.negative(op.negative(x)) >> x

    class Other(RuleSet):
        """A rule of its own."""

        absolute = op.abs(op.abs(x)) >> op.abs(x)

    class All(More, Other):
        """Everything."""

    assert [rule.name for rule in More] == ["Sums.swap", "Sums.same", "More.twice"]
    assert sorted(rule.name for rule in All) == ["More.twice", "Other.absolute", "Sums.same", "Sums.swap"]


def test_a_rule_of_a_base_is_replaced_by_one_of_its_name() -> None:
    class Stricter(Sums):
        """Swaps the operands for matrices alone."""

        swap = (x + y >> y + x).when(has_rank(x, 2))

    class Fewer(Sums):
        """Without the swap."""

        swap = None  # type: ignore[assignment]  # the way to drop a rule

    assert [rule.name for rule in Stricter] == ["Sums.same", "Stricter.swap"]
    assert [rule.name for rule in Fewer] == ["Sums.same"]
    assert [rule.name for rule in Sums] == ["Sums.swap", "Sums.same"]


def test_a_set_may_be_made_by_calling() -> None:
    made = RuleSetMeta("Made", (RuleSet,), {"__doc__": "Made.", "swap": x + y >> y + x})
    assert [rule.name for rule in made] == ["Made.swap"]
    assert not list(RuleSet)


def test_conditions_add_up_in_order() -> None:
    rule = (x + y >> y + x).when(is_float(x)).when(same_type(x, y), has_rank(y, 2))
    assert [repr(value) for value in rule.guards] == ["is_float(x)", "same_type(x, y)", "has_rank(y, 2)"]
    assert not Sums.swap.guards


def test_effects_of_rules_on_values() -> None:
    plain = x + y >> y + x
    assert (plain.math, plain.note) == (EXACT, "")
    assert (plain.inexact("rounds").math, plain.inexact("rounds").note) == (REASSOCIATE, "rounds")
    assert (plain.finite("no nan").math, plain.finite("no nan").note) == (FINITE, "no nan")
    assert plain.finite("no nan").inexact("rounds").math == FINITE
    assert plain.inexact("rounds").finite("no nan").math == FINITE
    assert plain.math == EXACT


def test_changes_of_nonfinite_results() -> None:
    plain = x * y + x * z >> x * (y + z)
    assert (plain.liberty, plain.inexact("once").liberty) == ((EXACT, KEPT), (REASSOCIATE, KEPT))
    resolved = plain.inexact("once", nonfinite=RESOLVED)
    assert resolved.liberty == resolved.when(is_float(x)).exploring().named("N.n").liberty == (REASSOCIATE, RESOLVED)
    assert [each.nonfinite for each in resolved.inexact("twice", nonfinite=MIXED).and_back().directions()] == [MIXED, MIXED]
    assert resolved.inexact("said again").liberty == (REASSOCIATE, RESOLVED)
    assert resolved.finite("none is").liberty == plain.finite("none is").inexact("once", nonfinite=MIXED).liberty == (FINITE, KEPT)
    several = (each(x @ y, sharing=x) >> parts(x @ joined(y, axis=-1), axis=-1)).inexact("in blocks", nonfinite=MIXED)
    assert isinstance(several, MultiRule)
    assert (several.when(is_float(x)).liberty, several.branches(3).liberty) == ((REASSOCIATE, MIXED), (REASSOCIATE, MIXED))
    assert [each in LIBERTIES for each in (plain.liberty, resolved.liberty, several.liberty)] == [True, True, True]


def test_unknown_words_for_them_are_rejected() -> None:
    with pytest.raises(RuleError, match="nonfinite= is 'kept' or 'resolved' or 'mixed', not 'dropped'"):
        (x * y + x * z >> x * (y + z)).inexact("once", nonfinite="dropped")  # type: ignore[arg-type]  # what is rejected


def test_reducing_and_exploring() -> None:
    rule = x + y >> y + x
    assert rule.reducing
    assert not rule.exploring().reducing
    assert rule.exploring().when(is_float(x)).reducing is False
    assert not rule.and_back().reducing


def test_both_directions() -> None:
    rule = (x * (y + z) >> x * y + x * z).and_back().when(is_float(x)).inexact("distributes").named("Rings.distribute")
    there, back = rule.directions()
    assert (repr(there), repr(back)) == ("(x * (y + z)) -> ((x * y) + (x * z))", "((x * y) + (x * z)) -> (x * (y + z))")
    assert (there.name, back.name) == ("Rings.distribute", "Rings.distribute.back")
    for direction in (there, back):
        assert not direction.reducing
        assert not direction.back
        assert direction.math == REASSOCIATE
        assert direction.note == "distributes"
        assert direction.source == rule.source
        assert repr(direction.guards) == "(is_float(x),)"
    assert Sums.swap.directions() == [Sums.swap]


def define(value: object) -> RuleSetMeta:
    return RuleSetMeta("Bad", (RuleSet,), {"__doc__": "Bad.", "rule": value})


def nested() -> None:
    class Outer(RuleSet):
        """Holds a set."""

        class Inner(RuleSet):
            """Would be lost."""

            inverse = op.exp(op.log(x)) >> x


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: x >> y, "rule [x -> y]: the left side must apply an operator; a bare hole would match everything"),
        (lambda: c >> x, "rule [c -> x]: the left side must apply an operator; a bare hole would match everything"),
        (lambda: op.exp(x) >> y, "rule [exp(x) -> y]: the right side uses 'y', which the left side does not bind"),
        (
            lambda: op.transpose(x, axes=p) >> op.transpose(x, axes=q),
            "rule [transpose(x, axes=p) -> transpose(x, axes=q)]: the right side uses the attribute 'q', which the left side does not bind",
        ),
        (
            lambda: op.exp(x) >> op.reshape(x, newshape=shape_of(y)),
            "rule [exp(x) -> reshape(x, newshape=shape_of(y))]: the right side uses 'y', which the left side does not bind",
        ),
        (
            lambda: (op.exp(x) >> x).when(is_float(y)),
            "rule [exp(x) -> x]: the guard is_float(y) uses 'y', which the left side does not bind",
        ),
        (
            lambda: (op.exp(x) >> x).when(fits(p)),
            "rule [exp(x) -> x]: the guard fits(p) uses the attribute 'p', which the left side does not bind",
        ),
        (
            lambda: op.transpose(x, axes=half(p)) >> x,
            "rule [transpose(x, axes=half(p)) -> x]: the left side computes a value; bind it to a hole and add a guard",
        ),
        (
            lambda: x + number(half(p)) >> x,
            "rule [(x + half(p)) -> x]: the left side computes a value; bind it to a hole and add a guard",
        ),
        (lambda: x + constants("x")[0] >> x, "rule [(x + x) -> x]: 'x' is both a tensor and a constant"),
        (lambda: op.exp(c) >> tensors("c")[0], "rule [exp(c) -> c]: 'c' is both a tensor and a constant"),
        (
            lambda: (op.exp(x) >> x).when(is_float),  # type: ignore[arg-type]  # a user's mistake
            "rule [exp(x) -> x]: is_float is a function; a guard is the call of one that @guard decorates: .when(is_float(x))",
        ),
        ((op.exp(x) + y >> x).and_back, "rule [(exp(x) + y) -> x]: the reverse direction would not bind every hole"),
        (
            (op.negative(op.negative(x)) >> x).and_back,
            "rule [x -> negative(negative(x))]: the left side must apply an operator; a bare hole would match everything",
        ),
        (
            lambda: define(op.exp(x) + y),
            "Bad.rule is a pattern without `>>`: a rule needs a right side",
        ),
        (
            lambda: define(x + y >> y + x == x * y >> y * x),
            "Bad.rule is False, not a rule: comparing rules or attributes with == makes a bool; write left >> right",
        ),
        (
            lambda: op.exp(x) >> op.reshape(x),
            "rule [exp(x) -> reshape(x)]: the right side does not specify newshape of reshape, which has no default",
        ),
        (
            lambda: RuleSetMeta("Bad", (RuleSet,), {"only": op.exp(op.log(x)) >> x}),
            "Bad.only has the name of an attribute of all rule sets; choose another",
        ),
        (nested, "Outer.Inner is a rule set inside a rule set, whose rules no pass would run: move it out"),
        (lambda: define(op.split(x, ...)[0]), "Bad.rule is a pattern without `>>`: a rule needs a right side"),
        (
            lambda: define(op.sum(x, axis=(0,)) >> x),
            "rule Bad.rule [sum(x, axis=(0,)) -> x]: the sides have different types: on x: Tensor[(2, 2), float32] the left side has type "
            "Tensor[(2,), float32], the right side Tensor[(2, 2), float32]",
        ),
        (
            lambda: define(op.less(x, y) >> x - y),
            "rule Bad.rule [less(x, y) -> (x - y)]: the sides have different types: on x: Tensor[(2, 2), float32], y: Tensor[(2, 2), float32] "
            "the left side has type Tensor[(2, 2), bool], the right side Tensor[(2, 2), float32]",
        ),
    ],
)
def test_rejected_nodes(build: Callable[[], object], message: str) -> None:
    with pytest.raises(RuleError) as caught:
        build()
    if message.endswith(" "):
        assert str(caught.value).startswith(message)
        assert str(caught.value).endswith("is not a guard; write one with @guard or use one from passat.rules.guards")
    else:
        assert str(caught.value) == message


def test_a_comparison_binds_looser_than_a_rule() -> None:
    rule = op.less(x, y) >> op.greater(y, x)
    assert repr(rule) == "less(x, y) -> greater(y, x)"
    with pytest.raises(AttributeError):
        op.exp(x) >> x.when(is_float(x))  # type: ignore[attr-defined]  # a user's mistake: `when` belongs outside of the parentheses


def test_sides_are_rejected_only_if_no_sample_agrees() -> None:
    """Flattening keeps matrices unchanged; for other tensors a guard may ensure that."""

    class Flat(RuleSet):
        """Flattenings."""

        drop = (op.nn.batch_flatten(x) >> x).when(same_type(x, op.nn.batch_flatten(x)))
        row = op.nn.batch_flatten(x) >> x

    assert len(Flat) == 2


def test_rules_without_fitting_samples_are_not_rejected() -> None:
    class Attention(RuleSet):
        """Products of stacks without well-typed samples."""

        twice = (op.nn.batch_matmul(op.nn.batch_matmul(x, y), z) >> op.nn.batch_matmul(x, op.nn.batch_matmul(y, z))).when(has_rank(x, 9))

    assert len(Attention) == 1


def test_rules_are_values() -> None:
    assert isinstance(Sums.swap, Rule)
    with pytest.raises(AttributeError):
        Sums.swap.other = 1  # type: ignore[attr-defined]  # there is no such field


def test_a_rule_is_not_shadowed_by_another_of_its_name() -> None:
    with pytest.raises(RuleError, match=r"Twice\.r is defined twice"):

        class Twice(RuleSet):
            r = op.exp(op.log(x)) >> x
            r = op.log(op.exp(x)) >> x


def test_a_rule_can_be_narrowed_under_its_name() -> None:
    class Narrowed(RuleSet):
        r = op.exp(op.log(x)) >> x
        r = r.inexact("rounds twice")

    assert [rule.math for rule in Narrowed] == [REASSOCIATE]


def test_a_rule_with_equal_sides_is_rejected() -> None:
    with pytest.raises(RuleError, match="both sides are the same"):
        _ = op.exp(x) >> op.exp(x)


@pytest.mark.parametrize("narrow", [Rule.inexact, Rule.finite])
def test_a_rule_that_changes_values_states_how(narrow: Callable[[Rule, str], Rule]) -> None:
    rule = op.exp(op.log(x)) >> x
    assert narrow(rule, "rounds once instead of twice").note
    with pytest.raises(RuleError, match="state what it changes"):
        narrow(rule, " ")


def test_an_attribute_without_a_default_is_named() -> None:
    with pytest.raises(RuleError, match=r"does not specify newshape of reshape: name it, or write `\.\.\.` after the operands"):
        op.reshape(op.exp(x)) >> op.exp(x)
    with pytest.raises(RuleError, match=r"the right side uses `\.\.\.`, which the left side does not bind"):
        op.exp(op.reshape(x, ...)) >> op.reshape(op.exp(x), ...)


def test_a_right_side_calls_an_undeclared_operator_only_like_the_left_side() -> None:
    a, b = attributes("a b")
    thing = op.com.mycompany.Thing
    kept = thing(x, op.negative(op.negative(y)), attrs=a) >> thing(x, y, attrs=a)
    assert repr(kept).endswith("-> onnx.com.mycompany.Thing(x, y, attrs=a)")
    for left, right in [
        (thing(op.negative(x), attrs=a), op.negative(thing(x, attrs=a))),
        (thing(op.negative(x), p=b), thing(x, p=b)),
        (thing(op.negative(x), attrs=a), op.com.mycompany.Other(x, attrs=a)),
    ]:
        with pytest.raises(RuleError, match="the right side creates com"):
            left >> right
