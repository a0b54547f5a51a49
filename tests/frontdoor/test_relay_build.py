"""`relay.build` and the modules around it under TVM's names."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import passat as tvm
from passat import relay
from passat.contrib import graph_executor, graph_runtime, utils
from passat.contrib.debugger import debug_executor
from passat.ir.tensor import Array
from passat.relay.backend import Executor, Runtime, _backend, compile_engine, te_compiler
from passat.runtime import load_module
from passat.runtime.graph import GraphError

X: Array = np.arange(6, dtype=np.float32).reshape(2, 3)


def workload() -> tuple[tvm.IRModule, dict[str, Array]]:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))
    return mod, {"w": np.ones((4, 3), np.float32)}


def expected() -> Array:
    found: Array = np.maximum(X @ np.ones((3, 4), np.float32), 0)
    return found


def test_the_usual_script(tmp_path: Path) -> None:
    mod, params = workload()
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", params=params)
    lib.export_library(tmp_path / "lib.so")
    loaded = load_module(tmp_path / "lib.so")
    module = graph_executor.GraphModule(loaded["default"](tvm.cpu()))
    module.set_input("x", X)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), expected())
    assert (module.get_num_outputs(), module.get_input_index("x")) == (1, 0)
    result = module.benchmark(tvm.cpu(), repeat=2, number=1, end_to_end=True, x=X)
    assert len(result.results) == 2


def test_the_older_script() -> None:
    mod, params = workload()
    with pytest.deprecated_call():
        graph, lib, params = relay.build(mod, "llvm", params=params)
    module = graph_runtime.create(graph, lib, ctx=tvm.cpu(0))
    module.set_input("x", tvm.nd.array(X))
    module.set_input(**params)
    module.run()
    out = tvm.nd.empty((2, 4))
    assert module.get_output(0, out).same_as(out)
    np.testing.assert_allclose(out.asnumpy(), expected())
    with pytest.raises(RuntimeError, match="Could not find 'y' in graph's inputs"):
        module.set_input("y", X)


def test_targets_by_device() -> None:
    mod, params = workload()
    lib = relay.build(mod, {tvm.cpu().device_type: "numpy"}, "llvm", params=params)
    assert str(lib.get_lib().target) == "numpy"
    with pytest.raises(ValueError, match="there is no target for the CPU among those for 2"):
        relay.build(mod, {2: "cuda"})


def test_executors() -> None:
    mod, params = workload()
    machine = relay.build(mod, "numpy", params=params, executor=Executor("vm"), runtime=Runtime("cpp"))["default"](tvm.cpu())
    np.testing.assert_allclose(machine.run(X).numpy(), expected())
    with pytest.raises(GraphError, match="modules are built for the executors graph and vm, not for 'aot'"):
        relay.build(mod, "numpy", executor=Executor("aot"))
    executable = relay.vm.compile(mod, "numpy", params=params)
    np.testing.assert_allclose(relay.vm.VirtualMachine(executable, tvm.cpu()).run(X).numpy(), expected())


def test_options_of_executors() -> None:
    assert Executor("aot", {"interface-api": "c"})["interface-api"] == "c"
    with pytest.raises(RuntimeError, match=r'Attribute "interface-api" should have type "runtime\.String"'):
        Executor("aot", {"interface-api": True})
    with pytest.raises(ValueError, match='Executor "woof" is not defined; known: graph, vm, aot'):
        Executor("woof")


def test_the_debug_executor_writes_what_it_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mod, params = workload()
    lib = relay.build(mod, "numpy", params=params)
    module = debug_executor.create(lib.get_graph_json(), lib, tvm.cpu(), dump_root=str(tmp_path))
    module.run(number=1, min_repeat_ms=0, x=X)
    assert "Total_time" in capsys.readouterr().out
    folder = tmp_path / "_tvmdbg_device_CPU_0"
    assert set(os.listdir(folder)) == {"_tvmdbg_graph_dump.json", "_tvmdbg_execution_trace.json", "output_tensors.params"}
    assert json.loads((folder / "_tvmdbg_execution_trace.json").read_text())["traceEvents"]
    values = relay.load_param_dict((folder / "output_tensors.params").read_bytes())
    np.testing.assert_array_equal(values["x____0"].numpy(), X)
    (tmp_path / "mine").write_text("stays")
    module.exit()
    assert os.listdir(tmp_path) == ["mine"]


def test_the_memory_plan() -> None:
    x = relay.var("x", shape=(10,))
    mod = relay.transform.FuseOps(0)(relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.exp(relay.exp(x))))))
    plan = _backend.GraphPlanMemory(mod["main"])
    assert sorted({each.value for _, info in plan.items() for each in info.storage_ids}) == [0, 1, 2]
    assert plan[mod["main"].params[0]].storage_sizes == [40]


def test_the_names_of_the_compile_engine() -> None:
    assert compile_engine.get() is te_compiler.get()


def test_names_of_older_versions() -> None:
    x = relay.var("x", shape=(2,))
    func = relay.ir_pass.infer_type(relay.Function([x], relay.add(x, x)))
    assert relay.ir_pass.alpha_equal(func, relay.ir_pass.infer_type(relay.Function([x], relay.add(x, x))))
    assert "Primitive=1" in str(relay.ir_pass.fuse_ops(func))
    assert relay.Module is tvm.IRModule
    assert not tvm.nd.context("gpu", 1).exist


def test_annotations_of_the_examples() -> None:
    a, b, c, d = (relay.var(name, shape=(2,)) for name in "abcd")
    func = relay.Function([a, b, c, d], relay.exp((a + b - c) * d))
    mod = relay.transform.PartitionGraph()(tvm.IRModule.from_expr(relay.testing.byoc.CcompilerAnnotator().visit(func)))
    lib = relay.build(mod, "llvm")
    assert set(lib.get_lib().implementations().values()) == {"ccompiler", "onnxruntime"}
    module = graph_executor.GraphModule(lib["default"]())
    module.run(a=[1.0, 1.0], b=[2.0, 2.0], c=[1.0, 1.0], d=[2.0, 0.0])
    np.testing.assert_allclose(module.get_output(0).numpy(), np.exp([4, 0]), rtol=1e-6)


def test_building_step_by_step() -> None:
    mod, params = workload()
    compiler = relay.vm.VMCompiler()
    with pytest.raises(GraphError, match="nothing was built"):
        compiler.get_exec()
    compiler.set_params(params)
    optimized, left = compiler.optimize(mod, "numpy")
    assert (len(optimized["main"].params), left) == (1, {})
    np.testing.assert_allclose(relay.vm.VirtualMachine(compiler.get_exec()).run(X).numpy(), expected())


def test_the_virtual_machine_of_older_versions() -> None:
    prelude = relay.prelude.Prelude()
    machine = relay.vm.VirtualMachine(relay.vm.compile(tvm.IRModule.from_expr(relay.Function([], relay.const(2.0))), "numpy"))
    machine.init(tvm.cpu())
    assert isinstance(machine.invoke("main"), relay.vm.Tensor)
    assert prelude.nil is prelude.get_type("List")[2]
    with pytest.raises(GraphError, match="programs run on the CPU here, not on cuda"):
        machine.init(tvm.nd.cuda())
    assert relay.create_executor("vm", ctx=tvm.cpu(1)).device == tvm.cpu(1)


def test_temporary_folders() -> None:
    with utils.tempdir() as folder:
        path = folder.relpath("a")
        Path(path).touch()
        assert folder.listdir() == ["a"]
    assert not os.path.exists(path)
