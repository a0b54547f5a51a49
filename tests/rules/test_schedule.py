"""Schedules: phases that run one after the other in one e-graph, budgets of rules, and invalid schedules."""

import pytest

from passat.ir.expr import Expr, Function
from passat.rules import RuleError, RuleSet, op, phase, rule_pass, tensors
from passat.rules.rule import EXPLORING, LOWERING, MULTI_PATTERN, REDUCING
from passat.rules.rule_pass import Phase, phases_of
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import func, ops, tup, var
from tests.rules.running import apply, assert_equal_in_value, operators

x, y, z = tensors("x y z")


class Sums(RuleSet):
    """Sums in every order."""

    commute = (x + y >> y + x).exploring()
    associate = ((x + y) + z >> x + (y + z)).exploring()


class Negations(RuleSet):
    """Removes double negations."""

    twice = op.negative(op.negative(x)) >> x


class Differences(RuleSet):
    """A difference as a sum."""

    minus = (x - y >> x + op.negative(y)).exploring()


class Cancel(RuleSet):
    """Cancels what is added and subtracted again."""

    sum = (x + op.negative(x)) >> op.subtract(x, x)
    nothing = ((x + y) + op.negative(y)) >> x


def integers(*names: str) -> list[Expr]:
    return [var(name, (2,), "int64") for name in names]


def test_phases_share_an_e_graph() -> None:
    """The second phase uses the more expensive results of the first."""
    a, b = integers("a", "b")
    function = func(ops.abs((a + b) - b))
    for schedule in ((phase(Differences), phase(Cancel)), (Differences, Cancel)):
        outcome = apply(rule_pass(*schedule), function)
        assert operators(outcome.function) == ["abs"]
    alone = apply(rule_pass(phase(Cancel), phase(Differences)), function)
    assert operators(alone.function) == ["add", "subtract", "abs"], "the first phase ends before the second begins"


def test_a_phase_looks_at_the_whole_program() -> None:
    """Even if an earlier phase found nothing, or only something elsewhere."""
    a, b = integers("a", "b")
    function = func(tup(ops.negative(ops.negative(a)), (b + a) + ops.negative(a)))
    outcome = apply(rule_pass(phase(Negations), phase(Cancel)), function)
    assert operators(outcome.function) == []
    only = apply(rule_pass(phase(Differences), phase(Cancel)), func((b + a) + ops.negative(a)))
    assert operators(only.function) == []


def test_phases_have_rounds_of_their_own() -> None:
    leaves = integers(*"abcdefgh")
    total = leaves[0]
    for leaf in leaves[1:]:
        total = total + leaf
    function = func(total)
    counted = {}
    for rounds in (1, 2, None):
        outcome = apply(rule_pass(phase(Sums, rounds=rounds), phase(Negations), name="Tried"), function, rules__rounds=4)
        counted[rounds] = outcome.count("fired:Sums.associate")
        assert_equal_in_value(function, outcome.function, exact=True)
        limits = [remark for remark in outcome.remarks if remark.startswith("stopped")]
        assert bool(limits) == (rounds is None), "the end of a schedule is not a limit that was reached"
    assert 0 < counted[1] < counted[2] < counted[None]


def test_rules_may_have_budgets_of_their_own() -> None:
    class Slow(RuleSet):
        """One of the rules is banned."""

        commute = (x + y >> y + x).exploring().budget(1)
        twice = op.negative(op.negative(x)) >> x

    leaves = integers(*"abcdef")
    total = ops.negative(ops.negative(leaves[0]))
    for leaf in leaves[1:]:
        total = total + leaf
    outcome = apply(rule_pass(Slow), func(total), rules__rounds=1)
    assert outcome.fired("Slow.commute") == 0
    assert outcome.fired("Slow.twice") == 1
    done = apply(rule_pass(Slow), func(total), rules__rounds=200)
    assert done.fired("Slow.commute") >= 5, "banned matches are applied in the end"


def test_kinds_of_rules() -> None:
    plain = op.negative(op.negative(x)) >> x
    assert plain.kind == REDUCING
    assert plain.exploring().kind == EXPLORING
    assert plain.lowering().kind == LOWERING
    assert plain.exploring().exploring().kind == EXPLORING
    assert plain.exploring().of_kind("lowering").kind == LOWERING
    assert (x + y >> y + x).and_back().kind == EXPLORING
    from passat.rules import each, joined, parts

    several = each(x @ y, sharing=x) >> parts(x @ joined(y, axis=-1), axis=-1)
    assert several.kind == MULTI_PATTERN
    assert several.exploring().kind == MULTI_PATTERN
    assert plain.budget(5).named("R.twice").matches == 5


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (phase, "phase needs at least one rule set"),
        (lambda: phase(Sums, rounds=0), "phase: rounds is at least 1, not 0"),
        (lambda: phase(Sums, rule_matches=-1), "phase: rule_matches is at least 1, not -1"),
        (lambda: phase(Sums.commute), "phase takes classes derived from RuleSet, not "),  # type: ignore[arg-type]  # on purpose
        (lambda: rule_pass(phase(Sums), 3), "rule_pass takes classes derived from RuleSet, not 3"),  # type: ignore[arg-type]  # on purpose
        (lambda: (x + y >> y + x).budget(0), "a budget is at least one match, not 0"),
        (lambda: (x + y >> y + x).and_back().lowering(), "a bidirectional rule cannot be lowering"),
        (lambda: (x + y >> y + x).lowering().and_back(), "a lowering rule has no reverse direction"),
        (lambda: (x + y >> y + x).eager().and_back(), "an eager rule has no reverse direction"),
        (lambda: (x + y >> y + x).joining().and_back(), "a joining rule has no reverse direction"),
        (lambda: (x + y >> y + x).exploring().lowering(), "one kind, and this one is exploring already: it cannot be lowering, too"),
        (lambda: (x + y >> y + x).lowering().exploring(), "one kind, and this one is lowering already: it cannot be exploring, too"),
        (lambda: (x + y >> y + x).eager().joining(), "one kind, and this one is eager already: it cannot be joining, too"),
        (lambda: (x + y >> y + x).joining().eager(), "one kind, and this one is joining already: it cannot be eager, too"),
    ],
)
def test_rejected_nodes(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(RuleError, match=said):
        make()


def test_sets_side_by_side_are_one_phase() -> None:
    sets: list[RuleSetMeta | Phase] = [Sums, Negations, phase(Cancel, rounds=2), Differences]
    assert [[rules.__name__ for rules in each.sets] for each in phases_of(sets)] == [["Sums", "Negations"], ["Cancel"], ["Differences"]]


def test_the_passes_of_a_module_keep_their_phases() -> None:
    a, b = integers("a", "b")
    function: Function = func(ops.abs((a + b) - b))
    pass_ = rule_pass(phase(Differences, rounds=1), phase(Cancel), name="Both")
    assert [rules.__name__ for rules in pass_.sets] == ["Differences", "Cancel"]
    assert len(pass_.rules) == 3
    assert operators(apply(pass_, function).function) == ["abs"]
