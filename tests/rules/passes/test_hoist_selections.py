"""HoistSelections: what the program does not select is not computed."""

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from onnx import parser
from onnx.shape_inference import infer_shapes

from passat.ir.expr import Expr, Function, Var
from passat.ir.infer import infer_type
from passat.optimizer import optimize
from passat.rules.passes.hoist_selections import HoistSelections, hoist_selections
from tests.rules.building import const, func, numbers, ops, tup, var
from tests.rules.passes.golden import becomes, stays
from tests.rules.running import assert_equal_in_value
from tests.share import share

DATA = "%x: (2, 400, 4), %w: (4, 4), %b: (4)"
FIRST = "strided_slice({}, begin=[0], end=[1], strides=[1], axes=[1])"
PARTS = "%0 = split(nn.matmul(%x, %w), indices_or_sections=2, axis=2);"
CUT = FIRST.format("%x")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(f"{FIRST.format('nn.matmul(%x, %w)')}", f"nn.matmul({CUT}, %w)", id="a product"),
        pytest.param(
            f"%0 = nn.matmul(%x, %w) + %b; {FIRST.format('nn.layer_norm(nn.relu(%0), %b, %b)')}",
            f"%0 = nn.matmul({CUT}, %w) + %b; nn.layer_norm(nn.relu(%0), %b, %b)",
            id="calls that work row by row",
        ),
        pytest.param(
            f"%0 = nn.matmul(%x, %w); %1 = %0 + nn.relu(%0); {FIRST.format('%1')}",
            f"%0 = nn.matmul({CUT}, %w); %0 + nn.relu(%0)",
            id="a tensor that two calls read, of which all positions are selected",
        ),
        pytest.param(
            f"%0 = nn.matmul(%x, %w); %1 = nn.softmax(%0, axis=1); %2 = %0 + %1; ({FIRST.format('nn.matmul(%2, %w)')}, %1)",
            f"%0 = nn.matmul(%x, %w); %1 = nn.softmax(%0, axis=1); %2 = {FIRST.format('%0')} + {FIRST.format('%1')};"
            "(nn.matmul(%2, %w), %1)",
            id="positions that the program reads elsewhere are whole",
        ),
        pytest.param(
            "%0 = reshape(nn.matmul(%x, %w), newshape=[2, 400, 2, 2]); strided_slice(transpose(%0, axes=[0, 2, 1, 3]), begin=[-1],"
            " end=[9223372036854775807], strides=[1], axes=[2])",
            "%0 = nn.matmul(strided_slice(%x, begin=[-1], end=[9223372036854775807], strides=[1], axes=[1]), %w);"
            "transpose(reshape(%0, newshape=[2, 1, 2, 2]), axes=[0, 2, 1, 3])",
            id="views",
        ),
        pytest.param(
            "%0 = split(nn.matmul(%x, %w), indices_or_sections=2, axis=2); " + FIRST.format("concatenate((%0.1, %0.0), axis=2)"),
            f"%0 = split(nn.matmul({CUT}, %w), indices_or_sections=2, axis=2); concatenate((%0.1, %0.0), axis=2)",
            id="parts",
        ),
        pytest.param(
            f"{PARTS} %1 = %0.1; (%0.0, {FIRST.format('nn.matmul(concatenate((%1, %1), axis=2), %w)')})",
            f"{PARTS} %1 = {FIRST.format('%0.1')}; (%0.0, nn.matmul(concatenate((%1, %1), axis=2), %w))",
            id="a part of a whole",
        ),
        pytest.param(
            f"%0 = nn.matmul(%x, %w); ({FIRST.format('%0')}, nn.relu({FIRST.format('%0')}))",
            f"%0 = nn.matmul({CUT}, %w); (%0, nn.relu(%0))",
            id="two equal selections",
        ),
        pytest.param(
            f"%0 = nn.matmul(%x, %w); {FIRST.format('nn.attention(%0, %x, %x, (), q_num_heads=2, kv_num_heads=2, scale=0.5f)')}",
            f"%0 = nn.matmul({CUT}, %w); nn.attention(%0, %x, %x, (), q_num_heads=2, kv_num_heads=2, scale=0.5f)",
            id="queries without a mask",
        ),
    ],
)
def test_what_is_selected(before: str, after: str) -> None:
    becomes(HoistSelections(), DATA, before, after, sharing=True)


