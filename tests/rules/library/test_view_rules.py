"""Rules on views and on tensors of one value: each on a program that it rewrites, and on one that it does not."""

import numpy as np
import pytest

from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.expr import Constant, Expr
from passat.ir.tensor import Array
from passat.ir.types import TensorType
from passat.rules.guards import Term
from passat.rules.library import Arithmetic, Copies, CreationOps, Transposes, Views
from passat.rules.library.data_movement import loses_nothing
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import assert_equal_in_value, difference, operators, saturate, shape_of

x, y = var("x"), var("y")
cube = var("cube", (2, 1, 3))
END = 2**63 - 1


def view(kind: str, of: Expr) -> Expr:
    """A view of a tensor of three dimensions, the second of size 1; a different one each time."""
    rank = len(shape_of(func(of).body))
    views = {
        "reshape": lambda: ops.reshape(of, newshape=(3, -1)),
        "expand_dims": lambda: ops.expand_dims(of, axis=rank),
        "squeeze": lambda: ops.squeeze(of),
        "flatten": lambda: ops.nn.batch_flatten(of),
    }
    return views[kind]()  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def undecided(kind: str, of: Expr) -> Expr:
    """A view of symbolic sizes. Two of them are a reshape that is not certain, or that would have to count the elements of an empty
    tensor."""
    rank = len(shape_of(func(of).body))
    views = {
        "reshape": lambda: ops.reshape(of, newshape={2: (0, 0), 3: (-3, -2), 4: (0, 0, -3)}[rank]),
        "expand_dims": lambda: ops.expand_dims(of, axis=0),
        "squeeze": lambda: ops.squeeze(of, axis=()),
        "flatten": lambda: ops.nn.batch_flatten(of, axis=max(rank - 2, 1)),
    }
    return views[kind]()  # type: ignore[no-any-return]  # as above


def undecided_pair(outer: str, inner: str) -> Expr:
    if outer == inner == "squeeze":
        return ops.squeeze(ops.squeeze(var("v", (1, "n", "m")), axis=0), axis=())  # type: ignore[no-any-return]  # as above
    return undecided(outer, undecided(inner, var("v", ("n", "m", "k"))))


KINDS = ("reshape", "expand_dims", "squeeze", "flatten")
SAME = {
    "reshape": (ops.reshape(x, newshape=(2, -1)), ops.reshape(x, newshape=(3, 2))),
    "expand_dims": (ops.expand_dims(x, axis=0, num_newaxis=0), ops.expand_dims(x, axis=0)),
    "squeeze": (ops.squeeze(x), ops.squeeze(cube)),
    "flatten": (ops.nn.batch_flatten(x), ops.nn.batch_flatten(cube)),
}
COUNTED = {
    *{("reshape", "flatten"), ("expand_dims", "reshape"), ("squeeze", "flatten")},
    *{("flatten", "expand_dims"), ("flatten", "squeeze"), ("flatten", "flatten")},
}


def broadcast_case(name: str, left: bool) -> Case:
    of = getattr(ops, name)
    row, scalar = var("row", (3,)), var("scalar", ())
    wide, wider = ops.broadcast_to(row, shape=(2, 3)), ops.broadcast_to(scalar, shape=(3,))
    return case(of(wide, x), of(wide, row), "the types differ") if left else case(of(x, wide), of(scalar, wider), "the types differ")


def heads(rows: int, size: int) -> Expr:
    """Channels that become heads behind the positions, and then the first of both again."""
    channels = var("channels", (2, 6, 6))
    apart = ops.reshape(ops.transpose(channels, axes=(0, 2, 1)), newshape=(2, rows, -1, size))
    first: Expr = ops.transpose(apart, axes=(0, 2, 3, 1))
    return first


def test_a_transpose_between_others_and_reshapes_keeps_its_elements_or_stays() -> None:
    channels = var("channels", ("b", 6, "n"))
    back = ops.reshape(ops.transpose(channels, axes=(0, 2, 1)), newshape=(0, -1, 3, 2))
    for order, reshaped in (((0, 2, 3, 1), True), ((0, 3, 2, 1), False), ((0, 2, 1, 3), False)):
        outcome = saturate(func(ops.transpose(back, axes=order)), Transposes)
        assert (outcome.fired("Transposes.to_reshape") > 0) == reshaped


