"""Rules that unify the forms of different exporters: each on a program that it rewrites, and on one that it does not."""

import pytest

from passat.ir.expr import Expr, Function
from passat.ir.shape import ANY
from passat.rules.library import CreationOps, DynamicViews, Masks, TargetForms
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import Rule, without_operators
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_rejects, check_rewrites, pairs
from tests.rules.running import assert_equal_in_value, operators, saturate

mask = var("mask", ("b", "s"))
heads = var("heads", ("b", 4, "s", 8))
unnamed = var("unnamed", (ANY, ANY))
x, row = var("x", (4, 3)), var("row", (3,))
ids = var("ids", (3,), "int64")
fixed, other = var("fixed", ("b", 4, 5, 8)), var("other", ("b", 4, 5, 8))
OUT_OF_RANGE = -float("inf")


def size(of: Expr, axis: int) -> Expr:
    """One dimension of a tensor, as a scalar."""
    return ops.squeeze(ops.shape_of(of, start=axis, end=axis + 1), axis=(0,))  # type: ignore[no-any-return]  # `ops` has no static types


def vector(*parts: Expr | int) -> Expr:
    """A shape vector of dimensions and numbers."""
    fields = (const([part], "int64") if isinstance(part, int) else ops.expand_dims(part, axis=(0,)) for part in parts)
    return ops.concatenate(tup(*fields), axis=0)  # type: ignore[no-any-return]  # as above


def counted(count: Expr, newshape: tuple[int, ...], start: int = 0) -> Expr:
    """An arange along one of several axes."""
    return ops.reshape(ops.arange(const(start, "int64"), count, const(1, "int64")), newshape=newshape)  # type: ignore[no-any-return]  # as above


batch, sequence = size(mask, 0), size(mask, 1)
samples, places = counted(batch, (-1, 1, 1, 1)), counted(sequence, (1, 1, 1, -1))
flat = ops.reshape(mask, newshape=(-1, 1))


def rows(step: Expr) -> Expr:
    return ops.take(flat, samples * step + places, axis=0)  # type: ignore[no-any-return]  # as above


def channels(numbers_: list[int], step: int) -> Expr:
    data = var("data", ("b", 3))
    first = counted(size(data, 0), (-1, 1)) * const(step, "int64")
    return ops.take(ops.reshape(data, newshape=(-1,)), first + const([numbers_], "int64"), axis=0)  # type: ignore[no-any-return]  # as above


def looked_up(first: Expr, second: Expr) -> Expr:
    shape = vector(batch, 1, 1, sequence)
    fields = (ops.expand_dims(ops.dyn.broadcast_to(part, shape), axis=(4,)) for part in (first, second))
    return ops.gather_nd(mask, ops.concatenate(tup(*fields), axis=4))  # type: ignore[no-any-return]  # as above


def masked(start: int) -> Expr:
    scores, kept = var("scores", ("b", 2, "s", "s")), var("kept", ("b", 1, 1, "s"), "bool")
    true = ops.greater_equal(counted(size(scores, 2), (1, 1, -1, 1), start), const(0, "int64"))
    return scores + ops.where(ops.logical_and(true, kept), splat(0.0), splat(-9.0))  # type: ignore[no-any-return]  # as above


def turned(inner: Expr, *shape: Expr | int, axes: tuple[int, ...] = (0, 2, 1)) -> Expr:
    return ops.dyn.reshape(ops.transpose(inner, axes=axes), vector(*shape))  # type: ignore[no-any-return]  # as above


def unread(chosen: tuple[bool, ...], kind: str, low: float = OUT_OF_RANGE) -> Expr:
    """Numbers cast to integers, one of them out of range, selected where the mask is false; other numbers where it is true."""
    cast = ops.cast(const([low, 1.5, 2.5]), dtype="int64")
    if kind != "cast":
        cast = cast + const(8, "int64")
    return ops.where(const(chosen, "bool"), ids, ops.minimum(cast, const(9, "int64")) if kind == "minimum" else cast)  # type: ignore[no-any-return]