def test_a_gather_keeps_the_axis_until_the_end() -> None:
    x, w = var("x", ("batch", "sequence", 4)), var("w", (4, 4))
    before = func(ops.take(ops.nn.matmul(x, w), const(-1, "int64"), axis=1), x, w)
    after = func(ops.squeeze(ops.nn.matmul(ops.take(x, const([-1], "int64"), axis=1), w), axis=(1,)), x, w)
    assert str(hoist_selections(before)) == str(after)


def test_equal_gathers_are_one_selection() -> None:
    x, w = var("x", ("batch", "sequence", 4)), var("w", (4, 4))
    product = ops.nn.matmul(x, w)
    first, second = (ops.take(product, const(0, "int64"), axis=1) for _ in range(2))
    made = hoist_selections(func(tup(first, ops.tanh(second)), x, w))
    assert str(made).count("take(") == 1
    assert str(made).count("squeeze(") == 1


def test_constant_positions_of_one_tensor_are_one_selection() -> None:
    """As those of the two heads of DeiT: the product has two rows."""
    x, w = var("x", ("batch", 6, 4)), var("w", (4, 4))
    product = ops.nn.matmul(x, w)
    second, first = (ops.take(product, const(place, "int64"), axis=1) for place in (1, 0))
    last = ops.strided_slice(product, begin=(-1,), end=(6,), strides=(1,), axes=(1,))
    again = ops.take(product, const([5, 1], "int64"), axis=1)
    before = func(tup(second, ops.tanh(first), last, again), x, w)
    after = hoist_selections(before)
    assert "take(%x" in str(after)
    assert str(after).count("nn.matmul(") == 1
    assert_equal_in_value(before, after, exact=False, special=False, sizes={"batch": 2})


def test_first_and_last_of_unknown_size_are_one_selection() -> None:
    product = ops.nn.matmul(BATCH, WEIGHT)
    before = func(tup(*(ops.take(product, const(place, "int64"), axis=1) for place in (0, -1))), BATCH, WEIGHT)
    after = hoist_selections(before)
    assert "take(%x" in str(after)
    for length in (1, 4):
        assert_equal_in_value(before, after, exact=False, special=False, sizes={"batch": 2, "sequence": length})


def test_selections_of_most_positions_stay() -> None:
    product = ops.nn.matmul(var("x", (2, 6, 4)), WEIGHT)
    function = func(tup(*(ops.take(product, const(place, "int64"), axis=1) for place in range(4))))
    assert hoist_selections(function) is function


def test_an_index_that_is_computed() -> None:
    x, w, i = var("x", ("batch", "sequence", 4)), var("w", (4, 4)), var("i", (), "int64")
    before = func(ops.take(ops.nn.matmul(x, w), i, axis=1), x, w, i)
    after = func(ops.squeeze(ops.nn.matmul(ops.take(x, ops.expand_dims(i, axis=0), axis=1), w), axis=(1,)), x, w, i)
    assert str(hoist_selections(before)) == str(after)


@pytest.mark.parametrize(
    "body",
    [
        FIRST.format("nn.relu(%x)"),  # no product
        f"%0 = nn.matmul(%x, %w); ({FIRST.format('%0')}, %0)",  # read as a whole
        f"%0 = nn.matmul(%x, %w); ({FIRST.format('%0')}, strided_slice(%0, begin=[0], end=[1], strides=[1], axes=[0]))",  # two axes
        "strided_slice(nn.matmul(%x, %w), begin=[0], end=[250], strides=[1], axes=[1])",  # more than half
        "strided_slice(nn.matmul(%x, %w), begin=[0], end=[1], strides=[1], axes=[2])",  # columns
        "strided_slice(nn.matmul(%x, %w), begin=[3], end=[3], strides=[1], axes=[1])",  # none
        "strided_slice(nn.matmul(%x, %w), begin=[0, 0], end=[1, 1], strides=[1, 1], axes=[0, 1])",  # two axes
        FIRST.format("nn.softmax(nn.matmul(%x, %w), axis=1)"),  # positions depend on each other
    ],
)
def test_what_stays(body: str) -> None:
    stays(HoistSelections(), DATA, body)


