"""`driver.lower` runs the passes over loops in TVM's order, with those of the options."""

import sys

import pytest

from passat import te
from passat.driver import build, lower
from passat.ir import prim_func
from passat.ir.module import IRModule
from passat.ir.te.schedule import Schedule
from passat.ir.te.tensor import Tensor
from passat.ir.tir.function import PrimFunc
from passat.passmgr import ConfigError, Pass, PassContext, list_passes, prim_func_pass
from passat.passmgr.loops import PASSES
from passat.passmgr.loops.lowering import Lower


def doubled() -> tuple[Schedule, list[Tensor]]:
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] * 2, name="y")
    s = te.create_schedule(y.op)
    outer, inner = s[y].split(y.op.axis[0], factor=4)
    s[y].unroll(outer)
    s[y].vectorize(inner)
    return s, [x, y]


def seen(names: list[str], name: str) -> Pass:
    @prim_func_pass(opt_level=0, name=name)
    def note(func: prim_func.PrimFunc, mod: IRModule, ctx: PassContext) -> prim_func.PrimFunc:
        names.append(name)
        return func

    return note


def test_phases() -> None:
    names: list[str] = []
    added = [(3, seen(names, "d")), (0, seen(names, "a")), (2, seen(names, "c")), (1, seen(names, "b")), (3, seen(names, "e"))]
    with PassContext(config={"tir.add_lower_pass": added}):
        planned = [member.info.name for member in Lower().members]
        lower(*doubled())
    assert names == list("abcde")
    assert [name.removeprefix("tir.") for name in planned] == [
        *("a", "StorageFlatten", "FlattenBuffer", "Simplify", "b"),
        *("LoopPartition", "VectorizeLoop", "StorageRewrite", "UnrollLoop", "c"),
        *("Simplify", "RemoveNoOp", "d", "e"),
    ]
    for phase in (-1, 4):
        added = [(phase, Lower())]
        with PassContext(config={"tir.add_lower_pass": added}), pytest.raises(ConfigError, match=f"phases from 0 to 3, not {phase}"):
            lower(*doubled())


def body(**config: object) -> str:
    with PassContext(config={f"tir.{name}": value for name, value in config.items()}):
        return str(lower(*doubled())["main"].body)


def test_marked_loops_are_vectors_and_statements() -> None:
    assert body().count("ramp(") == 4
    assert "for (" not in body()
    assert "ramp(" not in body(disable_vectorize=True)
    assert body(disable_vectorize=True).count("for (") == 2
    with PassContext(disabled_pass=["tir.UnrollLoop"]):
        assert '"unrolled"' in str(lower(*doubled())["main"].body)


def test_other_functions_are_flattened_too() -> None:
    made: object = lower(*doubled())["main"]
    assert isinstance(made, PrimFunc)
    again: object = lower(made.with_attr("from_legacy_te_schedule", False))["main"]
    assert isinstance(again, PrimFunc)
    assert again.body_difference(made) is None


def test_c_has_no_vectors() -> None:
    assert build(*doubled(), target="c") is not None


def test_passes_over_loops_are_registered_and_imported_on_demand() -> None:
    names = {entry.name: entry for entry in list_passes()}
    for name, module in PASSES.items():
        entry = names[f"tir.{name}"]
        assert entry.doc
        assert entry.make({}) is not None
        assert f"passat.passmgr.loops.{module}" in sys.modules
    assert names["tir.UnrollLoop"].is_own