CASES: dict[str, Case] = {
    **{f"Views.to_same[{kind}]": case(*SAME[kind], "may differ from") for kind in KINDS},
    **{
        f"Views.fuse[{outer}, {inner}]": case(
            view(outer, view(inner, cube)),
            undecided_pair(outer, inner),
            "may be empty" if (outer, inner) in COUNTED else "certainly gives",
        )
        for outer in KINDS
        for inner in KINDS
    },
    "Views.new_axes": case(ops.expand_dims(ops.expand_dims(x, axis=0), axis=(2,)), ops.expand_dims(ops.squeeze(x), axis=0), ""),
    "Transposes.to_reshape[once]": case(
        ops.transpose(var("v", (2, 1, 4)), axes=(1, 0, 2)),
        ops.transpose(var("v", (2, 3, 4)), axes=(1, 0, 2)),
        "axes=(1, 0, 2) moves elements",
    ),
    "Transposes.to_reshape[twice]": case(heads(6, 2), heads(4, 3), "(2, 4, 3, 3), float32] has a part of an axis of"),
    "Transposes.merge": case(ops.transpose(ops.transpose(cube, axes=(1, 2, 0)), axes=(1, 0, 2)), ops.transpose(ops.exp(x)), ""),
    "Transposes.drop": case(ops.transpose(cube, axes=(0, -2, 2)), ops.transpose(cube), "axes=(2, 1, 0) moves an axis"),
    "Copies.same_cast": case(
        ops.cast(x, dtype="float32"), ops.cast(x, dtype="float16"), "x.dtype == t: 'float32' == 'float16' does not hold"
    ),
    "Copies.casts": case(
        ops.cast(ops.cast(x, dtype="float64"), dtype="float16"),
        ops.cast(ops.cast(x, dtype="int8"), dtype="float32"),
        "int8 cannot represent every float32",
    ),
    "Copies.whole_slice": case(
        ops.strided_slice(x, begin=(0, -9), end=(END, 3)),
        ops.strided_slice(x, begin=(1,), end=(END,)),
        "takes a part of Tensor[(2, 3), float32]",
    ),
    "Copies.slices": case(
        ops.strided_slice(ops.strided_slice(var("v", (9,)), begin=(1,), end=(8,), strides=(2,)), begin=(1,), end=(3,)),
        ops.strided_slice(ops.strided_slice(var("v", ("n",)), begin=(-5,), end=(END,)), begin=(1,), end=(3,)),
        "the slices do not compose",
    ),
    "Copies.concat_of_one": case(ops.concatenate(tup(x)), ops.concatenate(tup(x, y)), ""),
    "Copies.broadcast_to_same": case(ops.broadcast_to(x, shape=(3,)), ops.broadcast_to(x, shape=(4, 2, 3)), "the types differ"),
    "Copies.pad_nothing": case(
        ops.nn.pad(x, pad_width=((0, 0), (0, 0))), ops.nn.pad(x, pad_width=((0, 1), (0, 0))), "pads by ((0, 1), (0, 0))"
    ),
    "Copies.split_into_one": case(
        ops.split(x, indices_or_sections=1)[0], ops.split(x, indices_or_sections=2)[0], "splits into several parts"
    ),
    "Copies.broadcast_operand[left]": broadcast_case("multiply", True),
    "Copies.broadcast_operand[right]": broadcast_case("subtract", False),
    "Copies.broadcast_operand[left, tiled]": case(
        ops.tile(var("row", (1, 3)), reps=(2, 1)) * x, ops.tile(var("row", (1, 3)), reps=(2, 1)) * var("row", (1, 3)), "the types differ"
    ),
}
NUMBERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64")


