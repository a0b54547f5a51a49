"""Rules on masks, comparisons, softmax, gathers, attention and products: each on a program that it rewrites, and on one that it does
not."""

import pytest

from passat.ir.expr import Expr
from passat.ir.shape import ANY
from passat.rules.library import Commute, Concatenations, Factoring, Masks, MatmulAlgebra, RaiseOps, Reductions
from passat.rules.rule import Rule, without_operators
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, options, pairs, with_each
from tests.rules.running import assert_equal_in_value, result_type, saturate

x, y, z = var("x", (4, 3)), var("y", (4, 3)), var("z", (4, 3))
named = var("named", ("n", 3))
integers = var("i", (4, 3), "int64"), var("j", (4, 3), "int64")
mask, other_mask = var("mask", (4, 3), "bool"), var("other_mask", (4, 3), "bool")
c, d, column = splat(2.5), splat(0.5), numbers((4, 1))


def matmul(a: Expr, b: Expr) -> Expr:
    made: Expr = ops.nn.matmul(a, b)
    return made


def number(of: Expr) -> Expr:
    made: Expr = ops.cast(of, dtype="float32")
    return made


def turn(of: Expr) -> Expr:
    made: Expr = ops.transpose(of, axes=(1, 0))
    return made


def padded(of: Expr) -> Expr:
    made: Expr = ops.nn.pad(of, pad_width=((1, 2), (0, 3)))
    return made


def negated(name: str, a: Expr, b: Expr) -> Expr:
    made: Expr = ops.logical_not(getattr(ops, name)(a, b))
    return made


