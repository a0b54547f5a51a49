"""Pauses the cyclic garbage collector while a graph is built: all of its objects are live, so collections would find nothing."""

import gc
from contextlib import AbstractContextManager


def collector_paused() -> AbstractContextManager[None]:
    """Disables cyclic garbage collection inside the `with` block and restores the previous setting afterward."""
    return _Pause()


class _Pause(AbstractContextManager[None]):
    """A class, because a generator takes four times as long, and even short walks pause the collector."""

    __slots__ = ("_enabled",)

    def __enter__(self) -> None:
        self._enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._enabled:
            gc.enable()
