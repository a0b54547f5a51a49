"""DynamicToStatic: operators that take a shape, bounds or repeats as a tensor become operators with attributes if these are known."""

import pytest

from passat.rules.passes.simplify import dynamic_to_static
from tests.rules.passes.golden import becomes, program, stays
from tests.rules.running import apply, operators


def vector(*elements: int) -> str:
    """A tensor of these elements, built from calls that have a text form."""
    parts = ", ".join(f"expand_dims({element}i64, axis=0)" for element in elements)
    return f"concatenate(({parts},))" if len(elements) > 1 else parts


SHAPE = 'shape_of(%y, dtype="int64")'
STATIC = {
    "reshape": ("%x: (2, 6), %y: (3, 4)", f"dyn.reshape(%x, {SHAPE})", "reshape(%x, newshape=[3, 4])"),
    "reshape that infers": ("%x: (2, 6)", f"dyn.reshape(%x, {vector(3, -1)})", "reshape(%x, newshape=[3, 4])"),
    "broadcast_to": ("%x: (2, 1), %y: (2, 4)", f"dyn.broadcast_to(%x, {SHAPE})", "broadcast_to(%x, shape=[2, 4])"),
    "full": ("%c: (), %y: (2, 4)", f"dyn.full(%c, {SHAPE})", "full(%c, shape=[2, 4])"),
    "tile": ("%x: (2, 3)", f"dyn.tile(%x, {vector(1, 2)})", "tile(%x, reps=[1, 2])"),
    "topk": ("%x: (5, 6)", f"dyn.topk(%x, {vector(2)}).0", "topk(%x, k=2).0"),
    "strided_slice": (
        "%x: (5, 6)",
        f"dyn.strided_slice(%x, {vector(1)}, {vector(5)}, {vector(2)}, {vector(-1)})",
        "strided_slice(%x, begin=[1], end=[5], strides=[2], axes=[1])",
    ),
    "one_hot": (
        "%i: (3) int64",
        f"dyn.one_hot(%i, {vector(4)}, 1f, 0f)",
        "one_hot(%i, 1f, 0f, depth=4)",
    ),
    "what follows from a shape": (
        "%x: (2, 6)",
        'dyn.reshape(%x, concatenate((expand_dims(take(shape_of(%x, dtype="int64"), 1i64, axis=0), axis=0), expand_dims(-1i64, axis=0))))',
        "reshape(%x, newshape=[6, 2])",
    ),
    "one after the other": (
        "%x: (2, 6), %y: (3, 4)",
        f'%0 = dyn.reshape(%x, {SHAPE}); dyn.broadcast_to(tanh(%0), shape_of(%0, dtype="int64"))',
        "broadcast_to(tanh(reshape(%x, newshape=[3, 4])), shape=[3, 4])",
    ),
}
UNKNOWN = {
    "reshape": ("%x: (2, 6), %s: (2) int64", "dyn.reshape(%x, %s)", "unknown before run time: shape of dyn.reshape"),
    "broadcast_to": ("%x: (2, 1), %s: (2) int64", "dyn.broadcast_to(%x, %s)", "unknown before run time: shape of dyn.broadcast_to"),
    "full": ("%c: (), %s: (2) int64", "dyn.full(%c, %s)", "unknown before run time: shape of dyn.full"),
    "tile": ("%x: (2, 3), %s: (2) int64", "dyn.tile(%x, %s)", "unknown before run time: reps of dyn.tile"),
    "topk": ("%x: (5, 6), %k: (1) int64", "dyn.topk(%x, %k).0", "unknown before run time: k of dyn.topk"),
    "the shape of what is unknown": (
        "%x: (2, 6), %y: (?, ?)",
        f"dyn.reshape(%x, {SHAPE})",
        "dyn.reshape has no static form if shape is [?, ?]",
    ),
}


@pytest.mark.parametrize("name", STATIC)
def test_known_operands_become_static(name: str) -> None:
    becomes(dynamic_to_static(), *STATIC[name])


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_operands_stay_with_a_reason(name: str) -> None:
    signature, body, reason = UNKNOWN[name]
    stays(dynamic_to_static(), signature, body)
    outcome = apply(dynamic_to_static(), program(signature, body)["main"])
    assert any(reason in remark for remark in outcome.remarks), outcome.remarks


def test_partly_known_sizes_suffice_if_one_is_inferred() -> None:
    """One size may be unknown: a reshape infers it."""
    outcome = apply(dynamic_to_static(), program("%x: (?, 6), %y: (?, 3, 2)", f"dyn.reshape(%x, {vector(-1, 3, 2)})")["main"])
    assert operators(outcome.function) == ["reshape"]
