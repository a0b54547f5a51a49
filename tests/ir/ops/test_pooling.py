"""Pooling over windows and over all spatial dimensions: types, values, and their ONNX forms."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost
from passat.ir.evaluate import EvaluateError, evaluate_call
from passat.ir.expr import Call, Expr, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.onnx_mapping import OnnxVersionError
from passat.ir.op import OpTypeError, get_op
from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, tensor_type
from tests.ir.ops.operands import floats, infer, numbers, tensor
from tests.share import share

if TYPE_CHECKING:
    from tests.ir.ops.conftest import Nodes

N, H = SymDim.named("n"), SymDim.named("h")


OLDEST_DILATED = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}


@settings(max_examples=share(45, 250))
@given(st.data())
def test_pooling_is_that_of_the_runtime(nodes: "Nodes", data: st.DataObject) -> None:
    op_type = data.draw(st.sampled_from(sorted(OLDEST_DILATED)))
    version = data.draw(st.sampled_from([11, 19, 22]))
    rank = data.draw(st.integers(1, 3))
    window, sizes = data.draw(numbers(rank, 1, 3)), data.draw(numbers(rank, 1, 7))
    pads = [data.draw(st.integers(0, size - 1)) for size in (*window, *window)]
    attrs: dict[str, AnyValue] = {"kernel_shape": window, "pads": pads, "strides": data.draw(numbers(rank, 1, 3))}
    if version >= OLDEST_DILATED[op_type]:
        attrs["dilations"] = data.draw(numbers(rank, 1, 3))
    if (op_type != "LpPool" or version >= 18) and data.draw(st.booleans()):
        attrs["ceil_mode"] = 1
    if op_type == "AveragePool":
        attrs["count_include_pad"] = data.draw(st.integers(0, 1))
    if op_type == "LpPool":
        attrs["p"] = data.draw(st.integers(1, 3))
    x = floats(data.draw(st.integers(0, 2)), 3, *sizes)
    expr = nodes.read(op_type, version, [x], **_fits(attrs, sizes))
    assert expr is not None
    if evaluated(nodes, expr, x) is None:
        return
    assert nodes.agree(op_type, version, [x], (nodes.runtime,), **attrs) == [[op_type]] * 2


def evaluated(nodes: "Nodes", expr: Expr, x: Array) -> Array | None:
    """The value of a pooling by its kernel; None if the kernel rejects a window that lies completely in the padding."""
    try:
        return nodes.evaluate(expr, {"x0": x})
    except EvaluateError as error:
        rejected = str(error)
    assert "a window lies entirely in the padding" in rejected
    return None


def _fits(attrs: dict[str, AnyValue], sizes: list[int]) -> dict[str, AnyValue]:
    """The attributes whose window fits into the data and the padding."""
    rank = len(sizes)
    gaps = attrs.get("dilations", [1] * rank)
    padded = [size + begin + end for size, begin, end in zip(sizes, attrs["pads"][:rank], attrs["pads"][rank:], strict=True)]
    assume(all(size > gap * (length - 1) for size, gap, length in zip(padded, gaps, attrs["kernel_shape"], strict=True)))
    return attrs


def swept(op_type: str, version: int) -> Iterator[dict[str, AnyValue]]:
    """All poolings with small numbers, with explicit and automatic padding."""
    dilations = (1, 2) if version >= OLDEST_DILATED[op_type] else (1,)
    paddings: list[dict[str, AnyValue]] = [{"pads": pads} for pads in itertools.product(range(3), repeat=2)]
    paddings += [{"auto_pad": mode} for mode in ("SAME_UPPER", "SAME_LOWER", "VALID")]
    counted: list[dict[str, AnyValue]] = [{"count_include_pad": 0}, {"count_include_pad": 1}] if op_type == "AveragePool" else [{}]
    for window, stride, gap, padding, ceil, count in itertools.product((1, 2, 3), (1, 2, 4), dilations, paddings, (0, 1), counted):
        if max(padding.get("pads", (0,))) < window and (gap == 1 or padding.get("auto_pad", "VALID") == "VALID"):
            dilated = {"dilations": (gap,)} if gap > 1 else {}
            yield {"kernel_shape": (window,), "strides": (stride,), "ceil_mode": ceil, **dilated, **padding, **count}


@pytest.mark.parametrize(("op_type", "version"), [("MaxPool", 12), ("AveragePool", 19), ("LpPool", 18)])
def test_every_small_pooling_has_the_windows_of_the_runtime(nodes: "Nodes", op_type: str, version: int) -> None:
    """Windows that start in the padding at the end do not count, although the opset and onnx's own inference may differ."""
    seen = 0
    for size in range(1, 7, share(2, 1)):
        x = floats(1, 1, size)
        exprs: dict[str, Expr] = {}
        protos = []
        for attrs in swept(op_type, version):
            expr = None
            with contextlib.suppress(OpTypeError, InferError):  # if no window fits
                expr = nodes.read(op_type, version, [tensor(1, 1, size)], **attrs)
            if expr is not None:
                exprs[str(attrs)] = expr
                protos.append(helper.make_node(op_type, ["x"], [str(attrs)], **attrs))
        declared = [helper.make_tensor_value_info(name, 1, [1, 1, None]) for name in ("x", *exprs)]
        graph = helper.make_graph(protos, "g", declared[:1], declared[1:])
        session = nodes.session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8))
        for (what, expr), expected in zip(exprs.items(), session.run(None, {"x": x}), strict=True):
            assert tensor_type(expr.checked_type).shape == expected.shape, (what, size)
            found = evaluated(nodes, expr, x)
            if found is None:
                continue
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=f"{what}, {size} elements")
            seen += 1
    assert seen > share(250, 500)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(("size", "window", "stride"), [(8, 3, 2), (7, 4, 3), (5, 2, 1), (9, 3, 3)])
