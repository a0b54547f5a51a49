"""Primitive functions that native kernels compute: the values are those of ONNX Runtime, and what computes which function."""

import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat import relay
from passat.ir.expr import Expr, Function, Tuple, Var, const, var
from passat.ir.tensor import Array
from passat.runtime import load_module
from passat.runtime.graph import CompileEngine, GraphError
from passat.runtime.graph.build import build, build_vm
from passat.runtime.graph.library import Library
from passat.runtime.kernels import NoCompilerError, compiler
from passat.runtime.module import Module
from passat.runtime.values import NDArray
from tests.share import share

pytest.importorskip("llvmlite")
try:
    compiler()
except NoCompilerError as error:
    pytest.skip(str(error), allow_module_level=True)

NATIVE = ("llvm", "c")
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 2.5, -2.5, 1e-40, -1e-40, 3.4e38, -3.4e38, 88.8, -104, 7], np.float32)


def implementations(lib: AnyValue) -> set[str]:
    return set(lib.get_lib().implementations().values())


def results(lib: Module, values: dict[str, Array]) -> list[Array]:
    executor = lib["default"]()
    for name, value in values.items():
        executor.set_input(name, value)
    executor.run()
    return [executor.get_output(place).numpy() for place in range(executor.get_num_outputs())]


def agree(function: Function, values: dict[str, Array], expected: str | None = "", rtol: float = 0) -> None:
    """The targets have the same results; `expected` is what computes the functions, the target itself unless it is given."""
    wanted = results(build(function, "onnxruntime"), values)
    for target in NATIVE:
        lib = build(function, target)
        if expected is not None:
            assert implementations(lib) == {expected or target}, target
        for one, other in zip(wanted, results(lib, values), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            if rtol:
                np.testing.assert_allclose(other, one, rtol=rtol, atol=rtol, err_msg=target)
            else:
                np.testing.assert_array_equal(other, one, err_msg=target)
                known = one == one
                np.testing.assert_array_equal(np.signbit(other[known]), np.signbit(one[known]), err_msg=target)


X, Y, B = var("x", shape=(16, 16)), var("y", shape=(16, 16)), var("b", shape=(16,))
PAIRS = {"x": np.tile(SPECIAL, (16, 1)), "y": np.tile(SPECIAL[:, None], (1, 16))}
SMALL = {key: np.clip(value, -8, 8) for key, value in PAIRS.items()}
EXACT: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda x, y: -(x + y),
    "subtract": lambda x, y: relay.abs(x - y),
    "multiply": lambda x, y: relay.sign(x * y),
    "divide": lambda x, y: relay.round(x / y),
    "maximum": relay.maximum,
    "minimum": lambda x, y: relay.minimum(x, y) + x,
    "floor": lambda x, y: relay.floor(x) * relay.ceil(y),
    "relu": lambda x, y: relay.nn.relu(x) + relay.sqrt(y),
    "leaky": lambda x, y: relay.nn.leaky_relu(x, 0.5) * y,
    "clip": lambda x, y: relay.clip(x, -2.0, 6.0) - y,
    "compare": lambda x, y: relay.cast(relay.less(x, y), "float32") + y,
    "logic": lambda x, y: relay.logical_and(relay.less(x, y), relay.logical_not(relay.equal(x, y))),
    "nan": lambda x, y: relay.logical_or(relay.isnan(x * y), relay.isinf(x + y)),
    "integers": lambda x, y: relay.cast(x, "int32") + relay.cast(y, "int32"),
    "long": lambda x, y: relay.cast(x * y, "int64"),
    "half": lambda x, y: relay.cast(relay.cast(x, "float16") + relay.cast(y, "float16"), "float32"),
    "double": lambda x, y: relay.cast(x, "float64") * relay.cast(y, "float64"),
    "max": lambda x, y: relay.max(relay.maximum(x, y), axis=1),
    "min": lambda x, y: relay.min(relay.minimum(x, y), axis=0, keepdims=True),
}


@pytest.mark.parametrize("name", EXACT)
def test_values_are_those_of_onnx_runtime_bit_for_bit(name: str) -> None:
    if name == "maximum":  # which of equal zeros is the result depends on the operands in ONNX Runtime
        agree(Function([X, Y], relay.maximum(X, Y) + relay.const(0.0)), PAIRS)
    elif name in ("max", "min"):  # ONNX Runtime's lose NaN
        agree(Function([X, Y], EXACT[name](X, Y)), {key: np.nan_to_num(value, nan=1.0) + 1 for key, value in PAIRS.items()})
    elif name == "half":  # ONNX Runtime leaves out the casts of numbers that are infinite or zero as float16
        agree(
            Function([X, Y], EXACT[name](X, Y)),
            {key: np.where(np.abs(value) < 1e-3, np.float32(0.5), value) for key, value in SMALL.items()},
        )
    else:
        agree(Function([X, Y], EXACT[name](X, Y)), PAIRS)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    given = np.array([limits.min, limits.min + 1, 0, 1, 2, 3, 100, limits.max], dtype)
    x, y = var("x", shape=(8, 1), dtype=dtype), var("y", shape=(1, 8), dtype=dtype)
    body = relay.maximum(x + y, x * y) - relay.minimum(x, y)
    agree(Function([x, y], Tuple([body, relay.less(x, y)])), {"x": given[:, None], "y": given[None]})


