"""The compile engine: keys, names, uses, in-place calls and sizes of results."""

import numpy as np
import pytest

from passat.ir.expr import Function, Tuple, Var, var
from passat.ir.text import parse_expr
from passat.relay import add, exp, reshape
from passat.runtime.devices import Target
from passat.runtime.graph import CCacheKey, CompileEngine, GraphError
from passat.runtime.values import NDArray, empty


def triple(*shape: int) -> Function:
    x = var("x", shape=shape)
    return Function([x], add(add(x, x), x))


def test_equal_functions_are_compiled_once() -> None:
    engine = CompileEngine()
    first, again, other = (engine.lower(triple(*shape), "numpy") for shape in ((10,), (10,), ()))
    assert first.same_as(again)
    assert not first.same_as(other)
    assert not engine.lower(triple(10), "llvm").same_as(first)
    assert [value.use_count for _, value in engine.items()] == [1, 0, 0]
    assert [value.cached_func.func_name for _, value in engine.items()] == ["fused_add_add", "fused_add_add_1", "fused_add_add_2"]
    assert CCacheKey(triple(10), "numpy") == CCacheKey(triple(10), Target("numpy")) != CCacheKey(triple(9), "numpy")
    engine.clear()
    assert engine.items() == []
    assert engine.lower(triple(3), "numpy").func_name == "fused_add_add"


@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_jit_writes_into_arrays(target: str) -> None:
    out = empty((10,))
    CompileEngine().jit(triple(10), target)(NDArray(np.ones(10, np.float32)), out)
    assert out.numpy().tolist() == [3] * 10


def test_arguments_of_jit_are_checked() -> None:
    run = CompileEngine().jit(triple(2), "numpy")
    with pytest.raises(TypeError, match="fused_add_add takes 2 arrays: 1 input, then 1 result"):
        run(empty((2,)))
    with pytest.raises(TypeError, match="the argument 0 of fused_add_add has the type"):
        run(empty((2,), "int8"), empty((2,)))
    with pytest.raises(TypeError, match=r"argument 0 of fused_add_add is of the type ndarray.*nd\.array"):
        run(np.ones(2), empty((2,)))


def test_tuples_are_flat() -> None:
    function = parse_expr("fn (%t: (Tensor[(2), float32], Tensor[(2), float32])) { (add(%t.0, %t.1), (%t.1,)) }")
    assert isinstance(function, Function)
    cached = CompileEngine().lower(function, "numpy")
    assert (len(cached.inputs), len(cached.outputs)) == (2, 2)
    sums, same = cached.run([NDArray(np.ones(2, np.float32)).tensor] * 2)
    assert (sums.numpy().tolist(), same.numpy().tolist()) == ([2, 2], [1, 1])


def test_sizes_of_results() -> None:
    x = var("x", shape=(2, 3))
    shape = CompileEngine().lower_shape_func(Function([x], Tuple([reshape(x, (6,)), x])), "numpy")
    found = shape.run([NDArray(np.ones((2, 3), np.float32)).tensor])
    assert [size.numpy().tolist() for size in found] == [[6], [2, 3]]


def test_the_dump() -> None:
    engine = CompileEngine()
    engine.lower(triple(2), "numpy")
    engine.lower(triple(2), "numpy")
    text = engine.dump()
    assert "CompilerEngine dump, 1 items cached" in text
    assert "use_count=1\nfunc_name=fused_add_add\nfn (%x" in text


def test_what_cannot_be_compiled() -> None:
    engine = CompileEngine()
    x, y = var("x", shape=(2,)), Var("y", var("y", shape=(2,)).type_annotation)
    with pytest.raises(ValueError, match="Need target when source_func is a Function"):
        engine.lower(triple(2))
    with pytest.raises(TypeError, match="Expect source_func to be CCacheKey"):
        engine.lower(exp(x), "numpy")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(GraphError, match="the function uses %y of its surroundings"):
        engine.lower(Function([x], add(x, y)), "numpy")


def test_the_shared_engine() -> None:
    assert CompileEngine.get() is CompileEngine.get()
