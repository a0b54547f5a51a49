"""Defects that the corpus and random models found, each reduced to a minimum."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

import passat
from passat.ir.onnx import check, from_onnx
from passat.ir.onnx.sizes import model_bytes, tensor_bytes
from passat.ir.tensor import Tensor, look
from tests.corpus.optimizing import floats, operators, optimize, parse


def with_weight(text: str, *shape: int, name: str = "w") -> ModelProto:
    model = parse(text)
    model.graph.initializer.append(numpy_helper.from_array(floats(*shape), name))
    return model


@pytest.mark.parametrize("reader", ["Concat<axis = 0>(q, q)", "Sum(q, q, q)", "Max(q, x3)"])
def test_a_product_whose_bias_is_added_and_that_is_read_through_a_tuple_is_written(reader: str) -> None:
    """The exporter counted only calls as readers, took the addition of the bias for the only reader, and did not write the product
    itself."""
    model = with_weight(
        f"""g (float[2, 4] x, float[2, 3] x3) => (float[2, 3] y, float[M, 3] z) <float[3] b = {{1, 2, 3}}> {{
            p = MatMul(x, w)
            q = Identity(p)
            z = {reader}
            y = Add(p, b)
        }}""",
        4,
        3,
    )
    optimize(model, {"x": floats(2, 4), "x3": floats(2, 3)})


def test_a_convolution_read_twice_and_shifted() -> None:
    model = with_weight(
        """g (float[1, 2, 5, 5] x) => (float[2, 3, 3, 3] y) <float[3, 1, 1] b = {1, 2, 3}> {
            c = Conv(x, w)
            d = Add(c, b)
            y = Concat<axis = 0>(c, d)
        }""",
        *(3, 2, 3, 3),
    )
    optimize(model, {"x": floats(1, 2, 5, 5)})


def test_stft_of_known_lengths_has_the_shape_that_it_declares() -> None:
    """ONNX's inference takes an absent `onesided` for 0, though its default is 1, and contradicts the declaration."""
    model = parse(
        """g (float[1, 128, 1] x) => (float[1, 15, 9, 2] y) <int64 step = {8}, int64 length = {16}, float zero = {0}> {
            h = Add(x, zero)
            y = STFT(h, step, "", length)
        }""",
        opset=17,
        ir=8,
    )
    out, _ = optimize(model, {"x": floats(1, 128, 1)})
    assert operators(out) == {"STFT": 1}


def test_inexact_kernels_fold_to_the_values_of_the_runtime() -> None:
    """onnx.reference computes another value here."""
    model = parse(
        """g (float[1, 1, 1, 2] x) => (float[1, 1, 1, 2] y) <float[4] scales = {1, 1, 0.6, 0.6}> {
            r = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(w, "", scales)
            y = Add(x, r)
        }""",
        opset=13,
        ir=8,
    )
    data = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    model.graph.initializer.append(numpy_helper.from_array(data, "w"))
    out, _ = optimize(model, {"x": floats(1, 1, 1, 2)})
    assert operators(out) == {"Add": 1}


def test_cast_like_is_a_cast() -> None:
    """The second operand only provides its type, so it does not prevent folding."""
    model = parse(
        """g (float[2, 3] x, double[2] like) => (float[2, 3] y, double[2, 3] z) <int64[3] c = {1, 2, 3}> {
            d = CastLike(c, x)
            y = Mul(x, d)
            z = CastLike(x, like)
        }"""
    )
    out, _ = optimize(model, {"x": floats(2, 3), "like": np.zeros(2)})
    assert operators(out) == {"Mul": 1, "Cast": 1}


@pytest.mark.parametrize(
    "between",
    [
        "h = Identity(c)",
        "h = Mul(c, one)",
        "h = Add(zero, c)",
        "g1 = Reshape(c, whole)\nh = Identity(g1)",
        "g1 = Neg(c)\nh = Neg(g1)",
        "g1, mask = Dropout(c)\nh = Cast<to = 1>(g1)",
        "g1 = Transpose<perm = [0, 1, 3, 2]>(c)\nh = Transpose<perm = [0, 1, 3, 2]>(g1)",
    ],
)
def test_identities_between_convolution_and_normalization_do_not_block_folding(between: str) -> None:
    model = with_weight(
        f"""g (float[2, 2, 5, 5] x) => (float[2, 3, 5, 5] y)
        <float[3] s = {{1, 2, 3}}, float[3] b = {{1, 2, 4}}, float[3] m = {{0, 1, 2}}, float[3] v = {{1, 2, 1}},
         float one = {{1}}, float zero = {{0}}, int64[4] whole = {{2, 3, 5, 5}}> {{
            c = Conv(x, w)
            {between}
            y = BatchNormalization(h, s, b, m, v)
        }}""",
        *(3, 2, 1, 1),
    )
    out, _ = optimize(model, {"x": floats(2, 2, 5, 5)})
    assert operators(out) == {"Conv": 1}


