"""What the tests of the manager share: registries that forget, and tiny programs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from passat.ir.expr import Function, var
from passat.ir.module import IRModule
from tests import registries


@pytest.fixture(scope="session")
def sandbox() -> Callable[[], AbstractContextManager[None]]:
    """A context manager after which passes and options that were registered inside are forgotten."""
    return registries.sandbox


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Forgets what the test registers."""
    with registries.sandbox():
        yield


@pytest.fixture
def mod() -> IRModule:
    """A module whose main adds its parameter to itself."""
    x = var("x", shape=(2,))
    return IRModule.from_expr(Function([x], x + x))
