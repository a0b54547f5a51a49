"""The scalar functions of kernels have ONNX Runtime's values, or are within units in the last place."""

import functools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import onnx
import pytest

from tests.runtime.kernels.running import DTYPES, SPECIAL, assert_same_bits, both, fused, model, most_level, own_session, session

FLOATS = ("float", "double")
INTEGERS = ("int32", "int64", "int8", "uint8")
LIMITS = {kind: np.iinfo(DTYPES[kind]) for kind in INTEGERS}


def values(kind: str) -> AnyValue:
    if kind == "bool":
        return np.array([False, True])
    if kind in LIMITS:
        limits = LIMITS[kind]
        return np.array(
            sorted({limits.min, limits.min + 1, 0, 1, 2, 3, 100, limits.max - 1, limits.max} | ({-1, -2} if limits.min else set())),
            DTYPES[kind],
        )
    with np.errstate(over="ignore"):
        return SPECIAL.astype(DTYPES[kind])


S = re.compile(r"\bs\b")
FIRST = {"bool": "Not(x)", "uint8": "Max(x, zero)"}


def check(nodes: Sequence[str], kind: str, folder: Path, made: Sequence[str] = ()) -> None:
    """Each node in a kernel of its own, after another node, on all pairs of values. `made` are the types of the results."""
    x, y = (each.ravel() for each in np.meshgrid(values(kind), values(kind)))
    results = [f"{made[number] if made else kind}[N] r{number}" for number in range(len(nodes))]
    steps = [f"s{number} = {FIRST.get(kind, 'Neg(x)')} r{number} = {S.sub(f's{number}', node)}" for number, node in enumerate(nodes)]
    constants = [f"{kind} {name} = {{{value}}}" for name, value in (("zero", 0), ("six", 6), ("two", 2), ("three", 3))]
    text = f"g ({kind}[N] x, {kind}[N] y) => ({', '.join(results)}) <{', '.join(constants[: 0 if kind == 'bool' else 4])}> {{ {' '.join(steps)} }}"
    proto = model(text)
    given = {"x": x, "y": y}
    expected = session(proto).run(None, given)
    for node, one, other in zip(nodes, expected, own_session(proto, folder, kernels=len(nodes)).run(None, given), strict=True):
        assert_same_bits(one, other, node)


COMPARISONS = ["Equal(s, y)", "Less(s, y)", "Greater(s, y)", "LessOrEqual(s, y)", "GreaterOrEqual(y, s)"]
ARITHMETIC = ["Add(s, y)", "Sub(s, y)", "Mul(s, y)", "Max(s, y)", "Min(s, y)", "Sign(s)", "Clip(s, two, six)", "Clip(s, two)"]
OF_FLOATS = [
    "Abs(s)", "Neg(s)", "Relu(s)", "Sqrt(s)", "Reciprocal(s)", "Clip(s, zero, six)", "Clip(s, , six)", "Pow(s, two)", "Pow(s, three)", "Div(s, y)",
    "Div(six, s)", "Floor(s)", "Ceil(s)", "Round(s)", "Max(s, y, x)", "Min(x, s, y)", "Sum(s, y, x)",
]  # fmt: skip


NUMBERS = {"float": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "double": 11}


def check_with_casts(nodes: Sequence[str], kind: str, folder: Path, made: Sequence[str]) -> None:
    """Also casts to the other types, in the same library."""
    wanted = [each for each in NUMBERS if kind not in FLOATS or each not in ("int8", "uint8")]
    check([*nodes, *(f"Cast<to = {NUMBERS[each]}>(s)" for each in wanted)], kind, folder, [*made, *wanted])


@pytest.mark.parametrize("kind", FLOATS)
def test_operators_on_floats_give_the_same_bits(kind: str, tmp_path: Path) -> None:
    nodes = [*ARITHMETIC, *OF_FLOATS]
    check_with_casts([*nodes, *COMPARISONS], kind, tmp_path, [kind] * len(nodes) + ["bool"] * len(COMPARISONS))


@pytest.mark.parametrize("kind", INTEGERS)
def test_operators_on_integers_give_the_same_bits(kind: str, tmp_path: Path) -> None:
    signed = [] if kind == "uint8" else ["Abs(s)", "Neg(s)"]
    divided = [node.replace("y", by) for by in ("six", "two", "three") for node in ("Div(s, y)", "Mod(s, y)", "Mod<fmod = 1>(s, y)")]
    nodes = [*ARITHMETIC, *signed, *([] if kind in ("int64", "uint8") else ["Relu(s)"]), *divided]
    check_with_casts([*nodes, *COMPARISONS], kind, tmp_path, [kind] * len(nodes) + ["bool"] * len(COMPARISONS))


