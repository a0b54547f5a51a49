"""Gradients of programs: closures, branches, references, recursion, second order, long chains, and errors."""

import numpy as np
import pytest

from passat import relay
from passat.ir.gradients.registry import GradientError
from passat.relay.testing import check_grad, run_infer_type
from passat.relay.transform import FirstOrderGradient, gradient

_SHAPE = (2, 3)


def _inputs(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(3)
    return [generator.uniform(0.5, 1.5, _SHAPE) for _ in range(count)]


def _program(text: str) -> relay.Function:
    tensor = "Tensor[(2, 3), float64]"
    return relay.parse('#[version = "0.0.5"]\n' + text.replace("T", tensor))["main"]


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%x: T, %y: T) { let %f = fn (%a: T) { %a * %x }; %f(%f(%y)) }",
        "def @main(%x: T, %y: T) { let %r = ref(%x); let %u = ref_write(%r, ref_read(%r) * %y); ref_read(%r) * %x }",
        "def @main(%x: T, %y: T) { if (less(sum(%x), sum(%y))) { %x * %y } else { exp(%x) } }",
        "def @main(%x: T, %y: T) { let %p = (%x * %y, %x); let %q = (%p, %y); %q.0.0 * %q.0.1 + %q.1 }",
        "def @main(%x: T, %y: T) { %0 = split(%x, indices_or_sections=3, axis=1); concatenate((%0.2, %0.0 * %0.2, %y), axis=1) }",
    ],
    ids=["closure", "reference", "branch", "tuples", "tuple-result"],
)
def test_higher_order_gradients_agree_with_finite_differences(text: str) -> None:
    """Gradients flow through every construct of the language."""
    check_grad(_program(text), _inputs(2), eps=1e-5)


def test_recursion_over_a_data_type() -> None:
    """Recursive global functions get differentiated forms in the module."""
    module = relay.parse(
        '#[version = "0.0.5"]\n'
        "type L[A] { C(A, L[A]), N }\n"
        "def @product(%l: L[Tensor[(2), float64]]) -> Tensor[(2), float64] {\n"
        '  match (%l) { C(%h, %t) => { %h * @product(%t) }, N => { ones(shape=[2], dtype="float64") } }\n'
        "}\n"
        "def @main(%x: Tensor[(2), float64]) { @product(C(%x, C(%x, C(%x, N)))) }"
    )
    module["main"] = gradient(module["main"], module)
    assert "product_grad" in module
    value = np.array([2.0, 3.0])
    result, (found,) = relay.create_executor(mod=relay.transform.InferType()(module)).evaluate()(value)
    np.testing.assert_allclose(result.numpy(), value**3)
    np.testing.assert_allclose(found.numpy(), 3 * value**2)


def test_second_order() -> None:
    """The gradient of a gradient is the second derivative."""
    x = relay.var("x", shape=_SHAPE, dtype="float64")
    first = run_infer_type(gradient(relay.Function([x], relay.sin(x) * x)))
    y = relay.var("y", shape=_SHAPE, dtype="float64")
    check_grad(relay.Function([y], first(y)[1][0]), _inputs(1), eps=1e-5)


def test_a_tuple_is_differentiated_by_its_first_tensor_or_by_all() -> None:
    """Higher order takes the first tensor of the result, as Relay does; first order takes the sum of all."""
    x = relay.var("x", shape=_SHAPE, dtype="float64")
    function = relay.Function([x], relay.Tuple([x + x, x]))
    for mode, expected in (("higher_order", 2.0), ("first_order", 3.0)):
        _, (found,) = relay.create_executor().evaluate(run_infer_type(gradient(function, mode=mode)))(*_inputs(1))
        np.testing.assert_allclose(found.numpy(), np.full(_SHAPE, expected))


@pytest.mark.parametrize("mode", ["higher_order", "first_order"])
def test_long_chains(mode: str) -> None:
    """Differentiation is iterative, and a chain of calls takes no stack."""
    x = relay.var("x", shape=(), dtype="float64")
    body: relay.Expr = x
    for _ in range(3000):
        body = relay.negative(body)
    back = gradient(relay.Function([x], body), mode=mode)
    _, (found,) = relay.create_executor().evaluate(back)(np.array(1.0))
    assert found.numpy() == 1


def test_the_pass_differentiates_every_function() -> None:
    """FirstOrderGradient gives what the mode of `gradient` does."""
    module = relay.IRModule.from_expr(_program("def @main(%x: T, %y: T) { %x * exp(%y) }"))
    made = FirstOrderGradient()(relay.transform.InferType()(module))["main"]
    first, second = _inputs(2)
    _, found = relay.create_executor().evaluate(run_infer_type(made))(first, second)
    np.testing.assert_allclose(found[0].numpy(), np.exp(second))
    np.testing.assert_allclose(found[1].numpy(), first * np.exp(second))


def test_a_registered_gradient_takes_the_place_of_the_own_one() -> None:
    """`register_gradient` takes precedence over built-in gradients, and its errors name the operator."""
    x = relay.var("x", shape=_SHAPE, dtype="float64")
    operator = relay.op.get("sin")
    own = operator.get_attr("FPrimalGradient")
    relay.op.register_gradient("sin", lambda call, grad: [grad, grad])
    try:
        with pytest.raises(GradientError, match="gradient of sin returns 2 expressions, but the call has 1 operand"):
            gradient(relay.Function([x], relay.sin(x)))
    finally:
        operator.reset_attr("FPrimalGradient")
        operator.set_attr("FPrimalGradient", own, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main(%x: T) { let %r = ref(%x); ref_read(%r) }", "only dataflow, but the function has a Ref"),
        ("def @main(%x: T) { if (less(sum(%x), 1f64)) { %x } else { %x } }", "only dataflow, but the function has a If"),
    ],
)
def test_what_first_order_rejects(text: str, message: str) -> None:
    """The error says what is not supported, and which mode supports it."""
    with pytest.raises(GradientError, match=message):
        gradient(_program(text), mode="first_order")


def test_wrong_modes_and_expressions() -> None:
    """Errors name a wrong mode, and an expression that is not a function."""
    x = relay.var("x", shape=_SHAPE)
    with pytest.raises(GradientError, match="mode='second' is not a mode"):
        gradient(relay.Function([x], x), mode="second")
    for mode in ("higher_order", "first_order"):
        with pytest.raises(GradientError, match="gradient needs a function, not a Var"):
            gradient(x, mode=mode)
