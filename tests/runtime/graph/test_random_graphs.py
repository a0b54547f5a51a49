"""Random dataflow programs compute the same as modules of any target, and after loading, as the reference executor says."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from passat.ir.expr import Constant, Expr, Function, Tuple, TupleGetItem, var
from passat.ir.tensor import Array, Tensor
from passat.passmgr import PassContext
from passat.relay import abs as absolute
from passat.relay import add, concatenate, multiply, nn, reshape, split, tanh, transpose
from passat.relay import sum as total
from passat.runtime import load_module
from passat.runtime.graph.build import build
from passat.runtime.graph.executors import create_executor
from passat.runtime.values import TupleValue
from tests.runtime.graph.programs import TARGETS
from tests.share import share

INPUTS: list[Array] = [np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), np.linspace(2, -2, 6, dtype=np.float32).reshape(2, 3)]


@st.composite
def graphs(draw: DrawFn) -> Function:
    """Functions of two 2x3 tensors, whose values are all of that type."""
    params = [var(name, shape=(2, 3)) for name in "xy"]
    pool: list[Expr] = [*params, Constant(Tensor.dense(np.full((2, 3), 0.5, np.float32)))]
    for _ in range(draw(st.integers(1, 8))):
        whole, two = draw(st.sampled_from(pool)), draw(st.sampled_from([*pool, Constant(Tensor.dense(np.float32(2)))]))
        parts = split(whole, 3, axis=1)
        pool.insert(
            0,
            draw(
                st.sampled_from(
                    [
                        add(whole, two),
                        multiply(whole, two),
                        tanh(whole),
                        absolute(whole),
                        reshape(reshape(whole, (6,)), (2, 3)),
                        transpose(transpose(whole)),
                        nn.softmax(whole),
                        add(whole, total(whole, axis=1, keepdims=True)),
                        concatenate([TupleGetItem(parts, i) for i in (2, 0, 1)], axis=1),
                    ]
                )
            ),
        )
    results = draw(st.lists(st.sampled_from(pool[:4]), min_size=1, max_size=3))
    return Function(params, results[0] if len(results) == 1 else Tuple(results))


@given(graphs(), st.sampled_from(TARGETS), st.integers(0, 3), st.booleans())
@settings(max_examples=share(20, 40))
def test_modules_compute_what_programs_say(function: Function, target: str, level: int, through_file: bool) -> None:
    expected = create_executor().evaluate(function)(*INPUTS)
    wanted = list(expected) if isinstance(expected, TupleValue) else [expected]
    with PassContext(opt_level=level):
        module = build(function, target)
    if through_file:
        with tempfile.TemporaryDirectory() as folder:
            module.export_library(Path(folder, "lib"))
            executor = load_module(Path(folder, "lib"))["default"]()
    else:
        executor = module["default"]()
    for name, value in zip("xy", INPUTS, strict=True):
        executor.set_input(name, value)
    executor.run()
    assert executor.get_num_outputs() == len(wanted)
    for index, each in enumerate(wanted):
        np.testing.assert_allclose(executor.get_output(index).numpy(), each.numpy(), rtol=1e-4, atol=1e-5)