def test_operators_on_bool_give_the_same_bits(tmp_path: Path) -> None:
    nodes = ["And(s, y)", "Or(s, y)", "Xor(s, y)", "Not(s)", "Equal(s, y)"]
    check_with_casts(nodes, "bool", tmp_path, ["bool"] * len(nodes))


def test_casts_to_float16_give_the_same_bits(tmp_path: Path) -> None:
    """In one library: the compiler spends most of its time on the header for float16."""
    kinds = [*FLOATS, *INTEGERS, "bool"]
    first = {kind: FIRST.get(kind, "Neg(x)").replace("(x", f"(x{kind}") for kind in kinds}
    steps = [f"s{kind} = {first[kind]} r{kind} = Cast<to = 10>(s{kind})" for kind in kinds]
    proto = model(
        f"g ({', '.join(f'{kind}[N{kind}] x{kind}' for kind in kinds)}) => ({', '.join(f'float16[N{kind}] r{kind}' for kind in kinds)}) "
        f"<uint8 zero = {{0}}> {{ {' '.join(steps)} }}"
    )
    feed = {f"x{kind}": np.tile(values(kind), 5) for kind in kinds}
    expected, found = session(proto).run(None, feed), own_session(proto, tmp_path, kernels=len(kinds)).run(None, feed)
    for kind, one, other in zip(kinds, expected, found, strict=True):
        assert_same_bits(one, other, kind)


def test_casts_of_floats_to_small_integers_are_left_alone() -> None:
    proto = model("g (float[N] x) => (int8[N] r) { s = Neg(x) t = Abs(s) r = Cast<to = 3>(t) }")
    assert [node.op_type for node in fused(proto).model.graph.node] == ["Kernel0", "Cast"]


def test_where_selects(tmp_path: Path) -> None:
    """The sign of zero is kept; ONNX Runtime's Where loses it."""
    x, y = (each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL))
    text = "g (float[N] x, float[N] y) => (float[N] r) { c = Less(x, y) r = Where(c, x, y) }"
    [(one, other)] = both(text, tmp_path, [{"x": x, "y": y}])
    np.testing.assert_array_equal(one, other)
    assert_same_bits(np.where(x < y, x, y), other)


NEARLY = ["LeakyRelu<alpha = 0.1>(s)", "LeakyRelu(s)", "HardSigmoid(s)", "HardSigmoid<alpha = 0.1, beta = 0.6>(s)", "Softsign(s)",
          "ThresholdedRelu<alpha = 2.0>(s)", "HardSwish(s)"]  # fmt: skip
COMPOSED = ["Softplus(s)", "Elu<alpha = 1.5>(s)", "Selu(s)", "Gelu(s)", 'Gelu<approximate = "tanh">(s)']


FUNCTIONS: dict[str, tuple[AnyValue, int]] = {
    "Exp": (np.exp, 2),
    "Tanh": (np.tanh, 2),
    "Sigmoid": (lambda v: 1 / (1 + np.exp(-v)), 3),
    "Log": (np.log, 1),
    "Sin": (np.sin, 2),
    "Cos": (np.cos, 2),
    "Erf": (np.vectorize(math.erf), 2),
}
EVERY = [*(name for name in OF_FLOATS if "," not in name), *NEARLY, *COMPOSED, *(f"{name}(s)" for name in FUNCTIONS), "Mish(s)"]


def of_each(nodes: Sequence[str], kind: str = "float") -> onnx.ModelProto:
    """Each node in a kernel of its own, after another node. Tests of the same nodes share the library."""
    results = ", ".join(f"{kind}[N] r{number}" for number in range(len(nodes)))
    steps = " ".join(f"s{number} = Neg(x) r{number} = {node.replace('(s)', f'(s{number})')}" for number, node in enumerate(nodes))
    return model(f"g ({kind}[N] x) => ({results}) {{ {steps} }}")


