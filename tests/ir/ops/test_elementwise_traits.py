"""The declared traits of operators hold, and traits that hold are declared; bit for bit, on special values too."""

from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.dtypes import to_numpy
from passat.ir.evaluate import EvaluateError, evaluate_call
from passat.ir.op import Op, OpTypeError, list_ops
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # random bits are sometimes signaling NaNs

MODULES = ("activation", "arithmetic", "cast", "comparison", "unary")
OPS = [op for op in list_ops() if op.relation.__module__ in [f"passat.ir.ops.{name}" for name in MODULES]]
UNARY = [op for op in OPS if op.arity == 1 and not op.name.startswith("elemwise_")]
BINARY = [op for op in OPS if op.arity == 2]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
WHOLE = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "bool"]
ATTRS: dict[str, list[dict[str, AnyValue]]] = {
    "cast": [{"dtype": dtype} for dtype in (*FLOATS, *WHOLE)],
    "clip": [{}, {"a_min": 0, "a_max": 6}, {"a_min": 6, "a_max": 0}, {"a_max": 3}],
    "nn.shrink": [{"bias": 0.5}],
    "nn.thresholded_relu": [{"alpha": alpha} for alpha in (1.0, 0.0, -1.0)],
}
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, 6.0, 7.0, -3.25, 1e-40, 6e4, -6e4]
seeds = st.integers(0, 2**32 - 1)
tried = settings(max_examples=5)


