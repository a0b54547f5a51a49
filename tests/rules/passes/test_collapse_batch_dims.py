"""CollapseBatchDims: linear layers on stacks of rows become layers on matrices with biases."""

from passat.rules.passes import collapse_batch_dims
from tests.rules.passes.golden import becomes, stays


def test_one_layer_alone_stays() -> None:
    stays(collapse_batch_dims(), "%x: (2, 3, 4), %y: (2, 3, 4)", "add(nn.gelu(%x), %y)")


def test_integers_stay() -> None:
    stays(collapse_batch_dims(), "%x: (2, 3, 4) int32, %w: (4, 4) int32", "nn.matmul(%x, %w)")


def test_keys_turned_in_batches_are_turned() -> None:
    becomes(
        collapse_batch_dims(),
        "%k: (2, 4, 5, 8)",
        "%0 = reshape(%k, newshape=[8, 5, 8]); %1 = transpose(%0, axes=[0, 2, 1]); reshape(%1, newshape=[2, 4, 8, 5])",
        "transpose(%k, axes=[0, 1, 3, 2])",
    )


def test_the_rows_of_a_sum_are_the_sum_of_rows() -> None:
    becomes(
        collapse_batch_dims(),
        "%x: (6, 4), %y: (6, 4)",
        "%0 = reshape(%x, newshape=[2, 3, 4]); %1 = reshape(%y, newshape=[2, 3, 4]); %2 = add(%0, %1); reshape(%2, newshape=[6, 4])",
        "add(%x, %y)",
    )


def test_the_guard_of_softmax_is_removed_for_finite_values() -> None:
    signature, body = "%x: (2, 3), %w: (3, 3)", "%0 = nn.softmax(nn.matmul(%x, %w)); %1 = isnan(%0); where(%1, 0f, %0)"
    stays(collapse_batch_dims(), signature, body)
    becomes(collapse_batch_dims(), signature, body, "nn.softmax(nn.matmul(%x, %w))", rules__math="finite")


def test_the_guard_of_a_mask_of_infinity_stays() -> None:
    """An input is finite by the assumption, but not the -infinity that the program itself writes where a mask is false."""
    signature, guard = "%x: (2, 3), %m: (2, 3)", "%1 = isnan(%0); where(%1, 0f, %0)"
    becomes(collapse_batch_dims(), signature, f"%0 = nn.softmax(add(%x, %m)); {guard}", "nn.softmax(add(%x, %m))", rules__math="finite")
    masked = f"%0 = nn.softmax(where(less(%m, 0f), -inff, %x)); {guard}"
    stays(collapse_batch_dims(), signature, masked, rules__math="finite")
