"""Normalization by mean and variance: types, values, and their ONNX forms."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.evaluate import evaluate_call
from passat.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.op import OpTypeError, get_op
from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType, Type, tensor_type
from tests.ir.ops.operands import floats, tensor
from tests.share import share

if TYPE_CHECKING:
    from tests.ir.ops.conftest import Nodes

N, C = SymDim.named("n"), SymDim.named("c")


def infer(name: str, *types: Type, **attrs: AnyValue) -> Type:
    op = get_op(name)
    return op.infer(types, op.bind_attrs(attrs))


def batch_operands(*shape: int, dtype: str = "float32") -> list[Array]:
    """Data, scale, shift, mean, variance."""
    channels = shape[1]
    rng = np.random.default_rng(channels)
    parts = [rng.standard_normal(channels).astype(dtype) for _ in range(3)]
    return [floats(*shape, dtype=dtype), *parts, rng.uniform(0.1, 2, channels).astype(dtype)]


@pytest.mark.parametrize("version", [7, 9, 14, 15, 24])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (0, 3, 4, 4), (2, 3, 2, 3, 4)])
def test_batch_normalization(nodes: "Nodes", version: int, shape: tuple[int, ...]) -> None:
    written = nodes.agree("BatchNormalization", version, batch_operands(*shape), (7, nodes.runtime), epsilon=0.01, momentum=0.5)
    assert written == [["BatchNormalization"]] * 3


def test_batch_normalization_is_a_field_of_a_tuple(nodes: "Nodes") -> None:
    expr = nodes.read("BatchNormalization", 15, batch_operands(2, 3, 4))
    assert isinstance(expr, TupleGetItem)
    call = expr.tuple_value
    assert isinstance(call, Call)
    assert (expr.index, call.op, call.attrs) == (0, get_op("nn.batch_norm"), Attrs(axis=1, epsilon=1e-5, center=True, scale=True))
    assert call.checked_type == TupleType([tensor(2, 3, 4), tensor(3), tensor(3)])
    for field, name in ((1, "x3"), (2, "x4")):  # mean and variance pass through
        feeds = dict(zip(("x0", "x1", "x2", "x3", "x4"), batch_operands(2, 3, 4), strict=True))
        np.testing.assert_array_equal(nodes.evaluate(infer_type(TupleGetItem(call, field)), feeds), feeds[name])
        assert nodes.write(TupleGetItem(call, field), 15).graph.output[0].name == name


@pytest.mark.parametrize(
    ("version", "n_outputs", "types", "attrs"),
    [
        (14, 1, [tensor(2, 3, 4)] + [tensor(3)] * 4, {"training_mode": 1}),
        (7, 1, [tensor(2, 3, 4)] + [tensor(3, 4)] * 4, {"spatial": 0}),
        (7, 5, [tensor(2, 3, 4)] + [tensor(3)] * 4, {}),
        (15, 1, [tensor(2, 3, 4, dtype="float16")] + [tensor(3)] * 4, {}),
        (9, 1, [tensor(3)] + [tensor(1)] * 4, {}),
        (9, 1, [tensor(2, 3, 4)] + [tensor(3)] * 4, {"is_test": 1}),
    ],
)
def test_other_batch_normalizations_are_opaque(
    nodes: "Nodes", version: int, n_outputs: int, types: list[TensorType], attrs: dict[str, AnyValue]
) -> None:
    assert nodes.read("BatchNormalization", version, types, n_outputs, **attrs) is None


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("channels", [3, C])
@pytest.mark.parametrize("opset", [7, 13, 24])
def test_batch_norm_of_relay(nodes: "Nodes", axis: int, center: bool, scale: bool, channels: Dim, opset: int) -> None:
    x = np.moveaxis(floats(2, 3, 4, 5), 1, axis)
    _, *parts = batch_operands(2, 3)
    shape = [channels if place == axis % 4 else size for place, size in enumerate(x.shape)]
    operands = [Var("x", tensor(*shape)), *(Var(name, tensor(channels)) for name in "abcd")]
    call = get_op("nn.batch_norm")(*operands, axis=axis, center=center, scale=scale)
    feeds = dict(zip("xabcd", [x, *parts], strict=True))
    expr = infer_type(call[0])
    gamma, beta, mean, variance = (part.reshape([-1 if place == axis % 4 else 1 for place in range(4)]) for part in parts)
    expected = (x - mean) / np.sqrt(variance + 1e-5) * (gamma if scale else 1) + (beta if center else 0)
    np.testing.assert_allclose(nodes.evaluate(expr, feeds), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(nodes.run(nodes.write(expr, opset), feeds), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [0, 3])
def test_batch_norm_of_a_vector(nodes: "Nodes", size: int) -> None:
    x, *parts = batch_operands(1, size)
    call = get_op("nn.batch_norm")(*(Var(name, tensor(size)) for name in "xabcd"), axis=0)
    feeds = dict(zip("xabcd", [x[0], *parts], strict=True))
    for opset in (7, 13, 24):
        expected = nodes.evaluate(infer_type(call[0]), feeds)
        np.testing.assert_allclose(nodes.run(nodes.write(infer_type(call[0]), opset), feeds), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (0, 3, 4, 4), (1, 2, 2, 3, 4)])
def test_instance_normalization(nodes: "Nodes", shape: tuple[int, ...]) -> None:
    operands = batch_operands(*shape)[:3]
    assert nodes.agree("InstanceNormalization", 7, operands, (nodes.runtime,), epsilon=0.1) == [["InstanceNormalization"]] * 2


@pytest.mark.parametrize(
    ("version", "groups", "shape"),
    [(21, 2, (2, 4, 3, 5)), (21, 4, (2, 4, 3)), (21, 1, (1, 4, 3)), (18, 4, (2, 4, 3)), (18, 2, (2, 6, 3)), (18, 1, (2, 4, 3))],
)
def test_group_normalization(nodes: "Nodes", version: int, groups: int, shape: tuple[int, ...]) -> None:
    operands = batch_operands(*shape)[:3]
    if version < 21:  # one element for each group
        operands[1:] = [operand[:groups] for operand in operands[1:]]
    feeds = {f"x{i}": operand for i, operand in enumerate(operands)}
    expr = nodes.read("GroupNormalization", version, operands, num_groups=groups, epsilon=0.1)
    assert expr is not None
    expected = nodes.run(nodes.model("GroupNormalization", version, operands, num_groups=groups, epsilon=0.1), feeds)
    np.testing.assert_allclose(nodes.evaluate(expr, feeds), expected, rtol=1e-4, atol=1e-5)
    for opset in (7, 13, 18, 21, nodes.runtime):
        model = nodes.write(expr, opset)
        assert ("GroupNormalization" in [node.op_type for node in model.graph.node]) is (
            opset >= 21
        )  # the version of opset 18 is deprecated
        np.testing.assert_allclose(nodes.run(model, feeds), expected, rtol=1e-4, atol=1e-5)


def test_group_normalization_of_named_sizes_and_no_samples(nodes: "Nodes") -> None:
    expr = nodes.read("GroupNormalization", 21, [tensor(N, 4, C), tensor(4), tensor(4)], num_groups=2)
    assert expr is not None
    model = nodes.write(expr, 13)
    _, gamma, beta = batch_operands(1, 4)[:3]
    for batch in (1, 2):
        feeds = {"x0": floats(batch, 4, 6), "x1": gamma, "x2": beta}
        np.testing.assert_allclose(nodes.run(model, feeds), nodes.evaluate(expr, feeds), rtol=1e-4, atol=1e-5)
    static = nodes.read("GroupNormalization", 21, [tensor(N, 4, 6), tensor(4), tensor(4)], num_groups=2)
    assert static is not None
    feeds = {"x0": floats(0, 4, 6), "x1": gamma, "x2": beta}
    assert nodes.run(nodes.write(static, 13), feeds).shape == nodes.evaluate(static, feeds).shape == (0, 4, 6)


@pytest.mark.parametrize("name", ["nn.group_norm", "nn.instance_norm"])
@pytest.mark.parametrize("opset", [13, 24])
def test_channels_on_the_last_axis(nodes: "Nodes", name: str, opset: int) -> None:
    x, gamma, beta = batch_operands(2, 4, 3, 5)[:3]
    attrs: dict[str, AnyValue] = {"num_groups": 2} if name == "nn.group_norm" else {}
    parts = [Var("g", tensor(4)), Var("b", tensor(4))]
    plain = infer_type(get_op(name)(Var("x", tensor(2, 4, 3, 5)), *parts, **attrs))
    moved = infer_type(get_op(name)(Var("x", tensor(2, 3, 5, 4)), *parts, axis=-1, **attrs))
    expected = nodes.evaluate(plain, {"x": x, "g": gamma, "b": beta})
    feeds = {"x": np.moveaxis(x, 1, -1), "g": gamma, "b": beta}
    np.testing.assert_allclose(np.moveaxis(nodes.evaluate(moved, feeds), -1, 1), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.moveaxis(nodes.run(nodes.write(moved, opset), feeds), -1, 1), expected, rtol=1e-4, atol=1e-5)


LAYERS = [((2, 3, 4), -1), ((2, 3, 4), 2), ((2, 3, 4), 1), ((2, 3, 4), -2), ((2, 3, 4), 0), ((5,), -1), ((0, 3), -1)]


@pytest.mark.parametrize(("shape", "axis"), LAYERS)
@pytest.mark.parametrize("biased", [False, True])
def test_layer_normalization(nodes: "Nodes", shape: tuple[int, ...], axis: int, biased: bool) -> None:
    layer = shape[axis % len(shape) :]
    operands = [floats(*shape), floats(*layer) + 1, floats(*layer)][: 3 if biased else 2]
    written = nodes.agree("LayerNormalization", 17, operands, (7, 13, 18, nodes.runtime), axis=axis, epsilon=0.01)
    decomposed = ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"] + ["Add"] * biased
    assert written == [["LayerNormalization"], decomposed, decomposed, ["LayerNormalization"], ["LayerNormalization"]]


@pytest.mark.parametrize(("shape", "axis"), LAYERS)
def test_root_mean_square_normalization(nodes: "Nodes", shape: tuple[int, ...], axis: int) -> None:
    operands = [floats(*shape), floats(*shape[axis % len(shape) :]) + 1]
    written = nodes.agree("RMSNormalization", 23, operands, (7, 18), axis=axis, epsilon=0.01)
    decomposed = ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]
    assert written == [["RMSNormalization"], decomposed, decomposed]


def test_an_absent_shift_is_the_empty_tuple(nodes: "Nodes") -> None:
    for absent in ([], [None]):
        expr = nodes.read("LayerNormalization", 17, [tensor(N, 4), tensor(4), *absent])
        assert isinstance(expr, Call)
        assert isinstance(expr.args[2], Tuple)
        assert (expr.args[2].fields, expr.checked_type) == ((), tensor(N, 4))
        assert list(nodes.write(expr, 17).graph.node[0].input) == ["x0", "x1"]


@pytest.mark.parametrize(
    ("op_type", "version", "n_outputs", "types", "attrs"),
    [
        ("LayerNormalization", 17, 2, [tensor(2, 3), tensor(3)], {}),
        ("LayerNormalization", 17, 1, [tensor(2, 3), tensor(3)], {"stash_type": 16}),
        ("LayerNormalization", 17, 1, [tensor(2, 3, dtype="float64"), tensor(3, dtype="float64")], {}),
        ("LayerNormalization", 17, 1, [tensor(2, 3), tensor(1)], {}),
        ("LayerNormalization", 17, 1, [tensor(2, 3), tensor(2, 3)], {}),
        ("LayerNormalization", 17, 1, [tensor(2, 3), tensor(3), tensor()], {}),
        ("LayerNormalization", 17, 1, [tensor(2, ANY), tensor(ANY)], {}),
        ("RMSNormalization", 23, 1, [tensor(2, 3), tensor(3)], {"stash_type": 10}),
        ("RMSNormalization", 23, 1, [tensor(2, 3, dtype="float16"), tensor(3)], {}),
        ("RMSNormalization", 23, 1, [tensor(2, 3), tensor(1, 3)], {}),
        ("GroupNormalization", 18, 1, [tensor(2, 4, 3), tensor(3), tensor(3)], {"num_groups": 3}),
        ("GroupNormalization", 18, 1, [tensor(2, C, 3), tensor(2), tensor(2)], {"num_groups": 2}),
        ("GroupNormalization", 21, 1, [tensor(2, 4, 3, dtype="float64"), *[tensor(4, dtype="float64")] * 2], {"num_groups": 2}),
        ("GroupNormalization", 21, 1, [tensor(2, 4), tensor(4), tensor(4)], {"num_groups": 2}),
        ("InstanceNormalization", 6, 1, [tensor(2, 4), tensor(4), tensor(4)], {}),
        ("InstanceNormalization", 6, 1, [tensor(2, 4, 3), tensor(4), tensor(4)], {"consumed_inputs": (1,)}),
    ],
)
def test_opaque_nodes(
    nodes: "Nodes", op_type: str, version: int, n_outputs: int, types: Sequence[TensorType], attrs: dict[str, AnyValue]
) -> None:
    assert nodes.read(op_type, version, types, n_outputs, **attrs) is None


def _calls(dtype: str) -> list[Expr]:
    x = Var("x", tensor(2, 4, 6, dtype=dtype))
    channels = [Var("g", tensor(4, dtype=dtype)), Var("b", tensor(4, dtype=dtype))]
    layer = [Var("g", tensor(6, dtype=dtype)), Var("b", tensor(6, dtype=dtype))]
    return [
        get_op("nn.group_norm")(x, *channels, num_groups=2),
        get_op("nn.layer_norm")(x, *layer),
        get_op("nn.rms_norm")(x, layer[0]),
    ]


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("opset", [13, 18])
def test_reductions_have_keepdims(nodes: "Nodes", index: int, opset: int) -> None:
    """Fusions of ONNX Runtime's optimizer of transformers look for the attribute, although 1 is the default."""
    written = nodes.write(infer_type(_calls("float64")[index]), opset)
    reductions = [node for node in written.graph.node if node.op_type == "ReduceMean"]
    assert reductions
    assert all({each.name: each.i for each in node.attribute}["keepdims"] == 1 for node in reductions)


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("opset", [13, 24])
def test_double_precision_is_not_narrowed(nodes: "Nodes", index: int, opset: int) -> None:
    expr = infer_type(_calls("float64")[index])
    size = 4 if index == 0 else 6
    feeds = {"x": floats(2, 4, 6, dtype="float64"), "g": floats(size, dtype="float64"), "b": floats(size, dtype="float64")}
    np.testing.assert_allclose(nodes.run(nodes.write(expr, opset), feeds), nodes.evaluate(expr, feeds), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("opset", [13, 24])
def test_half_precision_is_summed_in_float32(nodes: "Nodes", index: int, opset: int) -> None:
    expr = infer_type(_calls("float16")[index])
    size = 4 if index == 0 else 6
    x = floats(2, 4, 6, dtype="float16") + np.float16(300)  # squares of 300 overflow 16 bits
    feeds = {"x": x, "g": floats(size, dtype="float16"), "b": floats(size, dtype="float16")}
    np.testing.assert_allclose(nodes.run(nodes.write(expr, opset), feeds), nodes.evaluate(expr, feeds), rtol=5e-3, atol=2e-2)


@settings(max_examples=share(8, 40))
@given(st.data())
def test_normalized_layers_have_no_mean_and_unit_variance(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=4)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    op = get_op("nn.layer_norm")
    x = Tensor.dense(floats(*shape, dtype="float64") * 3 + 1)
    ones = Tensor.splat(1.0, shape[axis % len(shape) :], "float64")
    found = evaluate_call(op, [x, ones, ()], Attrs(axis=axis, epsilon=0.0), TensorType(shape, "float64"))
    assert isinstance(found, Tensor)
    axes = tuple(range(axis % len(shape), len(shape)))
    np.testing.assert_allclose(found.numpy().mean(axes), 0, atol=1e-9)
    np.testing.assert_allclose(found.numpy().var(axes), 1, rtol=1e-9)


def test_cost_counts_elements() -> None:
    op = get_op("nn.batch_norm")
    types = [tensor(2, 3, 4), *[tensor(3)] * 4]
    attrs = op.bind_attrs({})
    assert op.cost(types, op.infer(types, attrs), attrs) == (8 * 24, 4 * (24 + 12 + 24))


@pytest.mark.parametrize(
    ("name", "types", "attrs", "message"),
    [
        ("nn.batch_norm", [tensor(2, 3), tensor(3), tensor(4), tensor(3), tensor(3)], {}, "beta has 4 elements, but axis 1 of data has 3"),
        ("nn.batch_norm", [tensor(2, 3), tensor(1, 3), *[tensor(3)] * 3], {}, "gamma must have one dimension, but has 2"),
        ("nn.batch_norm", [tensor(2, 3), *[tensor(3)] * 3, tensor(3, dtype="float64")], {}, "moving_var has element type float64"),
        (
            "nn.batch_norm",
            [tensor(2, 3, dtype="int8"), *[tensor(3)] * 4],
            {},
            "data must have a floating-point type, but has int8",
        ),
        ("nn.batch_norm", [tensor(2, 3), *[tensor(3)] * 4], {"axis": 2}, "has no axis 2"),
        ("nn.instance_norm", [tensor(2, 3), tensor(3), tensor(3)], {}, "data must have at least three dimensions"),
        ("nn.instance_norm", [tensor(2, 3, 4), tensor(2), tensor(2)], {"axis": 0}, "axis=0 must not be the first"),
        ("nn.group_norm", [tensor(2, 4, 3), tensor(4), tensor(4)], {"num_groups": 3}, "4 channels cannot be divided into 3 groups"),
        ("nn.group_norm", [tensor(2, 4), tensor(4), tensor(4)], {"num_groups": 2}, "data must have at least three dimensions"),
        ("nn.layer_norm", [tensor(2, 3), tensor(4), tensor(3)], {}, "gamma has shape (4,), but data has (3,) from axis -1 on"),
        ("nn.layer_norm", [tensor(2, 3), tensor(3), tensor(2, 3)], {}, "beta has shape (2, 3), but data has (3,) from axis -1 on"),
        (
            "nn.layer_norm",
            [tensor(2, 3), tensor(3), TupleType([tensor(3)])],
            {},
            "beta must be a tensor, but has type (Tensor[(3,), float32],)",
        ),
        ("nn.rms_norm", [tensor(2, 3), tensor(3, dtype="float16")], {}, "gamma has element type float16, but data has float32; cast one"),
    ],
)
def test_invalid_operands_are_reported(name: str, types: Sequence[Type], attrs: dict[str, AnyValue], message: str) -> None:
    with pytest.raises(OpTypeError, match=r"^" + name.replace(".", r"\.") + r"\(Tensor") as error:
        infer(name, *types, **attrs)
    assert message in str(error.value)


def test_sizes_known_by_name() -> None:
    assert infer("nn.batch_norm", tensor(N, C, ANY), *[tensor(ANY)] * 4) == TupleType([tensor(N, C, ANY), tensor(ANY), tensor(ANY)])
    assert tensor_type(infer("nn.layer_norm", tensor(N, ANY, 4), tensor(4), TupleType([]))).shape == (N, ANY, 4)
