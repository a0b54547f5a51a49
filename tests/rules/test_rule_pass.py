"""Rule sets as passes: names and levels, config, counters and remarks, and use from pipelines and threads."""

import pickle
import threading

import pytest

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import PassContext, Sequential
from passat.rules.guards import has_rank
from passat.rules.library import Parallel, Reassociate
from passat.rules.library.folding import ConstantFolding
from passat.rules.pattern import RuleError, op, tensors
from passat.rules.rule_pass import RulePass, rule_pass
from passat.rules.rule_set import RuleSet
from tests.rules.building import func, ops, splat, tup, var
from tests.rules.running import apply, operators

x, y, z = tensors("x y z")
a, b = var("a"), var("b")


class Negations(RuleSet):
    """Removes double negations. Has a second sentence."""

    twice = op.negative(op.negative(x)) >> x
    matrix = (op.abs(op.negative(x)) >> op.abs(x)).when(has_rank(x, 3))


class Rounding(RuleSet):
    """Rules that change rounding, and rules that change non-finite values."""

    quotient = (op.exp(x) / op.exp(y) >> op.exp(x - y)).inexact("one rounding")
    nothing = (x - x >> op.zeros_like(x)).finite("nan - nan is nan")


class Swaps(RuleSet):
    """A bidirectional rule."""

    sums = (op.sin(x + y) >> op.sin(y + x)).and_back()


def test_the_name_is_that_of_the_first_set() -> None:
    assert rule_pass(Negations, Rounding).info.name == "Negations"
    assert rule_pass(Negations, name="Mine").info.name == "Mine"


def test_level_and_requirements() -> None:
    made = rule_pass(Negations, opt_level=3, required=["SimplifyInference"])
    assert (made.info.opt_level, list(made.info.required)) == (3, ["InferType", "SimplifyInference"])
    assert rule_pass(Negations).info.opt_level == 2
    assert str(rule_pass(Negations)) == "Run Function pass: Negations at the optimization level 2"


def test_the_documentation_is_that_of_the_sets() -> None:
    assert rule_pass(Negations, Swaps).__doc__ == "Removes double negations. Has a second sentence. A bidirectional rule."


def test_the_rules_of_a_pass() -> None:
    made = rule_pass(Negations, Swaps)
    assert [rule.name for rule in made.rules] == ["Negations.twice", "Negations.matrix", "Swaps.sums", "Swaps.sums.back"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((x,), "rule_pass takes classes derived from RuleSet, not x"),
        ((Negations.twice,), "rule_pass takes classes derived from RuleSet, not negative(negative(x)) -> x"),
        ((int,), "rule_pass takes classes derived from RuleSet, not <class 'int'>"),
        ((), "rule_pass needs at least one rule set, or a name"),
    ],
)
def test_rejected_nodes(arguments: tuple[type[RuleSet], ...], message: str) -> None:
    with pytest.raises(RuleError) as caught:
        rule_pass(*arguments)
    assert str(caught.value) == message


def test_counters() -> None:
    function = func(ops.negative(ops.negative(a)) + ops.abs(ops.negative(b)))
    outcome = apply(rule_pass(Negations), function)
    counted = {key: value for key, value in outcome.statistics.counters["Negations"].items() if key != "seconds"}
    assert counted == {
        "changed": 1,
        "rounds": 2,
        "nodes": counted["nodes"],
        "matched:Negations.twice": 1,
        "fired:Negations.twice": 1,
        "rejected:Negations.twice": 0,
        "matched:Negations.matrix": counted["matched:Negations.matrix"],
        "fired:Negations.matrix": 0,
        "rejected:Negations.matrix": counted["rejected:Negations.matrix"],
    }
    assert counted["rejected:Negations.matrix"] >= 1
    assert outcome.count("seconds") > 0
    reasons = [remark for remark in outcome.remarks if remark.startswith("Negations.matrix rejected ")]
    assert len(reasons) == 1
    assert reasons[0].endswith(": has_rank(x, 3): the rank of the tensor is 2, not 3")


def test_folding_and_cse_are_counted() -> None:
    function = func(ops.exp(a) + ops.exp(a) * (splat(1.0) + splat(2.0)))
    outcome = apply(rule_pass(Negations, ConstantFolding, merge=True), function)
    assert (outcome.count("eager"), outcome.count("merged")) == (1, 1)


@pytest.mark.parametrize("math", ["exact", "reassociate", "finite"])
def test_limits_on_changes_of_values(math: str) -> None:
    function = func(tup(ops.exp(a) / ops.exp(b), b - b))
    names = operators(apply(rule_pass(Rounding), function, rules__math=math).function.body)
    assert ("divide" in names) == (math == "exact")
    assert ("zeros_like" in names) == (math == "finite")