def test_composed_functions_are_near_to_onnx_runtimes(tmp_path: Path) -> None:
    """ONNX Runtime may contract products and sums."""
    x = np.concatenate([np.linspace(-20, 20, 20_001, dtype=np.float32), [0.0, -0.0, 1e5]]).astype(np.float32)
    proto = of_each(EVERY)
    expected, found = session(proto).run(None, {"x": x}), own_session(proto, tmp_path, kernels=len(EVERY)).run(None, {"x": x})
    for node, one, other in zip(EVERY, expected, found, strict=True):
        if node not in (*NEARLY, *COMPOSED, "Mish(s)"):
            continue
        # Softplus, and one plus the tangent, lose digits for large negative numbers, here and there
        atol = 2e-6 if node == "Mish(s)" or "tanh" in node else 4e-7
        np.testing.assert_allclose(other, one, rtol=3e-7 if node in NEARLY else 1e-6, atol=atol, err_msg=node)


def test_float16_is_computed_as_float32_and_rounded_once(tmp_path: Path) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    text = "g (float16[N] x, float16[N] y) => (float16[N] r) { s = Mul(x, y) t = Add(s, x) u = Neg(t) r = Abs(u) }"
    y = np.full(len(every), 1.001, np.float16)
    with np.errstate(all="ignore"):
        wide = np.abs(every.astype(np.float32) * y.astype(np.float32) + every.astype(np.float32)).astype(np.float16)
    for level in (None, 0):
        [(_, other)] = both(text, tmp_path, [{"x": every, "y": y}], level=level)
        assert_same_bits(wide, other)


def test_blocks_of_float16_broadcast_along_rows_and_between_them(tmp_path: Path) -> None:
    """Rows shorter and longer than a block, some of them together; operands of other types beside those of float16."""
    text = (
        "g (float16[N,M] x, float16[M] w, float16[N,1] v, float[N,M] z) => (float16[N,M] r, float[N,M] s) "
        "{ a = Mul(x, w) b = Add(a, v) r = Neg(b) c = Cast<to = 1>(r) s = Mul(c, z) }"
    )
    random = np.random.default_rng(0)
    feeds: list[dict[str, AnyValue]] = []
    for n, m in ((3, 5), (1, 1), (0, 5), (3, 0), (700, 3), (5, 1023), (3, 1024), (2, 1025), (3, 40_000)):
        x, w, v = (random.standard_normal(shape).astype(np.float16) for shape in ((n, m), (m,), (n, 1)))
        feeds.append({"x": x, "w": w, "v": v, "z": random.standard_normal((n, m), np.float32)})
    own = own_session(model(text), tmp_path, threads=2)
    for feed in feeds:
        x, w, v = (feed[name].astype(np.float32) for name in "xwv")
        r, s = own.run(None, feed)
        assert_same_bits((-(x * w + v)).astype(np.float16), r)
        assert_same_bits(-(x * w + v) * feed["z"], s)


@functools.cache
def inputs_of_functions(kind: str) -> AnyValue:
    random = np.random.default_rng(0)
    dtype = DTYPES[kind]
    with np.errstate(all="ignore"):
        anything: AnyValue = random.integers(0, 2**32, 50_000, dtype=np.uint32).view(np.float32).astype(dtype)
        more: AnyValue = random.integers(0, 2**64, 50_000, dtype=np.uint64).view(np.float64).astype(dtype)
    parts = [np.linspace(low, high, 30_001) for low, high in ((-110, 100), (-760, 720), (-1.2, 1.2), (0.5, 2))]
    return np.concatenate([anything, more, *(part.astype(dtype) for part in parts), SPECIAL.astype(dtype)])


@functools.cache
def exact_values(name: str, kind: str) -> AnyValue:
    """Of the negated inputs, in the widest type, which takes longer than the kernels."""
    exactly, _ = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        return exactly(-inputs_of_functions(kind).astype(np.float64 if name == "Erf" else np.longdouble))


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("kind", FLOATS)
def test_functions_of_our_own_are_within_units_in_the_last_place(kind: str, level: int, tmp_path: Path) -> None:
    """At each level of instructions that this processor has."""
    if level > most_level():
        pytest.skip("this processor lacks the instructions of this level, and would run those below")
    x = inputs_of_functions(kind)
    nodes = EVERY if kind == "float" else [f"{name}(s)" for name in FUNCTIONS if name != "Erf"]
    own = own_session(of_each(nodes, kind), tmp_path, level=level, kernels=len(nodes))
    for some in (np.full(x.shape, True), ~(np.abs(x) >= 2**20)):  # sine and cosine of all below 2^20 are computed differently
        for node, value in zip(nodes, own.run(None, {"x": x[some]}), strict=True):
            name = node.removesuffix("(s)")
            if name in FUNCTIONS:
                within(name, -x[some], value, exact_values(name, kind)[some])


