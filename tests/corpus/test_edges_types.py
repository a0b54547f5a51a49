"""Element types, empty and scalar tensors, quantized models, sequences and optional values: values stay equal, and redundant nodes are
removed."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import passat
from passat.ir.onnx import check
from tests.corpus.optimizing import floats, nodes, operators, optimize, parse, run

FLOATS = {"float16": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64"}
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def array(kind: str, *values: float) -> np.ndarray[Any, np.dtype[Any]]:
    return np.array(values).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else FLOATS.get(kind, kind))


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_arithmetic_of_every_type(kind: str) -> None:
    """ONNX Runtime supports few types for most of these operators, so only these are compared."""
    model = parse(
        f"""g ({kind}[N] x) => ({kind}[N] y, bool[N] b) {{
            a = Add(x, zero)
            c = Mul(a, one)
            d = Sub(c, zero)
            e = Add(one, one)
            f = Mul(d, e)
            y = Identity(f)
            b0 = Equal(f, d)
            b1 = Not(b0)
            b = Not(b1)
        }}"""
    )
    for name, value in (("zero", 0), ("one", 1)):
        model.graph.initializer.append(numpy_helper.from_array(array(kind, value), name))
    result = passat.optimize(model, opt_level=3, allow_unverified=True)
    assert operators(result.model) == {"Mul": 1, "Equal": 1}
    verification = result.report.verification
    assert verification is not None
    assert verification.equal is not False
    if kind in ("float", "double", "int32", "int64"):
        assert verification.equal is True


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_wrap_around(kind: str) -> None:
    """Constant folding must wrap like the operators."""
    info = np.iinfo(kind)
    model = parse(
        f"""g ({kind}[1] x) => ({kind}[1] y) {{
            a = Add(top, one)
            b = Mul(top, top)
            c = Sub(bottom, one)
            d = Max(a, b, c)
            y = Add(x, d)
        }}"""
    )
    for name, value in (("top", info.max), ("bottom", info.min), ("one", 1)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([value], kind), name))
    out = passat.optimize(model, opt_level=3, verify=False).model
    assert operators(out) == {"Add": 1}
    (constant,) = [numpy_helper.to_array(tensor) for tensor in out.graph.initializer]
    with np.errstate(over="ignore"):
        top, bottom, one = np.array([info.max], kind), np.array([info.min], kind), np.array([1], kind)
        assert constant == np.max([top + one, top * top, bottom - one], axis=0)


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_folding_keeps_infinities_nan_and_the_sign_of_zero(kind: str) -> None:
    dtype = FLOATS[kind]
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45 if kind == "float" else 5e-8, 1.0], dtype)
    model = parse(
        f"""g ({kind}[7] x) => ({kind}[7] a, {kind}[7] b, {kind}[7] c, {kind}[7] d) {{
            a = Mul(special, zero)
            b = Div(one, special)
            c = Add(x, negative)
            d = Mul(x, zero)
        }}"""
    )
    for name, value in (("special", special), ("zero", [0.0]), ("one", [1.0]), ("negative", [-0.0])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, dtype), name))
    out, _ = optimize(model, {"x": special}, verify=False)
    want, got = (run(each, {"x": special}) for each in (model, out))
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))
    assert operators(out)["Mul"] == 1  # NaN * 0 is NaN


def test_strings() -> None:
    model = parse("g (string[N] x) => (string[N] y, string[2] z) { a = Identity(x)  y = Identity(a)  z = Identity(words) }")
    words: Any = [b"a\xffb", "größe".encode()]
    model.graph.initializer.append(helper.make_tensor("words", TensorProto.STRING, [2], words))
    out, _ = optimize(model, verify=False)  # ONNX Runtime does not return strings that are not UTF-8
    assert not operators(out)
    assert [list(tensor.string_data) for tensor in out.graph.initializer] == [[b"a\xffb", "größe".encode()]]


@pytest.mark.parametrize(
    "kind", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1]
)
def test_narrow_types_pass_through_to_the_bit(kind: int) -> None:
    values = helper.make_tensor("w", kind, [3, 3], [0, 1, -1 if kind != TensorProto.UINT4 else 3, 2, 3, 4, 1, 2, 0])
    graph = helper.make_graph(
        [helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT), helper.make_node("Mul", ["x", "v"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 3]), helper.make_tensor_value_info("w", kind, [3, 3])],
        [values],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    result = passat.optimize(model, opt_level=3, verify=False)
    check(result.model)
    (kept,) = [tensor for tensor in result.model.graph.initializer if tensor.name == "w"]
    np.testing.assert_array_equal(numpy_helper.to_array(kept), numpy_helper.to_array(values))


def test_empty_tensors() -> None:
    model = parse(
        """g (float[N, 0] x, float[N, 3] z) => (float[N, 3] y, float[N, 0] e, float s) <float zero = {0.0}, float[0] nothing = {}> {
            a = Add(x, zero)
            b = Concat<axis = 1>(a, z)
            c = Mul(b, b)
            y = Neg(c)
            e = Add(x, nothing)
            r = ReduceSum<keepdims = 0>(nothing)
            s = Add(r, zero)
        }"""
    )
    optimize(
        model,
        {"x": np.empty((2, 0), np.float32), "z": floats(2, 3)},
        {"x": np.empty((0, 0), np.float32), "z": np.empty((0, 3), np.float32)},
    )


def test_empty_reductions_and_products() -> None:
    model = parse(
        """g (float[2, 0] x) => (float[2] total, float[2] product, float[2, 3] dense) <float[0, 3] w = {}, int64[1] axis = {1}> {
            total = ReduceSum<keepdims = 0>(x, axis)
            product = ReduceProd<keepdims = 0>(x, axis)
            dense = MatMul(x, w)
        }"""
    )
    optimize(model, {"x": np.empty((2, 0), np.float32)})


def test_reshapes_with_zeros() -> None:
    model = parse(
        """g (float[N, 0, 4] x) => (float[] y, float[] z) <int64[2] a = {0, -1}, int64[2] b = {4, 0}, int64[3] c = {-1, 2, 2}> {
            y0 = Reshape<allowzero = 1>(x, b)
            y = Reshape<allowzero = 1>(y0, b)
            z0 = Flatten<axis = 2>(x)
            z1 = Neg(z0)
            z = Reshape<allowzero = 1>(z1, b)
        }"""
    )
    result = passat.optimize(model, opt_level=3, verify=False)
    for size in (1, 3):
        feed = {"x": np.empty((size, 0, 4), np.float32)}
        assert [value.shape for value in run(model, feed)] == [value.shape for value in run(result.model, feed)]


def test_scalars() -> None:
    model = parse(
        """g (float x, float[1] v) => (float y, float[1] w, float[1, 1] m)
        <float one = {1.0}, float[1] ones = {1.0}, float[1, 1] more = {1.0}> {
            y = Mul(x, one)
            w = Mul(x, ones)
            m0 = Mul(v, more)
            m = Mul(m0, ones)
        }"""
    )
    out, _ = optimize(model, {"x": np.array(3, np.float32), "v": floats(1)})
    assert operators(out)["Mul"] >= 1  # a one with more dimensions adds dimensions


def test_units_that_broadcast_stay() -> None:
    model = parse(
        """g (float[1, 4] x, float[4] z) => (float[3, 4] y, float[2, 4] w) <float[3, 1] ones = {1, 1, 1}, float[2, 1] zeros = {0, 0}> {
            y = Mul(x, ones)
            w = Add(zeros, z)
        }"""
    )
    out, _ = optimize(model, {"x": floats(1, 4), "z": floats(4)})
    assert sum(operators(out).values()) == 2


def qdq(per_axis: bool, opset: int = 18) -> ModelProto:
    scale = "float[3] s = {0.1, 0.2, 0.3}, int8[3] z = {0, 0, 0}" if per_axis else "float s = {0.1}, int8 z = {0}"
    model = parse(
        f"""g (float[N, 2, 5, 5] x) => (float[N, 3, 5, 5] y)
        <float xs = {{0.05}}, uint8 xz = {{128}}, {scale}, float[3] bias = {{1, 2, 3}}, float zero = {{0}}> {{
            x0 = Add(x, zero)
            xq = QuantizeLinear(x0, xs, xz)
            xd = DequantizeLinear(xq, xs, xz)
            wd = DequantizeLinear<axis = 0>(w, s, z)
            c = Conv<pads = [1, 1, 1, 1]>(xd, wd, bias)
            r = Relu(c)
            rq = QuantizeLinear(r, xs, xz)
            y0 = DequantizeLinear(rq, xs, xz)
            y = Add(y0, zero)
        }}""",
        opset=opset,
    )
    weight = np.random.default_rng(0).integers(-128, 127, (3, 2, 3, 3)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


@pytest.mark.parametrize("opset", [13, 18, 19, 21])
@pytest.mark.parametrize("per_axis", [False, True])
def test_quantized_models_keep_their_quantization(per_axis: bool, opset: int) -> None:
    """This holds whether onnx.reference can compute the dequantization of the weight (since version 19) or not."""
    model = qdq(per_axis, opset)
    out, _ = optimize(model, {"x": floats(2, 2, 5, 5)})
    found = operators(out)
    assert found["QuantizeLinear"] == 2
    assert "Add" not in found
    (weight,) = [tensor for tensor in out.graph.initializer if tensor.data_type == TensorProto.INT8 and len(tensor.dims) == 4]
    assert weight.raw_data == next(tensor for tensor in model.graph.initializer if tensor.name == "w").raw_data  # stays in int8
    assert found["DequantizeLinear"] == 3


def test_quantized_operators() -> None:
    model = parse(
        """g (uint8[N, 4] x) => (uint8[N, 4] y) <float xs = {0.05}, uint8 xz = {128}> {
            a = Identity(x)
            b = QLinearMatMul(a, xs, xz, w, xs, xz, xs, xz)
            y = Identity(b)
        }"""
    )
    model.graph.initializer.append(numpy_helper.from_array(np.arange(16, dtype=np.uint8).reshape(4, 4) * 9, "w"))
    out, _ = optimize(model)
    assert [node.op_type for node in out.graph.node] == ["QLinearMatMul"]


def test_sequences() -> None:
    model = parse(
        """g (float[2] x, float[3] z) => (float[] y, int64 n, seq(float[]) s) <float zero = {0.0}, int64 at = {1}> {
            a = Add(x, zero)
            s0 = SequenceConstruct(a, z)
            b = Neg(z)
            c = Neg(b)
            s = SequenceInsert(s0, c)
            n = SequenceLength(s)
            y = SequenceAt(s, at)
        }"""
    )
    result = passat.optimize(model, opt_level=3, verify=False)
    assert "Neg" not in operators(result.model)
    feed = {"x": floats(2), "z": floats(3)}
    for want, got in zip(run(model, feed), run(result.model, feed), strict=True):
        np.testing.assert_equal(got, want)


def test_sequences_as_inputs() -> None:
    model = parse("g (seq(float[]) s) => (float[] y) <int64 at = {0}, float zero = {0.0}> { a = SequenceAt(s, at)  y = Add(a, zero) }")
    result = passat.optimize(model, opt_level=3, verify=False)
    np.testing.assert_equal(run(result.model, {"s": [floats(2)]}), [floats(2)])


def test_optional_values() -> None:
    model = parse(
        """g (float[2] x) => (float[2] y, bool has) <float zero = {0.0}> {
            a = Add(x, zero)
            o = Optional(a)
            has = OptionalHasElement(o)
            b = OptionalGetElement(o)
            c = Neg(b)
            y = Neg(c)
        }"""
    )
    out, _ = optimize(model, {"x": floats(2)}, verify=False)
    assert "Neg" not in operators(out)


@pytest.mark.parametrize("form", ["dense", "one", "empty"])
def test_sparse_initializers(form: str) -> None:
    places = {"dense": [0, 4, 8], "one": [5], "empty": []}[form]
    values = np.arange(1, len(places) + 1, dtype=np.float32)
    sparse = onnx.SparseTensorProto(
        values=numpy_helper.from_array(values, "w"), indices=numpy_helper.from_array(np.array(places, np.int64)), dims=[3, 3]
    )
    model = parse("g (float[3, 3] x) => (float[3, 3] y) <float zero = {0.0}> { a = Add(x, zero)  y = MatMul(a, w) }")
    model.graph.sparse_initializer.append(sparse)
    result = passat.optimize(model, opt_level=3)
    assert operators(result.model) == {"MatMul": 1}
    check(result.model)
    dense = np.zeros(9, np.float32)
    dense[places] = values
    x = floats(3, 3)
    np.testing.assert_allclose(run(result.model, {"x": x})[0], x @ dense.reshape(3, 3), rtol=1e-6)


@pytest.mark.parametrize("kind", ["bool", "string", *FLOATS, *INTEGERS])
def test_moving_data_of_every_type(kind: str) -> None:
    model = parse(
        f"""g ({kind}[2, 3] x) => ({kind}[2, 3] y, {kind}[6] z) <int64[2] back = {{2, 3}}, int64[1] flat = {{-1}}> {{
            a = Transpose<perm = [1, 0]>(x)
            b = Transpose<perm = [1, 0]>(a)
            c = Reshape(b, flat)
            y = Reshape(c, back)
            z = Identity(c)
        }}"""
    )
    result = passat.optimize(model, opt_level=3)
    assert operators(result.model) == {"Reshape": 1}
    verification = result.report.verification
    assert verification is not None
    assert verification.equal is True or kind == "bfloat16", verification


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_is_not_computed_in_more(kind: str) -> None:
    """Constant folding rounds after each step, like the model."""
    model = parse(f"g ({kind}[2] x) => ({kind}[2] y) {{ a = Add(big, small)  b = Sub(a, big)  y = Add(x, b) }}")
    for name, value in (("big", 2048.0), ("small", 1.0)):
        model.graph.initializer.append(numpy_helper.from_array(array(kind, value, value), name))
    out = passat.optimize(model, opt_level=3, verify=False).model
    assert not operators(out)  # 2048 + 1 is 2048 in half precision, so the sum has no effect


def test_casts_that_lose_something_stay() -> None:
    model = parse(
        """g (float[4] x, int64[4] i) => (float[4] a, int64[4] b, float[4] c) {
            a0 = Cast<to = 10>(x)
            a = Cast<to = 1>(a0)
            b0 = Cast<to = 6>(i)
            b = Cast<to = 7>(b0)
            c0 = Cast<to = 11>(x)
            c = Cast<to = 1>(c0)
        }"""
    )
    out, _ = optimize(model, {"x": floats(4) * 1e4, "i": np.array([2**40, -1, 5, 2**31])})
    assert sum(node.op_type == "Cast" for node in nodes(out)) == 4
