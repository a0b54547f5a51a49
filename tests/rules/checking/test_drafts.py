"""Conditions say how to draw what they hold of: shapes go down to holes, attributes are solved on the way up, and rules meet real instances."""

import numpy as np
import pytest

from passat.ir.tensor import Array
from passat.ir.types import TensorType
from passat.rules.checking.case import Unfit
from passat.rules.checking.check import check_rule
from passat.rules.checking.dice import Dice
from passat.rules.checking.plan import Plan
from passat.rules.checking.trying import tried
from passat.rules.conditions import Term, condition, has_dtype, is_all, is_axis, is_finite, same_shape
from passat.rules.drafts import Draft, Drafts
from passat.rules.pattern import Pattern, PCall, RuleError, attributes, constants, op, tensors

x, y, z = tensors("x y z")
(c,) = constants("c")
(p,) = attributes("p")


def dice(seed: int = 0) -> Dice:
    return Dice(np.random.default_rng(seed))


def wanted(pattern: Pattern, shape: tuple[int, ...], seed: int = 0) -> Plan:
    plan = Plan(pattern, (), dice(seed))
    plan.want(pattern, shape)
    return plan


@pytest.mark.parametrize("seed", range(20))
def test_a_shape_goes_down_to_operands_that_broadcast_to_it(seed: int) -> None:
    pattern = op.nn.softmax(x + y * z)
    plan = wanted(pattern, (2, 3, 4), seed)
    shapes = [plan.shapes[hole.key] for hole in (x, y, z)]
    assert np.broadcast_shapes(*shapes) == (2, 3, 4)


@pytest.mark.parametrize("seed", range(10))
def test_a_shape_goes_down_through_transposes_products_reshapes_and_lookups(seed: int) -> None:
    assert wanted(op.transpose(x, axes=(2, 0, 1)), (4, 2, 3), seed).shapes[x.key] == (2, 3, 4)
    assert sorted(wanted(op.transpose(x), (4, 2, 3), seed).shapes[x.key]) == [2, 3, 4]
    product = wanted(x @ y, (5, 2, 3), seed).shapes
    assert product[x.key][:2] == (5, 2)
    assert product[y.key] == (5, product[x.key][2], 3)
    assert np.prod(wanted(op.reshape(x), (2, 3, 4), seed).shapes[x.key]) == 24
    taken = wanted(op.take(x, y, axis=0), (2, 3, 4), seed).shapes
    assert (*taken[y.key], *taken[x.key][1:]) == (2, 3, 4)


def call(pattern: Pattern) -> PCall:
    assert isinstance(pattern, PCall)
    return pattern


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("node", "source", "target"),
    [
        (op.reshape(x), (2, 6), (3, 2, 2)),
        (op.broadcast_to(x), (3, 1), (2, 3, 4)),
        (op.transpose(x), (2, 3, 4, 3), (3, 4, 2, 3)),
        (op.expand_dims(x), (2, 3), (1, 2, 1, 3)),
        (op.squeeze(x), (1, 2, 1, 3), (2, 1, 3)),
    ],
    ids=lambda value: value.op.name if isinstance(value, PCall) else "",
)
def test_open_attributes_are_solved_for_a_shape(node: PCall, source: tuple[int, ...], target: tuple[int, ...], seed: int) -> None:
    attrs = wanted(node, target, seed).solve(node, source, {})
    assert node.op.infer([TensorType(source, "float32")], node.op.bind_attrs(attrs)) == TensorType(target, "float32")


@pytest.mark.parametrize("seed", range(20))
def test_an_axis_is_inserted_where_what_follows_broadcasts(seed: int) -> None:
    inner = op.expand_dims(x)
    plan = wanted(op.broadcast_to(inner), (2, 5, 3), seed)
    plan.want(x, (2, 3))
    attrs = plan.solve(inner, (2, 3), {})
    assert inner.op.infer([TensorType((2, 3), "float32")], inner.op.bind_attrs(attrs)) == TensorType((2, 1, 3), "float32")


@pytest.mark.parametrize("seed", range(20))
def test_a_split_has_as_many_parts_as_the_pattern_takes(seed: int) -> None:
    whole = op.split(x)
    plan = Plan(whole[2], [has_dtype(x, "float32")], dice(seed))
    attrs = plan.solve(whole, (4, 6), {"axis": 1})
    parts = whole.op.infer([TensorType((4, 6), "float32")], whole.op.bind_attrs(attrs))
    assert len(parts.fields) >= 3  # type: ignore[attr-defined]  # a tuple
    assert attrs["axis"] == 1


