"""LinearAlgebra and Explore: programs before and after, numerical effects, and limits on their size."""

from collections.abc import Callable

import pytest
from onnx import parser

from passat.ir.expr import Expr, Function
from passat.optimizer import optimize
from passat.passmgr import parse_pipeline
from passat.rules.cost import ROOFLINE, program_cost
from passat.rules.passes.algebra import explore, linear_algebra
from passat.rules.rule_pass import RulePass
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.passes.golden import becomes, stays
from tests.rules.running import apply, assert_equal_in_value, operators

FINITE = "finite"


@pytest.mark.parametrize(
    ("signature", "before", "after"),
    [
        pytest.param(
            "%x: (4, 3), %y: (4, 3)", "%0 = add(%x, 2f);\n%1 = add(%0, %y);\nadd(%1, 3f)", "%0 = add(%x, %y);\nadd(%0, 5f)", id="constants"
        ),
        pytest.param("%x: (4, 3)", "%0 = transpose(%x);\n%1 = tanh(%0);\ntranspose(%1)", "tanh(%x)", id="transposes"),
        pytest.param("%x: (2, 3, 4)", "%0 = sum(%x, axis=[1]);\nsum(%0, axis=[1])", "sum(%x, axis=[1, 2])", id="reductions"),
        pytest.param("%x: (4, 3)", "%0 = nn.softmax(%x);\nlog(%0)", "nn.log_softmax(%x)", id="logarithm"),
        pytest.param(
            "%x: (4, 3) bool, %y: (4, 3), %z: (4, 3)", "%0 = logical_not(%x);\nwhere(%0, %y, %z)", "where(%x, %z, %y)", id="choice"
        ),
        pytest.param(
            "%x: (4, 3), %y: (4, 3), %z: (4, 3)",
            "%0 = multiply(%x, %y);\n%1 = multiply(%x, %z);\nadd(%0, %1)",
            "%0 = add(%y, %z);\nmultiply(%x, %0)",
            id="distribution",
        ),
        pytest.param(
            "%x: (64, 2), %y: (2, 64), %z: (64, 2)",
            "%0 = nn.matmul(%x, %y);\nnn.matmul(%0, %z)",
            "%0 = nn.matmul(%y, %z);\nnn.matmul(%x, %0)",
            id="chain",
        ),
        pytest.param(
            "%x: (4, 3)", "%0 = max(%x, axis=[1], keepdims=True);\n%1 = subtract(%x, %0);\nnn.softmax(%1)", "nn.softmax(%x)", id="softmax"
        ),
    ],
)
def test_rules_without_assumptions_about_finite_values(signature: str, before: str, after: str) -> None:
    becomes(linear_algebra(), signature, before, after)
    becomes(explore(), signature, before, after)


@pytest.mark.parametrize(
    ("signature", "before", "after"),
    [
        pytest.param("%x: (4, 3), %y: (4, 3)", "%0 = add(%x, %y);\n%1 = subtract(%0, %x);\ntanh(%1)", "tanh(%y)", id="part"),
    ],
)
def test_rules_that_assume_finite_values(signature: str, before: str, after: str) -> None:
    becomes(linear_algebra(), signature, before, after, rules__math=FINITE)
    stays(linear_algebra(), signature, before)


def plain(layer: Expr) -> Expr:
    return layer


def columns(layers: int, activation: Callable[[Expr], Expr] = ops.nn.relu) -> Expr:
    """Linear layers on tensors whose features are in rows."""
    hidden: Expr = ops.transpose(var("x", (4, 8)), axes=(1, 0))
    for i in range(layers):
        hidden = activation(ops.nn.matmul(numbers((8, 8), seed=i), hidden) + numbers((8, 1), seed=i))
    made: Expr = ops.transpose(hidden, axes=(1, 0))
    return made