def test_functions_that_llvm_does_not_vectorize_are_left_to_onnx_runtime() -> None:
    function = Function([X, Y], relay.tanh(X) * relay.exp(Y))
    assert implementations(build(function, "llvm")) == {"onnxruntime"}
    assert implementations(build(function, "c")) == {"c"}
    agree(function, {"x": np.clip(PAIRS["x"], -5, 5), "y": np.clip(PAIRS["y"], -5, 5)}, None, rtol=1e-6)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Function, dict[str, Array]]:
    """Sums, products and reductions of tensors that broadcast, with several results."""
    shape = draw(st.lists(st.sampled_from((1, 2, 3, 5, 130)), max_size=4).filter(lambda sizes: np.prod(sizes) < 3000))
    params: list[Var] = []
    for name in "xyz":
        own = [draw(st.sampled_from((size, 1))) for size in shape[draw(st.integers(0, len(shape))) :]]
        params.append(var(name, shape=tuple(own)))
    params.append(var("w", shape=tuple(shape)))
    pool: list[Expr] = list(params)
    for _ in range(draw(st.integers(1, 5))):
        one, two = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        pool.append(draw(st.sampled_from([one + two, one * two, relay.maximum(one, two), one - const(0.5), one * one])))
    whole = pool[-1] + params[-1]
    ends: list[Expr] = [whole]
    if shape:
        first = draw(st.integers(0, len(shape) - 1))
        axes = list(range(first, draw(st.integers(first + 1, len(shape)))))
        make = draw(st.sampled_from((relay.sum, relay.mean, relay.max, relay.min)))
        ends += [make(whole, axis=axes, keepdims=draw(st.booleans())), relay.reshape(whole, (-1,))]
    chosen = draw(st.lists(st.sampled_from(ends), min_size=1, max_size=2, unique=True))
    random = np.random.default_rng(draw(st.integers(0, 9)))
    values = {each.name_hint: np.asarray(random.normal(size=each.type_annotation.concrete_shape), np.float32) for each in params}  # type: ignore[union-attr]  # a tensor
    return Function(params, chosen[0] if len(chosen) == 1 else Tuple(chosen)), values


@given(programs())
@settings(max_examples=share(8, 40))
def test_any_sizes(program: tuple[Function, dict[str, Array]]) -> None:
    agree(*program, None, rtol=2e-4)


def test_all_kernels_are_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import passat.runtime.graph.native_primitive as native

    counts: list[int] = []
    plain = native._COMPILERS["c"]

    def counting(functions: AnyValue) -> AnyValue:
        counts.append(len(functions))
        return plain(functions)

    monkeypatch.setitem(native._COMPILERS, "c", counting)
    soft = relay.nn.softmax(X + Y)
    function = Function([X, Y], relay.abs(soft * X) + relay.sum(soft, axis=1, keepdims=True))
    assert implementations(build(function, "c")) == {"c", "onnxruntime"}
    assert len(counts) == 1
    machine = build_vm(function, "c")["default"]()
    machine.run(PAIRS["x"], PAIRS["y"])
    assert counts == [counts[0]] * 2


def test_a_loaded_library_is_compiled_again(tmp_path: Path) -> None:
    function = Function([X, Y], relay.abs(X) + Y)
    build(function, "c").export_library(tmp_path / "lib")
    loaded = load_module(tmp_path / "lib")
    assert implementations(loaded) == {"c"}
    np.testing.assert_array_equal(results(loaded, SMALL)[0], np.abs(SMALL["x"]) + SMALL["y"])


def test_without_a_compiler_onnx_runtime_computes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_: None)
    monkeypatch.setattr("passat.runtime.kernels.toolchain.find_spec", lambda *_: None)
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    function = Function([X, Y], relay.abs(X) + Y)
    for target in NATIVE:
        caplog.clear()
        with caplog.at_level(logging.INFO, "passat"):
            assert implementations(build(function, target)) == {"onnxruntime"}
        assert len(caplog.records) == 1
        assert "pip install 'passat[" in caplog.text


def test_tensors_of_other_types_are_rejected() -> None:
    lib = build(Function([X, Y], relay.abs(X) + Y), "c").get_lib()
    assert isinstance(lib, Library)
    (compiled,) = lib.compiled.values()
    with pytest.raises(GraphError, match=r"the argument 1 has the type Tensor\[\(3,\), float32\], not Tensor\[\(16, 16\), float32\]"):
        compiled.run([NDArray(PAIRS["x"]).tensor, NDArray(np.zeros(3, np.float32)).tensor])


def test_any_memory() -> None:
    """Steps between elements, repeated elements, and addresses that are no multiples of the size."""
    engine = CompileEngine()
    memory = np.zeros(16 * 16 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(16, 16)
    for array in (memory, SMALL["x"][:, ::-1], np.asfortranarray(SMALL["x"]), np.broadcast_to(np.float32(3), (16, 16))):
        for target in NATIVE:
            run = engine.lower(Function([X, Y], relay.abs(X) + Y), target)
            np.testing.assert_array_equal(
                run.run([NDArray(array).tensor, NDArray(SMALL["y"]).tensor])[0].numpy(), np.abs(array) + SMALL["y"]
            )