def test_positions_of_unknown_number_stay() -> None:
    x, w, i = var("x", ("batch", "sequence", 4)), var("w", (4, 4)), var("i", ("count",), "int64")
    product = ops.nn.matmul(x, w)
    for some in (ops.take(product, i, axis=1), ops.strided_slice(product, begin=(-1,), end=(-(1 << 62),), strides=(-1,), axes=(1,))):
        function = func(some)
        assert hoist_selections(function) is function


def test_a_program_that_is_cheaper_as_it_is_stays() -> None:
    """Each of five tensors at the border of the region would be selected from."""
    operands = ", ".join(f"%{name}: (2, 3, 4)" for name in "abcde")
    body = "nn.matmul(%a, %w) + (%a * %b) + (%c * %d) + (%e * %a)"
    stays(HoistSelections(), f"{operands}, %w: (4, 4)", FIRST.format(body))


def test_exact_programs_stay() -> None:
    stays(HoistSelections(), DATA, FIRST.format("nn.matmul(%x, %w)"), rules__math="exact")


def end_of_each(x: Expr) -> Expr:
    """A position of each sequence, of unknown sizes: that of its largest sum."""
    made: Expr = ops.argmax(ops.sum(x, axis=(2,)), axis=1)
    return made


def batch_of(x: Expr) -> Expr:
    """0 ... up to the size of the batch."""
    made: Expr = ops.arange(const(0, "int64"), ops.squeeze(ops.shape_of(x, end=1)), const(1, "int64"))
    return made


def pairs(data: Expr, entries: Expr, places: Expr) -> Expr:
    """`data[entries, places]`."""
    columns = tup(ops.expand_dims(entries, axis=(1,)), ops.expand_dims(places, axis=(1,)))
    made: Expr = ops.gather_nd(data, ops.concatenate(columns, axis=-1))
    return made


def rows(data: Expr, x: Expr, places: Expr) -> Expr:
    """The same as rows of a matrix."""
    start = ops.multiply(batch_of(x), ops.squeeze(ops.shape_of(x, start=1, end=2)))
    made: Expr = ops.take(ops.nn.batch_flatten(data, axis=2), places + start, axis=0)
    return made


def elements(data: Expr, places: Expr) -> Expr:
    """The same as elements, the positions copied along the features."""
    made: Expr = ops.gather(data, places, axis=1)
    return made


BATCH, WEIGHT = var("x", ("batch", "sequence", 4)), var("w", (4, 4))
END = end_of_each(BATCH)


@pytest.mark.parametrize(
    "select",
    [
        pytest.param(lambda data: pairs(data, batch_of(BATCH), END), id="pairs"),
        pytest.param(lambda data: pairs(data, batch_of(BATCH), END - const(1, "int64")), id="pairs, some from the end"),
        pytest.param(lambda data: ops.gather_nd(data, ops.expand_dims(END, axis=(1,)), batch_dims=1), id="a batch dimension"),
        pytest.param(lambda data: ops.gather_nd(data, ops.expand_dims(END, axis=(1, 2)), batch_dims=1), id="that keeps the axis"),
        pytest.param(lambda data: rows(data, BATCH, END), id="rows"),
        pytest.param(lambda data: rows(data, BATCH, ops.cast(ops.cast(END, dtype="int32"), dtype="int64")), id="rows, by other integers"),
        pytest.param(lambda data: pairs(ops.transpose(data, axes=(1, 0, 2)), END, batch_of(BATCH)), id="pairs of a position and an entry"),
        pytest.param(
            lambda data: elements(
                data,
                ops.dyn.broadcast_to(
                    ops.expand_dims(END, axis=(1, 2)), ops.concatenate(tup(ops.shape_of(BATCH, end=1), const([1, 4], "int64")))
                ),
            ),
            id="elements",
        ),
        pytest.param(lambda data: elements(data, ops.expand_dims(ops.tile(ops.expand_dims(END, axis=1), reps=(1, 4)), axis=1)), id="tiles"),
        pytest.param(
            lambda data: elements(
                data, ops.floor_mod(ops.broadcast_to(ops.expand_dims(END, axis=(1, 2)), shape=(1, 1, 4)), const(7, "int64"))
            ),
            id="elements at positions that are computed from copies",
        ),
    ],
)
@pytest.mark.parametrize("sizes", [{"batch": 3, "sequence": 5}, {"batch": 1, "sequence": 1}, {"batch": 0, "sequence": 2}])
def test_one_position_of_each_entry(select: Callable[[Expr], Expr], sizes: dict[str, int]) -> None:
    """The product has one row for each entry of the batch."""
    product = ops.nn.matmul(BATCH, WEIGHT)
    before = func(select(product), BATCH, WEIGHT)
    after = hoist_selections(before)
    assert "nn.matmul(%x" not in str(after)
    assert_equal_in_value(before, after, exact=False, special=False, sizes=sizes)


