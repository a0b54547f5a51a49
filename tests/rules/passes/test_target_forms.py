"""TargetForms: the forms that ONNX Runtime executes fastest."""

from passat.rules.passes.target import AvoidSkipLayerNorm, target_forms
from tests.rules.passes.golden import becomes, stays

ROWS = "%x: (2, 3, 4), %y: (2, 3, 4), %g: (4), %b: (4)"


def test_a_sum_that_only_a_normalization_reads() -> None:
    becomes(AvoidSkipLayerNorm(), ROWS, "nn.layer_norm(add(%x, %y), %g, %b)", "%0 = (%x, %y); nn.layer_norm(elemwise_sum(%0), %g, %b)")


def test_a_sum_that_others_read_stays() -> None:
    stays(AvoidSkipLayerNorm(), ROWS, "%0 = add(%x, %y); (nn.layer_norm(%0, %g, %b), %0)")


def test_a_sum_that_broadcasts_or_has_another_rank_stays() -> None:
    stays(AvoidSkipLayerNorm(), "%x: (2, 3, 4), %y: (3, 4), %g: (4), %b: (4)", "nn.layer_norm(add(%x, %y), %g, %b)")
    stays(AvoidSkipLayerNorm(), "%x: (3, 4), %y: (3, 4), %g: (4), %b: (4)", "nn.layer_norm(add(%x, %y), %g, %b)")


def test_a_mean_over_the_plane() -> None:
    becomes(target_forms(), "%x: (2, 3, 4, 5)", "mean(%x, axis=[2, 3], keepdims=True)", "nn.global_avg_pool2d(%x)")
    stays(target_forms(), "%x: (2, 3, 4, 5)", "mean(%x, axis=[2, 3])")
    stays(target_forms(), "%x: (2, 3, 4)", "mean(%x, axis=[2], keepdims=True)")


def test_sums_alone() -> None:
    before, after = "nn.layer_norm(add(%x, %y), %g, %b)", "%0 = (%x, %y); nn.layer_norm(elemwise_sum(%0), %g, %b)"
    becomes(AvoidSkipLayerNorm(), ROWS, before, after)
    stays(AvoidSkipLayerNorm(), ROWS, "nn.relu(add(%x, %y))")
    stays(AvoidSkipLayerNorm(), "%x: (2, 3, 4, 5)", "mean(%x, axis=[2, 3], keepdims=True)")


def test_a_mean_over_the_plane_of_any_number_of_samples() -> None:
    becomes(target_forms(), "%x: (n, 3, 4, 5)", "mean(%x, axis=[2, 3], keepdims=True)", "nn.global_avg_pool2d(%x)")
    stays(target_forms(), "%x: (n, 3, h, w)", "mean(%x, axis=[2, 3], keepdims=True)")  # the mean of nothing is NaN


def test_a_size_that_is_copied_is_counted() -> None:
    becomes(target_forms(), "%x: (n, 12)", "reshape(%x, newshape=[0, 3, 4])", "reshape(%x, newshape=[-1, 3, 4])")
    stays(target_forms(), "%x: (n, m, 12)", "reshape(%x, newshape=[0, 0, 3, 4])")
    stays(target_forms(), "%x: (2, 12)", "reshape(%x, newshape=[0, 3, 4])")
    stays(target_forms(), "%x: (n, 2, 6)", "reshape(%x, newshape=[0, -1])")


def test_paddings_of_0_become_part_of_convolutions_and_means() -> None:
    images = "%x: (n, 3, h, w), %w: (4, 3, 3, 3)"
    becomes(
        target_forms(),
        images,
        "nn.conv2d(nn.pad(%x, pad_width=[[0, 0], [0, 0], [1, 1], [0, 2]]), %w)",
        "nn.conv2d(%x, %w, padding=[1, 0, 1, 2])",
    )
    becomes(
        target_forms(),
        "%x: (n, 3, 8, 8)",
        "nn.avg_pool2d(nn.pad(%x, pad_width=[[0, 0], [0, 0], [1, 1], [0, 2]]), pool_size=[3, 3])",
        "nn.avg_pool2d(%x, pool_size=[3, 3], padding=[1, 0, 1, 2], count_include_pad=True)",
    )
    for others in (
        "[1, 0], [0, 0], [1, 1], [0, 2]], pad_value=0f",
        "[0, 0], [0, 0], [-1, 1], [0, 2]]",
        "[0, 0], [0, 0], [1, 1], [0, 2]], pad_value=1f",
    ):
        stays(target_forms(), images, f"nn.conv2d(nn.pad(%x, pad_width=[{others}), %w)")
