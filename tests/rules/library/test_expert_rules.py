"""Rules on mixtures of experts: each on a program that it rewrites, and on one that it does not."""

from itertools import product

import pytest

from passat.ir.expr import Expr
from passat.rules.library import HiddenStates, Views
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, numbers, ops, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs
from tests.rules.running import assert_equal_in_value, operators, saturate

ROWS, EXPERTS, FEATURES, COLUMNS = 3, 4, 5, 6
tokens = var("tokens", (ROWS, FEATURES))
chosen = ops.cast(var("flags", (2 * ROWS,), "bool"), dtype="int64")
by_columns, by_rows = numbers((EXPERTS, COLUMNS, FEATURES)), numbers((EXPERTS, FEATURES, COLUMNS))


def vector_shape(axis: int) -> tuple[int, int, int]:
    """Matrices with one column, or with one row."""
    return (2 * ROWS, FEATURES, 1) if axis == 2 else (2 * ROWS, 1, FEATURES)


def repeated(how: str, axis: int, place: int = 1) -> Expr:
    """Each row twice; with place 0, all rows twice."""
    lifted, count = ops.expand_dims(tokens, axis=place), (1, 2, 1) if place else (2, 1, 1)
    wide = ops.tile(lifted, reps=count) if how == "tiled" else ops.broadcast_to(lifted, shape=count)
    return ops.reshape(wide, newshape=vector_shape(axis))  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def chosen_weights(name: str, axis: int, indices: Expr = chosen) -> Expr:
    weights = by_columns if axis == 2 else by_rows
    if name == "taken":
        return ops.take(weights, indices, axis=0)  # type: ignore[no-any-return]  # as above
    return ops.gather_nd(weights, ops.reshape(indices, newshape=(-1, 1)))  # type: ignore[no-any-return]  # as above


def products(weights: Expr, vectors: Expr, axis: int) -> Expr:
    return ops.nn.matmul(weights, vectors) if axis == 2 else ops.nn.matmul(vectors, weights)  # type: ignore[no-any-return]  # as above


def _cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    good: Expr
    bad: Expr
    for side, name, how in product(("columns", "rows"), ("taken", "gathered"), ("alone", "broadcast", "tiled")):
        axis = 2 if side == "columns" else 1
        weights = chosen_weights(name, axis)
        if how == "alone":
            several = (2 * ROWS, FEATURES, 2) if axis == 2 else (2 * ROWS, 2, FEATURES)
            good, bad = var("vectors", vector_shape(axis)), var("vectors", several)
            reason = "does not have one vector of"
        else:
            good, bad, reason = repeated(how, axis), repeated(how, axis, place=0), "does not consist of repeated rows of"
        key = ", ".join((side, name, how) if side == "columns" else (side, how, name))
        found[f"HiddenStates.gathered_experts[{key}]"] = case(products(weights, good, axis), products(weights, bad, axis), reason)
    return found


CASES = _cases()
TABLE = pairs(CASES, HiddenStates)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=[rule.name for _, rule, _ in TABLE])
def test_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=[rule.name for _, rule, _ in TABLE])
def test_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_indices_from_the_back_count_from_the_back() -> None:
    places = ops.subtract(chosen, const(4, "int64"))  # -4 and -3
    before = func(products(chosen_weights("taken", 2, places), repeated("tiled", 2), 2))
    outcome = saturate(before, HiddenStates)
    assert outcome.fired("HiddenStates.gathered_experts") > 0, outcome.remarks
    assert_equal_in_value(before, outcome.function, exact=False)


def test_expensive_copies_are_not_made() -> None:
    many = var("many", (64, 64, 1))
    weights = ops.take(numbers((4, 256, 64)), var("places", (64,), "int64"), axis=0)
    assert operators(saturate(func(ops.nn.matmul(weights, many)), HiddenStates, Views, ConstantFolding).function).count("gather_nd") == 1


def test_few_of_many_experts_are_copied() -> None:
    few = var("few", (2, 64, 1))
    function = func(ops.nn.matmul(ops.take(numbers((64, 64, 64)), var("places", (2,), "int64"), axis=0), few))
    assert saturate(function, HiddenStates, Views, ConstantFolding).function is function
