"""Rules on layouts and on transposes that move: each on a program that it rewrites, and on one that it does not."""

from collections.abc import Callable

import pytest

from passat.ir.expr import Expr
from passat.rules.library import ChannelsFirst, ChannelsLast, MoveTransposes
from passat.rules.library.commuting import MOST
from passat.rules.library.layouts import CONVOLUTIONS, POOLINGS, check_layouts, conversion, kernel_layout
from passat.rules.pattern import RuleError
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import func, numbers, ops, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs
from tests.rules.running import assert_equal_in_value, saturate

SIZES = (4, 5, 3)
vector, spread = var("v", (4,)), var("s", (4,))
image, other = var("x", (2, 4, 5, 3)), var("y", (2, 4, 5, 3))
last, last_other = var("last", (2, 5, 3, 4)), var("last_other", (2, 5, 3, 4))
mask = var("mask", (2, 4, 5, 3), "bool")
NO_CHANGE = "does not change the layout"


def first(x: Expr) -> Expr:
    """NHWC to NCHW."""
    made: Expr = ops.transpose(x, axes=(0, 3, 1, 2))
    return made


def turned(x: Expr) -> Expr:
    """NCHW to NHWC."""
    made: Expr = ops.transpose(x, axes=(0, 2, 3, 1))
    return made


def heads(x: Expr) -> Expr:
    """Axes 1 and 2 exchanged, as in attention."""
    made: Expr = ops.transpose(x, axes=(0, 2, 1, 3))
    return made


def rank_of(name: str) -> int:
    """The number of spatial dimensions of an operator."""
    return int(name[-2] if name in POOLINGS else name.removeprefix("nn.conv")[0])


def laid_out(name: str, *, channels_last: bool) -> Expr:
    """A convolution or pooling in one of the two layouts."""
    of = ops
    for part in name.split("."):
        of = getattr(of, part)
    rank = rank_of(name)
    x = var("image", (2, *SIZES[:rank], 4) if channels_last else (2, 4, *SIZES[:rank]))
    places = "DHW"[3 - rank :]
    layout = f"N{places}C" if channels_last else f"NC{places}"
    if name in POOLINGS:
        sizes = "output_size" if "adaptive" in name else "size" if "resize" in name else "pool_size"
        attrs = {} if "global" in name else {sizes: (2,) * rank}
        pool: Expr = of(x, layout=layout, **attrs)
        return pool
    shape = {"N": 2, "I": 4, "O": 3, **dict.fromkeys(places, 2)}
    kernel = kernel_layout(name, layout, "default", depthwise=False)
    whole: Expr = of(x, numbers([shape[letter] for letter in kernel]), data_layout=layout, kernel_layout=kernel)
    return whole


def conversion_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for name in (*CONVOLUTIONS, *POOLINGS):
        key = f"{'pooling' if name in POOLINGS else 'convolution'}[{name}]"
        ahead, behind = laid_out(name, channels_last=False), laid_out(name, channels_last=True)
        found[f"ChannelsLast.{key}"] = case(ahead, behind, "already")
        found[f"ChannelsFirst.{key}"] = case(behind, ahead, "already")
    return found


