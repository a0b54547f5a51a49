"""SimplifyShapes: sizes are read from the inputs of the program, each in one form."""

import pytest

from passat.ir.equality import structural_equal
from passat.ir.expr import Function
from passat.passmgr.standard import InferType
from passat.rules.passes.simplify_shapes import SimplifyShapes, simplify_shapes
from tests.rules.passes.golden import becomes, folds, program, run, stays

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


HALVES = "%x: (b, 3, h, w), %k: (4, 3, 2, 2)"
SIZES = """%0 = nn.conv2d(%x, %k, strides=[2, 2]); %1 = nn.relu(%0); %2 = shape_of(%0); %3 = take(%2, 0i64, axis=0);
%4 = take(%2, 2i64, axis=0); %5 = take(%2, 3i64, axis=0); %6 = shape_of(%1); %7 = take(%6, 2i64, axis=0); %8 = take(%6, 3i64, axis=0)"""


def test_sizes_that_no_input_has_are_read_from_the_first_tensor_that_has_them() -> None:
    folds(
        SimplifyShapes(),
        HALVES,
        f"""{SIZES}; %9 = (expand_dims(%3, axis=[0]), full(2i64, shape=[2]), expand_dims(%4, axis=[0]), expand_dims(%5, axis=[0]));
        (dyn.reshape(%1, concatenate(%9)), dyn.full(0f, concatenate((expand_dims(%7, axis=[0]), expand_dims(%8, axis=[0])))))""",
        """%0 = nn.conv2d(%x, %k, strides=[2, 2]); %1 = shape_of(%0, start=2); %2 = (shape_of(%x, end=1), full(2i64, shape=[2]), %1);
        (dyn.reshape(nn.relu(%0), concatenate(%2)), dyn.full(0f, %1))""",
    )


def test_before_opset_15_a_part_of_a_shape_is_a_slice_of_it() -> None:
    module = program(HALVES, f"{SIZES}; dyn.full(0f, concatenate((expand_dims(%7, axis=[0]), expand_dims(%8, axis=[0]))))")
    wanted = program(
        HALVES,
        "%0 = shape_of(nn.relu(nn.conv2d(%x, %k, strides=[2, 2]))); dyn.full(0f, strided_slice(%0, begin=[2], end=[4], strides=[1], axes=[0]))",
    )
    function = run(InferType(), module)["main"]
    assert isinstance(function, Function)
    assert structural_equal(simplify_shapes(function, reads_parts=False), wanted["main"])


def test_before_opset_15_a_size_by_itself_is_an_element_of_the_whole_shape() -> None:
    """It was a slice without its axis: a call more."""
    function = run(InferType(), program(HALVES, f"{SIZES}; (arange(0i64, %4, 1i64), arange(0i64, %7, 1i64))"))["main"]
    wanted = program(
        HALVES, "%0 = take(shape_of(nn.conv2d(%x, %k, strides=[2, 2])), 2i64, axis=0); (arange(0i64, %0, 1i64), arange(0i64, %0, 1i64))"
    )
    assert isinstance(function, Function)
    made = simplify_shapes(function, reads_parts=False)
    assert structural_equal(made, wanted["main"])
    assert simplify_shapes(made, reads_parts=False) is made


def test_sizes_are_read_from_the_input_that_has_most_of_them() -> None:
    """Each was read from the first input that has it, by two calls and a concatenation."""
    signature = "%x: (b, h), %y: (h, l)"
    stays(SimplifyShapes(), signature, "(shape_of(%x, start=1), dyn.full(0f, shape_of(%y)))")
    becomes(SimplifyShapes(), signature, "dyn.full(0f, shape_of(nn.relu(%y)))", "dyn.full(0f, shape_of(%y))")


def test_constants_beside_a_size_are_read_with_it() -> None:
    becomes(
        SimplifyShapes(),
        HALVES,
        f"{SIZES}; %9 = (take(%2, full(1i64, shape=[1]), axis=0), expand_dims(%7, axis=[0]), expand_dims(%8, axis=[0])); dyn.full(0f, concatenate(%9))",
        "dyn.full(0f, shape_of(nn.conv2d(%x, %k, strides=[2, 2]), start=1))",
    )


def test_sizes_that_no_tensor_has_are_computed_once() -> None:
    twice = "%0 = take(shape_of(%x), 1i64, axis=0); %1 = multiply(%0, 2i64); %2 = add(%0, %0)"
    becomes(
        SimplifyShapes(),
        DATA,
        f"{twice}; (arange(0i64, %1, 1i64), arange(1i64, %2, 1i64))",
        "%0 = squeeze(shape_of(%x, start=1, end=2), axis=[0]); %1 = multiply(%0, 2i64); (arange(0i64, %1, 1i64), arange(1i64, %1, 1i64))",
        sharing=True,
    )


def test_sizes_in_a_branch_are_not_read_behind_it() -> None:
    stays(
        SimplifyShapes(),
        f"{HALVES}, %c: () bool",
        """%0 = if (%c) { dyn.full(0f, shape_of(nn.conv2d(%x, %k, strides=[2, 2]))) } else { dyn.full(1f, shape_of(nn.conv2d(%x, %k, strides=[2, 2]))) };
        (%0, shape_of(nn.max_pool2d(nn.conv2d(%x, %k, strides=[2, 2]), pool_size=[1, 1])))""",
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
