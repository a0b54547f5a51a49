"""Chains of shape arithmetic as exporters write them: results are typed exactly, and known values equal those of a run."""

from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.bounds import smaller
from passat.ir.dim_text import parse_dim
from passat.ir.evaluate import evaluate_call
from passat.ir.expr import Call, Constant, Expr, Tuple, Var
from passat.ir.infer import infer_type, known_value
from passat.ir.op import Op, get_op
from passat.ir.ops.static_forms import static_form
from passat.ir.shape import ANY, Any, Dim, SymDim, broadcast
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType
from tests.share import share

if TYPE_CHECKING:
    from tests.ir.ops.movement.conftest import Bench

B, S = SymDim.named("batch"), SymDim.named("seq")


def op(name: str, *operands: Expr | tuple[Expr, ...], **attrs: AnyValue) -> Expr:
    args = [Tuple(operand) if isinstance(operand, tuple) else operand for operand in operands]
    return infer_type(get_op(name)(*args, **attrs))


def ints(*values: int) -> Constant:
    return Constant(np.array(values, np.int64))


def scalar(value: int) -> Constant:
    return Constant(np.array(value, np.int64))


def size(x: Expr, axis: int) -> Expr:
    """Shape, Gather, Unsqueeze: one dimension of a tensor as a vector."""
    return op("expand_dims", op("take", op("shape_of", x), scalar(axis), axis=0), axis=(0,))


def dims(expr: Expr) -> list[Dim] | None:
    value = known_value(expr)
    return None if value is None or isinstance(value, tuple) else value.reshape(-1).tolist()


def static(expr: Expr) -> tuple[str, dict[str, AnyValue]] | None:
    assert isinstance(expr, Call)
    assert isinstance(expr.op, Op)
    found = static_form(expr.op.name, [arg.checked_type for arg in expr.args], [known_value(arg) for arg in expr.args], expr.attrs)
    return None if found is None else (found.op, dict(found.attrs))


def test_the_heads_of_an_attention() -> None:
    x = Var("x", TensorType((B, S, 768)))
    shape = op("concatenate", (size(x, 0), size(x, 1), ints(12), ints(64)), axis=0)
    assert dims(shape) == [B, S, 12, 64]
    heads = op("dyn.reshape", x, shape)
    assert heads.checked_type == TensorType((B, S, 12, 64))
    assert static(heads) == ("reshape", {"newshape": (0, 0, 12, 64), "allowzero": False})
    back = op("transpose", heads, axes=(0, 2, 1, 3))
    assert back.checked_type == TensorType((B, 12, S, 64))
    merged = op(
        "dyn.reshape", op("transpose", back, axes=(0, 2, 1, 3)), op("concatenate", (size(back, 0), size(back, 2), ints(-1)), axis=0)
    )
    assert merged.checked_type == TensorType((B, S, 768))


def test_an_unknown_size_among_others() -> None:
    x, length = Var("x", TensorType((B, S, 768))), Var("length", TensorType((1,), "int64"))
    shape = op("concatenate", (size(x, 0), length, ints(768)), axis=0)
    assert dims(shape) == [B, ANY, 768]
    found = op("dyn.reshape", x, shape)
    assert found.checked_type == TensorType((B, S, 768))
    assert static(found) == ("reshape", {"newshape": (0, 0, 768), "allowzero": False})


def test_unknown_operands_give_unknown_values() -> None:
    length = Var("length", TensorType((1,), "int64"))
    assert dims(op("concatenate", (length, length), axis=0)) is None
    unsized = Var("shape", TensorType((ANY,), "int64"))
    assert dims(op("concatenate", (unsized, ints(1)), axis=0)) is None


