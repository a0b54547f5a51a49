"""Limits of saturation: rule sets that explode are stopped with a remark, and the best program so far is returned, equal in value."""

import gc
import itertools
import time

import pytest

from passat.ir.equality import structural_equal
from passat.ir.expr import Expr, Function
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.passmgr import PassContext, Sequential
from passat.rules.cost import NodeCount, program_cost
from passat.rules.engine import limits as limits_module
from passat.rules.engine.directions import Directions, Stage
from passat.rules.engine.graph import Graph
from passat.rules.engine.limits import SATURATED, Backoff, Budget, LimitReached, Limits
from passat.rules.engine.saturate import Saturator
from passat.rules.pattern import op, tensors
from passat.rules.rule_pass import rule_pass
from passat.rules.rule_set import RuleSet
from tests.rules.building import func, ops, var
from tests.rules.running import Outcome, apply, assert_equal_in_value, operators

x, y, z = tensors("x y z")


class Sums(RuleSet):
    """Sums in every order, which is exponential."""

    commute = (x + y >> y + x).exploring()
    associate = ((x + y) + z >> x + (y + z)).exploring()
    cancel = (x + op.negative(x)) >> x - x
    negate = op.negative(op.negative(x)) >> x


class Zeros(RuleSet):
    """Sums of zeros and of their negatives."""

    same = x + x >> x
    split = (x + y >> x + (x + y)).exploring()
    associate = ((x + y) + z >> x + (y + z)).exploring()
    negated = (x + y >> op.negative(x) + y).exploring()


class Once(RuleSet):
    """One rule."""

    negate = op.negative(op.negative(x)) >> x


def negated(value: Expr) -> Expr:
    """A value that is negated twice."""
    return ops.negative(ops.negative(value))  # type: ignore[no-any-return]  # calls by name


def long_sum(leaves: int = 14) -> Function:
    """A sum of many integers, one of which is negated twice."""
    parts: list[Expr] = [var(f"v{i}", (2,), "int64") for i in range(leaves)]
    total = ops.negative(ops.negative(parts[0]))
    for part in parts[1:]:
        total = total + part
    return func(total)


def run(function: Function, **limits: float) -> Outcome:
    return apply(rule_pass(Sums), function, rules__cost="nodes", **{f"rules__{name}": value for name, value in limits.items()})


def stopped_at(outcome: Outcome) -> list[str]:
    return [remark for remark in outcome.remarks if remark.startswith("stopped at the limit of ")]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"nodes": 2000}, "nodes: more than 2000"),
        ({"matches": 3000}, "matches: more than 3000"),
        ({"rounds": 3}, "rounds: more than 3"),
        ({"seconds": 0.05, "rounds": 1000}, "time: more than 0.05 s"),
        ({"nodes": 0}, "nodes: more than 0"),
        ({"matches": 0}, "matches: more than 0"),
        ({"rounds": 0}, "rounds: more than 0"),
        ({"rounds": 1}, "rounds: more than 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_explosion_stops_and_the_best_so_far_comes_out(limits: dict[str, float], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that advances by a millisecond with each reading, however busy the machine is."""
    readings = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings) / 1000)
    function = long_sum()
    outcome = run(function, **limits)
    assert stopped_at(outcome) == [f"stopped at the limit of {said}; the best program so far was extracted"]
    assert_equal_in_value(function, outcome.function, exact=True)
    # The double negation is always removed: its match was among the first.
    assert program_cost(outcome.function.body, NodeCount()) == 13
    assert outcome.fired("Sums.negate") == 1


