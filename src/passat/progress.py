"""A line on the terminal that says what goes on, shown once something takes longer than a second."""

import threading
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.status import Status

DELAY: Final = 1.0
"""Seconds before the line appears."""


class ProgressLine:
    """Enter it with `with`, call it with what begins now. Shows nothing where the console is no terminal."""

    def __init__(self, console: Console, *, enabled: bool = True, delay: float = DELAY) -> None:
        self._status = Status("", console=console)
        self._enabled = enabled and console.is_terminal
        self._lock = threading.Lock()
        self._timer = threading.Timer(delay, self._show)
        self._timer.daemon = True
        self._closed = False

    def __call__(self, text: str) -> None:
        """Says what begins now."""
        if self._enabled:
            self._status.update(f"{text} ...")

    def _show(self) -> None:
        with self._lock:
            if not self._closed:
                self._status.start()

    def __enter__(self) -> "ProgressLine":
        if self._enabled:
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            self._status.stop()
