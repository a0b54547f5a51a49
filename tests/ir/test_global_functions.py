"""Functions by name."""

from collections.abc import Iterator
from typing import Any

import pytest

import passat
from passat.ir.global_functions import (
    GlobalFunctionError,
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)


@pytest.fixture(autouse=True)
def _without_the_function() -> Iterator[None]:
    yield
    remove_global_func("test.one")
    remove_global_func("one")


def test_functions_are_found_by_name() -> None:
    assert get_global_func("test.one", allow_missing=True) is None
    assert register_func("test.one", abs) is abs
    assert get_global_func("test.one") is abs
    assert "test.one" in list_global_func_names()
    remove_global_func("test.one")
    assert get_global_func("test.one", allow_missing=True) is None


def test_decorators_register_under_a_name_or_their_own() -> None:
    @passat.register_func
    def one() -> int:
        return 1

    @passat.register_func("test.one")
    def other() -> int:
        return 2

    assert passat.get_global_func("one")() == 1
    assert passat.get_global_func("test.one")() == 2


def test_mistakes_are_named() -> None:
    register_func("test.one", abs)
    with pytest.raises(GlobalFunctionError, match=r"the global function 'test\.one' already exists; pass override=True"):
        register_func("test.one", len)
    assert register_func("test.one", len, override=True) is len
    with pytest.raises(ValueError, match=r"Cannot find global function test\.two; there are: .*test\.one"):
        get_global_func("test.two")
    number: Any = 3
    with pytest.raises(TypeError, match=r"'test\.two' must be callable, not a int"):
        register_func("test.two", number)
