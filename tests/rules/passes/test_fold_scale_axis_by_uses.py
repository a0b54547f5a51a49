"""ForwardFoldScaleAxis and BackwardFoldScaleAxis under Relay's names: scales move into the weights of products if every use of the tensors
between them allows it; values are kept."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Expr, Function
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.passmgr import Pass
from passat.relay import transform
from tests.rules.building import const, func, numbers, ops, tup, var
from tests.rules.passes.golden import becomes, program, run, stays
from tests.rules.running import assert_equal_in_value, operators, result_type
from tests.share import share

FORWARD, BACKWARD = transform.ForwardFoldScaleAxis(), transform.BackwardFoldScaleAxis()
IMAGE = "%x: (1, 4, 6, 6), %w: (5, 4, 3, 3)"
POSITIVE, NEGATIVE = "full(2f, shape=[4, 1, 1])", "full(-2f, shape=[4, 1, 1])"
AHEAD = f"expand_dims(squeeze({POSITIVE}, axis=[1, 2]), axis=1, num_newaxis=2)"
BEHIND = "full(2f, shape=[5, 1, 1])"
OUT = f"squeeze({BEHIND}, axis=[1, 2])"
WEIGHT = f"multiply(%w, expand_dims({OUT}, axis=1, num_newaxis=3))"
CONV = "nn.conv2d(%x, %w)"

MOVED = {
    "a scale that is a variable": (
        FORWARD,
        f"{IMAGE}, %s: (4, 1, 1)",
        "nn.conv2d(multiply(%s, %x), %w)",
        "nn.conv2d(%x, multiply(%w, expand_dims(squeeze(%s, axis=[1, 2]), axis=1, num_newaxis=2)))",
    ),
    "a negative scale": (
        FORWARD,
        IMAGE,
        f"nn.conv2d(multiply(%x, {NEGATIVE}), %w)",
        f"nn.conv2d(%x, multiply(%w, {AHEAD.replace('2f', '-2f')}))",
    ),
    "a number": (
        FORWARD,
        IMAGE,
        "nn.conv2d(multiply(%x, 2f), %w)",
        "nn.conv2d(%x, multiply(%w, expand_dims(repeat(expand_dims(2f, axis=0), repeats=4, axis=0), axis=1, num_newaxis=2)))",
    ),
    "a rectifier": (
        FORWARD,
        IMAGE,
        f"nn.conv2d(nn.leaky_relu(multiply(%x, {POSITIVE}), alpha=0.3), %w)",
        f"nn.conv2d(nn.leaky_relu(%x, alpha=0.3), multiply(%w, {AHEAD}))",
    ),
    "a difference from a tensor": (
        FORWARD,
        f"{IMAGE}, %b: (4, 1, 1)",
        f"nn.conv2d(subtract(%b, multiply(%x, {NEGATIVE})), %w)",
        f"nn.conv2d(subtract(divide(%b, {AHEAD}), %x), multiply(%w, {AHEAD}))".replace("2f", "-2f"),
    ),
    "groups of one channel": (
        FORWARD,
        "%x: (1, 6, 6, 4), %w: (3, 3, 4, 1), %s: (4)",
        'nn.conv2d(multiply(%x, %s), %w, groups=4, data_layout="NHWC", kernel_layout="HWOI")',
        'nn.conv2d(%x, multiply(%w, expand_dims(%s, axis=1)), groups=4, data_layout="NHWC", kernel_layout="HWOI")',
    ),
    "one spatial dimension": (
        FORWARD,
        "%x: (1, 4, 6), %w: (5, 4, 3), %s: (4, 1)",
        "nn.conv1d(multiply(%x, %s), %w)",
        "nn.conv1d(%x, multiply(%w, expand_dims(squeeze(%s, axis=[1]), axis=1)))",
    ),
    "a dense layer": (
        FORWARD,
        "%x: (2, 3, 4), %w: (5, 4), %s: (4)",
        "nn.dense(multiply(%x, %s), %w)",
        "nn.dense(%x, multiply(%w, %s))",
    ),
    "two products": (
        FORWARD,
        f"{IMAGE}, %s: (4, 1, 1)",
        "%0 = multiply(%x, %s); (nn.conv2d(%0, %w), nn.conv2d(%0, %w, padding=[1]))",
        "%0 = expand_dims(squeeze(%s, axis=[1, 2]), axis=1, num_newaxis=2);"
        " (nn.conv2d(%x, multiply(%w, %0)), nn.conv2d(%x, multiply(%w, %0), padding=[1]))",
    ),
    "blocks": (
        FORWARD,
        "%x: (1, 2, 6, 6, 2), %w: (6, 1, 3, 3, 4), %s: (2, 1, 1, 2)",
        'nn.contrib_conv2d_nchwc(multiply(%x, %s), %w, data_layout="NCHW2c", kernel_layout="OIHW4i")',
        "nn.contrib_conv2d_nchwc(%x, multiply(%w, reshape(squeeze(%s, axis=[1, 2]), newshape=[1, 1, 1, 1, 4])),"
        ' data_layout="NCHW2c", kernel_layout="OIHW4i")',
    ),
    "behind a convolution": (BACKWARD, IMAGE, f"multiply({CONV}, {BEHIND})", f"nn.conv2d(%x, {WEIGHT})"),
    "behind a bias": (
        BACKWARD,
        f"{IMAGE}, %b: (5)",
        f"multiply(nn.relu(nn.bias_add({CONV}, %b)), {BEHIND})",
        f"nn.relu(nn.bias_add(nn.conv2d(%x, {WEIGHT}), multiply(%b, {OUT})))",
    ),
    "behind a sum with a vector": (
        BACKWARD,
        f"{IMAGE}, %b: (5, 1, 1)",
        f"multiply(subtract(%b, {CONV}), {BEHIND})",
        f"subtract(multiply(%b, expand_dims({OUT}, axis=1, num_newaxis=2)), nn.conv2d(%x, {WEIGHT}))",
    ),
    "behind a sum of two products": (
        BACKWARD,
        IMAGE,
        f"multiply(add({CONV}, nn.relu({CONV})), {BEHIND})",
        f"add(nn.conv2d(%x, {WEIGHT}), nn.relu(nn.conv2d(%x, {WEIGHT})))",
    ),
    "behind groups": (
        BACKWARD,
        "%x: (1, 4, 6, 6), %w: (6, 2, 3, 3), %s: (6, 1, 1)",
        "multiply(%s, nn.conv2d(%x, %w, groups=2))",
        "nn.conv2d(%x, multiply(%w, expand_dims(squeeze(%s, axis=[1, 2]), axis=1, num_newaxis=3)), groups=2)",
    ),
    "behind a dense layer": (
        BACKWARD,
        "%x: (2, 4), %w: (5, 4), %s: (5)",
        "multiply(nn.dense(%x, %w), %s)",
        "nn.dense(%x, multiply(%w, expand_dims(%s, axis=1)))",
    ),
    "a scale that is a product with a scale": (
        BACKWARD,
        "%x: (1, 4), %w: (5, 4), %v: (5, 4), %s: (5)",
        "multiply(nn.dense(%x, %w), multiply(nn.dense(%x, %v), %s))",
        "nn.dense(%x, multiply(%w, expand_dims(squeeze(nn.dense(%x, multiply(%v, expand_dims(%s, axis=1))), axis=[0]), axis=1)))",
    ),
}
KEPT = {
    "a use that takes no scale": (FORWARD, f"{IMAGE}, %s: (4, 1, 1)", "%0 = multiply(%x, %s); (nn.conv2d(%0, %w), tanh(%0))"),
    "a result": (FORWARD, f"{IMAGE}, %s: (4, 1, 1)", "%0 = multiply(%x, %s); (nn.conv2d(%0, %w), %0)"),
    "a rectifier of a variable scale": (FORWARD, f"{IMAGE}, %s: (4, 1, 1)", "nn.conv2d(nn.relu(multiply(%x, %s)), %w)"),
    "a rectifier of a negative scale": (FORWARD, IMAGE, f"nn.conv2d(nn.relu(multiply(%x, {NEGATIVE})), %w)"),
    "a rectifier of an infinite scale": (FORWARD, IMAGE, "nn.conv2d(nn.relu(multiply(%x, inff)), %w)"),
    "one use behind a rectifier": (
        FORWARD,
        IMAGE,
        f"%0 = multiply(%x, {NEGATIVE}); (nn.conv2d(%0, %w), nn.conv2d(nn.relu(%0), %w))",
    ),
    "a sum that divides by a variable": (FORWARD, f"{IMAGE}, %s: (4, 1, 1), %b: (4, 1, 1)", "nn.conv2d(add(multiply(%x, %s), %b), %w)"),
    "a sum that divides by 0": (FORWARD, f"{IMAGE}, %b: (4, 1, 1)", "nn.conv2d(add(multiply(%x, full(0f, shape=[4, 1, 1])), %b), %w)"),
    "a sum that widens": (
        FORWARD,
        "%x: (1, 4, 1, 1), %w: (5, 4, 3, 3), %b: (1, 4, 6, 6)",
        f"nn.conv2d(add(multiply(%x, {POSITIVE}), %b), %w)",
    ),
    "groups of several channels": (
        FORWARD,
        "%x: (1, 4, 6, 6), %w: (6, 2, 3, 3), %s: (4, 1, 1)",
        "nn.conv2d(multiply(%x, %s), %w, groups=2)",
    ),
    "a scale of other axes": (FORWARD, f"{IMAGE}, %s: (6, 1)", "nn.conv2d(multiply(%x, %s), %w)"),
    "integers": (
        FORWARD,
        "%x: (2, 4) int32, %w: (5, 4) int32, %s: (4) int32",
        "nn.dense(multiply(%x, %s), %w)",
    ),
    "products of other axes": (
        FORWARD,
        "%x: (4, 4), %w: (5, 4), %v: (3, 4, 4), %s: (4)",
        "%0 = multiply(%x, %s); (nn.dense(%0, %w), nn.dense(%v, %0))",
    ),
    "a second use on the way": (BACKWARD, f"{IMAGE}, %s: (5, 1, 1)", f"%0 = {CONV}; (multiply(%0, %s), %0)"),
    "its own square": (BACKWARD, "%x: (1, 4), %w: (5, 4)", "%0 = nn.dense(%x, %w); multiply(%0, %0)"),
    "a rectifier before a variable scale": (BACKWARD, f"{IMAGE}, %s: (5, 1, 1)", f"multiply(nn.relu({CONV}), %s)"),
    "a second rectifier of two": (BACKWARD, IMAGE, f"multiply(add({CONV}, nn.relu({CONV})), full(-2f, shape=[5, 1, 1]))"),
    "a sum of other axes": (
        BACKWARD,
        "%x: (5, 4, 6, 6), %y: (4, 5, 6, 6), %w: (5, 4, 3, 3), %s: (5, 1, 1)",
        'multiply(add(nn.conv2d(%x, %w), nn.conv2d(%y, %w, data_layout="CNHW")), %s)',
    ),
    "a sum that widens the product": (
        BACKWARD,
        "%x: (1, 4, 3, 3), %w: (5, 4, 3, 3), %b: (1, 5, 7, 7), %s: (5, 1, 1)",
        "multiply(add(nn.conv2d(%x, %w), %b), %s)",
    ),
    "a bias of another axis": (
        BACKWARD,
        "%x: (5, 4), %w: (5, 4), %b: (5), %s: (5)",
        "multiply(nn.bias_add(nn.dense(%x, %w), %b, axis=0), %s)",
    ),
    "a let": (
        FORWARD,
        f"{IMAGE}, %s: (4, 1, 1)",
        "let %y = multiply(%x, %s); nn.conv2d(%y, %w)",
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_scales_move_into_weights(name: str) -> None:
    pass_, signature, before, after = MOVED[name]
    becomes(pass_, signature, before, after)
    module = program(signature, before)
    made = run(pass_, module)["main"]
    assert_equal_in_value(module["main"], made, exact=False, special=False)


@pytest.mark.parametrize("name", KEPT)
def test_scales_that_no_product_can_take_stay(name: str) -> None:
    pass_, signature, body = KEPT[name]
    stays(pass_, signature, body)


@pytest.mark.parametrize("name", ["a dense layer", "behind a dense layer"])
def test_nothing_moves_if_rounding_must_not_change(name: str) -> None:
    pass_, signature, body, _ = MOVED[name]
    stays(pass_, signature, body, rules__math="exact")


def test_the_whole_pass_folds_what_it_makes_of_constants() -> None:
    """Backward, then forward, then FoldConstant: nothing of two scales is left."""
    x, w = var("x", (1, 4, 6, 6)), numbers((4, 4, 3, 3))
    body = ops.nn.conv2d(ops.nn.relu(ops.nn.conv2d(x * numbers((4, 1, 1)), w)) * numbers((4, 1, 1), seed=1), w)
    before = func(body)
    after = run(transform.FoldScaleAxis(), IRModule.from_expr(before))["main"]
    assert operators(after) == ["nn.conv2d", "nn.relu", "nn.conv2d"]
    assert_equal_in_value(before, after, exact=False, special=False)


@pytest.mark.parametrize("pass_", [FORWARD, BACKWARD], ids=["forward", "backward"])
def test_a_scale_moves_a_long_way(pass_: Pass) -> None:
    x, w, scale = var("x", (2, 4)), var("w", (4, 4)), numbers((4,))
    body: Expr = x * scale if pass_ is FORWARD else ops.nn.dense(x, w)
    count = share(4_000, 20_000)
    for _ in range(count):
        body = ops.nn.relu(body)
    whole = func(ops.nn.dense(body, w) if pass_ is FORWARD else body * scale)
    made = run(pass_, IRModule.from_expr(whole))["main"]
    assert isinstance(made, Function)
    assert isinstance(made.body, Call)
    assert made.body.op is get_op("nn.dense" if pass_ is FORWARD else "nn.relu")
    assert operators(made).index("multiply") == (count if pass_ is FORWARD else 1)


LAYOUTS = {
    "first": ((2, 4, 3, 3), (4, 1, 1), (4, 4, 3, 3), {}),
    "last": ((2, 3, 3, 4), (4,), (3, 3, 4, 4), {"data_layout": "NHWC", "kernel_layout": "HWIO"}),
    "blocks": ((2, 2, 3, 3, 2), (2, 1, 1, 2), (2, 4, 3, 3, 2), {"data_layout": "NCHW2c", "kernel_layout": "OIHW2o"}),
}


@st.composite
def programs(draw: st.DrawFn) -> Function:
    """Functions of convolutions, scales, rectifiers and sums, whose tensors have one shape, so that each may be an operand of each; results
    are the last one and some others."""
    name = draw(st.sampled_from(sorted(LAYOUTS)))
    shape, vector, kernel, layouts = LAYOUTS[name]
    made: list[Expr] = [var("x", shape)]
    for place in range(draw(st.integers(2, 9))):
        x = made[-draw(st.integers(1, min(len(made), 2)))]
        seed = draw(st.integers(0, 3))
        other = draw(
            st.sampled_from((var(f"v{place}", vector), numbers(vector, seed=seed), ops.negative(numbers(vector, seed=seed)), const(0.5)))
        )
        kind = draw(
            st.sampled_from(("scale", "scale", "product", "product", "rectifier", "leaky", "shift", "shift", "sum", "depthwise", "bias"))
        )
        if kind == "scale":
            x = draw(st.sampled_from((x * other, other * x)))
        elif kind == "product":
            weight = draw(st.sampled_from((var(f"w{place}", kernel), numbers(kernel, seed=seed) * const(0.02))))
            op = ops.nn.contrib_conv2d_nchwc if name == "blocks" else ops.nn.conv2d
            x = op(x, weight, padding=(1, 1), **layouts)
        elif kind == "depthwise" and name == "first":
            x = ops.nn.conv2d(x, var(f"w{place}", (4, 1, 3, 3)), padding=(1, 1), groups=4)
        elif kind == "bias" and name != "blocks":
            x = ops.nn.bias_add(x, var(f"b{place}", (4,)), axis=1 if name == "first" else -1)
        elif kind == "rectifier":
            x = ops.nn.relu(x)
        elif kind == "leaky":
            x = ops.nn.leaky_relu(x, alpha=0.25)
        else:
            operand = draw(st.sampled_from(made)) if kind == "sum" else other
            x = draw(st.sampled_from((x + operand, x - operand, operand - x)))
        made.append(x)
    results = [made[-1], *draw(st.lists(st.sampled_from(made), max_size=2))]
    return func(results[0] if len(results) == 1 else tup(*results))


@settings(max_examples=share(30, 5000))
@given(programs(), st.sampled_from((FORWARD, BACKWARD, transform.FoldScaleAxis())))
def test_values_and_types_are_kept(before: Function, pass_: Pass) -> None:
    after = run(pass_, IRModule.from_expr(before))["main"]
    assert isinstance(after, Function)
    assert result_type(after) == result_type(before)
    assert_equal_in_value(before, after, exact=False, special=False)
    assert after is before or not structural_equal(after, before)
