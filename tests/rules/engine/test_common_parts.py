"""Sums and products that share operands: the shared part is computed once, and nothing is explored where none is shared."""

import random
from collections.abc import Sequence
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.passmgr import PassContext
from passat.rules.library import Reassociate
from passat.rules.passes import default_pipeline
from passat.rules.passes.algebra import linear_algebra
from passat.rules.rule import JOINING
from tests.rules.building import func, ops, tup, var
from tests.rules.running import assert_equal_in_value, operators, saturate

RULES = Reassociate.of_kind(JOINING)
a, b, c, d, e = LEAVES = [var(name, (64, 32)) for name in "abcde"]


def program(*sums: Expr) -> Function:
    """A program of several sums or products, each followed by another operator."""
    return func(tup(*(ops.exp(each) if i % 2 else ops.tanh(each) for i, each in enumerate(sums))))


def chain(name: str, operands: Sequence[Expr]) -> Expr:
    made: Expr = reduce(getattr(ops, name), operands)
    return made


def optimized(function: Function) -> Function:
    with PassContext(opt_level=3):
        return linear_algebra()(IRModule.from_expr(function))["main"]


def calls(function: Function, name: str) -> int:
    return operators(function.body).count(name)


@pytest.mark.parametrize("name", ["add", "multiply"])
@pytest.mark.parametrize(
    ("chains", "before", "after"),
    [
        (["abc", "ac"], 3, 2),
        (["abc", "cab"], 4, 2),
        (["abc", "adc"], 4, 3),
        (["abcd", "dbac"], 6, 3),
        (["abcd", "dbae"], 6, 4),
        (["abcd", "ad"], 4, 3),
        (["abcd", "adc"], 5, 3),
        (["aba", "aa"], 3, 2),
        (["cab", "dab", "eba"], 6, 4),
    ],
    ids=str,
)
def test_parts_are_shared(name: str, chains: list[str], before: int, after: int) -> None:
    function = program(*(chain(name, [LEAVES["abcde".index(letter)] for letter in letters]) for letters in chains))
    made = optimized(function)
    assert (calls(function, name), calls(made, name)) == (before, after)
    assert_equal_in_value(function, made, exact=False)


def test_trees_share_parts_with_chains() -> None:
    function = program((a + b) + (c + d), ((d + b) + a) + c)
    assert calls(optimized(function), "add") == 3


@pytest.mark.parametrize(
    "function",
    [program((a + b) + c, (d + e) + a), program((a + b) * c, (a + d) * c), program(((a + b) + c) + d)],
    ids=["one operand", "another operator", "one sum"],
)
def test_nothing_is_made_where_nothing_is_shared(function: Function) -> None:
    outcome = saturate(function, RULES)
    assert outcome.function is function
    assert outcome.fired("Reassociate.grouped") == 0


def test_a_part_with_other_uses_is_an_operand() -> None:
    part = a + b
    function = program(part, part + c, (a + d) + c)
    assert saturate(function, RULES).fired("Reassociate.grouped") == 0


def test_a_bound_on_parts() -> None:
    """Twenty sums of six of eight tensors have thousands of common parts."""
    generator = random.Random(1)
    leaves = [var(f"v{i}", (64, 32)) for i in range(8)]
    function = program(*(chain("add", generator.sample(leaves, 6)) for _ in range(20)))
    made = optimized(function)
    assert calls(made, "add") < 40 < calls(function, "add")
    assert_equal_in_value(function, made, exact=False, rounds=1)


def test_choices_of_several_e_classes_that_do_not_pay_are_undone_completely() -> None:
    """Extraction restored the nodes of e-classes that it had brought in, but not their positions, and built a call before its operands."""
    generator = random.Random(88)
    leaves = [var(f"v{i}", (64, 32)) for i in range(generator.randint(4, 9))]
    count, length = generator.randint(4, 24), generator.randint(3, 6)
    function = program(*(chain("add", generator.choices(leaves, k=length)) for _ in range(count)))
    with PassContext(opt_level=3):
        made = default_pipeline()(IRModule.from_expr(function))["main"]
    assert_equal_in_value(function, made, exact=False, rounds=1)


def test_long_chains() -> None:
    function = program(chain("add", [a, b] * 500), chain("add", [b, c, a]))
    assert calls(optimized(function), "add") <= calls(function, "add")


@given(st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=5), min_size=2, max_size=4), st.sampled_from(["add", "multiply"]))
def test_random_chains_never_take_more_calls(chains: list[list[int]], name: str) -> None:
    function = program(*(chain(name, [LEAVES[i] for i in each]) for each in chains))
    made = optimized(function)
    assert calls(made, name) <= calls(function, name)
    assert_equal_in_value(function, made, exact=False, rounds=1)