def every_value(dtype: str) -> Array:
    """All values of a type of up to 16 bits; for wider types the extremes, and values around powers of two."""
    kind: np.dtype[np.generic] = to_numpy(dtype)
    if dtype == "bool":
        return np.array([False, True])
    if kind.itemsize <= 2:
        return np.arange(1 << (8 * kind.itemsize), dtype=np.uint16).astype(f"u{kind.itemsize}").view(kind)
    powers = [sign * (2**power) + shift for power in range(63) for sign in (1, -1) for shift in (-1, 0, 1)]
    if dtype in FLOATS:
        return np.array([*powers, np.inf, -np.inf, np.nan, 1e-45, 1e-40, 0.1, -0.0], np.float64).astype(kind)
    limits = np.iinfo(kind)  # type: ignore[type-var]  # an integer type
    return np.array([*(power for power in powers if limits.min <= power <= limits.max), limits.min, limits.max], kind)


small, v = var("small", (3,)), var("v", ("n", 3))
scalar = var("s", ())


def filled(form: str, like: Expr, *shape: int) -> Expr:
    """A tensor of one value, like another tensor or of that shape."""
    forms = {
        "full": lambda: ops.full(scalar, shape=shape),
        "full_like": lambda: ops.full_like(like, scalar),
        "zeros": lambda: ops.zeros(shape=shape),
        "ones": lambda: ops.ones(shape=shape),
        "zeros_like": lambda: ops.zeros_like(like),
        "ones_like": lambda: ops.ones_like(like),
    }
    return forms[form]()  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def fill_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for form in ("full", "full_like", "zeros", "ones", "zeros_like", "ones_like"):
        fill = filled(form, x, 2, 3)
        found[f"CreationOps.filled[left, {form}]"] = case(x + fill, small + fill, "the types differ")
        found[f"CreationOps.filled[right, {form}]"] = case(fill - x, fill - small, "the types differ")
        found[f"CreationOps.filled_divisor[{form}]"] = case(x / fill, small / fill, "the types differ")
    return found


CASES |= {
    "CreationOps.filled_like[zeros]": case(ops.zeros_like(x), ops.zeros_like(v), "is not static"),
    "CreationOps.filled_like[ones]": case(ops.ones_like(x), ops.ones_like(v), "is not static"),
    "CreationOps.filled_like[full]": case(ops.full_like(x, scalar), ops.full_like(v, scalar), "is not static"),
    "CreationOps.cast_like": case(ops.cast_like(x, var("d", (1,), "float64")), ops.cast(x, dtype="float64"), ""),
    "CreationOps.as_reshape[reshape_like]": case(
        ops.reshape_like(x, var("six", (6,))), ops.reshape_like(v, var("w", ("m", 3))), "the left side Tensor[(m, 3), float32]"
    ),
    "CreationOps.shaped_like[broadcast]": case(ops.broadcast_to_like(small, x), ops.broadcast_to_like(small, v), "is not static"),
    "CreationOps.shaped_like[sum]": case(ops.collapse_sum_like(x, small), ops.collapse_sum_like(v, var("u", ("n", 1))), "is not static"),
    "CreationOps.collapse_sum_to": case(
        ops.collapse_sum_to(x, shape=(1, 3)), ops.collapse_sum_to(var("none", (2, 0)), shape=(1, 0)), "is not static, or empty"
    ),
    "CreationOps.collapse_nothing": case(ops.collapse_sum_to(x, shape=(2, 3)), ops.collapse_sum_to(x, shape=(1, 3)), "the types differ"),
    **fill_cases(),
}


TABLE = pairs(CASES, Views, Copies, Transposes, CreationOps)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_copies_of_several_elements_in_turn_are_kept() -> None:
    """With `n` = 2, four rows are the sum of two rows, twice, and four others."""
    function = func(ops.tile(var("rows", ("n", 3)), reps=(2, 1)) + var("whole", (4, 3)))
    outcome = saturate(function, Copies)
    assert operators(outcome.function) == ["tile", "add"]
    assert any("repeats several elements" in remark for remark in outcome.remarks)


def test_many_views_are_merged() -> None:
    function = func(ops.reshape(ops.squeeze(ops.expand_dims(ops.nn.batch_flatten(cube), axis=0), axis=0), newshape=(3, 2)))
    outcome = saturate(function, Views)
    assert operators(outcome.function) == ["reshape"]
    assert_equal_in_value(function, outcome.function, exact=True)


