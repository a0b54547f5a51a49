"""CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul under Relay's names: what follows all branches is combined, too,
and what cannot be combined stays; values are kept."""

import pytest

from passat.ir.expr import Call, Function
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.passmgr import Pass
from passat.relay import transform
from tests.rules.passes.golden import becomes, program, run
from tests.rules.running import assert_equal_in_value

CONV = transform.CombineParallelConv2D(2)
FLAT, STACKED = transform.CombineParallelDense(2, to_batch=False), transform.CombineParallelDense(2)
BATCH = transform.CombineParallelBatchMatmul(2)
IMAGE = "%x: (1, 4, 6, 6), %v: (3, 4, 1, 1), %w: (5, 4, 1, 1)"
ROWS = "%x: (4, 6), %v: (3, 6), %w: (5, 6)"
ALIKE = "%x: (4, 6), %v: (3, 6), %w: (3, 6)"
STACK = "%x: (2, 4, 6), %v: (2, 3, 6), %w: (2, 5, 6)"
V, W = "nn.dense(%x, %v)", "nn.dense(%x, %w)"
CV, CW = "nn.conv2d(%x, %v)", "nn.conv2d(%x, %w)"
MERGED = {
    "biases": (
        CONV,
        f"{IMAGE}, %b: (3), %c: (5)",
        f"(nn.bias_add({CV}, %b), nn.bias_add({CW}, %c))",
        "concatenate concatenate nn.bias_add",
    ),
    "scales, then ReLUs": (
        CONV,
        f"{IMAGE}, %b: (3, 1, 1), %c: (5, 1, 1)",
        f"(nn.relu(multiply({CV}, %b)), nn.relu(multiply(%c, {CW})))",
        "concatenate multiply multiply nn.relu nn.relu",
    ),
    "scales, then ReLUs, in one order": (
        CONV,
        f"{IMAGE}, %b: (3, 1, 1), %c: (5, 1, 1)",
        f"(nn.relu(multiply({CV}, %b)), nn.relu(multiply({CW}, %c)))",
        "concatenate concatenate multiply nn.relu",
    ),
    "scales of all channels": (
        CONV,
        f"{IMAGE}, %b: (1), %c: (1)",
        f"(multiply({CV}, %b), multiply({CW}, %c))",
        "concatenate multiply multiply",
    ),
    "channels last": (
        CONV,
        "%x: (1, 6, 6, 4), %v: (1, 1, 4, 3), %w: (1, 1, 4, 5), %b: (3), %c: (5)",
        "("
        + ", ".join(f'add(nn.conv2d(%x, {w}, data_layout="NHWC", kernel_layout="HWIO"), {b})' for w, b in (("%v", "%b"), ("%w", "%c")))
        + ")",
        "concatenate concatenate add",
    ),
    "vectors of all ranks": (FLAT, f"{ROWS}, %b: (1), %c: (5)", f"(add({V}, %b), add({W}, %c))", "concatenate concatenate repeat add"),
    "scalars": (
        FLAT,
        f"{ROWS}, %b: (), %c: ()",
        f"(add({V}, %b), add({W}, %c))",
        "concatenate concatenate expand_dims expand_dims repeat repeat add",
    ),
    "what widens": (
        FLAT,
        "%x: (4, 6), %v: (1, 6), %w: (1, 6), %b: (5), %c: (5)",
        f"(add({V}, %b), add({W}, %c))",
        "concatenate add add",
    ),
    "new axes": (
        FLAT,
        f"{ROWS}, %b: (3, 1), %c: (5, 1)",
        f"(add(expand_dims({V}, axis=2), %b), add(expand_dims({W}, axis=2), %c))",
        "concatenate concatenate expand_dims add",
    ),
    "biases of dense layers": (
        FLAT,
        f"{ROWS}, %b: (3), %c: (5)",
        f"(nn.bias_add({V}, %b, axis=-1), nn.bias_add({W}, %c, axis=-1))",
        "concatenate concatenate nn.bias_add",
    ),
    "a use in between": (FLAT, ROWS, f"%0 = {V}; (nn.relu(%0), nn.relu({W}), %0)", "concatenate nn.relu nn.relu"),
    "stacks": (STACKED, f"{ALIKE}, %b: (3), %c: (3)", f"(add({V}, %b), add({W}, %c))", "stack stack expand_dims expand_dims stack add"),
    "stacks and scalars": (
        STACKED,
        f"{ALIKE}, %b: (), %c: ()",
        f"(add({V}, %b), add({W}, %c))",
        "stack stack expand_dims expand_dims stack add",
    ),
    "stacks and what widens": (STACKED, f"{ALIKE}, %b: (2, 4, 3)", f"(add({V}, %b), add({W}, %b))", "stack stack add add"),
    "batches": (
        BATCH,
        f"{STACK}, %b: (3), %c: (5)",
        "(add(nn.batch_matmul(%x, %v), %b), add(nn.batch_matmul(%x, %w), %c))",
        "concatenate concatenate add",
    ),
}
PARTS = {CONV: ["strided_slice"] * 2, FLAT: ["strided_slice"] * 2, STACKED: ["split", "squeeze", "squeeze"], BATCH: ["strided_slice"] * 2}
KEPT = {
    "one needs the other": (FLAT, "%x: (4, 4), %v: (4, 4)", "%0 = nn.dense(%x, %v); (%0, nn.dense(%x, %0))"),
    "other groups": (CONV, "%x: (1, 4, 6, 6), %v: (4, 2, 1, 1), %w: (4, 2, 1, 1)", f"({CV[:-1]}, groups=2), {CW[:-1]}, groups=2))"),
    "other kernels": (CONV, "%x: (1, 4, 6, 6), %v: (3, 4, 1, 1), %w: (3, 4, 3, 3)", f"({CV}, {CW})"),
    "other weights in a stack": (STACKED, ROWS, f"({V}, {W})"),
    "other transposes": (
        BATCH,
        "%x: (2, 4, 6), %v: (2, 6, 3)",
        "(nn.batch_matmul(%x, %v, transpose_b=False), nn.batch_matmul(%x, %v, transpose_b=False))",
    ),
    "too few": (transform.CombineParallelDense(3), ALIKE, f"({V}, {W})"),
}