def test_automatic_padding_becomes_explicit(nodes: "Nodes", op_type: str, mode: str, size: int, window: int, stride: int) -> None:
    attrs = {"auto_pad": mode, "kernel_shape": [window] * 2, "strides": [stride] * 2}
    assert nodes.agree(op_type, 11, [floats(2, 3, size, size)], **attrs) == [[op_type]]


def test_average_counts_automatic_padding_like_explicit_one(nodes: "Nodes") -> None:
    nodes.agree("AveragePool", 11, [floats(2, 3, 8)], auto_pad="SAME_UPPER", kernel_shape=[3], strides=[2], count_include_pad=1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float64"])
def test_greatest_element_of_other_numbers(nodes: "Nodes", dtype: str) -> None:
    x = (floats(1, 2, 5, 5) * 50).astype(dtype)
    nodes.agree("MaxPool", 12, [x], kernel_shape=[2, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize("op_type", ["GlobalMaxPool", "GlobalAveragePool"])
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 4), (0, 3, 4, 4)])
def test_global_pooling(nodes: "Nodes", op_type: str, shape: tuple[int, ...]) -> None:
    assert nodes.agree(op_type, 13, [floats(*shape)], (7, nodes.runtime)) == [[op_type]] * 3


@pytest.mark.parametrize(("p", "newest"), [(1, ["ReduceL1"]), (2, ["ReduceL2"]), (3, ["Abs", "Pow", "ReduceSum", "Pow"])])
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 4), (0, 3, 4, 4)])
def test_global_norms(nodes: "Nodes", shape: tuple[int, ...], p: int, newest: list[str]) -> None:
    """GlobalLpPool has no kernel from opset 22 on."""
    assert nodes.agree("GlobalLpPool", 13, [floats(*shape)], (7, 22, nodes.runtime), p=p) == [["GlobalLpPool"]] * 2 + [newest] * 2


def test_global_pooling_of_nothing_has_no_value() -> None:
    op = get_op("nn.global_avg_pool1d")
    with pytest.raises(EvaluateError, match="there are no elements to pool"):
        evaluate_call(op, [Tensor.dense(floats(1, 2, 0))], op.bind_attrs({}), tensor(1, 2, 1))


@pytest.mark.parametrize(
    ("op_type", "version", "shape", "attrs"),
    [
        ("MaxPool", 12, (1, 2, 8), {"kernel_shape": (2,), "storage_order": 1}),
        ("MaxPool", 12, (1, 2, 8), {"kernel_shape": (2,), "auto_pad": "SAME_UPPER", "dilations": (2,)}),
        ("MaxPool", 12, (1, 2, H), {"kernel_shape": (2,), "auto_pad": "SAME_UPPER", "strides": (2,)}),
        ("MaxPool", 12, (1, 2, 9), {"kernel_shape": (1,), "auto_pad": "SAME_UPPER", "strides": (3,)}),
        ("MaxPool", 12, (1, 2, 8), {"kernel_shape": (2,), "unknown": 1}),
        ("MaxPool", 12, (1, 2), {"kernel_shape": ()}),
        ("AveragePool", 19, (1, 2), {"kernel_shape": ()}),
        ("LpPool", 18, (1, 2, 8), {"kernel_shape": (2,), "p": 0}),
        ("LpPool", 18, (1, 2, 8), {"kernel_shape": (2,), "auto_pad": "SAME_LOWER", "dilations": (2,)}),
        ("GlobalAveragePool", 13, (1, 2), {}),
        ("GlobalMaxPool", 13, (1, 2, 3, 4, 5, 6), {}),
        ("GlobalLpPool", 13, (1, 2, 3), {"p": 0}),
    ],
)
def test_opaque_nodes(nodes: "Nodes", op_type: str, version: int, shape: tuple[Dim, ...], attrs: dict[str, AnyValue]) -> None:
    assert nodes.read(op_type, version, [tensor(*shape)], **attrs) is None


