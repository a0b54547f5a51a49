"""Holding the cyclic garbage collector off while a graph is built: all of it lives, and going through it again finds nothing."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collections of cyclic garbage inside; what the collector was set to comes back afterward."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
