"""SimplifyExpr: the rewrites of TVM v0.8 and v0.18, each on a program in Relay's text format."""

import pytest

from passat.rules.passes.simplify import simplify_expr
from tests.rules.passes.golden import becomes, stays

REWRITES = {
    "zeros_like": ("%x: (2, 3)", "zeros_like(tanh(%x))", "zeros(shape=[2, 3])"),
    "ones_like": ("%x: (2, 3)", "ones_like(tanh(%x))", "ones(shape=[2, 3])"),
    "full_like": ("%x: (2, 3), %c: ()", "full_like(tanh(%x), %c)", 'full(%c, shape=[2, 3], dtype="float32")'),
    "reshape_like": ("%x: (2, 3), %y: (3, 2)", "reshape_like(%x, %y)", "reshape(%x, newshape=[3, 2])"),
    "broadcast_to_like": ("%x: (3), %y: (2, 3)", "broadcast_to_like(%x, %y)", "broadcast_to(%x, shape=[2, 3])"),
    "collapse_sum_like": (
        "%x: (2, 3), %y: (3)",
        "collapse_sum_like(%x, %y)",
        "collapse_sum_to(%x, shape=[3])",
    ),
    "cast_like": ("%x: (2, 3), %y: (1) float16", "cast_like(%x, %y)", 'cast(%x, dtype="float16")'),
    "full elementwise": ("%x: (2, 3)", "multiply(%x, full_like(%x, 3f))", "multiply(%x, 3f)"),
    "x + 0": ("%x: (2, 3)", "add(%x, zeros(shape=[3]))", "%x"),
    "0 + x": ("%x: (2, 3)", "add(zeros_like(%x), %x)", "%x"),
    "1 * x": ("%x: (2, 3)", "multiply(ones_like(%x), %x)", "%x"),
    "x - 0": ("%x: (2, 3)", "subtract(%x, 0f)", "%x"),
    "x / 1": ("%x: (2, 3)", "divide(%x, ones(shape=[1]))", "%x"),
    "reshapes": ("%x: (2, 3)", "reshape(reshape(%x, newshape=[6]), newshape=[3, 2])", "reshape(%x, newshape=[3, 2])"),
    "transposes": ("%x: (2, 3, 4)", "transpose(transpose(%x, axes=[1, 2, 0]), axes=[2, 0, 1])", "%x"),
    "transpose of nothing": ("%x: (2, 3)", "transpose(%x, axes=[0, 1])", "%x"),
    "same cast": ("%x: (2, 3)", 'cast(%x, dtype="float32")', "%x"),
    "consecutive casts": (
        "%x: (2, 3) int8",
        'cast(cast(%x, dtype="int16"), dtype="int32")',
        'cast(%x, dtype="int32")',
    ),
    "clip": ("%x: (2, 3) uint8", "clip(%x, a_min=0f, a_max=255f)", "%x"),
    "clip and casts": (
        "%x: (2, 3) int32",
        'cast(cast(clip(%x, a_min=0f, a_max=255f), dtype="uint8"), dtype="int32")',
        "clip(%x, a_min=0f, a_max=255f)",
    ),
    "adjacent sums": ("%x: (2, 3)", "add(add(%x, 1f), 2f)", "add(%x, 3f)"),
    "adjacent products": ("%x: (2, 3)", "multiply(multiply(%x, 3f), 2f)", "multiply(%x, 6f)"),
    "scale of a scaled shift": ("%x: (2, 3)", "multiply(add(multiply(%x, 2f), 3f), 5f)", "add(multiply(%x, 10f), 15f)"),
    "x + x": ("%x: (200, 300)", "add(%x, %x)", "multiply(%x, 2f)"),
    "one by a root": ("%x: (2, 3)", "divide(1f, sqrt(%x))", "rsqrt(%x)"),
    "a binomial": (
        "%x: (2, 3), %y: (2, 3)",
        "add(add(multiply(%x, %x), multiply(multiply(%x, %y), 2f)), multiply(%y, %y))",
        "%0 = add(%x, %y); multiply(%0, %0)",
    ),
}
UNCHANGED = {
    "a sum that broadcasts": ("%x: (3), %c: ()", "add(%x, full(%c, shape=[2, 3]))"),
    "casts that lose": ("%x: (2, 3)", 'cast(cast(%x, dtype="float16"), dtype="float32")'),
    "clips that bind": ("%x: (2, 3) int32", "clip(%x, a_min=0f, a_max=255f)"),
    "integers divided and multiplied": ("%x: (2, 3) int32", "multiply(divide(%x, 3), 3)"),
    "a transpose": ("%x: (2, 3)", "transpose(%x, axes=[1, 0])"),
}


@pytest.mark.parametrize("name", REWRITES)
def test_rewrites(name: str) -> None:
    becomes(simplify_expr(relay=True), *REWRITES[name], rules__math="finite")


@pytest.mark.parametrize("name", UNCHANGED)
def test_unchanged_programs(name: str) -> None:
    stays(simplify_expr(relay=True), *UNCHANGED[name], rules__math="finite")