@pytest.mark.parametrize("step", ["Add(p, zero)", "Mul(p, one)", "Mul(one, p)", "Add(p, zeros)", "Div(p, one)"])
def test_weights_stay_unless_something_improves(step: str) -> None:
    """A sum with 0 became a bias of zeros, and a product with 1 became a new copy of the weight."""
    model = with_weight(
        f"g (float[N, 4] x) => (float[N, 3] y) <float zero = {{0}}, float one = {{1}}, float[3] zeros = {{0, 0, 0}}> {{ p = MatMul(x, w)  y = {step} }}",
        4,
        3,
    )
    out, report = optimize(model, {"x": floats(2, 4)})
    assert operators(out) == {"MatMul": 1}
    assert out.graph.initializer[0].name == "w"
    assert not [rule.name for rule in report.rules if rule.fired and rule.name.startswith("ScaleAxis")]


def test_an_output_with_a_wider_type_than_its_value() -> None:
    """Two runs of float32 arithmetic that is cast to float64 at the end agree only to float32 precision."""
    model = with_weight(
        """g (float[8, 64] x) => (double[8, 64] y) <float c = {0.3}> {
            p = MatMul(x, w)
            q = Mul(p, c)
            r = Tanh(q)
            y = Cast<to = 11>(r)
        }""",
        64,
        64,
    )
    out, _ = optimize(model)
    assert operators(out) == {"MatMul": 1, "Tanh": 1, "Cast": 1}


def large(elements: int, **fields: Any) -> ModelProto:
    model = parse("g (float[N] x) => (float[N] y) { y = Add(x, x) }")
    data = np.zeros(elements, np.float32)
    model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[elements], raw_data=data.tobytes(), **fields))
    return model


@pytest.mark.parametrize("elements", [0, 1, 100, 1 << 22, (1 << 22) + 1])
def test_the_size_of_a_model_is_found_without_writing_it(elements: int) -> None:
    for fields in ({}, {"doc_string": "about"}):
        model = large(elements, **fields)
        assert model_bytes(model) == len(model.SerializeToString())
        (tensor,) = model.graph.initializer
        assert tensor_bytes(tensor) == len(tensor.SerializeToString())


def test_a_look_at_a_constant_does_not_keep_it_in_memory() -> None:
    reads: list[int] = []

    def lazy(value: float) -> Tensor:
        def load() -> np.ndarray[Any, np.dtype[Any]]:
            reads.append(1)
            return np.full((64, 64), value, np.float32)

        return Tensor.lazy("float32", (64, 64), load)

    a, b, c = lazy(1.0), lazy(1.0), lazy(2.0)
    assert look(a) == look(b)
    assert look(a) != look(c)
    assert look(b) != look(c)
    assert len(reads) == 3  # each once, for all comparisons
    assert repr(a) == "Tensor(float32[64, 64], lazy)"


def test_a_file_is_not_read_for_a_look(tmp_path: Path) -> None:
    """Equal weights of one shape in a file are distinguished by their offsets."""
    (tmp_path / "w.bin").write_bytes(floats(2, 32, 32).tobytes())
    model = parse("g (float[N, 32] x) => (float[N, 32] y) { a = MatMul(x, w0)  b = Tanh(a)  y = MatMul(b, w1) }")
    for i in range(2):
        tensor = model.graph.initializer.add(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[32, 32], data_location=1)
        for key, value in (("location", "w.bin"), ("offset", i * 4096), ("length", 4096)):
            tensor.external_data.add(key=key, value=str(value))
    model.graph.node.append(helper.make_node("Neg", ["y"], ["unused"]))
    result = passat.optimize(model, folder=tmp_path, verify=False)
    check(result.model)
    assert operators(result.model) == {"MatMul": 2, "Tanh": 1}
    module = from_onnx(model, folder=tmp_path)
    from passat.ir.expr import Constant
    from passat.ir.traverse import post_order

    constants = [node for node in post_order(module["main"]) if isinstance(node, Constant)]
    assert len(constants) == 2
    assert look(constants[0].data) != look(constants[1].data)
    assert all("lazy" in repr(node.data) for node in constants)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