def turned_each_time(layers: int, shape: tuple[int, ...] = (4, 8), activation: Callable[[Expr], Expr] = ops.nn.relu) -> Expr:
    """Linear layers with transposes before and after the product."""
    hidden: Expr = var("x", shape)
    axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    for i in range(layers):
        product = ops.nn.matmul(numbers((8, 8), seed=i), ops.transpose(hidden, axes=axes))
        hidden = activation(ops.transpose(product, axes=axes) + numbers((8,), seed=i))
    return hidden


def turned_gemms(layers: int) -> Expr:
    """The same, where the product includes the transpose before it."""
    hidden: Expr = var("x", (4, 8))
    for i in range(layers):
        product = ops.nn.dense(numbers((8, 8), seed=i), hidden)
        hidden = ops.nn.relu(ops.transpose(product, axes=(1, 0)) + numbers((8,), seed=i))
    return hidden


@pytest.mark.parametrize("body", [columns(3), turned_each_time(3), turned_gemms(3)], ids=["columns", "each", "gemms"])
def test_weights_on_the_left_need_no_transposes(body: Expr) -> None:
    made = apply(linear_algebra(), func(body)).function
    assert operators(made.body) == ["nn.matmul", "nn.bias_add", "nn.relu"] * 3
    assert_equal_in_value(func(body), made, exact=False)


@pytest.mark.parametrize("body", [columns(4, plain), turned_each_time(4, activation=plain)], ids=["columns", "each"])
def test_linear_layers_with_transposes_between_them_are_merged(body: Expr) -> None:
    function = func(ops.nn.relu(body))
    made = apply(linear_algebra(), function).function
    assert operators(made.body) == ["nn.matmul", "nn.bias_add", "nn.relu"]
    assert_equal_in_value(function, made, exact=False)


def test_weights_on_the_left_of_stacks_need_no_transposes() -> None:
    function = func(turned_each_time(3, (2, 4, 8)))
    made = apply(linear_algebra(), function).function
    assert operators(made.body) == ["nn.matmul", "add", "nn.relu"] * 3
    assert_equal_in_value(function, made, exact=False)


def test_exact_means_exact() -> None:
    stays(linear_algebra(), "%x: (4, 3), %y: (4, 3)", "%0 = add(%x, 2f);\n%1 = add(%0, %y);\nadd(%1, 3f)", rules__math="exact")
    becomes(linear_algebra(), "%x: (4, 3)", "%0 = transpose(%x);\n%1 = tanh(%0);\ntranspose(%1)", "tanh(%x)", rules__math="exact")


@pytest.mark.parametrize("body", ["%0 = multiply(%x, %x);\nadd(%0, %x)", "%0 = add(%x, %y);\nsubtract(%0, %y)"])
def test_integers_are_left_alone(body: str) -> None:
    stays(linear_algebra(), "%x: (4, 3) int64, %y: (4, 3) int64", body, rules__math=FINITE)


def test_their_levels() -> None:
    assert (linear_algebra().info.opt_level, explore().info.opt_level) == (3, 4)
    assert len(parse_pipeline("LinearAlgebra,Explore").passes) == 2


def layers(count: int) -> Function:
    """Layers of attention and a perceptron, reduced to the essentials."""
    hidden: Expr = var("hidden", (1, 8, 16))
    for i in range(count):
        heads = [
            ops.transpose(
                ops.reshape(ops.nn.matmul(hidden, numbers((16, 16), seed=j + i)) + numbers((16,), seed=j), newshape=(1, 8, 2, 8)), axes=axes
            )
            for j, axes in enumerate([(0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)])
        ]
        scores = ops.nn.softmax(ops.nn.matmul(heads[0], heads[1]) / splat(2.8))
        context = ops.reshape(ops.transpose(ops.nn.matmul(scores, heads[2]), axes=(0, 2, 1, 3)), newshape=(1, 8, 16))
        hidden = hidden + (ops.nn.matmul(context, numbers((16, 16), seed=9 + i)) + numbers((16,), seed=9))
        inner = ops.nn.relu(ops.nn.matmul(hidden, numbers((16, 32), seed=7 + i)) + numbers((32,), seed=7))
        hidden = hidden + (ops.nn.matmul(inner, numbers((32, 16), seed=8 + i)) + numbers((16,), seed=8))
    return func(hidden)


