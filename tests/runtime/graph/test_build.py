"""Building modules: what is computed, by what, and what is rejected."""

import json
import re

import numpy as np
import pytest

from passat.ir.expr import Function, GlobalVar, If, Tuple, Var, const, var
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.text import parse
from passat.ir.types import TensorType
from passat.passmgr import PassContext
from passat.relay import add, exp, nn
from passat.runtime.devices import Device, Target, cpu
from passat.runtime.graph import GraphError
from passat.runtime.graph.build import build
from tests.runtime.graph.programs import TARGETS, X, expected, layer, nested, weights


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", [0, 2, 3])
def test_a_built_module_computes_what_the_program_says(target: str, level: int) -> None:
    with PassContext(opt_level=level):
        lib = build(layer(), target, params=weights())
    executor = lib["default"](cpu())
    executor.set_input("x", X)
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(X), rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_results_are_flat(target: str) -> None:
    executor = build(nested(), target)["default"]()
    executor.set_input(0, X)
    executor.run()
    found = [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]
    for made, wanted in zip(found, [np.exp(X).reshape(6), np.exp(X) + X, X], strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-6)


def test_the_target_says_what_computes() -> None:
    assert set(build(layer(), "numpy").get_lib().implementations().values()) == {"kernels"}
    assert set(build(layer(), "llvm").get_lib().implementations().values()) == {"onnxruntime"}
    with Target("numpy"):
        assert set(build(layer()).get_lib().implementations().values()) == {"kernels"}


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_kernels_compute_what_the_runtime_does_not_take(dtype: str) -> None:
    x = var("x", shape=(0 if dtype == "int8" else 2,), dtype=dtype)
    lib = build(Function([x], add(x, x)), "llvm")
    assert set(lib.get_lib().implementations().values()) == {"kernels"}
    executor = lib["default"]()
    executor.run()
    assert executor.get_output(0).dtype == dtype


def test_kernels_compute_what_fails_in_a_session() -> None:
    """ONNX Runtime loads LRN of any rank, and computes it for rank 4 only."""
    x = var("x", shape=(2, 3))
    lib = build(Function([x], get_op("nn.lrn")(x, size=3)), "onnxruntime")
    assert set(lib.get_lib().implementations().values()) == {"onnxruntime"}
    executor = lib["default"]()
    executor.set_input(0, X)
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), X / 2**0.75, rtol=1e-2)


def test_an_operand_out_of_range_is_an_error_of_the_function() -> None:
    x, at = var("x", shape=(2, 3)), var("at", shape=(1,), dtype="int64")
    executor = build(Function([x, at], get_op("take")(x, at, axis=1)), "onnxruntime")["default"]()
    executor.set_input(1, np.array([7]))
    with pytest.raises(GraphError, match=r"fused_take: .* index 7 is out of bounds"):
        executor.run()


def test_the_module_is_not_changed() -> None:
    mod = layer()
    before = mod["main"]
    build(mod, "numpy", params=weights())
    assert mod["main"] is before


def test_parameters_are_constants_and_set() -> None:
    lib = build(layer(), "numpy", params=weights())
    graph = json.loads(lib.get_graph_json())
    assert [node["name"] for node in graph["nodes"] if node["op"] == "null"] == ["x", *lib.get_params()]
    bare = lib["remove_params"]()
    assert bare.get_params() == {}
    executor = bare["default"]()
    executor.set_input("x", X)
    executor.run()
    assert not np.allclose(executor.get_output(0).numpy(), expected(X))
    executor.load_params(lib.save_params())
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(X), rtol=1e-6)


def test_lets_are_followed() -> None:
    mod = parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { let %y = exp(%x); let %z = add(%y, %x); multiply(%z, %y) }')
    executor = build(mod, "numpy")["default"]()
    executor.set_input("x", [0.0, 1.0])
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), [1, (np.e + 1) * np.e], rtol=1e-6)


def test_a_scalar_that_several_functions_use_is_part_of_each() -> None:
    x = var("x", shape=(2,))
    one = const(1.0)
    y = add(x, one)
    lib = build(Function([x], Tuple([y, nn.softmax(y) + one])), "numpy")
    assert len(lib.get_lib().compiled) > 1
    assert lib.get_params() == {}


def test_programs_that_are_no_graphs() -> None:
    x, n = var("x", shape=(2,)), Var("c", TensorType((), "bool"))
    with pytest.raises(GraphError, match=re.escape("graphs have no control flow: use executor='vm', or create_executor('vm')")):
        build(Function([x, n], If(n, exp(x), x)), "numpy")
    mod = IRModule({"other": Function([x], exp(x))})
    mod["main"] = Function([x], mod.get_global_var("other")(x))
    with pytest.raises(GraphError, match="main calls @other, which is not primitive; inline it"):
        build(mod, "numpy")
    with pytest.raises(GraphError, match="the module has no function main"):
        build(IRModule({GlobalVar("f"): Function([x], x)}), "numpy")
    with pytest.raises(TypeError, match="only modules and functions can be built, not a int"):
        build(3, "numpy")  # type: ignore[arg-type]  # what is tested


def test_unknown_sizes_are_rejected() -> None:
    mod = parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?), float32]) { exp(%x) }')
    with pytest.raises(GraphError, match="a graph needs known sizes: use executor='vm', or fix them"):
        build(mod, "numpy")


def test_other_targets_and_devices() -> None:
    with pytest.raises(ValueError, match="unsupported target 'cuda'; Passat computes on the CPU: use llvm, cpu, c, onnxruntime, numpy"):
        build(layer(), "cuda")
    with pytest.raises(GraphError, match=re.escape("graphs run on the CPU here, not on cuda(0)")):
        build(layer(), "numpy")["default"](Device("cuda"))


def test_a_failing_function_is_named() -> None:
    lib = build(layer(), "numpy")
    name = next(iter(lib.get_lib().compiled))
    with pytest.raises(GraphError, match=f"{name} takes 2 tensors, not 0"):
        lib.get_lib().compiled[name].run([])


def test_unpacking_is_deprecated() -> None:
    with pytest.deprecated_call():
        graph, lib, params = build(layer(), "numpy", params=weights())
    assert json.loads(graph)["heads"]
    assert lib.compiled
    assert params