def test_views_that_undo_each_other_vanish() -> None:
    function = func(ops.squeeze(ops.expand_dims(var("v", ("n", "?")), axis=1), axis=1))
    assert operators(saturate(func(ops.squeeze(ops.expand_dims(x, axis=1), axis=1)), Views).function) == []
    assert operators(saturate(function, Views).function) == ["expand_dims", "squeeze"]  # for (n, ?) no reshape is certain


def test_new_axes_merge_for_all_sizes() -> None:
    function = func(ops.expand_dims(ops.expand_dims(var("v", ("n", "?")), axis=-1, num_newaxis=2), axis=(0, 2)))
    outcome = saturate(function, Views)
    assert operators(outcome.function) == ["expand_dims"]
    assert_equal_in_value(function, outcome.function, exact=True, sizes={"n": 3})


def test_a_batch_of_nothing_survives() -> None:
    """A view never fails on an empty tensor, so its replacement must not either."""
    function = func(ops.squeeze(ops.nn.batch_flatten(var("v", ("n", 2, "m"))), axis=()))
    for sizes in ({"n": 0, "m": 3}, {"n": 2, "m": 0}):
        assert_equal_in_value(function, saturate(function, Views).function, exact=True, sizes=sizes)


def test_transposes_through_none() -> None:
    function = func(ops.transpose(ops.transpose(cube)))
    assert operators(saturate(function, Transposes).function) == []


@pytest.mark.parametrize("source", NUMBERS)
def test_a_cast_through_a_type_that_holds_every_value_changes_nothing(source: str) -> None:
    values = every_value(source)
    for through in NUMBERS:
        if loses_nothing(through).function(Term(TensorType((), source)), through) is True:
            with np.errstate(all="ignore"):
                back = values.astype(to_numpy(through)).astype(to_numpy(source))
            assert difference([back], [values], exact=True) is None, through


def test_lossy_casts_state_the_reason() -> None:
    rejected = {(a, b) for a in NUMBERS for b in NUMBERS if loses_nothing(b).function(Term(TensorType((), a)), b) is not True}
    assert {("int8", "uint8"), ("uint8", "int8"), ("int32", "float32"), ("float32", "bfloat16"), ("float16", "bfloat16")} <= rejected
    assert not {("int8", "int16"), ("uint8", "int16"), ("int16", "float32"), ("bfloat16", "float32"), ("bool", "float16")} & rejected


def test_zeros_like_does_not_need_its_operand() -> None:
    outcome = saturate(func(ops.zeros_like(ops.tanh(x))), CreationOps)
    assert operators(outcome.function) == ["zeros"]


def test_units_are_found_in_tensors_of_any_size() -> None:
    body = (v + ops.zeros_like(v)) * ops.ones_like(v)
    assert saturate(func(body), CreationOps, Arithmetic).function.body is v


def test_a_filled_tensor_becomes_a_number() -> None:
    outcome = saturate(func(x / ops.full(splat(4.0), shape=(2, 3))), CreationOps)
    divisor = outcome.function.body.args[1]  # type: ignore[attr-defined]  # a call
    assert isinstance(divisor, Constant)
    assert divisor.data.shape == ()


@pytest.mark.parametrize("form", ["full", "full_like", "zeros", "zeros_like"])
def test_a_quotient_of_integers_keeps_a_possible_zero_divisor(form: str) -> None:
    """ONNX Runtime does not load a quotient by an integer constant 0, even of an empty tensor."""
    integers = var("i", (0, 3), "int32")
    fill = {
        "full": ops.full(const(0, "int32"), shape=(0, 3)),
        "full_like": ops.full_like(integers, const(0, "int32")),
        "zeros": ops.zeros(shape=(0, 3), dtype="int32"),
        "zeros_like": ops.zeros_like(integers),
    }[form]
    outcome = saturate(func(integers / fill), CreationOps)
    assert outcome.fired("CreationOps.filled_divisor") == 0
    assert any("int32, not floating-point numbers" in remark for remark in outcome.remarks)
