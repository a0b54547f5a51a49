"""HoistSelections: convolutions compute only the positions that strided 1x1 convolutions read."""

import pytest

from passat.ir.expr import Expr, Var
from passat.ir.module import IRModule
from passat.passmgr import PassContext
from passat.rules.passes.hoist_selections import HoistSelections
from passat.rules.passes.hoist_strides import hoist_strides
from tests.rules.building import func, ops, tup, var
from tests.rules.running import assert_equal_in_value

X, WIDE = var("x", ("batch", 4, 9, 8)), var("wide", (4, 4, 3, 3))
POINT, OTHER, BIAS = var("point", (4, 4, 1, 1)), var("other", (4, 4, 1, 1)), var("bias", (4,))


def block(x: Expr = X) -> Expr:
    """A residual block."""
    inner = ops.nn.relu(ops.nn.bias_add(ops.nn.conv2d(x, WIDE, padding=(1, 1, 1, 1)), BIAS))
    made: Expr = ops.nn.relu(ops.add(ops.nn.conv2d(inner, POINT), x))
    return made


def whole(*results: Expr) -> IRModule:
    parameters: list[Var] = [X, WIDE, POINT, OTHER, BIAS]
    return IRModule.from_expr(func(tup(*results), *parameters))


@pytest.mark.parametrize("strides", [(2, 2), (3, 2), (1, 2)])
def test_the_block_before_strides_is_computed_with_strides(strides: tuple[int, int]) -> None:
    out = block()
    before = func(tup(*(ops.nn.conv2d(out, weight, strides=strides) for weight in (POINT, OTHER))), X, WIDE, POINT, OTHER, BIAS)
    after = hoist_strides(before)
    text = str(after)
    assert text.count("strides=") == 2  # of the convolution with a window, and of the block's operand
    assert text.count("nn.avg_pool2d(%x") == 1
    assert_equal_in_value(before, after, exact=False, special=False, sizes={"batch": 2})


def test_strides_multiply() -> None:
    before = func(ops.nn.conv2d(ops.tanh(ops.nn.conv2d(X, WIDE, strides=(2, 1))), POINT, strides=(2, 2)), X, WIDE, POINT)
    after = hoist_strides(before)
    assert "nn.conv2d(%x, %wide, strides=[4, 2])" in str(after)
    assert_equal_in_value(before, after, exact=False, special=False, sizes={"batch": 2})


OUT = block()
READ = ops.nn.conv2d(OUT, POINT, strides=(2, 2))
PADDED = ops.nn.conv2d(OUT, POINT, strides=(2, 2), padding=(1, 1, 1, 1))
ONLY_SUM = ops.nn.conv2d(ops.nn.relu(ops.add(X, ops.tanh(X))), POINT, strides=(2, 2))


@pytest.mark.parametrize(
    "results", [(READ, OUT), (READ, ops.nn.conv2d(OUT, POINT)), (READ, ops.nn.conv2d(OUT, OTHER, strides=(1, 2))), (PADDED,), (ONLY_SUM,)]
)
def test_what_is_read_elsewhere_is_computed_as_a_whole(results: tuple[Expr, ...]) -> None:
    function = whole(*results)["main"]
    assert hoist_strides(function) is function


def test_images_of_unknown_size_stay() -> None:
    x = var("x", ("batch", 4, "height", "width"))
    function = func(ops.nn.conv2d(ops.nn.conv2d(x, WIDE), POINT, strides=(2, 2)), x, WIDE, POINT)
    assert hoist_strides(function) is function


def test_the_pass_hoists_strides_if_rounding_may_change() -> None:
    module = whole(READ)
    assert "avg_pool2d" in str(HoistSelections()(module)["main"])
    with PassContext(config={"rules.math": "exact"}):
        assert HoistSelections()(module) is module


def test_a_chain_without_convolutions_is_walked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = 0
    read = hoist_strides.__globals__["_read"]

    def counted(*args: object) -> object:
        nonlocal walks
        walks += 1
        return read(*args)

    monkeypatch.setitem(hoist_strides.__globals__, "_read", counted)
    out: Expr = X
    for _ in range(50):
        out = ops.tanh(out)
    function = func(ops.nn.conv2d(out, POINT, strides=(2, 2)), X, POINT)
    assert hoist_strides(function) is function
    assert walks == 2
