"""Rules that recover attention and rotary positions: each on a program that it rewrites, and on one that it does not."""

import numpy as np

from passat.ir.expr import Expr, Function
from passat.rules.library import Transposes, Views
from passat.rules.library.attention import Attention
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import assert_equal_in_value, operators, saturate

q, k, v = var("q", (2, 4, 3, 6)), var("k", (2, 4, 6, 5)), var("v", (2, 4, 5, 6))
mask = var("mask", (2, 1, 3, 5), "bool")
added, twice = var("added", (1, 4, 3, 5)), var("twice", (2, 1, 1, 5))
table = numbers((1, 4, 3, 5))
LOWEST = float(np.finfo(np.float32).min)


def chosen(low: float, high: float = 0.0, where: Expr = mask) -> Expr:
    return ops.where(where, splat(high), splat(low))  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def scores(scaled: bool) -> Expr:
    found = ops.nn.matmul(q, k)
    return found * splat(0.25) if scaled else found  # type: ignore[no-any-return]  # as above


def attend(of: Expr, axis: int = -1) -> Expr:
    return ops.nn.matmul(ops.nn.softmax(of, axis=axis), v)  # type: ignore[no-any-return]  # as above


def guarded(of: Expr) -> Expr:
    weights = ops.nn.softmax(of)
    return ops.nn.matmul(ops.where(ops.isnan(weights), splat(0.0), weights), v)  # type: ignore[no-any-return]  # as above


def cut(of: Expr) -> Expr:
    return ops.nn.matmul(ops.nn.thresholded_relu(ops.nn.softmax(of), alpha=0.0), v)  # type: ignore[no-any-return]  # as above


def _attentions() -> dict[str, Case]:
    found: dict[str, Case] = {}
    flat_q = var("flat", (4, 3, 6))
    for scale, scaled in (("one", False), ("scaled", True)):
        of = scores(scaled)
        plain = ops.nn.matmul(flat_q, var("k3", (4, 6, 5)))
        alone = plain * splat(0.25) if scaled else plain
        made = {
            "with_constant_mask[none": case(
                attend(of), ops.nn.matmul(ops.nn.softmax(alone), var("v3", (4, 5, 6))), "are not attention heads with known sizes"
            ),
            "with_constant_mask[chosen": case(attend(of + chosen(-9.0)), attend(of + chosen(-9.0, 1.0)), "not 0"),
            "with_guarded_rows[nan": case(guarded(of + chosen(float("-inf"))), guarded(of + chosen(-9.0)), "is not -infinity"),
            "with_guarded_rows[threshold": case(cut(of + chosen(float("-inf"))), cut(of + chosen(-9.0)), "is not -infinity"),
            "with_constant_mask[biased": case(attend(of + table), attend(of + splat(float("inf"), (1, 4, 3, 5))), "infinite"),
            "with_constant_mask[biased_chosen": case(
                attend((of + table) + chosen(-9.0)), attend((of + table) + chosen(-9.0, 1.0)), "not 0"
            ),
            "with_constant_mask[chosen_biased": case(
                attend(of + (table + chosen(-9.0))),
                attend(of + (splat(LOWEST, (1, 4, 3, 5)) + chosen(LOWEST))),
                "leaves the range of float32",
            ),
            "with_mask[added": case(attend(of + added), attend(of + var("line", (5,))), "is not a mask with four dimensions"),
            "with_mask[added_twice": case(
                attend((of + added) + twice), attend((of + var("line", (5,))) + var("other", (3, 5))), "is not a mask with four"
            ),
        }
        found |= {f"Attention.{name}, {scale}]".replace("[, ", "["): example for name, example in made.items()}
    return found


def repeated(heads: Expr, times: int = 2) -> Expr:
    batch, count, rows, size = 2, 2, 5, 6
    wide = ops.broadcast_to(ops.expand_dims(heads, axis=2), shape=(batch, count, times, rows, size))
    split = ops.reshape(wide, newshape=(batch, count * times, rows, size))
    return ops.reshape(ops.transpose(split, axes=(0, 2, 1, 3)), newshape=(batch, rows, -1))  # type: ignore[no-any-return]  # as above


def swapped(heads: Expr) -> Expr:
    """The keys of each head next to those of the other: another order."""
    wide = ops.broadcast_to(ops.expand_dims(heads, axis=1), shape=(2, 3, 2, 5, 6))
    split = ops.reshape(wide, newshape=(2, 6, 5, 6))
    return ops.reshape(ops.transpose(split, axes=(0, 2, 1, 3)), newshape=(2, 5, -1))  # type: ignore[no-any-return]  # as above


def shared(key: Expr, value: Expr, heads: int) -> Expr:
    rows = var("rows", (2, 3, 6 * heads))
    return ops.nn.attention(rows, key, value, tup(), q_num_heads=heads, kv_num_heads=heads, scale=0.4)  # type: ignore[no-any-return]  # `ops`


