"""Convolutions and transposed convolutions: types, values, and their ONNX forms."""

from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost
from passat.ir.evaluate import evaluate_call
from passat.ir.expr import Call, Expr, Var
from passat.ir.infer import infer_type
from passat.ir.onnx_mapping import OnnxVersionError
from passat.ir.op import OpTypeError, get_op
from passat.ir.shape import ANY, SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from tests.ir.ops.operands import floats, infer, numbers, tensor
from tests.share import share

if TYPE_CHECKING:
    from tests.ir.ops.conftest import Nodes

N, H = SymDim.named("n"), SymDim.named("h")


@settings(max_examples=share(20, 120))
@given(st.data())
def test_convolution_is_that_of_the_runtime(nodes: "Nodes", data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    groups, inner, outer = (data.draw(st.integers(1, 3)) for _ in range(3))
    sizes, window = data.draw(numbers(rank, 1, 7)), data.draw(numbers(rank, 1, 3))
    attrs: dict[str, AnyValue] = {
        "dilations": data.draw(numbers(rank, 1, 3)),
        "group": groups,
        "pads": data.draw(numbers(2 * rank, 0, 3)),
        "strides": data.draw(numbers(rank, 1, 3)),
    }
    begins, ends = attrs["pads"][:rank], attrs["pads"][rank:]
    assume(all(s + b + e > d * (k - 1) for s, b, e, d, k in zip(sizes, begins, ends, attrs["dilations"], window, strict=True)))
    operands = [floats(data.draw(st.integers(0, 2)), groups * inner, *sizes), floats(groups * outer, inner, *window)]
    if data.draw(st.booleans()):
        operands.append(floats(groups * outer))
    if data.draw(st.booleans()):
        attrs["kernel_shape"] = window
    assert nodes.agree("Conv", 11, operands, (7, nodes.runtime), **attrs) == [["Conv"]] * 3


@settings(max_examples=share(20, 120))
@given(st.data())
def test_transposed_convolution_is_that_of_the_runtime(nodes: "Nodes", data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    groups, inner, outer = (data.draw(st.integers(1, 3)) for _ in range(3))
    sizes, window = data.draw(numbers(rank, 1, 4)), data.draw(numbers(rank, 1, 3))
    strides, dilations = data.draw(numbers(rank, 1, 3)), data.draw(numbers(rank, 1, 3))
    extra = [data.draw(st.integers(0, stride - 1)) for stride in strides]  # the runtime rejects more
    pads = data.draw(numbers(2 * rank, 0, 2))
    full = [s * (n - 1) + d * (k - 1) + 1 + e for s, n, d, k, e in zip(strides, sizes, dilations, window, extra, strict=True)]
    assume(all(size > b + e for size, b, e in zip(full, pads[:rank], pads[rank:], strict=True)))
    operands = [floats(data.draw(st.integers(0, 2)), groups * inner, *sizes), floats(groups * inner, outer, *window)]
    if data.draw(st.booleans()):
        operands.append(floats(groups * outer))
    attrs = {"dilations": dilations, "group": groups, "pads": pads, "strides": strides, "output_padding": extra}
    assert nodes.agree("ConvTranspose", 11, operands, (7, nodes.runtime), **attrs) == [["ConvTranspose"]] * 3


SAME = [("SAME_UPPER", 8, 3, 2), ("SAME_LOWER", 8, 3, 2), ("SAME_UPPER", 7, 1, 3), ("SAME_LOWER", 5, 4, 1), ("VALID", 7, 3, 2)]


@pytest.mark.parametrize(("mode", "size", "window", "stride"), SAME)
def test_automatic_padding_becomes_explicit(nodes: "Nodes", mode: str, size: int, window: int, stride: int) -> None:
    operands = [floats(1, 2, size, size), floats(3, 2, window, window)]
    assert nodes.agree("Conv", 11, operands, auto_pad=mode, strides=[stride] * 2) == [["Conv"]]


def _attrs(expr: Expr | None) -> Attrs:
    assert isinstance(expr, Call)
    return expr.attrs


def test_same_padding_needs_known_sizes_or_stride_1(nodes: "Nodes") -> None:
    data, weight = tensor(N, 2, H, ANY), tensor(3, 2, 3, 4)
    assert nodes.read("Conv", 11, [data, weight], auto_pad="SAME_UPPER", strides=(2, 2)) is None
    assert _attrs(nodes.read("Conv", 11, [data, weight], auto_pad="SAME_UPPER")).padding == (1, 1, 1, 2)
    assert _attrs(nodes.read("Conv", 11, [data, weight], auto_pad="SAME_LOWER")).padding == (1, 2, 1, 1)
    assert _attrs(nodes.read("Conv", 11, [data, weight], auto_pad="VALID", strides=(2, 2))).padding == (0, 0, 0, 0)
    assert nodes.read("Conv", 11, [data, tensor(3, 2, ANY, 4)], auto_pad="SAME_UPPER") is None


@pytest.mark.parametrize(
    ("types", "attrs"),
    [
        ((tensor(1, 2, 8, 8), tensor(3, 2, 3, 3)), {"auto_pad": "SAME_UPPER", "dilations": (2, 2)}),
        ((tensor(1, 2, 8, 8), tensor(3, 2, 3, 3)), {"pads": (0, 0, -1, 0)}),
        ((tensor(1, 2, 8, 8), tensor(3, 2, 3, 3)), {"pads": (1, 1, 1, 1), "auto_pad": "VALID"}),
        ((tensor(1, 2, 8, 8), tensor(3, 2, 3, 3)), {"kernel_shape": (3, 2)}),
        ((tensor(1, 2, 8, 8), tensor(3, 2, 3, 3)), {"activation": "Relu"}),
        ((tensor(1, 2), tensor(3, 2)), {}),
        ((tensor(1, 2, 4, 4, 4, 4), tensor(3, 2, 1, 1, 1, 1)), {}),
    ],
)
def test_convolutions_that_are_opaque(nodes: "Nodes", types: tuple[TensorType, ...], attrs: dict[str, AnyValue]) -> None:
    assert nodes.read("Conv", 11, types, **attrs) is None


def test_a_window_that_the_weight_does_not_tell(nodes: "Nodes") -> None:
    expr = nodes.read("Conv", 11, [tensor(1, 2, 8, 8), tensor(3, 2, ANY, H)], kernel_shape=(3, 2))
    assert expr is not None
    assert _attrs(expr).kernel_size == (3, 2)
    assert expr.checked_type == tensor(1, 3, 6, 7)
    node = nodes.write(expr, 11).graph.node[0]
    assert [tuple(attribute.ints) for attribute in node.attribute if attribute.name == "kernel_shape"] == [(3, 2)]


@pytest.mark.parametrize(
    ("attrs", "padding"),
    [
        ({"auto_pad": "SAME_UPPER", "strides": (2, 2)}, (1, 1, 1, 1)),
        ({"auto_pad": "SAME_LOWER", "strides": (2, 2)}, (1, 1, 1, 1)),
        ({"output_shape": (8, 8), "strides": (2, 2)}, (0, 0, 0, 0)),
        ({"output_shape": (8, 6), "strides": (2, 2)}, (0, 1, 0, 1)),
        ({"output_shape": (8, 6), "strides": (2, 2), "pads": (1, 1, 1, 1)}, (0, 1, 0, 1)),
        ({"output_shape": (7, 7), "strides": (2, 2), "output_padding": (1, 1)}, (1, 1, 1, 1)),
        ({"auto_pad": "VALID", "strides": (2, 2)}, (0, 0, 0, 0)),
    ],
)
def test_transposed_padding_becomes_explicit(nodes: "Nodes", attrs: dict[str, AnyValue], padding: tuple[int, ...]) -> None:
    data, weight = floats(1, 2, 3, 3), floats(2, 3, 4, 4)
    assert _attrs(nodes.read("ConvTranspose", 11, [data, weight], **attrs)).padding == padding
    nodes.agree("ConvTranspose", 11, [data, weight], **attrs)


@pytest.mark.parametrize(
    "attrs",
    [
        {"auto_pad": "SAME_UPPER", "strides": (3, 3)},
        {"output_shape": (7, 7), "strides": (2, 2)},
        {"output_shape": (9, 9), "strides": (2, 2)},
        {"output_shape": (6, 6), "strides": (2, 2), "auto_pad": "VALID"},
    ],
)
def test_transposed_padding_that_runtimes_differ_on_is_opaque(nodes: "Nodes", attrs: dict[str, AnyValue]) -> None:
    assert nodes.read("ConvTranspose", 11, [tensor(1, 2, 3, 3), tensor(2, 3, 4, 4)], **attrs) is None


def test_transposed_same_padding_of_any_size(nodes: "Nodes") -> None:
    expr = nodes.read("ConvTranspose", 11, [tensor(N, 2, H, H), tensor(2, 3, 4, 4)], auto_pad="SAME_UPPER", strides=(2, 2))
    assert expr is not None
    assert expr.checked_type == tensor(N, 3, 2 * H, 2 * H)
    assert nodes.read("ConvTranspose", 11, [tensor(N, 2, ANY, H), tensor(2, 3, 4, 4)], auto_pad="SAME_UPPER", strides=(2, 2)) is None


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["", "_transpose"])
@pytest.mark.parametrize("opset", [7, 13, 24])
def test_layouts(nodes: "Nodes", rank: int, kind: str, opset: int) -> None:
    letters, sizes = "DHW"[-rank:], (4, 5, 6)[-rank:]
    window = (2, 3, 2)[-rank:]
    channels = (4, 6) if kind else (6, 4)
    data, weight = floats(2, channels[0] if kind else 4, *sizes), floats(*(channels[0], channels[1]), *window)
    bias = floats(6)
    op, add = get_op(f"nn.conv{rank}d{kind}"), get_op("nn.bias_add")
    attrs: dict[str, AnyValue] = {"padding": (1,) * rank + (0,) * rank, "strides": (2,) * rank}
    plain = infer_type(add(op(Var("x", tensor(*data.shape)), Var("w", tensor(*weight.shape)), **attrs), Var("b", tensor(6)), axis=1))
    expected = nodes.evaluate(plain, {"x": data, "w": weight, "b": bias})

    moved = np.moveaxis(data, 1, -1)
    turned = np.moveaxis(weight, (0, 1), (-1, -2))
    attrs |= {"data_layout": f"N{letters}C", "kernel_layout": letters + ("OI" if kind else "IO")}
    call = op(Var("x", tensor(*moved.shape)), Var("w", tensor(*turned.shape)), **attrs)
    expr = infer_type(add(call, Var("b", tensor(6)), axis=-1))
    feeds = {"x": moved, "w": turned, "b": bias}
    np.testing.assert_array_equal(np.moveaxis(nodes.evaluate(expr, feeds), -1, 1), expected)
    model = nodes.write(expr, opset)
    assert [node.op_type for node in model.graph.node] == ["Transpose", "Transpose", "ConvTranspose" if kind else "Conv", "Transpose"]
    np.testing.assert_allclose(np.moveaxis(nodes.run(model, feeds), -1, 1), expected, rtol=1e-5, atol=1e-5)


def test_short_forms_of_attributes() -> None:
    data, weight = tensor(1, 3, 9, 9), tensor(4, 3, 3, 3)
    assert infer("nn.conv2d", data, weight, padding=1, strides=2).shape == (1, 4, 5, 5)
    assert infer("nn.conv2d", data, weight, padding=(1, 0), strides=(2,)).shape == (1, 4, 5, 4)
    assert infer("nn.conv2d", data, weight, padding=(1, 0, 0, 0), channels=4, kernel_size=3).shape == (1, 4, 8, 7)


def test_sizes_known_by_name() -> None:
    assert infer("nn.conv2d", tensor(N, 3, H, ANY), tensor(4, 3, 3, 3), padding=1).shape == (N, 4, H, ANY)
    assert infer("nn.conv2d", tensor(N, 3, H, 8), tensor(4, 3, 3, 3), strides=2).shape == (N, 4, (H - 3) // 2 + 1, 3)
    assert infer("nn.conv2d", tensor(N, 3, 2 * H, 8), tensor(4, 3, 2, 2), strides=2).shape == (N, 4, H, 4)
    assert infer("nn.conv1d", tensor(N, ANY, H), tensor(N, ANY, 1)).shape == (N, N, H)
    assert infer("nn.conv2d_transpose", tensor(N, 3, H, ANY), tensor(3, 4, 2, 2), strides=2).shape == (N, 4, 2 * H, ANY)


def test_narrow_floats_are_summed_in_float32(nodes: "Nodes") -> None:
    for name, total in (("float16", 5400), ("bfloat16", 5408)):  # summed in the narrow types they would stall at 2048 and 256
        data = Tensor.splat(1, (1, 600, 3, 3), name)
        for kind, shape, padding in (("", (1, 600, 3, 3), 0), ("_transpose", (600, 1, 3, 3), 2)):
            op = get_op("nn.conv2d" + kind)
            found = evaluate_call(
                op, [data, Tensor.splat(1, shape, name)], op.bind_attrs({"padding": padding}), tensor(1, 1, 1, 1, dtype=name)
            )
            assert isinstance(found, Tensor)
            assert float(found.numpy()[0, 0, 0, 0]) == total
    expr = nodes.read("Conv", 11, [floats(1, 2, 5, dtype="float16"), floats(3, 2, 3, dtype="float16")])
    assert expr is not None
    feeds = {"x0": floats(1, 2, 5, dtype="float16"), "x1": floats(3, 2, 3, dtype="float16")}
    np.testing.assert_allclose(nodes.evaluate(expr, feeds), nodes.refer(nodes.write(expr, 11), feeds), rtol=1e-2, atol=1e-2)


def test_a_bias_returns_to_its_convolution(nodes: "Nodes") -> None:
    expr = nodes.read("Conv", 11, [floats(1, 2, 5), floats(3, 2, 3), floats(3)])
    assert isinstance(expr, Call)
    assert (expr.op, expr.attrs) == (get_op("nn.bias_add"), Attrs(axis=1))
    node = nodes.write(expr, 11).graph.node[0]
    assert (node.op_type, list(node.input)) == ("Conv", ["x0", "x1", "x2"])


def test_costs() -> None:
    def cost(name: str, *types: TensorType, **attrs: AnyValue) -> Cost:
        op = get_op(name)
        bound = op.bind_attrs(attrs)
        return op.cost(types, op.infer(types, bound), bound)

    plain = cost("nn.conv2d", tensor(1, 4, 8, 8), tensor(6, 2, 3, 3), groups=2)
    assert plain == (2 * (6 * 6 * 6) * (3 * 3 * 2), 4 * (4 * 64 + 6 * 2 * 9 + 6 * 36))
    moved = cost("nn.conv2d", tensor(1, 8, 8, 4), tensor(3, 3, 2, 6), groups=2, data_layout="NHWC", kernel_layout="HWIO")
    assert moved == plain
    assert cost("nn.conv1d_transpose", tensor(1, 4, 8), tensor(4, 3, 2)).flops == 2 * (4 * 8) * (3 * 2)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("nn.conv2d", [(1, 4, 8, 8), (2, 3, 3, 3)], {}, "weight has 3 input channels, but data has 4"),
        (
            "nn.conv2d",
            [(1, 4, 8, 8), (2, 3, 3, 3)],
            {"groups": 2},
            "weight has 3 input channels in each of 2 groups, 6 in total, but data has 4",
        ),
        ("nn.conv2d", [(1, 4, 8, 8), (3, 2, 3, 3)], {"groups": 2}, "3 output channels cannot be divided into 2 groups"),
        ("nn.conv2d", [(1, 4, 8, 8), (3, 4, 3, 3)], {"groups": 0}, "groups=0 must be at least 1"),
        ("nn.conv2d", [(1, 4, 8), (3, 4, 3, 3)], {}, "data must have 4 dimensions, but has 3"),
        ("nn.conv2d", [(1, 4, 8, 8), (3, 4, 3)], {}, "weight must have 4 dimensions, but has 3"),
        ("nn.conv2d", [(1, 4, 2, 8), (3, 4, 3, 3)], {}, "a window of 3 elements does not fit into 2 elements and 0 of padding"),
        ("nn.conv2d", [(1, 4, 8, 8), (3, 4, 3, 3)], {"dilation": 4}, "a window of 9 elements does not fit into 8 elements"),
        ("nn.conv2d", [(1, 4, 8, 8), (3, 4, 3, 3)], {"strides": (1, 0)}, "strides=(1, 0) contains a number less than 1"),
        ("nn.conv2d", [(1, 4, 8, 8), (3, 4, 3, 3)], {"padding": (1, 1, 1)}, "padding=(1, 1, 1) has 3 numbers for 2 spatial dimensions"),
        ("nn.conv2d", [(1, 4, 8, 8), (3, 4, 3, 3)], {"kernel_size": (3, 2)}, "kernel_size=(3, 2), but the window of weight is (3, 3)"),
        ("nn.conv2d", [(1, 4, 8, 8), (3, 4, 3, 3)], {"channels": 4}, "channels=4, but weight has 3"),
        ("nn.conv2d", [(1, 4, 8, 8), (3, 4, 3, 3)], {"data_layout": "NHCC"}, "the layout 'NHCC' is not a permutation of the letters NCHW"),
        ("nn.conv1d_transpose", [(1, 4, 8), (3, 4, 3)], {}, "weight has 3 input channels, but data has 4"),
        ("nn.conv1d_transpose", [(1, 4, 8), (4, 4, 3)], {"groups": 3}, "4 input channels cannot be divided into 3 groups"),
        ("nn.conv1d_transpose", [(1, 4, 2), (4, 4, 1)], {"padding": 2}, "padding=2 crops more elements than the result has"),
    ],
)
def test_invalid_operands_are_reported(name: str, shapes: list[tuple[int, ...]], attrs: dict[str, AnyValue], message: str) -> None:
    with pytest.raises(OpTypeError, match=r"^" + name.replace(".", r"\.") + r"\(Tensor") as error:
        infer(name, *(tensor(*shape) for shape in shapes), **attrs)
    assert message in str(error.value)


