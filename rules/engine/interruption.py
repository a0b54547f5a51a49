"""Ctrl-C during saturation: the first stops it with the best so far, the second interrupts the program as usual."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether the user has asked to stop."""

    def __init__(self) -> None:
        self.requested = False

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the second time is meant otherwise


_open: list[Interruption] = []
"""That of the region being run, which all threads look at."""


def interrupted() -> bool:
    """Whether saturations are to stop where they are."""
    return bool(_open) and _open[-1].requested


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """While this is open, the first Ctrl-C is a request that saturations stop with the best so far: the one that runs, and those that
    would begin. Only the outermost counts, in the main thread, and where nobody else handles SIGINT; elsewhere nothing changes.

    >>> with interruptible() as interruption:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interruption.requested
    True
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if _open or not usual or threading.current_thread() is not threading.main_thread():
        yield _open[-1] if _open else Interruption()
        return
    interruption = Interruption()
    _open.append(interruption)
    signal.signal(signal.SIGINT, interruption._request)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _open.pop()