def test_expand_and_slices_of_a_mask() -> None:
    mask = Var("mask", TensorType((B, S)))
    wide = op("expand_dims", mask, axis=(1, 2))
    shape = op("concatenate", (size(mask, 0), ints(1), size(mask, 1), size(mask, 1)), axis=0)
    found = op("dyn.broadcast_to", wide, shape)
    assert found.checked_type == TensorType((B, 1, S, S))
    assert static(found) is None
    past = Var("past", TensorType((B, SymDim.named("past") + S)))
    cut = op("dyn.strided_slice", past, size(mask, 1), ints(2**63 - 1), ints(1), ints(1))
    assert cut.checked_type == TensorType((B, SymDim.named("past")))
    whole = op("dyn.strided_slice", mask, ints(0), size(mask, 1), ints(1), ints(1))
    assert whole.checked_type == TensorType((B, S))
    assert static(whole) == ("strided_slice", {"begin": (0,), "end": (2**63 - 1,), "strides": (1,), "axes": (1,)})


def test_a_table_of_positions_meets_a_sequence() -> None:
    """As many of 64 positions are selected as the sequence is long; where they broadcast with the sequence, the sizes are equal."""
    ids = Var("ids", TensorType((B, S), "int64"))
    taken = op("dyn.strided_slice", Constant(np.arange(64).reshape(1, 64)), ints(0), size(ids, 1), ints(1), ints(1))
    assert taken.checked_type == TensorType((1, parse_dim("min(64, seq)")), "int64")
    assert op("dyn.broadcast_to", taken, op("shape_of", ids)).checked_type == TensorType((B, S), "int64")
    assert op("dyn.broadcast_to", ids, op("shape_of", taken)).checked_type == TensorType((B, S), "int64")


@given(limit=st.integers(1, 3), length=st.integers(0, 5))
def test_a_minimum_that_broadcasts_with_its_size(limit: int, length: int) -> None:
    assert broadcast((smaller(limit, S),), (S,)) == (S,)
    try:
        (found,) = np.broadcast_shapes((min(limit, length),), (length,))
    except ValueError:
        return
    assert found == length


