"""The builder of statements."""

import pytest

from passat import te, tir
from passat.ir import assert_structural_equal
from passat.ir.tir.parser import parse_stmt
from passat.ir.tir.types import TirError


def test_scopes_become_statements() -> None:
    ib = tir.ir_builder.create()
    n = te.size_var("n")
    memory = ib.allocate("float32", (n, 4), name="A", scope="local")
    with ib.for_range(0, n, name="i") as i, ib.for_range(0, 4, kind="vectorize") as j:
        memory[i, j] = memory[i, j] + 1
        with ib.if_scope(ib.likely(i < 3)):
            memory[0] = 1.5
        with ib.else_scope():
            memory[1] = 0
    ib.scope_attr(n, "pragma", 1)
    ib.emit(tir.call_extern("int32", "f", ib.let("t", n + 1)))
    expected = """
        allocate(A: Pointer(local float32), float32, [n: size int32, 4])
        for (i: int32, 0, n) {
          for (j: int32, 0, 4) "vectorized" {
            A[(j + (i*4))] = ((float32*)A[(j + (i*4))] + 1.0f32)
            if (@tir.likely((i < 3), dtype=bool)) { A[0] = 1.5f32 } else { A[1] = 0.0f32 }
          }
        }
        attr [n] "pragma" = 1
        let t: int32 = (n + 1)
        evaluate(@tir.call_extern("f", t, dtype=int32))"""
    assert_structural_equal(ib.get(), parse_stmt(expected), map_free_vars=True)


def test_wrong_use() -> None:
    ib = tir.ir_builder.create()
    memory = ib.pointer("float32")
    with pytest.raises(TirError, match="else_scope follows if_scope"):
        ib.else_scope()
    with pytest.raises(TirError, match="float32, not int32"):
        memory[0] = te.var("x")
    with pytest.raises(TirError, match="2 dimensions"):
        memory[0, 1] = 1.0
    with pytest.raises(TirError, match=r"an index is an integer, not 0\.5"):
        memory[0.5] = 1.0
    with pytest.raises(TirError, match=r"an index is an integer, not 0\.5"):
        memory[0.5]
    with pytest.raises(ValueError, match="loops are serial"):
        ib.for_range(0, 4, kind="quick")
    with ib.new_scope(), pytest.raises(TirError, match="still open"):
        ib.get()
