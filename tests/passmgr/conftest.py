"""Shared by the tests of the manager: registries that are restored, and tiny programs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from passat.ir.expr import Function, var
from passat.ir.module import IRModule
from passat.passmgr import options as passmgr_options
from passat.passmgr import registry


@contextmanager
def _sandbox() -> Iterator[None]:
    passmgr_options.list_configs()  # modules that are imported inside would stay unregistered
    entries, options, sources = dict(registry._ENTRIES), dict(passmgr_options._OPTIONS), list(registry._SOURCES)
    try:
        yield
    finally:
        registry._ENTRIES.clear()
        registry._ENTRIES.update(entries)
        passmgr_options._OPTIONS.clear()
        passmgr_options._OPTIONS.update(options)
        registry._SOURCES[:] = sources
        registry._VERSION[0] += 1


@pytest.fixture(scope="session")
def sandbox() -> Callable[[], AbstractContextManager[None]]:
    """A context manager that restores the registered passes and options at its end."""
    return _sandbox


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Restores what the test registers."""
    with _sandbox():
        yield


@pytest.fixture
def mod() -> IRModule:
    """A module whose main adds its parameter to itself."""
    x = var("x", shape=(2,))
    return IRModule.from_expr(Function([x], x + x))