def names(function: Function) -> list[str]:
    return [node.op.name for node in post_order(function) if isinstance(node, Call) and isinstance(node.op, Op)]


@pytest.mark.parametrize("name", MERGED)
def test_branches_are_combined_with_what_follows_them(name: str) -> None:
    pass_, signature, body, following = MERGED[name]
    before = program(signature, body)
    after = run(pass_, before)["main"]
    found = names(after)
    products = [each for each in found if each in ("nn.conv2d", "nn.dense", "nn.batch_matmul")]
    assert len(products) == 1
    assert sorted(found) == sorted([*products, *following.split(), *PARTS[pass_]])
    assert_equal_in_value(before["main"], after, exact=False, special=False)


@pytest.mark.parametrize("name", KEPT)
def test_other_branches_stay(name: str) -> None:
    pass_, signature, body = KEPT[name]
    module = program(signature, body)
    assert run(pass_, module)["main"] is module["main"]


def test_groups_are_combined_one_after_the_other() -> None:
    layer = "%0 = nn.dense(%x, %v); %1 = nn.dense(%x, %w); %2 = concatenate((%0, %1), axis=1); "
    before = program("%x: (4, 6), %v: (3, 6), %w: (3, 6)", f"{layer}(nn.dense(%2, %v), nn.dense(%2, %w))")
    after = run(FLAT, before)["main"]
    assert names(after).count("nn.dense") == 2
    assert_equal_in_value(before["main"], after, exact=False, special=False)


def test_groups_that_need_each_other() -> None:
    """Each group could be combined by itself; after the first, the second one no longer can."""
    signature = "%x: (4, 4), %y: (4, 4), %v: (4, 4), %w: (4, 4)"
    body = "%0 = nn.dense(%x, %v); %1 = nn.dense(%y, %w); (%0, %1, nn.dense(%x, %1), nn.dense(%y, %0))"
    before = program(signature, body)
    after = run(FLAT, before)["main"]
    assert names(after).count("nn.dense") == 3
    assert_equal_in_value(before["main"], after, exact=False, special=False)


def test_branches_of_if_stay() -> None:
    body = f"if (%b) {{ ({V}, {W}) }} else {{ ({W}, {V}) }}"
    module = program(f"{ALIKE}, %b: () bool", body)
    assert run(FLAT, module)["main"] is module["main"]


def test_the_form_of_relay() -> None:
    wanted = (
        "%0 = nn.batch_matmul(stack((%x, %x), axis=0), stack((%v, %w), axis=0)); %1 = split(%0, indices_or_sections=2, axis=0); "
        "(squeeze(%1.0, axis=[0]), squeeze(%1.1, axis=[0]))"
    )
    becomes(STACKED, ALIKE, f"({V}, {W})", wanted)


def test_state_is_not_kept() -> None:
    """A pass may run in several threads, and again."""
    for _ in range(2):
        after = run(FLAT, program(ROWS, f"({V}, {W})"))["main"]
        assert names(after) == ["concatenate", "nn.dense", "strided_slice", "strided_slice"]


def test_passes_have_the_names_and_levels_of_relay() -> None:
    passes: list[Pass] = [CONV, FLAT, BATCH]
    assert [(each.info.name, each.info.opt_level) for each in passes] == [
        ("CombineParallelConv2D", 4),
        ("CombineParallelDense", 4),
        ("CombineParallelBatchMatmul", 4),
    ]