def test_a_busy_machine_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a clock that advances by an hour with each reading. The default limits count work, so the result is the same."""
    function = long_sum(6)
    expected = run(function)
    hours = iter(range(0, 10**9, 3600))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(hours)))
    slow = run(function)
    assert stopped_at(slow) == stopped_at(expected)
    assert structural_equal(slow.function, expected.function)
    assert [slow.count(key) for key in ("rounds", "nodes", "matched:Sums.associate")] == [
        expected.count(key) for key in ("rounds", "nodes", "matched:Sums.associate")
    ]


def test_no_time_leaves_the_program_unchanged() -> None:
    function = long_sum()
    outcome = run(function, seconds=0.0)
    assert outcome.function is function
    assert stopped_at(outcome) == ["stopped at the limit of time: more than 0 s; the best program so far was extracted"]


def test_the_limits_hold_inside_a_round() -> None:
    """When the engine stops, the number of nodes is close to the limit, not the much larger number that a whole round would add."""
    outcome = run(long_sum(), nodes=500)
    assert 500 < outcome.count("nodes") < 2500


def test_a_round_that_would_be_too_large_is_not_begun() -> None:
    function = long_sum(18)
    outcome = run(function, matches=20_000, rounds=30, rule_matches=10**6)
    assert stopped_at(outcome)[0].startswith("stopped at the limit of matches: more than 20000")
    assert outcome.count("matched:Sums.associate") + outcome.count("matched:Sums.commute") < 60_000
    assert_equal_in_value(function, outcome.function, exact=True)


def test_a_round_that_would_be_too_large_is_not_begun_in_a_small_graph() -> None:
    """All sums of zeros equal their parts, so all are in one e-class: a thousand nodes have a thousand million matches."""
    zeros = var("zeros", (2,), "int64")
    function = func(zeros + zeros)
    outcome = apply(rule_pass(Zeros), function, rules__cost="nodes", rules__rule_matches=10**6)
    assert "Zeros.associate ended at its share of 1000000 matches (rules.rule_matches), and the other rules went on" in outcome.remarks
    assert outcome.count("nodes") < 10_000
    assert outcome.function.body is outcome.function.params[0]


class Passing(RuleSet):
    """Sums in every order, and a negative that passes one function in each iteration."""

    commute = (x + y >> y + x).exploring()
    associate = ((x + y) + z >> x + (y + z)).exploring()
    negative = (op.abs(op.negative(x)) >> op.abs(x)).exploring()
    absolute = (op.tanh(op.abs(x)) >> op.abs(op.tanh(x))).exploring()


def test_a_rule_that_has_used_its_share_lets_others_go_on() -> None:
    parts: list[Expr] = [var(f"v{i}", (2,)) for i in range(12)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    value = ops.abs(total)
    for _ in range(8):
        value = ops.tanh(value)
    outcome = apply(rule_pass(Passing), func(value), rules__cost="nodes")
    assert [remark.partition(" (")[0] for remark in outcome.remarks if "share" in remark] == [
        f"Passing.{name} ended at its share of 5000 matches" for name in ("commute", "associate")
    ]
    assert outcome.fired("Passing.absolute") == 8
    counts = [outcome.count(f"matched:Passing.{name}") for name in ("associate", "commute")]
    assert counts == [5000, 5000]


@pytest.mark.parametrize(("nodes", "most"), [(10, 5000), (200, 5000), (1000, 25_000)])
def test_the_share_of_a_rule_grows_with_the_program(nodes: int, most: int) -> None:
    assert Limits().share(nodes) == most
    assert Limits(rule_matches=1).share(nodes) == most, "banned rules continue later"
    assert Limits(rule_matches=10_000).share(nodes) == 2 * most


def test_a_prediction_leaves_no_graph_to_the_garbage_collector() -> None:
    """The time to find and free it was a twentieth of an optimization of 20,000 nodes."""
    zeros = var("zeros", (2,), "int64")
    gc.collect()
    gc.disable()
    try:
        earlier = [value for value in gc.get_objects() if isinstance(value, Graph)]  # of tests that failed on purpose
        outcome = apply(rule_pass(Zeros), func(zeros + zeros), rules__cost="nodes", rules__rule_matches=10**6, rules__matches=50_000)
        assert stopped_at(outcome)[0].startswith("stopped at the limit of matches: the next iteration would find more than 50000")
        assert not [value for value in gc.get_objects() if isinstance(value, Graph) and value not in earlier]
    finally:
        gc.enable()


def test_a_saturated_program_reaches_no_limit() -> None:
    outcome = run(long_sum(4))
    assert stopped_at(outcome) == []
    assert outcome.count("rounds") > 2


def test_the_same_limits_give_the_same_program() -> None:
    first, second = (run(long_sum(), nodes=3000) for _ in range(2))
    assert str(first.function) == str(second.function)
    assert first.count("nodes") == second.count("nodes")


def test_a_time_limit_for_all_passes_together() -> None:
    function = long_sum()
    outcome = apply(rule_pass(Sums), function, rules__time_limit=0.0)
    assert outcome.function is function
    assert stopped_at(outcome)


def test_a_budget_counts_from_when_it_is_made() -> None:
    budget = Budget(Limits(nodes=10, matches=5, seconds=1000))
    budget.check(10)
    with pytest.raises(LimitReached, match="nodes: more than 10"):
        budget.check(11)
    budget.matches = 6
    with pytest.raises(LimitReached, match="matches: more than 5"):
        budget.check(0)
    late = Budget(Limits(seconds=0.001))
    time.sleep(0.002)
    with pytest.raises(LimitReached, match=r"time: more than 0\.001 s"):
        late.check(0)


def test_limits_always_have_defaults() -> None:
    *limits, unions = Limits()
    assert all(limit is not None and limit > 0 for limit in limits)
    assert unions is None, "applications are only counted during a bisection"
    assert Limits._fields == ("nodes", "matches", "rounds", "seconds", "memory", "rule_matches", "unions")


def test_memory_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a process that grows by a gigabyte with each measurement."""
    asked = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(limits_module, "resident_bytes", lambda: next(asked) << 20)
    function = long_sum()
    outcome = run(function, memory=2500.0)
    assert stopped_at(outcome) == ["stopped at the limit of memory: more than 2500 MB; the best program so far was extracted"]
    assert_equal_in_value(function, outcome.function, exact=True)
    assert program_cost(outcome.function.body, NodeCount()) == 13


