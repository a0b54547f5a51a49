"""Chains of gathers and slices are one gather."""

import pytest

from passat.ir.expr import Expr
from passat.ir.ops.slicing import END
from passat.rules.library import Concatenations, ConstantFolding
from tests.rules.building import const, func, ops, var
from tests.rules.running import assert_equal_in_value, operators, result_type, saturate

x, batch = var("x", (10, 6)), var("batch", ("n", 6))
RULES = (Concatenations, ConstantFolding)
SLICES = [(2, 9, 1), (1, 9, 2), (-1, -END, -1), (8, 1, -2), (-7, END, 1), (0, 99, 3), (3, 4, 1)]


def cut(of: Expr, begin: int, end: int, stride: int, axis: int = 0) -> Expr:
    made: Expr = ops.strided_slice(of, begin=(begin,), end=(end,), strides=(stride,), axes=(axis,))
    return made


def take(of: Expr, indices: int | list[int], axis: int = 0) -> Expr:
    made: Expr = ops.take(of, const(indices, "int64"), axis=axis)
    return made


def names_after(program: Expr) -> list[str]:
    """The operators of the result, which has the same type and values."""
    made = saturate(func(program), *RULES).function
    assert result_type(made) == result_type(func(program))
    assert_equal_in_value(func(program), made, exact=True)
    return operators(made)


@pytest.mark.parametrize("part", SLICES, ids=str)
@pytest.mark.parametrize("indices", [0, -1, [0, -1, 0]], ids=str)
def test_gather_of_a_slice(part: tuple[int, int, int], indices: int | list[int]) -> None:
    assert names_after(take(cut(x, *part), indices)) == ["take"]


@pytest.mark.parametrize("part", SLICES, ids=str)
def test_slice_of_a_gather(part: tuple[int, int, int]) -> None:
    assert names_after(cut(take(x, [3, 1, 4, 1, 5, 9, 2, 6, -1, 0]), *part)) in (["take"], ["strided_slice"])


@pytest.mark.parametrize("indices", [1, -1, [2, -3], [[0, 1], [1, 2]]], ids=str)
@pytest.mark.parametrize("axis", [0, -2])
def test_gather_of_a_gather(axis: int, indices: int | list[int]) -> None:
    assert names_after(take(take(x, [3, 1, -4], axis), indices, axis)) == ["take"]


def test_single_elements() -> None:
    program: Expr = take(take(take(var("cube", (4, 5, 6)), 3), -1), 2)
    assert names_after(program) == ["gather_nd"]


def test_indices_that_are_computed() -> None:
    ids = var("ids", ("n", 8), "int64")
    program: Expr = cut(ops.take(var("table", (100, 16)), ids, axis=0), 0, 3, 1, axis=1)
    made = saturate(func(program), *RULES).function
    assert operators(made) == ["strided_slice", "take"]
    assert result_type(made) == result_type(func(program))


@pytest.mark.parametrize(
    ("part", "indices", "fires"),
    [
        ((2, END, 1), [0, 3], True),
        ((2, END, 2), [0, 3], True),
        ((0, END, 1), -1, True),
        ((0, -2, 1), [-1, -2], True),
        ((3, 7, 1), 0, True),
        ((2, END, 1), [0, -1], False),
        ((0, 7, 1), -1, False),
        ((-3, END, 1), 0, False),
        ((0, END, 2), -1, False),
        ((-1, -END, -1), 0, False),
    ],
    ids=str,
)
def test_unknown_sizes(part: tuple[int, int, int], indices: int | list[int], fires: bool) -> None:
    program = func(take(cut(batch, *part), indices))
    outcome = saturate(program, *RULES)
    assert bool(outcome.fired("Concatenations.take_of_slice")) == fires, outcome.remarks
    for size in (4, 5, 9):
        assert_equal_in_value(program, outcome.function, exact=True, sizes={"n": size})


def test_an_index_that_is_out_of_range_remains() -> None:
    program = func(take(cut(x, 2, 9, 1), 7))
    outcome = saturate(program, *RULES)
    assert outcome.function is program
    assert any("an index is out of range for a slice of size 7" in remark for remark in outcome.remarks)
