"""Splitting large functions into regions, and detecting equal regions."""

import pytest

from passat.ir.expr import Constant, Expr, Function, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.op import get_op
from passat.rules.engine.matching import Matcher
from passat.rules.pattern import op, tensors
from passat.rules.regions import regions
from passat.rules.regions.regions import Numbers, cut, edges_of, key_of
from passat.rules.rule_set import RuleSet
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.program_strategies import build

NOTHING = edges_of([])
a = var("a")


def layer(value: Expr, weight: Constant) -> Expr:
    """Four nodes, one of them used twice: one value passes between layers."""
    scaled = ops.multiply(value, weight)
    return ops.add(ops.nn.relu(scaled), ops.negative(scaled))  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def stack(layers: int) -> Function:
    value: Expr = a
    for seed in range(layers):
        value = layer(value, numbers((2, 3), seed=seed))
    return func(value)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "LEAST", 3)
    monkeypatch.setattr(regions, "WINDOW", 20)


def test_regions_are_cut_at_single_values() -> None:
    found = cut(stack(6), NOTHING)
    assert found is not None
    assert [(len(region.nodes), len(region.inputs), len(region.tensors), len(region.outputs)) for region in found] == [(4, 1, 1, 1)] * 6


@pytest.mark.parametrize("seed", range(30))
def test_regions_partition_the_nodes_in_order(seed: int) -> None:
    function = build(seed, 30)
    found = cut(function, NOTHING)
    if found is None:
        return
    made: set[int] = {id(param) for param in function.params}
    for region in found:
        assert all(id(value) in made for value in region.inputs)
        own = {id(node) for node in region.nodes}
        assert not own & made
        assert {id(output) for output in region.outputs} <= own
        made |= own
    outside = [id(value) for region in found for value in region.inputs if value not in function.params]
    assert set(outside) <= {id(output) for region in found for output in region.outputs}


def test_cuts_avoid_patterns_of_rules() -> None:
    x, y = tensors("x y")

    class Doubled(RuleSet):
        """Matches a product of a sum."""

        double = (op.add(x, y) * y >> (y * op.add(x, y))).when()

    plain = cut(stack(6), NOTHING)
    asked = cut(stack(6), edges_of([Matcher(rule) for rule in Doubled]))
    assert plain is not None
    assert asked is not None
    wholes = [node for region in asked[1:] for node in region.nodes[:1]]
    assert not any(getattr(node, "op", None) is get_op("multiply") for node in wholes)
    assert all(getattr(region.nodes[0], "op", None) is get_op("multiply") for region in plain)


def test_tuples_and_shape_arithmetic_stay_with_their_users() -> None:
    whole = ops.split(ops.nn.relu(ops.negative(a)), indices_or_sections=3, axis=-1)
    fields = [TupleGetItem(whole, i) for i in range(3)]
    value = ops.concatenate(tup(*fields), axis=-1)
    for seed in range(4):
        value = layer(value, numbers((2, 3), seed=seed))
    found = cut(func(value), NOTHING)
    assert found is not None
    home = {id(node): number for number, region in enumerate(found) for node in region.nodes}
    assert len({home[id(part)] for part in (whole, *fields)}) == 1


def test_functions_other_than_pure_dataflow_stay_whole() -> None:
    dropped = ops.nn.dropout(a)[0]
    for seed in range(4):
        dropped = layer(dropped, numbers((2, 3), seed=seed))
    assert cut(func(dropped), NOTHING) is None
    inner = Function([a], ops.negative(a))
    called: Expr = inner(var("b"))
    for seed in range(4):
        called = layer(called, numbers((2, 3), seed=seed))
    function = Function([var("c")], called)
    infer_type(function)
    assert cut(function, NOTHING) is None


def test_a_function_without_a_place_to_cut_stays_whole() -> None:
    assert cut(func(ops.negative(a)), NOTHING) is None
    assert cut(func(a), NOTHING) is None
    assert cut(func(const([1.0])), NOTHING) is None


def test_keys_tell_structure_and_types_but_not_contents() -> None:
    number = Numbers()

    def key(weight: Constant, last: str = "add") -> object:
        scaled = ops.multiply(a, weight)
        value: Expr = getattr(ops, last)(ops.nn.relu(scaled), ops.negative(scaled))
        found = cut(func(layer(value, numbers((2, 3)))), NOTHING)
        assert found is not None
        return key_of(found[0], number)

    assert key(numbers((2, 3))) == key(numbers((2, 3), seed=1)) == key(splat(1.0, (2, 3)))
    assert key(numbers((2, 3))) != key(numbers((1, 3)))
    assert key(numbers((2, 3))) != key(numbers((2, 3)), "subtract")


def test_a_number_belongs_to_a_value_not_to_an_object() -> None:
    number = Numbers()
    assert number((1, 2)) == number((1, 2)) != number((2, 1))