def test_an_exploding_rule_does_not_starve_others() -> None:
    """With a budget for each round the explosion takes longer, so another rule still finds a match far above."""
    function = long_sum(8)
    free, bound = run(function, rounds=6, rule_matches=1_000_000), run(function, rounds=6, rule_matches=20)
    assert bound.count("matched:Sums.associate") + bound.count("matched:Sums.commute") < 0.7 * (
        free.count("matched:Sums.associate") + free.count("matched:Sums.commute")
    )
    for outcome in (free, bound):
        assert outcome.fired("Sums.negate") == 1
        assert_equal_in_value(function, outcome.function, exact=True)


def test_matches_of_banned_rules_are_applied_in_the_end() -> None:
    """A small budget leads to the same saturated e-graph, in more rounds."""
    stage = Stage(tuple(map(Directions, Sums)))
    found = []
    for budget in (1_000_000, 1):
        function = long_sum(4)
        infer_type(function)
        graph = Graph()
        graph.load(function.body)
        saturator = Saturator(graph, [stage], Limits(rounds=500, rule_matches=budget))
        result = saturator.run()
        assert result.stopped == SATURATED
        nodes = range(len(graph))
        forms = {(graph.symbols[node], graph.payloads[node], tuple(map(graph.find, graph.operands[node]))) for node in nodes}
        found.append((len(forms), len({graph.find(node) for node in nodes})))
    assert found[0] == found[1]


def test_back_off_doubles() -> None:
    backoff = Backoff(2)
    rows = [(i,) for i in range(10)]
    assert backoff.due(0, 0, rows[:2]) == rows[:2]
    assert backoff.due(0, 1, rows[:3]) == ()
    assert backoff.waiting
    assert backoff.due(1, 1, rows[:1]) == rows[:1], "other rules are not banned"
    assert backoff.due(0, 2, rows[3:4]) == ()
    assert backoff.due(0, 4, []) == rows[:4], "after three rounds, within twice the budget"
    assert not backoff.waiting
    assert backoff.due(0, 5, rows[:5]) == ()
    assert backoff.due(0, 8, []) == ()
    assert backoff.release() == {0: rows[:5]}
    assert not backoff.waiting


def test_deferred_matches_are_applied_in_parts() -> None:
    backoff = Backoff(1)
    rows = [(i,) for i in range(7)]
    assert backoff.due(0, 0, rows) == ()
    assert backoff.release() == {0: rows[:2]}
    assert backoff.release() == {0: rows[2:4]}
    assert backoff.waiting


def test_a_round_of_half_a_million() -> None:
    """Sums of fourteen leaves in every order: 25,000 nodes after three rounds, and 480,000 after the fourth, which egglog would not
    stop."""
    function = long_sum()
    outcome = run(function, nodes=30_000, matches=10_000_000, rule_matches=10_000_000, seconds=1000)
    assert stopped_at(outcome) == ["stopped at the limit of nodes: more than 30000; the best program so far was extracted"]
    assert 30_000 < outcome.count("nodes") < 31_000
    assert_equal_in_value(function, outcome.function, exact=True)
    assert program_cost(outcome.function.body, NodeCount()) == 13


def test_the_number_of_applications_is_limited() -> None:
    function = long_sum(5)
    everything = apply(rule_pass(Sums), function)
    total = sum(int(everything.fired(rule.name)) for rule in Sums)
    seen = []
    for most in (0, 1, 2, total - 1, total):
        outcome = apply(rule_pass(Sums), function, rules__unions=most)
        assert sum(outcome.fired(rule.name) for rule in Sums) == most
        assert stopped_at(outcome) == (
            [] if most == total else [f"stopped at the limit of unions: more than {most}; the best program so far was extracted"]
        )
        assert_equal_in_value(function, outcome.function, exact=True)
        seen.append(str(outcome.function))
    assert seen[0] == str(function)
    assert seen[-1] == str(everything.function)


def test_applications_are_counted_through_all_passes() -> None:
    mod = IRModule.from_expr(func(ops.exp(negated(var("a"))) + negated(var("b"))))
    for most, left in ((0, 4), (1, 2), (2, 0), (3, 0)):
        with PassContext(config={"rules.unions": most}) as ctx:
            made = Sequential([rule_pass(Once, name="First"), rule_pass(Once, name="Second")])(mod)
        assert operators(made["main"]).count("negative") == left
        assert sum(counters.get("fired:Once.negate", 0) for counters in ctx.statistics.counters.values()) == min(most, 2)