def test_indices_are_opaque(nodes: "Nodes") -> None:
    assert nodes.read("MaxPool", 12, [tensor(1, 2, 8)], 2, kernel_shape=(2,)) is None


def test_sizes_known_by_name(nodes: "Nodes") -> None:
    assert infer("nn.max_pool2d", tensor(N, 3, H, ANY), pool_size=3, padding=1).shape == (N, 3, H, ANY)
    assert infer("nn.avg_pool2d", tensor(N, 3, 2 * H, 8), pool_size=2, strides=2).shape == (N, 3, H, 4)
    assert infer("nn.max_pool1d", tensor(N, 3, H), pool_size=2, strides=2, ceil_mode=True).shape == (N, 3, (H - 1) // 2 + 1)
    assert infer("nn.max_pool1d", tensor(N, 3, H), pool_size=2, strides=3, ceil_mode=True).shape == (N, 3, ANY)
    assert infer("nn.global_avg_pool2d", tensor(N, H, ANY, 8)).shape == (N, H, 1, 1)
    assert infer("nn.lp_pool", tensor(N, 3, H), pool_size=2).shape == (N, 3, H - 1)
    expr = nodes.read("MaxPool", 12, [tensor(1, 2, H)], kernel_shape=(3,), strides=(2,), pads=(1, 1), ceil_mode=1)
    assert expr is not None
    model = nodes.write(expr, 12)
    for size in range(1, 9):
        places = tensor_type(infer("nn.max_pool1d", tensor(1, 2, size), pool_size=3, strides=2, padding=1, ceil_mode=True)).shape[2]
        assert nodes.run(model, {"x0": floats(1, 2, size)}).shape == (1, 2, places)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["max", "avg", "global_max", "global_avg"])
def test_layouts(nodes: "Nodes", rank: int, kind: str) -> None:
    letters = "DHW"[-rank:]
    x = floats(2, 4, *(5, 6, 7)[-rank:])
    moved = np.moveaxis(x, 1, -1)
    op = get_op(f"nn.{kind}_pool{rank}d")
    attrs: dict[str, AnyValue] = {} if kind.startswith("global") else {"pool_size": 3, "strides": 2, "padding": 1}
    plain = infer_type(op(Var("x", tensor(*x.shape)), **attrs))
    expr = infer_type(op(Var("x", tensor(*moved.shape)), layout=f"N{letters}C", **attrs))
    expected = nodes.evaluate(plain, {"x": x})
    np.testing.assert_array_equal(np.moveaxis(nodes.evaluate(expr, {"x": moved}), -1, 1), expected)
    found = nodes.run(nodes.write(expr, 13), {"x": moved})
    np.testing.assert_allclose(np.moveaxis(found, -1, 1), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["nn.max_pool2d", "nn.avg_pool2d", "nn.lp_pool"])
