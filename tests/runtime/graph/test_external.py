"""External code generators."""

from collections.abc import Iterator

import numpy as np
import pytest

from passat.ir.expr import Call, Function, GlobalVar, var
from passat.ir.global_functions import register_func, remove_global_func
from passat.ir.module import IRModule
from passat.relay import add, exp
from passat.runtime.graph import GraphError, load_module
from passat.runtime.graph.build import build, build_vm
from passat.runtime.graph.virtual_machine import VirtualMachine
from passat.runtime.module import Module
from passat.runtime.values import NDArray


@pytest.fixture
def calls() -> Iterator[list[str]]:
    found: list[str] = []

    def generate(function: Function) -> Module:
        def double(x: NDArray, out: NDArray) -> None:
            found.append("called")
            out.copyfrom(2 * x.numpy())

        return Module({function.attrs["global_symbol"]: double})

    register_func("relay.ext.doubling", generate)
    yield found
    remove_global_func("relay.ext.doubling")


def partitioned(compiler: str) -> IRModule:
    p, x = var("p", shape=(2,)), var("x", shape=(2,))
    outer = Function([p], add(p, p), attrs={"Compiler": compiler, "Primitive": 1, "global_symbol": "double_0"})
    mod = IRModule({GlobalVar("double_0"): outer})
    mod["main"] = Function([x], exp(Call(mod.get_global_var("double_0"), [x])))
    return mod


def test_a_code_generator_computes_its_functions(calls: list[str], tmp_path: object) -> None:
    built = build(partitioned("doubling"), "numpy")
    assert built.get_lib().implementations()["double_0"] == "doubling"
    path = f"{tmp_path}/lib"
    built.export_library(path)
    for module in (built, load_module(path)):
        executor = module["default"]()
        executor.set_input("x", np.ones(2, np.float32))
        executor.run()
        np.testing.assert_allclose(executor.get_output(0).numpy(), np.exp([2, 2]), rtol=1e-6)
    assert len(calls) == 2
    result = VirtualMachine(build_vm(partitioned("doubling"), "numpy")).run(np.ones(2, np.float32))
    np.testing.assert_allclose(result.numpy(), np.exp([2, 2]), rtol=1e-6)
    assert len(calls) == 3


def test_a_missing_code_generator() -> None:
    with pytest.raises(GraphError, match=r"double_0 is for the compiler 'none'; register its code generator with register_func"):
        build(partitioned("none"), "numpy")


def test_the_code_generator_of_the_examples() -> None:
    executor = build(partitioned("ccompiler"), "llvm")["default"]()
    executor.set_input("x", [1.0, 1.0])
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), np.exp([2, 2]), rtol=1e-6)