def one_operand() -> dict[str, Case]:
    """Operators with one tensor operand whose axes are attributes."""
    calls: dict[str, Callable[..., Expr]] = {
        "along[along, nn.bias_add]": (lambda x, c: ops.nn.bias_add(x, vector, axis=c)),
        "along[batch_norm]": (lambda x, c: ops.nn.batch_norm(x, vector, spread, vector, ops.abs(spread), axis=c)[0]),
        "norm[nn.group_norm]": (lambda x, c: ops.nn.group_norm(x, vector, spread, num_groups=2, axis=c)),
        "along[along, nn.lrn]": (lambda x, c: ops.nn.lrn(x, axis=c)),
        "norm[nn.lp_normalize]": (lambda x, c: ops.nn.lp_normalize(x, axis=c)),
        "windows[pad]": (lambda x, c: ops.nn.pad(x, pad_width=[(0, 0) if axis in (0, c) else (1, axis) for axis in range(4)])),
        "slice": (lambda x, c: ops.strided_slice(x, begin=(1, 0), end=(3, 1), axes=(c, 0))),
        **{
            f"split[{part}]": (lambda x, c, i=i: ops.split(x, indices_or_sections=4, axis=c)[i])
            for i, part in enumerate(("first", "second", "third", "fourth"))
        },
    }
    found: dict[str, Case] = {}
    for name, call in calls.items():
        plain = (call(image, 1), "")
        if name == "norm[nn.group_norm]":
            moved = ops.transpose(var("z", (5, 4, 2, 3)), axes=(2, 1, 0, 3))
            plain = (call(moved, 1), "moves the first axis")
        found[f"MoveTransposes.sink_{name}"] = case(call(first(last), 1), *plain)
        found[f"MoveTransposes.hoist_{name}"] = case(turned(call(image, 1)), heads(call(image, 1)), NO_CHANGE)
    whole, back = laid_out("nn.max_pool2d", channels_last=False), first(var("m", (2, 4, 5, 4)))
    found["MoveTransposes.sink_windows[pool]"] = case(ops.nn.max_pool2d(back, pool_size=(2, 2)), whole, "")
    found["MoveTransposes.hoist_windows[pool]"] = case(turned(whole), heads(whole), NO_CHANGE)
    return found


def reductions() -> dict[str, Case]:
    found: dict[str, Case] = {}
    bits = var("bits", (2, 5, 3, 4), "bool")
    for name, of, whole in (("quantifier", ops.any, bits), ("total", ops.max, last), ("place", ops.argmin, last)):
        found[f"MoveTransposes.sink_{name}"] = case(of(first(whole), axis=2), of(whole, axis=2), "")
    thin = var("thin", ("n", 1, 3, 4))
    found["MoveTransposes.sink_squeeze"] = case(ops.squeeze(first(thin), axis=2), ops.squeeze(thin, axis=1), "")
    return found


def two_operands() -> dict[str, Case]:
    """Operators that broadcast two operands."""
    found: dict[str, Case] = {}
    thin, number = var("thin", (4, 1, 1)), var("number", (1,))
    calls: dict[str, Callable[..., Expr]] = {
        "left[": (lambda a, b: a + b),
        "right[": (lambda a, b: b - a),
        "extremum[": ops.maximum,
    }
    for name, made in calls.items():
        found[f"MoveTransposes.sink_{name}alike]"] = case(made(first(last), image), made(heads(last), var("h", (2, 3, 5, 4))), NO_CHANGE)
        found[f"MoveTransposes.sink_{name}wider]"] = case(made(first(last), thin), made(first(last), number), "is a single number")
        found[f"MoveTransposes.sink_{name}number]"] = case(made(first(last), number), made(first(last), thin), "is not a single number")
        found[f"MoveTransposes.hoist_{name}wider]"] = case(turned(made(image, thin)), turned(made(image, number)), "is a single number")
        found[f"MoveTransposes.hoist_{name}number]"] = case(
            turned(made(image, number)), turned(made(image, thin)), "is not a single number"
        )
        if name != "right[":
            found[f"MoveTransposes.hoist_{name}alike]"] = case(turned(made(image, other)), turned(made(image, thin)), "the ranks differ")
    prelu = ops.nn.prelu
    flat = var("flat", (1, 4, 1, 1))
    found["MoveTransposes.sink_prelu[alike]"] = case(prelu(first(last), flat), prelu(first(last), thin), "the ranks differ")
    found["MoveTransposes.sink_prelu[wider]"] = case(prelu(first(last), thin), prelu(first(last), number), "is a single number")
    found["MoveTransposes.sink_prelu[number]"] = case(prelu(first(last), number), prelu(first(last), thin), "is not a single number")
    return found


