"""Ctrl-C during saturation: the first stops it and keeps the best program so far, the second interrupts as usual."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether the user has requested a stop."""

    def __init__(self) -> None:
        self.requested = False

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the second one interrupts the program


_open: list[Interruption] = []
"""The active interruption, which all threads poll."""


def interrupted() -> bool:
    """True if saturations must stop."""
    return bool(_open) and _open[-1].requested


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """A context in which the first Ctrl-C stops the current and later saturations with the best program so far. Only the outermost context
    counts, in the main thread, if no other handler for SIGINT is installed; otherwise nothing changes.

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