@pytest.mark.parametrize(
    "shape",
    [None, ("sequence", "sequence"), (2, "sequence", "sequence"), ("batch", 1, "sequence", "sequence"), ("batch", 1, 1, "sequence")],
)
def test_queries_of_attention_as_one_operator(shape: Sequence[str | int] | None) -> None:
    x, w, mask = BATCH, WEIGHT, tup() if shape is None else var("mask", shape)
    mixed = ops.nn.attention(ops.nn.matmul(x, w), x, x, mask, q_num_heads=2, kv_num_heads=2, scale=0.5)
    for end in (pairs(mixed, batch_of(x), END), rows(mixed, x, END - const(1, "int64"))):
        before = func(end)
        after = hoist_selections(before)
        assert "nn.matmul(%x" not in str(after)
        for sizes in ({"batch": 3, "sequence": 5}, {"batch": 1, "sequence": 2}):
            assert_equal_in_value(before, after, exact=False, special=False, sizes=sizes)


def test_rows_of_other_entries_of_the_batch() -> None:
    """Positions that are not known to be in range: -1 in the second sequence is the last position of the first one. Keys, values and masks
    are those of the sequence that the row belongs to."""
    x, w, mask = BATCH, WEIGHT, var("mask", ("batch", 1, "sequence", "sequence"))
    scores = ops.nn.matmul(ops.expand_dims(ops.nn.matmul(x, w), axis=1), ops.expand_dims(ops.transpose(x, axes=(0, 2, 1)), axis=1)) + mask
    mixed = ops.squeeze(ops.nn.matmul(ops.nn.softmax(scores), ops.expand_dims(x, axis=1)), axis=(1,))
    before = func(rows(ops.nn.matmul(mixed, w), x, END - const(1, "int64")), x, w, mask)
    after = hoist_selections(before)
    assert "nn.matmul(%x" not in str(after)
    assert str(after).count("take(") == 2  # keys and values
    assert str(after).count("gather_nd(") == 2  # queries and the mask
    for sizes in ({"batch": 3, "sequence": 5}, {"batch": 3, "sequence": 1}, {"batch": 0, "sequence": 2}):
        assert_equal_in_value(before, after, exact=False, special=False, sizes=sizes)


def test_positions_of_a_known_batch() -> None:
    x, w = var("x", (2, 6, 4)), var("w", (4, 4))
    end, product = end_of_each(x), ops.nn.matmul(x, w)
    starts = const([0, 6], "int64")
    for selected in (
        pairs(product, const([0, 1], "int64"), end),
        ops.take(ops.reshape(product, newshape=(12, 4)), starts + end, axis=0),
        ops.take(ops.reshape(product, newshape=(12, 4)), starts + (end - const([1, 2], "int64")), axis=0),
        elements(product, ops.broadcast_to(ops.expand_dims(end, axis=(1, 2)), shape=(2, 1, 4))),
        pairs(product, const([0, 1], "int64"), const([5, -2], "int64")),
    ):
        before = func(selected, x, w)
        after = hoist_selections(before)
        assert "nn.matmul(%x" not in str(after)
        assert_equal_in_value(before, after, exact=False, special=False)


