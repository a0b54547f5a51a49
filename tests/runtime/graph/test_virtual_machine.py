"""Programs with control flow and unknown sizes."""

from pathlib import Path

import numpy as np
import pytest

from passat.ir.expr import var
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.runtime.devices import Device, cpu
from passat.runtime.graph import GraphError, load_module
from passat.runtime.graph.build import build_vm
from passat.runtime.graph.virtual_machine import Executable, VirtualMachine
from passat.runtime.values import empty

LOOP = """#[version = "0.0.5"]
def @main(%n: int32, %x: Tensor[(?), float32]) -> Tensor[(?), float32] {
  if (less_equal(%n, 0)) { %x } else { @main(subtract(%n, 1), add(multiply(%x, 2f), 1f)) }
}
"""


@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_a_loop_over_an_unknown_size(target: str) -> None:
    machine = build_vm(parse(LOOP), target)["default"]()
    for size in (1, 3):
        assert machine.run(3, np.zeros(size, np.float32)).numpy().tolist() == [7] * size
    machine.set_input("main", 1, x=np.ones(2, np.float32))
    assert machine.invoke("main").numpy().tolist() == [3, 3]
    assert [value.numpy().tolist() for value in machine.get_outputs()] == [[3, 3]]


def test_saving() -> None:
    code, lib = build_vm(parse(LOOP), "numpy").save()
    machine = VirtualMachine(Executable.load_exec(code, lib))
    assert machine.run(2, np.zeros(1, np.float32)).numpy().tolist() == [3]
    with pytest.raises(GraphError, match=r"this is not a program that Executable\.save has written"):
        Executable.load_exec(b"junk")


def test_files(tmp_path: Path) -> None:
    build_vm(parse(LOOP), "numpy").export_library(tmp_path / "lib")
    loaded = load_module(tmp_path / "lib")
    assert isinstance(loaded, Executable)
    assert str(loaded.target) == "numpy"
    assert loaded["default"]().run(2, np.zeros(1, np.float32)).numpy().tolist() == [3]


def test_inputs_results_and_times() -> None:
    machine = build_vm(parse(LOOP), "numpy")["default"]()
    assert (machine.get_input_index("x"), machine.get_input_index("y")) == (1, -1)
    machine.set_one_input("main", 0, 1)
    machine.set_one_input("main", x=np.zeros(1, np.float32))
    machine.invoke_stateful("main")
    assert machine.get_outputs()[0].numpy().tolist() == [1]
    out = empty((1,))
    machine.invoke_with_outputs("main", {"n": 3, "x": np.zeros(1, np.float32)}, [out])
    assert out.numpy().tolist() == [7]
    assert len(machine.benchmark(cpu(), 1, np.zeros(1, np.float32), repeat=2, number=1).results) == 2
    with pytest.raises(GraphError, match="main has no parameter 'y'; it has: n, x"):
        machine.set_one_input("main", "y", 1)
    with pytest.raises(GraphError, match="main has 2 parameters, but got 3 inputs"):
        machine.set_input("main", 1, 2, 3)
    with pytest.raises(GraphError, match="main has 1 result, but got 2 arrays"):
        machine.invoke_with_outputs("main", {"n": 0, "x": np.zeros(1, np.float32)}, [out, out])


def test_an_expression_becomes_a_function() -> None:
    mod = IRModule()
    x = var("x", shape=(1,))
    mod["main"] = x + x
    assert build_vm(mod, "numpy")["default"]().run(np.ones(1, np.float32)).numpy().tolist() == [2]


def test_other_devices() -> None:
    with pytest.raises(GraphError, match="programs run on the CPU here, not on cuda"):
        VirtualMachine(build_vm(parse(LOOP), "numpy"), Device("cuda"))
