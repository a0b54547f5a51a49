"""Matrix products, biases and Einstein sums: types, values, and their ONNX forms."""

from typing import TYPE_CHECKING
from typing import Any as AnyValue

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost
from passat.ir.evaluate import evaluate_call
from passat.ir.expr import Call, Constant, Expr, Span, Tuple, Var
from passat.ir.infer import infer_type
from passat.ir.onnx_mapping import OnnxVersionError
from passat.ir.op import Op, OpTypeError, get_op
from passat.ir.ops.linear import accepts_bias
from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType, Type, tensor_type
from tests.ir.ops.operands import floats, infer, tensor
from tests.share import share

if TYPE_CHECKING:
    from tests.ir.ops.conftest import Nodes

N, M = SymDim.named("n"), SymDim.named("m")


MATMULS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((1, 2, 3), (7, 3, 4)),
    ((0, 2, 3), (0, 3, 4)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 4)),
]


@pytest.mark.parametrize(("a", "b"), MATMULS)
def test_matmul_of_any_ranks(nodes: "Nodes", a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert nodes.agree("MatMul", 13, [floats(*a), floats(*b)], (7, 9, nodes.runtime)) == [["MatMul"]] * 4


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "float64"])
def test_matmul_of_other_numbers(nodes: "Nodes", dtype: str) -> None:
    nodes.agree("MatMul", 13, [(floats(2, 3) * 9).astype(dtype), (floats(3, 4) * 9).astype(dtype)])


def test_sixteen_bit_products_are_summed_in_float32() -> None:
    for dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        ones = Tensor.splat(1, (1, 5000), "float16" if dtype == np.float16 else "bfloat16")
        op = get_op("nn.dense")
        found = evaluate_call(op, [ones, ones], Attrs(), TensorType((1, 1), ones.dtype))
        assert isinstance(found, Tensor)
        assert found.numpy() == np.array([[5000]]).astype(dtype)  # summed in the narrow type they would stall at 2048 and 256


@pytest.mark.parametrize(
    ("a", "b", "shape"),
    [
        ((N, 3), (3, M), (N, M)),
        ((ANY, N), (N, 4), (ANY, 4)),
        ((N, 2, 3), (3, 4), (N, 2, 4)),
        ((N, 2, ANY), (5, M, 4), (5, 2, 4)),
        ((N, 2, 3), (N, 3, 4), (N, 2, 4)),
        ((N, 2, 3), (M, 3, 4), (ANY, 2, 4)),
        ((N,), (N,), ()),
    ],
)
def test_matmul_of_sizes_known_by_name(a: tuple[Dim, ...], b: tuple[Dim, ...], shape: tuple[Dim, ...]) -> None:
    assert infer("nn.matmul", tensor(*a), tensor(*b)).shape == shape


GEMMS = [(left, right, bias) for left in (0, 1) for right in (0, 1) for bias in (False, True)]


@pytest.mark.parametrize(("left", "right", "biased"), GEMMS)
def test_gemm_becomes_a_product_and_a_bias_and_gemm_again(nodes: "Nodes", left: int, right: int, biased: bool) -> None:
    a, b = floats(*((3, 2) if left else (2, 3))), floats(*((4, 3) if right else (3, 4)))
    written = nodes.agree("Gemm", 11, [a, b, floats(4)] if biased else [a, b], (7, 9, nodes.runtime), transA=left, transB=right)
    plain = ["MatMul"] if not left and not right else ["Gemm"]
    old = ["Transpose"] * (left + right) + ["MatMul"]  # Gemm without a bias exists since opset 11
    assert written == ([["Gemm"]] * 4 if biased else [plain, old, old, plain])


def test_gemm_with_a_bias_is_bias_add_over_dense(nodes: "Nodes") -> None:
    expr = nodes.read("Gemm", 13, [floats(2, 3), floats(4, 3), floats(4)], transB=1, alpha=1.0, beta=1.0)
    assert isinstance(expr, Call)
    product = expr.args[0]
    assert isinstance(product, Call)
    assert (expr.op, expr.attrs) == (get_op("nn.bias_add"), Attrs(axis=-1))
    assert product.op is get_op("nn.dense")
    assert expr.span == Span("node", outputs=("y",))
    assert product.span == Span("node", outputs=())


