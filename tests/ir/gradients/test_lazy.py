"""LazyGradientInit keeps types and values, and computes no zeros that are added or multiplied."""

import numpy as np
import pytest

from passat import relay
from passat.ir.gradients.registry import GradientError
from passat.relay.transform import InferType, LazyGradientInit, gradient
from passat.runtime import NDArray, TupleValue

_VALUE = np.array([[1.0, -2.0, 3.0]])
_PROGRAMS = {
    "arithmetic": "fn (%x: T) { (%x + zeros_like(%x)) * ones_like(%x) - %x * %x }",
    "zeros": "fn (%x: T) { %x * zeros_like(%x) }",
    "broadcast": "fn (%x: T) { %x * sum(%x) }",
    "tuples": "fn (%x: T) { let %p = (%x, ones_like(%x)); (%p, %p.0 + %p.1) }",
    "split": "fn (%x: T) { %0 = split(%x, indices_or_sections=3, axis=1); %0.0 * %0.2 }",
    "branch": "fn (%x: T) { if (less(sum(%x), 1f64)) { %x } else { ones_like(%x) } }",
    "closure": "fn (%x: T) { let %f = fn (%y: T) { %x * %y }; %f(%f(%x)) }",
    "reference": "fn (%x: T) { let %r = ref(zeros_like(%x)); let %u = ref_write(%r, ref_read(%r) + %x); ref_read(%r) }",
}


def _flat(value: TupleValue | NDArray) -> list[np.ndarray]:
    return [part for field in value for part in _flat(field)] if isinstance(value, TupleValue) else [value.numpy()]


@pytest.mark.parametrize("name", sorted(_PROGRAMS))
def test_types_and_values_stay(name: str) -> None:
    """The function has its type and its values, also after differentiation."""
    function = relay.parse_expr('#[version = "0.0.5"]\n' + _PROGRAMS[name].replace("T", "Tensor[(1, 3), float64]"))
    assert isinstance(function, relay.Function)
    for made in (function, gradient(function)):
        module = InferType()(relay.IRModule.from_expr(made))
        lazy = LazyGradientInit()(module)
        assert lazy["main"].checked_type == module["main"].checked_type
        results = [relay.create_executor(mod=each).evaluate()(_VALUE) for each in (module, lazy)]
        for expected, found in zip(*map(_flat, results), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_zeros_are_not_multiplied() -> None:
    """A product with zeros is zeros without being computed, even of infinity."""
    x = relay.var("x", shape=(2,), dtype="float64")
    module = LazyGradientInit()(InferType()(relay.IRModule.from_expr(relay.Function([x], x * relay.zeros_like(x)))))
    found = relay.create_executor(mod=module).evaluate()(np.array([np.inf, np.nan]))
    np.testing.assert_array_equal(found.numpy(), [0, 0])


def test_global_functions_are_rejected() -> None:
    """The error says what is not supported."""
    module = relay.parse('#[version = "0.0.5"]\ndef @f(%x: int8) -> int8 { %x }\ndef @main(%x: int8) -> int8 { @f(%x) }')
    with pytest.raises(GradientError, match="does not support global functions and data types, but the program has a GlobalVar"):
        LazyGradientInit()(module)