def test_element_types_must_agree() -> None:
    with pytest.raises(OpTypeError, match="data has element type float32, but weight has float16; cast one"):
        infer("nn.conv1d", tensor(1, 2, 3), tensor(1, 2, 3, dtype="float16"))


def test_the_written_model_has_the_inferred_shape_of_named_sizes(nodes: "Nodes") -> None:
    expr = nodes.read("Conv", 11, [tensor(N, 2, H, 9), tensor(3, 2, 3, 3)], pads=(1, 1, 1, 1), strides=(1, 2))
    assert expr is not None
    model = nodes.write(expr, 11)
    for batch, size in ((0, 1), (2, 5)):
        found = nodes.run(model, {"x0": floats(batch, 2, size, 9), "x1": floats(3, 2, 3, 3)})
        assert found.shape == (batch, 3, size, 5)
    assert expr.checked_type == tensor(N, 3, H, 5)
    assert model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@settings(max_examples=share(10, 60))
@given(st.integers(1, 3), st.sampled_from(("int8", "uint8")), st.sampled_from(("int8", "uint8")), st.integers(1, 2), st.booleans())
def test_convolutions_of_bytes_have_wide_sums(nodes: "Nodes", rank: int, left: str, right: str, groups: int, last: bool) -> None:
    generator = np.random.default_rng(rank)
    x, w = (
        generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
        for dtype, shape in ((left, (1, 2, *(4,) * rank)), (right, (2, 2 // groups, *(3,) * rank)))
    )
    attrs: dict[str, AnyValue] = {"padding": 1, "groups": groups}
    if last:
        x, attrs["data_layout"] = np.moveaxis(x, 1, -1), f"N{'DHW'[3 - rank :]}C" if rank > 1 else "NWC"
    feeds, op = {"x": x, "w": w}, get_op(f"nn.conv{rank}d")
    call = op(Var("x", TensorType(x.shape, left)), Var("w", TensorType(w.shape, right)), out_dtype="int32", **attrs)
    wide = infer_type(op(*(Var(name, TensorType(array.shape, "int32")) for name, array in feeds.items()), **attrs))
    expected = nodes.evaluate(wide, {name: array.astype(np.int32) for name, array in feeds.items()})
    found = nodes.evaluate(infer_type(call), feeds)
    assert found.dtype == np.int32
    assert np.array_equal(found, expected)
    model = nodes.write(call, 13)
    assert "ConvInteger" in [node.op_type for node in model.graph.node]
    # Of an unsigned and a signed byte, ONNX Runtime adds products in pairs of 16 bits on processors without VNNI, so seven bits are exact.
    small = {name: array // 2 for name, array in feeds.items()}
    assert np.array_equal(nodes.run(model, small), nodes.evaluate(wide, {name: array.astype(np.int32) for name, array in small.items()}))


@pytest.mark.parametrize(("dtype", "out_dtype"), [("int16", "int32"), ("int8", "int64")])
def test_other_wide_convolutions_have_no_form(nodes: "Nodes", dtype: str, out_dtype: str) -> None:
    data, weight = (Var(name, TensorType((1, 2, 4, 4), dtype)) for name in ("x", "w"))
    with pytest.raises(OnnxVersionError, match=f"nn.conv2d of {dtype} and {dtype} with out_dtype='{out_dtype}' has no ONNX form"):
        nodes.write(get_op("nn.conv2d")(data, weight, out_dtype=out_dtype), 13)