def test_gemm_accepts_beta_without_a_bias(nodes: "Nodes") -> None:
    assert nodes.read("Gemm", 13, [floats(2, 3), floats(3, 4)], beta=3.0) is not None


@pytest.mark.parametrize(
    ("bias", "attrs"),
    [
        (tensor(4), {"alpha": 0.5}),
        (tensor(4), {"beta": 0.5}),
        (tensor(1), {}),
        (tensor(), {}),
        (tensor(2, 4), {}),
        (tensor(1, 4), {}),
        (tensor(ANY), {}),
        (tensor(N), {}),
        (tensor(4), {"broadcast": 1}),
    ],
)
def test_other_gemms_are_opaque(nodes: "Nodes", bias: TensorType, attrs: dict[str, AnyValue]) -> None:
    assert nodes.read("Gemm", 13, [tensor(2, 3), tensor(3, 4), bias], **attrs) is None


def test_gemm_with_a_bias_of_a_length_known_by_name(nodes: "Nodes") -> None:
    assert nodes.read("Gemm", 13, [tensor(2, 3), tensor(3, N), tensor(N)]) is not None


@pytest.mark.parametrize("shape", [(2, 3), (5, 2, 3), (1, 5, 2, 3), (0, 3)])
@pytest.mark.parametrize("opset", [7, 11, 13, 24])
def test_dense_is_written_for_data_of_any_rank(nodes: "Nodes", shape: tuple[int, ...], opset: int) -> None:
    data, weight = floats(*shape), floats(4, 3)
    expr = infer_type(get_op("nn.dense")(Var("x", tensor(*shape)), Var("w", tensor(4, 3))))
    found = nodes.run(nodes.write(expr, opset), {"x": data, "w": weight})
    np.testing.assert_allclose(found, data @ weight.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(nodes.evaluate(expr, {"x": data, "w": weight}), found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_batch_matmul(nodes: "Nodes", left: bool, right: bool) -> None:
    a, b = floats(*((5, 3, 2) if left else (5, 2, 3))), floats(*((1, 4, 3) if right else (1, 3, 4)))
    op = get_op("nn.batch_matmul")
    expr = infer_type(op(Var("a", tensor(*a.shape)), Var("b", tensor(*b.shape)), transpose_a=left, transpose_b=right))
    assert tensor_type(expr.checked_type).shape == (5, 2, 4)
    feeds = {"a": a, "b": b}
    model = nodes.write(expr, 13)
    assert [node.op_type for node in model.graph.node] == ["Transpose"] * (left + right) + ["MatMul"]
    np.testing.assert_allclose(nodes.run(model, feeds), nodes.evaluate(expr, feeds), rtol=1e-5, atol=1e-5)


def test_a_bias_without_elements_is_written(nodes: "Nodes") -> None:
    bias = Constant(Tensor.splat(1.0, (0,), "float32"))
    expr = infer_type(get_op("nn.bias_add")(Var("x", tensor(2, 0, 4)), bias, axis=1))
    assert nodes.run(nodes.write(expr, 13), {"x": floats(2, 0, 4)}).shape == (2, 0, 4)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("opset", [7, 12, 13, 24])
def test_bias_add_alone_is_written_as_add(nodes: "Nodes", axis: int, constant: bool, opset: int) -> None:
    data = floats(2, 3, 4)
    bias = floats(data.shape[axis])
    right = Constant(bias) if constant else Var("b", tensor(*bias.shape))
    expr = infer_type(get_op("nn.bias_add")(Var("x", tensor(2, 3, 4)), right, axis=axis))
    model = nodes.write(expr, opset)
    moved = not constant and axis not in (2, -1)
    assert [node.op_type for node in model.graph.node] == ["Unsqueeze"] * moved + ["Add"]
    feeds = {"x": data, "b": bias}
    expected = data + bias.reshape([-1 if place == axis % 3 else 1 for place in range(3)])
    np.testing.assert_array_equal(nodes.run(model, feeds), expected)
    np.testing.assert_array_equal(nodes.evaluate(expr, feeds), expected)


def test_a_bias_that_is_one_value_repeated_stays_so(nodes: "Nodes") -> None:
    class Kept:
        opset = 13
        constants: list[Tensor] = []  # noqa: RUF012  # one test, one list

        def node(self, *_: object, **__: object) -> str:
            return "y"

        def nodes(self, *_: object, outputs: int, **__: object) -> list[str]:
            return ["y"] * outputs

        def constant(self, value: Tensor | Array) -> str:
            assert isinstance(value, Tensor)
            self.constants.append(value)
            return "c"

    op = get_op("nn.bias_add")
    call = op(Var("x", tensor(2, 1000, 4)), Constant(Tensor.splat(0.5, (1000,), "float32")))
    infer_type(call)
    assert op.to_onnx is not None
    op.to_onnx(call, ["x", "b"], Kept())
    assert [(value.shape, value.is_splat) for value in Kept.constants] == [((1000, 1), True)]


def test_bias_add_refines_the_size_of_its_axis() -> None:
    assert infer("nn.bias_add", tensor(N, ANY, 4), tensor(64)).shape == (N, 64, 4)
    assert infer("nn.bias_add", tensor(N, 64, 4), tensor(ANY)).shape == (N, 64, 4)
    assert infer("nn.bias_add", tensor(N, M), tensor(M), axis=-1).shape == (N, M)


def _product(name: str, *types: TensorType, **attrs: AnyValue) -> Call:
    return get_op(name)(*(Var(f"x{i}", type_) for i, type_ in enumerate(types)), **attrs)


PRODUCTS: list[tuple[Expr, int, bool]] = [
    (_product("nn.dense", tensor(2, 3), tensor(4, 3)), -1, True),
    (_product("nn.dense", tensor(2, 3), tensor(4, 3)), 1, True),
    (_product("nn.dense", tensor(2, 3), tensor(4, 3)), 0, False),
    (_product("nn.dense", tensor(5, 2, 3), tensor(4, 3)), -1, False),
    (_product("nn.matmul", tensor(2, 3), tensor(3, 4)), -1, True),
    (_product("nn.matmul", tensor(3), tensor(3, 4)), -1, False),
    (_product("nn.matmul", tensor(5, 2, 3), tensor(3, 4)), -1, False),
    (_product("nn.batch_matmul", tensor(5, 2, 3), tensor(5, 4, 3)), -1, False),
    (_product("nn.conv2d", tensor(1, 3, 8, 8), tensor(4, 3, 3, 3)), 1, True),
    (_product("nn.conv2d", tensor(1, 3, 8, 8), tensor(4, 3, 3, 3)), -3, True),
    (_product("nn.conv2d", tensor(1, 3, 8, 8), tensor(4, 3, 3, 3)), 3, False),
    (_product("nn.conv2d", tensor(1, 8, 8, 3), tensor(4, 3, 3, 3), data_layout="NHWC"), -1, True),
    (_product("nn.conv2d", tensor(1, 8, 8, 3), tensor(4, 3, 3, 3), data_layout="NHWC"), 1, False),
    (_product("nn.conv1d_transpose", tensor(1, 3, 8), tensor(3, 4, 3)), 1, True),
    (_product("nn.max_pool2d", tensor(1, 3, 8, 8)), 1, False),
    (Var("x", tensor(2, 4)), -1, False),
]


@pytest.mark.parametrize(("product", "axis", "accepted"), PRODUCTS)
def test_which_products_take_a_bias(product: Expr, axis: int, accepted: bool) -> None:
    shape = tensor_type(infer_type(product).checked_type).shape
    call = get_op("nn.bias_add")(product, Var("b", tensor(shape[axis])), axis=axis)
    infer_type(call)
    assert accepts_bias(call) is accepted


EINSUMS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (2, 3, 4)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (1, 3, 4)]),
    ("i...->...", [(2, 3, 4)]),
    ("...i,...i", [(2, 3), (2, 3)]),
    (" ij -> ji ", [(2, 3)]),
    (",ij->ij", [(), (2, 3)]),
    ("ij->", [(2, 3)]),
    ("ij,j,k->ik", [(2, 3), (3,), (5,)]),
    ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
    ("i,i->", [(0,), (0,)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EINSUMS)
def test_einsum(nodes: "Nodes", equation: str, shapes: list[tuple[int, ...]]) -> None:
    assert nodes.agree("Einsum", 12, [floats(*shape) for shape in shapes], (nodes.runtime,), equation=equation) == [["Einsum"]] * 2


def test_einsum_before_opset_12(nodes: "Nodes") -> None:
    expr = get_op("einsum")(Tuple([Var("x", tensor(2, 3))]), equation="ij->ji")
    with pytest.raises(OnnxVersionError, match="einsum needs ONNX opset 12"):
        nodes.write(expr, 11)


def test_einsum_of_sizes_known_by_name() -> None:
    assert infer("einsum", TupleType([tensor(N, 3), tensor(1, M)]), equation="ij,jk->ki").shape == (M, N)
    assert infer("einsum", TupleType([tensor(N, ANY)]), equation="ij").shape == (N, ANY)


def test_costs() -> None:
    def cost(op: Op, *types: Type, **attrs: AnyValue) -> Cost:
        bound = op.bind_attrs(attrs)
        return op.cost(types, op.infer(types, bound), bound)

    assert cost(get_op("nn.matmul"), tensor(2, 3), tensor(3, 4)) == (2 * 2 * 3 * 4, 4 * (6 + 12 + 8))
    assert cost(get_op("nn.matmul"), tensor(3, 2), tensor(3, 4), transpose_a=True).flops == 2 * 2 * 3 * 4
    assert cost(get_op("nn.dense"), tensor(5, 2, 3), tensor(4, 3)).flops == 2 * 5 * 2 * 3 * 4
    assert cost(get_op("nn.batch_matmul"), tensor(5, 2, 3), tensor(5, 4, 3)).flops == 2 * 5 * 2 * 3 * 4
    assert cost(get_op("einsum"), TupleType([tensor(2, 3), tensor(3, 4)]), equation="ij,jk").flops == 2 * 2 * 3 * 4


@pytest.mark.parametrize(
    ("name", "types", "attrs", "message"),
    [
        (
            "nn.matmul",
            [tensor(2, 3), tensor(4, 5)],
            {},
            "rows of the left operand have 3 elements, but columns of the right operand have 4",
        ),
        ("nn.matmul", [tensor(2, 3), tensor(3, 5, dtype="int32")], {}, "a has element type float32, but b has int32; cast one"),
        ("nn.matmul", [tensor(), tensor(3)], {}, "operands must have at least one dimension"),
        ("nn.matmul", [tensor(2, 2, 3), tensor(4, 3, 5)], {}, "do not broadcast: 2 against 4"),
        ("nn.matmul", [tensor(2, 2, 3), tensor(3, 5)], {"transpose_b": True}, "require two operands of rank 2"),
        ("nn.matmul", [tensor(2, 3, dtype="bool")] * 2, {}, "elements of type bool have no arithmetic"),
        ("nn.dense", [tensor(2, 3), tensor(4, 5)], {}, "rows of data have 3 elements, but rows of weight have 5"),
        ("nn.dense", [tensor(3), tensor(4, 3)], {}, "data must have two dimensions or more and weight exactly two, but they have 1 and 2"),
        ("nn.batch_matmul", [tensor(2, 3), tensor(4, 3)], {}, "operands must have three dimensions, but have 2 and 2"),
        ("nn.bias_add", [tensor(2, 3), tensor(4)], {}, "bias has 4 elements, but axis 1 of data has 3"),
        ("nn.bias_add", [tensor(2, 3), tensor(1, 3)], {}, "bias must have one dimension, but has 2"),
        ("nn.bias_add", [tensor(2, 3), tensor(3)], {"axis": 2}, "has no axis 2"),
        ("einsum", [TupleType([tensor(2, 3)])], {"equation": "ij,jk"}, "the equation has 2 operands, but got 1"),
        ("einsum", [TupleType([tensor(2, 3)])], {"equation": "ijk"}, "the term 'ijk' has 3 dimensions, but its operand has 2"),
        ("einsum", [TupleType([tensor(2, 3), tensor(4, 5)])], {"equation": "ij,jk"}, "'j' has the size 3 in one operand and 4"),
        ("einsum", [TupleType([tensor(2, 3)])], {"equation": "ii"}, "'i' has the sizes 2 and 3 in the same operand"),
        ("einsum", [TupleType([tensor(2, 3)])], {"equation": "ij->k"}, "the result 'k' repeats a dimension, names one that no operand has"),
        ("einsum", [TupleType([tensor(2, 3)])], {"equation": "i...->i"}, "or lacks the ellipsis"),
        (
            "einsum",
            [TupleType([tensor(2), tensor(2, 3)])],
            {"equation": "i...,i..."},
            "the ellipsis represents different numbers of dimensions",
        ),
        ("einsum", [TupleType([tensor(2, 3)])], {"equation": "i1"}, "must consist of letters"),
        ("einsum", [TupleType([])], {"equation": ""}, "at least one operand is required"),
    ],
)
def test_invalid_operands_are_reported(name: str, types: list[Type], attrs: dict[str, AnyValue], message: str) -> None:
    with pytest.raises(OpTypeError, match=r"^" + name.replace(".", r"\.") + r"\(") as error:
        infer(name, *types, **attrs)
    assert message in str(error.value)


@settings(max_examples=share(18, 100))
@given(st.data())
def test_the_type_is_that_of_numpy(data: st.DataObject) -> None:
    sizes = st.integers(0, 3)
    rows, inner, columns = data.draw(sizes), data.draw(sizes), data.draw(sizes)
    batch = data.draw(st.lists(sizes, max_size=2))
    left = [data.draw(st.sampled_from([size, 1])) for size in batch]
    right = batch[data.draw(st.integers(0, len(batch))) :]
    a, b = (*left, rows, inner), (*right, inner, columns)
    expected = np.matmul(np.ones(a), np.ones(b)).shape
    assert infer("nn.matmul", tensor(*a), tensor(*b)).shape == expected
    names: dict[int, Dim] = {size: SymDim.named(f"s{size}") for size in range(2, 4)}
    named = infer("nn.matmul", tensor(*(names.get(size, size) for size in a)), tensor(*(names.get(size, size) for size in b)))
    assert all(dim == names.get(size, size) for dim, size in zip(named.shape, expected, strict=True))


@settings(max_examples=share(10, 60))
@given(st.sampled_from(("int8", "uint8")), st.sampled_from(("int8", "uint8")), st.sampled_from(("int32", "int64")), st.data())
def test_integers_have_wide_sums(nodes: "Nodes", left: str, right: str, out_dtype: str, data: st.DataObject) -> None:
    rows, inner, columns = (data.draw(st.integers(1, 4)) for _ in range(3))
    generator = np.random.default_rng(data.draw(st.integers(0, 9)))
    a, b = (
        generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
        for dtype, shape in ((left, (2, rows, inner)), (right, (2, columns, inner)))
    )
    if right == "int8":
        b >>= 1  # with more than 7 bits, ONNX Runtime's sums of two products end at 16 bits on processors without VNNI
    wanted = np.matmul(a.astype(np.int64), b.astype(np.int64).swapaxes(1, 2)).astype(out_dtype)
    for name, x, y in (("nn.batch_matmul", a, b), ("nn.dense", a[0], b[0]), ("nn.matmul", a, b.swapaxes(1, 2))):
        call = get_op(name)(Var("x", TensorType(x.shape, left)), Var("y", TensorType(y.shape, right)), out_dtype=out_dtype)
        expected = wanted[0] if x.ndim == 2 else wanted
        found = nodes.evaluate(infer_type(call), {"x": x, "y": y})
        assert found.dtype == out_dtype
        assert np.array_equal(found, expected)
        for opset in (9, 13):
            assert np.array_equal(nodes.run(nodes.write(call, opset), {"x": x, "y": y}), expected)


def test_sums_of_32_bit_integers_may_have_64_bits() -> None:
    assert infer("nn.dense", tensor(2, 3, dtype="int32"), tensor(4, 3, dtype="int32"), out_dtype="int64") == tensor(2, 4, dtype="int64")


@pytest.mark.parametrize(
    ("left", "right", "out_dtype"), [("float32", "float32", "int32"), ("int64", "int64", "int32"), ("int8", "int8", "float32")]
)
def test_wide_sums_are_of_narrower_integers(left: str, right: str, out_dtype: str) -> None:
    operands = tensor(2, 3, dtype=left), tensor(4, 3, dtype=right)
    with pytest.raises(OpTypeError, match=f"out_dtype='{out_dtype}' is neither their common type nor int32 or int64 for narrower integers"):
        infer("nn.dense", *operands, out_dtype=out_dtype)