keys, values = var("keys", (2, 2, 5, 6)), var("values", (2, 2, 5, 6))
angles = np.random.default_rng(0).normal(size=(1, 1, 3, 3))
cos, sin = const(np.cos(np.concatenate([angles] * 2, -1))), const(np.sin(np.concatenate([angles] * 2, -1)))
uneven = numbers((1, 1, 3, 6))


def rotated(a: Expr, c: Expr, middle: int = 3) -> Expr:
    first = ops.strided_slice(a, begin=(0,), end=(middle,), strides=(1,), axes=(3,))
    second = ops.strided_slice(a, begin=(middle,), end=(2**63 - 1,), strides=(1,), axes=(3,))
    return a * c + ops.concatenate(tup(-second, first), axis=-1) * sin  # type: ignore[no-any-return]  # as above


def rotated_parts(a: Expr, c: Expr) -> Expr:
    parts = ops.split(a, indices_or_sections=2, axis=3)
    return a * c + ops.concatenate(tup(-parts[1], parts[0]), axis=3) * sin  # type: ignore[no-any-return]  # as above


half = splat(0.5)
three = var("three", (4, 3, 6))
CASES: dict[str, Case] = {
    **_attentions(),
    "Attention.scaled_operand[queries]": case(
        ops.nn.matmul(q * half, k), ops.nn.matmul(three * half, k), "q.ndim == 4: 3 == 4 does not hold"
    ),
    "Attention.scaled_operand[keys]": case(ops.nn.matmul(q, k * half), ops.nn.matmul(three, k * half), "q.ndim == 4: 3 == 4 does not hold"),
    "Attention.divided_scores": case(ops.nn.matmul(q, k) / half, ops.nn.matmul(q, k) / splat(0.0), "is 0"),
    "Attention.shared_heads": case(
        shared(repeated(keys), repeated(values), 4), shared(swapped(keys), swapped(values), 6), "does not repeat the heads"
    ),
    "Attention.rotary[sliced]": case(rotated(q, cos), rotated(q, uneven), "the halves of the factors differ"),
    "Attention.rotary[split]": case(rotated_parts(q, cos), rotated_parts(q, uneven), "the halves of the factors differ"),
}
TABLE = pairs(CASES, Attention)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_copies_for_all_heads_may_be_reordered() -> None:
    """Two copies of two heads, as whole copies side by side: their shapes equal those of heads next to their copies."""
    wide = [ops.broadcast_to(ops.expand_dims(heads, axis=1), shape=(2, 2, 2, 5, 6)) for heads in (keys, values)]
    joined = [ops.transpose(ops.reshape(heads, newshape=(2, 4, 5, 6)), axes=(0, 2, 1, 3)) for heads in wide]
    key, value = (ops.reshape(heads, newshape=(2, 5, -1)) for heads in joined)
    function = func(shared(key, value, 4))
    outcome = saturate(function, Attention)
    assert outcome.function is function
    assert any("does not repeat the heads" in remark for remark in outcome.remarks)


def split_heads(rows: Expr, axes: tuple[int, ...]) -> Expr:
    return ops.transpose(ops.reshape(rows, newshape=(2, 3, 4, 6)), axes=axes)  # type: ignore[no-any-return]  # as above


def network(with_mask: Expr | None = None) -> Function:
    """Attention as exporters write it, on stacks of rows."""
    rows = [var(name, (2, 3, 24)) for name in "abc"]
    found = ops.nn.matmul(split_heads(rows[0], (0, 2, 1, 3)), split_heads(rows[1], (0, 2, 3, 1))) * splat(0.4)
    weights = ops.nn.softmax(found if with_mask is None else found + with_mask)
    joined = ops.transpose(ops.nn.matmul(weights, split_heads(rows[2], (0, 2, 1, 3))), axes=(0, 2, 1, 3))
    return func(ops.reshape(joined, newshape=(2, 3, 24)))


def test_heads_are_neither_split_off_nor_put_together() -> None:
    function = network()
    outcome = saturate(function, Attention, Views, Transposes)
    assert operators(outcome.function) == ["nn.attention"]
    assert_equal_in_value(function, outcome.function, exact=False)


def test_the_lowest_number_in_a_mask_becomes_the_next_one() -> None:
    """ONNX Runtime treats the lowest number as minus infinity."""
    full = var("full", (2, 1, 3, 3), "bool")
    outcome = saturate(network(chosen(LOWEST, where=full)), Attention, Views, Transposes, ConstantFolding)
    text = str(outcome.function)
    assert "nn.attention" in text
    assert "-3.4028233e+38" in text
    assert "-3.4028235e+38" not in text


def test_a_mask_gets_a_row_for_each_query() -> None:
    line = var("line", (2, 1, 1, 3), "bool")
    outcome = saturate(network(chosen(-9.0, where=line)), Attention, Views, Transposes, ConstantFolding)
    assert operators(outcome.function) == ["where", "broadcast_to", "nn.attention"]


def test_softmax_over_queries_is_not_attention() -> None:
    function = func(attend(scores(True), axis=2))
    assert saturate(function, Attention).function is function