@pytest.mark.parametrize("flat", [False, True])
def test_products_of_integers_take_no_bias(dtype: str, flat: bool) -> None:
    """They became Gemm, which ONNX Runtime supports only for floating-point numbers."""
    nodes = (
        "f = Reshape(x, s)  m = MatMul(f, w)  n = Add(m, b)  y = Reshape(n, t)"
        if flat
        else "m = MatMul(x, w)  n = Add(m, b)  y = Mul(n, t)"
    )
    shape = "2, 2, 3" if flat else "4, 3"
    model = parse(f"g ({dtype}[{shape}] x) => ({dtype}[4, 5] y) <int64[2] s = {{-1, 3}}> {{ {nodes} }}")
    for name, value in {"w": np.arange(15).reshape(3, 5), "b": np.arange(5)}.items():
        model.graph.initializer.append(numpy_helper.from_array(value.astype(dtype), name))
    factor = np.array([4, 5]) if flat else np.array(1).astype(dtype)
    model.graph.initializer.append(numpy_helper.from_array(factor, "t"))
    out, _ = optimize(model)
    assert "Gemm" not in operators(out)


HALF_RANGE: dict[str, tuple[str, dict[str, float]]] = {
    "weight": ("s = Mul(x, tiny)  c = Conv(s, w)  y = BatchNormalization(c, g, b, m, v)", {"w": 300, "g": 300, "v": 1}),
    "mean": ("c = Conv(x, w)  y = BatchNormalization(c, g, b, m, v)", {"w": 0, "g": 300, "m": -300, "v": 1, "b": -50000}),
    "gamma": ("s = Mul(x, tiny)  n = BatchNormalization(s, g, b, m, v)  y = Mul(n, k)", {"g": 300, "v": 1, "k": 300}),
    "beta": ("n = BatchNormalization(x, g, b, m, v)  y = Add(n, k)", {"g": 0.001, "v": 1, "m": 30000, "b": -60000, "k": -60000}),
    "bias": ("c = Conv(x, w, m)  d = Add(c, k)  e = Mul(d, tiny)  y = Sub(e, e)", {"w": 0, "m": 60000, "k": 60000}),
}


@pytest.mark.parametrize("case", HALF_RANGE)
def test_constants_whose_product_overflows_float16_are_not_merged(case: str) -> None:
    """The folded constant was infinite, while the result on small operands is finite."""
    nodes, given = HALF_RANGE[case]
    model = parse(f"g (float16[1, 3, 4, 4] x) => (float16[1, 3, 4, 4] y) {{ {nodes} }}")
    shapes = {"w": (3, 3, 1, 1), "k": (3, 1, 1), "tiny": (), "g": (3,), "b": (3,), "m": (3,), "v": (3,)}
    for name, shape in shapes.items():
        value = np.full(shape, given.get(name, 0.0001 if name == "tiny" else 0), np.float16)
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    out, _ = optimize(model)
    assert all(np.isfinite(numpy_helper.to_array(tensor)).all() for tensor in out.graph.initializer)


def number_of_tensor() -> AttributeProto:
    return helper.make_attribute("value_float", helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda model: setattr(model.graph.node[0].attribute[0], "name", "axes"), "Unrecognized attribute: axes"),
        (lambda model: model.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("perm", 1)), "Mismatched attribute type"),
        (lambda model: model.graph.node[0].input.append("x"), "has 2 inputs, but must have at least 1 and at most 1"),
        (lambda model: model.graph.node[0].output.append("more"), "node that produces 't'"),
        (lambda model: setattr(model.graph.node[1], "op_type", "CastLike"), "has 1 input, but must have at least 2 and at most 2"),
        (lambda model: setattr(model.graph.input[0].type.tensor_type.shape.dim[0], "dim_param", "@@"), "text that is not UTF-8"),
        (lambda model: setattr(model.graph.node[0], "op_type", "@@"), "text that is not UTF-8"),
    ],
    ids=["attribute", "kind", "inputs", "outputs", "operands", "dimension", "operator"],
)
def test_unknown_attributes_are_rejected(change: Callable[[ModelProto], object], sentence: str) -> None:
    """Readers ignored unknown attributes: a Transpose with `axes` instead of `perm` reversed all axes."""
    model = parse("g (float[N, 4] x) => (float[M, K] y) { t = Transpose<perm = [0, 1]>(x)  y = Neg(t) }")
    change(model)
    content = model.SerializeToString().replace(b"@@", b"\xff\xfe")  # protobuf itself rejects such strings
    with pytest.raises(passat.ir.onnx.OnnxError) as error:
        passat.optimize(ModelProto.FromString(content), verify=False)
    assert sentence in str(error.value)