@pytest.mark.parametrize(("size", "padding"), [(6, 0), (7, 0), (7, 1), (8, (1, 0, 0, 1)), (5, (0, 0, 1, 1))])
def test_before_ceil_mode_padding_takes_its_place(nodes: "Nodes", name: str, size: int, padding: AnyValue) -> None:
    x = floats(1, 2, size, size)
    call = get_op(name)(Var("x", tensor(*x.shape)), pool_size=2, strides=3, padding=padding, ceil_mode=True)
    for opset in (7, 10, 18, nodes.runtime):  # full checks: onnx infers the same size
        model = nodes.write(call, opset)
        assert [node.op_type for node in model.graph.node] == [
            {"nn.max_pool2d": "MaxPool", "nn.avg_pool2d": "AveragePool"}.get(name, "LpPool")
        ]
        np.testing.assert_allclose(nodes.run(model, {"x": x}), nodes.evaluate(call, {"x": x}), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "opset", "size", "attrs", "since"),
    [
        ("nn.max_pool1d", 9, H, {"ceil_mode": True}, 10),
        ("nn.max_pool1d", 9, 8, {"dilation": 2}, 10),
        ("nn.avg_pool1d", 18, 8, {"dilation": 2}, 19),
        ("nn.avg_pool1d", 9, 8, {"ceil_mode": True, "count_include_pad": True}, 10),
        ("nn.lp_pool", 17, H, {"ceil_mode": True}, 18),
        ("nn.lp_pool", 17, 8, {"dilation": 2}, 18),
    ],
)
def test_forms_that_old_opsets_lack(nodes: "Nodes", name: str, opset: int, size: Dim, attrs: dict[str, AnyValue], since: int) -> None:
    expr = infer_type(get_op(name)(Var("x", tensor(1, 2, size)), pool_size=2, **attrs))
    with pytest.raises(OnnxVersionError, match=rf"{name} needs ONNX opset {since} or later"):
        nodes.write(expr, opset)
    assert nodes.write(expr, since).graph.node


def test_sixteen_bit_means_are_summed_in_float32() -> None:
    ones = Tensor.splat(1, (1, 1, 5000), "float16")
    for name, attrs in (("nn.avg_pool1d", {"pool_size": (5000,)}), ("nn.global_avg_pool1d", {})):
        op = get_op(name)
        found = evaluate_call(op, [ones], op.bind_attrs(attrs), tensor(1, 1, 1, dtype="float16"))
        assert isinstance(found, Tensor)
        assert found.numpy() == 1


def test_the_mapping_keeps_the_attributes(nodes: "Nodes") -> None:
    expr = nodes.read("AveragePool", 11, [tensor(1, 2, 8)], kernel_shape=(3,), pads=(1, 1), count_include_pad=1)
    assert isinstance(expr, Call)
    assert expr.attrs == Attrs(
        pool_size=(3,), strides=(1,), padding=(1, 1), dilation=(1,), ceil_mode=False, count_include_pad=True, layout="NCW"
    )


def test_costs() -> None:
    def cost(name: str, type_: TensorType, **attrs: AnyValue) -> Cost:
        op = get_op(name)
        bound = op.bind_attrs(attrs)
        return op.cost([type_], op.infer([type_], bound), bound)

    assert cost("nn.max_pool2d", tensor(1, 2, 8, 8), pool_size=(2, 4), strides=(2, 4)) == (2 * 4 * 2 * 8, 4 * (128 + 16))
    assert cost("nn.global_avg_pool2d", tensor(1, 2, 8, 8)) == (128, 4 * (128 + 2))


@pytest.mark.parametrize(
    ("name", "type_", "attrs", "message"),
    [
        ("nn.max_pool2d", tensor(1, 2, 8), {}, "data must have 4 dimensions, but has 3"),
        ("nn.max_pool1d", tensor(1, 2, 8), {"pool_size": 2, "padding": 2}, "padding=2 must be smaller than pool_size=2"),
        ("nn.max_pool1d", tensor(1, 2, 2), {"pool_size": 4}, "a window of 4 elements does not fit into 2 elements and 0 of padding"),
        ("nn.max_pool1d", tensor(1, 2, 3), {"pool_size": 4, "strides": 2, "ceil_mode": True}, "a window of 4 elements does not fit"),
        ("nn.avg_pool1d", tensor(1, 2, 8, dtype="int32"), {}, "elements of type int32 cannot be pooled"),
        ("nn.avg_pool1d", tensor(1, 2, 8), {"layout": "NHW"}, "the layout 'NHW' is not a permutation of the letters NCW"),
        ("nn.global_max_pool2d", tensor(1, 2, 8), {}, "data must have 4 dimensions, but has 3"),
        (
            "nn.lp_pool",
            tensor(1, 2),
            {"pool_size": 2},
            "data must have three to five dimensions and p must be at least 1, but they are 2 and 2",
        ),
        (
            "nn.global_lp_pool",
            tensor(1, 2, 3),
            {"p": 0},
            "data must have three to five dimensions and p must be at least 1, but they are 3 and 0",
        ),
    ],
)
def test_invalid_operands_are_reported(name: str, type_: TensorType, attrs: dict[str, AnyValue], message: str) -> None:
    with pytest.raises(OpTypeError, match=r"^" + name.replace(".", r"\.") + r"\(Tensor") as error:
        infer(name, type_, **attrs)
    assert message in str(error.value)
