"""Rules on layouts with blocks: each on a program where it holds, and on one where it does not."""

from collections.abc import Callable

import pytest

from passat.ir.expr import Expr
from passat.rules.library import SinkBlocks
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import ops, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs

blocked = var("x", (2, 2, 3, 5, 4))
image, other = var("image", (2, 8, 3, 5)), var("other", (2, 8, 3, 5))
STAYS = "does not join blocks"


def change(x: Expr, source: str, target: str) -> Expr:
    made: Expr = ops.layout_transform(x, src_layout=source, dst_layout=target)
    return made


LEFT = "the result has the layout"


def whole(target: str = "NCHW") -> Expr:
    """The data in blocks of four channels, with whole axes."""
    return change(blocked, "NCHW4c", target)


def rearranged() -> Expr:
    """Data with whole axes in blocks of two channels."""
    return change(image, "NCHW", "NCHW2c")


def meetings() -> dict[str, Case]:
    back, halved = change(whole(), "NCHW", "NCHW4c"), change(whole(), "NCHW", "NCHW2c")
    others = change(change(image, "NCHW", "NCHW4c"), "ABDE4b", "ADEB")
    through = change(change(image, "NCHW", "NCHW4c"), "NCHW4c", "NHWC")
    turned = ops.transpose(image, axes=(0, 2, 3, 1))
    return {
        "SinkBlocks.merge[same]": case(back, halved, "NCHW4c becomes NCHW2c"),
        "SinkBlocks.merge[blocks]": case(halved, through, "NCHW becomes NHWC"),
        "SinkBlocks.merge[whole_axes]": case(others, back, "NCHW4c becomes NCHW4c"),
        "SinkBlocks.before": case(
            change(turned, "NHWC", "NCHW4c"), change(ops.transpose(blocked, axes=(1, 0, 2, 3, 4)), "NCHW4c", "NCHW"), "has blocks"
        ),
        "SinkBlocks.after": case(
            ops.transpose(whole(), axes=(0, 2, 3, 1)), ops.transpose(rearranged(), axes=(1, 0, 2, 3, 4)), "has blocks"
        ),
    }


def one_operand() -> dict[str, Case]:
    calls: dict[str, Callable[[Expr], Expr]] = {
        "unary": ops.nn.relu,
        "total[kept]": lambda x: ops.sum(x, axis=-1, keepdims=True),
    }
    found = {f"SinkBlocks.{name}": case(call(whole()), call(rearranged()), STAYS) for name, call in calls.items()}
    found["SinkBlocks.total[lost]"] = case(ops.min(whole(), axis=1), ops.min(whole("NHWC"), axis=0), LEFT)
    bits = tuple(change(var("bits", (2, 2, 3, 4, 4), "bool"), "NCHW4c", target) for target in ("NCHW", "NHWC"))
    halved = change(var("bits", (2, 8, 3, 4), "bool"), "NCHW", "NCHW2c")
    found["SinkBlocks.quantifier[kept]"] = case(ops.any(bits[0], axis=(2, 3)), ops.any(halved, axis=(2, 3)), STAYS)
    found["SinkBlocks.quantifier[lost]"] = case(ops.all(bits[0], axis=1), ops.all(bits[1], axis=0), LEFT)
    for i, part in enumerate(("first", "second", "third", "fourth")):
        parts, pieces = (ops.split(whole(), indices_or_sections=at, axis=1)[i] for at in ((0, 4, 8), (2, 4, 8)))
        found[f"SinkBlocks.split[{part}]"] = case(parts, pieces, "divides a block of 4")
    blocks, cut = (ops.strided_slice(whole(), begin=(begin, 0), end=(8, 2), axes=(1, 2)) for begin in (4, 2))
    found["SinkBlocks.slice"] = case(blocks, cut, "not a whole number of blocks")
    around, within = (ops.nn.pad(whole(), pad_width=[(0, 0), (0, end), (1, 2), (0, 1)]) for end in (0, 4))
    found["SinkBlocks.pad"] = case(around, within, "is padded")
    return found


def poolings() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for kind in ("max", "avg"):
        windowed, everywhere = getattr(ops.nn, f"{kind}_pool2d"), getattr(ops.nn, f"global_{kind}_pool2d")
        rows = change(var("rows", (2, 8, 3, 5, 2)), "NCHW2w", "NCHW")
        found[f"SinkBlocks.{kind}_pool[moving]"] = case(
            windowed(whole("NHWC"), pool_size=(2, 2), layout="NHWC"), windowed(rows, pool_size=(2, 2)), "an axis that is pooled"
        )
        found[f"SinkBlocks.{kind}_pool[whole]"] = case(everywhere(whole()), everywhere(rows), "an axis that is pooled")
    return found


def two_operands() -> dict[str, Case]:
    found: dict[str, Case] = {}
    thin, number, unknown = var("thin", (8, 1, 1)), var("number", (1,)), var("unknown", (2, "c", 3, 5))
    for name, made in (
        ("binary[left, ", lambda a, b: a - b),
        ("binary[right, ", lambda a, b: b / a),
        ("extremum[left, ", ops.maximum),
        ("extremum[right, ", lambda a, b: ops.minimum(b, a)),
    ):
        found[f"SinkBlocks.{name}alike]"] = case(made(whole(), image), made(whole(), unknown), "is not known to have the sizes")
        found[f"SinkBlocks.{name}wider]"] = case(made(whole(), thin), made(whole(), image), "has 4 axes")
        found[f"SinkBlocks.{name}number]"] = case(made(whole(), number), made(whole(), thin), "is not a single number")
    return found


CASES = {
    **meetings(),
    **one_operand(),
    **poolings(),
    **two_operands(),
    "SinkBlocks.repeat": case(ops.repeat(whole(), repeats=2, axis=-1), ops.repeat(whole(), repeats=2, axis=1), "has blocks along C"),
    "SinkBlocks.concat": case(
        ops.concatenate(tup(whole(), image, other), axis=1),
        ops.concatenate(tup(whole(), var("few", (2, 6, 3, 5))), axis=1),
        "does not consist of blocks of 4",
    ),
}
PAIRS = pairs(CASES, SinkBlocks)


@pytest.mark.parametrize(("rules", "rule", "example"), PAIRS, ids=[rule.name for _, rule, _ in PAIRS])
def test_a_rule_holds_and_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)
    check_rejects(rules, rule, example)