@pytest.mark.parametrize(
    "select",
    [
        pytest.param(lambda data: pairs(data, batch_of(BATCH), end_of_each(data)), id="positions that depend on the tensor"),
        pytest.param(lambda data: pairs(data, END, END), id="entries that are computed"),
        pytest.param(lambda data: pairs(data, batch_of(BATCH) + const(1, "int64"), END), id="entries from 1 on"),
        pytest.param(lambda data: ops.take(ops.nn.batch_flatten(data, axis=2), END + batch_of(BATCH), axis=0), id="rows of other starts"),
        pytest.param(
            lambda data: elements(data, const([[[0, 0, 0, 1]]], "int64") + ops.expand_dims(END, axis=(1, 2))), id="of each feature"
        ),
        pytest.param(
            lambda data: elements(data, ops.expand_dims(ops.argmax(BATCH, axis=1), axis=1)), id="of each feature, by an operator that mixes"
        ),
        pytest.param(
            lambda data: elements(data, ops.broadcast_to(ops.expand_dims(END, axis=(1, 2)), shape=(1, 1, 2))), id="a part of the features"
        ),
        pytest.param(lambda data: tup(rows(data, BATCH, END), ops.nn.batch_flatten(data, axis=2)), id="rows that the program reads"),
        pytest.param(lambda data: tup(pairs(data, batch_of(BATCH), END), data), id="a tensor that the program reads"),
    ],
)
def test_positions_that_stay(select: Callable[[Expr], Expr]) -> None:
    function = func(select(ops.nn.matmul(BATCH, WEIGHT)), BATCH, WEIGHT)
    assert hoist_selections(function) is function


@pytest.mark.parametrize("start", [[[0], [6]], [[0, 6]]])
def test_tables_of_positions_stay(start: list[list[int]]) -> None:
    x, w = var("x", (2, 6, 4)), var("w", (4, 4))
    taken = ops.take(ops.reshape(ops.nn.matmul(x, w), newshape=(12, 4)), end_of_each(x) + const(start, "int64"), axis=0)
    function = func(taken, x, w)
    assert hoist_selections(function) is function


@pytest.mark.parametrize(("shape", "count"), [((), 1), (("n",), -1)])
def test_tensors_without_a_batch_stay(shape: tuple[str, ...], count: int) -> None:
    x, position = var("x", shape), var("position", (1,), "int64")
    function = func(ops.take(ops.reshape(ops.exp(x), newshape=(count,)), position + position * position, axis=0), x, position)
    assert hoist_selections(function) is function


def test_opsets_without_batch_dimensions_stay() -> None:
    function = func(pairs(ops.nn.matmul(BATCH, WEIGHT), batch_of(BATCH), END), BATCH, WEIGHT)
    assert hoist_selections(function, of_each=False) is function


def test_a_mask_that_is_broadcast_is_selected_before() -> None:
    x, w, mask = BATCH, WEIGHT, var("mask", ("batch", "sequence"), "int64")
    copied = ops.cast(ops.broadcast_to(ops.expand_dims(mask, axis=2), shape=(1, 1, 4)), dtype="float32")
    before = func(pairs(ops.nn.matmul(x, w) * copied, batch_of(x), END), x, w, mask)
    after = hoist_selections(before)
    assert str(after).count("batch_dims") == 2
    assert "broadcast_to(%" in str(after)
    assert_equal_in_value(before, after, exact=False, special=False, sizes={"batch": 3, "sequence": 5})


def test_masks_and_positions_of_attention_are_selected_alike() -> None:
    """A mask of each entry, one that all share, and rotary tables: each at the same positions as the queries."""
    x, w = var("x", ("batch", "sequence", 4)), var("w", (4, 4))
    own, causal = var("own", ("batch", 1, "sequence", "sequence")), var("causal", ("sequence", "sequence"))
    cosine = var("cosine", (1, 1, "sequence", 2))

    def heads(a: Expr) -> Expr:
        made: Expr = ops.transpose(ops.reshape(a, newshape=(0, 0, 2, 2)), axes=(0, 2, 1, 3)) * cosine
        return made

    scores = ops.nn.matmul(heads(ops.nn.matmul(x, w)), ops.transpose(heads(x), axes=(0, 1, 3, 2))) + own + causal
    mixed = ops.reshape(ops.transpose(ops.nn.matmul(ops.nn.softmax(scores), heads(x)), axes=(0, 2, 1, 3)), newshape=(0, 0, 4))
    before = func(pairs(mixed, batch_of(x), end_of_each(x)), x, w, own, causal, cosine)
    after = hoist_selections(before)
    assert str(after).count("gather_nd(") == 2  # the operand of the product, and the mask of each entry
    assert str(after).count("take(") == 2
    for sizes in ({"batch": 3, "sequence": 5}, {"batch": 1, "sequence": 3}):
        assert_equal_in_value(before, after, exact=False, special=False, sizes=sizes)