def test_ranges_and_fills_have_symbolic_sizes() -> None:
    x = Var("x", TensorType((B, S)))
    length = op("squeeze", size(x, 1), axis=(0,))
    assert op("arange", scalar(0), length, scalar(1)).checked_type == TensorType((S,), "int64")
    assert op("arange", scalar(0), length, scalar(2)).checked_type == TensorType(((S + 1) // 2,), "int64")
    assert op("arange", length, op("take", op("shape_of", x), scalar(0), axis=0), scalar(1)).checked_type == TensorType(
        (parse_dim("max(0, batch - seq)"),), "int64"
    )
    fill = op("dyn.full", Constant(np.array(0, np.float32)), op("shape_of", x))
    assert fill.checked_type == TensorType((B, S))
    assert op("reshape", x, newshape=(-1,)).checked_type == TensorType((B * S,))
    assert dims(op("ndarray_size", x)) == [B * S]


def test_made_vectors_are_followed() -> None:
    x = Var("x", TensorType((B, S, 3)))
    ones = op("dyn.full", scalar(1), op("shape_of", op("shape_of", x)))
    assert dims(ones) == [1, 1, 1]
    assert dims(op("full", scalar(7), shape=(2,))) == [7, 7]
    assert dims(op("arange", scalar(4), scalar(0), scalar(-2))) == [4, 2]
    first, last = (op("take", op("shape_of", x), scalar(axis), axis=0) for axis in (0, 2))
    assert dims(op("stack", (first, last), axis=0)) == [B, 3]
    parts = op("split", op("shape_of", x), indices_or_sections=3)
    assert dims(infer_type(parts[1])) == [S]
    assert dims(op("dyn.reshape", op("shape_of", x), ints(-1))) == [B, S, 3]
    assert dims(op("tile", op("shape_of", x, end=1), reps=(2,))) == [B, B]
    assert dims(op("strided_slice", op("shape_of", x), begin=(-1,), end=(-9,), strides=(-1,))) == [3, S, B]
    assert dims(op("gather", op("shape_of", x), ints(2, 0), axis=0)) == [3, B]
    hot = op("one_hot", ints(1), scalar(9), scalar(4), depth=3)
    assert dims(hot) == [4, 9, 4]
    unknown = op("concatenate", (ints(0), Var("i", TensorType((1,), "int64"))), axis=0)
    assert dims(op("take", op("shape_of", x), unknown, axis=0)) == [B, ANY]
    assert dims(op("gather", op("shape_of", x), unknown, axis=0)) == [ANY, ANY]
    assert dims(op("take", op("shape_of", x), ints(9), axis=0)) == [ANY]  # out of range: a run would fail


def test_unknown_types_stay_unknown() -> None:
    x = Var("x")
    assert repr(op("concatenate", (x, ints(1)), axis=0).checked_type) == "_"
    assert repr(op("dyn.reshape", x, ints(1)).checked_type) == "_"


CASES: list[tuple[str, dict[str, AnyValue]]] = [
    ("reshape", {"newshape": (2, -1)}),
    ("transpose", {"axes": (1, 0)}),
    ("squeeze", {"axis": (0,)}),
    ("expand_dims", {"axis": (1,)}),
    ("strided_slice", {"begin": (0,), "end": (-1,), "strides": (2,), "axes": (1,)}),
    ("broadcast_to", {"shape": (2, 1, 1)}),
    ("tile", {"reps": (2, 1)}),
    ("repeat", {"repeats": 2, "axis": 1}),
    ("reverse", {"axis": 1}),
    ("nn.batch_flatten", {"axis": 0}),
    ("split", {"indices_or_sections": (1, 3), "axis": 1}),
    ("concatenate", {"axis": 1}),
    ("stack", {"axis": -1}),
]


@pytest.mark.parametrize(("name", "attrs"), CASES)
@settings(max_examples=share(12, 25))
@given(data=st.data())
def test_inferred_values_equal_computed_ones(bench: "Bench", name: str, attrs: dict[str, AnyValue], data: st.DataObject) -> None:
    elements = data.draw(st.lists(st.sampled_from([0, 1, 5, B, S, B * S + 1, ANY]), min_size=4, max_size=4))
    known = np.empty((1, 4), np.object_)
    known[0, :] = elements
    sizes = {"batch": data.draw(st.integers(0, 3)), "seq": data.draw(st.integers(0, 3))}
    numbers = [bench.run_dim(dim, sizes) for dim in elements]
    array: Array = np.array([[99 if number is None else number for number in numbers]], np.int64)
    pair = name in ("concatenate", "stack")
    type_, bound = TensorType((1, 4), "int64"), get_op(name).bind_attrs(attrs)
    types = [TupleType([type_, type_])] if pair else [type_]
    result = get_op(name).infer(types, bound)
    found = get_op(name).known_value(types, [(known, known)] if pair else [known], bound, result)
    value = bench.value(name, [(array, array)] if pair else [array], **attrs)
    for part, wanted in zip(found if isinstance(found, tuple) else [found], value if isinstance(value, tuple) else [value], strict=True):
        assert part is not None
        assert part.shape == wanted.shape
        for dim, number in zip(part.flat, wanted.flat, strict=True):
            assert isinstance(dim, (int, SymDim, Any))
            assert bench.run_dim(dim, sizes) in (None, number)


def test_splats_stay_splats(bench: "Bench") -> None:
    splat = Tensor.splat(2.5, (4, 1024, 1024), "float32")
    type_ = TensorType(splat.shape, "float32")
    for name, attrs in (
        ("reshape", {"newshape": (-1,)}),
        ("transpose", {"axes": (2, 0, 1)}),
        ("strided_slice", {"begin": (1,), "end": (3,)}),
        ("tile", {"reps": (3, 2, 2)}),
        ("zeros_like", {}),
    ):
        bound = get_op(name).bind_attrs(attrs)
        found = evaluate_call(get_op(name), [splat], bound, get_op(name).infer([type_], bound))
        assert isinstance(found, Tensor)
        assert found.is_splat, name
    split, bound = get_op("split"), get_op("split").bind_attrs({"indices_or_sections": 2})
    halves = evaluate_call(split, [splat], bound, split.infer([type_], bound))
    assert isinstance(halves, tuple)
    assert [isinstance(half, Tensor) and half.is_splat for half in halves] == [True, True]
