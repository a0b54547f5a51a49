"""SimplifyShapes: sizes are read from the inputs of the program, each in one form."""

import pytest

from passat.rules.passes.simplify_shapes import SimplifyShapes
from tests.rules.passes.golden import becomes, folds, stays

DATA = "%x: (b, s, 4)"


def test_computed_sizes_are_those_of_the_input() -> None:
    becomes(
        SimplifyShapes(),
        DATA,
        "%0 = nn.relu(%x); %1 = shape_of(nn.relu(%0)); %2 = take(%1, 1i64, axis=0); arange(0i64, %2, 1i64)",
        "%0 = shape_of(%x, start=1, end=2); %1 = squeeze(%0, axis=[0]); arange(0i64, %1, 1i64)",
    )


def test_a_shape_in_one_piece() -> None:
    becomes(
        SimplifyShapes(),
        "%x: (b, s, 4), %y: (s, b)",
        "%0 = shape_of(%x); %1 = take(%0, 1i64, axis=0); %2 = take(%0, 0i64, axis=0); %3 = (expand_dims(%2, axis=[0]), expand_dims(%1, axis=[0]));"
        "dyn.broadcast_to(1f, concatenate(%3))",
        "dyn.broadcast_to(1f, shape_of(%x, end=2))",
    )


def test_numbers_between_the_sizes() -> None:
    becomes(SimplifyShapes(), "%x: (b, 4, s, 5)", "shape_of(nn.relu(%x))", "shape_of(%x)")
    folds(
        SimplifyShapes(),
        "%x: (b, 4, s, 5)",
        "dyn.full(1f, shape_of(transpose(nn.relu(%x), axes=[1, 0, 2, 3])))",
        "%0 = (full(4i64, shape=[1]), shape_of(%x, end=1), shape_of(%x, start=2)); dyn.full(1f, concatenate(%0))",
    )


def test_equal_sizes_are_one_expression() -> None:
    becomes(
        SimplifyShapes(),
        "%x: (b, s), %y: (b, s)",
        "%0 = take(shape_of(%x), 0i64, axis=0); %1 = take(shape_of(%y), 0i64, axis=0); (arange(0i64, %0, 1i64), arange(1i64, %1, 1i64))",
        "%0 = squeeze(shape_of(%x, end=1), axis=[0]); (arange(0i64, %0, 1i64), arange(1i64, %0, 1i64))",
        sharing=True,
    )


def test_nested_functions_read_the_sizes_of_their_own_inputs() -> None:
    becomes(
        SimplifyShapes(),
        DATA,
        "%0 = fn (%y: Tensor[(b, s, 4), float32]) { arange(0i64, take(shape_of(nn.relu(%y)), 1i64, axis=0), 1i64) }; %0(%x)",
        "%0 = fn (%y: Tensor[(b, s, 4), float32]) { arange(0i64, squeeze(shape_of(%y, start=1, end=2), axis=[0]), 1i64) }; %0(%x)",
    )


def test_shape_arithmetic_that_cancels() -> None:
    becomes(
        SimplifyShapes(),
        DATA,
        "%0 = take(shape_of(reshape(%x, newshape=[-1, 4])), 0i64, axis=0); %1 = take(shape_of(%x), 1i64, axis=0); %2 = divide(%0, %1);"
        "arange(0i64, %2, 1i64)",
        "%0 = squeeze(shape_of(%x, end=1), axis=[0]); arange(0i64, %0, 1i64)",
    )


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("%x: (3, 4)", "shape_of(nn.relu(%x))"),  # a constant for FoldConstant
        (
            DATA,
            "%0 = take(shape_of(reshape(%x, newshape=[-1, 4])), 0i64, axis=0); arange(0i64, %0, 1i64)",
        ),  # b * s is not a size of an input
        ("%x: (b, 4), %n: () int64", "arange(0i64, %n, 1i64)"),
        ("%x: (?, 4)", "shape_of(nn.relu(%x))"),
        ("%x: (b, 4)", 'shape_of(nn.relu(%x), dtype="int32")'),
        ("%x: (b), %y: (s), %z: (s, b)", "(shape_of(%z), nn.relu(%z))"),  # two shapes and a concat become one
    ],
)
def test_unchanged_programs(signature: str, body: str) -> None:
    stays(SimplifyShapes(), signature, body)