def test_the_default_allows_rounding_but_nothing_more() -> None:
    function = func(ops.exp(a) / ops.exp(b) + (a - a))
    names = operators(apply(rule_pass(Rounding), function).function.body)
    assert "divide" not in names
    assert "zeros_like" not in names


@pytest.mark.parametrize("disabled", [["Negations.twice"], ["Negations"], ["Other", "Negations.twice"]])
def test_rules_can_be_switched_off(disabled: list[str]) -> None:
    function = func(ops.negative(ops.negative(a)))
    outcome = apply(rule_pass(Negations), function, rules__disabled=disabled)
    assert outcome.function is function
    assert outcome.count("matched:Negations.twice") == 0


def test_a_rule_of_both_ways_is_switched_off_whole_or_by_halves() -> None:
    function = func(ops.sin(a + b))
    both = apply(rule_pass(Swaps), function)
    assert both.count("matched:Swaps.sums") > 0
    none = apply(rule_pass(Swaps), function, rules__disabled=["Swaps.sums"])
    assert not [key for key in none.statistics.counters["Swaps"] if key.startswith("matched")]
    half = apply(rule_pass(Swaps), function, rules__disabled=["Swaps.sums.back"])
    assert half.count("matched:Swaps.sums") > 0
    assert half.count("matched:Swaps.sums.back") == 0


