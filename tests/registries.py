"""Registries that forget: what a test registers must not be there for the next one in the same process."""

from collections.abc import Iterator
from contextlib import contextmanager

from passat.passmgr import config, registry


@contextmanager
def sandbox() -> Iterator[None]:
    """After this, passes and options that were registered inside are forgotten."""
    registry.list_passes()  # what is imported inside would be forgotten for good
    entries, options, sources = dict(registry._ENTRIES), dict(config._OPTIONS), list(registry._SOURCES)
    try:
        yield
    finally:
        registry._ENTRIES.clear()
        registry._ENTRIES.update(entries)
        config._OPTIONS.clear()
        config._OPTIONS.update(options)
        registry._SOURCES[:] = sources
        registry._VERSION[0] += 1
