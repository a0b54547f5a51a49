"""Waiting for threads and processes."""

import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 60.0
"""Seconds after which something counts as not happening, even on a busy machine. Only a test that fails waits so long."""


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether a condition holds at some time from now on."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
