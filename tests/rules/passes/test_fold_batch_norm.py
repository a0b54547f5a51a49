"""FoldBatchNorm: folds normalizations, scales and shifts into the weights and biases of the products before them."""

import pytest

from passat.rules.passes.simplify import fold_batch_norm
from tests.rules.passes.golden import folds, stays

PARAMETERS = "full(4f, shape=[3]), full(1f, shape=[3]), full(2f, shape=[3]), full(4f, shape=[3])"
KERNEL = "full(1f, shape=[3, 2, 1, 1])"
IMAGE, ROWS = "%x: (1, 2, 4, 4)", "%x: (4, 2)"


def norm(of: str, **attrs: object) -> str:
    """A normalization that multiplies by 4 / sqrt(4) = 2 and adds 1 - 2 * 2 = -3."""
    given = "".join(f", {name}={value}" for name, value in attrs.items())
    return f"nn.batch_norm({of}, {PARAMETERS}, epsilon=0f{given}).0"


FOLDED = {
    "a convolution": (
        IMAGE,
        norm(f"nn.conv2d(%x, {KERNEL})"),
        "nn.bias_add(nn.conv2d(%x, copy(full(2f, shape=[3, 2, 1, 1]))), copy(full(-3f, shape=[3])))",
    ),
    "a convolution with a bias": (
        IMAGE,
        norm(f"nn.bias_add(nn.conv2d(%x, {KERNEL}), full(5f, shape=[3]))"),
        "nn.bias_add(nn.conv2d(%x, copy(full(2f, shape=[3, 2, 1, 1]))), copy(full(7f, shape=[3])))",
    ),
    "strides, padding and dilation": (
        "%x: (1, 2, 9, 9)",
        norm("nn.conv2d(%x, full(1f, shape=[3, 2, 3, 3]), strides=[2, 1], padding=[1, 0, 2, 1], dilation=[2, 3])"),
        "nn.bias_add(nn.conv2d(%x, copy(full(2f, shape=[3, 2, 3, 3])), strides=[2, 1], padding=[1, 0, 2, 1], dilation=[2, 3]), "
        "copy(full(-3f, shape=[3])))",
    ),
    "as many groups as channels": (
        "%x: (1, 3, 4, 4)",
        norm("nn.conv2d(%x, full(1f, shape=[3, 1, 2, 2]), groups=3)"),
        "nn.bias_add(nn.conv2d(%x, copy(full(2f, shape=[3, 1, 2, 2])), groups=3), copy(full(-3f, shape=[3])))",
    ),
    "an axis from the end": (
        ROWS,
        norm("nn.dense(%x, full(1f, shape=[3, 2]))", axis=-1),
        "nn.bias_add(nn.dense(%x, copy(full(2f, shape=[3, 2]))), copy(full(-3f, shape=[3])), axis=-1)",
    ),
    "a copy between": (
        IMAGE,
        norm(f"copy(nn.conv2d(%x, {KERNEL}))"),
        "nn.bias_add(nn.conv2d(%x, copy(full(2f, shape=[3, 2, 1, 1]))), copy(full(-3f, shape=[3])))",
    ),
    "a weight that is not a constant and smaller than what it makes": (
        f"{IMAGE}, %w: (3, 2, 1, 1)",
        norm("nn.conv2d(%x, %w)"),
        "nn.bias_add(nn.conv2d(%x, multiply(%w, copy(full(2f, shape=[3, 1, 1, 1])))), copy(full(-3f, shape=[3])))",
    ),
    "a scale and a shift": (
        IMAGE,
        f"add(multiply(nn.conv2d(%x, {KERNEL}), full(2f, shape=[3, 1, 1])), full(5f, shape=[3, 1, 1]))",
        "nn.bias_add(nn.conv2d(%x, copy(full(2f, shape=[3, 2, 1, 1]))), copy(full(5f, shape=[3])))",
    ),
}
KEPT = {
    "another axis": (IMAGE.replace("2, 4, 4", "2, 3, 4"), norm(f"nn.conv2d(%x, {KERNEL})", axis=2)),
    "a shift of a biased product that something else reads": (
        IMAGE,
        f"let %y = nn.bias_add(nn.conv2d(%x, {KERNEL}), full(5f, shape=[3]));\nmultiply(%y, nn.relu(add(%y, 3f)))",
    ),
    "a weight that is not a constant and larger than what it makes": ("%x: (1, 2, 1, 1), %w: (3, 2, 1, 1)", norm("nn.conv2d(%x, %w)")),
    "something between": (IMAGE, norm(f"nn.relu(nn.conv2d(%x, {KERNEL}))")),
    "channels last": ("%x: (1, 4, 4, 2)", norm(f'nn.conv2d(%x, {KERNEL}, data_layout="NHWC")', axis=3)),
    "no product": ("%x: (1, 3, 4, 4)", norm("nn.relu(%x)")),
}


@pytest.mark.parametrize("name", FOLDED)
def test_it_folds(name: str) -> None:
    folds(fold_batch_norm(), *FOLDED[name])


@pytest.mark.parametrize("name", KEPT)
def test_it_keeps(name: str) -> None:
    signature, body = KEPT[name]
    folds(fold_batch_norm(), signature, body, body)


def test_rewrites_that_change_rounding_are_not_exact() -> None:
    signature, before, _ = FOLDED["a convolution"]
    folds(fold_batch_norm(), signature, before, before, rules__math="exact")


def test_the_statistics_of_a_normalization_stay() -> None:
    signature = f"{IMAGE}, %m: (3), %v: (3)"
    stays(fold_batch_norm(), signature, "nn.batch_norm(nn.conv2d(%x, ones(shape=[3, 2, 1, 1])), %m, %m, %m, %v).1")
