"""Modules and functions: names, imports, conversion of arguments, times."""

from typing import Any as AnyValue

import numpy as np
import pytest

import passat
from passat.ir.global_functions import register_func, remove_global_func
from passat.runtime import Module, NDArray, PackedFunc, convert, cpu
from passat.runtime.values import empty, from_dlpack


def test_functions_are_found_by_name() -> None:
    inner, outer = Module({"f": lambda: 1}), Module({"g": lambda: 2, "h": lambda: 3})
    outer.import_module(inner)
    inner.import_module(outer)  # a cycle
    assert (outer["f"](), outer["g"](), inner["h"]()) == (1, 2, 3)
    assert not outer.implements_function("f")
    assert outer.implements_function("f", query_imports=True)
    with pytest.raises(AttributeError, match="Module has no function 'x'; it has: g, h"):
        outer.get_function("x")
    with pytest.raises(AttributeError, match="__tvm_main__"):
        outer()
    outer["__tvm_main__"] = lambda: 4
    assert outer() == 4
    with pytest.raises(TypeError, match="a module can import modules, not a dict"):
        outer.import_module({})  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match="must be callable"):
        outer["g"] = 3  # type: ignore[assignment]  # what is tested


def test_times() -> None:
    calls: list[int] = []
    result = Module({"f": calls.append}).time_evaluator("f", cpu(), number=3, repeat=2)(1)
    assert len(calls) == 7
    assert len(result.results) == 2
    assert result.min <= result.median <= result.max
    with pytest.raises(ValueError, match="at least 1"):
        Module({"f": calls.append}).time_evaluator("f", number=0)


def test_the_entry_function_has_a_name() -> None:
    """Scripts measure `f.time_evaluator(f.entry_name, device)`."""
    calls: list[int] = []
    module = Module({"f": calls.append})
    assert module.time_evaluator(module.entry_name, cpu(), number=1)(1).mean >= 0
    assert len(calls) == 2
    assert module.implements_function("__tvm_main__")
    several = Module({"f": len, "g": len})
    assert not several.implements_function(several.entry_name)


def test_arguments_are_converted() -> None:
    seen: list[AnyValue] = []
    function = convert(lambda *args: seen.extend(args))
    assert isinstance(function, PackedFunc)
    function(1, 2.0, "a", None, bytearray(b"x"), [1, [2]], np.int64(1 << 40), lambda x: x, cpu())
    assert seen[:7] == [1, 2.0, "a", None, bytearray(b"x"), (1, (2,)), 1 << 40]
    assert type(seen[6]) is int
    assert isinstance(seen[7], PackedFunc)
    assert seen[8] == cpu()


@pytest.mark.parametrize("value", [object(), 1j, np.ones(2), {1, 2}])
def test_other_arguments_are_rejected(value: object) -> None:
    with pytest.raises(TypeError, match="an element of argument 0 of echo is of the type"):
        PackedFunc(lambda x: x, "echo")([value])


def test_functions_return_functions() -> None:
    assert PackedFunc(lambda y: lambda x: x + y)(10)(11) == 21
    assert convert(PackedFunc(len)) == PackedFunc(len)


def test_global_functions_are_packed() -> None:
    register_func("tests.twice", lambda x: 2 * x)
    try:
        found = passat.get_global_func("tests.twice")
        assert isinstance(found, PackedFunc)
        assert found(4) == 8
    finally:
        remove_global_func("tests.twice")
    assert passat.get_global_func("tests.twice", allow_missing=True) is None


def test_arrays_are_written_to() -> None:
    array = empty((2, 2), "int32")
    array.copyfrom([[1, 2], [3, 4]])
    array[0] = 7
    assert array.numpy().tolist() == [[7, 7], [3, 4]]
    assert array[1].numpy().tolist() == [3, 4]
    other = array.copyto(cpu())
    array[1, 1] = 0
    assert other.numpy().tolist() == [[7, 7], [3, 4]]
    assert not other.same_as(array)
    with pytest.raises(ValueError, match="cannot take elements of shape"):
        array.copyfrom(np.ones(3))
    assert from_dlpack(other) == other
    assert np.from_dlpack(NDArray(np.ones(2, np.float32))).tolist() == [1, 1]
