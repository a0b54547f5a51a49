"""Parameters that are given with a build."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from passat import relay
from passat.ir.infer_error import InferError
from passat.ir.module import IRModule

x, w = relay.var("x", shape=(1, 3)), relay.var("weight", shape=(2, 3))
MODULE = IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
ONES = np.ones((2, 3), np.float32)
TAKERS: list[Callable[..., Any]] = [
    lambda params: relay.build(MODULE, "llvm", params=params),
    lambda params: relay.build(MODULE, "llvm", executor="vm", params=params),
    lambda params: relay.optimize(MODULE, "llvm", params),
    lambda params: relay.vm.compile(MODULE, "llvm", params=params),
    lambda params: relay.create_executor("debug", MODULE, params=params),
]


@pytest.mark.parametrize("take", TAKERS)
def test_unknown_names_are_ignored_with_a_warning(take: Callable[..., Any]) -> None:
    with pytest.warns(UserWarning, match="params has 'weights', which main does not have; its parameters: x, weight; did you mean weight?"):
        take({"weights": ONES})
    take({"weight": ONES})


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("value", [np.ones((2, 4), np.float32), ONES.astype("float64"), [1.0, 2.0]])
def test_values_have_the_types_of_the_parameters(take: Callable[..., Any], value: object) -> None:
    with pytest.raises(TypeError, match=r"the parameter %weight has type Tensor\[\(2, 3\), float32\], but got a value of type Tensor"):
        take({"weight": value})


def test_bound_values_may_have_other_types() -> None:
    bound = relay.build_module.bind_params_by_name(MODULE["main"], {"weight": ONES.astype("float64")})
    assert "float64" in str(bound.body)
    with pytest.raises(InferError, match=r"nn.dense"):
        relay.transform.InferType()(IRModule.from_expr(bound))
    one = relay.var("one", shape=(), dtype="int32")
    assert "1.5f" in str(relay.build_module.bind_params_by_name(relay.Function([one], one), {"one": 1.5}).body)


def test_values_are_given_by_name() -> None:
    with pytest.raises(TypeError, match="params must be values by name, not a list"):
        relay.build(MODULE, "llvm", params=[ONES])  # type: ignore[call-overload]  # a mistake
    with pytest.raises(TypeError, match=r"relay\.build takes params by name"):
        relay.build(MODULE, "llvm", {"weight": ONES})  # type: ignore[call-overload]  # a mistake