def several_operands() -> dict[str, Case]:
    found: dict[str, Case] = {}
    exchanged = var("e", (2, 3, 5, 4))
    for name, before, behind in (("MoveTransposes.sink_concat[few]", 1, 1), ("MoveTransposes.sink_concat[many]", 0, MOST)):
        parts = [*[other] * before, first(last), *[other] * behind]
        others = [*[exchanged] * before, heads(last), *[exchanged] * behind]
        found[name] = case(ops.concatenate(tup(*parts), axis=1), ops.concatenate(tup(*others), axis=1), NO_CHANGE)
    for name, count in (("MoveTransposes.hoist_concat[2]", 3), ("MoveTransposes.hoist_concat[31]", 32)):
        whole = ops.concatenate(tup(*[image] * count), axis=-3)
        found[name] = case(turned(whole), heads(whole), NO_CHANGE)
    row = var("row", (1, 3), "bool")
    thin = var("thin", (4, 1, 1))
    found["MoveTransposes.sink_sum"] = case(
        ops.elemwise_sum(tup(other, first(last), other)), ops.elemwise_sum(tup(other, first(last), thin)), "the ranks differ"
    )
    found["MoveTransposes.hoist_sum"] = case(
        turned(ops.elemwise_sum(tup(image, image, other))), turned(ops.elemwise_sum(tup(image, other, thin))), "the ranks differ"
    )
    found["MoveTransposes.sink_where[then]"] = case(
        ops.where(mask, first(last), image), ops.where(row, first(last), image), "the ranks differ"
    )
    found["MoveTransposes.sink_where[otherwise]"] = case(
        ops.where(mask, image, first(last)), ops.where(row, image, first(last)), "the ranks differ"
    )
    return found


CASES = {
    **conversion_cases(),
    **one_operand(),
    **reductions(),
    **two_operands(),
    **several_operands(),
    "MoveTransposes.before_reshape": case(
        ops.reshape(first(last), newshape=(2, 2, 2, 5, 3)), ops.reshape(heads(last), newshape=(2, 3, 20)), "channels of an image separate"
    ),
}
PAIRS = pairs(CASES, ChannelsLast, ChannelsFirst, MoveTransposes)


@pytest.mark.parametrize(("rules", "rule", "example"), PAIRS, ids=[rule.name for _, rule, _ in PAIRS])
def test_a_rule_holds_and_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)
    check_rejects(rules, rule, example)


@pytest.mark.parametrize("kernel", ["OIHW", "HWIO", "OHWI", "HWOI"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "HWNC", "CHWN"])
def test_any_order_of_the_letters(layout: str, kernel: str) -> None:
    rules = RuleSetMeta("Chosen", (), {"conv2d": conversion("nn.conv2d", layout, kernel)})
    for groups in (1, 2, 4):
        before = func(ops.nn.conv2d(image, numbers((4, 4 // groups, 2, 2)), groups=groups, padding=(1, 0), strides=(1, 2)))
        after = saturate(before, rules)
        assert after.fired("Chosen.conv2d") or (layout, kernel) == ("NCHW", "OIHW")
        assert_equal_in_value(before, after.function, exact=True)


def test_the_kernel_layout_for_a_data_layout() -> None:
    for name, data_layout, depthwise, kernel in (
        ("nn.conv2d", "NHWC", False, "HWIO"),
        ("nn.conv2d", "NHWC", True, "HWOI"),
        ("nn.conv2d", "NCHW", True, "OIHW"),
        ("nn.conv2d", "HWNC", False, "HWOI"),
        ("nn.conv1d", "NWC", True, "WIO"),
        ("nn.conv3d", "NDHWC", False, "DHWIO"),
        ("nn.conv2d_transpose", "NHWC", False, "HWIO"),
        ("nn.conv2d_transpose", "NCHW", False, "IOHW"),
    ):
        assert kernel_layout(name, data_layout, "default", depthwise=depthwise) == kernel


@pytest.mark.parametrize(
    ("name", "data_layout", "kernel", "message"),
    [
        ("nn.dense", "NHWC", "default", "nn.dense has no layouts; those that have are nn.conv1d"),
        ("nn.conv2d", "NCHW4c", "default", "the layout 'NCHW4c' is not a permutation of the letters NCHW"),
        ("nn.conv2d", "NHWC", "HWI", "the layout 'HWI' is not a permutation of the letters OIHW"),
        ("nn.conv2d", "CHWN", "default", "there is no default kernel layout for the data layout CHWN; name one"),
        ("nn.max_pool2d", "NHWC", "HWIO", "nn.max_pool2d has no kernel"),
    ],
)
def test_unknown_layouts(name: str, data_layout: str, kernel: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        check_layouts(name, data_layout, kernel)
