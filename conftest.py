"""Shared by all tests and doctests: the same surroundings, a command line that is built once, and the share of random examples in CI."""

import contextlib
import functools
import gc
import importlib
import os
import signal
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.share import share

settings.register_profile(
    "share",
    settings.get_profile("default"),  # Hypothesis loads another one if the variable CI is set
    max_examples=share(20, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("share")
"""For laws that do not state a number of examples. Neither an example nor a strategy fails because the machine is busy."""

TERMINAL: Final = (
    *("CLICOLOR_FORCE", "COLORTERM", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES", "NO_COLOR", "PASSAT_TRACEBACK", "PY_COLORS"),
    *("TERM", "TERMINAL_WIDTH", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "TYPER_USE_RICH"),
)
"""Environment variables with which commands print something else: widths, colors, tracebacks. Some CI services set them."""


def pytest_configure() -> None:
    """Before the tests are imported, and before a process starts that inherits the variables and whether SIGINT is ignored, as it is in
    the background of a script."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # sets COLUMNS and LINES of child processes, and doctest imports it
    for name in TERMINAL:
        os.environ.pop(name, None)
        os.unsetenv(name)  # also if os.environ does not know it
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # many tests import ONNX Runtime themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Modules, operators, rules and the tests themselves stay until the end: the garbage collector need not look at them again and again.
    Python's own thresholds make it take 7 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _measurements_are_new(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither read nor write the measurements of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PASSAT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _commands_are_made_once() -> Iterator[None]:
    """Typer's runner rebuilds all commands with each call, which takes longer than many of them."""
    from typer.main import get_command  # reads the variables when it is imported

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(get_command))
        yield