def within(name: str, x: AnyValue, found: AnyValue, exact: AnyValue) -> None:
    _, ulps = FUNCTIONS[name]
    dtype = found.dtype
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        error = np.abs(found.astype(np.longdouble) - exact) / np.spacing(np.abs(rounded)).astype(np.longdouble)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    np.testing.assert_array_equal(found[np.isinf(rounded)], rounded[np.isinf(rounded)])
    finite = np.isfinite(rounded)
    least = np.finfo(dtype).tiny
    normal = finite & (np.abs(exact) >= least)
    assert error[normal].max() <= ulps, name
    # Sigmoid may be 0 where the exact result is denormal.
    assert np.abs(found[finite & ~normal] - exact[finite & ~normal]).max(initial=0) <= least
    zero = x == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(rounded[zero]))


@pytest.mark.parametrize("kind", [kind for kind in INTEGERS if kind != "uint8"])
def test_quotients_by_negative_constants_give_the_same_bits(kind: str, tmp_path: Path) -> None:
    text = f"g ({kind}[N] x) => ({kind}[N] r, {kind}[N] t, {kind}[N] u) <{kind} d = {{-3}}> {{ s = Neg(x) r = Div(s, d) t = Mod(s, d) u = Mod<fmod = 1>(s, d) }}"
    for output in range(3):
        [(one, other)] = both(text, tmp_path, [{"x": values(kind)}], output=output)
        assert_same_bits(one, other)


@pytest.mark.parametrize("divisor", ["y", "zero"])
def test_quotients_by_other_integers_are_left_alone(divisor: str) -> None:
    """ONNX Runtime reports divisions by zero."""
    text = f"g (int32[N] x, int32[N] y) => (int32[N] r) <int32 zero = {{0}}> {{ s = Neg(x) t = Abs(s) r = Div(t, {divisor}) }}"
    assert [node.op_type for node in fused(model(text)).model.graph.node] == ["Kernel0", "Div"]


def test_powers_are_near_to_onnx_runtimes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for kind in FLOATS:
        dtype = DTYPES[kind]
        some = np.concatenate([values(kind), np.array([2, 3, 4, -3, 0.5, -0.5, 1e-3, 17, 1.0000001, 0.99999994], dtype)])
        x, y = (each.ravel() for each in np.meshgrid(some, some))
        many: AnyValue = np.exp(random.standard_normal(20_000) * 20).astype(dtype), (random.standard_normal(20_000) * 4).astype(dtype)
        nodes = ["Pow(x, y)", "Pow(x, half)", "Pow(x, minus)", "Pow(x, four)"]
        constants = ", ".join(f"{kind} {name} = {{{value}}}" for name, value in (("half", 0.5), ("minus", -1.5), ("four", 4)))
        results = ", ".join(f"{kind}[N] r{number}" for number in range(len(nodes)))
        steps = " ".join(f"s{number} = {node} r{number} = Neg(s{number})" for number, node in enumerate(nodes))
        proto = model(f"g ({kind}[N] x, {kind}[N] y) => ({results}) <{constants}> {{ {steps} }}")
        plain, own = session(proto), own_session(proto, tmp_path, kernels=len(nodes))
        for given in ((x, y), many):
            feed = dict(zip("xy", given, strict=True))
            for node, one, other in zip(nodes, plain.run(None, feed), own.run(None, feed), strict=True):
                np.testing.assert_array_max_ulp(one, other, 2)
                known = ~np.isnan(one)
                np.testing.assert_array_equal(np.signbit(one[known]), np.signbit(other[known]), node)


def test_remainders_of_floats_give_the_same_bits(tmp_path: Path) -> None:
    for kind in FLOATS:
        check(["Mod<fmod = 1>(s, y)"], kind, tmp_path)


def test_nan_goes_through_every_kernel(tmp_path: Path) -> None:
    proto = of_each(EVERY)
    for level in (0, 2):
        found = own_session(proto, tmp_path, level=level, kernels=len(EVERY)).run(None, {"x": np.full(37, np.nan, np.float32)})
        numbers = [node for node, value in zip(EVERY, found, strict=True) if not np.isnan(value).all()]
        assert numbers == ["ThresholdedRelu<alpha = 2.0>(s)"]  # 0, as ONNX defines it
