"""Rules that expand an operator: each on a program that it rewrites, and on one that it does not."""

from typing import Any as AnyValue

from passat.ir.expr import Expr
from passat.rules.library import Decompositions, FastMath
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import operators, saturate

x, image, last = var("x"), var("image", (2, 4, 3, 3)), var("last", (2, 3, 3, 4))
half, wide = var("h", (2, 4, 3), "float16"), var("w", (2, 3), "float64")
vectors = [numbers((4,), seed=seed) for seed in range(4)]


def batch_norm(of: Expr, axis: int, **attrs: AnyValue) -> Expr:
    return ops.nn.batch_norm(of, *vectors, axis=axis, **attrs)[0]  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def halves(kind: str, **attrs: AnyValue) -> Expr:
    """A normalization of 16-bit floats whose channels are axis 1 or the last axis."""
    size = 3 if attrs.get("axis", 1) in (2, -1) else 4
    parts = [numbers((size,), "float16", seed) for seed in range(2)]
    return getattr(ops.nn, kind)(half, *parts, **attrs)  # type: ignore[no-any-return]  # as above


def batch_norm_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for name, attrs in {"both": {}, "beta": {"scale": False}, "gamma": {"center": False}}.items():
        found[f"Decompositions.batch_norm[{name}, inner]"] = case(
            batch_norm(image, 1, **attrs), batch_norm(last, 3, **attrs), "the channels are axis 3"
        )
        found[f"Decompositions.batch_norm[{name}, last]"] = case(
            batch_norm(last, 3, **attrs), batch_norm(image, 1, **attrs), "the channels are axis 1"
        )
    bare = {"scale": False, "center": False}
    found["Decompositions.batch_norm[neither, inner]"] = case(
        batch_norm(image, 1, **bare), batch_norm(last, -1, **bare), "the channels are axis -1"
    )
    found["Decompositions.batch_norm[neither, last]"] = case(
        batch_norm(last, -1, **bare), batch_norm(image, 1, **bare), "the channels are axis 1"
    )
    return found


row = [numbers((3,), seed=seed) for seed in range(2)]
narrow = [numbers((3,), "float16", seed) for seed in range(2)]
CASES = {
    **batch_norm_cases(),
    "Decompositions.layer_norm[beta]": case(ops.nn.layer_norm(x, *row), ops.nn.layer_norm(half, *narrow), "float16 is computed in float32"),
    "Decompositions.layer_norm[none]": case(
        ops.nn.layer_norm(x, row[0], tup()), ops.nn.layer_norm(half, narrow[0], tup()), "float16 is computed in float32"
    ),
    "Decompositions.instance_norm[inner]": case(
        ops.nn.instance_norm(image, *vectors[:2]), halves("instance_norm"), "float16 is computed in float32"
    ),
    "Decompositions.instance_norm[last]": case(
        ops.nn.instance_norm(last, *vectors[:2], axis=3), halves("instance_norm", axis=2), "float16 is computed in float32"
    ),
    "Decompositions.group_norm[inner]": case(
        ops.nn.group_norm(image, *vectors[:2], num_groups=2), halves("group_norm", num_groups=2), "float16 is computed in float32"
    ),
    "Decompositions.group_norm[last]": case(
        ops.nn.group_norm(last, *vectors[:2], num_groups=2, axis=3),
        halves("group_norm", num_groups=3, axis=2),
        "float16 is computed in float32",
    ),
    "Decompositions.l2_normalize": case(
        ops.nn.l2_normalize(x, eps=1e-3, axis=(1,)), ops.nn.l2_normalize(half, eps=1e-3, axis=(1,)), "float16 is computed in float32"
    ),
    "Decompositions.bias_add[inner]": case(
        ops.nn.bias_add(image, vectors[0]), ops.nn.bias_add(last, vectors[0], axis=3), "the channels are axis 3"
    ),
    "Decompositions.bias_add[last]": case(
        ops.nn.bias_add(last, vectors[0], axis=3), ops.nn.bias_add(image, vectors[0]), "the channels are axis 1"
    ),
    "FastMath.reciprocal": case(x / splat(1.5), x / splat(0.0), "an element has no reciprocal in range"),
    "FastMath.exp": case(ops.exp(x), ops.exp(wide), "the elements are float64, not float32"),
    "FastMath.approximated[tanh]": case(ops.tanh(x), ops.tanh(wide), "the elements are float64, not float32"),
    "FastMath.approximated[erf]": case(ops.erf(x), ops.erf(wide), "the elements are float64, not float32"),
    "FastMath.approximated[softmax]": case(ops.nn.softmax(x), ops.nn.softmax(wide), "the elements are float64, not float32"),
}


CASES |= {"Decompositions.dropout": case(ops.nn.dropout(x)[0] * x, ops.nn.dropout(x)[1] * x, "the field is 1, not 0")}


TABLE = pairs(CASES, Decompositions, FastMath)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_an_epsilon_that_vanishes_keeps_its_normalization() -> None:
    parts = [numbers((4,), "float16", seed) for seed in range(4)]
    body = ops.nn.batch_norm(half, *parts, epsilon=1e-12)[0]
    outcome = saturate(func(body), Decompositions, rules__math="finite")
    assert operators(outcome.function) == ["nn.batch_norm"]
    assert any("epsilon=1e-12 is 0 as float16" in remark for remark in outcome.remarks)


def test_groups_of_unknown_sizes_stay() -> None:
    body = ops.nn.group_norm(var("v", ("n", 4, 3)), *vectors[:2], num_groups=2)
    outcome = saturate(func(body), Decompositions)
    assert operators(outcome.function) == ["nn.group_norm"]
    assert any("may be empty" in remark or "is not static" in remark for remark in outcome.remarks)


def test_every_dropout_is_removed() -> None:
    body = x
    for rate in (0.1, 0.1, 0.5):
        body = ops.nn.relu(ops.nn.dropout(body, rate=rate)[0])
    assert operators(saturate(func(body), Decompositions).function) == ["nn.relu"] * 3


def test_a_mask_that_is_used_keeps_its_dropout() -> None:
    both = ops.nn.dropout(x)
    outcome = saturate(func(tup(both[0], both[1])), Decompositions)
    assert operators(outcome.function) == ["nn.dropout"]