def test_layers_beside_a_node_with_branches_work_on_matrices() -> None:
    """CollapseBatchDims looked for the bodies of the branches among the nodes around them: a KeyError."""
    model = parse(
        """g (float[2, 3, 4] x, bool c) => (float[2, 3, 4] y, float[1] z) {
            m = MatMul(x, w)  n = Add(m, b)  r = Relu(n)  o = MatMul(r, w)  p = Add(o, b)  y = Softmax(p)
            z = If(c) <
                then_branch = t () => (float[1] u) { u = Constant<value_floats = [1.0]>() },
                else_branch = e () => (float[1] v) { v = RandomNormal<shape = [1]>() }
            >
        }"""
    )
    for name, shape in (("w", (4, 4)), ("b", (4,))):
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    made = passat.optimize(model, verify=False).model
    assert [node.op_type for node in made.graph.node].count("Gemm") == 2


@pytest.mark.parametrize("sizes", ["2, 3", "B, S"])
def test_layers_in_branches_and_loops_work_on_matrices(sizes: str) -> None:
    """CollapseBatchDims skipped them."""
    state = f"float[{sizes}, 4]"
    layers = "  ".join(f"m{i} = MatMul(r{i}, w)  a{i} = Add(m{i}, b)  r{i + 1} = Relu(a{i})" for i in range(6))
    model = parse(
        f"""g ({state} r0, bool c, int64 n0) => ({state} y, {state} z) {{
            y = If(c) <then_branch = t () => ({state} u) {{ {layers}  u = Softmax(r6) }}, else_branch = e () => ({state} f) {{ f = Neg(r0) }}>
            z = Loop(n0, c, r0) <body = l (int64 i, bool on, {state} r0) => (bool off, {state} s) {{ off = Identity(on)  {layers}  s = Softmax(r6) }}>
        }}"""
    )
    for name, shape in (("w", (4, 4)), ("b", (4,))):
        model.graph.initializer.append(numpy_helper.from_array(floats(*shape), name))
    result, _ = optimize(model, {"r0": floats(2, 3, 4), "c": np.array(True), "n0": np.array(3)})
    assert operators(result)["Gemm"] == 12


def test_a_text_that_no_reader_is_made_for_stays() -> None:
    """ReadOpaque read a Conv whose `auto_pad` is not UTF-8, which ended with a TypeError."""
    model = parse('g (float[N, 3, 4, 4] x) => (float[M, 2, 4, 4] y) { y = Conv<auto_pad = "@@">(x, w) }')
    model.graph.initializer.append(numpy_helper.from_array(np.ones((2, 3, 1, 1), np.float32), "w"))
    model.graph.node[0].attribute[0].s = b"\xff\xfe"
    out = passat.optimize(model, verify=False).model
    assert [node.attribute[0].s for node in out.graph.node] == [b"\xff\xfe"]


def test_a_constant_that_only_onnx_runtime_takes_is_read() -> None:
    """`onnx.checker` rejects an attribute of another kind; ONNX Runtime runs the model."""
    model = parse("g (float[N, 4] x) => (float[M, K] y) { t = Transpose<perm = [0, 1]>(x)  y = Neg(t) }")
    model.graph.node.add(op_type="Constant", output=["c"]).attribute.append(number_of_tensor())
    assert passat.optimize(model).report.node_count_after == 1


def test_a_split_into_other_than_its_outputs() -> None:
    """ONNX's inference crashes the process if `num_outputs` is smaller than the number of outputs."""
    model = parse("g (float[7] x) => (float[A] a, float[B] b, float[C] c) { a, b, c = Split<num_outputs = 1>(x) }")
    with pytest.raises(passat.ir.onnx.OnnxError, match="has 3 outputs, but its attribute num_outputs is 1"):
        passat.optimize(model)


def test_a_constant_that_layers_on_matrices_read_is_reshaped_when_optimized() -> None:
    """CollapseBatchDims left a Reshape of a constant, and an Unsqueeze of a Reshape; a second run removed them."""
    model = with_weight(
        """g (float[2, 3, 4] x) => (float[2, 1, 3, 4] y) <float[4] c = {1, 2, 3, 4}, int64[1] at = {1}> {
            a = MatMul(x, w)
            b = Add(a, c)
            d = Relu(b)
            e = Add(d, k)
            f = MatMul(e, w)
            h = Add(f, c)
            i = Relu(h)
            j = Add(i, k)
            l = MatMul(j, w)
            m = Add(l, c)
            n = Relu(m)
            o = Unsqueeze(n, at)
            y = Softmax(o)
        }""",
        4,
        4,
    )
    model.graph.initializer.append(numpy_helper.from_array(floats(2, 3, 4, seed=1), "k"))
    result, _ = optimize(model)
    assert operators(result) == {"Reshape": 2, "Gemm": 3, "Relu": 3, "Add": 2, "Softmax": 1}
    assert operators(optimize(result)[0]) == operators(result)