def values(dtype: str, seed: int, count: int = 64) -> Array:
    """Special values, then random bits."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(np.bool_)
    kind = to_numpy(dtype)
    bits = np.frombuffer(rng.bytes(count * kind.itemsize), kind)
    if dtype in FLOATS:
        return np.concatenate([np.asarray(SPECIAL, np.float64).astype(kind), bits])
    limits = np.iinfo(dtype)
    return np.concatenate([np.array([limits.min, limits.max, 0, 1, 2], kind), bits])


def pairs(dtype: str, seed: int) -> tuple[Array, Array]:
    """Each special value with each other, and random pairs."""
    some = values(dtype, seed, 8)
    return np.repeat(some, len(some)), np.tile(some, len(some))


def apply(op: Op, *operands: Array, **attrs: AnyValue) -> Array | None:
    """The value of a call; None if the operator does not accept the operands."""
    tensors = [Tensor.dense(operand) for operand in operands]
    bound = op.bind_attrs(attrs)
    try:
        result = evaluate_call(op, tensors, bound, op.infer([TensorType(t.shape, t.dtype) for t in tensors], bound))
    except (OpTypeError, EvaluateError):
        return None
    assert isinstance(result, Tensor)
    return result.numpy()


def same(a: Array | None, b: Array | None, *, signs: bool = True) -> bool:
    """True if two arrays have the same bits, with all NaN equal; `signs` distinguishes 0.0 and -0.0."""
    if a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.name not in FLOATS:
        return bool(np.array_equal(a, b))
    equal = (a == b) & ((np.signbit(a) == np.signbit(b)) | (not signs))
    return bool(np.all(equal | (np.isnan(a) & np.isnan(b))))


def attrs_of(op: Op) -> Sequence[dict[str, AnyValue]]:
    return ATTRS.get(op.name, [{}])


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
@tried
@given(seed=seeds)
def test_idempotent_and_involution(op: Op, seed: int) -> None:
    results = []
    for dtype in (*FLOATS, *WHOLE):
        for attrs in attrs_of(op):
            x = values(dtype, seed)
            if op.name == "cast" and dtype in FLOATS and attrs["dtype"] in WHOLE:
                x = np.abs(x[np.isfinite(x.astype(np.float64))]).clip(0, 100).astype(x.dtype)  # the range of an integer
            once = apply(op, x, **attrs)
            if once is not None:
                twice = apply(op, once, **attrs)
                results.append((same(twice, once), same(twice, x), attrs, dtype))
    assert results
    if op.idempotent:
        assert all(idempotent for idempotent, *_ in results), results
    else:
        assert not all(idempotent for idempotent, *_ in results)
    if op.involution:
        assert all(involution for _, involution, *_ in results), results
    else:
        assert op.name == "copy" or not all(involution for _, involution, *_ in results)


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
@tried
@given(seed=seeds)
def test_even_odd_and_not_negative(op: Op, seed: int) -> None:
    for dtype in FLOATS:
        x = values(dtype, seed)
        made, of_negative = apply(op, x, **attrs_of(op)[0]), apply(op, -x, **attrs_of(op)[0])
        if made is not None and of_negative is not None:
            assert not op.even or same(of_negative, made), dtype
            assert not op.odd or same(of_negative, -made), dtype
            assert not op.non_negative or not np.any(np.signbit(made) & ~np.isnan(made)), dtype
    known = {"even": ("abs", "cos", "cosh"), "non_negative": ("abs", "cosh", "exp", "nn.softplus", "sigmoid")}
    assert all(getattr(op, trait) == (op.name in names) for trait, names in known.items())


@pytest.mark.parametrize("op", [op for op in UNARY if op.monotonic], ids=lambda op: op.name)
@tried
@given(seed=seeds)
def test_monotonic(op: Op, seed: int) -> None:
    for dtype in (*FLOATS, "int8", "int64"):
        x = values(dtype, seed)
        x = np.sort(x[~np.isnan(x.astype(np.float64))])
        made = apply(op, x)
        if made is not None:
            wide = made.astype(np.float64)
            rounding = 2.0 ** -{"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype] * 2 if dtype in FLOATS else 0.0
            assert not np.isnan(wide).any(), dtype
            assert np.all((wide[:-1] <= wide[1:]) | (wide[:-1] - wide[1:] <= rounding * np.abs(wide[1:]))), dtype


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@tried
@given(seed=seeds)
def test_of_one_operand_twice(op: Op, seed: int) -> None:
    made = [(apply(op, x, x, **attrs_of(op)[0]), x) for x in (values(dtype, seed) for dtype in (*FLOATS, *WHOLE))]
    results = [same(found, x) for found, x in made if found is not None]
    assert op.idempotent == (bool(results) and all(results))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@tried
@given(seed=seeds)
def test_commutative(op: Op, seed: int) -> None:
    signs = op.name not in ("maximum", "minimum")  # of two zeros, either may be the result
    results = []
    for dtype in (*FLOATS, *WHOLE):
        x, y = pairs(dtype, seed)
        if (found := apply(op, x, y)) is not None:
            results.append(same(found, apply(op, y, x), signs=signs))
    if op.commutative:
        assert all(results)
        assert results
    else:
        assert not all(results) or not results  # every dtype has a divisor of zero, so nothing is left


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@tried
@given(seed=seeds)
def test_associative(op: Op, seed: int) -> None:
    exact_on_floats = op.name in ("maximum", "minimum")
    results = []
    for dtype in (*FLOATS, *WHOLE) if exact_on_floats else WHOLE:
        x, y = pairs(dtype, seed)
        z = np.random.default_rng(seed).permutation(y)
        inner, outer = apply(op, x, y), apply(op, y, z)
        if inner is not None and outer is not None and inner.dtype == x.dtype:
            results.append(same(apply(op, inner, z), apply(op, x, outer), signs=not exact_on_floats))
    if op.associative:
        assert all(results)
        assert results
    else:
        assert not all(results) or not results or op.name in ("equal", "not_equal")  # for booleans they are


@pytest.mark.parametrize("op", [op for op in BINARY if op.unit is not None], ids=lambda op: op.name)
@tried
@given(seed=seeds)
def test_unit(op: Op, seed: int) -> None:
    checked = 0
    for dtype in (*FLOATS, *WHOLE):
        x = values(dtype, seed)
        unit = np.asarray(op.unit, x.dtype)
        signs = op.name != "add"  # -0.0 + 0 is 0.0
        for operands in [(x, unit), (unit, x)] if op.commutative else [(x, unit)]:
            found = apply(op, *operands)
            if found is not None:
                assert same(found, x, signs=signs), dtype
                checked += 1
    assert checked


@pytest.mark.parametrize("op", [op for op in BINARY if op.zero is not None], ids=lambda op: op.name)
@tried
@given(seed=seeds)
def test_zero(op: Op, seed: int) -> None:
    checked = 0
    for dtype in (*FLOATS, *WHOLE):
        x = values(dtype, seed)
        if dtype in FLOATS:
            x = x[np.isfinite(x)]  # inf * 0 is nan
        zero = np.asarray(op.zero, x.dtype)
        for operands in [(x, zero), (zero, x)] if op.commutative else [(x, zero)]:
            found = apply(op, *operands)
            if found is not None:
                assert same(found, np.broadcast_to(zero, x.shape), signs=False), dtype
                checked += 1
    assert checked


@pytest.mark.parametrize("op", [op for op in OPS if op.elementwise and op in (*UNARY, *BINARY)], ids=lambda op: op.name)
@tried
@given(seed=seeds)
def test_elementwise(op: Op, seed: int) -> None:
    """An element of the result depends on the operands' elements at its position: moving these moves it, and a splat gives a splat."""
    rng = np.random.default_rng(seed)
    checked = 0
    for dtype in (*FLOATS, *WHOLE):
        x = values(dtype, seed)
        operands = [x, rng.permutation(x)][: op.arity]
        if op.name in ("divide", "floor_divide", "floor_mod", "fmod", "power") and dtype in WHOLE and dtype != "bool":
            operands = [x, np.maximum(np.abs(x) % 5, 1).astype(x.dtype)]
        attrs = attrs_of(op)[0]
        found = apply(op, *operands, **attrs)
        if found is None:
            continue
        order = rng.permutation(len(x))
        moved = apply(op, *(operand[order] for operand in operands), **attrs)
        assert moved is not None
        assert close(moved, found[order]), dtype
        splats = [Tensor.splat(operand[7], (2, 3), dtype) for operand in operands]
        bound = op.bind_attrs(attrs)
        splat = evaluate_call(op, splats, bound, op.infer([TensorType((2, 3), dtype)] * op.arity, bound))
        assert isinstance(splat, Tensor)
        assert splat.is_splat
        assert close(splat.numpy(), np.broadcast_to(found[7], (2, 3))), dtype
        checked += 1
    assert checked or op.name == "cast"


def close(a: Array, b: Array) -> bool:
    """Equal up to one rounding: vectorized and scalar loops of a transcendental function may differ by that."""
    if a.dtype.name not in FLOATS:
        return bool(np.array_equal(a, b))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    step = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-51}[a.dtype.name]
    return bool(np.allclose(wide_a, wide_b, rtol=step, atol=1e-44, equal_nan=True))


@pytest.mark.parametrize("name", ["elemwise_sum", "elemwise_mean", "elemwise_max", "elemwise_min"])
def test_operators_over_tuples_keep_splats(name: str) -> None:
    op = next(op for op in OPS if op.name == name)
    field = TensorType((3,), "float32")
    operands = tuple(Tensor.splat(value, (3,), "float32") for value in (1.0, 5.0, 3.0))
    result = evaluate_call(op, [operands], Attrs(), field)
    assert isinstance(result, Tensor)
    assert result.is_splat
    assert result.uniform() == {"elemwise_sum": 9, "elemwise_mean": 3, "elemwise_max": 5, "elemwise_min": 1}[name]
