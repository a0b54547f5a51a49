"""The exchange rules of concat, split, convolution, matrix product, pooling and elementwise operators that TASO generates (Jia et al., SOSP
2019, table of operator properties), as published: equations over real numbers that do not mention shapes, axes or groups.

Each is written from left to right as in the paper. `finite` states that numbers are real, `exploring` that some rules make programs larger.
"""

from passat.rules.pattern import Pattern, PCall, attributes, constant, op, tensors
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSet

x, y, z, w = tensors("x y z w")
c = constant("c")
a, p, q = attributes("a p q")


def real(rule: Rule) -> Rule:
    """An equation over real numbers."""
    return rule.finite("an equation of real numbers").exploring()


def product(left: Pattern, right: Pattern) -> PCall:
    """The paper's matrix product, which has no flags."""
    return op.nn.matmul(left, right, transpose_a=False, transpose_b=False)


def conv(data: Pattern, weight: Pattern) -> PCall:
    """A convolution; all convolutions of one equation have the same attributes."""
    return op.nn.conv2d(data, weight, attrs=a)


def concat(axis: object, *parts: Pattern) -> PCall:
    """Concatenates tensors."""
    return op.concatenate(parts, axis=axis)


def transposed(of: Pattern) -> PCall:
    """The paper's transpose of a matrix."""
    return op.transpose(of, axes=(1, 0))


class Elementwise(RuleSet):
    """Sums, products and the operators that commute with them."""

    add_associates = real(x + (y + z) >> (x + y) + z)
    multiply_associates = real(x * (y * z) >> (x * y) * z)
    multiply_distributes = real((x + y) * z >> x * z + y * z)
    add_moves_scale = real((x + y) * c >> x * c + y * c)
    relu_moves_scale = real(op.nn.relu(x * c) >> op.nn.relu(x) * c)
    transpose_of_sum = real(op.transpose(x + y, axes=p) >> op.transpose(x, axes=p) + op.transpose(y, axes=p))
    transpose_of_relu = real(op.nn.relu(op.transpose(x, axes=p)) >> op.transpose(op.nn.relu(x), axes=p))


class Concatenations(RuleSet):
    """Operators that commute with concat and split."""

    of_sums = real(concat(p, x + y, z + w) >> concat(p, x, z) + concat(p, y, w))
    of_products = real(concat(p, x * y, z * w) >> concat(p, x, z) * concat(p, y, w))
    of_relus = real(concat(p, op.nn.relu(x), op.nn.relu(y)) >> op.nn.relu(concat(p, x, y)))
    of_scaled = real(concat(p, x * c, y * c) >> concat(p, x, y) * c)
    of_transposed = real(concat(1, transposed(x), transposed(y)) >> transposed(concat(0, x, y)))
    of_concats = real(concat(0, concat(1, x, y), concat(1, z, w)) >> concat(1, concat(0, x, z), concat(0, y, w)))
    split_first = real(op.split(concat(p, x, y), indices_or_sections=2, axis=p)[0] >> x)
    split_second = real(op.split(concat(p, x, y), indices_or_sections=2, axis=p)[1] >> y)


class Products(RuleSet):
    """Matrix products."""

    associates = real(product(x, product(y, z)) >> product(product(x, y), z))
    distributes = real(product(x, y + z) >> product(x, y) + product(x, z))
    moves_scale = real(product(x, y) * c >> product(x, y * c))
    transposes = real(transposed(product(x, y)) >> product(transposed(y), transposed(x)))
    side_by_side = real(concat(1, product(x, y), product(x, z)) >> product(x, concat(1, y, z)))
    summed = real(product(x, y) + product(z, w) >> product(concat(1, x, z), concat(0, y, w)))


class Convolutions(RuleSet):
    """Convolutions and pooling."""

    moves_scale = real(conv(x, y) * c >> conv(x, y * c))
    of_summed_weights = real(conv(x, y + z) >> conv(x, y) + conv(x, z))
    of_summed_data = real(conv(x + y, z) >> conv(x, z) + conv(y, z))
    weights_side_by_side = real(concat(1, conv(x, y), conv(x, z)) >> conv(x, concat(0, y, z)))
    data_side_by_side = real(concat(0, conv(x, z), conv(y, z)) >> conv(concat(0, x, y), z))
    summed = real(conv(x, y) + conv(z, w) >> conv(concat(1, x, z), concat(1, y, w)))
    max_pools = real(concat(1, op.nn.max_pool2d(x, attrs=a), op.nn.max_pool2d(y, attrs=a)) >> op.nn.max_pool2d(concat(1, x, y), attrs=a))
    avg_pools = real(concat(p, op.nn.avg_pool2d(x, attrs=a), op.nn.avg_pool2d(y, attrs=a)) >> op.nn.avg_pool2d(concat(p, x, y), attrs=a))


SETS = (Elementwise, Concatenations, Products, Convolutions)