def layer(kind: str, *states: Expr, recurrence: float = 0.5) -> Expr:
    """A recurrent layer of two features with initial states."""
    rows = 2 * {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    weights = [numbers((1, rows, 3)), splat(recurrence, (1, rows, 2)), numbers((1, 2 * rows))]
    steps = var("steps", (5, "b", 3))
    return getattr(ops.onnx, kind)(steps, *weights, tup(), *states, hidden_size=2, opset=14, outputs="1")  # type: ignore[no-any-return]  # as above


state = var("state", (1, "b", 2))
some = ops.dyn.broadcast_to(splat(0.0), vector(1, size(state, 1), 2))
filled = ops.strided_slice(ops.dyn.full(splat(0.0), vector(3, size(state, 1), 2)), begin=(0,), end=(1,), axes=(0,))
negative = ops.negative(some)
none, gates = tup(), numbers((1, 6))
h_batch, h_size = size(heads, 0), size(heads, 2)
merged = ops.dyn.reshape(heads, vector(-1, h_size, 8))
whole = vector(h_batch, 4, 8, h_size)
NOT_AXES = "with new axes"
CASES: dict[str, Case] = {
    "CreationOps.as_reshape[taken]": case(
        ops.take(x, const([[0, 1, -1]], "int64"), axis=1), ops.take(x, const([[0, 2, 1]], "int64"), axis=1), "in a different order"
    ),
    "CreationOps.taken_rows[counted]": case(rows(ops.shape_of(mask, start=1)), rows(const([3], "int64")), "indices increase by [3]"),
    "CreationOps.taken_rows[constant]": case(channels([0, 1, 2], 3), channels([0, 2, 1], 3), "the constant is not 0, 1, 2"),
    "CreationOps.gathered_pairs": case(looked_up(samples, places), looked_up(places, samples), "do not enumerate the axes"),
    "CreationOps.as_reshape[arange]": case(
        ops.expand_dims(ops.arange(const(0, "int64"), batch, const(1, "int64")), axis=(1,)), ops.expand_dims(mask, axis=(0,)), ""
    ),
    "CreationOps.arange_steps": case(
        ops.reshape(ops.arange(const(0, "int64"), batch, const(1, "int64")) * const(3, "int64"), newshape=(-1, 1)),
        ops.reshape(ops.arange(const(0, "int64"), batch, const(1, "int64")) * var("by", (), "int64"), newshape=(-1, 1)),
        "is not a number that is known",
    ),
    "CreationOps.arange_spread_steps": case(
        ops.expand_dims(ops.arange(const(0, "int64"), batch, const(1, "int64")) * const(3, "int64"), axis=(1,)),
        ops.expand_dims(ops.arange(const(0, "int64"), batch, const(1, "int64")) * var("by", (), "int64"), axis=(1,)),
        "is not a number that is known",
    ),
    "CreationOps.as_reshape[flatten]": case(ops.nn.batch_flatten(mask, axis=2), ops.nn.batch_flatten(heads, axis=2), "no reshape"),
    "CreationOps.always_true": case(masked(0), masked(-1), "may be below"),
    "DynamicViews.own_shape[reshape]": case(
        ops.dyn.reshape(unnamed, ops.shape_of(unnamed)), ops.dyn.reshape(unnamed, ops.shape_of(unnamed, start=1)), "does not have all sizes"
    ),
    "DynamicViews.own_shape[broadcast]": case(
        ops.dyn.broadcast_to(unnamed, ops.shape_of(unnamed)), ops.dyn.broadcast_to(unnamed, ops.shape_of(heads)), ""
    ),
    "DynamicViews.reshape[plain]": case(
        ops.dyn.reshape(mask, vector(1, batch, 1, sequence)), ops.dyn.reshape(mask, vector(sequence, batch)), NOT_AXES
    ),
    "DynamicViews.spread": case(
        ops.reshape(ops.expand_dims(mask, axis=(0, 3)), newshape=(0, 0, 0)),
        ops.reshape(ops.expand_dims(x, axis=(0,)), newshape=(4, 1, 3)),
        "are known",
    ),
    "DynamicViews.transpose[both]": case(
        ops.dyn.reshape(ops.transpose(merged, axes=(0, 2, 1)), whole),
        ops.dyn.reshape(ops.transpose(merged, axes=(0, 2, 1)), vector(4, h_batch, 8, h_size)),
        "does not have the leading axes",
    ),
    "DynamicViews.transpose[last]": case(
        turned(ops.reshape(fixed, newshape=(-1, 5, 8)), size(fixed, 0), 4, 8, 5),
        turned(ops.reshape(fixed, newshape=(-1, 8, 5)), size(fixed, 0), 4, 5, 8),
        "do not only split and merge",
    ),
    "DynamicViews.transpose[first]": case(
        ops.reshape(ops.transpose(ops.dyn.reshape(fixed, vector(-1, 5, 8)), axes=(0, 2, 1)), newshape=(-1, 4, 8, 5)),
        ops.reshape(ops.transpose(ops.dyn.reshape(fixed, vector(-1, 5, 8)), axes=(0, 2, 1)), newshape=(4, -1, 8, 5)),
        "does not have the leading axes",
    ),
    "CreationOps.copied_mask": case(
        var("scores", ("b", 2, 5))
        + ops.where(ops.dyn.broadcast_to(var("kept", (1, 1, 5), "bool"), vector(batch, 1, 5)), splat(0.0), splat(-9.0)),
        row + ops.where(ops.dyn.broadcast_to(var("kept", (1, 3), "bool"), vector(batch, 3)), splat(0.0), splat(-9.0)),
        "the types differ",
    ),
    "CreationOps.copied_number": case(
        ops.dyn.broadcast_to(splat(3.0, (1,)), vector(batch, 4)),
        ops.dyn.broadcast_to(numbers((4,)), vector(batch, 4)),
        "is not a single number",
    ),
    "CreationOps.hidden_zeros[rnn]": case(layer("RNN", filled), layer("RNN", negative), "elements may have a minus sign"),
    "CreationOps.hidden_zeros[gru]": case(
        layer("GRU", some), layer("GRU", some, recurrence=float("inf")), "an element of the constant is infinite"
    ),
    "CreationOps.hidden_zeros[lstm]": case(layer("LSTM", some), layer("LSTM", state), "elements may leave [0, 0]"),
    "CreationOps.hidden_zeros[lstm_with_cell]": case(layer("LSTM", some, state), layer("LSTM", state, some), "elements may leave [0, 0]"),
    "CreationOps.hidden_zeros[lstm_with_peepholes]": case(
        layer("LSTM", some, state, gates), layer("LSTM", none, state, gates), "is not a tensor type"
    ),
    "CreationOps.cell_zeros[plain]": case(layer("LSTM", state, some), layer("LSTM", some, state), "elements may leave [0, 0]"),
    "CreationOps.cell_zeros[with_peepholes]": case(
        layer("LSTM", state, some, gates), layer("LSTM", state, none, gates), "is not a tensor type"
    ),
    "Masks.softplus_threshold": case(
        ops.where(ops.greater(x, splat(20.0)), x, ops.nn.softplus(x)),
        ops.where(ops.greater(x, splat(2.0)), x, ops.nn.softplus(x)),
        "softplus still differs",
    ),
    "TargetForms.open_size": case(
        ops.reshape(var("rows", ("b", 12)), newshape=(0, 3, 4)), ops.reshape(heads, newshape=(0, -1, 8)), "does not copy exactly one size"
    ),
}
for kind, whole_view in {
    "reshape": ops.reshape(mask, newshape=(-1,)),
    "expand_dims": ops.expand_dims(mask, axis=(1,)),
    "squeeze": ops.squeeze(var("wide", ("b", 1, "s")), axis=(1,)),
    "flatten": ops.nn.batch_flatten(mask, axis=2),
    "dynamic": ops.dyn.reshape(mask, vector(sequence, batch)),
}.items():
    of = ("b", "s") if kind != "squeeze" else ("b", 1, "s")
    sizes = (size(var("wide", of), 0), size(var("wide", of), 2)) if kind == "squeeze" else (batch, sequence)
    CASES[f"DynamicViews.reshape[{kind}]"] = case(
        ops.dyn.reshape(whole_view, vector(1, sizes[0], 1, 1, sizes[1])), ops.dyn.reshape(whole_view, vector(sizes[1], sizes[0])), NOT_AXES
    )
for kind, copy, large in (
    ("broadcast", ops.dyn.broadcast_to(row, vector(1, 3)), ops.dyn.broadcast_to(row, vector(batch, 3))),
    ("full", ops.dyn.full(splat(2.0), vector(1, 3)), ops.dyn.full(splat(2.0), vector(batch, 3))),
):
    CASES[f"CreationOps.copied_operand[left, {kind}]"] = case(copy * x, large * row, "the types differ")
    CASES[f"CreationOps.copied_operand[right, {kind}]"] = case(x - copy, row - large, "the types differ")
UNREAD = {
    f"Masks.unread[{kind}]": case(unread((True, False, False), kind), unread((False, False, True), kind), "`where` selects a number")
    for kind in ("cast", "sum", "minimum")
}
LISTED = pairs(CASES, CreationOps, DynamicViews, Masks, TargetForms)
EXPLORING = [entry for entry in LISTED if entry[0] is CreationOps]
FIRING = [entry for entry in LISTED if entry[0] is not CreationOps]
NO_VALUE = pairs(UNREAD, Masks)
SIZES = ({"b": 2, "s": 3}, {"b": 1, "s": 1}, {"b": 3, "s": 1}, {"b": 1, "s": 2})


def named(value: object) -> str:
    return value.name if isinstance(value, Rule) else ""


@pytest.mark.parametrize(("rules", "rule", "example"), FIRING, ids=named)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    outcome = saturate(example.positive, rules)
    assert outcome.fired(rule.name) > 0, outcome.remarks
    for sizes in SIZES:
        assert_equal_in_value(example.positive, outcome.function, exact=rule.math == "exact", sizes=sizes)


@pytest.mark.parametrize(("rules", "rule", "example"), EXPLORING, ids=named)
def test_it_offers_another_form(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), [*LISTED, *NO_VALUE], ids=named)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), NO_VALUE, ids=named)
def test_values_that_are_not_selected_are_dropped(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    """An out-of-range cast has no defined value, so the constant is not folded, unless the element is unused."""
    assert "cast" in operators(saturate(example.positive, ConstantFolding).function)
    outcome = saturate(example.positive, rules, ConstantFolding)
    assert outcome.fired(without_operators(rule.name)) == 1
    assert operators(outcome.function) == ["where"]
    number = 0 if rule.name.endswith("[cast]") else 8
    chosen = ops.where(
        const((True, False, False), "bool"),
        ids,
        const([0, 1 + number, min(2 + number, 9 if number and "minimum" in rule.name else 99)], "int64"),
    )
    assert_equal_in_value(func(chosen), Function(func(chosen).params, outcome.function.body), exact=True)


def test_numbers_that_are_not_a_number_are_not_cast() -> None:
    outcome = saturate(func(unread((True, False, False), "cast", float("nan"))), Masks)
    assert outcome.fired("Masks.unread") == 0


def test_lookups_at_run_time_in_all_words() -> None:
    """Indices that new axes broadcast, scaled before that, of a flattened tensor: all are first brought into one form."""
    count = ops.arange(const(0, "int64"), batch, const(1, "int64"))
    near = ops.expand_dims(ops.arange(const(0, "int64"), sequence, const(1, "int64")), axis=(0,))
    for far in (ops.expand_dims(count, axis=(1,)) * ops.shape_of(mask, start=1), ops.expand_dims(count * sequence, axis=(1,))):
        function = func(ops.take(ops.nn.batch_flatten(mask, axis=2), far + near, axis=0))
        outcome = saturate(function, CreationOps)
        assert operators(outcome.function) == ["expand_dims"]
        for sizes in SIZES:
            assert_equal_in_value(function, outcome.function, exact=True, sizes=sizes)


def test_a_number_of_several_axes_gives_a_count_axes_that_a_reshape_may_name() -> None:
    """`newshape=(0, -1)` refers to axes of the product, which the arange alone does not have."""
    wide = ops.reshape(
        ops.arange(const(0, "int64"), batch, const(1, "int64")) * ops.reshape(const([3], "int64"), newshape=(1, 1)), newshape=(0, -1)
    )
    assert saturate(func(wide), CreationOps, ConstantFolding).fired("CreationOps.arange_steps") == 0


def test_copies_in_an_index_do_not_enumerate_elements() -> None:
    """An arange that may not cover all rows may be one broadcast number, or a column instead of rows."""
    square = var("square", (2, 2))
    last = ops.reshape(ops.arange(const(0, "int64"), const(2, "int64"), const(1, "int64")), newshape=(1, 2))
    unknown = ops.reshape(ops.arange(const(0, "int64"), var("n", (), "int64"), const(1, "int64")), newshape=(-1, 1))
    fields = [ops.expand_dims(ops.dyn.broadcast_to(part, const([2, 2], "int64")), axis=(2,)) for part in (unknown, last)]
    copied = ops.gather_nd(square, ops.concatenate(tup(*fields), axis=2))
    assert saturate(func(copied), CreationOps).fired("CreationOps.gathered_pairs") == 0
    column = ops.reshape(ops.arange(const(0, "int64"), const(2, "int64"), const(1, "int64")), newshape=(2, 1))
    fields = [
        ops.expand_dims(ops.dyn.broadcast_to(column, const([2, 1, 1], "int64")), axis=(0,)),
        ops.expand_dims(ops.dyn.broadcast_to(last, const([1, 2, 2], "int64")), axis=(3,)),
    ]
    moved = func(ops.gather_nd(square, ops.concatenate(tup(*fields), axis=3)))
    outcome = saturate(moved, CreationOps)
    assert_equal_in_value(moved, outcome.function, exact=True)
    assert outcome.fired("CreationOps.gathered_pairs") == 0