def test_what_was_settled_before_stays_and_conditions_wait_for_others() -> None:
    plan = Plan(x + c, [same_shape(x, c), has_rank_two(c), is_all(c, 3), is_all(c, 4), is_axis(p, -1, x)], dice())
    assert plan.shapes[x.key] == plan.shapes[c.key] == (2, 3)
    assert plan.elements[c.key] == (3,)
    assert plan.attrs["p"] in (-1, 1)


@condition(draw=lambda dice, c: [Draft(shape=(2, 3))])
def has_rank_two(c: Term) -> bool | str:
    """Of two dimensions."""
    return c.type.ndim == 2


def test_elements_are_made_for_the_shape_and_in_the_element_type() -> None:
    plan = Plan(x + c, [is_finite(c)], dice())
    for _ in range(20):
        made = plan.tensor(c.key, TensorType((2, 2), "float16"))
        assert (made.shape, made.dtype) == ((2, 2), "float16")
        assert np.all(np.isfinite(made.numpy().astype(np.float64)))


def test_elements_that_do_not_fit_make_no_instance() -> None:
    wanted_square = condition(draw=lambda dice, c: [Draft(elements=lambda dice, shape: np.eye(shape[0], shape[1]))])(lambda c: True)
    plan = Plan(x + c, [wanted_square(c)], dice())
    with pytest.raises(Unfit, match="there are no elements for"):
        plan.tensor(c.key, TensorType((2,), "float32"))


def _a_reversal(dice: Dice, c: Draft) -> Drafts:
    def flipped(dice: Dice, shape: tuple[int, ...]) -> Array:
        return np.eye(shape[0])[::-1]

    size = dice.full()
    return [Draft(shape=(size, size), elements=flipped)]


def _is_reversal(c: Term) -> bool | str:
    value = c.value().numpy()
    return (value.ndim == 2 and np.array_equal(value, np.eye(len(value))[::-1])) or "the constant reverses nothing"


luckily = condition(_is_reversal)
knowingly = condition(draw=_a_reversal)(_is_reversal)


def test_what_luck_only_finds_trivial_instances_of_is_refused_where_the_condition_says_more() -> None:
    """A product with a reversal reverses; of one element that is what it was."""
    rule = ((x @ c) >> x).finite("infinity times 0 is no number").named("Mine.reversed")
    assert not tried(rule.when(luckily(c)), 0, 60).wrong
    report = check_rule(rule.when(knowingly(c)), instances=60).report
    assert report.verdict == "refused"
    assert report.counterexample is not None
    assert "c: constant Tensor[(2, 2), float32] = [[0, 1], [1, 0]]" in report.counterexample.lines


def test_conditions_are_not_asked_where_chance_does() -> None:
    asked: list[str] = []

    def noted(dice: Dice, x: Draft) -> Drafts:
        asked.append("x")
        return [Draft(dtype="float32")]

    always = condition(draw=noted)(lambda term: True)
    assert tried((op.negative(op.negative(x)) >> x).when(always(x)).named("Mine.twice"), 0, 60).report.compared == 60
    assert asked == []


def test_what_a_condition_raises_while_it_says_is_told() -> None:
    def broken(dice: Dice, x: Draft) -> Drafts:
        raise KeyError("size")

    seldom = condition(draw=broken)(lambda term: "never")
    with pytest.raises(RuleError, match="says of instances raised KeyError: 'size'"):
        tried((op.nn.relu(x) >> x).when(seldom(x)).named("Mine.seldom"), 0, 60)


def test_constants_that_conditions_want_infinite_may_be_so() -> None:
    """A rule of finite values is compared where its own condition wants minus infinity."""

    @condition(draw=lambda dice, c: [Draft(elements=(float("-inf"),))])
    def is_least(c: Term) -> bool | str:
        return bool(np.all(np.isneginf(c.value().numpy()))) or "not minus infinity"

    rule = (op.maximum(x, c) >> x).when(is_least(c), same_shape(x, op.maximum(x, c))).finite("what is no number").named("Mine.least")
    report = check_rule(rule, instances=40).report
    assert (report.verdict, report.compared) == ("sound", 40)
