"""E-class analyses: when facts are computed, how unions merge them, and who is notified."""

from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np
import pytest
from onnx import numpy_helper, parser

from passat import optimize
from passat.ir.expr import Expr
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.analysis import Analysis, Made
from passat.rules.engine.directions import Directions, Stage
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import Graph
from passat.rules.engine.limits import Limits
from passat.rules.engine.saturate import Saturator
from passat.rules.guards import Term, guard
from passat.rules.library import Arithmetic
from passat.rules.pattern import RuleError, op, tensors
from passat.rules.range_guards import RANGES, never_negative
from passat.rules.ranges import Range
from passat.rules.rule import Rule
from passat.rules.rule_pass import RulePass
from passat.rules.rule_set import RuleSet
from tests.rules.building import func, ops, splat, tup, var
from tests.rules.provenance.proving import written
from tests.rules.running import operators, saturate

x, y = tensors("x y")
a, b = var("a"), var("b")


class _Whole(Analysis[bool]):
    """An analysis of which tensors hold whole numbers; `asked` are the calls that it was evaluated for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def known(self, type_: TensorType, constant: Tensor | None) -> bool | None:
        """Integers are whole."""
        return True if type_.dtype.startswith("int") else None

    def reads(self, op: Op) -> bool:
        """Rounding, and operators that keep whole numbers whole."""
        return op.name in ("round", "floor", "add", "split")

    def make(self, call: Made, facts: Sequence[AnyValue]) -> AnyValue:
        """The fact of a call: rounding always gives whole numbers, other operators if their operands are whole."""
        self.asked.append(call.op.name)
        if call.op.name == "split":
            return (facts[0], facts[0])
        return True if call.op.name != "add" or all(facts) else None

    def merge(self, one: bool, other: bool) -> bool:
        """Merges two facts; there is only one."""
        return one


def graph_of(body: Expr) -> tuple[Graph, int]:
    graph = Graph()
    return graph, graph.load(func(body).body)


def test_facts_are_computed_once_and_on_demand() -> None:
    whole = _Whole()
    graph, root = graph_of(ops.round(ops.tanh(ops.floor(a))) + ops.floor(b))
    assert whole.asked == []
    assert graph.fact(whole, root) is True
    assert sorted(whole.asked) == ["add", "floor", "round"]  # neither tanh nor its operands are analyzed
    assert graph.fact(whole, root) is True
    assert len(whole.asked) == 3


def test_facts_of_tuples_are_those_of_their_fields() -> None:
    whole = _Whole()
    graph, root = graph_of(tup(ops.round(a), ops.exp(a))[0])
    assert graph.fact(whole, root) is True
    graph, root = graph_of(tup(ops.round(a), ops.exp(a))[1])
    assert graph.fact(whole, root) is None
    graph, root = graph_of(ops.split(ops.round(var("long", (4,))), indices_or_sections=2, axis=0)[1])
    assert graph.fact(whole, root) is True


def test_a_chain_of_any_length_has_facts() -> None:
    body = ops.round(a)
    for _ in range(5000):
        body = body + a
    graph, root = graph_of(body + ops.floor(a))
    assert graph.fact(_Whole(), root) is None


def test_a_class_in_a_cycle_has_the_fact_of_its_other_nodes() -> None:
    graph, root = graph_of(ops.multiply(ops.exp(a), splat(1.0, ())))
    exp = graph.operands[root][0]
    graph.unite(exp, root)  # exp(a) = exp(a) * 1, in one e-class
    assert graph.fact(RANGES, root) == Range(0.0, float("inf"), True)


def saturated(body: Expr, *rules: Rule) -> tuple[Graph, int, Saturator]:
    """The e-graph of a program, its root, and the statistics of its saturation."""
    graph, root = graph_of(body)
    saturator = Saturator(graph, [Stage(tuple(map(Directions, rules)))], Limits())
    saturator.run()
    return graph, root, saturator


def test_unions_refine_integer_ranges_and_retry_rejected_matches() -> None:
    i, j = var("i", dtype="int64"), var("j", dtype="int64")
    absolute = (op.abs(x) >> x).when(never_negative(x)).named("R.absolute")
    told = (op.subtract(x, y) >> op.clip(y, a_min=0, a_max=9)).exploring().named("R.told")  # the equality need not hold
    graph, root, saturator = saturated(ops.abs(ops.subtract(i, j)), absolute, told)
    assert graph.fact(RANGES, root) == Range(0, 9)
    assert graph.find(root) == graph.find(graph.operands[root][0])
    assert saturator.result.rules["R.absolute"].reasons == {
        "never_negative(x): elements may be negative: their range is [-9.22337e+18, 9.22337e+18]": 1
    }
    assert saturator.result.rules["R.absolute"].unions


def test_facts_propagate_to_users() -> None:
    i, j = var("i", dtype="int64"), var("j", dtype="int64")
    absolute = (op.abs(x) >> x).when(never_negative(x)).named("R.absolute")
    told = (op.subtract(x, y) >> op.clip(y, a_min=0, a_max=9)).exploring().named("R.told")
    seven = splat(7, (), "int64")
    graph, root, _ = saturated(ops.abs(ops.add(ops.multiply(ops.subtract(i, j), seven), seven)), absolute, told)
    assert graph.fact(RANGES, root) == Range(7, 70)
    assert graph.find(root) == graph.find(graph.operands[root][0])


def test_floating_point_numbers_do_not_learn_from_unions() -> None:
    # E(x^2) - E(x)^2 may be rounded to a negative number, but the variance, which is in the same e-class, is not negative.
    told = (op.subtract(x, y) >> op.abs(op.subtract(x, y))).exploring().named("R.told")
    guarded = [way for rule in Arithmetic for way in rule.directions() if rule.name.startswith("Arithmetic.rectified")]
    graph, root, saturator = saturated(ops.nn.relu(ops.subtract(a, b)), told, *guarded)
    assert saturator.result.rules["R.told"].unions == 1
    assert graph.find(root) != graph.find(graph.operands[root][0])


@guard
def is_whole(x: Term) -> bool | str:
    """True if the elements are whole numbers."""
    return x.fact(WHOLE) is True or "elements may be fractions"


WHOLE = _Whole()


class Floors(RuleSet):
    """Removes rounding of whole numbers, as a rule and as an eager rule (called modify in egg)."""

    floor = (op.floor(x) >> x).when(is_whole(x))
    ceil = (op.ceil(x) >> x).when(is_whole(x)).eager()


def test_guards_of_all_rules_may_use_any_analysis() -> None:
    outcome = saturate(func(ops.ceil(ops.floor(ops.round(a)))), Floors)
    assert operators(outcome.function) == ["round"]
    kept = saturate(func(ops.ceil(ops.floor(ops.exp(a)))), Floors)
    assert operators(kept.function) == ["exp", "floor"]
    assert any("elements may be fractions" in remark for remark in kept.remarks)


def test_eager_rules_use_facts_of_their_node() -> None:
    whole = op.add(x, y)
    rule = (whole >> op.subtract(x, y)).when(is_whole(whole)).eager().named("R.whole")  # the equality need not hold
    for body, unions in ((ops.add(ops.round(a), ops.floor(b)), 1), (ops.add(ops.exp(a), ops.floor(b)), 0)):
        graph = Graph(Eager([rule]))
        root = graph.load(func(body).body)
        assert graph.statistics["R.whole"].unions == unions
        assert str(graph.symbols[root].op) == ("subtract" if unions else "add")


def test_certificates_know_the_same_facts() -> None:
    body = ops.nn.relu(ops.exp(ops.abs(ops.negative(a))))
    found = written(func(body), [RulePass((Arithmetic,), name="Arithmetic")])
    assert [str(call.op) for call in found.calls()] == ["abs", "exp"]
    assert found.check().unions == 3  # both rules match: the exact one, and the one for zeros of either sign


def test_ends_of_ranges_may_lie_outside_of_the_element_type() -> None:
    """Where a result is infinite, its range begins beyond the largest number. NumPy must not warn about that."""
    model = parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> g () => (float16[2] y) { e = Exp(c) n = Neg(e) y = Abs(n) }')
    model.graph.initializer.append(numpy_helper.from_array(np.asarray([0.25, 20.0], np.float16), "c"))
    assert optimize(model, verify=False, config={"rules.math": "exact"}).model


def test_an_update_computes_only_what_changed() -> None:
    whole = _Whole()
    graph, root = graph_of(ops.add(ops.floor(ops.add(ops.round(a), b)), ops.add(ops.tanh(a), ops.round(b))))
    assert graph.fact(whole, root) is None
    tanh = graph.operands[graph.operands[root][1]][0]
    whole.asked.clear()
    other = graph.load(func(ops.floor(b)).body)
    united = graph.unite(tanh, other)
    assert united is not None
    assert graph.facts[whole].update([united], ()) == {graph.find(tanh), graph.operands[root][1], root}
    assert sorted(whole.asked) == ["add", "add", "floor"]
    assert graph.fact(whole, root) is True


def test_users_of_a_class_that_goes_learn_the_fact_of_the_one_that_stays() -> None:
    whole = _Whole()
    graph, root = graph_of(ops.add(ops.round(a), ops.tanh(b)))
    assert graph.fact(whole, root) is None
    united = graph.unite(*graph.operands[root])
    assert united is not None
    assert root in graph.facts[whole].update([united], ())
    assert graph.fact(whole, root) is True


def test_updates_end_in_cycles() -> None:
    one = splat(1, (), "int64")
    graph, root = graph_of(ops.clip(ops.subtract(var("i", dtype="int64"), one), a_min=0, a_max=1000))
    assert graph.fact(RANGES, root) == Range(0, 1000)
    i = graph.operands[graph.operands[root][0]][0]
    united = graph.unite(i, root)  # i = clip(i - 1, 0, 1000): only 0 is left, and each visit finds a smaller bound
    assert united is not None
    graph.facts[RANGES].update([united], ())
    assert 0 < graph.fact(RANGES, root).high < 1000


def test_a_method_modify_is_an_error_since_nothing_calls_it() -> None:
    with pytest.raises(TypeError, match="Own has a method modify, which nothing calls: write a rule whose guard asks for the fact"):
        type("Own", (_Whole,), {"modify": None})


class _Failing(_Whole):
    """An analysis with a mistake."""

    def make(self, call: Made, facts: Sequence[AnyValue]) -> AnyValue:
        """Fails for floor; gives split a fact that is not a tuple."""
        return 1 / 0 if call.op.name == "floor" else True

    def merge(self, one: bool, other: bool) -> bool:
        """Fails."""
        raise ValueError("why")


def test_errors_of_an_analysis_name_it() -> None:
    graph, root = graph_of(ops.floor(a))
    with pytest.raises(RuleError, match=r"^the analysis _Failing: make, for floor, raises ZeroDivisionError: division by zero$"):
        graph.fact(_Failing(), root)
    graph, root = graph_of(ops.split(ops.round(var("long", (4,))), indices_or_sections=2, axis=0)[1])
    with pytest.raises(RuleError, match=r"^the analysis _Failing: make, for split, returned True: the fact of a tuple of 2 is a tuple"):
        graph.fact(_Failing(), root)
    graph, root = graph_of(tup(ops.round(a), ops.round(b)))
    graph.unite(*graph.operands[root])
    with pytest.raises(RuleError, match=r"^the analysis _Failing: merge raises ValueError: why$"):
        graph.fact(_Failing(), root)


def test_the_newer_nodes_of_a_class_that_keeps_the_fact_of_the_oldest_are_not_visited() -> None:
    class _Oldest(_Whole):
        def keeps_oldest(self, type_: TensorType) -> bool:
            return type_.dtype == "float32"

    whole = _Oldest()
    graph, root = graph_of(ops.floor(ops.add(ops.round(a), b)))
    assert graph.fact(whole, root) is True
    (total,) = graph.operands[root]
    whole.asked.clear()
    united = graph.unite(total, graph.load(func(ops.round(b)).body))
    assert united is not None
    assert graph.facts[whole].update([united], ()) == set()
    assert graph.fact(whole, total) is None
    assert whole.asked == []


def test_zeros_of_either_sign_have_ranges_of_their_own() -> None:
    graph, root = graph_of(tup(ops.floor(ops.sigmoid(a)), ops.floor(ops.clip(ops.sigmoid(a), a_min=0.0, a_max=2.0))))
    assert [graph.fact(RANGES, part).signed for part in graph.operands[root]] == [False, True]