def test_costs_are_chosen_by_the_config() -> None:
    """Two cheap calls replace an expensive one: more nodes, less time."""
    big = var("big", (2000, 2000))

    class Choice(RuleSet):
        """Two forms of a reduction of an exponential."""

        late = (op.sum(op.exp(x), axis=(0,)) >> op.sum(op.copy(op.copy(x)), axis=(0,))).inexact("wrong, but this is about costs")

    function = func(ops.sum(ops.exp(big), axis=(0,)))
    assert operators(apply(rule_pass(Choice), function, rules__cost="nodes").function.body) == ["exp", "sum"]
    small = func(ops.sum(ops.exp(var("small", (2, 2))), axis=(0,)))
    assert operators(apply(rule_pass(Choice), small, rules__cost="roofline").function.body) == ["exp", "sum"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rules.math": "wild"}, "expect config rules.math to have type"),
        ({"rules.nodes": "many"}, "expect config rules.nodes to have type int but get 'many'"),
        ({"rules.speed": 1}, "Invalid config option 'rules.speed'"),
    ],
)
def test_config_is_checked(config: dict[str, object], message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        PassContext(config=config)
    assert str(caught.value).startswith(message)


def test_rounds_of_a_pass_stay_below_the_limit_of_the_context() -> None:
    deep = ops.negative(ops.negative(ops.negative(ops.negative(a))))
    outcome = apply(rule_pass(Negations, rounds=1), func(deep))
    assert any("rounds: more than 1" in remark for remark in outcome.remarks)
    assert apply(rule_pass(Negations, rounds=50), func(deep), rules__rounds=1).count("rounds") == 1


def test_every_function_of_a_module_is_saturated() -> None:
    module = IRModule({name: func(ops.negative(ops.negative(var(name)))) for name in ("one", "two")})
    module["three"] = func(a)
    with PassContext() as context:
        after = rule_pass(Negations)(module)
    assert all(operators(function) == [] for function in after.functions.values())
    assert after["three"] is module["three"]
    assert context.statistics.counters["Negations"]["fired:Negations.twice"] == 2


def test_a_module_in_which_nothing_changes_comes_back_itself() -> None:
    module = IRModule.from_expr(func(ops.exp(a)))
    assert rule_pass(Negations)(module) is module


def test_functions_that_are_to_be_left_alone() -> None:
    plain = func(ops.negative(ops.negative(a)))
    module = IRModule({"skipped": plain.with_attr("SkipOptimization", 1), "compiled": plain.with_attr("Compiler", "dnnl")})
    assert rule_pass(Negations)(module) is module


def test_in_a_pipeline_types_are_inferred_first() -> None:
    module = IRModule.from_expr(Function([a], ops.negative(ops.negative(a))))
    after = Sequential([rule_pass(Negations)])(module)
    assert operators(after["main"]) == []
    assert after["main"].body.checked_type == a.checked_type


def test_a_pass_serves_many_contexts_and_threads() -> None:
    made = rule_pass(Negations)
    found: list[Function] = []

    def work() -> None:
        found.extend(apply(made, func(ops.exp(ops.negative(ops.negative(var("t")))))).function for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 30
    assert all(operators(function) == ["exp"] for function in found)


def test_a_pass_may_have_no_rules_at_all() -> None:
    made = RulePass((), name="Nothing")
    function = func(ops.exp(a) + ops.exp(a))
    assert apply(made, function).function is function


def test_exact_search_finds_changes_that_only_pay_together() -> None:
    """Each operand alone is as cheap in its first form as in its second; in their second forms the two share a part deep inside."""

    class Sharing(RuleSet):
        left = (op.tanh(op.negative(op.tan(x))) >> op.sin(op.erf(op.exp(x)))).exploring()
        right = (op.abs(op.sqrt(op.atan(x))) >> op.cos(op.log(op.exp(x)))).exploring()

    a = var("a")
    mod = IRModule.from_expr(func(ops.tanh(ops.negative(ops.tan(a))) + ops.abs(ops.sqrt(ops.atan(a)))))
    with PassContext(config={"rules.cost": "nodes"}) as greedy:
        assert len(operators(rule_pass(Sharing)(mod)["main"])) == 7
    assert not [text for text in greedy.statistics.remarks.get("Sharing", {}) if "cheapest" in text]
    with PassContext(config={"rules.cost": "nodes", "rules.exact": 10}) as exact:
        assert sorted(operators(rule_pass(Sharing)(mod)["main"])) == ["add", "cos", "erf", "exp", "log", "sin"]
    assert "the extracted program is proven to be the cheapest" in exact.statistics.remarks["Sharing"]


class Joining(RuleSet):
    """Unites a sum with the sum in the other order, if that exists."""

    swapped = (x + y >> y + x).joining()


def test_a_joining_rule_unites_existing_classes() -> None:
    a, b = var("a", (4,)), var("b", (4,))
    outcome = apply(rule_pass(Joining), func(tup(ops.exp(a + b), ops.tanh(b + a))))
    assert sorted(operators(outcome.function)) == ["add", "exp", "tanh"]
    assert outcome.count("fired:Joining.swapped")


def test_a_joining_rule_makes_nothing() -> None:
    a, b = var("a", (4,)), var("b", (4,))
    function = func(tup(ops.exp(a + b), ops.tanh(a - b)))
    outcome = apply(rule_pass(Joining), function)
    assert outcome.function is function
    assert outcome.count("matched:Joining.swapped")
    assert outcome.count("fired:Joining.swapped") == 0


def test_a_joining_rule_has_one_direction() -> None:
    with pytest.raises(RuleError, match="a joining rule has one direction"):
        (op.exp(x) >> op.tanh(x)).and_back().joining()


def test_a_set_is_used_as_another_kind() -> None:
    joining = Reassociate.of_kind("joining")
    assert [rule.name for rule in joining] == [rule.name for rule in Reassociate]
    assert {rule.kind for rule in joining} == {"joining"}
    assert {rule.kind for rule in Reassociate} == {"exploring"}
    assert joining is Reassociate.of_kind("joining")
    assert pickle.loads(pickle.dumps(joining)) is joining
    assert pickle.loads(pickle.dumps(Reassociate)) is Reassociate is Reassociate.of_kind("exploring")
    a, b = var("a", (4,)), var("b", (4,))
    assert sorted(operators(apply(rule_pass(joining), func(tup(ops.exp(a + b), ops.tanh(b + a)))).function)) == ["add", "exp", "tanh"]
    with PassContext(config={"rules.disabled": ["Reassociate"]}):
        assert sorted(operators(rule_pass(joining)(IRModule.from_expr(func(tup(a + b, b + a))))["main"])) == ["add", "add"]


def test_a_pass_uses_some_rules_of_a_set() -> None:
    some = Reassociate.only("grouped", "commuted")
    assert list(some) == [Reassociate.commuted, Reassociate.grouped]
    assert some.base is Reassociate
    assert some is Reassociate.only("grouped", "commuted")
    assert pickle.loads(pickle.dumps(some)) is some
    joining = some.of_kind("joining")
    assert [(rule.name, rule.kind) for rule in joining] == [("Reassociate.commuted", "joining"), ("Reassociate.grouped", "joining")]
    assert pickle.loads(pickle.dumps(joining)) is joining
    a, b = var("a", (4,)), var("b", (4,))
    outcome = apply(rule_pass(some), func(tup(ops.maximum(a, b), ops.maximum(b, a))))
    assert operators(outcome.function) == ["maximum", "maximum"]
    with pytest.raises(RuleError, match="Reassociate has no rule 'group'; it has commuted, commuted_extrema, grouped"):
        Reassociate.only("group")


def test_an_impossible_kind_of_a_set_is_an_error() -> None:
    with pytest.raises(RuleError, match="a bidirectional rule cannot be reducing"):
        Associates.of_kind("reducing")
    with pytest.raises(RuleError, match="a multi-pattern rule cannot be joining"):
        Parallel.of_kind("joining")
    with pytest.raises(RuleError, match="the kinds of rules are eager, exploring, joining, lowering, reducing, not 'quick'"):
        Reassociate.of_kind("quick")


class Associates(RuleSet):
    """A bidirectional rule."""

    both = (x * (y * z) >> (x * y) * z).inexact("rounds in another order").and_back()
