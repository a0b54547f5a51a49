"""The exchange rules of the TASO family: each on a program that it rewrites, and on one that it does not."""

from typing import Any as AnyValue

import pytest

from passat.ir.expr import Expr
from passat.rules.library import Exchanges
from passat.rules.rule import Rule
from tests.rules.building import func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_makes_nothing, check_rewrites, pairs
from tests.rules.running import rewritten

x, y, z, w = (var(name, (4, 3)) for name in "xyzw")
row, two, several = var("row", (1, 3)), splat(2.0), numbers((3,))
a, b, c = var("a", (3, 5)), var("b", (3, 5)), var("c", (5, 2))
image, other = var("image", (1, 2, 6, 6)), var("other", (1, 2, 6, 6))
kernel, second = var("kernel", (3, 2, 3, 3)), var("second", (3, 2, 3, 3))
SHAPES, RANK = "the shapes differ", "c.ndim == 0: 1 == 0 does not hold"


def turned(of: Expr) -> Expr:
    made: Expr = ops.transpose(of, axes=(1, 0))
    return made


def join(axis: int, *parts: Expr) -> Expr:
    made: Expr = ops.concatenate(tup(*parts), axis=axis)
    return made


def mm(left: Expr, right: Expr) -> Expr:
    made: Expr = ops.nn.matmul(left, right)
    return made


def conv(of: Expr, by: Expr, **attrs: AnyValue) -> Expr:
    made: Expr = ops.nn.conv2d(of, by, **attrs)
    return made


def pool(name: str, of: Expr, layout: str = "NCHW") -> Expr:
    made: Expr = getattr(ops.nn, f"{name}_pool2d")(of, pool_size=(2, 2), layout=layout)
    return made


def half(of: Expr, which: int) -> Expr:
    made: Expr = ops.split(of, indices_or_sections=2, axis=0)[which]
    return made


relu = ops.nn.relu
deep = var("deep", (2, 4, 3))
CASES: dict[str, Case] = {
    "Exchanges.associates[add]": case(x + (y + z), x + (y * z), ""),
    "Exchanges.associates[multiply]": case(x * (y * z), x * (y + z), ""),
    "Exchanges.multiply_distributes": case((x + y) * z, (x - y) * z, ""),
    "Exchanges.transpose_of_sum": case(turned(x + y), turned(x + row), SHAPES),
    "Exchanges.concat_of_pairs[add]": case(join(0, x + y, z + w), join(0, x + row, z + w), SHAPES),
    "Exchanges.concat_of_pairs[multiply]": case(join(1, x * y, z * w), join(1, x * row, z * w), SHAPES),
    "Exchanges.concat_of_relus": case(join(1, relu(x), relu(y)), join(1, relu(x), ops.tanh(y)), ""),
    "Exchanges.concat_of_scaled": case(join(0, x * two, y * two), join(0, x * several, y * several), RANK),
    "Exchanges.concat_of_transposed": case(join(1, turned(x), turned(y)), join(0, turned(x), turned(y)), "axis is 0, not 1"),
    "Exchanges.concat_of_concats": case(
        join(0, join(1, x, y), join(1, z, w)), join(0, join(1, x, var("v", (4, 2))), join(1, var("u", (4, 2)), z)), "along axis 1 the sizes"
    ),
    "Exchanges.split_of_concat[first]": case(half(join(0, x, y), 0), half(join(0, x, var("v", (2, 3))), 0), SHAPES),
    "Exchanges.split_of_concat[second]": case(half(join(0, x, y), 1), half(join(0, x, var("v", (2, 3))), 1), SHAPES),
    "Exchanges.matmul_associates": case(mm(x, mm(a, c)), mm(deep, mm(a, c)), "rank of the tensor is 3"),
    "Exchanges.matmul_distributes": case(mm(x, a + b), mm(x, a + var("line", (1, 5))), SHAPES),
    "Exchanges.matmul_moves_scale": case(mm(x, a) * two, mm(x, a) * numbers((5,)), RANK),
    "Exchanges.matmul_transposes": case(
        turned(mm(x, a)), turned(mm(var("vector", (3,)), var("matrices", (2, 3, 5)))), "the rank of the tensor is 1, not 2"
    ),
    "Exchanges.matmuls_side_by_side": case(join(1, mm(x, a), mm(x, b)), join(1, mm(deep, a), mm(deep, b)), "rank of the tensor is 3"),
    "Exchanges.matmuls_summed": case(mm(x, a) + mm(y, b), mm(x, a) + mm(row, b), "along axis 0 the sizes"),
    "Exchanges.conv_moves_scale": case(conv(image, kernel) * two, conv(image, kernel) * numbers((4,)), RANK),
    "Exchanges.conv_of_sum[weights]": case(conv(image, kernel + second), conv(image, kernel + var("one", (1,))), SHAPES),
    "Exchanges.conv_of_sum[data]": case(conv(image + other, kernel), conv(image + var("plane", (6, 6)), kernel), SHAPES),
    "Exchanges.conv_weights_side_by_side": case(
        join(1, conv(image, kernel), conv(image, second)), join(1, conv(image, kernel), conv(image, var("more", (5, 2, 3, 3)))), SHAPES
    ),
    "Exchanges.conv_data_side_by_side": case(
        join(0, conv(image, kernel), conv(other, kernel)), join(0, conv(image, kernel), conv(var("batch", (2, 2, 6, 6)), kernel)), SHAPES
    ),
    "Exchanges.convs_summed": case(
        conv(image, kernel) + conv(other, second), conv(image, kernel) + conv(var("thick", (1, 4, 6, 6)), var("k", (3, 4, 3, 3))), SHAPES
    ),
    "Exchanges.max_pools": case(
        join(1, pool("max", image), pool("max", other)),
        join(1, pool("max", image, "NHWC"), pool("max", other, "NHWC")),
        "the layouts are NHWC",
    ),
    "Exchanges.avg_pools": case(
        join(1, pool("avg", image), pool("avg", other)), join(0, pool("avg", image), pool("avg", other)), "p == 1: 0 == 1 does not hold"
    ),
    "Exchanges.conv_enlarged": case(
        join(1, conv(image, kernel, padding=(1, 1, 1, 1)), conv(image, var("dot", (3, 2, 1, 1)), padding=(0, 0, 0, 0))),
        join(1, conv(image, kernel, padding=(1, 1, 1, 1)), conv(image, var("dot", (3, 2, 2, 2)), padding=(0, 0, 1, 1))),
        "the kernels are",
    ),
}
TABLE = pairs(CASES, Exchanges)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_rejects(rule: Rule, example: Case) -> None:
    check_makes_nothing(rule, example)


@pytest.mark.parametrize(
    "attrs",
    [{"strides": (2, 2)}, {"padding": (1, 0, 2, 1)}, {"dilation": (2, 2)}, {"strides": (3, 1), "dilation": (1, 2), "padding": (2, 2)}],
    ids=str,
)
def test_the_axioms_hold_for_any_attributes(attrs: dict[str, AnyValue]) -> None:
    check_rewrites(
        Exchanges.conv_weights_side_by_side,
        case(join(1, conv(image, kernel, **attrs), conv(image, second, **attrs)), image, ""),
    )


def test_groups_are_not_put_side_by_side() -> None:
    """With as many groups as channels, which is the maximum."""
    rule = Exchanges.conv_weights_side_by_side
    depthwise = [conv(image, var(name, (2, 1, 3, 3)), groups=2) for name in ("k1", "k2")]
    made, reasons = rewritten(func(join(1, *depthwise)), rule)
    assert not made
    assert any("the convolution has 2 groups" in reason for reason in reasons)
