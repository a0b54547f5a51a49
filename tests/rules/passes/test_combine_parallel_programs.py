"""CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul on programs in text form."""

import re
from collections.abc import Callable

import pytest

from passat.passmgr import Pass
from passat.rules.passes.algebra import combine_parallel_batch_matmul, combine_parallel_conv2d, combine_parallel_dense
from tests.rules.passes.golden import folds

CHEAP = {"rules__cost": "nodes"}
IMAGE, ROWS, STACK = "%x: (1, 3, 8, 8)", "%x: (4, 6)", "%x: (2, 4, 6)"
SIZES = (2, 4, 3)


def branches(call: str) -> str:
    """A tuple of the call with each size."""
    return "(" + ", ".join(call.replace("#", str(size)) for size in SIZES) + ")"


def parts(call: str, axis: int) -> str:
    """The call with all sizes together, split again."""
    whole = call.replace("#", str(sum(SIZES)))
    return f"%0 = split({whole}, indices_or_sections=[2, 6], axis={axis}); (%0.0, %0.1, %0.2)"


CONV = "nn.conv2d(%x, full(2f, shape=[#, 3, 3, 3]), padding=[1, 1])"
DENSE = "nn.dense(%x, full(2f, shape=[#, 6]))"
BATCH = "nn.batch_matmul(%x, full(2f, shape=[2, #, 6]))"
PROGRAMS: dict[str, tuple[Callable[..., Pass], str, str, int]] = {
    "convolutions": (combine_parallel_conv2d, IMAGE, CONV, 1),
    "convolutions with biases": (combine_parallel_conv2d, IMAGE, f"nn.relu(nn.bias_add({CONV}, full(3f, shape=[#])))", 1),
    "convolutions with scales": (combine_parallel_conv2d, IMAGE, f"multiply({CONV}, full(3f, shape=[#, 1, 1]))", 1),
    "dense layers": (combine_parallel_dense, ROWS, DENSE, 1),
    "dense layers with biases": (combine_parallel_dense, ROWS, f"nn.bias_add({DENSE}, full(3f, shape=[#]), axis=-1)", 1),
    "dense layers with shifts": (combine_parallel_dense, ROWS, f"nn.relu(add({DENSE}, full(3f, shape=[#])))", 1),
    "stacks": (combine_parallel_batch_matmul, STACK, BATCH, 2),
    "stacks with shifts": (combine_parallel_batch_matmul, STACK, f"add({BATCH}, full(3f, shape=[#]))", 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_branches_are_parts_of_one(name: str) -> None:
    make, signature, call, axis = PROGRAMS[name]
    folds(make(), signature, branches(call), parts(re.sub(r"(full\([^()]*\))", r"copy(\1)", call), axis), **CHEAP)


@pytest.mark.parametrize(
    "pass_",
    [combine_parallel_conv2d(4), combine_parallel_dense(4), combine_parallel_batch_matmul(4), combine_parallel_dense(4, to_batch=True)],
    ids=lambda pass_: pass_.info.name,
)
@pytest.mark.parametrize(("signature", "call"), [(IMAGE, CONV), (ROWS, DENSE), (STACK, BATCH)])
def test_too_few_branches_stay(pass_: Pass, signature: str, call: str) -> None:
    folds(pass_, signature, branches(call), branches(call), **CHEAP)


@pytest.mark.parametrize("attribute", ["strides=[2, 2]", "dilation=[2, 2]", "padding=[0, 0, 1, 1]", "groups=3"])
def test_branches_whose_attributes_differ_stay(attribute: str) -> None:
    inputs = 1 if attribute.startswith("groups") else 3
    odd = f"nn.conv2d(%x, full(2f, shape=[3, {inputs}, 3, 3]), {attribute})"
    body = "(" + ", ".join([odd, *(f"nn.conv2d(%x, full({size}f, shape=[{size}, 3, 3, 3]))" for size in (2, 4))]) + ")"
    folds(combine_parallel_conv2d(), IMAGE, body, body, **CHEAP)


def test_relay_joins_what_is_added_along_the_last_axis() -> None:
    """In Relay's form the axis of the concatenated vectors counts from the end."""
    body = "(add(nn.batch_matmul(%x, %v), %b), add(nn.batch_matmul(%x, %w), %c))"
    whole = "add(nn.batch_matmul(%x, concatenate((%v, %w), axis=1)), concatenate((%b, %c), axis=-1))"
    parts = "strided_slice(%0, begin=[0, 0, 0], end=[9223372036854775807, 9223372036854775807, 3])"
    rest = "strided_slice(%0, begin=[0, 0, 3], end=[9223372036854775807, 9223372036854775807, 8])"
    operands = f"{STACK}, %v: (2, 3, 6), %w: (2, 5, 6), %b: (3,), %c: (5,)"
    folds(combine_parallel_batch_matmul(2, always=True), operands, body, f"%0 = {whole}; ({parts}, {rest})")