columns, row, divisors = var("columns", (3, 4)), var("r", (1, 3)), var("w", (1, 3))
halves = var("halves", (4, 3), "float16")
inverted = splat(1.0) - number(mask)
choice = ops.where(mask, splat(1.0), splat(3.0))
order = const([2, 0, 1], "int64")
cube = var("cube", (4, 3, 3))
CASES: dict[str, Case] = {
    "Masks.inverted_scaled": case(inverted * splat(-1e4), inverted * splat(float("-inf")), "infinite"),
    "Masks.scaled": case(number(mask) * c, number(integers[0]) * c, "int64, not bool"),
    "Masks.inverted": case(inverted, splat(2.0) - number(mask), "the elements of the constant are 2.0, not 1"),
    "Masks.product": case(number(mask) * number(other_mask), number(mask) * number(integers[0]), "int64, not bool"),
    "Masks.not_negated[mask]": case(ops.where(ops.logical_not(mask), x, y), ops.where(mask, x, y), ""),
    "Masks.not_negated[equality]": case(ops.where(ops.not_equal(x, y), x, z), ops.where(ops.equal(x, y), x, z), ""),
    "Masks.first_again": case(
        ops.where(mask, ops.where(mask, x, y), z), ops.where(mask, ops.where(mask, splat(1.0), y), z), "the types differ"
    ),
    "Masks.second_again": case(
        ops.where(mask, z, ops.where(mask, y, x)), ops.where(mask, z, ops.where(mask, y, splat(1.0))), "the types differ"
    ),
    **{
        f"Masks.of_choice[{name}]": case(getattr(ops, name)(choice, d), getattr(ops, name)(choice, numbers((2, 4, 3))), "the types differ")
        for name in ("add", "subtract", "multiply", "divide")
    },
    **{f"Masks.negated_equality[{name}]": case(negated(name, x, y), negated("less", *integers), "") for name in ("equal", "not_equal")},
    **{
        f"Masks.negated_order[{name}]": case(negated(name, *integers), negated(name, x, y), "float32, not integers")
        for name in ("less", "less_equal", "greater", "greater_equal")
    },
    "Reductions.softmax_of_sum": case(ops.nn.softmax(x + column), ops.nn.softmax(x + numbers((3,))), "varies along axis -1"),
    "Reductions.softmax_less_max": case(
        ops.nn.log_softmax(x - ops.max(x, axis=(1,), keepdims=True)),
        ops.nn.log_softmax(x - ops.max(x, axis=(0, 1), keepdims=True)),
        "differ",
    ),
    "Reductions.softmax_of_difference": case(
        ops.nn.softmax(x - ops.max(x, axis=(1,), keepdims=True)), ops.nn.softmax(x - y), "varies along axis -1"
    ),
    "Reductions.softmax_of_single[softmax]": case(ops.nn.softmax(column), ops.nn.softmax(column, axis=0), "more than one element along"),
    "Reductions.softmax_of_single[log_softmax]": case(
        ops.nn.log_softmax(row, axis=0), ops.nn.log_softmax(row), "more than one element along"
    ),
    "Concatenations.take_twice": case(
        ops.take(ops.take(x, order, axis=0), const([1, 1], "int64"), axis=0),
        ops.take(ops.take(x, order, axis=0), const([1, 1], "int64"), axis=1),
        "is not an axis of the indices",
    ),
    "Concatenations.slice_of_take": case(
        ops.strided_slice(ops.take(x, order, axis=-2), begin=(1,), end=(3,), axes=(0,)),
        ops.strided_slice(ops.take(x, order, axis=0), begin=(1, 1), end=(3, 3)),
        "is not along axes of the indices",
    ),
    "Concatenations.take_of_slice": case(
        ops.take(ops.strided_slice(x, begin=(-1,), end=(-4,), strides=(-1,), axes=(0,)), const(-1, "int64"), axis=0),
        ops.take(ops.strided_slice(x, begin=(1,), end=(3,), axes=(1,)), const(1, "int64"), axis=0),
        "the slice is along axes (1,), the gather along axis 0",
    ),
    "Concatenations.take_of_transpose": case(
        ops.take(ops.transpose(var("v", (2, 3, 4)), axes=(1, 2, 0)), const(2, "int64"), axis=1),
        ops.take(ops.transpose(x, axes=(1, 0)), const([[2, 0], [1, 1]], "int64"), axis=1),
        "y.ndim <= 1: 2 <= 1 does not hold",
    ),
    "Concatenations.take_of_vectors": case(
        ops.gather_nd(cube, const([[2], [0]], "int64")), ops.gather_nd(cube, const([[2, 0]], "int64")), "2 == 1 does not hold"
    ),
    "Concatenations.take_element[take]": case(
        ops.take(ops.take(x, const(1, "int64"), axis=0), const(2, "int64"), axis=0),
        ops.take(ops.take(x, const(1, "int64"), axis=0), order, axis=0),
        "is not a single index",
    ),
    "Concatenations.take_element[gather_nd]": case(
        ops.take(ops.gather_nd(cube, const([1, 2], "int64")), const(0, "int64"), axis=0),
        ops.take(ops.gather_nd(cube, const([1, 2], "int64")), order, axis=0),
        "is not a single index",
    ),
    "Concatenations.take_run": case(
        ops.take(x, const([-3, -2, 3], "int64"), axis=0), ops.take(x, const([-1, 0, 1], "int64"), axis=0), "are not consecutive"
    ),
    "MatmulAlgebra.divided_product": case(
        matmul(x, var("v", (3, 5))) / splat(3.0), matmul(x, var("v", (3, 5))) / splat(1e-30), "the divisor is 1.0"
    ),
    "MatmulAlgebra.scaled_product[left]": case(
        matmul(x, var("v", (3, 5))) * c, matmul(x, var("v", (3, 5))) * column, "is not a single number"
    ),
    "MatmulAlgebra.scaled_product[right]": case(
        matmul(x, var("v", (3, 5))) * c, matmul(x, var("v", (3, 5))) * splat(1.0), "the constant is 1"
    ),
    "MatmulAlgebra.other_scaled_operand": case(
        matmul(x, var("v", (3, 5)) * c), matmul(halves, var("h", (3, 5), "float16") * splat(0.5, dtype="float16")), "is not a constant"
    ),
    "MatmulAlgebra.regroup": case(
        matmul(matmul(x, var("a", (3, 4))), y), matmul(matmul(x, var("a", (2, 3, 4))), y), "the ranks are [2, 3]"
    ),
    "MatmulAlgebra.common_left": case(
        matmul(x, var("a", (3, 4))) + matmul(x, var("b", (3, 4))),
        matmul(x, var("a", (3, 4))) + matmul(x, var("b", (3, 1))),
        "the shapes differ",
    ),
    "MatmulAlgebra.common_right": case(
        (matmul(x, columns) + matmul(y, columns)), matmul(x, columns) + matmul(row, columns), "the shapes differ"
    ),
    "Commute.softmax[nn.softmax]": case(ops.nn.softmax(turn(x)), ops.nn.softmax(x), ""),
    "Commute.softmax[nn.log_softmax]": case(ops.nn.log_softmax(turn(x)), ops.nn.softmax(turn(x)), ""),
    "Commute.bias": case(ops.nn.bias_add(turn(x), numbers((3,)), axis=0), ops.nn.bias_add(x, numbers((3,)), axis=1), ""),
    "Commute.pad": case(turn(padded(x)), turn(ops.exp(x)), ""),
    "Commute.concat": case(
        ops.concatenate(tup(turn(x), turn(y)), axis=1),
        ops.concatenate(tup(turn(x), ops.exp(turn(y))), axis=1),
        "",
    ),
    "Factoring.divided_shift": case((x + c) / d, (x + c) / splat(0.0), "leaves the range"),
    "Factoring.products[add]": case(x * y + x * z, x * y + z, ""),
    "Factoring.products[subtract]": case(x * y - z * x, x * y - z, ""),
    "Factoring.product_and_self[added]": case(x * y + x, row * y + row, "the types differ"),
    "Factoring.product_and_self[subtracted]": case(x * y - x, integers[0] * integers[1] - integers[0], "int64, not floating-point"),
    "Factoring.product_and_self[first]": case(x - y * x, integers[0] - integers[1] * integers[0], "int64, not floating-point"),
    "Factoring.quotients[add]": case(
        x / ops.exp(z) + y / ops.exp(z), integers[0] / integers[1] + integers[0] / integers[1], "int64, not floating-point"
    ),
    "Factoring.quotients[subtract]": case(x / ops.exp(z) - y / ops.exp(z), x / divisors - row / divisors, "the types differ"),
    "Factoring.nested_quotients": case((x / y) / z, (x / y) / splat(2.0), "the types differ"),
}
TABLE = pairs(
    CASES,
    *(Masks, Reductions, Concatenations, MatmulAlgebra, Commute, Factoring),
)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    outcome = saturate(example.positive, rules, **(options(rules, rule) | {"rules__math": "finite"}))
    assert outcome.fired(rule.name) > 0, outcome.remarks
    assert result_type(outcome.function) == result_type(example.positive)
    assert_equal_in_value(example.positive, outcome.function, exact=False, special=False)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    outcome = saturate(example.negative, rules, **(options(rules, rule) | {"rules__math": "finite"}))
    assert outcome.fired(rule.name) == 0
    if not example.reason:
        assert outcome.count(f"matched:{without_operators(rule.name)}") == 0
    else:
        said = [remark for remark in outcome.remarks if remark.startswith(f"{without_operators(rule.name)} rejected")]
        assert any(example.reason in remark for remark in said), outcome.remarks