@pytest.mark.parametrize("shift", ["Add", "Sub"])
def test_a_chain_of_shifted_quotients_becomes_one(shift: str) -> None:
    """Each quotient was combined with each before it, which took seconds, and a second run merged two that were left."""
    links = 20
    lines = [f"s{i} = {shift}(q{i}, c{i})  q{i + 1} = Div(s{i}, d{i})" for i in range(links)]
    model = parse(f"g (float[2, 8] q0) => (float[2, 8] q{links}) {{ {' '.join(lines)} }}")
    for i in range(links):
        constants = {f"c{i}": floats(8, seed=i), f"d{i}": np.abs(floats(8, seed=links + i)) + 0.5}
        model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    result, _ = optimize(model)
    assert len(result.graph.node) == 2


@pytest.mark.parametrize("operands", ["x, low", "low, x"])
def test_a_choice_by_inequality_swaps_its_operands(operands: str) -> None:
    """An Equal and a Not stayed, since `not_equal` cost as much as `equal`."""
    model = parse(
        f"""g (float[n, 4] x) => (float[n, 4] y) <float one = {{1}}, float low = {{-100}}> {{
            e = Equal(x, one)
            d = Not(e)
            c = Cast<to = 9>(d)
            y = Where(c, {operands})
        }}"""
    )
    result, _ = optimize(model, {"x": floats(2, 4)})
    assert operators(result) == {"Equal": 1, "Where": 1}


@pytest.mark.parametrize("first", ["Div", "Mul"])
@pytest.mark.parametrize("shift", ["Add", "Sub"])
@pytest.mark.parametrize("last", ["Div", "Mul"])
def test_a_shifted_multiple_that_is_scaled_becomes_one(first: str, shift: str, last: str) -> None:
    """A division by 2 became a product with 0.5, and the division behind the difference combined with neither."""
    model = parse(
        f"g (float[2, 8] x) => (float[2, 8] y) <float two = {{2}}, float three = {{3}}, float part = {{0.7}}>"
        f"{{ scaled = {first}(x, two)  shifted = {shift}(scaled, three)  y = {last}(shifted, part) }}"
    )
    result, _ = optimize(model)
    assert len(result.graph.node) == 2


@pytest.mark.parametrize(("size", "expected"), [(64, ["Where"]), (300_000, ["Cast", "Mul"])])
def test_a_product_with_a_large_mask_stays_one(size: int, expected: list[str]) -> None:
    """Where of ONNX Runtime takes twice the time of a Cast and a product, or more: only their launches make it cheaper."""
    model = parse(f"g (bool[{size}] q) => (float[{size}] y) <float c = {{3}}> {{ f = Cast<to = 1>(q) y = Mul(f, c) }}")
    result = passat.optimize(model)
    assert [node.op_type for node in result.model.graph.node] == expected


@pytest.mark.parametrize("axis", ["zero", "four"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_scalar_is_reduced_along_any_axis(axis: str, keepdims: int) -> None:
    """ONNX Runtime ignores the axes, but rejects them when it infers shapes and knows them. It does not fold sizes that are not known."""
    model = parse(
        f"""g (float x, int64[n] k) => (float y) <int64[1] zero = {{0}}, int64[1] four = {{4}}> {{
            s = Shape(k)
            none = Sub(s, s)
            axes = Add(none, {axis})
            y = ReduceL2<keepdims = {keepdims}>(x, axes)
        }}"""
    )
    out, _ = optimize(model, {"x": np.array(-3, np.float32), "k": np.arange(3)})
    assert [list(node.input) for node in out.graph.node] == [["x"]]


def test_a_scalar_that_may_be_reduced_along_no_axis_is_left() -> None:
    model = parse(
        """g (float x, int64[n] k) => (float y) {
            a = NonZero(k)
            axes = Squeeze(a)
            y = ReduceL2<keepdims = 0, noop_with_empty_axes = 1>(x, axes)
        }"""
    )
    out, _ = optimize(model, {"x": np.array(-3, np.float32), "k": np.zeros(3, np.int64)})
    assert operators(out)["ReduceL2"] == 1
