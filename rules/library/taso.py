"""The exchange rules of the TASO family as guarded axioms, attributes being variables. Operators: add multiply transpose concatenate split
nn.relu nn.matmul nn.conv2d nn.max_pool2d nn.avg_pool2d nn.pad.

TASO (Jia et al. 2019) generates substitutions for fixed attributes by enumeration, and verifies them by axioms over them. Here the axioms
themselves are the rules, whatever strides, padding, groups and axes are, with the guards on shapes, ranks and signs that they need. They
explore: none of them is better by itself.
"""

from passat.rules.conditions import (
    equals,
    has_rank,
    is_channels_first,
    is_finite,
    is_usual_convolution,
    same_shape,
    same_size,
)
from passat.rules.library.convolution_chains import fits_inside, is_plain, margins
from passat.rules.library.matmul_chains import has_entries
from passat.rules.library.products import product
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import MIXED, RuleSet

x, y, z, w = tensors("x y z w")
(c,) = constants("c")
a, e, p = attributes("a e p")
ROUNDS = "rounds in another order"


def conv(data: Pattern, weight: Pattern) -> PCall:
    """All convolutions of one rule have the same attributes."""
    return op.nn.conv2d(data, weight, attrs=a)


def concat(axis: object, *parts: Pattern) -> PCall:
    """Tensors side by side."""
    return op.concatenate(parts, axis=axis)


def transposed(of: Pattern) -> PCall:
    """The transpose of a matrix."""
    return op.transpose(of, axes=(1, 0))


MATRICES = (has_rank(x, 2), has_rank(y, 2), has_rank(z, 2))


class TasoExchanges(RuleSet):
    """Sums, products, convolutions and pooling, and what moves through them, through concat and split."""

    add_associates = (x + (y + z) >> (x + y) + z).inexact(ROUNDS).exploring()
    multiply_associates = (x * (y * z) >> (x * y) * z).inexact(ROUNDS).exploring()
    multiply_distributes = ((x + y) * z >> x * z + y * z).inexact(ROUNDS, nonfinite=MIXED).exploring()
    transpose_of_sum = (op.transpose(x + y, axes=p) >> op.transpose(x, axes=p) + op.transpose(y, axes=p)).when(same_shape(x, y)).exploring()
    concat_of_sums = (concat(p, x + y, z + w) >> concat(p, x, z) + concat(p, y, w)).when(same_shape(x, y), same_shape(z, w)).exploring()
    concat_of_products = (concat(p, x * y, z * w) >> concat(p, x, z) * concat(p, y, w)).when(same_shape(x, y), same_shape(z, w)).exploring()
    concat_of_relus = (concat(p, op.nn.relu(x), op.nn.relu(y)) >> op.nn.relu(concat(p, x, y))).exploring()
    concat_of_scaled = (concat(p, x * c, y * c) >> concat(p, x, y) * c).when(has_rank(c, 0)).exploring()
    concat_of_transposed = (concat(1, transposed(x), transposed(y)) >> transposed(concat(0, x, y))).exploring()
    concat_of_concats = (
        (concat(0, concat(1, x, y), concat(1, z, w)) >> concat(1, concat(0, x, z), concat(0, y, w)))
        .when(same_size(x, z, 1), same_size(y, w, 1))
        .exploring()
    )
    split_first = (op.split(concat(p, x, y), indices_or_sections=2, axis=p)[0] >> x).when(same_shape(x, y))
    split_second = (op.split(concat(p, x, y), indices_or_sections=2, axis=p)[1] >> y).when(same_shape(x, y))
    matmul_associates = (
        (product(x, product(y, z)) >> product(product(x, y), z))
        .when(*MATRICES, has_entries(y))
        .inexact(ROUNDS, nonfinite=MIXED)
        .exploring()
    )
    matmul_distributes = (
        (product(x, y + z) >> product(x, y) + product(x, z)).when(same_shape(y, z)).inexact(ROUNDS, nonfinite=MIXED).exploring()
    )
    matmul_moves_scale = (product(x, y) * c >> product(x, y * c)).when(has_rank(c, 0), is_finite(c)).inexact(ROUNDS).exploring()
    matmul_transposes = (
        (transposed(product(x, y)) >> product(transposed(y), transposed(x)))
        .when(has_rank(x, 2), has_rank(y, 2))
        .inexact(ROUNDS)
        .exploring()
    )
    matmuls_side_by_side = (
        (concat(1, product(x, y), product(x, z)) >> product(x, concat(1, y, z))).when(*MATRICES).inexact(ROUNDS).exploring()
    )
    matmuls_summed = (
        (product(x, y) + product(z, w) >> product(concat(1, x, z), concat(0, y, w)))
        .when(*MATRICES, has_rank(w, 2), same_size(x, z, 0), same_size(y, w, 1))
        .inexact(ROUNDS)
        .exploring()
    )
    conv_moves_scale = (conv(x, y) * c >> conv(x, y * c)).when(has_rank(c, 0), is_finite(c)).inexact(ROUNDS).exploring()
    conv_of_summed_weights = (conv(x, y + z) >> conv(x, y) + conv(x, z)).when(same_shape(y, z)).inexact(ROUNDS, nonfinite=MIXED).exploring()
    conv_of_summed_data = (conv(x + y, z) >> conv(x, z) + conv(y, z)).when(same_shape(x, y)).inexact(ROUNDS, nonfinite=MIXED).exploring()
    conv_weights_side_by_side = (
        (concat(1, conv(x, y), conv(x, z)) >> conv(x, concat(0, y, z)))
        .when(is_usual_convolution(a), same_shape(y, z))
        .inexact(ROUNDS)
        .exploring()
    )
    conv_data_side_by_side = (
        (concat(0, conv(x, z), conv(y, z)) >> conv(concat(0, x, y), z)).when(same_shape(x, y)).inexact(ROUNDS).exploring()
    )
    convs_summed = (
        (conv(x, y) + conv(z, w) >> conv(concat(1, x, z), concat(1, y, w)))
        .when(is_usual_convolution(a), same_shape(x, z), same_shape(y, w))
        .inexact(ROUNDS)
        .exploring()
    )
    max_pools = (
        (concat(1, op.nn.max_pool2d(x, attrs=a), op.nn.max_pool2d(y, attrs=a)) >> op.nn.max_pool2d(concat(1, x, y), attrs=a))
        .when(is_channels_first(a), same_shape(x, y))
        .exploring()
    )
    avg_pools = (
        (concat(p, op.nn.avg_pool2d(x, attrs=a), op.nn.avg_pool2d(y, attrs=a)) >> op.nn.avg_pool2d(concat(p, x, y), attrs=a))
        .when(equals(p, 1), is_channels_first(a), same_shape(x, y))
        .exploring()
    )
    conv_enlarged = (
        (concat(1, conv(x, y), op.nn.conv2d(x, z, attrs=e)) >> conv(x, concat(0, y, op.nn.pad(z, pad_width=margins(z, y)))))
        .when(is_usual_convolution(a), is_plain(a), fits_inside(e, a, z, y))
        .finite("zeros are multiplied by what may be infinite")
        .exploring()
    )
