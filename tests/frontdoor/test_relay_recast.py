"""relay.transform.recast: operators in other element types."""

from collections.abc import Sequence

import numpy as np
import pytest

from passat import relay
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Expr, Function
from passat.ir.infer import InferError
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.relay.transform import recast
from passat.runtime import create_executor


def becomes(before: str, after: str, ops: Sequence[str], skip: Sequence[int] = (), dtype: str = "float16") -> None:
    made: Expr = recast(parse(before)["main"], dtype, dtype, ops, skip)
    assert_structural_equal(made, parse(after)["main"])


def test_operands_and_results() -> None:
    becomes(
        "def @main(%x: Tensor[(2), float32]) { add(exp(%x), %x) }",
        'def @main(%x: Tensor[(2), float32]) { add(cast(exp(cast(%x, dtype="float16")), dtype="float32"), %x) }',
        ["exp"],
    )


def test_tuples() -> None:
    becomes(
        "def @main(%x: Tensor[(2), float32], %y: Tensor[(2), float32]) { concatenate((%x, %y), axis=0) }",
        'def @main(%x: Tensor[(2), float32], %y: Tensor[(2), float32]) { cast(concatenate((cast(%x, dtype="float16"),'
        ' cast(%y, dtype="float16")), axis=0), dtype="float32") }',
        ["concatenate"],
    )
    becomes(
        "def @main(%x: Tensor[(2), float32]) { split(%x, indices_or_sections=2, axis=0).1 }",
        'def @main(%x: Tensor[(2), float32]) { %0 = split(cast(%x, dtype="float16"), indices_or_sections=2, axis=0);'
        ' (cast(%0.0, dtype="float32"), cast(%0.1, dtype="float32")).1 }',
        ["split"],
    )


@pytest.mark.parametrize("skip", [(1,), (-1,)])
def test_layers_that_stay(skip: tuple[int, ...]) -> None:
    becomes(
        "def @main(%x: Tensor[(2), float32]) { add(exp(exp(%x)), exp(%x)) }",
        'def @main(%x: Tensor[(2), float32]) { %0 = cast(exp(cast(%x, dtype="float16")), dtype="float32"); add(exp(%0), %0) }',
        ["exp"],
        skip,
    )


def test_modules_and_the_default_operator() -> None:
    x, w = relay.var("x", shape=(1, 2, 4, 4)), relay.var("w", shape=(2, 2, 3, 3))
    module = IRModule.from_expr(Function([x, w], relay.nn.relu(relay.nn.conv2d(x, w))))
    made = recast(module, "float16", "float16")
    inputs = [np.linspace(-1, 1, 32).reshape(1, 2, 4, 4).astype(np.float32), np.linspace(0, 1, 36).reshape(2, 2, 3, 3).astype(np.float32)]
    expected = create_executor(mod=module).evaluate()(*inputs).numpy()
    found = create_executor(mod=made).evaluate()(*inputs).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-2)
    assert module["main"].body is not made["main"].body


def test_an_element_type_that_an_operator_does_not_take() -> None:
    with pytest.raises(InferError, match="exp"):
        recast(parse("def @main(%x: Tensor[(2), float32]) { exp(%x) }")["main"], "int8", "int8", ["exp"])
