"""Rule passes in one e-graph: better results than any order of them, the same values, and each pass remains visible."""

import itertools

import pytest

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import PassContext, PassInfo, PassInstrument, Sequential
from passat.passmgr.pass_info import Statistics
from passat.rules.guards import same_type
from passat.rules.pattern import op, tensors
from passat.rules.rule_pass import RulePass, rule_pass
from passat.rules.rule_set import RuleSet
from tests.rules.building import func, ops, tup, var
from tests.rules.running import operators

x, y = tensors("x y")


class Spell(RuleSet):
    """Rewrites differences; more expensive by itself."""

    minus = (x - y >> x + op.negative(y)).exploring()


class Cancel(RuleSet):
    """Cancels what is added and subtracted again."""

    sum = ((x + y) + op.negative(y) >> x).when(same_type(x, x + y))


class Twice(RuleSet):
    """Removes double negations."""

    negative = op.negative(op.negative(x)) >> x


SETS: tuple[type[RuleSet], ...] = (Spell, Cancel, Twice)


def program() -> IRModule:
    """`-(-((a + b) - b))` over integers, so that nothing is rounded."""
    a, b = var("a", (2, 3), "int64"), var("b", (2, 3), "int64")
    return IRModule.from_expr(func(ops.negative(ops.negative((a + b) - b))))


def run(passes: list[RulePass], mod: IRModule, *instruments: PassInstrument, joint: bool = True) -> tuple[Function, Statistics]:
    with PassContext(instruments=instruments, config={"rules.joint": joint, "rules.cost": "nodes"}) as ctx:
        made = Sequential(passes)(mod)["main"]
    return made, ctx.statistics


class Watcher(PassInstrument):
    """Records passes, and vetoes some of them."""

    def __init__(self, *vetoed: str) -> None:
        self.vetoed = vetoed
        self.seen: list[str] = []

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return info.name not in self.vetoed

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.seen.append(f"before {info.name}")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.seen.append(f"after {info.name}")


@pytest.mark.parametrize("order", list(itertools.permutations(SETS)))
def test_the_joint_result_is_better_than_every_order(order: tuple[type[RuleSet], ...]) -> None:
    passes = [rule_pass(rules) for rules in order]
    one_by_one, _ = run(passes, program(), joint=False)
    assert operators(one_by_one) == ["add", "subtract"]
    together, _ = run(passes, program())
    assert operators(together) == []
    assert together.body is together.params[0]


def test_every_pass_is_seen_and_its_rules_are_counted_under_its_name() -> None:
    watcher = Watcher()
    _, statistics = run([rule_pass(rules) for rules in SETS], program(), watcher)
    names = [name for name in watcher.seen if not name.endswith("InferType")]
    inner = [f"{when} {name}" for name in ("Spell", "Cancel", "Twice") for when in ("before", "after")]
    whole = "stage 1"
    assert names == ["before sequential", f"before {whole}", *inner, f"after {whole}", "after sequential"]
    assert statistics.counters["Spell"]["fired:Spell.minus"] == 1
    assert statistics.counters["Cancel"]["fired:Cancel.sum"] == 1
    assert statistics.counters["Twice"]["fired:Twice.negative"] >= 1


def test_a_rule_of_several_passes_is_counted_under_the_stage() -> None:
    _, statistics = run([rule_pass(Spell, Twice, name="First"), rule_pass(Twice, name="Second"), rule_pass(Cancel)], program())
    assert statistics.counters["stage 1"]["fired:Twice.negative"] >= 1
    assert statistics.counters["First"]["fired:Spell.minus"] == 1
    assert "fired:Twice.negative" not in statistics.counters["First"] | statistics.counters.get("Second", {})


@pytest.mark.parametrize("vetoed", ["Spell", "Cancel", "Twice"])
def test_a_pass_that_is_vetoed_takes_no_part(vetoed: str) -> None:
    _, statistics = run([rule_pass(rules) for rules in SETS], program(), Watcher(vetoed))
    assert vetoed not in statistics.counters or not any(key.startswith("fired:") for key in statistics.counters[vetoed])
    made, _ = run([rule_pass(rules) for rules in SETS], program(), Watcher("Spell", "Cancel", "Twice"))
    assert operators(made) == ["add", "subtract", "negative", "negative"]


def test_a_repeated_pass_runs_once_with_the_others() -> None:
    spell, cancel, twice = (rule_pass(rules) for rules in SETS)
    watcher = Watcher()
    made, statistics = run([spell, twice, spell, cancel], program(), watcher)
    assert operators(made) == []
    assert [name for name in watcher.seen if "stage" in name] == ["before stage 1", "after stage 1"]
    assert watcher.seen.count("before Spell") == 2
    assert statistics.counters["Spell"]["fired:Spell.minus"] == 1


def test_limits_hold_for_the_whole() -> None:
    with PassContext(config={"rules.joint": True, "rules.rounds": 0}) as ctx:
        made = Sequential([rule_pass(rules) for rules in SETS])(program())["main"]
    assert "negative" in operators(made) or operators(made) == ["add", "subtract"]
    assert any("rounds: more than 0" in text for texts in ctx.statistics.remarks.values() for text in texts)


def test_passes_of_other_kinds_stand_between() -> None:
    """Only adjacent rule passes are joined."""
    from passat.rules.passes.simplify import DeadCodeElimination

    watcher = Watcher()
    with PassContext(instruments=[watcher], config={"rules.joint": True}):
        Sequential([rule_pass(Spell), DeadCodeElimination(), rule_pass(Cancel), rule_pass(Twice)])(program())
    assert watcher.seen.index("before Spell") < watcher.seen.index("before stage 1") < watcher.seen.index("before Cancel")
    assert [name for name in watcher.seen if "stage" in name] == ["before stage 1", "after stage 1"]


def test_values_stay() -> None:
    a = var("a", (2, 3), "int64")
    mod = IRModule.from_expr(func(tup(ops.negative(ops.negative(a)), (a + a) - a)))
    made, _ = run([rule_pass(rules) for rules in SETS], mod)
    assert operators(made) == []
