"""Weights declared by name only get their types from the calls that use them."""

import pytest

import passat as tvm
from passat import relay

data = relay.var("data", shape=(2, 6, 8, 8))


def weight() -> relay.Var:
    return relay.var("weight")


def typed(made: relay.Expr, var: relay.Var) -> str:
    """The inferred type of a variable, which makes the call valid."""
    assert var.type_annotation is var.checked_type
    relay.transform.InferType()(tvm.IRModule.from_expr(made))
    return str(var.checked_type)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"channels": 4, "kernel_size": (3, 5)}, "Tensor[(4, 6, 3, 5), float32]"),
        ({"channels": 4, "kernel_size": 3}, "Tensor[(4, 6, 3, 3), float32]"),
        ({"channels": 4, "kernel_size": (3, 5), "groups": 2}, "Tensor[(4, 3, 3, 5), float32]"),
        ({"channels": 4, "kernel_size": (3, 5), "kernel_layout": "HWIO"}, "Tensor[(3, 5, 6, 4), float32]"),
        ({"channels": 4, "kernel_size": (3, 5), "data_layout": "NHWC", "kernel_layout": "HWIO"}, "Tensor[(3, 5, 8, 4), float32]"),
    ],
)
def test_conv2d(arguments: dict[str, object], expected: str) -> None:
    w = weight()
    assert typed(relay.nn.conv2d(data, w, **arguments), w) == expected  # type: ignore[arg-type]  # keywords of several types


def test_convolutions_of_other_kinds() -> None:
    w, v, u = weight(), weight(), weight()
    assert typed(relay.nn.conv2d_transpose(data, w, channels=4, kernel_size=(3, 5)), w) == "Tensor[(6, 4, 3, 5), float32]"
    grouped = relay.nn.conv2d_transpose(data, v, channels=4, kernel_size=(3, 5), groups=2)
    assert typed(grouped, v) == "Tensor[(6, 2, 3, 5), float32]"
    assert typed(relay.nn.conv1d(relay.var("x", shape=(1, 2, 9), dtype="float16"), u, channels=5, kernel_size=3), u) == (
        "Tensor[(5, 2, 3), float16]"
    )


def test_dense_and_bias() -> None:
    x, w, b = relay.var("x", shape=("n", 16)), weight(), weight()
    made = relay.nn.bias_add(relay.nn.dense(x, w, units=10), b, axis=-1)
    assert typed(made, w) == "Tensor[(10, 16), float32]"
    assert typed(made, b) == "Tensor[(10), float32]"


@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm", "group_norm", "layer_norm"])
def test_normalizations(norm: str) -> None:
    vectors = [weight() for _ in range(4 if norm == "batch_norm" else 2)]
    extra = {"num_groups": 3} if norm == "group_norm" else {}
    made = getattr(relay.nn, norm)(data, *vectors, **extra)
    for vector in vectors:
        assert typed(made, vector) == f"Tensor[({8 if norm == 'layer_norm' else 6}), float32]"


def test_prelu() -> None:
    alpha = weight()
    assert typed(relay.nn.prelu(data, alpha), alpha) == "Tensor[(6), float32]"


def test_weights_whose_type_does_not_follow() -> None:
    unsized, no_units, free, declared = weight(), weight(), weight(), relay.var("w", shape=(9, 9))
    relay.nn.conv2d(data, unsized)
    relay.nn.dense(relay.var("x", shape=(2, 3)), no_units)
    relay.nn.bias_add(relay.var("x"), free)
    relay.nn.bias_add(data, declared)
    assert [var.type_annotation for var in (unsized, no_units, free)] == [None] * 3
    assert str(declared.type_annotation) == "Tensor[(9, 9), float32]"


def test_wrong_types_of_data_are_reported_by_inference() -> None:
    wrong, bias = relay.var("a", shape=(2, 3)) + relay.var("b", shape=(2, 4)), weight()
    made = relay.nn.bias_add(wrong, bias)
    assert bias.type_annotation is None
    with pytest.raises(tvm.error.DiagnosticError, match="add"):
        relay.transform.InferType()(tvm.IRModule.from_expr(made))


def test_a_network_of_untyped_weights_is_typed_printed_and_read() -> None:
    body: relay.Expr = relay.nn.conv2d(data, relay.var("conv"), channels=4, kernel_size=(3, 3))
    gamma, beta, mean, var = (relay.var(name) for name in ("gamma", "beta", "mean", "var"))
    body = relay.nn.relu(relay.nn.batch_norm(body, gamma, beta, mean, var)[0])
    body = relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(body)), relay.var("fc"), units=10)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)))
    assert [str(param.checked_type) for param in mod["main"].params][1:] == [
        "Tensor[(4, 6, 3, 3), float32]",
        *["Tensor[(4), float32]"] * 4,
        "Tensor[(10, 4), float32]",
    ]
    tvm.ir.assert_structural_equal(tvm.parser.parse(mod.astext()), mod)