unknown, unknown_mask = var("unknown", (ANY, 3)), var("unknown_mask", (ANY,), "bool")


@pytest.mark.parametrize(
    ("program", "rules"),
    [
        (ops.log(ops.exp(unknown) + splat(1.0, (2, 3))), RaiseOps),
        (splat(1.0, (2,)) - number(unknown_mask), Masks),
        ((splat(1.0, (2,)) - number(unknown_mask)) * d, Masks),
        (ops.nn.softmax(unknown + numbers((2, 1))), Reductions),
        (ops.nn.softmax(unknown - var("shift", (2, 1))), Reductions),
    ],
    ids=["softplus", "mask", "scaled mask", "softmax of a sum", "softmax of a difference"],
)
def test_operands_that_enlarge_a_tensor_of_unknown_size_stay(program: Expr, rules: RuleSetMeta) -> None:
    """The size may be 1, so that the dropped operand determines that of the result."""
    function = func(program)
    assert saturate(function, rules, rules__math="finite").function is function


@pytest.mark.parametrize("scale", [3e38, 1e37, 1e-36])
def test_scales_at_the_ends_of_the_range_stay_at_their_operand(scale: float) -> None:
    """The other operand, which is unknown until run time, may overflow or lose digits."""
    outcome = saturate(func(ops.nn.matmul(var("x", (500, 64)), var("y", (64, 2)) * splat(scale))), MatmulAlgebra)
    assert outcome.count("matched:MatmulAlgebra.other_scaled_operand") > 0
    assert outcome.fired("MatmulAlgebra.other_scaled_operand") == 0


def test_scales_stay_at_operands_of_square_products() -> None:
    """Each operand is as cheap to scale as the other."""
    keys = var("k", (4, "n")) * splat(0.5)
    assert saturate(func(ops.nn.matmul(var("q", ("n", 4)), keys)), MatmulAlgebra).fired("MatmulAlgebra.other_scaled_operand") == 0
    assert saturate(func(ops.nn.matmul(var("q", ("m", 4)), keys)), MatmulAlgebra).fired("MatmulAlgebra.other_scaled_operand") > 0