@pytest.mark.parametrize("math", ["reassociate", FINITE])
def test_the_work_is_linear_in_the_program(math: str) -> None:
    few, many = (apply(linear_algebra(), layers(count), rules__math=math).count("nodes") for count in (4, 16))
    assert many <= 6 * few
    assert apply(explore(), layers(16), rules__math=math).count("nodes") <= 40 * len(operators(layers(16)))


@pytest.mark.parametrize("make", [linear_algebra, explore])
def test_layers_keep_their_values_and_cost_less(make: Callable[[], RulePass]) -> None:
    function = layers(2)
    made = apply(make(), function, rules__math=FINITE).function
    assert program_cost(made.body, ROOFLINE) < program_cost(function.body, ROOFLINE)
    assert_equal_in_value(function, made, exact=False, special=False)


def test_keys_turned_in_batches_are_turned() -> None:
    becomes(
        linear_algebra(),
        "%k: (2, 4, 5, 8)",
        "%0 = reshape(%k, newshape=[8, 5, 8]); %1 = transpose(%0, axes=[0, 2, 1]); reshape(%1, newshape=[2, 4, 8, 5])",
        "transpose(%k, axes=[0, 1, 3, 2])",
    )


def test_the_guard_of_softmax_is_removed_for_finite_values() -> None:
    signature, body = "%x: (2, 3), %w: (3, 3)", "%0 = nn.softmax(nn.matmul(%x, %w)); %1 = isnan(%0); where(%1, 0f, %0)"
    becomes(linear_algebra(), signature, body, "nn.thresholded_relu(nn.softmax(nn.matmul(%x, %w)), alpha=0f)")
    becomes(linear_algebra(), signature, body, "nn.softmax(nn.matmul(%x, %w))", rules__math="finite")


def test_the_guard_of_a_mask_of_infinity_stays() -> None:
    """An input is finite by the assumption, but not the -infinity that the program itself writes where a mask is false."""
    signature, guard = "%x: (2, 3), %m: (2, 3)", "%1 = isnan(%0); where(%1, 0f, %0)"
    becomes(linear_algebra(), signature, f"%0 = nn.softmax(add(%x, %m)); {guard}", "nn.softmax(add(%x, %m))", rules__math="finite")
    masked = "nn.softmax(where(less(%m, 0f), -inff, %x))"
    becomes(linear_algebra(), signature, f"%0 = {masked}; {guard}", f"nn.thresholded_relu({masked}, alpha=0f)", rules__math="finite")


LATE = """<ir_version: 9, opset_import: ["": 17]> late (float[batch, n] x) => (float[i, j, k] y)
<int64[1] zero = {0}, int64[1] last = {-1}, int64[1] one = {1}, int64[1] two = {2}, int64[1] eight = {8}, int64 at = {1}, int64 m = {-1}> {
    h = Slice(x, zero, one, one)  all = Concat<axis=1>(h, x)  z = Slice(all, zero, last, one, two)  u = Unsqueeze(z, one)
    s = Shape(z)  b = Shape<end=1>(x)  p = Gather(s, at)  part = Unsqueeze(p, zero)  l = Concat<axis=0>(b, eight, part)
    c = Shape(l)  o = ConstantOfShape<value=int64[1]{1}>(c)  n = Mul(o, m)  q = Equal(l, n)  w = Where(q, o, l)  y = Expand(u, w)
}"""


def test_shapes_that_are_known_only_after_the_first_rules() -> None:
    """The pattern of `Tensor.expand` in exports by TorchScript: only its last Where hides that the size is that of u."""
    result = optimize(parser.parse_model(LATE))
    assert [node.op_type for node in result.model.graph.node] == ["Slice", "Concat", "Slice", "Unsqueeze", "Expand"]
