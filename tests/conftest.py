"""Shared by all tests: a command line that is built once, and the share of random examples in CI."""

import functools
import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings
from typer.main import get_command

from tests.share import share

settings.register_profile("share", settings(), max_examples=share(40, 100), deadline=None)
settings.load_profile("share")
"""For laws that do not state a number of examples. No example fails because the machine is busy."""


def pytest_collection_finish() -> None:
    """Modules, operators, rules and the tests themselves stay until the end: the garbage collector need not look at them again and again.
    Python's own thresholds make it take 7 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _commands_are_made_once() -> Iterator[None]:
    """Typer's runner rebuilds all commands with each call, which takes longer than many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(get_command))
        yield