def on_rows(
    a: Expr, x: Expr, weight: Expr, bias: Expr | None = None, matrix: Expr | None = None, kind: Callable[[Expr, Expr], Expr] = ops.nn.matmul
) -> Expr:
    """A linear layer as exporters write it on sequences: Gemm between reshapes."""
    product = kind(ops.reshape(a, newshape=(-1, 4)) if matrix is None else matrix, weight)
    made: Expr = ops.dyn.reshape(product if bias is None else ops.nn.bias_add(product, bias, axis=-1), ops.shape_of(x))
    return made


@pytest.mark.parametrize("bias", [None, var("bias", (4,))])
@pytest.mark.parametrize("kind", [ops.nn.matmul, ops.nn.dense], ids=["matmul", "dense"])
def test_products_between_reshapes(kind: Callable[[Expr, Expr], Expr], bias: Var | None) -> None:
    x, w = BATCH, WEIGHT
    first = ops.tanh(on_rows(x, x, w, bias, kind=kind))
    rest = [] if bias is None else [bias]
    for before in (
        func(ops.take(on_rows(first, x, w, bias, kind=kind), const(0, "int64"), axis=1), x, w, *rest),
        func(pairs(on_rows(first, x, w, bias, kind=kind), batch_of(x), END), x, w, *rest),
    ):
        after = hoist_selections(before)
        assert "reshape" not in str(after)
        assert_equal_in_value(before, after, exact=False, special=False, sizes={"batch": 3, "sequence": 5})


def test_two_products_of_the_same_rows() -> None:
    """As in gated linear units: the rows are selected before both. If the program reads one of them, the rows are whole."""
    x, w = BATCH, WEIGHT
    hidden = on_rows(x, x, w)
    matrix = ops.reshape(ops.tanh(hidden), newshape=(-1, 4))
    gate, up = (on_rows(hidden, x, w, numbers((4,), seed=seed), matrix) for seed in (1, 2))
    for body, reshapes in ((ops.take(gate * up, const(-1, "int64"), axis=1), 0), (tup(ops.take(gate, const(-1, "int64"), axis=1), up), 4)):
        before = func(body, x, w)
        after = hoist_selections(before)
        assert str(after).count("reshape(") == reshapes
        assert_equal_in_value(before, after, exact=False, special=False, sizes={"batch": 3, "sequence": 5})


def other_rows(x: Expr) -> Expr:
    """Rows of the matrix that are no rows of the stack."""
    made: Expr = ops.reshape(ops.nn.matmul(ops.reshape(x, newshape=(8, 12)), var("w", (12, 12))), newshape=(4, 6, 4))
    return made


def bias_of_rows(x: Expr) -> Expr:
    """One number for each row."""
    product = ops.nn.matmul(ops.reshape(x, newshape=(24, 4)), var("w", (4, 4)))
    made: Expr = ops.reshape(ops.nn.bias_add(product, numbers((24,)), axis=0), newshape=(4, 6, 4))
    return made


def columns(x: Expr) -> Expr:
    """The product with the transposed matrix."""
    made: Expr = ops.reshape(ops.nn.matmul(ops.reshape(x, newshape=(4, 24)), var("w", (4, 4)), transpose_a=True), newshape=(4, 6, 4))
    return made


@pytest.mark.parametrize("product", [other_rows, bias_of_rows, columns])
def test_products_of_other_matrices_stay(product: Callable[[Expr], Expr]) -> None:
    function = func(ops.take(product(var("x", (4, 6, 4))), const(0, "int64"), axis=1))
    assert hoist_selections(function) is function


FEATURES = 4


