"""Pauses the cyclic garbage collector while a graph is built: all of its objects are live, so collections would find nothing."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disables cyclic garbage collection inside the `with` block and restores the previous setting afterward."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
