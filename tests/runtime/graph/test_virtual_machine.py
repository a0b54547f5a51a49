"""Programs with control flow and unknown sizes."""

import numpy as np
import pytest

from passat.ir.text import parse
from passat.runtime.devices import Device
from passat.runtime.graph import GraphError
from passat.runtime.graph.build import build_vm
from passat.runtime.graph.virtual_machine import Executable, VirtualMachine

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


def test_other_devices() -> None:
    with pytest.raises(GraphError, match="programs run on the CPU here, not on cuda"):
        VirtualMachine(build_vm(parse(LOOP), "numpy"), Device("cuda"))