def drawn(seed: int) -> Function:
    """A random program of calls on stacks of rows, of which it selects some positions."""
    chance = random.Random(seed)
    shape = chance.choice(((2, 6), ("batch", "sequence"), ("batch", 6)))
    x, y = (var(name, (*shape, FEATURES)) for name in "xy")
    table, turns = var("table", (shape[1], FEATURES)), var("turns", (1, 1, shape[1], FEATURES // 2))
    masks = [var(f"mask{i}", (*lead, shape[1], shape[1])) for i, lead in enumerate(((), (1, 2), (shape[0], 1), (shape[0], 2)))]
    row, weight = numbers((FEATURES,)), const(np.random.default_rng(seed).normal(0, FEATURES**-0.5, (FEATURES, FEATURES)))
    values: list[Expr] = [x, y]

    def heads(a: Expr) -> Expr:
        made: Expr = ops.transpose(ops.reshape(a, newshape=(0, 0, 2, FEATURES // 2)), axes=(0, 2, 1, 3))
        return made * turns if chance.random() < 0.3 else made

    def step(a: Expr, b: Expr) -> Expr:
        made: Expr
        match chance.randrange(16):
            case 15:
                mask = chance.choice((*masks, tup()))
                made = ops.nn.attention(a, b, b, mask, q_num_heads=2, kv_num_heads=2, scale=0.5, is_causal=chance.random() < 0.2)
            case 14:
                made = a * ops.broadcast_to(ops.max(b, axis=(2,), keepdims=True), shape=(1, 1, FEATURES))
            case 12:
                made = on_rows(a, x, weight, chance.choice((row, None)), kind=chance.choice((ops.nn.matmul, ops.nn.dense)))
            case 13:
                matrix = ops.reshape(a, newshape=(-1, FEATURES))
                made = on_rows(a, x, weight, row, matrix)
                values.append(made)
                made = made * on_rows(a, x, weight, None, matrix)
            case 0 | 1 | 2:
                made = ops.nn.matmul(a, weight) + row
            case 3:
                made = a + b
            case 4:
                made = ops.nn.layer_norm(a, row, row)
            case 5:
                made = a - ops.mean(a, axis=(chance.choice((1, 2, 2)),), keepdims=True)
            case 6:
                parts = ops.split(a, indices_or_sections=2, axis=2)
                made = ops.concatenate(tup(parts[1], parts[0]), axis=2)
            case 7 | 8:
                scores = ops.nn.matmul(heads(a), ops.transpose(heads(b), axes=(0, 1, 3, 2)))
                for mask in chance.sample(masks, chance.choice((0, 1, 1, 2))):
                    scores = scores + mask
                mixed = ops.transpose(ops.nn.matmul(ops.nn.softmax(scores), heads(b)), axes=(0, 2, 1, 3))
                made = ops.reshape(mixed, newshape=(0, 0, FEATURES))
            case 9:
                made = ops.squeeze(ops.expand_dims(a, axis=1), axis=(1,))
            case 10:
                made = a + table if chance.random() < 0.5 else ops.nn.matmul(masks[0], a)
            case _:
                made = ops.tanh(a)
        return made

    def selected(a: Expr) -> Expr:
        made: Expr
        end = end_of_each(x)
        match chance.randrange(10):
            case 9:
                made = elements(a, ops.expand_dims(ops.tile(ops.expand_dims(end, axis=1), reps=(1, FEATURES)), axis=1))
            case 4:
                made = ops.take(a, ops.argmax(ops.sum(x, axis=(0, 2)), axis=0), axis=1)
            case 0:
                made = ops.take(a, const(chance.choice((0, -1)), "int64"), axis=1)
            case 1:
                made = ops.take(a, const([chance.choice((0, 3))], "int64"), axis=1)
            case 2:
                made = ops.strided_slice(a, begin=(-1,), end=(1 << 62,), strides=(1,), axes=(1,))
            case 5:
                made = pairs(a, batch_of(x), end - const(chance.randrange(2), "int64"))
            case 6:
                made = rows(a, x, end - const(chance.randrange(2), "int64"))
            case 7:
                made = ops.gather_nd(a, ops.expand_dims(end, axis=(1,)), batch_dims=1)
            case 8:
                made = pairs(ops.transpose(a, axes=(1, 0, 2)), end, batch_of(x))
            case _:
                made = ops.strided_slice(a, begin=(0,), end=(1,), strides=(1,), axes=(1,))
        return made

    for _ in range(chance.randrange(6, 16)):
        values.append(step(chance.choice(values[-3:]), chance.choice(values)))
    results = [selected(values[-1])]
    if chance.random() < 0.3:
        results.append(selected(chance.choice(values)))
    if chance.random() < 0.3:
        results += [ops.take(values[-1], const(place, "int64"), axis=1) for place in chance.sample((0, 1, -1), 2)]
    if chance.random() < 0.2:
        results.append(chance.choice(values))
    return infer_type(func(results[0] if len(results) == 1 else tup(*results)))


@pytest.mark.parametrize("seed", range(share(40, 2000)))
def test_values_are_kept(seed: int) -> None:
    before = drawn(seed)
    assert_equal_in_value(before, hoist_selections(before), exact=False, special=False, sizes={"batch": seed % 3, "sequence": 5}, rounds=1)


def test_most_programs_change() -> None:
    programs = list(map(drawn, range(20)))
    assert sum(hoist_selections(program) is not program for program in programs) > 10


CLASSIFIER = """<ir_version: 9, opset_import: ["": 20]> classifier (float[batch, 12, 16] x) => (float[batch, 4] y) <int64 first = {0}> {
    v = Constant<value_ints = [16, 16]>()  u = ConstantOfShape<value = float[1] {0.1}>(v)
    p = MatMul(x, u)  q = Gelu(p)  h = Add(q, x)
    keys = Transpose<perm = [0, 2, 1]>(h)  scores = MatMul(h, keys)  weights = Softmax(scores)  mixed = MatMul(weights, h)  k = Add(mixed, h)
    r = MatMul(k, u)  s = Gelu(r)  t = Add(s, k)
    c = Gather<axis = 1>(t, first)  four = Constant<value_ints = [16, 4]>()  head = ConstantOfShape<value = float[1] {0.2}>(four)
    y = MatMul(c, head)
}"""


def test_the_last_layer_of_a_classifier() -> None:
    """Keys and values of the last layer are whole; its queries, sums and products are of the position that the classifier reads."""
    result = optimize(parser.parse_model(CLASSIFIER), verify=True)
    assert result.report.verification is not None
    assert result.report.verification.equal
    shapes = {
        value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in infer_shapes(result.model).graph.value_info
    }
    gelus = [shapes[node.output[0]] for node in result.model.graph.node if node.op_type == "Gelu"]
    assert [sizes[1] for sizes in gelus] == [12, 1]


ENDS = """<ir_version: 9, opset_import: ["": 20]> ends (float[batch, sequence, 16] x) => (float[batch, 16] y)
<int64[1] one = {1}, int64[1] two = {2}, int64[2] axes = {1, 2}, int64[2] last = {1, 16}, int64 zero = {0}, int64 first = {1}> {
    v = Constant<value_ints = [16, 16]>()  u = ConstantOfShape<value = float[1] {0.1}>(v)  p = MatMul(x, u)  q = Gelu(p)  r = MatMul(q, u)
    sums = ReduceSum<keepdims = 0>(x, two)  largest = ArgMax<axis = 1, keepdims = 0>(sums)  end = Cast<to = 6>(largest)
    %s
}"""
ROWS = """both = Shape(x)  batch = Gather(both, zero)  length = Gather(both, first)  entries = Range(zero, batch, first)
    starts = Mul(entries, length)  short = Cast<to = 6>(starts)  row = Add(end, short)  flat = Flatten<axis = 2>(r)  y = Gather(flat, row)"""
ELEMENTS = """both = Shape<start = 0, end = 1>(x)  sizes = Concat<axis = 0>(both, last)  column = Unsqueeze(end, axes)  places = Expand(column, sizes)
    z = GatherElements<axis = 1>(r, places)  y = Squeeze(z, one)"""


@pytest.mark.parametrize("select", [ROWS, ELEMENTS])
def test_positions_of_32_bits(select: str) -> None:
    """ONNX's Gather and GatherElements take integers of 32 bits, its GatherND does not."""
    result = optimize(parser.parse_model(ENDS % select), verify=True)
    assert result.report.verification is not None
    assert result.report.verification.equal
    assert any(node.op_type == "GatherND" for node in result.model.graph.node)
